// Small problems for every op whose answers the reference knows: what the self-test runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/core/graph.h"
#include "runtime/reference/device_run.h"
#include "runtime/reference/probe.h"

namespace graft {

struct OpProbe {
  struct Operand {
    std::vector<std::int64_t> dims;
    DType dtype = DType::f32;
    double low = 0.1;  // positive: no probe meets a pole, a kink or a domain's edge
    double high = 1;
    ValueKind kind = ValueKind::input;
    bool missing = false;  // an optional input that is left out
    bool grad = true;
  };
  Op op{};
  std::vector<Operand> operands;
  Attrs attrs = {};
  /// What is computed of each result and gradient, by an op of one input, to reach kernels that do more than one op.
  std::optional<Op> then = {};
  Attrs then_attrs = {};
  /// Each result and gradient of two axes or more is followed by an epilogue with all that one may hold:
  /// relu((result + whole) * row), where the result itself is an output too.
  bool epilogue = false;
  /// The node stands twice, each with operands of its own: nodes of one kind are run as one, from a table of tensors.
  bool twice = false;
};

const std::vector<OpProbe>& self_test_probes();
/// Without the ops that a build leaves out there is nothing to prove.
bool is_in_build(const OpProbe& probe);

/// The probe as a graph with its gradients, and what is fed to it: always the same numbers. `elements`: as which
/// results and inputs of f32 are kept, f16 or bf16 where forms of kernels for these are to be proven.
struct BuiltProbe {
  Graph graph;
  DType elements = DType::f32;
  RefTensors feeds;
  RefStepState step;
  double roundings = 0;  ///< kLowPrecisionProbeRoundings or kLowPrecisionProductRoundings
};
Result<BuiltProbe> build_probe(const OpProbe& probe, DType elements = DType::f32);

/// Largest error of a result, as a share of its root mean square. The problems are small: rounding to f32 stays below
/// 1e-5, and operands that are rounded to f16 make errors of at most 1e-3. Operands rounded to 8 bits make errors of
/// 4e-3, and the largest of a few hundred is three and a half times that.
inline constexpr double kProbeTolerance = 1e-4;
inline constexpr double kRoundedProbeTolerance = 5e-3;
inline constexpr double kIntegerProbeTolerance = 1.5e-2;
/// Beside these, where elements have 16 bits: so many times the error of one rounding. A gradient of attention is off
/// by up to 36 of them, nothing else by 16.
inline constexpr double kLowPrecisionProbeRoundings = 64;
/// A product or convolution by itself rounds its result and nothing else: the largest element is about twice the mean.
inline constexpr double kLowPrecisionProductRoundings = 4;

/// Runs it on the device and in the reference. Empty where they agree, else what was wrong. An error where the device
/// was lost or had no memory for it.
Result<std::string> fault_of_probe(gpu::Device& device, const BuiltProbe& built, double tolerance);

}  // namespace graft
