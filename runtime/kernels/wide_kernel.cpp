#include "runtime/kernels/wide_kernel.h"

#include <map>

#include "runtime/kernels/spirv_module.h"

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
      const Id element = types_.array_element(structure);
      const Id column = types_.paired(element);
      if (column != 0 || types_.element(element).n == 4) {
        const Twin twin = {0, element, column};
        twins_[variable] = declare(twin, decorations[variable], decorations[structure]);
      }
    }
    return !twins_.empty();
  }

  /// A buffer declared again as 64-bit integers: two for each vector of four, four for each pair of vectors (`column`
  /// is then the vector's type, else 0).
  struct Twin {
    Id variable;
    Id element;  ///< of the buffer as the kernel has it
    Id column;
  };

  Twin declare(Twin twin, const std::vector<Instruction>& of_variable, const std::vector<Instruction>& of_structure) {
    const Id array = types_.fresh(), structure = types_.fresh(), variable = types_.fresh();
    const Id element = integers(twin);
    spirv::append(types_.declarations, spirv::kTypeRuntimeArray, {array, element});
    spirv::append(types_.declarations, spirv::kTypeStruct, {structure, array});
    integers(2);  // declared before code asks for them
    types_.storage_pointer(element);
    const Id pointer = types_.storage_pointer(structure);
    spirv::append(types_.declarations, spirv::kVariable, {pointer, variable, spirv::kStorageBuffer});
    const Word stride = twin.column != 0 ? 32 : 16;
    spirv::append(decorations_, spirv::kDecorate, {array, spirv::kDecorationArrayStride, stride});
    const auto take_over = [&](const std::vector<Instruction>& all, Id target) {
      for (const Instruction& i : all) {
        const bool of_matrix = i.op == spirv::kMemberDecorate &&
                               (i[3] == spirv::kDecorationColMajor || i[3] == spirv::kDecorationMatrixStride);
        if (of_matrix) continue;
        spirv::append(decorations_, static_cast<spirv::Op>(i.op), {target}, i.words.subspan(2));
      }
    };
    take_over(of_variable, variable);
    take_over(of_structure, structure);
    twin.variable = variable;
    return twin;
  }

  Id integers(Word n) { return types_.vector(types_.scalar(spirv::kTypeInt, 64), n); }
  Id integers(const Twin& twin) { return integers(twin.column != 0 ? 4 : 2); }

  /// The same place in the twin, where it is a whole vector or pair.
  void chain(const Instruction& i) {
    const auto twin = twins_.find(i[3]);
    if (twin == twins_.end() || i.size() != 6) return;
    const Id pointer = types_.fresh();
    const Id type = types_.storage_pointer(integers(twin->second));
    spirv::append(out_, spirv::kAccessChain, {type, pointer, twin->second.variable}, i.words.subspan(4));
    places_.emplace(i[2], Place{pointer, &twin->second});
  }

  bool access(const Instruction& i) {
    const bool load = i.op == spirv::kLoad;
    const auto place = places_.find(load ? i[3] : i[1]);
    // Words beyond say what is special about the access.
    if (place == places_.end() || i.size() != (load ? 4 : 3)) return false;
    const auto& [pointer, twin] = place->second;
    changed_ = true;
    if (!load) {
      spirv::append(out_, spirv::kStore, {pointer, twin->column != 0 ? bits_of_pair(*twin, i[2]) : bits_of(i[2])});
      return true;
    }
    const Id bits = emit(spirv::kLoad, integers(*twin), {pointer});
    if (twin->column == 0) {
      spirv::append(out_, spirv::kBitcast, {i[1], i[2], bits});
      return true;
    }
    const Id low = emit(spirv::kVectorShuffle, integers(2), {bits, bits, 0, 1});
    const Id high = emit(spirv::kVectorShuffle, integers(2), {bits, bits, 2, 3});
    const Id first = emit(spirv::kBitcast, twin->column, {low});
    spirv::append(out_, spirv::kCompositeConstruct, {i[1], i[2], first, emit(spirv::kBitcast, twin->column, {high})});
    return true;
  }

  Id bits_of(Id vector) { return emit(spirv::kBitcast, integers(2), {vector}); }
  Id bits_of_pair(const Twin& twin, Id pair) {
    const Id low = bits_of(emit(spirv::kCompositeExtract, twin.column, {pair, 0}));
    const Id high = bits_of(emit(spirv::kCompositeExtract, twin.column, {pair, 1}));
    return emit(spirv::kVectorShuffle, integers(4), {low, high, 0, 1, 2, 3});
  }

  Id emit(spirv::Op op, Id type, std::initializer_list<Word> operands) {
    const Id id = types_.fresh();
    spirv::append(out_, op, {type, id}, std::span(operands.begin(), operands.size()));
    return id;
  }

  struct Place {
    Id pointer;
    const Twin* twin;
  };

  std::span<const Word> words_;
  Types types_;
  std::map<Id, Twin> twins_;    // by the variable of vectors
  std::map<Id, Place> places_;  // in twins, by pointers into buffers of vectors
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
