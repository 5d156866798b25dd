#include "runtime/text/tokenizer/pipeline.h"

#include <algorithm>

#include "runtime/text/tokenizer/character_map.h"
#include "runtime/text/tokenizer/piece_table.h"
#include "runtime/text/tokenizer/text_steps.h"
#include "runtime/text/unicode/unicode.h"

namespace graft::text {
namespace {

/// Bytes that a text of so many may become on its way: steps that grow it come from a file, too.
std::size_t most_bytes(std::size_t text) { return (std::size_t{1} << 16) + 64 * text; }

struct KnownPattern {
  std::string_view pattern;
  Split split;
};

/// The regular expressions that models write into their files, and the scanner for each.
constexpr KnownPattern kPatterns[] = {
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     Split::llama3},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     Split::qwen2},
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", Split::gpt2},
    {R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", Split::gpt2},
    {R"(\p{N})", Split::digit},
    {"[\r\n]", Split::line_break},
    {R"([\r\n])", Split::line_break},
    {R"(\s?\p{L}+)", Split::spaced_letters},
    {R"(\s?\p{P}+)", Split::spaced_punctuation},
    {"[\xE4\xB8\x80-\xE9\xBE\xA5\xE0\xA0\x80-\xE4\xB8\x80\xEA\xB0\x80-\xED\x9F\xBF]+", Split::cjk},
};

struct Piece {
  std::uint32_t begin;
  std::uint32_t end;
  bool matches;
};

/// Matches and what lies between them, in order.
std::vector<Piece> pieces_between(const std::vector<PatternMatch>& matches, std::uint32_t size) {
  std::vector<Piece> out;
  std::uint32_t last = 0;
  for (const PatternMatch& match : matches) {
    if (match.begin > last) out.push_back({last, match.begin, false});
    out.push_back({match.begin, match.end, true});
    last = match.end;
  }
  if (last < size) out.push_back({last, size, false});
  return out;
}

std::vector<Piece> behaved(std::vector<Piece> pieces, Behavior behavior) {
  std::vector<Piece> out;
  bool previous = false;
  switch (behavior) {
    case Behavior::isolated: return pieces;
    case Behavior::removed: std::erase_if(pieces, [](const Piece& piece) { return piece.matches; }); return pieces;
    case Behavior::contiguous:
    case Behavior::merged_with_previous:
      for (const Piece& piece : pieces) {
        const bool joins = behavior == Behavior::contiguous ? piece.matches == previous : piece.matches && !previous;
        if (joins && !out.empty()) {
          out.back().end = piece.end;
        } else {
          out.push_back(piece);
        }
        previous = piece.matches;
      }
      return out;
    case Behavior::merged_with_next:
      for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
        if (piece->matches && !previous && !out.empty()) {
          out.back().begin = piece->begin;
        } else {
          out.push_back(*piece);
        }
        previous = piece->matches;
      }
      std::ranges::reverse(out);
      return out;
  }
  return pieces;
}

/// Hugging Face's library counts both kinds of kana, and the mark that makes them long, as Han; a space has no script
/// of its own, and so have characters that are not assigned.
int merged_script(char32_t value) {
  static const std::uint8_t han = script_number("Han"), hiragana = script_number("Hiragana"),
                            katakana = script_number("Katakana");
  if (value == 0x30FC) return han;
  if (value == ' ') return 0;
  const std::uint8_t own = script(value);
  return own == hiragana || own == katakana ? han : own;
}

std::vector<Piece> by_script(std::span<const CodePoint> points) {
  std::vector<Piece> out;
  int last = -1;
  for (std::uint32_t i = 0; i < points.size(); ++i) {
    const int now = merged_script(points[i].value);
    if (now != 0 && last != 0 && now != last) {
      if (!out.empty()) out.back().end = i;
      out.push_back({i, static_cast<std::uint32_t>(points.size()), false});
    }
    if (now != 0) last = now;
  }
  return out;
}

template <typename Predicate>
std::vector<PatternMatch> characters(std::span<const CodePoint> points, Predicate matches) {
  std::vector<PatternMatch> out;
  for (std::uint32_t i = 0; i < points.size(); ++i) {
    if (matches(points[i].value)) out.push_back({i, i + 1});
  }
  return out;
}

