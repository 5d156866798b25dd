#include <cstring>

#include "runtime/data/column.h"
#include "runtime/data/npy.h"

namespace graft::data {
namespace {

class NpyColumn final : public Column {
 public:
  NpyColumn(NpyReader reader, Field field)
      : reader_(std::move(reader)), field_(std::move(field)), elements_(field_.shape.elements()) {}
  const Field& field() const override { return field_; }
  std::uint64_t size() const override { return static_cast<std::uint64_t>(reader_.shape()[0].value()); }

  Status read(std::uint64_t index, std::span<std::byte> out) override {
    GRAFT_TRY(reader_.read(index * elements_, elements_, out));
    if (field_.dtype == reader_.dtype()) return {};
    // Whole numbers and booleans as f32, in place: both have four bytes.
    for (std::size_t at = 0; at < out.size(); at += 4) {
      std::int32_t whole = 0;
      std::memcpy(&whole, out.data() + at, 4);
      const auto number = static_cast<float>(whole);
      std::memcpy(out.data() + at, &number, 4);
    }
    return {};
  }

 private:
  NpyReader reader_;
  Field field_;
  std::uint64_t elements_;
};

}  // namespace

Result<std::unique_ptr<Column>> open_npy(const std::string& path, std::string name, Role role,
                                         const FileOptions& files) {
  GRAFT_TRY_ASSIGN(NpyReader reader, NpyReader::open(*files.files, path));
  const std::vector<std::int64_t> dims = reader.shape().values();
  if (dims.empty())
    return invalid("\"", path, "\" holds a single number; the first axis of a data set counts samples.");
  Field field{std::move(name), DType::f32, Shape::of({dims.begin() + 1, dims.end()}), role};
  if (!reader.fits_words()) reader.read_as_float();
  if (role != Role::weight && reader.dtype() == DType::i32) field.dtype = DType::i32;
  const bool one = field.shape == Shape{1};
  if (one && (role == Role::weight || (role == Role::label && field.dtype == DType::i32))) field.shape = Shape{};
  GRAFT_TRY(check_fields({&field, 1}).with_context(cat("In \"", path, "\"")));
  if (field.shape.elements() == 0) return invalid("\"", path, "\" has samples of 0 elements.");
  return std::unique_ptr<Column>(new NpyColumn(std::move(reader), std::move(field)));
}

}  // namespace graft::data
