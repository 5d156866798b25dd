// ctest: middle
// The start-up self-test: on a device that is right, on one that computes nothing, on one with a single wrong kernel,
// and where the process dies in it.
#include "runtime/core/op_id.gen.h"
#include "runtime/self_test/self_test.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <sstream>

#include "platform/null/null_device.h"
#include "runtime/exec/plan_fused.h"
#include "runtime/ops/choice.h"
#include "runtime/self_test/low_precision_graph.h"
#include "shaders/kernels.gen.h"
#include "tests/support/bf16_device.h"
#include "tests/support/edited_device.h"
#include "tests/support/gpu_device.h"
#include "tests/support/plan_checks.h"
#include "tests/support/files/temporary_folder.h"

namespace graft::test::self_test_test {
namespace {

using shaders::KernelId;

// A device on which some kernels, as those of one name, do nothing, kill the process, or are right and seen.
class FaultyDevice final : public EditedDevice {
 public:
  enum class Fault { wrong, deadly, none };
  using Hit = std::function<bool(const gpu::KernelDesc&)>;
  FaultyDevice(gpu::Device& device, Hit hit, Fault fault) : EditedDevice(device), hit_(std::move(hit)), fault_(fault) {}
  FaultyDevice(gpu::Device& device, std::string kernel, Fault fault)
      : FaultyDevice(
            device, [kernel](const gpu::KernelDesc& desc) { return desc.name == kernel; }, fault) {}
  Result<std::vector<std::unique_ptr<gpu::Kernel>>> create_kernels(std::span<const gpu::KernelDesc> kernels) override {
    std::vector<gpu::KernelDesc> descs(kernels.begin(), kernels.end());
    for (gpu::KernelDesc& desc : descs) {
      if (!hit_(desc)) continue;
      if (fault_ == Fault::deadly) std::raise(SIGKILL);
      ++used;
      if (on_use) on_use();
      if (fault_ == Fault::none) continue;
      desc.spirv = shaders::kernel_info(KernelId::bench_stream__nothing).spirv();
      desc.specialization = {};
    }
    return EditedDevice::create_kernels(descs);
  }

  int used = 0;
  std::function<void()> on_use;

