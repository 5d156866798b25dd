// What is in unicode.bin: tools/dev/unicode_tables.py describes and writes it.
#include "runtime/text/unicode/unicode_table.h"

#include <array>
#include <cstddef>

namespace graft::text {

// The file's bytes; CMake writes their definition.
extern const unsigned char kUnicodeData[];
extern const unsigned long kUnicodeBytes;

namespace {

enum Section : std::uint8_t { categories, combining, scripts, ages, lower, canonical, compatible, names };

/// Reads the numbers of one section.
class Numbers {
 public:
  explicit Numbers(Section section) {
    std::array<std::size_t, names> sizes{};
    for (std::size_t& size : sizes) size = next();
    for (std::size_t i = 0; i < section; ++i) at_ += sizes[i];
  }
  std::uint32_t next() {
    std::uint32_t out = 0;
    for (int shift = 0;; shift += 7) {
      out |= static_cast<std::uint32_t>(kUnicodeData[at_] & 127) << shift;
      if ((kUnicodeData[at_++] & 128) == 0) return out;
    }
  }
  std::int32_t next_signed() {
    const std::uint32_t value = next();
    return (value & 1) == 0 ? static_cast<std::int32_t>(value / 2) : -static_cast<std::int32_t>(value / 2) - 1;
  }
  std::size_t at() const { return at_; }

 private:
  std::size_t at_ = 0;
};

std::vector<std::uint32_t> runs(Section section) {
  Numbers numbers(section);
  std::vector<std::uint32_t> out(numbers.next());
  std::uint32_t begin = 0;
  for (std::uint32_t& run : out) {
    begin += numbers.next();
    run = begin << 8;
    run |= numbers.next();
  }
  return out;
}

}  // namespace

const std::vector<std::uint32_t>& category_runs() {
  static const auto table = runs(categories);
  return table;
}

const std::vector<std::uint32_t>& combining_runs() {
  static const auto table = runs(combining);
  return table;
}

const std::vector<std::uint32_t>& script_runs() {
  static const auto table = runs(scripts);
  return table;
}

const std::vector<std::uint32_t>& age_runs() {
  static const auto table = runs(ages);
  return table;
}

const std::vector<LowerRun>& lower_runs() {
  static const auto table = [] {
    Numbers numbers(lower);
    std::vector<LowerRun> out(numbers.next());
    std::uint32_t end = 0;
    for (LowerRun& run : out) {
      run.first = end + numbers.next();
      run.last = end = run.first + numbers.next();
      run.step = numbers.next();
      run.delta = numbers.next_signed();
    }
    return out;
  }();
  return table;
}

const std::vector<std::uint64_t>& decompositions() {
  static const auto table = [] {
    Numbers numbers(canonical);
    std::vector<std::uint64_t> out(numbers.next());
    std::uint64_t value = 0;
    for (std::uint64_t& one : out) {
      const std::uint32_t step = numbers.next();
      value += step >> 1;
      one = value << 43 | std::uint64_t{numbers.next()} << 22;
      one |= std::uint64_t{numbers.next()} << 1 | (step & 1);
    }
    return out;
  }();
  return table;
}

const Compatibility& compatibility_table() {
  static const auto table = [] {
    Numbers numbers(compatible);
    Compatibility out;
    out.places.resize(numbers.next());
    std::uint64_t value = 0;
    for (std::uint64_t& place : out.places) {
      value += numbers.next();
      const std::uint32_t count = numbers.next();
      place = value << 40 | std::uint64_t{count} << 24 | out.parts.size();
      for (std::uint32_t i = 0; i < count; ++i) out.parts.push_back(numbers.next());
    }
    return out;
  }();
  return table;
}

const std::vector<std::string_view>& script_names() {
  static const auto table = [] {
    const std::size_t begin = Numbers(names).at();
    std::string_view all(reinterpret_cast<const char*>(kUnicodeData) + begin, kUnicodeBytes - begin);
    std::vector<std::string_view> out;
    for (std::size_t end = 0; end != std::string_view::npos; all.remove_prefix(end + 1)) {
      end = all.find(',');
      out.push_back(all.substr(0, end));
      if (end == std::string_view::npos) break;
    }
    return out;
  }();
  return table;
}

}  // namespace graft::text
