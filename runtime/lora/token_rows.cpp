#include "runtime/lora/token_rows.h"

#include <algorithm>

#include "runtime/core/build.h"
#include "runtime/core/copy_graph.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/lora/add_lora.h"

namespace graft {
namespace {

constexpr std::string_view kWeight = ".weight";

bool is_table(const Value& value) {
  const bool kept = value.kind == ValueKind::parameter || value.kind == ValueKind::constant;
  return kept && value.shape.rank() == 2 && value.shape.is_constant();
}

/// Where the model looks up its tokens, and where it gives logits of them. Ids of the source.
struct Places {
  ValueId embedding;  ///< the table
  ValueId head;       ///< the head's; the same where they are tied
  ValueId product;    ///< of the head
  ValueId logits;     ///< the product with what adapters add, before it is scaled and capped
};

Result<ValueId> embedding_of(const Graph& graph) {
  const std::vector<ValueId> inputs = graph.inputs();
  ValueId found = kNoValue;
  for (const Node& node : graph.nodes()) {
    const bool looks_up = node.op == Op::gather && node.attrs.integer("axis") == 0 && !inputs.empty() &&
                          node.inputs[1] == inputs.front() && is_table(graph.value(node.inputs[0]));
    if (!looks_up) continue;
    if (graph.value(node.inputs[0]).name.ends_with(kLoraEmbeddingA)) {
      return unsupported("New tokens and an adapter of the embedding do not go together: leave it out of the targets.");
    }
    if (node.inputs.size() > 2) return unsupported("The model has new tokens already; merge them into it first.");
    if (found.valid() && found != node.inputs[0]) {
      return unsupported("The model looks tokens up in two tables, \"", graph.value(found).name, "\" and \"",
                         graph.value(node.inputs[0]).name, "\"; new tokens go into one.");
    }
    found = node.inputs[0];
  }
  if (found.valid()) return found;
  return unsupported("The model looks up no rows of a table by its first input, so that it has no place for tokens.");
}

Result<Places> places_of(const Graph& graph) {
  Places out;
  GRAFT_TRY_ASSIGN(out.embedding, embedding_of(graph));
  for (const Output& output : graph.outputs()) {
    if (output.name == "logits" || graph.outputs().size() == 1) out.logits = output.value;
  }
  const auto behind = [&](ValueId v, std::initializer_list<Op> ops) {
    while (v.valid()) {
      const NodeId by = graph.value(v).producer;
      if (!by.valid() || std::ranges::find(ops, graph.node(by).op) == ops.end()) break;
      v = graph.node(by).inputs[0];
    }
    return v;
  };
  out.logits = behind(out.logits, {Op::affine, Op::tanh});
  out.product = behind(out.logits, {Op::lora, Op::mul});
  const NodeId by = out.product.valid() ? graph.value(out.product).producer : NodeId{};
  const std::int64_t rows = graph.value(out.embedding).shape[0].value();
  if (by.valid() && graph.node(by).op == Op::matmul) {
    const Node& node = graph.node(by);
    const Value& weight = graph.value(node.inputs[1]);
    const bool plain = node.attrs.flag("trans_b") && !node.attrs.flag("trans_a") && node.inputs.size() == 2;
    if (plain && is_table(weight) && weight.shape[0].value() == rows) {
      out.head = node.inputs[1];
      return out;
    }
  }
  return unsupported("The model's logits are no product with a matrix of ", rows,
                     " rows, one for each row of the embedding \"", graph.value(out.embedding).name,
                     "\", and nothing but it: new tokens have no place there.");
}

class RowAdder {
 public:
  RowAdder(const Graph& source, const Places& places, std::int64_t first, std::int64_t count)
      : source_(source), places_(places), first_(first), count_(count) {}

  Result<TokenRowsGraph> run() {
    const auto node = [this](Graph& copy, const Node& of, std::vector<ValueId>& inputs, Attrs& attrs) {
      return adapt(copy, of, inputs, attrs);
    };
    GRAFT_TRY_ASSIGN(GraphCopy made,
                     copy_graph(source_, node, [this](Graph& copy, const Value& value) { return add(copy, value); }));
    for (const Output& output : source_.outputs()) {
      ValueId value = made.values[output.value.index];
      if (output.value == places_.logits) {
        GRAFT_TRY_ASSIGN(value, all_logits(made.graph, value));
      }
      made.graph.add_output(output.name, value);
    }
    out_.graph = std::move(made.graph);
    return std::move(out_);
  }

 private:
  Result<ValueId> add(Graph& copy, const Value& value) {
    GRAFT_TRY_ASSIGN(const ValueId made, copy.add_value_like(value));
    if (value.kind == ValueKind::parameter) copy.mutable_value(made).kind = ValueKind::constant;
    const ValueId id = source_.find_value(value.name);
    if (id == places_.embedding || id == places_.head) GRAFT_TRY(add_table(copy, value, id));
    return made;
  }

