#include "runtime/model/graph_reader.h"

#include "platform/base/checked.h"
#include "runtime/model/enums.h"
#include "runtime/model/format.h"

namespace graft::model_format {
namespace {

/// FlatBuffers' verifier looks at the alignment of a vector's length only, which has 4 bytes.
Result<Ints> read_integers(const flatbuffers::Vector<std::int64_t>* vector, Budget& budget) {
  if (vector == nullptr) return Ints();
  if (reinterpret_cast<std::uintptr_t>(vector->Data()) % 8 != 0) {
    return corrupt("Its integers are malformed: they do not stand at a multiple of 8 bytes.");
  }
  GRAFT_TRY(budget.take(vector->size(), 8));
  return Ints(vector->begin(), vector->end());
}

Result<Dim> read_dim(std::int64_t coefficient, const flatbuffers::String* symbols) {
  if (symbols == nullptr || symbols->size() == 0) return Dim(coefficient);
  const std::string_view text(symbols->c_str(), symbols->size());
  GRAFT_TRY(check_name(text, "The symbol of a dimension"));
  GRAFT_TRY_ASSIGN(const Dim symbol, Dim::parse(text));
  const auto dim = multiply(Dim(coefficient), symbol);
  if (symbol.text() != text || !dim || dim->coefficient() != coefficient || dim->symbols() != text) {
    return invalid("\"", coefficient, "*", text, "\" is not how a dimension is written.");
  }
  return *dim;
}

Result<Shape> read_shape(const fb::Shape& file, Budget& budget) {
  const auto* symbols = file.symbols();
  const std::uint64_t rank = count_of(file.coefficients());
  if (rank > Shape::kMaxRank) return invalid("Its shape has rank ", rank, "; the limit is ", Shape::kMaxRank, ".");
  if (symbols != nullptr && symbols->size() != rank) {
    return invalid("Its shape of rank ", rank, " has ", symbols->size(), " symbols.");
  }
  GRAFT_TRY_ASSIGN(const Ints coefficients, read_integers(file.coefficients(), budget));
  std::vector<Dim> dims;
  for (flatbuffers::uoffset_t axis = 0; axis < rank; ++axis) {
    const auto* symbol = symbols == nullptr ? nullptr : symbols->Get(axis);
    GRAFT_TRY(budget.take(symbol == nullptr ? 0 : symbol->size(), 1));
    GRAFT_TRY_ASSIGN(Dim dim, read_dim(coefficients[axis], symbol));
    dims.push_back(std::move(dim));
  }
  return Shape(std::move(dims));
}

Result<AttrValue> read_attr_value(const fb::Attr& file, Budget& budget) {
  switch (file.value_type()) {
    case fb::AttrValue::integer: return AttrValue(std::int64_t{file.value_as_integer()->value()});
    case fb::AttrValue::number: return AttrValue(file.value_as_number()->value());
    case fb::AttrValue::text: {
      const auto* text = file.value_as_text()->value();
      GRAFT_TRY(budget.take(text->size(), 1));
      if (!is_text(text->string_view(), true)) return invalid("Its text is not UTF-8 without control characters.");
      return AttrValue(text->str());
    }
    case fb::AttrValue::integers: {
      GRAFT_TRY_ASSIGN(Ints integers, read_integers(file.value_as_integers()->value(), budget));
      return AttrValue(std::move(integers));
    }
    case fb::AttrValue::shape: {
      GRAFT_TRY_ASSIGN(Shape shape, read_shape(*file.value_as_shape()->value(), budget));
      return AttrValue(std::move(shape));
    }
    case fb::AttrValue::NONE: break;
  }
  return unsupported("Its type is number ", static_cast<int>(file.value_type()), ", which this build does not know.");
}

Result<Attrs> read_attrs(const fb::Node& file, Budget& budget) {
  Attrs attrs;
  GRAFT_TRY(check_count(count_of(file.attrs()), kMaxListed, "attributes"));
  std::string last;
  for (flatbuffers::uoffset_t i = 0; i < count_of(file.attrs()); ++i) {
    const fb::Attr& attr = *file.attrs()->Get(i);
    GRAFT_TRY_ASSIGN(std::string name, read_name(attr.name(), "The name of an attribute", budget));
    if (name <= last) return invalid("Its attribute \"", name, "\" does not stand in the order of names.");
    auto value = read_attr_value(attr, budget);
    if (!value.ok()) return std::move(value).status().with_context(cat("In the attribute \"", name, "\""));
    attrs.set(name, std::move(*value));
    last = std::move(name);
  }
  return attrs;
}

class GraphReader {
 public:
  GraphReader(const fb::Graph& file, Budget& budget) : file_(file), budget_(budget) {}

