// Passes on graphs in text: what they make of one, and whether it still computes the same.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/passes/passes.h"

namespace graft::test {

/// The passes run over `before` give `after`, and for random inputs every output and every gradient (with respect to
/// all inputs, parameters and pinned values of type f32) is what it was, in double precision, within `tolerance` of
/// the tensor's root mean square. Why not to the last bit: sums are taken in another order, which costs some 1e-16
/// per term; where a pattern's constants are f32, they differ from the op's by up to 6e-8.
void expect_rewritten(const std::vector<passes::Pass>& passes, std::string_view before, std::string_view after,
                      const std::vector<std::string>& pinned = {}, double tolerance = 1e-6);

/// The passes leave it as it is.
void expect_kept(const std::vector<passes::Pass>& passes, std::string_view text,
                 const std::vector<std::string>& pinned = {});

}  // namespace graft::test
