#include "runtime/model/enums.h"

#include <array>
#include <vector>

#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"

namespace graft::model_format {
namespace {

template <typename File, typename Core>
struct Pair {
  File file;
  Core core;
};
constexpr Pair<fb::DType, DType> kDTypes[] = {
    {fb::DType::f32, DType::f32},   {fb::DType::i32, DType::i32},   {fb::DType::boolean, DType::boolean},
    {fb::DType::f16, DType::f16},   {fb::DType::bf16, DType::bf16}, {fb::DType::q8_0, DType::q8_0},
    {fb::DType::q4_0, DType::q4_0}, {fb::DType::q4_1, DType::q4_1}, {fb::DType::q5_0, DType::q5_0},
    {fb::DType::q5_1, DType::q5_1}, {fb::DType::q4_k, DType::q4_k}, {fb::DType::q5_k, DType::q5_k},
    {fb::DType::q6_k, DType::q6_k},
};
constexpr Pair<fb::ValueKind, ValueKind> kKinds[] = {
    {fb::ValueKind::temporary, ValueKind::temporary}, {fb::ValueKind::input, ValueKind::input},
    {fb::ValueKind::constant, ValueKind::constant},   {fb::ValueKind::parameter, ValueKind::parameter},
    {fb::ValueKind::state, ValueKind::state},
};

template <typename File, typename Core, std::size_t n>
std::optional<File> file_of(const Pair<File, Core> (&pairs)[n], Core core) {
  for (const auto& pair : pairs) {
    if (pair.core == core) return pair.file;
  }
  return std::nullopt;
}

template <typename File, typename Core, std::size_t n>
std::optional<Core> core_of(const Pair<File, Core> (&pairs)[n], File file) {
  for (const auto& pair : pairs) {
    if (pair.file == file) return pair.core;
  }
  return std::nullopt;
}

struct OpMaps {
  std::vector<std::optional<Op>> core;      // by the schema's number
  std::vector<std::optional<fb::Op>> file;  // by graft's number
};

const OpMaps& op_maps() {
  static const OpMaps maps = [] {
    OpMaps made;
    made.core.resize(static_cast<std::size_t>(fb::Op::MAX) + 1);
    made.file.resize(static_cast<std::size_t>(Op::count_));
    for (const fb::Op file : fb::EnumValuesOp()) {
      Op core{};
      if (find_op(fb::EnumNameOp(file), &core) == nullptr) continue;
      made.core[static_cast<std::size_t>(file)] = core;
      made.file[static_cast<std::size_t>(core)] = file;
    }
    return made;
  }();
  return maps;
}

}  // namespace

std::optional<fb::DType> to_file(DType dtype) { return file_of(kDTypes, dtype); }
std::optional<DType> from_file(fb::DType dtype) { return core_of(kDTypes, dtype); }
std::optional<fb::ValueKind> to_file(ValueKind kind) { return file_of(kKinds, kind); }
std::optional<ValueKind> from_file(fb::ValueKind kind) { return core_of(kKinds, kind); }

std::optional<fb::Op> to_file(Op op) {
  const auto& map = op_maps().file;
  const auto number = static_cast<std::size_t>(op);
  return number < map.size() ? map[number] : std::nullopt;
}

Result<Op> from_file(fb::Op op) {
  const auto& map = op_maps().core;
  const auto number = static_cast<std::size_t>(op);
  if (number >= map.size() || fb::EnumNameOp(op)[0] == '\0') {
    return unsupported("It is op number ", number, ", which this build does not know; a newer graft wrote the file.");
  }
  if (!map[number]) return unsupported("It is the op ", fb::EnumNameOp(op), ", which this build lacks.");
  return *map[number];
}

}  // namespace graft::model_format
