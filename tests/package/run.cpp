// A run as its app shows it, by the C++ headers: steps in parts, a model of the weights so far, an evaluation, the gate
// before they are used, a federated round, and two threads that take the same steps together. usage: run_cpp MODEL
// FOLDER
#include <graft/averager.hpp>
#include <graft/delta.hpp>
#include <graft/evaluate.hpp>
#include <graft/graft.hpp>
#include <graft/residual.hpp>

#include <cstdio>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr std::uint32_t kBatch = 8;
constexpr int kSteps = 3;
const char* const kData = "digits:?count=64";

int fail(const char* what, const graft::Status& status) {
  std::fprintf(stderr, "%s: %s\n", what, status.message().c_str());
  return 1;
}

/// Steps of two micro-batches, one of them at a time; what the run is, and what each step was.
int steps_in_parts(graft::Trainer& trainer, graft::Loader& loader) {
  int parts = 0;
  for (int step = 0; step < kSteps;) {
    auto part = trainer.train_next_part(loader);
    if (!part.ok()) return fail("a part", part.status());
    ++parts;
    if (part->done) ++step;
  }
  auto plan = trainer.describe();
  auto last = trainer.last_step();
  auto place = trainer.place();
  auto epoch = trainer.epoch();
  if (!plan.ok() || !last.ok() || !place.ok() || !epoch.ok()) return fail("the run", plan.status());
  const std::vector<graft::TensorInfo> trained = trainer.parameters();
  std::printf("step %d in %d parts, loss %g; %zu parameters, the first is %s\n", static_cast<int>(last->info.step),
              parts, last->totals.loss, trained.size(), trained.at(0).name);
  if (parts != 2 * kSteps || place->step != kSteps || trained.size() != plan->tensors) return fail("its numbers", {});
  return trainer.workers().empty() ? 0 : fail("nobody else is there", {});
}

/// The weights so far beside those that the run began with: evaluated, compared, and saved where they hold.
int judges(graft::Model& model, graft::Trainer& trainer, graft::DataSet& held, const std::string& folder) {
  auto now = graft::Model::copy(trainer, false);
  if (!now.ok()) return fail("copy", now.status());
  const char* const name = trainer.parameters().at(0).name;
  if (*now->read(name) == *model.read(name)) return fail("nothing was trained", {});
  auto evaluation = graft::Evaluation::of(*now, held, {.metrics = {"accuracy"}, .outcomes = true});
  if (!evaluation.ok()) return fail("evaluation", evaluation.status());
  auto verdict =
      now->gate(&model, held, {.conditions = "accuracy>=0,loss<=1000", .margin = 1000}, folder + "/gated.graft");
  const std::vector<graft::GateRow> rows = now->gate_conditions();
  if (!verdict.ok()) return fail("gate", verdict.status());
  if (!verdict->passed || rows.size() != 2 || rows[0].metric != "accuracy") {
    return fail("the gate", graft::Status(GRAFT_NOT_FOUND, verdict->reason));
  }
  if (rows[0].now != evaluation->metrics().at(0).value) return fail("another accuracy", {});
  auto differs = now->gate_compare();
  if (!differs.ok() || differs->samples != 64) return fail("comparison", differs.status());
  auto refused = now->gate(nullptr, held, {.conditions = "accuracy>=1.5"});
  if (!refused.ok() || refused->passed || refused->reason.empty() || now->gate_conditions().at(0).holds) {
    return fail("nothing was refused", refused.status());
  }
  // There was no old one.
  return now->gate_compare().status().code() == GRAFT_NOT_FOUND ? 0 : fail("compared with nothing", {});
}

