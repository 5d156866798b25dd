// graft merge: an adapter's product added to the weights, which gives an ordinary model.
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "runtime/core/quantized.h"
#include "runtime/lora/adapter.h"
#include "tools/bench/model_io.h"
#include "tools/common/numbers.h"
#include "tools/common/status.h"
#include "tools/graft/adapted_model.h"
#include "tools/graft/command.h"
#include "tools/graft/output.h"
#include "tools/graft/quantize_flag.h"

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
};

/// What is merged: the files' adapters, or tokens whose rows begin as training begins with them.
struct Added {
  std::optional<Model> longer;  ///< what `adapter` borrows from
  Model adapter;
};
Result<Added> read_added(const MergeArguments& options, const Model& base) {
  Added out;
  if (options.adapter.files.empty() == options.add_tokens.empty()) {
    return invalid("Give --adapter, what is merged, or --add-tokens; one of them.");
  }
  if (options.add_tokens.empty()) {
    TRY_ASSIGN(out.adapter, read_adapter(options.adapter, base));
    return out;
  }
  TRY_ASSIGN(const std::vector<NewToken> tokens, read_new_tokens(options.add_tokens));
  TRY_ASSIGN(out.longer, with_new_tokens(base, tokens));
  TRY_ASSIGN(out.adapter, adapter_of(*out.longer));
  return out;
}

Status run_merge(const MergeArguments& options) {
  Outputs outputs;
  outputs.replaces("the model", options.path, options.in_place);
  for (const std::string& file : adapter_files(options.adapter)) outputs.reads("the adapter", file);
  TRY(outputs.file("-o", options.output));
  TRY_ASSIGN(const Model base, open_model(options.path, WeightCheck::at_once));
  TRY_ASSIGN(const Added added, read_added(options, base));
  const Model& adapter = added.adapter;
  if (options.apart) {
    TRY(with_adapter(base, adapter).status());  // it fits
    TRY(save_output(options.output, saver_of(adapter)));
    std::printf("Wrote %s.\n", options.output.c_str());
    return ok_status();
  }
  TRY_ASSIGN(const auto blocks, parse_block_format(options.quantize));
  auto merged = merge_adapter(base, adapter, blocks);
  if (!merged.ok()) {
    const bool of_file = !options.adapter.files.empty();
    return std::move(merged).status().with_context(
        of_file ? cat("While merging the adapter \"", options.adapter.files.front(), "\"") : "While adding tokens");
  }
  TRY(save_output(options.output, saver_of(*merged)));
  std::printf("Wrote %s.\n", options.output.c_str());
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
  app.callback([&app, options] { refuse_idle(app, options->apart, {"--quantize"}, "with --adapter-only."); });
  return [options] { return run_merge(*options); };
}

}  // namespace graft::cli
