// graft convert: a model of another format becomes a .graft file, with a report of what can be trained.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <memory>

#include "runtime/lora/adapter.h"
#include "tools/bench/model_io.h"
#include "tools/common/numbers.h"
#include "tools/common/options.h"
#include "tools/convert/adapter/adapter_files.h"
#include "tools/convert/convert_file.h"
#include "tools/convert/onnx/example_onnx.h"
#include "tools/graft/output.h"
#include "tools/graft/quantize_flag.h"

namespace graft::cli {
namespace {

struct ConvertArguments {
  std::string input;
  std::string output;
  std::string example;
  std::uint64_t seed = 0;
  std::vector<std::string> bind;
  std::vector<std::string> constants;
  std::vector<std::string> parameters;
  std::vector<std::string> lengths;
  bool json = false;
  std::string quantize;
  std::string imatrix;
  bool errors = false;
  bool expand = false;
  bool fake_quantize = false;
  bool train_buffers = false;
  std::string weights;
  std::vector<std::string> open;
  std::string base;  ///< of an adapter
};

void print(const ConvertArguments& options, const convert::Report& report) {
  std::printf(options.json ? "%s\n" : "%s", (options.json ? report.json() : report.text()).c_str());
}

Status finish(const ConvertArguments& options, const convert::Report& report, const Model& model) {
  print(options, report);
  if (options.errors && !options.json) std::printf("%s\n", convert::errors_table(report.blocks).c_str());
  TRY(save_output(options.output, model));
  if (options.json) return ok_status();
  std::printf("Wrote %s.\n", options.output.c_str());
  if (!report.tokenizer_fault.empty()) {
    std::printf("It has no tokenizer, and takes token ids alone. %s\n", report.tokenizer_fault.c_str());
  }
  return ok_status();
}

/// "batch=INPUT:AXIS".
Result<convert::OpenAxis> parse_open(const std::string& text) {
  TRY_ASSIGN(const auto pair, parse_assignment(text, "--open"));
  const auto colon = pair.second.rfind(':');
  const char* end = text.data() + text.size();
  const char* from = colon == std::string::npos ? end : end - (pair.second.size() - colon - 1);
  std::size_t axis = 0;
  const auto [stop, failure] = std::from_chars(from, end, axis);
  auto open = convert::open_axis(pair.first, pair.second.substr(0, colon), axis);
  if (!open.ok() || failure != std::errc() || stop != end) {
    return invalid("--open takes SYMBOL=INPUT:AXIS, as in batch=x:0; \"", text, "\" is not that.");
  }
  return open;
}

/// Of --constant: patterns of tensors, and contents of inputs ("NAME=FILE.npy").
Status read_constants(const std::vector<std::string>& given, convert::FileOptions& wanted) {
  for (const std::string& item : split_lists(given)) {
    if (item.find('=') == std::string::npos || !item.ends_with(".npy")) {
      wanted.constants.push_back(item);
      continue;
    }
    const auto equals = item.rfind('=');
    if (!wanted.contents.emplace(item.substr(0, equals), item.substr(equals + 1)).second) {
      return invalid("--constant gives \"", item.substr(0, equals), "\" twice.");
    }
  }
  return ok_status();
}

Status convert_adapter(const ConvertArguments& options) {
  TRY_ASSIGN(const Model base, open_model(options.base, WeightCheck::at_once));
  TRY_ASSIGN(const Model adapter, convert::convert_adapter(os::system_files(), options.input, base));
  TRY(save_output(options.output, adapter));
  std::printf("Wrote %s.\n", options.output.c_str());
  return ok_status();
}

Status run_convert(const ConvertArguments& options) {
  Outputs outputs;
  outputs.reads("the source", options.input);
  outputs.reads("the base", options.base);
  outputs.reads("the weights", options.weights);
  outputs.reads("the importance matrix", options.imatrix);
  TRY(outputs.file("-o", options.output));
  if (!options.example.empty()) {
    if (!options.output.ends_with(".onnx")) {
      return invalid("An example is written as an ONNX file, and \"", options.output, "\" does not end in .onnx.");
    }
    TRY(convert::write_example_onnx(options.example, options.output, options.seed));
    std::printf("Wrote %s.\n", options.output.c_str());
    return ok_status();
  }
  if (!options.base.empty()) return convert_adapter(options);
  convert::FileOptions wanted;
  TRY_ASSIGN(wanted.bindings, parse_bindings(options.bind));
  TRY(read_constants(options.constants, wanted));
  for (const std::string& item : split_lists(options.open)) {
    TRY_ASSIGN(convert::OpenAxis open, parse_open(item));
    wanted.opens.push_back(std::move(open));
  }
  wanted.parameters = split_lists(options.parameters);
  for (const std::string& item : options.lengths) {
    TRY_ASSIGN(const auto pair, parse_assignment(item, "--length"));
    const char* const end = pair.second.data() + pair.second.size();
    if (const auto read = std::from_chars(pair.second.data(), end, wanted.lengths[pair.first]);
        read.ec != std::errc() || read.ptr != end) {
      return invalid("--length ", item, " does not give a number of tensors.");
    }
  }
  wanted.weights.expand = options.expand;
  wanted.weights_file = options.weights;
  wanted.imatrix = options.imatrix;
  wanted.train_buffers = options.train_buffers;
  wanted.keep_grid = options.fake_quantize;
  TRY_ASSIGN(wanted.weights.quantize, parse_block_format(options.quantize));
  convert::Report report;
  const auto converted = convert::convert_file(os::system_files(), options.input, wanted, report);
  if (converted.ok()) return finish(options, report, converted->model);
  if (options.json || !report.entries.empty()) print(options, report);
  return converted.status();
}

}  // namespace

Action add_convert(CLI::App& app) {
  auto options = std::make_shared<ConvertArguments>();
  auto* source = app.add_option_group("Source");
  source->add_option(
      "IN", options->input,
      "An ONNX file, a TFLite file, a GGUF file, or a Hugging Face folder (config.json and safetensors)");
  auto* example = source->add_option("--example", options->example, "Write an untrained example network instead")
                      ->check(CLI::IsMember(convert::example_names()));
  source->require_option(1);
  app.add_option("--seed", options->seed, "Seed of the example's weights")->check(whole(0))->needs(example);
  app.add_option("-o,--output", options->output, "The file to write: .graft, or .onnx for an example")->required();
  app.add_option("--bind", options->bind, "Fixes named dimensions, as in seq=128; the others stay open");
  app.add_option(
      "--constant", options->constants,
      "Patterns of the file's float tensors that are not trained, as in *.anchors,grid; or an input's contents, "
      "which stay the same, as in sizes=FILE.npy");
  app.add_option("--open", options->open,
                 "Opens an axis of size 1 of an input, as in batch=image:0; refused where the graph fixes it");
  app.add_option("--parameter", options->parameters, "Patterns of those that are, although they look like constants");
  app.add_flag("--train-buffers", options->train_buffers,
               "What looks like a buffer (grids, masks, tables of positions) is trained, where a gradient reaches it");
  app.add_option("--length", options->lengths,
                 "NAME=COUNT: how many tensors a sequence among an ONNX file's inputs holds, or an optional (1 or 0)");
  add_quantize_flag(app, options->quantize);
  app.add_option(
      "--imatrix", options->imatrix,
      "With --quantize: an importance matrix, by which scales are searched that leave the least error where it "
      "matters");
  app.add_flag("--errors", options->errors, "How much each matrix that becomes blocks changed (--json has it anyway)");
  app.add_flag("--expand", options->expand, "Quantized weights become f32, which can be trained");
  app.add_option("--weights", options->weights,
                 "The ONNX file's weights come from this PyTorch checkpoint (.pth, .pt) or safetensors file");
  app.add_flag("--fake-quantize", options->fake_quantize,
               "A quantized TFLite file's values are rounded to its grid, as integer devices do (forward alone)");
  app.add_option("--base", options->base, "IN is an adapter (a PEFT folder or a GGUF file) of this .graft model");
  app.add_flag("--json", options->json, "Print the trainability report as JSON");
  app.callback([&app, options] {
    const std::vector<std::string> of_models = {
        "--bind", "--constant",      "--parameter", "--quantize", "--expand",  "--fake-quantize", "--weights",
        "--open", "--train-buffers", "--length",    "--json",     "--imatrix", "--errors"};
    refuse_idle(app, options->quantize.empty(), {"--imatrix", "--errors"}, "without --quantize.");
    refuse_idle(app, options->json, {"--errors"}, "with --json, which has them.");
    refuse_idle(app, !options->example.empty(), {"--base"}, "with --example.");
    refuse_idle(app, !options->example.empty(), of_models, "with --example.");
    refuse_idle(app, !options->base.empty(), of_models, "with --base: adapters are taken as they are.");
  });
  return [options] { return run_convert(*options); };
}

}  // namespace graft::cli
