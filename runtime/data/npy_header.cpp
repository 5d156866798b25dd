#include "runtime/data/npy_header.h"

#include <charconv>
#include <cstring>

#include "platform/base/checked.h"

namespace graft::data {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMaxText = 64 << 10;  // NumPy's own headers are shorter than 1 KiB for plain types

/// Reads the dictionary's text from front to back.
class HeaderCursor {
 public:
  explicit HeaderCursor(std::string_view text) : text_(text) {}

  void skip_space() {
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\n' || text_[0] == '\t')) text_.remove_prefix(1);
  }
  bool take(std::string_view token) {
    skip_space();
    if (text_.substr(0, token.size()) != token) return false;
    text_.remove_prefix(token.size());
    return true;
  }
  /// A quoted string without escapes.
  bool quoted(std::string_view& out) {
    skip_space();
    if (text_.empty() || (text_[0] != '\'' && text_[0] != '"')) return false;
    const std::size_t end = text_.find(text_[0], 1);
    if (end == std::string_view::npos) return false;
    out = text_.substr(1, end - 1);
    text_.remove_prefix(end + 1);
    return true;
  }
  bool number(std::int64_t& out) {
    skip_space();
    const auto [end, failure] = std::from_chars(text_.data(), text_.data() + text_.size(), out);
    if (failure != std::errc() || out < 0) return false;
    text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
    return true;
  }
  bool at_end() {
    skip_space();
    return text_.empty();
  }

 private:
  std::string_view text_;
};

Status parse_type(std::string_view type, NpyHeader& header) {
  const auto refuse = [&] {
    return unsupported("Its element type is \"", type.substr(0, 32),
                       "\"; booleans, integers of 8 to 64 bits and floats of 16 to 64 bits can be read.");
  };
  if (type.size() != 3) return refuse();
  const char order = type[0];
  header.kind = type[1];
  header.size = static_cast<std::uint8_t>(type[2] - '0');
  header.big_endian = order == '>';
  const bool order_ok = order == '<' || order == '>' || order == '=' || (order == '|' && header.size == 1);
  const int size = header.size;
  const bool word = size == 2 || size == 4 || size == 8;
  const bool type_ok = (header.kind == 'b' && size == 1) || (header.kind == 'f' && word) ||
                       ((header.kind == 'i' || header.kind == 'u') && (word || size == 1));
  return order_ok && type_ok ? ok_status() : refuse();
}

Status parse_shape(HeaderCursor& cursor, NpyHeader& header) {
  std::vector<Dim> dims;
  if (!cursor.take("(")) return corrupt("Its header's shape is not a tuple.");
  while (!cursor.take(")")) {
    std::int64_t size = 0;
    if (!cursor.number(size)) return corrupt("Its header's shape holds something else than sizes.");
    if (dims.size() == Shape::kMaxRank) {
      return unsupported("Its shape has a rank above ", Shape::kMaxRank, ", the limit.");
    }
    dims.push_back(size);
    if (!cursor.take(",")) {
      if (dims.size() > 1 && cursor.take(")")) break;
      return corrupt("Its header's shape is not closed.");
    }
  }
  header.shape = Shape(std::move(dims));
  return detail::to_status(header.shape.element_count());
}

Status parse_dictionary(std::string_view text, NpyHeader& header) {
  HeaderCursor cursor(text);
  bool descr = false, order = false, shape = false;
  if (!cursor.take("{")) return corrupt("Its header is not a dictionary.");
  while (!cursor.take("}")) {
    std::string_view key;
    if (!cursor.quoted(key) || !cursor.take(":")) return corrupt("Its header's dictionary is malformed.");
    if (key == "descr" && !descr) {
      std::string_view type;
      if (!cursor.quoted(type)) return unsupported("Its elements are records; numbers and booleans can be read.");
      GRAFT_TRY(parse_type(type, header));
      descr = true;
    } else if (key == "fortran_order" && !order) {
      header.fortran_order = cursor.take("True");
      if (!header.fortran_order && !cursor.take("False")) return corrupt("Its fortran_order is not True or False.");
      order = true;
    } else if (key == "shape" && !shape) {
      GRAFT_TRY(parse_shape(cursor, header));
      shape = true;
    } else {
      return corrupt("Its header holds the key \"", key.substr(0, 32), "\" twice or out of place.");
    }
    if (!cursor.take(",")) {
      if (cursor.take("}")) break;
      return corrupt("Its header's dictionary is not closed.");
    }
  }
  if (!descr || !order || !shape) return corrupt("Its header lacks descr, fortran_order or shape.");
  if (!cursor.at_end()) return corrupt("Its header goes on after the dictionary.");
  return ok_status();
}

}  // namespace

