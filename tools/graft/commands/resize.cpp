// graft resize: another number of classes for a classifier's last layer.
#include <cstdio>
#include <memory>
#include <string>

#include "tools/common/options.h"
#include "tools/common/status.h"
#include "tools/common/terminal.h"
#include "tools/graft/shared/command.h"
#include "tools/graft/shared/output.h"

namespace graft::cli {
namespace {

struct ResizeArguments {
  std::string path;
  std::string head;
  std::int64_t classes = 0;
  std::string names;
  std::uint32_t seed = 0;
  bool replace = false;
  std::string output;
  bool in_place = false;
};

Status run_resize(const ResizeArguments& options) {
  Outputs outputs;
  outputs.replaces("the model", options.path, options.in_place);
  TRY(outputs.file("-o", options.output));
  TRY_ASSIGN(const auto opened, open_context_without_device());
  graft_context* const context = opened.get();
  TRY_ASSIGN(const auto model, open_model(context, options.path, GRAFT_CHECK_AT_ONCE));
  const std::vector<std::string> names = split_list(options.names);
  std::vector<const char*> raw_names;
  for (const std::string& name : names) raw_names.push_back(name.c_str());
  graft_head_options head{};
  head.struct_size = sizeof head;
  head.output = options.head.empty() ? nullptr : options.head.c_str();
  head.classes = options.classes;
  head.replace = options.replace ? 1 : 0;
  head.seed = options.seed;
  head.class_names = raw_names.data();
  head.class_name_count = raw_names.size();
  TRY(checked(graft_model_resize_head(model.get(), &head), context));
  TRY(save_output(options.output, [&](const std::string& path) {
    return checked(graft_model_save(model.get(), path.c_str()), context);
  }));
  to_stdout("Wrote %s, with %lld classes.\n", options.output.c_str(), static_cast<long long>(options.classes));
  return ok_status();
}

}  // namespace

Action add_resize(CLI::App& app) {
  auto options = std::make_shared<ResizeArguments>();
  app.add_option("MODEL", options->path, "A .graft file with a classifier")->required();
  app.add_option("--classes", options->classes, "How many classes the last layer has then")->required();
  app.add_option("--head", options->head, "The output of the classes, where the model has several");
  app.add_option("--class-names", options->names,
                 "Names of the new classes, as in cat,dog; with --replace of all. Needed if the model knows names");
  app.add_flag("--replace", options->replace,
               "All rows of the last layer begin anew, and there may be fewer; else old rows keep their bits");
  app.add_option("--seed", options->seed, "Seed of new rows (0)");
  app.add_option("-o,--output", options->output, "The model with the new head")->required();
  add_in_place_flag(app, options->in_place);
  return [options] { return run_resize(*options); };
}

}  // namespace graft::cli
