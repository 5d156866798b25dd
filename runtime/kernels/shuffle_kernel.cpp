#include "runtime/kernels/shuffle_kernel.h"

#include <algorithm>
#include <map>
#include <set>

#include "runtime/kernels/spirv_module.h"

namespace graft {
namespace spirv {
namespace {

constexpr auto kEntryPoint = static_cast<Op>(15);
constexpr auto kBroadcast = static_cast<Op>(337);
constexpr auto kQuadSwap = static_cast<Op>(366);
constexpr std::uint16_t kShuffle = 345, kShuffleXor = 346;
constexpr Word kCapabilityBallot = 64;  // GroupNonUniformBallot: broadcasts are among its operations
constexpr Word kCapabilityQuad = 68;    // GroupNonUniformQuad
constexpr Word kVersion15 = 0x00010500;
constexpr Word kDirections = 3;
constexpr std::size_t kHeaderWords = 5, kVersionAt = 1, kBoundAt = 3;

/// What shuffles name: lanes that are the same for all invocations though the invocation's number goes into them (sums
/// of a number under the mask 0 and another), and lanes that differ from the own one by a constant.
class Shuffles {
 public:
  void note(const Instruction& i) {
    const auto is_zero = [&](Id id) { return value(id) == 0; };
    if (i.op == kConstant && i.size() == 4) constants_[i[2]] = {i[1], i[3]};
    if (i.op == kBitwiseAnd && (is_zero(i[3]) || is_zero(i[4]))) constants_[i[2]] = {i[1], 0};
    if (i.op == kIAdd && is_zero(i[3])) sums_[i[2]] = i[4];
    if (i.op == kIAdd && is_zero(i[4])) sums_[i[2]] = i[3];
    if (i.op == kVariable) variables_.push_back(i[2]);
    if (i.op == kFunction) in_functions_ = true;
    if (i.op == kVariable && in_functions_) variables_.pop_back();
    if (i.op == kShuffle && lane(i[5]) != 0) ++broadcasts_;
    if (is_swap(i)) number_ = constants_[i[5]].type;
  }

  bool is_swap(const Instruction& i) const {
    return i.op == kShuffleXor && value(i[5]) >= 1 && value(i[5]) <= kDirections;
  }
  /// Of a swap: 0 within pairs, 1 of pairs, 2 across.
  Word direction(const Instruction& swap) const { return value(swap[5]) - 1; }

  /// The other number of the sum; 0: it is none.
  Id lane(Id id) const {
    const auto found = sums_.find(id);
    return found == sums_.end() ? 0 : found->second;
  }
  bool broadcasts() const { return broadcasts_ != 0; }
  Id number_of_swaps() const { return number_; }  ///< type of the constants that name them; 0: there are none
  const std::vector<Id>& variables() const { return variables_; }  ///< outside of functions

 private:
  struct Constant {
    Id type = 0;
    Word value = 0;
  };
  static constexpr Word kNone = ~Word{0};
  Word value(Id id) const {
    const auto found = constants_.find(id);
    return found == constants_.end() ? kNone : found->second.value;
  }

  std::map<Id, Constant> constants_;
  std::map<Id, Id> sums_;
  std::vector<Id> variables_;
  bool in_functions_ = false;
  std::size_t broadcasts_ = 0;
  Id number_ = 0;
};

/// From version 1.4 on an entry point names all variables outside of functions that it uses.
void put_entry_point(const Instruction& i, const std::vector<Id>& variables, Words& out) {
  Words operands(i.words.begin() + 1, i.words.end());
  const auto named = std::ranges::find_if(i.words.subspan(3), [](Word w) { return w >> 24 == 0; });
  const std::set<Id> listed(named, i.words.end());  // behind the name, and the name's last word
  for (const Id id : variables) {
    if (!listed.contains(id)) operands.push_back(id);
  }
  append(out, kEntryPoint, {}, operands);
}

}  // namespace
}  // namespace spirv

std::vector<std::uint32_t> cheaper_shuffles(std::span<const std::uint32_t> spirv) {
  using namespace spirv;
  Shuffles shuffles;
  const bool whole = for_each_instruction(spirv, [&](const Instruction& i) { shuffles.note(i); });
  const bool broadcasts = shuffles.broadcasts(), swaps = shuffles.number_of_swaps() != 0;
  if (!whole || (!broadcasts && !swaps)) return {spirv.begin(), spirv.end()};
  Words out(spirv.begin(), spirv.begin() + kHeaderWords);
  out[kVersionAt] = std::max(out[kVersionAt], kVersion15);
  if (broadcasts) append(out, kCapability, {kCapabilityBallot});
  if (swaps) append(out, kCapability, {kCapabilityQuad});
  const spirv::Id directions = out[kBoundAt];  // three constants
  if (swaps) out[kBoundAt] += kDirections;
  bool in_functions = false;
  for_each_instruction(spirv, [&](const Instruction& i) {
    const spirv::Id lane = i.op == kShuffle ? shuffles.lane(i[5]) : 0;
    if (i.op == kCapability && (i[1] == kCapabilityBallot ? broadcasts : i[1] == kCapabilityQuad && swaps)) return;
    if (i.op == kFunction && !in_functions) {
      in_functions = true;
      for (Word d = 0; swaps && d < kDirections; ++d)
        append(out, kConstant, {shuffles.number_of_swaps(), directions + d, d});
    }
    if (lane != 0) return append(out, kBroadcast, {i[1], i[2], i[3], i[4], lane});
    if (shuffles.is_swap(i))
      return append(out, kQuadSwap, {i[1], i[2], i[3], i[4], directions + shuffles.direction(i)});
    if (i.op == kEntryPoint) return put_entry_point(i, shuffles.variables(), out);
    append_words(out, i.words);
  });
  return out;
}

}  // namespace graft
