// Records of data sets as tokens of a language model.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "platform/base/json.h"
#include "runtime/language/text_data.h"
#include "runtime/model/model.h"
#include "runtime/text/chat/chat.h"
#include "runtime/text/tokenizer/tokenizer.h"

namespace graft {

struct EncoderOptions {
  std::string chat;        ///< a chat format by name; empty: the model's own, else alpaca
  bool learn_all = false;  ///< prompts too
};

using TextPair = std::array<TokenText, 2>;
/// A query, the text that it belongs to, and texts that it does not.
using TextGroup = std::vector<std::vector<text::TokenId>>;

/// Immutable once made.
class TextEncoder {
 public:
  TextEncoder(const Metadata& metadata, text::Tokenizer tokenizer, EncoderOptions options)
      : metadata_(metadata), tokenizer_(std::move(tokenizer)), options_(std::move(options)) {}

  /// One line of a JSON file. invalid_argument: it is in no form that is known (text_spec.h).
  Result<TokenText> record(std::string_view json) const;
  /// {"prompt", "chosen", "rejected"}: texts, or lists of messages, which may both begin with the prompt instead.
  Result<TextPair> pair(std::string_view json) const;
  /// {"prompt", "completion", "label"}, and the completion of `other` as an answer to the same prompt.
  Result<TextPair> labelled(std::string_view json, std::string_view other) const;
  /// {"query" or "anchor", "positive", "negative" or "negatives"}, all texts, the last a list of them.
  Result<TextGroup> group(std::string_view json) const;
  /// Whether such a record's completion is wanted.
  static Result<bool> label_of(std::string_view json);
  /// All of it is learned.
  Result<TokenText> plain(std::string_view text) const;

  const text::Tokenizer& tokenizer() const { return tokenizer_; }
  /// What fills the rest of a sample.
  text::TokenId padding() const;

 private:
  Result<TokenText> text_record(const json::Value& record) const;
  Result<TokenText> completion(const json::Value& record) const;
  Result<TokenText> chat(const json::Value& record, std::string messages) const;
  /// prompt and completion, texts or lists of messages; of the prompt nothing is learned.
  Result<TokenText> reply(const json::Value& record, const json::Value& prompt, const json::Value& reply) const;
  Result<std::vector<text::ChatPart>> parts_of(const json::Value& record, std::string messages, bool ask) const;
  Result<TokenText> tokens_of(std::vector<text::ChatPart> parts) const;
  bool writes_start() const;
  void end(TokenText& text) const;

  Metadata metadata_;
  text::Tokenizer tokenizer_;
  EncoderOptions options_;
};

}  // namespace graft
