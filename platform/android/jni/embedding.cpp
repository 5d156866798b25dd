// Texts as vectors, and how much the columns of matrices matter to texts.
#include <string_view>

#include "platform/android/jni/support.h"

namespace graft::jni {
namespace {

/// How many chunks wait, by ask(importance, waiting).
template <typename Ask>
jlong waiting(JNIEnv* env, jlong pointer, Ask ask) {
  const auto& importance = held<graft_importance>(pointer);
  uint64_t left = 0;
  succeeded(env, importance.context, ask(importance.handle, &left));
  return static_cast<jlong>(left);
}

/// An array of rows, of `count` vectors in a row.
jobjectArray rows(JNIEnv* env, const float* numbers, size_t count, size_t width) {
  jclass floats = env->FindClass("[F");
  jobjectArray out = floats == nullptr ? nullptr : env->NewObjectArray(static_cast<jsize>(count), floats, nullptr);
  for (size_t i = 0; out != nullptr && i < count; ++i) {
    jfloatArray row = java_floats(env, numbers + i * width, width);
    if (row == nullptr) return nullptr;
    env->SetObjectArrayElement(out, static_cast<jsize>(i), row);
    env->DeleteLocalRef(row);
  }
  return out;
}

}  // namespace
}  // namespace graft::jni

using namespace graft::jni;

GRAFT_JNI(jlong, embedderCreate)(JNIEnv* env, jclass, jlong pointer, jobject java) {
  return guarded(env, [&]() -> jlong {
    const auto& model = held<graft_model>(pointer);
    Fields fields(env, java);
    auto options = sized<graft_embedder_options>();
    options.pooling = fields.choice<graft_pooling>("pooling", "Lai/graft/Pooling;");
    options.normalize = fields.flag("normalize");
    options.cut = fields.flag("cut");
    options.length = fields.count("length");
    options.batch = fields.count("batch");
    options.of = fields.text("of");
    options.precision = fields.choice<graft_precision>("precision", "Lai/graft/Precision;");
    options.budget = fields.number("budget");
    options.recover_device = fields.flag("recoverDevice");
    if (!fields.ok()) return 0;
    graft_embedder* embedder = nullptr;
    if (!succeeded(env, model.context, graft_embedder_create(model.handle, &options, &embedder))) return 0;
    return hold(model.context, embedder);
  });
}

GRAFT_JNI(void, embedderDestroy)(JNIEnv*, jclass, jlong pointer) {
  graft_embedder_destroy(held<graft_embedder>(pointer).handle);
  delete &held<graft_embedder>(pointer);
}

GRAFT_JNI(jint, embedderWidth)(JNIEnv*, jclass, jlong pointer) {
  return static_cast<jint>(graft_embedder_width(held<graft_embedder>(pointer).handle));
}

GRAFT_JNI(jint, embedderLength)(JNIEnv*, jclass, jlong pointer) {
  return static_cast<jint>(graft_embedder_length(held<graft_embedder>(pointer).handle));
}

GRAFT_JNI(jlongArray, embedderMemory)(JNIEnv* env, jclass, jlong pointer) {
  return memory_of(env, held<graft_embedder>(pointer), graft_embedder_memory);
}

// counts, unless null, has a place for each text.
GRAFT_JNI(jobjectArray, embed)(JNIEnv* env, jclass, jlong pointer, jobjectArray java, jintArray counts) {
  return guarded(env, [&]() -> jobjectArray {
    const auto& embedder = held<graft_embedder>(pointer);
    const Texts texts(env, java);
    if (!texts.ok()) return nullptr;
    const float* vectors = nullptr;
    const uint32_t* tokens = nullptr;
    const graft_status status = graft_embed(embedder.handle, texts.data(), texts.size(), &vectors, &tokens);
    if (!succeeded(env, embedder.context, status)) return nullptr;
    if (counts != nullptr) {
      env->SetIntArrayRegion(counts, 0, static_cast<jsize>(texts.size()), reinterpret_cast<const jint*>(tokens));
    }
    return rows(env, vectors, texts.size(), graft_embedder_width(embedder.handle));
  });
}

