#include "runtime/kernels/spirv_module.h"

#include <bit>

namespace graft::spirv {

void Types::note(const Instruction& i) {
  if (i.op < kTypeVoid || i.op > kTypeForwardPointer || i.size() < 2) return;
  std::vector<Word> key = {i.op};
  key.insert(key.end(), i.words.begin() + 2, i.words.end());
  types_.emplace(i[1], key);
  if (i.op == kTypeRuntimeArray || i.op == kTypeStruct) return;  // may be declared more than once
  if (i.op == kTypeInt) {
    if (i.size() > 3 && i[3] != 0) return;
    key.resize(2);
  }
  known_.emplace(std::move(key), i[1]);
}

Id Types::get(std::vector<Word> key, const std::vector<Word>& operands) {
  if (const auto found = known_.find(key); found != known_.end()) return found->second;
  const Id id = fresh();
  append(declarations, static_cast<Op>(key[0]), {id}, operands);
  std::vector<Word> type = {key[0]};
  type.insert(type.end(), operands.begin(), operands.end());
  types_.emplace(id, std::move(type));
  known_.emplace(std::move(key), id);
  return id;
}

Id Types::constant(Word value, Word n) {
  if (const auto found = constants_.find({value, n}); found != constants_.end()) return found->second;
  const Id type = vector(u32(), n);
  const Id one = n == 1 ? 0 : constant(value);
  const Id id = fresh();
  if (n == 1) {
    append(declarations, kConstant, {type, id, value});
  } else {
    append(declarations, kConstantComposite, {type, id}, std::vector<Word>(n, one));
  }
  constants_.emplace(std::pair{value, n}, id);
  return id;
}

Id Types::float_constant(float value) {
  const Id type = f32();
  const Id id = fresh();
  append(declarations, kConstant, {type, id, std::bit_cast<Word>(value)});
  return id;
}

Types::Element Types::element(Id type) const {
  const auto found = types_.find(type);
  if (found == types_.end()) return {};
  const std::vector<Word>& t = found->second;
  if (t[0] == kTypeVector) {
    Element one = element(t[1]);
    return one.n == 1 ? Element{t[1], t[2], one.is_float, one.is_signed} : Element{};
  }
  if ((t[0] != kTypeInt && t[0] != kTypeFloat) || t[1] != 32) return {};
  return {type, 1, t[0] == kTypeFloat, t[0] == kTypeInt && t[2] != 0};
}

Id Types::paired(Id type) const {
  const auto found = types_.find(type);
  if (found == types_.end() || found->second[0] != kTypeMatrix || found->second[2] != 2) return 0;
  return element(found->second[1]).n == 4 ? found->second[1] : 0;
}

Id Types::pointee(Id pointer) const {
  const auto found = types_.find(pointer);
  return found != types_.end() && found->second[0] == kTypePointer ? found->second[2] : 0;
}

Id Types::array_element(Id structure) const {
  const auto found = types_.find(structure);
  if (found == types_.end() || found->second[0] != kTypeStruct || found->second.size() != 2) return 0;
  const auto array = types_.find(found->second[1]);
  return array != types_.end() && array->second[0] == kTypeRuntimeArray ? array->second[1] : 0;
}

}  // namespace graft::spirv
