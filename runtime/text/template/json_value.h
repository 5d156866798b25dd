// JSON as a template's values, and back.
#pragma once

#include <functional>
#include <string_view>

#include "platform/base/status.h"
#include "runtime/text/template/value.h"

namespace graft::text::jinja {

/// What stands in `json`, its texts with that mark. Of equal keys the last counts. With `is_conversation`, what the
/// assistant's messages hold, but for the role itself, is marked as reply, from kFirstReply on. invalid_argument: no
/// JSON, nested too deeply.
Result<Value> value_of_json(Heap& heap, std::string_view json, char mark, bool is_conversation = false);

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
