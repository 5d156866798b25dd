// graft/convert.h
#include <filesystem>
#include <new>

#include "graft/convert.h"
#include "runtime/session/c_api/c_options.h"
#include "tools/convert/convert_file.h"

struct graft_conversion {
  std::string message;
  std::string report;
  std::string report_json;
};

namespace graft::convert {
namespace {

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
  if (options.quantize == nullptr) return out;
  out.weights.quantize = block_format(options.quantize);
  if (out.weights.quantize) return out;
  std::string known;
  for (const std::string& name : block_format_names()) known += (known.empty() ? "" : ", ") + name;
  return invalid("There is no format of blocks \"", options.quantize, "\"; there are ", known, ".");
}

Status convert_to(const char* path, const graft_convert_options* given, const char* output, graft_conversion& made) {
  if (path == nullptr || output == nullptr) return invalid("A conversion goes from a path to a path; one is NULL.");
  GRAFT_TRY_ASSIGN(const FileOptions options, file_options(given));
  std::error_code ignored;
  if (std::filesystem::equivalent(path, output, ignored)) {
    return invalid("The model would be written over its source \"", path, "\".");
  }
  Report report;
  const auto converted = convert_file(os::system_files(), path, options, report);
  if (converted.ok() || !report.entries.empty()) {
    made.report = report.text();
    made.report_json = report.json();
  }
  GRAFT_TRY(converted.status());
  return save_model(os::system_files(), output, converted->model);
}

}  // namespace
}  // namespace graft::convert

graft_status graft_convert(const char* path, const graft_convert_options* options, const char* output,
                           graft_conversion** conversion) {
  if (conversion == nullptr) return GRAFT_INVALID_ARGUMENT;
  *conversion = new (std::nothrow) graft_conversion();
  if (*conversion == nullptr) return GRAFT_OUT_OF_MEMORY;
  try {
    const graft::Status status = graft::convert::convert_to(path, options, output, **conversion);
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
