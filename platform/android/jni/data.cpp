// Data sets and loaders.
#include <algorithm>
#include <limits>

#include "platform/android/jni/callbacks.h"
#include "platform/android/jni/support.h"

namespace graft::jni {
namespace {

/// What ai.graft.DataSet.Parts says of samples; an exception is pending where ok() says false.
class Parts {
 public:
  Parts(JNIEnv* env, jobject java) : fields_(env, java) {
    const Texts& names = fields_.texts("names");
    const auto types = fields_.ints("types"), roles = fields_.ints("roles"), ranks = fields_.ints("ranks");
    auto dims = fields_.reals("dims");
    for (size_t i = 0; i < names.size() && fields_.ok(); ++i) {
      graft_field field{};
      field.name = names.data()[i];
      field.dtype = static_cast<graft_dtype>(types[i]);
      field.rank = static_cast<uint32_t>(ranks[i]);
      field.is_label = roles[i];
      const size_t bytes = types[i] <= GRAFT_BOOL32 ? 4 : types[i] <= GRAFT_I8 ? 1 : 2;
      double total = static_cast<double>(bytes);
      for (size_t axis = 0; axis < std::min<size_t>(field.rank, GRAFT_MAX_RANK); ++axis) {
        field.dims[axis] = static_cast<int64_t>(dims[axis]);
        total *= dims[axis];
      }
      dims = dims.subspan(field.rank);
      parts_.push_back(field);
      if (!(total >= 0 && total <= std::numeric_limits<jint>::max())) {
        throw_status(env, GRAFT_UNSUPPORTED,
                     std::string("\"") + field.name + "\" takes more than a ByteBuffer can hold.");
        ok_ = false;
      }
      sizes_.push_back(static_cast<size_t>(total));
    }
  }
  bool ok() const { return ok_ && fields_.ok(); }
  const graft_field* data() const { return parts_.data(); }
  size_t size() const { return parts_.size(); }
  const std::vector<size_t>& sizes() const { return sizes_; }

 private:
  Fields fields_;
  bool ok_ = true;
  std::vector<graft_field> parts_;
  std::vector<size_t> sizes_;
};

/// A loader, and the contents of its last batch. It is a Held<graft_loader> as well: what other methods take.
struct HeldLoader : Held<graft_loader> {
  const graft_data_set* set = nullptr;
  std::vector<std::pair<const void*, size_t>> places;
};

HeldLoader& held_loader(jlong pointer) { return static_cast<HeldLoader&>(held<graft_loader>(pointer)); }

/// A data set by open(context, set).
template <typename Open>
jlong open_data(JNIEnv* env, jlong pointer, Open open) {
  graft_context* context = held<graft_context>(pointer).handle;
  graft_data_set* set = nullptr;
  if (!succeeded(env, context, open(context, &set))) return 0;
  return hold(context, set);
}

}  // namespace
}  // namespace graft::jni

using namespace graft::jni;

GRAFT_JNI(jlong, dataOpen)(JNIEnv* env, jclass, jlong pointer, jstring java) {
  return guarded(env, [&]() -> jlong {
    const Text spec(env, java);
    if (!spec.ok()) return 0;
    return open_data(env, pointer,
                     [&](auto* context, auto** set) { return graft_data_open(context, spec.get(), set); });
  });
}

GRAFT_JNI(jlong, dataOpenWith)(JNIEnv* env, jclass, jlong pointer, jstring java, jobject java_options, jlong model) {
  return guarded(env, [&]() -> jlong {
    const Text spec(env, java);
    if (!spec.ok()) return 0;
    Fields fields(env, java_options);
    auto options = sized<graft_data_options>();
    options.model = model == 0 ? nullptr : held<graft_model>(model).handle;
    options.evaluation = fields.flag("evaluation");
    options.length = static_cast<int64_t>(fields.number("length"));
    options.sequence_starts = fields.flag("sequenceStarts");
    options.first = fields.number("first");
    options.count = fields.number("count");
    options.preference = fields.choice<graft_preference>("preference", "Lai/graft/DataSet$Preference;");
    options.pooling = fields.choice<graft_pooling>("pooling", "Lai/graft/Pooling;");
    if (!fields.ok()) return 0;
    return open_data(env, pointer, [&](auto* context, auto** set) {
      return graft_data_open_with(context, spec.get(), &options, set);
    });
  });
}

