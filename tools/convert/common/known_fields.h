// What a reader knows of the fields of a configuration. Any other field that says something is refused by name.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/convert/common/json_access.h"

namespace graft::convert {

/// A list of fields. Lists of several parts (all families, one family) count together.
struct KnownFields {
  /// A JSON object: fields that the reader applies, with the value that a missing one has. A field must be of its
  /// value's kind; null: no value, and the reader checks the kind.
  std::string_view applied = "{}";
  std::string_view harmless = {};  ///< fields that change no number, separated by white space
  std::string_view fixed = "{}";   ///< a JSON object: fields that may have these values only
};

/// unsupported: a field of `object` that is in no list and says something, or that is fixed to another value.
/// corrupt: a field of another kind than its list says. null, false and empty values say nothing, and 0 where `zeros`.
/// `path`: in front of names, "rope_scaling". `whose`: "a llama", for messages.
Status first_unknown(const Json& object, std::span<const KnownFields> known, std::string_view whose,
                     std::string_view path = {}, bool zeros = false);
/// The same with a sentence on how to convert all the same.
Status check_fields(const Json& object, std::span<const KnownFields> known, std::string_view whose,
                    std::string_view path = {}, bool zeros = false);

/// `given` with the values of KnownFields::applied for fields that it lacks.
Json with_defaults(const Json& given, const KnownFields& known);

/// Fields that a user wants to be passed over, as messages name them: "is_causal", "rope_scaling.mrope_section".
using IgnoredFields = std::vector<std::string>;
/// invalid_argument: one of them was found nowhere.
Status check_found(const IgnoredFields& ignored, const std::vector<std::string>& found);
/// Sets them to null, which says nothing; those that are there are added to `found`.
template <typename AnyJson>
void clear_fields(AnyJson& object, const IgnoredFields& ignored, std::vector<std::string>& found) {
  for (const std::string& name : ignored) {
    AnyJson* at = &object;
    std::string_view rest = name;
    for (std::size_t dot = 0; at != nullptr && at->is_object(); rest.remove_prefix(dot + 1)) {
      if (const auto own = at->find(std::string(rest)); own != at->end()) {
        *own = nullptr;
        found.push_back(name);
        break;
      }
      dot = rest.find('.');
      if (dot == std::string_view::npos) break;
      const auto inner = at->find(std::string(rest.substr(0, dot)));
      at = inner == at->end() ? nullptr : &*inner;
    }
  }
}

}  // namespace graft::convert
