// The step state: all that changes from step to step, in one small device-side block. Shared by GLSL and C++.
// Parameter groups index the arrays (up to 16).
#ifdef __cplusplus
#pragma once
#include <cstdint>
namespace graft {
struct StepState {
  using uint = std::uint32_t;
#define STEP_ARRAY(type, name) type name[16] = {}
#define STEP_FIELD(type, name, value) type name = value
#else
struct StepState {
#define STEP_ARRAY(type, name) type name[16]
#define STEP_FIELD(type, name, value) type name
#endif
  STEP_FIELD(uint, seed, 0);              // of the run
  STEP_FIELD(uint, step, 0);              // optimizer steps done before this one
  STEP_FIELD(uint, micro_step, 0);        // micro-batches done before this one, within the step
  STEP_FIELD(uint, position, 0);          // first position in a sequence (decoding)
  STEP_FIELD(float, loss_weight, 1);      // cotangent of the summed loss: 1 / examples of the whole batch
  STEP_FIELD(float, loss_scale, 1);       // mixed precision
  STEP_FIELD(float, inverse_loss_scale, 1);
  STEP_FIELD(float, clip_norm, 0);        // 0: none
  STEP_ARRAY(float, learning_rate);       // per parameter group, schedule applied
  STEP_ARRAY(float, bias_correction1);    // 1 - beta1^t, computed on the host in double
  STEP_ARRAY(float, bias_correction2);    // 1 - beta2^t
  STEP_ARRAY(float, term_weight);         // per term of a loss of several: examples of the whole batch over what it is
                                          // the mean of
};
#ifdef __cplusplus
}  // namespace graft
#endif
#undef STEP_ARRAY
#undef STEP_FIELD
