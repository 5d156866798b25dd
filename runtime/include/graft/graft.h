/* graft's C ABI: load, inspect, plan, run, differentiate and train models on a Vulkan device.
 *
 * Rules that hold everywhere
 *  - Handles are opaque; graft_X_destroy(NULL) does nothing. Handles are counted: what was destroyed keeps its memory
 *    as long as something that was made from it lives, so that the order does not matter (garbage collectors have
 * none).
 *  - A context has a lock: calls on it and on everything made from it run one at a time, and a second thread waits. (A
 *    lock and not the thread's name, since runtimes move an app's tasks from thread to thread.) Each thread has its own
 *    message. Pointers that graft gives back are those of the last call, whichever thread made it. Contexts are
 *    independent of each other.
 *  - A callback must not call graft on the context that called it: it gets GRAFT_INVALID_ARGUMENT, and destroying does
 *    nothing there. From logs and ciphers, which may run on graft's own threads, that holds for every context. It must
 *    return: an exception or a longjmp through graft's frames is undefined. (The functions of graft.hpp may throw.)
 *  - A call that fails has changed nothing, but where it says so.
 *  - Every fallible function returns a graft_status; graft_message(context) then holds one sentence about the failure,
 *    valid until the thread's next call on that context. Nothing is printed, thrown or aborted.
 *  - Option structs start with struct_size = sizeof(the struct), so that fields can be added later. Each value counts
 *    as it is, zero too. graft_X_options_init() fills in the defaults; a struct without it has zeros as defaults.
 *  - Pointers that graft gives back are valid until the next call on the same object, unless said otherwise.
 *  - Tensors are row-major, with the source model's names, shapes and order of axes.
 *  - A child that a process forks makes its own contexts. Calls on its parent's return GRAFT_INVALID_ARGUMENT.
 */
#ifndef GRAFT_GRAFT_H
#define GRAFT_GRAFT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define GRAFT_BEGIN_C extern "C" {
#define GRAFT_END_C }
#else
#define GRAFT_BEGIN_C
#define GRAFT_END_C
#endif
GRAFT_BEGIN_C

/* Of these headers; graft_version() tells the library's. Until 1.0 the second number is the interface's. */
#define GRAFT_VERSION_MAJOR 0
#define GRAFT_VERSION_MINOR 1 /* Counts interfaces until 1.0. */
#define GRAFT_VERSION_PATCH 0 /* Counts corrections. */

#if defined(_WIN32)
#define GRAFT_API
#else
/* Marks what the shared library exports. */
#define GRAFT_API __attribute__((visibility("default")))
#endif

/* C passes any int as an enumeration; C++ may look at such a number only where int is the type underneath. */
#ifdef __cplusplus
#define GRAFT_ENUM_OF_INT : int
#else
#define GRAFT_ENUM_OF_INT
#endif

/* What a call answers; graft_message() has the sentence to it. */
typedef enum graft_status GRAFT_ENUM_OF_INT {
  GRAFT_OK = 0,
  GRAFT_INVALID_ARGUMENT = 1, /* the caller asked for something that cannot be */
  GRAFT_NOT_FOUND = 2,        /* a named thing (file, value, device, driver) is absent */
  GRAFT_IO_ERROR = 3,         /* the operating system refused a read, write, sync or map */
  GRAFT_CORRUPT = 4,          /* a file contradicts its format or checksum */
  GRAFT_UNSUPPORTED = 5,      /* well-formed, but graft or this device cannot do it */
  GRAFT_OUT_OF_MEMORY = 6,    /* host or device memory, or a budget, does not suffice */
  GRAFT_DEVICE_ERROR = 7,     /* a GPU call failed */
  GRAFT_DEVICE_LOST = 8,      /* the GPU is gone; only a new context can go on */
  GRAFT_TIMEOUT = 9,          /* a bounded wait ran out */
  GRAFT_CANCELLED = 10,       /* stopped on request */
  GRAFT_INTERNAL = 11         /* a bug in graft */
} graft_status;

/* Element types of tensors that cross the interface: f32, i32, and booleans as 32-bit words. The others are those of
   samples that a trainer takes as bytes or halves (graft/inputs.h), in the order of graft_element. */
typedef enum graft_dtype GRAFT_ENUM_OF_INT {
  GRAFT_F32 = 0,
  GRAFT_I32 = 1,
  GRAFT_BOOL32 = 2,
  GRAFT_U8 = 3,
  GRAFT_I8 = 4,
  GRAFT_F16 = 5,
  GRAFT_BF16 = 6
} graft_dtype;

