// Training: forecasts, trainers, checkpoints.
#include <cstdint>

#include "platform/android/jni/callbacks.h"
#include "platform/android/jni/options.h"
#include "platform/android/jni/support.h"

namespace graft::jni {
namespace {

/// What microStep leaves as the number of a step that goes on.
constexpr uint64_t kGoesOn = ~uint64_t{0};

/// A cipher over `callbacks`, or null where there are none; false where an exception is pending.
bool read_cipher(JNIEnv* env, jlong callbacks, graft_cipher& place, const graft_cipher*& cipher) {
  cipher = nullptr;
  if (callbacks == 0) return true;
  cipher = &place;
  return Callbacks::of(callbacks)->fill(env, place);
}

/// ask(trainer, inputs, input_count, target, samples, metrics) over the blocks, of which the last is the target. Null
/// after a failure, and where `ask` says that the step goes on.
template <typename Ask>
jobject with_samples(JNIEnv* env, jlong pointer, jobjectArray data, jint samples, Ask ask) {
  return guarded(env, [&]() -> jobject {
    Blocks blocks(env);
    if (!blocks.add_all(data)) return nullptr;
    const auto& trainer = held<graft_trainer>(pointer);
    const size_t inputs = blocks.size() - 1;
    auto metrics = sized<graft_metrics>();
    const graft_status status =
        ask(trainer.handle, blocks.data(), inputs, blocks.data()[inputs], static_cast<uint32_t>(samples), &metrics);
    if (!succeeded(env, trainer.context, status) || metrics.step == kGoesOn) return nullptr;
    return new_metrics(env, metrics);
  });
}

bool not_negative(JNIEnv* env, const char* what, jlong bytes) {
  if (bytes >= 0) return true;
  guarded(env, [&] {
    throw_status(env, GRAFT_INVALID_ARGUMENT,
                 std::string("The ") + what + " is " + std::to_string(bytes) + "; it must not be negative.");
  });
  return false;
}

}  // namespace
}  // namespace graft::jni

using namespace graft::jni;

GRAFT_JNI(jobject, forecast)(JNIEnv* env, jclass, jlong pointer, jobject java, jobject lists) {
  return guarded(env, [&]() -> jobject {
    const auto& model = held<graft_model>(pointer);
    TrainingOptions options(env, java, lists);
    if (!options.ok()) return nullptr;
    auto forecast = sized<graft_forecast>();
    const graft_status made = graft_forecast_training(model.handle, options.get(), &forecast);
    return succeeded(env, model.context, made) ? new_forecast(env, forecast) : nullptr;
  });
}

GRAFT_JNI(jlong, trainerCreate)(JNIEnv* env, jclass, jlong pointer, jobject java, jobject lists) {
  return guarded(env, [&]() -> jlong {
    const auto& model = held<graft_model>(pointer);
    TrainingOptions options(env, java, lists);
    if (!options.ok()) return 0;
    graft_trainer* trainer = nullptr;
    if (!succeeded(env, model.context, graft_trainer_create(model.handle, options.get(), &trainer))) return 0;
    return hold(model.context, trainer);
  });
}

GRAFT_JNI(void, trainerDestroy)(JNIEnv*, jclass, jlong pointer) {
  graft_trainer_destroy(held<graft_trainer>(pointer).handle);
  delete &held<graft_trainer>(pointer);
}

GRAFT_JNI(jobjectArray, trainerSample)(JNIEnv* env, jclass, jlong pointer) {
  return guarded(env, [&]() -> jobjectArray {
    const graft_trainer* trainer = held<graft_trainer>(pointer).handle;
    std::vector<graft_tensor_info> parts;
    graft_tensor_info info{};
    while (graft_trainer_sample(trainer, parts.size(), &info) == GRAFT_OK) parts.push_back(info);
    jobjectArray out = new_infos(env, parts.size());
    for (size_t i = 0; out != nullptr && i < parts.size(); ++i) {
      jobject java = java_info(env, parts[i], nullptr);
      if (java == nullptr) return nullptr;
      env->SetObjectArrayElement(out, static_cast<jsize>(i), java);
    }
    return out;
  });
}

GRAFT_JNI(jlongArray, trainerMemory)(JNIEnv* env, jclass, jlong pointer) {
  return memory_of(env, held<graft_trainer>(pointer), graft_trainer_memory);
}

