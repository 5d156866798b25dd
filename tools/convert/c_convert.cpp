// graft/convert.h
#include <algorithm>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <new>
#include <optional>
#include <span>

#include "graft/convert.h"
#include "platform/base/cancel.h"
#include "runtime/c_api/c_options.h"
#include "runtime/core/quantized.h"
#include "runtime/text/tokenizer/vocabulary_bytes.h"
#include "tools/convert/adapter/adapter_files.h"
#include "tools/convert/convert_file.h"
#include "tools/convert/export_file.h"
#include "tools/convert/export_snapshot.h"
#include "tools/convert/language_model/convert_decoder.h"
#include "tools/convert/language_model/imatrix_names.h"
#include "tools/convert/onnx/examples/example_onnx.h"
#include "tools/convert/tokenizer/tokenizer_load.h"

struct graft_conversion {
  std::string message;
  std::string report;
  std::string report_json;
  std::string errors;
  std::string tokenizer_fault;
  std::optional<graft::convert::ConvertedFile> kept;  ///< where no output was named
  std::optional<graft::HostBuffer> bytes;             ///< of a file of it, once they were asked for
  bool shapes_only = false;                           ///< weights of `kept` have no contents
};

namespace graft::convert {
namespace {

std::string text_of(const char* text) { return text == nullptr ? "" : text; }

Status read_patterns(const char* const* given, std::size_t count, const char* what, std::vector<std::string>& out) {
  if (count > 0 && given == nullptr) return invalid("There are to be ", count, " ", what, ", but they are NULL.");
  for (std::size_t i = 0; i < count; ++i) {
    if (given[i] == nullptr) return invalid("Number ", i, " of the ", what, " is NULL.");
    out.emplace_back(given[i]);
  }
  return ok_status();
}

Status need_names(std::size_t index, const char* what, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (name == nullptr) return invalid("Number ", index, " of the ", what, " has no name.");
  }
  return ok_status();
}

template <typename Item>
Result<std::span<const Item>> read_items(const Item* items, std::size_t count, const char* what) {
  if (items == nullptr && count > 0) return invalid("There are to be ", count, " ", what, ", but they are NULL.");
  return std::span(items, count);
}

Status read_inputs(const graft_convert_options& options, FileOptions& out) {
  GRAFT_TRY_ASSIGN(const auto opens, read_items(options.opens, options.open_count, "opened axes"));
  for (std::size_t i = 0; i < opens.size(); ++i) {
    GRAFT_TRY(need_names(i, "opened axes", {opens[i].symbol, opens[i].input}));
    if (opens[i].axis < 0) return invalid("Axis ", opens[i].axis, " of \"", opens[i].input, "\" is below 0.");
    GRAFT_TRY_ASSIGN(OpenAxis open,
                     open_axis(opens[i].symbol, opens[i].input, static_cast<std::size_t>(opens[i].axis)));
    out.opens.push_back(std::move(open));
  }
  GRAFT_TRY_ASSIGN(const auto contents, read_items(options.contents, options.content_count, "contents"));
  for (std::size_t i = 0; i < contents.size(); ++i) {
    GRAFT_TRY(need_names(i, "contents", {contents[i].input, contents[i].file}));
    if (!out.contents.emplace(contents[i].input, contents[i].file).second) {
      return invalid("The contents of \"", contents[i].input, "\" are given twice.");
    }
  }
  GRAFT_TRY_ASSIGN(const auto lengths, read_items(options.lengths, options.length_count, "lengths"));
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    GRAFT_TRY(need_names(i, "lengths", {lengths[i].input}));
    if (!out.lengths.emplace(lengths[i].input, lengths[i].count).second) {
      return invalid("The length of \"", lengths[i].input, "\" is given twice.");
    }
  }
  return ok_status();
}

Result<FileOptions> file_options(const graft_convert_options& options) {
  FileOptions out;
  GRAFT_TRY_ASSIGN(out.bindings, c_api::read_bindings(options.bindings, options.binding_count));
  GRAFT_TRY(read_patterns(options.constants, options.constant_count, "constants", out.constants));
  GRAFT_TRY(read_patterns(options.parameters, options.parameter_count, "parameters", out.parameters));
  out.weights.expand = options.expand != 0;
  GRAFT_TRY_ASSIGN(out.weights.quantize, parse_block_format(text_of(options.quantize)));
  GRAFT_TRY(read_inputs(options, out));
  out.imatrix = text_of(options.imatrix);
  out.weights_file = text_of(options.weights);
  out.train_buffers = options.train_buffers != 0;
  out.keep_grid = options.fake_quantize != 0;
  GRAFT_TRY(read_patterns(options.ignored_fields, options.ignored_field_count, "ignored fields", out.ignored_fields));
  return out;
}

