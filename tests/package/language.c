/* A conversation of two turns with a language model: prompts of messages, tokens as they come, why each text ended.
   With PAIRS, a file of lines {"prompt", "chosen", "rejected"}, adapters then learn what is preferred.
   usage: language MODEL FIRST SECOND [PAIRS], where FIRST and SECOND are what the user says */
#include <graft/graft.h>
#include <stdio.h>
#include <string.h>

static int fail(const graft_context* context, const char* what) {
  fprintf(stderr, "%s: %s\n", what, graft_message(context));
  return 1;
}

/* Counts tokens, and notes the highest score of the last. */
typedef struct seen {
  unsigned tokens;
  float highest;
} seen;

static int on_token(void* user, int32_t token, const float* logits, size_t vocabulary) {
  seen* so_far = user;
  (void)token;
  so_far->tokens += 1;
  so_far->highest = logits[0];
  for (size_t i = 1; i < vocabulary; ++i) {
    if (logits[i] > so_far->highest) so_far->highest = logits[i];
  }
  return 1; /* go on */
}

/* A token of the app's own, which texts are cut into from then on; a trainer of this model would train its rows alone.
 */
static int name_a_tool(graft_context* context, const char* path) {
  const char tool[] = "<|my_tool|>";
  graft_model* model = NULL;
  graft_tokenizer* tokenizer = NULL;
  const int32_t* ids = NULL;
  size_t count = 0;
  if (graft_model_load(context, path, &model) != GRAFT_OK) return fail(context, "load");
  if (graft_model_add_tokens(model, "[\"<|my_tool|>\"]") != GRAFT_OK) return fail(context, "new token");
  if (graft_tokenizer_create(model, &tokenizer) != GRAFT_OK) return fail(context, "tokenizer");
  if (graft_tokenizer_encode(tokenizer, tool, strlen(tool), NULL, &ids, &count) != GRAFT_OK) return 1;
  if (count == 0 || ids[count - 1] != graft_tokenizer_find(tokenizer, tool))
    return fail(context, "it is not one token");
  graft_tokenizer_destroy(tokenizer);
  /* One of another file comes from graft_convert_tokenizer(); these bytes are none. */
  if (graft_tokenizer_open(context, "none", 4, &tokenizer) != GRAFT_CORRUPT) return fail(context, "no tokenizer");
  graft_model_destroy(model);
  return 0;
}

/* A step of direct preference optimization: adapters on `model`, and the same model without any as the reference. */
static int prefer(graft_context* context, graft_model* model, const char* path, const char* pairs) {
  char spec[4096];
  snprintf(spec, sizeof spec, "jsonl:%s", pairs);
  graft_model* base = NULL;
  graft_data_set* set = NULL;
  graft_loader* loader = NULL;
  graft_trainer* trainer = NULL;
  if (graft_model_load(context, path, &base) != GRAFT_OK) return fail(context, "base");
  graft_data_options data = {0};
  data.struct_size = sizeof data;
  data.model = base;
  data.length = 64;
  data.preference = GRAFT_PREFERENCE_PAIRS;
  if (graft_data_open_with(context, spec, &data, &set) != GRAFT_OK) return fail(context, "pairs");
  graft_reference_options reference = {0};
  reference.struct_size = sizeof reference;
  graft_reference_options_init(&reference);
  reference.batch = 1;
  if (graft_data_add_reference_with(set, base, &reference) != GRAFT_OK) return fail(context, "reference");
  if (graft_data_add_reference(set, base, 1) != GRAFT_OK) return fail(context, "the same again");
  graft_model_destroy(base);
  if (graft_model_add_adapters(model, "r=4", 1) != GRAFT_OK) return fail(context, "adapters");
  graft_trainer_options options = {0};
  options.struct_size = sizeof options;
  graft_trainer_options_init(&options, GRAFT_ADAMW);
  options.loss = GRAFT_LOSS_DPO;
  options.learning_rate = 1e-3;
  options.batch = 1;
  options.data = set;
  graft_loader_options order = {0};
  order.struct_size = sizeof order;
  graft_loader_options_init(&order);
  order.batch = 1;
  graft_metrics metrics = {0};
  metrics.struct_size = sizeof metrics;
  int more = 0;
  if (graft_trainer_create(model, &options, &trainer) != GRAFT_OK) return fail(context, "trainer");
  if (graft_loader_create(set, &order, &loader) != GRAFT_OK) return fail(context, "loader");
  if (graft_train_next(trainer, loader, &more, &metrics) != GRAFT_OK) return fail(context, "step");
  printf("loss %g; the chosen text is rewarded by %g more\n", metrics.loss, metrics.reward_margin);
  graft_loader_destroy(loader);
  graft_trainer_destroy(trainer);
  graft_data_destroy(set);
  return 0;
}

