// graft/convert.h
#include <filesystem>
#include <initializer_list>
#include <new>

#include "graft/convert.h"
#include "runtime/core/quantized.h"
#include "runtime/session/c_api/c_options.h"
#include "tools/convert/adapter/adapter_files.h"
#include "tools/convert/convert_file.h"
#include "tools/convert/export_file.h"

struct graft_conversion {
  std::string message;
  std::string report;
  std::string report_json;
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

Result<FileOptions> file_options(const graft_convert_options* given) {
  GRAFT_TRY_ASSIGN(const graft_convert_options options, c_api::read_options(given, "graft_convert_options"));
  FileOptions out;
  GRAFT_TRY_ASSIGN(out.bindings, c_api::read_bindings(options.bindings, options.binding_count));
  GRAFT_TRY(read_patterns(options.constants, options.constant_count, "constants", out.constants));
  GRAFT_TRY(read_patterns(options.parameters, options.parameter_count, "parameters", out.parameters));
  out.weights.expand = options.expand != 0;
  GRAFT_TRY_ASSIGN(out.weights.quantize, parse_block_format(text_of(options.quantize)));
  return out;
}

Status need_paths(std::initializer_list<const char*> paths) {
  for (const char* path : paths) {
    if (path == nullptr) return invalid("A path is NULL.");
  }
  return ok_status();
}

Status check_apart(const char* source, const char* output) {
  std::error_code ignored;
  if (!std::filesystem::equivalent(source, output, ignored)) return ok_status();
  return invalid("The output would be written over its source \"", source, "\".");
}

Status convert_to(const char* path, const graft_convert_options* given, const char* output, graft_conversion& made) {
  GRAFT_TRY(need_paths({path, output}));
  GRAFT_TRY_ASSIGN(const FileOptions options, file_options(given));
  GRAFT_TRY(check_apart(path, output));
  Report report;
  const auto converted = convert_file(os::system_files(), path, options, report);
  if (converted.ok() || !report.entries.empty()) {
    made.report = report.text();
    made.report_json = report.json();
  }
  GRAFT_TRY(converted.status());
  return save_model(os::system_files(), output, converted->model);
}

Status convert_adapter_to(const char* path, const char* base, const char* output) {
  GRAFT_TRY(need_paths({path, base, output}));
  GRAFT_TRY(check_apart(path, output));
  GRAFT_TRY(check_apart(base, output));
  os::FileSystem& files = os::system_files();
  GRAFT_TRY_ASSIGN(const Model model, load_model(files, base, {.check = WeightCheck::at_once}));
  GRAFT_TRY_ASSIGN(const Model adapter, convert_adapter(files, path, model));
  return save_model(files, output, adapter);
}

Status export_to(const char* path, const graft_export_options* given, const char* output, graft_conversion& made) {
  GRAFT_TRY(need_paths({path, output}));
  GRAFT_TRY_ASSIGN(const graft_export_options options, c_api::read_options(given, "graft_export_options"));
  GRAFT_TRY(check_apart(path, output));
  os::FileSystem& files = os::system_files();
  GRAFT_TRY_ASSIGN(const Model model, load_model(files, path, {.check = WeightCheck::at_once}));
  GRAFT_TRY_ASSIGN(const ExportReport report, export_file(files, model, output,
                                                          {text_of(options.format), text_of(options.dtype),
                                                           text_of(options.source), options.allow_non_finite != 0}));
  made.report_json = report.json();
  for (const std::string& note : report.notes) made.report += note + "\n";
  for (const std::string& file : report.files) made.report += cat("Wrote ", file, ".\n");
  return ok_status();
}

/// work(conversion), with its sentence kept.
template <typename Work>
graft_status run(graft_conversion** conversion, Work work) {
  if (conversion == nullptr) return GRAFT_INVALID_ARGUMENT;
  *conversion = new (std::nothrow) graft_conversion();
  if (*conversion == nullptr) return GRAFT_OUT_OF_MEMORY;
  try {
    const Status status = work(**conversion);
    if (!status.ok()) (*conversion)->message = status.message();
    return static_cast<graft_status>(status.code());
  } catch (const std::bad_alloc&) {
    (*conversion)->message = "Out of memory.";  // so short a text takes none
    return GRAFT_OUT_OF_MEMORY;
  } catch (...) {
    (*conversion)->message = "Internal.";
    return GRAFT_INTERNAL;
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
  return graft::convert::run(conversion,
                             [&](graft_conversion&) { return graft::convert::convert_adapter_to(path, base, output); });
}

graft_status graft_export(const char* path, const graft_export_options* options, const char* output,
                          graft_conversion** conversion) {
  return graft::convert::run(
      conversion, [&](graft_conversion& made) { return graft::convert::export_to(path, options, output, made); });
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
