// A vocabulary as bytes: how a model file carries its tokenizer.
#pragma once

#include <span>
#include <string>

#include "platform/base/status.h"
#include "runtime/text/tokenizer/vocabulary.h"

namespace graft::text {

/// What a model file calls this form: the first, and the second for vocabularies that work by steps.
inline constexpr const char* kVocabularyFormat = "graft.vocabulary.1";
inline constexpr const char* kVocabularyStepsFormat = "graft.vocabulary.2";
inline const char* vocabulary_format(const Vocabulary& vocabulary) {
  return vocabulary.by_steps ? kVocabularyStepsFormat : kVocabularyFormat;
}

/// In the form of vocabulary_format(). The same vocabulary gives the same bytes.
std::string vocabulary_to_bytes(const Vocabulary& vocabulary);

/// Either form. corrupt: bytes that vocabulary_to_bytes did not write. What ids, merges and steps mean is checked by
/// Tokenizer::make.
Result<Vocabulary> vocabulary_from_bytes(std::span<const std::byte> bytes);

}  // namespace graft::text
