/* Vulkan devices, what they are and can do, and whether graft's kernels give right answers there: `graft devices`. Part
 * of graft.h, whose rules hold.
 */
#include "graft/graft.h"

#ifndef GRAFT_DEVICES_H
#define GRAFT_DEVICES_H

GRAFT_BEGIN_C

/* The devices that can run graft, in the loader's order. */
typedef struct graft_devices graft_devices;

/* Of the options, vulkan_library, vulkan_get_instance_proc_addr and the log count; NULL for the usual ones. Opens none
   of them. On failure *devices can only give its message and be destroyed, or is NULL where there was no memory.
   not_found: there is no loader or no driver; the message says which package to install. */
GRAFT_API graft_status graft_devices_find(const graft_context_options* options, graft_devices** devices);
GRAFT_API void graft_devices_destroy(graft_devices* devices);
/* The sentence of the last failure of this list; "" where there was none. */
GRAFT_API const char* graft_devices_message(const graft_devices* devices);
/* How many there are; 0 for NULL. */
GRAFT_API size_t graft_devices_count(const graft_devices* devices);

/* What a device is. */
typedef enum graft_device_type GRAFT_ENUM_OF_INT {
  GRAFT_DEVICE_OTHER = 0,
  GRAFT_DEVICE_INTEGRATED = 1,
  GRAFT_DEVICE_DISCRETE = 2,
  GRAFT_DEVICE_VIRTUAL = 3,
  GRAFT_DEVICE_CPU = 4
} graft_device_type;

/* Texts are valid as long as the list, as in all that follows. */
typedef struct graft_device_info {
  size_t struct_size;
  const char* name;
  const char* driver;
  const char* driver_info;
  graft_device_type type;
  uint32_t vendor_id;
  uint32_t device_id;
  uint32_t api_version[3]; /* of Vulkan: major, minor, patch */
  uint64_t memory;         /* bytes of all heaps of the device */
  uint64_t largest_heap;   /* that plans live in */
  int unified_memory;      /* 1: shared with the host */
  int timestamps;
  uint32_t matrix_subgroup;   /* lanes that work on a matrix together; 0: it has no matrix units */
  uint32_t max_flexible_side; /* of matrices whose sides are multiples of others; 0: there are none */
} graft_device_info;

/* not_found where index >= count. */
GRAFT_API graft_status graft_devices_info(graft_devices* devices, size_t index, graft_device_info* info);

/* A part of its memory. */
typedef struct graft_device_heap {
  size_t struct_size;
  uint64_t bytes;
  int device_local; /* 0: the host's */
} graft_device_heap;

/* not_found where heap is beyond the last. */
GRAFT_API graft_status graft_devices_heap(graft_devices* devices, size_t index, size_t heap, graft_device_heap* out);

/* A limit, or a feature that is there or not. */
typedef struct graft_device_fact {
  size_t struct_size;
  const char* name;
  int is_feature;
  uint64_t values[3]; /* a limit, of workgroups by axis; of a feature 1 or 0 */
  uint32_t value_count;
  const char* text; /* of matrices: "matrices of f16 16x16x16", one fact each; else NULL */
} graft_device_fact;

/* In a fixed order; not_found where fact is beyond the last. */
GRAFT_API graft_status graft_devices_fact(graft_devices* devices, size_t index, size_t fact, graft_device_fact* out);

/* A fault of a driver that graft works around. */
typedef struct graft_device_quirk {
  size_t struct_size;
  const char* name;
  const char* action;
  const char* reason;
  const char* link;
} graft_device_quirk;

/* not_found where quirk is beyond the last. */
GRAFT_API graft_status graft_devices_quirk(graft_devices* devices, size_t index, size_t quirk, graft_device_quirk* out);

/* What becomes of products of f32 on the context's device, as graft_context_options.matmul_precision asks for it. */
typedef struct graft_rounding {
  size_t struct_size;
  int rounds;    /* 1: operands are rounded; 0: all products stay in f32, asked or not */
  int to_f16;    /* for matrix units */
  int to_bf16;   /* for them, beside bf16 operands */
  int to_8_bits; /* beside quantized weights */
} graft_rounding;
/* Of a context without a device nothing is rounded. */
GRAFT_API graft_status graft_context_rounding(graft_context* context, graft_rounding* rounding);

/* What a kernel did with a known answer. */
typedef enum graft_kernel_verdict GRAFT_ENUM_OF_INT {
  GRAFT_KERNEL_PASSED = 0,
  GRAFT_KERNEL_FAILED = 1,
  GRAFT_KERNEL_UNTESTED = 2 /* no probe uses it on this device */
} graft_kernel_verdict;

/* Told of each kernel, on the calling thread; why: what was wrong, "" where nothing was. It must not call graft. */
typedef void (*graft_kernel_report)(void* user, const char* kernel, graft_kernel_verdict verdict, const char* why);

/* Runs every kernel that this device may choose against a known answer; takes a minute on software Vulkan. Where the
   context has a cache (graft/cache.h), the verdicts are remembered there. */
GRAFT_API graft_status graft_context_self_test(graft_context* context, graft_kernel_report report, void* user);
/* Told of a choice that was measured (`graft bench --tune`), on the calling thread. It must not call graft. */
typedef void (*graft_tuned_report)(void* user, const char* choice, const char* variant);
/* What a folder (graft/cache.h) remembers of a device, which is not opened for it. A report may be NULL. file: where it
   stands, valid until the list's next call of this; "" for none. */
GRAFT_API graft_status graft_devices_remembered(graft_devices* devices, size_t index, const char* folder,
                                                graft_kernel_report report, graft_tuned_report tuned, void* user,
                                                const char** file);
/* The verdicts that a context with a cache knows so far, without a test. invalid_argument: it has none. */
GRAFT_API graft_status graft_context_known_kernels(graft_context* context, graft_kernel_report report, void* user);

GRAFT_END_C
#endif
