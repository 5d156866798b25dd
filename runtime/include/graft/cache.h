/* What graft remembers about devices between runs, in a folder that the app gives: compiled pipelines, which kernels
 * gave right answers, and which variants were measured to be the fastest. Without it no file is written, and no kernel
 * is tested. */
#ifndef GRAFT_CACHE_H
#define GRAFT_CACHE_H

#include "graft/graft.h"

GRAFT_BEGIN_C

/* Where what is known of a device is kept. */
typedef struct graft_cache_options {
  size_t struct_size;
  /* Folder, made if missing; each device has its own files in it. Default: none. */
  const char* folder;
  /* Kernels are used without a test; stored verdicts still count. Default: 0. */
  int skip_self_test;
} graft_cache_options;

/* Once for a context, before anything is made from it. From then on every kernel is run against a known answer before
   its first use on this device, driver and build of graft, forward and backward; the first session takes some seconds
   longer for it. A kernel that fails, or with which the process dies, is avoided from then on where there is another
   for the same; where there is none, making the session is an error that says so. A folder that cannot be used, and
   files that are damaged or of another device, are logged and do no harm. */
GRAFT_API graft_status graft_context_open_cache(graft_context* context, const graft_cache_options* options);

GRAFT_END_C
#endif /* GRAFT_CACHE_H */
