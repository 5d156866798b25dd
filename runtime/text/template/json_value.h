// JSON as a template's values, and back.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "platform/base/status.h"
#include "runtime/text/template/value.h"

namespace graft::text::jinja {

/// Sorted.
using KnownRoles = std::vector<std::string>;

/// What stands in `json`, its texts with that mark. Of equal keys the last counts. With `conversation`, the roles that
/// a template knows: what the assistant's messages hold is marked as reply, from kFirstReply on, and a message's role
/// as the template's own text if it is one of these. invalid_argument: no JSON, nested too deeply.
Result<Value> value_of_json(Heap& heap, std::string_view json, char mark, const KnownRoles* conversation = nullptr);

struct JsonForm {
  std::string indent;  ///< of one level; empty with one_line
  bool one_line = true;
  MarkedText item_separator = marked(", ");
  MarkedText key_separator = marked(": ");
  bool sort_keys = false;
  bool ascii = false;
};

/// As Python's json.dumps; invalid_argument: what JSON has no form for.
Result<MarkedText> json_text(const Value& value, const JsonForm& form, std::size_t limit);

/// A text as JSON spells it, with its quotes.
MarkedText json_string(const MarkedText& text, bool ascii);

}  // namespace graft::text::jinja
