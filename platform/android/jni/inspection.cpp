// What is known of models, plans, devices and kept runs.
#include "platform/android/jni/callbacks.h"
#include "platform/android/jni/options.h"
#include "platform/android/jni/support.h"

using namespace graft::jni;

GRAFT_JNI(jobjectArray, layers)(JNIEnv* env, jclass, jlong pointer, jobject lists) {
  return guarded(env, [&]() -> jobjectArray {
    const auto& model = held<graft_model>(pointer);
    Fields fields(env, lists);
    const DimensionSizes sizes(fields);
    if (!fields.ok()) return nullptr;
    const graft_layer* all = nullptr;
    size_t count = 0;
    const graft_status status = graft_model_layers(model.handle, sizes.data(), sizes.size(), &all, &count);
    if (!succeeded(env, model.context, status)) return nullptr;
    return java_records(env, [&](size_t i, Record& out) {
      if (i >= count) return false;
      const graft_layer& layer = all[i];
      out.texts(layer.name, layer.op, layer.shape).numbers(layer.parameters, layer.bytes, layer.flops);
      return true;
    });
  });
}

// `training` and `session`: one of them, with its lists, or null.
GRAFT_JNI(jlong, planCreate)
(JNIEnv* env, jclass, jlong pointer, jobject training, jobject session, jobject lists, jstring java_caps,
 jboolean curve) {
  return guarded(env, [&]() -> jlong {
    const auto& model = held<graft_model>(pointer);
    const Text caps(env, java_caps);
    if (!caps.ok()) return 0;
    auto options = sized<graft_plan_options>();
    options.caps = caps.get();
    options.curve = curve;
    graft_plan* plan = nullptr;
    if (training != nullptr) {
      TrainingOptions read(env, training, lists);
      if (!read.ok()) return 0;
      options.training = read.get();
      return succeeded(env, model.context, graft_plan_create(model.handle, &options, &plan)) ? hold(model.context, plan)
                                                                                             : 0;
    }
    const PlannedOptions read(env, session, lists);
    if (!read.ok()) return 0;
    options.session = read.get();
    return succeeded(env, model.context, graft_plan_create(model.handle, &options, &plan)) ? hold(model.context, plan)
                                                                                           : 0;
  });
}

GRAFT_JNI(void, planDestroy)(JNIEnv*, jclass, jlong pointer) {
  graft_plan_destroy(held<graft_plan>(pointer).handle);
  delete &held<graft_plan>(pointer);
}

GRAFT_JNI(jobject, planForecast)(JNIEnv* env, jclass, jlong pointer) {
  return guarded(env, [&]() -> jobject {
    const auto& plan = held<graft_plan>(pointer);
    auto forecast = sized<graft_forecast>();
    return succeeded(env, plan.context, graft_plan_forecast(plan.handle, &forecast)) ? new_forecast(env, forecast)
                                                                                     : nullptr;
  });
}

GRAFT_JNI(jobjectArray, planNodes)(JNIEnv* env, jclass, jlong pointer) {
  return guarded(env, [&]() -> jobjectArray {
    const graft_plan* plan = held<graft_plan>(pointer).handle;
    return java_records(env, [&](size_t i, Record& out) {
      auto node = sized<graft_plan_node>();
      if (i >= graft_plan_node_count(plan) || graft_plan_node_at(plan, i, &node) != GRAFT_OK) return false;
      out.texts(node.name, node.op)
          .numbers(node.backward, node.recomputed, node.flops, node.bytes, node.scratch_bytes, node.live_bytes,
                   node.dispatches);
      return true;
    });
  });
}

GRAFT_JNI(jobjectArray, planValues)(JNIEnv* env, jclass, jlong pointer) {
  return guarded(env, [&]() -> jobjectArray {
    const graft_plan* plan = held<graft_plan>(pointer).handle;
    return java_records(env, [&](size_t i, Record& out) {
      auto value = sized<graft_plan_value>();
      if (i >= graft_plan_value_count(plan) || graft_plan_value_at(plan, i, &value) != GRAFT_OK) return false;
      out.texts(value.name, value.memory_class)
          .numbers(value.offset, value.bytes, value.first, value.last, value.saved);
      return true;
    });
  });
}