/* How grave a line of the log is. */
typedef enum graft_log_level GRAFT_ENUM_OF_INT {
  GRAFT_LOG_DEBUG = 0,
  GRAFT_LOG_INFO = 1,
  GRAFT_LOG_WARNING = 2,
  GRAFT_LOG_ERROR = 3
} graft_log_level;

/* A device, an allocator, a log, and the lock that calls on all that is made from it take. */
typedef struct graft_context graft_context;
/* A loaded model: its graph, and its weights, mapped from the file. What was made from it may outlive it. */
typedef struct graft_model graft_model;
/* A model planned and recorded for one set of sizes. */
typedef struct graft_session graft_session;
/* A language model with its caches, which writes text. */
typedef struct graft_generator graft_generator;
/* A training run of a model; one call, one optimizer step. */
typedef struct graft_trainer graft_trainer;

/* "0.1.0", of the library that is linked. */
GRAFT_API const char* graft_version(void);
/* "invalid_argument" */
GRAFT_API const char* graft_status_name(graft_status status);

/* ---- Context: a device, an allocator, a log ------------------------------------------------------------------ */

/* What products of f32 values may become, in the words of torch.set_float32_matmul_precision. It changes nothing on a
   device without matrix units. What is kept in f16 or bf16 (graft_precision) goes to them in any case, exactly. */
typedef enum graft_matmul_precision GRAFT_ENUM_OF_INT {
  GRAFT_MATMUL_HIGHEST = 0, /* f32 */
  GRAFT_MATMUL_HIGH = 1,    /* operands rounded to f16 for matrix units, sums in f32; training scales its loss */
  GRAFT_MATMUL_MEDIUM = 2   /* also to 8 bits beside quantized weights, to bf16 beside what is kept so */
} graft_matmul_precision;

/* Of the device's work among that of all programs, where the driver lets programs choose. */
typedef enum graft_priority GRAFT_ENUM_OF_INT {
  GRAFT_PRIORITY_MEDIUM = 0,
  GRAFT_PRIORITY_LOW = 1, /* the screen and others come first: for training in the background */
  GRAFT_PRIORITY_HIGH = 2 /* medium where the system does not permit it */
} graft_priority;

/* What a context is made with. graft_context_options_init() fills in the defaults. */
typedef struct graft_context_options {
  size_t struct_size;
  /* Index or part of the name of the Vulkan device; by default the best. "none" opens none: such a context forecasts,
     for the limits that every Vulkan 1.1 device has. Default: none. */
  const char* device;
  /* Loader or driver instead of the system's libvulkan.so.1. Default: none. */
  const char* vulkan_library;
  /* File for compiled pipelines, made if missing. Default: none. */
  const char* pipeline_cache;
  /* For large host blocks (staging, decoded files); both or neither. It may return NULL. Default: none. */
  void* (*allocate)(void* user, size_t bytes, size_t alignment);
  /* Frees what allocate gave. Default: none. */
  void (*deallocate)(void* user, void* pointer, size_t bytes, size_t alignment);
  /* First argument of allocate and deallocate. Default: none. */
  void* allocator_user;
  /* Gets log lines, also on graft's own threads; must not call graft. Default: none. */
  void (*log)(void* user, graft_log_level level, const char* message);
  /* First argument of log. Default: none. */
  void* log_user;
  /* Least severe lines that are logged. Default: info. */
  graft_log_level log_level;
  /* What products of f32 values may become. Default: highest. */
  graft_matmul_precision matmul_precision;
  /* No effect on a device of the app's own, or if its driver has no priorities. Default: medium. */
  graft_priority priority;
  /* vkGetInstanceProcAddr of a Vulkan that is linked in, as MoltenVK on iOS; vulkan_library is then not used.
     Default: none. */
  void (*vulkan_get_instance_proc_addr)(void);
  /* Under the Vulkan validation layers, for tests. Their findings are logged as errors that begin with "validation: "
     when the context goes. not_found: they are not installed. No effect on a device of the app's own. Default: 0. */
  int validate;
  /* Only for plans and forecasts, for which a device that only compiles suffices; nothing runs. Default: 0. */
  int plans_only;
} graft_context_options;

/* Fills in every default; each value then counts as it is, zero too. `options` has its struct_size. */
GRAFT_API graft_status graft_context_options_init(graft_context_options* options);

