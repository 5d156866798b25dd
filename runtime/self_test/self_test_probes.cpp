#include "runtime/self_test/self_test_probes.h"

#include <cmath>
#include <random>

#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/core/quantized.h"
#include "runtime/self_test/low_precision_graph.h"

namespace graft {
namespace {

using Dims = std::vector<std::int64_t>;

using Operand = OpProbe::Operand;

Operand labels(Dims dims, double classes) { return {std::move(dims), DType::i32, 0, classes - 1}; }
Operand weight(Dims dims, DType dtype) { return {std::move(dims), dtype, -1, 1, ValueKind::constant}; }
Operand state(Dims dims) { return {std::move(dims), DType::f32, 0.1, 1, ValueKind::state}; }
Operand same(Dims dims, double x, ValueKind kind = ValueKind::input) {
  return {std::move(dims), DType::f32, x, x, kind};
}

std::vector<OpProbe> elementwise_probes() {
  std::vector<OpProbe> probes;
  for (const Op op : {Op::exp, Op::relu, Op::gelu, Op::silu, Op::tanh, Op::sqrt, Op::mish}) probes.push_back({op, {{{6, 35}}}});
  for (const Op op : {Op::add, Op::mul, Op::div, Op::pow, Op::maximum}) {
    probes.push_back({op, {{{6, 32}}, {{6, 32}}}});
    probes.push_back({op, {{{6, 5, 7}}, {{5, 1}}}});
  }
  const Operand integers = {{5, 9}, DType::i32, -9, 9};
  probes.push_back({Op::neg, {integers}});
  probes.push_back({Op::add, {integers, integers}});
  probes.push_back({Op::where, {{{5, 9}, DType::boolean, 0, 1}, {{5, 9}}, {{9}}}});
  probes.push_back({Op::cast, {{{5, 9}, DType::i32, -9, 9}}, {{"to", std::int64_t{0}}}});
  probes.push_back({Op::cast, {{{5, 9}}}, {{"to", std::int64_t{1}}}});
  probes.push_back(
      {Op::dropout, {{{11, 13}}}, {{"p", 0.5}, {"training", std::int64_t{1}}, {"stream", std::int64_t{0}}}});
  probes.push_back({Op::step_scalar, {}, {{"field", std::string("loss_weight")}}});
  // Words of four bytes, and of two numbers of 16 bits that are 1 and below 1.
  const auto unpack = [&](std::int64_t kind, Operand words) {
    probes.push_back({Op::fused_unpack,
                      {std::move(words)},
                      {{"shape", Shape{2, 3, 6}},
                       {"kind", kind},
                       {"channels", std::int64_t{3}},
                       {"axis", std::int64_t{1}},
                       {"scale1", 0.5},
                       {"offset2", 0.25}}});
  };
  for (const std::int64_t kind : {0, 1}) unpack(kind, {{9}, DType::i32, -0x1p31, 0x1p31 - 1});
  unpack(2, {{18}, DType::i32, 0x3c000000, 0x3c003bff});
  unpack(3, {{18}, DType::i32, 0x3f800000, 0x3f803f7f});
  const Operand scales = {{7}, DType::f32, 0.01, 0.02}, zeros = {{7}, DType::i32, -5, 5};
  const Attrs by_axis = {{"type", std::string("int8")}, {"axis", std::int64_t{1}}};
  probes.push_back({Op::quantize, {{{3, 7, 5}}, scales, zeros}, by_axis});
  probes.push_back({Op::fake_quantize, {{{3, 7, 5}}, scales, zeros}, by_axis});
  probes.push_back({Op::dequantize, {{{3, 7, 5}, DType::i32, -128, 127}, scales, zeros}, by_axis});
  return probes;
}

std::vector<OpProbe> row_probes() {
  const Attrs last = {{"axis", std::int64_t{1}}};
  std::vector<OpProbe> probes;
  for (const Op op : {Op::reduce_sum, Op::reduce_mean, Op::reduce_max, Op::reduce_prod, Op::reduce_logsumexp}) {
    probes.push_back({op, {{{9, 33}}}, {{"axes", Ints{1}}, {"keepdims", std::int64_t{0}}}});
    probes.push_back({op, {{{33, 9}}}, {{"axes", Ints{0}}, {"keepdims", std::int64_t{1}}}});
  }
  probes.push_back({Op::reduce_sum, {{{3, 20000}}}, {{"axes", Ints{0, 1}}, {"keepdims", std::int64_t{0}}}});
  probes.push_back({Op::reduce_sum, {{{5, 7}, DType::i32, -9, 9}}, {{"axes", Ints{1}}, {"keepdims", std::int64_t{0}}}});
  probes.push_back({Op::arg_max, {{{5, 7}}}, last});
  probes.push_back({Op::softmax, {{{7, 19}}}, last});
  probes.push_back({Op::softmax, {{{3, 19, 5}}}, last});
  probes.push_back({Op::log_softmax, {{{7, 19}}}, last});
  probes.push_back({Op::cross_entropy, {{{9, 10}}, labels({9}, 10)}});
  probes.push_back({Op::topk_correct, {{{9, 10}}, labels({9}, 10)}, {{"k", std::int64_t{2}}}});
  probes.push_back(
      {Op::layer_norm, {{{6, 40}, DType::f32, -1}, {{40}}, {{40}}}, {{"axis", std::int64_t{1}}, {"epsilon", 1e-5}}});
  probes.push_back(
      {Op::group_norm, {{{2, 5, 8}, DType::f32, -1}, {{8}}, {{8}}}, {{"groups", std::int64_t{2}}, {"epsilon", 1e-5}}});
  probes.push_back({Op::rms_norm, {{{6, 40}, DType::f32, -1}, {{40}}}});
  probes.push_back({Op::rms_norm, {{{90, 40}, DType::f32, -1}, {{40}}}});
  probes.push_back({Op::batch_norm, {{{9, 6}}, {{6}}, {{6}}, {{6}}, {{6}}}, {{"epsilon", 1e-5}}});
  probes.push_back({Op::batch_norm_train, {{{30, 6}, DType::f32, -1}, {{6}}, {{6}}}, {{"epsilon", 1e-5}}});
  probes.push_back({Op::batch_norm_update,
                    {state({6}), state({6}), {{6}}, {{6}}},
                    {{"momentum", 0.1}, {"count", std::int64_t{30}}}});
  return probes;
}

std::vector<OpProbe> product_probes() {
  const auto conv = [](std::int64_t stride, std::int64_t groups) {
    return Attrs{
        {"strides", Ints{stride, stride}}, {"pads", Ints{1, 1, 1, 1}}, {"dilations", Ints{1, 1}}, {"groups", groups}};
  };
  const Attrs pool = {{"kernel", Ints{2, 2}}, {"strides", Ints{2, 2}}, {"pads", Ints{0, 0, 0, 0}}};
  std::vector<OpProbe> probes;
  // First what is loaded and stored by fours: the first probe that reaches a tile decides its verdict.
  probes.push_back({Op::matmul, {{{36, 40}}, {{40, 44}}}});
  for (const std::int64_t a : {0, 1}) {
    for (const std::int64_t b : {0, 1}) {
      probes.push_back({Op::matmul,
                        {{a ? Dims{21, 37} : Dims{37, 21}}, {b ? Dims{45, 21} : Dims{21, 45}}},
                        {{"trans_a", a}, {"trans_b", b}}});
    }
  }
  probes.push_back({Op::matmul, {{{8, 5000}}, {{5000, 8}}}});
  probes.push_back({Op::matmul, {{{1, 300}}, {{300, 70}}}});
  probes.push_back({Op::matmul, {{{2, 300}}, {{300, 72}}}});
  probes.push_back({Op::matmul, {{{2, 300}}, {{70, 300}}}, {{"trans_b", std::int64_t{1}}}});
  probes.push_back({Op::matmul, {{{2, 320}}, {{70, 320}}}, {{"trans_b", std::int64_t{1}}}});
  probes.push_back({Op::conv, {{{2, 9, 9, 5}}, {{7, 3, 3, 5}}, {{7}}}, conv(1, 1)});
  probes.push_back({Op::conv, {{{2, 9, 9, 6}}, {{8, 3, 3, 3}}}, conv(2, 2)});
  probes.push_back({Op::conv, {{{2, 9, 9, 6}}, {{6, 3, 3, 1}}}, conv(1, 6)});
  probes.push_back({Op::conv, {{{2, 9, 9, 8}}, {{8, 3, 3, 1}}}, conv(1, 8)});
  probes.push_back({Op::conv, {{{2, 9, 9, 8}}, {{8, 3, 3, 8}}}, conv(2, 1)});
  probes.push_back({Op::conv_transpose, {{{2, 5, 5, 6}}, {{6, 3, 3, 4}}}, conv(2, 1)});
  // Lines of no whole fours, lines of such, and channels of such.
  probes.push_back({Op::conv, {{{2, 9, 9, 3}}, {{8, 3, 3, 3}}}, conv(1, 1)});
  probes.push_back({Op::conv, {{{2, 9, 8, 3}}, {{15, 3, 3, 3}}, {{15}}}, conv(1, 1)});
  probes.push_back({Op::conv, {{{2, 9, 16, 3}}, {{32, 3, 3, 3}}, {{32}}}, conv(1, 1)});
  for (const std::int64_t channels : {5, 8}) {
    probes.push_back({Op::max_pool, {{{2, 8, 8, channels}}}, pool});
    probes.push_back({Op::avg_pool, {{{2, 8, 8, channels}}}, pool});
  }
  const Dims keys = {2, 37, 2, 20};
  probes.push_back({Op::attention, {{{2, 37, 4, 20}}, {keys}, {keys}}, {{"causal", std::int64_t{1}}}});
  const Dims odd = {2, 37, 2, 18};  // heads that no kernel loads by fours
  const OpProbe::Operand mask = {.dims = {2, 1, 1, 37}, .low = -3, .grad = false};
  for (const Dims& own : {keys, odd}) {
    probes.push_back({Op::attention, {{{2, 37, 4, own[3]}}, {own}, {own}, {.missing = true}, mask}});
  }
  probes.push_back({Op::attention, {{{2, 37, 4, 18}}, {odd}, {odd}}, {{"causal", std::int64_t{1}}}});
  probes.push_back({Op::attention, {{{2, 3, 4, 20}}, {keys}, {keys}}, {{"causal", std::int64_t{1}}}});
  probes.push_back(
      {Op::resize,
       {{{1, 4, 5, 3}}},
       {{"sizes", Ints{8, 9}}, {"mode", std::string("linear")}, {"coordinates", std::string("half_pixel")}}});
  return probes;
}

std::vector<OpProbe> decoder_probes() {
  std::vector<OpProbe> probes;
  for (const DType dtype : {DType::q8_0, DType::q4_0, DType::q4_k, DType::q6_k}) {
    probes.push_back({Op::matmul, {{{2, 256}}, weight({20, 256}, dtype)}, {{"trans_b", std::int64_t{1}}}});
    probes.push_back({Op::matmul, {{{5, 256}}, weight({20, 256}, dtype)}, {{"trans_b", std::int64_t{1}}}});
    probes.push_back({Op::matmul, {{{21, 256}}, weight({36, 256}, dtype)}, {{"trans_b", std::int64_t{1}}}});
  }
  probes.push_back({Op::gather, {weight({9, 256}, DType::q8_0), labels({4}, 9)}, {{"axis", std::int64_t{0}}}});
  probes.push_back({Op::cache_append, {state({2, 7, 6}), {{2, 3, 6}}}});
  probes.push_back({Op::cache_append, {{{1, 7, 2, 16}, DType::q8_0, -1, 1, ValueKind::state}, {{1, 3, 2, 16}}}});
  probes.push_back({Op::cache_append, {state({2, 384, 6}), {{2, 3, 6}}}, {{"window", std::int64_t{5}}}});
  const OpProbe::Operand keys = weight({1, 37, 2, 32}, DType::q8_0);
  for (const std::int64_t queries : {2, 37}) {
    const OpProbe::Operand asking = {.dims = {1, queries, 4, 32}, .grad = false};
    probes.push_back({Op::attention, {asking, keys, keys}, {{"causal", std::int64_t{1}}}});
  }
  probes.push_back({Op::positions, {}, {{"shape", Shape({2, 5})}, {"from_step", std::int64_t{1}}}});
  return probes;
}

// Hidden elements in fours and not, and both ways in which a reset gate may stand; one layer in reverse with lengths.
std::vector<OpProbe> recurrent_probes() {
  std::vector<OpProbe> probes;
  for (const std::int64_t hidden : {8, 5}) {
    const Operand state = {{3, hidden}, DType::f32, -1};
    const auto add = [&](Op op, std::int64_t gates, std::vector<Operand> others, Attrs attrs) {
      std::vector<Operand> operands = {{{4, 3, gates * hidden}, DType::f32, -1},
                                       {{gates * hidden, hidden}, DType::f32, -0.5, 0.5}};
      operands.insert(operands.end(), others.begin(), others.end());
      probes.push_back({op, std::move(operands), std::move(attrs)});
    };
    add(Op::lstm, 4, {state, state}, {});
    for (const std::int64_t resets : {0, 1}) add(Op::gru, 3, {state}, {{"linear_before_reset", resets}});
    add(Op::rnn, 1, {state, {{3}, DType::i32, 1, 4}}, {{"reverse", std::int64_t{1}}});
  }
  return probes;
}

std::vector<OpProbe> other_probes() {
  return {
      {Op::transpose, {{{70, 40}}}, {{"perm", Ints{1, 0}}}},
      {Op::transpose, {{{72, 40}}}, {{"perm", Ints{1, 0}}}},
      {Op::transpose, {{{3, 4, 5}}}, {{"perm", Ints{2, 0, 1}}}},
      {Op::expand, {{{3, 1, 5}}}, {{"shape", Shape({3, 4, 5})}}},
      {Op::slice, {{{9, 7}}}, {{"starts", Ints{1, 0}}, {"ends", Ints{8, 7}}, {"steps", Ints{2, 1}}}},
      {Op::concat, {{{3, 4}}, {{3, 5}}}, {{"axis", std::int64_t{1}}}},
      {Op::pad, {{{4, 5}}}, {{"pads", Ints{1, 2, 1, 2}}, {"mode", std::string("reflect")}}},
      {Op::rope, {{{2, 7, 3, 8}}}, {{"theta", 10000.0}}},
      {Op::gated, {{{5, 9}}, {{5, 9}}}},
      {Op::lora, {{{9, 20}}, {{9, 33}}, {{4, 33}}, {{20, 4}}}, {{"scale", 2.0}}},
      {Op::linear_cross_entropy, {{{9, 16}}, {{40, 16}}, labels({9}, 40)}},
      {Op::linear_cross_entropy, {{{9, 16}}, {{40, 16}}, labels({9}, 40)}, {{"softcap", 2.0}}},
      {Op::gather, {{{9, 6}}, labels({4}, 9)}, {{"axis", std::int64_t{0}}}},
      {Op::gather, {{{2048, 2}}, labels({1024}, 2048)}, {{"axis", std::int64_t{0}}}},
      {Op::gather_elements, {{{9, 6}}, labels({4, 6}, 9)}, {{"axis", std::int64_t{0}}}},
      {Op::scatter_elements, {{{9, 6}}, labels({12, 6}, 9), {{12, 6}}}, {{"reduction", std::string("add")}}},
      {Op::scatter_elements, {labels({9, 6}, 50), labels({12, 6}, 9), labels({12, 6}, 50)}},
      {Op::nd_index, {labels({7, 2}, 3)}, {{"dims", Shape({3, 5})}}},
      {Op::top_k, {{{3, 50}}}, {{"k", std::int64_t{4}}, {"axis", std::int64_t{1}}}},
      {Op::top_k, {labels({3, 50}, 9)}, {{"k", std::int64_t{4}}, {"axis", std::int64_t{1}}}},
      {Op::nms, {{{2, 50, 4}}, {{2, 3, 50}}}, {{"max_output", std::int64_t{9}}, {"iou_threshold", 0.5}}},
      {Op::nms, {{{1, 50, 4}}, {{1, 2, 50}}}, {{"score_threshold", 0.25}, {"center_point_box", std::int64_t{1}}}},
      {Op::compact, {labels({200}, 90)}},
      {Op::cumsum, {{{3, 200}}}, {{"axis", std::int64_t{1}}}},
      {Op::cumsum, {labels({3, 200}, 9)}, {{"axis", std::int64_t{1}}}},
      {Op::narrow, {{{70}}}, {{"format", std::string("f8e4m3fn")}}},
      {Op::narrow, {labels({70}, 1000)}, {{"format", std::string("u8")}}},
      {Op::random_uniform, {}, {{"shape", Shape({70})}, {"stream", std::int64_t{1}}}},
      {Op::random_normal, {}, {{"shape", Shape({70})}, {"stream", std::int64_t{2}}}},
  };
}

// What a training step does beside the model.
std::vector<OpProbe> step_probes() {
  const Attrs group = {{"group", std::int64_t{0}}};
  const Attrs adam = {{"group", std::int64_t{0}}, {"beta1", 0.9}, {"beta2", 0.999}, {"epsilon", 1e-8}};
  const auto codes = [](std::int64_t words) {
    return Operand{{words}, DType::i32, -0x1p31, 0x1p31 - 1, ValueKind::state};
  };
  constexpr double kInfinite = 1e39;  // as f32
  std::vector<OpProbe> probes = {
      {Op::adam8_step, {state({300}), {{300}}, codes(75), state({2}), codes(75), state({2})}, adam},
      {Op::apply_update, {state({40}), {{40}}}, group},
      {Op::ctc_loss, {{{3, 9, 6}, DType::f32, -4, -1}, labels({3, 3}, 6)}},
      {Op::squared_norm, {{{40}}, {{5000}}}},
      {Op::squared_norm, {{{5000}}}},
      {Op::state_hash, {{{40}}, {{5000}}}},
      {Op::state_hash, {{{5000}}}},
      {Op::overflow_count, {same({40}, kInfinite), {{5000}}}},
      {Op::overflow_count, {same({5000}, kInfinite)}},
      {Op::clip_factor, {{{}}}, {{"max_norm", 0.5}}},
      {Op::clip_factor, {same({}, kInfinite), {{}}}},
      {Op::loss_scale, {{{}}, same({4}, 0, ValueKind::state)}},
      {Op::loss_scale_step, {same({4}, 0, ValueKind::state), same({}, 0)}, {{"interval", 3.0}}},
  };
  for (const bool twice : {false, true}) {
    const auto add = [&](Op op, std::vector<Operand> operands, Attrs attrs = {}) {
      probes.push_back({.op = op, .operands = std::move(operands), .attrs = std::move(attrs), .twice = twice});
    };
    add(Op::sgd_step, {state({40}), {{40}}}, group);
    add(Op::adam_step, {state({40}), {{40}}, state({40}), state({40})}, adam);
    add(Op::lion_step, {state({40}), {{40}}, state({40})}, group);
    add(Op::rmsprop_step, {state({40}), {{40}}, state({40})}, group);
    add(Op::adagrad_step, {state({40}), {{40}}, state({40})}, group);
    add(Op::moment_update, {state({40}), {{40}}}, {{"decay", 0.9}, {"weight", 0.1}});
    add(Op::accumulate, {state({40}), {{40}}});
    add(Op::zero_state, {state({40})});
  }
  return probes;
}

// Ops with what is fused with them.
std::vector<OpProbe> fused_probes() {
  const auto window = [](std::int64_t stride) {
    return Attrs{{"strides", Ints{stride, stride}},
                 {"pads", Ints{1, 1, 1, 1}},
                 {"dilations", Ints{1, 1}},
                 {"groups", std::int64_t{1}}};
  };
  const Attrs last = {{"axis", std::int64_t{1}}};
  const OpProbe::Operand rows = {{6, 40}, DType::f32, -1};
  std::vector<OpProbe> probes = {
      {Op::add, {rows, rows}, {}, Op::rms_norm},
      {Op::add, {rows, rows}, {}, Op::layer_norm, last},
  };
  const auto with_epilogue = [&](Op op, std::vector<Operand> operands, Attrs attrs = {}) {
    probes.push_back({.op = op, .operands = std::move(operands), .attrs = std::move(attrs), .epilogue = true});
  };
  // What is stored by fours, and what is not.
  with_epilogue(Op::matmul, {{{36, 40}}, {{40, 44}}});
  with_epilogue(Op::matmul, {{{37, 21}}, {{21, 45}}});
  with_epilogue(Op::matmul, {{{8, 5000}}, {{5000, 8}}});
  with_epilogue(Op::conv, {{{2, 9, 9, 8}}, {{12, 3, 3, 8}}, {{12}}}, window(1));
  with_epilogue(Op::conv, {{{2, 9, 9, 5}}, {{7, 3, 3, 5}}}, window(2));
  with_epilogue(Op::batch_norm, {{{9, 8}}, {{8}}, {{8}}, {{8}}, {{8}}}, {{"epsilon", 1e-5}});
  with_epilogue(Op::layer_norm, {rows, {{40}}, {{40}}}, last);
  with_epilogue(Op::rms_norm, {rows, {{40}}});
  // Elementwise throughout: a program of many steps, and one with a function that few networks have.
  with_epilogue(Op::tanh, {rows});
  with_epilogue(Op::exp, {rows});
  return probes;
}

// Blocks of random numbers, and what they stand for.
RefTensor quantized_operand(const Operand& operand, std::mt19937_64& random) {
  std::vector<float> numbers(Shape::of(operand.dims).elements());
  for (float& x : numbers) x = static_cast<float>(random() >> 40) * 0x1p-23f - 1;
  std::vector<std::byte> blocks(storage_bytes(operand.dtype, numbers.size()));
  quantize(operand.dtype, numbers, blocks);
  return quantized_tensor(operand.dtype, blocks, operand.dims);
}

RefTensor operand_of(const Operand& operand, std::mt19937_64& random) {
  if (is_quantized(operand.dtype)) return quantized_operand(operand, random);
  RefTensor tensor{operand.dims, std::vector<double>(Shape::of(operand.dims).elements())};
  for (double& x : tensor.data) {
    const double unit = static_cast<double>(random() >> 11) * 0x1p-53;
    x = is_float(operand.dtype) ? operand.low + unit * (operand.high - operand.low)
                                : std::floor(operand.low + unit * (operand.high - operand.low + 1));
  }
  round_to_dtype(operand.dtype, tensor.data);
  return tensor;
}

// Probes of few kernels first: where the process dies, fewer are under suspicion.
std::vector<OpProbe> all_probes() {
  std::vector<OpProbe> all;
  for (auto& probes : {elementwise_probes(), product_probes(), row_probes(), decoder_probes(), recurrent_probes(),
                       other_probes(), step_probes(), fused_probes()}) {
    all.insert(all.end(), probes.begin(), probes.end());
  }
  return all;
}

// A value of which build_probe() makes numbers.
struct Fed {
  std::string name;
  Operand operand;
};

// relu((y + whole) * row), of operands named after the output.
Result<ValueId> add_epilogue(Graph& graph, ValueId y, const std::string& name, std::vector<Fed>& fed) {
  const Dims dims = graph.value(y).shape.values();
  const auto operand = [&](std::string_view kind, Dims of) {
    fed.push_back({cat(kind, "_", name), {of}});
    return graph.add_value(fed.back().name, DType::f32, Shape::of(of), ValueKind::input);
  };
  GRAFT_TRY_ASSIGN(const ValueId whole, operand("whole", dims));
  GRAFT_TRY_ASSIGN(const ValueId row, operand("row", {dims.back()}));
  GRAFT_TRY_ASSIGN(const NodeId sum, graph.add_node(Op::add, {y, whole}, {}, cat("sum_", name)));
  GRAFT_TRY_ASSIGN(const NodeId product,
                   graph.add_node(Op::mul, {graph.node(sum).outputs[0], row}, {}, cat("product_", name)));
  GRAFT_TRY_ASSIGN(const NodeId node, graph.add_node(Op::relu, {graph.node(product).outputs[0]}, {}, name));
  return graph.node(node).outputs[0];
}

Status add_what_follows(const OpProbe& probe, Graph& graph, std::vector<Fed>& fed) {
  for (const Output& output : std::vector<Output>(graph.outputs().begin(), graph.outputs().end())) {
    if (graph.value(output.value).shape.rank() < 2) continue;
    const std::string name = cat("then_", output.name);
    ValueId last;
    if (probe.epilogue) {
      GRAFT_TRY_ASSIGN(last, add_epilogue(graph, output.value, name, fed));
    } else {
      GRAFT_TRY_ASSIGN(const NodeId node, graph.add_node(*probe.then, {output.value}, probe.then_attrs, name));
      last = graph.node(node).outputs[0];
    }
    graph.add_output(name, last);
  }
  // Inputs that are kept are no memory that a result could take, so that nothing speaks for keeping ops apart.
  if (!probe.epilogue) return ok_status();
  for (const ValueId input : graph.inputs()) graph.mutable_value(input).kind = ValueKind::parameter;
  return ok_status();
}

Status add_again(const OpProbe& probe, Graph& graph, std::vector<Fed>& fed) {
  std::vector<ValueId> ids;
  for (const Operand& operand : probe.operands) {
    fed.push_back({cat("again", ids.size()), operand});
    GRAFT_TRY_ASSIGN(ids.emplace_back(),
                     graph.add_value(fed.back().name, operand.dtype, Shape::of(operand.dims), operand.kind));
  }
  return graph.add_node(probe.op, ids, probe.attrs, "again").status();
}

Result<BuiltProbe> build_probe(const OpProbe& probe, DType elements, bool differentiable) {
  std::vector<ProbeInput> inputs;
  std::vector<Fed> fed;
  bool any_float = false;
  for (const Operand& operand : probe.operands) {
    if (!operand.missing) fed.push_back({cat("in", inputs.size()), operand});
    inputs.push_back({operand.dtype, Shape::of(operand.dims), operand.kind,
                      operand.grad && !is_quantized(operand.dtype), operand.missing});
    any_float = any_float || is_float(operand.dtype);
  }
  GRAFT_TRY_ASSIGN(Probe made, make_probe(probe.op, inputs, probe.attrs, differentiable && any_float ? 1 : 0));
  for (const auto& [output, cotangent] : made.weighted) {
    fed.push_back({cotangent, {made.graph.value(made.graph.find_value(cotangent)).shape.values()}});
  }
  if (probe.then || probe.epilogue) GRAFT_TRY(add_what_follows(probe, made.graph, fed));
  if (probe.twice) GRAFT_TRY(add_again(probe, made.graph, fed));
  BuiltProbe built{.graph = std::move(made.graph), .elements = elements, .roundings = kLowPrecisionProbeRoundings};
  const bool product = probe.op == Op::matmul || probe.op == Op::conv || probe.op == Op::conv_transpose;
  if (product && !probe.epilogue && !probe.then) built.roundings = kLowPrecisionProductRoundings;
  std::mt19937_64 random(17);
  for (const Fed& value : fed) built.feeds[value.name] = operand_of(value.operand, random);
  if (elements != DType::f32) {
    GRAFT_TRY_ASSIGN(built.graph, keep_low_precision(built.graph, elements));
    for (const Fed& value : fed) {
      if (value.operand.dtype != DType::f32) continue;
      for (double& x : built.feeds[value.name].data) x = rounded_to(elements, x);
      Value& fed_value = built.graph.mutable_value(built.graph.find_value(value.name));
      if (probe.epilogue) fed_value.storage = elements;  // parameters, which keep_low_precision() leaves as they are
    }
  }
  if (probe.op == Op::cache_append && probe.attrs.has("window")) built.step.position = 270;  // it moves what it keeps
  built.step.learning_rate[0] = 0.01;
  built.step.bias_correction1[0] = 0.1;
  built.step.bias_correction2[0] = 0.001;
  return built;
}

}  // namespace

const std::vector<OpProbe>& self_test_probes() {
  static const std::vector<OpProbe> probes = all_probes();
  return probes;
}

bool is_in_build(const OpProbe& probe) {
  const auto has = [](Op op) { return op_def(op).infer != nullptr; };
  const bool epilogue = !probe.epilogue || (has(Op::add) && has(Op::mul) && has(Op::relu));
  return has(probe.op) && (!probe.then || has(*probe.then)) && epilogue;
}

Result<BuiltProbe> build_probe(const OpProbe& probe, DType elements) {
  const bool differentiable = std::holds_alternative<VjpFn>(op_def(probe.op).gradient) && !probe.operands.empty();
  auto built = build_probe(probe, elements, differentiable);
  // A build that has the op may leave out those of its gradient.
  const bool absent = !built.ok() && built.status().code() == Code::unsupported;
  return absent && differentiable ? build_probe(probe, elements, false) : std::move(built);
}

}  // namespace graft
