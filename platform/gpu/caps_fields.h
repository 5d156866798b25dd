// The limits and features of Caps by name, once for whoever writes, reads, compares or restricts them.
#pragma once

#include "platform/gpu/gpu.h"

namespace graft::gpu {

template <class F>
void each_limit(Caps& c, F f) {
  f("max_storage_buffer_range", c.max_storage_buffer_range);
  f("max_allocation", c.max_allocation);
  f("storage_buffer_alignment", c.storage_buffer_alignment);
  f("max_storage_buffers_per_stage", c.max_storage_buffers_per_stage);
  f("max_push_constants", c.max_push_constants);
  f("max_workgroup_invocations", c.max_workgroup_invocations);
  f("max_workgroup_size", c.max_workgroup_size);
  f("max_workgroup_count", c.max_workgroup_count);
  f("max_shared_memory", c.max_shared_memory);
  f("subgroup_size", c.subgroup_size);
}

template <class F>
void each_feature(Caps& c, F f) {
  f("subgroup_basic", c.subgroup_basic);
  f("subgroup_arithmetic", c.subgroup_arithmetic);
  f("subgroup_shuffle", c.subgroup_shuffle);
  f("shader_float16", c.shader_float16);
  f("shader_int8", c.shader_int8);
  f("shader_int64", c.shader_int64);
  f("storage_16bit", c.storage_16bit);
  f("storage_8bit", c.storage_8bit);
  f("integer_dot", c.integer_dot);
  f("cooperative_matrix", c.cooperative_matrix);
  f("shader_bfloat16", c.shader_bfloat16);
  f("timeline_semaphore", c.timeline_semaphore);
  f("unified_memory", c.unified_memory);
}

/// What goes with the feature cooperative_matrix.
template <class F>
void each_of_matrices(Caps& c, F f) {
  f("matrix_shapes", c.matrix_shapes);
  f("matrix_subgroup", c.matrix_subgroup);
  f("flexible_shapes", c.flexible_shapes);
  f("max_flexible_side", c.max_flexible_side);
}

inline void no_matrices(Caps& caps) {
  caps.cooperative_matrix = false;
  each_of_matrices(caps, [](const char*, auto& member) { member = {}; });
}

}  // namespace graft::gpu
