/* Data sets: opened as `graft train --data` opens them, in memory, or made by a function; shuffled, cut into batches
 * and read ahead by a thread, with a place that checkpoints keep. Part of graft.h, whose rules hold.
 */
#include "graft/graft.h"

#ifndef GRAFT_DATA_H
#define GRAFT_DATA_H

#include "graft/train.h"

GRAFT_BEGIN_C

/* Samples by number. */
typedef struct graft_data_set graft_data_set;
/* Batches of a data set, shuffled and read ahead. */
typedef struct graft_loader graft_loader;

/* One tensor of a sample. */
typedef struct graft_field {
  const char* name;
  graft_dtype dtype; /* GRAFT_F32 or GRAFT_I32; of an input also bytes and halves (graft_trainer_options.inputs) */
  uint32_t rank;
  int64_t dims[GRAFT_MAX_RANK]; /* of one sample: without the batch */
  int is_label;                 /* 0: an input of the model, by name; 1: a target, which the loss compares with; 2: how
                                   much a sample counts for, one f32 of 0 or more; in this order */
} graft_field;

/* "idx:IMAGES,LABELS", "csv:FILE?label=COLUMN", "npy:X.npy,Y.npy", "npy:image=A.npy,table=B.npy;label=Y.npy,box=Z.npy"
   or "digits:?count=1000", as docs/reference/data.md has them. The message names the file or option that is wrong. */
GRAFT_API graft_status graft_data_open(graft_context* context, const char* spec, graft_data_set** set);
/* What records of "jsonl:FILE" are. */
typedef enum graft_preference GRAFT_ENUM_OF_INT {
  GRAFT_NO_PREFERENCE = 0,
  GRAFT_PREFERENCE_PAIRS = 1,    /* {"prompt", "chosen", "rejected"}: for GRAFT_LOSS_DPO, _IPO and _ORPO */
  GRAFT_PREFERENCE_LABELLED = 2, /* {"prompt", "completion", "label"}: for GRAFT_LOSS_KTO */
  /* {"query" or "anchor", "positive", "negative" or "negatives"}: for GRAFT_LOSS_INFO_NCE of texts' vectors */
  GRAFT_PREFERENCE_GROUPS = 3
} graft_preference;

/* Which tokens' vectors stand for a text; those that the model puts around a text count as well. */
typedef enum graft_pooling GRAFT_ENUM_OF_INT {
  GRAFT_POOLING_DEFAULT = 0, /* as the model's file says, where it does; else the mean */
  GRAFT_POOLING_MEAN = 1,
  GRAFT_POOLING_LAST = 2,
  GRAFT_POOLING_CLS = 3 /* the first */
} graft_pooling;

/* What becomes of a text of "jsonl:FILE" that is longer than a sample; the spec's own on-long= comes first. */
typedef enum graft_on_long GRAFT_ENUM_OF_INT {
  GRAFT_ON_LONG_BY_KIND = 0, /* what is learned as a whole is split, all else cut */
  GRAFT_ON_LONG_CUT = 1,     /* its end is left out */
  GRAFT_ON_LONG_DROP = 2,    /* it is left out */
  GRAFT_ON_LONG_ERROR = 3,   /* the data set is refused */
  GRAFT_ON_LONG_SPLIT = 4    /* it becomes several, each of which begins anew */
} graft_on_long;

/* How a data set is opened. Zeros are the defaults. */
typedef struct graft_data_options {
  size_t struct_size;
  /* Model that the data is for: "text:FILE" and "jsonl:FILE" become its tokens, other sets are read for its inputs, and
     labels get the numbers of its classes. Default: none. */
  graft_model* model;
  /* Samples without augmentation, and only labels of the model's classes. Default: 0. */
  int evaluation;
  /* Tokens of a sample of text. 0: 128, but for texts with labels at most the model's context. Default: 0. */
  int64_t length;
  /* All samples of text have the field "sequence_starts" (graft_trainer_options.packed_sequences). Default: 0. */
  int sequence_starts;
  /* Reads images and sounds; its functions outlive the set. Without it none are read. Default: none. */
  const struct graft_media* media;
  /* First sample of the set. Default: 0. */
  uint64_t first;
  /* Samples from there on; 0: to the end. Default: 0. */
  uint64_t count;
  /* Samples hold two texts of `length` tokens each, one after the other: the dimension "seq" is twice that. A trainer
     of the loss takes packed sequences. Of groups, samples are [texts, length], and a trainer for the set knows.
     Default: no_preference. */
  graft_preference preference;
  /* Pooling of groups. Default: default. */
  graft_pooling pooling;
  /* What becomes of texts longer than a sample. Default: by_kind. */
  graft_on_long on_long;
  /* Tokenizer of texts, instead of the model's and of the one that the spec names (tokenizer=FILE, which is unsupported
     without this); it may be destroyed once the set is open. Default: none. */
  const struct graft_tokenizer* tokenizer;
  /* Names of classes whose numbers labels get, instead of the model's: for a set to evaluate on, the classes of the set
     to train on, which it may not exceed. An empty list: labels are numbers. Default: none. */
  const char* const* classes;
  size_t class_count;
  /* First samples of text that are stored for graft_data_shown. Default: 0. */
  uint64_t show;
} graft_data_options;

