// --adapter and --any-base of commands that take a model.
#pragma once

#include <string>
#include <vector>

#include "tools/common/command.h"

namespace graft::cli {

/// --adapter and --any-base.
struct AdapterFlags {
  std::vector<std::string> files;  ///< FILE, or FILE=WEIGHT where there is no such file; empty: none
  bool any_base = false;
};
void add_adapter_flags(CLI::App& app, AdapterFlags& flags, bool required = false);

/// "0.7" of "FILE=0.7"; 1 where the text is the name of a file or ends in no number. The name alone stays in `file`.
double take_adapter_weight(std::string& file);
/// The names alone.
std::vector<std::string> adapter_files(const AdapterFlags& flags);

}  // namespace graft::cli