 private:
  Hit hit_;
  Fault fault_;
};

// OpCapability StorageBuffer16BitAccess, which stands before all else.
bool has_16bit_elements(const gpu::KernelDesc& desc) {
  constexpr std::uint32_t kCapability[] = {2u << 16 | 17, 4433};
  const auto head = desc.spirv.first(std::min<std::size_t>(desc.spirv.size(), 64));
  return std::ranges::search(head, kCapability).begin() != head.end();
}

gpu::Caps cpu_caps() {
  gpu::Caps caps;
  caps.device_name = "null";
  caps.type = gpu::DeviceType::cpu;
  caps.subgroup_size = 8;
  caps.max_storage_buffers_per_stage = 16;
  caps.subgroup_basic = caps.subgroup_shuffle = true;
  return caps;
}

// The product that every test plans.
void product(GraphMaker& g) { g.output("y", g.add(Op::matmul, {g.input("a", {40, 40}), g.input("b", {40, 40})})); }

struct Outcome {
  Status status;
  std::set<ProofKey> kernels;  ///< of the plan in the end
  int rounds = 0;
};

Outcome prove(KernelProof& proof, gpu::Device& device, const Graph& graph) {
  Outcome outcome;
  Plan plan;
  const Plan* const plans[] = {&plan};
  const auto make = [&]() -> Status {
    ++outcome.rounds;
    Residents residents(device.caps());
    GRAFT_TRY(residents.add(graph));
    GRAFT_TRY_ASSIGN(plan, plan_fused(graph, device.target(), residents));
    return ok_status();
  };
  outcome.status = make_proven(&proof, device, make, [&] { return std::span<const Plan* const>(plans); });
  if (outcome.status.ok()) outcome.kernels = proof_keys(plan, device.target());
  return outcome;
}

Outcome prove(KernelProof& proof, gpu::Device& device) {
  GraphMaker g;
  product(g);
  return prove(proof, device, g.graph);
}

bool any_of(const std::set<ProofKey>& keys, std::string_view prefix) {
  return std::ranges::any_of(keys, [&](const ProofKey& key) { return key.starts_with(prefix); });
}

Result<std::unique_ptr<RememberedDevice>> remember(gpu::Device& device, const TemporaryFolder& folder) {
  return RememberedDevice::open(os::system_files(), folder.path(), device, {}, true);
}

TEST(SelfTest, PassesOnceAndIsRemembered) {
  GRAFT_TEST_GPU(device);
  const TemporaryFolder folder;
  {
    const auto proof = remember(*device, folder);
    ASSERT_TRUE(proof.ok()) << proof.status().message();
    const Outcome outcome = prove(**proof, *device);
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
    EXPECT_EQ(outcome.rounds, 1);
    EXPECT_TRUE((*proof)->profile().failed().empty());
    for (const ProofKey& key : outcome.kernels) EXPECT_TRUE((*proof)->profile().passed().contains(key)) << key;
  }
  FaultyDevice untouched(*device, "any", FaultyDevice::Fault::wrong);
  const auto proof = remember(untouched, folder);
  ASSERT_TRUE(proof.ok());
  const auto before = device->memory().allocations;
  EXPECT_TRUE(prove(**proof, untouched).status.ok());
  EXPECT_EQ(device->memory().allocations, before) << "nothing ran";
  expect_no_validation_messages();
}

TEST(SelfTest, AWrongKernelIsReplacedForGood) {
  GRAFT_TEST_GPU(device);
  const TemporaryFolder folder;
  std::string natural;
  {
    GraphMaker g;
    product(g);
    const auto plan = checked_plan(g.graph, device->target());
    ASSERT_TRUE(plan.ok());
    natural = shaders::kernel_info(plan->kernels[0].id).name;
  }
  if (natural == "matmul__f32") GTEST_SKIP() << "this device has one kernel for products";
  for (int start = 0; start < 3; ++start) {
    FaultyDevice faulty(*device, natural, FaultyDevice::Fault::wrong);
    const auto proof = remember(faulty, folder);
    ASSERT_TRUE(proof.ok());
    const Outcome outcome = prove(**proof, faulty);
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
    EXPECT_TRUE(any_of(outcome.kernels, "matmul__f32/")) << *outcome.kernels.begin();
    EXPECT_FALSE((*proof)->profile().failed().empty());
    EXPECT_EQ(faulty.used > 0, start < 2) << "it is not tried a third time";
  }
  device->set_advice({});
  expect_no_validation_messages();
}

// Those included that do the work of several: fused ops, and one dispatch for many tensors.
TEST(SelfTest, NoPlanHoldsAKernelThatFailed) {
  GRAFT_TEST_GPU(device);
  GraphMaker g;
  product(g);
  const ValueId x = g.input("x", {6, 35});
  g.output("fused", g.add(Op::relu, {g.add(Op::mul, {x, x})}));
  for (const char* name : {"first", "second"}) {
    g.act(Op::accumulate, {g.state(name, {40}), g.input(cat("more_", name), {40})});
  }
  const auto natural = checked_plan(g.graph, device->target());
  ASSERT_TRUE(natural.ok()) << natural.status().message();
  std::set<std::string> names;
  for (const PlanKernel& kernel : natural->kernels) names.insert(std::string(shaders::kernel_info(kernel.id).name));
  for (const KernelId id : {KernelId::fused_elementwise__f32_short, KernelId::accumulate__f32_table}) {
    EXPECT_TRUE(names.contains(std::string(shaders::kernel_info(id).name)));
  }
  for (const std::string& name : names) {
    // Tiles in shared memory are the only kernel that a GPU without matrix units has for products.
    if (name == "matmul__f32" && device->caps().type != gpu::DeviceType::cpu) continue;
    const TemporaryFolder folder;
    FaultyDevice faulty(*device, name, FaultyDevice::Fault::wrong);
    const auto proof = remember(faulty, folder);
    ASSERT_TRUE(proof.ok());
    const Outcome outcome = prove(**proof, faulty, g.graph);
    EXPECT_GT(faulty.used, 0) << name;
    EXPECT_TRUE(outcome.status.ok()) << name << ": " << outcome.status.message();
    EXPECT_FALSE(any_of(outcome.kernels, name + "/") || outcome.kernels.contains(name)) << name;
  }
  device->set_advice({});
  validation_messages().take();  // what does nothing writes elsewhere than the plan says
}

// A convolution that does the addition and the activation behind it, on a device taken for a GPU.
void conv_with_epilogue(GraphMaker& g) {
  const Attrs window = {{"strides", Ints{1, 1}}, {"pads", Ints{1, 1, 1, 1}}};
  const ValueId y = g.add(Op::conv, {g.parameter("x", {1, 6, 6, 4}), g.parameter("w", {8, 3, 3, 4})}, window);
  g.output("y", g.add(Op::relu, {g.add(Op::add, {y, g.parameter("skip", {1, 6, 6, 8})})}));
}

std::string epilogue_kernel() { return std::string(shaders::kernel_info(KernelId::conv__f32_epilogue).name); }

TEST(SelfTest, AWrongEpilogueLeavesTheKernelAsItWas) {
  GRAFT_TEST_GPU(device);
  const TemporaryFolder folder;
  GraphMaker g;
  conv_with_epilogue(g);
  for (int start = 0; start < 3; ++start) {
    FaultyDevice faulty(*device, epilogue_kernel(), FaultyDevice::Fault::wrong);
    faulty.edit().caps.type = gpu::DeviceType::discrete;
    const auto natural = checked_plan(g.graph, faulty.target());
    ASSERT_TRUE(natural.ok());
    ASSERT_TRUE(any_of(proof_keys(*natural, faulty.target()), epilogue_kernel() + "/"));
    const auto proof = remember(faulty, folder);
    ASSERT_TRUE(proof.ok());
    const Outcome outcome = prove(**proof, faulty, g.graph);
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
    EXPECT_TRUE(any_of(outcome.kernels, "conv__f32/"));
    EXPECT_TRUE(outcome.kernels.contains("fused_elementwise__f32_short"));
    EXPECT_FALSE(any_of(outcome.kernels, epilogue_kernel()));
    EXPECT_FALSE((*proof)->profile().failed().empty());
    for (const auto& [key, why] : (*proof)->profile().failed()) {
      EXPECT_TRUE(key.starts_with(epilogue_kernel())) << key << " is blamed too: " << why;
    }
    EXPECT_EQ(faulty.used > 0, start < 2) << "it is not tried a third time";
  }
  device->set_advice({});
  validation_messages().take();  // what does nothing writes elsewhere than the plan says
}

TEST(SelfTest, AKernelWithAnEpilogueIsTestedAlone) {
  GRAFT_TEST_GPU(device);
  const TemporaryFolder folder;
  FaultyDevice watched(*device, epilogue_kernel(), FaultyDevice::Fault::none);
  watched.edit().caps.type = gpu::DeviceType::discrete;
  const auto proof = remember(watched, folder);
  ASSERT_TRUE(proof.ok());
  std::set<std::string> suspects;  // were the process to die now
  watched.on_use = [&] {
    std::istringstream lines(os::read_text_file(os::system_files(), (*proof)->profile().path(), 1 << 20).value());
    constexpr std::string_view kProbing = "probing\t";
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with(kProbing)) suspects.insert(line.substr(kProbing.size()));
    }
  };
  GraphMaker g;
  conv_with_epilogue(g);
  const Outcome outcome = prove(**proof, watched, g.graph);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
  EXPECT_TRUE((*proof)->profile().failed().empty());
  EXPECT_FALSE(suspects.empty());
  for (const std::string& key : suspects) EXPECT_TRUE(is_epilogue(key)) << key;
  for (const ProofKey& key : outcome.kernels) EXPECT_TRUE((*proof)->profile().passed().contains(key)) << key;
  device->set_advice({});
  expect_no_validation_messages();
}