Result<NpyHeader> parse_npy_header(std::span<const std::byte> bytes) {
  const std::string_view file(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (file.starts_with("PK\x03\x04")) {
    return unsupported("It is a .npz file (a zip file of arrays); save the array in a .npy file.");
  }
  if (file.starts_with("\x1f\x8b")) return unsupported("It is compressed by gzip, which a .npy file may not be.");
  if (file.substr(0, kMagic.size()) != kMagic || file.size() < 12) {
    return corrupt("It is not a .npy file: it does not start with NumPy's mark.");
  }
  const int version = static_cast<unsigned char>(file[6]);
  if (version < 1 || version > 3 || file[7] != 0) {
    return unsupported("It is of .npy version ", version, ".", static_cast<int>(static_cast<unsigned char>(file[7])),
                       "; versions 1.0, 2.0 and 3.0 can be read.");
  }
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) {
    length |= std::uint64_t{static_cast<unsigned char>(file[8 + i])} << (8 * i);
  }
  const std::uint64_t start = 8 + length_bytes;
  if (!in_bounds(start, length, file.size()) || length > kMaxText) {
    return corrupt("Its header is said to have ", length, " bytes; the file has ", file.size() - start,
                   " after it starts, and the limit is ", kMaxText, ".");
  }
  NpyHeader header;
  GRAFT_TRY(parse_dictionary(file.substr(start, length), header));
  const auto needed = checked_mul<std::uint64_t>(header.shape.elements(), header.size);
  const std::uint64_t present = file.size() - start - length;
  if (!needed || *needed != present) {
    return corrupt("Its shape ", header.shape.text(), " of ", int{header.size}, "-byte elements does not fit the ",
                   present, " bytes of data that it has.");
  }
  header.data = bytes.subspan(static_cast<std::size_t>(start + length));
  return header;
}

Result<std::string> npy_header(DType dtype, const Shape& shape) {
  const char* type = nullptr;
  switch (dtype) {
    case DType::f32: type = "<f4"; break;
    case DType::i32: type = "<i4"; break;
    case DType::boolean: type = "|b1"; break;
    case DType::f16: type = "<f2"; break;
    default: break;
  }
  if (type == nullptr) return unsupported("NumPy has no element type for ", dtype_name(dtype), ".");
  return npy_header(std::string_view(type), shape);
}

std::string npy_header(std::string_view type, const Shape& shape) {
  std::string text = cat("{'descr': '", type, "', 'fortran_order': False, 'shape': (");
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) {
    text += cat(axis == 0 ? "" : " ", shape[axis].value(), axis + 1 < shape.rank() || axis == 0 ? "," : "");
  }
  text += "), }";
  constexpr std::size_t kPrefix = 10;  // magic, version, length
  const std::size_t length = align_up(kPrefix + text.size() + 1, 64) - kPrefix;
  text.append(length - 1 - text.size(), ' ');
  text += '\n';
  std::string out(kMagic);
  out += {'\x01', '\x00', static_cast<char>(length & 0xff), static_cast<char>(length >> 8)};
  return out + text;
}

}  // namespace graft::data
