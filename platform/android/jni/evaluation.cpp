// Evaluations, gates, deltas.
#include "platform/android/jni/options.h"
#include "platform/android/jni/support.h"

namespace graft::jni {
namespace {

graft_evaluation_options read_asked(Fields& fields, const graft_trainer_options* training) {
  auto options = sized<graft_evaluation_options>();
  options.metrics = fields.text("metrics");
  options.confusion = fields.flag("confusion");
  options.outcomes = fields.flag("outcomes");
  options.training = training;
  return options;
}

/// Puts a list of samples into its place.
bool put(JNIEnv* env, jobjectArray lists, jsize place, const uint64_t* samples, size_t count) {
  jlongArray list = java_longs(env, samples, count);
  if (list == nullptr) return false;
  env->SetObjectArrayElement(lists, place, list);
  return true;
}

/// A delta by make(context, delta).
template <typename Make>
jlong make_delta(JNIEnv* env, graft_context* context, Make make) {
  graft_delta* delta = nullptr;
  if (!succeeded(env, context, make(&delta))) return 0;
  return hold(context, delta);
}

}  // namespace
}  // namespace graft::jni

using namespace graft::jni;

GRAFT_JNI(jstring, metricNames)(JNIEnv* env, jclass) {
  return guarded(env, [&] { return java_text(env, graft_metric_names()); });
}

GRAFT_JNI(jlong, evaluateModel)
(JNIEnv* env, jclass, jlong pointer, jlong set, jobject asked, jobject java, jobject lists) {
  return guarded(env, [&]() -> jlong {
    const auto& model = held<graft_model>(pointer);
    TrainingOptions training(env, java, lists);
    if (!training.ok()) return 0;
    Fields fields(env, asked);
    const graft_evaluation_options options = read_asked(fields, training.get());
    if (!fields.ok()) return 0;
    graft_evaluation* made = nullptr;
    const graft_status status = graft_evaluate_model(model.handle, held<graft_data_set>(set).handle, &options, &made);
    return succeeded(env, model.context, status) ? hold(model.context, made) : 0;
  });
}

GRAFT_JNI(jlong, evaluateTrainer)(JNIEnv* env, jclass, jlong pointer, jlong set, jobject asked) {
  return guarded(env, [&]() -> jlong {
    const auto& trainer = held<graft_trainer>(pointer);
    Fields fields(env, asked);
    const graft_evaluation_options options = read_asked(fields, nullptr);
    if (!fields.ok()) return 0;
    graft_evaluation* made = nullptr;
    const graft_status status =
        graft_evaluate_trainer(trainer.handle, held<graft_data_set>(set).handle, &options, &made);
    return succeeded(env, trainer.context, status) ? hold(trainer.context, made) : 0;
  });
}

GRAFT_JNI(void, evaluationDestroy)(JNIEnv*, jclass, jlong pointer) {
  graft_evaluation_destroy(held<graft_evaluation>(pointer).handle);
  delete &held<graft_evaluation>(pointer);
}

// The totals, then the names of classes.
GRAFT_JNI(jobject, evaluationTotals)(JNIEnv* env, jclass, jlong pointer) {
  return guarded(env, [&] {
    const graft_evaluation* evaluation = held<graft_evaluation>(pointer).handle;
    auto totals = sized<graft_totals>();
    (void)graft_evaluation_totals(evaluation, &totals);
    Record record(env);
    record.numbers(totals.samples).reals(totals.loss, totals.accuracy, totals.top5, totals.perplexity);
    for (size_t i = 0; const char* name = graft_evaluation_class(evaluation, i); ++i) record.texts(name);
    return record.java();
  });
}

// Name and value; then by class.
GRAFT_JNI(jobjectArray, evaluationMetrics)(JNIEnv* env, jclass, jlong pointer) {
  return guarded(env, [&]() -> jobjectArray {
    const graft_evaluation* evaluation = held<graft_evaluation>(pointer).handle;
    return java_records(env, [&](size_t i, Record& out) {
      auto metric = sized<graft_metric_value>();
      if (i >= graft_evaluation_count(evaluation)) return false;
      if (graft_evaluation_metric(evaluation, i, &metric) != GRAFT_OK) return false;
      const size_t classes = metric.by_class == nullptr ? 0 : metric.class_count;
      out.texts(metric.name).numbers(classes).reals(metric.value);
      for (size_t c = 0; c < classes; ++c) out.reals(metric.by_class[c]);
      return true;
    });
  });
}

