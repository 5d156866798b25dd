#include "tools/graft/safetensors_file.h"

#include <nlohmann/json.hpp>

#include "platform/os/file.h"
#include "tools/graft/model_io.h"

namespace graft::cli {
namespace {

Result<std::string> dtype_text(const checkpoint::Stream& stream) {
  switch (stream.element) {
    case checkpoint::Element::f32: return std::string("F32");
    case checkpoint::Element::i32:
    case checkpoint::Element::boolean: return std::string("I32");
    case checkpoint::Element::f16: return std::string("F16");
    case checkpoint::Element::bf16: return std::string("BF16");
    case checkpoint::Element::bytes: break;
  }
  return unsupported("The tensor \"", stream.name, "\" is of a type that safetensors does not have.");
}

}  // namespace

Result<SafeTensor> to_source_layout(const checkpoint::Stream& stream, std::span<const std::byte> bytes,
                                    const std::vector<std::int64_t>& dims, const SourcePerm& perm) {
  SafeTensor tensor;
  tensor.name = stream.name;
  GRAFT_TRY_ASSIGN(tensor.dtype, dtype_text(stream));
  tensor.dims = dims;
  if (perm.empty()) {
    tensor.bytes.assign(bytes.begin(), bytes.end());
    return tensor;
  }
  if (element_size(stream.element) != 4) {
    return unsupported("The tensor \"", stream.name, "\" has elements of ", element_size(stream.element),
                       " bytes, whose axes cannot be put in the source's order yet.");
  }
  for (std::size_t i = 0; i < dims.size(); ++i) tensor.dims[perm[i]] = dims[i];
  tensor.bytes = permute_words(bytes, dims, perm, true);
  return tensor;
}

Status write_safetensors(const std::string& path, const std::vector<SafeTensor>& tensors,
                         const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header;
  header["__metadata__"] = metadata;
  std::uint64_t at = 0;
  for (const SafeTensor& tensor : tensors) {
    header[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.dims}, {"data_offsets", {at, at + tensor.bytes.size()}}};
    at += tensor.bytes.size();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // tensors begin at a multiple of 8
  const std::uint64_t length = text.size();
  std::vector<std::span<const std::byte>> parts = {std::as_bytes(std::span(&length, 1)),
                                                   std::as_bytes(std::span(text.data(), text.size()))};
  for (const SafeTensor& tensor : tensors) parts.emplace_back(tensor.bytes);
  return os::atomic_write_file(os::system_files(), path, parts);
}

}  // namespace graft::cli
