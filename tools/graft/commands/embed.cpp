// graft embed: vectors of texts, over the C interface alone.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tools/common/numbers.h"
#include "tools/common/options.h"
#include "tools/common/terminal.h"
#include "tools/graft/shared/adapter_flags.h"
#include "tools/graft/shared/command.h"
#include "tools/graft/shared/output.h"
#include "tools/graft/shared/public_api.h"

namespace graft::cli {
namespace {

using Json = nlohmann::ordered_json;

struct EmbedArguments {
  DeviceFlags flags;
  std::string path;
  std::vector<std::string> adapters;
  std::vector<std::string> texts;
  std::string file;
  std::string pooling;
  std::string on_long = "error";
  bool normalize = false;
  std::string of;
  std::uint32_t length = 0;
  std::uint32_t batch = 8;
  std::uint32_t dimensions = 0;
  std::string budget;
  std::string precision = "f32";
  std::string output;
};

Result<Owned<graft_model>> open_with_adapters(graft_context* context, const EmbedArguments& options) {
  TRY_ASSIGN(auto model, open_model(context, options.path));
  if (options.adapters.empty()) return model;
  std::vector<std::string> files = options.adapters;
  std::vector<double> weights;
  for (std::string& file : files) weights.push_back(take_adapter_weight(file));
  std::vector<const char*> paths;
  for (const std::string& file : files) paths.push_back(file.c_str());
  const bool plain = files.size() == 1 && weights[0] == 1;  // DoRA's stand alone
  TRY(checked(plain ? graft_model_load_adapters(model.get(), paths[0])
                    : graft_model_load_adapters_together(model.get(), paths.data(), weights.data(), paths.size()),
              context));
  return model;
}

Result<Owned<graft_embedder>> open_embedder(graft_context* context, graft_model* model, const EmbedArguments& given) {
  auto options = sized<graft_embedder_options>();
  options.pooling = given.pooling == "last"   ? GRAFT_POOLING_LAST
                    : given.pooling == "cls"  ? GRAFT_POOLING_CLS
                    : given.pooling == "mean" ? GRAFT_POOLING_MEAN
                                              : GRAFT_POOLING_DEFAULT;
  options.normalize = given.normalize ? 1 : 0;
  options.cut = given.on_long == "cut" ? 1 : 0;
  options.length = given.length;
  options.batch = given.batch;
  options.dimensions = given.dimensions;
  if (!given.of.empty()) options.of = given.of.c_str();
  options.precision = given.precision == "f16"    ? GRAFT_PRECISION_F16
                      : given.precision == "bf16" ? GRAFT_PRECISION_BF16
                                                  : GRAFT_PRECISION_F32;
  if (!given.budget.empty()) {
    TRY_ASSIGN(options.budget, parse_size(given.budget));
  }
  graft_embedder* made = nullptr;
  const graft_status created = graft_embedder_create(model, &options, &made);
  Owned<graft_embedder> embedder(made);
  TRY(checked(created, context));
  return embedder;
}

/// The lines of a file; of one that ends in .jsonl the field "text" of each.
Result<std::vector<std::string>> read_texts(const std::string& path) {
  std::istringstream opened;
  if (path != "-") {
    TRY_ASSIGN(std::string text, text_of_file(path, SIZE_MAX));
    opened.str(std::move(text));
  }
  std::istream& in = path == "-" ? std::cin : opened;
  const bool records = path.ends_with(".jsonl");
  std::vector<std::string> out;
  std::string line;
  for (std::size_t number = 1; std::getline(in, line); ++number) {
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) continue;
    if (records) {
      const Json record = Json::parse(line, nullptr, false);
      if (!record.is_object() || !record.contains("text") || !record["text"].is_string()) {
        return invalid("Line ", number, " of \"", path, "\" is no JSON object with a \"text\".");
      }
      line = record["text"].get<std::string>();
    }
    if (line.find('\0') != std::string::npos) return invalid("Line ", number, " of \"", path, "\" holds a zero byte.");
    out.push_back(std::move(line));
    line.clear();
  }
  if (out.empty()) return invalid("\"", path, "\" holds no text.");
  return out;
}

std::string npy_text(std::span<const float> vectors, std::size_t rows, std::size_t width) {
  std::string header =
      cat("{'descr': '<f4', 'fortran_order': False, 'shape': (", rows, ", ", width, "), }");  // NumPy's format 1.0
  constexpr std::size_t kBefore = 10, kMultiple = 64;
  header.resize((kBefore + header.size() + kMultiple) / kMultiple * kMultiple - kBefore - 1, ' ');
  header += '\n';
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(header.size() & 0xff);
  out += static_cast<char>(header.size() >> 8);
  out += header;
  return out.append(reinterpret_cast<const char*>(vectors.data()), vectors.size_bytes());
}

std::string json_lines(std::span<const float> vectors, std::size_t width, std::span<const std::string> texts,
                       std::span<const std::uint32_t> counts) {
  std::string out;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    Json line = {{"text", texts[i]}, {"tokens", counts[i]}};
    line["embedding"] = vectors.subspan(i * width, width);
    out += line.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
  }
  return out;
}

