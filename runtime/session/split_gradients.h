// Gradients of any number of samples at constant device memory.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "runtime/data/npy.h"
#include "runtime/session/session.h"

namespace graft {

struct SplitGradientRequest {
  GradientRequest gradients;
  Bindings bindings;             ///< every named dimension; that of the batch is the number of samples in all
  std::uint64_t budget = 0;      ///< bytes of device memory at any time; 0: no limit
  std::int64_t micro_batch = 0;  ///< samples at once; 0: as many as the budget and the device allow
  /// Gradients of what has no batch axis (parameters) are given for each sample, along a new first axis, not summed.
  bool per_sample = false;
  DType precision = DType::f32;   ///< as of SessionOptions
  bool allow_non_finite = false;  ///< as of SessionOptions
  ProgramOptions program;
};

struct SplitGradients {
  std::map<std::string, data::Array, std::less<>> gradients;  ///< by the names of GradientRequest::wrt
  std::int64_t micro_batch = 0;                               ///< samples at once
  std::uint64_t device_bytes = 0;                             ///< the most that was allocated
};

/// By name: the model's inputs, and kCotangentInput; for all samples, in the source's order of axes.
using SampleArrays = std::map<std::string, data::Array, std::less<>>;

/// Runs the samples in micro-batches. Values whose first axis is the batch (inputs, activations) get their gradient
/// piece by piece; others get the sum, added up in double precision. The result is that of one run on the whole batch,
/// up to rounding.
///
/// invalid_argument where that cannot be: the differentiated value has no batch axis (a mean over the batch), or batch
/// norm works by the batch's statistics; out_of_memory where not even one sample fits, naming what it needs.
Result<SplitGradients> split_gradients(gpu::Device& device, const Model& model, const SplitGradientRequest& request,
                                       const SampleArrays& arrays,
                                       const HostAllocator& allocator = default_host_allocator());

}  // namespace graft
