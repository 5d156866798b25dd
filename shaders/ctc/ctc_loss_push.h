#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
PUSH_BEGIN(CtcLossPush)
uint samples;
uint steps;    // of time
uint classes;
uint most_labels; // labels of a sample at most
uint blank;
uint zero_infinity;
uint rows;     // of alpha that scratch memory holds for each sample
PUSH_END(CtcLossPush)
