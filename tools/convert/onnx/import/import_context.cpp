// NodeContext: what rules read and make.
#include <algorithm>
#include <numeric>

#include "platform/base/names.h"
#include "platform/base/text.h"
#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/import/fold.h"
#include "tools/convert/onnx/import/import.h"
#include "tools/convert/onnx/import/unread.h"

namespace graft::convert {
namespace {

/// What --constant takes, as it is typed.
std::string contents_of(const std::string& input) { return quoted_argument(quoted_name(input) + "=FILE.npy"); }

}  // namespace

NodeContext::NodeContext(Importer& importer, const OnnxNode& source, const RuleEntry& rule, std::size_t index,
                         Report::Entry& entry)
    : node(source),
      target(rule.target),
      opset(importer.opset(source.domain)),
      importer_(importer),
      index_(index),
      entry_(entry),
      base_(!source.name.empty()     ? source.name
            : source.outputs.empty() ? source.op
                                     : source.outputs[0]) {
  for (const std::string& input : source.inputs) records_.push_back(input.empty() ? nullptr : importer.find(input));
  read_.resize(records_.size());
}

void NodeContext::forget_reads() {
  node.attrs.forget_reads();
  read_.assign(read_.size(), false);
}

Status NodeContext::check_read() const {
  for (std::size_t i = 0; i < read_.size(); ++i) {
    if (!has(i) || read_[i] || may_ignore_input(node, i)) continue;
    return unsupported("its input ", i, " \"", node.inputs[i], "\" is not supported");
  }
  return check_attributes_read(node);
}

const Record& NodeContext::nothing() {
  static const Record none;
  return none;
}

Status NodeContext::missing(std::size_t i) const { return corrupt("its input ", i, " is missing"); }

ValueId NodeContext::in(std::size_t i, const Perm& perm) {
  if (!has(i)) fail(missing(i));
  if (!status_.ok()) return kNoValue;
  auto value = importer_.value_in(mutable_record(i), perm);
  if (value.ok()) return *value;
  fail(value.status());
  return kNoValue;
}

Importer::Origins Importer::origins_of(const Record& record) {
  Origins found;
  std::set<std::string> inputs, seen;
  for (const OnnxValue& input : source_.inputs) inputs.insert(input.name);
  found.is_input = inputs.contains(record.name);
  Names open = {record.name};
  while (!open.empty()) {
    const std::string name = open.back();
    open.pop_back();
    const Record* known = find(name);
    if (!seen.insert(name).second) continue;
    if (known != nullptr && known->host != nullptr) {
      for (std::size_t k = 0; known->host->symbolic() && k < known->host->count(); ++k) {
        for (const std::string& symbol : known->host->dim(k).names()) found.symbols.insert(symbol);
      }
      continue;
    }
    if (inputs.contains(name)) {
      const bool small = known != nullptr && known->shape.rank() <= 1;
      if (small || found.is_input) found.small_inputs.push_back(name);
    } else if (const auto producer = producer_.find(name); producer != producer_.end()) {
      for (const Names& reads : {node_at(producer->second).inputs, captures(producer->second)}) {
        open.insert(open.end(), reads.begin(), reads.end());
      }
    }
  }
  return found;
}

Status Importer::must_be_known(const Record& record, std::string_view what) {
  if (record.host != nullptr && record.host->symbolic()) {
    return unsupported("its ", what, " depends on a symbolic dimension; bind it (--bind NAME=SIZE)");
  }
  const Origins origins = origins_of(record);
  for (const std::string& name : origins.small_inputs) {
    auto& fix = report_.fix_inputs;
    if (std::find(fix.begin(), fix.end(), name) == fix.end()) fix.push_back(name);
  }
  if (origins.of_sizes()) {
    std::string bindings;
    for (const std::string& symbol : origins.symbols) {
      bindings += cat(" --bind ", quoted_argument(cat(quoted_name(symbol), "=SIZE")));
    }
    return unsupported("its ", what, " is computed from open dimensions; bind them (", bindings.substr(1), ")");
  }
  std::string from = "is computed from the model's inputs";
  if (origins.is_input) {
    from = cat("is an input of the model (--constant ", contents_of(record.name), " gives its contents)");
  } else if (!origins.small_inputs.empty()) {
    from += cat(" (--constant ", contents_of(origins.small_inputs.front()), " gives the contents of one)");
  }
  return unsupported("its ", what, " \"", record.name, "\" must be known at conversion, but ", from);
}

Result<std::vector<Dim>> NodeContext::dims(std::size_t i, std::string_view what) {
  if (!has(i)) return corrupt("its ", what, " is missing");
  const Record& r = record(i);
  if (r.host == nullptr) {
    return importer_.must_be_known(r, what);
  }
  if (!is_integer(r.type)) return corrupt("its ", what, " \"", r.name, "\" is ", elem_name(r.type), ", not integers");
  std::vector<Dim> out;
  for (std::size_t k = 0; k < r.host->count(); ++k) out.push_back(importer_.most_of(r.host->dim(k)));
  return out;
}

Result<Ints> NodeContext::ints(std::size_t i, std::string_view what) {
  GRAFT_TRY_ASSIGN(const std::vector<Dim> all, dims(i, what));
  Ints out;
  for (const Dim& dim : all) {
    if (!dim.is_constant()) {
      return unsupported("its ", what, " depends on the symbol ", dim.symbols(), "; bind it (--bind NAME=SIZE)");
    }
    out.push_back(dim.value());
  }
  return out;
}

Status NodeContext::known(std::size_t i, std::string_view what) {
  if (!has(i)) return corrupt("its ", what, " is missing");
  const Record& r = record(i);
  return r.host == nullptr || r.host->symbolic() ? importer_.must_be_known(r, what) : ok_status();
}

Result<double> NodeContext::number(std::size_t i, std::string_view what) {
  GRAFT_TRY(known(i, what));
  const Record& r = record(i);
  if (r.host->count() != 1) return corrupt("its ", what, " has ", r.host->count(), " elements instead of one");
  return r.host->number(0);
}

std::int64_t NodeContext::attr(std::string_view name, std::int64_t fallback) const {
  return integer_of(node, name, fallback);
}

double NodeContext::attr_number(std::string_view name, double fallback) const {
  const OnnxAttr* found = node.attrs.of_kind(name, OnnxAttr::Kind::number);
  return found != nullptr ? found->number : fallback;
}

std::string NodeContext::attr_text(std::string_view name, std::string_view fallback) const {
  const OnnxAttr* found = node.attrs.of_kind(name, OnnxAttr::Kind::text);
  return found != nullptr ? found->text : std::string(fallback);
}

Ints NodeContext::attr_ints(std::string_view name, const Ints& fallback) const {
  const OnnxAttr* found = node.attrs.of_kind(name, OnnxAttr::Kind::integers);
  return found != nullptr ? found->integers : fallback;
}

Result<std::optional<Ints>> NodeContext::ints_of(std::string_view attr_name, std::size_t input) {
  if (has_attr(attr_name)) return std::optional<Ints>(attr_ints(attr_name));
  if (!has(input)) return std::optional<Ints>();
  GRAFT_TRY_ASSIGN(Ints values, ints(input, attr_name));
  return std::optional<Ints>(std::move(values));
}

std::vector<ValueId> NodeContext::emit_all(Op op, std::vector<ValueId> inputs, Attrs attrs, std::string_view name) {
  if (!status_.ok()) return {};
  const std::string stem = cat(base_, "#", emitted_++);
  Graph& graph = importer_.model_.graph;
  const std::string first = graph.find_value(stem).valid() ? std::string() : stem;
  auto made =
      graph.add_node(op, std::move(inputs), std::move(attrs), name.empty() ? std::string_view(base_) : name, {first});
  if (!made.ok()) {
    // The importer names the source's node; the context that the graph adds would say it twice.
    const std::string& message = made.status().message();
    const auto context = message.starts_with("In the node ") ? message.find("): ") : std::string::npos;
    fail(Status(made.status().code(), context == std::string::npos ? message : message.substr(context + 3)));
    return {};
  }
  return graph.node(*made).outputs;
}

ValueId NodeContext::emit(Op op, std::vector<ValueId> inputs, Attrs attrs) {
  const auto outputs = emit_all(op, std::move(inputs), std::move(attrs));
  return outputs.empty() ? kNoValue : outputs[0];
}

ValueId NodeContext::constant(const HostTensor& contents) {
  if (!status_.ok()) return kNoValue;
  importer_.records_.push_back({});
  Record& record = importer_.records_.back();
  record.name = cat(base_, "/constant");
  record.type = contents.type;
  record.shape = contents.shape();
  record.host = std::make_shared<HostTensor>(contents);
  fail(importer_.materialise(record, {}));
  return record.value;
}

ValueId NodeContext::parameter(std::string_view name, const HostTensor& contents) {
  if (!status_.ok()) return kNoValue;
  const std::string own = attribute_weight(node.name, node.outputs, name);
  const auto& frozen = importer_.options_.constants;
  const bool constant = std::ranges::any_of(frozen, [&](const std::string& p) { return matches(p, own); });
  auto made =
      importer_.add_weight(own, DType::f32, contents.shape(), constant ? ValueKind::constant : ValueKind::parameter, {},
                           std::as_bytes(std::span(contents.floats)));
  if (made.ok()) return *made;
  fail(std::move(made).status());
  return kNoValue;
}

ValueId NodeContext::full(Shape shape, double value, DType dtype) {
  return emit(Op::full, {},
              {{"shape", std::move(shape)}, {"value", value}, {"dtype", static_cast<std::int64_t>(dtype)}});
}

ValueId NodeContext::reshape(ValueId value, Shape shape) {
  if (!value.valid() || shape_of(value) == shape) return value;
  return emit(Op::reshape, {value}, {{"shape", std::move(shape)}});
}

ValueId NodeContext::transpose(ValueId value, const Perm& perm, std::string_view name) {
  if (simplified(perm).empty()) return value;
  const auto made = emit_all(Op::transpose, {value}, {{"perm", Ints(perm.begin(), perm.end())}}, name);
  return made.empty() ? kNoValue : made[0];
}

ValueId NodeContext::expand(ValueId value, Shape shape) {
  if (!value.valid() || shape_of(value) == shape) return value;
  return emit(Op::expand, {value}, {{"shape", std::move(shape)}});
}

ValueId NodeContext::cast(ValueId value, DType dtype) {
  if (!value.valid() || dtype_of(value) == dtype) return value;
  return emit(Op::cast, {value}, {{"to", static_cast<std::int64_t>(dtype)}});
}

ValueId NodeContext::counting(const Dim& count) {
  if (!count.is_constant() || static_cast<std::uint64_t>(count.value()) > kMaxFolded) {
    return emit(Op::cumsum, {full(Shape{count}, 1, DType::i32)}, {{"exclusive", std::int64_t{1}}});
  }
  std::vector<std::int64_t> values(static_cast<std::size_t>(count.value()));
  std::iota(values.begin(), values.end(), std::int64_t{0});
  return constant(HostTensor::of_ints(std::move(values)));
}

ValueId NodeContext::size(const Dim& size) {
  if (!status_.ok()) return kNoValue;
  const auto value = importer_.size_value(size, base_);
  if (!value.ok()) fail(value.status());
  return value.ok() ? reshape(*value, Shape{}) : kNoValue;
}

const HostTensor* NodeContext::whole_host(std::size_t i) const {
  if (host(i) != nullptr || !has(i)) return host(i);
  const auto producer = importer_.producer_.find(node.inputs[i]);
  if (producer == importer_.producer_.end()) return nullptr;
  const OnnxNode& maker = importer_.node_at(producer->second);
  if (maker.op != "Cast" || maker.inputs.empty()) return nullptr;
  const Record* of = importer_.find(maker.inputs[0]);
  return of != nullptr && is_integer(of->type) ? of->host.get() : nullptr;
}

ValueId NodeContext::narrowed(ValueId value, ElemType type, Attrs more) {
  const std::string_view format = narrow_format(type);
  if (format.empty()) return value;
  more.set("format", std::string(format));
  return emit(Op::narrow, {value}, std::move(more));
}

const Shape& NodeContext::shape_of(ValueId value) const {
  static const Shape none;
  return value.valid() ? importer_.model_.graph.value(value).shape : none;
}

DType NodeContext::dtype_of(ValueId value) const {
  return value.valid() ? importer_.model_.graph.value(value).dtype : DType::f32;
}

const std::string& NodeContext::name_of(ValueId value) const {
  static const std::string none;
  return value.valid() ? importer_.model_.graph.value(value).name : none;
}

bool NodeContext::is_trained(ValueId value) const {
  const Graph& graph = importer_.model_.graph;
  std::set<std::uint32_t> seen;
  std::vector<ValueId> open = {value};
  while (!open.empty()) {
    const ValueId v = open.back();
    open.pop_back();
    if (!v.valid() || !seen.insert(v.index).second) continue;
    if (graph.value(v).kind == ValueKind::parameter) return true;
    if (const NodeId producer = graph.value(v).producer; producer.valid()) {
      const std::vector<ValueId>& inputs = graph.node(producer).inputs;
      open.insert(open.end(), inputs.begin(), inputs.end());
    }
  }
  return false;
}

bool NodeContext::is_zero(ValueId value) const {
  const Graph& graph = importer_.model_.graph;
  while (value.valid() && graph.value(value).producer.valid()) {
    const Node& maker = graph.node(graph.value(value).producer);
    if (maker.op == Op::full) return maker.attrs.number("value") == 0;
    const bool moves =
        maker.op == Op::reshape || maker.op == Op::expand || maker.op == Op::slice || maker.op == Op::transpose;
    if (!moves) return false;
    value = maker.inputs[0];
  }
  return false;
}

bool NodeContext::wants(std::size_t k) const {
  return k < node.outputs.size() && !node.outputs[k].empty() && importer_.wanted_.contains(node.outputs[k]);
}

void NodeContext::out_typed(std::size_t k, ValueId value, ElemType type, const Perm& perm) {
  if (!status_.ok() || !value.valid() || k >= node.outputs.size() || node.outputs[k].empty()) return;
  const auto is_own = [&] { return importer_.model_.graph.value(value).name.starts_with(base_ + "#"); };
  if (!perm.empty()) {
    // What the op gave is the same value, with its axes in another order.
    if (is_own()) importer_.model_.graph.mutable_value(value).source_perm = perm;
    Perm back(perm.size());
    for (std::size_t i = 0; i < perm.size(); ++i) back[perm[i]] = static_cast<std::uint8_t>(i);
    value = transpose(value, back, base_ + std::string(kLayoutSuffix));
  }
  if (!value.valid()) return;
  // Every value of the source has a node of its own: a view of what has a name already.
  if (!is_own()) value = emit(Op::reshape, {value}, {{"shape", shape_of(value)}});
  if (!value.valid()) return;
  const std::string& name = node.outputs[k];
  Record* existing = importer_.find(name);
  Record& record = existing ? *existing : importer_.create(name);
  record.type = type;
  record.value = value;
  record.perm = {};
  record.shape = shape_of(value);
  // What is computed in more than 32 bits is checked when it runs (runtime/passes/wide_integers.h).
  if (type == ElemType::i64 || type == ElemType::u64 || type == ElemType::u32) {
    importer_.model_.graph.mutable_value(value).source_type = source_type(type);
  }
  static_cast<void>(importer_.model_.graph.rename_value(value, name));
}

void NodeContext::out_counted(std::size_t k, ValueId value, ElemType type, const CountedAxis& counted) {
  out_typed(k, value, type);
  Record* record = status_.ok() && k < node.outputs.size() ? importer_.find(node.outputs[k]) : nullptr;
  if (record != nullptr) record->counted = counted;
}

void NodeContext::alias(std::size_t k, std::size_t input) {
  if (!status_.ok() || k >= node.outputs.size() || node.outputs[k].empty()) return;
  if (!record(input).host) {
    out_typed(k, in(input), type(input));
    return;
  }
  // Another name of a weight or constant.
  Record* existing = importer_.find(node.outputs[k]);
  if (existing == nullptr) {
    importer_.by_name_[node.outputs[k]] = records_[input];
    return;
  }
  fail(importer_.ensure_value(*records_[input], {}));
  existing->value = records_[input]->value;
  existing->perm = records_[input]->perm;
}

void NodeContext::part(std::size_t i) {
  if (!has(i) || node.inputs[i] == records_[i]->name) return;
  const Record& shared = record(i);
  if (!shared.trainable || !shared.host || shared.deferred >= 0) return;
  Record& own = importer_.create(node.inputs[i]);
  own.type = shared.type;
  own.shape = shared.shape;
  own.host = shared.host;
  own.trainable = true;
  records_[i] = &own;
}

void NodeContext::out_host(std::size_t k, HostTensor contents) {
  if (!status_.ok() || k >= node.outputs.size() || node.outputs[k].empty()) return;
  Record& record = importer_.create(node.outputs[k]);
  record.type = contents.type;
  record.shape = contents.shape();
  record.host = std::make_shared<HostTensor>(std::move(contents));
}

void NodeContext::note(std::string text) {
  auto& notes = importer_.report_.notes;
  if (std::find(notes.begin(), notes.end(), text) == notes.end()) notes.push_back(std::move(text));
}

const RuleEntry* find_rule(std::string_view op) {
  static const std::map<std::string_view, const RuleEntry*> kRules = [] {
    std::map<std::string_view, const RuleEntry*> all;
    for (const RuleEntry* table :
         {kElementwiseRules, kConvRules,      kPoolRules,    kNormRules,   kMatmulRules,   kReduceRules,
          kShapeRules,       kMoveRules,      kResizeRules,  kLossRules,   kComposedRules, kAttentionRules,
          kFusedRules,       kRecurrentRules, kIndexRules,   kEinsumRules, kRandomRules,   kMlRules,
          kTfliteRules,      kQuantizeRules,  kIntegerRules, kSampleRules, kSignalRules,   kImageRules,
          kChosenRules,      kDetectionRules}) {
      for (const RuleEntry* rule = table; rule->op != nullptr; ++rule) all.emplace(rule->op, rule);
    }
    return all;
  }();
  const auto found = kRules.find(op);
  return found == kRules.end() ? nullptr : found->second;
}

}  // namespace graft::convert
