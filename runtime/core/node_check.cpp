#include "runtime/core/node_check.h"

#include "runtime/core/op_use.h"

namespace graft {
namespace {

constexpr std::string_view kAttrTypeNames[] = {"an integer", "a number", "a text", "a list of integers", "a shape"};

// AttrValue's alternatives stand in the order of AttrType.
AttrType type_of(const AttrValue& value) {
  static_assert(std::variant_size_v<AttrValue> == 5);
  constexpr AttrType kTypes[] = {AttrType::integer, AttrType::number, AttrType::text, AttrType::integers,
                                 AttrType::shape};
  return kTypes[value.index()];
}

Status check_range(const AttrSpec& spec, const AttrValue& value) {
  if (!spec.checked) return ok_status();
  const auto* const whole = std::get_if<std::int64_t>(&value);
  const double x = whole != nullptr ? static_cast<double>(*whole) : std::get<double>(value);
  if (x >= spec.low && x <= spec.high) return ok_status();
  const auto text = [&](double number) {
    return whole != nullptr ? cat(static_cast<std::int64_t>(number)) : cat(number);
  };
  const std::string is = cat("The attribute \"", spec.name, "\" is ", text(x), "; it must ");
  if (spec.high < AttrSpec::kFinite) return invalid(is, "lie in [", text(spec.low), ", ", text(spec.high), "].");
  if (whole != nullptr) return invalid(is, "be ", text(spec.low), " or more.");
  return invalid(is, "be finite", spec.low > -AttrSpec::kFinite ? cat(" and at least ", spec.low) : "", ".");
}

/// Keys and values of earlier tokens may be blocks of q8_0: state, and what cache_append() leaves in it.
bool is_cache(const Value& value) {
  return value.dtype == DType::q8_0 && (value.kind == ValueKind::state || value.kind == ValueKind::temporary);
}

}  // namespace

Status check_attrs(const OpDef& def, const Attrs& attrs) {
  for (const auto& [name, value] : attrs.items()) {
    const AttrSpec* spec = nullptr;
    for (const AttrSpec& candidate : def.attrs) {
      if (candidate.name == name) spec = &candidate;
    }
    if (spec == nullptr && def.any_attrs) continue;
    if (spec == nullptr) return invalid("The op ", def.name, " has no attribute \"", name, "\".");
    if (type_of(value) != spec->type) {
      return invalid("The attribute \"", name, "\" must be ", kAttrTypeNames[static_cast<int>(spec->type)], ".");
    }
    GRAFT_TRY(check_range(*spec, value));
  }
  for (const AttrSpec& spec : def.attrs) {
    if (spec.required && !attrs.has(spec.name)) return invalid("The attribute \"", spec.name, "\" is missing.");
  }
  return ok_status();
}

Status check_shape(const Shape& shape) {
  if (shape.rank() > Shape::kMaxRank) {
    return invalid("The shape ", shape.text(), " has rank ", shape.rank(), "; the limit is ", Shape::kMaxRank, ".");
  }
  return detail::to_status(shape.element_count());
}

Status check_storage(const Value& value) {
  if (!is_quantized(value.dtype)) return ok_status();
  const DTypeBlock block = dtype_block(value.dtype);
  if (is_cache(value)) {
    const Shape& shape = value.shape;
    // Several texts' are written at once, and two blocks have words in common.
    const bool whole = shape.is_constant() && shape.rank() > 2 &&
                       shape.elements(2, shape.rank()) % block.elements == 0 &&
                       (shape[0] == Dim(1) || shape.elements(1, shape.rank()) % (2 * block.elements) == 0);
    if (whole) return ok_status();
    return invalid("Its shape is ", shape.text(), "; a cache of type ", dtype_name(value.dtype),
                   " is [texts, tokens, ..] with rows of a multiple of ", block.elements,
                   " elements, and where there are several texts an even number of blocks for each.");
  }
  if (value.kind != ValueKind::constant) {
    return invalid("Its type is ", dtype_name(value.dtype),
                   "; quantized values are frozen: only a constant may be one.");
  }
  const bool whole =
      value.shape.rank() > 0 && value.shape.back().is_constant() && value.shape.back().value() % block.elements == 0;
  if (whole) return ok_status();
  return invalid("Its shape is ", value.shape.text(), "; the last axis of a value of type ", dtype_name(value.dtype),
                 " must be a multiple of ", block.elements, ".");
}

Status check_node(const Graph& graph, const Node& node) {
  const OpDef& def = op_def(node.op);
  if (OpUse* use = OpUse::current()) use->note(node.op);
  if (def.infer == nullptr) {
    return unsupported("This build of graft leaves out the op \"", def.name, "\" (",
                       is_training_op(node.op) && !kHasTraining ? "GRAFT_TRAINING=OFF" : "GRAFT_OPS", ").");
  }
  const std::size_t count = node.inputs.size();
  if (count < def.min_inputs || (def.max_inputs != 255 && count > def.max_inputs)) {
    return invalid("It has ", count, " inputs; ", def.name, " takes ", int{def.min_inputs},
                   def.max_inputs == 255 ? std::string(" or more") : cat(" to ", int{def.max_inputs}), ".");
  }
  for (std::size_t i = 0; i < count; ++i) {
    const ValueId id = node.inputs[i];
    if (!id.valid()) {
      // A list of any number of inputs has no gaps.
      const bool past_required = i >= def.min_inputs && def.max_inputs != 255;
      const bool optional = past_required || (i < 32 && (def.optional_inputs >> i & 1u) != 0);
      if (!optional) return invalid("Its input ", i, " is missing.");
      continue;
    }
    if (id.index >= graph.values().size()) return invalid("Its input ", i, " names no value that exists before it.");
    if (is_quantized(graph.value(id).dtype) && (i >= 32 || (def.quantized_inputs >> i & 1u) == 0)) {
      return unsupported("Its input ", i, ", \"", graph.value(id).name, "\", is of type ",
                         dtype_name(graph.value(id).dtype), "; ", def.name, " takes no quantized value there.");
    }
    if (i < 32 && (def.mutates >> i & 1u) != 0) {
      const ValueKind kind = graph.value(id).kind;
      if (kind != ValueKind::parameter && kind != ValueKind::state) {
        return invalid("It updates \"", graph.value(id).name, "\", which is neither a parameter nor state.");
      }
    }
  }
  return check_attrs(def, node.attrs);
}

Result<std::vector<InferContext::Out>> infer_node(const Graph& graph, const Node& node) {
  InferContext context(graph, node);
  const OpDef& def = op_def(node.op);
  GRAFT_TRY(def.infer(context));
  const bool keeps_state = def.alias_input >= 0 && def.mutates != 0;
  for (const auto& out : context.results()) {
    GRAFT_TRY(check_shape(out.shape).with_context("In its output"));
    if (is_quantized(out.dtype) && !keeps_state) {
      return unsupported("Its output would be of type ", dtype_name(out.dtype), ".");
    }
  }
  return std::move(context.results());
}

Status InferContext::expect_rank(std::size_t i, std::size_t rank) const {
  if (shape(i).rank() == rank) return ok_status();
  return invalid("Its input ", i, " has the shape ", shape(i).text(), "; rank ", rank, " is needed.");
}

Status InferContext::expect_dtype(std::size_t i, DType dtype) const {
  if (this->dtype(i) == dtype) return ok_status();
  return invalid("Its input ", i, " is of type ", dtype_name(this->dtype(i)), "; ", dtype_name(dtype), " is needed.");
}

Status InferContext::expect_shape(std::size_t i, const Shape& wanted) const {
  if (one_shape(shape(i), wanted)) return ok_status();
  return invalid("Its input ", i, " has the shape ", shape(i).text(), "; ", wanted.text(), " is needed.");
}

Result<std::int64_t> InferContext::constant_dim(std::size_t i, std::size_t axis) const {
  if (axis >= shape(i).rank()) {
    return invalid("Its input ", i, " has the shape ", shape(i).text(), ", which has no axis ", axis, ".");
  }
  const Dim& dim = shape(i)[axis];
  if (dim.is_constant()) return dim.value();
  return invalid("Axis ", axis, " of its input ", i, " is ", dim.text(), "; a number is needed there.");
}

}  // namespace graft
