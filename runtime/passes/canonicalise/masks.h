// What a mask of attention scores says, read from its contents.
#pragma once

#include "runtime/passes/match.h"

namespace graft::passes {

/// Which keys queries see, in the words of the op attention.
struct Visible {
  bool causal = false;
  std::int64_t window = 0;
};

/// Numbers at least this far below the others are as good as minus infinity: exp(-1e4) is 0 in f32, and in double too,
/// unless scores reach into the thousands themselves.
inline constexpr double kForbidden = -1e4;

/// A value made of constants alone, element by element; empty where it is none, or not of a kind seen in masks.
std::vector<double> evaluate(const Match& m, ValueId v);

/// What is added to the scores [.., queries, keys], by sign: nothing where a key is seen, -inf or the like elsewhere.
std::optional<Visible> additive_mask(const Match& m, ValueId v, double sign, std::int64_t queries, std::int64_t keys);
/// The boolean of a where: seen where it equals `seen`.
std::optional<Visible> boolean_mask(const Match& m, ValueId v, bool seen, std::int64_t queries, std::int64_t keys);

}  // namespace graft::passes
