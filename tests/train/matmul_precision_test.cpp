// Training whose products go to matrix units: of what is kept as f16, and of f32 that may be rounded. Where there are
// none, or no kernels for them in this build, the switch changes no bit.
#include <gtest/gtest.h>

#include "runtime/ops/choice.h"
#include "runtime/passes/precision.h"
#include "tests/support/edited_device.h"
#include "tests/support/trainer_fixture.h"

namespace graft::train::matmul_precision_test {
namespace {

using namespace test;

constexpr std::uint64_t kBatch = 8;
constexpr int kSteps = 6;

class MatmulPrecision : public TrainerTest {
 protected:
  /// Losses of the first steps on a device whose user asks for this.
  std::vector<double> losses(gpu::MatmulPrecision precision, bool software_matrices, DType storage) {
    EditedDevice device(*shared_device());
    device.edit().policy.matmul_precision = precision;
    device.edit().hooks.software_matrices = software_matrices;
    TrainOptions options;
    options.batch = kBatch;
    options.precision = storage;
    scale_for_rounding(device.target(), options);
    EXPECT_EQ(loss_scaling_of(options).has_value(), storage == DType::f16 || rounds_to_f16(device.target()));
    TrainerOptions out;
    out.request.evaluation = false;
    auto trainer = Trainer::create(device, model_.graph, model_.weight_of(), options, data_.fields, out);
    EXPECT_TRUE(trainer.ok()) << trainer.status().message();
    if (!trainer.ok()) return {};
    std::vector<double> all;
    for (const StepResult& result : steps(**trainer, data_, kSteps, kBatch)) {
      EXPECT_EQ(result.skipped_steps, 0u);
      all.push_back(result.metrics.loss());
    }
    return all;
  }

  /// `share` of each loss: what rounding moves it by.
  static void expect_near(const std::vector<double>& got, const std::vector<double>& expected, double share) {
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], share * expected[i]) << "step " << i;
  }

  static bool has_matrix_units(bool software_matrices) {
    gpu::Target target = shared_device()->target();
    target.policy.matmul_precision = gpu::MatmulPrecision::high;
    target.hooks.software_matrices = software_matrices;
    return rounds_to_f16(target);
  }

  TinyModel model_ = lenet();  // whose products are large enough for a GPU's matrix units, too
  TinyData data_ = tiny_data(kBatch * kSteps, {1, 28, 28}, 10);
};

TEST_F(MatmulPrecision, ChangesNothingWithoutMatrixUnits) {
  if (has_matrix_units(false)) GTEST_SKIP() << "This device has matrix units.";
  const auto exact = losses(gpu::MatmulPrecision::highest, false, DType::f32);
  EXPECT_EQ(losses(gpu::MatmulPrecision::high, false, DType::f32), exact);
}

TEST_F(MatmulPrecision, RoundedOperandsTrainAsF32DoesUnderAScaledLoss) {
  if (!has_matrix_units(true)) GTEST_SKIP() << "No matrix units here, or no kernels for them in this build.";
  const auto exact = losses(gpu::MatmulPrecision::highest, false, DType::f32);
  const auto rounded = losses(gpu::MatmulPrecision::high, true, DType::f32);
  EXPECT_NE(rounded, exact);
  expect_near(rounded, exact, 2e-3);  // operands are off by 2^-11 at most, losses by a few of that
}

TEST_F(MatmulPrecision, WhatIsKeptAsF16IsMultipliedThereAsItIs) {
  if (!has_matrix_units(true)) GTEST_SKIP() << "No matrix units here, or no kernels for them in this build.";
  const auto without = losses(gpu::MatmulPrecision::highest, false, DType::f16);
  expect_near(losses(gpu::MatmulPrecision::highest, true, DType::f16), without, 1e-3);  // another order of sums, which
                                                                                        // are then rounded to 2^-11
}

}  // namespace
}  // namespace graft::train::matmul_precision_test
