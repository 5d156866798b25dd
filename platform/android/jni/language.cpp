// Language models: tokenizers, conversations, generators.
#include <cstring>
#include <optional>

#include "platform/android/jni/callbacks.h"
#include "platform/android/jni/support.h"

namespace graft::jni {
namespace {

/// Generates by ask(handle, options), with what Java's options say.
template <typename Ask>
void generate_with(JNIEnv* env, const Held<graft_generator>& generator, jobject java, jobjectArray stop,
                   jobject java_callbacks, Ask ask) {
  const Texts stops(env, stop);
  if (!stops.ok()) return;
  Fields fields(env, java);
  auto options = sized<graft_generate_options>();
  options.max_tokens = fields.count("maxTokens");
  options.top_k = fields.count("topK");
  options.temperature = fields.real("temperature");
  options.top_p = fields.real("topP");
  options.min_p = fields.real("minP");
  options.repetition_penalty = fields.real("repetitionPenalty");
  options.seed = fields.bits64("seed");
  options.stop = stops.data();
  options.stop_count = stops.size();
  if (!fields.ok()) return;
  std::optional<Callbacks> callbacks;
  if (java_callbacks != nullptr) {
    options.on_text = Callbacks::on_text;
    options.user = &callbacks.emplace(env, java_callbacks);
  }
  succeeded(env, generator.context, ask(generator.handle, options));
}

jintArray java_ints(JNIEnv* env, const int32_t* values, size_t count) {
  jintArray out = env->NewIntArray(static_cast<jsize>(count));
  if (out != nullptr) env->SetIntArrayRegion(out, 0, static_cast<jsize>(count), values);
  return out;
}

std::vector<int32_t> ints_of(JNIEnv* env, jintArray java) {
  std::vector<int32_t> out(static_cast<size_t>(env->GetArrayLength(java)));
  env->GetIntArrayRegion(java, 0, static_cast<jsize>(out.size()), out.data());
  return out;
}

/// A conversation for graft_chat_encode and graft_chat_render.
struct Chat {
  Chat(JNIEnv* env, jobjectArray java_roles, jobjectArray java_texts, jstring java_format)
      : roles(env, java_roles), texts(env, java_texts), format(env, java_format) {
    options.format = format.get();
    if (!ok()) return;
    for (size_t i = 0; i < roles.size(); ++i) messages.push_back({roles.data()[i], texts.data()[i]});
  }
  bool ok() const { return roles.ok() && texts.ok() && format.ok(); }
  Texts roles, texts;
  Text format;
  std::vector<graft_chat_message> messages;
  graft_chat_options options = sized<graft_chat_options>();
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
(JNIEnv* env, jclass, jlong pointer, jobjectArray roles, jobjectArray texts, jstring format) {
  return guarded(env, [&]() -> jintArray {
    const Chat chat(env, roles, texts, format);
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
(JNIEnv* env, jclass, jlong pointer, jobjectArray roles, jobjectArray texts, jstring format) {
  return guarded(env, [&]() -> jstring {
    const Chat chat(env, roles, texts, format);
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

GRAFT_JNI(void, generate)
(JNIEnv* env, jclass, jlong pointer, jstring prompt, jobject sampling, jobjectArray stop, jobject callbacks) {
  guarded(env, [&] {
    const Text start(env, prompt);
    if (!start.ok()) return;
    generate_with(env, held<graft_generator>(pointer), sampling, stop, callbacks, [&](auto* generator, auto& options) {
      return graft_generate(generator, start.get(), &options, nullptr, nullptr);
    });
  });
}

GRAFT_JNI(void, generateTokens)
(JNIEnv* env, jclass, jlong pointer, jintArray prompt, jobject sampling, jobjectArray stop, jobject callbacks) {
  guarded(env, [&] {
    const auto ids = ints_of(env, prompt);
    generate_with(env, held<graft_generator>(pointer), sampling, stop, callbacks, [&](auto* generator, auto& options) {
      return graft_generate_tokens(generator, ids.data(), ids.size(), &options, nullptr);
    });
  });
}

GRAFT_JNI(jobject, generated)(JNIEnv* env, jclass, jlong pointer) {
  return guarded(env, [&]() -> jobject {
    const auto& generator = held<graft_generator>(pointer);
    auto generated = sized<graft_generated>();
    if (!succeeded(env, generator.context, graft_generator_last(generator.handle, &generated))) return nullptr;
    jstring text = java_text(env, {generated.text, generated.bytes});
    jintArray tokens = text == nullptr ? nullptr : java_ints(env, generated.tokens, generated.token_count);
    return tokens == nullptr ? nullptr : new_generated(env, generated, text, tokens);
  });
}

GRAFT_JNI(void, generatorSwapAdapters)(JNIEnv* env, jclass, jlong pointer, jstring path) {
  with_text<graft_generator>(env, pointer, path, graft_generator_swap_adapters);
}
