#include "tools/convert/gguf/gguf.h"

#include <limits>
#include <set>

#include "platform/base/byte_reader.h"
#include "platform/base/checked.h"

namespace graft::convert {
namespace {

constexpr std::uint64_t kLargestAlignment = 1 << 20;
constexpr std::uint64_t kLongestName = 1 << 16;
constexpr std::uint64_t kSmallestString = 8;  // its length alone
constexpr std::uint64_t kSmallestEntry = 8 + 4 + 1;
constexpr std::uint64_t kSmallestTensor = 8 + 4 + 8 + 4 + 8;

/// Bytes of a number; 0 for strings and arrays.
std::uint64_t number_size(GgufType type) {
  switch (type) {
    case GgufType::u8:
    case GgufType::i8:
    case GgufType::boolean: return 1;
    case GgufType::u16:
    case GgufType::i16: return 2;
    case GgufType::u32:
    case GgufType::i32:
    case GgufType::f32: return 4;
    case GgufType::u64:
    case GgufType::i64:
    case GgufType::f64: return 8;
    case GgufType::string:
    case GgufType::array: return 0;
  }
  return 0;
}

Result<GgufType> read_type(ByteReader& reader) {
  GRAFT_TRY_ASSIGN(const std::uint32_t type, reader.number<std::uint32_t>());
  if (type > 12) return corrupt("A metadata value is of type ", type, "; GGUF has types 0 to 12.");
  return static_cast<GgufType>(type);
}

Result<std::string_view> read_string(ByteReader& reader) {
  GRAFT_TRY_ASSIGN(const std::uint64_t size, reader.number<std::uint64_t>());
  return reader.text(size);
}

Result<std::string_view> read_name(ByteReader& reader) {
  GRAFT_TRY_ASSIGN(const std::string_view name, read_string(reader));
  if (name.empty() || name.size() > kLongestName) {
    return corrupt("A name has ", name.size(), " bytes; 1 to ", kLongestName, " are possible.");
  }
  return name;
}

/// A count whose items cannot fit into what is left of the file is refused before anything is allocated.
Status check_count(const ByteReader& reader, const char* what, std::uint64_t count, std::uint64_t smallest) {
  if (count <= reader.left() / smallest) return {};
  return corrupt("The file promises ", count, " ", what, ", but only ", reader.left(), " bytes follow.");
}

Status read_array(ByteReader& reader, GgufValue& out) {
  GRAFT_TRY_ASSIGN(out.element, read_type(reader));
  GRAFT_TRY_ASSIGN(out.count, reader.number<std::uint64_t>());
  if (out.element == GgufType::array) return unsupported("A metadata value is an array of arrays.");
  const bool strings = out.element == GgufType::string;
  const std::uint64_t size = strings ? kSmallestString : number_size(out.element);
  GRAFT_TRY(check_count(reader, "array elements", out.count, size));
  if (!strings) {
    GRAFT_TRY_ASSIGN(out.bytes, reader.take(out.count * size));
    return {};
  }
  out.text.reserve(out.count);
  for (std::uint64_t i = 0; i < out.count; ++i) {
    GRAFT_TRY_ASSIGN(const std::string_view text, read_string(reader));
    out.text.push_back(text);
  }
  return {};
}

Result<GgufValue> read_value(ByteReader& reader) {
  GgufValue out;
  GRAFT_TRY_ASSIGN(out.type, read_type(reader));
  if (out.type == GgufType::array) {
    GRAFT_TRY(read_array(reader, out));
  } else if (out.type == GgufType::string) {
    GRAFT_TRY_ASSIGN(const std::string_view text, read_string(reader));
    out.text.push_back(text);
  } else {
    GRAFT_TRY_ASSIGN(out.bytes, reader.take(number_size(out.type)));
  }
  return out;
}

Result<GgufTensor> read_tensor(ByteReader& reader) {
  GgufTensor out;
  GRAFT_TRY_ASSIGN(out.name, read_name(reader));
  GRAFT_TRY_ASSIGN(const std::uint32_t rank, reader.number<std::uint32_t>());
  if (rank < 1 || rank > 4)
    return corrupt("Tensor \"", shown(out.name), "\" has ", rank, " dimensions; 1 to 4 are possible.");
  std::int64_t elements = 1;
  for (std::uint32_t i = 0; i < rank; ++i) {
    GRAFT_TRY_ASSIGN(const std::uint64_t dim, reader.number<std::uint64_t>());
    const bool fits = dim >= 1 && dim <= std::uint64_t{std::numeric_limits<std::int64_t>::max()};
    const auto product = fits ? checked_mul(elements, static_cast<std::int64_t>(dim)) : std::nullopt;
    if (!product)
      return corrupt("Dimension ", i, " of tensor \"", shown(out.name), "\" is ", dim, ", which cannot be.");
    elements = *product;
    out.dims.push_back(dim);
  }
  GRAFT_TRY_ASSIGN(out.type, reader.number<std::uint32_t>());
  GRAFT_TRY_ASSIGN(out.offset, reader.number<std::uint64_t>());
  return out;
}

template <typename T>
T number_at(std::span<const std::byte> bytes, std::uint64_t index) {
  T out;
  std::memcpy(&out, bytes.data() + index * sizeof(T), sizeof(T));
  return out;
}

/// nullopt where the type is no integer, or the number does not fit.
std::optional<std::int64_t> integer_at(GgufType type, std::span<const std::byte> bytes, std::uint64_t index) {
  switch (type) {
    case GgufType::u8: return number_at<std::uint8_t>(bytes, index);
    case GgufType::i8: return number_at<std::int8_t>(bytes, index);
    case GgufType::u16: return number_at<std::uint16_t>(bytes, index);
    case GgufType::i16: return number_at<std::int16_t>(bytes, index);
    case GgufType::u32: return number_at<std::uint32_t>(bytes, index);
    case GgufType::i32: return number_at<std::int32_t>(bytes, index);
    case GgufType::i64: return number_at<std::int64_t>(bytes, index);
    case GgufType::u64: {
      const auto value = number_at<std::uint64_t>(bytes, index);
      if (value > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) return std::nullopt;
      return static_cast<std::int64_t>(value);
    }
    default: return std::nullopt;
  }
}

std::optional<double> real_at(GgufType type, std::span<const std::byte> bytes, std::uint64_t index) {
  if (type == GgufType::f32) return number_at<float>(bytes, index);
  if (type == GgufType::f64) return number_at<double>(bytes, index);
  return std::nullopt;
}

Status wrong_type(std::string_view key, const char* wanted) {
  return corrupt("Metadata \"", shown(key), "\" is not ", wanted, ".");
}

}  // namespace

Result<GgufFile> GgufFile::parse(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  GRAFT_TRY_ASSIGN(const std::uint32_t magic, reader.number<std::uint32_t>());
  if (magic != kGgufMagic) return corrupt("This is no GGUF file: it does not begin with \"GGUF\".");
  GRAFT_TRY_ASSIGN(const std::uint32_t version, reader.number<std::uint32_t>());
  if (version != 2 && version != 3) {
    return unsupported("The GGUF file is of version ", version, (version & 0xFFFF) == 0 ? " (big-endian?)" : "",
                       "; versions 2 and 3 can be read.");
  }
  GRAFT_TRY_ASSIGN(const std::uint64_t tensor_count, reader.number<std::uint64_t>());
  GRAFT_TRY_ASSIGN(const std::uint64_t entry_count, reader.number<std::uint64_t>());
  GRAFT_TRY(check_count(reader, "metadata entries", entry_count, kSmallestEntry));
  GRAFT_TRY(check_count(reader, "tensors", tensor_count, kSmallestTensor));
  GgufFile out;
  for (std::uint64_t i = 0; i < entry_count; ++i) {
    GRAFT_TRY_ASSIGN(const std::string_view key, read_name(reader));
    GRAFT_TRY_ASSIGN(GgufValue value, read_value(reader).with_context(cat("Metadata \"", shown(key), "\"")));
    if (!out.metadata_.emplace(key, std::move(value)).second)
      return corrupt("Metadata \"", shown(key), "\" appears twice.");
    out.keys_.push_back(key);
  }
  std::set<std::string_view> names;
  for (std::uint64_t i = 0; i < tensor_count; ++i) {
    GRAFT_TRY_ASSIGN(GgufTensor tensor, read_tensor(reader));
    if (!names.insert(tensor.name).second) return corrupt("Tensor \"", shown(tensor.name), "\" appears twice.");
    out.tensors_.push_back(std::move(tensor));
  }
  if (out.has("general.alignment")) {
    GRAFT_TRY_ASSIGN(const std::int64_t alignment, out.integer("general.alignment"));
    const auto value = static_cast<std::uint64_t>(alignment);
    if (alignment < 1 || value > kLargestAlignment || (value & (value - 1)) != 0) {
      return corrupt("Metadata \"general.alignment\" is ", alignment, "; it must be a power of two up to ",
                     kLargestAlignment, ".");
    }
    out.alignment_ = value;
  }
  const std::uint64_t begin = align_up(reader.offset(), out.alignment_);
  out.data_ = bytes.subspan(begin < bytes.size() ? begin : bytes.size());
  for (const GgufTensor& tensor : out.tensors_) {
    if (tensor.offset % out.alignment_ == 0 && tensor.offset < out.data_.size()) continue;
    return corrupt("Tensor \"", shown(tensor.name), "\" begins at offset ", tensor.offset, " of ", out.data_.size(),
                   " bytes of data, aligned to ", out.alignment_, ".");
  }
  return out;
}

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto found = metadata_.find(key);
  return found == metadata_.end() ? nullptr : &found->second;
}

