#include "runtime/personal/memory_source.h"

#include <cstring>
#include <utility>

#include "platform/os/clock.h"
#include "runtime/data/spec_reader.h"
#include "runtime/personal/memory.h"

namespace graft::personal {
namespace {

class StoredSource final : public data::Source {
 public:
  StoredSource(std::shared_ptr<const MemoryReader> reader, std::vector<data::Field> fields,
               std::vector<StoredSample> samples)
      : reader_(std::move(reader)),
        fields_(std::move(fields)),
        samples_(std::move(samples)),
        sample_(static_cast<std::size_t>(reader_->sample_bytes())) {}
  const std::vector<data::Field>& fields() const override { return fields_; }
  std::optional<std::uint64_t> size() const override { return samples_.size(); }
  Result<std::uint64_t> key(std::uint64_t position) override { return samples_[position].key; }
  Result<bool> read(std::uint64_t& position, data::SampleOut out) override {
    if (position >= samples_.size()) return false;
    GRAFT_TRY(reader_->read(samples_[position].offset, sample_));
    std::size_t at = 0;
    for (std::size_t f = 0; f < fields_.size(); ++f) {
      const auto bytes = static_cast<std::size_t>(fields_[f].bytes());
      std::memcpy(out[f], sample_.data() + at, bytes);
      at += bytes;
    }
    ++position;
    return true;
  }

 private:
  std::shared_ptr<const MemoryReader> reader_;
  std::vector<data::Field> fields_;
  std::vector<StoredSample> samples_;
  std::vector<std::byte> sample_;  // why reads are not parallel
};

}  // namespace

std::unique_ptr<data::Source> stored_samples(std::shared_ptr<const MemoryReader> reader,
                                             std::vector<data::Field> fields, std::vector<StoredSample> samples) {
  return std::make_unique<StoredSource>(std::move(reader), std::move(fields), std::move(samples));
}

bool is_memory_spec(std::string_view spec) { return spec.starts_with("memory:"); }

Result<std::unique_ptr<data::Source>> open_memory_spec(std::string_view text, os::FileSystem& files) {
  const auto opened = [&]() -> Result<std::unique_ptr<data::Source>> {
    GRAFT_TRY_ASSIGN(const data::Spec spec, data::parse_spec(text));
    data::OptionReader options(spec);
    const std::string part = options.text("part").value_or("training");
    for (const char* name : {"skip", "count"}) options.text(name);
    GRAFT_TRY(options.finish());
    GRAFT_TRY(data::expect_arguments(spec, 1, "memory:FILE"));
    if (part != "training" && part != "held-out") {
      return invalid("Option part=", part, " of a memory must be training or held-out.");
    }
    MemoryOptions wanted;
    wanted.read_only = true;
    wanted.files = &files;
    GRAFT_TRY_ASSIGN(const auto memory, ExampleMemory::open(spec.arguments[0], wanted));
    GRAFT_TRY_ASSIGN(auto source,
                     memory->source(part == "training" ? Part::training : Part::held_out, os::wall_clock_ms()));
    return data::part_of(std::move(source), spec);
  };
  return opened().with_context(cat("While opening data set \"", text, "\""));
}

}  // namespace graft::personal
