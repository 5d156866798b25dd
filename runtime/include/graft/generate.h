/* Text from language models. Included by graft.h; its rules hold here as well. */
#include "graft/graft.h"

#ifndef GRAFT_GENERATE_H
#define GRAFT_GENERATE_H

GRAFT_BEGIN_C

/* How a generator keeps keys and values of earlier tokens: each number is rounded once. */
typedef enum graft_cache_format GRAFT_ENUM_OF_INT {
  GRAFT_CACHE_F32 = 0,
  GRAFT_CACHE_F16 = 1, /* half of the memory */
  GRAFT_CACHE_BF16 = 2,
  GRAFT_CACHE_Q8_0 = 3 /* about a quarter: blocks of 32 numbers with one scale, along what a token has of all heads */
} graft_cache_format;

/* What a generator is planned for. graft_generator_options_init() fills in the defaults. */
typedef struct graft_generator_options {
  size_t struct_size;
  /* Tokens of prompt and answer together; 0: the model's own context, at most 2048. Default: 0. */
  uint32_t context;
  /* Tokens of a prompt that one run takes. Default: 64. Range: [1, inf). */
  uint32_t prefill;
  /* Largest device memory in bytes; 0: no limit. Default: 0. */
  uint64_t budget;
  /* Storage of intermediate results. Default: f32. */
  graft_precision precision;
  /* Continues if the device is lost, as graft_session_options.recover_device: the caches are computed again by the same
     steps, and a text continues with the same bits. Default: 0. */
  int recover_device;
  /* Tokens that are guessed from the text so far and verified in one run (prompt lookup decoding); 0: none. The result
     is the same, bit for bit: without a device that gives a token among several the bits that it has alone, nothing is
     guessed. Useful if answers repeat their prompts: 3 is a good number on CPUs. Default: 0. */
  uint32_t prompt_lookup;
  /* How keys and values of earlier tokens are stored. Default: f32. */
  graft_cache_format cache;
  /* Texts that are written at once, for graft_generator_submit: memory is planned for this many caches. Each run takes
     one token of every text, so that weights are read once for all. If they do not fit the budget, the error says how
     many would. 0: one text after the other. Not with prompt_lookup. Default: 0. */
  uint32_t sequences;
} graft_generator_options;

/* Fills in every default; each value then counts as it is, zero too. `options` has its struct_size. */
GRAFT_API graft_status graft_generator_options_init(graft_generator_options* options);

/* Something that is added to a token's score before it is chosen. */
typedef struct graft_logit_bias {
  int32_t token;
  float bias; /* -INFINITY: never this token */
} graft_logit_bias;

/* How one text is made. graft_generate_options_init() fills in the defaults. */
typedef struct graft_generate_options {
  size_t struct_size;
  /* Most tokens of the answer; 0: none, the caches only read the prompt, so that a longer text that begins with it
     costs its new tokens only. Default: 256. */
  uint32_t max_tokens;
  /* The token is drawn from this many of the most probable ones; 0: all. Default: 0. */
  uint32_t top_k;
  /* What scores are divided by; 0: always the most probable token. Default: 0. Range: [0, inf). */
  double temperature;
  /* The token is drawn from the most probable ones that together reach this probability. Default: 1. Range: (0, 1]. */
  double top_p;
  /* The token is drawn from those at least this many times as probable as the first. Default: 0. Range: [0, 1]. */
  double min_p;
  /* Factor against tokens that occurred lately; 1: none. Default: 1. Range: (0, inf). */
  double repetition_penalty;
  /* Seed of the draws. Default: 0. */
  uint64_t seed;
  /* The text ends before any of these. Default: none. */
  const char* const* stop;
  size_t stop_count;
  /* Gets each piece of text (UTF-8, not terminated) once it is certain; 0 ends the text. It must not call graft with
     this context. Default: none. */
  int (*on_text)(void* user, const char* text, size_t bytes);
  /* First argument of on_text and on_token. Default: none. */
  void* user;
  /* Gets each token as it is chosen, before its text, with the `vocabulary` scores that the model gave for its place,
     before temperature and penalties; 0 makes it the last. The token that ends a text is not given. It must not call
     graft with this context. Default: none. */
  int (*on_token)(void* user, int32_t token, const float* logits, size_t vocabulary);
  /* Added to tokens' scores; those of one token add up. Default: none. */
  const graft_logit_bias* bias;
  size_t bias_count;
  /* graft_generated has the log probability of each token. Default: 0. */
  int log_probabilities;
  /* graft_generated has this many of the most probable tokens for each token. Default: 0. */
  uint32_t most_probable;
  /* Rules that the text follows, in llama.cpp's form (GBNF), beginning with "root". Tokens that would break them are
     never chosen, and the text ends if nothing may follow. Bounded in time and memory. Not with json_schema.
     Default: none. */
  const char* grammar;
  /* JSON schema: the text is JSON that it allows. Default: none. */
  const char* json_schema;
} graft_generate_options;

/* Fills in every default; each value then counts as it is, zero too. `options` has its struct_size. */
GRAFT_API graft_status graft_generate_options_init(graft_generate_options* options);

/* Why a text ended. */
typedef enum graft_stop_reason GRAFT_ENUM_OF_INT {
  GRAFT_STOP_END_OF_TEXT = 0, /* the model chose a token that ends texts */
  GRAFT_STOP_MAX_TOKENS = 1,
  GRAFT_STOP_STRING = 2, /* one of graft_generate_options.stop */
  GRAFT_STOP_CONTEXT_FULL = 3,
  GRAFT_STOP_CALLBACK = 4
} graft_stop_reason;