Status need_paths(std::initializer_list<const char*> paths) {
  for (const char* path : paths) {
    if (path == nullptr) return invalid("A path is NULL.");
  }
  return ok_status();
}

Status check_apart(const char* source, const char* output) {
  if (output == nullptr) return ok_status();
  std::error_code ignored;
  if (!std::filesystem::equivalent(source, output, ignored)) return ok_status();
  return invalid("The output would be written over its source \"", source, "\".");
}

/// Writes the model, or keeps it for graft_conversion_save().
Status finish(ConvertedFile converted, const char* output, graft_conversion& made) {
  if (output != nullptr) return save_model(os::system_files(), output, converted.model);
  made.kept = std::move(converted);
  return ok_status();
}

Status save_kept(const graft_conversion& conversion, const char* output) {
  GRAFT_TRY(need_paths({output}));
  if (!conversion.kept) return invalid("There is nothing to save: a conversion without an output keeps its model.");
  return save_model(os::system_files(), output, conversion.kept->model);
}

Status convert_to(const char* path, const graft_convert_options* given, const char* output, graft_conversion& made) {
  GRAFT_TRY(need_paths({path}));
  GRAFT_TRY_ASSIGN(const graft_convert_options asked, c_api::read_options(given, "graft_convert_options"));
  GRAFT_TRY_ASSIGN(const FileOptions options, file_options(asked));
  for (const char* source : {path, asked.weights, asked.imatrix}) {
    if (source != nullptr) GRAFT_TRY(check_apart(source, output));
  }
  const CancelScope scope([&](std::uint64_t done, std::uint64_t total) {
    if (asked.cancelled != nullptr && asked.cancelled(asked.user) != 0) return true;
    return asked.progress != nullptr && total != 0 && asked.progress(asked.user, done, total) != 0;
  });
  if (asked.shapes_only != 0) {
    if (output != nullptr) return invalid("A model of shapes alone has no file: the output must be NULL.");
    GRAFT_TRY_ASSIGN(ConvertedDecoder shapes, shapes_of_config(os::system_files(), path, options.weights, options.ignored_fields));
    made.kept.emplace();
    made.kept->model = std::move(shapes.model);
    made.shapes_only = true;
    return ok_status();
  }
  Report report;
  auto converted = convert_file(os::system_files(), path, options, report);
  if (converted.ok() || !report.entries.empty()) made.report = report.text();
  made.report_json = report.json();
  made.errors = errors_table(report.blocks);
  made.tokenizer_fault = report.tokenizer_fault;
  GRAFT_TRY(converted.status());
  GRAFT_TRY(cancel_point());
  return finish(*std::move(converted), output, made);
}

Status give_bytes(graft_conversion& conversion, const void** data, std::size_t* bytes) {
  if (!conversion.kept && !conversion.bytes) {
    return invalid("There are no bytes: a conversion without an output keeps its model.");
  }
  if (!conversion.bytes) {
    GRAFT_TRY_ASSIGN(conversion.bytes, model_bytes(conversion.kept->model, conversion.shapes_only));
  }
  if (data != nullptr) *data = conversion.bytes->data();
  if (bytes != nullptr) *bytes = conversion.bytes->size();
  return ok_status();
}

/// What a config.json says, for what needs names and shapes alone.
Result<Model> shapes_for(const char* config) {
  GRAFT_TRY_ASSIGN(ConvertedDecoder shapes, shapes_of_config(os::system_files(), config, {}));
  return std::move(shapes.model);
}

Status convert_adapter_to(const char* path, const char* base, const graft_convert_adapter_options* given,
                          const char* output, graft_conversion& made) {
  GRAFT_TRY(need_paths({path, base}));
  GRAFT_TRY_ASSIGN(const graft_convert_adapter_options options,
                   c_api::read_options(given, "graft_convert_adapter_options"));
  std::vector<std::string> ignored;
  GRAFT_TRY(read_patterns(options.ignored_fields, options.ignored_field_count, "ignored fields", ignored));
  GRAFT_TRY(check_apart(path, output));
  GRAFT_TRY(check_apart(base, output));
  os::FileSystem& files = os::system_files();
  // What is made depends on names and shapes alone: a base of gigabytes is not read for it.
  const bool planned = std::string_view(base).ends_with(".json");
  GRAFT_TRY_ASSIGN(const Model model, planned ? shapes_for(base) : load_model(files, base));
  ConvertedFile converted;
  GRAFT_TRY_ASSIGN(converted.model, convert_adapter(files, path, model, options.any_base != 0, ignored));
  return finish(std::move(converted), output, made);
}

