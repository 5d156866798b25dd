// --on-long and --show-samples, of data sets of text.
#pragma once

#include <cstdint>
#include <string>

#include "tools/common/command.h"

namespace graft::cli {

struct TextFlags {
  std::string on_long;  ///< empty: as the data set says
  std::uint64_t show = 0;
};
void add_long_flag(CLI::App& app, TextFlags& flags);

}  // namespace graft::cli
