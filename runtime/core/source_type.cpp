#include "runtime/core/source_type.h"

#include <array>
#include <cstring>
#include <limits>
#include <type_traits>

#include "platform/base/half.h"

namespace graft {
namespace {

constexpr std::array kTypes = {
    SourceTypeInfo{"int8", "|i1", 1, DType::i32},    SourceTypeInfo{"uint8", "|u1", 1, DType::i32},
    SourceTypeInfo{"int16", "<i2", 2, DType::i32},   SourceTypeInfo{"uint16", "<u2", 2, DType::i32},
    SourceTypeInfo{"uint32", "<u4", 4, DType::i32},  SourceTypeInfo{"int64", "<i8", 8, DType::i32},
    SourceTypeInfo{"uint64", "<u8", 8, DType::i32},  SourceTypeInfo{"float64", "<f8", 8, DType::f32},
    SourceTypeInfo{"float16", "<f2", 2, DType::f32}, SourceTypeInfo{"bfloat16", "", 2, DType::f32},
};

template <typename Word, typename Element>
Status convert(SourceType type, std::span<const std::byte> words, std::span<std::byte> out, Element (*element)(Word)) {
  for (std::size_t i = 0; i < words.size() / sizeof(Word); ++i) {
    Word word;
    std::memcpy(&word, words.data() + i * sizeof(Word), sizeof(Word));
    if constexpr (std::is_integral_v<Word>) {
      const bool fits = std::is_unsigned_v<Element> ? word >= 0 : true;
      if (!fits || std::int64_t{word} < static_cast<std::int64_t>(std::numeric_limits<Element>::min()) ||
          (sizeof(Element) < 4 && word > static_cast<Word>(std::numeric_limits<Element>::max()))) {
        return invalid("Element ", i, " is ", word, ", which ", source_type_info(type).name, " does not hold.");
      }
    }
    const Element made = element(word);
    std::memcpy(out.data() + i * sizeof(Element), &made, sizeof(Element));
  }
  return ok_status();
}

template <typename Element>
Element as(std::int32_t word) {
  return static_cast<Element>(word);
}

}  // namespace

const SourceTypeInfo& source_type_info(SourceType type) { return kTypes[static_cast<std::size_t>(type) - 1]; }

Status words_to_source(SourceType type, std::span<const std::byte> words, std::span<std::byte> out) {
  if (type == SourceType::same || words.size() / 4 != out.size() / source_type_info(type).bytes) {
    return internal_error("Words of ", words.size(), " bytes do not become ", out.size(), " bytes.");
  }
  switch (type) {
    case SourceType::i8: return convert<std::int32_t>(type, words, out, as<std::int8_t>);
    case SourceType::u8: return convert<std::int32_t>(type, words, out, as<std::uint8_t>);
    case SourceType::i16: return convert<std::int32_t>(type, words, out, as<std::int16_t>);
    case SourceType::u16: return convert<std::int32_t>(type, words, out, as<std::uint16_t>);
    case SourceType::u32: return convert<std::int32_t>(type, words, out, as<std::uint32_t>);
    case SourceType::i64: return convert<std::int32_t>(type, words, out, as<std::int64_t>);
    case SourceType::u64: return convert<std::int32_t>(type, words, out, as<std::uint64_t>);
    case SourceType::f64: return convert<float, double>(type, words, out, [](float x) { return double{x}; });
    case SourceType::f16: return convert<float, std::uint16_t>(type, words, out, float_to_half);
    case SourceType::bf16: return convert<float, std::uint16_t>(type, words, out, float_to_bfloat);
    case SourceType::same: break;
  }
  return ok_status();
}

}  // namespace graft