Status convert_tokenizer_to(const char* path, graft_conversion& made) {
  GRAFT_TRY(need_paths({path}));
  GRAFT_TRY_ASSIGN(const text::Vocabulary words, load_vocabulary(os::system_files(), path));
  const std::string bytes = text::vocabulary_to_bytes(words);
  GRAFT_TRY_ASSIGN(made.bytes, HostBuffer::create(bytes.size(), "a tokenizer"));
  std::ranges::copy(std::as_bytes(std::span(bytes)), made.bytes->data());
  return ok_status();
}

Status write_example(const char* name, std::uint64_t seed, const char* output) {
  GRAFT_TRY(need_paths({name, output}));
  const auto names = example_names();
  if (std::ranges::find(names, name) == names.end()) {
    return error(Code::not_found, "There is no example network \"", name, "\".");
  }
  return write_example_onnx(name, output, seed);
}

Status export_to(const char* path, const graft_export_options* given, const char* output, graft_conversion& made) {
  GRAFT_TRY(need_paths({path, output}));
  GRAFT_TRY_ASSIGN(const graft_export_options options, c_api::read_options(given, "graft_export_options"));
  GRAFT_TRY(check_apart(path, output));
  os::FileSystem& files = os::system_files();
  GRAFT_TRY_ASSIGN(const Model model, load_model(files, path, {.check = WeightCheck::at_once}));
  const std::string refused = cat("\"", path, "\" was not exported");
  if (options.allow_non_finite == 0) {
    GRAFT_TRY(model.check_finite().with_context(refused + " (allow_non_finite does it in any case)"));
  }
  auto exported = export_file(
      files, model, output,
      {text_of(options.format), text_of(options.dtype), text_of(options.source), true, text_of(options.imatrix)});
  if (!exported.ok()) return std::move(exported).status().with_context(refused);
  const ExportReport report = *std::move(exported);
  made.report_json = report.json();
  made.errors = errors_table(report.blocks);
  for (const std::string& note : report.notes) made.report += note + "\n";
  for (const std::string& file : report.files) made.report += cat("Wrote ", file, ".\n");
  return ok_status();
}

Status export_snapshot_to(const char* folder, const char* snapshot, const char* output, graft_conversion& made) {
  GRAFT_TRY(need_paths({folder, output}));
  GRAFT_TRY_ASSIGN(const ExportedSnapshot done, export_snapshot(os::system_files(), folder, text_of(snapshot), output));
  made.report_json =
      cat("{\"snapshot\": ", done.number, ", \"step\": ", done.step, ", \"tensors\": ", done.tensors, "}");
  made.report = cat("Wrote ", output, ": ", done.tensors, " tensors of step ", done.step, ".\n");
  return ok_status();
}

Status write_imatrix_to(const char* path, const graft_imatrix_options* given, const char* output) {
  GRAFT_TRY(need_paths({path}));
  GRAFT_TRY_ASSIGN(const graft_imatrix_options options, c_api::read_options(given, "graft_imatrix_options"));
  GRAFT_TRY_ASSIGN(const auto matrices, read_items(options.matrices, options.matrix_count, "matrices"));
  std::vector<ImatrixEntry> entries;
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const graft_importance_matrix& one = matrices[i];
    GRAFT_TRY(need_names(i, "matrices", {one.name}));
    GRAFT_TRY_ASSIGN(const auto sums, read_items(one.sums, one.columns, "sums"));
    entries.push_back({one.name, sums, one.tokens});
  }
  if (entries.empty()) return invalid("An importance matrix is of one matrix or more; there are none.");
  ImatrixFacts facts;
  GRAFT_TRY(read_patterns(options.datasets, options.dataset_count, "data sets", facts.datasets));
  facts.chunks = static_cast<std::uint32_t>(std::min<std::uint64_t>(options.chunks, INT32_MAX));  // llama.cpp's int
  facts.chunk_size = options.context;
  os::FileSystem& files = os::system_files();
  GRAFT_TRY_ASSIGN(const Model model, load_model(files, path, {.check = WeightCheck::never}));
  GRAFT_TRY_ASSIGN(entries, named_for_gguf(model, std::move(entries)));
  if (output == nullptr) return ok_status();
  GRAFT_TRY(check_apart(path, output));
  return write_imatrix(files, output, std::move(entries), facts);
}

/// work(conversion), with its sentence kept.
template <typename Work>
graft_status run_on(graft_conversion& conversion, Work work) {
  try {
    const Status status = work(conversion);
    conversion.message = status.message();
    return static_cast<graft_status>(status.code());
  } catch (const std::bad_alloc&) {
    conversion.message = "Out of memory.";  // so short a text takes none
    return GRAFT_OUT_OF_MEMORY;
  } catch (...) {
    conversion.message = "Internal.";
    return GRAFT_INTERNAL;
  }
}

template <typename Work>
graft_status run(graft_conversion** conversion, Work work) {
  if (conversion == nullptr) return GRAFT_INVALID_ARGUMENT;
  *conversion = new (std::nothrow) graft_conversion();
  if (*conversion == nullptr) return GRAFT_OUT_OF_MEMORY;
  return run_on(**conversion, work);
}

