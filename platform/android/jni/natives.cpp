// Native methods whose functions call back, take memory by name, or fail for one of several texts. The generator writes
// all others.
#include "interface/jni.h"
#include "platform/android/jni/callbacks.h"

namespace graft::jni {
namespace {

/// Bytes of one sample's part.
std::size_t bytes_of(const graft_field& field) {
  std::size_t bytes = field.dtype <= GRAFT_BOOL32 ? 4 : field.dtype <= GRAFT_I8 ? 1 : 2;
  for (std::uint32_t axis = 0; axis < field.rank; ++axis) bytes *= static_cast<std::size_t>(field.dims[axis]);
  return bytes;
}

/// An array of `count` vectors, one after another.
jbyteArray vectors_of(JNIEnv* env, const graft_embedder* embedder, const float* vectors, std::size_t count,
                      const std::uint32_t* tokens) {
  Out out;
  out.array(vectors, count * graft_embedder_width(embedder));
  out.array(tokens, tokens == nullptr ? 0 : count);
  return out.java(env);
}

void note_kernel(void* user, const char* kernel, graft_kernel_verdict verdict, const char* why) {
  auto& out = *static_cast<Out*>(user);
  out.text(kernel);
  out.number(verdict);
  out.text(why);
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

GRAFT_JNI(jlong, callbacksCreate)(JNIEnv* env, jclass, jobject callbacks, jboolean tokens) {
  if (callbacks == nullptr) return 0;
  return guarded(env, [&] { return reinterpret_cast<jlong>(new Callbacks(env, callbacks, tokens == JNI_TRUE)); });
}

GRAFT_JNI(void, callbacksDestroy)(JNIEnv*, jclass, jlong pointer) { delete Callbacks::of(pointer); }

// A direct buffer over graft's memory.
GRAFT_JNI(jobject, view)(JNIEnv* env, jclass, jlong address, jlong bytes) {
  return guarded(env, [&] {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): what Out::address() gave
    return java_buffer(env, reinterpret_cast<const void*>(static_cast<std::intptr_t>(address)),
                       static_cast<std::size_t>(bytes));
  });
}

GRAFT_JNI(jlong, contextCreate)(JNIEnv* env, jclass, jbyteArray packed, jlong callbacks) {
  return guarded(env, [&]() -> jlong {
    In in(env, packed);
    auto* options = options_of<graft_context_options>(in);
    if (!attach(env, callbacks, *options)) return 0;
    graft_context* context = nullptr;
    const graft_status status = graft_context_create(options, &context);
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

// While another call may be in progress, whose message the context's would be.
GRAFT_JNI(jboolean, setPace)(JNIEnv*, jclass, jlong context, jdouble slice_ms, jdouble duty) {
  return graft_set_pace(handle_of<graft_context>(context), slice_ms, duty) == GRAFT_OK ? JNI_TRUE : JNI_FALSE;
}

GRAFT_JNI(void, setProgress)(JNIEnv* env, jclass, jlong pointer, jlong callbacks) {
  auto* context = handle_of<graft_context>(pointer);
  succeeded(env, context,
            callbacks == 0 ? graft_set_progress(context, nullptr, nullptr)
                           : graft_set_progress(context, Callbacks::progress, Callbacks::of(callbacks)));
}

// `known`: those that a cache knows, without a test.
GRAFT_JNI(jbyteArray, kernels)(JNIEnv* env, jclass, jlong pointer, jboolean known) {
  return guarded(env, [&]() -> jbyteArray {
    auto* context = handle_of<graft_context>(pointer);
    Out out;
    const graft_status status = known == JNI_TRUE ? graft_context_known_kernels(context, note_kernel, &out)
                                                  : graft_context_self_test(context, note_kernel, &out);
    return succeeded(env, context, status) ? out.java(env) : nullptr;
  });
}

GRAFT_JNI(jlong, devicesFind)(JNIEnv* env, jclass, jstring library) {
  return guarded(env, [&]() -> jlong {
    const Text path(env, library);
    if (!path.ok()) return 0;
    auto options = sized<graft_context_options>();
    options.vulkan_library = path.get();
    graft_devices* found = nullptr;
    const graft_status status = graft_devices_find(&options, &found);
    if (status == GRAFT_OK) return hold(nullptr, found);
    throw_status(env, status, found == nullptr ? "Out of memory." : graft_devices_message(found));
    graft_devices_destroy(found);
    return 0;
  });
}

GRAFT_JNI(jbyteArray, modelVerify)(JNIEnv* env, jclass, jlong model, jbyteArray packed) {
  return guarded(env, [&]() -> jbyteArray {
    In in(env, packed);
    Out out;
    const auto note = [](void* user, const graft_node_verdict* verdict) {
      write(*static_cast<Out*>(user), *verdict);
      return 0;
    };
    std::size_t nodes = 0;
    const graft_status status = graft_model_verify(handle_of<graft_model>(model), options_of<graft_verify_options>(in),
                                                   note, &out, &nodes, nullptr);
    // Where some differ, the verdicts say which.
    if (status == GRAFT_DEVICE_ERROR && nodes != 0) return out.java(env);
    return succeeded(env, context_of(model), status) ? out.java(env) : nullptr;
  });
}

GRAFT_JNI(jlong, gradientsCompute)
(JNIEnv* env, jclass, jlong model, jbyteArray packed, jbyteArray names, jobjectArray data) {
  return guarded(env, [&]() -> jlong {
    In in(env, packed), named(env, names);
    std::size_t count = 0;
    const char* const* keys = named.texts(count);
    Blocks blocks(env);
    if (!blocks.add_all(data)) return 0;
    std::vector<graft_data> inputs;
    for (std::size_t i = 0; i < count; ++i) inputs.push_back({keys[i], blocks.data()[i], blocks.bytes(i)});
    graft_gradients* gradients = nullptr;
    const graft_status status = graft_gradients_compute(
        handle_of<graft_model>(model), options_of<graft_gradient_options>(in), inputs.data(), count, &gradients);
    return succeeded(env, context_of(model), status) ? hold(context_of(model), gradients) : 0;
  });
}

GRAFT_JNI(jlong, dataFromCallback)
(JNIEnv* env, jclass, jlong pointer, jbyteArray packed, jlong samples, jlong callbacks) {
  return guarded(env, [&]() -> jlong {
    In in(env, packed);
    std::size_t count = 0;
    const auto* fields = in.list<graft_field>(count);
    std::vector<std::size_t> sizes;
    for (std::size_t i = 0; i < count; ++i) sizes.push_back(bytes_of(fields[i]));
    Callbacks* reader = Callbacks::of(callbacks);
    reader->set_sizes(std::move(sizes));
    graft_data_set* set = nullptr;
    auto* context = handle_of<graft_context>(pointer);
    const graft_status status = graft_data_from_callback(context, fields, count, static_cast<std::uint64_t>(samples),
                                                         Callbacks::read, reader, &set);
    return succeeded(env, context, status) ? hold(context, set) : 0;
  });
}

// Samples, epoch, whether it is the last of it, and the memory of each field; null where the epochs are over.
GRAFT_JNI(jbyteArray, loaderNext)(JNIEnv* env, jclass, jlong loader, jlong data) {
  return guarded(env, [&]() -> jbyteArray {
    auto batch = sized<graft_batch>();
    const graft_status status = graft_loader_next(handle_of<graft_loader>(loader), &batch);
    if (!succeeded(env, context_of(loader), status) || batch.samples == 0) return nullptr;
    const auto* set = handle_of<graft_data_set>(data);
    Out out;
    out.number(batch.samples);
    out.number(batch.epoch);
    out.number(batch.last_of_epoch);
    graft_field field{};
    out.number(graft_data_field_count(set));
    for (std::size_t i = 0; graft_data_field(set, i, &field) == GRAFT_OK; ++i) {
      out.address(batch.fields[i], bytes_of(field) * batch.samples);
    }
    return out.java(env);
  });
}

// ids[0] becomes the name of the text, which may have failed; null where there is none.
GRAFT_JNI(jbyteArray, generatorFinished)(JNIEnv* env, jclass, jlong generator, jlongArray ids) {
  return guarded(env, [&]() -> jbyteArray {
    auto generated = sized<graft_generated>();
    std::uint64_t id = 0;
    const graft_status status = graft_generator_finished(handle_of<graft_generator>(generator), &id, &generated);
    const auto told = static_cast<jlong>(id);
    env->SetLongArrayRegion(ids, 0, 1, &told);
    if (!succeeded(env, context_of(generator), status) || id == 0) return nullptr;
    Out out;
    write(out, generated);
    return out.java(env);
  });
}

// The vectors, and how many tokens each text had.
GRAFT_JNI(jbyteArray, embed)(JNIEnv* env, jclass, jlong pointer, jbyteArray packed) {
  return guarded(env, [&]() -> jbyteArray {
    In in(env, packed);
    std::size_t count = 0;
    const char* const* texts = in.texts(count);
    const float* vectors = nullptr;
    const std::uint32_t* tokens = nullptr;
    auto* embedder = handle_of<graft_embedder>(pointer);
    const graft_status status = graft_embed(embedder, texts, count, &vectors, &tokens);
    return succeeded(env, context_of(pointer), status) ? vectors_of(env, embedder, vectors, count, tokens) : nullptr;
  });
}

GRAFT_JNI(jbyteArray, embedTokens)(JNIEnv* env, jclass, jlong pointer, jbyteArray packed) {
  return guarded(env, [&]() -> jbyteArray {
    In in(env, packed);
    std::vector<const std::int32_t*> ids(in.number<std::size_t>());
    std::vector<std::size_t> counts(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = in.array<std::int32_t>(counts[i]);
    const float* vectors = nullptr;
    auto* embedder = handle_of<graft_embedder>(pointer);
    const graft_status status = graft_embed_tokens(embedder, ids.data(), counts.data(), ids.size(), &vectors);
    return succeeded(env, context_of(pointer), status) ? vectors_of(env, embedder, vectors, ids.size(), nullptr)
                                                       : nullptr;
  });
}

// A sentence a line; "" where all is well.
GRAFT_JNI(jstring, storeVerify)(JNIEnv* env, jclass, jlong store) {
  return guarded(env, [&]() -> jstring {
    const char* problems = nullptr;
    const graft_status status = graft_store_verify(handle_of<graft_store>(store), nullptr, &problems);
    if (status == GRAFT_CORRUPT && problems != nullptr) return java_text(env, problems);
    return succeeded(env, context_of(store), status) ? java_text(env, "") : nullptr;
  });
}
