/* libgraft_gloo: a graft_group over TCP, by Gloo. A library of its own: nothing else of graft needs Gloo.
 *
 * Worker 0 listens at `address`; the others come to it, prove that they know the secret (HMAC-SHA256), and are told of
 * each other. What is exchanged after that is neither encrypted nor authenticated: other addresses than loopback are
 * refused unless insecure_network says that the network is trusted.
 * A worker that is killed is noticed by its closed connection, one that stands still by its silence, or at the
 * deadline. */
#ifndef GRAFT_GLOO_H
#define GRAFT_GLOO_H

#include "graft/distribute.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct graft_gloo_options {
  size_t struct_size;
  uint32_t rank;
  uint32_t size;
  const char* address; /* worker 0's host or IP address; worker 0 binds to it alone, the others to the interface that
                          leads there */
  uint16_t port;
  const char* secret;  /* of all workers; NULL or empty, for loopback addresses only: that of this user on this
                          machine, in the file graft/secret of XDG_CACHE_HOME or ~/.cache, which is made where it is
                          missing and which nobody else may read */
  uint64_t timeout_ms; /* longest wait for all workers to come; 0: five minutes */
  /* A worker whose process says nothing for so long stands still, or is cut off: whoever waits for it goes on without
   * it, however late the deadline. A thread of the library says it, also while the worker computes. 0: nobody listens.
   * Time in which this process itself was stopped does not count, here and for deadlines. */
  uint64_t silence_ms;
  int insecure_network; /* Not 0: other addresses than loopback are allowed; see above */
} graft_gloo_options;

/* Waits until all workers have come. `message`: room for a sentence where it fails. graft_gloo_leave() frees it. */
graft_status graft_gloo_join(const graft_gloo_options* options, graft_group* group, char* message,
                             size_t message_bytes);
/* Leaves, where leave() was not called, and frees what graft_gloo_join() made. NULL is nothing. */
void graft_gloo_leave(graft_group* group);

#ifdef __cplusplus
}
#endif
#endif
