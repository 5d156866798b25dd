// What the flags that tools/interface writes are made of.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tools/common/command.h"
#include "tools/common/help.h"
#include "tools/common/numbers.h"

namespace graft::cli {

/// A constant of an enum, as flags name it.
struct Word {
  const char* word;
  const char* other;  ///< another spelling that is accepted
  int value;
};

/// The word of a value; the words are in the order of the enum.
inline const char* word_of(std::span<const Word> words, int value) {
  return words[static_cast<std::size_t>(value)].word;
}

/// A flag that takes one of the words.
template <typename Enum>
void add_choice(CLI::App& app, const char* flag, Enum& value, std::span<const Word> words, const char* help) {
  app.add_option_function<std::string>(
      flag,
      [&value, words](const std::string& given) {
        std::string all;
        for (const Word& one : words) {
          if (given == one.word || given == one.other) {
            value = static_cast<Enum>(one.value);
            return;
          }
          all += (all.empty() ? "" : ", ") + std::string(one.word);
        }
        throw CLI::ValidationError("\"" + given + "\" is not known; there are " + all + ".");
      },
      help);
}

/// What decides whether a flag has an effect.
enum class Choice : std::uint8_t { losses, optimizers, schedules };

/// Which values of a choice read a flag.
struct Readers {
  const char* flag;
  Choice choice;
  std::uint32_t values;  ///< a bit for each
  const char* words;     ///< the same values, for a sentence
  const char* or_with;   ///< a flag that reads it as well; null: none
};

}  // namespace graft::cli
