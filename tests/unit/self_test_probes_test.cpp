// Probes of the self-test use the kernels that they are for: every kernel of the table is in the plan of some probe, on
// devices made up to choose it.
#include "runtime/core/op_id.gen.h"
#include "runtime/self_test/self_test_probes.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "platform/gpu/presets.h"
#include "runtime/core/op_def.h"
#include "runtime/kernels/low_precision_kernel.h"
#include "runtime/self_test/probe_plans.h"
#include "shaders/kernels.gen.h"
#include "tests/support/plan_checks.h"

namespace graft::test::self_test_probes_test {
namespace {

using shaders::KernelId;

// Devices that together choose every kernel there is.
std::map<std::string, gpu::Target> devices() {
  gpu::Target target;
  target.caps.max_storage_buffers_per_stage = 16;
  target.caps.max_workgroup_invocations = 1024;
  target.caps.max_workgroup_size = {1024, 1024, 64};
  target.caps.max_shared_memory = 49152;
  target.caps.shader_int64 = true;
  std::map<std::string, gpu::Target> devices;

  gpu::Target cpu = target;
  cpu.caps.type = gpu::DeviceType::cpu;
  devices["a CPU"] = cpu;
  cpu.caps.subgroup_size = 8;
  cpu.caps.subgroup_basic = cpu.caps.subgroup_shuffle = cpu.caps.subgroup_arithmetic = true;
  devices["a CPU with shuffles"] = cpu;

  gpu::Target card = target;
  card.caps.type = gpu::DeviceType::discrete;
  card.caps.subgroup_size = 32;
  card.caps.subgroup_basic = card.caps.subgroup_shuffle = card.caps.subgroup_arithmetic = true;
  devices["a GPU"] = card;
  card.caps.shader_float16 = card.caps.storage_16bit = card.caps.shader_int8 = card.caps.integer_dot = true;
  card.policy.matmul_precision = gpu::MatmulPrecision::medium;
  devices["a GPU that multiplies integers"] = card;
  card.caps.cooperative_matrix = true;
  card.caps.matrix_subgroup = 32;
  card.caps.matrix_shapes = {{gpu::MatrixShape::Operand::f16, 16, 16, 16}};
  devices["a GPU with matrix units"] = card;
  card.caps.max_flexible_side = 256;
  card.caps.flexible_shapes = {{gpu::MatrixShape::Operand::f16, 16, 16, 16}};
  devices["a GPU with flexible matrices"] = card;
  card.caps.shader_bfloat16 = true;
  card.caps.flexible_shapes.push_back({gpu::MatrixShape::Operand::bf16, 16, 16, 16});
  card.caps.matrix_shapes.push_back({gpu::MatrixShape::Operand::bf16, 16, 16, 16});
  devices["a GPU with flexible matrices of bf16"] = card;
  card.caps.flexible_shapes.clear();
  devices["a GPU with matrices of bf16"] = card;
  return devices;
}

void note_kernels(const Plan& plan, const gpu::Target& target, std::set<std::string>& names) {
  for (const PlanKernel& kernel : plan.kernels) {
    names.insert(form_name(shaders::kernel_info(kernel.id), kernel.storage, target));
  }
}

// Of all that the self-test would run the probe as.
void note_kernels(const OpProbe& probe, DType elements, const gpu::Target& target, std::set<std::string>& names) {
  const auto built = build_probe(probe, elements);
  ASSERT_TRUE(built.ok()) << op_name(probe.op) << ": " << built.status().message();
  const auto plan = plan_probe(*built, target);
  ASSERT_TRUE(plan.ok()) << op_name(probe.op) << ": " << plan.status().message();
  note_kernels(*plan, target, names);
  for (const gpu::Advice& forced : advice_for_others(*plan, {})) {
    gpu::Target other = target;
    other.advice = forced;
    const auto planned = plan_probe(*built, other);
    ASSERT_TRUE(planned.ok()) << op_name(probe.op) << ": " << planned.status().message();
    note_kernels(*planned, other, names);
  }
}

// Kernels without a probe, and why.
const std::map<std::string_view, std::string_view> kNoProbe = {
    {"bench_arithmetic__f32", "no plan holds it: graft bench times the device with it"},
    {"bench_arithmetic__f16", "as bench_arithmetic__f32"},
    {"bench_arithmetic__dot8", "as bench_arithmetic__f32"},
    {"bench_stream__copy", "as bench_arithmetic__f32"},
    {"bench_stream__read", "as bench_arithmetic__f32"},
    {"bench_stream__nothing", "as bench_arithmetic__f32"},
    {"conv_naive__f32", "no plan holds it: what graft bench sets kernels beside"},
    {"matmul_naive__f32", "as conv_naive__f32"},
    {"matmul_tiled__f32", "as conv_naive__f32"},
    {"selftest__f32", "no plan holds it: for tests of devices"},
};

// Of elements of bf16 alone.
bool is_of_bf16(const shaders::KernelInfo& kernel) { return (kernel.features & shaders::needs_bfloat16) != 0; }

TEST(SelfTestProbes, ReachEveryKernel) {
  std::set<std::string> reached;
  for (const auto& [name, target] : devices()) {
    SCOPED_TRACE(name);
    std::set<std::string> of_bf16;
    for (const OpProbe& probe : self_test_probes()) {
      note_kernels(probe, DType::f32, target, reached);
      if (target.caps.shader_bfloat16) note_kernels(probe, DType::bf16, target, of_bf16);
    }
    for (const std::string& form : of_bf16) reached.insert(form.substr(0, form.find('@')));
  }
  for (std::uint16_t i = 0; i < static_cast<std::uint16_t>(KernelId::count_); ++i) {
    const shaders::KernelInfo& kernel = shaders::kernel_info(static_cast<KernelId>(i));
    if (!kernel.built()) continue;
    EXPECT_NE(reached.contains(std::string(kernel.name)), kNoProbe.contains(kernel.name)) << kernel.name;
  }
}

// Where elements are of bf16, it is given only what is rounded to f16 on the way to a result that is kept as bf16.
bool is_of_f16(const shaders::KernelInfo& kernel) {
  return (kernel.features & shaders::needs_coopmat) != 0 && !is_of_bf16(kernel);
}

// Kernels that plans never give 16-bit elements, and why.
const std::map<std::string_view, std::string_view> kNeverLowPrecision = {
    {"positions__f32", "kept in f32 wherever they are"},
    {"cache_move__f32", "moves words, whatever they hold"},
    {"linear_cross_entropy__f32", "sums of losses; logits are scratch"},
    {"linear_cross_entropy_cap__f32", "as linear_cross_entropy__f32"},
    {"linear_cross_entropy_rows__f32", "as linear_cross_entropy__f32"},
    {"norm_stats_finish__f32", "from scratch to statistics"},
    {"state_hash__f32_total", "from scratch to a word"},
};

bool can_be_low_precision(const shaders::KernelInfo& info) {
  if (info.name.find("__i32") != std::string_view::npos) return false;
  if (info.name.ends_with("_table")) return false;  // counts words, and is not chosen then
  for (std::size_t binding = 0; binding < kMaxLowPrecisionBindings; ++binding) {
    const auto words = low_precision_kernel(info, static_cast<BindingStorage>(Stored::f16) << (2 * binding), true);
    if (words.ok() && *words != std::vector<std::uint32_t>(info.spirv().begin(), info.spirv().end())) return true;
  }
  return false;
}

TEST(SelfTestProbes, ReachEveryKernelWithLowPrecisionElements) {
  for (const DType elements : {DType::f16, DType::bf16}) {
    std::set<std::string> reached;
    for (const auto& [name, target] : devices()) {
      SCOPED_TRACE(name);
      for (const OpProbe& probe : self_test_probes()) note_kernels(probe, elements, target, reached);
    }
    for (std::uint16_t i = 0; i < static_cast<std::uint16_t>(KernelId::count_); ++i) {
      const shaders::KernelInfo& kernel = shaders::kernel_info(static_cast<KernelId>(i));
      if (!kernel.built() || kNoProbe.contains(kernel.name) || !can_be_low_precision(kernel)) continue;
      if (elements == DType::bf16 && is_of_f16(kernel)) continue;
      const bool any = reached.contains(cat(kernel.name, "@", dtype_name(elements))) ||
                       reached.contains(cat(kernel.name, "@", dtype_name(elements), " in words"));
      const bool never = kNeverLowPrecision.contains(kernel.name) || (elements == DType::f16 && is_of_bf16(kernel));
      EXPECT_NE(any, never) << kernel.name;
    }
  }
}

// What check() looks for when a plan holds such a kernel with such a tile.
void expect_every_tile(const gpu::Target& target, DType elements) {
  std::set<ProofKey> wanted, reached;
  for (const OpProbe& probe : self_test_probes()) {
    const auto built = build_probe(probe, elements);
    ASSERT_TRUE(built.ok());
    const auto plan = plan_probe(*built, target);
    ASSERT_TRUE(plan.ok());
    reached.merge(proof_keys(*plan, target));
    for (const ProofKey& key : usual_tiles(target, *plan)) {
      if (elements_of(key) != elements) continue;
      wanted.insert(key);
      if (reached.contains(key)) continue;
      gpu::Target other = target;
      other.advice = advice_for_tile(*plan, {}, key);
      const auto planned = plan_probe(*built, other);
      ASSERT_TRUE(planned.ok()) << key << ": " << planned.status().message();
      reached.merge(proof_keys(*planned, other));
    }
  }
  const bool built = shaders::kernel_info(KernelId::matmul__f32_coopmat_bf16).built();
  EXPECT_EQ(wanted.empty(), elements == DType::bf16 && !(built && target.caps.shader_bfloat16));
  for (const ProofKey& key : wanted) EXPECT_TRUE(reached.contains(key)) << key;
}

TEST(SelfTestProbes, ReachEveryTileOfEveryKernel) {
  for (const auto& [name, target] : devices()) {
    SCOPED_TRACE(name);
    for (const DType elements : {DType::f32, DType::bf16}) expect_every_tile(target, elements);
  }
}

TEST(SelfTestProbes, ReachEpiloguesOnEveryGpu) {
  for (const gpu::CapsPreset& preset : gpu::caps_presets()) {
    if (preset.source.empty()) continue;
    gpu::Target target;
    preset.apply(target);
    std::set<std::string> reached;
    for (const OpProbe& probe : self_test_probes()) {
      if (probe.epilogue) note_kernels(probe, DType::f32, target, reached);
    }
    for (const KernelId id :
         {KernelId::matmul__f32_epilogue, KernelId::matmul_split_sum__f32_epilogue, KernelId::conv__f32_epilogue,
          KernelId::conv_grad_data__f32_epilogue, KernelId::norm_apply__f32_epilogue,
          KernelId::layer_norm_grad__f32_epilogue, KernelId::rms_norm_grad__f32_epilogue}) {
      const std::string kernel(shaders::kernel_info(id).name);
      EXPECT_TRUE(reached.contains(kernel)) << kernel << " on " << preset.name;
    }
  }
}

// What GRAFT_TRAINING=OFF leaves out: no forward pass of an op that stays needs a kernel that goes.
TEST(SelfTestProbes, NeedNoKernelOfTrainingForward) {
  std::size_t plans = 0, of_training = 0;
  for (const auto& [name, target] : devices()) {
    SCOPED_TRACE(name);
    for (OpProbe probe : self_test_probes()) {
      if (is_training_op(probe.op)) continue;
      for (OpProbe::Operand& operand : probe.operands) operand.grad = false;
      std::set<std::string> reached;
      note_kernels(probe, DType::f32, target, reached);
      ++plans;
      for (std::uint16_t i = 0; i < static_cast<std::uint16_t>(KernelId::count_); ++i) {
        const shaders::KernelInfo& kernel = shaders::kernel_info(static_cast<KernelId>(i));
        of_training += kernel.training;
        if (kernel.training) {
          EXPECT_FALSE(reached.contains(std::string(kernel.name))) << op_name(probe.op) << " needs " << kernel.name;
        }
      }
    }
  }
  EXPECT_GT(plans, 100u);
  EXPECT_GT(of_training, 0u);
}

// Else a device that rounds as it may would be told apart from the reference by a whole code.
TEST(SelfTestProbes, HaveNoNumberBetweenTwoCodesOfAdam) {
  bool met = false;
  for (const OpProbe& probe : self_test_probes()) {
    if (probe.op != Op::adam8_step) continue;
    met = true;
    const auto built = build_probe(probe);
    ASSERT_TRUE(built.ok()) << built.status().message();
    RefTensors exact = built->feeds, rounded = built->feeds;
    double sign = 1;  // a few roundings of f32, to either side
    for (double& x : rounded.at("in1").data) x *= 1 + (sign = -sign) * 1e-6;
    ASSERT_TRUE(interpret(built->graph, exact, built->step).ok());
    ASSERT_TRUE(interpret(built->graph, rounded, built->step).ok());
    for (const char* codes : {"in2", "in4"}) EXPECT_EQ(exact.at(codes).data, rounded.at(codes).data) << codes;
  }
  EXPECT_TRUE(met);
}

}  // namespace
}  // namespace graft::test::self_test_probes_test
