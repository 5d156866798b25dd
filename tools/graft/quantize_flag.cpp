#include "tools/graft/quantize_flag.h"

namespace graft::cli {

void add_quantize_flag(CLI::App& app, std::string& format, const char* help) {
  app.add_option("--quantize", format, help)->check(CLI::IsMember(block_format_names()));
}

}  // namespace graft::cli