// None where the curve was not asked for.
GRAFT_JNI(jobjectArray, planCurve)(JNIEnv* env, jclass, jlong pointer) {
  return guarded(env, [&]() -> jobjectArray {
    const graft_plan_point* points = nullptr;
    size_t count = 0;
    if (graft_plan_curve(held<graft_plan>(pointer).handle, &points, &count) != GRAFT_OK) count = 0;
    return java_records(env, [&](size_t i, Record& out) {
      if (i >= count) return false;
      const graft_plan_point& point = points[i];
      out.numbers(point.bytes, point.extra_flops, point.extra_bytes, point.recomputed);
      return true;
    });
  });
}

GRAFT_JNI(jobjectArray, findDamage)(JNIEnv* env, jclass, jlong pointer) {
  return guarded(env, [&]() -> jobjectArray {
    const auto& model = held<graft_model>(pointer);
    const graft_damage* all = nullptr;
    size_t count = 0;
    if (!succeeded(env, model.context, graft_model_find_damage(model.handle, &all, &count))) return nullptr;
    return java_records(env, [&](size_t i, Record& out) {
      if (i >= count) return false;
      const graft_damage& damage = all[i];
      out.texts(damage.weight).numbers(damage.first_byte, damage.last_byte);
      return true;
    });
  });
}

GRAFT_JNI(jobjectArray, verify)(JNIEnv* env, jclass, jlong pointer, jobject lists, jlong seed, jdouble tolerance) {
  return guarded(env, [&]() -> jobjectArray {
    const auto& model = held<graft_model>(pointer);
    Fields fields(env, lists);
    const DimensionSizes sizes(fields);
    if (!fields.ok()) return nullptr;
    auto options = sized<graft_verify_options>();
    options.bindings = sizes.data();
    options.binding_count = sizes.size();
    options.seed = static_cast<uint64_t>(seed);
    options.tolerance = tolerance;
    struct Told {
      std::string node, op, failure;
      double forward, gradient;
      int passed;
    };
    std::vector<Told> told;
    const auto note = [](void* user, const graft_node_verdict* verdict) {
      static_cast<std::vector<Told>*>(user)->push_back(
          {verdict->node, verdict->op, verdict->failure, verdict->forward, verdict->gradient, verdict->passed});
      return 0;
    };
    const graft_status status = graft_model_verify(model.handle, &options, note, &told, nullptr, nullptr);
    // Where some differ, the verdicts say which.
    if ((status != GRAFT_DEVICE_ERROR || told.empty()) && !succeeded(env, model.context, status)) return nullptr;
    return java_records(env, [&](size_t i, Record& out) {
      if (i >= told.size()) return false;
      const Told& one = told[i];
      out.texts(one.node.c_str(), one.op.c_str(), one.failure.c_str())
          .numbers(one.passed)
          .reals(one.forward, one.gradient);
      return true;
    });
  });
}

// `known`: those that a cache knows, without a test.
GRAFT_JNI(jobjectArray, kernels)(JNIEnv* env, jclass, jlong pointer, jboolean known) {
  return guarded(env, [&]() -> jobjectArray {
    graft_context* context = held<graft_context>(pointer).handle;
    struct Told {
      std::string kernel, why;
      int verdict;
    };
    std::vector<Told> told;
    const auto note = [](void* user, const char* kernel, graft_kernel_verdict verdict, const char* why) {
      static_cast<std::vector<Told>*>(user)->push_back({kernel, why, verdict});
    };
    const graft_status status = known == JNI_TRUE ? graft_context_known_kernels(context, note, &told)
                                                  : graft_context_self_test(context, note, &told);
    if (!succeeded(env, context, status)) return nullptr;
    return java_records(env, [&](size_t i, Record& out) {
      if (i >= told.size()) return false;
      out.texts(told[i].kernel.c_str(), told[i].why.c_str()).numbers(told[i].verdict);
      return true;
    });
  });
}

