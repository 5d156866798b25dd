// Running models: sessions, gradients in pieces.
#include "platform/android/jni/options.h"

using namespace graft::jni;

GRAFT_JNI(jlong, sessionCreate)(JNIEnv* env, jclass, jlong pointer, jobject java, jobject lists) {
  return guarded(env, [&]() -> jlong {
    const auto& model = held<graft_model>(pointer);
    const PlannedOptions options(env, java, lists);
    if (!options.ok()) return 0;
    graft_session* session = nullptr;
    if (!succeeded(env, model.context, graft_session_create(model.handle, options.get(), &session))) return 0;
    return hold(model.context, session);
  });
}

GRAFT_JNI(void, sessionDestroy)(JNIEnv*, jclass, jlong pointer) {
  graft_session_destroy(held<graft_session>(pointer).handle);
  delete &held<graft_session>(pointer);
}

GRAFT_JNI(jlongArray, sessionMemory)(JNIEnv* env, jclass, jlong pointer) {
  return memory_of(env, held<graft_session>(pointer), graft_session_memory);
}

GRAFT_JNI(void, setInput)(JNIEnv* env, jclass, jlong pointer, jstring name, jobject data) {
  guarded(env, [&] {
    const Text text(env, name);
    if (!text.ok()) return;
    Blocks blocks(env);
    if (!blocks.add(data)) return;
    const auto& session = held<graft_session>(pointer);
    succeeded(env, session.context,
              graft_session_set_input(session.handle, text.get(), blocks.data()[0], blocks.bytes(0)));
  });
}

GRAFT_JNI(void, sessionRun)(JNIEnv* env, jclass, jlong pointer) {
  const auto& session = held<graft_session>(pointer);
  succeeded(env, session.context, graft_session_run(session.handle));
}

GRAFT_JNI(void, sessionResize)(JNIEnv* env, jclass, jlong pointer, jobjectArray dimensions, jlongArray sizes) {
  guarded(env, [&] {
    const auto& session = held<graft_session>(pointer);
    const Bindings bindings(env, dimensions, sizes);
    if (!bindings.ok()) return;
    succeeded(env, session.context, graft_session_resize(session.handle, bindings.data(), bindings.size()));
  });
}

GRAFT_JNI(void, sessionPause)(JNIEnv* env, jclass, jlong pointer) {
  const auto& session = held<graft_session>(pointer);
  succeeded(env, session.context, graft_session_pause(session.handle));
}

GRAFT_JNI(void, sessionResume)(JNIEnv* env, jclass, jlong pointer) {
  const auto& session = held<graft_session>(pointer);
  succeeded(env, session.context, graft_session_resume(session.handle));
}

GRAFT_JNI(jobject, sessionOutput)(JNIEnv* env, jclass, jlong pointer, jstring name) {
  return value_of(env, held<graft_session>(pointer), name, graft_session_output);
}

GRAFT_JNI(jobject, sessionOutputInfo)(JNIEnv* env, jclass, jlong pointer, jstring name) {
  return info_of(env, held<graft_session>(pointer), name, graft_session_output);
}

GRAFT_JNI(void, sessionSwapAdapters)(JNIEnv* env, jclass, jlong pointer, jstring path) {
  with_text<graft_session>(env, pointer, path, graft_session_swap_adapters);
}

GRAFT_JNI(void, sessionSwapSource)(JNIEnv* env, jclass, jlong pointer, jobject data) {
  with_memory(env, held<graft_session>(pointer), data, graft_session_swap_adapters_source);
}

GRAFT_JNI(jlong, gradientsCompute)
(JNIEnv* env, jclass, jlong pointer, jobject java, jobjectArray names, jobjectArray dimensions, jlongArray sizes,
 jobjectArray input_names, jobjectArray data) {
  return guarded(env, [&]() -> jlong {
    const auto& model = held<graft_model>(pointer);
    const Bindings bindings(env, dimensions, sizes);
    if (!bindings.ok()) return 0;
    const Texts wrt(env, names);
    if (!wrt.ok()) return 0;
    const Texts keys(env, input_names);
    if (!keys.ok()) return 0;
    Blocks blocks(env);
    if (!blocks.add_all(data)) return 0;
    Fields fields(env, java);
    auto options = sized<graft_gradient_options>();
    options.of = fields.text("of");
    options.wrt = wrt.data();
    options.wrt_count = wrt.size();
    options.bindings = bindings.data();
    options.binding_count = bindings.size();
    options.budget = fields.number("budget");
    options.micro_batch = fields.count("microBatch");
    options.per_sample = fields.flag("perSample");
    options.train_mode = fields.flag("trainMode");
    if (!fields.ok()) return 0;
    std::vector<graft_data> inputs;
    for (size_t i = 0; i < keys.size(); ++i) inputs.push_back({keys.data()[i], blocks.data()[i], blocks.bytes(i)});
    graft_gradients* gradients = nullptr;
    if (!succeeded(env, model.context,
                   graft_gradients_compute(model.handle, &options, inputs.data(), inputs.size(), &gradients))) {
      return 0;
    }
    return hold(model.context, gradients);
  });
}

GRAFT_JNI(void, gradientsDestroy)(JNIEnv*, jclass, jlong pointer) {
  graft_gradients_destroy(held<graft_gradients>(pointer).handle);
  delete &held<graft_gradients>(pointer);
}

GRAFT_JNI(jobject, gradientsGet)(JNIEnv* env, jclass, jlong pointer, jstring wrt) {
  return value_of(env, held<graft_gradients>(pointer), wrt, graft_gradients_get);
}

GRAFT_JNI(jobject, gradientsInfo)(JNIEnv* env, jclass, jlong pointer, jstring wrt) {
  return info_of(env, held<graft_gradients>(pointer), wrt, graft_gradients_get);
}
