/* graft's C ABI, shapes: the names of dimensions that are not bound, and what a trainer's samples consist of, for
 * callers that check arrays before they hand pointers over. Part of graft.h, whose rules hold. */
#include "graft/graft.h"

#ifndef GRAFT_SHAPES_H
#define GRAFT_SHAPES_H

GRAFT_BEGIN_C

/* The name of a dimension that graft_model_tensor gives as -1, as in "batch" or "2*seq"; "" for one that is a number.
   Valid until the next call on this model. not_found where there is no such tensor or axis. */
GRAFT_API graft_status graft_model_dimension(graft_model* model, graft_tensor_kind kind, size_t index, uint32_t axis,
                                             const char** name);

/* What `graft info` prints of a tensor; valid until the model's next call of this. */
typedef struct graft_tensor_text {
  size_t struct_size;
  const char* name;
  const char* dtype;        /* as the model keeps it: "f32", "f16", "q8_0", ... */
  const char* shape;        /* with names of dimensions, as in "[batch, 10]" */
  const char* source_dtype; /* what the source model says where that is another: "uint8", "int64", "float64", ...; else
                               "" */
} graft_tensor_text;

/* not_found where there is no such tensor. */
GRAFT_API graft_status graft_model_tensor_text(graft_model* model, graft_tensor_kind kind, size_t index,
                                               graft_tensor_text* text);

/* Of an output that is as long as the data decide (boxes that a detector keeps): which axis is, and the output, one
   i32, that says how many there are along it. The name is valid until the model's next call of this. not_found: the
   output is as long as its shape says, or there is none of this index; corrupt: the file's metadata contradict its
   graph. */
GRAFT_API graft_status graft_model_counted(graft_model* model, size_t output, uint32_t* axis, const char** count);

/* The bindings that graft_model_layers() and graft_model_verify() take for these: dimensions without one have the
   model's own size, else 1, or, of lengths, heights and widths, the smallest power of two that the graph takes. By
   name; valid until the model's next call of this. */
GRAFT_API graft_status graft_model_complete_bindings(graft_model* model, const graft_binding* bindings,
                                                     size_t binding_count, const graft_binding** complete,
                                                     size_t* count);

/* The same without guesses: sizes that are given, and the model's own. missing: the names of the dimensions that have
   none, with commas between; "" where a session has all that it needs. */
GRAFT_API graft_status graft_model_known_bindings(graft_model* model, const graft_binding* bindings,
                                                  size_t binding_count, const graft_binding** known, size_t* count,
                                                  const char** missing);
/* 1: a node reads this input of the model, or it is an output; 0: nothing does, and a session takes no such input. */
GRAFT_API int graft_model_reads_input(const graft_model* model, size_t index);

/* ---- Signatures: entry points of a model, by name --------------------------------------------------------------- */

/* How many the model has beside all its inputs and outputs together; 0 for NULL. */
GRAFT_API size_t graft_model_signature_count(const graft_model* model);

/* An entry point: what it needs and what it gives. */
typedef struct graft_signature {
  size_t struct_size;
  const char* name; /* valid as long as the model, as all names */
  size_t input_count;
  size_t output_count;
} graft_signature;

/* not_found where index >= count. */
GRAFT_API graft_status graft_model_signature(const graft_model* model, size_t index, graft_signature* signature);
/* Tensor `tensor` of signature `index`; kind is GRAFT_INPUTS or GRAFT_OUTPUTS. A session that is made for a signature
   gives outputs by these names; inputs keep those that the model has for them, as they are told here. */
GRAFT_API graft_status graft_model_signature_tensor(const graft_model* model, size_t index, graft_tensor_kind kind,
                                                    size_t tensor, graft_tensor_info* info);

/* What one sample of graft_train_step and graft_evaluate consists of: the model's inputs in order, for packed sequences
   where their texts begin, and last the target. `dims` are those of one sample, without the batch; the name is valid as
   long as the trainer. not_found where index is beyond the target. */
GRAFT_API graft_status graft_trainer_sample(const graft_trainer* trainer, size_t index, graft_tensor_info* info);

GRAFT_END_C
#endif
