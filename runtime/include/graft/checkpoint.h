/* graft's C ABI, checkpoints: a trainer's run kept in a folder, and resumed exactly. Part of graft.h, whose rules hold.
 */
#include "graft/graft.h"

#ifndef GRAFT_CHECKPOINT_H
#define GRAFT_CHECKPOINT_H

GRAFT_BEGIN_C

/* Authenticated encryption (AEAD) under a key that stays with the app. The rules on nonces: seal draws a new one in
   every call and puts it into what it returns. Called from graft's own threads, several at once. */
typedef struct graft_cipher {
  size_t struct_size;
  size_t overhead; /* bytes by which sealing lengthens: nonce and tag; 1 to 64 */
  /* Fills out with bytes + overhead bytes. Nonzero: failed. */
  int (*seal)(void* user, const void* associated, size_t associated_bytes, const void* plain, size_t bytes, void* out);
  /* Fills out with bytes - overhead bytes. Nonzero: not sealed under this key with these associated bytes. */
  int (*open)(void* user, const void* associated, size_t associated_bytes, const void* sealed, size_t bytes, void* out);
  void* user;
} graft_cipher;

/* A key and its value. */
typedef struct graft_pair {
  const char* key;
  const char* value;
} graft_pair;

/* Where and how often a run is kept. graft_checkpoint_options_init() fills in the defaults. */
typedef struct graft_checkpoint_options {
  size_t struct_size;
  /* Folder of the run, made if missing; one trainer at a time writes to it. Default: none. */
  const char* folder;
  /* Steps between snapshots; 0: only graft_checkpoint_save takes one. Default: 0. */
  uint64_t every;
  /* Steps are durable at each k-th; 1: each, before graft_train_step returns. Default: 1. Range: [1, inf). */
  uint64_t journal_every;
  /* Steps are durable this many milliseconds later at most, instead of journal_every; 0: off. Default: 0. */
  uint64_t journal_ms;
  /* Newest snapshots to keep; tagged ones always stay. Default: 4. Range: [1, inf). */
  uint32_t keep;
  /* Continue from the snapshot in the folder; without it the folder must hold none. Default: 0. */
  int resume;
  /* With resume: the snapshot to go back to, by number or tag; by default the newest. Default: none. */
  const char* from;
  /* With resume: continue although options differ; the model may not. Default: 0. */
  int with_changes;
  /* If a repeated step differs from the journal, continue from the snapshot. Default: 0. */
  int continue_on_mismatch;
  /* Text that identifies the data: a resume with another is refused. Default: none. */
  const char* data;
  /* Keys and values of the app, stored with each snapshot. Default: none. */
  const graft_pair* metadata;
  size_t metadata_count;
  /* Encrypts everything in the folder. Default: none. */
  const graft_cipher* cipher;
  /* Parameters may be NaN or infinite. Otherwise no snapshot of such is written, and a resume continues from the newest
     snapshot that is finite (which is logged), or refuses the one that `from` names. Default: 0. */
  int allow_non_finite;
  /* Loader of graft_train_next: its place is stored with each snapshot, and a resume restores it. data is then its SPEC
     if it is none, and other samples or another order are refused. Default: none. */
  struct graft_loader* loader;
  /* Path noted in each snapshot, for `graft checkpoint restore`. Default: none. */
  const char* model_file;
  /* A call that takes a step returns before the step is durable; it becomes durable while the device computes the next
     one. graft_checkpoint_acknowledge waits for the last one. Default: 0. */
  int late;
  /* Gets warnings and what recovery did, instead of the log, within a call on the trainer: a sentence, valid during the
     call. It must not call graft. Default: none. */
  void (*report)(void* user, const char* sentence);
  /* First argument of report. Default: none. */
  void* report_user;
  /* The run of another worker, which is gone (graft/distribute.h): it continues from this trainer's state, or from a
     newer snapshot. Looks less deep for damage than a resume. corrupt: it is another run's. Default: 0. */
  int take_over;
  /* With resume and a keyed loader: the data lack records that no step before the snapshot `from` has used. Later
     snapshots are erased, and the run continues as one that never had these records; without `from` it begins again.
     graft_memory_first_use names the batch that the snapshot must lie before. Default: 0. */
  int forget;
} graft_checkpoint_options;

/* Fills in every default; each value then counts as it is, zero too. `options` has its struct_size. */
GRAFT_API graft_status graft_checkpoint_options_init(graft_checkpoint_options* options);

/* Where a run went on. */
typedef struct graft_checkpoint_info {
  size_t struct_size;
  uint64_t step;         /* optimizer steps done */
  uint64_t samples_done; /* of the step in progress: see graft_train_micro_step */
  uint64_t journalled;   /* steps that the journal has after these: give the same batches, and they are compared */
} graft_checkpoint_info;

/* Keeps the trainer's run in a folder from now on: each step is journalled, snapshots are written by a thread while
   training goes on. With resume the trainer is brought to where it was, exactly. What goes wrong later (a full disk) is
   logged, and training goes on; only graft_checkpoint_save gives the error. info may be NULL. After an error the
   trainer may be half resumed: destroy it. */
GRAFT_API graft_status graft_checkpoint_open(graft_trainer* trainer, const graft_checkpoint_options* options,
                                             graft_checkpoint_info* info);
/* A snapshot of now: on storage when it returns. tag may be NULL. */
GRAFT_API graft_status graft_checkpoint_save(graft_trainer* trainer, const char* tag);
/* Waits until all is on storage and closes the folder; destroying the trainer does, too. Takes no snapshot. */
GRAFT_API graft_status graft_checkpoint_close(graft_trainer* trainer);
/* Returns once the steps that are done are as durable as was asked: with graft_checkpoint_options.late. */
GRAFT_API graft_status graft_checkpoint_acknowledge(graft_trainer* trainer);

/* What became of a run that is kept. */
typedef struct graft_checkpoint_state {
  size_t struct_size;
  uint64_t replayed;   /* steps that were taken again and agreed with the journal */
  uint64_t journalled; /* that the journal still has after this one */
  uint64_t skipped;    /* snapshots that were due while the one before was still being written */
  double seconds;      /* that calls on the trainer have spent on it */
} graft_checkpoint_state;

/* Fills state. */
GRAFT_API graft_status graft_checkpoint_describe(const graft_trainer* trainer, graft_checkpoint_state* state);
/* Bytes of the app's own in each further snapshot (its place in the data, say), by worker: 0 for what all share. */
GRAFT_API graft_status graft_checkpoint_set_data(graft_trainer* trainer, uint32_t worker, const void* data,
                                                 size_t bytes);
/* What was set, or saved with the snapshot that was resumed; not_found where nothing was. */
GRAFT_API graft_status graft_checkpoint_data(graft_trainer* trainer, uint32_t worker, const void** data, size_t* bytes);
/* A new run from old weights: parameters and running statistics of a snapshot (number or tag; NULL: the newest), no
   optimizer state. cipher may be NULL. */
GRAFT_API graft_status graft_warm_start(graft_trainer* trainer, const char* folder, const char* snapshot,
                                        const graft_cipher* cipher);

GRAFT_END_C
#endif