  Result<Graph> read() {
    const std::uint64_t nodes = count_of(file_.nodes());
    GRAFT_TRY(check_count(count_of(file_.values()), kMaxValues, "values"));
    GRAFT_TRY(check_count(nodes, kMaxNodes, "nodes"));
    for (flatbuffers::uoffset_t i = 0; i < nodes; ++i) {
      const fb::Node& node = *file_.nodes()->Get(i);
      GRAFT_TRY(read_given_values());
      GRAFT_TRY_ASSIGN(const std::string name, read_name(node.name(), cat("The name of node ", i), budget_));
      GRAFT_TRY(read_node(node, name));
    }
    GRAFT_TRY(read_given_values());
    if (next_ != count_of(file_.values())) {
      return invalid("The value \"", value_at(next_).name()->string_view(), "\" is temporary, but no node makes it.");
    }
    GRAFT_TRY_ASSIGN(auto outputs, read_named_values(file_.outputs(), next_, "output", budget_));
    for (Output& output : outputs) graph_.add_output(std::move(output.name), output.value);
    return std::move(graph_);
  }

 private:
  const fb::Value& value_at(std::uint32_t i) const { return *file_.values()->Get(i); }

  struct Stated {
    std::string name;
    DType dtype;
    ValueKind kind;
    Shape shape;
    SourcePerm source_perm;
    SourceType source_type = SourceType::same;
  };

  Result<Stated> read_value(std::uint32_t i) {
    const fb::Value& value = value_at(i);
    GRAFT_TRY_ASSIGN(std::string name, read_name(value.name(), cat("The name of value ", i), budget_));
    const std::string context = cat("In the value \"", name, "\"");
    const auto dtype = from_file(value.dtype());
    if (!dtype)
      return unsupported(context, ": its dtype is number ", static_cast<int>(value.dtype()), ", unknown here.");
    const auto kind = from_file(value.kind());
    if (!kind) return unsupported(context, ": its kind is number ", static_cast<int>(value.kind()), ", unknown here.");
    auto shape = read_shape(*value.shape(), budget_);
    if (!shape.ok()) return std::move(shape).status().with_context(context);
    const auto* perm = value.source_perm();
    GRAFT_TRY(check_count(count_of(perm), Shape::kMaxRank, "source axes").with_context(context));
    SourcePerm source_perm;
    if (perm != nullptr) source_perm.assign(perm->begin(), perm->end());
    const auto type = static_cast<SourceType>(value.source_type());
    const bool fits = type == SourceType::same || (type <= kLastSourceType && source_type_info(type).dtype == *dtype);
    if (!fits) {
      return invalid(context, ": its source_type is number ", static_cast<int>(value.source_type()), ", which ",
                     dtype_name(*dtype), " does not stand for.");
    }
    return Stated{std::move(name), *dtype, *kind, std::move(*shape), std::move(source_perm), type};
  }

  /// Adds the values from next_ on that no node makes.
  Status read_given_values() {
    for (; next_ < count_of(file_.values()) && value_at(next_).kind() != fb::ValueKind::temporary; ++next_) {
      GRAFT_TRY_ASSIGN(Stated stated, read_value(next_));
      GRAFT_TRY_ASSIGN(const ValueId id,
                       graph_.add_value(std::move(stated.name), stated.dtype, std::move(stated.shape), stated.kind));
      graph_.mutable_value(id).source_perm = std::move(stated.source_perm);
      graph_.mutable_value(id).source_type = stated.source_type;
    }
    return ok_status();
  }

  struct StatedNode {
    Op op{};
    std::vector<ValueId> inputs;
    Attrs attrs;
    std::vector<Stated> outputs;
  };

  Result<StatedNode> read_parts(const fb::Node& node, const std::string& name) {
    StatedNode stated;
    if (graph_.find_node(name).valid()) return invalid("Another node has that name.");
    GRAFT_TRY_ASSIGN(stated.op, from_file(node.op()));
    GRAFT_TRY_ASSIGN(stated.inputs, read_inputs(node));
    GRAFT_TRY_ASSIGN(stated.attrs, read_attrs(node, budget_));
    GRAFT_TRY_ASSIGN(stated.outputs, read_outputs(node));
    return stated;
  }

