#include "runtime/kernels/low_precision_kernel.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <string_view>

#include "runtime/kernels/spirv_module.h"

namespace graft {
namespace {

using spirv::Id;
using spirv::Instruction;
using spirv::Types;
using spirv::Word;
using spirv::Words;

/// A buffer whose elements become 16-bit ones.
struct Buffer {
  Id variable = 0;
  Id element = 0;  ///< type, as the kernel declares it; of a pair of vectors one of them
  Stored stored{};
  bool read_only = false;
};

/// Where a pointer of the kernel's points.
struct ElementAccess {
  const Buffer* buffer = nullptr;
  Id pointer = 0;  ///< native: to 16-bit elements
  Id index = 0;
  Id component = 0;  ///< of a vector; 0: all of it
  Types::Element element;
};

class StorageRewriter {
 public:
  StorageRewriter(std::span<const Word> words, BindingStorage storage, bool native)
      : words_(words), storage_(storage), native_(native) {}

  Result<Words> run() {
    GRAFT_TRY(survey());
    Status status;
    bool in_types = false;
    bool in_code = false;
    spirv::for_each_instruction(words_, [&](const Instruction& i) {
      if (i.op >= spirv::kTypeVoid && i.op <= spirv::kSpecConstantOp) in_types = true;
      if (i.op == spirv::kFunction) in_code = true;
      if (i.op == spirv::kVariable && buffers_.contains(i[2])) return;
      if (!in_types) {
        copy(i, section_of(i.op));
      } else if (!in_code) {
        copy(i, types_section_);
      } else if (status.ok()) {
        status = code(i);
      }
    });
    GRAFT_TRY(std::move(status));
    return assemble();
  }

 private:
  // ---- what is there

  /// Before the types.
  Words& section_of(std::uint16_t op) {
    if (op == spirv::kCapability) return capabilities_;
    if (op == spirv::kExtInstImport || op == spirv::kExtension) return imports_;
    return op >= spirv::kDecorate && op <= spirv::kGroupMemberDecorate ? decorations_ : preamble_;
  }

  Status survey() {
    std::map<Id, Word> bindings;
    std::map<Id, Id> variables;
    std::map<Id, bool> read_only;
    const bool whole = spirv::for_each_instruction(words_, [&](const Instruction& i) {
      types_.note(i);
      if (i.op == spirv::kDecorate && i.size() > 3 && i[2] == spirv::kDecorationBinding) bindings[i[1]] = i[3];
      if (i.op == spirv::kMemberDecorate && i[3] == spirv::kDecorationNonWritable) read_only[i[1]] = true;
      if (i.op == spirv::kVariable && i[3] == spirv::kStorageBuffer) variables[i[2]] = i[1];
      if (i.op == spirv::kExtInstImport &&
          std::string_view(reinterpret_cast<const char*>(&i.words[2])) == "GLSL.std.450") {
        glsl_ = i[1];
      }
    });
    if (!whole) return invalid("Its SPIR-V is cut short.");
    types_.set_bound(words_[3]);
    for (const auto& [variable, type] : variables) {
      const auto binding = bindings.find(variable);
      if (binding == bindings.end()) continue;
      const Stored stored = binding_storage(storage_, binding->second);
      if (stored == Stored::declared) continue;
      const Id structure = types_.pointee(type);
      Id element = types_.array_element(structure);
      if (const Id column = types_.paired(element); column != 0) element = column;
      if (element == 0) continue;  // the step state, for which any buffer stands in where it is not needed
      const Word n = types_.element(element).n;
      if (n != 1 && n != 2 && n != 4) {
        return unsupported("Its binding ", binding->second,
                           " is no array of 32-bit numbers, of vectors of 2 or 4 or of pairs of vectors of 4.");
      }
      buffers_.emplace(variable, Buffer{variable, element, stored, read_only.contains(structure)});
    }
    for (const auto& [variable, buffer] : buffers_) declare(buffer);
    return ok_status();
  }

  /// Type of the elements in memory for n neighbours.
  Id memory_type(const Buffer& buffer, Word n) {
    if (!native_) return types_.u32();
    return types_.vector(buffer.stored == Stored::f16 ? types_.f16() : types_.u16(), n);
  }