  Status add_table(Graph& copy, const Value& value, ValueId id) {
    TokenTable& table = out_.tables.emplace_back();
    table.weight = value.name;
    table.table_rows = value.shape[0].value();
    table.width = value.shape[1].value();
    std::string layer = value.name;
    if (layer.ends_with(kWeight)) layer.resize(layer.size() - kWeight.size());
    table.rows = layer + std::string(kNewRows);
    GRAFT_TRY_ASSIGN(ValueId rows, copy.add_value(table.rows, DType::f32, {count_, table.width}, ValueKind::parameter));
    ValueId behind = kNoValue;
    if (const std::int64_t left = table.table_rows - first_ - count_; left > 0) {
      table.behind = layer + std::string(kRowsBehind);
      GRAFT_TRY_ASSIGN(behind, copy.add_value(table.behind, DType::f32, {left, table.width}, ValueKind::constant));
    }
    if (id == places_.embedding) embedding_ = {rows, behind};
    if (id == places_.head) head_ = {rows, behind};
    return {};
  }

  struct Rows {
    ValueId rows, behind;
    ValueId all = kNoValue;  ///< once they are one
  };

  /// The new rows and those behind them.
  Result<ValueId> all_of(Graph& copy, Rows& of) {
    if (!of.behind.valid()) return of.rows;
    Rows& other = &of == &head_ ? embedding_ : head_;
    if (!of.all.valid() && other.rows == of.rows) of.all = other.all;
    if (of.all.valid()) return of.all;
    GRAFT_TRY_ASSIGN(const NodeId joined, copy.add_node(Op::concat, {of.rows, of.behind}, {{"axis", std::int64_t{0}}},
                                                        copy.value(of.rows).name + ".all"));
    of.all = copy.node(joined).outputs[0];
    return of.all;
  }

  Status adapt(Graph& copy, const Node& node, std::vector<ValueId>& inputs, Attrs& attrs) {
    if (node.op == Op::gather && node.inputs[0] == places_.embedding && node.inputs[1] == source_.inputs().front()) {
      GRAFT_TRY_ASSIGN(const ValueId rows, all_of(copy, embedding_));
      inputs.push_back(rows);
      attrs.set("first_row", first_);
    }
    if (node.outputs[0] == places_.product) hidden_ = inputs[0];
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != places_.logits) continue;
      GRAFT_TRY_ASSIGN(inputs[i], all_logits(copy, inputs[i]));
    }
    return {};
  }

  /// Logits of the tokens before the new ones, and of these and those behind.
  Result<ValueId> all_logits(Graph& copy, ValueId logits) {
    if (logits_.valid()) return logits_;
    GRAFT_TRY_ASSIGN(const ValueId rows, all_of(copy, head_));
    Builder b(copy);
    const std::string name = copy.value(head_.rows).name;
    const ValueId own = b.node(Op::matmul, {hidden_, rows}, {{"trans_b", std::int64_t{1}}}, name + ".product");
    const std::size_t rank = copy.value(logits).shape.rank();
    if (first_ < source_.value(places_.head).shape[0].value()) {
      Ints ends(rank, INT32_MAX);
      ends.back() = first_;
      logits = b.node(Op::slice, {logits}, {{"starts", Ints(rank, 0)}, {"ends", ends}, {"steps", Ints(rank, 1)}},
                      name + ".before");
    }
    logits_ = b.node(Op::concat, {logits, own}, {{"axis", static_cast<std::int64_t>(rank) - 1}}, name + ".logits");
    GRAFT_TRY(b.status());
    return logits_;
  }

  const Graph& source_;
  const Places& places_;
  std::int64_t first_, count_;
  TokenRowsGraph out_;
  Rows embedding_{}, head_{};
  ValueId hidden_, logits_ = kNoValue;  // of the copy
};

}  // namespace

Result<TokenRowsGraph> add_token_rows(const Graph& model, std::int64_t first, std::int64_t count) {
  GRAFT_TRY_ASSIGN(const Places places, places_of(model));
  const std::int64_t rows = model.value(places.embedding).shape[0].value();
  if (first > rows) {
    return invalid("The tokenizer has ", first, " tokens and the embedding \"", model.value(places.embedding).name,
                   "\" ", rows, " rows: new tokens would leave a gap.");
  }
  return RowAdder(model, places, first, count).run();
}

Result<Graph> with_longer_tables(const Graph& model, const std::vector<TokenTable>& tables, std::int64_t rows) {
  const auto same = [](Graph&, const Node&, std::vector<ValueId>&, Attrs&) -> Status { return {}; };
  const auto longer = [&](Graph& copy, const Value& value) -> Result<ValueId> {
    if (std::ranges::find(tables, value.name, &TokenTable::weight) == tables.end()) return copy.add_value_like(value);
    Value changed = value;
    changed.shape = Shape{rows, value.shape[1]};
    return copy.add_value_like(changed);
  };
  GRAFT_TRY_ASSIGN(GraphCopy made, copy_graph(model, same, longer));
  for (const Output& output : model.outputs()) made.graph.add_output(output.name, made.values[output.value.index]);
  return std::move(made.graph);
}

}  // namespace graft
