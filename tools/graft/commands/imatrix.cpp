// graft imatrix: what the columns of a language model's matrices are multiplied with over a text, as an importance
// matrix. Over the C interface alone.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/common/numbers.h"
#include "tools/common/options.h"
#include "tools/common/progress.h"
#include "tools/common/terminal.h"
#include "tools/graft/shared/output.h"
#include "tools/graft/shared/public_api.h"

namespace graft::cli {
namespace {

struct ImatrixArguments {
  DeviceFlags flags;
  std::string path;
  std::vector<std::string> data;
  std::string output;
  std::uint32_t context = 0;
  std::uint64_t chunks = 0;
  bool head = false;
  bool parse_special = false;
  std::string budget;
  bool quiet = false;
  bool json = false;
};

/// "text:FILE", as data sets have it, or FILE.
std::string file_of(const std::string& spec) {
  constexpr std::string_view kText = "text:";
  return spec.starts_with(kText) ? spec.substr(kText.size()) : spec;
}

Result<std::string> read_calibration(const std::string& path) {
  TRY_ASSIGN(std::string text, text_of_file(path, SIZE_MAX));
  if (text.empty()) return invalid("The text \"", path, "\" is empty.");
  return text;
}

Result<Owned<graft_importance>> open_importance(graft_context* context, graft_model* model,
                                                const ImatrixArguments& given) {
  graft_importance_options options = {};
  options.struct_size = sizeof options;
  options.context = given.context;
  options.chunks = given.chunks;
  options.head = given.head ? 1 : 0;
  options.parse_special = given.parse_special ? 1 : 0;
  if (!given.budget.empty()) {
    TRY_ASSIGN(options.budget, parse_size(given.budget));
  }
  graft_importance* made = nullptr;
  const graft_status created = graft_importance_create(model, &options, &made);
  Owned<graft_importance> importance(made);
  TRY(checked(created, context));
  return importance;
}

/// As a file, or, without a name for one, whether that could be.
Status write_matrices(const graft_importance* importance, const graft_importance_info& info,
                      const ImatrixArguments& given, const char* output) {
  std::vector<graft_importance_matrix> matrices(graft_importance_count(importance));
  for (std::size_t i = 0; i < matrices.size(); ++i) graft_importance_at(importance, i, &matrices[i]);
  std::vector<std::string> files;
  for (const std::string& spec : given.data) files.push_back(file_of(spec));
  std::vector<const char*> datasets;
  for (const std::string& file : files) datasets.push_back(file.c_str());
  graft_imatrix_options options = {};
  options.struct_size = sizeof options;
  options.matrices = matrices.data();
  options.matrix_count = matrices.size();
  options.datasets = datasets.data();
  options.dataset_count = datasets.size();
  options.chunks = info.chunks;
  options.context = info.context;
  graft_conversion* made = nullptr;
  const graft_status written = graft_write_imatrix(given.path.c_str(), &options, output, &made);
  const Owned<graft_conversion> conversion(made);
  if (written == GRAFT_OK) return {};
  return error(static_cast<Code>(written), graft_conversion_message(made));
}

Result<graft_importance_info> info_of(const graft_importance* importance, const graft_context* context) {
  graft_importance_info info = {};
  info.struct_size = sizeof info;
  TRY(checked(graft_importance_describe(importance, &info), context));
  return info;
}

Status compute(graft_importance* importance, const graft_context* context, std::uint64_t chunks, bool quiet) {
  Progress progress("chunk", chunks, quiet);
  progress.update(0, "");
  for (std::uint64_t waiting = chunks; waiting != 0;) {
    TRY(checked(graft_importance_step(importance, &waiting), context));
    progress.update(chunks - waiting, "");
  }
  return {};
}

void print(const graft_importance* importance, const graft_importance_info& info, const ImatrixArguments& options,
           std::uint64_t bytes) {
  const std::size_t matrices = graft_importance_count(importance);
  const std::uint64_t tokens = info.chunks * info.context;
  if (options.json) {
    const nlohmann::ordered_json out = {{"file", options.output}, {"matrices", matrices},
                                        {"chunks", info.chunks},  {"context", info.context},
                                        {"tokens", tokens},       {"tokens_left_out", info.dropped},
                                        {"device_bytes", bytes}};
    to_stdout("%s\n", out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
    return;
  }
  to_stdout("Wrote %s: %zu matrices over %s tokens, %llu chunks of %u.\n", options.output.c_str(), matrices,
            grouped(tokens).c_str(), static_cast<unsigned long long>(info.chunks), info.context);
}

Status run_imatrix(const ImatrixArguments& options) {
  Outputs outputs;
  outputs.reads("the model", options.path);
  for (const std::string& spec : options.data) outputs.reads("the text", file_of(spec));
  TRY(outputs.file("-o", options.output));
  std::vector<std::string> texts;
  for (const std::string& spec : options.data) {
    TRY_ASSIGN(texts.emplace_back(), read_calibration(file_of(spec)));
  }
  TRY_ASSIGN(const auto context, open_context(options.flags));
  TRY_ASSIGN(const auto model, open_model(context.get(), options.path));
  TRY_ASSIGN(const auto importance, open_importance(context.get(), model.get(), options));
  TRY_ASSIGN(const auto planned, info_of(importance.get(), context.get()));
  TRY(write_matrices(importance.get(), planned, options, nullptr));
  std::uint64_t chunks = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const graft_status added = graft_importance_add(importance.get(), texts[i].data(), texts[i].size(), &chunks);
    TRY(checked(added, context.get()).with_context(cat("In \"", file_of(options.data[i]), "\"")));
  }
  graft_memory memory = {};
  memory.struct_size = sizeof memory;
  TRY(checked(graft_importance_memory(importance.get(), &memory), context.get()));
  if (!options.quiet) {
    to_stderr("%llu chunks of %u tokens, in %s of memory\n", static_cast<unsigned long long>(chunks), planned.context,
              bytes_text(memory.total).c_str());
  }
  TRY(compute(importance.get(), context.get(), chunks, options.quiet));
  TRY_ASSIGN(const auto done, info_of(importance.get(), context.get()));
  TRY(write_matrices(importance.get(), done, options, options.output.c_str()));
  print(importance.get(), done, options, memory.total);
  return {};
}

}  // namespace

Action add_imatrix(CLI::App& app) {
  auto options = std::make_shared<ImatrixArguments>();
  app.add_option("MODEL", options->path, "A .graft file of a causal language model, of f32 or quantized matrices")
      ->required();
  app.add_option("--data", options->data,
                 "A text file (FILE or text:FILE) like what the model is for, some 10,000 tokens or more; repeatable")
      ->required()
      ->allow_extra_args(false);
  app.add_option("-o,--output", options->output,
                 "The importance matrix, a GGUF file for graft export --imatrix and llama.cpp")
      ->required();
  app.add_option("-c,--context", options->context,
                 "Tokens of a chunk; the text is cut into such, and each begins anew (the model's own context, at most "
                 "512)")
      ->check(whole(1, INT32_MAX));
  app.add_option("--chunks", options->chunks, "Most chunks that are computed (all)")->check(whole(1));
  app.add_flag("--head", options->head, "The head's matrix too, or the embedding's where that is the head");
  app.add_flag("--parse-special", options->parse_special, "Special tokens that the text spells out become these");
  app.add_option("--budget", options->budget, "Largest device memory, as in 256MiB");
  app.add_flag("--quiet", options->quiet, "No progress");
  app.add_flag("--json", options->json, "Print what was written as JSON");
  add_public_device_flags(app, options->flags);
  return [options] { return run_imatrix(*options); };
}

}  // namespace graft::cli
