#include "tools/common/npy.h"

#include <new>

#include "runtime/data/npy.h"

namespace graft::cli {
namespace {

Shape shape_of(std::span<const std::int64_t> dims) { return Shape(std::vector<Dim>(dims.begin(), dims.end())); }

DType dtype_of(NpyType type) {
  return type == NpyType::f32 ? DType::f32 : type == NpyType::i32 ? DType::i32 : DType::boolean;
}

}  // namespace

const char* npy_type_name(NpyType type) { return dtype_name(dtype_of(type)).data(); }

Result<NpyArray> read_npy(const std::string& path) {
  TRY_ASSIGN(const data::NpyReader reader, data::NpyReader::open(os::system_files(), path));
  NpyArray out;
  out.type = reader.dtype() == DType::f32   ? NpyType::f32
             : reader.dtype() == DType::i32 ? NpyType::i32
                                            : NpyType::boolean;
  out.dims = reader.shape().values();
  const std::uint64_t elements = reader.elements();
  if (elements > SIZE_MAX / 4) return invalid("\"", path, "\" has ", elements, " elements, more than memory can hold.");
  out.bytes = static_cast<std::size_t>(elements) * 4;
  out.data.reset(new (std::nothrow) std::byte[out.bytes]);
  if (out.data == nullptr) {
    return error(Code::out_of_memory, "There is no memory for the contents of \"", path, "\" (", bytes_text(out.bytes),
                 ").");
  }
  TRY(reader.read(0, elements, {out.data.get(), out.bytes}));
  return out;
}

Status write_npy(const std::string& path, NpyType type, std::span<const std::int64_t> dims,
                 std::span<const std::byte> contents, std::string_view source) {
  SourceType as = SourceType::same;
  for (int i = 1; i <= static_cast<int>(kLastSourceType); ++i) {
    if (source_type_info(static_cast<SourceType>(i)).name == source) as = static_cast<SourceType>(i);
  }
  return data::write_npy_as(os::system_files(), path, as, dtype_of(type), shape_of(dims), contents);
}

std::string dims_text(std::span<const std::int64_t> dims) { return shape_of(dims).text(); }

}  // namespace graft::cli
