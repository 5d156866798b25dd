/* Weight deltas: what training changed of a model or its adapters, small enough to send, for devices that come and go;
 * what `graft delta` makes and applies. Part of graft.h, whose rules hold. It needs no device: see
 * graft_context_options.
 */
#include "graft/graft.h"

#ifndef GRAFT_DELTA_H
#define GRAFT_DELTA_H

#include "graft/source.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What changed, of one client or averaged over several. */
typedef struct graft_delta graft_delta;

/* How its numbers are kept. */
typedef enum graft_delta_coding GRAFT_ENUM_OF_INT {
  GRAFT_DELTA_F32 = 0,
  GRAFT_DELTA_BF16 = 1,
  GRAFT_DELTA_INT8 = 2, /* blocks of 256: a scale and codes from -127 to 127 */
  GRAFT_DELTA_FIXED = 3 /* integers modulo 2^32, for secure aggregation: round(number * samples * 2^fixed_bits) */
} graft_delta_coding;

/* How a delta is made. */
typedef struct graft_delta_options {
  size_t struct_size;
  uint64_t samples;          /* that training used: what an average weighs by; 0: 1 */
  uint64_t local_steps;      /* optimizer steps */
  graft_delta_coding coding; /* 0: f32 */
  uint32_t fixed_bits;       /* of GRAFT_DELTA_FIXED, the same with all clients; 0: 8; at most 30 */
  uint32_t room;             /* of GRAFT_DELTA_FIXED: clients whose integers must fit in a sum; 0: 1024 */
  double clip_norm;          /* the whole delta is scaled to this L2 norm where it is longer; 0: not */
  double noise;              /* normal noise of so many times clip_norm, from the system's entropy; 0: none */
  const char* residual;      /* a file that keeps what coding lost, to be added to the next round's delta; NULL: none */
} graft_delta_options;

/* What a delta says of itself. */
typedef struct graft_delta_info {
  size_t struct_size;
  const char* base;      /* the weights that it was made for, as 32 hexadecimal digits; lives as long as the delta */
  const char* base_file; /* their file's name; "" where it had none */
  int of_adapters;       /* 1: it holds whole adapters, 0: changes */
  uint64_t samples;      /* of all clients */
  uint32_t clients;
  uint64_t local_steps;
  uint32_t rank; /* of adapters; 0: none */
  graft_delta_coding coding;
  double norm;      /* before it was clipped */
  double clip_norm; /* 0: it was not */
  double noise;     /* standard deviation of the noise in each number */
  size_t tensors;
  uint64_t numbers;
} graft_delta_info;

/* `updated` less `base`: two models of one graph. Where `updated` has adapters, they are the delta; where both have,
   what changed of them. options may be NULL. invalid_argument: they differ in more than parameters and running
   statistics, numbers are not finite, or integers do not fit. */
GRAFT_API graft_status graft_delta_make(const graft_model* base, const graft_model* updated,
                                        const graft_delta_options* options, graft_delta** delta);
/* From a file, and from anywhere. corrupt: it is damaged. */
GRAFT_API graft_status graft_delta_load(graft_context* context, const char* path, graft_delta** delta);
/* As graft_delta_load(), from a source, which need not stay. */
GRAFT_API graft_status graft_delta_load_source(graft_context* context, const graft_source* source, graft_delta** delta);
/* Writes a file, atomically. */
GRAFT_API graft_status graft_delta_save(graft_delta* delta, const char* path);
/* The file's bytes, to send; valid until the next call on the delta. */
GRAFT_API graft_status graft_delta_bytes(graft_delta* delta, const void** data, size_t* bytes);
/* Gives the delta up. NULL is fine. */
GRAFT_API void graft_delta_destroy(graft_delta* delta);

/* Fills info. */
GRAFT_API graft_status graft_delta_describe(graft_delta* delta, graft_delta_info* info);
/* In the order of names; not_found where index >= graft_delta_info.tensors. */
GRAFT_API graft_status graft_delta_tensor(graft_delta* delta, size_t index, graft_tensor_info* info);
/* Decoded numbers of a tensor, row-major as in the file; count: how many there is room for, which must be right. */
GRAFT_API graft_status graft_delta_numbers(graft_delta* delta, const char* name, float* numbers, size_t count);
/* The integers of a tensor of GRAFT_DELTA_FIXED, in place: the app adds its masks to them, modulo 2^32, before it sends
   them. Valid as long as the delta lives. */
GRAFT_API graft_status graft_delta_integers(graft_delta* delta, const char* name, uint32_t** integers, size_t* count);

/* How deltas are averaged. */
typedef struct graft_average_options {
  size_t struct_size;
  int equal;        /* 1: all clients weigh the same; 0: by their samples */
  int products;     /* 1: of adapters, what their matrices multiply to is averaged and factored again */
  uint32_t rank;    /* of products; 0: the largest of the deltas */
  double noise;     /* normal noise on the clients' sum, of so many times clip_norm; with equal = 1; 0: none */
  double clip_norm; /* what each delta was clipped to */
} graft_average_options;

/* Of deltas of one base, which stay as they are. A tensor that a delta lacks did not change there. The result is f32;
   sums are taken in double precision, of integers exactly. options may be NULL. */
GRAFT_API graft_status graft_delta_average(graft_context* context, graft_delta* const* deltas, size_t count,
                                           const graft_average_options* options, graft_delta** average);

/* Adds the delta, times rate, to the model, which must have no sessions, generators or trainers. Adapters are put on in
   place of those that it has. invalid_argument: it was made for other weights; the model is as it was. */
GRAFT_API graft_status graft_delta_apply(graft_model* model, graft_delta* delta, double rate);

/* What `rounds` rounds with noise cost a client's privacy: epsilon at `delta`, where each round takes each client with
   probability `share`, clips its delta, and adds noise of `noise` times the norm clipped to. */
GRAFT_API graft_status graft_delta_privacy(graft_context* context, double noise, double share, uint64_t rounds,
                                           double delta, double* epsilon);

#ifdef __cplusplus
}
#endif

#endif
