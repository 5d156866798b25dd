#include "runtime/model/graph_writer.h"

#include <utility>

#include "runtime/model/enums.h"
#include "runtime/model/format.h"

namespace graft::model_format {
namespace {

std::unique_ptr<fb::ShapeT> write_shape(const Shape& shape) {
  auto out = std::make_unique<fb::ShapeT>();
  for (const Dim& dim : shape) out->coefficients.push_back(dim.coefficient());
  if (shape.is_constant()) return out;
  for (const Dim& dim : shape) out->symbols.push_back(dim.symbols());
  return out;
}

// One overload for each alternative of AttrValue: a new one does not compile until it is written.
struct AttrWriter {
  fb::AttrValueUnion& out;

  void operator()(std::int64_t value) const {
    fb::IntegerAttrT attr;
    attr.value = value;
    out.Set(attr);
  }
  void operator()(double value) const {
    fb::NumberAttrT attr;
    attr.value = value;
    out.Set(attr);
  }
  void operator()(const std::string& value) const {
    fb::TextAttrT attr;
    attr.value = value;
    out.Set(std::move(attr));
  }
  void operator()(const Ints& value) const {
    fb::IntegersAttrT attr;
    attr.value = value;
    out.Set(std::move(attr));
  }
  void operator()(const Shape& value) const {
    fb::ShapeAttrT attr;
    attr.value = write_shape(value);
    out.Set(std::move(attr));
  }
};

std::unique_ptr<fb::ValueT> write_value(const Value& value) {
  auto out = std::make_unique<fb::ValueT>();
  out->name = value.name;
  out->dtype = *to_file(value.dtype);
  out->kind = *to_file(value.kind);
  out->shape = write_shape(value.shape);
  out->source_perm = value.source_perm;
  out->source_type = static_cast<fb::SourceType>(value.source_type);  // numbered alike
  return out;
}

std::unique_ptr<fb::NodeT> write_node(const Node& node) {
  auto out = std::make_unique<fb::NodeT>();
  out->name = node.name;
  out->op = *to_file(node.op);
  for (const ValueId id : node.inputs) out->inputs.push_back(id.valid() ? id.index : kNoIndex);
  for (const ValueId id : node.outputs) out->outputs.push_back(id.index);
  for (const auto& [name, value] : node.attrs.items()) {
    auto attr = std::make_unique<fb::AttrT>();
    attr->name = name;
    std::visit(AttrWriter{attr->value}, value);
    out->attrs.push_back(std::move(attr));
  }
  return out;
}

}  // namespace

std::vector<std::unique_ptr<fb::NamedValueT>> write_named_values(const std::vector<Output>& list) {
  std::vector<std::unique_ptr<fb::NamedValueT>> out;
  for (const Output& item : list) {
    auto& made = out.emplace_back(std::make_unique<fb::NamedValueT>());
    made->name = item.name;
    made->value = item.value.index;
  }
  return out;
}

std::unique_ptr<fb::GraphT> write_graph(const Graph& graph, const Bindings& symbol_defaults) {
  auto out = std::make_unique<fb::GraphT>();
  for (const Value& value : graph.values()) out->values.push_back(write_value(value));
  for (const Node& node : graph.nodes()) out->nodes.push_back(write_node(node));
  out->outputs = write_named_values(graph.outputs());
  for (std::string& name : graph.symbols()) {
    auto& symbol = out->symbols.emplace_back(std::make_unique<fb::SymbolT>());
    const auto size = symbol_defaults.find(name);
    symbol->default_size = size == symbol_defaults.end() ? 0 : size->second;
    symbol->name = std::move(name);
  }
  return out;
}

}  // namespace graft::model_format
