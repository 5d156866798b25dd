// Samples of two data sets in one: new ones, and a share of others that were kept.
#pragma once

#include <memory>

#include "runtime/data/source.h"

namespace graft::data {

/// All samples of `source`, then those of `mixed`; a loader by keys takes `share` of its places from the second (see
/// Mixture). Fields are those of `source`, by name; others of `mixed` are left out. invalid_argument names the field
/// that differs. `source` must outlive it.
Result<std::unique_ptr<Source>> mix_in(Source& source, std::unique_ptr<Source> mixed, double share);

}  // namespace graft::data
