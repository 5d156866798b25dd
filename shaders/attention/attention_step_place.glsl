// Where query 0 stands among the keys. After the step state.
#include "shaders/cache/cache_base.h"
int first_query() {
  if (p.from_step == 0u) return p.offset;
  const uint base = p.from_step == 1u ? 0u : cache_base(max(state.step, state.position), uint(p.window));
  return int(state.position) - int(base);
}