namespace graft::jni {
namespace {

/// Facts of a device behind its description: is it a feature, how many numbers, the numbers; its name and text.
void add_facts(graft_devices* devices, size_t index, Record& out) {
  auto fact = sized<graft_device_fact>();
  size_t facts = 0;
  while (graft_devices_fact(devices, index, facts, &fact) == GRAFT_OK) ++facts;
  out.numbers(facts);
  for (size_t f = 0; f < facts && graft_devices_fact(devices, index, f, &fact) == GRAFT_OK; ++f) {
    out.texts(fact.name, fact.text).numbers(fact.is_feature, fact.value_count);
    for (uint32_t v = 0; v < fact.value_count; ++v) out.numbers(fact.values[v]);
  }
  auto quirk = sized<graft_device_quirk>();
  for (size_t q = 0; graft_devices_quirk(devices, index, q, &quirk) == GRAFT_OK; ++q) {
    out.texts(quirk.name, quirk.action, quirk.reason, quirk.link);
  }
}

}  // namespace
}  // namespace graft::jni

GRAFT_JNI(jobjectArray, devices)(JNIEnv* env, jclass, jstring library) {
  return guarded(env, [&]() -> jobjectArray {
    const Text path(env, library);
    if (!path.ok()) return nullptr;
    auto options = sized<graft_context_options>();
    options.vulkan_library = path.get();
    graft_devices* found = nullptr;
    const graft_status status = graft_devices_find(&options, &found);
    if (status != GRAFT_OK) {
      throw_status(env, status, found == nullptr ? "Out of memory." : graft_devices_message(found));
      graft_devices_destroy(found);
      return nullptr;
    }
    jobjectArray out = java_records(env, [&](size_t i, Record& record) {
      auto info = sized<graft_device_info>();
      if (i >= graft_devices_count(found) || graft_devices_info(found, i, &info) != GRAFT_OK) return false;
      record.texts(info.name, info.driver, info.driver_info)
          .numbers(info.type, info.vendor_id, info.device_id, info.api_version[0], info.api_version[1],
                   info.api_version[2], info.memory, info.largest_heap, info.unified_memory, info.timestamps);
      add_facts(found, i, record);
      return true;
    });
    graft_devices_destroy(found);
    return out;
  });
}

namespace graft::jni {
namespace {

void add(Record& out, const graft_snapshot& snapshot) {
  out.numbers(snapshot.number, snapshot.step, snapshot.made_ms, snapshot.bytes, snapshot.stored_bytes,
              snapshot.own_bytes, snapshot.is_head)
      .reals(snapshot.loss)
      .texts(snapshot.tags);
}

}  // namespace
}  // namespace graft::jni

GRAFT_JNI(jlong, storeOpen)
(JNIEnv* env, jclass, jlong pointer, jstring folder, jboolean writable, jlong callbacks) {
  return guarded(env, [&]() -> jlong {
    graft_context* context = held<graft_context>(pointer).handle;
    const Text path(env, folder);
    if (!path.ok()) return 0;
    graft_cipher place{};
    auto options = sized<graft_store_options>();
    options.writable = writable;
    if (callbacks != 0) {
      if (!Callbacks::of(callbacks)->fill(env, place)) return 0;
      options.cipher = &place;
    }
    graft_store* store = nullptr;
    return succeeded(env, context, graft_store_open(context, path.get(), &options, &store)) ? hold(context, store) : 0;
  });
}

GRAFT_JNI(void, storeDestroy)(JNIEnv*, jclass, jlong pointer) {
  graft_store_destroy(held<graft_store>(pointer).handle);
  delete &held<graft_store>(pointer);
}

GRAFT_JNI(jobjectArray, storeSnapshots)(JNIEnv* env, jclass, jlong pointer) {
  return guarded(env, [&]() -> jobjectArray {
    graft_store* store = held<graft_store>(pointer).handle;
    return java_records(env, [&](size_t i, Record& out) {
      auto snapshot = sized<graft_snapshot>();
      if (i >= graft_store_count(store) || graft_store_snapshot(store, i, &snapshot) != GRAFT_OK) return false;
      add(out, snapshot);
      return true;
    });
  });
}

