/* A memory of examples: samples that an app adds one by one over years, in a file of bounded size, for training that
 * mixes them in and a gate that holds some of them out. Part of graft.h, whose rules hold. It needs no device: see
 * graft_context_options.
 */
#include "graft/graft.h"

#ifndef GRAFT_EXAMPLES_H
#define GRAFT_EXAMPLES_H

#include "graft/checkpoint.h"
#include "graft/data.h"

GRAFT_BEGIN_C

/* A memory of examples, open. */
typedef struct graft_memory_file graft_memory_file;

/* Which record is evicted when the memory is full: always one of the class that has most records. The class is the
   sample's first label, if that is one whole number. */
typedef enum graft_memory_policy GRAFT_ENUM_OF_INT {
  GRAFT_MEMORY_RESERVOIR = 0, /* what stays is a uniform sample of all that came, by a keyed hash of ids */
  GRAFT_MEMORY_LOSS = 1,      /* the record of the smallest loss; one without a loss is evicted last */
  GRAFT_MEMORY_AGE = 2        /* the oldest */
} graft_memory_policy;

/* Which records a data set has. */
typedef enum graft_memory_part GRAFT_ENUM_OF_INT {
  GRAFT_MEMORY_TRAINING = 0, /* those to train on */
  GRAFT_MEMORY_HELD_OUT = 1, /* those to evaluate on, which are never trained on */
  GRAFT_MEMORY_EXPORT = 2    /* those that may leave the device */
} graft_memory_part;

/* How a memory is opened. graft_memory_options_init() fills in the defaults. */
typedef struct graft_memory_options {
  size_t struct_size;
  /* Fields of a sample. With them a missing file is made; a file of other fields is refused. Default: none. */
  const graft_field* fields;
  size_t field_count;
  /* Data set with the fields, instead of fields; names of classes are stored as well. Default: none. */
  const graft_data_set* like;
  /* Of a new file: the most records; 0: no limit. Default: 0. */
  uint64_t records;
  /* Of a new file: its largest size. Records take three quarters of it; a file that is rewritten exists twice for that
     time. Default: 67108864. Range: [4096, inf). */
  uint64_t bytes;
  /* Of a new file: which record is evicted. Default: reservoir. */
  graft_memory_policy policy;
  /* Of a new file: the share of records that are held out, by a keyed hash of their ids. Default: 0.1. Range: [0, 1).
   */
  double held_out_share;
  /* Of a new file: key of the hashes that draw records. Default: 0. */
  uint64_t seed;
  /* Encrypts everything in the file. Default: none. */
  const graft_cipher* cipher;
  /* Records are read only; another process may write. Default: 0. */
  int read_only;
} graft_memory_options;

/* Fills in every default; each value then counts as it is, zero too. `options` has its struct_size. */
GRAFT_API graft_status graft_memory_options_init(graft_memory_options* options);

/* What the app says of a record. graft_record_options_init() fills in the defaults. */
typedef struct graft_record_options {
  size_t struct_size;
  /* Loss of the sample, for the policy of losses; has_loss says that it is known. Default: 0. */
  double loss;
  /* loss is known. Default: 0. */
  int has_loss;
  /* When the record was made, in milliseconds since 1970; 0: now. Default: 0. */
  int64_t added_ms;
  /* When the record's time is over, in milliseconds since 1970; no data set has it from then on. 0: never.
     Default: 0. */
  int64_t expires_ms;
  /* Consent: the record may be trained on. Default: 1. */
  int may_train;
  /* Consent: the record may be evaluated on, if it is held out. Default: 1. */
  int may_evaluate;
  /* Consent: the record may leave the device. Default: 0. */
  int may_export;
} graft_record_options;

/* Fills in every default; each value then counts as it is, zero too. `options` has its struct_size. */
GRAFT_API graft_status graft_record_options_init(graft_record_options* options);

/* One process at a time writes to a memory; a file next to it with ".lock" behind its name says so. options may be
   NULL. not_found: no such file, and no fields; invalid_argument: another key, or other fields; corrupt: it is
   damaged. What a crash left of a record that was being added is removed. */
GRAFT_API graft_status graft_memory_open(graft_context* context, const char* path, const graft_memory_options* options,
                                         graft_memory_file** memory);
GRAFT_API void graft_memory_destroy(graft_memory_file* memory);

/* What became of a record. */
typedef struct graft_memory_added {
  size_t struct_size;
  const char* id;      /* of the record; valid until the memory's next call */
  int stored;          /* 0: the policy evicted it itself, or the memory has the same record already */
  int is_known;        /* 1: the memory has the same record already */
  const char* evicted; /* ids of records that were evicted, one a line; valid until the memory's next call */
} graft_memory_added;

