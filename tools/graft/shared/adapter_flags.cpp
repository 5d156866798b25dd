#include "tools/graft/shared/adapter_flags.h"

#include <charconv>
#include <filesystem>
#include <system_error>

#include "tools/common/help.h"

namespace graft::cli {

void add_adapter_flags(CLI::App& app, AdapterFlags& flags, bool required) {
  const HelpGroup group(app, "Adapters");
  auto* file = app.add_option("--adapter", flags.files,
                              "An adapter for the model: of graft train --lora, a PEFT folder, or a GGUF file; several "
                              "are added up, each by its weight in FILE=WEIGHT (1)")
                   ->required(required);
  app.add_flag("--any-base", flags.any_base, "Take the adapter although it was made for other weights")->needs(file);
}

double take_adapter_weight(std::string& file) {
  const std::size_t equals = file.rfind('=');
  std::error_code ignored;
  if (equals == std::string::npos || equals == 0 || std::filesystem::exists(file, ignored)) return 1;
  double weight = 1;
  const char* const end = file.data() + file.size();
  const auto [stop, failure] = std::from_chars(file.data() + equals + 1, end, weight);
  if (failure != std::errc() || stop != end) return 1;
  file.resize(equals);
  return weight;
}

std::vector<std::string> adapter_files(const AdapterFlags& flags) {
  std::vector<std::string> files = flags.files;
  for (std::string& file : files) take_adapter_weight(file);
  return files;
}

}  // namespace graft::cli
