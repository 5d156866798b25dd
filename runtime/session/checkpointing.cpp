#include "runtime/session/checkpointing.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>

#include "platform/base/hash.h"
#include "runtime/core/op_def.h"

namespace graft {
namespace {

using checkpoint::Element;
using checkpoint::StreamKind;

constexpr std::string_view kStateStream = "training_state";
constexpr std::string_view kCursorStream = "data_cursor";
constexpr std::string_view kConfigPrefix = "config.";
constexpr std::uint32_t kStepRecord = 1;
constexpr std::uint64_t kMaxCursorBytes = 64 << 20;

// The training state without its cursor, as it stands in the stream: fixed fields, little-endian.
struct StateRecord {
  std::uint32_t version = 1;
  std::uint32_t seed = 0;
  std::uint64_t step = 0;
  std::uint64_t epoch = 0;
  std::uint64_t count = 0;
  double loss_sum = 0;
  double correct = 0;
  double top5 = 0;
  std::uint32_t has_correct = 0;
  std::uint32_t has_top5 = 0;
};
static_assert(sizeof(StateRecord) == 64 && std::endian::native == std::endian::little);

StateRecord pack(const train::TrainingState& state) {
  const train::Metrics& m = state.epoch_metrics;
  return {1, state.seed, state.step, state.epoch, m.count, m.loss_sum, m.correct, m.top5, m.has_correct, m.has_top5};
}

void unpack(const StateRecord& record, train::TrainingState& state) {
  state.seed = record.seed;
  state.step = record.step;
  state.epoch = record.epoch;
  state.epoch_metrics = {record.loss_sum,         record.count,        record.correct, record.top5,
                         record.has_correct != 0, record.has_top5 != 0};
}

// What a step gave, to the bit: a replay that is exact gives the same.
struct StepRecord {
  std::uint64_t loss_bits = 0;
  std::uint64_t count = 0;
  std::uint64_t learning_rate_bits = 0;
  std::uint64_t position = 0;  ///< in the data, after the step
};

StepRecord step_record(const train::StepResult& result, const train::TrainingState& state) {
  return {std::bit_cast<std::uint64_t>(result.metrics.loss_sum), result.metrics.count,
          std::bit_cast<std::uint64_t>(result.learning_rate), state.cursor.position};
}

StreamKind kind_of(const train::NamedTensor& tensor) {
  if (tensor.kind == ValueKind::parameter) return StreamKind::parameter;
  return tensor.memory_class == MemoryClass::gradients ? StreamKind::accumulator : StreamKind::optimizer;
}

Element element_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return Element::f32;
    case DType::i32: return Element::i32;
    case DType::boolean: return Element::boolean;
    case DType::f16: return Element::f16;
    case DType::bf16: return Element::bf16;
  }
  return Element::bytes;
}

template <typename T>
std::span<const std::byte> bytes_of(const T& record) {
  return std::as_bytes(std::span(&record, 1));
}

// Exact, unlike a decimal text.
std::string number_text(double number) { return cat(std::hexfloat, number); }

}  // namespace

Configuration configuration_of(const Graph& model, const train::TrainOptions& options) {
  std::string structure;
  for (const Value& value : model.values()) {
    structure +=
        cat(value.name, ' ', dtype_name(value.dtype), ' ', static_cast<int>(value.kind), value.shape.text(), '\n');
  }
  for (const Node& node : model.nodes()) {
    structure += cat(node.name, ' ', op_name(node.op));
    for (const ValueId id : node.inputs) structure += cat(' ', id.index);
    structure += '\n';
  }
  const Hash128 hash = hash128(std::as_bytes(std::span(structure.data(), structure.size())));
  Configuration out;
  out["model"] = cat(std::hex, hash.high, '-', hash.low);
  const train::OptimizerOptions& o = options.optimizer;
  out["optimizer"] =
      cat(train::optimizer_name(o.kind), " lr ", number_text(o.learning_rate), " decay ", number_text(o.weight_decay),
          " momentum ", number_text(o.momentum), ' ', number_text(o.dampening), ' ', o.nesterov, " betas ",
          number_text(o.beta1), ' ', number_text(o.beta2), " eps ", number_text(o.epsilon));
  out["schedule"] = cat(static_cast<int>(options.schedule.kind), ' ', options.schedule.warmup_steps, ' ',
                        options.schedule.total_steps, ' ', number_text(options.schedule.final_factor), ' ',
                        options.schedule.step_size, ' ', number_text(options.schedule.gamma));
  out["loss"] = cat(train::loss_name(options.loss.kind), ' ', options.loss.output, ' ',
                    number_text(options.loss.label_smoothing), ' ', options.loss.ignore_index);
  out["clipping"] = cat(number_text(options.clip_value), ' ', number_text(options.clip_norm));
  out["batch"] = cat(options.batch);
  out["micro_batch"] = cat(options.micro_batch);
  out["seed"] = cat(options.seed);
  for (const std::string& pattern : options.freeze) out["freeze"] += pattern + ' ';
  for (const train::ParameterGroup& group : options.groups) {
    out["groups"] += cat(group.pattern, ' ', number_text(group.learning_rate_scale), ' ',
                         group.weight_decay ? number_text(*group.weight_decay) : "-", ' ');
  }
  return out;
}