TEST(SelfTest, AWrongFormForElementsOf16BitsIsMadeAgainOverWords) {
  GRAFT_TEST_GPU(device);
  if (!device->caps().storage_16bit) GTEST_SKIP() << "This device has no 16-bit storage.";
  GraphMaker g;
  product(g);
  const auto low_precision = keep_low_precision(g.graph, DType::f16);
  ASSERT_TRUE(low_precision.ok()) << low_precision.status().message();
  const TemporaryFolder folder;
  for (int start = 0; start < 3; ++start) {
    FaultyDevice faulty(*device, has_16bit_elements, FaultyDevice::Fault::wrong);
    const auto proof = remember(faulty, folder);
    ASSERT_TRUE(proof.ok());
    const Outcome outcome = prove(**proof, faulty, *low_precision);
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
    EXPECT_EQ(faulty.used > 0, start < 2) << "it is not tried a third time";
    EXPECT_FALSE((*proof)->profile().failed().empty());
    for (const auto& [key, why] : (*proof)->profile().failed()) EXPECT_TRUE(key.ends_with("@f16")) << key << why;
    int forms = 0;
    for (const ProofKey& key : outcome.kernels) {
      EXPECT_TRUE((*proof)->profile().passed().contains(key)) << key;
      forms += key.ends_with("@f16 in words") ? 1 : 0;
    }
    EXPECT_GE(forms, 2) << "copies and the product";
    RefTensors feeds;
    for (const char* name : {"a", "b"}) feeds[name] = {{40, 40}, std::vector<double>(1600, 0.5)};
    const auto made = run_on_device(faulty, *low_precision, feeds, {}, {});
    ASSERT_TRUE(made.ok()) << made.status().message();
    for (const double x : made->begin()->second.data) ASSERT_EQ(x, 10);
  }
  device->set_advice({});
  validation_messages().take();  // what does nothing writes elsewhere than the plan says
}

