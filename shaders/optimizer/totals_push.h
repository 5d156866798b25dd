#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
// First pass: `groups` workgroups each go through `per_group` words of one tensor, a multiple of four, and write a
// partial result for each invocation. Second pass (count = all partial results): one workgroup adds them up.
PUSH_BEGIN(TotalsPush)
  uint count;
  uint groups;
  uint per_group;
  uint key;  // of element 0: its place times kHashElement, plus the number of its tensor times kHashTensor
PUSH_END(TotalsPush)
#ifdef __cplusplus
namespace graft::push {
inline constexpr unsigned kTotalsInvocations = 128;  // of a workgroup
inline constexpr unsigned kHashElement = 0x9E3779B1u;
inline constexpr unsigned kHashTensor = 0x85EBCA77u;
}  // namespace graft::push
#endif
