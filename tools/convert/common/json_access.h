// Reading nlohmann's documents without its exceptions: every access checks the type and says what is wrong.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "platform/base/status.h"

namespace graft::convert {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;  ///< for files that people read

/// Deeper documents are refused: what walks or prints them calls itself. Those that graft reads nest five deep.
inline constexpr std::size_t kMaxJsonDepth = 64;
/// corrupt where brackets outside of strings nest deeper; says nothing else of `text`.
Status check_json_depth(std::string_view text);

/// corrupt where `text` is no JSON, or nests deeper than kMaxJsonDepth.
Result<Json> parse_json(std::string_view text);

/// A member of an object; nullptr where it is missing or null, or `object` is no object.
const Json* member(const Json& object, const char* name);
/// The string `name`; empty where it is missing or no string.
std::string_view string_member(const Json& object, const char* name);
/// The boolean `name`; `otherwise` where it is missing or no boolean.
bool flag_member(const Json& object, const char* name, bool otherwise);
/// The number `name`; `otherwise` where it is missing or no finite number.
double number_member(const Json& object, const char* name, double otherwise);
/// The integer `name`: corrupt where it is missing, none, or outside [low, high].
Result<std::int64_t> integer_member(const Json& object, const char* name, std::int64_t low, std::int64_t high);
/// An integer in [low, high], called `what` in the message.
Result<std::int64_t> integer_value(const Json& value, const std::string& what, std::int64_t low, std::int64_t high);

}  // namespace graft::convert
