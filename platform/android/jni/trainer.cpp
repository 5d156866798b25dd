// Training: forecasts, trainers, checkpoints.
#include <cmath>
#include <cstdint>

#include "platform/android/jni/callbacks.h"
#include "platform/android/jni/support.h"

namespace graft::jni {
namespace {

void read_loss(Fields& fields, graft_trainer_options& options) {
  options.losses = fields.text("losses");
  options.class_axis = static_cast<int32_t>(fields.bits("classAxis"));
  options.own_class_axis = options.class_axis != INT32_MIN;  // AXIS_OF_LABELS
  const std::span<const double> classes = fields.reals("classWeights"), ones = fields.reals("posWeight");
  options.class_weights = classes.data();
  options.class_weight_count = classes.size();
  options.pos_weight = ones.data();
  options.pos_weight_count = ones.size();
  options.sample_weights = fields.text("sampleWeights");
  options.own_focal_gamma = 1;
  options.focal_gamma = fields.real("focalGamma");
  options.focal_alpha = fields.real("focalAlpha");
  options.huber_delta = fields.real("huberDelta");
  options.own_smooth_l1_beta = 1;
  options.smooth_l1_beta = fields.real("smoothL1Beta");
  options.margin = fields.real("margin");
  options.own_margin = !std::isnan(options.margin);
  options.temperature = fields.real("temperature");
  options.blank = static_cast<int32_t>(fields.bits("blank"));
  options.zero_infinity = fields.flag("zeroInfinity");
  options.target_length = fields.count("targetLength");
}

void read_other_optimizers(Fields& fields, graft_trainer_options& options) {
  options.alpha = fields.real("alpha");
  options.centered = fields.flag("centered");
  options.lr_decay = fields.real("lrDecay");
  options.initial_accumulator_value = fields.real("initialAccumulatorValue");
  options.beta2_decay = fields.real("beta2Decay");
  options.epsilon2 = fields.real("epsilon2");
  options.clip_threshold = fields.real("clipThreshold");
  options.ns_steps = fields.count("nsSteps");
  options.match_rms_adamw = fields.flag("matchRmsAdamw");
  options.adamw_for = fields.text("adamwFor");
  options.ema = fields.real("ema");
  options.layer_decay = fields.real("layerDecay");
  options.rise = fields.real("rise");
  options.div_factor = fields.real("divFactor");
  options.final_div_factor = fields.real("finalDivFactor");
  options.power = fields.real("power");
  options.neftune_alpha = fields.real("neftuneAlpha");
}

graft_trainer_options read_trainer_options(Fields& fields, const Text& fetch, const Bindings& bindings) {
  auto options = sized<graft_trainer_options>();
  options.loss = fields.choice<graft_loss>("loss", "Lai/graft/TrainerOptions$Loss;");
  options.optimizer = fields.choice<graft_optimizer>("optimizer", "Lai/graft/TrainerOptions$Optimizer;");
  options.learning_rate = fields.real("learningRate");
  options.momentum = fields.real("momentum");
  options.nesterov = fields.flag("nesterov");
  options.weight_decay = fields.real("weightDecay");
  options.clip_norm = fields.real("clipNorm");
  options.label_smoothing = fields.real("labelSmoothing");
  options.schedule = fields.choice<graft_schedule>("schedule", "Lai/graft/TrainerOptions$Schedule;");
  options.warmup_steps = fields.number("warmupSteps");
  options.total_steps = fields.number("totalSteps");
  options.batch = fields.count("batch");
  options.micro_batch = fields.count("microBatch");
  options.seed = fields.bits("seed");
  options.freeze = fields.text("freeze");
  options.bindings = bindings.data();
  options.binding_count = bindings.size();
  options.packed_sequences = fields.flag("packedSequences");
  options.budget = fields.number("budget");
  options.checkpoints = fields.flag("checkpoints");
  options.fetch = fetch.get();
  options.precision = fields.choice<graft_precision>("precision", "Lai/graft/Precision;");
  options.loss_scale = fields.real("lossScale");
  options.beta1 = fields.real("beta1");
  options.beta2 = fields.real("beta2");
  options.epsilon = fields.real("epsilon");
  options.clip_value = fields.real("clipValue");
  options.own_ignore_index = 1;
  options.ignore_index = static_cast<int32_t>(fields.bits("ignoreIndex"));
  options.final_lr_factor = fields.real("finalLrFactor");
  options.step_size = fields.number("stepSize");
  options.gamma = fields.real("gamma");
  options.growth_interval = fields.number("growthInterval");
  options.frozen_statistics = fields.flag("frozenStatistics");
  options.optimizer_in_backward = fields.flag("optimizerInBackward");
  options.recover_device = fields.flag("recoverDevice");
  read_loss(fields, options);
  read_other_optimizers(fields, options);
  return options;
}

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

GRAFT_JNI(jobject, forecast)
(JNIEnv* env, jclass, jlong pointer, jobject java, jstring fetched, jobjectArray dimensions, jlongArray sizes) {
  return guarded(env, [&]() -> jobject {
    const auto& model = held<graft_model>(pointer);
    const Bindings bindings(env, dimensions, sizes);
    if (!bindings.ok()) return nullptr;
    const Text fetch(env, fetched);
    if (!fetch.ok()) return nullptr;
    Fields fields(env, java);
    const graft_trainer_options options = read_trainer_options(fields, fetch, bindings);
    if (!fields.ok()) return nullptr;
    auto forecast = sized<graft_forecast>();
    const graft_status made = graft_forecast_training(model.handle, &options, &forecast);
    return succeeded(env, model.context, made) ? new_forecast(env, forecast) : nullptr;
  });
}

GRAFT_JNI(jlong, trainerCreate)
(JNIEnv* env, jclass, jlong pointer, jobject java, jstring fetched, jobjectArray dimensions, jlongArray sizes) {
  return guarded(env, [&]() -> jlong {
    const auto& model = held<graft_model>(pointer);
    const Bindings bindings(env, dimensions, sizes);
    if (!bindings.ok()) return 0;
    const Text fetch(env, fetched);
    if (!fetch.ok()) return 0;
    Fields fields(env, java);
    const graft_trainer_options options = read_trainer_options(fields, fetch, bindings);
    if (!fields.ok()) return 0;
    graft_trainer* trainer = nullptr;
    if (!succeeded(env, model.context, graft_trainer_create(model.handle, &options, &trainer))) return 0;
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

GRAFT_JNI(jobject, openCheckpoint)
(JNIEnv* env, jclass, jlong pointer, jobject java, jobjectArray keys, jobjectArray values, jlong callbacks) {
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
