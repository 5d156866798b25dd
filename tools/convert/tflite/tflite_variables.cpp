#include "tools/convert/tflite/tflite_variables.h"

#include <algorithm>

#include "platform/base/text.h"

namespace graft::convert {
namespace {

using B = tfl::BuiltinOperator;

std::int32_t entry(const flatbuffers::Vector<std::int32_t>* list, std::uint32_t i) {
  return list == nullptr || i >= list->size() ? -1 : list->Get(i);
}

std::string variable_name(const tfl::Operator& op) {
  const auto* const options = op.builtin_options_as_VarHandleOptions();
  if (options == nullptr || options->shared_name() == nullptr) return {};
  return shown(options->shared_name()->str());
}

}  // namespace

bool TfliteVariables::handles(B code) {
  return code == B::VAR_HANDLE || code == B::READ_VARIABLE || code == B::ASSIGN_VARIABLE || code == B::CALL_ONCE;
}

Result<TfliteVariables::Variable*> TfliteVariables::variable_at(const tfl::Operator& op,
                                                                const std::map<std::int32_t, std::string>& names) {
  const auto found = names.find(entry(op.inputs(), 0));
  if (found == names.end()) return unsupported("its variable comes from no VAR_HANDLE");
  Variable& variable = variables_[found->second];
  if (!variable.input.empty()) return &variable;
  variable.input = found->second.empty() ? "state" : found->second;
  const auto is_taken = [&] {
    return std::ranges::any_of(file_.tensors(), [&](const auto& t) { return t.name == variable.input; });
  };
  while (is_taken()) variable.input += "/state";
  variable.current = variable.input;
  return &variable;
}

/// The graph that gives variables their first contents: constants that are assigned.
Status TfliteVariables::initialize(const tfl::Operator& call) {
  const auto* const options = call.builtin_options_as_CallOnceOptions();
  const std::int32_t index = options == nullptr ? 0 : options->init_subgraph_index();
  GRAFT_TRY_ASSIGN(const TfliteFile first, file_.subgraph(index));
  if (first.graph().operators() == nullptr) return {};
  std::map<std::int32_t, std::string> names;
  for (const tfl::Operator* op : *first.graph().operators()) {
    GRAFT_TRY_ASSIGN(const B code, first.code(*op));
    if (code == B::VAR_HANDLE) {
      names[entry(op->outputs(), 0)] = variable_name(*op);
      continue;
    }
    if (code != B::ASSIGN_VARIABLE) return unsupported("its graph computes what variables begin with");
    GRAFT_TRY_ASSIGN(Variable * variable, variable_at(*op, names));
    const std::int32_t from = entry(op->inputs(), 1);
    if (from < 0 || static_cast<std::size_t>(from) >= first.tensors().size()) return corrupt("it assigns no tensor");
    const TfliteTensor& tensor = first.tensors()[static_cast<std::size_t>(from)];
    if (!tensor.constant || !tensor.error.empty()) return unsupported("its graph computes what variables begin with");
    GRAFT_TRY_ASSIGN(HostTensor contents, TfliteFile::contents(tensor));
    variable->initial = std::make_shared<HostTensor>(std::move(contents));
  }
  return {};
}

Status TfliteVariables::take(B code, const tfl::Operator& op, OpContext& c) {
  if (code == B::CALL_ONCE) return initialize(op);
  if (code == B::VAR_HANDLE) {
    names_[entry(op.outputs(), 0)] = variable_name(op);
    return {};
  }
  GRAFT_TRY_ASSIGN(Variable * variable, variable_at(op, names_));
  if (code == B::READ_VARIABLE) {
    GRAFT_TRY(c.check());
    variable->read = true;
    variable->like = &c.output(0);
    c.out(0, variable->current);
    return c.check();
  }
  if (!c.has(1)) return corrupt("it assigns no tensor");
  variable->assigned = true;
  if (variable->like == nullptr) variable->like = &c.input(1);
  variable->current = c.in(1);
  return {};
}

void TfliteVariables::finish(OnnxGraph& graph) {
  for (const auto& [name, variable] : variables_) {
    if (!variable.read) continue;  // nothing depends on what it holds
    if (!variable.assigned && variable.initial != nullptr) {
      graph.initializers.push_back({variable.input, variable.initial, {}, false});
      continue;
    }
    OnnxValue value;
    value.name = variable.input;
    value.tensor = value.has_shape = true;
    value.type = variable.like->elem;
    for (const std::int64_t dim : variable.like->open_dims) value.dims.push_back({dim, {}});
    graph.inputs.push_back(value);
    value.name += "/next";
    OnnxNode& node = graph.nodes.emplace_back();
    node.op = "Identity";
    node.inputs = {variable.current};
    node.outputs = {value.name};
    graph.outputs.push_back(value);
    const bool zeros =
        variable.initial == nullptr ||
        (std::ranges::count(variable.initial->floats, 0.0f) ==
             static_cast<std::ptrdiff_t>(variable.initial->floats.size()) &&
         std::ranges::count(variable.initial->ints, 0) == static_cast<std::ptrdiff_t>(variable.initial->ints.size()));
    graph.notes.push_back(cat("The variable \"", variable.input, "\" is an input here, and \"", value.name,
                              "\" an output: each run takes what the run before it returned, and the first ",
                              zeros ? "zeros." : "what the file's initializing graph assigns, which is not zeros."));
  }
}

}  // namespace graft::convert
