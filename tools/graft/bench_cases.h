// The shapes that graft bench ops measures.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/plan/plan.h"

namespace graft::cli {

struct BenchCase {
  std::string name;
  std::function<Result<Graph>()> build;
  /// Puts the naive kernel into a copy of the op's plan; empty where there is none.
  std::function<void(Plan&)> naive;
};

std::vector<BenchCase> bench_cases();

}  // namespace graft::cli
