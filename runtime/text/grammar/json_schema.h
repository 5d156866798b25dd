// A JSON schema as a grammar.
#pragma once

#include <string>
#include <string_view>

#include "platform/base/status.h"

namespace graft::text {

/// A grammar, for Grammar::parse(), of which every text is JSON that the schema allows. Not all that it allows:
/// properties come in the schema's order and no others where it does not speak of others, between values stands at most
/// one space, and numbers have up to 16 digits. Read: true and {}, type (also several), enum, const, anyOf, oneOf whose
/// alternatives exclude each other, $ref within the schema, properties, required, additionalProperties, items,
/// prefixItems, minItems, maxItems, minLength, maxLength, pattern, format (date, time, date-time, uuid), minimum,
/// maximum and exclusive ones of integers. invalid_argument: no JSON, no schema, or one that allows nothing;
/// unsupported: a keyword or pattern that is none of these, by name and place.
Result<std::string> grammar_of_schema(std::string_view schema);

}  // namespace graft::text
