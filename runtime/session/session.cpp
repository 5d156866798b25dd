#include "runtime/session/session.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "runtime/autodiff/autodiff.h"
#include "runtime/core/build.h"
#include "runtime/core/features.h"
#include "runtime/exec/plan_fused.h"
#include "runtime/kernels/kernel_proof.h"
#include "runtime/lora/adapter.h"
#include "runtime/passes/bind.h"
#include "runtime/passes/pipeline.h"
#include "runtime/passes/train_mode.h"
#include "runtime/plan/stream_choice.h"
#include "runtime/reference/forward.h"

namespace graft {

bool is_implied(const PlanPort& port) { return port.name == kCotangentInput && port.shape.elements() == 1; }

std::string gradient_name(std::string_view name) { return cat("grad:", name); }

namespace {

// The input that holds the cotangent; kNoValue where it is 1, since the model has a value of that name.
Result<ValueId> add_cotangent(Graph& graph, ValueId of) {
  const Value value = graph.value(of);
  if (value.shape.elements() == 1 && graph.find_value(kCotangentInput).valid()) return kNoValue;
  return graph.add_value(std::string(kCotangentInput), value.dtype, value.shape, ValueKind::input);
}

struct Targets {
  ValueId of;  ///< kNoValue: no gradients are asked for
  std::vector<ValueId> wrt;
  std::vector<ValueId> fetch;
};

Result<Targets> resolve(const Graph& graph, const GradientRequest& request) {
  Targets targets;
  for (const std::string& name : request.fetch) {
    GRAFT_TRY_ASSIGN(const ValueId id, graph.resolve(name));
    targets.fetch.push_back(id);
  }
  if (request.of.empty()) return targets;
  GRAFT_TRY_ASSIGN(targets.of, graph.resolve(request.of));
  for (const std::string& name : request.wrt) {
    GRAFT_TRY_ASSIGN(const ValueId id, graph.resolve(name));
    targets.wrt.push_back(id);
  }
  return targets;
}

Status check_packed(const GradientRequest& request) {
  for (const passes::PackedInput& input : request.packed) {
    for (const auto* names : {&request.wrt, &request.fetch}) {
      if (std::ranges::find(*names, input.name) == names->end()) continue;
      return invalid("The input \"", input.name,
                     "\" is given in a format of its own: neither its gradient nor its "
                     "value can be asked for.");
    }
  }
  return ok_status();
}

// The outputs of a signature instead of the model's.
Status use_signature(const Model& model, const std::string& name, Graph& graph) {
  const auto signature = std::ranges::find(model.signatures, name, &Signature::name);
  if (signature == model.signatures.end()) {
    std::string names;
    for (const Signature& known : model.signatures) names += cat(names.empty() ? "" : ", ", known.name);
    return error(Code::not_found, "The model has no signature \"", name, "\"; ",
                 names.empty() ? "it has none" : "there are: ", names, ".");
  }
  graph.clear_outputs();
  for (const Output& output : signature->outputs) {
    graph.add_output(output.name, graph.find_value(model.graph.value(output.value).name));
  }
  // What is as long as the data decide comes with its count.
  GRAFT_TRY_ASSIGN(const std::vector<CountedOutput> counted, counted_outputs(model));
  for (const CountedOutput& one : counted) {
    const auto given = [&](std::string_view output) {
      return std::ranges::find(graph.outputs(), output, &Output::name) != graph.outputs().end();
    };
    if (!given(one.name) || given(one.count)) continue;
    const auto count = std::ranges::find(model.graph.outputs(), one.count, &Output::name);
    graph.add_output(one.count, graph.find_value(model.graph.value(count->value).name));
  }
  return ok_status();
}

// The part of the graph behind targets.of as training runs it, and the targets in it.
Status enter_train_mode(Graph& graph, Targets& targets, const GradientRequest& request) {
  GRAFT_TRY_ASSIGN(auto copy, passes::to_train_mode(graph, targets.of, {}));
  targets.of = copy.values[targets.of.index];
  for (std::size_t i = 0; i < targets.wrt.size(); ++i) {
    targets.wrt[i] = copy.values[targets.wrt[i].index];
    if (!targets.wrt[i].valid()) {
      return invalid("\"", request.of, "\" does not depend on \"", request.wrt[i], "\" in train mode.");
    }
  }
  for (std::size_t i = 0; i < targets.fetch.size(); ++i) {
    targets.fetch[i] = copy.values[targets.fetch[i].index];
    if (!targets.fetch[i].valid()) {
      return invalid("\"", request.of, "\" does not depend on \"", request.fetch[i], "\" in train mode.");
    }
  }
  graph = std::move(copy.graph);
  return {};
}

// What is given back, in the source's order of axes: weights may be held in another.
Status set_outputs(Graph& graph, bool keep, const Targets& targets, std::span<const std::string> fetch) {
  std::vector<Output> all = graph.outputs();
  graph.clear_outputs();
  if (!keep) all.clear();
  for (std::size_t i = 0; i < fetch.size(); ++i) {
    if (std::ranges::find(all, fetch[i], &Output::name) == all.end()) all.push_back({fetch[i], targets.fetch[i]});
  }
  for (const Output& output : all) {
    const SourcePerm perm = graph.value(output.value).source_perm;
    GRAFT_TRY_ASSIGN(const ValueId value, to_source_order(graph, output.value, perm));
    graph.add_output(output.name, value);
  }
  // So that it stays; taken away again below.
  if (targets.of.valid()) graph.add_output(std::string(kCotangentInput), targets.of);
  return {};
}

Status append_gradients(Graph& graph, const Targets& targets, const GradientRequest& request) {
  GRAFT_TRY_ASSIGN(const ValueId cotangent, add_cotangent(graph, targets.of));
  GRAFT_TRY_ASSIGN(const auto gradients, add_gradients(graph, {{targets.of, cotangent}}, targets.wrt));
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const SourcePerm perm = graph.value(targets.wrt[i]).source_perm;
    GRAFT_TRY_ASSIGN(const ValueId gradient, to_source_order(graph, gradients[i], perm));
    graph.add_output(gradient_name(request.wrt[i]), gradient);
  }
  return {};
}

Result<RefTensor> read_weight(const Model& model, const Value& value) {
  const ValueId weight = model.graph.find_value(value.name);
  const auto bytes = weight.valid() ? model.weight(weight) : std::nullopt;
  RefTensor tensor{value.shape.values(), std::vector<double>(value.shape.elements(), 0.0)};
  if (!bytes && value.kind == ValueKind::state) return tensor;  // it starts as zeros
  if (!bytes || bytes->size() != tensor.data.size() * sizeof(float)) {
    return corrupt("The weight \"", value.name, "\" has no contents.");
  }
  for (std::size_t i = 0; i < tensor.data.size(); ++i) {
    float number = 0;
    std::memcpy(&number, bytes->data() + i * sizeof number, sizeof number);
    tensor.data[i] = number;
  }
  return tensor;
}

/// The contents of a constant that was folded (passes::fold_constants), from the model's weights. Computed on the host
/// in double precision and rounded to f32 once, so the same on every device. Needs room for a few tensors of its size
/// in double. corrupt: a weight that the model has no contents of; out_of_memory.
Result<HostBuffer> contents_of(const passes::FoldedConstant& constant, const Model& model) {
  RefTensors tensors;
  for (const Value& value : constant.graph.values()) {
    if (value.kind == ValueKind::temporary) continue;
    GRAFT_TRY_ASSIGN(tensors[value.name], read_weight(model, value));
  }
  GRAFT_TRY(interpret_forward(constant.graph, tensors).with_context(cat("While computing \"", constant.name, "\"")));
  const Value& result = constant.graph.value(constant.graph.outputs()[0].value);
  const std::vector<double>& data = tensors.find(result.name)->second.data;
  GRAFT_TRY_ASSIGN(HostBuffer contents, HostBuffer::create(data.size() * sizeof(float), "a folded constant"));
  for (std::size_t i = 0; i < data.size(); ++i) {
    const auto number = static_cast<float>(data[i]);
    std::memcpy(contents.data() + i * sizeof number, &number, sizeof number);
  }
  return contents;
}

}  // namespace