bool GgufFile::erase(std::string_view key) {
  std::erase(keys_, key);
  return metadata_.erase(key) != 0;
}

Result<const GgufValue*> GgufFile::get(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return error(Code::not_found, "The GGUF file has no metadata \"", shown(key), "\".");
  return value;
}

Result<std::string_view> GgufFile::text(std::string_view key) const {
  GRAFT_TRY_ASSIGN(const GgufValue* value, get(key));
  if (value->type != GgufType::string) return wrong_type(key, "a string");
  return value->text.front();
}

Result<std::int64_t> GgufFile::integer(std::string_view key) const {
  GRAFT_TRY_ASSIGN(const GgufValue* value, get(key));
  const auto number = integer_at(value->type, value->bytes, 0);
  if (!number) return wrong_type(key, "an integer of at most 63 bits");
  return *number;
}

Result<double> GgufFile::real(std::string_view key) const {
  GRAFT_TRY_ASSIGN(const GgufValue* value, get(key));
  if (const auto number = real_at(value->type, value->bytes, 0)) return *number;
  if (const auto number = integer_at(value->type, value->bytes, 0)) return static_cast<double>(*number);
  return wrong_type(key, "a number");
}

Result<bool> GgufFile::flag(std::string_view key) const {
  GRAFT_TRY_ASSIGN(const GgufValue* value, get(key));
  if (value->type != GgufType::boolean) return wrong_type(key, "a boolean");
  return value->bytes[0] != std::byte{0};
}

