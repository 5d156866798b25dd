// Language models: tokenizers, conversations, generators.
#include <cstring>
#include <optional>

#include "platform/android/jni/callbacks.h"
#include "platform/android/jni/support.h"

namespace graft::jni {
namespace {

/// graft_generate_options as Java's Sampling and Lists say them; an exception is pending where ok() says false.
class Drawing {
 public:
  Drawing(JNIEnv* env, jobject java, jobject java_lists) : fields_(env, java), lists_(env, java_lists) {
    Fields &fields = fields_, &lists = lists_;
    graft_generate_options& options = options_;
    options.max_tokens = fields.count("maxTokens");
    options.top_k = fields.count("topK");
    options.temperature = fields.real("temperature");
    options.top_p = fields.real("topP");
    options.min_p = fields.real("minP");
    options.repetition_penalty = fields.real("repetitionPenalty");
    options.seed = fields.bits64("seed");
    const Texts& stop = lists.texts("stop");
    options.stop = stop.data();
    options.stop_count = stop.size();
    options.log_probabilities = fields.flag("logProbabilities");
    options.most_probable = fields.count("mostProbable");
    options.grammar = fields.text("grammar");
    options.json_schema = fields.text("jsonSchema");
    const auto tokens = lists.ints("biased");
    const auto biases = lists.reals("biases");
    for (size_t i = 0; i < tokens.size() && lists.ok(); ++i) {
      graft_logit_bias bias{};
      bias.token = tokens[i];
      bias.bias = static_cast<float>(biases[i]);
      bias_.push_back(bias);
    }
    options.bias = bias_.data();
    options.bias_count = bias_.size();
  }
  bool ok() const { return fields_.ok() && lists_.ok(); }
  graft_generate_options* get() { return &options_; }

 private:
  Fields fields_, lists_;
  std::vector<graft_logit_bias> bias_;
  graft_generate_options options_ = sized<graft_generate_options>();
};

void listen(graft_generate_options& options, Callbacks* callbacks, jboolean tokens) {
  if (callbacks == nullptr) return;
  options.on_text = Callbacks::on_text;
  if (tokens == JNI_TRUE) options.on_token = Callbacks::on_token;
  options.user = callbacks;
}

/// Generates by ask(handle, options), with what Java's options say.
template <typename Ask>
void generate_with(JNIEnv* env, const Held<graft_generator>& generator, jobject java, jobject lists,
                   jobject java_callbacks, jboolean tokens, Ask ask) {
  Drawing options(env, java, lists);
  if (!options.ok()) return;
  std::optional<Callbacks> callbacks;
  if (java_callbacks != nullptr) listen(*options.get(), &callbacks.emplace(env, java_callbacks), tokens);
  succeeded(env, generator.context, ask(generator.handle, *options.get()));
}

/// Queues a text by ask(handle, options, id).
template <typename Ask>
jlong submit_with(JNIEnv* env, jlong pointer, jobject java, jobject lists, jlong callbacks, jboolean tokens, Ask ask) {
  return guarded(env, [&]() -> jlong {
    const auto& generator = held<graft_generator>(pointer);
    Drawing options(env, java, lists);
    if (!options.ok()) return 0;
    if (callbacks != 0) listen(*options.get(), Callbacks::of(callbacks), tokens);
    uint64_t id = 0;
    succeeded(env, generator.context, ask(generator.handle, options.get(), &id));
    return static_cast<jlong>(id);
  });
}

/// A conversation for graft_chat_encode and graft_chat_render.
struct Chat {
  graft_chat_options options = sized<graft_chat_options>();
  Chat(JNIEnv* env, jobjectArray java_roles, jobjectArray java_texts, jobject java_options)
      : roles(env, java_roles), texts(env, java_texts), fields(env, java_options) {
    options.format = fields.text("format");
    options.complete = fields.flag("complete");
    options.messages = fields.text("messages");
    options.tools = fields.text("tools");
    options.documents = fields.text("documents");
    options.variables = fields.text("variables");
    if (!ok()) return;
    for (size_t i = 0; i < roles.size(); ++i) {
      graft_chat_message message{};
      message.role = roles.data()[i];
      message.text = texts.data()[i];
      messages.push_back(message);
    }
  }
  bool ok() const { return roles.ok() && texts.ok() && fields.ok(); }
  Texts roles, texts;
  Fields fields;
  std::vector<graft_chat_message> messages;
};

}  // namespace
}  // namespace graft::jni

using namespace graft::jni;

GRAFT_JNI(jlong, tokenizerCreate)(JNIEnv* env, jclass, jlong pointer) {
  return guarded(env, [&]() -> jlong {
    const auto& model = held<graft_model>(pointer);
    graft_tokenizer* tokenizer = nullptr;
    if (!succeeded(env, model.context, graft_tokenizer_create(model.handle, &tokenizer))) return 0;
    return hold(model.context, tokenizer);
  });
}