Result<std::unique_ptr<Checkpointer>> Checkpointer::open(os::FileSystem& files, const CheckpointOptions& options,
                                                         train::Trainer& trainer, Configuration configuration,
                                                         bool resume) {
  GRAFT_TRY_ASSIGN(
      checkpoint::Store store,
      checkpoint::Store::open(files, options.folder, {.mode = checkpoint::StoreMode::create, .deep = true}));
  if (!resume && store.head() != 0) {
    return invalid("The checkpoint folder \"", options.folder, "\" holds a run at step ",
                   store.snapshots().at(store.head()).meta.step, " already; resume it, or take another folder.");
  }
  return std::unique_ptr<Checkpointer>(new Checkpointer(std::move(store), options, trainer, std::move(configuration)));
}

Status Checkpointer::check_configuration(const checkpoint::Manifest& snapshot) const {
  for (const auto& [name, value] : configuration_) {
    const auto saved = snapshot.meta.metadata.find(std::string(kConfigPrefix) + name);
    if (saved != snapshot.meta.metadata.end() && saved->second == value) continue;
    return invalid("The checkpoint was made with another ", name, ": ",
                   saved == snapshot.meta.metadata.end() ? "none" : saved->second, " then, ", value,
                   " now; a resume goes on with the same.");
  }
  return ok_status();
}

Result<std::uint64_t> Checkpointer::begin(data::Loader& loader) {
  if (store_.head() == 0) {
    trainer_.state().cursor = loader.cursor();  // no step has told the trainer where its data stands
    GRAFT_TRY(save());
    return std::uint64_t{0};
  }
  const checkpoint::Manifest& snapshot = store_.snapshots().at(store_.head());
  GRAFT_TRY(check_configuration(snapshot));
  StateRecord record;
  GRAFT_TRY(store_.restore(store_.head(), kStateStream, std::as_writable_bytes(std::span(&record, 1))));
  if (record.version != 1) return unsupported("The training state is of version ", record.version, "; 1 is known.");
  GRAFT_TRY_ASSIGN(const HostBuffer cursor_bytes, store_.restore(store_.head(), kCursorStream, kMaxCursorBytes));
  GRAFT_TRY_ASSIGN(data::Cursor cursor, data::parse_cursor(cursor_bytes.bytes()));
  for (const train::NamedTensor& tensor : trainer_.named_tensors()) {
    if (tensor.kind == ValueKind::constant) continue;
    GRAFT_TRY_ASSIGN(HostBuffer contents, HostBuffer::create(tensor.bytes, "a restored tensor"));
    GRAFT_TRY(store_.restore(store_.head(), tensor.name, contents.bytes()));
    GRAFT_TRY(trainer_.write(tensor.name, contents.bytes()));
  }
  GRAFT_TRY(loader.restore(cursor));
  unpack(record, trainer_.state());
  trainer_.state().cursor = std::move(cursor);
  return record.step;
}

Status Checkpointer::record(const train::StepResult& result) {
  const std::uint64_t step = trainer_.state().step;
  last_loss_ = result.metrics.loss();
  const StepRecord now = step_record(result, trainer_.state());
  if (const auto known = to_replay_.find(step); known != to_replay_.end()) {
    const auto same = std::ranges::equal(known->second, bytes_of(now));
    if (!same) {
      return corrupt("Step ", step,
                     " gives another result than the journal has of it: the device, the driver or the data is not "
                     "what it was. The checkpoint is untouched.");
    }
    to_replay_.erase(known);
    ++replayed_;
    return ok_status();
  }
  const auto payload = bytes_of(now);
  GRAFT_TRY(store_.append({kStepRecord, step, {payload.begin(), payload.end()}},
                          options_.sync_every <= 1 || step % options_.sync_every == 0));
  if (options_.every == 0 || step % options_.every != 0) return ok_status();
  return save();
}

Status Checkpointer::save(const std::string& tag) {
  const train::TrainingState& state = trainer_.state();
  if (store_.head() != 0 && store_.snapshots().at(store_.head()).meta.step == state.step) return ok_status();
  std::vector<HostBuffer> buffers;
  std::vector<checkpoint::StreamInput> streams;
  const auto tensors = trainer_.named_tensors();
  for (const train::NamedTensor& tensor : tensors) {
    if (tensor.kind == ValueKind::constant) continue;  // frozen: belongs to the model
    GRAFT_TRY_ASSIGN(HostBuffer contents, HostBuffer::create(tensor.bytes, "a snapshot"));
    GRAFT_TRY(trainer_.read(tensor.name, contents.bytes()));
    streams.push_back({tensor.name, kind_of(tensor), element_of(tensor.dtype), contents.bytes()});
    buffers.push_back(std::move(contents));
  }
  const StateRecord record = pack(state);
  const std::vector<std::byte> cursor = data::serialize(state.cursor);
  streams.push_back({kStateStream, StreamKind::rng, Element::bytes, bytes_of(record)});
  streams.push_back({kCursorStream, StreamKind::data_cursor, Element::bytes, cursor});
  checkpoint::SnapshotMeta meta;
  meta.step = state.step;
  meta.loss = last_loss_;
  meta.wall_clock_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  if (!tag.empty()) meta.tags.push_back(tag);
  for (const auto& [name, value] : configuration_) meta.metadata[std::string(kConfigPrefix) + name] = value;
  GRAFT_TRY(store_.put_snapshot(streams, meta));
  checkpoint::Retention retention{.keep_last = options_.keep, .keep_tags = {}};
  for (const auto& [number, snapshot] : store_.snapshots()) {
    retention.keep_tags.insert(snapshot.meta.tags.begin(), snapshot.meta.tags.end());
  }
  return detail::to_status(store_.prune(retention));
}

}  // namespace graft
