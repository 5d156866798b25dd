#include "runtime/language/text_writer.h"

#include <algorithm>
#include <utility>

#include "runtime/language/text_model.h"
#include "runtime/model/model.h"
#include "runtime/text/grammar/json_schema.h"

namespace graft {

using text::TokenId;

std::string_view stop_reason_name(StopReason reason) {
  switch (reason) {
    case StopReason::end_of_text: return "end_of_text";
    case StopReason::max_tokens: return "max_tokens";
    case StopReason::stop_string: return "stop_string";
    case StopReason::context_full: return "context_full";
    case StopReason::callback: return "callback";
  }
  return "";
}

Result<TextModel> TextModel::create(const Model& model, std::int64_t vocabulary) {
  TextModel out;
  out.vocabulary_ = vocabulary;
  if (!model.tokenizer) return out;
  GRAFT_TRY_ASSIGN(text::Tokenizer tokenizer, tokenizer_of(model));
  out.stop_tokens_ = stop_tokens_of(model.metadata, tokenizer);
  out.tokenizer_.emplace(std::move(tokenizer));
  return out;
}

Status TextModel::check(std::span<const TokenId> prompt, const GenerateOptions& options, std::uint32_t context) const {
  GRAFT_TRY(text::check_sampling(options.sampling));
  if (prompt.empty()) return invalid("The prompt is empty, and the model's tokenizer begins texts with no token.");
  for (const TokenId id : prompt) {
    if (id < 0 || id >= vocabulary_) {
      return invalid("The prompt holds token ", id, "; the model knows ", vocabulary_, " tokens.");
    }
  }
  if (prompt.size() >= context) {
    return invalid("The prompt has ", prompt.size(), " tokens, which leaves no room in a context of ", context, ".");
  }
  for (const text::LogitBias& bias : options.sampling.bias) {
    if (bias.token >= vocabulary_) {
      return invalid("A bias is for token ", bias.token, "; the model knows ", vocabulary_, " tokens.");
    }
  }
  if (!options.grammar.empty() && !options.json_schema.empty()) {
    return invalid("A text follows a grammar or a JSON schema, and both were given.");
  }
  if ((!options.grammar.empty() || !options.json_schema.empty()) && !tokenizer_) {
    return error(Code::not_found, "A grammar needs a tokenizer, and the model carries none.");
  }
  if (!options.stop.empty() && !tokenizer_) {
    return error(Code::not_found, "Stop strings need a tokenizer, and the model carries none.");
  }
  return ok_status();
}

Result<std::vector<TokenId>> TextModel::encode(std::string_view prompt) const {
  if (!tokenizer_) return error(Code::not_found, "The model carries no tokenizer, so that it takes token ids only.");
  return tokenizer_->encode(prompt);
}

Result<std::unique_ptr<TextConstraint>> TextConstraints::take(const text::Tokenizer* tokenizer,
                                                              const GenerateOptions& options) {
  std::unique_ptr<TextConstraint> out;
  if (options.grammar.empty() && options.json_schema.empty()) return out;
  const auto same = [&](const std::unique_ptr<TextConstraint>& one) {
    return one->grammar == options.grammar && one->json_schema == options.json_schema;
  };
  if (const auto found = std::ranges::find_if(idle_, same); found != idle_.end()) {
    out = std::move(*found);
    idle_.erase(found);
  } else {
    std::string rules = options.grammar;
    if (!options.json_schema.empty()) {
      GRAFT_TRY_ASSIGN(rules, text::grammar_of_schema(options.json_schema));
    }
    GRAFT_TRY_ASSIGN(text::Grammar grammar, text::Grammar::parse(rules));
    if (!table_) table_ = std::make_unique<text::TokenTable>(*tokenizer);
    out = std::make_unique<TextConstraint>(TextConstraint{options.grammar, options.json_schema, std::move(grammar)});
    out->matcher = std::make_unique<text::GrammarMatcher>(out->rules, *table_);
  }
  GRAFT_TRY(out->matcher->restart());
  return out;
}

void TextConstraints::give_back(std::unique_ptr<TextConstraint> constraint) {
  if (!constraint) return;
  if (idle_.size() == kept_) idle_.erase(idle_.begin());
  idle_.push_back(std::move(constraint));
}

/// The text of tokens as it becomes certain, up to a stop string.
class TextWriter::Stream {
 public:
  Stream(const text::Tokenizer* tokenizer, const GenerateOptions& options, const TextCallback& on_text)
      : stops_(options.stop), on_text_(on_text) {
    // What follows a prompt keeps the space that it begins with.
    if (tokenizer != nullptr) decoder_.emplace(*tokenizer, text::DecodeOptions{.at_start = false});
  }

