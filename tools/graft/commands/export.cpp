// graft export: a model back to the formats of other programs.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/common/numbers.h"
#include "tools/common/terminal.h"
#include "tools/graft/shared/command.h"
#include "tools/graft/shared/output.h"
#include "tools/graft/shared/public_api.h"

namespace graft::cli {
namespace {

struct ExportArguments {
  std::string path;
  std::string output;
  std::string format;
  std::string dtype;
  std::string source;  ///< of an ONNX file
  std::string imatrix;
  bool errors = false;
  bool json = false;
  bool in_place = false;
  bool allow_non_finite = false;
};

std::string format_of(const ExportArguments& options) {
  return options.format.empty() ? graft_export_format_of(options.output.c_str()) : options.format;
}

void print(const ExportArguments& options, const graft_conversion* exported) {
  const char* const text = graft_conversion_report_json(exported);
  if (options.json) {
    to_stdout("%s\n", text);
    return;
  }
  if (options.errors) to_stdout("%s\n", graft_conversion_errors(exported));
  const auto report = nlohmann::json::parse(text);
  for (const auto& note : report["notes"]) to_stdout("%s\n", note.get_ref<const std::string&>().c_str());
  to_stdout("Wrote %s: %zu tensors, %s.\n", options.output.c_str(), report["tensors"].get<std::size_t>(),
            bytes_text(report["bytes"].get<std::uint64_t>()).c_str());
}

/// A sentence of the interface in the words of the command line.
std::string in_flags(std::string sentence) {
  constexpr std::string_view kOption = "(allow_non_finite does";
  if (const auto at = sentence.find(kOption); at != std::string::npos)
    sentence.replace(at, kOption.size(), "(--allow-non-finite does");
  return sentence;
}

// The names of files in a folder that another program's loader would look for.
constexpr const char* kFolderFiles[] = {"config.json",           "model.safetensors",        "tokenizer.json",
                                        "tokenizer_config.json", "tokenizer.model",          "generation_config.json",
                                        "adapter_config.json",   "adapter_model.safetensors"};

Status run_export(const ExportArguments& options) {
  Outputs outputs;
  outputs.reads("the model", options.path);
  if (!options.imatrix.empty()) outputs.reads("the importance matrix", options.imatrix);
  outputs.replaces("the source file", options.source, options.in_place);
  if (format_of(options) == "folder") {
    TRY(outputs.folder("-o", options.output, {std::begin(kFolderFiles), std::end(kFolderFiles)}));
  } else {
    TRY(outputs.file("-o", options.output));
  }
  TRY(check_is_model(options.path));
  if (format_of(options) == "tflite" && options.source.empty()) {
    return invalid("A TFLite file is written over the one that the model was converted from: name that with --source.");
  }
  graft_export_options wanted = {};
  wanted.struct_size = sizeof wanted;
  const auto given = [](const std::string& text) { return text.empty() ? nullptr : text.c_str(); };
  wanted.format = given(options.format);
  wanted.dtype = given(options.dtype);
  wanted.source = given(options.source);
  wanted.allow_non_finite = options.allow_non_finite ? 1 : 0;
  wanted.imatrix = given(options.imatrix);
  graft_conversion* made = nullptr;
  const graft_status status = graft_export(options.path.c_str(), &wanted, options.output.c_str(), &made);
  const Owned<graft_conversion> exported(made);
  if (status != GRAFT_OK) return error(static_cast<Code>(status), in_flags(graft_conversion_message(made)));
  print(options, made);
  return ok_status();
}

}  // namespace

Action add_export(CLI::App& app) {
  auto options = std::make_shared<ExportArguments>();
  app.add_option("MODEL", options->path, "A .graft file: a model, or an adapter")->required();
  app.add_option("-o,--output", options->output,
                 "OUT.gguf, OUT.safetensors (the parameters of any model), OUT.onnx, OUT.tflite, or a folder as "
                 "Hugging Face has them (of an adapter, as PEFT does)")
      ->required();
  app.add_option("--format", options->format,
                 "gguf, safetensors, onnx, tflite or folder, whatever the output's name ends in")
      ->check(CLI::IsMember(all_names(graft_export_format_name)));
  app.add_option("--dtype", options->dtype, "What matrices become (default: what they are in the model)")
      ->check(CLI::IsMember(all_names(graft_export_dtype_name)));
  app.add_option("--source", options->source,
                 "The ONNX or TFLite file that the model was converted from, whose graph stays (default for ONNX: "
                 "graft's own graph)");
  app.add_option(
      "--imatrix", options->imatrix,
      "For blocks of GGUF files: an importance matrix of graft imatrix or llama.cpp; scales are then searched that "
      "leave the least error where it matters");
  app.add_flag("--errors", options->errors, "How much each matrix that becomes blocks changed (--json has it anyway)");
  add_in_place_flag(app, options->in_place);
  app.add_flag("--allow-non-finite", options->allow_non_finite, "Export weights that hold NaN or infinity, too");
  app.add_flag("--json", options->json, "Print what was written as JSON");
  app.callback([&app, options] {
    const std::string format = format_of(*options);
    const bool patched = format == "onnx" || format == "tflite";
    refuse_idle(app, patched, {"--dtype"}, cat("with the format ", format, ", whose tensors keep their types."));
    refuse_idle(app, !patched, {"--source"}, cat("with the format ", format, ", only with onnx and tflite."));
    refuse_idle(app, format != "gguf" || !options->dtype.starts_with('q'), {"--errors"},
                "but where --dtype makes blocks of GGUF files.");
    refuse_idle(app, options->json, {"--errors"}, "with --json, which has them.");
    refuse_idle(app, options->source.empty(), {"--in-place"}, "without --source.");
  });
  return [options] { return run_export(*options); };
}

}  // namespace graft::cli