GRAFT_JNI(jobject, storeFind)(JNIEnv* env, jclass, jlong pointer, jstring java) {
  return guarded(env, [&]() -> jobject {
    const auto& store = held<graft_store>(pointer);
    const Text name(env, java);
    auto snapshot = sized<graft_snapshot>();
    if (!name.ok()) return nullptr;
    if (!succeeded(env, store.context, graft_store_find(store.handle, name.get(), &snapshot))) return nullptr;
    Record out(env);
    add(out, snapshot);
    return out.java();
  });
}

GRAFT_JNI(jstring, storeMetadata)(JNIEnv* env, jclass, jlong pointer, jstring java_name, jstring java_key) {
  return guarded(env, [&]() -> jstring {
    const auto& store = held<graft_store>(pointer);
    const Text name(env, java_name), key(env, java_key);
    const char* value = nullptr;
    if (!name.ok() || !key.ok()) return nullptr;
    const graft_status status = graft_store_metadata(store.handle, name.get(), key.get(), &value);
    return succeeded(env, store.context, status) ? java_text(env, value) : nullptr;
  });
}

// A sentence a line; "" where all is well.
GRAFT_JNI(jstring, storeVerify)(JNIEnv* env, jclass, jlong pointer) {
  return guarded(env, [&]() -> jstring {
    const auto& store = held<graft_store>(pointer);
    const char* problems = nullptr;
    const graft_status status = graft_store_verify(store.handle, nullptr, &problems);
    if (status == GRAFT_CORRUPT && problems != nullptr) return java_text(env, problems);
    return succeeded(env, store.context, status) ? java_text(env, "") : nullptr;
  });
}

GRAFT_JNI(jobjectArray, storeDiff)(JNIEnv* env, jclass, jlong pointer, jstring first, jstring second) {
  return guarded(env, [&]() -> jobjectArray {
    const auto& store = held<graft_store>(pointer);
    const Text one(env, first), other(env, second);
    if (!one.ok() || !other.ok()) return nullptr;
    const graft_stream_difference* all = nullptr;
    size_t count = 0;
    const graft_status status = graft_store_diff(store.handle, one.get(), other.get(), &all, &count);
    if (!succeeded(env, store.context, status)) return nullptr;
    return java_records(env, [&](size_t i, Record& out) {
      if (i >= count) return false;
      const graft_stream_difference& stream = all[i];
      out.texts(stream.name)
          .numbers(stream.worker, stream.difference, stream.bytes_in_first, stream.bytes_in_second,
                   stream.changed_bytes);
      return true;
    });
  });
}

GRAFT_JNI(jlong, storeRestore)(JNIEnv* env, jclass, jlong pointer, jstring java, jlong model) {
  return guarded(env, [&]() -> jlong {
    const auto& store = held<graft_store>(pointer);
    const Text name(env, java);
    size_t tensors = 0;
    if (!name.ok()) return 0;
    succeeded(env, store.context,
              graft_store_restore(store.handle, name.get(), held<graft_model>(model).handle, &tensors));
    return static_cast<jlong>(tensors);
  });
}

GRAFT_JNI(void, storeTag)(JNIEnv* env, jclass, jlong pointer, jstring java_name, jstring java_tag, jboolean away) {
  guarded(env, [&] {
    const auto& store = held<graft_store>(pointer);
    const Text name(env, java_name), tag(env, java_tag);
    if (!name.ok() || !tag.ok()) return;
    succeeded(env, store.context,
              away == JNI_TRUE ? graft_store_untag(store.handle, name.get(), tag.get())
                               : graft_store_tag(store.handle, name.get(), tag.get()));
  });
}

GRAFT_JNI(jlong, storePrune)(JNIEnv* env, jclass, jlong pointer, jlong keep) {
  const auto& store = held<graft_store>(pointer);
  size_t removed = 0;
  succeeded(env, store.context, graft_store_prune(store.handle, static_cast<size_t>(keep), &removed, nullptr));
  return static_cast<jlong>(removed);
}

GRAFT_JNI(void, storeBranch)(JNIEnv* env, jclass, jlong pointer, jstring name) {
  with_text<graft_store>(env, pointer, name, graft_store_branch);
}
