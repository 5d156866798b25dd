#include "runtime/reference/broadcast.h"
#include "runtime/reference/ref_context.h"

namespace graft::ops::where {

void ref_where(RefContext& c) {
  const BroadcastIndex cond(c.out_dims(), c.in_dims(0));
  const BroadcastIndex a(c.out_dims(), c.in_dims(1));
  const BroadcastIndex b(c.out_dims(), c.in_dims(2));
  for (std::size_t i = 0; i < c.out().size(); ++i) c.out()[i] = c.in(0)[cond(i)] != 0 ? c.in(1)[a(i)] : c.in(2)[b(i)];
}

}  // namespace graft::ops::where
