// What a command writes: refused before the work where it could not be written after it or is one of the inputs, and
// kept somewhere else where the last write fails all the same.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tools/common/command.h"

namespace graft::cli {

/// What --json prints.
void print_json(const nlohmann::ordered_json& json);

/// --in-place, for commands whose output may replace the model or adapter that they read.
void add_in_place_flag(CLI::App& app, bool& in_place);

/// All files that one run of a command reads and writes. Empty paths are passed over everywhere.
class Outputs {
 public:
  /// `what`: as in "the model". Folders stand for all files in them.
  void reads(std::string what, const std::string& path);
  /// The same of a file that the output may replace where --in-place is given.
  void replaces(std::string what, const std::string& path, bool in_place);
  /// The files that a data set's SPEC names.
  void reads_data(const std::string& spec);

  /// Before the work: whether `path` can be written, as `flag` asks for. Leftovers of killed runs are removed.
  Status file(const char* flag, const std::string& path);
  /// The same of a .graft file: a name that ends as files of another format do is refused.
  Status model(const char* flag, const std::string& path);
  /// A file that grows while the work goes on, such as a log; it may be a pipe or a device.
  Status stream(const char* flag, const std::string& path);
  /// A folder, which may still be missing, and the files of these names in it.
  Status folder(const char* flag, const std::string& path, const std::vector<std::string>& names = {});

 private:
  struct Input {
    std::string what;
    std::string path;
    bool in_place;     ///< --in-place is known to the command
    bool may_replace;  ///< and was given
  };
  Status claim(const char* flag, const std::string& path);
  Status not_an_input(const char* flag, const std::string& path) const;

  std::vector<Input> inputs_;
  std::vector<std::pair<std::string, std::string>> written_;  // flag, path
};

/// save(path); where that fails, the model goes to another folder (the current one, that of temporary files, the
/// user's) under a name that the error tells.
Status save_output(const std::string& path, const std::function<Status(const std::string& path)>& save);

}  // namespace graft::cli
