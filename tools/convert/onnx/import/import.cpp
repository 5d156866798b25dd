// The driver: orders nodes, folds what can be folded, applies rules, and gathers every problem.
#include "tools/convert/onnx/import/import.h"

#include <algorithm>
#include <cctype>

#include "platform/base/cancel.h"
#include "runtime/core/op_def.h"
#include "tools/convert/onnx/import/chosen.h"
#include "tools/convert/onnx/import/fold.h"
#include "tools/convert/onnx/import/unread.h"
#include "tools/convert/onnx/import/untrained.h"

namespace graft::convert {
namespace {

constexpr std::size_t kMaxFoldElements = std::size_t{1} << 20;
constexpr std::size_t kMaxTrainableFold = 4096;
constexpr std::size_t kMaxProblems = 1000;
constexpr unsigned kMaxDeferredDepth = 32;

/// The newest versions of ONNX's own domains whose operators the rules were written for (ONNX 1.22).
constexpr std::pair<std::string_view, std::int64_t> kNewest[] = {{"", 27},
                                                                 {"ai.onnx.ml", 5},
                                                                 {"ai.onnx.preview", 1},
                                                                 {"ai.onnx.preview.training", 1},
                                                                 {"ai.onnx.training", 1},
                                                                 {"com.microsoft", 1}};

/// A newer version may mean something else by the same node. Domains that no node uses do not matter.
Status check_newest(const OnnxGraph& source) {
  for (const auto& [domain, newest] : kNewest) {
    const auto found = source.opsets.find(std::string(domain));
    if (found == source.opsets.end() || found->second <= newest) continue;
    return unsupported("Its opset ", domain.empty() ? "" : cat("of ", domain, " "), "is ", found->second, ", and ",
                       newest, " is the newest that is supported.");
  }
  return {};
}

}  // namespace

Record* Importer::find(const std::string& name) {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

Record& Importer::create(const std::string& name) {
  records_.push_back({});
  records_.back().name = name;
  by_name_[name] = &records_.back();
  return records_.back();
}

std::int64_t Importer::opset(const std::string& domain) const {
  const auto found = source_.opsets.find(domain);
  return found == source_.opsets.end() ? 0 : found->second;
}

void Importer::problem(std::string text) {
  if (report_.problems.size() >= kMaxProblems) return;  // enough to know that the file is not what it seems
  text = printable(std::move(text));
  if (std::find(report_.problems.begin(), report_.problems.end(), text) == report_.problems.end()) {
    report_.problems.push_back(std::move(text));
  }
}

void Importer::note_type(ElemType type, std::string_view what) {
  std::string text;
  if (type == ElemType::f64 || type == ElemType::f16 || type == ElemType::bf16) {
    text = cat(elem_name(type), " ", what, " are held and computed as float32");
  } else if (is_float(type) && type != ElemType::f32) {
    text = cat(elem_name(type), " ", what, " are held as float32");
  } else if (is_integer(type) && type != ElemType::i32) {
    text = cat(elem_name(type), " ", what, " are held as int32");
  }
  if (!text.empty() && std::find(report_.notes.begin(), report_.notes.end(), text) == report_.notes.end()) {
    report_.notes.push_back(std::move(text));
  }
}

Status Importer::add_initializers() {
  GRAFT_TRY_ASSIGN(const Untrained untrained, find_untrained(source_, options_));
  for (auto& initializer : source_.initializers) {
    if (find(initializer.name) != nullptr || broken_.contains(initializer.name)) {
      return corrupt("There are two initializers named \"", initializer.name, "\".");
    }
    if (initializer.tensor == nullptr) {
      broken_[initializer.name] = &initializer;
      continue;
    }
    Record& record = create(initializer.name);
    record.type = initializer.tensor->type;
    record.shape = initializer.tensor->shape();
    record.host = std::move(initializer.tensor);
    const auto constant = untrained.find(initializer.name);
    record.trainable =
        is_float(record.type) && elem_bits(record.type) >= 16 && constant == untrained.end() && !initializer.part_of_op;
    record.running_stat = record.trainable && is_running_statistic(record.name);
    if (!wanted_.contains(record.name)) continue;
    note_type(record.type, "initializers");
    if (constant != untrained.end() && !record.host->dims.empty() && !initializer.part_of_op) {
      report_.constants.push_back({record.name, record.host->count(), constant->second});
    }
  }
  return {};
}

/// After an unsupported node, what the file itself says about its outputs lets the check go on behind it.
void Importer::add_unknown_outputs(const OnnxNode& node) {
  for (const std::string& name : node.outputs) {
    if (name.empty() || find(name) != nullptr) continue;
    unknown_.insert(name);
    if (report_.problems.size() >= kMaxProblems) continue;
    const auto known = std::find_if(source_.intermediates.begin(), source_.intermediates.end(),
                                    [&](const OnnxValue& v) { return v.name == name; });
    if (known == source_.intermediates.end() || !known->tensor || !known->has_shape) continue;
    auto shape = read_shape(*known);
    auto dtype = device_dtype(known->type);
    if (!shape.ok() || !dtype.ok()) continue;
    auto id = model_.graph.add_value(name, *dtype, *shape, ValueKind::input);
    if (!id.ok()) continue;
    unknown_.erase(name);
    Record& record = create(name);
    record.type = known->type;
    record.shape = *shape;
    record.value = *id;
  }
}

bool Importer::try_fold(std::size_t index, Report::Entry& entry) {
  const OnnxNode& node = node_at(index);
  if (!node.domain.empty() || !node.refusal.empty()) return false;
  std::vector<const HostTensor*> inputs;
  std::vector<const Shape*> shapes;
  bool trainable = false;
  unsigned depth = 0;
  const bool by_shape = node.op == "Shape" || node.op == "Size";  // whatever is in it, and however much
  for (const std::string& name : node.inputs) {
    Record* record = name.empty() ? nullptr : find(name);
    inputs.push_back(record ? record->host.get() : nullptr);
    shapes.push_back(record ? &record->shape : nullptr);
    if (record && record->host && !by_shape) {
      trainable |= record->trainable;
      depth = std::max(depth, record->depth);
      if (record->host->count() > (record->trainable ? kMaxTrainableFold : kMaxFoldElements)) return false;
    }
  }
  if (trainable && depth >= kMaxDeferredDepth) return false;
  if (trainable && node.op == "Identity") return false;  // an alias serves better
  std::vector<HostTensor> outputs;
  if (!fold_node(node, opset(node.domain), inputs, shapes, outputs)) return false;
  for (std::size_t k = outputs.size(); k < node.outputs.size(); ++k) {
    if (wanted_.contains(node.outputs[k])) return false;  // more than the op has: the rule says so
  }
  for (std::size_t k = 0; k < outputs.size() && k < node.outputs.size(); ++k) {
    if (node.outputs[k].empty()) continue;
    Record& record = create(node.outputs[k]);
    record.type = outputs[k].type;
    record.shape = outputs[k].shape();
    record.host = std::make_shared<HostTensor>(std::move(outputs[k]));
    record.trainable = trainable;
    record.deferred = trainable ? static_cast<int>(index) : -1;
    record.depth = trainable ? depth + 1 : 0;
  }
  entry.fate = Report::Fate::folded;
  return true;
}

void Importer::note_gradient(std::size_t first_node, Report::Entry& entry) {
  entry.gradient = true;
  for (std::size_t i = first_node; i < model_.graph.nodes().size(); ++i) {
    const Node& node = model_.graph.nodes()[i];
    const auto* none = std::get_if<NoGrad>(&op_def(node.op).gradient);
    if (none == nullptr || node.inputs.empty() || model_.graph.value(node.outputs[0]).dtype != DType::f32) continue;
    entry.gradient = false;
    entry.gradient_reason = none->reason;
  }
  // A result that is not floating-point ends every gradient.
  if (first_node < model_.graph.nodes().size()) {
    const Node& last = model_.graph.nodes().back();
    if (!last.outputs.empty() && !is_float(model_.graph.value(last.outputs[0]).dtype)) {
      entry.gradient = false;
      entry.gradient_reason = "its result is not floating-point";
    }
  }
}

Status Importer::apply_rule(std::size_t index, Report::Entry& entry) {
  const OnnxNode& node = node_at(index);
  if (!node.refusal.empty()) return unsupported(node.refusal);
  const RuleEntry* rule = find_rule(node.kind());
  GRAFT_TRY_ASSIGN(const bool done, apply_counted(index, entry));
  if (done) return {};
  if (is_control(node)) return expand_control(index, entry);
  if (is_sequence_op(node)) return import_sequence(index, entry);
  if (is_expanded(node)) return expand_node(index, entry);
  for (const auto& [name, attr] : node.attrs) {
    if (attr.kind == OnnxAttr::Kind::graph)
      return unsupported("control flow is not supported (its attribute \"", name, "\" is a graph)");
  }
  if (rule == nullptr) return unsupported("the op ", node.shown_op(), " is not supported");
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const Record* record = node.inputs[i].empty() ? nullptr : find(node.inputs[i]);
    if (record != nullptr && record->sequence) return unsupported("its input ", i, " is a sequence");
    if (record != nullptr && record->absent) return unsupported("its input ", i, " is an optional that holds nothing");
  }
  if (node.inputs.size() < rule->min_inputs || node.inputs.size() > rule->max_inputs) {
    return corrupt("it has ", node.inputs.size(), " inputs where ", rule->min_inputs, " to ", rule->max_inputs,
                   " are allowed");
  }
  for (std::size_t i = 0; i < rule->min_inputs; ++i) {
    if (node.inputs[i].empty()) return corrupt("its input ", i, " is missing");
  }
  NodeContext context(*this, node, *rule, index, entry);
  GRAFT_TRY_ASSIGN(const std::optional<CountedAxis> counted, carried_count(context));
  context.forget_reads();
  GRAFT_TRY(rule->rule(context));
  GRAFT_TRY(context.status());
  GRAFT_TRY(context.check_read());
  for (const std::string& output : node.outputs) {
    if (counted && find(output) != nullptr) find(output)->counted = counted;
    if (!output.empty() && wanted_.contains(output) && find(output) == nullptr) {
      return unsupported("its output \"", output, "\" is not supported");
    }
  }
  return {};
}

void Importer::import_node(std::size_t index) {
  const OnnxNode& node = node_at(index);
  Report::Entry entry;
  entry.node = !node.name.empty() ? node.name : node.outputs.empty() ? std::string() : node.outputs[0];
  entry.op = node.shown_op();
  Names reads = node.inputs;
  reads.insert(reads.end(), captures(index).begin(), captures(index).end());
  for (const std::string& input : reads) {
    if (const auto broken = broken_.find(input); broken != broken_.end()) {
      problem(cat("The initializer \"", input, "\" cannot be used: ", broken->second->error, "."));
      unknown_.insert(input);
    }
    if (!input.empty() && find(input) == nullptr) unknown_.insert(input);
    if (!input.empty() && unknown_.contains(input)) {
      // Still say whether the op itself is known, so that all that is missing is listed at once.
      const bool known = node.refusal.empty() && (find_rule(node.kind()) != nullptr || is_control(node) ||
                                                  is_sequence_op(node) || is_expanded(node));
      entry.fate = known ? Report::Fate::unchecked : Report::Fate::unsupported;
      entry.reason = known                   ? cat("its input \"", input, "\" is unknown")
                     : !node.refusal.empty() ? node.refusal
                                             : "the op " + entry.op + " is not supported";
      if (!known) problem(cat(node.label(), ": ", entry.reason, "."));
    }
  }
  if (!entry.reason.empty()) {
    add_unknown_outputs(node);
  } else {
    const std::size_t first = model_.graph.nodes().size();
    node.attrs.forget_reads();
    Status status;
    if (reads_counted(index) || !may_fold_sizes(index) || !try_fold(index, entry)) {
      node.attrs.forget_reads();
      status = apply_rule(index, entry);
    }
    if (status.ok()) status = check_attributes_read(node);
    if (!status.ok()) {
      entry.fate = Report::Fate::unsupported;
      entry.reason = status.message();
      for (const std::string& output : node.outputs) {
        if (!output.empty() && (is_control(node) || is_expanded(node))) unknown_.insert(output);
      }
      std::string text = cat(node.label(), ": ", entry.reason);
      if (text.back() != '.') text += '.';
      text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
      problem(std::move(text));
      add_unknown_outputs(node);
    } else if (entry.fate == Report::Fate::converted) {
      note_gradient(first, entry);
    }
  }
  report_.entries.push_back(std::move(entry));
}

/// Its tensors are outputs NAME.0, NAME.1, ...
void Importer::add_sequence_output(const std::string& name, const Names& elements) {
  if (elements.empty()) report_.notes.push_back(cat("the output \"", name, "\" is an empty sequence; it is left out"));
  for (std::size_t i = 0; i < elements.size(); ++i) {
    Record* record = find(elements[i]);
    const std::string own = cat(name, ".", i);
    if (record == nullptr || unknown_.contains(elements[i])) continue;  // what makes it has been refused
    if (record->host == nullptr) {
      wanted_.insert(own);
      if (Status status = import_made({"", "Identity", "", {elements[i]}, {own}, {}}); !status.ok()) {
        problem(cat("The output \"", own, "\": ", status.message(), "."));
      }
      record = find(own);
      if (record == nullptr) continue;
    }
    auto value = value_in(*record, {});
    if (!value.ok()) {
      problem(cat("The output \"", own, "\": ", value.status().message(), "."));
      continue;
    }
    note_type(record->type, "outputs");
    model_.graph.mutable_value(*value).source_type = source_type(record->type);
    model_.graph.add_output(own, *value);
  }
}

void Importer::add_outputs() {
  for (const OnnxValue& output : source_.outputs) {
    if (unknown_.contains(output.name)) continue;
    Record* record = find(output.name);
    if (record == nullptr) {
      if (broken_.contains(output.name)) problem(cat("The output \"", output.name, "\" is an unreadable initializer."));
      continue;
    }
    if (record->absent) {
      report_.notes.push_back(
          cat("the output \"", output.name, "\" is an optional that holds nothing; it is left out"));
      continue;
    }
    if (record->sequence) {
      add_sequence_output(output.name, *record->sequence);
      continue;
    }
    auto value = value_in(*record, {});
    if (!value.ok()) {
      problem(cat("The output \"", output.name, "\": ", value.status().message(), "."));
      continue;
    }
    note_type(record->type, "outputs");
    model_.graph.mutable_value(*value).source_type = source_type(record->type);
    model_.graph.add_output(output.name, *value);
  }
}

Result<Converted> Importer::run(const std::string& file_name, Report* report) {
  const std::int64_t version = opset("");
  const std::string format = source_.format.empty() ? cat("onnx opset ", version) : source_.format;
  report_.source = cat(file_name, " (", source_.format.empty() ? cat("ONNX opset ", version) : format,
                       source_.producer.empty() ? "" : ", ", source_.producer, ")");
  report_.notes = source_.notes;
  const auto check = [&]() -> Status {
    if (source_.outputs.empty()) return corrupt("The graph has no outputs.");
    const bool own = std::any_of(source_.nodes.begin(), source_.nodes.end(),
                                 [](const OnnxNode& node) { return node.domain.empty(); });
    if (version < 6 && (own || version != 0))
      return unsupported("Its opset is ", version, ", and 6 is the oldest that is supported.");
    GRAFT_TRY(check_newest(source_));
    GRAFT_TRY(find_producers());
    GRAFT_TRY(mark_used());
    GRAFT_TRY(order_nodes());
    GRAFT_TRY(open_axes());
    GRAFT_TRY(check_bindings());
    GRAFT_TRY(add_initializers());
    return add_inputs();
  };
  Status status = check();
  if (status.ok()) {
    count_reads();
    for (std::size_t i = 0; i < order_.size(); ++i) {
      GRAFT_TRY(cancel_point(i, order_.size()));
      import_node(order_[i]);
      release_weights(order_[i]);
    }
    for (std::size_t i = 0; i < source_.nodes.size(); ++i) {
      if (used_[i]) continue;
      const OnnxNode& node = source_.nodes[i];
      report_.entries.push_back({node.name, node.shown_op(), Report::Fate::unused, {}, false, {}, {}});
    }
    add_outputs();
    add_counts();
    if (report_.ok()) check_opened();
    list_trained();
    drop_unread_constants();
    note_tied();
    note_narrowed();
  } else {
    problem(status.message());
  }
  if (report != nullptr) *report = report_;
  if (!report_.ok()) {
    const std::size_t more = report_.problems.size() - 1;
    return error(status.ok() ? Code::unsupported : status.code(), file_name,
                 " cannot be converted: ", report_.problems[0],
                 more ? cat(" There are ", more, " more problems.") : "");
  }
  model_.metadata[std::string(kMetaSourceFormat)] = format;
  model_.metadata[std::string(kMetaSourceFile)] = file_name;
  if (!source_.producer.empty()) model_.metadata[std::string(kMetaProducer)] = source_.producer;
  model_.metadata[std::string(kMetaTrainability)] = report_.text();
  return Converted{std::move(model_), std::move(report_)};
}

Result<Converted> convert_onnx(OnnxGraph source, const std::string& name, const ConvertOptions& options,
                               Report* report) {
  GRAFT_TRY(gather_weights(source));
  return Importer(std::move(source), options).run(name, report);
}

Result<Converted> convert_onnx(const std::filesystem::path& path, const ConvertOptions& options, Report* report) {
  GRAFT_TRY_ASSIGN(OnnxGraph source, load_onnx(path, options.limits));
  return convert_onnx(std::move(source), path.filename().string(), options, report);
}

}  // namespace graft::convert
