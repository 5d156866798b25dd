/* Weight deltas: what training changed of a model or its adapters, small enough to send, for devices that come and go;
 * what `graft delta` makes and applies. Part of graft.h, whose rules hold. It needs no device: see
 * graft_context_options.
 */
#include "graft/graft.h"

#ifndef GRAFT_DELTA_H
#define GRAFT_DELTA_H

#include "graft/shapes.h"
#include "graft/source.h"

GRAFT_BEGIN_C

/* What changed, of one client or averaged over several. */
typedef struct graft_delta graft_delta;

/* How its numbers are kept. */
typedef enum graft_delta_coding GRAFT_ENUM_OF_INT {
  GRAFT_DELTA_F32 = 0,
  GRAFT_DELTA_BF16 = 1,
  GRAFT_DELTA_INT8 = 2, /* blocks of 256: a scale and codes from -127 to 127 */
  GRAFT_DELTA_FIXED = 3 /* integers modulo 2^32, for secure aggregation: round(number * samples * 2^fixed_bits) */
} graft_delta_coding;

/* What coding lost of one client's deltas, in memory: for the next round's. */
typedef struct graft_residual graft_residual;
/* Of a client that has sent nothing yet. */
GRAFT_API graft_status graft_residual_create(graft_context* context, graft_residual** residual);
GRAFT_API void graft_residual_destroy(graft_residual* residual);

/* How a delta is made. graft_delta_options_init() fills in the defaults. */
typedef struct graft_delta_options {
  size_t struct_size;
  /* Samples that training used: the weight in an average. Default: 1. */
  uint64_t samples;
  /* Optimizer steps, which the delta reports. Default: 0. */
  uint64_t local_steps;
  /* How numbers are coded. Default: f32. */
  graft_delta_coding coding;
  /* Bits of a number after the binary point, the same for all clients. Default: 8. Range: [0, 30]. For: fixed. */
  uint32_t fixed_bits;
  /* Clients whose integers must fit in a sum. Default: 1024. Range: [1, inf). For: fixed. */
  uint32_t room;
  /* Largest L2 norm of the delta as a reader decodes it; larger ones are scaled down. It then holds all trainable
     tensors, so that it does not reveal which of them changed. 0: no limit. Default: 0. Range: [0, inf). */
  double clip_norm;
  /* Standard deviation of normal noise on every number, as a multiple of clip_norm, after clipping and before coding.
     Default: 0. Range: [0, inf). */
  double noise;
  /* A file that keeps what coding lost, which the next round's delta adds. Default: none. */
  const char* residual;
  /* Seed of the noise, for tests: who knows it can remove the noise. By default from the system's entropy.
     Default: none. */
  const uint64_t* seed;
  /* Memory that keeps what coding lost, instead of the file `residual`; it outlives the call. Default: none. */
  graft_residual* kept;
} graft_delta_options;

/* Fills in every default; each value then counts as it is, zero too. `options` has its struct_size. */
GRAFT_API graft_status graft_delta_options_init(graft_delta_options* options);

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
  double norm;      /* before it was clipped; with noise, after the noise */
  double clip_norm; /* 0: it was not */
  double noise;     /* standard deviation of the noise in each number */
  size_t tensors;
  uint64_t numbers;
  uint32_t fixed_bits; /* of GRAFT_DELTA_FIXED */
  double kept;         /* of an average of products: share of the exact average's squared norm that its matrices hold */
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
/* The same as texts, with the type that the model keeps; valid until the delta's next call of this. */
GRAFT_API graft_status graft_delta_tensor_text(graft_delta* delta, size_t index, graft_tensor_text* text);
/* Decoded numbers of a tensor, row-major as in the file; count: how many there is room for, which must be right. */
GRAFT_API graft_status graft_delta_numbers(graft_delta* delta, const char* name, float* numbers, size_t count);
/* The integers of a tensor of GRAFT_DELTA_FIXED, in place: the app adds its masks to them, modulo 2^32, before it sends
   them. Valid as long as the delta lives. */
GRAFT_API graft_status graft_delta_integers(graft_delta* delta, const char* name, uint32_t** integers, size_t* count);

/* How deltas are averaged. */
typedef struct graft_average_options {
  size_t struct_size;
  /* All clients weigh the same, instead of by their samples. Default: 0. */
  int equal;
  /* Of adapters, the average is of the products of their matrices, which is factored again. Default: 0. */
  int products;
  /* Rank of the average of products; 0: the largest of the deltas. Default: 0. */
  uint32_t rank;
  /* Standard deviation of normal noise on the clients' sum, as a multiple of clip_norm; needs `equal`. Default: 0.
     Range: [0, inf). */
  double noise;
  /* Norm that each delta was clipped to. Default: 0. Range: [0, inf). */
  double clip_norm;
  /* Seed of the noise, as in graft_delta_options. Default: none. */
  const uint64_t* seed;
  /* With noise, divisor of the sum: the number of clients that a round expects, if each client is drawn by chance,
     since the number that came would reveal them. 0: the number of deltas. Default: 0. Range: [0, inf). */
  double expected_clients;
} graft_average_options;