Result<Graph> request_graph(const Model& model, const Bindings& bindings, const GradientRequest& request,
                            bool keep_outputs) {
  GRAFT_TRY_ASSIGN(Graph graph, bind(model.graph, bindings));
  if (!request.signature.empty()) GRAFT_TRY(use_signature(model, request.signature, graph));
  if (!request.packed.empty()) {
    GRAFT_TRY(check_packed(request));
    GRAFT_TRY_ASSIGN(graph, passes::pack_inputs(graph, request.packed));
  }
  GRAFT_TRY_ASSIGN(Targets targets, resolve(graph, request));
  const bool differentiate = targets.of.valid();
  const bool train = differentiate && request.train_mode;
  if (train) GRAFT_TRY(enter_train_mode(graph, targets, request));
  GRAFT_TRY(set_outputs(graph, keep_outputs && !train, targets, request.fetch));
  GRAFT_TRY_ASSIGN(passes::Prepared prepared,
                   passes::prepare(graph, targets.wrt, {.inference = !differentiate, .fixed_weights = !differentiate}));
  if (!differentiate) return std::move(prepared.graph);
  targets.of = prepared.values[targets.of.index];
  for (ValueId& id : targets.wrt) id = prepared.values[id.index];
  std::vector<Output> outputs = prepared.graph.outputs();
  outputs.pop_back();
  prepared.graph.clear_outputs();
  for (const Output& output : outputs) prepared.graph.add_output(output.name, output.value);
  GRAFT_TRY(append_gradients(prepared.graph, targets, request));
  return std::move(prepared.graph);
}

