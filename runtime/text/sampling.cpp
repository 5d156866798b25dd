#include "runtime/text/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/core/philox.h"

namespace graft::text {

Status check_sampling(const SamplingOptions& o) {
  if (!(o.temperature >= 0 && o.temperature <= 1000)) {
    return invalid("The temperature is ", o.temperature, "; it must lie between 0 and 1000.");
  }
  if (!(o.top_p > 0 && o.top_p <= 1)) return invalid("top-p is ", o.top_p, "; it must lie above 0, at most at 1.");
  if (!(o.min_p >= 0 && o.min_p <= 1)) return invalid("min-p is ", o.min_p, "; it must lie between 0 and 1.");
  if (!(o.repetition_penalty > 0 && o.repetition_penalty <= 1000)) {
    return invalid("The repetition penalty is ", o.repetition_penalty, "; it must lie above 0, at most at 1000.");
  }
  for (const LogitBias& b : o.bias) {
    if (b.token < 0) return invalid("A bias is for token ", b.token, ", which is none.");
    if (!(b.bias <= 1e6) || (b.bias < -1e6 && b.bias != -INFINITY)) {
      return invalid("The bias of token ", b.token, " is ", b.bias, "; it must lie between -1e6 and 1e6, or be -inf.");
    }
  }
  return {};
}

void Sampler::penalize(std::span<const TokenId> history) {
  if (options_.repetition_penalty == 1) return;
  const std::size_t window = std::min<std::size_t>(history.size(), options_.repetition_window);
  const auto recent = history.last(window);
  for (std::size_t i = 0; i < recent.size(); ++i) {
    const auto id = static_cast<std::size_t>(recent[i]);
    const bool seen = std::find(recent.begin(), recent.begin() + static_cast<std::ptrdiff_t>(i), recent[i]) !=
                      recent.begin() + static_cast<std::ptrdiff_t>(i);
    if (seen || recent[i] < 0 || id >= candidates_.size()) continue;
    double& logit = candidates_[id].logit;
    logit = logit > 0 ? logit / options_.repetition_penalty : logit * options_.repetition_penalty;
  }
}

/// Cuts by top-k, top-p and min-p; leaves candidates in falling order with their weights (the first has weight 1).
void Sampler::keep_most_probable() {
  const auto better = [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  };
  const std::size_t most =
      options_.top_k == 0 ? candidates_.size() : std::min<std::size_t>(options_.top_k, candidates_.size());
  std::partial_sort(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(most), candidates_.end(),
                    better);
  candidates_.resize(most);
  weights_.resize(most);
  double total = 0;
  for (std::size_t i = 0; i < most; ++i) {
    weights_[i] = std::exp((candidates_[i].logit - candidates_[0].logit) / options_.temperature);
    total += weights_[i];
  }
  std::size_t kept = 0;
  double reached = 0;
  // What has no chance is never kept: a draw that rounding takes to the end would fall on it.
  while (kept < most && (kept == 0 || weights_[kept] > 0) &&
         (kept == 0 || (reached < options_.top_p * total && weights_[kept] >= options_.min_p))) {
    reached += weights_[kept++];
  }
  candidates_.resize(kept);
  weights_.resize(kept);
}

/// In [0, 1), with 53 random bits.
double Sampler::random() {
  const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
  const auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
  const auto words = philox({low(drawn_), high(drawn_), 0, 0}, {low(options_.seed), high(options_.seed)});
  ++drawn_;
  const std::uint64_t bits = std::uint64_t{words[0]} << 32 | words[1];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

Status Sampler::take(std::span<const float> logits) {
  candidates_.resize(logits.size());
  bool possible = false;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i]) || logits[i] == INFINITY) {
      return internal_error("The model gives ", logits[i], " as the logit of token ", i, ".");
    }
    candidates_[i] = {static_cast<TokenId>(i), logits[i]};
    possible = possible || logits[i] != -INFINITY;
  }
  return possible ? ok_status() : internal_error("The model gives no token a chance.");
}

Status Sampler::add_bias(std::span<const std::uint64_t> allowed) {
  if (options_.bias.empty() && allowed.empty()) return {};
  for (std::size_t i = 0; !allowed.empty() && i < candidates_.size(); ++i) {
    if (i / 64 >= allowed.size() || (allowed[i / 64] >> (i % 64) & 1) == 0) candidates_[i].logit = -INFINITY;
  }
  for (const LogitBias& b : options_.bias) {
    if (static_cast<std::size_t>(b.token) < candidates_.size())
      candidates_[static_cast<std::size_t>(b.token)].logit += b.bias;
  }
  const bool possible = std::ranges::any_of(candidates_, [](const Candidate& c) { return c.logit != -INFINITY; });
  return possible ? ok_status() : invalid("Every token that the model would say is forbidden.");
}

Result<TokenId> Sampler::next(std::span<const float> logits, std::span<const TokenId> history,
                              std::span<const std::uint64_t> allowed) {
  GRAFT_TRY(take(logits));
  GRAFT_TRY(add_bias(allowed));
  penalize(history);
  if (options_.temperature == 0) {
    const auto best = std::max_element(candidates_.begin(), candidates_.end(),
                                       [](const Candidate& a, const Candidate& b) { return a.logit < b.logit; });
    return best->id;
  }
  keep_most_probable();
  double total = 0;
  for (const double weight : weights_) total += weight;
  double rest = random() * total;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    rest -= weights_[i];
    if (rest < 0) return candidates_[i].id;
  }
  return candidates_.back().id;
}

float log_probability(std::span<const float> logits, TokenId token, std::size_t most,
                      std::vector<TokenProbability>& out) {
  const double highest = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - highest);
  const double whole = highest + std::log(sum);
  const auto of = [&](TokenId id) { return static_cast<float>(logits[static_cast<std::size_t>(id)] - whole); };
  std::vector<TokenId> ids(most == 0 ? 0 : logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  most = std::min(most, ids.size());
  std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(most), ids.end(), [&](TokenId a, TokenId b) {
    const float x = logits[static_cast<std::size_t>(a)];
    const float y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  });
  for (std::size_t i = 0; i < most; ++i) out.push_back({ids[i], of(ids[i])});
  return of(token);
}

std::string StopFinder::push(std::string_view piece) {
  if (found_) return {};
  held_ += piece;
  std::size_t first = std::string::npos;
  for (const std::string& stop : stops_) {
    if (!stop.empty()) first = std::min(first, held_.find(stop));
  }
  if (first != std::string::npos) {
    found_ = true;
    held_.resize(first);
    return std::exchange(held_, {});
  }
  // What may be the beginning of a stop string waits for the next piece.
  std::size_t keep = 0;
  for (const std::string& stop : stops_) {
    for (std::size_t n = std::min(stop.size(), held_.size() + 1); n-- > keep + 1;) {
      if (held_.ends_with(std::string_view(stop).substr(0, n))) keep = n;
    }
  }
  std::string out = held_.substr(0, held_.size() - keep);
  held_.erase(0, out.size());
  return out;
}

std::string StopFinder::finish() { return found_ ? std::string() : std::exchange(held_, {}); }

}  // namespace graft::text
