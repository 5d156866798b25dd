// --quantize: the block format that matrices of a language model are to have.
#pragma once

#include <string>

#include "tools/common/command.h"

namespace graft::cli {

void add_quantize_flag(CLI::App& app, std::string& format,
                       const char* help = "Matrices of a language model become blocks of this format, frozen");

}  // namespace graft::cli
