// The shapes that graft bench ops measures.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/plan/plan.h"
#include "tools/common/status.h"

namespace graft::cli {

struct BenchCase {
  std::string name;
  std::function<Result<Graph>()> build;
  /// Another kernel for the same problem; replace() puts it into a copy of the op's plan.
  struct Rival {
    std::string name;
    std::function<void(Plan&)> replace;
  };
  std::vector<Rival> rivals = {};
};

std::vector<BenchCase> bench_cases();
/// What only a GPU should be asked.
std::vector<BenchCase> large_bench_cases();

/// The product whose rate others are compared with: f32, 768 x 768 x 768, in bench_cases() too.
BenchCase gemm_yardstick();

BenchCase resnet_case();

}  // namespace graft::cli
