/* Where the time of runs goes: by node, by op and by what the host does, beside the memory at the fullest moment; and a
 * trace of all dispatches for Chrome and Perfetto. `graft run --profile`. Part of graft.h, whose rules hold.
 */
#include "graft/graft.h"

#ifndef GRAFT_PROFILE_H
#define GRAFT_PROFILE_H

GRAFT_BEGIN_C

/* What the newest runs did. */
typedef struct graft_profile graft_profile;

/* For graft_session_options.profile. It keeps the `steps` newest runs; 0: 1. */
GRAFT_API graft_status graft_profile_create(graft_context* context, uint32_t steps, graft_profile** profile);
/* A session that it was given to keeps it. */
GRAFT_API void graft_profile_destroy(graft_profile* profile);

/* Sums over the runs that are kept. */
typedef struct graft_profile_info {
  size_t struct_size;
  uint64_t steps; /* runs that are kept; 0: none was yet, and all else is 0 */
  double step_ms;
  double device_ms; /* of these in dispatches and copies; 0 where the device has no timestamps */
  uint64_t dispatches;
  uint64_t barriers;
  uint64_t submissions;
  const char* peak_node;   /* while which most memory is in use; "" where none is */
  uint64_t peak_bytes;     /* of values and scratch memory then */
  uint64_t resident_bytes; /* of device and staging memory that stays */
} graft_profile_info;

/* Adds all up; what follows tells of it. Texts are valid until the profile's next call of this. */
GRAFT_API graft_status graft_profile_describe(graft_profile* profile, graft_profile_info* info);

/* What the host does for a run. */
typedef struct graft_profile_phase {
  size_t struct_size;
  const char* name; /* "upload", "compile", "submit", "wait", ... */
  double ms;        /* of the runs that are kept */
  double total_ms;  /* of all, with what came before the first */
} graft_profile_phase;

/* not_found where index is beyond the last. */
GRAFT_API graft_status graft_profile_phase_at(const graft_profile* profile, size_t index, graft_profile_phase* phase);

/* A node, all nodes of an op, or copies of one kind ("(inputs)", "(outputs)", ...). */
typedef struct graft_profile_row {
  size_t struct_size;
  const char* name;
  const char* op;
  uint64_t nodes; /* of an op */
  uint64_t calls; /* dispatches or copies, of all runs that are kept, as what follows */
  double ms;      /* on the device */
  uint64_t flops;
  uint64_t bytes;      /* read and written */
  uint64_t peak_bytes; /* that it holds when most memory is in use */
} graft_profile_row;

/* By falling time; not_found where index is beyond the last. */
GRAFT_API graft_status graft_profile_node(const graft_profile* profile, size_t index, graft_profile_row* row);
/* The same, by op. */
GRAFT_API graft_status graft_profile_op(const graft_profile* profile, size_t index, graft_profile_row* row);
/* Writes a trace that chrome://tracing and ui.perfetto.dev open, atomically. */
GRAFT_API graft_status graft_profile_save_trace(graft_profile* profile, const char* path);

GRAFT_END_C
#endif