// classes * classes numbers; null unless asked for.
GRAFT_JNI(jlongArray, evaluationConfusion)(JNIEnv* env, jclass, jlong pointer) {
  return guarded(env, [&]() -> jlongArray {
    const uint64_t* counts = nullptr;
    size_t classes = 0;
    if (graft_evaluation_confusion(held<graft_evaluation>(pointer).handle, &counts, &classes) != GRAFT_OK) {
      return nullptr;
    }
    return java_longs(env, counts, classes * classes);
  });
}

// [0]: the counts, and the classes behind them; samples[0..2] become what changed, was lost and gained.
GRAFT_JNI(jobject, evaluationsCompare)(JNIEnv* env, jclass, jlong pointer, jlong before, jobjectArray samples) {
  return guarded(env, [&]() -> jobject {
    const auto& now = held<graft_evaluation>(pointer);
    auto c = sized<graft_comparison>();
    const graft_status status = graft_evaluations_compare(held<graft_evaluation>(before).handle, now.handle, &c);
    if (!succeeded(env, now.context, status)) return nullptr;
    if (!put(env, samples, 0, c.changed, c.changed_count) || !put(env, samples, 1, c.lost, c.lost_count) ||
        !put(env, samples, 2, c.gained, c.gained_count)) {
      return nullptr;
    }
    Record record(env);
    record.numbers(c.samples, c.rows, c.both_right, c.only_old, c.only_new, c.neither, c.exact, c.class_count)
        .reals(c.p_value);
    for (size_t i = 0; i < c.class_count; ++i) {
      const graft_class_change& change = c.classes[i];
      record.numbers(change.label, change.rows, change.old_right, change.new_right);
    }
    return record.java();
  });
}

GRAFT_JNI(jobject, observe)(JNIEnv* env, jclass, jlong pointer, jlong evaluation, jobject java) {
  return guarded(env, [&]() -> jobject {
    const auto& trainer = held<graft_trainer>(pointer);
    Fields fields(env, java);
    auto options = sized<graft_watch_options>();
    options.plateau = fields.text("plateau");
    options.patience = fields.number("patience");
    options.factor = fields.real("factor");
    options.early_stop = fields.text("earlyStop");
    options.stop_patience = fields.number("stopPatience");
    options.min_delta = fields.real("minDelta");
    options.best = fields.text("best");
    if (!fields.ok()) return nullptr;
    auto verdict = sized<graft_verdict>();
    const graft_status status =
        graft_trainer_observe(trainer.handle, held<graft_evaluation>(evaluation).handle, &options, &verdict);
    if (!succeeded(env, trainer.context, status)) return nullptr;
    return Record(env).numbers(verdict.stop, verdict.best, verdict.slower).reals(verdict.learning_rate).java();
  });
}

GRAFT_JNI(jobject, gate)
(JNIEnv* env, jclass, jlong pointer, jlong old, jlong set, jstring conditions, jdouble margin, jobject java,
 jobject lists, jstring path, jobjectArray samples) {
  return guarded(env, [&]() -> jobject {
    const auto& model = held<graft_model>(pointer);
    TrainingOptions training(env, java, lists);
    if (!training.ok()) return nullptr;
    const Text wanted(env, conditions), file(env, path);
    if (!wanted.ok() || !file.ok()) return nullptr;
    auto options = sized<graft_gate_options>();
    options.conditions = wanted.get();
    options.margin = margin;
    options.training = training.get();
    auto result = sized<graft_gate_result>();
    graft_model* before = old == 0 ? nullptr : held<graft_model>(old).handle;
    const graft_status status =
        graft_gate(model.handle, before, held<graft_data_set>(set).handle, &options, file.get(), &result);
    if (!succeeded(env, model.context, status)) return nullptr;
    if (!put(env, samples, 0, result.changed, result.changed_count) ||
        !put(env, samples, 1, result.lost, result.lost_count) ||
        !put(env, samples, 2, result.gained, result.gained_count)) {
      return nullptr;
    }
    return Record(env)
        .numbers(result.passed)
        .reals(result.now, result.before, result.p_value)
        .texts(result.reason)
        .java();
  });
}

