#include "runtime/text/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace graft::text::sampling_test {
namespace {

const std::vector<float> kLogits = {std::log(0.4f), std::log(0.1f), std::log(0.3f), std::log(0.2f)};

std::map<TokenId, double> shares(const SamplingOptions& options, std::vector<TokenId> history = {}) {
  constexpr int kDraws = 20000;
  Sampler sampler(options);
  std::map<TokenId, double> out;
  for (int i = 0; i < kDraws; ++i) out[*sampler.next(kLogits, history)] += 1.0 / kDraws;
  return out;
}

// Five standard deviations of a share of 20000 draws are 0.0177 at most.
constexpr double kNear = 0.018;

TEST(Sampling, DrawsByProbability) {
  const auto plain = shares({.temperature = 1});
  EXPECT_NEAR(plain.at(0), 0.4, kNear);
  EXPECT_NEAR(plain.at(1), 0.1, kNear);
  EXPECT_NEAR(plain.at(2), 0.3, kNear);
  const auto sharp = shares({.temperature = 0.5});  // probabilities squared
  EXPECT_NEAR(sharp.at(0), 0.16 / 0.3, kNear);
  EXPECT_NEAR(sharp.at(1), 0.01 / 0.3, kNear);
}

TEST(Sampling, Cuts) {
  const auto two = shares({.temperature = 1, .top_k = 2});
  EXPECT_EQ(two.size(), 2u);
  EXPECT_NEAR(two.at(2), 0.3 / 0.7, kNear);
  EXPECT_EQ(shares({.temperature = 1, .top_p = 0.65}).size(), 2u) << "0.4 + 0.3 reach 0.65";
  EXPECT_EQ(shares({.temperature = 1, .top_p = 0.75}).size(), 3u);
  EXPECT_EQ(shares({.temperature = 1, .top_p = 1e-9}).size(), 1u) << "one is always left";
  EXPECT_EQ(shares({.temperature = 1, .min_p = 0.6}).size(), 2u) << "0.3 is 0.75 of 0.4, 0.2 is half of it";
}

TEST(Sampling, PenalizesWhatWasSaidLately) {
  Sampler sampler({.repetition_penalty = 2, .repetition_window = 2});
  const std::vector<float> logits = {2, 1.5, 0.5};
  EXPECT_EQ(*sampler.next(logits, std::vector<TokenId>{0, 2, 2}), 0) << "outside of the window";
  EXPECT_EQ(*sampler.next(logits, std::vector<TokenId>{2, 0, 0}), 1) << "2 becomes 1, once however often it was said";
  const std::vector<float> negative = {-1, -1.5};
  EXPECT_EQ(*sampler.next(negative, std::vector<TokenId>{0}), 1) << "-1 becomes -2";
}

TEST(Sampling, GreedyIsTheFirstOfTheBestAndSeedsDecide) {
  const std::vector<float> tie = {1, 3, 3, 0};
  EXPECT_EQ(*Sampler({}).next(tie, {}), 1);
  const auto drawn = [](std::uint64_t seed) {
    Sampler sampler({.temperature = 1, .seed = seed});
    std::vector<TokenId> out;
    for (int i = 0; i < 50; ++i) out.push_back(*sampler.next(kLogits, {}));
    return out;
  };
  EXPECT_EQ(drawn(7), drawn(7));
  EXPECT_NE(drawn(7), drawn(8));
}

TEST(Sampling, BiasComesBeforeAllElse) {
  EXPECT_EQ(*Sampler({.bias = {{1, 2}}}).next(kLogits, {}), 1) << "log 0.1 + 2 is above log 0.4";
  EXPECT_EQ(*Sampler({.bias = {{1, 1}, {1, 1}}}).next(kLogits, {}), 1) << "they add up";
  const auto without = shares({.temperature = 1, .bias = {{0, -INFINITY}}});
  EXPECT_EQ(without.count(0), 0u);
  EXPECT_NEAR(without.at(2), 0.3 / 0.6, kNear);
  EXPECT_EQ(*Sampler({.bias = {{9, 50}}}).next(kLogits, {}), 0) << "of no token of this model";
  const SamplingOptions all = {.bias = {{0, -INFINITY}, {1, -INFINITY}, {2, -INFINITY}, {3, -INFINITY}}};
  EXPECT_EQ(Sampler(all).next(kLogits, {}).status().code(), Code::invalid_argument);
  EXPECT_FALSE(check_sampling({.bias = {{-1, 1}}}).ok());
  EXPECT_FALSE(check_sampling({.bias = {{1, NAN}}}).ok());
  EXPECT_FALSE(check_sampling({.bias = {{1, INFINITY}}}).ok());
}

TEST(Sampling, LogProbabilitiesAreThoseOfTheScores) {
  std::vector<TokenProbability> best;
  EXPECT_NEAR(log_probability(kLogits, 1, 0, best), std::log(0.1), 1e-6);
  EXPECT_TRUE(best.empty());
  const std::vector<float> shifted = {1000 + kLogits[0], 1000 + kLogits[1], 1000 + kLogits[2], -INFINITY};
  EXPECT_NEAR(log_probability(shifted, 2, 2, best), std::log(0.3 / 0.8), 1e-4) << "no exponential overflows";
  ASSERT_EQ(best.size(), 2u);
  EXPECT_EQ(best[0].token, 0);
  EXPECT_EQ(best[1].token, 2);
  EXPECT_NEAR(best[0].log_probability, std::log(0.5), 1e-4);
  best.clear();
  log_probability(std::vector<float>{1, 3, 3}, 0, 9, best);
  ASSERT_EQ(best.size(), 3u) << "as many as there are";
  EXPECT_EQ(best[0].token, 1) << "of equals the lower id";
}

TEST(Sampling, RefusesWhatIsNoNumber) {
  EXPECT_FALSE(Sampler({}).next(std::vector<float>{0, NAN}, {}).ok());
  EXPECT_FALSE(Sampler({.temperature = 1}).next(std::vector<float>{INFINITY, 0}, {}).ok());
  EXPECT_FALSE(Sampler({.temperature = 1}).next(std::vector<float>{-INFINITY, -INFINITY}, {}).ok());
  EXPECT_FALSE(Sampler({}).next({}, {}).ok());
  EXPECT_EQ(*Sampler({.temperature = 1}).next(std::vector<float>{-INFINITY, 0}, {}), 1);
  for (const SamplingOptions& bad :
       {SamplingOptions{.temperature = -1}, SamplingOptions{.temperature = NAN}, SamplingOptions{.top_p = 0},
        SamplingOptions{.min_p = 2}, SamplingOptions{.repetition_penalty = 0}}) {
    EXPECT_FALSE(check_sampling(bad).ok());
  }
  EXPECT_TRUE(check_sampling({}).ok());
}

std::string through(std::vector<std::string> stops, const std::vector<std::string>& pieces, bool* found) {
  StopFinder finder(std::move(stops));
  std::string out;
  for (const std::string& piece : pieces) out += finder.push(piece) + "|";
  out += finder.finish();
  *found = finder.found();
  return out;
}

TEST(StopFinder, HoldsBackWhatMayBecomeAStopString) {
  bool found = false;
  EXPECT_EQ(through({"END"}, {"a E", "N", "D b"}, &found), "a |||");
  EXPECT_TRUE(found);
  EXPECT_EQ(through({"END"}, {"a E", "N", "d"}, &found), "a ||ENd|");
  EXPECT_FALSE(found);
  EXPECT_EQ(through({"END"}, {"xEN"}, &found), "x|EN") << "the end brings what was held back";
  EXPECT_EQ(through({"bc", "b"}, {"abc"}, &found), "a|");
  EXPECT_TRUE(found);
  EXPECT_EQ(through({"aab"}, {"aa", "ab", "x"}, &found), "|a||");
  EXPECT_TRUE(found);
  EXPECT_EQ(through({""}, {"abc"}, &found), "abc|") << "an empty string stops nothing";
  EXPECT_FALSE(found);
}

}  // namespace
}  // namespace graft::text::sampling_test
