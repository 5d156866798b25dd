// Tokens that a model's vocabulary gets: what they are, where they go, and the numbers that their rows begin with.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/lora/token_rows.h"
#include "runtime/model/model.h"

namespace graft {

/// Metadata of an adapter that adds tokens, as JSON: {"first": 32000, "tokens": [...]} (parse_new_tokens()).
inline constexpr std::string_view kMetaAdapterTokens = "adapter.tokens";

struct NewToken {
  std::string text;
  bool special = false;  ///< found in text only where special tokens are asked for, as in templates; otherwise in any
};

/// A JSON array of texts, or of objects as in Hugging Face's added_tokens: {"content": "<|tool|>", "special": true}.
/// invalid_argument: something else.
Result<std::vector<NewToken>> parse_new_tokens(std::string_view json);

struct NewTokens {
  std::int64_t first = 0;  ///< the first one's id
  std::vector<NewToken> tokens;
  std::int64_t count() const { return static_cast<std::int64_t>(tokens.size()); }
};

/// What an adapter, or a model with one on, says of its new tokens; nullopt: it adds none.
Result<std::optional<NewTokens>> new_tokens_of(const Metadata& metadata);
void remember_new_tokens(const NewTokens& tokens, Metadata& metadata);

/// Their places behind the tokens of the model's tokenizer, where names for unused rows ("[PAD151665]" of GGUF files)
/// are no tokens. invalid_argument: one that is empty, no UTF-8, there already or given twice; no tokens, or more than
/// 65536; not_found: the model has no tokenizer.
Result<NewTokens> place_new_tokens(const Model& model, std::span<const NewToken> tokens);

/// The model's tokenizer with these tokens in their places. invalid_argument: other places than place_new_tokens()
/// gives, which is to say another base.
Result<TokenizerData> tokenizer_with(const Model& model, const NewTokens& tokens);

/// Gives the new rows of a model that add_token_rows() made, and those behind them, their numbers: the mean of the rows
/// of all tokens so far, and the table's own. `with_new`: the new rows as well. Zeros where `base` has only shapes.
Status fill_token_rows(const Model& base, const std::vector<TokenTable>& tables, const NewTokens& tokens, bool with_new,
                       Model& model);

/// The bytes of a table, in its own type, whose rows from `first` on are these; as many rows as it needs.
Result<HostBuffer> table_with_rows(const Model& base, const TokenTable& table, std::int64_t first,
                                   std::span<const float> rows);

}  // namespace graft