  /// The variable keeps its number, and so its set, its binding and its name.
  void declare(const Buffer& buffer) {
    const Word n = types_.element(buffer.element).n;
    const Id element = memory_type(buffer, n);
    const Id array = types_.fresh();
    const Id structure = types_.fresh();
    spirv::append(types_.declarations, spirv::kTypeRuntimeArray, {array, element});
    spirv::append(types_.declarations, spirv::kTypeStruct, {structure, array});
    const Id pointer = types_.storage_pointer(structure);
    spirv::append(types_.declarations, spirv::kVariable, {pointer, buffer.variable, spirv::kStorageBuffer});
    spirv::append(new_decorations_, spirv::kDecorate, {array, spirv::kDecorationArrayStride, native_ ? 2 * n : 4});
    spirv::append(new_decorations_, spirv::kDecorate, {structure, spirv::kDecorationBlock});
    spirv::append(new_decorations_, spirv::kMemberDecorate, {structure, 0, spirv::kDecorationOffset, 0});
    if (buffer.read_only) {
      spirv::append(new_decorations_, spirv::kMemberDecorate, {structure, 0, spirv::kDecorationNonWritable});
    }
  }

  // ---- code

  static void copy(const Instruction& i, Words& to) { to.insert(to.end(), i.words.begin(), i.words.end()); }

  Id emit(spirv::Op op, Id type, std::initializer_list<Word> operands, std::span<const Word> rest = {}) {
    const Id id = types_.fresh();
    give(op, type, id, operands, rest);
    return id;
  }
  void give(spirv::Op op, Id type, Id result, std::initializer_list<Word> operands, std::span<const Word> rest = {}) {
    Words all = {type, result};
    all.insert(all.end(), operands);
    all.insert(all.end(), rest.begin(), rest.end());
    spirv::append(*out_, op, {}, all);
  }
  Id c(Word value, Word n = 1) { return types_.constant(value, n); }

  Status code(const Instruction& i) {
    switch (i.op) {
      case spirv::kAccessChain:
      case spirv::kAccessChain + 1:
        if (const auto buffer = buffers_.find(i[3]); buffer != buffers_.end()) return chain(i, buffer->second);
        break;
      case spirv::kLoad:
        if (const auto access = accesses_.find(i[3]); access != accesses_.end()) {
          load(access->second, i[2]);
          return ok_status();
        }
        if (const auto pair = pairs_.find(i[3]); pair != pairs_.end()) {
          Words both = {types_.fresh(), types_.fresh()};
          for (std::size_t n = 0; n < 2; ++n) load(pair->second[n], both[n]);
          give(spirv::kCompositeConstruct, i[1], i[2], {}, both);
          return ok_status();
        }
        break;
      case spirv::kStore:
        if (const auto access = accesses_.find(i[1]); access != accesses_.end()) {
          store(access->second, i[2]);
          return ok_status();
        }
        if (const auto pair = pairs_.find(i[1]); pair != pairs_.end()) {
          for (Word n = 0; n < 2; ++n) {
            store(pair->second[n], emit(spirv::kCompositeExtract, pair->second[n].buffer->element, {i[2], n}));
          }
          return ok_status();
        }
        break;
      default: GRAFT_TRY(check_unused(i));
    }
    copy(i, body_);
    return ok_status();
  }

  /// Instructions that may take a pointer but are not rewritten must not be given one of the rewritten pointers.
  Status check_unused(const Instruction& i) const {
    const bool atomic = i.op >= spirv::kAtomicLoad && i.op <= spirv::kAtomicXor;
    const bool other = i.op == spirv::kFunctionCall || i.op == spirv::kCopyMemory || i.op == spirv::kArrayLength ||
                       i.op == spirv::kCopyObject || i.op == spirv::kPhi || i.op == spirv::kSelect;
    const bool matrix = (i.op >= 4456 && i.op <= 4459) || (i.op >= 5358 && i.op <= 5362);  // cooperative, KHR and NV
    if (!atomic && !other && !matrix) return ok_status();
    for (std::size_t w = 1; w < i.size(); ++w) {
      if (!buffers_.contains(i[w]) && !accesses_.contains(i[w]) && !pairs_.contains(i[w])) continue;
      return unsupported("Its buffers are used by instruction ", i.op, ", not by loads and stores alone.");
    }
    return ok_status();
  }

