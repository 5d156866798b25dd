#include "tools/graft/shared/output.h"

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "tools/common/files.h"
#include "tools/common/options.h"
#include "tools/common/terminal.h"

namespace graft::cli {
namespace {

namespace fs = std::filesystem;

bool same_file(const fs::path& a, const fs::path& b) {
  std::error_code ignored;
  return fs::equivalent(a, b, ignored);
}

std::string cannot(const char* flag, const std::string& path) {
  return cat("The output \"", path, "\" (", flag, ") cannot be written");
}

/// Whether `path` is `input`, or lies in it as a folder. Links count as what they lead to.
bool is_within(const std::string& path, const std::string& input) {
  std::error_code failed;
  if (!fs::is_directory(input, failed)) return same_file(path, input);
  // Folders of models and data are flat or nearly so; a whole disk is not searched.
  constexpr int kDeepest = 4;
  for (fs::recursive_directory_iterator at(input, failed), end; !failed && at != end; at.increment(failed)) {
    if (at.depth() >= kDeepest) at.disable_recursion_pending();
    if (same_file(path, at->path())) return true;
  }
  return false;
}

}  // namespace

void print_json(const nlohmann::ordered_json& json) { to_stdout("%s\n", json.dump(2).c_str()); }

void add_in_place_flag(CLI::App& app, bool& in_place) {
  app.add_flag("--in-place", in_place, "The output may replace the file that is read");
}

void Outputs::reads(std::string what, const std::string& path) {
  if (!path.empty()) inputs_.push_back({std::move(what), path, false, false});
}

void Outputs::replaces(std::string what, const std::string& path, bool in_place) {
  if (!path.empty()) inputs_.push_back({std::move(what), path, true, in_place});
}

void Outputs::reads_data(const std::string& spec) {
  const std::size_t colon = spec.find(':');
  if (colon == std::string::npos) return;
  for (const std::string& path : split_list(spec.substr(colon + 1, spec.find('?') - colon - 1)))
    reads("the data", path);
}

Status Outputs::not_an_input(const char* flag, const std::string& path) const {
  for (const Input& input : inputs_) {
    if (input.may_replace || !is_within(path, input.path)) continue;
    return invalid("The output \"", path, "\" (", flag, ") is one of the inputs: ", input.what, " \"", input.path,
                   "\". Name another file", input.in_place ? ", or give --in-place to replace it." : ".");
  }
  return ok_status();
}

Status Outputs::claim(const char* flag, const std::string& path) {
  TRY(not_an_input(flag, path));
  for (const auto& [other, theirs] : written_) {
    if (theirs != path && !same_file(theirs, path)) continue;
    return invalid("The outputs of ", other, " and ", flag, " are one file, \"", path, "\".");
  }
  written_.emplace_back(flag, path);
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return invalid("The output \"", path, "\" (", flag, ") is a folder.");
  const fs::path parent = fs::path(path).parent_path();
  if (parent.empty() || fs::is_directory(parent, ignored)) return ok_status();
  return invalid(cannot(flag, path), ": there is no folder \"", parent.string(), "\".");
}

Status Outputs::file(const char* flag, const std::string& path) {
  if (path.empty()) return ok_status();
  TRY(claim(flag, path));
  return check_writable(path).with_context(cannot(flag, path));
}

Status Outputs::model(const char* flag, const std::string& path) {
  static constexpr const char* kOthers[] = {".gguf", ".onnx", ".tflite", ".safetensors", ".npz", ".npy",
                                            ".pt",   ".pth",  ".bin",    ".h5",          ".json"};
  TRY(file(flag, path));
  const std::string ending = fs::path(path).extension().string();
  for (const char* const other : kOthers) {
    if (ending != other) continue;
    return invalid("The output \"", path, "\" (", flag, ") would be a .graft file, and its name ends in ", ending,
                   "; graft export writes models of other formats.");
  }
  return ok_status();
}

Status Outputs::stream(const char* flag, const std::string& path) {
  if (path.empty()) return ok_status();
  TRY(claim(flag, path));
  std::error_code ignored;
  const bool fresh = !fs::exists(path, ignored);
  if (!fresh && !fs::is_regular_file(path, ignored)) return ok_status();  // a pipe waits for who opens it
  TRY(check_appendable(path).with_context(cannot(flag, path)));           // what is there stays until the work begins
  if (fresh) fs::remove(path, ignored);
  return ok_status();
}

Status Outputs::folder(const char* flag, const std::string& path, const std::vector<std::string>& names) {
  if (path.empty()) return ok_status();
  const std::string context = cannot(flag, path);
  TRY(not_an_input(flag, path));
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return check_folder(path).with_context(context);
  if (!fs::is_directory(path, ignored)) return invalid(context, ": it is there and is no folder.");
  TRY(check_writable(path + "/graft").with_context(context));
  for (const std::string& name : names) TRY(file(flag, path + "/" + name));
  return ok_status();
}

Status save_output(const std::string& path, const std::function<Status(const std::string& path)>& save) {
  Status status = save(path);
  // What is wrong with the model itself is wrong anywhere.
  if (status.ok() || (status.code() != Code::io_error && status.code() != Code::not_found)) return status;
  std::error_code ignored;
  std::vector<fs::path> folders = {fs::current_path(ignored), fs::temp_directory_path(ignored)};
  if (const char* home = std::getenv("HOME")) folders.emplace_back(home);
  for (const fs::path& folder : folders) {
    const auto name = random_name();
    if (!name.ok()) break;
    const fs::path kept = folder / cat("graft-kept-", *name, ".graft");
    if (folder.empty() || !save(kept.string()).ok()) continue;
    return error(status.code(), status.message(), " The model was kept as \"", kept.string(), "\" instead.");
  }
  return error(status.code(), status.message(), " It could not be kept in another folder either.");
}

}  // namespace graft::cli