Status run_embed(const EmbedArguments& options) {
  Outputs outputs;
  outputs.reads("the model", options.path);
  outputs.reads("the texts", options.file == "-" ? std::string() : options.file);
  for (std::string file : options.adapters) {
    take_adapter_weight(file);
    outputs.reads("the adapter", file);
  }
  TRY(outputs.file("-o", options.output));
  std::vector<std::string> texts = options.texts;
  if (!options.file.empty()) {
    TRY_ASSIGN(texts, read_texts(options.file));
  }
  TRY_ASSIGN(const auto context, open_context(options.flags));
  TRY_ASSIGN(const auto model, open_with_adapters(context.get(), options));
  TRY_ASSIGN(const auto embedder, open_embedder(context.get(), model.get(), options));
  std::vector<const char*> pointers;
  for (const std::string& text : texts) pointers.push_back(text.c_str());
  const float* vectors = nullptr;
  const std::uint32_t* counted = nullptr;
  TRY(checked(graft_embed(embedder.get(), pointers.data(), pointers.size(), &vectors, &counted), context.get()));
  const std::size_t width = graft_embedder_width(embedder.get()), length = graft_embedder_length(embedder.get());
  const std::span<const float> all(vectors, texts.size() * width);
  const std::span<const std::uint32_t> counts(counted, texts.size());
  const auto cut = std::ranges::count_if(counts, [&](std::uint32_t count) { return count > length; });
  if (cut > 0) to_stderr("%td of %zu texts are longer than %zu tokens and cut.\n", cut, texts.size(), length);
  if (options.output.empty()) {
    const std::string lines = json_lines(all, width, texts, counts);
    static_cast<void>(write_stdout(lines));
    return {};
  }
  const bool npy = options.output.ends_with(".npy");
  TRY(write_text(options.output, npy ? npy_text(all, texts.size(), width) : json_lines(all, width, texts, counts)));
  to_stdout("%s  f32[%zu, %zu]\n", options.output.c_str(), texts.size(), width);
  return {};
}

}  // namespace

Action add_embed(CLI::App& app) {
  auto options = std::make_shared<EmbedArguments>();
  app.add_option("MODEL", options->path, "A .graft file of a language model or an encoder of texts")->required();
  auto* source = app.add_option_group("Texts");
  source->add_option("--text", options->texts, "A text; repeatable");
  source->add_option(
      "--file", options->file,
      "A file with a text in each line, or with a \"text\" in each record of a .jsonl file; - is standard "
      "input; empty lines are passed over");
  source->require_option(1);
  app.add_option(
         "--pooling", options->pooling,
         "Whose vectors stand for a text: mean of all tokens, last, or cls, the first (as the model's file says, "
         "which decides on their length too; else mean)")
      ->check(CLI::IsMember({"mean", "last", "cls"}));
  app.add_flag("--normalize", options->normalize, "Vectors of length 1");
  app.add_option("--dimensions", options->dimensions,
                 "First numbers of each vector that remain, for models trained so (Matryoshka); cut before --normalize")
      ->check(whole(1, INT32_MAX));
  app.add_option("--of", options->of, "The value that is pooled, by the source model's name (the last hidden state)");
  app.add_option("--length", options->length, "Most tokens of a text (the model's own context, at most 512)")
      ->check(whole(1, INT32_MAX));
  app.add_option("--on-long", options->on_long, "What becomes of longer texts: error or cut, at their end")
      ->check(CLI::IsMember({"error", "cut"}));
  app.add_option("--batch", options->batch, "Texts on the device at once (8)")->check(whole(1, 65536));
  app.add_option("--adapter", options->adapters,
                 "Adapters to put on, a .graft file; FILE=WEIGHT, several are added up");
  app.add_option("--budget", options->budget, "Largest device memory, as in 256MiB");
  app.add_option("--precision", options->precision, "How results on the way are kept: f32, f16 or bf16")
      ->check(CLI::IsMember({"f32", "f16", "bf16"}));
  app.add_option("-o,--output", options->output, "A .npy file, or lines of JSON; without it, these on standard output");
  add_public_device_flags(app, options->flags);
  return [options] { return run_embed(*options); };
}

}  // namespace graft::cli