/// One of a list of names that does not change; NULL beyond the last.
template <typename List>
const char* name_at(List list, std::size_t index) {
  try {
    static const std::vector<std::string> names = list();
    return index < names.size() ? names[index].c_str() : nullptr;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

}  // namespace
}  // namespace graft::convert

graft_status graft_convert(const char* path, const graft_convert_options* options, const char* output,
                           graft_conversion** conversion) {
  return graft::convert::run(
      conversion, [&](graft_conversion& made) { return graft::convert::convert_to(path, options, output, made); });
}

graft_status graft_convert_adapter(const char* path, const char* base, const char* output,
                                   graft_conversion** conversion) {
  return graft_convert_adapter_with(path, base, nullptr, output, conversion);
}

graft_status graft_convert_adapter_with(const char* path, const char* base,
                                        const graft_convert_adapter_options* options, const char* output,
                                        graft_conversion** conversion) {
  return graft::convert::run(conversion, [&](graft_conversion& made) {
    return graft::convert::convert_adapter_to(path, base, options, output, made);
  });
}

graft_status graft_convert_tokenizer(const char* path, graft_conversion** conversion) {
  return graft::convert::run(conversion,
                             [&](graft_conversion& made) { return graft::convert::convert_tokenizer_to(path, made); });
}

graft_status graft_conversion_bytes(graft_conversion* conversion, const void** data, size_t* bytes) {
  if (conversion == nullptr) return GRAFT_INVALID_ARGUMENT;
  return graft::convert::run_on(*conversion,
                                [&](graft_conversion& made) { return graft::convert::give_bytes(made, data, bytes); });
}

graft_status graft_export(const char* path, const graft_export_options* options, const char* output,
                          graft_conversion** conversion) {
  return graft::convert::run(
      conversion, [&](graft_conversion& made) { return graft::convert::export_to(path, options, output, made); });
}

graft_status graft_export_snapshot(const char* folder, const char* snapshot, const char* output,
                                   graft_conversion** conversion) {
  return graft::convert::run(conversion, [&](graft_conversion& made) {
    return graft::convert::export_snapshot_to(folder, snapshot, output, made);
  });
}

graft_status graft_write_imatrix(const char* path, const graft_imatrix_options* options, const char* output,
                                 graft_conversion** conversion) {
  return graft::convert::run(
      conversion, [&](graft_conversion&) { return graft::convert::write_imatrix_to(path, options, output); });
}

graft_status graft_convert_example(const char* name, uint64_t seed, const char* output, graft_conversion** conversion) {
  return graft::convert::run(conversion,
                             [&](graft_conversion&) { return graft::convert::write_example(name, seed, output); });
}

const char* graft_convert_example_name(size_t index) {
  return graft::convert::name_at([] { return graft::convert::example_names(); }, index);
}

const char* graft_convert_quantize_name(size_t index) {
  return graft::convert::name_at([] { return graft::block_format_names(); }, index);
}

const char* graft_export_format_name(size_t index) {
  return graft::convert::name_at([] { return graft::convert::export_formats(); }, index);
}

const char* graft_export_dtype_name(size_t index) {
  return graft::convert::name_at([] { return graft::convert::export_dtypes(); }, index);
}

const char* graft_export_format_of(const char* output) {
  if (output == nullptr) return "";
  try {
    const std::string format = graft::convert::export_format("", output);
    const char* name = "";
    for (size_t i = 0; (name = graft_export_format_name(i)) != nullptr && format != name;) ++i;
    return name == nullptr ? "" : name;
  } catch (const std::bad_alloc&) {
    return "";
  }
}

graft_status graft_conversion_save(graft_conversion* conversion, const char* output) {
  if (conversion == nullptr) return GRAFT_INVALID_ARGUMENT;
  return graft::convert::run_on(*conversion,
                                [&](graft_conversion& made) { return graft::convert::save_kept(made, output); });
}

void graft_conversion_destroy(graft_conversion* conversion) { delete conversion; }

const char* graft_conversion_message(const graft_conversion* conversion) {
  return conversion == nullptr ? "" : conversion->message.c_str();
}

const char* graft_conversion_report(const graft_conversion* conversion) {
  return conversion == nullptr ? "" : conversion->report.c_str();
}

const char* graft_conversion_report_json(const graft_conversion* conversion) {
  return conversion == nullptr ? "" : conversion->report_json.c_str();
}

const char* graft_conversion_errors(const graft_conversion* conversion) {
  return conversion == nullptr ? "" : conversion->errors.c_str();
}

const char* graft_conversion_tokenizer_fault(const graft_conversion* conversion) {
  return conversion == nullptr ? "" : conversion->tokenizer_fault.c_str();
}
