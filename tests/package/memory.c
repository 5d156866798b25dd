/* A memory of examples: samples that come one by one, what is held out, a mix to train on, and what goes.
   usage: memory FILE */
#include <graft/graft.h>
#include <stdio.h>
#include <string.h>

static int fail(const graft_context* context, const char* what) {
  fprintf(stderr, "%s: %s\n", what, graft_message(context));
  return 1;
}

/* Batches of a mix: new samples, and a third of the memory's. */
static int mix(graft_context* context, graft_memory_file* memory, const graft_field* fields) {
  static const float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  static const int32_t y[4] = {0, 1, 0, 1};
  const void* const blocks[2] = {x, y};
  graft_data_set* news = NULL;
  graft_data_set* mixed = NULL;
  graft_loader* loader = NULL;
  uint64_t first = 0;
  graft_loader_options options = {0};
  graft_batch batch = {0};
  if (graft_data_from_memory(context, fields, 2, blocks, 4, &news) != GRAFT_OK) return fail(context, "data");
  if (graft_memory_mix(memory, news, 0.3, 0, &mixed) != GRAFT_OK) return fail(context, "mix");
  options.struct_size = sizeof options;
  graft_loader_options_init(&options);
  options.batch = 3;
  options.epochs = 1;
  options.keyed = 1;
  /* Where a record is used first: a run that forgets it goes back before that. */
  if (graft_memory_first_use(mixed, &options, "note-38", 0, &first) != GRAFT_NOT_FOUND) return 1;
  if (graft_loader_create(mixed, &options, &loader) != GRAFT_OK) return fail(context, "loader");
  batch.struct_size = sizeof batch;
  uint64_t samples = 0;
  do {
    if (graft_loader_next(loader, &batch) != GRAFT_OK) return fail(context, "batch");
    samples += batch.samples;
  } while (batch.samples != 0);
  printf("an epoch of %llu samples, 4 of them new\n", (unsigned long long)samples);
  graft_loader_destroy(loader);
  graft_data_destroy(mixed);
  graft_data_destroy(news);
  return samples != 5;
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  graft_context* context = NULL;
  graft_context_options no_device = {0};
  no_device.struct_size = sizeof no_device;
  graft_context_options_init(&no_device);
  no_device.device = "none";
  if (graft_context_create(&no_device, &context) != GRAFT_OK) return fail(context, "context");

  graft_field fields[2] = {{0}, {0}};
  fields[0].name = "x";
  fields[0].dtype = GRAFT_F32;
  fields[0].rank = 1;
  fields[0].dims[0] = 2;
  fields[1].name = "y";
  fields[1].dtype = GRAFT_I32;
  fields[1].is_label = 1;
  graft_memory_options options = {0};
  options.struct_size = sizeof options;
  graft_memory_options_init(&options);
  options.fields = fields;
  options.field_count = 2;
  options.records = 30;
  options.policy = GRAFT_MEMORY_LOSS;
  graft_memory_file* memory = NULL;
  remove(argv[1]);
  if (graft_memory_open(context, argv[1], &options, &memory) != GRAFT_OK) return fail(context, "open");

  graft_record_options record = {0};
  graft_memory_added added = {0};
  record.struct_size = sizeof record;
  added.struct_size = sizeof added;
  graft_record_options_init(&record);
  record.has_loss = 1;
  for (int i = 0; i < 40; ++i) {
    const float x[2] = {(float)i, 1};
    const int32_t y = i % 2;
    const void* const contents[2] = {x, &y};
    char id[16];
    snprintf(id, sizeof id, "note-%d", i);
    record.loss = i;
    record.expires_ms = i == 39 ? 1 : 0;
    if (graft_memory_add(memory, id, contents, 2, &record, &added) != GRAFT_OK) return fail(context, "add");
    if (*added.evicted != 0) printf("%s went for %s\n", added.evicted, added.id);
  }
  const void* data = NULL;
  size_t bytes = 0;
  uint64_t gone = 0;
  const char* const ids[1] = {"note-38"};
  graft_memory_record told = {0};
  told.struct_size = sizeof told;
  if (graft_memory_set_loss(memory, "note-38", 0.5) != GRAFT_OK) return fail(context, "loss");
  if (graft_memory_find(memory, "note-38", &told) != GRAFT_OK || told.loss != 0.5) return fail(context, "find");
  if (graft_memory_read(memory, "note-38", &data, &bytes) != GRAFT_OK) return fail(context, "read");
  if (bytes != 12 || *(const float*)data != 38) return 1;
  if (graft_memory_remove(memory, ids, 1) != GRAFT_OK) return fail(context, "remove");
  if (graft_memory_expire(memory, 0, &gone) != GRAFT_OK || gone != 1) return fail(context, "expire");
  size_t held_out = 0, count = 0;
  for (; graft_memory_at(memory, count, &told) == GRAFT_OK; ++count) held_out += told.is_held_out ? 1 : 0;
  graft_memory_info info = {0};
  info.struct_size = sizeof info;
  if (graft_memory_describe(memory, &info) != GRAFT_OK) return fail(context, "describe");
  if (count != 28 || info.records != count || info.held_out_records != held_out) return 1;

  graft_data_set* set = NULL;
  uint64_t stored = 0;
  if (graft_memory_data(memory, GRAFT_MEMORY_TRAINING, 0, &set) != GRAFT_OK) return fail(context, "data");
  if (graft_data_samples(set) != count - held_out) return 1;
  /* Known ones are not stored twice. */
  if (graft_memory_add_data(memory, set, "", NULL, &stored) != GRAFT_OK) return fail(context, "add data");
  printf("%zu records, %zu held out, %llu bytes\n", count, held_out, (unsigned long long)info.bytes);
  graft_data_destroy(set);
  if (mix(context, memory, fields) != 0) return 1;
  graft_memory_destroy(memory);
  graft_context_destroy(context);
  return 0;
}
