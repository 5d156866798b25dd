// graft/data.h: parts of data sets, for clients and for folds.
#include <algorithm>
#include <span>

#include "platform/base/hash.h"
#include "runtime/c_api/c_data.h"
#include "runtime/data/split.h"

using namespace graft;
using namespace graft::c_api;

graft_status graft_data_select(graft_data_set* set, const uint64_t* rows, uint64_t count, graft_data_set** selected) {
  if (set == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(set->context, [&]() -> Status {
    if (selected == nullptr) return invalid("graft_data_select needs a place for the set.");
    *selected = nullptr;
    if (set->source->mixture()) return invalid("A data set that a memory is mixed into has no parts.");
    if (rows == nullptr || count == 0) return invalid("graft_data_select needs the numbers of samples.");
    const std::span<const std::uint64_t> wanted(rows, static_cast<std::size_t>(count));
    auto made = std::make_unique<graft_data_set>();
    made->context = set->context;
    made->whole = set;
    GRAFT_TRY_ASSIGN(made->source, data::select(*set->source, {wanted.begin(), wanted.end()}));
    // As runs tell their data from others: what a reference adds to samples differs from device to device.
    const std::string of = cat(" rows ", hash_text(hash128(std::as_bytes(wanted))));
    if (!set->spec.empty()) made->spec = set->spec + of;
    if (!set->fingerprint.empty()) made->fingerprint = set->fingerprint + of;
    *selected = made.release();
    return ok_status();
  });
}

graft_status graft_data_split(graft_data_set* set, const char* way, uint64_t parts, uint64_t seed, uint64_t* rows,
                              uint64_t* ends) {
  if (set == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(set->context, [&]() -> Status {
    if (way == nullptr || rows == nullptr || ends == nullptr) {
      return invalid("graft_data_split needs a way, and places for rows and ends.");
    }
    if (set->has_loader()) return invalid("The data set has a loader already: its samples are read.");
    const auto size = set->source->size();
    if (!size) return invalid("Nobody knows how many samples the data set has: it cannot be shared out.");
    GRAFT_TRY_ASSIGN(const data::Split split, data::parse_split(way));
    std::vector<std::int64_t> labels(*size);
    if (split.kind != data::Split::Kind::iid) {
      GRAFT_TRY_ASSIGN(labels, data::labels_of(*set->source));
    }
    GRAFT_TRY_ASSIGN(const auto shared, data::split_rows(labels, parts, split, seed));
    std::uint64_t end = 0;
    for (std::size_t part = 0; part < shared.size(); ++part) {
      std::ranges::copy(shared[part], rows + end);
      ends[part] = end += shared[part].size();
    }
    return ok_status();
  });
}