  Status chain(const Instruction& i, const Buffer& buffer) {
    if (i.size() != 6 && i.size() != 7) return unsupported("It reaches into a buffer by ", i.size() - 4, " indices.");
    const Id pointee = types_.pointee(i[1]);
    if (types_.paired(pointee) != 0) {
      const Id first = emit(spirv::kIMul, types_.u32(), {i[5], c(2)});
      const Id second = emit(spirv::kIAdd, types_.u32(), {first, c(1)});
      const Types::Element element = types_.element(buffer.element);
      pairs_.insert_or_assign(i[2], std::array{place({&buffer, 0, first, 0, element}, {i[4], first}),
                                               place({&buffer, 0, second, 0, element}, {i[4], second})});
      return ok_status();
    }
    const ElementAccess access{&buffer, 0, i[5], i.size() == 7 ? i[6] : 0, types_.element(pointee)};
    if (access.element.n == 0) return unsupported("It reaches for something else than numbers in a buffer.");
    accesses_.insert_or_assign(i[2], place(access, Words(i.words.begin() + 4, i.words.end())));
    return ok_status();
  }

  /// With its pointer, by these indices.
  ElementAccess place(ElementAccess access, const Words& indices) {
    if (!native_) return access;
    access.pointer = types_.fresh();
    const Id type = types_.storage_pointer(memory_type(*access.buffer, access.element.n));
    spirv::append(body_, spirv::kAccessChain, {type, access.pointer, access.buffer->variable}, indices);
    return access;
  }

  Id type_of(const Types::Element& e) { return types_.vector(e.component, e.n); }

  void load(const ElementAccess& a, Id result) {
    const Types::Element& e = a.element;
    const Id bits_or_floats = native_ ? load_native(a) : load_halves(a);  // floats for f16, words for bf16
    const bool floats = a.buffer->stored == Stored::f16;
    const bool same = floats ? e.is_float : !e.is_float && !e.is_signed;
    give(same ? spirv::kCopyObject : spirv::kBitcast, type_of(e), result, {bits_or_floats});
  }

  Id load_native(const ElementAccess& a) {
    const Word n = a.element.n;
    const Id raw = emit(spirv::kLoad, memory_type(*a.buffer, n), {a.pointer});
    if (a.buffer->stored == Stored::f16) return emit(spirv::kFConvert, types_.vector(types_.f32(), n), {raw});
    const Id words = types_.vector(types_.u32(), n);
    return emit(spirv::kShiftLeftLogical, words, {emit(spirv::kUConvert, words, {raw}), c(16, n)});
  }

  /// The number of a scalar among all scalars of the buffer.
  Id scalar_index(const ElementAccess& a) {
    const Word n = types_.element(a.buffer->element).n;
    if (n == 1) return a.index;
    const Id first = emit(spirv::kIMul, types_.u32(), {a.index, c(n)});
    return emit(spirv::kIAdd, types_.u32(), {first, a.component});
  }

  Id word_pointer(const ElementAccess& a, Id word) {
    return emit(spirv::kAccessChain, types_.storage_pointer(types_.u32()), {a.buffer->variable, c(0), word});
  }

  Id vector_word(const ElementAccess& a, Word i) {  // word i of a vector
    const Word words = a.element.n / 2;
    const Id first = words == 1 ? a.index : emit(spirv::kIMul, types_.u32(), {a.index, c(words)});
    return word_pointer(a, i == 0 ? first : emit(spirv::kIAdd, types_.u32(), {first, c(i)}));
  }

  /// The scalar's word, and by how many bits its half is shifted.
  std::array<Id, 2> half_of_word(const ElementAccess& a) {
    const Id u32 = types_.u32();
    const Id index = scalar_index(a);
    const Id pointer = word_pointer(a, emit(spirv::kShiftRightLogical, u32, {index, c(1)}));
    const Id odd = emit(spirv::kBitwiseAnd, u32, {index, c(1)});
    return {pointer, emit(spirv::kShiftLeftLogical, u32, {odd, c(4)})};
  }

