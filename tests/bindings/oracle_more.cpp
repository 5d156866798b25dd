// What the C++ API gives of language models, data sets, evaluations, deltas, importance and plans.
#include "tests/bindings/oracle_more.h"

#include <graft/plan.h>
#include <graft/verify.h>
#include <graft/delta.hpp>
#include <graft/evaluate.hpp>

#include <cmath>
#include <cstring>

namespace graft::test {
namespace {

constexpr int kTaughtSteps = 3;

void distil(Oracle& to, graft::Context& context, graft::Model& student, graft::Model& teacher) {
  auto set = to.need(context.open_data("text:" + to.folder + "/letters.txt", student, {.length = 12}), "text");
  auto trainer = to.need(student.trainer({.distill_weight = 0.75,
                                          .teacher = teacher.get(),
                                          .learning_rate = 0.01,
                                          .batch = 2,
                                          .seed = 3,
                                          .data = &set}),
                         "a taught trainer");
  auto loader = to.need(set.loader({.batch = 2, .seed = 7, .epochs = 9}), "loader");
  std::vector<double> losses;
  for (int step = 0; step < kTaughtSteps; ++step) {
    const auto metrics = to.need(trainer.train_next(loader), "a taught step");
    losses.push_back(metrics->loss);
  }
  to.write("taught.f64", std::span<const double>(losses));
  to.need(trainer.store(), "store");
  to.need(student.save(to.folder + "/taught.graft"), "save");
}

void generate(Oracle& to, graft::Model& model) {
  const graft::GenerateOptions options = {.max_tokens = 8,
                                          .temperature = 1.5,
                                          .seed = 11,
                                          .bias = {{2, 3.0f}, {4, -INFINITY}},
                                          .log_probabilities = true,
                                          .most_probable = 2,
                                          .grammar = "root ::= [a-f]+"};
  auto generator = to.need(model.generator({.context = 40, .cache = GRAFT_CACHE_F16, .sequences = 2}), "several");
  to.need(generator.submit("abc", options), "submit");
  to.need(generator.submit("abd", options), "submit");
  std::string texts;
  std::vector<float> sure;
  while (to.need(generator.step(), "step") != 0) {
  }
  for (auto one = generator.finished(); one.id != 0; one = generator.finished()) {
    const auto text = to.need(std::move(one.text), "a text");
    texts += text.text + "\n";
    sure.insert(sure.end(), text.log_probabilities.begin(), text.log_probabilities.end());
    for (const auto& beside : text.most_probable) sure.push_back(beside.log_probability);
  }
  to.write("several.txt", std::span<const char>(texts));
  to.write("several.f32", std::span<const float>(sure));
}

void embed(Oracle& to, graft::Model& model) {
  auto embedder = to.need(model.embedder({.pooling = GRAFT_POOLING_MEAN, .normalize = true, .length = 16}), "embedder");
  const auto vectors = to.need(embedder.embed(std::vector<std::string>{"abc", "ponm"}), "embed");
  to.write("vectors.f32", std::span<const float>(vectors.numbers));
  auto importance = to.need(model.importance({.context = 16}), "importance");
  const std::string text(40, 'c');
  to.need(importance.add(text), "add");
  while (to.need(importance.step(), "chunk") != 0) {
  }
  std::vector<double> sums;
  for (const auto& matrix : importance.matrices()) sums.insert(sums.end(), matrix.sums.begin(), matrix.sums.end());
  to.write("importance.f64", std::span<const double>(sums));
}

void evaluate(Oracle& to, graft::Context& context, graft::Model& before, graft::Model& now) {
  auto set = to.need(context.data_from_memory({{.name = "x", .dims = {kOracleInputs}},
                                               {.name = "label", .dtype = GRAFT_I32, .is_label = true}},
                                              {to.x.data(), to.labels.data()}, to.labels.size()),
                     "data");
  const graft::EvaluationOptions options = {.metrics = {"f1", "accuracy"}, .confusion = true, .outcomes = true};
  auto old = to.need(graft::Evaluation::of(before, set, options), "evaluation");
  auto made = to.need(graft::Evaluation::of(now, set, options), "evaluation");
  std::vector<double> numbers = {to.need(made.totals(), "totals").loss, to.need(made.totals(), "totals").accuracy};
  for (const auto& metric : made.metrics()) {
    numbers.push_back(metric.value);
    numbers.insert(numbers.end(), metric.by_class.begin(), metric.by_class.end());
  }
  for (const auto& row : made.confusion()) numbers.insert(numbers.end(), row.begin(), row.end());
  const auto compared = to.need(made.compare(old), "compare");
  for (const std::uint64_t count : {compared.only_old, compared.only_new, std::uint64_t{compared.changed.size()},
                                    std::uint64_t{compared.lost.size()}}) {
    numbers.push_back(static_cast<double>(count));
  }
  numbers.push_back(compared.p_value);
  to.write("evaluation.f64", std::span<const double>(numbers));
}

void federate(Oracle& to, graft::Context& context, graft::Model& base, graft::Model& updated) {
  auto delta = to.need(graft::Delta::make(base, updated, {.samples = 48, .coding = GRAFT_DELTA_INT8, .clip_norm = 0.5}),
                       "delta");
  const auto bytes = to.need(delta.bytes(), "bytes");
  to.write("delta.bin", bytes);
  auto other = to.need(graft::Delta::make(base, updated, {.samples = 16}), "delta");
  auto average = to.need(graft::Delta::average(context, {&delta, &other}), "average");
  to.need(base.apply(average, 0.5), "apply");
  to.need(base.save(to.folder + "/federated.graft"), "save");
}

void plan(Oracle& to, graft::Model& model) {
  const TrainerOptions wanted = {.batch = 4};
  const detail::RawTrainerOptions training(wanted);
  auto options = detail::sized<graft_plan_options>();
  options.training = training.get();
  options.curve = 1;
  graft_plan* made = nullptr;
  to.need(detail::to_status(graft_plan_create(model.get(), &options, &made), model.context()), "plan");
  std::vector<std::int64_t> numbers;
  const auto note = [&](auto... values) { (numbers.push_back(static_cast<std::int64_t>(values)), ...); };
  for (std::size_t i = 0; i < graft_plan_node_count(made); ++i) {
    auto node = detail::sized<graft_plan_node>();
    if (graft_plan_node_at(made, i, &node) == GRAFT_OK)
      note(std::strlen(node.name), node.flops, node.bytes, node.dispatches);
  }
  for (std::size_t i = 0; i < graft_plan_value_count(made); ++i) {
    auto value = detail::sized<graft_plan_value>();
    if (graft_plan_value_at(made, i, &value) == GRAFT_OK) note(value.offset, value.bytes, value.first, value.last);
  }
  const graft_plan_point* points = nullptr;
  std::size_t count = 0;
  to.need(detail::to_status(graft_plan_curve(made, &points, &count), model.context()), "curve");
  for (std::size_t i = 0; i < count; ++i) note(points[i].bytes, points[i].recomputed);
  graft_plan_destroy(made);
  const graft_layer* layers = nullptr;
  const graft_binding batch = {"batch", 4};
  to.need(detail::to_status(graft_model_layers(model.get(), &batch, 1, &layers, &count), model.context()), "layers");
  for (std::size_t i = 0; i < count; ++i) note(layers[i].parameters, layers[i].bytes, layers[i].flops);
  to.write("plan.i64", std::span<const std::int64_t>(numbers));
}

}  // namespace

void write_more(Oracle& to, graft::Context& context) {
  const auto load = [&](const char* name) { return to.need(context.load(to.folder + "/" + name), name); };
  std::string text;
  for (int i = 0; i < 200; ++i) text += static_cast<char>('a' + (i * i + i / 7) % 16);
  to.write("letters.txt", std::span<const char>(text));
  auto letters = load("letters.graft"), teacher = load("teacher.graft");
  generate(to, letters);
  embed(to, letters);
  distil(to, context, letters, teacher);
  auto base = load("mlp.graft"), trained = load("trained.graft");
  evaluate(to, context, base, trained);
  plan(to, base);
  federate(to, context, base, trained);
}

}  // namespace graft::test
