/* The folder that a run is kept in: its snapshots, their history, and models back out of them; what
 * graft_checkpoint_open writes and `graft checkpoint` reads. Part of graft.h, whose rules hold. It needs no device: see
 * graft_context_options.
 */
#include "graft/graft.h"

#ifndef GRAFT_SNAPSHOTS_H
#define GRAFT_SNAPSHOTS_H

GRAFT_BEGIN_C

/* The folder of a run, open to be read and tidied. */
typedef struct graft_store graft_store;

/* How a store is opened. */
typedef struct graft_store_options {
  size_t struct_size;
  /* To tag, prune and branch; no trainer may have the folder open then. Default: 0. */
  int writable;
  /* Cipher that the folder was written with. Default: none. */
  const graft_cipher* cipher;
} graft_store_options;

/* What follows takes a snapshot by its number in decimal or by its tag; NULL: the one that training goes on from.
   Digits are always a number. not_found: there is none; corrupt: it is damaged. */

typedef struct graft_snapshot {
  size_t struct_size;
  uint64_t number;
  uint64_t step; /* optimizer steps done */
  double loss;   /* of the last step */
  int64_t made_ms;
  uint64_t bytes;        /* of the state, decoded */
  uint64_t stored_bytes; /* of all that it needs, however many snapshots share it */
  uint64_t own_bytes;    /* of what no other snapshot needs */
  const char* tags;      /* a tag a line; "" for none; valid until the next call on the store */
  int is_head;           /* 1: training goes on from here */
} graft_snapshot;

/* As it is now: another process may write to it, and pruned snapshots are then not found. options may be NULL.
   io_error: writable, and another has the folder open. */
GRAFT_API graft_status graft_store_open(graft_context* context, const char* folder, const graft_store_options* options,
                                        graft_store** store);
GRAFT_API void graft_store_destroy(graft_store* store);
/* How many snapshots there are; 0 for NULL. */
GRAFT_API size_t graft_store_count(const graft_store* store);
/* The oldest is 0; not_found where index >= count. */
GRAFT_API graft_status graft_store_snapshot(graft_store* store, size_t index, graft_snapshot* snapshot);
/* The same by number or tag. */
GRAFT_API graft_status graft_store_find(graft_store* store, const char* name, graft_snapshot* snapshot);
/* What the app said in graft_checkpoint_options.metadata; valid until the store changes. not_found: no such key. */
GRAFT_API graft_status graft_store_metadata(graft_store* store, const char* name, const char* key, const char** value);

/* All that a snapshot says of its run, by key: the app's own have "user." before theirs. Valid until the store changes.
   not_found where index is beyond the last. */
GRAFT_API graft_status graft_store_metadata_at(graft_store* store, const char* name, size_t index, const char** key,
                                               const char** value);

/* What a store holds beside its snapshots. */
typedef struct graft_store_info {
  size_t struct_size;
  uint64_t journalled_steps; /* that a resume takes again after the snapshot that training goes on from */
  size_t damaged;            /* snapshots that cannot be used */
} graft_store_info;

/* Fills info. */
GRAFT_API graft_status graft_store_describe(graft_store* store, graft_store_info* info);
/* Which one, and what is wrong with it; valid until the store changes. not_found where index >= damaged. */
GRAFT_API graft_status graft_store_damaged(graft_store* store, size_t index, uint64_t* number, const char** why);

/* What one of a run's workers said of itself. */
typedef struct graft_worker_report {
  size_t struct_size;
  const char* host;      /* its machine's name; valid until the store's next call of these */
  uint64_t step;         /* steps done with this one */
  uint64_t epoch;        /* from 0 */
  uint64_t place;        /* samples of the epoch before the step's batch */
  uint64_t first_sample; /* of the batch, that this worker computed */
  uint64_t samples;      /* and how many */
  uint64_t seed;         /* of its random numbers */
  uint64_t first_micro_batch;
  uint64_t micro_batches;
  double loss; /* of its samples */
  uint64_t computing_ns;
  uint64_t waiting_ns; /* for the others, and for what is sent */
  uint64_t all_steps;  /* since it joined the run, as all that follows */
  uint64_t all_samples;
  uint64_t all_computing_ns;
  uint64_t all_waiting_ns;
} graft_worker_report;

