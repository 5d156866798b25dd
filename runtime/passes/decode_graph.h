// A language model's graph made to go on where it stopped: keys and values of earlier tokens stay in caches.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/core/graph.h"

namespace graft::passes {

/// What a graph must look like to generate text: one input of token ids i32 [batch, seq], and logits f32
/// [batch, seq, vocabulary] as the output of that name or the only one.
struct DecoderPorts {
  ValueId tokens;
  ValueId logits;
  std::string batch;  ///< the symbols of the input's axes
  std::string seq;
  std::int64_t vocabulary = 0;
};
/// unsupported: the graph is no such model, with what is missing.
Result<DecoderPorts> decoder_ports(const Graph& graph);

/// Texts that one run takes on, and caches among which they choose.
struct DecodeSlots {
  std::uint32_t items = 1;
  std::uint32_t slots = 0;  ///< 0: one text, at the step state's position
};
/// The input of graphs with slots: i32 [items, 4], as cache_append() has them.
inline constexpr std::string_view kPlacesInput = "cache/places";

/// The model for one sequence and `tokens` tokens at a time, the first of which stands at the step state's position.
/// With slots it is for as many sequences as items, with so many tokens each: input kPlacesInput says in which of the
/// caches, and at which position, each goes on.
/// Each causal attention appends its keys and values to caches (state "cache/NODE/keys" and ".../values" for `capacity`
/// tokens) and reads those. The caches are kept as `cache`: f32, f16, bf16, or blocks of q8_0; each number is rounded
/// once, as it is appended. `logits` false: no outputs, so that only what fills the caches is left of the model.
/// With `longest`, which is the most tokens that any run takes, caches of layers with a window hold no more than it
/// sees, where that is less than the capacity (cache_base.h); the step state's `step` is then the furthest position of
/// the runs so far. 0: all hold everything.
/// Exact for models in which tokens meet in attention alone, as in all that graft converts.
/// unsupported: no attention, one that is not causal, positions that are given, heads that q8_0 cannot keep.
Result<Graph> decode_graph(const Graph& graph, std::uint32_t tokens, std::uint32_t capacity, bool logits,
                           DType cache = DType::f32, std::uint32_t longest = 0, const DecodeSlots& slots = {});

/// The windows of the caches that forget, each once.
std::vector<std::uint32_t> forgetting_windows(const Graph& decoding);

}  // namespace graft::passes