GRAFT_JNI(jlong, dataFromMemory)(JNIEnv* env, jclass, jlong pointer, jobject java, jobjectArray data, jlong samples) {
  return guarded(env, [&]() -> jlong {
    const Parts parts(env, java);
    if (!parts.ok()) return 0;
    Blocks blocks(env);
    if (!blocks.add_all(data)) return 0;
    return open_data(env, pointer, [&](auto* context, auto** set) {
      return graft_data_from_memory(context, parts.data(), parts.size(), blocks.data(), static_cast<uint64_t>(samples),
                                    set);
    });
  });
}

GRAFT_JNI(jlong, dataFromReader)
(JNIEnv* env, jclass, jlong pointer, jobject java, jlong samples, jlong callbacks) {
  return guarded(env, [&]() -> jlong {
    const Parts parts(env, java);
    if (!parts.ok()) return 0;
    Callbacks* reader = Callbacks::of(callbacks);
    reader->set_sizes(parts.sizes());
    return open_data(env, pointer, [&](auto* context, auto** set) {
      return graft_data_from_callback(context, parts.data(), parts.size(), static_cast<uint64_t>(samples),
                                      Callbacks::read, reader, set);
    });
  });
}

GRAFT_JNI(void, dataDestroy)(JNIEnv*, jclass, jlong pointer) {
  graft_data_destroy(held<graft_data_set>(pointer).handle);
  delete &held<graft_data_set>(pointer);
}

GRAFT_JNI(jlong, dataSamples)(JNIEnv*, jclass, jlong pointer) {
  return static_cast<jlong>(graft_data_samples(held<graft_data_set>(pointer).handle));
}

// Type, role and shape; name and classes.
GRAFT_JNI(jobjectArray, dataFields)(JNIEnv* env, jclass, jlong pointer) {
  return guarded(env, [&]() -> jobjectArray {
    const graft_data_set* set = held<graft_data_set>(pointer).handle;
    const size_t count = graft_data_field_count(set);
    return java_records(env, [&](size_t i, Record& out) {
      graft_field field{};
      if (i >= count || graft_data_field(set, i, &field) != GRAFT_OK) return false;
      out.numbers(field.dtype, field.is_label).texts(field.name);
      for (uint32_t axis = 0; axis < field.rank; ++axis) out.numbers(field.dims[axis]);
      for (size_t c = 0; const char* name = graft_data_class(set, i, c); ++c) out.texts(name);
      return true;
    });
  });
}

GRAFT_JNI(void, dataAddReference)(JNIEnv* env, jclass, jlong pointer, jlong model, jint batch) {
  const auto& set = held<graft_data_set>(pointer);
  succeeded(env, set.context,
            graft_data_add_reference(set.handle, held<graft_model>(model).handle, static_cast<uint32_t>(batch)));
}

GRAFT_JNI(void, keepClasses)(JNIEnv* env, jclass, jlong pointer, jlong set) {
  const auto& model = held<graft_model>(pointer);
  succeeded(env, model.context, graft_model_keep_classes(model.handle, held<graft_data_set>(set).handle));
}

GRAFT_JNI(jobjectArray, modelClasses)(JNIEnv* env, jclass, jlong pointer) {
  return guarded(env, [&]() -> jobjectArray {
    graft_model* model = held<graft_model>(pointer).handle;
    std::vector<std::string> names;
    while (const char* name = graft_model_class(model, names.size())) names.emplace_back(name);
    jobjectArray out = new_texts(env, names.size());
    for (size_t i = 0; out != nullptr && i < names.size(); ++i) {
      jstring text = java_text(env, names[i]);
      if (text == nullptr) return nullptr;
      env->SetObjectArrayElement(out, static_cast<jsize>(i), text);
      env->DeleteLocalRef(text);
    }
    return out;
  });
}

