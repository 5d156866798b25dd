// What a reference model makes of the texts of a data set of preferences. It is computed once, before training, with
// that model alone on the device: a run never has two models in memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "platform/os/file.h"
#include "runtime/data/source.h"
#include "runtime/language/text_data.h"
#include "runtime/run_state/training.h"

namespace graft {

/// Whether samples hold two texts and a reference (TextPairSource).
bool has_pairs(const data::Source& source);

struct ReferenceOptions {
  std::int64_t batch = 8;  ///< samples at once
  DType precision = DType::f32;
  Bindings bindings = {};  ///< without "seq"
  train::TrainerOptions trainer = {};
};

/// The log-probabilities of the two texts of each sample, of the tokens that are learned. `base` is without adapters.
Result<std::vector<float>> log_probabilities(gpu::Device& device, const Model& base, data::Source& source,
                                             const ReferenceOptions& options);

/// The source with these numbers in the field "reference", two for each sample.
Result<std::unique_ptr<data::Source>> with_references(std::unique_ptr<data::Source> source,
                                                      std::vector<float> references);

/// Numbers that an earlier run kept, and what they are of. not_found: there is no such file, or it is of other data or
/// another model; corrupt: it is damaged.
Result<std::vector<float>> read_references(os::FileSystem& files, const std::string& path, const std::string& of,
                                           std::uint64_t samples);
Status write_references(os::FileSystem& files, const std::string& path, const std::string& of,
                        const std::vector<float>& references);

}  // namespace graft
