// What graft.hpp says of running models. Included by graft.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graft/base.hpp"
#include "graft/source.hpp"

namespace graft {
inline namespace v0 {

/// As graft_input_format.
struct InputFormat {
  std::string name = {};
  graft_element element = GRAFT_ELEMENT_U8;
  bool channels_last = false;      ///< [N, H, W, C] where the model takes [N, C, H, W]
  std::vector<float> scale = {};   ///< empty: 1; one number, or one for each channel
  std::vector<float> offset = {};  ///< the same; empty: 0
};

/// As graft_session_options.
struct SessionOptions {
  std::vector<Binding> bindings = {};  ///< every named dimension of the inputs
  std::uint64_t budget = 0;            ///< bytes of device memory; 0: no limit
  std::string of = {};                 ///< differentiate this value; empty: forward only
  std::vector<std::string> wrt = {};   ///< with respect to these
  graft_precision precision = GRAFT_PRECISION_F32;
  bool allow_non_finite = false;        ///< f32 inputs may hold NaN and infinity, which are an error otherwise
  std::vector<std::string> fetch = {};  ///< values on the way that are outputs, too
  bool resizable = false;               ///< resize() will be called; `bindings` are then the largest sizes
  bool train_mode = false;  ///< with `of`: batch norm by the batch's statistics, dropout at work; no model's outputs
  std::vector<InputFormat> inputs = {};  ///< of inputs that are given as bytes or halves
  std::string signature = {};            ///< one of the model's: its outputs and no others
  bool recover_device = false;           ///< goes on where the device was lost
};

namespace detail {

/// `formats` must outlive the result.
inline std::vector<graft_input_format> raw_formats(const std::vector<InputFormat>& formats) {
  std::vector<graft_input_format> raw;
  raw.reserve(formats.size());
  for (const InputFormat& format : formats) {
    raw.push_back({format.name.c_str(), format.element, format.channels_last ? 1 : 0, format.scale.data(),
                   format.scale.size(), format.offset.data(), format.offset.size()});
  }
  return raw;
}

}  // namespace detail

/// A model planned and recorded for one set of sizes.
class Session {
 public:
  /// As Generator::swap_adapters().
  Status swap_adapters(const std::string& path) {
    return status(graft_session_swap_adapters(handle_.get(), detail::or_null(path)));
  }
  /// The same, for those of a source.
  Status swap_adapters(const Source& source) {
    const graft_source raw = source.raw();
    return status(graft_session_swap_adapters_source(handle_.get(), &raw));
  }
  /// Other sizes, within those that it was made with: see graft_session_resize. All inputs are to be set again.
  Status resize(const std::vector<Binding>& sizes) {
    const auto raw = detail::raw_bindings(sizes);
    return status(graft_session_resize(handle_.get(), raw.data(), raw.size()));
  }
  /// Copies; the bytes stay from run to run.
  template <typename T>
  Status set_input(const std::string& name, std::span<const T> data) {
    return status(graft_session_set_input(handle_.get(), name.c_str(), data.data(), data.size_bytes()));
  }
  /// Runs the model; every input must have been set.
  Status run() { return status(graft_session_run(handle_.get())); }
  /// Gives all device memory back until the next call that needs it, or resume(); see graft_session_pause.
  Status pause() { return status(graft_session_pause(handle_.get())); }
  Status resume() { return status(graft_session_resume(handle_.get())); }  ///< see graft_session_resume

  /// Valid until the next run. T must be the output's element type (float or int32_t).
  template <typename T>
  Result<std::span<const T>> output(const std::string& name) {
    const void* data = nullptr;
    std::size_t bytes = 0;
    Status got = status(graft_session_output(handle_.get(), name.c_str(), &data, &bytes, nullptr));
    if (!got.ok()) return got;
    return std::span<const T>(static_cast<const T*>(data), bytes / sizeof(T));
  }
  /// The gradient with respect to one of SessionOptions::wrt.
  Result<std::span<const float>> gradient(const std::string& name) { return output<float>("grad:" + name); }

  graft_session* get() const { return handle_.get(); }  ///< for what only the C ABI has
  graft_context* context() const { return context_; }   ///< for what only the C ABI has
  /// Bytes that it holds on device and host, by class.
  Result<Memory> memory() const {
    Memory memory = detail::sized<Memory>();
    Status got = status(graft_session_memory(handle_.get(), &memory));
    if (!got.ok()) return got;
    return memory;
  }

 private:
  friend class Model;
  Session(graft_session* handle, graft_context* context) : handle_(handle), context_(context) {}
  Status status(graft_status code) const { return detail::to_status(code, context_); }
  detail::Handle<graft_session, graft_session_destroy> handle_;
  graft_context* context_;
};

}  // namespace v0
}  // namespace graft