/* How probable a model finds a token. */
typedef struct graft_token_probability {
  int32_t token;
  float log_probability; /* natural logarithm, before any bias, penalty and temperature */
} graft_token_probability;

/* What a call generated. Pointers are valid until the generator's next call. */
typedef struct graft_generated {
  size_t struct_size;
  const char* text; /* UTF-8, with a zero behind it; "" where the model has no tokenizer */
  size_t bytes;
  const int32_t* tokens; /* without the one that ended the text */
  size_t token_count;
  graft_stop_reason reason;
  uint32_t prompt_tokens;
  uint32_t cached_tokens;                       /* of the prompt, that the call before had computed */
  double prompt_ms;                             /* for the other tokens of the prompt */
  double generated_ms;                          /* for what was generated */
  double first_token_ms;                        /* from the call to its first token */
  uint32_t drafted_tokens;                      /* guessed by prompt lookup */
  uint32_t right_drafts;                        /* of these, what the model said as well */
  const float* log_probabilities;               /* one for each token; NULL unless asked for */
  const graft_token_probability* most_probable; /* most_probable_count for each token, the most probable first */
  uint32_t most_probable_count;
} graft_generated;

/* Plans, records and allocates everything, caches included. unsupported where the model is no language model that can
   go on token by token. options may be NULL. */
GRAFT_API graft_status graft_generator_create(graft_model* model, const graft_generator_options* options,
                                              graft_generator** generator);
GRAFT_API void graft_generator_destroy(graft_generator* generator);
/* Bytes that the generator holds on device and host, by class. */
GRAFT_API graft_status graft_generator_memory(const graft_generator* generator, graft_memory* memory);
/* What became of graft_generator_options. */
typedef struct graft_generator_info {
  size_t struct_size;
  uint32_t context;    /* tokens of prompt and answer together */
  uint32_t sequences;  /* texts that are written at once; 0: one after the other */
  int verifies_drafts; /* 1: prompt_lookup is at work; 0: nobody asked, or the device gives a token among several other
                          bits than alone */
  const char* streaming; /* a sentence on the weights that are streamed to keep to the budget; "" where none are. Valid
                            as long as the generator */
} graft_generator_info;

/* Fills info. */
GRAFT_API graft_status graft_generator_describe(graft_generator* generator, graft_generator_info* info);
/* *agree becomes 1 where the device's kernels give a token among several the bits that it has alone: then no text
   depends, to the bit, on those that are written beside it. Compared on the device at the first call, for which
   invalid_argument where texts are queued or under way; what caches hold is forgotten then. Of a generator of one text
   after the other it is 1. */
GRAFT_API graft_status graft_generator_rows_agree(graft_generator* generator, int* agree);
/* As graft_session_pause and graft_session_resume; what a conversation has computed waits in host memory. */
GRAFT_API graft_status graft_generator_pause(graft_generator* generator);
/* As graft_session_resume. */
GRAFT_API graft_status graft_generator_resume(graft_generator* generator);
/* What the model says after the prompt (UTF-8). A prompt that begins as the one before costs its new part only.
   options, text and bytes may be NULL. */
GRAFT_API graft_status graft_generate(graft_generator* generator, const char* prompt,
                                      const graft_generate_options* options, const char** text, size_t* bytes);
/* The same after a prompt of tokens, which are taken as they are: see graft_tokenizer_encode and graft_chat_encode. It
   needs no tokenizer. The turns of a conversation begin alike, so that each costs its new tokens only.
   invalid_argument: a token that the model does not know, no tokens, more than the context. generated may be NULL. */
GRAFT_API graft_status graft_generate_tokens(graft_generator* generator, const int32_t* prompt, size_t count,
                                             const graft_generate_options* options, graft_generated* generated);
/* What the last call of either gave; zeros before the first. A call that failed leaves what the one before gave. */
GRAFT_API graft_status graft_generator_last(const graft_generator* generator, graft_generated* generated);

/* Several texts at once, with a generator that was made for graft_generator_options.sequences. A text waits until a
   place is free; its prompt is computed before others go on, but for what it begins with that the caches hold already,
   of a text that is done or under way: a shared prompt is computed once. Each text has its own length, draws, grammar
   and end, and is what it would be alone: the same tokens in the same order, and to the bit where the device's kernels
   give a row among several the bits that it has alone. Options are copied; their callbacks are called by
   graft_generator_step until the text is finished. */

/* Queues what follows the prompt (UTF-8); *id names it in what follows, and is never 0. options may be NULL. */
GRAFT_API graft_status graft_generator_submit(graft_generator* generator, const char* prompt,
                                              const graft_generate_options* options, uint64_t* id);
/* The same after a prompt of tokens, as graft_generate_tokens takes them. */
GRAFT_API graft_status graft_generator_submit_tokens(graft_generator* generator, const int32_t* prompt, size_t count,
                                                     const graft_generate_options* options, uint64_t* id);
/* One run on the device: some of a prompt, or a token of every text that is under way. *unfinished (may be NULL) is how
   many texts are queued or under way then: 0 means that there is nothing to do. An error is of the device or of a
   cancelled call, and leaves all texts where they were. */
GRAFT_API graft_status graft_generator_step(graft_generator* generator, size_t* unfinished);
/* The next text that is finished, each once, in the order in which they were; *id is 0 where there is none. An error
   with *id that is not 0 is that text's own: of its grammar, or of its scores. generated may be NULL. */
GRAFT_API graft_status graft_generator_finished(graft_generator* generator, uint64_t* id, graft_generated* generated);
/* Ends a text that is queued or under way; nothing more is heard of it. not_found: there is none of this name. */
GRAFT_API graft_status graft_generator_drop(graft_generator* generator, uint64_t id);

GRAFT_END_C
#endif /* GRAFT_GENERATE_H */
