#include "platform/android/jni/options.h"

#include "interface/jni.h"

#include <cmath>
#include <cstdint>

namespace graft::jni {
namespace {

/// The next `count` numbers of a list of all.
const float* take(std::vector<float>& out, std::span<const double>& all, std::int32_t count) {
  const auto wanted = std::min(static_cast<std::size_t>(count), all.size());
  out.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(wanted));
  all = all.subspan(wanted);
  return wanted == 0 ? nullptr : out.data();
}

}  // namespace

Formats::Formats(Fields& lists) {
  const Texts& names = lists.texts("formats");
  const auto elements = lists.ints("elements"), last = lists.ints("channelsLast");
  const auto scales = lists.ints("scaleCounts"), offsets = lists.ints("offsetCounts");
  auto scale = lists.reals("scales"), offset = lists.reals("offsets");
  if (!lists.ok()) return;
  for (std::size_t i = 0; i < names.size(); ++i) {
    graft_input_format format{};
    format.name = names.data()[i];
    format.element = static_cast<graft_element>(elements[i]);
    format.channels_last = last[i];
    format.scale = take(numbers_.emplace_back(), scale, scales[i]);
    format.scale_count = numbers_.back().size();
    format.offset = take(numbers_.emplace_back(), offset, offsets[i]);
    format.offset_count = numbers_.back().size();
    formats_.push_back(format);
  }
}

DimensionSizes::DimensionSizes(Fields& lists) {
  const Texts& names = lists.texts("dimensions");
  const auto sizes = lists.reals("sizes");
  if (!lists.ok()) return;
  for (std::size_t i = 0; i < names.size(); ++i) {
    graft_binding binding{};
    binding.name = names.data()[i];
    binding.size = static_cast<std::int64_t>(sizes[i]);
    bindings_.push_back(binding);
  }
}

TrainingOptions::TrainingOptions(JNIEnv* env, jobject java, jobject java_lists)
    : fields_(env, java), lists_(env, java_lists), bindings_(lists_), formats_(lists_) {
  Fields &fields = fields_, &lists = lists_;
  graft_trainer_options& options = options_;
  read(fields, lists, options);
  options.bindings = bindings_.data();
  options.binding_count = bindings_.size();
  options.inputs = formats_.data();
  options.input_count = formats_.size();
  const Texts& patterns = lists.texts("patterns");
  const auto scales = lists.reals("rateScales"), decays = lists.reals("decays");
  for (std::size_t i = 0; lists.ok() && i < patterns.size(); ++i) {
    graft_parameter_group group{};
    group.pattern = patterns.data()[i];
    group.learning_rate_scale = scales[i];
    group.weight_decay = std::isnan(decays[i]) ? -1 : decays[i];
    groups_.push_back(group);
  }
  options.groups = groups_.data();
  options.group_count = groups_.size();
}

PlannedOptions::PlannedOptions(JNIEnv* env, jobject java, jobject java_lists)
    : fields_(env, java), lists_(env, java_lists), bindings_(lists_), formats_(lists_) {
  Fields &fields = fields_, &lists = lists_;
  graft_session_options& options = options_;
  options.bindings = bindings_.data();
  options.binding_count = bindings_.size();
  options.budget = fields.number("budget");
  options.of = fields.text("of");
  const Texts& wrt = lists.texts("wrt");
  options.wrt = wrt.data();
  options.wrt_count = wrt.size();
  options.precision = fields.choice<graft_precision>("precision", "Lai/graft/Precision;");
  options.allow_non_finite = fields.flag("allowNonFinite");
  const Texts& fetch = lists.texts("fetched");
  options.fetch = fetch.data();
  options.fetch_count = fetch.size();
  options.train_mode = fields.flag("trainMode");
  options.resizable = fields.flag("resizable");
  options.inputs = formats_.data();
  options.input_count = formats_.size();
  options.signature = fields.text("signature");
  options.recover_device = fields.flag("recoverDevice");
}

}  // namespace graft::jni
