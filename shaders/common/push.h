// A push-constant block, written once for GLSL and C++. Members are 32-bit scalars and arrays of them.
//   PUSH_BEGIN(SoftmaxPush) uint rows; uint cols; PUSH_END(SoftmaxPush)
// GLSL sees it as `p`; C++ as graft::push::SoftmaxPush. Vulkan guarantees 128 bytes.
#ifdef __cplusplus
#pragma once
#include <cstdint>
namespace graft::push {
using uint = std::uint32_t;
}
#define PUSH_BEGIN(name)  \
  namespace graft::push { \
  struct name {
#define PUSH_END(name)                                             \
  }                                                                \
  ;                                                                \
  static_assert(sizeof(name) <= 128, "Vulkan guarantees 128 B."); \
  }
#elif defined(TABLE)
// Kernels that work on many tensors in one dispatch find each one's push block in a table: see table.glsl.
#define PUSH_BEGIN(name) struct name {
#define PUSH_END(name) \
  }                    \
  ;                    \
  name p;              \
  struct TableRecord { \
    uint first;        \
    uint bases[7];     \
    name push;         \
  };
#else
#define PUSH_BEGIN(name) layout(push_constant) uniform name {
#define PUSH_END(name) \
  }                    \
  p;
#endif
