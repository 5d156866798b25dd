/* A classifier's last layer: another number of classes, for a class that is added later. Included by graft.h; see there
 * for what holds for all.
 */
#include "graft/graft.h"

#ifndef GRAFT_HEAD_H
#define GRAFT_HEAD_H

GRAFT_BEGIN_C

/* How a head is resized. */
typedef struct graft_head_options {
  size_t struct_size;
  /* The output of the classes; by default the model's only output. Default: none. */
  const char* output;
  /* Classes of the head afterwards; more than now, unless replace is set. Default: 0. */
  int64_t classes;
  /* All rows are initialized, and there may be fewer or as many; without it old rows keep their bits. Default: 0. */
  int replace;
  /* Seed of new rows. Default: 0. */
  uint32_t seed;
  /* Names of the new classes, or with replace of all, for a model that knows its classes by names. Default: none. */
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

GRAFT_END_C
#endif
