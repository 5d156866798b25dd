// What became of a data set of text: nothing of it is cut or left out in silence.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace graft {

/// What becomes of a text that is longer than a sample.
enum class OnLong : std::uint8_t {
  by_kind,  ///< split what is learned as a whole, cut all else
  cut,      ///< its end is left out
  drop,     ///< it is left out
  error,    ///< the data set is refused
  split,    ///< it becomes several, each of which begins anew
};

struct TextSummary {
  /// Why a text is left out.
  enum Reason : std::uint8_t {
    too_short,     ///< fewer than two tokens: none has another before it
    not_learned,   ///< nothing of it is learned
    nothing_fits,  ///< what is learned lies beyond what a sample holds
    too_long,      ///< OnLong::drop
  };
  static constexpr std::size_t kReasons = 4;
  struct Dropped {
    std::uint64_t count = 0;
    std::string first;  ///< which record, as in "line 17"
  };

  std::uint64_t records = 0;  ///< read: conversations, texts, pairs
  std::uint64_t samples = 0;
  std::int64_t length = 0;    ///< of a sample, in tokens
  std::uint64_t tokens = 0;   ///< of all samples, without padding
  std::uint64_t learned = 0;  ///< of these
  std::uint64_t cut = 0;      ///< records
  std::uint64_t cut_tokens = 0;
  std::uint64_t split = 0;   ///< records
  std::uint64_t pieces = 0;  ///< texts that samples are made of: records, and the parts of those that were split
  std::uint64_t rest = 0;    ///< tokens at the end that make no whole window
  std::array<Dropped, kReasons> dropped;
  bool packed = false;   ///< samples hold several texts
  std::string unpacked;  ///< why they do not although it is the default; empty: there is no reason to tell

  /// Share of the samples' places that hold tokens; and what it would be with one text a sample.
  double filled() const;
  double filled_unpacked() const;
  bool lost_any() const;
};

/// Sentences for people: the first says what there is, the others what is lacking.
std::vector<std::string> sentences_of(const TextSummary& summary);
/// As a JSON object.
std::string json_of(const TextSummary& summary);

}  // namespace graft
