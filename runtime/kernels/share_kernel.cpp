#include "runtime/kernels/share_kernel.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "runtime/kernels/spirv_module.h"

namespace graft {
namespace {

using spirv::Id;
using spirv::Instruction;
using spirv::Types;
using spirv::Word;
using spirv::Words;

struct Variable {
  Id pointer = 0;  ///< type
  Id structure = 0;
  Share share;
  bool moved = false;  ///< its elements begin where a word says
  Word shift = 0;      ///< elements in a unit, as a power of two
};

class Sharer {
 public:
  Sharer(std::span<const Word> words, std::span<const Share> shares, std::uint32_t push_bytes)
      : words_(words), shares_(shares), push_bytes_(push_bytes) {}

  Result<Words> run() {
    GRAFT_TRY(survey());
    Status status;
    out_.assign(words_.begin(), words_.begin() + 5);
    spirv::for_each_instruction(words_, [&](const Instruction& i) {
      if (!in_types_ && i.op >= spirv::kTypeVoid && i.op <= spirv::kSpecConstantOp) {
        in_types_ = true;
        decorate();
      }
      if (i.op == spirv::kFunction) begin_function(i);
      if (function_ != 0) {
        if (status.ok()) status = code(i);
      } else {
        declaration(i);
      }
    });
    GRAFT_TRY(std::move(status));
    // Constants and types that code asks for come to be known with it.
    out_.insert(out_.begin() + static_cast<std::ptrdiff_t>(types_end_), types_.declarations.begin(),
                types_.declarations.end());
    out_[3] = types_.bound();
    return std::move(out_);
  }

 private:
  Status survey() {
    std::map<Id, Word> strides;  // of arrays
    std::map<Id, Id> arrays;     // by the structure whose only member they are
    std::map<Id, Word> bindings;
    Id function = 0;
    bool integers = false;
    const bool whole = spirv::for_each_instruction(words_, [&](const Instruction& i) {
      types_.note(i);
      if (i.op == spirv::kDecorate && i.size() > 3 && i[2] == spirv::kDecorationBinding) bindings[i[1]] = i[3];
      if (i.op == spirv::kDecorate && i.size() > 3 && i[2] == spirv::kDecorationArrayStride) strides[i[1]] = i[3];
      if (i.op == spirv::kTypeStruct && i.size() == 3) arrays[i[1]] = i[2];
      if (i.op == spirv::kTypeStruct) members_[i[1]] = static_cast<Word>(i.size() - 2);
      if (i.op == spirv::kVariable && i[3] == spirv::kStorageBuffer) variables_[i[2]].pointer = i[1];
      if (i.op == spirv::kVariable && i[3] == spirv::kPushConstant) {
        push_ = i[2];
        push_structure_ = types_.pointee(i[1]);
      }
      if (i.op == spirv::kTypeInt && i[2] == 32 && i[3] == 0) integers = true;
      if (i.op == spirv::kFunction) function = i[2];
      if (i.op == spirv::kAccessChain || i.op == kInBoundsAccessChain) used_[function].insert(i[3]);
    });
    if (!whole) return invalid("Its SPIR-V is cut short.");
    types_.set_bound(words_[3]);
    for (auto& [id, variable] : variables_) {
      const auto binding = bindings.find(id);
      if (binding == bindings.end() || binding->second >= shares_.size()) {
        return invalid("It declares a binding beyond the ", shares_.size(), " that it is given.");
      }
      variable.share = shares_[binding->second];
      variable.structure = types_.pointee(variable.pointer);
      const bool array = types_.array_element(variable.structure) != 0;
      if (!array || variable.share.word == Share::kAtStart) continue;
      const Word stride = strides[arrays[variable.structure]];
      if (!std::has_single_bit(stride) || stride > Share::kUnit) {
        return unsupported("Its binding ", binding->second, " has elements of ", stride, " bytes.");
      }
      variable.moved = true;
      variable.shift = static_cast<Word>(std::countr_zero(Share::kUnit) - std::countr_zero(stride));
    }
    for (const Share& share : shares_) {
      if (share.word != Share::kAtStart) push_words_ = std::max(push_words_, share.word + 1u);
    }
    if (push_words_ != 0 && (push_ == 0 || !integers)) return unsupported("It has no push constants.");
    if (push_bytes_ < 4 * push_words_) return invalid("It has ", push_bytes_, " bytes of push constants in all.");
    return ok_status();
  }

  /// Bindings that have a buffer to themselves are as they were.
  bool is_shared(const Variable& variable) const {
    return std::count_if(shares_.begin(), shares_.end(),
                         [&](const Share& share) { return share.buffer == variable.share.buffer; }) > 1;
  }
  bool is_shared_structure(Id id) const {
    return std::any_of(variables_.begin(), variables_.end(),
                       [&](const auto& v) { return v.second.structure == id && is_shared(v.second); });
  }

  // ---- declarations

  void declaration(const Instruction& i) {
    if (i.op == spirv::kDecorate && variables_.contains(i[1])) {
      const Variable& variable = variables_[i[1]];
      if (i[2] == spirv::kDecorationBinding) {
        return spirv::append(out_, spirv::kDecorate, {i[1], i[2], variable.share.buffer});
      }
      if (is_access(i[2]) && is_shared(variable)) return;
    }
    // What one of them only reads another may write.
    if (i.op == spirv::kMemberDecorate && is_access(i[3]) && is_shared_structure(i[1])) return;
    if (i.op == spirv::kTypeInt && i[2] == 32 && i[3] == 0) {
      if (u32_there_) return;
      u32_there_ = true;
    }
    if (i.op == spirv::kTypeStruct && i[1] == push_structure_ && push_words_ != 0) return push_structure(i);
    spirv::append_words(out_, i.words);
  }