GRAFT_JNI(void, tokenizerDestroy)(JNIEnv*, jclass, jlong pointer) {
  graft_tokenizer_destroy(held<graft_tokenizer>(pointer).handle);
  delete &held<graft_tokenizer>(pointer);
}

GRAFT_JNI(jint, tokenizerSize)(JNIEnv*, jclass, jlong pointer) {
  return static_cast<jint>(graft_tokenizer_size(held<graft_tokenizer>(pointer).handle));
}

GRAFT_JNI(jint, tokenizerFind)(JNIEnv* env, jclass, jlong pointer, jstring token) {
  return guarded(env, [&]() -> jint {
    const Text text(env, token);
    return text.ok() ? graft_tokenizer_find(held<graft_tokenizer>(pointer).handle, text.get()) : -1;
  });
}

GRAFT_JNI(jintArray, encode)
(JNIEnv* env, jclass, jlong pointer, jstring java, jboolean bare, jboolean parse_special) {
  return guarded(env, [&]() -> jintArray {
    const Text text(env, java);
    if (!text.ok()) return nullptr;
    const auto& tokenizer = held<graft_tokenizer>(pointer);
    auto options = sized<graft_encode_options>();
    options.bare = bare;
    options.parse_special = parse_special;
    const int32_t* ids = nullptr;
    size_t count = 0;
    const graft_status status =
        graft_tokenizer_encode(tokenizer.handle, text.get(), std::strlen(text.get()), &options, &ids, &count);
    return succeeded(env, tokenizer.context, status) ? java_ints(env, ids, count) : nullptr;
  });
}

GRAFT_JNI(jstring, decode)
(JNIEnv* env, jclass, jlong pointer, jintArray ids, jboolean spell_special, jboolean continued) {
  return guarded(env, [&]() -> jstring {
    const auto tokens = ints_of(env, ids);
    const auto& tokenizer = held<graft_tokenizer>(pointer);
    auto options = sized<graft_decode_options>();
    options.spell_special = spell_special;
    options.continued = continued;
    const char* text = nullptr;
    size_t bytes = 0;
    const graft_status status =
        graft_tokenizer_decode(tokenizer.handle, tokens.data(), tokens.size(), &options, &text, &bytes);
    return succeeded(env, tokenizer.context, status) ? java_text(env, {text, bytes}) : nullptr;
  });
}

GRAFT_JNI(jintArray, chatEncode)
(JNIEnv* env, jclass, jlong pointer, jobjectArray roles, jobjectArray texts, jobject options) {
  return guarded(env, [&]() -> jintArray {
    const Chat chat(env, roles, texts, options);
    if (!chat.ok()) return nullptr;
    const auto& tokenizer = held<graft_tokenizer>(pointer);
    const int32_t* ids = nullptr;
    size_t count = 0;
    const graft_status status =
        graft_chat_encode(tokenizer.handle, chat.messages.data(), chat.messages.size(), &chat.options, &ids, &count);
    return succeeded(env, tokenizer.context, status) ? java_ints(env, ids, count) : nullptr;
  });
}

GRAFT_JNI(jstring, chatRender)
(JNIEnv* env, jclass, jlong pointer, jobjectArray roles, jobjectArray texts, jobject options) {
  return guarded(env, [&]() -> jstring {
    const Chat chat(env, roles, texts, options);
    if (!chat.ok()) return nullptr;
    const auto& tokenizer = held<graft_tokenizer>(pointer);
    const char* text = nullptr;
    size_t bytes = 0;
    const graft_status status =
        graft_chat_render(tokenizer.handle, chat.messages.data(), chat.messages.size(), &chat.options, &text, &bytes);
    return succeeded(env, tokenizer.context, status) ? java_text(env, {text, bytes}) : nullptr;
  });
}

GRAFT_JNI(jlong, generatorCreate)(JNIEnv* env, jclass, jlong pointer, jobject java) {
  return guarded(env, [&]() -> jlong {
    const auto& model = held<graft_model>(pointer);
    Fields fields(env, java);
    auto options = sized<graft_generator_options>();
    options.context = fields.count("context");
    options.prefill = fields.count("prefill");
    options.budget = fields.number("budget");
    options.precision = fields.choice<graft_precision>("precision", "Lai/graft/Precision;");
    options.recover_device = fields.flag("recoverDevice");
    options.prompt_lookup = fields.count("promptLookup");
    options.cache = fields.choice<graft_cache_format>("cache", "Lai/graft/Generator$CacheFormat;");
    options.sequences = fields.count("sequences");
    if (!fields.ok()) return 0;
    graft_generator* generator = nullptr;
    if (!succeeded(env, model.context, graft_generator_create(model.handle, &options, &generator))) return 0;
    return hold(model.context, generator);
  });
}

GRAFT_JNI(void, generatorDestroy)(JNIEnv*, jclass, jlong pointer) {
  graft_generator_destroy(held<graft_generator>(pointer).handle);
  delete &held<graft_generator>(pointer);
}

