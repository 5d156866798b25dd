#include "runtime/checkpoint/tags.h"
#include "runtime/run_state/run_state.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>

#include "runtime/core/features.h"
#include "runtime/core/finite.h"
#include "runtime/core/op_def.h"
#include "runtime/lora/adapter.h"

namespace graft {
namespace {

using checkpoint::Element;
using checkpoint::FrozenBytes;
using checkpoint::Store;
using checkpoint::StreamKind;

constexpr std::string_view kStateStream = "training_state";
constexpr std::string_view kCursorStream = "data_cursor";
constexpr std::string_view kLayoutStream = "tensor_layouts";
constexpr std::string_view kUserStream = "user_data";
constexpr std::string_view kRateStream = "learning_rate";  // only where it was changed in the course of the run
constexpr std::uint64_t kMaxSmallStream = 64 << 20;
constexpr std::uint32_t kVersion = 2;

constexpr std::string_view kMonitorStream = "monitors";       // only where there are any
constexpr std::string_view kWeightStream = "metric_weights";  // only where they are not the counts

// As it stands in the stream, little-endian.
struct MetricsRecord {
  std::uint64_t count = 0;
  double loss_sum = 0;
  double correct = 0;
  double top5 = 0;
  std::uint32_t has_correct = 0;
  std::uint32_t has_top5 = 0;
};
// The training state without its cursor.
struct StateRecord {
  std::uint32_t version = kVersion;
  std::uint32_t seed = 0;
  std::uint64_t step = 0;
  std::uint64_t epoch = 0;
  std::uint64_t samples_done = 0;
  MetricsRecord epoch_metrics;
  MetricsRecord step_metrics;
};
// Metrics::weight of epoch and step.
struct WeightRecord {
  double epoch = 0;
  double step = 0;
};
// The monitors of evaluations.
struct MonitorRecord {
  std::uint64_t evaluated_at = 0;
  std::array<train::MonitorState, train::kMonitors> monitors = {};
};
// The learning rate that the configuration states, and the one that was set since.
struct RateRecord {
  double first = 0;
  double now = 0;
};
static_assert(sizeof(StateRecord) == 112 && std::endian::native == std::endian::little);

MetricsRecord pack(const train::Metrics& m) {
  return {m.count, m.loss_sum, m.correct, m.top5, m.has_correct, m.has_top5};
}

train::Metrics unpack(const MetricsRecord& m) {
  return {m.loss_sum, m.count, static_cast<double>(m.count), m.correct, m.top5, m.has_correct != 0, m.has_top5 != 0};
}

StreamKind kind_of(const Resident& tensor) {
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
    default: return Element::bytes;
  }
}

DType dtype_of(Element element) {
  switch (element) {
    case Element::f32: return DType::f32;
    case Element::f16: return DType::f16;
    case Element::bf16: return DType::bf16;
    default: return DType::i32;  // holds no NaN
  }
}

template <typename T>
void append(std::vector<std::byte>& out, const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

/// State of the optimizer is laid out as its parameter: "w/exp_avg" as "w".
SourcePerm perm_of(const Graph& model, std::string_view name, std::size_t rank) {
  ValueId value = model.find_value(name);
  if (!value.valid() && name.rfind('/') != std::string_view::npos) {
    value = model.find_value(name.substr(0, name.rfind('/')));
  }
  if (!value.valid() || model.value(value).shape.rank() != rank || name.ends_with("_var")) return {};
  return model.value(value).source_perm;
}

Status restore_tensor(const Store& store, std::uint64_t number, const train::NamedTensor& tensor,
                      train::Trainer& trainer) {
  GRAFT_TRY_ASSIGN(HostBuffer contents, HostBuffer::create(tensor.bytes, "a restored tensor"));
  GRAFT_TRY(store.restore(number, tensor.name, contents.bytes()));
  return trainer.write(tensor.name, contents.bytes());
}

/// A tensor of a head that was resized: what was there goes where it was.
Status restore_resized(const Store& store, std::uint64_t number, const train::NamedTensor& tensor,
                       const ResizedHead& head, const std::map<std::string, TensorLayout>& layouts,
                       train::Trainer& trainer) {
  const checkpoint::Stream* const stream = store.snapshots().at(number).find(tensor.name);
  const auto layout = layouts.find(std::string(tensor.name));
  if (head.replaced || stream == nullptr || stream->frozen || layout == layouts.end()) return ok_status();
  GRAFT_TRY_ASSIGN(HostBuffer now, HostBuffer::create(tensor.bytes, "a resized tensor"));
  GRAFT_TRY(trainer.read(tensor.name, now.bytes()));
  GRAFT_TRY_ASSIGN(const HostBuffer old, store.restore(number, tensor.name, stream->bytes));
  std::vector<std::int64_t> dims;
  for (std::size_t i = 0; i < tensor.shape->rank(); ++i) dims.push_back((*tensor.shape)[i].value());
  const std::size_t element = tensor.bytes / std::max<std::uint64_t>(tensor.shape->elements(), 1);
  if (!overlay(old.bytes(), layout->second.dims, head.from, now.bytes(), dims, head.to, element)) {
    return unsupported("The head was resized from ", head.from, " to ", head.to, " classes, and \"", tensor.name,
                       "\" of the run, of ", stream->bytes,
                       " bytes, is not kept by classes: it cannot become one of shape ", tensor.shape->text(),
                       ". Begin a new run from the snapshot's weights (warm start).");
  }
  return trainer.write(tensor.name, now.bytes());
}

}  // namespace

void RunStreams::add(std::string_view name, StreamKind kind, std::vector<std::byte> bytes, std::uint32_t worker) {
  owned_.push_back(std::move(bytes));
  inputs_.push_back({.name = name, .kind = kind, .bytes = owned_.back(), .worker = worker});
}

RunStreams::RunStreams(const train::Trainer& trainer, const Model& model, const UserData& user_data,
                       const std::map<std::string, FrozenBytes>& frozen) {
  std::vector<std::byte> layouts;
  for (const Capture::Entry& entry : trainer.captured()) {
    const Resident& tensor = *entry.resident;
    inputs_.push_back(
        {.name = tensor.name, .kind = kind_of(tensor), .element = element_of(tensor.dtype), .bytes = entry.bytes});
    const SourcePerm perm = perm_of(model.graph, tensor.name, tensor.shape.rank());
    append(layouts, static_cast<std::uint32_t>(tensor.name.size()));
    for (const char c : tensor.name) append(layouts, c);
    append(layouts, static_cast<std::uint32_t>(tensor.shape.rank()));
    for (std::size_t i = 0; i < tensor.shape.rank(); ++i) append(layouts, tensor.shape[i].value());
    append(layouts, static_cast<std::uint32_t>(perm.size()));
    for (const auto axis : perm) append(layouts, static_cast<std::uint32_t>(axis));
  }
  for (const auto& [name, bytes] : frozen) {
    inputs_.push_back({.name = name, .kind = StreamKind::parameter, .bytes = {}, .frozen = bytes});
  }
  const train::TrainingState& state = trainer.state();
  const StateRecord record{kVersion,
                           state.seed,
                           state.step,
                           state.epoch,
                           state.samples_done,
                           pack(state.epoch_metrics),
                           pack(state.step_metrics)};
  std::vector<std::byte> bytes;
  append(bytes, record);
  add(kStateStream, StreamKind::rng, std::move(bytes));
  add(kCursorStream, StreamKind::data_cursor, data::serialize(state.cursor));
  add(kLayoutStream, StreamKind::config, std::move(layouts));
  const WeightRecord weights{state.epoch_metrics.weight, state.step_metrics.weight};
  if (weights.epoch != static_cast<double>(state.epoch_metrics.count)) {
    std::vector<std::byte> weight_bytes;
    append(weight_bytes, weights);
    add(kWeightStream, StreamKind::config, std::move(weight_bytes));
  }
  if (state.evaluated_at != 0 || state.monitors != train::TrainingState{}.monitors) {
    std::vector<std::byte> monitor_bytes;
    append(monitor_bytes, MonitorRecord{state.evaluated_at, state.monitors});
    add(kMonitorStream, StreamKind::config, std::move(monitor_bytes));
  }
  const RateRecord rate{trainer.first_learning_rate(), trainer.options().optimizer.learning_rate};
  if (rate.now != rate.first) {
    std::vector<std::byte> rate_bytes;
    append(rate_bytes, rate);
    add(kRateStream, StreamKind::config, std::move(rate_bytes));
  }
  for (const auto& [worker, data] : user_data) add(kUserStream, StreamKind::other, data, worker);
  for (std::uint32_t worker = 0; const train::WorkerSection& section : trainer.sections()) {
    std::vector<std::byte> section_bytes;
    append(section_bytes, section);
    add(kWorkerStream, StreamKind::metrics, std::move(section_bytes), ++worker);
  }
}

Status RunStreams::check_finite() const {
  for (const checkpoint::StreamInput& stream : inputs_) {
    if (stream.kind != StreamKind::parameter || stream.frozen) continue;
    if (const auto at = graft::find_non_finite(stream.bytes, dtype_of(stream.element))) {
      return invalid("The parameter \"", stream.name, "\" is not finite at element ", *at,
                     ", so no snapshot was written.");
    }
  }
  return ok_status();
}

Result<std::string> find_non_finite(const Store& store, std::uint64_t number) {
  for (const checkpoint::Stream& stream : *store.snapshots().at(number).streams) {
    if (stream.kind != StreamKind::parameter || stream.frozen) continue;
    GRAFT_TRY_ASSIGN(const HostBuffer contents, store.restore(number, stream.name, stream.bytes, stream.worker));
    if (graft::find_non_finite(contents.bytes(), dtype_of(stream.element))) return stream.name;
  }
  return std::string();
}

Result<std::uint64_t> newest_finite(const Store& store, std::uint64_t number) {
  const auto& snapshots = store.snapshots();
  for (std::uint64_t now = number;;) {
    GRAFT_TRY_ASSIGN(const std::string bad, find_non_finite(store, now));
    if (bad.empty()) return now;
    const auto parent = snapshots.find(snapshots.at(now).parent);
    if (parent == snapshots.end() || parent->first >= now) {
      return corrupt("Snapshot ", number, " and all before it have parameters that are not finite, as \"", bad, "\".");
    }
    now = parent->first;
  }
}

std::map<std::string, FrozenBytes> frozen_of(const train::Trainer& trainer, const Model& model) {
  std::map<std::string, FrozenBytes> frozen;
  for (const train::NamedTensor& tensor : trainer.named_tensors()) {
    if (tensor.kind != ValueKind::constant) continue;
    const ValueId value = model.graph.find_value(tensor.name);
    const auto contents = value.valid() ? model.weight(value) : std::nullopt;
    if (contents) frozen[std::string(tensor.name)] = {hash128(*contents), contents->size()};
  }
  return frozen;
}

bool is_before(const checkpoint::Manifest& snapshot, const ResizedHead& head) {
  const auto& saved = *snapshot.meta.metadata;
  const auto model = saved.find(cat(kConfigPrefix, "model")), its = saved.find(cat(kConfigPrefix, "head"));
  return model != saved.end() && model->second == head.model && (its == saved.end() || its->second != head.text);
}

Status check_frozen(const checkpoint::Manifest& snapshot, const std::map<std::string, FrozenBytes>& frozen,
                    const ResizedHead* head) {
  for (const checkpoint::Stream& stream : *snapshot.streams) {
    if (!stream.frozen || (head != nullptr && head->holds(stream.name))) continue;
    const auto now = frozen.find(stream.name);
    if (now != frozen.end() && now->second.hash == *stream.frozen) continue;
    return invalid("The checkpoint was made over another frozen weight \"", stream.name,
                   "\"; a resume needs the model file that was trained.");
  }
  return ok_status();
}

Result<std::uint64_t> find_snapshot(const Store& store, std::string_view name) {
  std::uint64_t number = 0;
  if (checkpoint::is_number(name)) {
    static_cast<void>(std::from_chars(name.data(), name.data() + name.size(), number));
  } else {
    number = name.empty() ? store.head() : store.find_tag(name);
  }
  if (store.snapshots().contains(number)) return number;
  if (const auto damaged = store.damaged().find(number); damaged != store.damaged().end()) {
    return corrupt("Snapshot ", number, " is damaged: ", damaged->second);
  }
  return error(Code::not_found, "The checkpoint store has no snapshot", name.empty() ? "." : cat(" \"", name, "\"."));
}

namespace {

/// A rate that was set in the course of the run counts as its state; where the run goes on with another configuration,
/// that one's holds.
Status restore_rate(const Store& store, std::uint64_t number, train::Trainer& trainer) {
  RateRecord rate{trainer.first_learning_rate(), trainer.first_learning_rate()};
  if (store.snapshots().at(number).find(kRateStream) != nullptr) {
    RateRecord saved;
    GRAFT_TRY(store.restore(number, kRateStream, std::as_writable_bytes(std::span(&saved, 1))));
    if (saved.first == rate.first) rate = saved;
  }
  return trainer.set_learning_rate(rate.now);
}

}  // namespace

Status restore_run(const Store& store, std::uint64_t number, train::Trainer& trainer, UserData& user_data,
                   const ResizedHead* head) {
  StateRecord record;
  GRAFT_TRY(store.restore(number, kStateStream, std::as_writable_bytes(std::span(&record, 1))));
  if (record.version != kVersion) {
    return unsupported("The training state is of version ", record.version, "; ", kVersion, " is known.");
  }
  GRAFT_TRY_ASSIGN(const HostBuffer cursor_bytes, store.restore(number, kCursorStream, kMaxSmallStream));
  GRAFT_TRY_ASSIGN(data::Cursor cursor, data::parse_cursor(cursor_bytes.bytes()));
  std::map<std::string, TensorLayout> layouts;
  if (head != nullptr) {
    if (record.samples_done != 0) {
      return invalid("Snapshot ", number, " is within a step, ", record.samples_done,
                     " samples of which the resized head has not seen: go on from one between two steps.");
    }
    GRAFT_TRY_ASSIGN(layouts, layouts_of(store, number));
  }
  for (const train::NamedTensor& tensor : trainer.named_tensors()) {
    if (tensor.kind == ValueKind::constant) continue;
    if (head != nullptr && head->holds(tensor.name)) {
      GRAFT_TRY(restore_resized(store, number, tensor, *head, layouts, trainer));
    } else {
      GRAFT_TRY(restore_tensor(store, number, tensor, trainer));
    }
  }
  GRAFT_TRY(restore_rate(store, number, trainer));
  user_data.clear();
  for (const checkpoint::Stream& stream : *store.snapshots().at(number).streams) {
    if (stream.name != kUserStream) continue;
    GRAFT_TRY_ASSIGN(const HostBuffer bytes, store.restore(number, kUserStream, kMaxSmallStream, stream.worker));
    user_data[stream.worker].assign(bytes.bytes().begin(), bytes.bytes().end());
  }
  trainer.state() = {record.step,
                     record.seed,
                     std::move(cursor),
                     record.epoch,
                     unpack(record.epoch_metrics),
                     record.samples_done,
                     unpack(record.step_metrics)};
  if (store.snapshots().at(number).find(kWeightStream) != nullptr) {
    WeightRecord weights;
    GRAFT_TRY(store.restore(number, kWeightStream, std::as_writable_bytes(std::span(&weights, 1))));
    trainer.state().epoch_metrics.weight = weights.epoch;
    trainer.state().step_metrics.weight = weights.step;
  }
  if (store.snapshots().at(number).find(kMonitorStream) != nullptr) {
    MonitorRecord record_of_monitors;
    GRAFT_TRY(store.restore(number, kMonitorStream, std::as_writable_bytes(std::span(&record_of_monitors, 1))));
    trainer.state().monitors = record_of_monitors.monitors;
    trainer.state().evaluated_at = record_of_monitors.evaluated_at;
  }
  return ok_status();
}

Status warm_start(const Store& store, std::uint64_t number, train::Trainer& trainer, const ResizedHead* head) {
  const auto snapshot = store.snapshots().find(number);
  if (snapshot == store.snapshots().end()) return error(Code::not_found, "There is no snapshot ", number, ".");
  if (head != nullptr && !is_before(snapshot->second, *head)) head = nullptr;
  const auto taken = [](const train::NamedTensor& tensor) {
    return tensor.kind != ValueKind::constant && tensor.memory_class == MemoryClass::parameters;
  };
  const auto resized = [&](const train::NamedTensor& tensor) { return head != nullptr && head->holds(tensor.name); };
  std::map<std::string, TensorLayout> layouts;
  if (head != nullptr) {
    GRAFT_TRY_ASSIGN(layouts, layouts_of(store, number));
  }
  for (const train::NamedTensor& tensor : trainer.named_tensors()) {  // all, before the first is written
    if (!taken(tensor) || resized(tensor)) continue;
    const checkpoint::Stream* stream = snapshot->second.find(tensor.name);
    if (stream == nullptr) return invalid("Snapshot ", number, " has no tensor \"", tensor.name, "\".");
    if (stream->bytes == tensor.bytes && !stream->frozen) continue;
    return invalid("Snapshot ", number, " has \"", tensor.name, "\" with ", stream->bytes, " bytes, ",
                   stream->frozen ? "frozen and so not stored, " : "", "but the model's has ", tensor.bytes, ".");
  }
  for (const train::NamedTensor& tensor : trainer.named_tensors()) {
    if (!taken(tensor)) continue;
    GRAFT_TRY(resized(tensor) ? restore_resized(store, number, tensor, *head, layouts, trainer)
                              : restore_tensor(store, number, tensor, trainer));
  }
  GRAFT_TRY(trainer.set_anchor());
  return trainer.set_ema();
}

Result<std::map<std::string, TensorLayout>> layouts_of(const Store& store, std::uint64_t number) {
  GRAFT_TRY_ASSIGN(const HostBuffer buffer, store.restore(number, kLayoutStream, kMaxSmallStream));
  std::span<const std::byte> bytes = buffer.bytes();
  bool whole = true;
  const auto take = [&](void* out, std::size_t size) {
    whole = whole && size <= bytes.size();
    if (!whole) return;
    std::memcpy(out, bytes.data(), size);
    bytes = bytes.subspan(size);
  };
  const auto take_count = [&] {
    std::uint32_t count = 0;
    take(&count, sizeof count);
    whole = whole && count <= bytes.size();  // each counted thing has a byte at least
    return whole ? count : 0;
  };
  std::map<std::string, TensorLayout> layouts;
  while (whole && !bytes.empty()) {
    std::string name(take_count(), ' ');
    take(name.data(), name.size());
    TensorLayout& layout = layouts[name];
    layout.dims.resize(take_count());
    take(layout.dims.data(), layout.dims.size() * sizeof(std::int64_t));
    const std::uint32_t axes = take_count();
    for (std::uint32_t i = 0; i < axes && whole; ++i) {
      std::uint32_t axis = 0;
      take(&axis, sizeof axis);
      whole = whole && axes == layout.dims.size() && axis < axes;
      layout.perm.push_back(static_cast<SourcePerm::value_type>(axis));
    }
  }
  if (!whole) return corrupt("Snapshot ", number, " has damaged tensor layouts.");
  return layouts;
}

}  // namespace graft
