#include "runtime/data/npy.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstring>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "platform/base/checked.h"
#include "platform/base/half.h"
#include "runtime/data/npy_header.h"

namespace graft::data {
namespace {

struct Half {
  std::uint16_t bits;
};
struct Bool {
  std::uint8_t byte;
};

template <typename T>
T load(const std::byte* from, bool big_endian) {
  std::array<std::byte, sizeof(T)> bytes;
  std::memcpy(bytes.data(), from, sizeof(T));
  if (big_endian) std::reverse(bytes.begin(), bytes.end());
  return std::bit_cast<T>(bytes);
}

// The 32-bit word that graft keeps for a stored element; nullopt where it does not fit.
std::optional<std::uint32_t> to_word(Bool value) { return value.byte != 0 ? 1u : 0u; }
std::optional<std::uint32_t> to_word(Half value) { return std::bit_cast<std::uint32_t>(half_to_float(value.bits)); }
std::optional<std::uint32_t> to_word(float value) { return std::bit_cast<std::uint32_t>(value); }
std::optional<std::uint32_t> to_word(double value) {
  // From the middle between the largest float and the next power of two on, rounding gives infinity.
  constexpr double kTooLarge = 0x1.ffffffp127;
  if (std::isfinite(value) && std::fabs(value) >= kTooLarge) return std::nullopt;
  return to_word(static_cast<float>(value));
}
template <std::integral T>
std::optional<std::uint32_t> to_word(T value) {
  if (!std::in_range<std::int32_t>(value)) return std::nullopt;
  return static_cast<std::uint32_t>(value);
}

template <std::integral T>
std::uint32_t to_float_word(T value) {
  return std::bit_cast<std::uint32_t>(static_cast<float>(value));
}

/// Where the element with row-major number `index` stands in a file whose first axis varies fastest.
std::uint64_t fortran_position(std::uint64_t index, const std::vector<std::int64_t>& dims) {
  std::uint64_t strides[Shape::kMaxRank];
  std::uint64_t stride = 1;
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    strides[axis] = stride;
    stride *= static_cast<std::uint64_t>(dims[axis]);
  }
  std::uint64_t position = 0;
  for (std::size_t axis = dims.size(); axis-- > 0;) {
    const auto size = static_cast<std::uint64_t>(dims[axis]);
    position += index % size * strides[axis];
    index /= size;
  }
  return position;
}

struct Stored {
  std::span<const std::byte> data;
  bool big_endian;
  bool fortran_order;
  std::vector<std::int64_t> dims;
  bool as_float;  ///< integers, too
};

/// Converts elements until one does not fit; returns the error's end of sentence, or nothing.
template <typename T>
std::string convert(const Stored& stored, std::uint64_t first, std::uint64_t count, std::byte* out) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t at = stored.fortran_order ? fortran_position(first + i, stored.dims) : first + i;
    const T value = load<T>(stored.data.data() + at * sizeof(T), stored.big_endian);
    auto word = to_word(value);
    if constexpr (std::integral<T>) {
      if (stored.as_float) word = to_float_word(value);
    }
    if (!word) {
      if constexpr (std::is_arithmetic_v<T>) return cat("element ", first + i, " is ", value);
    }
    std::memcpy(out + 4 * i, &*word, 4);
  }
  return {};
}

using Convert = std::string (*)(const Stored&, std::uint64_t, std::uint64_t, std::byte*);
Convert find_convert(char kind, std::size_t size) {
  switch (kind) {
    case 'b': return convert<Bool>;
    case 'f': return size == 2 ? convert<Half> : size == 4 ? convert<float> : convert<double>;
    case 'i':
      return size == 1   ? convert<std::int8_t>
             : size == 2 ? convert<std::int16_t>
             : size == 4 ? convert<std::int32_t>
                         : convert<std::int64_t>;
    default:
      return size == 1   ? convert<std::uint8_t>
             : size == 2 ? convert<std::uint16_t>
             : size == 4 ? convert<std::uint32_t>
                         : convert<std::uint64_t>;
  }
}

}  // namespace

Result<NpyReader> NpyReader::from_bytes(std::span<const std::byte> bytes, std::string name) {
  auto header = parse_npy_header(bytes);
  if (!header.ok()) return std::move(header).status().with_context(cat("In \"", name, "\""));
  NpyReader reader;
  reader.data_ = header->data;
  reader.name_ = std::move(name);
  reader.shape_ = std::move(header->shape);
  reader.kind_ = header->kind;
  reader.size_ = header->size;
  reader.big_endian_ = header->big_endian;
  reader.fortran_order_ = header->fortran_order && reader.shape_.rank() > 1;
  reader.dtype_ = header->kind == 'f' ? DType::f32 : header->kind == 'b' ? DType::boolean : DType::i32;
  return reader;
}

Result<NpyReader> NpyReader::open(os::FileSystem& files, const std::string& path) {
  GRAFT_TRY_ASSIGN(auto file, files.map(path));
  GRAFT_TRY_ASSIGN(NpyReader reader, from_bytes(file->bytes(), path));
  reader.file_ = std::move(file);
  return reader;
}

