/* Running a model, and its gradients: a session is planned and recorded once for its sizes, and then runs again and
 * again. Part of graft.h, whose rules hold.
 */
#include "graft/graft.h"

#ifndef GRAFT_SESSION_H
#define GRAFT_SESSION_H

GRAFT_BEGIN_C

typedef struct graft_binding { /* A size for a named dimension, as in {"batch", 32}. */
  const char* name;            /* of a dimension, as in "batch" */
  int64_t size;
} graft_binding;

/* How the device keeps what it computes on the way, and matrices, filters and tables that are not trained. Trained
   weights, their gradients and outputs stay 32-bit. A weight that f16 cannot hold (from 65520 on) is an error. */
typedef enum graft_precision GRAFT_ENUM_OF_INT {
  GRAFT_PRECISION_F32 = 0,
  GRAFT_PRECISION_F16 = 1,
  GRAFT_PRECISION_BF16 = 2
} graft_precision;

/* What a session is planned for. */
typedef struct graft_session_options {
  size_t struct_size;
  /* Every named dimension of the inputs. Default: none. */
  const graft_binding* bindings;
  size_t binding_count;
  /* Largest device memory in bytes; 0: no limit. out_of_memory if the plan needs more. Default: 0. */
  uint64_t budget;
  /* Value that is differentiated; without it, forward only. Default: none. */
  const char* of;
  /* Values with respect to which. Default: none. */
  const char* const* wrt;
  size_t wrt_count;
  /* Storage of intermediate results. Default: f32. */
  graft_precision precision;
  /* f32 inputs may hold NaN and infinity, which are an error otherwise. Default: 0. */
  int allow_non_finite;
  /* Intermediate values, by the source model's names, that are outputs as well. Default: none. */
  const char* const* fetch;
  size_t fetch_count;
  /* With `of`: batch norm by the batch's statistics, dropout, and without the model's outputs. Default: 0. */
  int train_mode;
  /* graft_session_resize will be called; `bindings` are then the largest sizes. Default: 0. */
  int resizable;
  /* Inputs that are given as bytes or halves: see graft/inputs.h. They have no gradients. Default: none. */
  const struct graft_input_format* inputs;
  size_t input_count;
  /* One of the model's signatures (graft/shapes.h): only its outputs, and the inputs that they need. Default: none. */
  const char* signature;
  /* The session outlives its device, as graft_trainer_options.recover_device. Its inputs, and swapped adapters, are
     copied to host memory; a call on which the device is lost reopens it, builds everything again and repeats its work,
     to the same bits. What was bound (graft/external.h) ends. Default: 0. */
  int recover_device;
  /* Measures each run, which then takes longer. Default: none. */
  struct graft_profile* profile;
  /* With `of`: without the model's outputs, which need not be computed to the end. Default: 0. */
  int gradients_only;
} graft_session_options;

typedef struct graft_memory { /* Bytes by class of memory, known before anything runs. */
  size_t struct_size;
  uint64_t weights, parameters, gradients, optimizer, activations, workspace, staging, step_state;
  uint64_t total;
} graft_memory;

/* Plans and records the model once. */
GRAFT_API graft_status graft_session_create(graft_model* model, const graft_session_options* options,
                                            graft_session** session);
GRAFT_API void graft_session_destroy(graft_session* session);
/* Other sizes for named dimensions, each from 1 to what the session was made with; those that are not named stay as
   they are. It plans and compiles when some sizes come for the first time and only switches when they come again (of
   the 32 newest); device memory is what the largest sizes need, from the start. All inputs are to be set again, unless
   nothing changes. GRAFT_UNSUPPORTED where these sizes would need more memory or other constants than the largest. On
   failure nothing changed. */
GRAFT_API graft_status graft_session_resize(graft_session* session, const graft_binding* bindings,
                                            size_t binding_count);
/* Bytes that the session holds on device and host, by class. */
GRAFT_API graft_status graft_session_memory(const graft_session* session, graft_memory* memory);
/* Copies the bytes, in the session's format of this input; they stay from run to run. The cotangent of `of`, needed
   where that has more than one element, is the input "cotangent". An index of no row, NaN and infinity are
   GRAFT_INVALID_ARGUMENT, and the message says which number it is and where; masks of scores may hold infinity. */
GRAFT_API graft_status graft_session_set_input(graft_session* session, const char* name, const void* data,
                                               size_t bytes);
/* Blocks until the outputs are there. Nothing is allocated after the first run. */
GRAFT_API graft_status graft_session_run(graft_session* session);
/* Gives all device memory of the session back; its inputs and adapters that were swapped in wait in host memory, its
   outputs are gone. The next call that needs the device, or graft_session_resume, builds everything again, with the
   model's weights as they are then. On failure nothing changed. Generators and trainers have the same. */
GRAFT_API graft_status graft_session_pause(graft_session* session);
/* Nothing to do where the session is not paused. GRAFT_OUT_OF_MEMORY where the device does not have the memory now: ask
   again. */
GRAFT_API graft_status graft_session_resume(graft_session* session);
/* How many inputs or outputs the session has; 0 for NULL and other kinds. Inputs that nothing reads are none of it,
   "cotangent" is one where it has to be given; outputs: the model's, those of fetch, "grad:NAME" of wrt. */
GRAFT_API size_t graft_session_count(const graft_session* session, graft_tensor_kind kind);
/* As the session was planned. The data may decide how long an output is: then this is the most. not_found where
   index >= count. */
GRAFT_API graft_status graft_session_tensor(const graft_session* session, graft_tensor_kind kind, size_t index,
                                            graft_tensor_info* info);
/* A sentence on the weights that are streamed from the file to keep to the budget; "" where none are, and for NULL.
   Valid until the session's next call of this. */
GRAFT_API const char* graft_session_streaming(graft_session* session);
/* An output of the last run, or "grad:NAME" of wrt; of an output with a data-dependent size, the rows that are there.
   The data is valid until the session's next run, resize, pause or swap. data, bytes and info may be NULL. */
GRAFT_API graft_status graft_session_output(graft_session* session, const char* name, const void** data, size_t* bytes,
                                            graft_tensor_info* info);

GRAFT_END_C

#endif
