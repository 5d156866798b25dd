/* Looks into the folder of a run: what it holds, whether it is sound, what changed; keeps, prunes and restores.
   usage: snapshots MODEL CHECKPOINT_FOLDER OUT; the folder is what embed.c left, with a snapshot tagged "last" */
#include <graft/graft.h>
#include <stdio.h>

static int fail(const graft_context* context, const char* what) {
  fprintf(stderr, "%s: %s\n", what, graft_message(context));
  return 1;
}

/* What else a store says: `graft checkpoint list --json` and `--workers`. */
static int tell_all(graft_context* context, graft_store* store) {
  graft_store_info info = {0};
  graft_worker_report worker = {0};
  graft_diff_info diff = {0};
  const graft_stream_difference* streams = NULL;
  const char* text = NULL;
  const char* key = NULL;
  uint64_t number = 0;
  size_t count = 0;
  info.struct_size = sizeof info;
  worker.struct_size = sizeof worker;
  diff.struct_size = sizeof diff;
  if (graft_store_describe(store, &info) != GRAFT_OK) return fail(context, "describe");
  for (size_t i = 0; i < info.damaged; ++i) {
    if (graft_store_damaged(store, i, &number, &text) != GRAFT_OK) return fail(context, "damaged");
    printf("%llu is damaged: %s\n", (unsigned long long)number, text);
  }
  for (size_t i = 0; graft_store_metadata_at(store, NULL, i, &key, &text) == GRAFT_OK; ++i) printf("%s\n", key);
  for (size_t i = 0; graft_store_worker(store, NULL, i, &worker) == GRAFT_OK; ++i) {
    printf("worker %zu on %s: loss %g\n", i, worker.host, worker.loss);
  }
  for (size_t i = 0; graft_store_journalled_worker(store, i, &worker) == GRAFT_OK; ++i) {
    printf("worker %zu: %llu samples in all\n", i, (unsigned long long)worker.all_samples);
  }
  if (graft_store_find_non_finite(store, NULL, &text) != GRAFT_OK) return fail(context, "finite");
  if (*text != 0) return 1;
  if (graft_store_diff(store, NULL, NULL, &streams, &count) != GRAFT_OK) return fail(context, "diff with itself");
  if (graft_store_diff_info(store, &diff) != GRAFT_OK) return fail(context, "diff info");
  return diff.metadata[0] != 0; /* a snapshot is like itself */
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  graft_context* context = NULL;
  graft_context_options no_device = {0};
  no_device.struct_size = sizeof no_device;
  graft_context_options_init(&no_device);
  no_device.device = "none";
  if (graft_context_create(&no_device, &context) != GRAFT_OK) return fail(context, "context");
  graft_store* store = NULL;
  graft_store_options options = {0};
  options.struct_size = sizeof options;
  options.writable = 1;
  if (graft_store_open(context, argv[2], &options, &store) != GRAFT_OK) return fail(context, "open");

  graft_snapshot snapshot = {0};
  snapshot.struct_size = sizeof snapshot;
  const char* value = NULL;
  for (size_t i = 0; i < graft_store_count(store); ++i) {
    if (graft_store_snapshot(store, i, &snapshot) != GRAFT_OK) return fail(context, "snapshot");
    printf("%llu: step %llu, loss %g, %llu bytes%s%s%s\n", (unsigned long long)snapshot.number,
           (unsigned long long)snapshot.step, snapshot.loss, (unsigned long long)snapshot.stored_bytes,
           snapshot.tags[0] ? ", " : "", snapshot.tags, snapshot.is_head ? " <-" : "");
  }
  if (graft_store_metadata(store, "last", "nothing", &value) != GRAFT_NOT_FOUND) return fail(context, "metadata");
  if (graft_store_hash(store, "last", &value) != GRAFT_OK) return fail(context, "hash");
  printf("the newest state is %s\n", value);
  uint64_t chunks = 0;
  const char* problems = NULL;
  if (graft_store_verify(store, &chunks, &problems) != GRAFT_OK) return fail(context, "verify");
  const graft_stream_difference* streams = NULL;
  size_t count = 0;
  if (graft_store_diff(store, "last", NULL, &streams, &count) != GRAFT_OK) return fail(context, "diff");
  for (size_t i = 0; i < count; ++i) {
    if (streams[i].difference != GRAFT_SAME) return fail(context, "the newest is the last one");
  }

  if (graft_store_tag(store, "last", "best") != GRAFT_OK) return fail(context, "tag");
  if (graft_store_untag(store, "best", "last") != GRAFT_OK) return fail(context, "untag");
  if (graft_store_tag(store, "best", "last") != GRAFT_OK) return fail(context, "tag again");
  size_t removed = 0;
  uint64_t freed = 0;
  if (graft_store_prune(store, 1, &removed, &freed) != GRAFT_OK) return fail(context, "prune");
  if (graft_store_branch(store, "best") != GRAFT_OK) return fail(context, "branch");
  if (graft_store_find(store, "best", &snapshot) != GRAFT_OK || !snapshot.is_head) return fail(context, "find");

  graft_model* model = NULL;
  size_t tensors = 0;
  if (graft_model_load(context, argv[1], &model) != GRAFT_OK) return fail(context, "load");
  if (graft_store_restore(store, "best", model, &tensors) != GRAFT_OK) return fail(context, "restore");
  if (graft_model_save(model, argv[3]) != GRAFT_OK) return fail(context, "save");
  printf("%llu chunks are sound; %zu snapshots and %llu bytes are gone; %zu tensors of step %llu\n",
         (unsigned long long)chunks, removed, (unsigned long long)freed, tensors, (unsigned long long)snapshot.step);
  if (tell_all(context, store) != 0) return 1;
  graft_model_destroy(model);
  graft_store_destroy(store);
  graft_context_destroy(context);
  return tensors == 0;
}
