// Visits the limits and features of Caps with their names, for code that writes, reads, compares or restricts them.
#pragma once

#include "platform/gpu/caps.h"

namespace graft::gpu {

// f of a member's name and of that member of each of the capabilities.
#define GRAFT_MEMBER(name) f(#name, caps.name...)

template <class F, class... C>
void each_limit(F f, C&... caps) {
  GRAFT_MEMBER(max_storage_buffer_range);
  GRAFT_MEMBER(max_allocation);
  GRAFT_MEMBER(storage_buffer_alignment);
  GRAFT_MEMBER(max_storage_buffers_per_stage);
  GRAFT_MEMBER(max_texel_buffer_elements);
  GRAFT_MEMBER(max_push_constants);
  GRAFT_MEMBER(max_workgroup_invocations);
  GRAFT_MEMBER(max_workgroup_size);
  GRAFT_MEMBER(max_workgroup_count);
  GRAFT_MEMBER(max_shared_memory);
  GRAFT_MEMBER(subgroup_size);
}

template <class F, class... C>
void each_feature(F f, C&... caps) {
  GRAFT_MEMBER(subgroup_basic);
  GRAFT_MEMBER(subgroup_arithmetic);
  GRAFT_MEMBER(subgroup_shuffle);
  GRAFT_MEMBER(shader_float16);
  GRAFT_MEMBER(shader_int8);
  GRAFT_MEMBER(shader_int64);
  GRAFT_MEMBER(storage_16bit);
  GRAFT_MEMBER(storage_8bit);
  GRAFT_MEMBER(integer_dot);
  GRAFT_MEMBER(cooperative_matrix);
  GRAFT_MEMBER(shader_bfloat16);
  GRAFT_MEMBER(timeline_semaphore);
  GRAFT_MEMBER(unified_memory);
}

/// The members that belong to the feature cooperative_matrix.
template <class F, class... C>
void each_of_matrices(F f, C&... caps) {
  GRAFT_MEMBER(matrix_shapes);
  GRAFT_MEMBER(matrix_subgroup);
  GRAFT_MEMBER(flexible_shapes);
  GRAFT_MEMBER(max_flexible_side);
}

#undef GRAFT_MEMBER

/// Of the memory that plans live in; a device without memory of its own shares the host's. 0: nothing is known of it.
inline std::uint64_t largest_heap(const Caps& caps) {
  std::uint64_t own = 0, any = 0;
  for (const Caps::Heap& heap : caps.heaps) {
    if (heap.bytes > any) any = heap.bytes;
    if (heap.device_local && heap.bytes > own) own = heap.bytes;
  }
  return own != 0 ? own : any;
}

inline void no_matrices(Caps& caps) {
  caps.cooperative_matrix = false;
  each_of_matrices([](const char*, auto& member) { member = {}; }, caps);
}

}  // namespace graft::gpu
