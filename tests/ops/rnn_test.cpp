#include <cmath>

#include "runtime/core/op_id.gen.h"
#include "tests/support/op_case.h"

namespace graft::test::rnn_test {
namespace {

using Dims = std::vector<std::int64_t>;

/// What a layer is given beside its gates and R.
struct Layer {
  std::int64_t steps = 4, rows = 3, hidden = 8;
  bool state = false;
  std::vector<double> lengths = {};
  bool last_operand = false;  // peepholes, or the bias of the hidden gate's product
};

OpCase layer_case(std::string name, Op op, const Layer& layer, Attrs attrs) {
  const std::int64_t gates = op == Op::lstm ? 4 : op == Op::gru ? 3 : 1;
  const Dims row = {layer.rows, layer.hidden};
  OpCase c{.name = std::move(name),
           .op = op,
           .inputs = {{.dims = {layer.steps, layer.rows, gates * layer.hidden}},
                      {.dims = {gates * layer.hidden, layer.hidden}, .low = -0.6, .high = 0.6},
                      {.dims = row, .missing = !layer.state}},
           .attrs = std::move(attrs),
           .tolerance = 2e-5,
           .reason = "sums of up to 32 products of f32, and what activations are off by, step after step",
           .low_precision_roundings = 24};
  if (op == Op::lstm) c.inputs.push_back({.dims = row, .missing = !layer.state});
  c.inputs.push_back({.dims = {layer.rows},
                      .dtype = DType::i32,
                      .values = layer.lengths,
                      .grad = false,
                      .missing = layer.lengths.empty()});
  if (op == Op::lstm) c.inputs.push_back({.dims = {3 * layer.hidden}, .missing = !layer.last_operand});
  if (op == Op::gru) c.inputs.push_back({.dims = {layer.hidden}, .missing = !layer.last_operand});
  c.cotangents = op == Op::lstm ? 3 : 2;
  return c;
}

Attrs reversed(Attrs attrs = {}) {
  attrs.set("reverse", std::int64_t{1});
  return attrs;
}

const Attrs kInputForget = {{"input_forget", std::int64_t{1}}, {"clip", 0.7}};
const Attrs kCellClip = {{"cell_clip", 0.4}};
const Attrs kResetsProduct = {{"linear_before_reset", std::int64_t{1}}};

std::vector<OpCase> lstm_cases() {
  OpCase frozen = layer_case("frozen weights", Op::lstm, {}, {});
  frozen.inputs[1].grad = false;
  OpCase last = layer_case("last state alone", Op::lstm, {.state = true}, {});
  last.inputs[0].grad = false;
  OpCase cell_clip = layer_case("limited cells", Op::lstm, {.state = true, .last_operand = true}, kCellClip);
  cell_clip.low_precision_roundings =
      0;  // in 16 bits some cells come to lie beyond the edge, where there is no gradient
  return {
      layer_case("plain", Op::lstm, {}, {}),
      layer_case("reverse from a state", Op::lstm, {.hidden = 5, .state = true}, reversed()),
      layer_case("lengths", Op::lstm, {.state = true, .lengths = {4, 0, 2}}, {}),
      layer_case("lengths in reverse", Op::lstm, {.state = true, .lengths = {3, 0, 4}}, reversed()),
      layer_case("lengths in reverse without state", Op::lstm, {.lengths = {1, 4, 2}}, reversed()),
      layer_case("peepholes", Op::lstm, {.state = true, .last_operand = true}, {}),
      layer_case("peepholes in reverse with lengths", Op::lstm,
                 {.state = true, .lengths = {3, 0, 4}, .last_operand = true}, reversed()),
      layer_case("coupled and clipped", Op::lstm, {.state = true, .last_operand = true}, kInputForget),
      cell_clip,
      layer_case("coupled with limited cells", Op::lstm, {.hidden = 5, .state = true},
                 {{"cell_clip", 0.9}, {"input_forget", std::int64_t{1}}}),
      layer_case("other activations", Op::lstm, {.state = true},
                 {{"activations", std::string("HardSigmoid(0.3,0.4),Softsign,ScaledTanh(1.2,0.8)")}}),
      layer_case("one step of one row", Op::lstm, {.steps = 1, .rows = 1, .state = true}, {}),
      layer_case("no steps", Op::lstm, {.steps = 0, .state = true}, {}),
      layer_case("no rows", Op::lstm, {.rows = 0}, {}),
      layer_case("many rows", Op::lstm, {.steps = 3, .rows = 40, .hidden = 36}, {}),
      frozen,
      last,
  };
}
GRAFT_OP_CASES(Lstm, lstm_cases());

std::vector<OpCase> gru_cases() {
  Attrs clipped = kResetsProduct;
  clipped.set("clip", 0.6);
  return {
      layer_case("plain", Op::gru, {}, {}),
      layer_case("reverse from a state with lengths", Op::gru, {.hidden = 5, .state = true, .lengths = {3, 0, 4}},
                 reversed()),
      layer_case("lengths", Op::gru, {.state = true, .lengths = {4, 0, 2}}, {}),
      layer_case("reset behind the product", Op::gru, {.state = true, .last_operand = true}, kResetsProduct),
      layer_case("reset behind the product in reverse with lengths", Op::gru,
                 {.state = true, .lengths = {3, 0, 4}, .last_operand = true}, reversed(kResetsProduct)),
      layer_case("reset behind the product without bias", Op::gru, {.hidden = 5}, kResetsProduct),
      layer_case("clipped", Op::gru, {.state = true, .last_operand = true}, clipped),
      layer_case("other activations", Op::gru, {}, {{"activations", std::string("HardSigmoid,Softplus")}}),
      layer_case("no steps", Op::gru, {.steps = 0, .state = true}, {}),
      layer_case("no rows", Op::gru, {.rows = 0}, {}),
  };
}
GRAFT_OP_CASES(Gru, gru_cases());

std::vector<OpCase> rnn_cases() {
  std::vector<OpCase> cases = {
      layer_case("plain", Op::rnn, {.state = true}, {}),
      layer_case("reverse", Op::rnn, {.hidden = 5}, reversed()),
      layer_case("lengths", Op::rnn, {.state = true, .lengths = {4, 0, 2}}, {}),
      layer_case("lengths in reverse", Op::rnn, {.state = true, .lengths = {3, 0, 4}}, reversed()),
      layer_case("clipped", Op::rnn, {.state = true}, {{"clip", 0.5}}),
      layer_case("no steps", Op::rnn, {.steps = 0, .state = true}, {}),
  };
  // In 16 bits some sums come to lie beyond the edge of the clip, where there is no gradient.
  for (OpCase& c : cases) {
    if (c.name == "clipped") c.low_precision_roundings = 0;
  }
  for (const char* const activation :
       {"Affine(0.7,0.1)", "Elu(0.5)", "HardSigmoid", "LeakyRelu(0.2)", "LeakyRelu(-0.2)", "Relu",
        "ScaledTanh(0.8,1.5)", "Sigmoid", "Softplus", "Softsign", "ThresholdedRelu(0.3)", "ThresholdedRelu(-0.3)"}) {
    cases.push_back(layer_case(activation, Op::rnn, {.steps = 3}, {{"activations", std::string(activation)}}));
    // Neither a kink's two sides nor a step are what differences should see.
    cases.back().difference_step = 1e-6;
    cases.back().difference_tolerance = 1e-4;
    if (std::string(activation).starts_with("Thresholded")) cases.back().low_precision_roundings = 0;
  }
  return cases;
}
GRAFT_OP_CASES(Rnn, rnn_cases());

TEST(RnnInfer, RefusesWhatDoesNotFit) {
  OpCase r = layer_case("bad", Op::lstm, {}, {});
  r.inputs[1].dims = {24, 8};
  expect_infer_error(r, "[32, 8]");
  OpCase state = layer_case("bad", Op::lstm, {.state = true}, {});
  state.inputs[3].dims = {4, 8};
  expect_infer_error(state, "[3, 8]");
  OpCase bias = layer_case("bad", Op::gru, {.last_operand = true}, {});
  expect_infer_error(bias, "without linear_before_reset");
  OpCase steps = layer_case("bad", Op::rnn, {.steps = 70000, .rows = 1, .hidden = 1}, {});
  expect_infer_error(steps, "70000 time steps; at most 65536");
  const auto activations = [](const char* text) {
    return layer_case("bad", Op::lstm, {}, {{"activations", std::string(text)}});
  };
  expect_infer_error(activations("Sigmoid,Tanh"), "2 of them; 3 are needed");
  expect_infer_error(activations("Sigmoid,Tanh,Swish"), "names \"Swish\"");
  expect_infer_error(activations("Sigmoid,Tanh,Elu(x)"), "\"x\" where a finite number belongs");
  expect_infer_error(activations("Sigmoid,Tanh,Elu(1,2)"), "more numbers than its 1");
  expect_infer_error(activations("Sigmoid,Tanh,Elu(1"), "no ')'");
  expect_infer_error(layer_case("bad", Op::gru, {}, {{"clip", -1.0}}), "\"clip\" is -1");
  expect_infer_error(layer_case("bad", Op::lstm, {}, {{"cell_clip", -1.0}}), "\"cell_clip\" is -1");
  expect_infer_error(layer_case("bad", Op::lstm, {}, {{"clip", 1.0}, {"cell_clip", 1.0}}), "both clip and cell_clip");
}

}  // namespace
}  // namespace graft::test::rnn_test
