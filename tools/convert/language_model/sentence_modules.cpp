#include "tools/convert/language_model/sentence_modules.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "platform/base/numbers.h"
#include "platform/base/text.h"
#include "runtime/language/text_inputs.h"
#include "tools/convert/common/json_access.h"

namespace graft::convert {
namespace {

constexpr std::uint64_t kLargestModules = std::uint64_t{1} << 20;
constexpr std::array<std::pair<const char*, Pooling>, 3> kModes = {{{"pooling_mode_mean_tokens", Pooling::mean},
                                                                    {"pooling_mode_cls_token", Pooling::cls},
                                                                    {"pooling_mode_lasttoken", Pooling::last}}};

Json json_of(os::FileSystem& files, const std::string& path) {
  const auto text = os::read_text_file(files, path, kLargestModules);
  if (!text.ok()) return {};
  auto json = parse_json(*text);
  return json.ok() ? std::move(*json) : Json();
}

/// A folder's name within the model's folder, and nothing else.
bool is_plain_name(std::string_view path) {
  return !path.empty() && path.front() != '.' && std::ranges::all_of(path, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
  });
}

/// nullopt: none, several or another than graft has.
std::optional<Pooling> read_pooling(const Json& config) {
  std::optional<Pooling> out;
  if (!config.is_object()) return out;
  int modes = 0;
  for (const auto& [name, value] : config.items()) {
    if (name.starts_with("pooling_mode_") && value.is_boolean() && value.get<bool>()) ++modes;
  }
  for (const auto& [name, pooling] : kModes) {
    if (flag_member(config, name, false)) out = pooling;
  }
  return modes == 1 ? out : std::nullopt;
}

/// What sentence-transformers does to a text before the network, and graft embed does not.
void note_texts(os::FileSystem& files, const std::string& folder, const Model& model, Report& report) {
  const Json cut = json_of(files, folder + "/sentence_bert_config.json");
  if (cut.is_object()) {
    if (flag_member(cut, "do_lower_case", false)) {
      report.notes.push_back(
          "sentence_bert_config.json asks for lower case (do_lower_case); graft embed takes texts as they are.");
    }
    const auto length = integer_member(cut, "max_seq_length", 1, std::numeric_limits<std::int32_t>::max());
    const auto context = model.metadata.find(kMetaContext);
    std::int64_t most = 0;
    if (length.ok() && context != model.metadata.end() && whole_number(context->second, most) && *length < most) {
      report.notes.push_back(cat("sentence_bert_config.json cuts texts to ", *length,
                                 " tokens (max_seq_length); graft embed takes up to ", most, "."));
    }
  }
  const Json texts = json_of(files, folder + "/config_sentence_transformers.json");
  const std::string_view name = string_member(texts, "default_prompt_name");
  const Json* prompts = member(texts, "prompts");
  if (name.empty() || prompts == nullptr) return;
  const std::string_view prompt = string_member(*prompts, std::string(name).c_str());
  if (prompt.empty()) return;
  report.notes.push_back(cat("config_sentence_transformers.json puts \"", shown(prompt),
                             "\" before each text (default_prompt_name); graft embed puts nothing there."));
}

OrderedJson module_entry(int index, const char* path, const char* type) {
  return {{"idx", index},
          {"name", std::to_string(index)},
          {"path", path},
          {"type", cat("sentence_transformers.models.", type)}};
}

}  // namespace

void add_sentence_modules(os::FileSystem& files, const std::string& folder, Model& model, Report& report) {
  const std::string path = folder + "/modules.json";
  if (!os::exists(files, path)) return;
  const Json modules = json_of(files, path);
  if (!modules.is_array()) {
    report.notes.push_back("modules.json is no list, and is passed over.");
    return;
  }
  std::optional<Pooling> pooling;
  bool normalize = false;
  for (const Json& module : modules) {
    const std::string_view type = string_member(module, "type"), where = string_member(module, "path");
    const std::string_view name = type.substr(type.rfind('.') + 1);  // rfind's npos + 1 is 0
    if (name == "Transformer") continue;
    if (name == "Normalize") {
      normalize = true;
    } else if (name == "Pooling") {
      if (is_plain_name(where)) pooling = read_pooling(json_of(files, cat(folder, "/", where, "/config.json")));
      if (!pooling) {
        report.notes.push_back(
            "The pooling that modules.json asks for is none of mean, cls and last alone; graft embed "
            "takes the mean.");
      }
    } else {
      report.notes.push_back(
          cat("The module \"", shown(name), "\" of modules.json is left out: vectors are those before it."));
    }
  }
  if (pooling) remember_pooling(*pooling, normalize, model.metadata);
  note_texts(files, folder, model, report);
}

Status write_sentence_modules(os::FileSystem& files, const std::string& folder, const Model& model, std::int64_t width,
                              std::vector<std::string>& written) {
  const auto pooling = pooling_of(model.metadata);
  if (!pooling) return {};
  const auto write = [&](const std::string& name, const OrderedJson& json) -> Status {
    written.push_back(cat(folder, "/", name));
    return os::atomic_write_file(files, written.back(), json.dump(2) + "\n");
  };
  OrderedJson modules = {module_entry(0, "", "Transformer"), module_entry(1, "1_Pooling", "Pooling")};
  if (normalizes(model.metadata)) modules.push_back(module_entry(2, "2_Normalize", "Normalize"));
  OrderedJson config = {{"word_embedding_dimension", width}};
  for (const auto& [name, mode] : kModes) config[name] = mode == *pooling;
  config["pooling_mode_max_tokens"] = false;
  config["pooling_mode_mean_sqrt_len_tokens"] = false;
  GRAFT_TRY(os::make_directories(files, folder + "/1_Pooling"));
  if (normalizes(model.metadata)) GRAFT_TRY(os::make_directories(files, folder + "/2_Normalize"));
  GRAFT_TRY(write("modules.json", modules));
  return write("1_Pooling/config.json", config);
}

}  // namespace graft::convert
