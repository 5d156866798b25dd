/* Text as tokens, and conversations as prompts. Part of graft.h, whose rules hold. */
#include "graft/graft.h"

#ifndef GRAFT_LANGUAGE_H
#define GRAFT_LANGUAGE_H

GRAFT_BEGIN_C

/* How a model's text becomes tokens. Holds all that it needs: the model may be destroyed before it. */
typedef struct graft_tokenizer graft_tokenizer;

/* How text becomes tokens. */
typedef struct graft_encode_options {
  size_t struct_size;
  /* Without the tokens that the model puts before and after a text. Default: 0. */
  int bare;
  /* Special tokens that are spelled out ("<|im_end|>") become these tokens; without it they stay text, so that text
     from outside cannot forge them. Default: 0. */
  int parse_special;
} graft_encode_options;

/* How tokens become text. */
typedef struct graft_decode_options {
  size_t struct_size;
  /* Special tokens are spelled out; without it they leave nothing. Default: 0. */
  int spell_special;
  /* The tokens continue a text, and keep the space that they begin with. Default: 0. */
  int continued;
} graft_decode_options;

/* not_found: the model carries no tokenizer. */
GRAFT_API graft_status graft_tokenizer_create(graft_model* model, graft_tokenizer** tokenizer);
GRAFT_API void graft_tokenizer_destroy(graft_tokenizer* tokenizer);
/* One of bytes that graft_convert_tokenizer() of graft/convert.h gave. corrupt: they are none. */
GRAFT_API graft_status graft_tokenizer_open(graft_context* context, const void* data, size_t bytes,
                                            graft_tokenizer** tokenizer);
/* The one that a generator has, without making another of the same vocabulary. It keeps the generator. not_found: the
   model carries no tokenizer. */
GRAFT_API graft_status graft_generator_tokenizer(graft_generator* generator, graft_tokenizer** tokenizer);
/* How many tokens there are: ids are 0 to one less. */
GRAFT_API size_t graft_tokenizer_size(const graft_tokenizer* tokenizer);
/* How text becomes tokens: "bpe", "scored_bpe", ...; "" for NULL. */
GRAFT_API const char* graft_tokenizer_algorithm(const graft_tokenizer* tokenizer);
/* The id of the token that is spelled so in the vocabulary; -1 where there is none. */
GRAFT_API int32_t graft_tokenizer_find(const graft_tokenizer* tokenizer, const char* token);
/* `bytes` bytes of UTF-8 as tokens; count alone where ids is NULL. options may be NULL. */
GRAFT_API graft_status graft_tokenizer_encode(graft_tokenizer* tokenizer, const char* text, size_t bytes,
                                              const graft_encode_options* options, const int32_t** ids, size_t* count);
/* The text of tokens, with a zero behind it; bytes that form no character become U+FFFD. options and bytes may be NULL.
   invalid_argument: an id that there is not. */
GRAFT_API graft_status graft_tokenizer_decode(graft_tokenizer* tokenizer, const int32_t* ids, size_t count,
                                              const graft_decode_options* options, const char** text, size_t* bytes);

/* One turn of a conversation. */
typedef struct graft_chat_message {
  const char* role; /* "system", "user", "assistant", or another that the model's template knows */
  const char* text; /* UTF-8; it forges no special token */
} graft_chat_message;

/* How a conversation becomes a prompt. */
typedef struct graft_chat_options {
  size_t struct_size;
  /* "alpaca", "chatml", "gemma", "llama2" or "llama3"; by default the model's own template. Default: none. */
  const char* format;
  /* The conversation as it is, without the beginning of the assistant's next turn. Default: 0. */
  int complete;
  /* JSON for the model's own template, instead of the list: [{"role": ..., "content": ..., "tool_calls": ...}, ...].
     Default: none. */
  const char* messages;
  /* JSON for the template: a list of functions that the model may call. Default: none. */
  const char* tools;
  /* JSON for the template: a list of documents that it may refer to. Default: none. */
  const char* documents;
  /* JSON for the template: an object of all else that it reads, as {"enable_thinking": false}. Default: none. */
  const char* variables;
  /* Text so far, for the next turn: the prompt of the turn before as graft_chat_render gives it, and the answer after
     it. If the conversation begins with this text, its tokens stay said_tokens, since text may be cut into others,
     which would have to be computed again; what follows is encoded after them. By default all is encoded. Default:
     none. */
  const char* said;
  size_t said_bytes;
  /* Tokens of `said`. Default: none. */
  const int32_t* said_tokens;
  size_t said_count;
} graft_chat_options;

/* A conversation as the prompt that the model was tuned on, for graft_generate_tokens. For the next turn, add what the
   model said as the assistant's message and what the user says then: the prompt begins as the one before, and the
   generator computes its new tokens only. options may be NULL. invalid_argument: a model without a template, an unknown
   format or role, roles in an order that the format cannot say, or a template that fails or refuses the conversation:
   the sentence names its line. Templates are bounded in time and memory. */
GRAFT_API graft_status graft_chat_encode(graft_tokenizer* tokenizer, const graft_chat_message* messages,
                                         size_t message_count, const graft_chat_options* options, const int32_t** ids,
                                         size_t* count);
/* The same as text, to look at, with a zero behind it. */
GRAFT_API graft_status graft_chat_render(graft_tokenizer* tokenizer, const graft_chat_message* messages,
                                         size_t message_count, const graft_chat_options* options, const char** text,
                                         size_t* bytes);

GRAFT_END_C
#endif
