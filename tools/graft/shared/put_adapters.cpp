#include "tools/graft/shared/put_adapters.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <vector>

#include "tools/common/files.h"

namespace graft::cli {
namespace {

/// Of other programs: a PEFT folder or a GGUF file.
bool is_foreign(const std::string& file) {
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) return true;
  return begins_with(file, "GGUF");
}

/// Adapters as graft has them, made for the model of the file `base`.
Result<Owned<graft_conversion>> convert_adapter(const std::string& file, const std::string& base, bool any_base) {
  graft_convert_adapter_options options = {};
  options.struct_size = sizeof options;
  options.any_base = any_base ? 1 : 0;
  graft_conversion* made = nullptr;
  const graft_status status = graft_convert_adapter_with(file.c_str(), base.c_str(), &options, nullptr, &made);
  Owned<graft_conversion> conversion(made);
  TRY(checked(status, made));
  return conversion;
}

Status put_converted(graft_context* context, graft_model* model, const std::string& path,
                     const std::vector<std::string>& files, const std::vector<double>& weights, bool any_base) {
  std::vector<Owned<graft_conversion>> conversions;
  std::vector<graft_source> sources;
  for (const std::string& file : files) {
    TRY_ASSIGN(conversions.emplace_back(), convert_adapter(file, path, any_base));
    graft_source source = {};
    source.struct_size = sizeof source;
    source.kind = GRAFT_SOURCE_MEMORY;
    source.name = file.c_str();
    source.copy = 1;
    std::size_t bytes = 0;
    graft_conversion* const conversion = conversions.back().get();
    const graft_status given = graft_conversion_bytes(conversion, &source.data, &bytes);
    TRY(checked(given, conversion));
    source.bytes = bytes;
    sources.push_back(source);
  }
  std::vector<const graft_source*> pointers;
  for (const graft_source& source : sources) pointers.push_back(&source);
  return checked(graft_model_load_adapters_sources(model, pointers.data(), weights.data(), pointers.size()), context);
}

}  // namespace

Status put_adapters(graft_context* context, graft_model* model, const std::string& path, const AdapterFlags& adapter) {
  if (adapter.files.empty()) return ok_status();
  std::vector<std::string> files = adapter.files;
  std::vector<double> weights;
  for (std::string& file : files) weights.push_back(take_adapter_weight(file));
  if (adapter.any_base || std::ranges::any_of(files, is_foreign)) {
    return put_converted(context, model, path, files, weights, adapter.any_base);
  }
  std::vector<const char*> paths;
  for (const std::string& file : files) paths.push_back(file.c_str());
  return checked(graft_model_load_adapters_together(model, paths.data(), weights.data(), paths.size()), context);
}

Result<Owned<graft_model>> open_adapted(graft_context* context, const std::string& path, const AdapterFlags& adapter,
                                        graft_weight_check check) {
  TRY_ASSIGN(auto model, open_model(context, path, check));
  TRY(put_adapters(context, model.get(), path, adapter));
  return model;
}

Result<std::string> new_tokens_json(const std::string& text) {
  std::error_code ignored;
  std::string list = text;
  char separator = ',';
  if (std::filesystem::is_regular_file(text, ignored)) {
    TRY_ASSIGN(list, text_of_file(text));
    if (text.ends_with(".json")) return list;
    separator = '\n';
  }
  auto tokens = nlohmann::json::array();
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find(separator, begin), list.size());
    std::string token = list.substr(begin, end - begin);
    if (separator == '\n' && token.ends_with('\r')) token.pop_back();
    if (separator == ',' || !token.empty()) tokens.push_back(std::move(token));
    begin = end + 1;
  }
  try {
    return tokens.dump();
  } catch (const nlohmann::json::type_error&) {
    return invalid("A token of --add-tokens is no valid UTF-8.");
  }
}

}  // namespace graft::cli
