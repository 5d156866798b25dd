#include "tools/graft/shared/quantize_flag.h"

#include "tools/graft/shared/public_api.h"

namespace graft::cli {

void add_quantize_flag(CLI::App& app, std::string& format, const char* help) {
  app.add_option("--quantize", format, help)->check(CLI::IsMember(all_names(graft_convert_quantize_name)));
}

}  // namespace graft::cli
