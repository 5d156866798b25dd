// Tokenizers, conversations and embedders of language models. Included by graft.hpp.
#pragma once

#include "graft/embedder_calls.hpp"
#include "graft/generate.hpp"
#include "graft/tokenizer_calls.hpp"

namespace graft {
inline namespace v0 {

/// How a model's text becomes tokens, and conversations prompts: Model::tokenizer() makes it.
class Tokenizer : public detail::TokenizerCalls {
 public:
  using TokenizerCalls::TokenizerCalls;
};

/// Vectors of texts, one after the other.
struct Embeddings {
  std::size_t width = 0;
  std::vector<float> numbers;
  std::vector<std::uint32_t> token_counts;  ///< of each text before it was cut; empty where tokens were given
  /// The vector of one of them.
  std::span<const float> operator[](std::size_t text) const { return std::span(numbers).subspan(text * width, width); }
};

/// Turns texts into vectors: Model::embedder() makes it.
class Embedder : public detail::EmbedderCalls {
 public:
  using EmbedderCalls::EmbedderCalls;
  /// A vector for each text.
  Result<Embeddings> embed(const std::vector<std::string>& texts) {
    const auto raw = detail::raw_names(texts);
    const std::uint32_t* counts = nullptr;
    const float* numbers = nullptr;
    const Status done = status(graft_embed(get(), raw.data(), raw.size(), &numbers, &counts));
    if (!done.ok()) return done;
    return Embeddings{width(), {numbers, numbers + texts.size() * width()}, {counts, counts + texts.size()}};
  }
  /// The same of tokens, as Tokenizer gives them.
  Result<Embeddings> embed(std::span<const std::vector<std::int32_t>> texts) {
    std::vector<const std::int32_t*> ids;
    std::vector<std::size_t> counts;
    for (const auto& text : texts) ids.push_back(text.data()), counts.push_back(text.size());
    const float* numbers = nullptr;
    const Status done = status(graft_embed_tokens(get(), ids.data(), counts.data(), texts.size(), &numbers));
    if (!done.ok()) return done;
    return Embeddings{width(), {numbers, numbers + texts.size() * width()}, {}};
  }
};

}  // namespace v0
}  // namespace graft
