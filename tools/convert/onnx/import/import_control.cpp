// Control flow that is known at conversion: a branch that is taken, turns that are counted. Bodies become nodes of the
// graph, once for each turn. Of branches that the data choose between, both.
#include <algorithm>
#include <array>

#include "tools/convert/onnx/import/import.h"
#include "tools/convert/onnx/import/subgraphs.h"

namespace graft::convert {
namespace {

constexpr std::int64_t kMostTurns = 4096;
constexpr std::size_t kMostExpanded = 200'000;  // nodes of a file

HostTensor scalar_of(std::int64_t value, ElemType type) {
  HostTensor tensor = HostTensor::of_ints({value});
  tensor.type = type;
  tensor.dims = {};
  return tensor;
}

Result<const OnnxGraph*> body_of(const OnnxNode& node, std::string_view name) {
  const auto found = node.attrs.find(name);
  if (found == node.attrs.end()) return corrupt("its attribute \"", name, "\" is missing");
  if (found->second.graph == nullptr) return unsupported("its body cannot be read: ", found->second.tensor_error);
  return found->second.graph.get();
}

std::int64_t element_of_attribute(const OnnxNode& node, std::string_view name, std::size_t at, std::int64_t fallback) {
  const auto found = node.attrs.find(name);
  return found != node.attrs.end() && at < found->second.integers.size() ? found->second.integers[at] : fallback;
}

/// A Scan's lists hold one number for each scanned input or output; directions are 0 or 1.
Status check_scan_lists(const OnnxNode& node, std::size_t inputs, std::size_t outputs) {
  for (const auto* what : {"scan_input_axes", "scan_input_directions", "scan_output_axes", "scan_output_directions"}) {
    const auto found = node.attrs.find(what);
    if (found == node.attrs.end()) continue;
    const std::string_view name = what;
    const Ints& given = found->second.integers;
    const std::size_t count = name.starts_with("scan_input") ? inputs : outputs;
    if (given.size() != count) {
      return corrupt("its ", name, " holds ", given.size(), " numbers, and it scans ", count,
                     name.starts_with("scan_input") ? " inputs" : " outputs");
    }
    if (!name.ends_with("directions")) continue;
    for (const std::int64_t way : given) {
      if (way != 0 && way != 1) return corrupt("its ", name, " holds ", way, ", and a direction is 0 or 1");
    }
  }
  return {};
}

}  // namespace

const OnnxNode& Importer::node_at(std::size_t index) const {
  return index < source_.nodes.size() ? source_.nodes[index] : expanded_[index - source_.nodes.size()];
}

const std::vector<std::string>& Importer::captures(std::size_t index) {
  const auto found = captures_.find(index);
  if (found != captures_.end()) return found->second;
  return captures_[index] = captured_names(node_at(index));
}

Status Importer::import_made(OnnxNode node) {
  if (expanded_.size() >= kMostExpanded) {
    return unsupported("unrolled, its loops and branches have more than ", kMostExpanded, " nodes");
  }
  const std::size_t index = source_.nodes.size() + expanded_.size();
  for (const std::string& input : node.inputs) wanted_.insert(input);
  for (const std::string& output : node.outputs) producer_.emplace(output, index);
  expanded_.push_back(std::move(node));
  for (const std::string& name : captures(index)) wanted_.insert(name);
  import_node(index);
  return {};
}

std::string Importer::constant_record(const std::string& name, HostTensor contents) {
  std::string unique = name;
  for (std::size_t k = 1; find(unique) != nullptr; ++k) unique = cat(name, "_", k);
  Record& record = create(unique);
  record.type = contents.type;
  record.shape = contents.shape();
  record.host = std::make_shared<HostTensor>(std::move(contents));
  return unique;
}

Status Importer::add_alias(const std::string& name, const std::string& of) {
  if (name.empty() || !wanted_.contains(name)) return {};
  Record* record = find(of);
  if (record == nullptr || unknown_.contains(of)) {
    unknown_.insert(name);
    return {};
  }
  if (record->sequence || record->absent || record->host) {
    by_name_[name] = record;
    return {};
  }
  return import_made({"", "Identity", "", {of}, {name}, {}});
}

Result<std::vector<std::string>> Importer::inline_body(const OnnxGraph& body, const std::string& prefix,
                                                       const std::string& weights, NameMap names) {
  for (const OnnxInitializer& initializer : body.initializers) {
    const std::string name = weights + initializer.name;
    names[initializer.name] = name;
    if (find(name) != nullptr) continue;  // of an earlier turn
    if (initializer.tensor == nullptr) return unsupported("its initializer \"", name, "\": ", initializer.error);
    Record& record = create(name);
    record.type = initializer.tensor->type;
    record.shape = initializer.tensor->shape();
    record.host = initializer.tensor;
    record.trainable = is_float(record.type) && initializer.tensor->count() > 1;
  }
  const std::vector<const OnnxNode*> nodes = needed_nodes(body);
  for (const OnnxNode* node : nodes) {
    for (const std::string& output : node->outputs) {
      if (!output.empty()) names[output] = prefix + output;
    }
  }
  const auto changed = [&](const std::string& name) {
    const auto found = names.find(name);
    return found == names.end() ? name : found->second;
  };
  std::vector<std::string> outputs;
  for (const OnnxValue& output : body.outputs) {
    outputs.push_back(changed(output.name));
    wanted_.insert(outputs.back());
  }
  std::vector<OnnxNode> copies;
  for (const OnnxNode* node : nodes) {
    copies.push_back(renamed(*node, names));
    copies.back().name = node->name.empty() ? std::string() : prefix + node->name;
    for (const std::string& input : copies.back().inputs) wanted_.insert(input);
    for (const std::string& name : captured_names(copies.back())) wanted_.insert(name);
  }
  for (OnnxNode& copy : copies) GRAFT_TRY(import_made(std::move(copy)));
  return outputs;
}

/// A name for what a node makes that is not in the file.
std::string Importer::scope_of(const OnnxNode& node) {
  return cat(!node.name.empty() ? node.name : node.outputs.empty() ? node.op : node.outputs[0], "/");
}

Result<std::int64_t> Importer::known_scalar(const std::string& name, std::string_view what) {
  const Record* record = find(name);
  if (record == nullptr) return unsupported("its ", what, " is unknown");
  if (record->host == nullptr || record->host->symbolic()) return must_be_known(*record, what);
  if (record->host->count() != 1) return corrupt("its ", what, " has ", record->host->count(), " elements");
  return static_cast<std::int64_t>(record->host->number(0));
}

/// Names of the branch stay where they can: those of its weights above all.
Result<std::vector<std::string>> Importer::inline_branch(const OnnxNode& node, std::string_view attribute,
                                                         const std::string& scope) {
  GRAFT_TRY_ASSIGN(const OnnxGraph* body, body_of(node, attribute));
  if (body->outputs.size() < node.outputs.size()) return corrupt("its branch has too few outputs");
  const auto taken = [&](const std::string& name) {
    return find(name) != nullptr || producer_.contains(name) || given_.contains(name);
  };
  bool free = true;
  for (const OnnxInitializer& initializer : body->initializers) free = free && !taken(initializer.name);
  for (const OnnxNode& inner : body->nodes) {
    for (const std::string& output : inner.outputs) free = free && (output.empty() || !taken(output));
  }
  const std::string prefix = free ? std::string() : scope;
  return inline_body(*body, prefix, prefix, {});
}

Status Importer::expand_if(const OnnxNode& node, Report::Entry& entry) {
  if (node.inputs.size() != 1 || node.inputs[0].empty()) return corrupt("its condition is missing");
  const Record* record = find(node.inputs[0]);
  if (record != nullptr && record->host == nullptr && !origins_of(*record).of_sizes()) {
    entry.precision = "both branches are computed, its condition chooses";
    return compute_both(node, *record);
  }
  GRAFT_TRY_ASSIGN(const std::int64_t condition, known_scalar(node.inputs[0], "condition"));
  GRAFT_TRY_ASSIGN(const std::vector<std::string> outputs,
                   inline_branch(node, condition != 0 ? "then_branch" : "else_branch", scope_of(node)));
  for (std::size_t k = 0; k < node.outputs.size(); ++k) GRAFT_TRY(add_alias(node.outputs[k], outputs[k]));
  entry.precision = condition != 0 ? "its condition is true" : "its condition is false";
  return {};
}

/// Branches have no side effects: where both give the same shapes, both may be computed, and Where takes the results of
/// one. Where they do not, the condition must be known.
Status Importer::compute_both(const OnnxNode& node, const Record& condition) {
  const std::size_t before = report_.problems.size();
  const auto refuse = [&](const std::string& why) {
    report_.problems.resize(std::min(before, report_.problems.size()));
    const Status status = must_be_known(condition, "condition");
    return unsupported(status.message(), "; its branches cannot both be computed: ", why);
  };
  const std::string scope = scope_of(node);
  std::string chooser = node.inputs[0];
  if (condition.shape.rank() != 0) {
    chooser = cat(scope, "condition");
    wanted_.insert(chooser);
    GRAFT_TRY(import_made({"", "Squeeze", "", {node.inputs[0]}, {chooser}, {}}));
  }
  std::array<std::vector<std::string>, 2> results;
  for (const std::size_t branch : {0, 1}) {
    auto outputs = branch == 0 ? inline_branch(node, "then_branch", scope + "then/")
                               : inline_branch(node, "else_branch", scope + "else/");
    if (!outputs.ok()) return refuse(outputs.status().message());
    if (report_.problems.size() > before) return refuse(std::string(report_.problems[before]));
    results[branch] = std::move(*outputs);
  }
  for (std::size_t k = 0; k < node.outputs.size(); ++k) {
    const std::string& output = node.outputs[k];
    if (output.empty() || !wanted_.contains(output)) continue;
    const Record *a = find(results[0][k]), *b = find(results[1][k]);
    if (a == nullptr || b == nullptr || unknown_.contains(a->name) || unknown_.contains(b->name)) {
      return refuse(cat("one does not give \"", output, "\""));
    }
    if (a->sequence || b->sequence || a->absent || b->absent) {
      return refuse(cat("\"", output, "\" is a sequence or optional"));
    }
    if (a->type != b->type || a->shape != b->shape) {
      return refuse(cat("\"", output, "\" is ", elem_name(a->type), a->shape.text(), " of one and ", elem_name(b->type),
                        b->shape.text(), " of the other"));
    }
    GRAFT_TRY(import_made({"", "Where", "", {chooser, results[0][k], results[1][k]}, {output}, {}}));
  }
  return {};
}

Status Importer::stack(const std::string& output, std::vector<std::string> parts, std::int64_t axis, bool new_axis) {
  if (new_axis) {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::string name = cat(output, "/", i);
      GRAFT_TRY(import_made({"", "Unsqueeze", "", {parts[i]}, {name}, {{"axes", integers_attribute({axis})}}}));
      parts[i] = name;
    }
  }
  return import_made({"", "Concat", "", std::move(parts), {output}, {{"axis", integer_attribute(axis)}}});
}