  Id load_halves(const ElementAccess& a) {
    const Id u32 = types_.u32();
    const bool halves = a.buffer->stored == Stored::f16;
    if (a.element.n == 1) {
      const auto [pointer, shift] = half_of_word(a);
      const Id word = emit(spirv::kShiftRightLogical, u32, {emit(spirv::kLoad, u32, {pointer}), shift});
      return halves ? unpack(word)[0] : emit(spirv::kShiftLeftLogical, u32, {word, c(16)});
    }
    Words parts;
    for (Word i = 0; i < a.element.n / 2; ++i) {
      const Id word = emit(spirv::kLoad, u32, {vector_word(a, i)});
      if (halves) {
        const auto pair = unpack(word);
        parts.insert(parts.end(), pair.begin(), pair.end());
      } else {
        parts.push_back(emit(spirv::kShiftLeftLogical, u32, {word, c(16)}));
        parts.push_back(emit(spirv::kBitwiseAnd, u32, {word, c(0xffff0000u)}));
      }
    }
    return emit(spirv::kCompositeConstruct, types_.vector(halves ? types_.f32() : u32, a.element.n), {}, parts);
  }

  std::array<Id, 2> unpack(Id word) {
    const Id f32 = types_.f32();
    const Id pair = emit(spirv::kExtInst, types_.vector(f32, 2), {glsl(), spirv::kUnpackHalf2x16, word});
    return {emit(spirv::kCompositeExtract, f32, {pair, 0}), emit(spirv::kCompositeExtract, f32, {pair, 1})};
  }

  Id glsl() {
    if (glsl_ == 0) glsl_ = import_ = types_.fresh();
    return glsl_;
  }

  /// The components of a value as f32 that f16 holds exactly, or as the 16 bits of a bf16.
  Words rounded(const ElementAccess& a, Id value) {
    const Types::Element& e = a.element;
    Words out;
    for (Word i = 0; i < e.n; ++i) {
      Id x = e.n == 1 ? value : emit(spirv::kCompositeExtract, e.component, {value, i});
      if (!e.is_float) x = emit(spirv::kBitcast, types_.f32(), {x});
      const bool half = a.buffer->stored == Stored::f16;
      Id& function = half ? to_half_ : to_bf16_;
      if (function == 0) function = types_.fresh();
      out.push_back(emit(spirv::kFunctionCall, half ? types_.f32() : types_.u32(), {function, x}));
    }
    return out;
  }

  void store(const ElementAccess& a, Id value) {
    const Words parts = rounded(a, value);
    const bool half = a.buffer->stored == Stored::f16;
    const Word n = a.element.n;
    if (!native_) {
      store_halves(a, parts);
      return;
    }
    const Id type = types_.vector(half ? types_.f32() : types_.u32(), n);
    const Id all = n == 1 ? parts[0] : emit(spirv::kCompositeConstruct, type, {}, parts);
    const Id rounded = emit(half ? spirv::kFConvert : spirv::kUConvert, memory_type(*a.buffer, n), {all});
    spirv::append(body_, spirv::kStore, {a.pointer, rounded});
  }

  /// The half of a number that f16 holds exactly. SwiftShader packs an infinity as a NaN.
  Id half_bits(Id number) {
    const Id u32 = types_.u32(), truth = types_.boolean();
    if (zero_ == 0) zero_ = types_.float_constant(0);
    const Id pair = emit(spirv::kCompositeConstruct, types_.vector(types_.f32(), 2), {number, zero_});
    const Id packed = emit(spirv::kExtInst, u32, {glsl(), spirv::kPackHalf2x16, pair});
    const Id bits = emit(spirv::kBitcast, u32, {number});
    const Id magnitude = emit(spirv::kBitwiseAnd, u32, {bits, c(0x7fffffffu)});
    const Id sign =
        emit(spirv::kShiftRightLogical, u32, {emit(spirv::kBitwiseAnd, u32, {bits, c(0x80000000u)}), c(16)});
    const Id nan = emit(spirv::kUGreaterThan, truth, {magnitude, c(0x7f800000u)});
    const Id special = emit(spirv::kSelect, u32, {nan, c(0x7e00u), c(0x7c00u)});
    const Id finite = emit(spirv::kULessThan, truth, {magnitude, c(0x7f800000u)});
    return emit(spirv::kSelect, u32, {finite, packed, emit(spirv::kBitwiseOr, u32, {special, sign})});
  }

  /// Two neighbours in one word.
  Id pack(const Buffer& buffer, Id low, Id high) {
    const Id u32 = types_.u32();
    if (buffer.stored == Stored::f16) {
      low = half_bits(low);
      high = half_bits(high);
    }
    return emit(spirv::kBitwiseOr, u32, {low, emit(spirv::kShiftLeftLogical, u32, {high, c(16)})});
  }

