// The fields of config.json that each family has: one table, which the readers follow.
#pragma once

#include "tools/convert/common/known_fields.h"

namespace graft::convert {

/// `given`, the configuration of a language model or an encoder, with the family's values for fields that it lacks.
/// Errors: as check_fields(). `path`: in front of names in messages.
Result<Json> family_fields(const Json& given, std::string_view family, std::string_view path = {});
/// Whether the family has a field of that name.
bool has_field(std::string_view family, std::string_view name);
/// The fields of the whole around a model of text and images, without "text_config".
Status check_outer_fields(const Json& given, std::string_view family);
/// The fields of "rope_scaling" or "rope_parameters" for a type of scaling that graft has ("default" for none).
Status check_rope_fields(const Json& scaling, std::string_view type, std::string_view path);

}  // namespace graft::convert
