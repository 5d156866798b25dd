// The words of a kernel as bytes that compress to a third of what the words do: graft_pack_kernels writes them, the
// library reads them, and the words are the same again.
//
// A number is what is left of it when the instructions before it are known. An id that a function computed is how many
// results ago that was; one of a type, a constant or a variable is how many others were used since (its rank); one that
// is yet to come, and a new one, is how far it lies from the last one. So the same lines of GLSL become the same bytes
// wherever they stand, whatever ids the compiler gave them, and zstd finds them again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <new>
#include <span>
#include <string>

namespace graft::shaders {

/// An instruction's operands, a letter each: t the id of its type, r that of its result, i another id, D one that a
/// decoration is for, l a number; I and L the rest, as many as there are. Null: all are numbers. Nothing depends on
/// their truth but the size.
struct KernelOperands {
  std::uint16_t first, last;  ///< opcodes
  char kinds[6];
};
inline constexpr KernelOperands kKernelOperands[] = {
    {0, 0, ""},
    {11, 11, "rL"},     {12, 12, "trilI"},    {14, 14, "ll"},     {15, 15, "liL"},    {16, 16, "ilL"},
    {17, 17, "l"},      {19, 20, "r"},      {21, 21, "rll"},    {22, 22, "rL"},     {23, 24, "ril"},
    {28, 28, "rii"},    {29, 29, "ri"},     {30, 30, "rI"},     {32, 32, "rli"},    {33, 33, "riI"},
    {41, 42, "tr"},     {43, 43, "trL"},    {44, 44, "trI"},    {46, 46, "tr"},     {48, 49, "tr"},
    {50, 50, "trL"},    {51, 51, "trI"},    {52, 52, "trlI"},     {54, 54, "trli"},     {55, 55, "tr"},
    {56, 56, ""},       {57, 57, "triI"},     {59, 59, "trlI"},     {61, 61, "tri"},    {62, 62, "ii"},
    {65, 66, "triI"},     {68, 68, "tril"},     {71, 71, "DlL"},    {72, 72, "DllL"},     {77, 77, "trii"},
    {78, 78, "triii"},    {79, 79, "triiL"},    {80, 80, "trI"},    {81, 81, "triL"},     {82, 82, "triiL"},
    {83, 84, "tri"},    {109, 127, "tri"},    {128, 152, "trii"},   {154, 157, "tri"},    {164, 167, "trii"},
    {168, 168, "tri"},    {169, 169, "triii"},  {170, 191, "trii"},   {194, 199, "trii"},   {200, 200, "tri"},
    {201, 201, "triii"},  {203, 203, "triii"},  {204, 205, "tri"},    {224, 224, "iii"},    {225, 225, "ii"},
    {227, 227, "triii"},  {228, 228, "iiii"},   {229, 242, "trI"},    {245, 245, "trI"},    {246, 246, "iil"},
    {247, 247, "il"},     {248, 248, "r"},    {249, 249, "i"},    {250, 250, "iii"},    {251, 251, "iiL"},
    {252, 253, ""},     {254, 254, "i"},    {255, 255, ""},     {331, 331, "ilI"},    {333, 366, "trI"},
    {4456, 4456, "rI"},   {4457, 4457, "trI"},  {4458, 4458, "I"},    {4459, 4460, "trI"},
};

/// Rows of kKernelOperands by opcode; 0: none. Cooperative matrices, whose opcodes are high, stand at the end.
inline constexpr auto kKernelOperandRows = [] {
  std::array<std::uint8_t, 512> rows{};
  for (std::size_t row = 1; row < std::size(kKernelOperands); ++row) {
    for (std::size_t opcode = kKernelOperands[row].first; opcode <= kKernelOperands[row].last; ++opcode) {
      if (opcode >= 4400) rows[384 + opcode - 4400] = static_cast<std::uint8_t>(row);
      if (opcode < 384) rows[opcode] = static_cast<std::uint8_t>(row);
    }
  }
  return rows;
}();
inline const char* kernel_operands(std::uint32_t opcode) {
  std::size_t row = 0;
  if (opcode < 384) row = kKernelOperandRows[opcode];
  if (opcode >= 4400 && opcode < 4528) row = kKernelOperandRows[384 + opcode - 4400];
  return row == 0 ? nullptr : kKernelOperands[row].kinds;
}

/// Goes through a kernel's words, which Bytes takes or gives: `bool operator()(std::uint64_t& number)` writes one, or
/// reads it, and says whether there was one. The same steps both ways.
template <typename Bytes, bool kReads>
class KernelCoder {
 public:
  explicit KernelCoder(Bytes& bytes) : number_(bytes) {}