Result<SessionGraph> session_graph(const Model& model, const Bindings& bindings, const GradientRequest& request,
                                   DType precision, bool keep_outputs, const passes::MayFold& may_fold) {
  GRAFT_TRY(passes::check_precision(precision));
  SessionGraph out;
  GRAFT_TRY_ASSIGN(out.graph, request_graph(model, bindings, request, keep_outputs));
  out.rules = passes::input_rules(out.graph);
  passes::WeightNames weights = passes::low_precision_weights(model.graph);
  if (request.of.empty()) {
    GRAFT_TRY_ASSIGN(passes::FoldedGraph folded, passes::fold_constants(out.graph, may_fold));
    out.graph = std::move(folded.graph);
    out.constants = std::move(folded.constants);
    const passes::WeightNames now = passes::low_precision_weights(out.graph);
    for (const passes::FoldedConstant& constant : out.constants) {
      if (now.contains(constant.name)) weights.insert(constant.name);
    }
  }
  GRAFT_TRY_ASSIGN(out.precision, passes::store_results(out.graph, precision, weights, passes::Parameters::frozen));
  return out;
}

Status upload_weights(Memory& memory, const Model& model, const Graph& graph,
                      std::span<const passes::FoldedConstant> constants, std::vector<HostBuffer>* streamed) {
  std::set<std::string_view> computed;
  for (const passes::FoldedConstant& constant : constants) {
    const Resident* resident = memory.residents().find(constant.name);
    if (resident == nullptr) continue;
    GRAFT_TRY_ASSIGN(HostBuffer contents, contents_of(constant, model));
    GRAFT_TRY(memory.provide(constant.name, contents.bytes()));
    if (resident->streamed) streamed->push_back(std::move(contents));
    computed.insert(constant.name);
  }
  for (const Resident& resident : memory.residents().entries()) {
    if (computed.contains(resident.name)) continue;
    const ValueId value = model.graph.find_value(resident.name);
    const auto contents = value.valid() ? model.weight(value) : std::nullopt;
    if (contents) {
      GRAFT_TRY(memory.provide(resident.name, *contents));
    } else if (resident.kind == ValueKind::state) {
      GRAFT_TRY(memory.fill(resident.name, 0));
    } else if (graph.find_value(resident.name).valid()) {
      return corrupt("The weight \"", resident.name, "\" has no contents.");
    }
  }
  return ok_status();
}

