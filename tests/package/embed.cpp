// Loads a model, runs it with gradients, trains it: in C++, against the installed package.
// usage: embed_cpp MODEL CHECKPOINT_FOLDER
#include <graft/graft.hpp>

#include <cstdio>
#include <span>
#include <vector>

namespace {

int fail(const char* what, const graft::Status& status) {
  std::fprintf(stderr, "%s: %s\n", what, status.message().c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  auto context = graft::Context::create();
  if (!context.ok()) {
    fail("context", context.status());
    return 77;  // no device here: skipped
  }
  auto model = context->load(argv[1]);
  if (!model.ok()) return fail("load", model.status());
  const graft::TensorInfo input = model->inputs().at(0);
  const graft::TensorInfo output = model->outputs().at(0);
  std::size_t per_sample = 1;
  for (std::uint32_t i = 1; i < input.rank; ++i) per_sample *= static_cast<std::size_t>(input.dims[i]);
  constexpr std::uint32_t kSamples = 4;
  const std::vector<float> x(kSamples * per_sample, 0.25f);
  const std::vector<float> cotangent(kSamples * static_cast<std::size_t>(output.dims[1]), 1.0f);

  auto session = model->session({.bindings = {{"batch", kSamples}}, .of = output.name, .wrt = {input.name}});
  if (!session.ok()) return fail("session", session.status());
  if (auto set = session->set_input<float>(input.name, x); !set.ok()) return fail("input", set);
  if (auto set = session->set_input<float>("cotangent", cotangent); !set.ok()) return fail("cotangent", set);
  if (auto ran = session->run(); !ran.ok()) return fail("run", ran);
  if (auto ran = graft::run_async(*session).get(); !ran.ok()) return fail("run beside", ran);
  auto gradient = session->gradient(input.name);
  if (!gradient.ok()) return fail("gradient", gradient.status());
  double norm = 0;
  for (const float g : *gradient) norm += static_cast<double>(g) * g;
  std::printf("%zu gradients, sum of squares %g, %zu parameters\n", gradient->size(), norm,
              model->named_parameters().size());
  if (gradient->size() != x.size() || !(norm > 0)) return 1;

  auto pieces =
      model->gradients({.of = output.name, .wrt = {input.name}, .bindings = {{"batch", kSamples}}, .micro_batch = 1},
                       {{input.name, std::as_bytes(std::span(x))}, {"cotangent", std::as_bytes(std::span(cotangent))}});
  if (!pieces.ok()) return fail("gradients in pieces", pieces.status());
  auto piece = pieces->gradient(input.name);
  if (!piece.ok() || piece->as<float>().size() != x.size()) return fail("gradient in pieces", piece.status());

  auto trainer =
      model->trainer({.optimizer = GRAFT_SGD, .learning_rate = 0.01, .batch = kSamples, .fetch = {output.name}});
  if (!trainer.ok()) return fail("trainer", trainer.status());
  auto rows = model->dimension(GRAFT_INPUTS, 0, 0);
  if (!rows.ok() || *rows != "batch" || trainer->samples().size() != 2) return fail("shapes", rows.status());
  const std::vector<std::int32_t> labels = {1, 2, 3, 4};
  auto metrics = trainer->train_step({x.data()}, labels.data(), kSamples);
  if (!metrics.ok()) return fail("step", metrics.status());
  std::printf("loss %f\n", metrics->loss);
  if (metrics->step != 1) return 1;
  auto beside = graft::train_step_async(*trainer, {x.data()}, labels.data(), kSamples, *metrics);
  if (auto step = beside.get(); !step.ok()) return fail("step beside", step);
  if (metrics->step != 2) return 1;
  auto fetched = trainer->fetch(output.name);
  if (!fetched.ok() || fetched->as<float>().size() != cotangent.size()) return fail("fetch", fetched.status());
  if (auto trimmed = trainer->trim(1); !trimmed.ok()) return fail("trim", trimmed);

  // Kept in a folder, stopped in the middle of a step, and gone on with: as if nothing had happened.
  const graft::TrainerOptions kept = {.learning_rate = 0.01, .batch = kSamples, .micro_batch = 2, .checkpoints = true};
  const graft::CheckpointOptions options = {
      .folder = argv[2], .resume = true, .data = "a quarter everywhere", .metadata = {{"app", "embed_cpp"}}};
  double expected = 0;
  {
    auto whole = model->trainer(kept);
    if (!whole.ok()) return fail("trainer", whole.status());
    for (int step = 0; step < 3; ++step) {
      auto result = whole->train_step({x.data()}, labels.data(), kSamples);
      if (!result.ok()) return fail("step", result.status());
      expected = result->loss;
    }
  }
  {
    auto first = model->trainer(kept);
    if (!first.ok()) return fail("trainer", first.status());
    if (auto opened = first->open_checkpoint(options); !opened.ok()) return fail("open", opened.status());
    if (auto step = first->train_step({x.data()}, labels.data(), kSamples); !step.ok())
      return fail("step", step.status());
    auto half = first->micro_step({x.data()}, labels.data(), kSamples);
    if (!half.ok()) return fail("half a step", half.status());
    if (half->has_value()) return 1;
    const std::byte place[] = {std::byte{1}};
    if (auto set = first->set_checkpoint_data(0, place); !set.ok()) return fail("data", set);
    if (auto saved = first->save_checkpoint("half"); !saved.ok()) return fail("save", saved);
  }
  auto second = model->trainer(kept);
  if (!second.ok()) return fail("trainer", second.status());
  auto opened = second->open_checkpoint(options);
  if (!opened.ok()) return fail("resume", opened.status());
  if (opened->step != 1 || opened->samples_done != 2) return 1;
  auto place = second->checkpoint_data(0);
  if (!place.ok() || place->size() != 1) return fail("data", place.status());
  double loss = 0;
  for (int step = 0; step < 2; ++step) {
    auto result = second->train_step({x.data()}, labels.data(), kSamples);
    if (!result.ok()) return fail("step", result.status());
    loss = result->loss;
  }
  std::printf("resumed at step %llu and a half, loss %f\n", static_cast<unsigned long long>(opened->step), loss);
  return loss == expected ? 0 : 1;
}
