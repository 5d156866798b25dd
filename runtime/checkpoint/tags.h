// Names of snapshots: one tag is one snapshot's, and digits are a snapshot's number.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/store.h"

namespace graft::checkpoint {

/// Whether a name is a snapshot's number and never a tag: it has digits only.
bool is_number(std::string_view name);

/// The rule on tags that are given. Old stores may hold tags of digits only.
Status check_tags(const std::vector<std::string>& tags);

/// Takes the tags of a snapshot from all others. After a crash in between two have one tag: Store::find_tag() takes the
/// newer.
Status take_tags_from_others(Store& store, std::uint64_t number);

}  // namespace graft::checkpoint
