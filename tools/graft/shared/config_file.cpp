#include "tools/graft/shared/config_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tools/common/files.h"

namespace graft::cli {
namespace {

constexpr std::string_view kFlag = "--config";

/// "lr" of "--lr" and "--lr=0.1"; "o" of "-o"; empty for what is no flag.
std::string_view flag_of(std::string_view argument) {
  if (argument.size() < 2 || argument[0] != '-') return {};
  argument.remove_prefix(argument[1] == '-' ? 2 : 1);
  return argument.substr(0, argument.find('='));
}

bool is_given(const CLI::Option& option, const std::vector<std::string>& arguments) {
  return std::ranges::any_of(arguments, [&](const std::string& argument) {
    const std::string_view flag = flag_of(argument);
    const auto has = [&](const std::vector<std::string>& names) {
      return std::ranges::find(names, flag) != names.end();
    };
    return !flag.empty() && (has(option.get_lnames()) || has(option.get_snames()) || has(option.get_fnames()));
  });
}

Result<nlohmann::ordered_json> read_config(const std::string& path) {
  auto text = text_of_file(path, std::uint64_t{1} << 20);
  if (!text.ok()) return std::move(text).status().with_context(cat("Cannot read the configuration \"", path, "\""));
  auto json = nlohmann::ordered_json::parse(*text, nullptr, false);
  if (!json.is_object()) return invalid("The configuration \"", path, "\" is no JSON object.");
  return json;
}

std::string word_of(const nlohmann::ordered_json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// Appends the arguments that one key stands for.
Status add(const CLI::Option& option, const std::string& key, const nlohmann::ordered_json& value,
           std::vector<std::string>& out) {
  const std::string flag = (key.size() == 1 ? "-" : "--") + key;
  const bool positional = option.get_lnames().empty() && option.get_snames().empty();
  if (value.is_boolean()) {
    if (option.get_expected_max() > 0)
      return invalid("The configuration's \"", key, "\" takes a value, not ", value.dump(), ".");
    if (value.get<bool>()) out.push_back(flag);
    return ok_status();
  }
  if (value.is_object() || value.is_null()) {
    return invalid("The configuration's \"", key, "\" is ", value.dump(),
                   "; a number, a text, true or a list is needed.");
  }
  if (option.get_expected_max() == 0)
    return invalid("The configuration's \"", key, "\" is true or false, not ", value.dump(), ".");
  const auto values = value.is_array() ? value : nlohmann::ordered_json::array({value});
  for (const auto& one : values) {
    if (one.is_object() || one.is_array() || one.is_null())
      return invalid("The configuration's \"", key, "\" holds ", one.dump(), ".");
    out.push_back(positional ? word_of(one) : flag + "=" + word_of(one));
  }
  return ok_status();
}

const CLI::Option* find_option(const CLI::App& command, const std::string& key) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->check_name((key.size() == 1 ? "-" : "--") + key) || option->check_name(key)) return option;
  }
  return nullptr;
}

/// Whether the command line gives the flag, or one that takes its place.
bool is_settled(const CLI::App& command, const CLI::Option& option, const std::vector<std::string>& arguments) {
  constexpr std::pair<std::string_view, std::string_view> kOneOf[] = {
      {"steps", "epochs"}, {"eval", "eval-split"}, {"adapter", "lora"}, {"adapter", "add-tokens"}};
  const auto other_is_given = [&](std::string_view name, std::string_view other) {
    const CLI::Option* const found = find_option(command, std::string(other));
    return option.check_lname(std::string(name)) && found != nullptr && is_given(*found, arguments);
  };
  return is_given(option, arguments) || std::ranges::any_of(kOneOf, [&](const auto& both) {
           return other_is_given(both.first, both.second) || other_is_given(both.second, both.first);
         });
}

Result<std::vector<std::string>> with_flags(const CLI::App& command, const nlohmann::ordered_json& config,
                                            const std::string& path, const std::vector<std::string>& arguments) {
  std::vector<std::string> out, positional;
  for (const auto& [key, value] : config.items()) {
    const CLI::Option* const option = find_option(command, key);
    if (option == nullptr || key == "config" || key == "help") {
      return invalid("The configuration \"", path, "\" has \"", key, "\", which is no flag of graft ",
                     command.get_name(), ".");
    }
    const bool is_positional = option->get_lnames().empty() && option->get_snames().empty();
    if (!is_positional && is_settled(command, *option, arguments)) continue;
    if (is_positional && !arguments.empty() && flag_of(arguments[0]).empty()) continue;
    auto added = add(*option, key, value, is_positional ? positional : out);
    if (!added.ok()) return std::move(added).with_context(cat("In \"", path, "\""));
  }
  positional.insert(positional.end(), out.begin(), out.end());
  positional.insert(positional.end(), arguments.begin(), arguments.end());
  return positional;
}

}  // namespace

Result<std::vector<std::string>> with_config(const CLI::App& command, const std::vector<std::string>& arguments) {
  std::string path;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == kFlag && i + 1 < arguments.size()) path = arguments[i + 1];
    if (arguments[i].starts_with(std::string(kFlag) + "=")) path = arguments[i].substr(kFlag.size() + 1);
  }
  if (path.empty() || command.get_option_no_throw(std::string(kFlag)) == nullptr) return arguments;
  TRY_ASSIGN(const nlohmann::ordered_json config, read_config(path));
  return with_flags(command, config, path, arguments);
}

Result<std::vector<std::string>> arguments_of(const CLI::App& command, const std::string& config) {
  const auto json = nlohmann::ordered_json::parse(config, nullptr, false);
  if (!json.is_object()) return corrupt("What the run was given is no JSON object.");
  return with_flags(command, json, "of the run", {});
}

std::string config_text(const CLI::App& command) {
  nlohmann::ordered_json config = nlohmann::ordered_json::object();
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() == 0) continue;
    const std::string name = !option->get_lnames().empty()   ? option->get_lnames().back()
                             : !option->get_snames().empty() ? option->get_snames().back()
                                                             : option->get_name();
    if (name == "config" || name == "help") continue;
    if (option->get_expected_max() == 0) {
      const bool off = option->results().back() == "false";
      config[off && !option->get_fnames().empty() ? option->get_fnames().back() : name] = true;
    } else if (option->results().size() == 1) {
      config[name] = option->results().front();
    } else {
      config[name] = option->results();
    }
  }
  return config.dump(2) + "\n";
}

}  // namespace graft::cli
