// Which token comes next, and when a text ends.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "platform/base/status.h"
#include "runtime/text/tokenizer/vocabulary.h"

namespace graft::text {

/// Something that is added to a token's logit.
struct LogitBias {
  TokenId token = kNoToken;
  double bias = 0;  ///< -infinity: never this token
};

/// Applied in this order: bias, repetition penalty, temperature, top-k, top-p, min-p; then one of what is left is
/// drawn.
struct SamplingOptions {
  double temperature = 0;         ///< 0: the most probable token, always
  std::uint32_t top_k = 0;        ///< only so many of the most probable; 0: all
  double top_p = 1;               ///< only the most probable ones that together reach this probability
  double min_p = 0;               ///< only those at least this many times as probable as the first
  double repetition_penalty = 1;  ///< of tokens that occur in the last `repetition_window`: positive logits are
                                  ///< divided by it, others multiplied
  std::uint32_t repetition_window = 64;
  std::uint64_t seed = 0;
  std::vector<LogitBias> bias = {};  ///< those of one token add up
};

/// invalid_argument: a number outside of its range, or bias of what is no token (those of a model are checked by who
/// knows it).
Status check_sampling(const SamplingOptions& options);

/// Draws token after token. The same options and logits give the same tokens. Nothing is allocated after the first
/// draw.
class Sampler {
 public:
  explicit Sampler(const SamplingOptions& options) : options_(options) {}

  /// `logits` of every token, `history` of tokens so far; `allowed`, a bit for each token, others have none: those that
  /// may be taken; empty: all. internal: a logit that is no number, or none at all; invalid_argument: bias forbids all
  /// that is allowed and that the model would say.
  Result<TokenId> next(std::span<const float> logits, std::span<const TokenId> history,
                       std::span<const std::uint64_t> allowed = {});

 private:
  struct Candidate {
    TokenId id;
    double logit;
  };
  Status take(std::span<const float> logits);
  Status add_bias(std::span<const std::uint64_t> allowed);
  void penalize(std::span<const TokenId> history);
  void keep_most_probable();
  double random();

  SamplingOptions options_;
  std::vector<Candidate> candidates_;
  std::vector<double> weights_;
  std::uint64_t drawn_ = 0;
};

struct TokenProbability {
  TokenId token = kNoToken;
  float log_probability = 0;  ///< natural logarithm
};

/// What the model's scores say, before any bias, penalty and temperature: the logarithm of the probability of `token`.
/// The `most` most probable tokens are put behind `out`, the most probable first, of equals the lower id.
float log_probability(std::span<const float> logits, TokenId token, std::size_t most,
                      std::vector<TokenProbability>& out);

/// Finds the first of some strings in a text that arrives in pieces.
class StopFinder {
 public:
  explicit StopFinder(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  /// The text that is certain to stand before any stop string. After found() nothing more comes.
  std::string push(std::string_view piece);
  /// What was held back, where no stop string came of it.
  std::string finish();
  bool found() const { return found_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool found_ = false;
};

}  // namespace graft::text
