// A text that a BatchGenerator was given.
#pragma once

#include "runtime/language/batch_generator.h"

namespace graft {

struct BatchGenerator::Text {
  Text(Id number, const TextModel& model, std::span<const text::TokenId> prompt, const GenerateOptions& options,
       const TextCallback& on_text, std::unique_ptr<TextConstraint> constraint)
      : id(number), writer(model, prompt, options, on_text, std::move(constraint)) {}

  Id id;
  TextWriter writer;
  bool begun = false;     ///< it was looked up what the caches hold of it
  bool prepared = false;  ///< for the next token
  Clock::time_point submitted = Clock::now();
  Clock::time_point read = submitted;  ///< when the prompt was in the caches
};

}  // namespace graft
