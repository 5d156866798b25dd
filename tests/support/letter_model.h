// A language model of a few thousand weights, made in memory as a converter makes one.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/model/model.h"
#include "runtime/reference/interpreter.h"

namespace graft::test {

struct LetterModel {
  std::uint64_t seed = 1;
  std::int64_t layers = 2;
  std::int64_t window = 0;  ///< of every second layer
  std::int64_t head_dim = 4;
  bool learned_positions = false;  ///< instead of rotary ones
  bool tokenizer = true;           ///< of 16 letters, "a" to "p", and an end of text that is token 16
};

/// Random weights, 17 tokens, a context of 48. Fails the running test where it cannot be made.
Model letter_model(const LetterModel& options = {});

/// All values of its graph, or of one like it, for a text alone, in double precision.
RefTensors letter_values(const Model& model, const std::vector<std::int32_t>& tokens);

}  // namespace graft::test
