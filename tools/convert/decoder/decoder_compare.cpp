#include "tools/convert/decoder/decoder_compare.h"

#include <algorithm>
#include <cmath>

#include "platform/base/status.h"

namespace graft::convert {
namespace {

/// Files round numbers to f32, or compute them from other ones in f32.
bool close(double a, double b) { return std::abs(a - b) <= 1e-6 * std::max(std::abs(a), std::abs(b)); }

bool same_rope(const RopeSpec& a, const RopeSpec& b, std::int64_t head_dim) {
  const auto x = rope_frequencies(a, head_dim);
  const auto y = rope_frequencies(b, head_dim);
  return close(a.magnitude, b.magnitude) && std::equal(x.begin(), x.end(), y.begin(), y.end(), close);
}

double attention_scale(const DecoderSpec& spec) {
  return spec.attention_scale != 0 ? spec.attention_scale : 1 / std::sqrt(static_cast<double>(spec.head_dim));
}

void compare_layers(const DecoderSpec& a, const DecoderSpec& b, std::vector<std::string>& out) {
  std::string window;
  for (std::size_t i = 0; i < a.layers.size(); ++i) {
    const LayerSpec& x = a.layers[i];
    const LayerSpec& y = b.layers[i];
    if (x.window != y.window && window.empty()) window = cat(kWindowDifference, i, " (", x.window, " keys)");
    if (x.raw != y.raw) out.push_back(cat("the norm before the attention of layer ", i));
    if (x.rotates != y.rotates) out.push_back(cat("that layer ", i, " has ", x.rotates ? "" : "no ", "positions"));
    const RopeSpec& rope = x.local_rope ? a.local_rope : a.rope;
    const RopeSpec& other = y.local_rope ? b.local_rope : b.rope;
    const bool turns = x.rotates && !a.learned_positions;
    if (turns && !same_rope(rope, other, a.head_dim)) out.push_back(cat("the rotary embedding of layer ", i));
  }
  if (!window.empty()) out.push_back(window);
}

}  // namespace

bool windows_matter(const DecoderSpec& a, const DecoderSpec& b) {
  const std::int64_t all = a.context > 0 ? a.context : INT64_MAX;
  const auto seen = [&](const LayerSpec& layer) { return layer.window > 0 ? std::min(layer.window, all) : all; };
  return !std::ranges::equal(a.layers, b.layers, {}, seen, seen);
}

std::vector<double> rope_frequencies(const RopeSpec& rope, std::int64_t head_dim) {
  if (!rope.frequencies.empty()) return {rope.frequencies.begin(), rope.frequencies.end()};
  const std::int64_t turned = rope.rotated != 0 ? rope.rotated : head_dim;
  std::vector<double> out(static_cast<std::size_t>(turned / 2));
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = std::pow(rope.theta, -2.0 * static_cast<double>(i) / static_cast<double>(turned));
  }
  return out;
}

std::vector<std::string> decoder_differences(const DecoderSpec& a, const DecoderSpec& b) {
  struct Part {
    const char* name;
    double a, b;
  };
  const auto number = [](auto x) { return static_cast<double>(x); };
  const Part parts[] = {
      {"the hidden size", number(a.hidden), number(b.hidden)},
      {"the number of heads", number(a.heads), number(b.heads)},
      {"the number of key heads", number(a.kv_heads), number(b.kv_heads)},
      {"the size of a head", number(a.head_dim), number(b.head_dim)},
      {"the feed-forward size", number(a.ffn), number(b.ffn)},
      {"the vocabulary", number(a.vocabulary), number(b.vocabulary)},
      {"the number of layers", number(a.layers.size()), number(b.layers.size())},
      {"the kind of norm", number(a.layer_norm), number(b.layer_norm)},
      {"the epsilon of norms", a.epsilon, b.epsilon},
      {"weights of norms", number(a.norm_weight), number(b.norm_weight)},
      {"biases of norms", number(a.layer_norm && a.norm_bias), number(b.layer_norm && b.norm_bias)},
      {"norms before attention and feed-forward", number(a.before_norms), number(b.before_norms)},
      {"norms after attention and feed-forward", number(a.after_norms), number(b.after_norms)},
      {"norms after residuals", number(a.residual_norms), number(b.residual_norms)},
      {"norms of queries and keys", number(a.query_key_norm), number(b.query_key_norm)},
      {"norms of all heads' queries and keys", number(a.whole_query_key_norm), number(b.whole_query_key_norm)},
      {"attention beside feed-forward", number(a.parallel), number(b.parallel)},
      {"two norms next to each other", number(a.parallel_norms), number(b.parallel_norms)},
      {"queries, keys and values in one matrix", number(a.fused_qkv), number(b.fused_qkv)},
      {"biases of queries, keys and values", number(a.qkv_bias), number(b.qkv_bias)},
      {"the bias of the attention's output", number(a.attention_output_bias), number(b.attention_output_bias)},
      {"the gate of the feed-forward part", number(a.gated), number(b.gated)},
      {"gate and up in one matrix", number(a.fused_gate_up), number(b.fused_gate_up)},
      {"biases of the feed-forward part", number(a.ffn_bias), number(b.ffn_bias)},
      {"the activation", number(a.activation), number(b.activation)},
      {"learned positions", number(a.learned_positions), number(b.learned_positions)},
      {"the head's own matrix", number(a.tied), number(b.tied)},
      {"a bias of the head", number(a.head_bias), number(b.head_bias)},
      {"the scale of the embedding", a.embedding_scale, b.embedding_scale},
      {"the scale of what layers add", a.residual_scale, b.residual_scale},
      {"the scale of attention", attention_scale(a), attention_scale(b)},
      {"the soft cap of attention", a.attention_softcap, b.attention_softcap},
      {"the scale of logits", a.logit_divisor, b.logit_divisor},
      {"the soft cap of logits", a.logit_softcap, b.logit_softcap}};
  std::vector<std::string> out;
  for (const Part& part : parts) {
    if (!close(part.a, part.b)) out.emplace_back(part.name);
  }
  if (a.layers.size() == b.layers.size()) compare_layers(a, b, out);
  return out;
}

}  // namespace graft::convert
