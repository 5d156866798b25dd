// Weight deltas: what training changed. Included by itself.
#pragma once

#include "graft/delta_calls.hpp"

namespace graft {
inline namespace v0 {

/// What training changed; see graft/delta.h.
class Delta : public detail::DeltaCalls {
 public:
  using DeltaCalls::DeltaCalls;
  /// Of deltas of one base.
  static Result<Delta> average(const ContextHandle& context, const std::vector<Delta*>& deltas,
                               const AverageOptions& options = {}) {
    const detail::RawAverageOptions raw(options);
    std::vector<graft_delta*> handles;
    for (const Delta* delta : deltas) handles.push_back(delta->get());
    graft_delta* made = nullptr;
    const graft_status code = graft_delta_average(context.get(), handles.data(), handles.size(), raw.get(), &made);
    return detail::made(code, context.get(), Delta(made, context.get()));
  }
  /// Decoded numbers of a tensor.
  Result<std::vector<float>> numbers(const std::string& name) {
    for (const TensorInfo& tensor : tensors()) {
      if (tensor.name != name) continue;
      std::vector<float> out(detail::elements(tensor));
      const Status done = status(graft_delta_numbers(get(), name.c_str(), out.data(), out.size()));
      if (!done.ok()) return done;
      return out;
    }
    return Status(GRAFT_NOT_FOUND, "The delta has no tensor \"" + name + "\".");
  }
};

}  // namespace v0
}  // namespace graft
