#include "platform/base/toggles.h"

#include <algorithm>

namespace graft {
namespace {

constexpr std::string_view kOn = "on";
constexpr std::string_view kOff = "off";

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

bool is_known(std::string_view name, std::span<const ToggleInfo> known) {
  return std::any_of(known.begin(), known.end(), [&](const ToggleInfo& info) { return info.name == name; });
}

}  // namespace

Result<Toggles> Toggles::parse(std::string_view text, std::span<const ToggleInfo> known) {
  Toggles toggles;
  while (!text.empty()) {
    const auto comma = text.find(',');
    const std::string_view item = trim(text.substr(0, comma));
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
    if (item.empty()) continue;
    const auto equals = item.find('=');
    std::string_view name = item.substr(0, equals);
    std::string_view value = equals == std::string_view::npos ? kOn : item.substr(equals + 1);
    // A known name that itself starts with "no-" keeps its meaning.
    if (!is_known(name, known) && name.starts_with("no-") && equals == std::string_view::npos) {
      name.remove_prefix(3);
      value = kOff;
    }
    if (!is_known(name, known)) {
      std::string names;
      for (const ToggleInfo& info : known) names += cat(names.empty() ? "" : ", ", info.name);
      return invalid("There is no switch named \"", name, "\"; the known ones are: ", names.empty() ? "none" : names,
                     ".");
    }
    toggles.values_.insert_or_assign(std::string(name), std::string(value));
  }
  return toggles;
}

bool Toggles::enabled(std::string_view name, bool fallback) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return fallback;
  return found->second != kOff && found->second != "0" && found->second != "false";
}

std::optional<std::string_view> Toggles::value(std::string_view name) const {
  const auto found = values_.find(name);
  if (found == values_.end() || found->second == kOn || found->second == kOff) return std::nullopt;
  return found->second;
}

}  // namespace graft
