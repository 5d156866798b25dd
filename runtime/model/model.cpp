#include "runtime/model/model.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "platform/base/checked.h"
#include "runtime/core/finite.h"
#include "runtime/core/op_def.h"
#include "runtime/model/enums.h"
#include "runtime/model/format.h"

namespace graft {

using namespace model_format;

std::optional<std::span<const std::byte>> Model::weight(ValueId value) const {
  const auto found = weights_.find(value);
  if (found == weights_.end()) return std::nullopt;
  return found->second.bytes;
}

Status Model::check_weight(ValueId id, std::uint64_t bytes) const {
  if (!id.valid() || id.index >= graph.values().size()) {
    return invalid("Contents were given for a value that the graph does not have.");
  }
  const Value& value = graph.value(id);
  if (value.kind == ValueKind::input || value.kind == ValueKind::temporary) {
    return invalid("The value \"", value.name, "\" has no contents of its own: it is an input or made by a node.");
  }
  GRAFT_TRY_ASSIGN(const Dim count, value.shape.element_count());
  if (!count.is_constant()) {
    return invalid("The value \"", value.name, "\" has the shape ", value.shape.text(),
                   "; contents need a shape of numbers.");
  }
  const DTypeBlock block = dtype_block(value.dtype);
  const auto needed =
      checked_mul<std::uint64_t>(static_cast<std::uint64_t>(count.value()) / block.elements, block.bytes);
  if (!needed || *needed != bytes) {
    return invalid("The value \"", value.name, "\" has the shape ", value.shape.text(), " of ", dtype_name(value.dtype),
                   "; ", bytes, " bytes of contents do not fit it.");
  }
  return ok_status();
}

void Model::tell_graph(ValueId value, std::span<const std::byte> contents) {
  Value& constant = graph.mutable_value(value);
  if (constant.kind == ValueKind::constant) constant.contents = contents;
}

Status Model::set_weight(ValueId value, HostBuffer contents) {
  GRAFT_TRY(check_weight(value, contents.size()));
  Weight& weight = weights_[value];
  weight = {};
  weight.owned = std::move(contents);
  weight.bytes = std::as_const(weight.owned).bytes();
  tell_graph(value, weight.bytes);
  return ok_status();
}

Status Model::copy_weight(ValueId value, std::span<const std::byte> contents, const HostAllocator& allocator) {
  GRAFT_TRY(check_weight(value, contents.size()));
  GRAFT_TRY_ASSIGN(auto copy,
                   HostBuffer::create(contents.size(), cat("the weight \"", graph.value(value).name, "\""), allocator));
  if (!contents.empty()) std::memcpy(copy.data(), contents.data(), contents.size());
  return set_weight(value, std::move(copy));
}

Status Model::view_weight(ValueId value, std::span<const std::byte> contents) {
  GRAFT_TRY(check_weight(value, contents.size()));
  weights_[value] = {contents, {}, std::nullopt, {}};
  tell_graph(value, contents);
  return ok_status();
}

Status Model::borrow_weight(ValueId value, const Model& owner, ValueId theirs) {
  const Weight& weight = owner.weights_.at(theirs);
  GRAFT_TRY(view_weight(value, weight.bytes));
  weights_[value].stated = weight.stated;
  weights_[value].right = weight.right;
  if (source_.empty()) source_ = owner.source_;
  unchecked_ = unchecked_ || owner.unchecked_;
  return ok_status();
}

std::uint64_t Model::weight_bytes() const {
  std::uint64_t total = 0;
  for (const auto& [id, weight] : weights_) total += weight.bytes.size();
  return total;
}

namespace {

/// What add_value() and add_node() guarantee, and a graph that was changed afterwards may have lost.
Status validate_structure(const Graph& graph) {
  GRAFT_TRY(check_count(graph.values().size(), kMaxValues, "values"));
  GRAFT_TRY(check_count(graph.nodes().size(), kMaxNodes, "nodes"));
  std::uint32_t next = 0;
  const auto skip_given = [&] {
    while (next < graph.values().size() && !graph.values()[next].producer.valid()) ++next;
  };
  for (std::uint32_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    GRAFT_TRY(check_name(node.name, cat("The name of node ", i)));
    if (graph.find_node(node.name) != NodeId{i}) {
      return invalid("Two nodes have the name \"", node.name, "\".");
    }
    if (!to_file(node.op) || node.forward_of.valid()) {
      return unsupported("The node \"", node.name, "\" (", op_name(node.op),
                         ") belongs to a gradient; a model file holds the forward graph only.");
    }
    GRAFT_TRY(check_count(node.attrs.items().size(), kMaxListed, "attributes")
                  .with_context(cat("In the node \"", node.name, "\"")));
    skip_given();
    for (const ValueId output : node.outputs) {
      if (output.index != next++) {
        return invalid("The outputs of the node \"", node.name, "\" do not stand in the order of nodes.");
      }
    }
  }
  return ok_status();
}

Status validate_names(const Graph& graph) {
  for (std::uint32_t i = 0; i < graph.values().size(); ++i) {
    const std::string& name = graph.values()[i].name;
    GRAFT_TRY(check_name(name, cat("The name of value ", i)));
    if (graph.find_value(name) != ValueId{i}) return invalid("Two values have the name \"", name, "\".");
  }
  return ok_status();
}

Status validate_list(const Graph& graph, const std::vector<Output>& list, std::string_view what, bool inputs_only) {
  std::set<std::string_view> names;
  GRAFT_TRY(check_count(list.size(), kMaxListed, cat(what, "s")));
  for (const Output& item : list) {
    GRAFT_TRY(check_name(item.name, cat("The name of an ", what)));
    if (!names.insert(item.name).second) return invalid("Two ", what, "s have the name \"", item.name, "\".");
    if (!item.value.valid() || item.value.index >= graph.values().size()) {
      return invalid("The ", what, " \"", item.name, "\" names no value.");
    }
    if (inputs_only && graph.value(item.value).kind != ValueKind::input) {
      return invalid("The ", what, " \"", item.name, "\" is the value \"", graph.value(item.value).name,
                     "\", which is not an input.");
    }
  }
  return ok_status();
}

Status validate_signatures(const Model& model) {
  std::set<std::string_view> names;
  GRAFT_TRY(check_count(model.signatures.size(), kMaxListed, "signatures"));
  for (const Signature& signature : model.signatures) {
    GRAFT_TRY(check_name(signature.name, "The name of a signature"));
    if (!names.insert(signature.name).second) return invalid("Two signatures have the name \"", signature.name, "\".");
    const std::string context = cat("In the signature \"", signature.name, "\"");
    GRAFT_TRY(validate_list(model.graph, signature.inputs, "input", true).with_context(context));
    GRAFT_TRY(validate_list(model.graph, signature.outputs, "output", false).with_context(context));
  }
  return ok_status();
}

Status validate_metadata(const Model& model) {
  GRAFT_TRY(check_count(model.metadata.size(), kMaxListed, "metadata entries"));
  for (const auto& [key, value] : model.metadata) {
    GRAFT_TRY(check_name(key, "A key of the metadata"));
    if (!is_text(value, true)) return invalid("The metadata \"", key, "\" is not UTF-8 without control characters.");
  }
  const auto symbols = model.graph.symbols();
  GRAFT_TRY(check_count(symbols.size(), kMaxListed, "symbols"));
  for (const auto& [name, size] : model.symbol_defaults) {
    if (!std::binary_search(symbols.begin(), symbols.end(), name)) {
      return invalid("A default size is given for \"", name, "\", which is not a symbol of the graph.");
    }
    if (size < 1) return invalid("The symbol \"", name, "\" has the default size ", size, "; it must be at least 1.");
  }
  return ok_status();
}

}  // namespace

Status validate(const Model& model, bool shapes_only) {
  const Graph& graph = model.graph;
  GRAFT_TRY(validate_structure(graph));
  GRAFT_TRY(validate_names(graph));
  GRAFT_TRY(validate(graph));
  GRAFT_TRY(validate_list(graph, graph.outputs(), "output", false));
  GRAFT_TRY(validate_signatures(model));
  GRAFT_TRY(validate_metadata(model));
  if (model.tokenizer) {
    GRAFT_TRY(check_name(model.tokenizer->format, "The kind of the tokenizer"));
    if (model.tokenizer->bytes.empty()) return invalid("The tokenizer has no data.");
  }
  for (std::uint32_t i = 0; i < graph.values().size(); ++i) {
    const Value& value = graph.values()[i];
    const bool needed = value.kind == ValueKind::constant || value.kind == ValueKind::parameter;
    if (needed && !shapes_only && !model.weight({i})) return invalid("The value \"", value.name, "\" has no contents.");
  }
  return ok_status();
}

Status Model::check_finite() const {
  for (const auto& [id, weight] : weights_) {
    const Value& value = graph.value(id);
    if (value.kind == ValueKind::constant) continue;
    if (const auto at = find_non_finite(weight.bytes, value.dtype)) {
      return invalid("The weight \"", value.name, "\" is not finite at element ", *at, ".");
    }
  }
  return ok_status();
}

}  // namespace graft
