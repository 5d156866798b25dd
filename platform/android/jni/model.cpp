// Loading, contexts, models, adapters.
#include "graft/cache.h"
#include "platform/android/jni/callbacks.h"
#include "platform/android/jni/options.h"

namespace graft::jni {
namespace {

/// A model by open(context, text, options, model).
template <typename Open>
jlong load_by(JNIEnv* env, jlong pointer, jstring java, jint check, jboolean allow_non_finite, Open open) {
  return guarded(env, [&]() -> jlong {
    const Text text(env, java);
    if (!text.ok()) return 0;
    auto options = sized<graft_model_options>();
    options.check = static_cast<graft_weight_check>(check);
    options.allow_non_finite = allow_non_finite;
    graft_context* context = held<graft_context>(pointer).handle;
    graft_model* model = nullptr;
    if (!succeeded(env, context, open(context, text.get(), options, &model))) return 0;
    return hold(context, model);
  });
}

}  // namespace
}  // namespace graft::jni

using namespace graft::jni;

extern "C" JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM* machine, void*) {
  void* env = nullptr;
  if (machine->GetEnv(&env, JNI_VERSION_1_6) != JNI_OK) return JNI_ERR;
  auto* const e = static_cast<JNIEnv*>(env);
  return find_classes(e) && find_callbacks(e, machine) ? JNI_VERSION_1_6 : JNI_ERR;
}

GRAFT_JNI(jstring, version)(JNIEnv* env, jclass) {
  return guarded(env, [&] { return java_text(env, graft_version()); });
}

GRAFT_JNI(jlong, callbacksCreate)(JNIEnv* env, jclass, jobject java) {
  if (java == nullptr) return 0;
  return guarded(env, [&] { return reinterpret_cast<jlong>(new Callbacks(env, java)); });
}

GRAFT_JNI(void, callbacksDestroy)(JNIEnv*, jclass, jlong pointer) { delete Callbacks::of(pointer); }

GRAFT_JNI(jlong, contextCreate)(JNIEnv* env, jclass, jobject java, jlong callbacks) {
  return guarded(env, [&]() -> jlong {
    Fields fields(env, java);
    auto options = sized<graft_context_options>();
    options.device = fields.text("device");
    options.vulkan_library = fields.text("vulkanLibrary");
    options.pipeline_cache = fields.text("pipelineCache");
    options.log_level = fields.choice<graft_log_level>("logLevel", "Lai/graft/Context$LogLevel;");
    options.matmul_precision =
        fields.choice<graft_matmul_precision>("matmulPrecision", "Lai/graft/Context$MatmulPrecision;");
    options.priority = fields.choice<graft_priority>("priority", "Lai/graft/Context$Priority;");
    if (!fields.ok()) return 0;
    if (callbacks != 0) {
      options.log = Callbacks::log;
      options.log_user = Callbacks::of(callbacks);
    }
    graft_context* context = nullptr;
    const graft_status status = graft_context_create(&options, &context);
    if (context == nullptr) {
      throw_status(env, status, "There is no memory for a context.");
      return 0;
    }
    if (!succeeded(env, context, status)) {
      graft_context_destroy(context);
      return 0;
    }
    return hold(context, context);
  });
}

GRAFT_JNI(void, contextDestroy)(JNIEnv*, jclass, jlong pointer) {
  graft_context_destroy(held<graft_context>(pointer).handle);
  delete &held<graft_context>(pointer);
}

GRAFT_JNI(jstring, deviceName)(JNIEnv* env, jclass, jlong pointer) {
  return guarded(env, [&] { return java_text(env, graft_device_name(held<graft_context>(pointer).handle)); });
}

GRAFT_JNI(void, cancel)(JNIEnv*, jclass, jlong pointer) { graft_cancel(held<graft_context>(pointer).handle); }

GRAFT_JNI(void, uncancel)(JNIEnv*, jclass, jlong pointer) { (void)graft_uncancel(held<graft_context>(pointer).handle); }

GRAFT_JNI(jboolean, setPace)(JNIEnv*, jclass, jlong pointer, jdouble slice_ms, jdouble duty) {
  return graft_set_pace(held<graft_context>(pointer).handle, slice_ms, duty) == GRAFT_OK ? JNI_TRUE : JNI_FALSE;
}

GRAFT_JNI(void, setProgress)(JNIEnv* env, jclass, jlong pointer, jlong callbacks) {
  graft_context* context = held<graft_context>(pointer).handle;
  succeeded(env, context,
            callbacks == 0 ? graft_set_progress(context, nullptr, nullptr)
                           : graft_set_progress(context, Callbacks::progress, Callbacks::of(callbacks)));
}