Result<std::unique_ptr<Session>> Session::create(gpu::Device& device, const Model& model,
                                                 const SessionOptions& options) {
  GRAFT_TRY(model.check_before_use());
  std::unique_ptr<Session> session(new Session());
  session->device_ = &device;
  session->model_ = &model;
  session->options_ = options;
  auto bound = std::make_unique<Sized>();
  bound->bindings = options.bindings;
  GRAFT_TRY_ASSIGN(SessionGraph made, bound_graph(model, options));
  bound->graph = std::move(made.graph);
  bound->rules = std::move(made.rules);
  GRAFT_TRY_ASSIGN(bound->wide, session->wide_integers(options.bindings));
  session->casts_ = passes::cast_from_floats(model.graph);
  session->adapters_ = LiveAdapters(bound->graph, base_text(model));
  const gpu::Target& target = session->target();
  GRAFT_TRY_ASSIGN(const Graph fused, fused_graph(bound->graph, target, options.plan));
  const Graph* const graphs[] = {&fused};
  GRAFT_TRY_ASSIGN(const Residents residents, residents_within(target, graphs, options.plan));
  Plan plan;
  const Plan* plans[] = {&plan};
  const auto make = [&]() -> Status {
    GRAFT_TRY_ASSIGN(plan, plan_fused(bound->graph, target, residents, options.plan));
    return ok_status();
  };
  GRAFT_TRY(make_proven(options.program.proof, device, make, [&] { return std::span<const Plan* const>(plans); }));
  GRAFT_TRY_ASSIGN(session->memory_, Memory::create(device, residents, plans));
  session->constants_ = std::move(made.constants);
  session->now_ = session->sizes_.emplace_back(std::move(bound)).get();
  GRAFT_TRY(session->upload(*session->memory_));
  ProgramOptions first = options.program;
  first.cancellable_build = true;
  GRAFT_TRY_ASSIGN(session->now_->program, Program::create(*session->memory_, std::move(plan), first));
  session->given_.resize(session->plan().inputs.size());
  GRAFT_TRY(session->find_counted());
  return session;
}

Status Session::upload(Memory& memory) {
  streamed_constants_.clear();
  return upload_weights(memory, *model_, sizes_.front()->graph, constants_, &streamed_constants_);
}

std::string Session::streaming() const {
  const Plan* const plans[] = {&plan()};
  return streaming_text(paused_ ? paused_->residents : memory_->residents(), plans);
}

Status Session::check_input(const PlanPort& port, std::span<const std::byte> bytes) const {
  const auto& formats = options_.gradients.packed;
  if (const auto packed = std::ranges::find(formats, port.name, &passes::PackedInput::name); packed != formats.end()) {
    const auto shapes = passes::packed_shapes(now_->graph);
    const auto known = std::ranges::find(shapes, port.name, &passes::PackedShape::input);
    const Shape shape = known == shapes.end() ? Shape() : known->shape;  // read by nothing that is left
    const std::uint64_t wanted = shape.elements() * packed_size(packed->element);
    if (bytes.size() != wanted) {
      return invalid("The input \"", port.name, "\" has the shape ", shape.text(), " and takes ", wanted, " bytes; ",
                     bytes.size(), " were given.");
    }
    const auto at = options_.allow_non_finite ? std::nullopt : passes::find_non_finite(packed->element, bytes);
    if (at) return invalid("The input \"", port.name, "\" is not finite at element ", *at, ".");
    return ok_status();
  }
  if (bytes.size() != port.bytes) {
    return invalid("The input \"", port.name, "\" has the shape ", port.shape.text(), " and takes ", port.bytes,
                   " bytes; ", bytes.size(), " were given.");
  }
  const auto rule = std::ranges::find(now_->rules, port.name, &passes::InputRule::input);
  const auto offence = rule != now_->rules.end() ? passes::find_offence(*rule, bytes) : std::nullopt;
  if (!offence) return ok_status();
  return invalid("The input \"", port.name, "\" ", passes::offence_text(*rule, bytes, *offence, port.shape.values()));
}

Result<std::optional<passes::WideIntegers>> Session::wide_integers(const Bindings& bindings) const {
  if (!passes::WideIntegers::computes(model_->graph)) return std::optional<passes::WideIntegers>();
  GRAFT_TRY_ASSIGN(Graph graph, graft::bind(model_->graph, bindings));
  return std::optional<passes::WideIntegers>(std::in_place, std::move(graph), [&](const std::string& name) {
    const ValueId value = model_->graph.find_value(name);
    return value.valid() ? model_->weight(value) : std::nullopt;
  });
}

Status Session::set_input(std::string_view name, std::span<const std::byte> bytes) {
  return on_device([&]() -> Status {
    GRAFT_TRY(try_resume());
    return try_set_input(name, bytes);
  });
}

