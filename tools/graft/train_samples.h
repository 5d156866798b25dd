// What a language model says during its training, on request.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/model/model.h"
#include "runtime/train/trainer.h"
#include "tools/common/command.h"

namespace graft::cli {

struct SampleFlags {
  std::vector<std::string> prompts;
  std::uint64_t every = 0;  ///< steps; 0: at the end of each epoch
  std::uint32_t tokens = 64;
};
void add_sample_flags(CLI::App& app, SampleFlags& flags);

/// The most probable continuation of each prompt by the weights as they are now. `model` is the trainer's and does not
/// change; meanwhile a second copy of it is on the device.
Result<std::vector<std::string>> generate_samples(gpu::Device& device, const Model& model, train::Trainer& trainer,
                                                  const SampleFlags& flags);

}  // namespace graft::cli