// Probes are of f32, which these kernels are only given where it may be rounded.
TEST(SelfTest, KernelsForMatrixUnitsAreTestedWhereOnlyWhatIsKeptAsF16GoesToThem) {
  GRAFT_TEST_GPU(device);
  EditedDevice edited(*device);
  edited.edit().hooks.software_matrices = true;
  gpu::Target rounding = edited.target();
  rounding.policy.matmul_precision = gpu::MatmulPrecision::high;
  if (!rounds_to_f16(rounding)) GTEST_SKIP() << "No matrix units here, or no kernels for them in this build.";
  GraphMaker g;
  product(g);
  const auto low_precision = keep_low_precision(g.graph, DType::f16);
  ASSERT_TRUE(low_precision.ok()) << low_precision.status().message();
  const TemporaryFolder folder;
  const auto proof = remember(edited, folder);
  ASSERT_TRUE(proof.ok()) << proof.status().message();
  const Outcome outcome = prove(**proof, edited, *low_precision);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
  EXPECT_TRUE(any_of(outcome.kernels, "matmul__f32_coopmat") || any_of(outcome.kernels, "matmul__f32_flexible"));
  for (const ProofKey& key : outcome.kernels) EXPECT_TRUE((*proof)->profile().passed().contains(key)) << key;
}

// They have a verdict of their own: with a wrong one, products are multiplied as f32 again.
TEST(SelfTest, KernelsForMatricesOfBf16AreTestedByProbesOfBf16) {
  GRAFT_TEST_GPU(device);
  F16ForBf16Device pretending(*device);
  pretending.edit().hooks.software_matrices = true;
  if (!multiplies_bf16(pretending.target()))
    GTEST_SKIP() << "No matrix units here, or no kernels for bf16 in this build.";
  GraphMaker g;
  product(g);
  const auto low_precision = keep_low_precision(g.graph, DType::bf16);
  ASSERT_TRUE(low_precision.ok()) << low_precision.status().message();
  const auto of_bf16 = [](std::string_view name) { return name.find("_bf16") != name.npos; };
  using Fault = FaultyDevice::Fault;
  for (const Fault fault : {Fault::none, Fault::wrong}) {
    FaultyDevice faulty(
        pretending, [&](const gpu::KernelDesc& desc) { return of_bf16(desc.name); }, fault);
    const TemporaryFolder folder;
    const auto proof = remember(faulty, folder);
    ASSERT_TRUE(proof.ok()) << proof.status().message();
    const Outcome outcome = prove(**proof, faulty, *low_precision);
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
    EXPECT_GT(faulty.used, 0);
    EXPECT_EQ(std::ranges::any_of(outcome.kernels, of_bf16), fault == Fault::none);
    for (const ProofKey& key : outcome.kernels) EXPECT_TRUE((*proof)->profile().passed().contains(key)) << key;
    EXPECT_EQ((*proof)->profile().failed().empty(), fault == Fault::none);
    for (const auto& [key, why] : (*proof)->profile().failed()) EXPECT_TRUE(of_bf16(key)) << key << why;
  }
  device->set_advice({});
  validation_messages().take();  // what does nothing writes elsewhere than the plan says
}

TEST(SelfTest, ADeviceThatComputesNothingIsRefused) {
  null::NullDevice device({.caps = cpu_caps()});
  const TemporaryFolder folder;
  const auto proof = remember(device, folder);
  ASSERT_TRUE(proof.ok());
  const Outcome outcome = prove(**proof, device);
  EXPECT_EQ(outcome.status.code(), Code::unsupported);
  EXPECT_NE(outcome.status.message().find("failed its self-test"), std::string::npos) << outcome.status.message();
}

