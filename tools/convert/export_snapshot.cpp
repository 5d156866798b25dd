#include "tools/convert/export_snapshot.h"

#include <filesystem>
#include <vector>

#include "runtime/checkpoint/store.h"
#include "runtime/run_state/run_state.h"
#include "tools/convert/huggingface/safetensors_write.h"

namespace graft::convert {
namespace {

Result<DType> dtype_of(const checkpoint::Stream& stream) {
  switch (stream.element) {
    case checkpoint::Element::f32: return DType::f32;
    case checkpoint::Element::i32: return DType::i32;
    case checkpoint::Element::boolean: return DType::boolean;
    case checkpoint::Element::f16: return DType::f16;
    case checkpoint::Element::bf16: return DType::bf16;
    case checkpoint::Element::bytes: break;
  }
  return unsupported("The tensor \"", stream.name, "\" is of a type that safetensors does not have.");
}

}  // namespace

Result<ExportedSnapshot> export_snapshot(os::FileSystem& files, const std::string& folder, const std::string& snapshot,
                                         const std::string& output) {
  const std::string ending = std::filesystem::path(output).extension().string();
  if (!ending.empty() && ending != ".safetensors") {
    return unsupported("A snapshot's tensors are written as safetensors; \"", output, "\" ends in \"", ending,
                       "\". Name a .safetensors file.");
  }
  GRAFT_TRY_ASSIGN(const checkpoint::Store store,
                   checkpoint::Store::open(files, folder, {.mode = checkpoint::StoreMode::read_only}));
  GRAFT_TRY_ASSIGN(const std::uint64_t number, find_snapshot(store, snapshot));
  const checkpoint::Manifest& manifest = store.snapshots().at(number);
  GRAFT_TRY_ASSIGN(const auto layouts, layouts_of(store, number));
  std::vector<ExportTensor> tensors;
  std::vector<HostBuffer> contents;
  for (const auto& stream : *manifest.streams) {
    const auto layout = layouts.find(stream.name);
    if (layout == layouts.end() || stream.worker != 0) continue;
    ExportTensor tensor;
    tensor.name = stream.name;
    GRAFT_TRY_ASSIGN(tensor.dtype, dtype_of(stream));
    GRAFT_TRY_ASSIGN(HostBuffer bytes, store.restore(number, stream.name, stream.bytes));
    contents.push_back(std::move(bytes));
    tensor.source = {layout->second.dims, tensor.dtype, contents.back().bytes()};
    tensor.perm = layout->second.perm;
    tensors.push_back(std::move(tensor));
  }
  GRAFT_TRY(write_safetensors(files, output, tensors, {{"step", cat(manifest.meta.step)}}));
  return ExportedSnapshot{number, manifest.meta.step, tensors.size()};
}

}  // namespace graft::convert
