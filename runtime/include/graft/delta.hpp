// Weight deltas in C++; see graft/delta.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graft/delta.h"
#include "graft/graft.hpp"
#include "graft/options.hpp"

namespace graft {
inline namespace v0 {

/// What coding lost of one client's deltas, in memory from round to round.
class Residual {
 public:
  /// Of a client that has sent nothing yet.
  static Result<Residual> create(const Context& context) {
    graft_residual* made = nullptr;
    const graft_status code = graft_residual_create(context.get(), &made);
    return detail::made(code, context.get(), Residual(made));
  }
  graft_residual* get() const { return handle_.get(); }  ///< for what only the C ABI has

 private:
  explicit Residual(graft_residual* handle) : handle_(handle) {}
  detail::Handle<graft_residual, graft_residual_destroy> handle_;
};

/// As graft_delta_options.
struct DeltaOptions {
  std::uint64_t samples = 1;
  std::uint64_t local_steps = 0;
  graft_delta_coding coding = GRAFT_DELTA_F32;
  std::uint32_t fixed_bits = 8;
  std::uint32_t room = 1024;
  double clip_norm = 0;
  double noise = 0;
  std::string residual = {};               ///< a file; empty: none
  Residual* kept = nullptr;                ///< in place of the file
  std::optional<std::uint64_t> seed = {};  ///< of the noise, for tests
};

/// As graft_average_options.
struct AverageOptions {
  bool equal = false;
  bool products = false;
  std::uint32_t rank = 0;
  double noise = 0;
  double clip_norm = 0;
  std::optional<std::uint64_t> seed = {};  ///< of the noise, for tests
  double expected_clients = 0;             ///< with noise, what the sum is divided by; 0: the deltas' number
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
    raw.kept = options.kept != nullptr ? options.kept->get() : nullptr;
    raw.seed = options.seed ? &*options.seed : nullptr;
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
    const graft_average_options raw = raw_options(options);
    std::vector<graft_delta*> handles;
    for (const Delta* delta : deltas) handles.push_back(delta->handle_.get());
    return made(context.get(), [&](graft_delta** delta) {
      return graft_delta_average(context.get(), handles.data(), handles.size(), &raw, delta);
    });
  }
  graft_delta* get() const { return handle_.get(); }   ///< for what only the C ABI has
  graft_context* context() const { return context_; }  ///< the same
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
  friend class Averager;
  friend class Server;
  static graft_average_options raw_options(const AverageOptions& options) {
    auto raw = detail::sized<graft_average_options>();
    raw.equal = options.equal ? 1 : 0;
    raw.products = options.products ? 1 : 0;
    raw.rank = options.rank;
    raw.noise = options.noise;
    raw.clip_norm = options.clip_norm;
    raw.seed = options.seed ? &*options.seed : nullptr;
    raw.expected_clients = options.expected_clients;
    return raw;
  }
  template <typename Make>
  static Result<Delta> made(graft_context* context, Make make) {
    graft_delta* delta = nullptr;
    const graft_status code = make(&delta);
    return detail::made(code, context, Delta(delta, context));
  }
  Delta(graft_delta* handle, graft_context* context) : handle_(handle), context_(context) {}
  Status status(graft_status code) const { return detail::to_status(code, context_); }
  detail::Handle<graft_delta, graft_delta_destroy> handle_;
  graft_context* context_;
};

/// Averages a delta at a time, of which none needs to stay.
class Averager {
 public:
  /// Not of products.
  static Result<Averager> create(const Context& context, const AverageOptions& options = {}) {
    const graft_average_options raw = Delta::raw_options(options);
    graft_averager* made = nullptr;
    const graft_status code = graft_averager_create(context.get(), &raw, &made);
    return detail::made(code, context.get(), Averager(made, context.get()));
  }
  /// One more client's.
  Status add(const Delta& delta) { return detail::to_status(graft_averager_add(handle_.get(), delta.get()), context_); }
  /// The average; the averager is then done.
  Result<Delta> finish() {
    return Delta::made(context_, [&](graft_delta** delta) { return graft_averager_finish(handle_.get(), delta); });
  }

 private:
  Averager(graft_averager* handle, graft_context* context) : handle_(handle), context_(context) {}
  detail::Handle<graft_averager, graft_averager_destroy> handle_;
  graft_context* context_;
};

/// What a server does with an average: a step of an optimizer whose moments it keeps.
class Server {
 public:
  using Options = ServerOptions;
  /// invalid_argument: numbers out of range.
  static Result<Server> create(const Context& context, const Options& options) {
    const detail::RawServerOptions raw(options);
    graft_server* made = nullptr;
    const graft_status code = graft_server_create(context.get(), raw.get(), &made);
    return detail::made(code, context.get(), Server(made, context.get()));
  }
  /// Whether it has moments, which the next round needs.
  bool keeps() const { return graft_server_keeps(handle_.get()) != 0; }
  /// Moments of a file that save() wrote after the round before.
  Status load(const std::string& path) { return status(graft_server_load(handle_.get(), path.c_str())); }
  /// Writes them, atomically.
  Status save(const std::string& path) { return status(graft_server_save(handle_.get(), path.c_str())); }
  /// What the average becomes, for Delta::apply_to() at the rate 1.
  Result<Delta> step(Model& base, const Delta& average) {
    return Delta::made(context_, [&](graft_delta** delta) {
      return graft_server_step(handle_.get(), base.get(), average.get(), delta);
    });
  }

 private:
  Server(graft_server* handle, graft_context* context) : handle_(handle), context_(context) {}
  Status status(graft_status code) const { return detail::to_status(code, context_); }
  detail::Handle<graft_server, graft_server_destroy> handle_;
  graft_context* context_;
};

}  // namespace v0
}  // namespace graft