  void store_halves(const ElementAccess& a, const Words& parts) {
    constexpr Word kDeviceScope = 1;
    const Id u32 = types_.u32();
    if (a.element.n == 1) {
      const auto [pointer, shift] = half_of_word(a);
      if (zero_ == 0) zero_ = types_.float_constant(0);
      const Id zero = a.buffer->stored == Stored::f16 ? zero_ : c(0);
      const Id bits = emit(spirv::kShiftLeftLogical, u32, {pack(*a.buffer, parts[0], zero), shift});
      // Keeps the other half: 0xffff0000 for the low one, 0x0000ffff for the high one.
      const Id keep = emit(spirv::kShiftRightLogical, u32, {c(0xffff0000u), shift});
      emit(spirv::kAtomicAnd, u32, {pointer, c(kDeviceScope), c(0), keep});
      emit(spirv::kAtomicOr, u32, {pointer, c(kDeviceScope), c(0), bits});
      return;
    }
    for (Word i = 0; i < a.element.n / 2; ++i) {
      const Id word = pack(*a.buffer, parts[std::size_t{2} * i], parts[std::size_t{2} * i + 1]);
      spirv::append(body_, spirv::kStore, {vector_word(a, i), word});
    }
  }

  // ---- rounding, as functions at the end of the module

  Id begin_function(Id function, Id result) {
    const Id parameter = types_.fresh();
    give(spirv::kFunction, result, function, {0, types_.function(result, types_.f32())});
    give(spirv::kFunctionParameter, types_.f32(), parameter, {});
    spirv::append(*out_, spirv::kLabel, {types_.fresh()});
    return parameter;
  }
  void end_function(Id result) {
    spirv::append(*out_, spirv::kReturnValue, {result});
    spirv::append(*out_, spirv::kFunctionEnd, {});
  }

  /// The nearest value that f16 holds, ties to even. By bits, since a device may round and overflow as it likes where
  /// it converts by itself.
  void add_to_half() {
    const Id u32 = types_.u32(), f32 = types_.f32(), truth = types_.boolean();
    const Id bits = emit(spirv::kBitcast, u32, {begin_function(to_half_, f32)});
    const Id magnitude = emit(spirv::kBitwiseAnd, u32, {bits, c(0x7fffffffu)});
    const Id sign = emit(spirv::kBitwiseAnd, u32, {bits, c(0x80000000u)});
    // 13 bits of the mantissa go; from 65520 on that makes 65536, which is infinity.
    const Id odd = emit(spirv::kBitwiseAnd, u32, {emit(spirv::kShiftRightLogical, u32, {magnitude, c(13)}), c(1)});
    const Id up = emit(spirv::kIAdd, u32, {emit(spirv::kIAdd, u32, {magnitude, c(0xfff)}), odd});
    const Id normal = emit(spirv::kBitwiseAnd, u32, {up, c(0xffffe000u)});
    const Id large = emit(spirv::kUGreaterThanEqual, truth, {normal, c(0x47800000u)});
    const Id finite = emit(spirv::kSelect, u32, {large, c(0x7f800000u), normal});
    // Below 2^-14: a multiple of 2^-24, which is the spacing of f32 from 0.5 on.
    const Id moved = emit(spirv::kFAdd, f32, {emit(spirv::kBitcast, f32, {magnitude}), types_.float_constant(0.5f)});
    const Id units = emit(spirv::kISub, u32, {emit(spirv::kBitcast, u32, {moved}), c(0x3f000000u)});
    const Id tiny = emit(spirv::kFMul, f32, {emit(spirv::kConvertUToF, f32, {units}), types_.float_constant(0x1p-24f)});
    const Id small = emit(spirv::kULessThan, truth, {magnitude, c(0x38800000u)});
    const Id either = emit(spirv::kSelect, u32, {small, emit(spirv::kBitcast, u32, {tiny}), finite});
    const Id number = emit(spirv::kBitwiseOr, u32, {either, sign});
    const Id nan = emit(spirv::kUGreaterThan, truth, {magnitude, c(0x7f800000u)});
    end_function(emit(spirv::kBitcast, f32, {emit(spirv::kSelect, u32, {nan, bits, number})}));
  }

