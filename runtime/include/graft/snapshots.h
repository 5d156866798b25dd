/* The folder that a run is kept in: its snapshots, their history, and models back out of them; what
 * graft_checkpoint_open writes and `graft checkpoint` reads. Part of graft.h, whose rules hold. It needs no device: see
 * graft_context_options.
 */
#include "graft/graft.h"

#ifndef GRAFT_SNAPSHOTS_H
#define GRAFT_SNAPSHOTS_H

#ifdef __cplusplus
extern "C" {
#endif

/* The folder of a run, open to be read and tidied. */
typedef struct graft_store graft_store;

/* How a store is opened. */
typedef struct graft_store_options {
  size_t struct_size;
  int writable;               /* 1: to tag, prune and branch; no trainer may have the folder open then */
  const graft_cipher* cipher; /* that the folder was made with; NULL: none */
} graft_store_options;

/* What follows takes a snapshot by its number in decimal or a tag, of which the newest counts; NULL: the one that
   training goes on from. not_found: there is none; corrupt: it is damaged. */

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
/* Puts the parameters and running statistics of a snapshot into the model that was trained, which must have no
   sessions, generators or trainers. tensors: how many; may be NULL. On failure the model is as it was. */
GRAFT_API graft_status graft_store_restore(graft_store* store, const char* name, graft_model* model, size_t* tensors);

/* These need a writable store. A tag keeps a snapshot from being pruned. */
GRAFT_API graft_status graft_store_tag(graft_store* store, const char* name, const char* tag);
/* Takes a name away that graft_store_tag() gave. */
GRAFT_API graft_status graft_store_untag(graft_store* store, const char* name, const char* tag);
/* Deletes all but the newest `keep` snapshots, those with a tag and the one that training goes on from. removed and
   freed_bytes may be NULL. */
GRAFT_API graft_status graft_store_prune(graft_store* store, size_t keep, size_t* removed, uint64_t* freed_bytes);
/* A resume goes on from this snapshot; later ones stay. */
GRAFT_API graft_status graft_store_branch(graft_store* store, const char* name);

#ifdef __cplusplus
}
#endif

#endif
