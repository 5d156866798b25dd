#include "runtime/text/unicode/unicode.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <unordered_map>

#include "platform/base/stable_sort.h"
#include "runtime/text/unicode/unicode_table.h"

namespace graft::text {
namespace {

constexpr char32_t kHangulFirst = 0xAC00, kHangulCount = 11172;
constexpr char32_t kLeadFirst = 0x1100, kVowelFirst = 0x1161, kTailFirst = 0x11A7;
constexpr char32_t kLeads = 19, kVowels = 21, kTails = 28;

std::uint8_t run_value(const std::vector<std::uint32_t>& runs, char32_t value) {
  if (value >= kInvalidByte) return 0;
  const auto after = std::upper_bound(runs.begin(), runs.end(), static_cast<std::uint32_t>(value) << 8 | 0xFF);
  return static_cast<std::uint8_t>(*std::prev(after) & 0xFF);
}

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

/// Bytes that a lead byte announces; 0 for a byte that leads nothing.
std::uint32_t announced_size(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;
  if (lead < 0xE0) return 2;
  if (lead < 0xF0) return 3;
  return lead < 0xF5 ? 4 : 0;
}

constexpr std::uint64_t kPartMask = 0x1FFFFF;

/// The full compatibility decomposition; empty where there is none.
std::span<const std::uint32_t> compatibility(char32_t value) {
  const auto& [places, parts] = compatibility_table();
  const auto found = std::ranges::lower_bound(places, std::uint64_t{value} << 40);
  if (value >= kInvalidByte || found == places.end() || *found >> 40 != value) return {};
  return std::span(parts).subspan(*found & 0xFFFFFF, *found >> 24 & 0xFFFF);
}

void append_decomposed(std::u32string& out, char32_t value, bool compatible = false) {
  if (compatible) {
    if (const auto parts = compatibility(value); !parts.empty()) {
      out.append(parts.begin(), parts.end());
      return;
    }
  }
  if (value - kHangulFirst < kHangulCount) {
    const char32_t index = value - kHangulFirst;
    out += char32_t{kLeadFirst + index / (kVowels * kTails)};
    out += char32_t{kVowelFirst + index % (kVowels * kTails) / kTails};
    if (index % kTails != 0) out += char32_t{kTailFirst + index % kTails};
    return;
  }
  const auto found = std::ranges::lower_bound(decompositions(), std::uint64_t{value} << 43);
  if (value >= kInvalidByte || found == decompositions().end() || *found >> 43 != value) {
    out += value;
    return;
  }
  append_decomposed(out, static_cast<char32_t>(*found >> 22 & kPartMask), compatible);
  if (const auto second = static_cast<char32_t>(*found >> 1 & kPartMask); second != 0) {
    append_decomposed(out, second, compatible);
  }
}

const std::unordered_map<std::uint64_t, char32_t>& compositions() {
  static const auto table = [] {
    std::unordered_map<std::uint64_t, char32_t> out;
    for (const std::uint64_t entry : decompositions()) {
      if ((entry & 1) != 0)
        out.emplace(entry >> 1 & ((std::uint64_t{1} << 42) - 1), static_cast<char32_t>(entry >> 43));
    }
    return out;
  }();
  return table;
}

/// The composite of two code points, or 0.
char32_t composed(char32_t first, char32_t second) {
  if (first - kLeadFirst < kLeads && second - kVowelFirst < kVowels) {
    return kHangulFirst + ((first - kLeadFirst) * kVowels + (second - kVowelFirst)) * kTails;
  }
  if (first - kHangulFirst < kHangulCount && (first - kHangulFirst) % kTails == 0 && second > kTailFirst &&
      second < kTailFirst + kTails) {
    return first + (second - kTailFirst);
  }
  const auto found = compositions().find(std::uint64_t{first} << 21 | second);
  return found == compositions().end() ? 0 : found->second;
}

std::u32string compose(const std::u32string& text) {
  std::u32string out;
  std::size_t starter = std::u32string::npos;
  int last_class = -1;  // of what follows the starter in `out`; -1 where nothing does
  for (const char32_t value : text) {
    const int cls = run_value(combining_runs(), value);
    if (starter != std::u32string::npos && last_class < cls) {
      if (const char32_t pair = composed(out[starter], value); pair != 0) {
        out[starter] = pair;
        continue;
      }
    }
    if (cls == 0) {
      starter = out.size();
      last_class = -1;
    } else {
      last_class = cls;
    }
    out += value;
  }
  return out;
}

}  // namespace

CodePoint first_code_point(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const std::uint32_t size = announced_size(lead);
  const CodePoint invalid{kInvalidByte, 0, 1};
  if (size == 0 || size > text.size()) return invalid;
  if (size == 1) return {lead, 0, 1};
  char32_t value = lead & (0xFFu >> (size + 1));
  for (std::uint32_t i = 1; i < size; ++i) {
    if (!is_continuation(text[i])) return invalid;
    value = value << 6 | (static_cast<unsigned char>(text[i]) & 0x3F);
  }
  // Overlong forms, surrogates, and values past the last code point.
  if ((size == 3 && value < 0x800) || (size == 4 && value < 0x10000) || value >= kInvalidByte) return invalid;
  if (value >= 0xD800 && value < 0xE000) return invalid;
  return {value, 0, size};
}

std::vector<CodePoint> code_points(std::string_view text) {
  std::vector<CodePoint> out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    CodePoint point = first_code_point(text.substr(at));
    point.begin = static_cast<std::uint32_t>(at);
    at += point.size;
    out.push_back(point);
  }
  return out;
}