  Status read_node(const fb::Node& node, const std::string& name) {
    const std::string context = cat("In the node \"", name, "\"");
    auto stated = read_parts(node, name);
    if (!stated.ok()) return std::move(stated).status().with_context(context);
    std::vector<std::string> names;
    for (const Stated& output : stated->outputs) names.push_back(output.name);
    GRAFT_TRY_ASSIGN(const NodeId id, graph_.add_node(stated->op, std::move(stated->inputs), std::move(stated->attrs),
                                                      name, names));  // its errors name the node
    return check_outputs(id, std::move(stated->outputs)).with_context(context);
  }

  /// What inference gave must be what the file states.
  Status check_outputs(NodeId id, std::vector<Stated> stated) {
    const std::vector<ValueId> made = graph_.node(id).outputs;
    if (made.size() != stated.size()) {
      return invalid("It has ", stated.size(), " outputs; its op gives ", made.size(), ".");
    }
    for (std::size_t i = 0; i < made.size(); ++i) {
      Value& value = graph_.mutable_value(made[i]);
      if (value.dtype != stated[i].dtype || value.shape != stated[i].shape) {
        return invalid("Its output \"", value.name, "\" is stated as ", dtype_name(stated[i].dtype),
                       stated[i].shape.text(), "; it is ", dtype_name(value.dtype), value.shape.text(), ".");
      }
      value.source_perm = std::move(stated[i].source_perm);
      value.source_type = stated[i].source_type;
    }
    return ok_status();
  }

  Result<std::vector<ValueId>> read_inputs(const fb::Node& node) {
    std::vector<ValueId> inputs;
    GRAFT_TRY(budget_.take(count_of(node.inputs()), 4));
    for (flatbuffers::uoffset_t i = 0; i < count_of(node.inputs()); ++i) {
      const std::uint32_t index = node.inputs()->Get(i);
      if (index != kNoIndex && index >= next_) {
        return invalid("Its input ", i, " is value ", index, ", and only values 0 to ", std::int64_t{next_} - 1,
                       " stand before it.");
      }
      inputs.push_back(index == kNoIndex ? kNoValue : ValueId{index});
    }
    return inputs;
  }

  Result<std::vector<Stated>> read_outputs(const fb::Node& node) {
    std::vector<Stated> outputs;
    for (flatbuffers::uoffset_t i = 0; i < count_of(node.outputs()); ++i, ++next_) {
      const std::uint32_t index = node.outputs()->Get(i);
      if (index != next_ || next_ >= count_of(file_.values())) {
        return invalid("Its output ", i, " is value ", index, "; value ", next_, " is the next that nodes make.");
      }
      GRAFT_TRY_ASSIGN(Stated stated, read_value(index));
      if (stated.kind != ValueKind::temporary) {
        return invalid("Its output \"", stated.name, "\" is not a temporary value.");
      }
      outputs.push_back(std::move(stated));
    }
    return outputs;
  }

  const fb::Graph& file_;
  Budget& budget_;
  Graph graph_;
  std::uint32_t next_ = 0;  // the first value that is not in graph_ yet
};

}  // namespace

Status Budget::take(std::uint64_t count, std::uint64_t size) {
  const auto bytes = checked_mul(count, size);
  if (!bytes || *bytes > left_) {
    return corrupt("Its tables share their contents, so that they unfold to more than the root's own size.");
  }
  left_ -= *bytes;
  return ok_status();
}

Result<std::string> read_name(const flatbuffers::String* text, std::string_view what, Budget& budget) {
  GRAFT_TRY(budget.take(text->size(), 1));
  GRAFT_TRY(check_name(text->string_view(), what));
  return text->str();
}

Result<std::vector<Output>> read_named_values(const flatbuffers::Vector<flatbuffers::Offset<fb::NamedValue>>* list,
                                              std::size_t limit, std::string_view what, Budget& budget) {
  std::vector<Output> out;
  GRAFT_TRY(check_count(count_of(list), kMaxListed, cat(what, "s")));
  for (flatbuffers::uoffset_t i = 0; i < count_of(list); ++i) {
    const fb::NamedValue& item = *list->Get(i);
    GRAFT_TRY_ASSIGN(std::string name, read_name(item.name(), cat("The name of ", what, " ", i), budget));
    if (item.value() >= limit) {
      return invalid("The ", what, " \"", name, "\" is value ", item.value(), "; there are ", limit, ".");
    }
    out.push_back({std::move(name), {item.value()}});
  }
  return out;
}

Result<Graph> read_graph(const fb::Graph& file, Budget& budget) { return GraphReader(file, budget).read(); }

}  // namespace graft::model_format
