#include "runtime/language/text_vectors.h"

#include <algorithm>

#include "runtime/core/build.h"
#include "runtime/core/copy_graph.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/language/text_data.h"
#include "runtime/lora/adapter.h"
#include "runtime/run_state/data_hints.h"

namespace graft {
namespace {

constexpr std::string_view kPoolingField = "text_pooling.";  // and the pooling's name
constexpr std::string_view kQuery = "query";
constexpr std::string_view kKeys = "keys";

/// Replaces the batch in shapes by `texts` of it.
class BatchOfTexts {
 public:
  BatchOfTexts(std::string batch, std::int64_t texts) : batch_(std::move(batch)), texts_(texts) {}

  Result<Dim> operator()(const Dim& dim) const {
    const auto names = dim.names();
    if (std::ranges::find(names, batch_) == names.end()) return dim;
    const auto factors = factors_of(dim);
    const auto alone = std::ranges::count_if(factors, [&](const DimFactor& factor) { return factor.symbol == batch_; });
    const bool within = std::ranges::any_of(factors, [&](const DimFactor& factor) {
      return std::ranges::any_of(factor.terms, [&](const Dim& term) {
        const auto inner = term.names();
        return std::ranges::find(inner, batch_) != inner.end();
      });
    });
    const auto out = alone == 1 && !within ? multiply(dim, Dim(texts_)) : std::nullopt;
    if (!out) return unsupported("The model computes with the size ", dim.text(), ", which groups of texts change.");
    return *out;
  }

  Result<Shape> operator()(const Shape& shape) const {
    std::vector<Dim> dims;
    for (const Dim& dim : shape) {
      GRAFT_TRY_ASSIGN(Dim changed, (*this)(dim));
      dims.push_back(std::move(changed));
    }
    return Shape(std::move(dims));
  }

 private:
  std::string batch_;
  std::int64_t texts_;
};

Result<ValueId> add_group_input(Builder& b, const std::string& name, DType dtype, const Shape& group,
                                const Shape& shape) {
  GRAFT_TRY_ASSIGN(const ValueId input, b.graph().add_value(name, dtype, group, ValueKind::input));
  const ValueId out = b.node(Op::reshape, {input}, {{"shape", shape}}, cat("texts/", name));
  GRAFT_TRY(b.status());
  return out;
}

/// The first text's vectors, or those of the others.
ValueId part_of_groups(Builder& b, ValueId vectors, std::int64_t first, std::int64_t end, Shape shape,
                       std::string_view name) {
  constexpr std::int64_t kToEnd = INT32_MAX;
  const ValueId part =
      b.node(Op::slice, {vectors},
             {{"starts", Ints{0, first, 0}}, {"ends", Ints{kToEnd, end, kToEnd}}, {"steps", Ints{1, 1, 1}}},
             cat("texts/", name));
  return b.node(Op::reshape, {part}, {{"shape", std::move(shape)}}, name);
}

}  // namespace

std::string TextGroups::field() const { return cat(kPoolingField, pooling_name(pooling)); }

std::optional<TextGroups> text_groups_of(const std::vector<data::Field>& fields) {
  for (const data::Field& field : fields) {
    if (!field.name.starts_with(kPoolingField) || field.shape.rank() != 2 || field.dtype != DType::f32) continue;
    const auto pooling = parse_pooling(std::string_view(field.name).substr(kPoolingField.size()));
    if (!pooling.ok()) continue;
    return TextGroups{field.shape[0].value(), field.shape[1].value(), *pooling};
  }
  return std::nullopt;
}

Result<Model> with_text_vectors(const Model& base, const TextGroups& groups) {
  GRAFT_TRY_ASSIGN(const TextInputs inputs, text_inputs_of(base.graph));
  if (!inputs.pads) {
    return unsupported(
        "The model sees what stands behind a text: it has neither causal attention nor an input for a mask, "
        "so texts of several lengths cannot be trained together.");
  }
  GRAFT_TRY_ASSIGN(const ValueId hidden, hidden_state_of(base.graph, {}));
  const std::int64_t width = base.graph.value(hidden).shape[2].value();
  const BatchOfTexts of_texts(inputs.batch, groups.texts);
  const Dim batch = Dim::symbol(inputs.batch), seq = Dim::symbol(inputs.seq);
  const Shape group = {batch, Dim(groups.texts), seq};
  const auto adapt = [&](Graph&, const Node&, std::vector<ValueId>&, Attrs& attrs) -> Status {
    Attrs changed;
    for (const auto& [name, value] : attrs.items()) {
      const Shape* const shape = std::get_if<Shape>(&value);
      if (shape == nullptr) {
        changed.set(name, value);
        continue;
      }
      GRAFT_TRY_ASSIGN(Shape of, of_texts(*shape));
      changed.set(name, std::move(of));
    }
    attrs = std::move(changed);
    return {};
  };
  const auto adapt_value = [&](Graph& copy, const Value& value) -> Result<ValueId> {
    if (value.kind != ValueKind::input) return copy.add_value_like(value);
    GRAFT_TRY_ASSIGN(const Shape shape, of_texts(value.shape));
    Builder b(copy);
    return add_group_input(b, value.name, value.dtype, group, shape);
  };
  GRAFT_TRY_ASSIGN(GraphCopy copy, copy_graph(base.graph, adapt, adapt_value));
  Builder b(copy.graph);
  GRAFT_TRY_ASSIGN(const Dim rows, of_texts(batch));
  GRAFT_TRY_ASSIGN(const ValueId weights,
                   add_group_input(b, groups.field(), DType::f32, group, Shape{rows, Dim(1), seq}));
  const ValueId pooled = b.node(Op::matmul, {weights, copy.values[hidden.index]}, {}, "texts/pooled");
  const ValueId vectors =
      b.node(Op::reshape, {pooled}, {{"shape", Shape{batch, Dim(groups.texts), Dim(width)}}}, "texts/vectors");
  const ValueId query = part_of_groups(b, vectors, 0, 1, Shape{batch, Dim(width)}, kQuery);
  const ValueId keys =
      part_of_groups(b, vectors, 1, groups.texts, Shape{batch, Dim(groups.texts - 1), Dim(width)}, kKeys);
  GRAFT_TRY(b.status());
  Model model;
  model.graph = std::move(copy.graph);
  model.graph.add_output(std::string(kQuery), query);
  model.graph.add_output(std::string(kKeys), keys);
  GRAFT_TRY(borrow_rest(base, model));
  model.signatures.clear();
  return model;
}

Result<std::optional<Model>> model_for(const data::Source& source, const Model& model) {
  std::optional<Model> out;
  if (const auto groups = text_groups_of(source.fields()); groups) {
    GRAFT_TRY_ASSIGN(out, with_text_vectors(model, *groups));
  } else if (has_packed_sequences(source)) {
    GRAFT_TRY_ASSIGN(out, with_packed_sequences(model));
  }
  return out;
}

void keep_pooling(const std::vector<data::Field>& fields, Model& model) {
  if (const auto groups = text_groups_of(fields); groups) remember_pooling(groups->pooling, true, model.metadata);
}

}  // namespace graft