GRAFT_JNI(jlong, loaderCreate)(JNIEnv* env, jclass, jlong pointer, jobject java) {
  return guarded(env, [&]() -> jlong {
    const auto& set = held<graft_data_set>(pointer);
    Fields fields(env, java);
    auto options = sized<graft_loader_options>();
    options.batch = fields.number("batch");
    options.seed = fields.bits64("seed");
    options.in_order = fields.flag("inOrder");
    options.drop_last = fields.flag("dropLast");
    options.epochs = fields.number("epochs");
    options.shuffle_buffer = fields.number("shuffleBuffer");
    options.memory_limit = fields.number("memoryLimit");
    options.read_threads = fields.count("readThreads");
    if (!fields.ok()) return 0;
    graft_loader* loader = nullptr;
    if (!succeeded(env, set.context, graft_loader_create(set.handle, &options, &loader))) return 0;
    auto* made = new HeldLoader{{set.context, loader}, set.handle, {}};
    return reinterpret_cast<jlong>(static_cast<Held<graft_loader>*>(made));
  });
}

GRAFT_JNI(void, loaderDestroy)(JNIEnv*, jclass, jlong pointer) {
  auto* loader = &held_loader(pointer);
  graft_loader_destroy(loader->handle);
  delete loader;
}

// Null where the epochs are over.
GRAFT_JNI(jobject, loaderNext)(JNIEnv* env, jclass, jlong pointer) {
  return guarded(env, [&]() -> jobject {
    auto& loader = held_loader(pointer);
    auto batch = sized<graft_batch>();
    if (!succeeded(env, loader.context, graft_loader_next(loader.handle, &batch)) || batch.samples == 0) return nullptr;
    loader.places.clear();
    for (size_t i = 0; i < graft_data_field_count(loader.set); ++i) {
      graft_field field{};
      if (graft_data_field(loader.set, i, &field) != GRAFT_OK) continue;
      size_t bytes = field.dtype <= GRAFT_BOOL32 ? 4 : field.dtype <= GRAFT_I8 ? 1 : 2;
      for (uint32_t axis = 0; axis < field.rank; ++axis) bytes *= static_cast<size_t>(field.dims[axis]);
      loader.places.emplace_back(batch.fields[i], bytes * batch.samples);
    }
    return Record(env).numbers(batch.samples, batch.epoch, batch.last_of_epoch).java();
  });
}

// The contents of the fields of the last batch.
GRAFT_JNI(jobjectArray, loaderFields)(JNIEnv* env, jclass, jlong pointer) {
  return guarded(env, [&]() -> jobjectArray {
    const auto& loader = held_loader(pointer);
    jobjectArray out = java_buffer_array(env, loader.places.size());
    for (size_t i = 0; out != nullptr && i < loader.places.size(); ++i) {
      jobject buffer = java_buffer(env, loader.places[i].first, loader.places[i].second);
      if (buffer == nullptr) return nullptr;
      env->SetObjectArrayElement(out, static_cast<jsize>(i), buffer);
      env->DeleteLocalRef(buffer);
    }
    return out;
  });
}

GRAFT_JNI(jobject, trainNext)(JNIEnv* env, jclass, jlong pointer, jlong loader) {
  return guarded(env, [&]() -> jobject {
    const auto& trainer = held<graft_trainer>(pointer);
    auto metrics = sized<graft_metrics>();
    int more = 0;
    const graft_status status = graft_train_next(trainer.handle, held<graft_loader>(loader).handle, &more, &metrics);
    return succeeded(env, trainer.context, status) && more != 0 ? new_metrics(env, metrics) : nullptr;
  });
}

GRAFT_JNI(jobject, evaluateData)(JNIEnv* env, jclass, jlong pointer, jlong set) {
  return guarded(env, [&]() -> jobject {
    const auto& trainer = held<graft_trainer>(pointer);
    auto metrics = sized<graft_metrics>();
    const graft_status status = graft_evaluate_data(trainer.handle, held<graft_data_set>(set).handle, &metrics);
    return succeeded(env, trainer.context, status) ? new_metrics(env, metrics) : nullptr;
  });
}
