#include "runtime/data/split.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>

#include "platform/base/numbers.h"
#include "platform/base/stable_sort.h"
#include "runtime/data/draws.h"

namespace graft::data {
namespace {

using Rows = std::vector<std::uint64_t>;

std::vector<double> dirichlet(Random& random, std::uint64_t count, double alpha) {
  std::vector<double> shares(count);
  for (double& share : shares) share = log_gamma_variate(random, alpha);
  const double largest = *std::ranges::max_element(shares);
  for (double& share : shares) share = std::exp(share - largest);
  const double total = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share /= total;
  return shares;
}

void shuffle(Rows& rows, Random& random) {
  for (std::size_t i = rows.size(); i > 1; --i) std::swap(rows[i - 1], rows[random.below(i)]);
}

}  // namespace

Result<Split> parse_split(std::string_view text) {
  Split split;
  const std::string_view name = text.substr(0, text.find('='));
  const std::string value(name.size() == text.size() ? "" : text.substr(name.size() + 1));
  if (text == "iid") return split;
  if (name == "dirichlet" && whole_number(value, split.alpha) && split.alpha > 0 && std::isfinite(split.alpha)) {
    split.kind = Split::Kind::dirichlet;
    return split;
  }
  if (name == "shards" && whole_number(value, split.shards) && split.shards > 0) {
    split.kind = Split::Kind::shards;
    return split;
  }
  return invalid("A split is iid, dirichlet=ALPHA or shards=COUNT, not \"", text, "\".");
}

Result<std::vector<Rows>> split_rows(const std::vector<std::int64_t>& labels, std::uint64_t clients, const Split& split,
                                     std::uint64_t seed) {
  if (clients == 0) return invalid("There must be a client.");
  Random random(mix(seed, 0x73706c6974));
  std::vector<Rows> out(clients);
  Rows rows(labels.size());
  std::iota(rows.begin(), rows.end(), std::uint64_t{0});
  shuffle(rows, random);
  if (split.kind == Split::Kind::dirichlet) {
    std::map<std::int64_t, Rows> by_label;
    for (const std::uint64_t row : rows) by_label[labels[row]].push_back(row);
    for (const auto& [label, some] : by_label) {
      const std::vector<double> shares = dirichlet(random, clients, split.alpha);
      double end = 0;
      std::size_t at = 0;
      for (std::uint64_t client = 0; client < clients; ++client) {
        end += shares[client] * static_cast<double>(some.size());
        const auto stop =
            client + 1 == clients ? some.size() : std::min(some.size(), static_cast<std::size_t>(std::llround(end)));
        while (at < stop) out[client].push_back(some[at++]);
      }
    }
    return out;
  }
  std::uint64_t pieces = clients;
  if (split.kind == Split::Kind::shards) {
    if (split.shards > labels.size() / clients) {
      return invalid(clients, " clients with ", split.shards, " shards each need more than the ", labels.size(),
                     " samples that there are.");
    }
    pieces *= split.shards;
    graft::stable_sort(rows, [&](std::uint64_t a, std::uint64_t b) { return labels[a] < labels[b]; });
  }
  Rows order(pieces);
  std::iota(order.begin(), order.end(), std::uint64_t{0});
  shuffle(order, random);
  for (std::uint64_t i = 0; i < pieces; ++i) {
    const std::uint64_t first = rows.size() * order[i] / pieces, last = rows.size() * (order[i] + 1) / pieces;
    Rows& mine = out[i % clients];
    mine.insert(mine.end(), rows.begin() + static_cast<std::ptrdiff_t>(first),
                rows.begin() + static_cast<std::ptrdiff_t>(last));
  }
  return out;
}

Result<std::vector<std::int64_t>> labels_of(Source& source) {
  const auto size = source.size();
  const auto at = find_role(source, Role::label);
  const bool is_label = at && source.fields()[*at].dtype == DType::i32 && source.fields()[*at].shape.elements() == 1;
  if (!size || !is_label) return invalid("Samples are shared out by their label, which must be one whole number.");
  std::vector<std::vector<std::byte>> memory;
  std::vector<std::byte*> out;
  for (const Field& field : source.fields()) memory.emplace_back(field.bytes());
  for (auto& bytes : memory) out.push_back(bytes.data());
  std::vector<std::int64_t> labels;
  for (std::uint64_t row = 0; row < *size;) {
    GRAFT_TRY_ASSIGN(const bool there, source.read(row, out));
    if (!there) return corrupt("The data set ends after ", labels.size(), " samples.");
    std::int32_t value = 0;
    std::memcpy(&value, memory[*at].data(), sizeof value);
    labels.push_back(value);
  }
  return labels;
}

}  // namespace graft::data