GRAFT_JNI(jlong, deltaMake)(JNIEnv* env, jclass, jlong base, jlong updated, jobject java) {
  return guarded(env, [&]() -> jlong {
    const auto& model = held<graft_model>(updated);
    Fields fields(env, java);
    auto options = sized<graft_delta_options>();
    options.samples = fields.number("samples");
    options.local_steps = fields.number("localSteps");
    options.coding = fields.choice<graft_delta_coding>("coding", "Lai/graft/Delta$Coding;");
    options.fixed_bits = fields.count("fixedBits");
    options.room = fields.count("room");
    options.clip_norm = fields.real("clipNorm");
    options.noise = fields.real("noise");
    options.residual = fields.text("residual");
    if (!fields.ok()) return 0;
    return make_delta(env, model.context, [&](graft_delta** delta) {
      return graft_delta_make(held<graft_model>(base).handle, model.handle, &options, delta);
    });
  });
}

GRAFT_JNI(jlong, deltaLoad)(JNIEnv* env, jclass, jlong pointer, jstring path) {
  return guarded(env, [&]() -> jlong {
    const Text file(env, path);
    if (!file.ok()) return 0;
    graft_context* context = held<graft_context>(pointer).handle;
    return make_delta(env, context, [&](graft_delta** delta) { return graft_delta_load(context, file.get(), delta); });
  });
}

GRAFT_JNI(jlong, deltaLoadBytes)(JNIEnv* env, jclass, jlong pointer, jbyteArray file) {
  return guarded(env, [&]() -> jlong {
    graft_context* context = held<graft_context>(pointer).handle;
    std::vector<jbyte> bytes(static_cast<size_t>(env->GetArrayLength(file)));
    env->GetByteArrayRegion(file, 0, static_cast<jsize>(bytes.size()), bytes.data());
    auto source = sized<graft_source>();
    source.kind = GRAFT_SOURCE_MEMORY;
    source.data = bytes.data();
    source.bytes = bytes.size();
    source.copy = 1;
    return make_delta(env, context,
                      [&](graft_delta** delta) { return graft_delta_load_source(context, &source, delta); });
  });
}

GRAFT_JNI(jlong, deltaAverage)(JNIEnv* env, jclass, jlong pointer, jlongArray deltas, jobject java) {
  return guarded(env, [&]() -> jlong {
    graft_context* context = held<graft_context>(pointer).handle;
    std::vector<jlong> pointers(static_cast<size_t>(env->GetArrayLength(deltas)));
    env->GetLongArrayRegion(deltas, 0, static_cast<jsize>(pointers.size()), pointers.data());
    std::vector<graft_delta*> handles;
    for (const jlong one : pointers) handles.push_back(held<graft_delta>(one).handle);
    Fields fields(env, java);
    auto options = sized<graft_average_options>();
    options.equal = fields.flag("equal");
    options.products = fields.flag("products");
    options.rank = fields.count("rank");
    options.noise = fields.real("noise");
    options.clip_norm = fields.real("clipNorm");
    if (!fields.ok()) return 0;
    return make_delta(env, context, [&](graft_delta** delta) {
      return graft_delta_average(context, handles.data(), handles.size(), &options, delta);
    });
  });
}

GRAFT_JNI(void, deltaDestroy)(JNIEnv*, jclass, jlong pointer) {
  graft_delta_destroy(held<graft_delta>(pointer).handle);
  delete &held<graft_delta>(pointer);
}

GRAFT_JNI(void, deltaSave)(JNIEnv* env, jclass, jlong pointer, jstring path) {
  with_text<graft_delta>(env, pointer, path, graft_delta_save);
}

