#include "tools/convert/huggingface/safetensors_write.h"

#include <nlohmann/json.hpp>

#include "platform/os/atomic_write.h"

namespace graft::convert {
namespace {

Result<const char*> dtype_text(const ExportTensor& tensor) {
  switch (tensor.dtype) {
    case DType::f32: return "F32";
    case DType::i32:
    case DType::boolean: return "I32";
    case DType::f16: return "F16";
    case DType::bf16: return "BF16";
    default: break;
  }
  return unsupported("The tensor \"", tensor.name, "\" is to be of ", dtype_name(tensor.dtype),
                     " blocks, which safetensors does not have; f32, f16 and bf16 can be written.");
}

Result<std::string> header_of(std::span<const ExportTensor> tensors,
                              const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t at = 0;
  for (const ExportTensor& tensor : tensors) {
    GRAFT_TRY_ASSIGN(const char* dtype, dtype_text(tensor));
    const std::uint64_t end = at + tensor.bytes();
    header[tensor.name] = {{"dtype", dtype}, {"shape", tensor.dims()}, {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // tensors begin at a multiple of 8
  return text;
}

}  // namespace

Status write_safetensors(os::FileSystem& files, const std::string& path, std::span<const ExportTensor> tensors,
                         const std::map<std::string, std::string>& metadata) {
  GRAFT_TRY_ASSIGN(const std::string header, header_of(tensors, metadata));
  return os::atomic_write_file(files, path, [&](os::File& file) -> Status {
    const std::uint64_t length = header.size();
    GRAFT_TRY(file.append(std::as_bytes(std::span(&length, 1))));
    GRAFT_TRY(file.append(std::as_bytes(std::span(header))));
    for (const ExportTensor& tensor : tensors) {
      GRAFT_TRY_ASSIGN(const ExportBytes made, export_bytes(tensor));
      if (!made.bytes.empty()) GRAFT_TRY(file.append(made.bytes));
    }
    return ok_status();
  });
}

}  // namespace graft::convert