GRAFT_JNI(void, openCache)(JNIEnv* env, jclass, jlong pointer, jstring folder, jboolean skip) {
  with_text<graft_context>(env, pointer, folder, [&](graft_context* context, const char* path) {
    auto options = sized<graft_cache_options>();
    options.folder = path;
    options.skip_self_test = skip;
    return graft_context_open_cache(context, &options);
  });
}

GRAFT_JNI(jlong, modelLoad)(JNIEnv* env, jclass, jlong pointer, jstring path, jint check, jboolean non_finite) {
  return load_by(env, pointer, path, check, non_finite, [](auto* context, auto* name, auto& options, auto** model) {
    return graft_model_open(context, name, &options, model);
  });
}

GRAFT_JNI(jlong, modelLoadDescriptor)
(JNIEnv* env, jclass, jlong pointer, jstring name, jint descriptor, jlong offset, jlong bytes, jint check,
 jboolean non_finite) {
  return load_by(env, pointer, name, check, non_finite, [&](auto* context, auto* text, auto& options, auto** model) {
    auto source = sized<graft_source>();
    source.kind = GRAFT_SOURCE_DESCRIPTOR;
    source.name = text;
    source.descriptor = descriptor;
    source.offset = static_cast<uint64_t>(offset);
    source.bytes = static_cast<uint64_t>(bytes);
    return graft_model_open_source(context, &source, &options, model);
  });
}

GRAFT_JNI(jlong, modelLoadMemory)
(JNIEnv* env, jclass, jlong pointer, jstring name, jobject data, jint check, jboolean non_finite) {
  return guarded(env, [&]() -> jlong {
    Blocks blocks(env);
    if (!blocks.add(data)) return 0;
    return load_by(env, pointer, name, check, non_finite, [&](auto* context, auto* text, auto& options, auto** model) {
      auto source = sized<graft_source>();
      source.kind = GRAFT_SOURCE_MEMORY;
      source.name = text;
      source.data = blocks.data()[0];
      source.bytes = blocks.bytes(0);
      source.copy = 1;  // borrowed memory that the app changes later would be read beyond its checks
      return graft_model_open_source(context, &source, &options, model);
    });
  });
}

GRAFT_JNI(void, modelDestroy)(JNIEnv*, jclass, jlong pointer) {
  graft_model_destroy(held<graft_model>(pointer).handle);
  delete &held<graft_model>(pointer);
}

GRAFT_JNI(void, modelSave)(JNIEnv* env, jclass, jlong pointer, jstring path) {
  with_text<graft_model>(env, pointer, path, graft_model_save);
}

GRAFT_JNI(jobjectArray, modelTensors)(JNIEnv* env, jclass, jlong pointer, jint kind) {
  return guarded(env, [&]() -> jobjectArray {
    const auto& model = held<graft_model>(pointer);
    const auto wanted = static_cast<graft_tensor_kind>(kind);
    const size_t count = graft_model_count(model.handle, wanted);
    jobjectArray out = new_infos(env, count);
    for (size_t i = 0; out != nullptr && i < count; ++i) {
      if (env->PushLocalFrame(16) != 0) return nullptr;
      graft_tensor_info info{};
      if (!succeeded(env, model.context, graft_model_tensor(model.handle, wanted, i, &info))) return nullptr;
      jobjectArray dimensions = new_texts(env, info.rank);
      for (uint32_t axis = 0; dimensions != nullptr && axis < info.rank; ++axis) {
        const char* name = nullptr;
        if (!succeeded(env, model.context, graft_model_dimension(model.handle, wanted, i, axis, &name))) return nullptr;
        env->SetObjectArrayElement(dimensions, static_cast<jsize>(axis), java_text(env, name));
      }
      jobject java = dimensions == nullptr ? nullptr : java_info(env, info, dimensions);
      if (java == nullptr) return nullptr;
      env->SetObjectArrayElement(out, static_cast<jsize>(i), java);
      env->PopLocalFrame(nullptr);
    }
    return out;
  });
}

GRAFT_JNI(jobject, modelRead)(JNIEnv* env, jclass, jlong pointer, jstring name) {
  return read_weight(env, held<graft_model>(pointer), name, graft_model_read);
}

GRAFT_JNI(void, modelWrite)(JNIEnv* env, jclass, jlong pointer, jstring name, jobject data) {
  write_weight(env, held<graft_model>(pointer), name, data, graft_model_write);
}

