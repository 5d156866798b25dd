#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
// One time step of a recurrent layer. Sizes and places count units: numbers, or vectors of four (QUADS).
PUSH_BEGIN(RnnStepPush)
uint count;      // rows of the batch times hidden
uint hidden;     // of a row
uint gates_at;   // in tensors [steps, rows, gates, hidden] as bound: where this step begins
uint hidden_at;  // the same in tensors [steps, rows, hidden]
uint before_at;  // in those, the step before (after it in time where the layer runs in reverse)
uint place;      // from one [rows, hidden] of the state to the next: count, rounded up so that each can be bound
uint step;       // its place in time
uint products;   // where the products with the state stand in the state's memory
uint flags;      // kHasProduct and so on (rnn_cell.glsl)
float clip;      // of sums (kClips) or of an LSTM's cells
float alpha[3];  // of the activations
float beta[3];
PUSH_END(RnnStepPush)