GRAFT_JNI(jobject, trainStep)(JNIEnv* env, jclass, jlong pointer, jobjectArray data, jint samples) {
  return with_samples(env, pointer, data, samples, graft_train_step);
}

GRAFT_JNI(jobject, microStep)(JNIEnv* env, jclass, jlong pointer, jobjectArray data, jint samples) {
  return with_samples(
      env, pointer, data, samples, [](auto* trainer, auto inputs, auto count, auto target, auto n, auto* out) {
        int done = 0;
        const graft_status status = graft_train_micro_step(trainer, inputs, count, target, n, &done, out);
        if (done == 0) out->step = kGoesOn;
        return status;
      });
}

GRAFT_JNI(jobject, evaluate)(JNIEnv* env, jclass, jlong pointer, jobjectArray data, jint samples) {
  return with_samples(env, pointer, data, samples, graft_evaluate);
}

GRAFT_JNI(jobject, fetch)(JNIEnv* env, jclass, jlong pointer, jstring name) {
  return value_of(env, held<graft_trainer>(pointer), name, graft_trainer_fetch);
}

GRAFT_JNI(void, store)(JNIEnv* env, jclass, jlong pointer) {
  const auto& trainer = held<graft_trainer>(pointer);
  succeeded(env, trainer.context, graft_trainer_store(trainer.handle));
}

GRAFT_JNI(void, storeEma)(JNIEnv* env, jclass, jlong pointer) {
  const auto& trainer = held<graft_trainer>(pointer);
  succeeded(env, trainer.context, graft_trainer_store_ema(trainer.handle));
}

GRAFT_JNI(void, setBudget)(JNIEnv* env, jclass, jlong pointer, jlong bytes) {
  if (!not_negative(env, "budget", bytes)) return;
  const auto& trainer = held<graft_trainer>(pointer);
  succeeded(env, trainer.context, graft_trainer_set_budget(trainer.handle, static_cast<uint64_t>(bytes)));
}

GRAFT_JNI(void, pause)(JNIEnv* env, jclass, jlong pointer) {
  const auto& trainer = held<graft_trainer>(pointer);
  succeeded(env, trainer.context, graft_trainer_pause(trainer.handle));
}

GRAFT_JNI(void, trainerResume)(JNIEnv* env, jclass, jlong pointer) {
  const auto& trainer = held<graft_trainer>(pointer);
  succeeded(env, trainer.context, graft_trainer_resume(trainer.handle));
}

GRAFT_JNI(void, trim)(JNIEnv* env, jclass, jlong pointer, jlong bytes) {
  if (!not_negative(env, "number of bytes", bytes)) return;
  const auto& trainer = held<graft_trainer>(pointer);
  succeeded(env, trainer.context, graft_trainer_trim(trainer.handle, static_cast<uint64_t>(bytes)));
}

GRAFT_JNI(jlong, shortages)(JNIEnv* env, jclass, jlong pointer) {
  const auto& trainer = held<graft_trainer>(pointer);
  uint64_t count = 0;
  succeeded(env, trainer.context, graft_trainer_shortages(trainer.handle, &count));
  return static_cast<jlong>(count);
}

GRAFT_JNI(jdouble, learningRate)(JNIEnv* env, jclass, jlong pointer) {
  const auto& trainer = held<graft_trainer>(pointer);
  double rate = 0;
  succeeded(env, trainer.context, graft_trainer_learning_rate(trainer.handle, &rate));
  return rate;
}

GRAFT_JNI(void, setLearningRate)(JNIEnv* env, jclass, jlong pointer, jdouble rate) {
  const auto& trainer = held<graft_trainer>(pointer);
  succeeded(env, trainer.context, graft_trainer_set_learning_rate(trainer.handle, rate));
}

GRAFT_JNI(jobject, trainerRead)(JNIEnv* env, jclass, jlong pointer, jstring name) {
  return read_weight(env, held<graft_trainer>(pointer), name, graft_trainer_read);
}

GRAFT_JNI(void, trainerWrite)(JNIEnv* env, jclass, jlong pointer, jstring name, jobject data) {
  write_weight(env, held<graft_trainer>(pointer), name, data, graft_trainer_write);
}

