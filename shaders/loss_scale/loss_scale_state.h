// What dynamic loss scaling keeps from step to step, as four floats; counts are exact up to 2^24. Corrections are
// numbers that optimizers take from the count of steps that were taken.
#ifdef __cplusplus
#pragma once
namespace graft {
enum LossScaleField : unsigned {
#define LOSS_SCALE_FIELD(name, number) name = number,
#else
#define LOSS_SCALE_FIELD(name, number) const uint name = number;
#endif
  LOSS_SCALE_FIELD(kScale, 0)    // 0 before the first step: the initial scale
  LOSS_SCALE_FIELD(kGrowing, 1)  // good steps since the scale last changed; below 0: minus the steps left out in a row
  LOSS_SCALE_FIELD(kTaken, 2)    // optimizer steps taken
  LOSS_SCALE_FIELD(kSkipped, 3)  // steps left out since the loss or some gradient overflowed
#ifdef __cplusplus
};
enum StepCorrections : unsigned {
#endif
  // With t, the number of this step among those that are taken, from 1 on, kCorrection1 and kCorrection2 are
  LOSS_SCALE_FIELD(kNoCorrections, 0)         // 1 and 1
  LOSS_SCALE_FIELD(kAdamCorrections, 1)       // 1 - beta1^t and 1 - beta2^t
  LOSS_SCALE_FIELD(kAdafactorCorrections, 2)  // t^beta2_decay and 1 / sqrt(t)
  LOSS_SCALE_FIELD(kStepCount, 3)             // t - 1 and 1
#undef LOSS_SCALE_FIELD
#ifdef __cplusplus
};
inline constexpr unsigned kLossScaleFields = 4;
}  // namespace graft
#endif
