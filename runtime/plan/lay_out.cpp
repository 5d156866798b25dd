#include "runtime/plan/draft.h"

namespace graft {

std::uint64_t good_arena(const Draft& d) {
  constexpr std::uint64_t kRoom = 512;
  const std::uint64_t bound = least_arena(d.storages.blocks, d.residents.alignment());
  return bound + bound / kRoom;
}

void lay_out(Draft& d, std::uint64_t enough) {
  d.arena = assign_offsets(d.storages.blocks, d.residents.alignment(), d.residents.segment_bytes(), enough);
}

}  // namespace graft
