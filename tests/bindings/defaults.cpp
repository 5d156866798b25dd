// As defaults.c, in C++.
#include <cstdio>
#include <cstdlib>
#include <graft/graft.hpp>

namespace {

graft::Status train(graft::Context& context, const char* path, const char* spec, int loss, int optimizer,
                    const char* out) {
  auto model = context.load(path);
  if (!model.ok()) return model.status();
  auto set = context.open_data(spec, *model);
  if (!set.ok()) return set.status();
  auto loader = set->loader({.batch = 4, .epochs = 1});
  if (!loader.ok()) return loader.status();
  const graft::TrainerOptions options = {.loss = static_cast<graft_loss>(loss),
                                         .optimizer = static_cast<graft_optimizer>(optimizer),
                                         .batch = 4,
                                         .data = &*set};
  auto trainer = model->trainer(options);
  if (!trainer.ok()) return trainer.status();
  for (bool more = true; more;) {
    auto step = trainer->train_next(*loader);
    if (!step.ok()) return step.status();
    more = step->has_value();
  }
  graft::Status stored = trainer->store();
  return stored.ok() ? model->save(out) : stored;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc % 3 != 0) return 2;
  auto context = graft::Context::create();
  if (!context.ok()) {
    std::fprintf(stderr, "%s\n", context.status().message().c_str());
    return 77;  // no device here: skipped
  }
  for (int i = 3; i < argc; i += 3) {
    graft::Status done = train(*context, argv[1], argv[2], std::atoi(argv[i]), std::atoi(argv[i + 1]), argv[i + 2]);
    if (done.ok()) continue;
    std::fprintf(stderr, "%s\n", done.message().c_str());
    return 1;
  }
  return 0;
}