// No call may leave a verdict, neither now nor (as one that a test died in) at the next start. The file is looked at
// for some only: each test of a kernel waits for the disk.
TEST(SelfTest, RunningOutOfMemorySaysNothingOfKernels) {
  GRAFT_TEST_GPU(device);
  EditedDevice edited(*device);
  std::uint64_t call = 1;
  for (;; ++call) {
    const TemporaryFolder folder;
    const bool file = call % 8 == 4;
    const auto open = [&] {
      return RememberedDevice::open(os::system_files(), file ? folder.path() : "", edited, {}, true);
    };
    {
      const auto proof = open();
      ASSERT_TRUE(proof.ok());
      const std::uint64_t refused = edited.refused();
      edited.refuse_call(call);
      const Outcome outcome = prove(**proof, edited);
      if (edited.refused() == refused) break;
      ASSERT_EQ(outcome.status.code(), Code::out_of_memory) << call << ": " << outcome.status.message();
      EXPECT_NE(outcome.status.message().find("In the self-test"), std::string::npos) << outcome.status.message();
      EXPECT_TRUE((*proof)->profile().failed().empty()) << call;
    }
    if (!file) continue;
    const auto proof = open();
    ASSERT_TRUE(proof.ok());
    EXPECT_TRUE((*proof)->profile().failed().empty()) << call;
    const Outcome outcome = prove(**proof, edited);
    ASSERT_TRUE(outcome.status.ok()) << call << ": " << outcome.status.message();
    for (const ProofKey& key : outcome.kernels) EXPECT_TRUE((*proof)->profile().passed().contains(key)) << key;
  }
  EXPECT_GT(call, 4u) << "buffers, kernels, a recording, a submission, a wait";
  expect_no_validation_messages();
}

TEST(SelfTest, WithoutItPlansAreTakenAsTheyAre) {
  null::NullDevice device({.caps = cpu_caps()});
  const auto proof = RememberedDevice::open(os::system_files(), "", device, {}, false);
  ASSERT_TRUE(proof.ok());
  EXPECT_TRUE(prove(**proof, device).status.ok());
}

TEST(SelfTest, AKernelThatKillsTheProcessTwiceIsAvoidedFromThenOn) {
  const TemporaryFolder folder;
  for (int start = 0; start < 2; ++start) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      null::NullDevice device({.caps = cpu_caps()});
      FaultyDevice deadly(device, "matmul__f32_shuffle", FaultyDevice::Fault::deadly);
      const auto proof = remember(deadly, folder);
      if (proof.ok()) (void)prove(**proof, deadly);
      _exit(7);  // it should not get here
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << start << ": " << status;
  }

  null::NullDevice device({.caps = cpu_caps()});
  const auto proof = remember(device, folder);
  ASSERT_TRUE(proof.ok());
  const auto& failed = (*proof)->profile().failed();
  ASSERT_TRUE(failed.contains("matmul__f32_shuffle/shuffle 16x4"));
  for (const auto& [key, why] : failed) {
    EXPECT_TRUE(key.starts_with("matmul__f32_shuffle/")) << key << " is blamed too";
    EXPECT_NE(why.find("died"), std::string::npos) << why;
  }
  GraphMaker g;
  product(g);
  const auto plan = checked_plan(g.graph, device.target());
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_FALSE(proof_keys(*plan, device.target()).contains("matmul__f32_shuffle/shuffle 16x4"));
}

TEST(SelfTest, EveryProbeCanBePlannedAndIsFedTheSame) {
  std::set<std::string> kernels;
  for (const OpProbe& probe : self_test_probes()) {
    const auto built = build_probe(probe);
    ASSERT_TRUE(built.ok()) << op_name(probe.op) << ": " << built.status().message();
    const auto plan = checked_plan(built->graph, {.caps = cpu_caps()});
    ASSERT_TRUE(plan.ok()) << op_name(probe.op) << ": " << plan.status().message();
    for (const PlanKernel& kernel : plan->kernels) kernels.insert(std::string(shaders::kernel_info(kernel.id).name));
    const auto again = build_probe(probe);
    for (const auto& [name, tensor] : built->feeds) EXPECT_EQ(again->feeds.at(name).data, tensor.data) << name;
  }
  // What a small language model and a convolutional network train with.
  for (const char* name :
       {"matmul__f32_shuffle", "matmul_rows__f32_shuffle", "conv__f32_shuffle", "softmax__f32", "cross_entropy__f32",
        "attention__f32", "attention_lanes__f32", "attention_lanes_grad_query__f32", "attention_lanes_grad_key__f32",
        "rms_norm__f32", "adam_step__f32", "cache_append__f32", "conv_grad_weight__f32_shuffle", "rope__f32",
        "binary__f32", "unary__f32", "reduce__f32"}) {
    EXPECT_TRUE(kernels.contains(name)) << name;
  }
}

}  // namespace
}  // namespace graft::test::self_test_test
