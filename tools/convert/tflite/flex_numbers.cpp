#include "tools/convert/tflite/flex_numbers.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>

namespace graft::convert {
namespace {

// Numbers of the format: what the upper six bits of a type say. The lower two say how wide what it points at is.
enum : std::uint8_t {
  kInt = 1,
  kUint = 2,
  kFloat = 3,
  kIndirectInt = 6,
  kIndirectUint = 7,
  kIndirectFloat = 8,
  kMap = 9,
  kBool = 26,
};
constexpr std::uint64_t kMostEntries = 1024;
constexpr std::size_t kLongestKey = 256;

/// Every place is looked at before it is read. Offsets point backwards, so that nothing is met twice without end.
class FlexReader {
 public:
  explicit FlexReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  Result<FlexNumbers> read() {
    // ..., root, its type, its width
    if (bytes_.size() < 3) return corrupt("its options end too early");
    const std::uint64_t width = byte_at(bytes_.size() - 1), end = bytes_.size() - 2;
    const std::uint8_t type = byte_at(bytes_.size() - 2);
    if (type >> 2 != kMap || !is_width(width) || end < width) return corrupt("its options are no map");
    const auto map = target(end - width, width);
    if (!map) return corrupt("its options reach beyond their end");
    return entries(*map, std::uint64_t{1} << (type & 3));
  }

 private:
  static bool is_width(std::uint64_t width) { return width == 1 || width == 2 || width == 4 || width == 8; }
  std::uint8_t byte_at(std::uint64_t at) const { return static_cast<std::uint8_t>(bytes_[at]); }
  bool has(std::uint64_t at, std::uint64_t count) const { return at <= bytes_.size() && count <= bytes_.size() - at; }

  std::optional<std::uint64_t> word(std::uint64_t at, std::uint64_t width) const {
    if (!is_width(width) || !has(at, width)) return std::nullopt;
    std::uint64_t value = 0;
    for (std::uint64_t i = width; i-- > 0;) value = value << 8 | byte_at(at + i);
    return value;
  }
  /// What the offset that stands at a place points at.
  std::optional<std::uint64_t> target(std::uint64_t at, std::uint64_t width) const {
    const auto back = word(at, width);
    return back && *back <= at ? std::optional(at - *back) : std::nullopt;
  }

  static std::optional<double> number(std::uint64_t bits, std::uint64_t width, std::uint8_t kind) {
    if (kind == kUint || kind == kIndirectUint || kind == kBool) return static_cast<double>(bits);
    if (kind == kInt || kind == kIndirectInt) {
      const unsigned unused = static_cast<unsigned>(64 - 8 * width);
      return static_cast<double>(static_cast<std::int64_t>(bits << unused) >> unused);
    }
    if (width == 8) return std::bit_cast<double>(bits);
    if (width == 4) return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    return std::nullopt;  // halves: no writer makes them
  }

  std::optional<std::string> key_at(std::uint64_t at, std::uint64_t width) const {
    const auto start = target(at, width);
    if (!start) return std::nullopt;
    std::string key;
    for (std::uint64_t i = *start; i < bytes_.size() && key.size() <= kLongestKey; ++i) {
      if (byte_at(i) == 0) return key;
      key += static_cast<char>(byte_at(i));
    }
    return std::nullopt;
  }

  /// Before a map stand the offset of its keys, their width and its size; behind its values their types.
  Result<FlexNumbers> entries(std::uint64_t map, std::uint64_t width) const {
    const Status broken = corrupt("its options reach beyond their end");
    if (map < 3 * width) return broken;
    const auto keys = target(map - 3 * width, width), key_width = word(map - 2 * width, width);
    const auto size = word(map - width, width);
    if (!keys || !key_width || !is_width(*key_width) || !size || *size > kMostEntries ||
        !has(map, *size * (width + 1))) {
      return broken;
    }
    FlexNumbers numbers;
    for (std::uint64_t i = 0; i < *size; ++i) {
      const auto key = key_at(*keys + i * *key_width, *key_width);
      if (!key) return broken;
      const std::uint8_t type = byte_at(map + *size * width + i), kind = type >> 2;
      const std::uint64_t at = map + i * width;
      const bool indirect = kind == kIndirectInt || kind == kIndirectUint || kind == kIndirectFloat;
      if (!indirect && kind != kInt && kind != kUint && kind != kFloat && kind != kBool) continue;
      const std::uint64_t own = indirect ? std::uint64_t{1} << (type & 3) : width;
      const auto place = indirect ? target(at, width) : std::optional(at);
      const auto bits = place ? word(*place, own) : std::nullopt;
      const auto value = bits ? number(*bits, own, kind) : std::nullopt;
      if (!value) return broken;
      numbers[*key] = *value;
    }
    return numbers;
  }

  std::span<const std::byte> bytes_;
};

}  // namespace

Result<FlexNumbers> read_flex_numbers(std::span<const std::byte> bytes) { return FlexReader(bytes).read(); }

}  // namespace graft::convert