GRAFT_JNI(jbyteArray, deltaBytes)(JNIEnv* env, jclass, jlong pointer) {
  return guarded(env, [&]() -> jbyteArray {
    const auto& delta = held<graft_delta>(pointer);
    const void* data = nullptr;
    size_t bytes = 0;
    if (!succeeded(env, delta.context, graft_delta_bytes(delta.handle, &data, &bytes))) return nullptr;
    return java_bytes(env, data, bytes);
  });
}

GRAFT_JNI(jobject, deltaDescribe)(JNIEnv* env, jclass, jlong pointer) {
  return guarded(env, [&]() -> jobject {
    const auto& delta = held<graft_delta>(pointer);
    auto info = sized<graft_delta_info>();
    if (!succeeded(env, delta.context, graft_delta_describe(delta.handle, &info))) return nullptr;
    return Record(env)
        .numbers(info.of_adapters, info.samples, info.clients, info.local_steps, info.rank, info.coding,
                 info.fixed_bits, info.tensors, info.numbers)
        .reals(info.norm, info.clip_norm, info.noise, info.kept)
        .texts(info.base, info.base_file)
        .java();
  });
}

GRAFT_JNI(jobjectArray, deltaTensors)(JNIEnv* env, jclass, jlong pointer) {
  return guarded(env, [&]() -> jobjectArray {
    graft_delta* delta = held<graft_delta>(pointer).handle;
    std::vector<graft_tensor_info> tensors;
    graft_tensor_info info{};
    while (graft_delta_tensor(delta, tensors.size(), &info) == GRAFT_OK) tensors.push_back(info);
    jobjectArray out = new_infos(env, tensors.size());
    for (size_t i = 0; out != nullptr && i < tensors.size(); ++i) {
      if (env->PushLocalFrame(16) != 0) return nullptr;
      jobject java = java_info(env, tensors[i], nullptr);
      if (java == nullptr) return nullptr;
      env->SetObjectArrayElement(out, static_cast<jsize>(i), java);
      env->PopLocalFrame(nullptr);
    }
    return out;
  });
}

GRAFT_JNI(jfloatArray, deltaNumbers)(JNIEnv* env, jclass, jlong pointer, jstring java_name, jlong count) {
  return guarded(env, [&]() -> jfloatArray {
    const auto& delta = held<graft_delta>(pointer);
    const Text name(env, java_name);
    if (!name.ok()) return nullptr;
    std::vector<float> numbers(static_cast<size_t>(count));
    const graft_status status = graft_delta_numbers(delta.handle, name.get(), numbers.data(), numbers.size());
    return succeeded(env, delta.context, status) ? java_floats(env, numbers.data(), numbers.size()) : nullptr;
  });
}

GRAFT_JNI(jobject, deltaIntegers)(JNIEnv* env, jclass, jlong pointer, jstring java_name) {
  return guarded(env, [&]() -> jobject {
    const auto& delta = held<graft_delta>(pointer);
    const Text name(env, java_name);
    uint32_t* integers = nullptr;
    size_t count = 0;
    if (!name.ok()) return nullptr;
    if (!succeeded(env, delta.context, graft_delta_integers(delta.handle, name.get(), &integers, &count)))
      return nullptr;
    return java_buffer(env, integers, 4 * count);
  });
}

GRAFT_JNI(void, deltaApply)(JNIEnv* env, jclass, jlong pointer, jlong model, jdouble rate) {
  const auto& delta = held<graft_delta>(pointer);
  succeeded(env, delta.context, graft_delta_apply(held<graft_model>(model).handle, delta.handle, rate));
}

GRAFT_JNI(jdouble, deltaPrivacy)
(JNIEnv* env, jclass, jlong pointer, jdouble noise, jdouble share, jlong rounds, jdouble delta) {
  graft_context* context = held<graft_context>(pointer).handle;
  double epsilon = 0;
  succeeded(env, context, graft_delta_privacy(context, noise, share, static_cast<uint64_t>(rounds), delta, &epsilon));
  return epsilon;
}