Status Importer::stack_turns(const std::string& output, const std::vector<std::string>& parts, std::int64_t axis,
                             const OnnxValue& declared) {
  if (output.empty() || !wanted_.contains(output)) return {};
  if (!parts.empty()) return stack(output, parts, axis, true);
  HostTensor nothing{.type = declared.type, .dims = {0}};
  for (const OnnxDim& dim : declared.dims) {
    if (dim.value < 0) return unsupported("it takes no turn, and the shape of its output is not known otherwise");
    nothing.dims.push_back(dim.value);
  }
  if (!declared.has_shape) return unsupported("it takes no turn, and the shape of its output is not known otherwise");
  by_name_[output] = find(constant_record(output, std::move(nothing)));
  return {};
}

Status Importer::expand_loop(const OnnxNode& node, Report::Entry& entry) {
  GRAFT_TRY_ASSIGN(const OnnxGraph* body, body_of(node, "body"));
  const auto given = [&](std::size_t i) { return i < node.inputs.size() && !node.inputs[i].empty(); };
  std::int64_t most = kMostTurns + 1;
  bool going = true;
  if (given(0)) {
    GRAFT_TRY_ASSIGN(most, known_scalar(node.inputs[0], "number of turns"));
  }
  if (given(1)) {
    GRAFT_TRY_ASSIGN(const std::int64_t condition, known_scalar(node.inputs[1], "condition"));
    going = condition != 0;
  }
  const std::size_t carried_count = node.inputs.size() < 2 ? 0 : node.inputs.size() - 2;
  if (body->inputs.size() != carried_count + 2 || body->outputs.size() < carried_count + 1) {
    return corrupt("its body has ", body->inputs.size(), " inputs and ", body->outputs.size(), " outputs for ",
                   carried_count, " carried values");
  }
  std::vector<std::string> carried(node.inputs.begin() + std::min<std::ptrdiff_t>(2, std::ssize(node.inputs)),
                                   node.inputs.end());
  std::vector<std::vector<std::string>> scanned(body->outputs.size() - carried_count - 1);
  const std::string scope = scope_of(node);
  const std::size_t problems = report_.problems.size();
  std::int64_t turn = 0;
  for (; going && turn < most; ++turn) {
    if (turn == kMostTurns) return unsupported("it takes more than ", kMostTurns, " turns, the most that are unrolled");
    const std::string prefix = cat(scope, turn, "/");
    NameMap names;
    names[body->inputs[0].name] = constant_record(prefix + "turn", scalar_of(turn, ElemType::i64));
    names[body->inputs[1].name] = constant_record(prefix + "condition", scalar_of(1, ElemType::boolean));
    for (std::size_t i = 0; i < carried_count; ++i) names[body->inputs[i + 2].name] = carried[i];
    GRAFT_TRY_ASSIGN(const std::vector<std::string> outputs, inline_body(*body, prefix, scope, std::move(names)));
    if (report_.problems.size() > problems) return unsupported("its body cannot be converted");
    const Record* condition = find(outputs[0]);
    if (condition == nullptr || condition->host == nullptr || condition->host->count() != 1) {
      return unsupported("whether it goes on after turn ", turn,
                         " is computed by the model; loops whose number of turns is known at conversion are unrolled");
    }
    going = condition->host->number(0) != 0;
    for (std::size_t i = 0; i < carried_count; ++i) carried[i] = outputs[i + 1];
    for (std::size_t i = 0; i < scanned.size(); ++i) scanned[i].push_back(outputs[i + 1 + carried_count]);
  }
  for (std::size_t k = 0; k < node.outputs.size(); ++k) {
    if (k < carried_count) {
      GRAFT_TRY(add_alias(node.outputs[k], carried[k]));
    } else if (k - carried_count < scanned.size()) {
      GRAFT_TRY(stack_turns(node.outputs[k], scanned[k - carried_count], 0, body->outputs[k + 1]));
    }
  }
  entry.precision = cat("unrolled: ", turn, " turns");
  return {};
}

