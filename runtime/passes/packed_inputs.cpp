#include "runtime/passes/packed_inputs.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/core/build.h"
#include "runtime/core/built_ops.gen.h"
#include "runtime/core/copy_graph.h"
#include "runtime/core/op_id.gen.h"

namespace graft::passes {
namespace {

Status check_numbers(const PackedInput& input, const std::vector<float>& numbers, const char* what,
                     std::size_t channels) {
  if (numbers.size() > 1 && numbers.size() != channels) {
    return invalid("The input \"", input.name, "\" has ", channels, " channels, and there are ", numbers.size(), " ",
                   what, "s.");
  }
  if (numbers.size() > 4) return invalid("The input \"", input.name, "\": at most 4 ", what, "s are taken.");
  if (std::ranges::all_of(numbers, [](float x) { return std::isfinite(x); })) return ok_status();
  return invalid("The input \"", input.name, "\" has a ", what, " that is not finite.");
}

/// The value of the model's input, made of the one that is given instead.
Result<ValueId> unpack(Graph& out, const Value& value, const PackedInput& input) {
  const Shape& shape = value.shape;
  if (value.dtype != DType::f32 || !value.source_perm.empty()) {
    return invalid("The input \"", input.name, "\" is ", dtype_name(value.dtype), "; only f32 inputs are unpacked.");
  }
  if (input.channels_last && shape.rank() < 3) {
    return invalid("The input \"", input.name, "\" of shape ", shape.text(), " has no channels to be last.");
  }
  const std::size_t channels = shape.rank() > 1 ? static_cast<std::size_t>(shape[1].value()) : 1;
  GRAFT_TRY(check_numbers(input, input.scale, "scale", channels));
  GRAFT_TRY(check_numbers(input, input.offset, "offset", channels));
  std::vector<Dim> given;
  for (std::size_t i = 0; i < shape.rank(); ++i) given.push_back(shape[i]);
  if (input.channels_last) std::rotate(given.begin() + 1, given.begin() + 2, given.end());
  const std::uint64_t per_word = 4 / packed_size(input.element), words = (shape.elements() + per_word - 1) / per_word;
  GRAFT_TRY_ASSIGN(const ValueId packed,
                   out.add_value(input.name, DType::i32, Shape{static_cast<std::int64_t>(words)}, ValueKind::input));
  const std::size_t scaled = std::max(input.scale.size(), input.offset.size());
  Attrs attrs{{"shape", Shape(given)},
              {"kind", static_cast<std::int64_t>(input.element)},
              {"channels", static_cast<std::int64_t>(scaled)},
              {"axis", static_cast<std::int64_t>(input.channels_last ? shape.rank() - 1 : 1)}};
  for (std::size_t c = 0; c < scaled; ++c) {
    const auto at = [c](const std::vector<float>& numbers, float otherwise) {
      return static_cast<double>(numbers.empty() ? otherwise : numbers.size() == 1 ? numbers[0] : numbers[c]);
    };
    attrs.set(cat("scale", c), at(input.scale, 1));
    attrs.set(cat("offset", c), at(input.offset, 0));
  }
  Builder b(out);
  ValueId made = b.node(Op::fused_unpack, {packed}, std::move(attrs), cat(input.name, "/unpack"));
  if (input.channels_last) {
    Ints perm = {0, static_cast<std::int64_t>(shape.rank()) - 1};
    for (std::size_t i = 1; i + 1 < shape.rank(); ++i) perm.push_back(static_cast<std::int64_t>(i));
    made = b.node(Op::transpose, {made}, {{"perm", std::move(perm)}}, cat(input.name, "/channels_first"));
  }
  GRAFT_TRY(b.status());
  return made;
}

}  // namespace

Result<Graph> pack_inputs(const Graph& graph, std::span<const PackedInput> inputs) {
  for (const PackedInput& input : inputs) {
    const ValueId v = graph.find_value(input.name);
    if (!v.valid() || graph.value(v).kind != ValueKind::input) {
      return error(Code::not_found, "The model has no input \"", input.name, "\".");
    }
    if (std::ranges::count(inputs, input.name, &PackedInput::name) > 1) {
      return invalid("The format of the input \"", input.name, "\" is given twice.");
    }
  }
  if constexpr (!is_built(Op::fused_unpack)) {
    return unsupported("This build of graft leaves out the op \"fused_unpack\" (GRAFT_OPS).");
  }
  const auto same = [](Graph&, const Node&, std::vector<ValueId>&, Attrs&) { return ok_status(); };
  const auto give = [&](Graph& out, const Value& value) -> Result<ValueId> {
    const auto input = std::ranges::find(inputs, value.name, &PackedInput::name);
    return input == inputs.end() ? out.add_value_like(value) : unpack(out, value, *input);
  };
  GRAFT_TRY_ASSIGN(GraphCopy copy, copy_graph(graph, same, give));
  for (const Output& output : graph.outputs()) copy.graph.add_output(output.name, copy.values[output.value.index]);
  return std::move(copy.graph);
}

std::vector<PackedShape> packed_shapes(const Graph& graph) {
  std::vector<PackedShape> all;
  for (const Node& node : graph.nodes()) {
    if (node.op != Op::fused_unpack) continue;
    all.push_back(
        {graph.value(node.inputs[0]).name, static_cast<Packed>(node.attrs.integer("kind")), node.attrs.shape("shape")});
  }
  return all;
}

std::optional<std::uint64_t> find_non_finite(Packed element, std::span<const std::byte> bytes) {
  if (packed_size(element) == 1) return std::nullopt;
  const std::uint16_t exponent = element == Packed::f16 ? 0x7c00 : 0x7f80;
  for (std::size_t i = 0; i + 2 <= bytes.size(); i += 2) {
    std::uint16_t half = 0;
    std::memcpy(&half, &bytes[i], sizeof half);
    if ((half & exponent) == exponent) return i / 2;
  }
  return std::nullopt;
}

}  // namespace graft::passes
