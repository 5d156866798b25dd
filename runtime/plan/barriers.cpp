#include "runtime/plan/draft.h"

namespace graft {
namespace {

struct Touched {
  Space space;
  bool written;
  std::uint64_t begin;
  std::uint64_t end;
};

bool conflicts(const std::vector<Touched>& since_barrier, const Touched& next) {
  for (const Touched& t : since_barrier) {
    if ((t.written || next.written) && t.space == next.space && t.begin < next.end && next.begin < t.end) return true;
  }
  return false;
}

}  // namespace

void add_barriers(Plan& plan) {
  std::vector<Touched> since_barrier;
  std::vector<Touched> mine;
  for (Step& step : plan.steps) {
    mine.clear();
    bool hazard = false;
    // Windows and not only what is touched within them: validation layers, too, know only what is bound.
    for (const PlanBinding& b : bound_by(step)) {
      mine.push_back({b.space, b.access != Access::read, b.offset, b.offset + b.size});
      hazard = hazard || conflicts(since_barrier, mine.back());
    }
    if (hazard) {
      step.barrier_before = true;
      ++plan.barriers;
      since_barrier.clear();
    }
    since_barrier.insert(since_barrier.end(), mine.begin(), mine.end());
  }
}

}  // namespace graft
