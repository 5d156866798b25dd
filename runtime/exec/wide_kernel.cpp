#include "runtime/exec/wide_kernel.h"

#include <map>

#include "runtime/exec/spirv_module.h"

namespace graft {
namespace {

using spirv::Id;
using spirv::Instruction;
using spirv::Types;
using spirv::Word;
using spirv::Words;

constexpr Word kCapabilityInt64 = 11;
constexpr Word kNewestVersion = 0x00010300;  // later ones list buffers at their entry points

class Widener {
 public:
  explicit Widener(std::span<const Word> words) : words_(words) {}

  /// Nothing where nothing changes.
  Words run() {
    if (!survey()) return {};
    bool in_types = false;
    bool in_code = false;
    spirv::for_each_instruction(words_, [&](const Instruction& i) {
      if (!in_types && i.op >= spirv::kTypeVoid && i.op <= spirv::kSpecConstantOp) {
        in_types = true;
        spirv::append_words(out_, decorations_);
      }
      if (!in_code && i.op == spirv::kFunction) {
        in_code = true;
        spirv::append_words(out_, types_.declarations);
      }
      if (in_code && (i.op == spirv::kLoad || i.op == spirv::kStore) && access(i)) return;
      spirv::append_words(out_, i.words);
      if (in_code && i.op == spirv::kAccessChain) chain(i);
    });
    out_[3] = types_.bound();
    return changed_ ? std::move(out_) : Words{};
  }

 private:
  /// Declares a twin of every buffer of vectors of four.
  bool survey() {
    std::map<Id, Id> variables;                          // pointer type by variable
    std::map<Id, std::vector<Instruction>> decorations;  // by what they decorate
    const bool whole = spirv::for_each_instruction(words_, [&](const Instruction& i) {
      types_.note(i);
      if (i.op == spirv::kDecorate || i.op == spirv::kMemberDecorate) decorations[i[1]].push_back(i);
      if (i.op == spirv::kVariable && i[3] == spirv::kStorageBuffer) variables.emplace(i[2], i[1]);
    });
    if (!whole || words_[1] > kNewestVersion) return false;
    types_.set_bound(words_[3]);
    out_.assign(words_.begin(), words_.begin() + 5);
    spirv::append(out_, spirv::kCapability, {kCapabilityInt64});
    for (const auto& [variable, pointer] : variables) {
      const Id structure = types_.pointee(pointer);
      if (types_.element(types_.array_element(structure)).n == 4) {
        twins_[variable] = declare(decorations[variable], decorations[structure]);
      }
    }
    return !twins_.empty();
  }

  Id declare(const std::vector<Instruction>& of_variable, const std::vector<Instruction>& of_structure) {
    const Id array = types_.fresh(), structure = types_.fresh(), variable = types_.fresh();
    spirv::append(types_.declarations, spirv::kTypeRuntimeArray, {array, pair()});
    spirv::append(types_.declarations, spirv::kTypeStruct, {structure, array});
    pair_pointer();  // declared before code asks for it
    const Id pointer = types_.storage_pointer(structure);
    spirv::append(types_.declarations, spirv::kVariable, {pointer, variable, spirv::kStorageBuffer});
    spirv::append(decorations_, spirv::kDecorate, {array, spirv::kDecorationArrayStride, 16});
    const auto take_over = [&](const std::vector<Instruction>& all, Id target) {
      for (const Instruction& i : all) {
        spirv::append(decorations_, static_cast<spirv::Op>(i.op), {target}, i.words.subspan(2));
      }
    };
    take_over(of_variable, variable);
    take_over(of_structure, structure);
    return variable;
  }

  Id pair_pointer() { return types_.storage_pointer(pair()); }
  Id pair() { return types_.vector(types_.scalar(spirv::kTypeInt, 64), 2); }

  /// The same place in the twin, where it is a whole vector.
  void chain(const Instruction& i) {
    const auto twin = twins_.find(i[3]);
    if (twin == twins_.end() || i.size() != 6) return;
    const Id pointer = types_.fresh();
    spirv::append(out_, spirv::kAccessChain, {pair_pointer(), pointer, twin->second}, i.words.subspan(4));
    pointers_.emplace(i[2], pointer);
  }

  bool access(const Instruction& i) {
    const bool load = i.op == spirv::kLoad;
    const auto pointer = pointers_.find(load ? i[3] : i[1]);
    // Words beyond say what is special about the access.
    if (pointer == pointers_.end() || i.size() != (load ? 4 : 3)) return false;
    const Id bits = types_.fresh();
    if (load) {
      spirv::append(out_, spirv::kLoad, {pair(), bits, pointer->second});
      spirv::append(out_, spirv::kBitcast, {i[1], i[2], bits});
    } else {
      spirv::append(out_, spirv::kBitcast, {pair(), bits, i[2]});
      spirv::append(out_, spirv::kStore, {pointer->second, bits});
    }
    changed_ = true;
    return true;
  }

  std::span<const Word> words_;
  Types types_;
  std::map<Id, Id> twins_;     // by the variable of vectors
  std::map<Id, Id> pointers_;  // into twins, by those into buffers of vectors
  Words decorations_;
  Words out_;
  bool changed_ = false;
};

}  // namespace

bool wants_wide_vectors(const gpu::Caps& caps) { return caps.type == gpu::DeviceType::cpu && caps.shader_int64; }

std::vector<std::uint32_t> widen_vectors(std::span<const std::uint32_t> spirv) {
  std::vector<std::uint32_t> out = Widener(spirv).run();
  return out.empty() ? std::vector<std::uint32_t>(spirv.begin(), spirv.end()) : out;
}

}  // namespace graft