  Status push(TokenId id) {
    if (!decoder_) return give({});
    GRAFT_TRY_ASSIGN(const std::string piece, decoder_->push(id));
    return give(stops_.push(piece));
  }
  Status finish() {
    if (!decoder_) return ok_status();
    std::string rest = stops_.push(decoder_->finish());
    return give(rest + stops_.finish());
  }
  bool stopped() const { return stops_.found(); }
  bool refused() const { return refused_; }
  std::string take() { return std::move(text_); }

 private:
  Status give(const std::string& piece) {
    text_ += piece;
    if (!piece.empty() && on_text_ && !refused_) refused_ = !on_text_(piece);
    return ok_status();
  }

  std::optional<text::StreamDecoder> decoder_;
  text::StopFinder stops_;
  const TextCallback& on_text_;
  std::string text_;
  bool refused_ = false;
};

TextWriter::TextWriter(const TextModel& model, std::span<const TokenId> prompt, GenerateOptions options,
                       TextCallback on_text, std::unique_ptr<TextConstraint> constraint)
    : model_(model),
      options_(std::move(options)),
      on_text_(std::move(on_text)),
      constraint_(std::move(constraint)),
      stream_(std::make_unique<Stream>(model.tokenizer(), options_, on_text_)),
      sampler_(options_.sampling),
      tokens_(prompt.begin(), prompt.end()) {
  out_.prompt_tokens = static_cast<std::uint32_t>(prompt.size());
}

TextWriter::~TextWriter() = default;

bool TextWriter::end(StopReason reason) {
  out_.reason = reason;
  return false;
}

Result<bool> TextWriter::prepare(std::size_t cached, std::uint32_t context) {
  if (out_.tokens.size() >= options_.max_tokens) return end(StopReason::max_tokens);
  if (cached == context) return end(StopReason::context_full);
  if (!constraint_) return true;
  if (constraint_->matcher->must_end()) return end(StopReason::end_of_text);
  // A bit for each token that may come next.
  GRAFT_TRY_ASSIGN(const auto text, constraint_->matcher->allowed());
  allowed_.assign(text.begin(), text.end());
  if (constraint_->matcher->may_end()) {
    for (const TokenId id : model_.stop_tokens()) {
      const auto at = static_cast<std::size_t>(id);
      if (at / 64 < allowed_.size()) allowed_[at / 64] |= std::uint64_t{1} << (at % 64);
    }
  }
  if (std::ranges::all_of(allowed_, [](std::uint64_t word) { return word == 0; })) {
    return unsupported("No token of the model goes on as the grammar asks.");
  }
  return true;
}

Result<bool> TextWriter::add(std::span<const float> logits) {
  GRAFT_TRY_ASSIGN(const TokenId next, sampler_.next(logits, tokens_, allowed_));
  if (std::ranges::find(model_.stop_tokens(), next) != model_.stop_tokens().end()) return end(StopReason::end_of_text);
  if (constraint_) GRAFT_TRY(constraint_->matcher->accept(next));
  tokens_.push_back(next);
  out_.tokens.push_back(next);
  if (options_.log_probabilities) {
    out_.log_probabilities.push_back(text::log_probability(logits, next, options_.most_probable, out_.most_probable));
  }
  const bool last = options_.on_token && !options_.on_token(next, logits);
  const auto* const tokenizer = model_.tokenizer();
  const bool padding =
      tokenizer != nullptr && static_cast<std::size_t>(next) >= tokenizer->size();  // of the vocabulary
  if (!padding) GRAFT_TRY(stream_->push(next));
  if (stream_->stopped()) return end(StopReason::stop_string);
  if (stream_->refused() || last) return end(StopReason::callback);
  return true;
}

Status TextWriter::finish() {
  GRAFT_TRY(stream_->finish());
  if (stream_->stopped()) out_.reason = StopReason::stop_string;
  out_.text = stream_->take();
  return ok_status();
}

}  // namespace graft