GRAFT_JNI(jobjectArray, embedTokens)(JNIEnv* env, jclass, jlong pointer, jobjectArray java) {
  return guarded(env, [&]() -> jobjectArray {
    const auto& embedder = held<graft_embedder>(pointer);
    std::vector<std::vector<int32_t>> texts;
    std::vector<const int32_t*> ids;
    std::vector<size_t> counts;
    for (jsize i = 0; i < env->GetArrayLength(java); ++i) {
      auto* const one = static_cast<jintArray>(env->GetObjectArrayElement(java, i));
      texts.push_back(ints_of(env, one));
      env->DeleteLocalRef(one);
    }
    for (const auto& text : texts) {
      ids.push_back(text.data());
      counts.push_back(text.size());
    }
    const float* vectors = nullptr;
    const graft_status status = graft_embed_tokens(embedder.handle, ids.data(), counts.data(), texts.size(), &vectors);
    if (!succeeded(env, embedder.context, status)) return nullptr;
    return rows(env, vectors, texts.size(), graft_embedder_width(embedder.handle));
  });
}

GRAFT_JNI(jlong, importanceCreate)(JNIEnv* env, jclass, jlong pointer, jobject java) {
  return guarded(env, [&]() -> jlong {
    const auto& model = held<graft_model>(pointer);
    Fields fields(env, java);
    auto options = sized<graft_importance_options>();
    options.context = fields.count("context");
    options.chunks = fields.number("chunks");
    options.head = fields.flag("head");
    options.parse_special = fields.flag("parseSpecial");
    options.budget = fields.number("budget");
    options.recover_device = fields.flag("recoverDevice");
    if (!fields.ok()) return 0;
    graft_importance* importance = nullptr;
    if (!succeeded(env, model.context, graft_importance_create(model.handle, &options, &importance))) return 0;
    return hold(model.context, importance);
  });
}

GRAFT_JNI(void, importanceDestroy)(JNIEnv*, jclass, jlong pointer) {
  graft_importance_destroy(held<graft_importance>(pointer).handle);
  delete &held<graft_importance>(pointer);
}

GRAFT_JNI(jlong, importanceAdd)(JNIEnv* env, jclass, jlong pointer, jstring java) {
  return guarded(env, [&]() -> jlong {
    const Text text(env, java);
    if (!text.ok()) return 0;
    const std::string_view utf8 = text.get();
    return waiting(env, pointer, [&](auto* importance, uint64_t* left) {
      return graft_importance_add(importance, utf8.data(), utf8.size(), left);
    });
  });
}

GRAFT_JNI(jlong, importanceAddTokens)(JNIEnv* env, jclass, jlong pointer, jintArray java) {
  return guarded(env, [&]() -> jlong {
    const auto ids = ints_of(env, java);
    return waiting(env, pointer, [&](auto* importance, uint64_t* left) {
      return graft_importance_add_tokens(importance, ids.data(), ids.size(), left);
    });
  });
}

GRAFT_JNI(jlong, importanceStep)(JNIEnv* env, jclass, jlong pointer) {
  return waiting(env, pointer, graft_importance_step);
}

GRAFT_JNI(jobject, importanceDescribe)(JNIEnv* env, jclass, jlong pointer) {
  return guarded(env, [&]() -> jobject {
    const auto& importance = held<graft_importance>(pointer);
    auto info = sized<graft_importance_info>();
    if (!succeeded(env, importance.context, graft_importance_describe(importance.handle, &info))) return nullptr;
    return Record(env).numbers(info.context, info.chunks, info.waiting, info.dropped).java();
  });
}

// Name and tokens; then the sums.
GRAFT_JNI(jobjectArray, importanceMatrices)(JNIEnv* env, jclass, jlong pointer) {
  return guarded(env, [&]() -> jobjectArray {
    const graft_importance* importance = held<graft_importance>(pointer).handle;
    return java_records(env, [&](size_t i, Record& out) {
      graft_importance_matrix matrix{};
      if (i >= graft_importance_count(importance) || graft_importance_at(importance, i, &matrix) != GRAFT_OK) {
        return false;
      }
      out.texts(matrix.name).numbers(matrix.tokens);
      for (size_t c = 0; c < matrix.columns; ++c) out.reals(matrix.sums[c]);
      return true;
    });
  });
}

GRAFT_JNI(jlongArray, importanceMemory)(JNIEnv* env, jclass, jlong pointer) {
  return memory_of(env, held<graft_importance>(pointer), graft_importance_memory);
}