/// Runs of \w and of what is neither that nor white space: what lies between them is white space.
std::vector<PatternMatch> words(std::span<const CodePoint> points) {
  const auto kind = [&](std::uint32_t i) {
    return is_white_space(points[i].value) ? 0 : is_word(points[i].value) ? 1 : 2;
  };
  std::vector<PatternMatch> out;
  for (std::uint32_t i = 0; i < points.size(); ++i) {
    if (kind(i) == 0) continue;
    if (i > 0 && kind(i) == kind(i - 1)) {
      out.back().end = i + 1;
    } else {
      out.push_back({i, i + 1});
    }
  }
  return out;
}

/// Which steps do what the vocabulary's flags say.
void flags_as_steps(const Vocabulary& v, std::vector<Step>& normal, std::vector<Step>& cuts) {
  if (v.normal_form_c) normal.push_back({.kind = StepKind::nfc});
  if (!v.character_map.empty()) normal.push_back({.kind = StepKind::character_map, .text = v.character_map});
  if (v.collapse_spaces) normal.push_back({.kind = StepKind::collapse_spaces});
  if (v.algorithm == Algorithm::word_piece) {
    normal.push_back({.kind = StepKind::clean});
    if (v.strip_accents) {
      normal.push_back({.kind = StepKind::nfd});
      normal.push_back({.kind = StepKind::drop_nonspacing});
    }
    if (v.lower_case) normal.push_back({.kind = StepKind::lower_case});
    cuts.push_back({.kind = StepKind::white_space, .behavior = Behavior::removed});
    cuts.push_back({.kind = StepKind::ideographs});
    cuts.push_back({.kind = StepKind::punctuation});
    return;
  }
  const bool marks = v.algorithm != Algorithm::byte_bpe;
  if (v.space_prefix != SpacePrefix::none) {
    normal.push_back(
        {.kind = StepKind::prepend, .prefix = v.space_prefix, .flag_a = v.prefix_unless_spaced, .text = " "});
  }
  if (marks) {
    normal.push_back({.kind = StepKind::replace, .flag_a = true, .text = " ", .with = std::string(kSpaceMark)});
  }
  for (const Split split : v.splits) cuts.push_back(step_of(split));
}

Status check_size(std::size_t bytes, std::size_t most) {
  if (bytes <= most && bytes < UINT32_MAX) return {};
  return invalid("The tokenizer's steps make more than ", most, " bytes of a text, which is more than it may grow.");
}

}  // namespace

Step step_of(Split split) { return {.kind = StepKind::split, .text = std::string(split_pattern(split))}; }

std::optional<Split> known_split(std::string_view pattern) {
  for (const KnownPattern& known : kPatterns) {
    if (known.pattern == pattern) return known.split;
  }
  return std::nullopt;
}

std::string_view split_pattern(Split split) {
  for (const KnownPattern& known : kPatterns) {
    if (known.split == split) return known.pattern;
  }
  return {};
}

Result<Pipeline::Stage> Pipeline::stage_of(Step step) {
  Stage out{.step = std::move(step), .known = std::nullopt, .pattern = Pattern::literal({})};
  const StepKind kind = out.step.kind;
  if (kind == StepKind::precompiled || kind == StepKind::character_map) {
    GRAFT_TRY(check_character_map(out.step.text));
  }
  if (kind != StepKind::split && kind != StepKind::replace && kind != StepKind::metaspace) return out;
  if (out.step.flag_a || kind == StepKind::metaspace) {
    out.pattern = Pattern::literal(out.step.text);
    return out;
  }
  if (kind == StepKind::split) out.known = known_split(out.step.text);
  if (out.known) return out;
  GRAFT_TRY_ASSIGN(out.pattern, Pattern::parse(out.step.text));
  return out;
}