Result<std::span<const std::string_view>> GgufFile::texts(std::string_view key) const {
  GRAFT_TRY_ASSIGN(const GgufValue* value, get(key));
  if (value->type != GgufType::array || value->element != GgufType::string) {
    return wrong_type(key, "an array of strings");
  }
  return std::span<const std::string_view>(value->text);
}

Result<std::vector<std::int64_t>> GgufFile::integers(std::string_view key) const {
  GRAFT_TRY_ASSIGN(const GgufValue* value, get(key));
  std::vector<std::int64_t> out;
  for (std::uint64_t i = 0; i < value->count; ++i) {
    const auto number = integer_at(value->element, value->bytes, i);
    if (!number) return wrong_type(key, "an array of integers");
    out.push_back(*number);
  }
  if (value->type != GgufType::array) return wrong_type(key, "an array of integers");
  return out;
}

Result<std::vector<float>> GgufFile::reals(std::string_view key) const {
  GRAFT_TRY_ASSIGN(const GgufValue* value, get(key));
  std::vector<float> out;
  for (std::uint64_t i = 0; i < value->count; ++i) {
    const auto number = real_at(value->element, value->bytes, i);
    if (!number) return wrong_type(key, "an array of floats");
    out.push_back(static_cast<float>(*number));
  }
  if (value->type != GgufType::array) return wrong_type(key, "an array of floats");
  return out;
}

}  // namespace graft::convert
