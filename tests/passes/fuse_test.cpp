// ctest: sampled
// Fusion: elementwise ops as one node, and ops with what stands beside them, to the same bits and in no more memory.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>

#include "runtime/core/op_id.gen.h"
#include "runtime/data/random.h"
#include "runtime/exec/run_once.h"
#include "runtime/passes/fuse.h"
#include "runtime/reference/interpreter.h"
#include "runtime/self_test/low_precision_graph.h"
#include "tests/support/edited_device.h"
#include "tests/support/gpu_device.h"
#include "tests/support/networks.h"

namespace graft::plan_fuse_test::passes_fuse_test {
namespace {

using test::GraphMaker;

constexpr std::int64_t kRows = 6;
constexpr std::int64_t kColumns = 20;
constexpr float kNoNumber = std::numeric_limits<float>::quiet_NaN();

struct Case {
  const char* name;
  std::size_t apart;     ///< dispatches
  std::size_t together;  ///< with fusion
  std::function<void(GraphMaker&)> build;
  bool low_precision = true;  ///< run with values kept in 16 bits too; pipelines take time
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

/// A product whose operands are wanted to the end, so that nothing takes their place.
ValueId lasting_product(GraphMaker& g) {
  const ValueId x = g.input("x", {kRows, 16});
  const ValueId w = g.input("w", {16, kColumns});
  g.output("x", x);
  g.output("w", w);
  return g.add(Op::matmul, {x, w});
}

Attrs convolution(std::int64_t stride = 1) {
  return {{"strides", Ints{stride, stride}},
          {"pads", Ints{1, 1, 1, 1}},
          {"dilations", Ints{1, 1}},
          {"groups", std::int64_t{1}}};
}

Attrs affine(double alpha, double beta) { return {{"alpha", alpha}, {"beta", beta}}; }

const Case kCases[] = {
    {"gelu_of_parts", 5, 1,
     [](GraphMaker& g) {
       const ValueId x = g.input("x", {kRows, kColumns});
       const ValueId e = g.add(Op::erf, {g.add(Op::affine, {x}, affine(0.70710678, 0))});
       g.output("y", g.add(Op::affine, {g.add(Op::mul, {x, g.add(Op::affine, {e}, affine(1, 1))})}, affine(0.5, 0)));
     }},
    {"what_lies_between_is_given_too", 3, 1,
     [](GraphMaker& g) {
       const ValueId x = g.input("x", {kRows, kColumns});
       const ValueId t = g.add(Op::tanh, {g.add(Op::add, {x, g.input("z", {kRows, kColumns})})});
       g.output("t", t);
       g.output("y", g.add(Op::mul, {t, x}));
     }},
    {"broadcast", 5, 2,  // a program has four operands
     [](GraphMaker& g) {
       ValueId y = g.add(Op::mul, {g.input("x", {kRows, kColumns}), g.input("scale", {kColumns})});
       y = g.add(Op::add, {y, g.input("shift", {kRows, 1})});
       y = g.add(Op::sub, {g.input("one", {1}), y});
       y = g.add(Op::div, {y, g.input("by", {kRows, kColumns})});
       g.output("y", g.add(Op::maximum, {y, g.input("least", {kColumns})}));
     }},
    {"a_row_that_fours_do_not_divide", 3, 1,
     [](GraphMaker& g) {
       ValueId y = g.add(Op::add, {g.input("x", {5, 7}), g.input("row", {7})});
       y = g.add(Op::mul, {y, g.input("column", {5, 1})});
       g.output("y", g.add(Op::sigmoid, {y}));
     }},
    {"longer_than_a_program", 20, 3,
     [](GraphMaker& g) {
       ValueId y = g.input("x", {3, 5});
       for (int i = 0; i < 10; ++i) y = g.add(Op::relu, {g.add(Op::affine, {y}, affine(-1.1, 0.1))});
       g.output("y", y);
     },
     false},
    {"another_shape_stays_apart", 2, 2,
     [](GraphMaker& g) {
       const ValueId small = g.add(Op::exp, {g.input("x", {kColumns})});
       g.output("y", g.add(Op::add, {small, g.input("z", {kRows, kColumns})}));
     },
     false},
    {"slopes", 3, 1,
     [](GraphMaker& g) {
       const ValueId x = g.input("x", {kRows, kColumns});
       const ValueId dy = g.add(Op::add, {g.input("d", {kRows, kColumns}), g.input("e", {kRows, kColumns})});
       Attrs silu{{"fn", static_cast<std::int64_t>(Op::silu)}};
       Attrs relu{{"fn", static_cast<std::int64_t>(Op::relu)}};
       const ValueId first = g.add(Op::unary_grad, {x, kNoValue, dy}, silu);
       g.output("y", g.add(Op::unary_grad, {kNoValue, x, first}, relu));
     }},
    {"bias_of_a_product", 3, 1,
     [](GraphMaker& g) {
       const ValueId y = g.add(Op::matmul, {g.input("x", {kRows, 16}), g.input("w", {16, kColumns})});
       g.output("y", g.add(Op::relu, {g.add(Op::add, {y, g.input("bias", {kColumns})})}));
     }},
    {"bias_of_a_split_product", 3, 2,
     [](GraphMaker& g) {
       const ValueId y = g.add(Op::matmul, {g.input("x", {8, 4096}), g.input("w", {4096, 8})});
       g.output("y", g.add(Op::add, {g.input("bias", {8}), y}));
     }},
    {"a_product_that_is_given_is_stored_too", 2, 1,
     [](GraphMaker& g) {
       const ValueId y = lasting_product(g);
       g.output("product", y);
       g.output("y", g.add(Op::add, {y, g.input("bias", {kColumns})}));
     }},
    {"activation_that_wants_the_product_later", 4, 2,
     [](GraphMaker& g) {
       ValueId y = lasting_product(g);
       const ValueId bias = g.input("bias", {kColumns});
       g.output("bias", bias);
       y = g.add(Op::add, {y, bias});
       const ValueId z = g.add(Op::gelu, {y});
       const ValueId top = g.add(Op::reduce_max, {z}, {{"axes", Ints{0, 1}}, {"keepdims", std::int64_t{0}}});
       g.output("y", y);
       g.output("z", top);
     },
     false},
    {"residual_of_a_product", 4, 1,
     [](GraphMaker& g) {
       ValueId y = g.add(Op::matmul, {g.input("x", {3, 5, 16}), g.input("w", {16, 19})});
       y = g.add(Op::add, {y, g.input("bias", {19})});
       y = g.add(Op::add, {g.input("stream", {3, 5, 19}), y});
       g.output("y", g.add(Op::mul, {y, g.input("by", {1})}));
     }},
    {"batched_product", 3, 1,
     [](GraphMaker& g) {
       const ValueId y = g.add(Op::matmul, {g.input("x", {2, 3, 5, 16}), g.input("w", {2, 3, 16, 7})});
       g.output("y", g.add(Op::tanh, {g.add(Op::affine, {y}, affine(0.25, 0))}));
     },
     false},
    {"an_operand_by_row_stays_apart", 3, 2,
     [](GraphMaker& g) {
       const ValueId y = g.add(Op::matmul, {g.input("x", {kRows, 16}), g.input("w", {16, kColumns})});
       g.output("y", g.add(Op::relu, {g.add(Op::add, {y, g.input("column", {kRows, 1})})}));
     },
     false},
    {"activation_of_a_split_product", 4, 2,
     [](GraphMaker& g) {
       ValueId y = g.add(Op::matmul, {g.input("x", {8, 4096}), g.input("w", {4096, 8})});
       y = g.add(Op::mul, {y, g.input("scale", {8})});
       g.output("y", g.add(Op::sigmoid, {y}));
     },
     false},
    {"clip_of_a_product_and_its_slope", 4, 2,
     [](GraphMaker& g) {
       const ValueId y = lasting_product(g);
       g.output("y", g.add(Op::clip, {y}, {{"min", -0.5}, {"max", 1.5}}));
       const ValueId dy = g.add(Op::matmul, {g.input("x2", {kRows, 16}), g.input("w2", {16, kColumns})});
       Attrs clip{{"fn", static_cast<std::int64_t>(Op::clip)}, {"min", -0.5}, {"max", 1.5}};
       g.output("dx", g.add(Op::unary_grad, {g.input("z", {kRows, kColumns}), kNoValue, dy}, clip));
     },
     false},
    {"slope_of_a_product", 2, 1,
     [](GraphMaker& g) {
       const ValueId dy = g.add(Op::matmul, {g.input("x", {kRows, 16}), g.input("w", {16, kColumns})});
       Attrs gelu{{"fn", static_cast<std::int64_t>(Op::gelu)}};
       g.output("y", g.add(Op::unary_grad, {g.input("z", {kRows, kColumns}), kNoValue, dy}, gelu));
     },
     false},
    {"gate_of_a_product", 2, 1,
     [](GraphMaker& g) {
       const ValueId up = g.add(Op::matmul, {g.input("x", {kRows, 16}), g.input("w", {16, kColumns})});
       g.output("up", up);
       g.output("y", g.add(Op::gated, {g.input("gate", {kRows, kColumns}), up}));
     }},
    {"gradient_of_a_gate", 2, 1,
     [](GraphMaker& g) {
       const ValueId dy = lasting_product(g);
       const auto grads =
           g.b.nodes(Op::gated_grad, {g.input("gate", {kRows, kColumns}), g.input("up", {kRows, kColumns}), dy});
       ASSERT_EQ(grads.size(), 2u);
       g.output("gate_gradient", grads[0]);
       g.output("up_gradient", grads[1]);
     },
     false},
    {"activation_and_residual_of_a_convolution", 4, 1,
     [](GraphMaker& g) {
       ValueId y = g.add(Op::conv, {g.input("x", {2, 6, 6, 3}), g.input("w", {8, 3, 3, 3})}, convolution());
       y = g.add(Op::add, {y, g.input("bias", {8})});
       y = g.add(Op::add, {y, g.input("skip", {2, 6, 6, 8})});
       g.output("y", g.add(Op::relu, {y}));
     }},
    {"gradient_of_a_strided_convolution", 3, 1,
     [](GraphMaker& g) {
       const ValueId skip = g.input("skip", {2, 7, 7, 4});
       Attrs attrs = convolution(2);
       attrs.set("shape", Shape{2, 7, 7, 4});
       ValueId dx = g.add(Op::conv_grad_data, {g.input("dy", {2, 4, 4, 8}), g.input("w", {8, 3, 3, 4})}, attrs);
       dx = g.add(Op::add, {dx, skip});
       Attrs relu{{"fn", static_cast<std::int64_t>(Op::relu)}};
       g.output("dx", g.add(Op::unary_grad, {kNoValue, g.input("y", {2, 7, 7, 4}), dx}, relu));
     },
     false},
    {"batch_norm_with_its_activation", 3, 2,
     [](GraphMaker& g) {
       std::vector<ValueId> inputs = {g.input("x", {2, 3, 3, 8})};
       for (const char* name : {"scale", "bias", "mean"}) inputs.push_back(g.input(name, {8}));
       inputs.push_back(g.add(Op::square, {g.input("deviation", {8})}));
       const ValueId y = g.add(Op::batch_norm, inputs);
       g.output("y", g.add(Op::relu, {y}));
     },
     false},
    {"batch_norm_of_odd_channels_with_its_activation", 3, 2,
     [](GraphMaker& g) {
       std::vector<ValueId> inputs = {g.input("x", {2, 3, 3, 5})};
       for (const char* name : {"scale", "bias", "mean"}) inputs.push_back(g.input(name, {5}));
       inputs.push_back(g.add(Op::square, {g.input("deviation", {5})}));
       g.output("y", g.add(Op::tanh, {g.add(Op::batch_norm, inputs)}));
     },
     false},
    {"rms_norm_of_a_residual", 2, 1,
     [](GraphMaker& g) {
       const ValueId x = g.add(Op::add, {g.input("stream", {5, 24}), g.input("branch", {5, 24})});
       g.output("x", x);
       g.output("y", g.add(Op::rms_norm, {x, g.input("scale", {24})}));
     }},
    {"layer_norm_of_a_residual_of_odd_rows", 2, 1,
     [](GraphMaker& g) {
       const ValueId x = g.add(Op::add, {g.input("stream", {5, 23}), g.input("branch", {5, 23})});
       g.output("y", g.add(Op::layer_norm, {x}, {{"axis", std::int64_t{1}}}));
     }},
    {"norm_gradients_with_the_residuals", 7, 5,
     [](GraphMaker& g) {
       const ValueId x = g.input("x", {5, 24});
       const ValueId row = g.input("row", {5});
       const ValueId dy = g.input("dy", {5, 24});
       const ValueId scale = g.input("scale", {24});
       const auto rms = g.b.nodes(Op::rms_norm_grad, {x, scale, row, dy});
       const auto layer = g.b.nodes(Op::layer_norm_grad, {x, scale, row, row, dy}, {{"axis", std::int64_t{1}}});
       g.output("rms", g.add(Op::add, {g.input("stream", {5, 24}), rms[0]}));
       g.output("layer", g.add(Op::add, {g.input("other", {5, 24}), layer[0]}));
       g.output("scale_gradient", rms[1]);
       g.output("other_scale_gradient", layer[1]);
     },
     false},
};

class Fuse : public testing::TestWithParam<Case> {};

TEST_P(Fuse, NeedsFewerDispatchesAndBarriers) {
  GraphMaker g;
  GetParam().build(g);
  gpu::Target target;
  target.caps.max_storage_buffers_per_stage = 16;
  const auto together = test::checked_plan(g.graph, target);
  const auto apart = test::checked_plan(g.graph, target, {.fuse = false});
  ASSERT_TRUE(together.ok()) << together.status().message();
  ASSERT_TRUE(apart.ok()) << apart.status().message();
  EXPECT_EQ(test::dispatches(*together), GetParam().together);
  EXPECT_EQ(test::dispatches(*apart), GetParam().apart);
  EXPECT_LE(together->barriers, apart->barriers);
  EXPECT_LE(together->transient_bytes, apart->transient_bytes);
  test::expect_every_barrier_needed(*together);
}

/// Runs the graph with fusion and without it, on the same random inputs; with the kernels of GPUs, which have
/// epilogues.
void expect_same_bits(const Graph& graph, std::vector<double> scales) {
  GRAFT_TEST_GPU(own);
  test::EditedDevice device(*own);
  device.edit().caps.type = gpu::DeviceType::discrete;
  Tensors feeds;
  data::Random random(7);
  for (const ValueId id : graph.inputs()) {
    const Value& value = graph.value(id);
    std::vector<float> x(value.shape.elements());
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<float>((random.uniform() * 4 - 2) * scales[i % scales.size()]);
    }
    const auto bytes = std::as_bytes(std::span(x));
    feeds[value.name].assign(bytes.begin(), bytes.end());
  }
  Result<RunOnceResult> results[2] = {run_once(device, graph, feeds, {}, {.plan = {.fuse = false}}),
                                      run_once(device, graph, feeds, {}, {.check_plan = true})};
  for (auto& result : results) {
    ASSERT_TRUE(result.ok()) << result.status().message();
    for (auto& [name, bytes] : result->outputs) {
      // Of two operands that are no number, the order in which a driver multiplies them decides whose sign stays.
      for (std::size_t i = 0; i + sizeof(float) <= bytes.size(); i += sizeof(float)) {
        float x;
        std::memcpy(&x, &bytes[i], sizeof(x));
        if (std::isnan(x)) std::memcpy(&bytes[i], &kNoNumber, sizeof(x));
      }
    }
  }
  EXPECT_EQ(results[0]->outputs, results[1]->outputs);
  test::expect_no_validation_messages();
}

/// Numbers for everything that a graph is given.
RefTensors fed(const Graph& graph) {
  RefTensors tensors;
  data::Random random(11);
  for (const Value& value : graph.values()) {
    if (value.kind == ValueKind::temporary) continue;
    RefTensor& tensor = tensors[value.name];
    tensor.dims = value.shape.values();
    for (std::uint64_t i = 0; i < value.shape.elements(); ++i) tensor.data.push_back(random.uniform() * 4 - 2);
  }
  return tensors;
}

// What is left has its name, its shape and its numbers; ids lead to it.
TEST_P(Fuse, KeepsWhatOthersRead) {
  GraphMaker g;
  GetParam().build(g);
  gpu::Target target;
  target.caps.max_storage_buffers_per_stage = 16;
  const auto fused = passes::fuse(g.graph, target);
  ASSERT_TRUE(fused.ok()) << fused.status().message();
  ASSERT_TRUE(validate(fused->graph).ok()) << validate(fused->graph).message();
  EXPECT_LE(fused->graph.nodes().size(), g.graph.nodes().size());
  RefTensors apart = fed(g.graph), together = apart;
  ASSERT_TRUE(interpret(g.graph, apart).ok());
  ASSERT_TRUE(interpret(fused->graph, together).ok());
  ASSERT_EQ(fused->values.size(), g.graph.values().size());
  for (std::size_t v = 0; v < fused->values.size(); ++v) {
    const Value& before = g.graph.values()[v];
    if (!fused->values[v].valid()) {
      EXPECT_EQ(before.kind, ValueKind::temporary) << before.name;
      continue;
    }
    const Value& after = fused->graph.value(fused->values[v]);
    EXPECT_EQ(after.name, before.name);
    EXPECT_EQ(after.shape, before.shape);
    EXPECT_EQ(together.at(after.name).data.size(), apart.at(before.name).data.size());
    for (std::size_t i = 0; i < apart.at(before.name).data.size(); ++i) {
      const double x = apart.at(before.name).data[i];
      // Doubles, added and multiplied in another order where a bias or a gate is part of an op.
      if (std::isnan(x)) continue;
      EXPECT_NEAR(together.at(after.name).data[i], x, 1e-12 * (1 + std::abs(x))) << before.name;
    }
  }
  ASSERT_EQ(fused->graph.outputs().size(), g.graph.outputs().size());
  for (std::size_t i = 0; i < g.graph.outputs().size(); ++i) {
    EXPECT_EQ(fused->graph.outputs()[i].value, fused->values[g.graph.outputs()[i].value.index]);
  }
}

TEST_P(Fuse, GivesTheSameBits) {
  GraphMaker g;
  GetParam().build(g);
  expect_same_bits(g.graph, {1});
}

// What lies between is not stored, but rounded as if it were.
TEST_P(Fuse, GivesTheSameBitsOfValuesKeptIn16Bits) {
  if (!GetParam().low_precision) GTEST_SKIP() << "the kernels of other cases";
  GraphMaker g;
  GetParam().build(g);
  for (const DType storage : {DType::f16, DType::bf16}) {
    // Pipelines take time.
    if (storage == DType::bf16 && (GetParam().apart != 3 || GetParam().together != 1)) continue;
    SCOPED_TRACE(dtype_name(storage));
    const auto low_precision = keep_low_precision(g.graph, storage);
    ASSERT_TRUE(low_precision.ok()) << low_precision.status().message();
    const auto together = test::checked_plan(*low_precision);
    const auto apart = test::checked_plan(*low_precision, {}, {.fuse = false});
    ASSERT_TRUE(together.ok() && apart.ok());
    EXPECT_LE(test::dispatches(*together), test::dispatches(*apart));
    // Of two dispatches, conversions of what is given may stand between.
    if (GetParam().together == 1 && GetParam().apart > 2) {
      EXPECT_LT(test::dispatches(*together), test::dispatches(*apart));
    }
    // Also numbers that f16 holds as subnormal ones, and such that sums and products leave the type's range.
    expect_same_bits(*low_precision, {1, 1, 1e-5, storage == DType::f16 ? 3e4 : 3e38, 1});
  }
}

INSTANTIATE_TEST_SUITE_P(, Fuse, testing::ValuesIn(kCases),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(FuseNetworks, TrainingNeedsFewerDispatches) {
  test::Network net;
  test::build_resnet(net, 2, 3);
  const auto together = test::checked_plan(net.graph);
  const auto apart = test::checked_plan(net.graph, {}, {.fuse = false});
  ASSERT_TRUE(together.ok()) << together.status().message();
  ASSERT_TRUE(apart.ok()) << apart.status().message();
  EXPECT_LT(test::dispatches(*together), test::dispatches(*apart));
  EXPECT_EQ(together->flops, apart->flops);
  EXPECT_LE(together->transient_bytes, apart->transient_bytes);
}

TEST(FuseNetworks, DevicesWithFewBuffersRunKernelsApartWhereNoneCanBeShared) {
  GraphMaker g;  // a product, its bias, and what is added to it: five places, and no push constant is left to tell
  const ValueId y = g.add(Op::matmul, {g.input("x", {kRows, 16}), g.parameter("w", {16, kColumns})});
  const ValueId sum = g.add(Op::add, {y, g.parameter("bias", {kColumns})});
  g.output("y", g.add(Op::relu, {g.add(Op::add, {sum, g.input("stream", {kRows, kColumns})})}));
  gpu::Target target;
  target.caps.max_storage_buffers_per_stage = 4;
  const auto few = test::checked_plan(g.graph, target);
  ASSERT_TRUE(few.ok()) << few.status().message();
  EXPECT_EQ(test::dispatches(*few), 2u);
  // One word tells the fifth place from one of the four: fused as soon as the push constants have room for it.
  for (const std::uint32_t room : {132u, 136u, 256u}) {
    target.caps.max_push_constants = room;
    const auto told = test::checked_plan(g.graph, target);
    ASSERT_TRUE(told.ok()) << told.status().message();
    EXPECT_EQ(test::dispatches(*told), 1u) << room;
    EXPECT_EQ(told->kernels[0].push_bytes, 128u) << "the case is to leave no room in 128 bytes";
  }
}

std::vector<std::string> names(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes()) names.push_back(node.name);
  return names;
}

TEST(FuseGraph, NamesANodeByItsParts) {
  GraphMaker g;
  const ValueId y = g.add(Op::matmul, {g.input("x", {kRows, 16}), g.input("w", {16, kColumns})}, {}, "fc1");
  g.output("y", g.add(Op::relu, {y}, {}, "relu1"));
  const auto fused = passes::fuse(g.graph, {});
  ASSERT_TRUE(fused.ok()) << fused.status().message();
  EXPECT_EQ(names(fused->graph), std::vector<std::string>{"fc1 + relu1"});
}

TEST(FuseGraph, AKernelThatFailedItsSelfTestIsNotChosen) {
  GraphMaker g;
  const ValueId y = g.add(Op::matmul, {g.input("x", {kRows, 16}), g.input("w", {16, kColumns})});
  g.output("y", g.add(Op::tanh, {g.add(Op::affine, {y}, affine(2, 1))}));
  gpu::Target target;
  const auto count = [&] { return passes::fuse(g.graph, target)->graph.nodes().size(); };
  EXPECT_EQ(count(), 1u);
  target.advice.avoided.insert("matmul__f32_epilogue");
  EXPECT_EQ(count(), 2u) << "the elementwise ops are one all the same";
  target.advice.avoided.insert("fused_elementwise__f32");
  EXPECT_EQ(count(), 3u);
}

// What another node reads in between, on the way to the reader, cannot be one node with it.
TEST(FuseGraph, ANodeDoesNotWaitForItself) {
  GraphMaker g;
  const ValueId x = g.add(Op::exp, {g.input("x", {kRows, kColumns})});
  const ValueId mean = g.add(Op::softmax, {x}, {{"axis", std::int64_t{1}}});
  g.output("y", g.add(Op::sub, {x, mean}));
  const auto fused = passes::fuse(g.graph, {});
  ASSERT_TRUE(fused.ok()) << fused.status().message();
  EXPECT_EQ(fused->graph.nodes().size(), 3u);
}

// A GPU of many cores splits such a sum, and adds the parts up in a kernel that has an epilogue.
TEST(FuseGraph, ASplitProductWithAQuantizedWeightKeepsItsEpilogueApart) {
  GraphMaker g;
  const auto weight = g.graph.add_value("w", DType::q8_0, {64, 4096}, ValueKind::constant);
  ASSERT_TRUE(weight.ok()) << weight.status().message();
  const ValueId y = g.add(Op::matmul, {g.input("x", {16, 4096}), *weight}, {{"trans_b", std::int64_t{1}}});
  g.output("y", g.add(Op::add, {y, g.input("residual", {16, 64})}));
  gpu::Target target;
  target.caps.type = gpu::DeviceType::discrete;
  target.caps.max_storage_buffers_per_stage = 16;
  const auto plan = test::checked_plan(g.graph, target);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
}

}  // namespace
}  // namespace graft::plan_fuse_test::passes_fuse_test