  /// False where the bytes end too early, the words are none of a kernel's, or there is no memory.
  bool run(std::uint32_t* words, std::size_t count) {
    constexpr std::size_t kHeader = 5, kMostIds = 1 << 22;
    if (count < kHeader) return false;
    for (std::size_t i = 0; i < kHeader; ++i) {
      if (!plain(words[i])) return false;
    }
    bound_ = words[3];
    if (bound_ > kMostIds) return false;
    places_.reset(new (std::nothrow) std::uint32_t[bound_]());
    results_.ids.reset(new (std::nothrow) std::uint32_t[bound_]);
    ranked_.ids.reset(new (std::nothrow) std::uint32_t[bound_]);
    types_.ids.reset(new (std::nothrow) std::uint32_t[bound_]);
    if (places_ == nullptr || results_.ids == nullptr || ranked_.ids == nullptr || types_.ids == nullptr) return false;
    for (std::size_t at = kHeader; at < count;) {
      const std::size_t size = instruction(words + at, count - at);
      if (size == 0) return false;
      at += size;
    }
    return true;
  }

 private:
  /// Ids by how lately they were used: the last one stands at the end.
  struct Ranks {
    std::unique_ptr<std::uint32_t[]> ids;
    std::size_t size = 0;

    std::size_t rank(std::uint32_t id) const {
      std::size_t rank = 0;
      while (rank < size && ids[size - 1 - rank] != id) ++rank;
      return rank;
    }
    std::uint32_t use(std::size_t rank) {
      std::uint32_t* const place = ids.get() + (size - 1 - rank);
      const std::uint32_t id = *place;
      std::memmove(place, place + 1, rank * sizeof(std::uint32_t));
      return ids[size - 1] = id;
    }
  };

  /// Small where two numbers are near each other, whichever is larger.
  static std::uint32_t folded(std::uint32_t difference) { return difference << 1 ^ (0 - (difference >> 31)); }
  static std::uint32_t unfolded(std::uint64_t code) {
    const auto low = static_cast<std::uint32_t>(code);
    return low >> 1 ^ (0 - (low & 1));
  }

  bool plain(std::uint32_t& word) {
    std::uint64_t number = word;
    const bool done = number_(number);
    if constexpr (kReads) word = static_cast<std::uint32_t>(number);
    return done;
  }
  bool near(std::uint32_t& word, std::uint32_t other) {
    std::uint64_t code = kReads ? 0 : folded(word - other);
    const bool done = number_(code);
    if constexpr (kReads) word = other + unfolded(code);
    return done;
  }

  bool type(std::uint32_t& id) {
    const std::size_t rank = kReads ? 0 : types_.rank(id);
    std::uint64_t code = rank < types_.size ? rank + 1 : 0;  // 0: used for the first time
    if (!number_(code) || code > types_.size) return false;
    if (code > 0) {
      const std::uint32_t used = types_.use(code - 1);
      if constexpr (kReads) id = used;
      return true;
    }
    if (!near(id, last_) || types_.size == bound_) return false;
    types_.ids[types_.size++] = id;
    return true;
  }

  bool result(std::uint32_t& id, bool ranked) {
    if (!near(id, last_ + 1) || id >= bound_ || places_[id] != 0) return false;
    last_ = id;
    results_.ids[results_.size++] = id;
    places_[id] = static_cast<std::uint32_t>(results_.size << 1) | static_cast<std::uint32_t>(ranked);
    if (ranked) ranked_.ids[ranked_.size++] = id;
    return true;
  }

  bool reference(std::uint32_t& id) {
    // The lowest bits say which way: 0, 01 and 11.
    std::uint64_t code = 0;
    if constexpr (!kReads) {
      const std::uint32_t place = id < bound_ ? places_[id] : 0;
      if (place == 0) {
        code = static_cast<std::uint64_t>(folded(id - last_)) << 2 | 3;
      } else if ((place & 1) != 0) {
        code = static_cast<std::uint64_t>(ranked_.rank(id)) << 2 | 1;
      } else {
        code = static_cast<std::uint64_t>(results_.size - (place >> 1)) << 1;
      }
    }
    if (!number_(code)) return false;
    std::uint32_t found = last_ + unfolded(code >> 2);
    if ((code & 1) == 0) {
      if (code >> 1 >= results_.size) return false;
      found = results_.ids[results_.size - 1 - (code >> 1)];
    } else if ((code & 2) == 0) {
      if (code >> 2 >= ranked_.size) return false;
      found = ranked_.use(code >> 2);
    }
    if constexpr (kReads) id = found;
    return found == id;
  }

