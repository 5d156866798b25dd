#include "runtime/data/source.h"

#include <cstring>
#include <utility>

#include "platform/base/checked.h"
#include "platform/base/hash.h"
#include "platform/base/json.h"

namespace graft::data {
namespace {

class SliceSource final : public Source {
 public:
  SliceSource(std::vector<Field> fields, std::vector<std::span<const std::byte>> blocks, std::uint64_t samples)
      : fields_(std::move(fields)), blocks_(std::move(blocks)), samples_(samples) {}
  const std::vector<Field>& fields() const override { return fields_; }
  std::optional<std::uint64_t> size() const override { return samples_; }

  Result<bool> read(std::uint64_t& position, SampleOut out) override {
    if (position >= samples_) return false;
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      const std::uint64_t bytes = fields_[f].bytes();
      std::memcpy(out[f], blocks_[f].data() + position * bytes, bytes);
    }
    ++position;
    return true;
  }

 private:
  std::vector<Field> fields_;
  std::vector<std::span<const std::byte>> blocks_;
  std::uint64_t samples_;
};

class GeneratorSource final : public Source {
 public:
  GeneratorSource(std::vector<Field> fields, Generate generate, std::optional<std::uint64_t> samples)
      : fields_(std::move(fields)), generate_(std::move(generate)), samples_(samples) {}
  const std::vector<Field>& fields() const override { return fields_; }
  std::optional<std::uint64_t> size() const override { return samples_; }

  Result<bool> read(std::uint64_t& position, SampleOut out) override {
    if (samples_ && position >= *samples_) return false;
    GRAFT_TRY_ASSIGN(const bool more, generate_(position, out));
    if (!more && samples_) {
      return invalid("The data generator ended at sample ", position, ", but said that it has ", *samples_, ".");
    }
    if (more) ++position;
    return more;
  }

 private:
  std::vector<Field> fields_;
  Generate generate_;
  std::optional<std::uint64_t> samples_;
};

class MapSource final : public Source {
 public:
  MapSource(std::unique_ptr<Source> source, std::vector<Field> fields, Map function)
      : source_(std::move(source)), fields_(std::move(fields)), function_(std::move(function)) {
    std::size_t bytes = 0;
    for (const Field& field : source_->fields()) bytes += align_up(field.bytes(), 16);
    scratch_.resize(bytes);
    std::byte* next = scratch_.data();
    for (const Field& field : source_->fields()) {
      pointers_.push_back(next);
      next += align_up(field.bytes(), 16);
    }
  }
  const std::vector<Field>& fields() const override { return fields_; }
  std::optional<std::uint64_t> size() const override { return source_->size(); }
  void start_epoch(std::uint64_t seed, std::uint64_t epoch) override { source_->start_epoch(seed, epoch); }
  bool draws_by_number() const override { return source_->draws_by_number(); }

  Result<bool> read(std::uint64_t& position, SampleOut out) override {
    const std::uint64_t at = position;
    GRAFT_TRY_ASSIGN(const bool more, source_->read(position, pointers_));
    if (!more) return false;
    GRAFT_TRY(function_(at, {pointers_.data(), pointers_.size()}, out));
    return true;
  }

 private:
  std::unique_ptr<Source> source_;
  std::vector<Field> fields_;
  Map function_;
  std::vector<std::byte> scratch_;  // why reads are not parallel
  std::vector<std::byte*> pointers_;
};

class SelectedSource final : public Source {
 public:
  SelectedSource(Source& source, std::vector<std::uint64_t> rows) : source_(source), rows_(std::move(rows)) {}
  const std::vector<Field>& fields() const override { return source_.fields(); }
  std::optional<std::uint64_t> size() const override { return rows_.size(); }
  void start_epoch(std::uint64_t seed, std::uint64_t epoch) override { source_.start_epoch(seed, epoch); }
  bool parallel() const override { return source_.parallel(); }
  bool draws_by_number() const override { return source_.draws_by_number(); }
  Result<std::uint64_t> key(std::uint64_t position) override { return source_.key(rows_[position]); }
  Result<bool> read(std::uint64_t& position, SampleOut out) override {
    if (position >= rows_.size()) return false;
    std::uint64_t row = rows_[position];
    GRAFT_TRY_ASSIGN(const bool there, source_.read(row, out));
    ++position;
    return there;
  }

 private:
  Source& source_;
  std::vector<std::uint64_t> rows_;
};

class RangeSource final : public Source {
 public:
  RangeSource(std::unique_ptr<Source> source, std::uint64_t first, std::uint64_t count)
      : source_(std::move(source)), first_(first), count_(count) {}
  const std::vector<Field>& fields() const override { return source_->fields(); }
  std::optional<std::uint64_t> size() const override { return count_; }
  void start_epoch(std::uint64_t seed, std::uint64_t epoch) override { source_->start_epoch(seed, epoch); }
  bool parallel() const override { return source_->parallel(); }
  bool draws_by_number() const override { return source_->draws_by_number(); }
  Result<std::uint64_t> key(std::uint64_t position) override { return source_->key(first_ + position); }

  Result<bool> read(std::uint64_t& position, SampleOut out) override {
    if (position >= count_) return false;
    std::uint64_t inner = first_ + position;
    GRAFT_TRY_ASSIGN(const bool more, source_->read(inner, out));
    if (more) ++position;
    return more;
  }

