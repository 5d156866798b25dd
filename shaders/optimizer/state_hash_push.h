#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
PUSH_BEGIN(StateHashPush)
  uint count;
  uint groups;
  uint per_group;  // words
  uint key;  // of element 0: its place times kHashElement, plus the number of its tensor times kHashTensor
PUSH_END(StateHashPush)
#ifdef __cplusplus
namespace graft::push {
inline constexpr unsigned kHashInvocations = 128;  // of a workgroup
inline constexpr unsigned kHashElement = 0x9E3779B1u;
inline constexpr unsigned kHashTensor = 0x85EBCA77u;
}  // namespace graft::push
#endif
