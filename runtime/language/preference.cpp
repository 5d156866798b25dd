#include "runtime/language/preference.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "platform/base/hash.h"
#include "runtime/language/text_data.h"
#include "runtime/run_state/data_hints.h"
#include "runtime/train/step/loss.h"

namespace graft {
namespace {

constexpr std::string_view kReferenceMagic = "graft reference 1\n";

std::optional<std::size_t> reference_field(const data::Source& source) {
  const auto& fields = source.fields();
  const auto found = std::ranges::find(fields, train::kReferenceField, &data::Field::name);
  if (found == fields.end() || found->dtype != DType::f32) return std::nullopt;
  return static_cast<std::size_t>(found - fields.begin());
}

class ReferencedSource final : public data::Source {
 public:
  ReferencedSource(std::unique_ptr<data::Source> source, std::size_t field, std::vector<float> references)
      : source_(std::move(source)), field_(field), references_(std::move(references)) {}

  const std::vector<data::Field>& fields() const override { return source_->fields(); }
  std::optional<std::uint64_t> size() const override { return source_->size(); }
  Result<bool> read(std::uint64_t& position, data::SampleOut out) override {
    const std::uint64_t at = position;
    GRAFT_TRY_ASSIGN(const bool more, source_->read(position, out));
    if (more) std::memcpy(out[field_], references_.data() + 2 * at, 2 * sizeof(float));
    return more;
  }
  void start_epoch(std::uint64_t seed, std::uint64_t epoch) override { source_->start_epoch(seed, epoch); }
  // Without references, which differ from device to device.
  Result<std::uint64_t> key(std::uint64_t position) override { return source_->key(position); }

 private:
  std::unique_ptr<data::Source> source_;
  std::size_t field_;
  std::vector<float> references_;
};

std::string checksum_of(std::span<const std::byte> bytes) { return hash_text(hash128(bytes)); }

}  // namespace

bool has_pairs(const data::Source& source) { return reference_field(source).has_value(); }

Result<std::vector<float>> log_probabilities(gpu::Device& device, const Model& base, data::Source& source,
                                             const ReferenceOptions& options) {
  const auto size = source.size();
  if (!has_pairs(source) || !size) return invalid("The data set holds no preferences.");
  GRAFT_TRY_ASSIGN(const Model model, with_packed_sequences(base));
  train::TrainOptions train;
  train.loss.kind = train::Loss::orpo;  // needs no reference itself
  train.predictions = true;
  train.batch = std::min(options.batch, static_cast<std::int64_t>(*size));
  train.precision = options.precision;
  train.bindings = options.bindings;
  bind_length(source, model, train.bindings);
  train::TrainerOptions trainer_options = options.trainer;
  trainer_options.request.training = false;
  trainer_options.request.evaluation_samples = size;
  GRAFT_TRY(train::set_targets(model.graph, source.fields(), train));
  GRAFT_TRY_ASSIGN(const auto trainer, create_trainer(device, model, train, source.fields(), trainer_options));
  std::vector<float> out;
  const auto read = [&](const train::EvaluatedBatch& batch) -> Status {
    const std::span<const std::byte> bytes = batch.program.output(cat(train::kPredictionPrefix, 0));
    const std::size_t numbers = 2 * static_cast<std::size_t>(batch.batch.count());
    if (bytes.size() < numbers * sizeof(float)) return internal_error("A batch has too few log-probabilities.");
    const std::size_t begin = out.size();
    out.resize(begin + numbers);
    std::memcpy(out.data() + begin, bytes.data(), numbers * sizeof(float));
    return {};
  };
  GRAFT_TRY(trainer->evaluate(source, read, [&] { out.clear(); }).status());
  return out;
}

Result<std::unique_ptr<data::Source>> with_references(std::unique_ptr<data::Source> source,
                                                      std::vector<float> references) {
  const auto field = reference_field(*source);
  if (!field || references.size() != 2 * source->size().value_or(0)) {
    return invalid(references.size(), " log-probabilities of a reference do not fit the data set.");
  }
  return std::unique_ptr<data::Source>(
      std::make_unique<ReferencedSource>(std::move(source), *field, std::move(references)));
}

Result<std::vector<float>> read_references(os::FileSystem& files, const std::string& path, const std::string& of,
                                           std::uint64_t samples) {
  if (!os::exists(files, path)) return error(Code::not_found, "There is no \"", path, "\".");
  GRAFT_TRY_ASSIGN(const auto file, files.map(path));
  const auto bytes = file->bytes();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::string head = cat(kReferenceMagic, of, "\n");
  if (!text.starts_with(head)) return error(Code::not_found, "\"", path, "\" is of other data or another model.");
  const auto rest = bytes.subspan(head.size());
  const std::size_t sum = checksum_of({}).size();
  const std::size_t numbers = 2 * static_cast<std::size_t>(samples);
  const bool fits = rest.size() == sum + numbers * sizeof(float) &&
                    text.substr(head.size(), sum) == checksum_of(rest.subspan(std::min(sum, rest.size())));
  if (!fits) return corrupt("The reference in \"", path, "\" is damaged; remove the file to compute it again.");
  std::vector<float> out(numbers);
  std::memcpy(out.data(), rest.data() + sum, numbers * sizeof(float));
  return out;
}

Status write_references(os::FileSystem& files, const std::string& path, const std::string& of,
                        const std::vector<float>& references) {
  const auto bytes = std::as_bytes(std::span(references));
  std::string text = cat(kReferenceMagic, of, "\n", checksum_of(bytes));
  text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return os::atomic_write_file(files, path, text);
}

}  // namespace graft
