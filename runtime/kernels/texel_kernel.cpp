#include "runtime/kernels/texel_kernel.h"

#include <algorithm>
#include <array>
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

constexpr Word kNewestModule = 0x00010300;  // later ones list all variables at their entry points

class TexelReader {
 public:
  TexelReader(std::span<const Word> words, std::uint32_t bindings) : words_(words), next_binding_(bindings) {}

  /// Nothing where nothing changes.
  TexelKernel run() {
    if (!survey()) return {};
    bool in_code = false;
    spirv::for_each_instruction(words_, [&](const Instruction& i) {
      in_code = in_code || i.op == spirv::kFunction;
      if (in_code && i.op == spirv::kLoad && fetch(i)) return;
      if (in_code) {
        spirv::append_words(code_, i.words);
        if (i.op == spirv::kAccessChain || i.op == spirv::kAccessChain + 1) chain(i);
      } else if (i.op >= spirv::kTypeVoid) {
        const bool decoration = i.op >= spirv::kDecorate && i.op <= spirv::kGroupMemberDecorate;
        spirv::append_words(decoration ? head_ : types_section_, i.words);
      } else {
        spirv::append_words(head_, i.words);
      }
    });
    if (views_.empty()) return {};
    Words out(words_.begin(), words_.begin() + 5);
    out[3] = types_.bound();
    spirv::append(out, spirv::kCapability, {spirv::kCapabilitySampledBuffer});
    for (const Words* part : {&head_, &decorations_, &types_section_, &types_.declarations, &code_}) {
      spirv::append_words(out, *part);
    }
    return {std::move(out), std::move(views_)};
  }

 private:
  struct Buffer {
    Word binding = 0;
    Word set = 0;
    Word components = 0;  ///< of an element, or of a vector of a pair
    bool pair = false;
    std::map<Word, Id> textures;  ///< variables by the words of a texel
  };
  /// What a pointer of the kernel's names.
  struct Place {
    Buffer* buffer;
    Id index;
    Id component;  ///< of a vector; 0: all of it
  };

  bool survey() {
    std::map<Id, Word> bindings, sets;
    std::map<Id, Id> variables;  // pointer type by variable
    std::set<Id> read_only;
    const bool whole = spirv::for_each_instruction(words_, [&](const Instruction& i) {
      types_.note(i);
      if (i.op == spirv::kDecorate && i.size() > 3 && i[2] == spirv::kDecorationBinding) bindings[i[1]] = i[3];
      if (i.op == spirv::kDecorate && i.size() > 3 && i[2] == spirv::kDecorationDescriptorSet) sets[i[1]] = i[3];
      if (i.op == spirv::kMemberDecorate && i[3] == spirv::kDecorationNonWritable) read_only.insert(i[1]);
      if (i.op == spirv::kVariable && i[3] == spirv::kStorageBuffer) variables.emplace(i[2], i[1]);
      if (i.op == spirv::kConstant) constants_.insert(i[2]);
    });
    if (!whole || words_[1] > kNewestModule) return false;
    types_.set_bound(words_[3]);
    for (const auto& [variable, pointer] : variables) {
      const Id structure = types_.pointee(pointer);
      const Id element = types_.array_element(structure);
      const Id column = types_.paired(element);
      const Word n = types_.element(column != 0 ? column : element).n;
      if (!read_only.contains(structure) || !bindings.contains(variable) || (n != 1 && n != 2 && n != 4)) continue;
      buffers_[variable] = {bindings[variable], sets[variable], n, column != 0, {}};
    }
    return !buffers_.empty();
  }

  void chain(const Instruction& i) {
    const auto buffer = buffers_.find(i[3]);
    if (buffer == buffers_.end() || (i.size() != 6 && i.size() != 7) || constants_.contains(i[5])) return;
    if (buffer->second.pair && i.size() != 6) return;
    places_.emplace(i[2], Place{&buffer->second, i[5], i.size() == 7 ? i[6] : 0});
  }