  static bool is_access(Word decoration) {
    return decoration == spirv::kDecorationNonWritable || decoration == spirv::kDecorationNonReadable;
  }

  void decorate() {
    for (const auto& [id, variable] : variables_) {
      if (is_shared(variable)) spirv::append(out_, spirv::kDecorate, {id, spirv::kDecorationAliased});
    }
    for (Word word = 0; word < push_words_; ++word) {
      const Word offset = push_bytes_ - 4 * (push_words_ - word);
      spirv::append(out_, spirv::kMemberDecorate,
                    {push_structure_, members_[push_structure_] + word, spirv::kDecorationOffset, offset});
    }
  }

  void push_structure(const Instruction& i) {
    const Id u32 = types_.u32();
    if (!u32_there_) spirv::append(out_, spirv::kTypeInt, {u32, 32, 0});
    u32_there_ = true;
    Words members(i.words.begin() + 2, i.words.end());
    members.insert(members.end(), push_words_, u32);
    spirv::append(out_, spirv::kTypeStruct, {i[1]}, members);
  }

  // ---- code

  void begin_function(const Instruction& i) {
    if (function_ == 0) types_end_ = out_.size();
    function_ = i[2];
    begun_ = labelled_ = false;
    starts_.clear();
  }

  Status code(const Instruction& i) {
    // Behind the function's variables, for all of its blocks.
    if (labelled_ && !begun_ && i.op != spirv::kVariable) {
      begun_ = true;
      for (const Id id : used_[function_]) {
        const auto variable = variables_.find(id);
        if (variable != variables_.end() && variable->second.moved) starts_[id] = start(variable->second);
      }
    }
    if (i.op == spirv::kLabel) labelled_ = true;
    const bool chain = i.op == spirv::kAccessChain || i.op == kInBoundsAccessChain;
    if (!chain) {
      GRAFT_TRY(check_unused(i));
    } else if (const auto at = starts_.find(i[3]); at != starts_.end()) {
      if (i.size() < 6) return unsupported("It reaches into a buffer, but for no element of it.");
      const Id index = types_.fresh();
      spirv::append(out_, spirv::kIAdd, {types_.u32(), index, i[5], at->second});
      spirv::append(out_, static_cast<spirv::Op>(i.op), {i[1], i[2], i[3], i[4], index}, i.words.subspan(6));
      return ok_status();
    }
    spirv::append_words(out_, i.words);
    return ok_status();
  }

  /// The first element of a variable in its buffer.
  Id start(const Variable& variable) {
    const Id u32 = types_.u32();
    const Id member = types_.constant(members_[push_structure_] + variable.share.word);
    const Id pointer = types_.fresh(), units = types_.fresh();
    spirv::append(out_, spirv::kAccessChain, {types_.pointer(spirv::kPushConstant, u32), pointer, push_, member});
    spirv::append(out_, spirv::kLoad, {u32, units, pointer});
    if (variable.shift == 0) return units;
    const Id elements = types_.fresh();
    spirv::append(out_, spirv::kShiftLeftLogical, {u32, elements, units, types_.constant(variable.shift)});
    return elements;
  }

  /// Only access to elements may name a binding that is moved, or the whole push block, which has grown.
  Status check_unused(const Instruction& i) const {
    std::size_t first = 3, end = 4;  // words that may name one
    switch (i.op) {
      case spirv::kLoad:
      case spirv::kArrayLength:
      case spirv::kCopyObject: break;
      case spirv::kStore:
      case spirv::kCopyMemory: first = 1, end = 3; break;
      case spirv::kFunctionCall: end = i.size(); break;
      default: return ok_status();
    }
    for (std::size_t w = first; w < std::min(end, i.size()); ++w) {
      const auto variable = variables_.find(i[w]);
      if ((variable == variables_.end() || !variable->second.moved) && (i[w] != push_ || push_words_ == 0)) continue;
      return unsupported("Its bindings or push constants are used by instruction ", i.op, ", not by their elements.");
    }
    return ok_status();
  }

  static constexpr std::uint16_t kInBoundsAccessChain = spirv::kAccessChain + 1;

  std::span<const Word> words_;
  std::span<const Share> shares_;
  std::uint32_t push_bytes_;
  Types types_;
  std::map<Id, Variable> variables_;
  std::map<Id, Word> members_;       // of structures
  std::map<Id, std::set<Id>> used_;  // variables that chains of a function begin at
  Id push_ = 0;
  Id push_structure_ = 0;
  Word push_words_ = 0;
  Words out_;
  std::size_t types_end_ = 0;
  bool in_types_ = false;
  bool u32_there_ = false;
  Id function_ = 0;  // where code is
  bool labelled_ = false;
  bool begun_ = false;
  std::map<Id, Id> starts_;  // first elements, by variable, in this function
};

}  // namespace

Result<std::vector<std::uint32_t>> share_kernel(std::span<const std::uint32_t> spirv, std::span<const Share> shares,
                                                std::uint32_t push_bytes) {
  return Sharer(spirv, shares, push_bytes).run();
}

}  // namespace graft
