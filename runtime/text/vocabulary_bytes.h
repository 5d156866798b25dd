// A vocabulary as bytes: how a model file carries its tokenizer.
#pragma once

#include <span>
#include <string>

#include "platform/base/status.h"
#include "runtime/text/vocabulary.h"

namespace graft::text {

/// What a model file calls this form.
inline constexpr const char* kVocabularyFormat = "graft.vocabulary.1";

/// The same vocabulary gives the same bytes.
std::string vocabulary_to_bytes(const Vocabulary& vocabulary);

/// corrupt: bytes that vocabulary_to_bytes did not write. What ids and merges mean is checked by Tokenizer::make.
Result<Vocabulary> vocabulary_from_bytes(std::span<const std::byte> bytes);

}  // namespace graft::text
