// A SPIR-V module being changed: its sections, and types and constants by what they are.
// Numbers of instructions and their operands: the SPIR-V Specification, version 1.3, sections 2.4 and 3.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <vector>

namespace graft::spirv {

using Word = std::uint32_t;
using Id = std::uint32_t;
using Words = std::vector<Word>;

enum Op : std::uint16_t {
  kExtension = 10,
  kExtInstImport = 11,
  kExtInst = 12,
  kMemoryModel = 14,
  kCapability = 17,
  kTypeVoid = 19,
  kTypeBool = 20,
  kTypeInt = 21,
  kTypeFloat = 22,
  kTypeVector = 23,
  kTypeMatrix = 24,
  kTypeImage = 25,
  kTypeRuntimeArray = 29,
  kTypeStruct = 30,
  kTypePointer = 32,
  kTypeFunction = 33,
  kTypeForwardPointer = 39,
  kConstant = 43,
  kConstantComposite = 44,
  kSpecConstantOp = 52,
  kFunction = 54,
  kFunctionParameter = 55,
  kFunctionEnd = 56,
  kFunctionCall = 57,
  kVariable = 59,
  kLoad = 61,
  kStore = 62,
  kCopyMemory = 63,
  kAccessChain = 65,
  kArrayLength = 68,
  kDecorate = 71,
  kMemberDecorate = 72,
  kGroupMemberDecorate = 75,
  kVectorShuffle = 79,
  kCompositeConstruct = 80,
  kCompositeExtract = 81,
  kCopyObject = 83,
  kImageFetch = 95,
  kConvertUToF = 112,
  kUConvert = 113,
  kFConvert = 115,
  kBitcast = 124,
  kIAdd = 128,
  kFAdd = 129,
  kISub = 130,
  kIMul = 132,
  kFMul = 133,
  kSelect = 169,
  kUGreaterThan = 172,
  kUGreaterThanEqual = 174,
  kULessThan = 176,
  kShiftRightLogical = 194,
  kShiftLeftLogical = 196,
  kBitwiseOr = 197,
  kBitwiseAnd = 199,
  kAtomicLoad = 227,
  kAtomicAnd = 240,
  kAtomicOr = 241,
  kAtomicXor = 242,
  kPhi = 245,
  kLabel = 248,
  kReturnValue = 254,
};

inline constexpr Word kUniformConstant = 0;  // storage classes
inline constexpr Word kPushConstant = 9;
inline constexpr Word kStorageBuffer = 12;
inline constexpr Word kDecorationBlock = 2;
inline constexpr Word kDecorationColMajor = 5;
inline constexpr Word kDecorationArrayStride = 6;
inline constexpr Word kDecorationMatrixStride = 7;
inline constexpr Word kDecorationAliased = 20;
inline constexpr Word kDecorationNonWritable = 24;
inline constexpr Word kDecorationNonReadable = 25;
inline constexpr Word kDecorationBinding = 33;
inline constexpr Word kDecorationDescriptorSet = 34;
inline constexpr Word kDecorationOffset = 35;
inline constexpr Word kCapabilitySampledBuffer = 46;
inline constexpr Word kCapabilityStorageBuffer16 = 4433;
inline constexpr Word kPackHalf2x16 = 58;  // of GLSL.std.450
inline constexpr Word kUnpackHalf2x16 = 62;

/// One instruction in place.
struct Instruction {
  std::uint16_t op;
  std::span<const Word> words;  ///< with the first, which holds op and length
  Word operator[](std::size_t i) const { return words[i]; }
  std::size_t size() const { return words.size(); }
};

/// Calls visit(Instruction) for each, in order; false where the words are no sequence of instructions.
template <typename Visit>
bool for_each_instruction(std::span<const Word> words, Visit visit) {
  constexpr std::size_t kHeader = 5;
  if (words.size() < kHeader) return false;
  for (std::size_t at = kHeader; at < words.size();) {
    const std::size_t length = words[at] >> 16;
    if (length == 0 || length > words.size() - at) return false;
    visit(Instruction{static_cast<std::uint16_t>(words[at] & 0xffffu), words.subspan(at, length)});
    at += length;
  }
  return true;
}

inline void append(Words& to, Op op, std::initializer_list<Word> operands, std::span<const Word> rest = {}) {
  to.push_back(static_cast<Word>(1 + operands.size() + rest.size()) << 16 | op);
  to.insert(to.end(), operands);
  to.insert(to.end(), rest.begin(), rest.end());
}

inline void append_words(Words& to, std::span<const Word> words) { to.insert(to.end(), words.begin(), words.end()); }

/// Types and constants: found where the module has them, else declared in `declarations`.
class Types {
 public:
  void note(const Instruction& i);  ///< of the module as it came
  Id fresh() { return bound_++; }
  void set_bound(Id bound) { bound_ = bound; }
  Id bound() const { return bound_; }

  Id scalar(Op op, Word width) {
    return get({op, width}, op == kTypeInt ? std::vector<Word>{width, 0} : std::vector<Word>{width});
  }
  Id boolean() { return get({kTypeBool}, {}); }
  Id u32() { return scalar(kTypeInt, 32); }
  Id u16() { return scalar(kTypeInt, 16); }
  Id f32() { return scalar(kTypeFloat, 32); }
  Id f16() { return scalar(kTypeFloat, 16); }
  /// The component itself where n is 1.
  Id vector(Id component, Word n) { return n == 1 ? component : get({kTypeVector, component, n}, {component, n}); }
  Id pointer(Word storage_class, Id to) { return get({kTypePointer, storage_class, to}, {storage_class, to}); }
  Id storage_pointer(Id to) { return pointer(kStorageBuffer, to); }
  /// A buffer of texels of up to four u32, read through a variable of kUniformConstant.
  Id texel_buffer() {
    constexpr Word kBuffer = 5, kSampled = 1, kNoFormat = 0;
    return get({kTypeImage, u32()}, {u32(), kBuffer, 0, 0, 0, kSampled, kNoFormat});
  }
  Id function(Id result, Id parameter) { return get({kTypeFunction, result, parameter}, {result, parameter}); }
  /// A constant of u32; the same in all n components of a vector.
  Id constant(Word value, Word n = 1);
  Id float_constant(float value);

  struct Element {
    Id component = 0;  ///< of 32 bits
    Word n = 0;        ///< components; 0: the type is no number or vector of numbers
    bool is_float = false;
    bool is_signed = false;
  };
  Element element(Id type) const;
  /// The columns' type of a matrix of two columns of four 32-bit numbers, which is a pair of vectors; else 0.
  Id paired(Id type) const;
  Id pointee(Id pointer) const;
  /// The element of a structure's only member, a runtime array; 0 where it is something else.
  Id array_element(Id structure) const;

  Words declarations;

 private:
  Id get(std::vector<Word> key, const std::vector<Word>& operands);

  Id bound_ = 1;
  std::map<std::vector<Word>, Id> known_;  ///< by opcode and operands
  std::map<Id, std::vector<Word>> types_;  ///< opcode and operands by id
  std::map<std::pair<Word, Word>, Id> constants_;
};

}  // namespace graft::spirv