/* Of a snapshot's step. not_found where worker is beyond the last. */
GRAFT_API graft_status graft_store_worker(graft_store* store, const char* name, size_t worker,
                                          graft_worker_report* report);
/* The same of the last journalled step. */
GRAFT_API graft_status graft_store_journalled_worker(graft_store* store, size_t worker, graft_worker_report* report);
/* The first parameter of a snapshot that is NaN or infinite somewhere; "" where all are finite. Reads all of them;
   valid until the next call on the store. */
GRAFT_API graft_status graft_store_find_non_finite(graft_store* store, const char* name, const char** parameter);

/* 32 hexadecimal digits that follow from the parameters, running statistics and optimizer state of a snapshot: the same
   for the same bits. Nothing is decoded; valid until the next call on the store. */
GRAFT_API graft_status graft_store_hash(graft_store* store, const char* name, const char** hash);

/* Decodes and compares everything. problems: a sentence a line, "" where all is well, valid until the next call on the
   store; chunks may be NULL. corrupt where there are problems. */
GRAFT_API graft_status graft_store_verify(graft_store* store, uint64_t* chunks, const char** problems);

/* How a stream of two snapshots differs. */
typedef enum graft_difference GRAFT_ENUM_OF_INT {
  GRAFT_SAME = 0,
  GRAFT_CHANGED = 1,
  GRAFT_ONLY_IN_FIRST = 2,
  GRAFT_ONLY_IN_SECOND = 3
} graft_difference;

/* One tensor, or another part of the state, in two snapshots. */
typedef struct graft_stream_difference {
  const char* name;
  uint32_t worker;
  graft_difference difference;
  uint64_t bytes_in_first;
  uint64_t bytes_in_second;
  uint64_t changed_bytes; /* at most: whole chunks are compared */
} graft_stream_difference;

/* Nothing is decoded. The list is valid until the next call on the store. */
GRAFT_API graft_status graft_store_diff(graft_store* store, const char* first, const char* second,
                                        const graft_stream_difference** streams, size_t* count);
/* What the last graft_store_diff() found beside streams. */
typedef struct graft_diff_info {
  size_t struct_size;
  const char* metadata;  /* keys whose values differ, one a line; valid until the next call on the store */
  uint64_t stored_bytes; /* for what differs */
} graft_diff_info;

/* Fills info. */
GRAFT_API graft_status graft_store_diff_info(graft_store* store, graft_diff_info* info);

/* Puts the parameters and running statistics of a snapshot into the model that was trained, which must have no
   sessions, generators or trainers. tensors: how many; may be NULL. On failure the model is as it was. */
GRAFT_API graft_status graft_store_restore(graft_store* store, const char* name, graft_model* model, size_t* tensors);

/* These need a writable store. A tag keeps a snapshot from being pruned. It names one snapshot: tagging another one
   moves it. invalid_argument: the tag has digits only, and would hide the snapshot of that number. */
GRAFT_API graft_status graft_store_tag(graft_store* store, const char* name, const char* tag);
/* Takes a name away that graft_store_tag() gave. */
GRAFT_API graft_status graft_store_untag(graft_store* store, const char* name, const char* tag);
/* Deletes all but the newest `keep` snapshots, those with a tag and the one that training goes on from. removed and
   freed_bytes may be NULL. */
GRAFT_API graft_status graft_store_prune(graft_store* store, size_t keep, size_t* removed, uint64_t* freed_bytes);
/* A resume goes on from this snapshot; later ones stay. */
GRAFT_API graft_status graft_store_branch(graft_store* store, const char* name);

GRAFT_END_C
#endif