/* Adds a sample: contents of each field, in order. It is on storage when the call returns, and after a failure the
   memory is as it was. id: text in UTF-8 of at most 255 bytes, without control characters; "": a hash of the contents.
   options and added may be NULL. invalid_argument: the memory has another sample of this id. */
GRAFT_API graft_status graft_memory_add(graft_memory_file* memory, const char* id, const void* const* contents,
                                        size_t content_count, const graft_record_options* options,
                                        graft_memory_added* added);
/* Adds all samples of a set that has no loader, as graft_memory_add. Ids are `prefix` and the sample's number from 0;
   "": hashes of the contents. stored: how many the memory then has of them, new or known. On a failure those before
   the sample are stored. options and stored may be NULL. */
GRAFT_API graft_status graft_memory_add_data(graft_memory_file* memory, const graft_data_set* set, const char* prefix,
                                             const graft_record_options* options, uint64_t* stored);
/* The record's loss now, for the policy of losses. not_found: there is no such record. */
GRAFT_API graft_status graft_memory_set_loss(graft_memory_file* memory, const char* id, double loss);
/* Erases records: when it returns, the file has no byte of them. not_found: one is missing, and none is erased. */
GRAFT_API graft_status graft_memory_remove(graft_memory_file* memory, const char* const* ids, size_t id_count);
/* Erases records of which the time is over at now_ms (0: now). removed, which may be NULL: how many. */
GRAFT_API graft_status graft_memory_expire(graft_memory_file* memory, int64_t now_ms, uint64_t* removed);

/* One record. */
typedef struct graft_memory_record {
  size_t struct_size;
  const char* id;     /* valid until the memory's next call */
  uint64_t number;    /* by arrival, from 0 */
  int64_t added_ms;   /* since 1970 */
  int64_t expires_ms; /* 0: never */
  int64_t label;      /* the class; 0 for samples without one */
  double loss;        /* NaN: not known */
  int may_train;
  int may_evaluate;
  int may_export;
  int is_held_out; /* 1: never trained on */
} graft_memory_record;

/* Records by id; not_found where index >= count. */
GRAFT_API graft_status graft_memory_at(graft_memory_file* memory, size_t index, graft_memory_record* record);
/* The record of this id. not_found: there is none. */
GRAFT_API graft_status graft_memory_find(graft_memory_file* memory, const char* id, graft_memory_record* record);
/* A record's sample: its fields one after another; valid until the memory's next call. not_found: there is none. */
GRAFT_API graft_status graft_memory_read(graft_memory_file* memory, const char* id, const void** data, size_t* bytes);

/* What a memory is and holds. */
typedef struct graft_memory_info {
  size_t struct_size;
  uint64_t records;
  uint64_t held_out_records; /* of them, never trained on */
  uint64_t bytes;            /* of the file */
  uint64_t record_bytes;
  uint64_t most_bytes;   /* the file's limit */
  uint64_t most_records; /* 0: no limit */
  uint64_t torn_bytes;   /* that a crash had left of a record, when it was opened */
  graft_memory_policy policy;
  double held_out_share;
  uint64_t seed;
} graft_memory_info;

/* Fills info. */
GRAFT_API graft_status graft_memory_describe(graft_memory_file* memory, graft_memory_info* info);

/* The memory's records of one part as a data set, by id, as they are now: later calls on the memory do not change it.
   Records of which the time is over at now_ms (0: now) are left out. not_found: there is none. */
GRAFT_API graft_status graft_memory_data(graft_memory_file* memory, graft_memory_part part, int64_t now_ms,
                                         graft_data_set** set);
/* All samples of a set, and records of the memory to train on, which are `share` of an epoch. The fields
   are those of the set. Its loader has graft_loader_options.keyed: of the first n samples of an epoch, share * n are
   the memory's, rounded down. Which they are follows from seed, epoch and ids. Few records occur several times.
   The set has no other loader meanwhile. not_found: the memory has no record to train on. */
GRAFT_API graft_status graft_memory_mix(graft_memory_file* memory, graft_data_set* set, double share, int64_t now_ms,
                                        graft_data_set** mixed);

/* The first batch, from 0, in which the record of this id stands, of a loader with these options on a set of
   graft_memory_data or graft_memory_mix. To forget it exactly, a run goes back to a snapshot of no more steps than this
   (graft_checkpoint_options.forget). not_found: it stands in none of the first `limit` batches; 0: in none of the
   epochs of the options. options has keyed, and the set has no loader. */
GRAFT_API graft_status graft_memory_first_use(const graft_data_set* set, const graft_loader_options* options,
                                              const char* id, uint64_t limit, uint64_t* batch);

GRAFT_END_C
#endif
