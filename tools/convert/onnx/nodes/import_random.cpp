// Random numbers: graft's own, which the session's seed, the step and a stream determine. A file's seed picks the
// stream.
#include <bit>
#include <cmath>

#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/import/import.h"

namespace graft::convert {
namespace {

std::int64_t stream_of(const NodeContext& c) {
  if (!c.has_attr("seed")) return static_cast<std::int64_t>(c.index());
  return std::bit_cast<std::uint32_t>(static_cast<float>(c.attr_number("seed", 0)));
}

void say_whose(NodeContext& c) {
  c.precision("graft's own random numbers");
  c.note("the file holds random numbers; they come from graft's own generator, and differ from run to run by the seed");
}

Status random(NodeContext& c) {
  const bool like = c.node.op.ends_with("Like");
  const bool normal = c.node.op.starts_with("RandomNormal");
  Shape shape = like ? c.shape(0) : Shape();
  if (!like) {
    std::vector<Dim> dims;
    for (const std::int64_t size : c.attr_ints("shape")) {
      if (size < 0) return corrupt("its shape holds ", size);
      dims.emplace_back(size);
    }
    shape = Shape(std::move(dims));
  }
  const ElemType fallback = like ? c.type(0) : ElemType::f32;
  const auto type = static_cast<ElemType>(c.attr("dtype", static_cast<std::int64_t>(fallback)));
  if (!is_float(type)) return corrupt("its dtype is ", elem_name(type));
  const double low = c.attr_number(normal ? "mean" : "low", 0);
  const double factor = normal ? c.attr_number("scale", 1) : c.attr_number("high", 1) - low;
  say_whose(c);
  c.out_typed(0,
              c.emit(normal ? Op::random_normal : Op::random_uniform, {},
                     {{"shape", std::move(shape)}, {"stream", stream_of(c)}, {"offset", low}, {"factor", factor}}),
              type);
  return {};
}

/// 1 with the probability that an element is.
Status bernoulli(NodeContext& c) {
  if (!is_float(c.type(0))) return corrupt("its input is ", elem_name(c.type(0)));
  const auto type = static_cast<ElemType>(c.attr("dtype", static_cast<std::int64_t>(c.type(0))));
  GRAFT_TRY_ASSIGN(const DType dtype, device_dtype(type));
  const ValueId uniform = c.emit(Op::random_uniform, {}, {{"shape", c.shape(0)}, {"stream", stream_of(c)}});
  say_whose(c);
  c.out_typed(0, c.cast(c.emit(Op::less, {uniform, c.in(0)}), dtype), type);
  return {};
}

}  // namespace

const RuleEntry kRandomRules[] = {
    {"RandomUniform", 0, 0, random},    {"RandomUniformLike", 1, 1, random}, {"RandomNormal", 0, 0, random},
    {"RandomNormalLike", 1, 1, random}, {"Bernoulli", 1, 1, bernoulli},      {nullptr, 0, 0, nullptr},
};

}  // namespace graft::convert