Result<Pipeline> Pipeline::make(const Vocabulary& vocabulary) {
  std::vector<Step> normal = vocabulary.normalizers;
  std::vector<Step> cuts = vocabulary.pre_tokenizers;
  if (!vocabulary.by_steps) flags_as_steps(vocabulary, normal, cuts);
  Pipeline out;
  out.keeps_bytes_ = vocabulary.algorithm == Algorithm::byte_bpe;
  for (auto& [from, to] : {std::pair{&normal, &out.normal_}, std::pair{&cuts, &out.cuts_}}) {
    for (Step& step : *from) {
      GRAFT_TRY_ASSIGN(Stage stage, stage_of(std::move(step)));
      to->push_back(std::move(stage));
    }
  }
  return out;
}

Status Pipeline::change(const Stage& stage, std::string& text, std::size_t most, bool first) const {
  const Step& step = stage.step;
  switch (step.kind) {
    case StepKind::nfc: text = normal_form(NormalForm::c, text); break;
    case StepKind::nfd: text = normal_form(NormalForm::d, text); break;
    case StepKind::nfkc: text = normal_form(NormalForm::kc, text); break;
    case StepKind::nfkd: text = normal_form(NormalForm::kd, text); break;
    case StepKind::strip: text = stripped(text, step.flag_a, step.flag_b); break;
    case StepKind::collapse_spaces: text = collapsed_spaces(text); break;
    case StepKind::byte_alphabet: text = in_byte_alphabet(text); break;
    case StepKind::character_map: text = apply_character_map(step.text, text); break;
    case StepKind::precompiled: text = apply_to_graphemes(step.text, text); break;
    case StepKind::prepend:
      if (text.empty() || (step.prefix == SpacePrefix::first && !first)) break;
      if (!(step.flag_a && text.starts_with(step.text))) text.insert(0, step.text);
      break;
    case StepKind::replace: {
      const std::vector<CodePoint> points = code_points(text);
      std::vector<PatternMatch> matches;
      GRAFT_TRY(stage.pattern.find_all(points, matches));
      if (matches.empty()) break;
      GRAFT_TRY(check_size(text.size() + matches.size() * step.with.size(), most));
      std::string out;
      const auto byte = [&](std::uint32_t i) { return i < points.size() ? points[i].begin : text.size(); };
      for (const Piece& piece : pieces_between(matches, static_cast<std::uint32_t>(points.size()))) {
        out += piece.matches ? std::string_view(step.with)
                             : std::string_view(text).substr(byte(piece.begin), byte(piece.end) - byte(piece.begin));
      }
      text = std::move(out);
      break;
    }
    default: text = by_character(step.kind, text); break;
  }
  return check_size(text.size(), most);
}

Result<std::string> Pipeline::normalize(std::string_view text, bool first) const {
  std::string out(text);
  for (const Stage& stage : normal_) GRAFT_TRY(change(stage, out, most_bytes(text.size()), first));
  return out;
}

namespace {

/// metaspace and byte_level: each span with what they put before it, and metaspace's spaces replaced.
void prefix_spans(const Step& step, Spans& spans, bool first) {
  const bool meta = step.kind == StepKind::metaspace;
  const std::string_view prefix = meta ? std::string_view(step.text) : " ";
  Spans out;
  out.text.reserve(spans.text.size() * 2);
  for (std::size_t i = 0; i < spans.spans.size(); ++i) {
    const auto begin = static_cast<std::uint32_t>(out.text.size());
    for (const char c : spans.at(i)) {
      if (meta && c == ' ') {
        out.text += step.text;
      } else {
        out.text += c;
      }
    }
    const bool begins = first && i == 0 && spans.spans[i].begin == 0;
    const bool wanted =
        meta ? step.prefix == SpacePrefix::every || (step.prefix == SpacePrefix::first && begins) : step.flag_a;
    if (wanted && !std::string_view(out.text).substr(begin).starts_with(prefix)) out.text.insert(begin, prefix);
    out.spans.push_back({begin, static_cast<std::uint32_t>(out.text.size())});
  }
  spans = std::move(out);
}

void spell_bytes(Spans& spans) {
  Spans out;
  for (std::size_t i = 0; i < spans.spans.size(); ++i) {
    const auto begin = static_cast<std::uint32_t>(out.text.size());
    out.text += in_byte_alphabet(spans.at(i));
    out.spans.push_back({begin, static_cast<std::uint32_t>(out.text.size())});
  }
  spans = std::move(out);
}

}  // namespace

