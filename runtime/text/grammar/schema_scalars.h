// JSON schemas of texts and whole numbers, and what reading all of them shares.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "platform/base/status.h"
#include "runtime/text/template/value.h"

namespace graft::text::schema {

template <typename... Parts>
Status refused(const std::string& at, const Parts&... parts) {
  return unsupported("The JSON schema at ", at, " ", parts..., ".");
}
template <typename... Parts>
Status wrong(const std::string& at, const Parts&... parts) {
  return invalid("The JSON schema at ", at, " ", parts..., ".");
}
inline std::string_view key_text(const jinja::Value& value) { return value.string().bytes; }

/// A count from a keyword.
Result<std::optional<std::int64_t>> count_of(const jinja::DictObject& schema, std::string_view key,
                                             const std::string& at);
/// "{2,5}", of things that may come so often.
std::string times(std::int64_t least, std::optional<std::int64_t> most);

/// What a text, with its quotes, and what a whole number may be: alternatives of a grammar's rule.
Result<std::string> string_rule(const jinja::DictObject& schema, const std::string& at);
Result<std::string> integer_rule(const jinja::DictObject& schema, const std::string& at);

}  // namespace graft::text::schema
