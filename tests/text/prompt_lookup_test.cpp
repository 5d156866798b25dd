// Drafts from the text itself: which place is taken, and when none is.
#include "runtime/text/prompt_lookup.h"

#include <gtest/gtest.h>

namespace graft::text::prompt_lookup_test {
namespace {

using Tokens = std::vector<TokenId>;

Tokens draft(const Tokens& text, std::uint32_t most = 3) {
  const auto found = PromptLookup(most).draft(text);
  return {found.begin(), found.end()};
}

TEST(PromptLookup, GivesWhatFollowedTheLongestMatchTheLatestOfEquals) {
  EXPECT_EQ(draft({1, 2, 3, 4, 5, 9, 1, 2}), (Tokens{3, 4, 5}));
  EXPECT_EQ(draft({1, 2, 3, 1, 2, 4, 8, 1, 2}), (Tokens{4, 8, 1})) << "the latest";
  EXPECT_EQ(draft({7, 1, 2, 3, 1, 2, 4, 7, 1, 2}), (Tokens{3, 1, 2})) << "three tokens match there";
  EXPECT_EQ(draft({1, 2, 3, 4, 5, 1, 2}, 2), (Tokens{3, 4}));
  EXPECT_EQ(draft({6, 6, 6}), (Tokens{6})) << "a match may lie over the end that it matches";
}

TEST(PromptLookup, GivesNothingWhereThereIsNothing) {
  EXPECT_EQ(draft({}), Tokens());
  EXPECT_EQ(draft({1}), Tokens());
  EXPECT_EQ(draft({1, 2, 3, 4}), Tokens());
  EXPECT_EQ(draft({1, 2, 3, 9, 2}), Tokens()) << "a single token says too little";
  EXPECT_EQ(draft({1, 2, 3, 1, 2}, 0), Tokens());
}

TEST(PromptLookup, PausesAfterDraftsWithoutARightToken) {
  const Tokens text = {1, 2, 3, 1, 2};
  PromptLookup lookup(3);
  std::size_t waits = 0;
  for (const std::size_t expected : {0u, 1u, 2u, 4u, 8u, 16u, 16u}) {
    for (waits = 0; lookup.draft(text).empty(); ++waits) ASSERT_LT(waits, 100u);
    EXPECT_EQ(waits, expected);
    lookup.judge(0);
  }
  for (waits = 0; lookup.draft(text).empty(); ++waits) ASSERT_LT(waits, 100u);
  lookup.judge(1);
  EXPECT_FALSE(lookup.draft(text).empty()) << "one right token ends the pauses";
}

}  // namespace
}  // namespace graft::text::prompt_lookup_test