  /// The upper 16 bits, rounded to nearest, ties to even; a NaN stays one.
  void add_to_bf16() {
    const Id u32 = types_.u32(), truth = types_.boolean();
    const Id bits = emit(spirv::kBitcast, u32, {begin_function(to_bf16_, u32)});
    const Id magnitude = emit(spirv::kBitwiseAnd, u32, {bits, c(0x7fffffffu)});
    const Id upper = emit(spirv::kShiftRightLogical, u32, {bits, c(16)});
    const Id odd = emit(spirv::kBitwiseAnd, u32, {upper, c(1)});
    const Id up = emit(spirv::kIAdd, u32, {emit(spirv::kIAdd, u32, {bits, c(0x7fff)}), odd});
    const Id number = emit(spirv::kShiftRightLogical, u32, {up, c(16)});
    const Id nan = emit(spirv::kUGreaterThan, truth, {magnitude, c(0x7f800000u)});
    end_function(emit(spirv::kSelect, u32, {nan, emit(spirv::kBitwiseOr, u32, {upper, c(0x40)}), number}));
  }

  Words assemble() {
    if (to_half_ != 0) add_to_half();
    if (to_bf16_ != 0) add_to_bf16();
    Words out(words_.begin(), words_.begin() + 5);
    const auto add = [&](const Words& part) { out.insert(out.end(), part.begin(), part.end()); };
    add(capabilities_);
    if (native_) spirv::append(out, spirv::kCapability, {spirv::kCapabilityStorageBuffer16});
    add(imports_);
    if (import_ != 0) {
      constexpr std::string_view kName = "GLSL.std.450";  // 12 characters and a zero word
      Words name(4, 0);
      std::memcpy(name.data(), kName.data(), kName.size());
      spirv::append(out, spirv::kExtInstImport, {import_}, name);
    }
    add(preamble_);
    add(decorations_);
    add(new_decorations_);
    add(types_section_);
    add(types_.declarations);
    add(body_);
    out[3] = types_.bound();
    return out;
  }

  std::span<const Word> words_;
  BindingStorage storage_;
  bool native_;
  Types types_;
  std::map<Id, Buffer> buffers_;                      // by variable
  std::map<Id, ElementAccess> accesses_;              // by the kernel's pointer
  std::map<Id, std::array<ElementAccess, 2>> pairs_;  // the same of pairs of vectors
  Id glsl_ = 0;
  Id import_ = 0;  // of GLSL.std.450, where the kernel has none
  Id to_half_ = 0;
  Id to_bf16_ = 0;
  Id zero_ = 0;  // 0.0
  Words capabilities_, imports_, preamble_, decorations_, new_decorations_, types_section_, body_;
  Words* out_ = &body_;
};

}  // namespace

Result<std::vector<std::uint32_t>> low_precision_kernel(std::span<const std::uint32_t> spirv, BindingStorage storage,
                                                        bool native) {
  return StorageRewriter(spirv, storage, native).run();
}

Result<std::vector<std::uint32_t>> low_precision_kernel(const shaders::KernelInfo& kernel, BindingStorage storage,
                                                        bool native) {
  auto words = low_precision_kernel(kernel.spirv(), storage, native);
  if (!words.ok()) {
    return std::move(words).status().with_context(cat("While making kernel ", kernel.name, " for 16-bit elements"));
  }
  return words;
}

namespace {

std::string native_form(const shaders::KernelInfo& kernel, BindingStorage storage) {
  std::string name(kernel.name);
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (std::size_t binding = 0; binding < kMaxLowPrecisionBindings; ++binding) {
      if (binding_storage(storage, binding) != stored_as(dtype)) continue;
      name += cat("@", dtype_name(dtype));
      break;
    }
  }
  return name;
}

}  // namespace

bool is_native(const shaders::KernelInfo& kernel, BindingStorage storage, const gpu::Target& target) {
  if (!target.caps.storage_16bit || target.advice.avoided.empty()) return target.caps.storage_16bit;
  return !target.advice.avoided.contains(native_form(kernel, storage));
}

std::string form_name(const shaders::KernelInfo& kernel, BindingStorage storage, const gpu::Target& target) {
  std::string name = native_form(kernel, storage);
  if (storage != 0 && !is_native(kernel, storage, target)) name += " in words";
  return name;
}

}  // namespace graft
