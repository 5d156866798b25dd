#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
// A chunk of logits [rows, columns]: columns [first, first + columns) of a vocabulary. Its rows are those that count, in
// order; the buffer `order` holds how many they are and then which.
PUSH_BEGIN(LinearCrossEntropyPush)
uint rows;
uint columns;
uint inner;  // 1
uint first;
uint vocabulary;
int ignore_index;
uint last;   // 1: the vocabulary's last chunk
float smoothing;  // share of the target that all classes have
float cap;        // of the logits, which are capped already; 0: none
PUSH_END(LinearCrossEntropyPush)