/* As graft_data_open, also "text:FILE", "jsonl:FILE", "folder:DIR" and "wav:DIR". Samples of text that hold several
   have the field "sequence_starts"; a trainer that is made for the set keeps them apart. options may be NULL. */
GRAFT_API graft_status graft_data_open_with(graft_context* context, const char* spec, const graft_data_options* options,
                                            graft_data_set** set);
/* What became of the records of a set of text. */
typedef struct graft_data_summary {
  size_t struct_size;
  int is_text; /* 0: a set of another kind, of which nothing is told */
  int lost;    /* 1: something is cut, or left out */
  /* Valid as long as the set, as sentences, each with a line's end behind it, the first of which says what there is;
     and as a JSON object with the numbers of records, samples, tokens, ... "" of other sets */
  const char* text;
  const char* json;
} graft_data_summary;

/* Fills summary, of a set that was opened by a spec. */
GRAFT_API graft_status graft_data_describe(const graft_data_set* set, graft_data_summary* summary);
/* A token of a sample of text as people see it. */
typedef struct graft_shown_token {
  const char* text; /* UTF-8 where the token is; with a zero behind it */
  size_t bytes;
  int learned; /* 1: the loss counts it */
  int begins;  /* 1: a text begins with it */
} graft_shown_token;

/* The tokens of one of the samples that graft_data_options.show keeps, valid as long as the set. not_found where sample
   is beyond the last of them. */
GRAFT_API graft_status graft_data_shown(const graft_data_set* set, uint64_t sample, const graft_shown_token** tokens,
                                        size_t* count);
/* Keeps the names of the set's classes in the model, whose outputs stand for them from now on. not_found: the set has
   none. */
GRAFT_API graft_status graft_model_keep_classes(graft_model* model, const graft_data_set* set);
/* What number `index` of the model's classes is called; NULL where it does not say. Valid until the next call. */
GRAFT_API const char* graft_model_class(graft_model* model, size_t index);
/* Samples that the app keeps, unchanged, until the set is destroyed: a block for each field, with `samples` times its
   size of one sample. */
GRAFT_API graft_status graft_data_from_memory(graft_context* context, const graft_field* fields, size_t field_count,
                                              const void* const* blocks, uint64_t samples, graft_data_set** set);
/* Fills out, a place for each field, with sample `index`. 1: done; 0: there is none, for the data ends before; below 0:
   it failed. The same index gives the same sample, in whatever order they are asked for. */
typedef int (*graft_read_sample)(void* user, uint64_t index, void* const* out);
/* Samples that the app makes, on graft's reading thread, one at a time; the function must not call graft. samples = 0:
   nobody knows how many, and they are shuffled through a buffer. */
GRAFT_API graft_status graft_data_from_callback(graft_context* context, const graft_field* fields, size_t field_count,
                                                uint64_t samples, graft_read_sample read, void* user,
                                                graft_data_set** set);
/* What `model`, without adapters, makes of the texts of a set of preferences becomes part of its samples:
   GRAFT_LOSS_DPO, GRAFT_LOSS_IPO and GRAFT_LOSS_KTO learn by the difference to it. Computed once, on the device; the
   model is on it for as long. `batch` samples at once, at least 1. Before the set has a loader. */
GRAFT_API graft_status graft_data_add_reference(graft_data_set* set, graft_model* model, uint32_t batch);
/* How a reference is computed. graft_reference_options_init() fills in the defaults. */
typedef struct graft_reference_options {
  size_t struct_size;
  /* Samples at once. Default: 8. Range: [1, inf). */
  uint32_t batch;
  /* Storage of intermediate results. Default: f32. */
  graft_precision precision;
  /* Sizes of named dimensions other than the batch and "seq". Default: none. */
  const graft_binding* bindings;
  size_t binding_count;
  /* File that stores the result; if it is there, of the same data, model and precision, nothing is computed. corrupt:
     it is damaged. Its folder is made if missing. Default: none. */
  const char* file;
} graft_reference_options;

/* Fills in every default; each value then counts as it is, zero too. `options` has its struct_size. */
GRAFT_API graft_status graft_reference_options_init(graft_reference_options* options);

/* The same; options may be NULL. */
GRAFT_API graft_status graft_data_add_reference_with(graft_data_set* set, graft_model* model,
                                                     const graft_reference_options* options);
/* From now on the set is its samples [first, first + count) alone: as for a part that is kept back to evaluate on.
   Before it has a loader. invalid_argument: it has no such samples, or nobody knows how many; it is as it was. */
GRAFT_API graft_status graft_data_narrow(graft_data_set* set, uint64_t first, uint64_t count);
/* Samples `rows` of a set, in this order, as a set of its own: of one client, or of one fold of a cross-validation. It
   holds on to `set`; of all that read one set, one has a loader at a time. invalid_argument: there is no such row,
   there is none at all, or nobody knows how many samples there are. */