/* How near two texts are to each other: the cosine of the angle between their vectors. */
static int compare(graft_context* context, graft_model* model, const char* first, const char* second,
                   graft_tokenizer* tokenizer) {
  graft_embedder_options options = {0};
  options.struct_size = sizeof options;
  graft_embedder_options_init(&options);
  options.pooling = GRAFT_POOLING_MEAN;
  options.normalize = 1;
  options.length = 32;
  options.cut = 1;
  graft_embedder* embedder = NULL;
  if (graft_embedder_create(model, &options, &embedder) != GRAFT_OK) return fail(context, "embedder");
  const char* texts[2] = {first, second};
  const float* vectors = NULL;
  const uint32_t* tokens = NULL;
  if (graft_embed(embedder, texts, 2, &vectors, &tokens) != GRAFT_OK) return fail(context, "embed");
  const size_t width = graft_embedder_width(embedder);
  double cosine = 0;
  for (size_t i = 0; i < width; ++i) cosine += vectors[i] * vectors[width + i];
  graft_memory memory = {0};
  memory.struct_size = sizeof memory;
  if (graft_embedder_memory(embedder, &memory) != GRAFT_OK) return fail(context, "memory");
  printf("cosine %g of texts of %u and %u tokens (at most %zu), in %llu bytes\n", cosine, (unsigned)tokens[0],
         (unsigned)tokens[1], graft_embedder_length(embedder), (unsigned long long)memory.total);
  /* The same of tokens. */
  const int32_t* ids = NULL;
  size_t count = 0;
  if (graft_tokenizer_encode(tokenizer, first, strlen(first), NULL, &ids, &count) != GRAFT_OK) return 1;
  if (graft_embed_tokens(embedder, &ids, &count, 1, &vectors) != GRAFT_OK) return fail(context, "tokens");
  graft_embedder_destroy(embedder);
  return 0;
}

