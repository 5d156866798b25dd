// graft convert: a model of another format becomes a .graft file, with a report of what can be trained.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <map>
#include <memory>
#include <string_view>

#include "tools/common/numbers.h"
#include "tools/common/options.h"
#include "tools/common/terminal.h"
#include "tools/fetch/hub.h"
#include "tools/graft/shared/command.h"
#include "tools/graft/shared/output.h"
#include "tools/graft/shared/public_api.h"
#include "tools/graft/shared/quantize_flag.h"

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
  std::vector<std::string> ignored_fields;
};

std::vector<const char*> raw_names(const std::vector<std::string>& names) {
  std::vector<const char*> out;
  for (const std::string& name : names) out.push_back(name.c_str());
  return out;
}

void print(const ConvertArguments& options, const graft_conversion* conversion) {
  if (options.json) {
    const std::string_view report = graft_conversion_report_json(conversion);
    if (!report.empty()) to_stdout("%s\n", report.data());
  } else {
    to_stdout("%s", graft_conversion_report(conversion));
  }
}

Status save_kept(graft_conversion* conversion, const std::string& output) {
  return save_output(output, [&](const std::string& path) {
    return checked(graft_conversion_save(conversion, path.c_str()), conversion);
  });
}

Status finish(const ConvertArguments& options, graft_conversion* conversion) {
  print(options, conversion);
  if (options.errors && !options.json) to_stdout("%s\n", graft_conversion_errors(conversion));
  TRY(save_kept(conversion, options.output));
  if (options.json) return ok_status();
  to_stdout("Wrote %s.\n", options.output.c_str());
  const std::string_view fault = graft_conversion_tokenizer_fault(conversion);
  if (!fault.empty()) {
    to_stdout("It has no tokenizer, and takes token ids alone. %s\n", fault.data());
  }
  return ok_status();
}

using Texts = std::vector<std::pair<std::string, std::string>>;

/// graft_convert_options with what it points to.
struct Wanted {
  graft_convert_options options = {};
  Bindings bind;
  std::vector<std::string> constants;
  std::vector<std::string> parameters;
  std::vector<std::string> ignored_fields;
  Texts contents;
  Texts opens;  ///< symbol, input
  std::vector<std::int64_t> axes;
  std::map<std::string, std::int64_t, std::less<>> lengths;

  std::vector<graft_binding> raw_bindings;
  std::vector<const char*> raw_constants;
  std::vector<const char*> raw_parameters;
  std::vector<const char*> raw_ignored;
  std::vector<graft_input_contents> raw_contents;
  std::vector<graft_open_axis> raw_opens;
  std::vector<graft_input_length> raw_lengths;

  /// Once all of the above is read.
  void point_to_it() {
    options.struct_size = sizeof options;
    for (const auto& [name, size] : bind) raw_bindings.push_back({name.c_str(), size});
    raw_constants = raw_names(constants);
    raw_parameters = raw_names(parameters);
    raw_ignored = raw_names(ignored_fields);
    for (const auto& [input, file] : contents) raw_contents.push_back({input.c_str(), file.c_str()});
    for (std::size_t i = 0; i < opens.size(); ++i) {
      raw_opens.push_back({opens[i].first.c_str(), opens[i].second.c_str(), axes[i]});
    }
    for (const auto& [input, count] : lengths) raw_lengths.push_back({input.c_str(), count});
    options.bindings = raw_bindings.data();
    options.binding_count = raw_bindings.size();
    options.ignored_fields = raw_ignored.data();
    options.ignored_field_count = raw_ignored.size();
    options.constants = raw_constants.data();
    options.constant_count = raw_constants.size();
    options.parameters = raw_parameters.data();
    options.parameter_count = raw_parameters.size();
    options.contents = raw_contents.data();
    options.content_count = raw_contents.size();
    options.opens = raw_opens.data();
    options.open_count = raw_opens.size();
    options.lengths = raw_lengths.data();
    options.length_count = raw_lengths.size();
  }
};

