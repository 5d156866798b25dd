// What a model of texts takes and gives: its inputs by their meaning, the hidden state that texts' vectors are pooled
// of.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/model/model.h"
#include "runtime/text/tokenizer/vocabulary.h"

namespace graft {

/// Which tokens' vectors stand for a text.
enum class Pooling : std::uint8_t {
  mean,  ///< all of them, those that the model puts around a text included
  last,
  cls,  ///< the first
};
std::string_view pooling_name(Pooling pooling);
/// invalid_argument: neither mean, nor last, nor cls.
Result<Pooling> parse_pooling(std::string_view name);

/// What the model's file says of how its vectors are meant (kMetaPooling, kMetaNormalize); nullopt: nothing.
std::optional<Pooling> pooling_of(const Metadata& metadata);
bool normalizes(const Metadata& metadata);
void remember_pooling(Pooling pooling, bool normalize, Metadata& metadata);

struct TextInput {
  enum class Role : std::uint8_t { tokens, mask, segment, position };
  std::string name;
  Role role = Role::tokens;
};

struct TextInputs {
  std::vector<TextInput> inputs;  ///< the tokens first
  std::string batch, seq;         ///< symbols of their axes
  bool pads = false;              ///< padding behind a text changes nothing: causal attention, or a mask
};
/// The model takes tokens i32 [batch, seq] as its first input; others of that shape may be a mask (a name with "mask"),
/// segments ("type", "segment") and positions ("position"). unsupported: anything else.
Result<TextInputs> text_inputs_of(const Graph& graph);

/// What an encoder gives with its sentence-transformers' Dense layers, f32 [batch, seq, width]: linear ones may come
/// before the pooling as well, whose weights add up to 1.
inline constexpr std::string_view kSentenceOutput = "sentence_state";

/// The value named `of`, f32 [batch, seq, width]; where that is empty: an output kSentenceOutput or
/// "last_hidden_state", what the model's head reads, or the only output.
Result<ValueId> hidden_state_of(const Graph& graph, std::string_view of);

/// The product that gives a language model's logits, before their scale and cap; not valid where there is none.
NodeId head_of(const Graph& graph);

/// How many tokens the table has that the first input is looked up in; 0: unknown.
std::int64_t table_rows(const Graph& graph);

/// What an input holds for a text in a row of its own; tokens that do not fit are cut off.
void fill_text_row(TextInput::Role role, std::span<const text::TokenId> tokens, std::span<std::int32_t> row);
/// Weights of `count` tokens that add up to 1, and zeros behind them.
void fill_pooling_row(Pooling pooling, std::size_t count, std::span<float> row);

}  // namespace graft
