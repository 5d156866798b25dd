// What plans are made for: a device, and all that decides which kernels it gets.
//
// clang-format off
//   caps     what the device is               read from the driver, or a preset         checks, limits, every planner
//   quirks   how its driver must be driven    platform/gpu/quirks.cpp                   submissions, fills, pipeline cache
//   advice   what was found out on it         self-test and tuning, now or earlier      choice of kernels
//   policy   what the user allows             the API, the command line                 choice of kernels, loss scaling
//   hooks    what tests ask for               presets of capabilities                   choice of kernels
// clang-format on
//
// Functions that need only limits and features take Caps; those that choose kernels take the Target.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "platform/gpu/caps.h"

namespace graft::gpu {

/// A known driver fault that was worked around; see quirks.h.
struct AppliedQuirk {
  std::string name;
  std::string action;
  std::string reason;
  std::string link;
};

/// Workarounds for known driver faults. Faults that only take features away are corrected in Caps.
struct Quirks {
  bool pipeline_cache = true;               ///< compiled pipelines may be kept in a file
  bool align_fills = false;                 ///< fills are cut so that large ones begin at multiples of 16 bytes
  bool whole_dispatches = false;            ///< none in parts (KernelDesc::in_parts)
  std::uint32_t max_submit_dispatches = 0;  ///< of one submission; 0: any number
  std::vector<AppliedQuirk> applied;        ///< also those that changed Caps
};

/// What was found out on the device, in this run or an earlier one.
struct Advice {
  std::set<std::string, std::less<>> avoided;             ///< names of kernels that failed their self-test
  std::map<std::string, std::string, std::less<>> tuned;  ///< measured choices: problem -> variant
};

/// What products of f32 operands may become; the words are those of torch.set_float32_matmul_precision.
enum class MatmulPrecision : std::uint8_t {
  highest,  ///< f32
  high,     ///< operands are rounded to f16 for matrix units: TF32's 11 bits, but not its range; sums stay f32
  medium,   ///< also to 8-bit integers beside quantized weights, and to bf16 beside bf16 operands
};

/// What the user allows.
struct Policy {
  MatmulPrecision matmul_precision = MatmulPrecision::highest;
};

/// For tests only.
struct TestHooks {
  bool software_matrices = false;  ///< choose kernels for matrix units even where a CPU runs them
};

struct Target {
  Caps caps = {};
  Quirks quirks = {};
  Advice advice = {};
  Policy policy = {};
  TestHooks hooks = {};
};

}  // namespace graft::gpu