Result<std::string> Importer::element_of(const std::string& of, std::int64_t index, std::int64_t axis) {
  const std::string at = constant_record(cat(of, "/index"), scalar_of(index, ElemType::i64));
  const std::string name = cat(at, "/element");
  wanted_.insert(name);
  GRAFT_TRY(import_made({"", "Gather", "", {of, at}, {name}, {{"axis", integer_attribute(axis)}}}));
  return name;
}

/// One run over the scanned inputs; `values`: initial states, then scanned inputs. Gives the states and outputs.
Result<std::vector<std::string>> Importer::scan(const OnnxNode& node, const OnnxGraph& body, std::size_t states,
                                                const std::vector<std::string>& values, const std::string& scope) {
  std::vector<std::string> carried(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(states));
  std::int64_t turns = -1;
  std::vector<std::int64_t> axes;
  for (std::size_t i = states; i < values.size(); ++i) {
    const Record* record = find(values[i]);
    if (record == nullptr) return unsupported("its input \"", values[i], "\" is unknown");
    GRAFT_TRY_ASSIGN(
        const std::size_t axis,
        normalize_axis(element_of_attribute(node, "scan_input_axes", i - states, 0), record->shape.rank()));
    const Dim& size = record->shape[axis];
    if (!size.is_constant()) {
      return unsupported("it scans the symbolic axis ", size.text(), "; bind it (--bind NAME=SIZE)");
    }
    if (turns >= 0 && size.value() != turns) return corrupt("it scans axes of ", turns, " and ", size.value());
    turns = size.value();
    axes.push_back(static_cast<std::int64_t>(axis));
  }
  if (turns > kMostTurns) return unsupported("it takes ", turns, " turns, and ", kMostTurns, " are unrolled at most");
  std::vector<std::vector<std::string>> scanned(body.outputs.size() - states);
  const std::size_t problems = report_.problems.size();
  for (std::int64_t turn = 0; turn < turns; ++turn) {
    NameMap names;
    for (std::size_t i = 0; i < states; ++i) names[body.inputs[i].name] = carried[i];
    for (std::size_t i = states; i < values.size(); ++i) {
      const bool backwards = element_of_attribute(node, "scan_input_directions", i - states, 0) != 0;
      GRAFT_TRY_ASSIGN(names[body.inputs[i].name],
                       element_of(values[i], backwards ? turns - 1 - turn : turn, axes[i - states]));
    }
    GRAFT_TRY_ASSIGN(const std::vector<std::string> outputs,
                     inline_body(body, cat(scope, turn, "/"), scope_of(node), std::move(names)));
    if (report_.problems.size() > problems) return unsupported("its body cannot be converted");
    for (std::size_t i = 0; i < states; ++i) carried[i] = outputs[i];
    for (std::size_t i = 0; i < scanned.size(); ++i) scanned[i].push_back(outputs[states + i]);
  }
  for (std::size_t i = 0; i < scanned.size(); ++i) {
    if (element_of_attribute(node, "scan_output_directions", i, 0) != 0)
      std::reverse(scanned[i].begin(), scanned[i].end());
    const std::string name = cat(scope, "scanned", i);
    wanted_.insert(name);
    const OnnxValue& declared = body.outputs[states + i];
    GRAFT_TRY(stack_turns(name, scanned[i], element_of_attribute(node, "scan_output_axes", i, 0), declared));
    carried.push_back(name);
  }
  return carried;
}

