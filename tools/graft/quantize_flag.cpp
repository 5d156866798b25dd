#include "tools/graft/quantize_flag.h"

namespace graft::cli {
namespace {

constexpr DType kFormats[] = {DType::q8_0, DType::q4_0, DType::q4_1, DType::q5_0,
                              DType::q5_1, DType::q4_k, DType::q5_k, DType::q6_k};

}  // namespace

std::optional<DType> block_format(std::string_view name) {
  for (const DType dtype : kFormats) {
    if (dtype_name(dtype) == name) return dtype;
  }
  return std::nullopt;
}

void add_quantize_flag(CLI::App& app, std::string& format, const char* help) {
  std::vector<std::string> formats;
  for (const DType dtype : kFormats) formats.emplace_back(dtype_name(dtype));
  app.add_option("--quantize", format, help)->check(CLI::IsMember(formats));
}

}  // namespace graft::cli
