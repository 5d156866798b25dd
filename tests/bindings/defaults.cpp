// As defaults.c, in C++.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <graft/graft.hpp>

#include "set_option.hpp"

namespace {

/// Sets the options of OPTIMIZER[@FILE]; false if one cannot be read.
bool read_options(const std::string& text, graft::TrainerOptions& options) {
  options.optimizer = static_cast<graft_optimizer>(std::atoi(text.c_str()));
  const std::size_t at = text.find('@');
  if (at == std::string::npos) return true;
  std::ifstream file(text.substr(at + 1));
  if (!file) return false;
  for (std::string line; std::getline(file, line);) {
    const std::size_t sign = line.find('=');
    if (sign == std::string::npos || !set_option(options, line.substr(0, sign), line.substr(sign + 1))) return false;
  }
  return true;
}

graft::Status train(graft::Context& context, const char* path, const char* spec, graft::TrainerOptions options,
                    const char* out) {
  auto model = context.load(path);
  if (!model.ok()) return model.status();
  auto set = context.open_data(spec, *model);
  if (!set.ok()) return set.status();
  auto loader = set->loader({.batch = 4, .seed = options.seed, .epochs = 1});
  if (!loader.ok()) return loader.status();
  options.batch = 4;
  options.data = &*set;
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
  int failed = 0;
  for (int i = 3; i < argc; i += 3) {
    graft::TrainerOptions options = {.loss = static_cast<graft_loss>(std::atoi(argv[i]))};
    if (!read_options(argv[i + 1], options)) {
      std::fprintf(stderr, "%s: the options %s cannot be read\n", argv[i + 2], argv[i + 1]);
      failed = 1;
      continue;
    }
    graft::Status done = train(*context, argv[1], argv[2], std::move(options), argv[i + 2]);
    if (done.ok()) continue;
    std::fprintf(stderr, "%s: %s\n", argv[i + 2], done.message().c_str());
    failed = 1;
  }
  return failed;
}
