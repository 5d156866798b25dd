// --quantize: the block format that matrices of a language model are to have.
#pragma once

#include <optional>
#include <string>

#include "runtime/core/dtype.h"
#include "tools/graft/command.h"

namespace graft::cli {

void add_quantize_flag(CLI::App& app, std::string& format,
                       const char* help = "Matrices of a language model become blocks of this format, frozen");
/// nullopt: none of that name.
std::optional<DType> block_format(std::string_view name);

}  // namespace graft::cli
