// graft merge: an adapter's product added to the weights, which gives an ordinary model.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "tools/common/numbers.h"
#include "tools/common/status.h"
#include "tools/common/terminal.h"
#include "tools/graft/report/checkpoint_report.h"
#include "tools/graft/shared/command.h"
#include "tools/graft/shared/output.h"
#include "tools/graft/shared/put_adapters.h"
#include "tools/graft/shared/quantize_flag.h"

namespace graft::cli {
namespace {

struct MergeArguments {
  std::string path;
  AdapterFlags adapter;
  std::string output;
  std::string quantize;
  std::string add_tokens;
  bool apart = false;
  bool in_place = false;
  bool json = false;
};

/// The model with what is merged on it: the files' adapters, or tokens whose rows begin as training begins with them.
Result<Owned<graft_model>> open_merged(graft_context* context, const MergeArguments& options) {
  TRY_ASSIGN(auto model, open_model(context, options.path, GRAFT_CHECK_AT_ONCE));
  if (options.adapter.files.empty() == options.add_tokens.empty()) {
    return invalid("Give --adapter, what is merged, or --add-tokens; one of them.");
  }
  if (options.add_tokens.empty()) {
    TRY(put_adapters(context, model.get(), options.path, options.adapter));
    return model;
  }
  TRY_ASSIGN(const std::string tokens, new_tokens_json(options.add_tokens));
  TRY(checked(graft_model_add_tokens(model.get(), tokens.c_str()), context));
  return model;
}

Status run_merge(const MergeArguments& options) {
  Outputs outputs;
  outputs.replaces("the model", options.path, options.in_place);
  for (const std::string& file : adapter_files(options.adapter)) outputs.reads("the adapter", file);
  TRY(outputs.model("-o", options.output));
  TRY_ASSIGN(const auto opened, open_context_without_device());
  graft_context* const context = opened.get();
  TRY_ASSIGN(const auto model, open_merged(context, options));
  if (!options.apart) {
    const char* const quantize = options.quantize.empty() ? nullptr : options.quantize.c_str();
    const bool of_file = !options.adapter.files.empty();
    TRY(checked(graft_model_merge_adapters(model.get(), quantize), context)
            .with_context(of_file ? cat("While merging the adapter \"", options.adapter.files.front(), "\"")
                                  : "While adding tokens"));
  }
  TRY(save_output(options.output, [&](const std::string& path) {
    return checked(options.apart ? graft_model_save_adapters(model.get(), path.c_str())
                                 : graft_model_save(model.get(), path.c_str()),
                   context);
  }));
  if (options.json) {
    print_json(
        {{"output", options.output}, {"merged", adapter_files(options.adapter)}, {"adapter_only", options.apart}});
  } else {
    to_stdout("Wrote %s.\n", options.output.c_str());
  }
  return ok_status();
}

}  // namespace

Action add_merge(CLI::App& app) {
  auto options = std::make_shared<MergeArguments>();
  app.add_option("MODEL", options->path,
                 "A .graft file; weights that are blocks become f32 where the adapter adds to them")
      ->required();
  add_adapter_flags(app, options->adapter);
  app.add_option("--add-tokens", options->add_tokens,
                 "Add tokens to the vocabulary, with rows that are the mean of all: '<|tool|>,<|end|>', or a file with "
                 "one on each line (.json: an array)");
  app.add_option("-o,--output", options->output, "The merged model")->required();
  add_in_place_flag(app, options->in_place);
  add_quantize_flag(app, options->quantize,
                    "Merged matrices become blocks of this format, frozen; rows that are no whole blocks of 256 the "
                    "next better blocks of 32");
  app.add_flag("--adapter-only", options->apart,
               "Write the adapters alone, several as one whose rank is the sum of theirs; the model stays as it is");
  app.add_flag("--json", options->json, "Print JSON");
  app.callback([&app, options] { refuse_idle(app, options->apart, {"--quantize"}, "with --adapter-only."); });
  return [options] { return run_merge(*options); };
}

}  // namespace graft::cli