/* Several texts at once: each run takes one token of every one. */
static int write_several(graft_context* context, graft_model* model, const char* prompt) {
  graft_generator_options planned = {0};
  planned.struct_size = sizeof planned;
  graft_generator_options_init(&planned);
  planned.sequences = 2;
  graft_generator* generator = NULL;
  if (graft_generator_create(model, &planned, &generator) != GRAFT_OK) return fail(context, "several");
  graft_generate_options options = {0};
  options.struct_size = sizeof options;
  graft_generate_options_init(&options);
  options.max_tokens = 4;
  const int32_t tokens[] = {1, 2};
  uint64_t ids[3] = {0}, id = 0;
  if (graft_generator_submit(generator, prompt, &options, &ids[0]) != GRAFT_OK) return fail(context, "submit");
  if (graft_generator_submit(generator, prompt, &options, &ids[1]) != GRAFT_OK) return fail(context, "submit");
  if (graft_generator_submit_tokens(generator, tokens, 2, &options, &ids[2]) != GRAFT_OK)
    return fail(context, "submit");
  if (graft_generator_drop(generator, ids[2]) != GRAFT_OK) return fail(context, "drop");
  size_t unfinished = 1;
  while (unfinished != 0) {
    if (graft_generator_step(generator, &unfinished) != GRAFT_OK) return fail(context, "step");
    graft_generated text = {0};
    text.struct_size = sizeof text;
    while (graft_generator_finished(generator, &id, &text) == GRAFT_OK && id != 0) {
      printf("text %u: %zu tokens, %u of the prompt were there\n", (unsigned)id, text.token_count,
             (unsigned)text.cached_tokens);
      text.struct_size = sizeof text;
    }
    if (id != 0) return fail(context, "a text");
  }
  int agree = 0; /* 1: none of the texts depends on the others, to the bit */
  if (graft_generator_rows_agree(generator, &agree) != GRAFT_OK) return fail(context, "rows");
  graft_generator_info info = {0};
  info.struct_size = sizeof info;
  if (graft_generator_describe(generator, &info) != GRAFT_OK) return fail(context, "info");
  printf("%u texts at once, of %u tokens each at most; as if alone: %d\n%s", (unsigned)info.sequences,
         (unsigned)info.context, agree, info.streaming);
  graft_generator_destroy(generator);
  return 0;
}

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) return 2;
  graft_context* context = NULL;
  if (graft_context_create(NULL, &context) != GRAFT_OK) {
    fail(context, "context");
    graft_context_destroy(context);
    return 77; /* no device here: skipped */
  }
  graft_model* model = NULL;
  graft_tokenizer* tokenizer = NULL;
  graft_generator* generator = NULL;
  if (graft_model_load(context, argv[1], &model) != GRAFT_OK) return fail(context, "load");
  if (graft_generator_create(model, NULL, &generator) != GRAFT_OK) return fail(context, "generator");
  if (graft_generator_tokenizer(generator, &tokenizer) != GRAFT_OK) return fail(context, "tokenizer");

  const int32_t* ids = NULL;
  const char* text = NULL;
  size_t count = 0;
  if (graft_tokenizer_encode(tokenizer, argv[2], strlen(argv[2]), NULL, &ids, &count) != GRAFT_OK) {
    return fail(context, "encode");
  }
  printf("%s, %zu of %zu tokens, the end of a turn is %d\n", graft_tokenizer_algorithm(tokenizer), count,
         graft_tokenizer_size(tokenizer), (int)graft_tokenizer_find(tokenizer, "<|im_end|>"));
  if (graft_tokenizer_decode(tokenizer, ids, count, NULL, &text, NULL) != GRAFT_OK) return fail(context, "decode");
  if (strstr(text, argv[2]) == NULL) return fail(context, "the text is another");

  char reply[4096], talk[8192] = ""; /* the conversation so far, and its tokens */
  int32_t talk_ids[4096];
  graft_chat_message messages[3] = {{"user", argv[2]}, {"assistant", reply}, {"user", argv[3]}};
  graft_chat_options chat = {0};
  chat.struct_size = sizeof chat;
  chat.format = "chatml"; /* NULL: the model's own */
  seen so_far = {0, 0};
  graft_generate_options options = {0};
  options.struct_size = sizeof options;
  graft_generate_options_init(&options);
  options.max_tokens = 3;
  options.on_token = on_token;
  options.user = &so_far;
  graft_generated said = {0};
  said.struct_size = sizeof said;
  for (size_t turn = 1; turn <= 3; turn += 2) {
    if (graft_chat_render(tokenizer, messages, turn, &chat, &text, NULL) != GRAFT_OK) return fail(context, "render");
    printf("%s", text);
    chat.said = talk; /* what was said keeps its tokens: text may be cut into others */
    chat.said_bytes = strlen(talk);
    chat.said_tokens = talk_ids;
    if (graft_chat_encode(tokenizer, messages, turn, &chat, &ids, &count) != GRAFT_OK) return fail(context, "chat");
    snprintf(talk, sizeof talk, "%s", text);
    for (chat.said_count = 0; chat.said_count < count && chat.said_count < 2048; ++chat.said_count) {
      talk_ids[chat.said_count] = ids[chat.said_count];
    }
    if (graft_generate_tokens(generator, ids, count, &options, &said) != GRAFT_OK) return fail(context, "generate");
    printf("%s\n[%u of %u tokens were there; %zu new in %.1f + %.1f ms, reason %d]\n", said.text,
           (unsigned)said.cached_tokens, (unsigned)said.prompt_tokens, said.token_count, said.prompt_ms,
           said.generated_ms, (int)said.reason);
    snprintf(reply, sizeof reply, "%s", said.text);
    strncat(talk, reply, sizeof talk - strlen(talk) - 1);
    for (size_t i = 0; i < said.token_count && chat.said_count < 4096; ++i)
      talk_ids[chat.said_count++] = said.tokens[i];
  }
  /* The first turn is not computed again. */
  if (graft_generator_last(generator, &said) != GRAFT_OK) return fail(context, "last");
  if (said.cached_tokens == 0 || so_far.tokens == 0) return fail(context, "nothing was kept");
  /* The same after plain text, and without any adapters, of which this model has none. */
  graft_memory memory = {0};
  memory.struct_size = sizeof memory;
  if (graft_generator_memory(generator, &memory) != GRAFT_OK || memory.total == 0) return fail(context, "memory");
  if (graft_generate(generator, argv[2], &options, &text, NULL) != GRAFT_OK) return fail(context, "text");
  /* A text that is written beside the app. */
  graft_task* task = NULL;
  graft_status outcome = GRAFT_OK;
  if (graft_task_create(context, &task) != GRAFT_OK) return 1;
  if (graft_generate_async(generator, argv[2], &options, graft_task_done, task) != GRAFT_OK) return 1;
  if (graft_task_wait(task, -1, &outcome) != GRAFT_OK || outcome != GRAFT_OK) return 1;
  graft_task_destroy(task);
  if (graft_generator_pause(generator) != GRAFT_OK) return fail(context, "pause");
  if (graft_generator_resume(generator) != GRAFT_OK) return fail(context, "resume");
  if (graft_generator_swap_adapters(generator, NULL) != GRAFT_OK) printf("%s\n", graft_message(context));
  graft_generator_destroy(generator);
  if (write_several(context, model, argv[2]) != 0) return 1;
  if (compare(context, model, argv[2], argv[3], tokenizer) != 0) return 1;
  graft_tokenizer_destroy(tokenizer);
  if (name_a_tool(context, argv[1]) != 0) return 1;
  if (argc == 5 && prefer(context, model, argv[1], argv[4]) != 0) return 1;
  graft_model_destroy(model);
  graft_context_destroy(context);
  return 0;
}