/* Of deltas of one base, which stay as they are. A tensor that a delta lacks did not change there. The result is f32;
   sums are taken in double precision, of integers exactly. options may be NULL. */
GRAFT_API graft_status graft_delta_average(graft_context* context, graft_delta* const* deltas, size_t count,
                                           const graft_average_options* options, graft_delta** average);

/* The same, a delta at a time, of which none needs to stay: for many clients. Not of products. */
typedef struct graft_averager graft_averager;
/* options may be NULL. */
GRAFT_API graft_status graft_averager_create(graft_context* context, const graft_average_options* options,
                                             graft_averager** averager);
/* invalid_argument: it is of another base, kind or shape than those before; the sum is as it was. */
GRAFT_API graft_status graft_averager_add(graft_averager* averager, const graft_delta* delta);
/* The average of what was added; the averager is then done. invalid_argument: nothing was. */
GRAFT_API graft_status graft_averager_finish(graft_averager* averager, graft_delta** average);
GRAFT_API void graft_averager_destroy(graft_averager* averager);

/* What a server does with an average: a step of an optimizer whose gradient it is (Reddi et al. 2021). */
typedef enum graft_server_kind GRAFT_ENUM_OF_INT {
  GRAFT_SERVER_FEDAVG = 0,     /* adds the average, with momentum where beta1 is not 0 */
  GRAFT_SERVER_FEDADAGRAD = 1, /* v += d^2 */
  GRAFT_SERVER_FEDADAM = 2,    /* v = beta2 v + (1 - beta2) d^2 */
  GRAFT_SERVER_FEDYOGI = 3     /* v -= (1 - beta2) d^2 sign(v - d^2) */
} graft_server_kind;
/* How a server steps. graft_server_options_init() fills in the defaults. */
typedef struct graft_server_options {
  size_t struct_size;
  /* Rule of the step. Default: fedavg. */
  graft_server_kind kind;
  /* Learning rate. Default: 1. Range: (0, inf). */
  double rate;
  /* Decay of the momentum. Default: 0. Range: [0, 1). */
  double beta1;
  /* Decay of the mean of squares. Default: 0.99. Range: [0, 1). For: fedadam, fedyogi. */
  double beta2;
  /* Least divisor. Default: 1e-3. Range: (0, inf). For: fedadagrad, fedadam, fedyogi. */
  double tau;
} graft_server_options;

/* Fills in every default; each value then counts as it is, zero too. `options` has its struct_size. */
GRAFT_API graft_status graft_server_options_init(graft_server_options* options);
/* Moments, from round to round. */
typedef struct graft_server graft_server;
/* options may be NULL. */
GRAFT_API graft_status graft_server_create(graft_context* context, const graft_server_options* options,
                                           graft_server** server);
GRAFT_API void graft_server_destroy(graft_server* server);
/* 1: it has moments, which the next round needs; 0: a step is the average times the rate. */
GRAFT_API int graft_server_keeps(const graft_server* server);
/* Moments of a file that graft_server_save() wrote after the round before. corrupt: it is no such file. */
GRAFT_API graft_status graft_server_load(graft_server* server, const char* path);
/* Writes them, atomically. */
GRAFT_API graft_status graft_server_save(graft_server* server, const char* path);
/* The delta that the average becomes, for graft_delta_apply() at the rate 1. Running statistics of `base` are taken
   over as they are. invalid_argument: an average of adapters that were made against nothing, or of another base. */
GRAFT_API graft_status graft_server_step(graft_server* server, graft_model* base, const graft_delta* average,
                                         graft_delta** step);

/* Adds the delta, times rate, to the model, which must have no sessions, generators or trainers. Adapters are put on in
   place of those that it has. invalid_argument: it was made for other weights; the model is as it was. */
GRAFT_API graft_status graft_delta_apply(graft_model* model, graft_delta* delta, double rate);

/* What `rounds` rounds with noise cost a client's privacy: epsilon at `delta`, where each round takes each client with
   probability `share`, clips its delta, and adds noise of `noise` times the norm clipped to. */
GRAFT_API graft_status graft_delta_privacy(graft_context* context, double noise, double share, uint64_t rounds,
                                           double delta, double* epsilon);
/* The order of the Renyi divergence that gave that epsilon; 0 where the numbers are out of range. */
GRAFT_API uint32_t graft_delta_privacy_order(double noise, double share, uint64_t rounds, double delta);

GRAFT_END_C
#endif