  /// The instruction that `words` begin with, of `left` words; how many are its, 0 where it fails.
  std::size_t instruction(std::uint32_t* words, std::size_t left) {
    constexpr std::uint32_t kNumbersOnly = 255, kLarge = 254;  // in place of an opcode, which follows
    std::uint32_t opcode = words[0] & 0xffff, size = words[0] >> 16;
    if (!kReads && (size == 0 || size > left)) return 0;
    const char* operands = kernel_operands(opcode);
    std::uint32_t known = 1;  // words that any such instruction has
    bool more = false;
    const auto count_operands = [&] {
      known = 1;
      for (const char* kind = operands; kind != nullptr && *kind != 0; ++kind) {
        if (*kind == 'I' || *kind == 'L') more = true;
        if (*kind != 'I' && *kind != 'L') ++known;
      }
    };
    count_operands();
    std::uint32_t head = opcode < kLarge ? opcode : kLarge;
    if (operands == nullptr || (more ? size < known : size != known)) head = kNumbersOnly;
    if (!plain(head)) return 0;
    if (head < kLarge) opcode = head;
    if (head >= kLarge && !plain(opcode)) return 0;
    if constexpr (kReads) {
      operands = kernel_operands(opcode);
      more = false;
      count_operands();
    }
    if (head == kNumbersOnly) {
      operands = "L";
      known = 1;
      more = true;
    }
    if (operands == nullptr) return 0;
    std::uint32_t rest = kReads ? 0 : size - known;
    if (more && !plain(rest)) return 0;
    size = known + rest;
    if (opcode > 0xffff || rest > 0xffff || size > 0xffff || size > left) return 0;
    words[0] = size << 16 | opcode;
    if (opcode == kFunction) in_function_ = true;
    std::uint32_t* word = words + 1;
    for (const char* kind = operands; *kind != 0; ++kind) {
      const bool repeats = *kind == 'I' || *kind == 'L';
      for (std::uint32_t i = 0; i < (repeats ? rest : 1); ++i) {
        if (!operand(*kind, *word++, opcode)) return 0;
      }
    }
    return size;
  }

  bool operand(char kind, std::uint32_t& word, std::uint32_t opcode) {
    switch (kind) {
      case 't': return type(word);
      case 'r': return result(word, !in_function_ || opcode == kFunction || opcode == kParameter || opcode == kVariable);
      case 'i':
      case 'I': return reference(word);
      case 'D': {
        const bool done = near(word, decorated_);
        decorated_ = word;
        return done;
      }
      default: return plain(word);
    }
  }

  static constexpr std::uint32_t kFunction = 54, kParameter = 55, kVariable = 59;
  Bytes& number_;
  std::uint32_t bound_ = 0, last_ = 0, decorated_ = 0;
  bool in_function_ = false;
  std::unique_ptr<std::uint32_t[]> places_;  ///< by id: 0 unknown, else twice the count of results with it, + 1 if ranked
  Ranks results_;                            ///< in order
  Ranks ranked_, types_;
};

/// Numbers as bytes, seven bits each, the lowest first.
struct NumberWriter {
  std::string bytes;

  bool operator()(std::uint64_t number) {
    for (; number >= 128; number >>= 7) bytes += static_cast<char>(number | 128);
    bytes += static_cast<char>(number);
    return true;
  }
};
struct NumberReader {
  std::span<const std::byte> bytes;

  bool operator()(std::uint64_t& number) {
    number = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (bytes.empty()) return false;
      const auto byte = static_cast<std::uint64_t>(bytes.front());
      bytes = bytes.subspan(1);
      number |= (byte & 127) << shift;
      if (byte < 128) return true;
    }
    return false;
  }
};

/// Appends the bytes for `words`; false where they are no kernel's.
inline bool write_kernel(std::span<const std::uint32_t> words, std::string& bytes) {
  std::string copy(reinterpret_cast<const char*>(words.data()), words.size_bytes());
  NumberWriter writer;
  KernelCoder<NumberWriter, false> coder(writer);
  if (!coder.run(reinterpret_cast<std::uint32_t*>(copy.data()), words.size())) return false;
  bytes += writer.bytes;
  return true;
}

/// The words that `bytes` begin with; false where they do not hold as many.
inline bool read_kernel(std::span<const std::byte> bytes, std::span<std::uint32_t> words) {
  NumberReader reader{bytes};
  KernelCoder<NumberReader, true> coder(reader);
  return coder.run(words.data(), words.size());
}

}  // namespace graft::shaders
