/* graft's C ABI, the gate: new weights take the place of old ones only where they hold on data that neither was trained
   on. Part of graft.h, whose rules hold. */
#include "graft/graft.h"

#ifndef GRAFT_GATE_H
#define GRAFT_GATE_H

#include "graft/data.h"
#include "graft/evaluate.h"
#include "graft/train.h"

GRAFT_BEGIN_C

/* What new weights are compared with. */
typedef struct graft_gate_options {
  size_t struct_size;
  /* Conditions that must all hold, as in "accuracy>=0.9,loss<=0.5". Default: none. */
  const char* conditions;
  /* By how much each of these metrics may be worse than the old model's. Default: 0. Range: [0, inf). */
  double margin;
  /* Loss, batch, bindings and precision; by default those of graft_trainer_options_init. Default: none. */
  const graft_trainer_options* training;
} graft_gate_options;

/* What the gate found. Arrays and texts are valid until the candidate's next graft_gate, or its end. */
typedef struct graft_gate_result {
  size_t struct_size;
  int passed;
  const char* reason;      /* a sentence where it did not pass, else "" */
  double now;              /* the first metric of the new model */
  double before;           /* of the old one; NaN without one */
  double p_value;          /* McNemar's test, of a regression a sign test; 1 without an old model */
  const uint64_t* changed; /* samples of which another class is predicted */
  size_t changed_count;
  const uint64_t* lost; /* samples that the old model has right, and the new one does not */
  size_t lost_count;
  const uint64_t* gained; /* the other way round */
  size_t gained_count;
} graft_gate_result;

/* Evaluates the candidate, and the old model where there is one (else NULL), on `data`. With a path the candidate is
   then saved: to the path where it passed, by an atomic rename, else to the path with ".rejected" before its ending,
   and what is at the path stays as it was. That it did not pass is no error. Not while a loader reads the data. */
GRAFT_API graft_status graft_gate(graft_model* candidate, graft_model* old, graft_data_set* data,
                                  const graft_gate_options* options, const char* path, graft_gate_result* result);

/* One condition of the candidate's last graft_gate. */
typedef struct graft_gate_row {
  size_t struct_size;
  const char* metric;
  double now;
  double before; /* of the old model; NaN without one */
  int holds;     /* 1: the condition is met */
  int no_worse;  /* 1: not worse than the old one by more than the margin */
} graft_gate_row;

/* In the order of the conditions; texts are valid until the candidate's next graft_gate. not_found where index is
   beyond the last, or no gate was asked. */
GRAFT_API graft_status graft_gate_condition(const graft_model* candidate, size_t index, graft_gate_row* row);
/* How it differs from the old model in that gate, as graft_evaluations_compare tells; not_found where there was no old
   one. */
GRAFT_API graft_status graft_gate_compare(graft_model* candidate, graft_comparison* comparison);

GRAFT_END_C
#endif
