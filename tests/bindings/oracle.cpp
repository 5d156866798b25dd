// Writes what the tests of the bindings (Kotlin and Java, Swift) read and compare with: model files, samples, and what
// the C++ API makes of them on the same device. Usage: bindings_oracle FOLDER. Exit status 77: there is no device.
#include <graft/graft.hpp>

#include <filesystem>

#include "tests/bindings/oracle_more.h"

namespace {

using graft::test::kOracleClasses;
using graft::test::kOracleInputs;

constexpr std::uint32_t kSamples = 4;
constexpr int kSteps = 12;

graft::test::Oracle g_to;

template <typename T>
void write(const std::string& name, std::span<const T> values) {
  g_to.write(name, values);
}

template <typename T>
auto need(T result, const char* what) {
  return g_to.need(std::move(result), what);
}

void run(graft::Model& model, const std::vector<float>& x, const std::vector<float>& cotangent) {
  auto session =
      need(model.session({.bindings = {{"batch", kSamples}}, .of = "y", .wrt = {"fc1.weight", "x"}}), "session");
  need(session.set_input("x", std::span<const float>(x)), "x");
  need(session.set_input("cotangent", std::span<const float>(cotangent)), "cotangent");
  need(session.run(), "run");
  write("y.f32", need(session.output<float>("y"), "y"));
  write("grad_fc1.f32", need(session.gradient("fc1.weight"), "gradient"));
  write("grad_x.f32", need(session.gradient("x"), "gradient"));
  auto split =
      need(model.gradients({.of = "y", .wrt = {"fc1.weight"}, .bindings = {{"batch", kSamples}}, .micro_batch = 2},
                           {{"x", std::as_bytes(std::span(x))}, {"cotangent", std::as_bytes(std::span(cotangent))}}),
           "gradients");
  write("split_fc1.f32", need(split.gradient("fc1.weight"), "gradients").as<float>());
}

void train(graft::Model& model, const std::vector<float>& x, const std::vector<std::int32_t>& labels) {
  const graft::TrainerOptions options = {.optimizer = GRAFT_ADAMW, .learning_rate = 0.05, .batch = kSamples, .seed = 3};
  const auto forecast = need(model.forecast(options), "forecast");
  const std::int64_t numbers[] = {static_cast<std::int64_t>(forecast.total), static_cast<std::int64_t>(forecast.flops)};
  write("forecast.i64", std::span<const std::int64_t>(numbers));
  auto trainer = need(model.trainer(options), "trainer");
  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step) {
    const std::size_t first = static_cast<std::size_t>(step) * kSamples;
    const auto metrics =
        need(trainer.train_step({x.data() + first * kOracleInputs}, labels.data() + first, kSamples), "step");
    losses.push_back(metrics.loss);
  }
  write("losses.f64", std::span<const double>(losses));
  need(trainer.store(), "store");
  need(model.save(g_to.folder + "/trained.graft"), "save");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  g_to.folder = argv[1];
  std::filesystem::create_directories(g_to.folder);
  const std::string device = graft::test::oracle_device();
  auto made = graft::Context::create({.device = device});
  if (!made.ok() && made.status().code() == GRAFT_NOT_FOUND) return 77;
  auto context = need(std::move(made), "context");
  write("device.txt", std::span<const char>(device));

  if (!graft::test::write_oracle_models(g_to.folder)) return 1;
  const auto x = graft::test::oracle_samples(kSamples * kSteps);
  std::vector<std::int32_t> labels;
  for (std::uint32_t i = 0; i < kSamples * kSteps; ++i) labels.push_back(static_cast<std::int32_t>(i) % kOracleClasses);
  write("batches.f32", std::span<const float>(x));
  write("labels.i32", std::span<const std::int32_t>(labels));
  std::vector<float> cotangent;
  for (std::uint32_t i = 0; i < kSamples * kOracleClasses; ++i)
    cotangent.push_back(0.25f * static_cast<float>(i % 5) - 0.4f);
  write("cotangent.f32", std::span<const float>(cotangent));
  auto model = need(context.load(g_to.folder + "/mlp.graft"), "mlp");
  run(model, {x.begin(), x.begin() + kSamples * kOracleInputs}, cotangent);
  train(model, x, labels);

  auto language = need(context.load(g_to.folder + "/letters.graft"), "letters");
  {
    auto generator = need(language.generator(), "generator");
    write("text.txt", std::span<const char>(
                          need(generator.generate("abc", {.max_tokens = 12, .temperature = 1.5, .seed = 11}), "text")));
  }
  need(language.add_adapters("r=2,alpha=4", 5), "adapters");
  need(language.save_adapters(g_to.folder + "/adapters.graft"), "adapters");
  g_to.x = x;
  g_to.labels = labels;
  graft::test::write_more(g_to, context);
  return 0;
}
