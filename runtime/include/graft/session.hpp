// Running models. Included by graft.hpp.
#pragma once

#include "graft/session_calls.hpp"

namespace graft {
inline namespace v0 {

/// A model planned and recorded for one set of sizes: Model::session() makes it.
class Session : public detail::SessionCalls {
 public:
  using SessionCalls::output;
  using SessionCalls::SessionCalls;
  using SessionCalls::set_input;
  /// Copies; the numbers stay from run to run.
  template <typename T>
  Status set_input(const std::string& name, std::span<const T> data) {
    return SessionCalls::set_input(name, std::as_bytes(data));
  }
  /// Valid until the next run. T must be the output's element type (float or int32_t).
  template <typename T>
  Result<std::span<const T>> output(const std::string& name) {
    const auto got = SessionCalls::output(name);
    if (!got.ok()) return got.status();
    return got->template as<T>();
  }
  /// The gradient with respect to one of SessionOptions::wrt.
  Result<std::span<const float>> gradient(const std::string& name) { return output<float>("grad:" + name); }
};

}  // namespace v0
}  // namespace graft
