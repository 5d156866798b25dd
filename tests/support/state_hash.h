// One number for all that a training run is: what refused calls must leave as it was.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <string>
#include <vector>

#include "platform/base/hash.h"
#include "platform/base/text.h"
#include "runtime/train/run/trainer.h"

namespace graft::test {

/// Of parameters, running statistics, the optimizer's state, accumulators, and where the run is: its counters, its
/// random state, its place in the data.
inline std::string state_text(train::Trainer& trainer) {
  std::string text;
  for (const train::NamedTensor& tensor : trainer.named_tensors()) {
    std::vector<std::byte> bytes(tensor.bytes);
    const Status read = trainer.read(tensor.name, bytes);
    EXPECT_TRUE(read.ok()) << read.message();
    text += cat(tensor.name, ' ', hash_text(hash128(bytes)), '\n');
  }
  const train::TrainingState& state = trainer.state();
  const auto metrics = [](const train::Metrics& m) {
    return cat(std::bit_cast<std::uint64_t>(m.loss_sum), ' ', m.count, ' ', std::bit_cast<std::uint64_t>(m.correct),
               '\n');
  };
  return text +
         cat("step ", state.step, " seed ", state.seed, " epoch ", state.epoch, " samples ", state.samples_done,
             " position ", state.cursor.position, '\n') +
         metrics(state.epoch_metrics) + metrics(state.step_metrics);
}

}  // namespace graft::test
