#include "tools/convert/common/known_fields.h"

#include <algorithm>
#include <cmath>

namespace graft::convert {
namespace {

Json table(std::string_view text) { return Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false); }

bool lists(std::string_view names, std::string_view name) {
  for (std::size_t at = names.find(name); at != std::string_view::npos; at = names.find(name, at + 1)) {
    const auto parts = [&](std::size_t i) { return i >= names.size() || names[i] == ' ' || names[i] == '\n'; };
    if (parts(at + name.size()) && (at == 0 || parts(at - 1))) return true;
  }
  return false;
}

/// A value as a message shows it.
std::string brief(const Json& value) {
  constexpr std::size_t kMost = 60;
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() <= kMost ? text : cat(shown(text.substr(0, kMost)), "...");
}

bool says_nothing(const Json& value, bool zeros) {
  if (value.is_null() || value == false || (zeros && value.is_number() && value == 0)) return true;
  return (value.is_array() || value.is_object()) ? value.empty() : value == "";
}

Status check_kind(const std::string& name, const Json& value, const Json& like) {
  if (value.is_null() || like.is_null()) return {};
  const bool fits = like.is_number() ? value.is_number() && std::isfinite(value.get<double>())
                    : like.is_boolean() ? value.is_boolean()
                    : like.is_string()  ? value.is_string()
                    : like.is_array()   ? value.is_array()
                                        : value.is_object();
  if (fits) return {};
  const char* const kind = like.is_number()    ? "a finite number"
                           : like.is_boolean() ? "true or false"
                           : like.is_string()  ? "a string"
                           : like.is_array()   ? "a list"
                                               : "an object";
  return corrupt("The field \"", name, "\" is ", brief(value), "; it must be ", kind, ".");
}

}  // namespace

Status first_unknown(const Json& object, std::span<const KnownFields> known, std::string_view whose,
                     std::string_view path, bool zeros) {
  if (!object.is_object()) return {};
  std::vector<std::pair<Json, Json>> tables;  // applied, fixed
  for (const KnownFields& fields : known) tables.emplace_back(table(fields.applied), table(fields.fixed));
  for (const auto& [key, value] : object.items()) {
    const std::string name = path.empty() ? key : cat(path, ".", key);
    bool found = false;
    for (std::size_t i = 0; i < known.size() && !found; ++i) {
      const auto& [applied, fixed] = tables[i];
      found = applied.contains(key) || lists(known[i].harmless, key);
      if (const auto like = applied.find(key); like != applied.end()) GRAFT_TRY(check_kind(name, value, *like));
      const auto only = fixed.find(key);
      if (only == fixed.end() || value.is_null()) continue;
      found = true;
      if (std::ranges::find(*only, value) != only->end()) continue;
      return unsupported("The field \"", shown(name), "\" is ", brief(value), "; ", whose, " of graft has ",
                         brief(only->front()), " there.");
    }
    if (found || says_nothing(value, zeros)) continue;
    return unsupported("The field \"", shown(name), "\" is ", brief(value), ", and graft does not know what it means for ",
                       whose, ".");
  }
  return {};
}

Status check_fields(const Json& object, std::span<const KnownFields> known, std::string_view whose,
                    std::string_view path, bool zeros) {
  Status status = first_unknown(object, known, whose, path, zeros);
  if (status.code() != Code::unsupported) return status;
  return unsupported(status.message(), " Name it among the ignored fields to convert without it.");
}

Status check_found(const IgnoredFields& ignored, const std::vector<std::string>& found) {
  for (const std::string& name : ignored) {
    if (std::ranges::find(found, name) == found.end()) return invalid("No configuration has the field \"", name, "\".");
  }
  return {};
}

Json with_defaults(const Json& given, const KnownFields& known) {
  Json out = given;
  const Json applied = table(known.applied);
  for (const auto& [name, value] : applied.items()) {
    if (out.is_object() && !value.is_structured() && !out.contains(name)) out[name] = value;
  }
  return out;
}

}  // namespace graft::convert