Status Session::try_set_input(std::string_view name, std::span<const std::byte> bytes) {
  const auto& ports = plan().inputs;
  for (std::size_t i = 0; i < ports.size(); ++i) {
    if (ports[i].name != name) continue;
    if (is_bound(name)) return invalid("The input \"", name, "\" is bound to memory of the app's.");
    GRAFT_TRY(check_input(ports[i], bytes));
    given_[i] = true;
    if (now_->wide && ports[i].dtype == DType::i32) now_->wide->set_input(ports[i].name, passes::span_of(bytes));
    const auto staging = now_->program->input(i);
    if (!staging.empty()) std::ranges::fill(std::ranges::copy(bytes, staging.begin()).out, staging.end(), std::byte{0});
    if (kHasRecovery && options_.reopen) {
      copies_.resize(ports.size());
      copies_[i].assign(bytes.begin(), bytes.end());
    }
    return ok_status();
  }
  return error(Code::not_found, "The model has no input \"", name, "\".");
}

Status Session::bind(std::string_view name, const std::optional<gpu::ExternalMemory>& memory, std::uint64_t offset) {
  return on_device([&] { return try_bind(name, memory, offset); });
}

Status Session::try_bind(std::string_view name, const std::optional<gpu::ExternalMemory>& memory,
                         std::uint64_t offset) {
  GRAFT_TRY(try_resume());
  Program& program = *now_->program;
  std::unique_ptr<gpu::Buffer> buffer;
  if (memory) {
    GRAFT_TRY_ASSIGN(buffer, device_->import_buffer(*memory, name));
    GRAFT_TRY(program.bind(name, gpu::BufferRange{buffer.get(), offset, 0}));
  } else if (program.is_bound(name)) {
    GRAFT_TRY(program.bind(name, std::nullopt));
  } else {
    return ok_status();
  }
  now_->imported.insert_or_assign(std::string(name), std::move(buffer));
  const auto& ports = plan().inputs;
  const auto port = std::ranges::find(ports, name, &PlanPort::name);
  if (port != ports.end()) given_[static_cast<std::size_t>(port - ports.begin())] = memory.has_value();
  if (now_->wide) now_->wide->set_input(std::string(name), std::nullopt);  // of the app's memory nothing is known
  return ok_status();
}

/// Back to staging: whoever asks for other sizes, or for the memory, has other plans for it.
Status Session::unbind_all() {
  while (!now_->imported.empty()) {
    const std::string name = now_->imported.begin()->first;
    GRAFT_TRY(try_bind(name, std::nullopt, 0));
    now_->imported.erase(name);
  }
  return ok_status();
}

/// Refuses numbers that 32 bits cut off on their way from a float to a wider integer.
Status Session::check_casts() const {
  if (casts_.empty()) return ok_status();
  for (const PlanPort& port : plan().outputs) {
    if (port.dtype != DType::i32 || is_bound(port.name) || !casts_.contains(port.name)) continue;
    const std::span<const std::byte> words = output(port.name);
    const auto at = passes::find_limit(words);
    if (!at) continue;
    std::int32_t word = 0;
    std::memcpy(&word, words.data() + *at * sizeof word, sizeof word);
    return unsupported("The output \"", port.name, "\" holds ", word, " at element ", *at,
                       ", which is the limit of graft's 32 bits; it is cast from floats, and the number may be larger "
                       "in the source.");
  }
  return ok_status();
}

Status Session::run(const StepState& state) {
  std::optional<std::size_t> implied;
  for (std::size_t i = 0; i < given_.size(); ++i) {
    const PlanPort& port = plan().inputs[i];
    if (given_[i] || !port.used) continue;
    if (!is_implied(port)) return invalid("The input \"", port.name, "\" was not given.");
    implied = i;
  }
  if (now_->wide) {
    if (const std::string overflow = now_->wide->find_overflow(); !overflow.empty()) return unsupported(overflow);
  }
  return on_device([&]() -> Status {
    GRAFT_TRY(try_resume());
    constexpr float kOne = 1;
    if (implied) std::memcpy(now_->program->input(*implied).data(), &kOne, sizeof kOne);
    GRAFT_TRY(now_->program->run({}, state));
    GRAFT_TRY(check_casts());
    return kHasRecovery && options_.reopen && now_->program->wrote_residents() ? keep_copy() : ok_status();
  });
}

}  // namespace graft