 private:
  std::unique_ptr<Source> source_;
  std::uint64_t first_;
  std::uint64_t count_;
};

}  // namespace

Result<std::uint64_t> Source::key(std::uint64_t position) {
  std::vector<std::byte> sample(sample_bytes(*this));
  std::vector<std::byte*> pointers;
  for (std::size_t at = 0, f = 0; f < fields().size(); at += fields()[f++].bytes()) {
    pointers.push_back(sample.data() + at);
  }
  GRAFT_TRY_ASSIGN(const bool more, read(position, pointers));
  if (!more) return corrupt("The data set ended before its size.");
  return hash64(sample);
}

std::uint64_t sample_bytes(const Source& source) {
  std::uint64_t bytes = 0;
  for (const Field& field : source.fields()) bytes += field.bytes();
  return bytes;
}

const std::vector<std::string>* class_names(const Source& source) {
  for (const Field& field : source.fields()) {
    if (!field.classes.empty()) return &field.classes;
  }
  return nullptr;
}

std::optional<std::size_t> find_role(const Source& source, Role role) {
  for (std::size_t f = 0; f < source.fields().size(); ++f) {
    if (source.fields()[f].role == role) return f;
  }
  return std::nullopt;
}

Status check_fields(std::span<const Field> fields) {
  if (fields.empty()) return invalid("A data set needs at least one field.");
  constexpr std::uint64_t kMaxFieldBytes = 1ull << 32;
  for (std::size_t f = 0; f < fields.size(); ++f) {
    const Field& field = fields[f];
    for (const std::string& name : field.classes) {  // models store them as JSON
      if (!json::is_utf8(name)) return invalid("The name of a class is not text in UTF-8: ", json::quoted(name), ".");
    }
    if (!field.shape.is_constant()) {
      return invalid("Field \"", field.name, "\" of a data set has the shape ", field.shape.text(),
                     "; a sample's shape must be made of numbers alone.");
    }
    GRAFT_TRY_ASSIGN(const Dim elements, field.shape.element_count());
    if (static_cast<std::uint64_t>(elements.value()) > kMaxFieldBytes / field.element_bytes()) {
      return invalid("Field \"", field.name, "\" has ", elements.value(), " elements in each sample, more than ",
                     kMaxFieldBytes / field.element_bytes(), ".");
    }
    if (field.role == Role::weight && (field.dtype != DType::f32 || field.shape.elements() != 1)) {
      return invalid("The sample weights \"", field.name, "\" of a data set are of type ", dtype_name(field.dtype),
                     " and shape ", field.shape.text(), " for each sample; one f32 is wanted.");
    }
    for (std::size_t g = 0; g < f; ++g) {
      if (fields[g].name == field.name) return invalid("Two fields of a data set are named \"", field.name, "\".");
    }
  }
  return {};
}

Result<std::unique_ptr<Source>> from_slices(std::vector<Field> fields, std::vector<std::span<const std::byte>> blocks,
                                            std::uint64_t samples) {
  GRAFT_TRY(check_fields(fields));
  if (blocks.size() != fields.size()) {
    return invalid("A data set of ", fields.size(), " fields was given ", blocks.size(), " blocks of memory.");
  }
  for (std::size_t f = 0; f < fields.size(); ++f) {
    const auto need = checked_mul(fields[f].bytes(), samples);
    if (!need || *need != blocks[f].size()) {
      return invalid("Field \"", fields[f].name, "\" of ", fields[f].bytes(), " bytes a sample was given ",
                     blocks[f].size(), " bytes for ", samples, " samples.");
    }
  }
  return std::unique_ptr<Source>(new SliceSource(std::move(fields), std::move(blocks), samples));
}

Result<std::unique_ptr<Source>> from_generator(std::vector<Field> fields, Generate generate,
                                               std::optional<std::uint64_t> samples) {
  GRAFT_TRY(check_fields(fields));
  if (!generate) return invalid("A generated data set was given no function.");
  return std::unique_ptr<Source>(new GeneratorSource(std::move(fields), std::move(generate), samples));
}

Result<std::unique_ptr<Source>> map(std::unique_ptr<Source> source, std::vector<Field> fields, Map function) {
  GRAFT_TRY(check_fields(fields));
  if (!source || !function) return invalid("A mapped data set needs a source and a function.");
  return std::unique_ptr<Source>(new MapSource(std::move(source), std::move(fields), std::move(function)));
}

Result<std::unique_ptr<Source>> select(Source& source, std::vector<std::uint64_t> rows) {
  const auto size = source.size();
  if (!size || rows.empty()) return invalid("Some samples of a data set of known size are wanted.");
  for (const std::uint64_t row : rows) {
    if (row >= *size) return invalid("There is no sample ", row, ": the data set has ", *size, ".");
  }
  return std::unique_ptr<Source>(new SelectedSource(source, std::move(rows)));
}

Result<std::unique_ptr<Source>> range(std::unique_ptr<Source> source, std::uint64_t first, std::uint64_t count) {
  if (!source || !source->size()) return invalid("A range needs a data set of known size.");
  if (count == 0 || !in_bounds(first, count, *source->size())) {
    return invalid("Samples ", first, " to ", first, " + ", count, " were asked of a data set of ", *source->size(),
                   " samples.");
  }
  return std::unique_ptr<Source>(new RangeSource(std::move(source), first, count));
}

}  // namespace graft::data
