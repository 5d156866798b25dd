#include "tools/convert/common/json_access.h"

#include <cmath>

namespace graft::convert {

Status check_json_depth(std::string_view text) {
  std::size_t depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxJsonDepth) {
        return corrupt("The JSON nests more than ", kMaxJsonDepth, " deep at byte ", i, ".");
      }
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return ok_status();
}

Result<Json> parse_json(std::string_view text) {
  GRAFT_TRY(check_json_depth(text));
  Json out = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (out.is_discarded()) return corrupt("The ", text.size(), " bytes of the file are not valid JSON.");
  return out;
}

const Json* member(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string_view string_member(const Json& object, const char* name) {
  const Json* value = member(object, name);
  const auto* text = value != nullptr ? value->get_ptr<const std::string*>() : nullptr;
  return text != nullptr ? std::string_view(*text) : std::string_view();
}

bool flag_member(const Json& object, const char* name, bool otherwise) {
  const Json* value = member(object, name);
  return value != nullptr && value->is_boolean() ? value->get<bool>() : otherwise;
}

double number_member(const Json& object, const char* name, double otherwise) {
  const Json* value = member(object, name);
  const double number = value != nullptr && value->is_number() ? value->get<double>() : otherwise;
  return std::isfinite(number) ? number : otherwise;
}

Result<std::int64_t> integer_member(const Json& object, const char* name, std::int64_t low, std::int64_t high) {
  const Json* value = member(object, name);
  if (value == nullptr) return corrupt("\"", name, "\" is missing.");
  return integer_value(*value, cat('"', name, '"'), low, high);
}

Result<std::int64_t> integer_value(const Json& value, const std::string& what, std::int64_t low, std::int64_t high) {
  // Unsigned numbers above the signed range would wrap.
  const bool fits =
      value.is_number_integer() && (!value.is_number_unsigned() || value.get<std::uint64_t>() <= INT64_MAX);
  const std::int64_t number = fits ? value.get<std::int64_t>() : low;
  if (!fits || number < low || number > high) {
    return corrupt(what, " is not an integer between ", low, " and ", high, ".");
  }
  return number;
}

}  // namespace graft::convert
