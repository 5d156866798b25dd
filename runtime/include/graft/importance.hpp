// What graft.hpp says of the importance of a language model's columns. Included by graft.hpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graft/base.hpp"
#include "graft/importance.h"

namespace graft {
inline namespace v0 {

/// As graft_importance_options.
struct ImportanceOptions {
  std::uint32_t context = 0;    ///< tokens of a chunk; 0: the model's own context, at most 512
  std::uint64_t chunks = 0;     ///< most chunks of all texts together; 0: no limit
  bool head = false;            ///< of the head's matrix too
  bool parse_special = false;   ///< special tokens that are spelled out in texts become these
  std::uint64_t budget = 0;     ///< bytes of device memory; 0: no limit
  bool recover_device = false;  ///< goes on where the device was lost
};

/// Of one matrix.
struct ImportanceMatrix {
  std::string name;          ///< of the weight, as graft has it
  std::vector<double> sums;  ///< for each column, what it was multiplied with, squared
  std::uint64_t tokens = 0;  ///< over which they were added up
};

/// Adds up, over texts, the squares of what each column of each matrix is multiplied with; see graft/importance.h.
class Importance {
 public:
  /// Cuts a text into chunks, which wait; gives how many wait now.
  Result<std::uint64_t> add(std::string_view text) {
    return waiting(
        [&](std::uint64_t* out) { return graft_importance_add(handle_.get(), text.data(), text.size(), out); });
  }
  /// The same of tokens, as Tokenizer gives them.
  Result<std::uint64_t> add(std::span<const std::int32_t> tokens) {
    return waiting([&](std::uint64_t* out) {
      return graft_importance_add_tokens(handle_.get(), tokens.data(), tokens.size(), out);
    });
  }
  /// Computes one chunk; gives how many still wait.
  Result<std::uint64_t> step() {
    return waiting([&](std::uint64_t* out) { return graft_importance_step(handle_.get(), out); });
  }
  /// How far it is.
  Result<graft_importance_info> info() const {
    auto info = detail::sized<graft_importance_info>();
    Status got = detail::to_status(graft_importance_describe(handle_.get(), &info), context_);
    if (!got.ok()) return got;
    return info;
  }
  /// The sums so far, in the model's order.
  std::vector<ImportanceMatrix> matrices() const {
    std::vector<ImportanceMatrix> out;
    graft_importance_matrix one = {};
    while (out.size() < graft_importance_count(handle_.get()) &&
           graft_importance_at(handle_.get(), out.size(), &one) == GRAFT_OK) {
      out.push_back({one.name, {one.sums, one.sums + one.columns}, one.tokens});
    }
    return out;
  }
  /// Bytes that it holds on device and host, by class.
  Result<Memory> memory() const {
    auto memory = detail::sized<Memory>();
    Status got = detail::to_status(graft_importance_memory(handle_.get(), &memory), context_);
    if (!got.ok()) return got;
    return memory;
  }
  graft_importance* get() const { return handle_.get(); }  ///< for what only the C ABI has

 private:
  friend class Model;
  Importance(graft_importance* handle, graft_context* context) : handle_(handle), context_(context) {}
  template <typename Call>
  Result<std::uint64_t> waiting(Call call) {
    std::uint64_t left = 0;
    Status done = detail::to_status(call(&left), context_);
    if (!done.ok()) return done;
    return left;
  }
  detail::Handle<graft_importance, graft_importance_destroy> handle_;
  graft_context* context_;
};

}  // namespace v0
}  // namespace graft
