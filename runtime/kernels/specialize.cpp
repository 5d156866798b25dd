#include "runtime/kernels/specialize.h"

#include <algorithm>
#include <map>
#include <optional>

#include "platform/gpu/quirks.h"
#include "runtime/kernels/spirv_module.h"

namespace graft {
namespace {

using namespace spirv;

// Opcodes that no other part names.
enum : std::uint16_t {
  kConstantTrue = 41,
  kConstantFalse = 42,
  kSpecConstantTrue = 48,
  kSpecConstantFalse = 49,
  kSpecConstant = 50,
  kSpecConstantComposite = 51,
  kSNegate = 126,
  kUDiv = 134,
  kSDiv = 135,
  kUMod = 137,
  kLogicalEqual = 164,
  kLogicalNotEqual = 165,
  kLogicalOr = 166,
  kLogicalAnd = 167,
  kLogicalNot = 168,
  kIEqual = 170,
  kINotEqual = 171,
  kSGreaterThan = 173,
  kSGreaterThanEqual = 175,
  kSLessThan = 177,
  kULessThanEqual = 178,
  kSLessThanEqual = 179,
  kBitwiseXor = 198,
  kNot = 200,
};
constexpr Word kDecorationSpecId = 1;

std::optional<Word> divided(std::uint16_t op, Word a, Word b) {
  const auto sa = static_cast<std::int32_t>(a);
  const auto sb = static_cast<std::int32_t>(b);
  if (b == 0 || (op == kSDiv && sa == INT32_MIN && sb == -1)) return std::nullopt;  // undefined: the driver's to say
  if (op == kSDiv) return static_cast<Word>(sa / sb);
  return op == kUDiv ? a / b : a % b;
}

// An operation with two operands; booleans are 0 and 1.
std::optional<Word> binary(std::uint16_t op, Word a, Word b) {
  const auto sa = static_cast<std::int32_t>(a);
  const auto sb = static_cast<std::int32_t>(b);
  switch (op) {
    case kIAdd: return a + b;
    case kISub: return a - b;
    case kIMul: return a * b;
    case kUDiv:
    case kSDiv:
    case kUMod: return divided(op, a, b);
    case kShiftRightLogical: return b < 32 ? std::optional(a >> b) : std::nullopt;
    case kShiftLeftLogical: return b < 32 ? std::optional(a << b) : std::nullopt;
    case kBitwiseOr:
    case kLogicalOr: return a | b;
    case kBitwiseAnd:
    case kLogicalAnd: return a & b;
    case kBitwiseXor: return a ^ b;
    case kIEqual:
    case kLogicalEqual: return a == b ? 1 : 0;
    case kINotEqual:
    case kLogicalNotEqual: return a != b ? 1 : 0;
    case kUGreaterThan: return a > b ? 1 : 0;
    case kUGreaterThanEqual: return a >= b ? 1 : 0;
    case kULessThan: return a < b ? 1 : 0;
    case kULessThanEqual: return a <= b ? 1 : 0;
    case kSGreaterThan: return sa > sb ? 1 : 0;
    case kSGreaterThanEqual: return sa >= sb ? 1 : 0;
    case kSLessThan: return sa < sb ? 1 : 0;
    case kSLessThanEqual: return sa <= sb ? 1 : 0;
    default: return std::nullopt;
  }
}

class Specializer {
 public:
  explicit Specializer(std::span<const Word> values) : values_(values) {}

  void note(const Instruction& i) {
    if (i.op == kTypeBool) booleans_ = i[1];
    if (i.op == kTypeInt && i[2] == 32) integers_.push_back(i[1]);
    if (i.op == kDecorate && i.size() == 4 && i[2] == kDecorationSpecId) ids_[i[1]] = i[3];
  }

