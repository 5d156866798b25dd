// What graft.hpp says of gradients in pieces. Include graft/graft.hpp.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "graft/base.hpp"
#include "graft/memory.h"

namespace graft {
inline namespace v0 {

/// As graft_gradient_options.
struct GradientOptions {
  std::string of = {};                 ///< an output or any value
  std::vector<std::string> wrt = {};   ///< inputs, parameters or any values
  std::vector<Binding> bindings = {};  ///< every named dimension; that of the batch is the number of samples in all
  std::uint64_t budget = 0;            ///< bytes of device memory; 0: no limit
  std::uint32_t micro_batch = 0;       ///< samples on the device at once; 0: as many as fit
  bool per_sample = false;             ///< gradients of parameters for each sample, not summed
  bool train_mode = false;             ///< as a training step computes it
};

/// Gradients of any number of samples; made by Model::gradients().
class Gradients {
 public:
  /// With respect to one of GradientOptions::wrt; valid as long as this object.
  Result<std::span<const float>> get(const std::string& wrt) const {
    const void* data = nullptr;
    std::size_t bytes = 0;
    Status got = detail::to_status(graft_gradients_get(handle_.get(), wrt.c_str(), &data, &bytes, nullptr), context_);
    if (!got.ok()) return got;
    return std::span<const float>(static_cast<const float*>(data), bytes / sizeof(float));
  }
  graft_gradients* get() const { return handle_.get(); }  ///< for what only the C ABI has

 private:
  friend class Model;
  Gradients(graft_gradients* handle, graft_context* context) : handle_(handle), context_(context) {}
  static graft_status compute(graft_model* model, const GradientOptions& options,
                              const std::map<std::string, std::span<const std::byte>>& inputs,
                              graft_gradients** gradients) {
    const auto bindings = detail::raw_bindings(options.bindings);
    const auto wrt = detail::raw_names(options.wrt);
    std::vector<graft_data> data;
    data.reserve(inputs.size());
    for (const auto& [name, bytes] : inputs) data.push_back({name.c_str(), bytes.data(), bytes.size()});
    auto raw = detail::sized<graft_gradient_options>();
    raw.of = detail::or_null(options.of);
    raw.wrt = wrt.data();
    raw.wrt_count = wrt.size();
    raw.bindings = bindings.data();
    raw.binding_count = bindings.size();
    raw.budget = options.budget;
    raw.micro_batch = options.micro_batch;
    raw.per_sample = options.per_sample ? 1 : 0;
    raw.train_mode = options.train_mode ? 1 : 0;
    return graft_gradients_compute(model, &raw, data.data(), data.size(), gradients);
  }
  detail::Handle<graft_gradients, graft_gradients_destroy> handle_;
  graft_context* context_;
};

}  // namespace v0
}  // namespace graft
