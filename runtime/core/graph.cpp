#include "runtime/core/graph.h"

#include <algorithm>
#include <set>

#include "runtime/core/node_check.h"

namespace graft {

std::vector<ValueId> Graph::of_kind(ValueKind kind) const {
  std::vector<ValueId> found;
  for (std::uint32_t i = 0; i < values_.size(); ++i) {
    if (values_[i].kind == kind) found.push_back({i});
  }
  return found;
}

ValueId Graph::find_value(std::string_view name) const {
  const auto found = value_names_.find(std::string(name));
  return found == value_names_.end() ? kNoValue : ValueId{found->second};
}

NodeId Graph::find_node(std::string_view name) const {
  const auto found = node_names_.find(std::string(name));
  return found == node_names_.end() ? kNoNode : NodeId{found->second};
}

Result<ValueId> Graph::resolve(std::string_view name) const {
  for (const Output& output : outputs_) {
    if (output.name == name) return output.value;
  }
  if (const ValueId id = find_value(name); id.valid()) return id;
  if (const NodeId id = find_node(name); id.valid() && !node(id).outputs.empty()) return node(id).outputs[0];
  std::string known;
  for (const ValueId id : inputs()) known += (known.empty() ? "" : ", ") + value(id).name;
  for (const Output& output : outputs_) known += (known.empty() ? "" : ", ") + output.name;
  return error(Code::not_found, "The graph has no value \"", name, "\"; its inputs and outputs are: ", known, ".");
}

bool Graph::rename_value(ValueId id, std::string name) {
  Value& value = values_[id.index];
  if (value.name == name) return true;
  if (name.empty() || value_names_.contains(name)) return false;
  value_names_.erase(value.name);
  value_names_.emplace(name, id.index);
  value.name = std::move(name);
  return true;
}

std::string Graph::unique_name(const Names& taken, std::string_view base) {
  std::string name(base);
  while (taken.contains(name)) name = cat(base, "_", ++last_suffix_[std::string(base)]);
  return name;
}

Result<ValueId> Graph::add_value(std::string name, DType dtype, Shape shape, ValueKind kind) {
  if (name.empty()) return invalid("A value needs a name.");
  if (kind == ValueKind::temporary) return invalid("The temporary value \"", name, "\" needs a node that produces it.");
  if (value_names_.contains(name)) return invalid("The graph has two values named \"", name, "\".");
  GRAFT_TRY(check_shape(shape).with_context(cat("In the value \"", name, "\"")));
  const ValueId id{static_cast<std::uint32_t>(values_.size())};
  Value value{std::move(name), dtype, kind, std::move(shape), kNoNode, {}, DType::f32, {}, SourceType::same};
  GRAFT_TRY(check_storage(value).with_context(cat("In the value \"", value.name, "\"")));
  value_names_.emplace(value.name, id.index);
  values_.push_back(std::move(value));
  return id;
}

Result<ValueId> Graph::add_value_like(const Value& like) {
  GRAFT_TRY_ASSIGN(const ValueId id, add_value(like.name, like.dtype, like.shape, like.kind));
  Value& made = values_[id.index];
  made.source_perm = like.source_perm;
  made.source_type = like.source_type;
  made.storage = like.storage;
  made.contents = like.contents;
  return id;
}

Result<NodeId> Graph::add_node(Op op, std::vector<ValueId> inputs, Attrs attrs, std::string_view name,
                               const std::vector<std::string>& output_names) {
  Node node{std::string(), op, std::move(inputs), {}, std::move(attrs), kNoNode};
  node.attrs.declared_by(op_def(op).attrs);
  node.name = unique_name(node_names_, name.empty() ? op_name(op) : name);
  const std::string context = cat("In the node \"", node.name, "\" (", op_name(op), ")");
  GRAFT_TRY(check_node(*this, node).with_context(context));
  auto inferred = infer_node(*this, node);
  if (!inferred.ok()) return std::move(inferred).status().with_context(context);
  for (const std::string& given : output_names) {
    if (value_names_.contains(given)) return invalid(context, ": the graph has a value \"", given, "\" already.");
  }

  const NodeId id{static_cast<std::uint32_t>(nodes_.size())};
  for (std::size_t i = 0; i < inferred->size(); ++i) {
    const bool given = i < output_names.size() && !output_names[i].empty();
    std::string value_name =
        given ? output_names[i] : unique_name(value_names_, i == 0 ? node.name : cat(node.name, ":", i));
    const ValueId value{static_cast<std::uint32_t>(values_.size())};
    value_names_.emplace(value_name, value.index);
    auto& out = (*inferred)[i];
    values_.push_back(
        {std::move(value_name), out.dtype, ValueKind::temporary, std::move(out.shape), id, {}, DType::f32, {}});
    node.outputs.push_back(value);
  }
  node_names_.emplace(node.name, id.index);
  nodes_.push_back(std::move(node));
  return id;
}

std::vector<std::string> Graph::symbols() const {
  std::set<std::string, std::less<>> found;
  for (const Value& value : values_) {
    for (const Dim& dim : value.shape) {
      const auto names = dim.names();
      found.insert(names.begin(), names.end());
    }
  }
  return {found.begin(), found.end()};
}

}  // namespace graft
