// What happens to a text before the model sees it: normalization, then cutting into spans.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "platform/base/status.h"
#include "runtime/text/tokenizer/split.h"
#include "runtime/text/tokenizer/vocabulary.h"
#include "runtime/text/unicode/pattern.h"

namespace graft::text {

/// A text and the spans of it that are left, in order.
struct Spans {
  struct Span {
    std::uint32_t begin;
    std::uint32_t end;
  };
  std::string text;
  std::vector<Span> spans;

  std::string_view at(std::size_t i) const {
    return std::string_view(text).substr(spans[i].begin, spans[i].end - spans[i].begin);
  }
};

class Pipeline {
 public:
  /// Of the vocabulary's steps, or of its flags where it has none. unsupported, corrupt: a pattern that cannot be run.
  static Result<Pipeline> make(const Vocabulary& vocabulary);

  /// A stretch between special tokens, normalized. `first`: it begins the text.
  /// invalid_argument here and below: a pattern takes too long on this text, or the text grows beyond 1 GiB.
  Result<std::string> normalize(std::string_view text, bool first) const;
  /// A normalized stretch, cut.
  Result<Spans> cut(std::string text, bool first) const;

 private:
  struct Stage {
    Step step;
    std::optional<Split> known;  ///< a pattern that has a scanner of its own
    Pattern pattern;
  };
  static Result<Stage> stage_of(Step step);
  Status change(const Stage& stage, std::string& text, std::size_t most, bool first) const;
  Status cut_by(const Stage& stage, Spans& spans, bool first) const;

  std::vector<Stage> normal_;
  std::vector<Stage> cuts_;
  bool keeps_bytes_ = false;  ///< byte_bpe: byte_level leaves the bytes as they are
};

/// The step for one of the scanners that are written by hand.
Step step_of(Split split);
/// The scanner for a regular expression, where there is one.
std::optional<Split> known_split(std::string_view pattern);
/// The regular expression of a scanner, as models write it into their files.
std::string_view split_pattern(Split split);

}  // namespace graft::text
