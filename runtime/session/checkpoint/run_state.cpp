#include "runtime/checkpoint/tags.h"
#include "runtime/session/checkpoint/run_state.h"

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

// As it was always hashed: printf's %a, with a point in any locale.
std::string number_text(double number) {
  char digits[32];
  char* const end = std::to_chars(digits, digits + sizeof digits, std::abs(number), std::chars_format::hex).ptr;
  return cat(std::signbit(number) ? "-" : "", std::isfinite(number) ? "0x" : "", std::string(digits, end));
}

std::string attribute_text(const AttrValue& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return cat(*integer);
  if (const auto* number = std::get_if<double>(&value)) return number_text(*number);
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* shape = std::get_if<Shape>(&value)) return shape->text();
  std::string out;
  for (const std::int64_t i : std::get<Ints>(value)) out += cat(i, ',');
  return out;
}

std::string numbers_text(const std::vector<double>& numbers) {
  std::string text;
  for (const double number : numbers) text += cat(text.empty() ? "" : ",", exact_text(number));
  return text;
}

/// What other optimizers than the Adams and sgd have, where it is not as usual.
std::string optimizer_text(const train::OptimizerOptions& o) {
  const train::OptimizerOptions usual = train::optimizer_defaults(o.kind);
  std::string text;
  const auto add = [&](const char* name, double value, double least) {
    if (value != least) text += cat(' ', name, ' ', exact_text(value));
  };
  add("alpha", o.alpha, usual.alpha);
  add("centered", o.centered, usual.centered);
  add("lr-decay", o.lr_decay, usual.lr_decay);
  add("initial", o.initial_accumulator_value, usual.initial_accumulator_value);
  add("beta2-decay", o.beta2_decay, usual.beta2_decay);
  add("eps2", o.epsilon2, usual.epsilon2);
  add("clip-threshold", o.clip_threshold, usual.clip_threshold);
  add("ns-steps", o.ns_steps, usual.ns_steps);
  add("adjust", static_cast<double>(o.adjust), static_cast<double>(usual.adjust));
  add("ema", o.ema, usual.ema);
  for (const std::string& pattern : o.adamw_parameters) text += cat(" adamw ", pattern);
  return text;
}

/// Only what is not as usual, behind what was always there.
std::string loss_text(const train::LossOptions& term) {
  const train::LossOptions usual;
  std::string text =
      cat(train::loss_name(term.kind), ' ', term.output, ' ', exact_text(term.label_smoothing), ' ', term.ignore_index);
  const auto add = [&](const char* name, double value, double least) {
    if (value != least) text += cat(' ', name, ' ', exact_text(value));
  };
  if (term.class_axis) text += cat(" axis ", *term.class_axis);
  if (!term.class_weights.empty()) text += cat(" class-weights ", numbers_text(term.class_weights));
  if (!term.pos_weight.empty()) text += cat(" pos-weight ", numbers_text(term.pos_weight));
  if (term.margin) text += cat(" margin ", exact_text(*term.margin));
  add("weight", term.weight, usual.weight);
  if constexpr (!kHasLosses) return text;  // the others are other losses'
  add("focal-gamma", term.focal_gamma, usual.focal_gamma);
  add("focal-alpha", term.focal_alpha, usual.focal_alpha);
  add("delta", term.delta, usual.delta);
  add("beta", term.beta, usual.beta);
  add("temperature", train::temperature_of(term), train::temperature_of(usual));
  if (term.kind == train::Loss::distill) add("distill-weight", term.distill_weight, 0);
  add("blank", term.blank, usual.blank);
  add("preference-beta", term.preference_beta, usual.preference_beta);
  add("desirable-weight", term.desirable_weight, usual.desirable_weight);
  add("undesirable-weight", term.undesirable_weight, usual.undesirable_weight);
  add("zero-infinity", term.zero_infinity ? 1 : 0, 0);
  return text;
}