GRAFT_API graft_status graft_data_select(graft_data_set* set, const uint64_t* rows, uint64_t count,
                                         graft_data_set** selected);
/* Shares all samples out among `parts`, as among clients whose data are not alike. "iid": at random, in equal parts;
   "dirichlet=ALPHA": those of each label in shares that are drawn from a Dirichlet distribution (Hsu, Qi, Brown 2019:
   the smaller ALPHA, the less alike); "shards=N": sorted by label, N pieces to each (McMahan et al. 2017). `rows` has
   room for all samples, `ends` for all parts: those of part p end before rows[ends[p]], for graft_data_select. A part
   may have none. The same seed gives the same parts. invalid_argument: there is no such way, or the set has no whole
   number as its label. The set has no loader, for "dirichlet" and "shards" read it once. */
GRAFT_API graft_status graft_data_split(graft_data_set* set, const char* way, uint64_t parts, uint64_t seed,
                                        uint64_t* rows, uint64_t* ends);
GRAFT_API void graft_data_destroy(graft_data_set* set);
/* 0 where nobody knows. Of a set that a memory is mixed into: those of an epoch. */
GRAFT_API uint64_t graft_data_samples(const graft_data_set* set);
/* How many parts a sample has; 0 for NULL. */
GRAFT_API size_t graft_data_field_count(const graft_data_set* set);
/* not_found where index >= count. The name is valid as long as the set. */
GRAFT_API graft_status graft_data_field(const graft_data_set* set, size_t index, graft_field* field);
/* What number `index` of a label stands for: the name of a folder, a word of a CSV file. NULL where there is no name.
   Valid as long as the set. */
GRAFT_API const char* graft_data_class(const graft_data_set* set, size_t field, size_t index);

/* How a loader makes batches. graft_loader_options_init() fills in the defaults. */
typedef struct graft_loader_options {
  size_t struct_size;
  /* Samples of a batch. Default: 32. Range: [1, inf). */
  uint64_t batch;
  /* Seed of the order. The command line uses that of --seed. Default: 0. */
  uint64_t seed;
  /* Samples are not shuffled. Default: 0. */
  int in_order;
  /* A last batch that is not full is left out. Default: 0. */
  int drop_last;
  /* Times through the data; 0: unbounded. Default: 0. */
  uint64_t epochs;
  /* Samples that are shuffled together if the data set does not know its size. Default: 1024. Range: [1, inf). */
  uint64_t shuffle_buffer;
  /* Largest memory of batches and buffers in bytes; 0: no limit. out_of_memory if they need more. Default: 0. */
  uint64_t memory_limit;
  /* Threads that read samples, if each is a file; 0: one per core, at most 8. Default: 0. */
  uint32_t read_threads;
  /* The loader computes no fingerprint of the data, which saves reading it. Only for runs without checkpoints and other
     workers: graft_checkpoint_open and graft_trainer_join refuse such a loader. Default: 0. */
  int anonymous;
  /* The order of an epoch follows from a hash of the seed, the epoch and each sample: its contents, or the id of a
     memory's record. A sample that is left out does not change the order of the others. All samples are read once
     before the first. Not for data without a known size, nor for images or sounds that are augmented. Default: 0. */
  int keyed;
} graft_loader_options;

/* Fills in every default; each value then counts as it is, zero too. `options` has its struct_size. */
GRAFT_API graft_status graft_loader_options_init(graft_loader_options* options);

/* Batches of samples. A set has one loader at a time. options may be NULL. */
GRAFT_API graft_status graft_loader_create(graft_data_set* set, const graft_loader_options* options,
                                           graft_loader** loader);
GRAFT_API void graft_loader_destroy(graft_loader* loader);

/* One batch, of pointers that hold until the next. */
typedef struct graft_batch {
  size_t struct_size;
  uint64_t samples;          /* 0: the epochs are over */
  uint64_t epoch;            /* from 0 */
  int last_of_epoch;         /* 1: the next batch is of another epoch */
  const void* const* fields; /* the contents of each, one sample after another; until the loader's next call */
} graft_batch;

/* The next batch, to look at or for graft_train_step. */
GRAFT_API graft_status graft_loader_next(graft_loader* loader, graft_batch* batch);

/* One step on the loader's next batch, by a trainer that was made for its set (graft_trainer_options.data). *more
   becomes 0 where the epochs are over, and nothing is done then. After an error, ask again: it goes on with the same
   batch, or where its samples are at fault (GRAFT_INVALID_ARGUMENT: a number that is not finite, a label of no class)
   with the next one. With graft_checkpoint_options.loader a resume goes on at the same sample. metrics may be NULL. */
GRAFT_API graft_status graft_train_next(graft_trainer* trainer, graft_loader* loader, int* more,
                                        graft_metrics* metrics);
/* As graft_evaluate, on all samples of a set that has no loader. */
GRAFT_API graft_status graft_evaluate_data(graft_trainer* trainer, graft_data_set* set, graft_metrics* metrics);

GRAFT_END_C
#endif
