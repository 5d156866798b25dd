// ctest: slow. Attention over a thousand tokens, forward and backward; the reference takes most of the time.
#include "tests/support/op_case.h"

namespace graft::test {
namespace {

OpCase attend(std::string name, std::int64_t heads, std::int64_t tokens, Attrs attrs) {
  return {.name = std::move(name),
          .op = Op::attention,
          .inputs = {{.dims = {1, tokens, heads, 16}, .low = -2, .high = 2, .grad = true},
                     {.dims = {1, tokens, 1, 16}, .low = -2, .high = 2},
                     {.dims = {1, tokens, 1, 16}}},
          .attrs = std::move(attrs),
          .tolerance = 1e-4,
          .reason = "sums of up to two thousand rows in f32 in dk and dv, one after the other",
          .cotangents = 1,
          .difference_tolerance = 1e-4};
}

std::vector<OpCase> cases() {
  constexpr std::int64_t kOne = 1;
  return {
      attend("causal", 2, 1024, {{"causal", kOne}}),
      attend("window", 1, 1500, {{"causal", kOne}, {"window", std::int64_t{200}}}),
  };
}
GRAFT_OP_CASES(AttentionLong, cases());

}  // namespace
}  // namespace graft::test