Status Pipeline::cut_by(const Stage& stage, Spans& spans, bool first) const {
  const Step& step = stage.step;
  Behavior behavior = step.behavior;
  bool inverse = false;
  if (step.kind == StepKind::metaspace || (step.kind == StepKind::byte_level && step.flag_a)) {
    const std::size_t marks = spans.spans.size() + static_cast<std::size_t>(std::ranges::count(spans.text, ' '));
    GRAFT_TRY(check_size(spans.text.size() + marks * (step.text.size() + 1), most_bytes(spans.text.size())));
    prefix_spans(step, spans, first);
  }
  std::vector<Spans::Span> out;
  out.reserve(spans.spans.size());
  const Split gpt2[] = {Split::gpt2};
  for (const Spans::Span& span : spans.spans) {
    const std::vector<CodePoint> points =
        code_points(std::string_view(spans.text).substr(span.begin, span.end - span.begin));
    const auto size = static_cast<std::uint32_t>(points.size());
    const auto keep = [&](std::uint32_t begin, std::uint32_t end) {
      if (begin == end) return;
      const CodePoint& last = points[end - 1];
      out.push_back({span.begin + points[begin].begin, span.begin + last.begin + last.size});
    };
    const bool scanned = step.kind == StepKind::split && stage.known && behavior == Behavior::isolated;
    const bool by_gpt2 = step.kind == StepKind::byte_level && step.flag_b;
    if (scanned || by_gpt2) {
      const Split known[] = {stage.known.value_or(Split::gpt2)};
      std::uint32_t begin = 0;
      for (const std::uint32_t end : split_text(points, by_gpt2 ? gpt2 : known)) {
        keep(begin, end);
        begin = end;
      }
      continue;
    }
    std::vector<PatternMatch> matches;
    switch (step.kind) {
      case StepKind::split:
        inverse = step.flag_b;
        if (stage.known) {
          matches = split_matches(points, *stage.known);
        } else {
          GRAFT_TRY(stage.pattern.find_all(points, matches));
        }
        break;
      case StepKind::metaspace:
        if (step.flag_b) GRAFT_TRY(stage.pattern.find_all(points, matches));
        behavior = Behavior::merged_with_next;
        break;
      case StepKind::digits:
        matches = characters(points, [](char32_t v) { return char_class(v) == CharClass::number; });
        break;
      case StepKind::punctuation: matches = characters(points, is_punctuation); break;
      case StepKind::ideographs: matches = characters(points, is_ideograph); break;
      case StepKind::white_space: matches = characters(points, is_white_space); break;
      case StepKind::delimiter: {
        const char32_t wanted = step.text.empty() ? kInvalidByte + 1 : first_code_point(step.text).value;
        matches = characters(points, [&](char32_t v) { return v == wanted; });
        break;
      }
      case StepKind::words:
        matches = words(points);
        inverse = true;
        break;
      default: break;
    }
    std::vector<Piece> pieces = step.kind == StepKind::scripts ? by_script(points) : pieces_between(matches, size);
    if (inverse) {
      for (Piece& piece : pieces) piece.matches = !piece.matches;
    }
    for (const Piece& piece : behaved(std::move(pieces), behavior)) keep(piece.begin, piece.end);
  }
  spans.spans = std::move(out);
  if (step.kind == StepKind::byte_level && !keeps_bytes_) {
    GRAFT_TRY(check_size(spans.text.size() * 2, SIZE_MAX));
    spell_bytes(spans);
  }
  return {};
}

Result<Spans> Pipeline::cut(std::string text, bool first) const {
  Spans out;
  out.text = std::move(text);
  if (!out.text.empty()) out.spans.push_back({0, static_cast<std::uint32_t>(out.text.size())});
  for (const Stage& stage : cuts_) GRAFT_TRY(cut_by(stage, out, first));
  return out;
}

}  // namespace graft::text