/// Whether the text can name a dimension: letters, digits and '_', not a digit first.
bool is_symbol(std::string_view text) {
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) == 0 &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

/// "batch=INPUT:AXIS".
Status read_open(const std::string& text, Wanted& wanted) {
  TRY_ASSIGN(auto pair, parse_assignment(text, "--open"));
  const auto colon = pair.second.rfind(':');
  const char* end = text.data() + text.size();
  const char* from = colon == std::string::npos ? end : end - (pair.second.size() - colon - 1);
  std::size_t axis = 0;
  const auto [stop, failed] = std::from_chars(from, end, axis);
  if (!is_symbol(pair.first) || failed != std::errc() || stop != end) {
    return invalid("--open takes SYMBOL=INPUT:AXIS, as in batch=x:0; \"", text, "\" is not that.");
  }
  wanted.opens.emplace_back(std::move(pair.first), unquoted(pair.second.substr(0, colon)));
  wanted.axes.push_back(static_cast<std::int64_t>(axis));
  return ok_status();
}

/// Of --constant: patterns of tensors, and contents of inputs ("NAME=FILE.npy").
Status read_constants(const std::vector<std::string>& given, Wanted& wanted) {
  for (const std::string& item : split_items(given)) {
    if (item.find('=') == std::string::npos || !item.ends_with(".npy")) {
      wanted.constants.push_back(unquoted(item));
      continue;
    }
    const auto equals = item.rfind('=');
    const std::string input = unquoted(item.substr(0, equals));
    if (std::ranges::find(wanted.contents, input, &Texts::value_type::first) != wanted.contents.end()) {
      return invalid("--constant gives \"", input, "\" twice.");
    }
    wanted.contents.emplace_back(input, item.substr(equals + 1));
  }
  return ok_status();
}

Status convert_adapter(const ConvertArguments& options) {
  TRY(check_is_model(options.base));
  graft_convert_adapter_options wanted = {};
  wanted.struct_size = sizeof wanted;
  const auto ignored = raw_names(options.ignored_fields);
  wanted.ignored_fields = ignored.data();
  wanted.ignored_field_count = ignored.size();
  graft_conversion* made = nullptr;
  const graft_status status =
      graft_convert_adapter_with(options.input.c_str(), options.base.c_str(), &wanted, nullptr, &made);
  const Owned<graft_conversion> conversion(made);
  TRY(checked(status, made));
  TRY(save_kept(made, options.output));
  to_stdout("Wrote %s.\n", options.output.c_str());
  return ok_status();
}

Status write_example(const ConvertArguments& options) {
  if (!options.output.ends_with(".onnx")) {
    return invalid("An example is written as an ONNX file, and \"", options.output, "\" does not end in .onnx.");
  }
  graft_conversion* made = nullptr;
  const graft_status status =
      graft_convert_example(options.example.c_str(), options.seed, options.output.c_str(), &made);
  const Owned<graft_conversion> conversion(made);
  TRY(checked(status, made));
  to_stdout("Wrote %s.\n", options.output.c_str());
  return ok_status();
}

Status read_wanted(const ConvertArguments& options, Wanted& wanted) {
  TRY_ASSIGN(wanted.bind, parse_bindings(options.bind));
  TRY(read_constants(options.constants, wanted));
  for (const std::string& item : split_items(options.open)) TRY(read_open(item, wanted));
  wanted.parameters = split_lists(options.parameters);
  wanted.ignored_fields = options.ignored_fields;
  for (const std::string& item : options.lengths) {
    TRY_ASSIGN(const auto pair, parse_assignment(item, "--length"));
    const char* const end = pair.second.data() + pair.second.size();
    if (const auto read = std::from_chars(pair.second.data(), end, wanted.lengths[pair.first]);
        read.ec != std::errc() || read.ptr != end) {
      return invalid("--length ", item, " does not give a number of tensors.");
    }
  }
  const auto given = [](const std::string& text) { return text.empty() ? nullptr : text.c_str(); };
  wanted.options.expand = options.expand ? 1 : 0;
  wanted.options.weights = given(options.weights);
  wanted.options.imatrix = given(options.imatrix);
  wanted.options.train_buffers = options.train_buffers ? 1 : 0;
  wanted.options.fake_quantize = options.fake_quantize ? 1 : 0;
  wanted.options.quantize = given(options.quantize);
  wanted.point_to_it();
  return ok_status();
}