/* options may be NULL. On failure *context is a context that can only give its message and be destroyed, or NULL where
   there was no memory for one. */
GRAFT_API graft_status graft_context_create(const graft_context_options* options, graft_context** context);
GRAFT_API void graft_context_destroy(graft_context* context);
/* The sentence of this thread's last call on the context that failed; "" if none did. Failures of other threads do not
   change it. */
GRAFT_API const char* graft_message(const graft_context* context);
/* The name of the device, as its driver gives it, for as long as the context lives. */
GRAFT_API const char* graft_device_name(const graft_context* context);

/* ---- Models --------------------------------------------------------------------------------------------------- */

#define GRAFT_MAX_RANK 8 /* The most axes of a tensor. */

typedef struct graft_tensor_info { /* Name, element type and shape of a tensor. */
  const char* name;                /* valid as long as the object that gave it */
  graft_dtype dtype;
  uint32_t rank;
  int64_t dims[GRAFT_MAX_RANK]; /* -1 for a named dimension that is not bound */
} graft_tensor_info;

/* The groups of tensors that a model has. */
typedef enum graft_tensor_kind GRAFT_ENUM_OF_INT {
  GRAFT_INPUTS = 0,
  GRAFT_OUTPUTS = 1,
  GRAFT_PARAMETERS = 2,
  GRAFT_BUFFERS = 3,  /* running statistics: training moves them */
  GRAFT_CONSTANTS = 4 /* weights that are not trained, and what a source's graph computes with */
} graft_tensor_kind;

/* When a file's weights are read and compared with its checksums; damage is GRAFT_CORRUPT, and the message names the
   weight. Saving and adapters are checked in any case. */
typedef enum graft_weight_check GRAFT_ENUM_OF_INT {
  GRAFT_CHECK_ON_USE = 0,  /* once, when the first session, generator or trainer is made */
  GRAFT_CHECK_AT_ONCE = 1, /* before the model is given back */
  GRAFT_CHECK_NEVER = 2    /* for a file that something else vouches for, such as a signed package */
} graft_weight_check;

/* How a model is loaded. */
typedef struct graft_model_options {
  size_t struct_size;
  /* When weights are compared with their checksums. Default: on_use. */
  graft_weight_check check;
  /* 1: weights with NaN or infinity may be stored and saved; 2: saved, if the file has them. Default: 0.
     Range: [0, 2]. */
  int32_t allow_non_finite;
  /* In a context with plans_only: weights may lack contents (graft_convert_options.shapes_only). Default: 0. */
  int shapes_only;
} graft_model_options;

/* options may be NULL. Otherwise as graft_model_load. */
GRAFT_API graft_status graft_model_open(graft_context* context, const char* path, const graft_model_options* options,
                                        graft_model** model);
/* Loads a .graft file. Weights are mapped, not copied: do not change the file while the model lives. */
GRAFT_API graft_status graft_model_load(graft_context* context, const char* path, graft_model** model);
GRAFT_API void graft_model_destroy(graft_model* model);
/* Writes the model atomically: on failure the file is as it was. */
GRAFT_API graft_status graft_model_save(graft_model* model, const char* path);
/* How many tensors of that kind there are; 0 for NULL. */
GRAFT_API size_t graft_model_count(const graft_model* model, graft_tensor_kind kind);
/* not_found where index >= count. */
GRAFT_API graft_status graft_model_tensor(const graft_model* model, graft_tensor_kind kind, size_t index,
                                          graft_tensor_info* info);

GRAFT_END_C

/* The others use what it declares. */
#include "graft/session.h"

#include "graft/adapters.h"
#include "graft/async.h"
#include "graft/checkpoint.h"
#include "graft/data.h"
#include "graft/delta.h"
#include "graft/devices.h"
#include "graft/embed.h"
#include "graft/evaluate.h"
#include "graft/examples.h"
#include "graft/gate.h"
#include "graft/generate.h"
#include "graft/head.h"
#include "graft/importance.h"
#include "graft/inputs.h"
#include "graft/language.h"
#include "graft/media.h"
#include "graft/memory.h"
#include "graft/parameters.h"
#include "graft/plan.h"
#include "graft/profile.h"
#include "graft/shapes.h"
#include "graft/snapshots.h"
#include "graft/source.h"
#include "graft/train.h"
#include "graft/verify.h"
#endif