  void put(const Instruction& i, Words& out) {
    switch (i.op) {
      case kDecorate:
        if (i[2] != kDecorationSpecId) break;
        return;
      case kConstant:
        if (i.size() == 4) known_[i[2]] = i[3];
        break;
      case kConstantTrue: known_[i[2]] = 1; break;
      case kConstantFalse: known_[i[2]] = 0; break;
      case kSpecConstantTrue: return constant(out, i[1], i[2], value(i[2], 1));
      case kSpecConstantFalse: return constant(out, i[1], i[2], value(i[2], 0));
      case kSpecConstant:
        if (i.size() == 4) return constant(out, i[1], i[2], value(i[2], i[3]));
        break;
      case kConstantComposite:
      case kSpecConstantComposite:
        composites_[i[2]] = {i.words.begin() + 3, i.words.end()};
        return append(out, kConstantComposite, {i[1], i[2]}, i.words.subspan(3));
      case kSpecConstantOp:
        if (const auto result = evaluate(i)) return constant(out, i[1], i[2], *result);
        break;
      default: break;
    }
    out.insert(out.end(), i.words.begin(), i.words.end());
  }

 private:
  Word value(Id id, Word otherwise) const {
    const auto found = ids_.find(id);
    return found != ids_.end() && found->second < values_.size() ? values_[found->second] : otherwise;
  }

  void constant(Words& out, Id type, Id id, Word word) {
    if (type == booleans_) {
      known_[id] = word != 0 ? 1 : 0;
      return append(out, static_cast<spirv::Op>(word != 0 ? kConstantTrue : kConstantFalse), {type, id});
    }
    known_[id] = word;
    append(out, kConstant, {type, id, word});
  }

  std::optional<Word> operand(const Instruction& i, std::size_t at) const {
    const auto found = at < i.size() ? known_.find(i[at]) : known_.end();
    return found == known_.end() ? std::nullopt : std::optional(found->second);
  }

  // The words of an OpSpecConstantOp: type, result, operation, operands.
  std::optional<Word> evaluate(const Instruction& i) const {
    if (i[1] != booleans_ && std::ranges::find(integers_, i[1]) == integers_.end()) return std::nullopt;
    const auto op = static_cast<std::uint16_t>(i[3]);
    if (op == kCompositeExtract) {
      const auto composite = composites_.find(i[4]);
      if (composite == composites_.end() || i.size() != 6 || i[5] >= composite->second.size()) return std::nullopt;
      const auto found = known_.find(composite->second[i[5]]);
      return found == known_.end() ? std::nullopt : std::optional(found->second);
    }
    const auto a = operand(i, 4);
    if (!a) return std::nullopt;
    if (op == kSNegate) return 0u - *a;
    if (op == kNot) return ~*a;
    if (op == kLogicalNot) return 1u - *a;
    const auto b = operand(i, 5);
    if (op == kSelect) return *a != 0 ? b : operand(i, 6);
    return b ? binary(op, *a, *b) : std::nullopt;
  }

  std::span<const Word> values_;
  std::map<Id, Word> ids_;    // constant_id by result
  std::map<Id, Word> known_;  // scalars of 32 bits and booleans
  std::map<Id, Words> composites_;
  Id booleans_ = 0;
  std::vector<Id> integers_;
};

}  // namespace

bool wants_plain_constants(const gpu::Caps& caps, std::string_view kernel, std::span<const std::uint32_t> values) {
  // Constants 1, 2 and 4 of gemm_shuffle.glsl and quantized.glsl: rows and columns of a lane, and a weight's format.
  constexpr std::uint32_t kMostSums = 128;
  const bool is_product = kernel.starts_with("matmul__") || kernel.starts_with("conv");
  return gpu::is_swiftshader(caps) && is_product && kernel.ends_with("_shuffle") && values.size() > 4 &&
         values[1] * values[2] <= kMostSums && values[4] == 0;
}

std::vector<std::uint32_t> specialize(std::span<const std::uint32_t> spirv, std::span<const std::uint32_t> values) {
  constexpr std::size_t kHeader = 5;
  Specializer specializer(values);
  if (!for_each_instruction(spirv, [&](const Instruction& i) { specializer.note(i); })) {
    return {spirv.begin(), spirv.end()};
  }
  std::vector<std::uint32_t> out(spirv.begin(), spirv.begin() + kHeader);
  out.reserve(spirv.size());
  for_each_instruction(spirv, [&](const Instruction& i) { specializer.put(i, out); });
  return out;
}

}  // namespace graft