Status Importer::expand_scan(const OnnxNode& node, Report::Entry& entry) {
  GRAFT_TRY_ASSIGN(const OnnxGraph* body, body_of(node, "body"));
  const bool batched = opset("") < 9;  // with lengths before, and an axis of samples in front of everything
  std::vector<std::string> values = node.inputs;
  if (batched) {
    if (values.empty() || !values[0].empty())
      return unsupported("sequence lengths of a Scan of opset 8 are not supported");
    values.erase(values.begin());
  }
  const std::int64_t scanned = integer_of(node, "num_scan_inputs", 0);
  if (scanned < 1 || scanned > std::ssize(values) || body->inputs.size() != values.size() ||
      body->outputs.size() < values.size() - static_cast<std::size_t>(scanned)) {
    return corrupt("its body and its ", values.size(), " inputs, of which it scans ", scanned, ", do not fit");
  }
  const std::size_t states = values.size() - static_cast<std::size_t>(scanned);
  GRAFT_TRY(check_scan_lists(node, static_cast<std::size_t>(scanned), body->outputs.size() - states));
  const std::string scope = scope_of(node);
  std::vector<std::string> results;
  if (!batched) {
    GRAFT_TRY_ASSIGN(results, scan(node, *body, states, values, scope));
  } else {
    const Record* first = find(values[0]);
    if (first == nullptr || first->shape.rank() == 0 || !first->shape[0].is_constant()) {
      return unsupported("the number of its samples is not known; bind it (--bind NAME=SIZE)");
    }
    std::vector<std::vector<std::string>> samples(body->outputs.size());
    for (std::int64_t n = 0; n < first->shape[0].value(); ++n) {
      std::vector<std::string> own;
      for (const std::string& value : values) {
        GRAFT_TRY_ASSIGN(own.emplace_back(), element_of(value, n, 0));
      }
      GRAFT_TRY_ASSIGN(const std::vector<std::string> outputs,
                       scan(node, *body, states, own, cat(scope, "sample", n, "/")));
      for (std::size_t k = 0; k < outputs.size(); ++k) samples[k].push_back(outputs[k]);
    }
    for (std::size_t k = 0; k < samples.size(); ++k) {
      results.push_back(cat(scope, "result", k));
      wanted_.insert(results.back());
      GRAFT_TRY(stack_turns(results.back(), samples[k], 0, body->outputs[k]));
    }
  }
  for (std::size_t k = 0; k < node.outputs.size() && k < results.size(); ++k) {
    GRAFT_TRY(add_alias(node.outputs[k], results[k]));
  }
  entry.precision = "unrolled";
  return {};
}

bool Importer::is_control(const OnnxNode& node) {
  return node.domain.empty() && (node.op == "If" || node.op == "Loop" || node.op == "Scan");
}

Status Importer::expand_control(std::size_t index, Report::Entry& entry) {
  const OnnxNode& node = node_at(index);
  const std::size_t before = report_.problems.size();
  Status status = node.op == "If"     ? expand_if(node, entry)
                  : node.op == "Loop" ? expand_loop(node, entry)
                                      : expand_scan(node, entry);
  entry.fate = Report::Fate::folded;
  if (status.ok() || report_.problems.size() == before) return status;
  // What is wrong in the body has been said.
  entry.fate = Report::Fate::unchecked;
  entry.reason = "its body cannot be converted";
  for (const std::string& output : node.outputs) unknown_.insert(output);
  return {};
}

}  // namespace graft::convert
