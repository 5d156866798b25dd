// Sharing a data set among clients, alike or not, for simulations of federated training.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/data/source.h"

namespace graft::data {

/// How samples are shared out.
struct Split {
  enum class Kind : std::uint8_t {
    iid,        ///< at random, in equal parts
    dirichlet,  ///< of each label, shares drawn from a Dirichlet distribution: Hsu et al., "Measuring the Effects of
                ///< Non-Identical Data Distribution for Federated Visual Classification", 2019
    shards,     ///< sorted by label, cut into equal pieces, so many to each client: McMahan et al., 2017
  };
  Kind kind = Kind::iid;
  double alpha = 0;          ///< of dirichlet: the smaller, the less alike
  std::uint64_t shards = 0;  ///< of each client
};
/// "iid", "dirichlet=0.3", "shards=2".
Result<Split> parse_split(std::string_view text);

/// The rows of each client; every row is some client's, and a client may have none. `labels`: one for each row.
Result<std::vector<std::vector<std::uint64_t>>> split_rows(const std::vector<std::int64_t>& labels,
                                                           std::uint64_t clients, const Split& split,
                                                           std::uint64_t seed);

/// The labels of all samples: of the first label, which must be one integer. Reads everything once.
Result<std::vector<std::int64_t>> labels_of(Source& source);

}  // namespace graft::data