GRAFT_JNI(jobject, openCheckpoint)
(JNIEnv* env, jclass, jlong pointer, jobject java, jobjectArray keys, jobjectArray values, jlong callbacks,
 jlong loader) {
  return guarded(env, [&]() -> jobject {
    const auto& trainer = held<graft_trainer>(pointer);
    const Texts names(env, keys);
    if (!names.ok()) return nullptr;
    const Texts contents(env, values);
    if (!contents.ok()) return nullptr;
    std::vector<graft_pair> metadata;
    for (size_t i = 0; i < names.size(); ++i) metadata.push_back({names.data()[i], contents.data()[i]});
    Fields fields(env, java);
    auto options = sized<graft_checkpoint_options>();
    options.folder = fields.text("folder");
    options.every = fields.number("every");
    options.journal_every = fields.number("journalEvery");
    options.journal_ms = fields.number("journalMs");
    options.keep = fields.count("keep");
    options.resume = fields.flag("resume");
    options.from = fields.text("from");
    options.with_changes = fields.flag("withChanges");
    options.continue_on_mismatch = fields.flag("continueOnMismatch");
    options.allow_non_finite = fields.flag("allowNonFinite");
    options.data = fields.text("data");
    options.metadata = metadata.data();
    options.metadata_count = metadata.size();
    options.loader = loader == 0 ? nullptr : held<graft_loader>(loader).handle;
    if (!fields.ok()) return nullptr;
    graft_cipher cipher{};
    if (!read_cipher(env, callbacks, cipher, options.cipher)) return nullptr;
    auto info = sized<graft_checkpoint_info>();
    const graft_status opened = graft_checkpoint_open(trainer.handle, &options, &info);
    return succeeded(env, trainer.context, opened) ? new_checkpoint(env, info) : nullptr;
  });
}

GRAFT_JNI(void, saveCheckpoint)(JNIEnv* env, jclass, jlong pointer, jstring tag) {
  with_text<graft_trainer>(env, pointer, tag, graft_checkpoint_save);
}

GRAFT_JNI(void, closeCheckpoint)(JNIEnv* env, jclass, jlong pointer) {
  const auto& trainer = held<graft_trainer>(pointer);
  succeeded(env, trainer.context, graft_checkpoint_close(trainer.handle));
}

GRAFT_JNI(void, setCheckpointData)(JNIEnv* env, jclass, jlong pointer, jint worker, jbyteArray data) {
  const auto& trainer = held<graft_trainer>(pointer);
  const auto bytes = static_cast<size_t>(env->GetArrayLength(data));
  jbyte* elements = env->GetByteArrayElements(data, nullptr);
  if (elements == nullptr) return;
  succeeded(env, trainer.context,
            graft_checkpoint_set_data(trainer.handle, static_cast<uint32_t>(worker), elements, bytes));
  env->ReleaseByteArrayElements(data, elements, JNI_ABORT);
}

GRAFT_JNI(jbyteArray, checkpointData)(JNIEnv* env, jclass, jlong pointer, jint worker) {
  const auto& trainer = held<graft_trainer>(pointer);
  const void* data = nullptr;
  size_t bytes = 0;
  if (!succeeded(env, trainer.context,
                 graft_checkpoint_data(trainer.handle, static_cast<uint32_t>(worker), &data, &bytes))) {
    return nullptr;
  }
  jbyteArray out = env->NewByteArray(static_cast<jsize>(bytes));
  if (out != nullptr) env->SetByteArrayRegion(out, 0, static_cast<jsize>(bytes), static_cast<const jbyte*>(data));
  return out;
}

GRAFT_JNI(void, warmStart)
(JNIEnv* env, jclass, jlong pointer, jstring folder, jstring snapshot, jlong callbacks) {
  guarded(env, [&] {
    const Text path(env, folder);
    if (!path.ok()) return;
    const Text from(env, snapshot);
    if (!from.ok()) return;
    graft_cipher place{};
    const graft_cipher* cipher = nullptr;
    if (!read_cipher(env, callbacks, place, cipher)) return;
    const auto& trainer = held<graft_trainer>(pointer);
    succeeded(env, trainer.context, graft_warm_start(trainer.handle, path.get(), from.get(), cipher));
  });
}
