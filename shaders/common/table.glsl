// One dispatch for many tensors (-DTABLE). What push constants and binding offsets say of one tensor, the kernel reads
// from a record of a table instead. Every workgroup serves one record. Bindings are the memory around all the tensors,
// and BASE(k) is the word in binding k where the record's tensor begins; BASE4(k) counts vectors of four.
// Without TABLE, a kernel has its one tensor's own bindings, and both are 0.
// Include after the push block, which must come after layout(local_size_x). The table is binding TABLE_BINDING, the one
// after the kernel's own. The host's twin is runtime/plan/merge_steps.cpp.
#ifndef GRAFT_TABLE_GLSL
#define GRAFT_TABLE_GLSL
#include "shaders/common/index.glsl"

#ifdef TABLE
layout(std430, set = 0, binding = TABLE_BINDING) readonly buffer TableRecords { TableRecord table_records[]; };
layout(std430, set = 0, binding = TABLE_BINDING) readonly buffer TableWords { uint table_words[]; };
layout(push_constant) uniform TablePush {
  uint workgroups;
  uint map;  // word where the list begins that gives each workgroup's record
} table;
uint table_record = 0;
#define BASE(k) table_records[table_record].bases[k]

/// Finds this workgroup's tensor and its push block; false for the excess workgroups of a spread dispatch.
bool find_tensor() {
  if (flat_workgroup() >= table.workgroups) return false;
  table_record = table_words[table.map + flat_workgroup()];
  p = table_records[table_record].push;
  return true;
}
/// Of the workgroups that serve the tensor, which one this is.
uint tensor_workgroup() { return flat_workgroup() - table_records[table_record].first; }
#else
#define BASE(k) 0u
bool find_tensor() { return true; }
uint tensor_workgroup() { return flat_workgroup(); }
#endif
#define BASE4(k) (BASE(k) / 4u)

#endif
