// Options of sessions and trainers, as ai.graft.Session.Options, TrainerOptions and Lists say them.
#pragma once

#include <deque>
#include <vector>

#include "platform/android/jni/support.h"

namespace graft::jni {

/// Inputs that are given as bytes or halves.
class Formats {
 public:
  explicit Formats(Fields& lists);
  const graft_input_format* data() const { return formats_.data(); }
  std::size_t size() const { return formats_.size(); }

 private:
  std::deque<std::vector<float>> numbers_;
  std::vector<graft_input_format> formats_;
};

/// Sizes of named dimensions.
class DimensionSizes {
 public:
  explicit DimensionSizes(Fields& lists);
  const graft_binding* data() const { return bindings_.data(); }
  std::size_t size() const { return bindings_.size(); }

 private:
  std::vector<graft_binding> bindings_;
};

/// graft_trainer_options; an exception is pending where ok() says false.
class TrainingOptions {
 public:
  TrainingOptions(JNIEnv* env, jobject java, jobject java_lists);
  TrainingOptions(const TrainingOptions&) = delete;
  TrainingOptions& operator=(const TrainingOptions&) = delete;
  bool ok() const { return fields_.ok() && lists_.ok(); }
  graft_trainer_options* get() { return &options_; }

 private:
  Fields fields_, lists_;
  DimensionSizes bindings_;
  Formats formats_;
  std::vector<graft_parameter_group> groups_;
  graft_trainer_options options_ = sized<graft_trainer_options>();
};

/// graft_session_options, the same way.
class PlannedOptions {
 public:
  PlannedOptions(JNIEnv* env, jobject java, jobject java_lists);
  PlannedOptions(const PlannedOptions&) = delete;
  PlannedOptions& operator=(const PlannedOptions&) = delete;
  bool ok() const { return fields_.ok() && lists_.ok(); }
  const graft_session_options* get() const { return &options_; }

 private:
  Fields fields_, lists_;
  DimensionSizes bindings_;
  Formats formats_;
  graft_session_options options_ = sized<graft_session_options>();
};

/// Reads a tensor into an ai.graft.Tensor by ask(handle, name, data, bytes, info).
template <typename Handle, typename Ask>
jobject read_weight(JNIEnv* env, const Held<Handle>& of, jstring java_name, Ask ask) {
  return guarded(env, [&]() -> jobject {
    const Text name(env, java_name);
    graft_tensor_info info{};
    if (!name.ok() || !succeeded(env, of.context, ask(of.handle, name.get(), nullptr, 0, &info))) return nullptr;
    std::size_t count = 1;
    for (uint32_t axis = 0; axis < info.rank; ++axis) count *= static_cast<std::size_t>(info.dims[axis]);
    if (info.dtype == GRAFT_F32) {
      std::vector<float> numbers(count);
      if (!succeeded(env, of.context, ask(of.handle, name.get(), numbers.data(), 4 * count, nullptr))) return nullptr;
      return java_floats(env, numbers.data(), count);
    }
    std::vector<std::int32_t> numbers(count);
    if (!succeeded(env, of.context, ask(of.handle, name.get(), numbers.data(), 4 * count, nullptr))) return nullptr;
    return java_ints(env, numbers.data(), count);
  });
}

template <typename Handle, typename Tell>
void write_weight(JNIEnv* env, const Held<Handle>& of, jstring java_name, jobject data, Tell tell) {
  guarded(env, [&] {
    const Text name(env, java_name);
    if (!name.ok()) return;
    Blocks blocks(env);
    if (!blocks.add(data)) return;
    succeeded(env, of.context, tell(of.handle, name.get(), blocks.data()[0], blocks.bytes(0)));
  });
}

}  // namespace graft::jni
