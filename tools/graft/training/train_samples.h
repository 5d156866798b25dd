// What a language model says during its training, on request.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graft/graft.h"
#include "tools/common/command.h"

namespace graft::cli {

struct SampleFlags {
  std::vector<std::string> prompts;
  std::uint64_t every = 0;  ///< steps; 0: at the end of each epoch
  std::uint32_t tokens = 64;
};
void add_sample_flags(CLI::App& app, SampleFlags& flags);

/// The most probable continuation of each prompt by the weights as they are now. Meanwhile a second copy of the model
/// is on the device.
Result<std::vector<std::string>> generate_samples(graft_context* context, graft_trainer* trainer,
                                                  const SampleFlags& flags);

}  // namespace graft::cli
