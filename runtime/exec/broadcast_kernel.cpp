#include "runtime/exec/broadcast_kernel.h"

#include <algorithm>
#include <map>
#include <set>

#include "runtime/exec/spirv_module.h"

namespace graft {
namespace spirv {
namespace {

constexpr auto kEntryPoint = static_cast<Op>(15);
constexpr auto kBroadcast = static_cast<Op>(337);
constexpr std::uint16_t kShuffle = 345;
constexpr Word kCapabilityBallot = 64;  // GroupNonUniformBallot: broadcasts are among its operations
constexpr Word kVersion15 = 0x00010500;
constexpr std::size_t kHeaderWords = 5, kVersionAt = 1;

/// What is the same for all invocations though the invocation's number goes into it: sums of a number under the mask 0
/// and another.
class Masked {
 public:
  void note(const Instruction& i) {
    const auto is_zero = [&](Id id) { return zeros_.contains(id); };
    if (i.op == kConstant && i.size() == 4 && i[3] == 0) zeros_.insert(i[2]);
    if (i.op == kBitwiseAnd && (is_zero(i[3]) || is_zero(i[4]))) zeros_.insert(i[2]);
    if (i.op == kIAdd && is_zero(i[3])) sums_[i[2]] = i[4];
    if (i.op == kIAdd && is_zero(i[4])) sums_[i[2]] = i[3];
    if (i.op == kVariable) variables_.push_back(i[2]);
    if (i.op == kFunction) in_functions_ = true;
    if (i.op == kVariable && in_functions_) variables_.pop_back();
    if (i.op == kShuffle && lane(i[5]) != 0) ++shuffles_;
  }

  /// The other number of the sum; 0: it is none.
  Id lane(Id id) const {
    const auto found = sums_.find(id);
    return found == sums_.end() ? 0 : found->second;
  }
  bool any() const { return shuffles_ != 0; }
  const std::vector<Id>& variables() const { return variables_; }  ///< outside of functions

 private:
  std::set<Id> zeros_;
  std::map<Id, Id> sums_;
  std::vector<Id> variables_;
  bool in_functions_ = false;
  std::size_t shuffles_ = 0;
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

std::vector<std::uint32_t> shuffles_as_broadcasts(std::span<const std::uint32_t> spirv) {
  using namespace spirv;
  Masked masked;
  if (!for_each_instruction(spirv, [&](const Instruction& i) { masked.note(i); }) || !masked.any()) {
    return {spirv.begin(), spirv.end()};
  }
  Words out(spirv.begin(), spirv.begin() + kHeaderWords);
  out[kVersionAt] = std::max(out[kVersionAt], kVersion15);
  append(out, kCapability, {kCapabilityBallot});
  for_each_instruction(spirv, [&](const Instruction& i) {
    const Id lane = i.op == kShuffle ? masked.lane(i[5]) : 0;
    if (i.op == kCapability && i[1] == kCapabilityBallot) return;
    if (lane != 0) return append(out, kBroadcast, {i[1], i[2], i[3], i[4], lane});
    if (i.op == kEntryPoint) return put_entry_point(i, masked.variables(), out);
    append_words(out, i.words);
  });
  return out;
}

}  // namespace graft