bool NpyReader::fits_words() const {
  const bool may_not = (kind_ == 'i' && size_ == 8) || (kind_ == 'u' && size_ >= 4);
  if (!may_not) return true;
  for (std::uint64_t i = 0; i < elements(); ++i) {
    const std::byte* const at = data_.data() + i * size_;
    const bool fits = size_ == 4     ? to_word(load<std::uint32_t>(at, big_endian_)).has_value()
                      : kind_ == 'i' ? to_word(load<std::int64_t>(at, big_endian_)).has_value()
                                     : to_word(load<std::uint64_t>(at, big_endian_)).has_value();
    if (!fits) return false;
  }
  return true;
}

Status NpyReader::read(std::uint64_t first, std::uint64_t count, std::span<std::byte> out) const {
  if (!in_bounds(first, count, elements()) || out.size() / 4 != count || out.size() % 4 != 0) {
    return invalid("Elements ", first, " to ", first, " + ", count, " of \"", name_, "\" were asked for in ",
                   out.size(), " bytes; it has ", elements(), " elements of 4 bytes.");
  }
  if (count == 0) return ok_status();
  const bool as_float = dtype_ == DType::f32 && kind_ != 'f';
  const bool as_stored = !big_endian_ && !fortran_order_ && size_ == 4 && (kind_ == 'f' || (kind_ == 'i' && !as_float));
  if (as_stored) {
    std::memcpy(out.data(), data_.data() + first * 4, out.size());
    return ok_status();
  }
  const Stored stored{data_, big_endian_, fortran_order_, shape_.values(), as_float};
  const std::string misfit = find_convert(kind_, size_)(stored, first, count, out.data());
  if (misfit.empty()) return ok_status();
  return invalid("In \"", name_, "\" ", misfit, ", which does not fit ", dtype_name(dtype_), ".");
}

Result<Array> read_npy(os::FileSystem& files, const std::string& path, const HostAllocator& allocator) {
  GRAFT_TRY_ASSIGN(const NpyReader reader, NpyReader::open(files, path));
  const auto bytes = checked_mul(reader.elements(), dtype_size(reader.dtype()));
  if (!bytes) return invalid("\"", path, "\" has ", reader.elements(), " elements, more than memory can hold.");
  Array array{reader.dtype(), reader.shape(), {}};
  GRAFT_TRY_ASSIGN(array.buffer, HostBuffer::create(*bytes, cat("the contents of \"", path, "\""), allocator));
  GRAFT_TRY(reader.read(0, reader.elements(), array.buffer.bytes()));
  return array;
}

Status write_npy_as(os::FileSystem& files, const std::string& path, SourceType type, DType dtype, const Shape& shape,
                    std::span<const std::byte> bytes) {
  if (type == SourceType::same || source_type_info(type).numpy.empty() || !shape.is_constant() ||
      bytes.size() / 4 != shape.elements()) {
    return write_npy(files, path, dtype, shape, bytes);  // says what is wrong, where something is
  }
  const SourceTypeInfo& info = source_type_info(type);
  GRAFT_TRY_ASSIGN(auto made, HostBuffer::create(bytes.size() / 4 * info.bytes, cat("the elements of \"", path, "\"")));
  GRAFT_TRY(
      words_to_source(type, bytes, made.bytes()).with_context(cat("The array cannot be written to \"", path, "\"")));
  const std::string header = npy_header(info.numpy, shape);
  return os::atomic_write_file(files, path, std::array{std::as_bytes(std::span(header)), std::as_const(made).bytes()});
}

Status write_npy(os::FileSystem& files, const std::string& path, DType dtype, const Shape& shape,
                 std::span<const std::byte> bytes) {
  const std::string context = cat("The array cannot be written to \"", path, "\"");
  if (!shape.is_constant()) return invalid(context, ": its shape ", shape.text(), " holds names.");
  GRAFT_TRY(detail::to_status(shape.element_count()).with_context(context));
  const auto needed = checked_mul(shape.elements(), dtype_size(dtype));
  if (!needed || *needed != bytes.size()) {
    return invalid(context, ": ", bytes.size(), " bytes do not fit its shape ", shape.text(), " of ", dtype_name(dtype),
                   ".");
  }
  GRAFT_TRY_ASSIGN(const std::string header, npy_header(dtype, shape));
  const auto head = std::as_bytes(std::span(header));
  if (dtype != DType::boolean) return os::atomic_write_file(files, path, std::array{head, bytes});

  GRAFT_TRY_ASSIGN(auto narrow, HostBuffer::create(bytes.size() / 4, cat("the booleans of \"", path, "\"")));
  for (std::size_t i = 0; i < narrow.size(); ++i) {
    std::uint32_t word;
    std::memcpy(&word, bytes.data() + 4 * i, 4);
    narrow.data()[i] = std::byte{word != 0};
  }
  return os::atomic_write_file(files, path, std::array{head, std::as_const(narrow).bytes()});
}

}  // namespace graft::data
