#include "runtime/data/keyed_order.h"

#include <algorithm>

#include "platform/base/checked.h"
#include "platform/base/stable_sort.h"
#include "runtime/data/random.h"

namespace graft::data {
namespace {

/// Appends rows [first, first + keys.size()) sorted by the hash of their keys.
void append_sorted(std::span<const std::uint64_t> keys, std::uint64_t first, std::uint64_t key,
                   std::vector<std::uint64_t>& rows) {
  struct Placed {
    std::uint64_t hash, row;
  };
  std::vector<Placed> all(keys.size());
  // mix() is a bijection of its last argument: rows of one hash have one key.
  for (std::size_t i = 0; i < keys.size(); ++i) all[i] = {mix(key, keys[i]), first + i};
  graft::stable_sort(all, [](const Placed& a, const Placed& b) { return a.hash < b.hash; });
  for (const Placed& placed : all) rows.push_back(placed.row);
}

/// How many of the first `places` belong to the part of this share. One multiplication: the same on every machine.
std::uint64_t mixed_of(std::uint64_t places, double share) {
  return static_cast<std::uint64_t>(static_cast<double>(places) * share);
}

}  // namespace

std::vector<std::uint64_t> keyed_order(std::span<const std::uint64_t> keys, const std::optional<Mixture>& mixture,
                                       std::uint64_t seed, std::uint64_t epoch) {
  const std::uint64_t key = mix(seed, epoch);
  const std::size_t first = mixture ? mixture->first : keys.size();
  std::vector<std::uint64_t> whole;
  append_sorted(keys.first(first), 0, mix(key, 0), whole);
  if (!mixture) return whole;
  std::vector<std::uint64_t> mixed, out;
  for (std::uint64_t place = 0, next = 0; next < first; ++place) {
    const std::uint64_t before = mixed_of(place, mixture->share);
    if (mixed_of(place + 1, mixture->share) == before) {
      out.push_back(whole[next++]);
      continue;
    }
    const std::uint64_t pass = before / (keys.size() - first);
    if (before == mixed.size()) append_sorted(keys.subspan(first), first, mix(key, pass + 1), mixed);
    out.push_back(mixed[before]);
  }
  return out;
}

std::uint64_t places_of(std::uint64_t samples, const std::optional<Mixture>& mixture) {
  if (!mixture) return samples;
  std::uint64_t places = mixture->first;
  while (places - mixed_of(places, mixture->share) < mixture->first) ++places;
  return places;
}

std::optional<std::uint64_t> first_batch_with(std::uint64_t key, std::span<const std::uint64_t> keys,
                                              const std::optional<Mixture>& mixture, const Batches& batches,
                                              std::uint64_t limit) {
  const std::uint64_t places = places_of(keys.size(), mixture);
  const std::uint64_t each = batches.drop_last ? places / batches.batch : ceil_div(places, batches.batch);
  for (std::uint64_t epoch = 0; batches.epochs == 0 || epoch < batches.epochs; ++epoch) {
    if (each == 0 || epoch * each >= limit) break;
    const std::vector<std::uint64_t> rows = keyed_order(keys, mixture, batches.seed, epoch);
    for (std::uint64_t place = 0; place < std::min(places, each * batches.batch); ++place) {
      const std::uint64_t row = rows[place], batch = epoch * each + place / batches.batch;
      if (batch >= limit) break;
      if (keys[row] == key && (!mixture || row >= mixture->first)) return batch;
    }
  }
  return std::nullopt;
}

Result<std::vector<std::uint64_t>> keys_of(Source& source) {
  if (!source.size()) return invalid("A stream of samples has no order by keys: nobody knows how many there are.");
  if (source.draws_by_number()) {
    return invalid(
        "Samples that are changed at random by their number have no order by keys: without one of them, the others "
        "would be changed in another way. Open the data set without augmentation.");
  }
  std::vector<std::uint64_t> keys(*source.size());
  for (std::uint64_t row = 0; row < keys.size(); ++row) {
    auto key = source.key(row);
    if (!key.ok()) return std::move(key).status().with_context(cat("While reading sample ", row, " of the data set"));
    keys[row] = *key;
  }
  return keys;
}

}  // namespace graft::data
