// Weight deltas in C++; see graft/delta.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graft/delta.h"
#include "graft/graft.hpp"

namespace graft {
inline namespace v0 {

/// As graft_delta_options.
struct DeltaOptions {
  std::uint64_t samples = 1;
  std::uint64_t local_steps = 0;
  graft_delta_coding coding = GRAFT_DELTA_F32;
  std::uint32_t fixed_bits = 8;
  std::uint32_t room = 1024;
  double clip_norm = 0;
  double noise = 0;
  std::string residual = {};  ///< a file; empty: none
};

/// As graft_average_options.
struct AverageOptions {
  bool equal = false;
  bool products = false;
  std::uint32_t rank = 0;
  double noise = 0;
  double clip_norm = 0;
};

/// What training changed; see graft/delta.h.
class Delta {
 public:
  /// `updated` less `base`, or the adapters of `updated`.
  static Result<Delta> make(const Model& base, const Model& updated, const DeltaOptions& options = {}) {
    auto raw = detail::sized<graft_delta_options>();
    raw.samples = options.samples;
    raw.local_steps = options.local_steps;
    raw.coding = options.coding;
    raw.fixed_bits = options.fixed_bits;
    raw.room = options.room;
    raw.clip_norm = options.clip_norm;
    raw.noise = options.noise;
    raw.residual = detail::or_null(options.residual);
    return made(updated.context(),
                [&](graft_delta** delta) { return graft_delta_make(base.get(), updated.get(), &raw, delta); });
  }
  /// From a file.
  static Result<Delta> load(const Context& context, const std::string& path) {
    return made(context.get(),
                [&](graft_delta** delta) { return graft_delta_load(context.get(), path.c_str(), delta); });
  }
  /// From anywhere.
  static Result<Delta> load(const Context& context, const Source& source) {
    const graft_source raw = source.raw();
    return made(context.get(),
                [&](graft_delta** delta) { return graft_delta_load_source(context.get(), &raw, delta); });
  }
  /// Of deltas of one base.
  static Result<Delta> average(const Context& context, const std::vector<Delta*>& deltas,
                               const AverageOptions& options = {}) {
    auto raw = detail::sized<graft_average_options>();
    raw.equal = options.equal ? 1 : 0;
    raw.products = options.products ? 1 : 0;
    raw.rank = options.rank;
    raw.noise = options.noise;
    raw.clip_norm = options.clip_norm;
    std::vector<graft_delta*> handles;
    for (const Delta* delta : deltas) handles.push_back(delta->handle_.get());
    return made(context.get(), [&](graft_delta** delta) {
      return graft_delta_average(context.get(), handles.data(), handles.size(), &raw, delta);
    });
  }
  /// Adds it, times rate, to the model, which must have no sessions, generators or trainers.
  Status apply_to(Model& model, double rate = 1) {
    return detail::to_status(graft_delta_apply(model.get(), handle_.get(), rate), model.context());
  }
  /// What it says of itself; texts live as long as the delta.
  Result<graft_delta_info> describe() {
    auto raw = detail::sized<graft_delta_info>();
    Status done = status(graft_delta_describe(handle_.get(), &raw));
    if (!done.ok()) return done;
    return raw;
  }
  /// Decoded numbers of a tensor.
  Result<std::vector<float>> numbers(const std::string& name) {
    Result<graft_delta_info> info = describe();
    if (!info.ok()) return info.status();
    for (std::size_t i = 0; i < info->tensors; ++i) {
      graft_tensor_info tensor;
      Status found = status(graft_delta_tensor(handle_.get(), i, &tensor));
      if (!found.ok()) return found;
      if (tensor.name != name) continue;
      std::size_t count = 1;
      for (std::uint32_t d = 0; d < tensor.rank; ++d) count *= static_cast<std::size_t>(tensor.dims[d]);
      std::vector<float> out(count);
      Status done = status(graft_delta_numbers(handle_.get(), name.c_str(), out.data(), count));
      if (!done.ok()) return done;
      return out;
    }
    return Status(GRAFT_NOT_FOUND, "The delta has no tensor \"" + name + "\".");
  }
  /// The integers of GRAFT_DELTA_FIXED, in place, for masks.
  Result<std::span<std::uint32_t>> integers(const std::string& name) {
    std::uint32_t* data = nullptr;
    std::size_t count = 0;
    Status done = status(graft_delta_integers(handle_.get(), name.c_str(), &data, &count));
    if (!done.ok()) return done;
    return std::span<std::uint32_t>(data, count);
  }
  /// Writes a file, atomically.
  Status save(const std::string& path) { return status(graft_delta_save(handle_.get(), path.c_str())); }
  /// The file's bytes, valid until the next call.
  Result<std::span<const std::byte>> bytes() {
    const void* data = nullptr;
    std::size_t count = 0;
    Status done = status(graft_delta_bytes(handle_.get(), &data, &count));
    if (!done.ok()) return done;
    return std::span<const std::byte>(static_cast<const std::byte*>(data), count);
  }

 private:
  template <typename Make>
  static Result<Delta> made(graft_context* context, Make make) {
    graft_delta* delta = nullptr;
    Status status = detail::to_status(make(&delta), context);
    if (!status.ok()) return status;
    return Delta(delta, context);
  }
  Delta(graft_delta* handle, graft_context* context) : handle_(handle), context_(context) {}
  Status status(graft_status code) const { return detail::to_status(code, context_); }
  detail::Handle<graft_delta, graft_delta_destroy> handle_;
  graft_context* context_;
};

}  // namespace v0
}  // namespace graft
