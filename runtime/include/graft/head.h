/* A classifier's last layer: another number of classes, for a class that is added later. Included by graft.h; see there
 * for what holds for all.
 */
#include "graft/graft.h"

#ifndef GRAFT_HEAD_H
#define GRAFT_HEAD_H

#ifdef __cplusplus
extern "C" {
#endif

typedef struct graft_head_options { /* How a head is resized. */
  size_t struct_size;
  const char* output; /* of the classes; NULL: the model's only output */
  int64_t classes;    /* that the head has then; more than now, unless replace is 1 */
  int replace;        /* 1: all rows begin anew, and there may be fewer or as many; 0: old rows keep their bits */
  uint32_t seed;      /* of new rows */
  /* Of the new classes, or with replace of all, for a model that knows its classes by names; NULL: without names */
  const char* const* class_names;
  size_t class_name_count;
} graft_head_options;

/* Resizes the last layer, which is a linear layer or a convolution, with its bias (PyTorch: another num_labels of a
   classifier). New rows begin as PyTorch's Linear and Conv2d do, uniform within 1/sqrt(inputs of a row) on either side
   of 0; the numbers follow from the seed and the names of weight and bias. The head is trained, also if it was frozen.
   The model must have no sessions, generators or trainers, and no adapters.
   A run of the model before can be continued: graft_checkpoint_open with resume takes its newest snapshot. Old rows
   keep their optimizer state; that of new rows is as in a new run (zeros, of AdamW). With replace the whole head begins
   anew. Training data take labels by name from the model's names, so that old classes keep their numbers.
   GRAFT_UNSUPPORTED: no such head is found, or something behind it needs the old number; the message names the node. */
GRAFT_API graft_status graft_model_resize_head(graft_model* model, const graft_head_options* options);

#ifdef __cplusplus
}
#endif

#endif
