// One text as it is written: which token comes next, by the scores that a model gives, and when it ends.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/language/generate_options.h"
#include "runtime/text/grammar/matcher.h"
#include "runtime/text/tokenizer/tokenizer.h"

namespace graft {

class Model;

/// What writers know of their model.
class TextModel {
 public:
  TextModel() = default;
  static Result<TextModel> create(const Model& model, std::int64_t vocabulary);

  /// nullptr where the model has none.
  const text::Tokenizer* tokenizer() const { return tokenizer_ ? &*tokenizer_ : nullptr; }
  std::int64_t vocabulary() const { return vocabulary_; }
  std::span<const text::TokenId> stop_tokens() const { return stop_tokens_; }
  /// What Generator::generate() refuses of prompts and options.
  Status check(std::span<const text::TokenId> prompt, const GenerateOptions& options, std::uint32_t context) const;
  /// not_found: the model has no tokenizer.
  Result<std::vector<text::TokenId>> encode(std::string_view prompt) const;

 private:
  std::optional<text::Tokenizer> tokenizer_;
  std::vector<text::TokenId> stop_tokens_;
  std::int64_t vocabulary_ = 0;
};

/// What a text follows, and what was found out about it.
struct TextConstraint {
  std::string grammar, json_schema;  ///< as they were asked for
  text::Grammar rules;
  std::unique_ptr<text::GrammarMatcher> matcher = {};
};

/// Keeps the constraints of texts that are done for those that follow the same.
class TextConstraints {
 public:
  /// At most `kept` of them.
  explicit TextConstraints(std::size_t kept = 1) : kept_(kept) {}
  /// At the beginning of a text; null where the options ask for none. The tokenizer must outlive this object.
  Result<std::unique_ptr<TextConstraint>> take(const text::Tokenizer* tokenizer, const GenerateOptions& options);
  void give_back(std::unique_ptr<TextConstraint> constraint);

 private:
  std::size_t kept_;
  std::unique_ptr<text::TokenTable> table_;  ///< once a text was constrained
  std::vector<std::unique_ptr<TextConstraint>> idle_;
};

/// The model must outlive it.
class TextWriter {
 public:
  TextWriter(const TextModel& model, std::span<const text::TokenId> prompt, GenerateOptions options,
             TextCallback on_text, std::unique_ptr<TextConstraint> constraint);
  ~TextWriter();

  /// Before the model is run for the next token, behind `cached` tokens in a context of so many; false: the text has
  /// ended without one.
  Result<bool> prepare(std::size_t cached, std::uint32_t context);
  /// Chooses the next token by the model's scores and adds it; false: the text has ended.
  Result<bool> add(std::span<const float> logits);
  /// Tells what was held back of the text. Once, after the last token.
  Status finish();

  /// Prompt and answer.
  const std::vector<text::TokenId>& tokens() const { return tokens_; }
  Generated& result() { return out_; }
  const GenerateOptions& options() const { return options_; }
  std::unique_ptr<TextConstraint> take_constraint() { return std::move(constraint_); }

 private:
  class Stream;
  bool end(StopReason reason);

  const TextModel& model_;
  GenerateOptions options_;
  TextCallback on_text_;
  std::unique_ptr<TextConstraint> constraint_;
  std::unique_ptr<Stream> stream_;
  text::Sampler sampler_;
  std::vector<text::TokenId> tokens_;
  std::vector<std::uint64_t> allowed_;
  Generated out_;
};

}  // namespace graft