/// An address becomes the path of what is fetched from there.
Status fetch_source(std::string& input) {
  TRY_ASSIGN(const HubAddress address, parse_hub_address(input));
  TRY_ASSIGN(const Fetched fetched, fetch_from_hub(address, false));
  to_stderr("%s %zu %s (%.1f MB) %s %s.\n", fetched.bytes_fetched > 0 ? "Fetched" : "Found", fetched.files,
            fetched.files == 1 ? "file" : "files", static_cast<double>(fetched.bytes) / 1e6,
            fetched.bytes_fetched > 0 ? "into" : "in", fetched.path.c_str());
  input = fetched.path;
  return ok_status();
}

Status run_convert(ConvertArguments& options) {
  Outputs outputs;
  if (is_hub_address(options.input)) {
    // What could not be written is refused before the network is asked.
    TRY(Outputs().model("-o", options.output));
    TRY(fetch_source(options.input));
  }
  outputs.reads("the source", options.input);
  outputs.reads("the base", options.base);
  outputs.reads("the weights", options.weights);
  outputs.reads("the importance matrix", options.imatrix);
  TRY(options.example.empty() ? outputs.model("-o", options.output) : outputs.file("-o", options.output));
  if (!options.example.empty()) return write_example(options);
  if (!options.base.empty()) return convert_adapter(options);
  Wanted wanted;
  TRY(read_wanted(options, wanted));
  graft_conversion* made = nullptr;
  const graft_status status = graft_convert(options.input.c_str(), &wanted.options, nullptr, &made);
  const Owned<graft_conversion> conversion(made);
  if (status == GRAFT_OK) return finish(options, made);
  print(options, made);
  return checked(status, made);
}

}  // namespace

Action add_convert(CLI::App& app) {
  auto options = std::make_shared<ConvertArguments>();
  auto* source = app.add_option_group("Source");
  source->add_option(
      "IN", options->input,
      "An ONNX file, a TFLite file, a GGUF file, or a Hugging Face folder (config.json and safetensors); or "
      "hf:ORG/NAME[@REVISION][/FILE], which is fetched into a cache first");
  auto* example = source->add_option("--example", options->example, "Write an untrained example network instead")
                      ->check(CLI::IsMember(all_names(graft_convert_example_name)));
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
  app.add_option("--ignore-field", options->ignored_fields,
                 "Pass over a field of a configuration (config.json, tokenizer_config.json, generation_config.json, "
                 "adapter_config.json), or a key of a GGUF file, that graft refuses, as in "
                 "rope_scaling.mrope_section; repeatable: the result is another model than the file's")
      ->allow_extra_args(false);
  app.add_flag("--json", options->json, "Print the trainability report as JSON");
  app.callback([&app, options] {
    const std::vector<std::string> of_models = {
        "--bind", "--constant",      "--parameter", "--quantize", "--expand",  "--fake-quantize", "--weights",
        "--open", "--train-buffers", "--length",    "--json",     "--imatrix", "--errors"};
    refuse_idle(app, options->quantize.empty(), {"--imatrix", "--errors"}, "without --quantize.");
    refuse_idle(app, options->json, {"--errors"}, "with --json, which has them.");
    refuse_idle(app, !options->example.empty(), {"--base", "--ignore-field"}, "with --example.");
    refuse_idle(app, !options->example.empty(), of_models, "with --example.");
    refuse_idle(app, !options->base.empty(), of_models, "with --base: adapters are taken as they are.");
  });
  return [options] { return run_convert(*options); };
}

}  // namespace graft::cli