/// A round of two clients, who train one after the other on one trainer, from the same weights on.
int clients(const graft::Context& context, graft::DataSet& data, graft::Trainer& trainer) {
  auto global = graft::Model::copy(trainer, false);
  if (!global.ok()) return fail("global", global.status());
  auto rows = data.split("shards=1", 2, 1);
  if (!rows.ok() || rows->size() != 2) return fail("split", rows.status());
  auto averager = graft::Averager::create(context);
  if (!averager.ok()) return fail("averager", averager.status());
  for (const auto& its : *rows) {
    if (auto begun = trainer.restart(&*global); !begun.ok()) return fail("restart", begun);
    auto part = data.select(its);
    if (!part.ok() || part->samples() != its.size()) return fail("select", part.status());
    auto loader = part->loader({.batch = kBatch, .epochs = 1});
    if (!loader.ok()) return fail("a client's loader", loader.status());
    for (bool more = true; more;) {
      auto step = trainer.train_next(*loader);
      if (!step.ok()) return fail("a client's step", step.status());
      more = step->has_value();
    }
    auto trained = graft::Model::copy(trainer, false);
    auto kept = graft::Residual::create(context);  // a client's own, from round to round
    if (!trained.ok() || !kept.ok()) return fail("trained", trained.status());
    auto delta =
        graft::Delta::make(*global, *trained, {.samples = its.size(), .coding = GRAFT_DELTA_INT8, .kept = &*kept});
    if (!delta.ok()) return fail("delta", delta.status());
    if (auto added = averager->add(*delta); !added.ok()) return fail("add", added);
  }
  auto average = averager->finish();
  if (!average.ok()) return fail("average", average.status());
  auto applied = global->apply(*average, 1);
  return applied.ok() ? 0 : fail("apply", applied);
}

/// One of two workers, with a device of its own, or one alone (end = null).
struct Worker {
  graft_group* end = nullptr;
  bool good = false;
  std::vector<float> weights = {};

  graft::Status run(const char* path) {
    auto context = graft::Context::create();
    if (!context.ok()) return context.status();
    auto model = context->load(path);
    if (!model.ok()) return model.status();
    auto data = context->open_data(kData, *model);
    if (!data.ok()) return data.status();
    auto loader = data->loader({.batch = kBatch});
    if (!loader.ok()) return loader.status();
    auto trainer = model->trainer({.batch = kBatch, .micro_batch = 2, .data = &*data, .group = end});
    if (!trainer.ok()) return trainer.status();
    if (end != nullptr) {
      if (auto joined = trainer->join(&*loader); !joined.ok()) return joined.status();
    }
    for (int step = 0; step < kSteps; ++step) {
      if (auto done = trainer->train_next(*loader); !done.ok()) return done.status();
    }
    auto read = trainer->read(trainer->parameters().at(0).name);
    if (!read.ok()) return read.status();
    weights = *read;
    good = true;
    if (end == nullptr) return {};
    auto whole = trainer->request_whole();
    if (!whole.ok()) return whole.status();
    good = trainer->workers().size() == 2 && trainer->trouble() == GRAFT_GROUP_FINE;
    good = good && trainer->meet().code() == GRAFT_INVALID_ARGUMENT;  // nobody is gone
    auto ended = trainer->conclude(true);
    if (!ended.ok()) return ended.status();
    good = good && *ended;
    return {};
  }
};

int together(const char* path) {
  Worker alone;
  if (auto done = alone.run(path); !done.ok()) return fail("alone", done);
  graft::ThreadGroup ends(2);
  if (ends.size() != 2) return fail("no group", {});
  Worker workers[2] = {{&ends[0]}, {&ends[1]}};
  graft::Status others;
  std::thread second([&] { others = workers[1].run(path); });
  const graft::Status first = workers[0].run(path);
  second.join();
  if (!first.ok()) return fail("worker 0", first);
  if (!others.ok()) return fail("worker 1", others);
  if (!workers[0].good || !workers[1].good) return fail("the end", {});
  return workers[0].weights == alone.weights && workers[1].weights == alone.weights ? 0 : fail("other weights", {});
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
  auto data = context->open_data(kData, *model);
  auto held = context->open_data(kData, *model, {.evaluation = true});
  if (!data.ok() || !held.ok()) return fail("data", data.status());
  auto loader = data->loader({.batch = kBatch});
  auto trainer = model->trainer({.batch = kBatch, .micro_batch = kBatch / 2, .data = &*data});
  if (!loader.ok() || !trainer.ok()) return fail("trainer", trainer.status());
  if (int failed = steps_in_parts(*trainer, *loader); failed != 0) return failed;
  if (int failed = judges(*model, *trainer, *held, argv[2]); failed != 0) return failed;
  {
    const auto over = std::move(loader);  // a set has one loader at a time, a part's too
  }
  if (int failed = clients(*context, *data, *trainer); failed != 0) return failed;
  return together(argv[1]);
}