// Keys and values in turn.
GRAFT_JNI(jobject, metadata)(JNIEnv* env, jclass, jlong pointer) {
  return guarded(env, [&] {
    const graft_model* model = held<graft_model>(pointer).handle;
    Record record(env);
    const char *key = nullptr, *value = nullptr;
    for (size_t i = 0; i < graft_model_metadata_count(model); ++i) {
      if (graft_model_metadata_at(model, i, &key, &value) == GRAFT_OK) record.texts(key, value);
    }
    return record.java();
  });
}

GRAFT_JNI(void, setMetadata)(JNIEnv* env, jclass, jlong pointer, jstring java_key, jstring java_value) {
  guarded(env, [&] {
    const Text key(env, java_key);
    if (!key.ok()) return;
    const Text value(env, java_value);
    if (!value.ok()) return;
    const auto& model = held<graft_model>(pointer);
    succeeded(env, model.context, graft_model_set_metadata(model.handle, key.get(), value.get()));
  });
}

// Name and numbers of inputs and outputs; then the names of these.
GRAFT_JNI(jobjectArray, signatures)(JNIEnv* env, jclass, jlong pointer) {
  return guarded(env, [&]() -> jobjectArray {
    const graft_model* model = held<graft_model>(pointer).handle;
    return java_records(env, [&](size_t i, Record& out) {
      auto signature = sized<graft_signature>();
      if (graft_model_signature(model, i, &signature) != GRAFT_OK) return false;
      out.texts(signature.name).numbers(signature.input_count, signature.output_count);
      for (const graft_tensor_kind kind : {GRAFT_INPUTS, GRAFT_OUTPUTS}) {
        graft_tensor_info info{};
        for (size_t t = 0; graft_model_signature_tensor(model, i, kind, t, &info) == GRAFT_OK; ++t) {
          out.texts(info.name);
        }
      }
      return i < graft_model_signature_count(model);
    });
  });
}

GRAFT_JNI(void, addAdapters)(JNIEnv* env, jclass, jlong pointer, jstring options, jint seed) {
  with_text<graft_model>(env, pointer, options, [&](graft_model* model, const char* text) {
    return graft_model_add_adapters(model, text, static_cast<uint32_t>(seed));
  });
}

GRAFT_JNI(void, resizeHead)
(JNIEnv* env, jclass, jlong pointer, jlong classes, jobject java, jobjectArray class_names) {
  guarded(env, [&]() -> int {
    const auto& model = held<graft_model>(pointer);
    Fields fields(env, java);
    const Texts names(env, class_names);
    auto options = sized<graft_head_options>();
    options.output = fields.text("output");
    options.classes = classes;
    options.replace = fields.flag("replace");
    options.seed = fields.bits("seed");
    options.class_names = names.data();
    options.class_name_count = names.size();
    if (fields.ok() && names.ok()) succeeded(env, model.context, graft_model_resize_head(model.handle, &options));
    return 0;
  });
}

GRAFT_JNI(void, addTokens)(JNIEnv* env, jclass, jlong pointer, jstring tokens) {
  with_text<graft_model>(env, pointer, tokens, graft_model_add_tokens);
}

GRAFT_JNI(void, loadAdapters)(JNIEnv* env, jclass, jlong pointer, jstring path) {
  with_text<graft_model>(env, pointer, path, graft_model_load_adapters);
}

GRAFT_JNI(void, loadAdaptersMemory)(JNIEnv* env, jclass, jlong pointer, jobject data) {
  with_memory(env, held<graft_model>(pointer), data, graft_model_load_adapters_source);
}

GRAFT_JNI(void, loadAdaptersTogether)(JNIEnv* env, jclass, jlong pointer, jobjectArray paths, jdoubleArray weights) {
  guarded(env, [&] {
    const Texts files(env, paths);
    if (!files.ok()) return;
    std::vector<double> factors(files.size());
    env->GetDoubleArrayRegion(weights, 0, static_cast<jsize>(factors.size()), factors.data());
    const auto& model = held<graft_model>(pointer);
    succeeded(env, model.context,
              graft_model_load_adapters_together(model.handle, files.data(), factors.data(), files.size()));
  });
}

GRAFT_JNI(void, mergeAdapters)(JNIEnv* env, jclass, jlong pointer, jstring quantize) {
  with_text<graft_model>(env, pointer, quantize, graft_model_merge_adapters);
}

GRAFT_JNI(void, saveAdapters)(JNIEnv* env, jclass, jlong pointer, jstring path) {
  with_text<graft_model>(env, pointer, path, graft_model_save_adapters);
}