  bool fetch(const Instruction& i) {
    const auto found = places_.find(i[3]);
    if (found == places_.end() || i.size() != 4) return false;  // words beyond say what is special about the access
    const Place& place = found->second;
    Buffer& buffer = *place.buffer;
    const Id u32 = types_.u32();
    if (buffer.pair) {
      const Id first = emit(spirv::kIMul, u32, {place.index, types_.constant(2)});
      const Id second = emit(spirv::kIAdd, u32, {first, types_.constant(1)});
      const Id column = types_.paired(i[1]);
      const Id low = emit(spirv::kBitcast, column, {texel(buffer, 4, first)});
      spirv::append(code_, spirv::kCompositeConstruct,
                    {i[1], i[2], low, emit(spirv::kBitcast, column, {texel(buffer, 4, second)})});
      return true;
    }
    Id index = place.index;
    Word words = buffer.components;
    if (place.component != 0) {
      const Id first = emit(spirv::kIMul, u32, {index, types_.constant(words)});
      index = emit(spirv::kIAdd, u32, {first, place.component});
      words = 1;
    }
    const Types::Element e = types_.element(i[1]);
    Id bits = texel(buffer, words, index);
    if (words == 1) bits = emit(spirv::kCompositeExtract, u32, {bits, 0});
    if (words == 2) bits = emit(spirv::kVectorShuffle, types_.vector(u32, 2), {bits, bits, 0, 1});
    const bool same = !e.is_float && !e.is_signed;
    spirv::append(code_, same ? spirv::kCopyObject : spirv::kBitcast, {i[1], i[2], bits});
    return true;
  }

  /// Four words, of which the first `words` are the texel's.
  Id texel(Buffer& buffer, Word words, Id index) {
    const Id image = types_.texel_buffer();
    Id& variable = buffer.textures[words];
    if (variable == 0) variable = declare(buffer, words, image);
    const Id texture = emit(spirv::kLoad, image, {variable});
    return emit(spirv::kImageFetch, types_.vector(types_.u32(), 4), {texture, index});
  }

  Id declare(const Buffer& buffer, Word words, Id image) {
    const Id pointer = types_.pointer(spirv::kUniformConstant, image);
    const Id variable = types_.fresh();
    spirv::append(types_.declarations, spirv::kVariable, {pointer, variable, spirv::kUniformConstant});
    spirv::append(decorations_, spirv::kDecorate, {variable, spirv::kDecorationDescriptorSet, buffer.set});
    spirv::append(decorations_, spirv::kDecorate, {variable, spirv::kDecorationBinding, next_binding_++});
    views_.push_back({buffer.binding, words});
    return variable;
  }

  Id emit(spirv::Op op, Id type, std::initializer_list<Word> operands) {
    const Id id = types_.fresh();
    spirv::append(code_, op, {type, id}, std::span(operands.begin(), operands.size()));
    return id;
  }

  std::span<const Word> words_;
  Word next_binding_;
  Types types_;
  std::map<Id, Buffer> buffers_;  // by variable
  std::map<Id, Place> places_;    // by the kernel's pointers
  std::set<Id> constants_;
  std::vector<gpu::TexelView> views_;
  Words head_, decorations_, types_section_, code_;
};

}  // namespace

bool gains_by_texels(std::string_view kernel) {
  static constexpr std::array kWithout = {"transpose_blocks__", "max_pool_grad__", "avg_pool_grad__"};
  return std::ranges::none_of(kWithout, [&](std::string_view name) { return kernel.starts_with(name); });
}

TexelKernel read_texels(std::span<const std::uint32_t> spirv, std::uint32_t bindings) {
  TexelKernel kernel = TexelReader(spirv, bindings).run();
  if (kernel.words.empty()) kernel.words.assign(spirv.begin(), spirv.end());
  return kernel;
}

}  // namespace graft
