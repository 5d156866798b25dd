// An order of samples that follows from a key of each: leaving a sample out does not change the order of the others.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/data/source.h"

namespace graft::data {

/// Rows in the order of an epoch: each once, sorted by a hash of (seed, epoch, key). Equal keys keep their order.
///
/// Of a mixture, rows before `first` occur once, in the same order as without it. In between, at places that depend on
/// `share` alone, the other rows occur in an order of their own: so that of the first n places `share` * n, rounded
/// down, are theirs. If they are too few for that, all occur again, in another order; if too many, some do not occur.
std::vector<std::uint64_t> keyed_order(std::span<const std::uint64_t> keys, const std::optional<Mixture>& mixture,
                                       std::uint64_t seed, std::uint64_t epoch);

/// How many rows that is: of the whole set, unless it is a mixture.
std::uint64_t places_of(std::uint64_t samples, const std::optional<Mixture>& mixture);

/// The first batch, from 0, with the sample of this key; of a mixture, one that is mixed in. nullopt: none of the first
/// `limit` batches has it. `keys`: of all samples.
struct Batches {
  std::uint64_t seed = 0;
  std::uint64_t batch = 1;
  bool drop_last = false;
  std::uint64_t epochs = 0;  ///< 0: without end
};
std::optional<std::uint64_t> first_batch_with(std::uint64_t key, std::span<const std::uint64_t> keys,
                                              const std::optional<Mixture>& mixture, const Batches& batches,
                                              std::uint64_t limit);

/// The keys of all samples, by row. invalid_argument for a stream, and where samples change at random by their number.
Result<std::vector<std::uint64_t>> keys_of(Source& source);

}  // namespace graft::data
