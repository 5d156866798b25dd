// The idx format: two zero bytes, a type code, the rank, then each dimension as a big-endian 32-bit number, then the
// elements, row-major and big-endian.
#include <array>
#include <bit>
#include <cstring>

#include "platform/base/checked.h"
#include "runtime/data/column.h"

namespace graft::data {
namespace {

struct IdxType {
  int code;
  std::uint32_t bytes;
  const char* name;
};
constexpr IdxType kTypes[] = {{0x08, 1, "unsigned byte"}, {0x09, 1, "signed byte"}, {0x0B, 2, "short"},
                              {0x0C, 4, "int"},           {0x0D, 4, "float"},       {0x0E, 8, "double"}};

std::uint64_t big_endian(const std::byte* bytes, std::size_t count) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < count; ++i) value = value << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  return value;
}

double element(const IdxType& type, const std::byte* at) {
  const std::uint64_t raw = big_endian(at, type.bytes);
  switch (type.code) {
    case 0x08: return static_cast<double>(raw);
    case 0x09: return static_cast<std::int8_t>(raw);
    case 0x0B: return static_cast<std::int16_t>(raw);
    case 0x0C: return static_cast<std::int32_t>(raw);
    case 0x0D: return std::bit_cast<float>(static_cast<std::uint32_t>(raw));
    default: return std::bit_cast<double>(raw);
  }
}

struct IdxHeader {
  IdxType type;
  std::vector<std::uint64_t> dims;
  std::uint64_t data_offset = 0;
  std::uint64_t sample_bytes = 0;
};

Status read_dims(const DataFile& file, std::size_t rank, IdxHeader& header) {
  std::array<std::byte, 4 * Shape::kMaxRank> bytes;
  GRAFT_TRY(file.read(4, std::span(bytes).first(4 * rank)));
  for (std::size_t i = 0; i < rank; ++i) header.dims.push_back(big_endian(bytes.data() + 4 * i, 4));
  std::optional<std::uint64_t> sample = header.type.bytes;
  for (std::size_t i = 1; i < rank && sample; ++i) sample = checked_mul(*sample, header.dims[i]);
  const auto total = sample ? checked_mul(*sample, header.dims[0]) : std::nullopt;
  if (!total) return corrupt("idx file \"", file.path(), "\" claims more elements than can be counted.");
  if (*sample == 0) return corrupt("idx file \"", file.path(), "\" has samples of 0 elements.");
  // Else a sample of any size would agree with a file of none.
  if (header.dims[0] == 0) return corrupt("idx file \"", file.path(), "\" holds no samples.");
  header.sample_bytes = *sample;
  header.data_offset = 4 + 4 * rank;
  if (*total != file.size() - header.data_offset) {
    return corrupt("idx file \"", file.path(), "\" should hold ", *total, " bytes of data after its header, but holds ",
                   file.size() - header.data_offset, ".");
  }
  return {};
}

Result<IdxHeader> read_header(const DataFile& file) {
  std::array<std::byte, 4> magic;
  if (file.size() < magic.size()) return corrupt("\"", file.path(), "\" has ", file.size(), " bytes, too few for idx.");
  GRAFT_TRY(file.read(0, magic));
  const int code = std::to_integer<int>(magic[2]);
  const auto rank = std::to_integer<std::size_t>(magic[3]);
  const IdxType* type = nullptr;
  for (const IdxType& candidate : kTypes) {
    if (candidate.code == code) type = &candidate;
  }
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0} || type == nullptr) {
    return corrupt("\"", file.path(), "\" is not an idx file: it does not start with 0, 0 and a type code.");
  }
  if (rank == 0 || rank > Shape::kMaxRank || file.size() < 4 + 4 * rank) {
    return corrupt("idx file \"", file.path(), "\" says that it has ", rank, " dimensions; 1 to ", Shape::kMaxRank,
                   " fit, and its ", file.size(), " bytes must hold them.");
  }
  IdxHeader header{*type, {}, 0, 0};
  GRAFT_TRY(read_dims(file, rank, header));
  return header;
}

class IdxColumn final : public Column {
 public:
  IdxColumn(DataFile file, IdxHeader header, Field field, double scale)
      : file_(std::move(file)), header_(std::move(header)), field_(std::move(field)), scale_(scale) {
    raw_.resize(header_.sample_bytes);
  }
  const Field& field() const override { return field_; }
  std::uint64_t size() const override { return header_.dims[0]; }

  Status read(std::uint64_t index, std::span<std::byte> out) override {
    GRAFT_TRY(file_.read(header_.data_offset + index * header_.sample_bytes, raw_));
    const std::size_t count = raw_.size() / header_.type.bytes;
    for (std::size_t i = 0; i < count; ++i) {
      const double value = element(header_.type, raw_.data() + i * header_.type.bytes);
      if (field_.dtype == DType::i32) {
        const auto word = static_cast<std::int32_t>(value);
        std::memcpy(out.data() + 4 * i, &word, 4);
      } else {
        const auto word = static_cast<float>(value * scale_);
        std::memcpy(out.data() + 4 * i, &word, 4);
      }
    }
    return {};
  }

 private:
  DataFile file_;
  IdxHeader header_;
  Field field_;
  double scale_;
  std::vector<std::byte> raw_;
};

}  // namespace

Result<std::unique_ptr<Column>> open_idx(const std::string& path, const IdxOptions& options, const FileOptions& files) {
  GRAFT_TRY_ASSIGN(DataFile file, DataFile::open(path, files));
  GRAFT_TRY_ASSIGN(IdxHeader header, read_header(file));
  const bool whole = header.type.code < 0x0D;
  std::vector<std::int64_t> dims(header.dims.begin() + 1, header.dims.end());
  Field field{options.name, DType::f32, Shape::of(dims), options.role};
  if (options.role == Role::label) {
    if (!whole || !dims.empty()) {
      return invalid("idx file \"", path, "\" cannot be labels: its elements are of type ", header.type.name,
                     " with shape ", field.shape.text(), ", but a label is one whole number.");
    }
    field.dtype = DType::i32;
  } else if (dims.size() == 2) {
    field.shape = Shape{1, dims[0], dims[1]};
  }
  GRAFT_TRY(check_fields({&field, 1}).with_context(cat("In idx file \"", path, "\"")));
  const double scale = options.scale.value_or(header.type.code == 0x08 ? 1.0 / 255.0 : 1.0);
  return std::unique_ptr<Column>(new IdxColumn(std::move(file), std::move(header), std::move(field), scale));
}

}  // namespace graft::data