void append_utf8(std::string& out, char32_t value) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | (value >> shift & 0x3F)); };
  if (value < 0x80) {
    out += static_cast<char>(value);
  } else if (value < 0x800) {
    out += static_cast<char>(0xC0 | value >> 6);
    tail(0);
  } else if (value < 0x10000) {
    out += static_cast<char>(0xE0 | value >> 12);
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xF0 | value >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

std::size_t incomplete_tail(std::string_view text) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
    const char byte = text[text.size() - back];
    if (is_continuation(byte)) continue;
    return announced_size(static_cast<unsigned char>(byte)) > back ? back : 0;
  }
  return 0;
}

std::string valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = first_code_point(text.substr(at));
    if (point.value == kInvalidByte) {
      append_utf8(out, 0xFFFD);
    } else {
      out += text.substr(at, point.size);
    }
    at += point.size;
  }
  return out;
}

Category category(char32_t value) { return static_cast<Category>(run_value(category_runs(), value)); }

CharClass char_class(char32_t value) {
  const Category c = category(value);
  if (c <= Category::cs) return CharClass::other;
  if (c <= Category::lo) return CharClass::letter;
  if (c == Category::mn) return CharClass::nonspacing_mark;
  if (c <= Category::me) return CharClass::mark;
  if (c <= Category::no) return CharClass::number;
  if (c <= Category::po) return CharClass::punctuation;
  return c <= Category::so ? CharClass::symbol : CharClass::separator;
}

std::uint8_t script(char32_t value) { return run_value(script_runs(), value); }

std::uint8_t script_number(std::string_view name) {
  const auto same = [](char a, char b) { return (a | 0x20) == (b | 0x20); };
  const auto& names = script_names();
  for (std::size_t i = 1; i < names.size(); ++i) {
    if (std::ranges::equal(names[i], name, same)) return static_cast<std::uint8_t>(i);
  }
  return 0;
}

bool is_word(char32_t v) {
  const Category c = category(v);
  if ((c >= Category::lu && c <= Category::nl) || c == Category::pc || v == 0x200C || v == 0x200D) return true;
  // What is alphabetic without being a letter or a mark: circled and squared letters.
  return (v >= 0x24B6 && v <= 0x24E9) || (v >= 0x1F130 && v <= 0x1F149) || (v >= 0x1F150 && v <= 0x1F169) ||
         (v >= 0x1F170 && v <= 0x1F189);
}

bool is_punctuation(char32_t v) {
  if (v < 0x80) return v > ' ' && v < 0x7F && char_class(v) != CharClass::letter && char_class(v) != CharClass::number;
  return char_class(v) == CharClass::punctuation && is_in_unicode_8(v);
}

bool is_in_unicode_8(char32_t value) { return run_value(age_runs(), value) == 1; }
bool is_in_unicode_9(char32_t value) { return run_value(age_runs(), value) != 0; }

bool is_ideograph(char32_t v) {
  return (v >= 0x4E00 && v <= 0x9FFF) || (v >= 0x3400 && v <= 0x4DBF) || (v >= 0x20000 && v <= 0x2A6DF) ||
         (v >= 0x2A700 && v <= 0x2B81F) || (v >= 0x2B820 && v <= 0x2CEAF) || (v >= 0xF900 && v <= 0xFAFF) ||
         (v >= 0x2F800 && v <= 0x2FA1F);
}

bool is_white_space(char32_t value) {
  if (value < 0x80) return value == ' ' || (value >= 9 && value <= 13);
  return value == 0x85 || value == 0xA0 || value == 0x1680 || (value >= 0x2000 && value <= 0x200A) || value == 0x2028 ||
         value == 0x2029 || value == 0x202F || value == 0x205F || value == 0x3000;
}

char32_t to_lower(char32_t value) {
  const auto after = std::ranges::upper_bound(lower_runs(), value, {}, &LowerRun::first);
  if (after == lower_runs().begin()) return value;
  const LowerRun& run = *std::prev(after);
  if (value > run.last || (value - run.first) % run.step != 0) return value;
  return static_cast<char32_t>(static_cast<std::int32_t>(value) + run.delta);
}

std::u32string normal_form_d(std::u32string_view text, bool compatible) {
  std::u32string out;
  for (const char32_t value : text) append_decomposed(out, value, compatible);
  const auto cls = [](char32_t value) { return run_value(combining_runs(), value); };
  for (auto at = out.begin(); at != out.end();) {
    const auto marks = std::find_if(at, out.end(), [&](char32_t v) { return cls(v) != 0; });
    at = std::find_if(marks, out.end(), [&](char32_t v) { return cls(v) == 0; });
    graft::stable_sort(marks, at, [&](char32_t a, char32_t b) { return cls(a) < cls(b); });
  }
  return out;
}

std::string normal_form_c(std::string_view text) { return normal_form(NormalForm::c, text); }

std::string normal_form(NormalForm form, std::string_view text) {
  if (std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; })) {
    return std::string(text);
  }
  const bool compatible = form == NormalForm::kc || form == NormalForm::kd;
  const bool composes = form == NormalForm::c || form == NormalForm::kc;
  std::string out;
  std::u32string run;
  const auto flush = [&] {
    const std::u32string parts = normal_form_d(run, compatible);
    for (const char32_t value : composes ? compose(parts) : parts) append_utf8(out, value);
    run.clear();
  };
  for (const CodePoint& point : code_points(text)) {
    if (point.value != kInvalidByte) {
      run += point.value;
      continue;
    }
    flush();
    out += text[point.begin];
  }
  flush();
  return out;
}

}  // namespace graft::text