GRAFT_JNI(jlongArray, generatorMemory)(JNIEnv* env, jclass, jlong pointer) {
  return memory_of(env, held<graft_generator>(pointer), graft_generator_memory);
}

GRAFT_JNI(void, generatorPause)(JNIEnv* env, jclass, jlong pointer) {
  const auto& generator = held<graft_generator>(pointer);
  succeeded(env, generator.context, graft_generator_pause(generator.handle));
}

GRAFT_JNI(void, generatorResume)(JNIEnv* env, jclass, jlong pointer) {
  const auto& generator = held<graft_generator>(pointer);
  succeeded(env, generator.context, graft_generator_resume(generator.handle));
}

GRAFT_JNI(void, generate)
(JNIEnv* env, jclass, jlong pointer, jstring prompt, jobject sampling, jobject lists, jobject callbacks,
 jboolean tokens) {
  guarded(env, [&] {
    const Text start(env, prompt);
    if (!start.ok()) return;
    generate_with(env, held<graft_generator>(pointer), sampling, lists, callbacks, tokens,
                  [&](auto* generator, auto& options) {
                    return graft_generate(generator, start.get(), &options, nullptr, nullptr);
                  });
  });
}

GRAFT_JNI(void, generateTokens)
(JNIEnv* env, jclass, jlong pointer, jintArray prompt, jobject sampling, jobject lists, jobject callbacks,
 jboolean tokens) {
  guarded(env, [&] {
    const auto ids = ints_of(env, prompt);
    generate_with(env, held<graft_generator>(pointer), sampling, lists, callbacks, tokens,
                  [&](auto* generator, auto& options) {
                    return graft_generate_tokens(generator, ids.data(), ids.size(), &options, nullptr);
                  });
  });
}

GRAFT_JNI(jobject, generated)(JNIEnv* env, jclass, jlong pointer) {
  return guarded(env, [&]() -> jobject {
    const auto& generator = held<graft_generator>(pointer);
    auto generated = sized<graft_generated>();
    if (!succeeded(env, generator.context, graft_generator_last(generator.handle, &generated))) return nullptr;
    return new_generated(env, generated, 0);
  });
}

GRAFT_JNI(jlong, submit)
(JNIEnv* env, jclass, jlong pointer, jstring prompt, jobject sampling, jobject lists, jlong callbacks,
 jboolean tokens) {
  const Text start(env, prompt);
  if (!start.ok()) return 0;
  return submit_with(env, pointer, sampling, lists, callbacks, tokens, [&](auto* generator, auto* options, auto* id) {
    return graft_generator_submit(generator, start.get(), options, id);
  });
}

GRAFT_JNI(jlong, submitTokens)
(JNIEnv* env, jclass, jlong pointer, jintArray prompt, jobject sampling, jobject lists, jlong callbacks,
 jboolean tokens) {
  const auto ids = ints_of(env, prompt);
  return submit_with(env, pointer, sampling, lists, callbacks, tokens, [&](auto* generator, auto* options, auto* id) {
    return graft_generator_submit_tokens(generator, ids.data(), ids.size(), options, id);
  });
}

GRAFT_JNI(jlong, generatorStep)(JNIEnv* env, jclass, jlong pointer) {
  const auto& generator = held<graft_generator>(pointer);
  size_t unfinished = 0;
  succeeded(env, generator.context, graft_generator_step(generator.handle, &unfinished));
  return static_cast<jlong>(unfinished);
}

// ids[0] becomes the name of the text, which may have failed; null where there is none.
GRAFT_JNI(jobject, finished)(JNIEnv* env, jclass, jlong pointer, jlongArray ids) {
  return guarded(env, [&]() -> jobject {
    const auto& generator = held<graft_generator>(pointer);
    auto generated = sized<graft_generated>();
    uint64_t id = 0;
    const graft_status status = graft_generator_finished(generator.handle, &id, &generated);
    const auto told = static_cast<jlong>(id);
    env->SetLongArrayRegion(ids, 0, 1, &told);
    if (!succeeded(env, generator.context, status) || id == 0) return nullptr;
    return new_generated(env, generated, id);
  });
}

GRAFT_JNI(void, drop)(JNIEnv* env, jclass, jlong pointer, jlong id) {
  const auto& generator = held<graft_generator>(pointer);
  succeeded(env, generator.context, graft_generator_drop(generator.handle, static_cast<uint64_t>(id)));
}

GRAFT_JNI(void, generatorSwapSource)(JNIEnv* env, jclass, jlong pointer, jobject data) {
  with_memory(env, held<graft_generator>(pointer), data, graft_generator_swap_adapters_source);
}

GRAFT_JNI(void, generatorSwapAdapters)(JNIEnv* env, jclass, jlong pointer, jstring path) {
  with_text<graft_generator>(env, pointer, path, graft_generator_swap_adapters);
}
