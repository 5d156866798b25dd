// ctest: slow (a hundred plans)
// What plans of whole networks cost: memory, dispatches, barriers, what is saved, computed again and streamed, on
// made-up and on real devices, free and under limits. Whoever changes the planner sees here what that changes, and
// where.
#include <gtest/gtest.h>

#include <functional>
#include <sstream>
#include <string>

#include "platform/gpu/presets.h"
#include "runtime/lora/adapter.h"
#include "runtime/model/model.h"
#include "runtime/train/plan/training_plan.h"
#include "tests/support/files/golden.h"
#include "tests/support/networks.h"
#include "tests/support/tiny_decoder.h"

namespace graft::test::plan_figures_test {
namespace {

gpu::Target target_of(const std::string& preset) {
  gpu::Target target;
  if (preset == "least") return target;
  EXPECT_TRUE(gpu::apply_caps_preset(preset, target).ok()) << preset;
  return target;
}

std::string figures(const Plan& plan) {
  std::ostringstream out;
  std::uint32_t merged = 0, backward = 0, views = 0;
  std::uint64_t scratch = 0, windows = 0, push = 0, saved = 0;
  for (const Step& step : plan.steps) {
    merged += step.merged - 1;
    push += step.push.size();
    for (const PlanBinding& window : step.windows) windows += window.size;
  }
  for (const PlanNode& node : plan.nodes) {
    backward += node.backward ? 1 : 0;
    views += node.steps == 0 ? 1 : 0;
    scratch = std::max(scratch, node.scratch_bytes);
  }
  for (const SavedValue& value : plan.saved) saved += value.bytes;
  out << "arena " << plan.transient_bytes << " (least " << plan.lower_bound << ", scratch to " << scratch
      << ") residents " << plan.resident_bytes << " staging " << plan.upload_bytes << " up " << plan.readback_bytes
      << " down; " << plan.nodes.size() << " nodes (" << backward << " backward, " << views << " without dispatch), "
      << plan.steps.size() << " steps (" << merged << " merged, windows " << windows << ", push " << push << ") of "
      << plan.kernels.size() << " kernels, " << plan.barriers << " barriers; peak at "
      << (plan.peak_node < plan.nodes.size() ? plan.nodes[plan.peak_node].name : "none") << "; saved "
      << plan.saved.size() << " (" << saved << "); again " << plan.recomputed.size() << " (" << plan.recomputed_flops
      << " of " << plan.flops << " FLOPs)";
  if (plan.stream_bytes > 0) {
    out << "; stream " << plan.stream_bytes << " (staging " << plan.stream_staging_bytes << ", " << plan.refills.size()
        << " refills)";
  }
  return out.str();
}

TEST(PlanFigures, OfNetworks) {
  const std::pair<const char*, std::function<void(Network&)>> networks[] = {
      {"lenet", [](Network& n) { build_lenet(n, 32); }},
      {"resnet", [](Network& n) { build_resnet(n, 8, 8); }},
      {"u_net", [](Network& n) { build_u_net(n, 4, 3); }},
      {"transformer", [](Network& n) { build_transformer(n, 4, 3); }},
  };
  std::string text;
  for (const auto& [name, build] : networks) {
    Network net;
    build(net);
    for (const char* preset : {"least", "adreno-6xx", "buffers4"}) {
      const gpu::Target target = target_of(preset);
      std::uint64_t free = 0;
      const auto add = [&](const char* what, const PlanOptions& options) {
        const auto plan = checked_plan(net.graph, target, options);
        text += std::string(name) + ", " + preset + ", " + what + ": " +
                (plan.ok() ? figures(*plan) : plan.status().message()) + "\n";
        if (plan.ok() && free == 0) free = plan->transient_bytes;
      };
      add("free", {});
      add("in the order given, nothing merged, in place or fused",
          {.reorder = false, .in_place = false, .merge = false, .fuse = false});
      add("arena of 3/4", {.arena_limit = free * 3 / 4});
      add("arena of 1/2", {.arena_limit = free / 2});
      add("arena of 1/2, nothing computed again", {.arena_limit = free / 2, .recompute = false});
      add("least memory", {.least_memory = true});
    }
  }
  expect_golden("plans_of_networks.txt", text);
}

TEST(PlanFigures, OfTrainingRuns) {
  const Model language = plain_model(tiny_llama({.width = 128, .inner = 256, .layers = 4, .vocabulary = 64}));
  auto adapted = with_lora(language, parse_lora("r=2,alpha=4,targets=q_proj|v_proj").value(), 3);
  ASSERT_TRUE(adapted.ok()) << adapted.status().message();
  train::TrainOptions of_images, of_texts;
  of_texts.batch = 8;
  of_texts.bindings = {{"seq", 24}};
  of_images.batch = 24;
  const TinyModel images = lenet(0.1);
  struct Case {
    const char* name;
    const Graph& graph;
    train::TrainOptions options;
    const char* preset;
    DType precision;
  };
  const Case cases[] = {
      {"lenet", images.graph, of_images, "least", DType::f32},
      {"lenet", images.graph, of_images, "adreno-7xx", DType::f16},
      {"language model", language.graph, of_texts, "adreno-7xx", DType::f16},
      {"language model with adapters", adapted->graph, of_texts, "least", DType::f32},
  };
  std::string text;
  for (const auto& [name, graph, options, preset, precision] : cases) {
    std::uint64_t free = 0;
    for (const std::uint64_t eighths : {0, 6, 4, 2}) {
      train::TrainOptions some = options;
      some.precision = precision;
      train::PlanRequest request;
      request.samples = 60;
      request.evaluation_samples = 10;
      request.checkpoints = &graph == &adapted->graph;
      request.shrink_micro_batch = true;
      request.plan.budget = free * eighths / 8;
      const auto plan = train::plan_training(graph, some, request, target_of(preset));
      text += std::string(name) + ", " + preset + ", " + std::string(dtype_name(precision)) + ", " +
              (eighths == 0 ? "free" : std::to_string(eighths) + "/8 of it") + ":\n";
      if (!plan.ok()) {
        text += "  " + plan.status().message() + "\n";
        continue;
      }
      if (free == 0) free = plan->memory().total();
      text += "  " + std::to_string(plan->memory().total()) + " bytes, micro-batch " +
              std::to_string(plan->micro_batch) + ", " + std::to_string(plan->precision.low_precision_values()) +
              " values in 16 bits\n";
      for (const std::string& reason : plan->choice.reasons) text += "  " + reason + "\n";
      for (const Plan* part : plan->plans()) text += "  " + figures(*part) + "\n";
    }
  }
  expect_golden("plans_of_training.txt", text);
}

}  // namespace
}  // namespace graft::test::plan_figures_test