std::string schedule_text(const train::Schedule& schedule) {
  std::string text = cat(static_cast<int>(schedule.kind), " warm-up ", schedule.warmup_steps);
  switch (schedule.kind) {  // only what it looks at: a run may be made longer where that changes nothing
    case train::ScheduleKind::constant: break;
    case train::ScheduleKind::plateau: text += cat(" by ", exact_text(schedule.gamma)); break;
    case train::ScheduleKind::one_cycle:
      text += cat(" over ", schedule.total_steps, " rise ", exact_text(schedule.rise), ' ',
                  exact_text(schedule.div_factor), ' ', exact_text(schedule.final_div_factor));
      break;
    case train::ScheduleKind::polynomial:
      text += cat(" over ", schedule.total_steps, " to ", exact_text(schedule.final_factor), " power ",
                  exact_text(schedule.power));
      break;
    case train::ScheduleKind::step:
      text += cat(" every ", schedule.step_size, " by ", exact_text(schedule.gamma));
      break;
    default: text += cat(" over ", schedule.total_steps, " to ", exact_text(schedule.final_factor));
  }
  return text;
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

std::string structure_hash(const Graph& model) {
  std::string text;
  for (const Value& value : model.values()) {
    text += cat(value.name, ' ', dtype_name(value.dtype), ' ', static_cast<int>(value.kind), value.shape.text(), '\n');
  }
  for (const Node& node : model.nodes()) {
    text += cat(node.name, ' ', op_name(node.op));
    for (const ValueId id : node.inputs) text += cat(' ', id.index);
    for (const auto& [name, value] : node.attrs.items()) text += cat(' ', name, '=', attribute_text(value));
    text += '\n';
  }
  return hash_text(hash128(std::as_bytes(std::span(text.data(), text.size()))));
}

Configuration configuration_of(const train::Trainer& trainer) {
  const train::TrainOptions& options = trainer.options();
  Configuration out;
  out["model"] = structure_hash(trainer.model());
  const train::OptimizerOptions& o = options.optimizer;
  out["optimizer"] = cat(train::optimizer_name(o.kind), " lr ", exact_text(trainer.first_learning_rate()), " decay ",
                         exact_text(o.weight_decay), " momentum ", exact_text(o.momentum), ' ', exact_text(o.dampening),
                         ' ', o.nesterov) +
                     cat(" betas ", exact_text(o.beta1), ' ', exact_text(o.beta2), " eps ", exact_text(o.epsilon));
  out["optimizer"] += optimizer_text(o);
  if (options.layer_decay != 1) out["optimizer"] += cat(" layer-decay ", exact_text(options.layer_decay));
  if (o.proximal > 0) out["optimizer"] += cat(" proximal ", exact_text(o.proximal));
  out["schedule"] = schedule_text(options.schedule);
  for (const train::LossOptions* term : train::loss_terms(options)) {
    out["loss"] += cat(out["loss"].empty() ? "" : " + ", loss_text(*term));
  }
  if (!options.sample_weights.empty()) out["loss"] += cat(" weights ", options.sample_weights);
  if (options.neftune_alpha != 0) out["loss"] += cat(" neftune ", exact_text(options.neftune_alpha));
  out["precision"] = std::string(dtype_name(options.precision));
  if (const auto scaling = train::loss_scaling_of(options)) {
    out["precision"] += cat(" scale ", exact_text(scaling->initial), ' ', exact_text(scaling->growth_factor), ' ',
                            exact_text(scaling->backoff_factor), ' ', scaling->growth_interval);
  }
  if (const auto products = trainer.matmul_precision(); products != gpu::MatmulPrecision::highest) {
    out["matmul-precision"] = products == gpu::MatmulPrecision::high ? "high" : "medium";
  }
  out["clipping"] = cat(exact_text(options.clip_value), ' ', exact_text(options.clip_norm));
  out["statistics"] =
      cat(options.batch_statistics, ' ', options.batch_norm_momentum ? exact_text(*options.batch_norm_momentum) : "-");
  out["batch"] = cat(options.batch);
  out["micro_batch"] = cat(trainer.plan().micro_batch);
  out["seed"] = cat(options.seed);
  for (const std::string& pattern : options.freeze) out["freeze"] += pattern + ' ';
  for (const train::ParameterGroup& group : options.groups) {
    out["groups"] += cat(group.pattern, ' ', exact_text(group.learning_rate_scale), ' ',
                         group.weight_decay ? exact_text(*group.weight_decay) : "-", ' ');
  }
  for (const passes::PackedInput& input : options.inputs) {
    out["inputs"] += cat(input.name, ' ', packed_name(input.element), ' ', input.channels_last ? "last" : "first");
    for (const auto* numbers : {&input.scale, &input.offset}) {
      out["inputs"] += " x";
      for (const float number : *numbers) out["inputs"] += cat(' ', exact_text(double{number}));
    }
    out["inputs"] += ' ';
  }
  return out;
}

Result<std::string> fingerprint_of(data::Source& source) {
  constexpr std::uint64_t kSamples = 64;
  std::string text;
  for (const data::Field& field : source.fields()) {
    text += cat(field.name, ' ', field.type_name(), ' ', field.shape.text(), '\n');
  }
  if (source.size()) text += cat(*source.size());
  std::vector<std::byte> sample(data::sample_bytes(source));
  std::vector<std::byte*> pointers;
  for (std::size_t at = 0, f = 0; f < source.fields().size(); at += source.fields()[f++].bytes()) {
    pointers.push_back(sample.data() + at);
  }
  // From a stream, the first samples.
  const std::uint64_t count = std::min(source.size().value_or(kSamples), kSamples);
  source.start_epoch(0, 0);  // random changes of samples are the same whenever the data is looked at
  for (std::uint64_t i = 0, next = 0; i < count; ++i) {
    std::uint64_t position = source.size() ? *source.size() / count * i : next;
    GRAFT_TRY_ASSIGN(const bool more, source.read(position, pointers));
    if (!more) break;
    next = position;
    text += hash_text(hash128(sample));
  }
  return hash_text(hash128(std::as_bytes(std::span(text.data(), text.size()))));
}

std::string order_text(bool shuffled, bool drop_last) {
  return cat(shuffled ? "shuffled" : "in order", drop_last ? ", whole batches" : "");
}

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
