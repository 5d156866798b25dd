// Options and infos of graft.hpp as Python objects with attributes. The package's classes fill them by keyword.
#include <pybind11/stl.h>

#include <map>

#include "platform/python/native/data.h"
#include "platform/python/native/handles.h"

namespace graft::python {
namespace {

/// An enumeration as a number; the package knows the words.
template <typename Class, typename Options, typename Enum>
void number(Class& bound, const char* name, Enum Options::*member) {
  bound.def_property(
      name, [member](const Options& options) { return static_cast<int>(options.*member); },
      [member](Options& options, int value) { options.*member = static_cast<Enum>(value); });
}

/// {"batch": 32}
template <typename Class, typename Options>
void sizes(Class& bound, const char* name, std::vector<Binding> Options::*member) {
  bound.def_property(
      name,
      [member](const Options& options) {
        std::map<std::string, std::int64_t> all;
        for (const Binding& binding : options.*member) all[binding.name] = binding.size;
        return all;
      },
      [member](Options& options, const std::map<std::string, std::int64_t>& all) {
        (options.*member).clear();
        for (const auto& [dimension, size] : all) (options.*member).push_back({dimension, size});
      });
}

void add_trainer_options(py::module_& module) {
  py::class_<HeadOptions>(module, "HeadOptions")
      .def(py::init<>())
      .def_readwrite("output", &HeadOptions::output)
      .def_readwrite("replace", &HeadOptions::replace)
      .def_readwrite("seed", &HeadOptions::seed)
      .def_readwrite("class_names", &HeadOptions::class_names);
  py::class_<ParameterGroup>(module, "ParameterGroup")
      .def(py::init<>())
      .def_readwrite("pattern", &ParameterGroup::pattern)
      .def_readwrite("learning_rate_scale", &ParameterGroup::learning_rate_scale)
      .def_readwrite("weight_decay", &ParameterGroup::weight_decay);
  py::class_<TrainerOptions> options(module, "TrainerOptions");
  options.def(py::init<>());
  number(options, "loss", &TrainerOptions::loss);
  number(options, "optimizer", &TrainerOptions::optimizer);
  number(options, "schedule", &TrainerOptions::schedule);
  number(options, "precision", &TrainerOptions::precision);
  sizes(options, "bindings", &TrainerOptions::bindings);
  options.def_readwrite("learning_rate", &TrainerOptions::learning_rate)
      .def_readwrite("momentum", &TrainerOptions::momentum)
      .def_readwrite("nesterov", &TrainerOptions::nesterov)
      .def_readwrite("weight_decay", &TrainerOptions::weight_decay)
      .def_readwrite("clip_norm", &TrainerOptions::clip_norm)
      .def_readwrite("label_smoothing", &TrainerOptions::label_smoothing)
      .def_readwrite("warmup_steps", &TrainerOptions::warmup_steps)
      .def_readwrite("total_steps", &TrainerOptions::total_steps)
      .def_readwrite("batch", &TrainerOptions::batch)
      .def_readwrite("micro_batch", &TrainerOptions::micro_batch)
      .def_readwrite("seed", &TrainerOptions::seed)
      .def_readwrite("freeze", &TrainerOptions::freeze)
      .def_readwrite("packed_sequences", &TrainerOptions::packed_sequences)
      .def_readwrite("budget", &TrainerOptions::budget)
      .def_readwrite("fetch", &TrainerOptions::fetch)
      .def_readwrite("checkpoints", &TrainerOptions::checkpoints)
      .def_readwrite("groups", &TrainerOptions::groups)
      .def_readwrite("loss_scale", &TrainerOptions::loss_scale)
      .def_readwrite("beta1", &TrainerOptions::beta1)
      .def_readwrite("beta2", &TrainerOptions::beta2)
      .def_readwrite("epsilon", &TrainerOptions::epsilon)
      .def_readwrite("clip_value", &TrainerOptions::clip_value)
      .def_readwrite("ignore_index", &TrainerOptions::ignore_index)
      .def_readwrite("final_lr_factor", &TrainerOptions::final_lr_factor)
      .def_readwrite("step_size", &TrainerOptions::step_size)
      .def_readwrite("gamma", &TrainerOptions::gamma)
      .def_readwrite("growth_interval", &TrainerOptions::growth_interval)
      .def_readwrite("frozen_statistics", &TrainerOptions::frozen_statistics)
      .def_readwrite("optimizer_in_backward", &TrainerOptions::optimizer_in_backward)
      .def_readwrite("recover_device", &TrainerOptions::recover_device)
      .def_readwrite("inputs", &TrainerOptions::inputs);
  options.def_readwrite("losses", &TrainerOptions::losses)
      .def_readwrite("class_axis", &TrainerOptions::class_axis)
      .def_readwrite("class_weights", &TrainerOptions::class_weights)
      .def_readwrite("pos_weight", &TrainerOptions::pos_weight)
      .def_readwrite("sample_weights", &TrainerOptions::sample_weights)
      .def_readwrite("focal_gamma", &TrainerOptions::focal_gamma)
      .def_readwrite("focal_alpha", &TrainerOptions::focal_alpha)
      .def_readwrite("huber_delta", &TrainerOptions::huber_delta)
      .def_readwrite("smooth_l1_beta", &TrainerOptions::smooth_l1_beta)
      .def_readwrite("margin", &TrainerOptions::margin)
      .def_readwrite("temperature", &TrainerOptions::temperature)
      .def_readwrite("blank", &TrainerOptions::blank)
      .def_readwrite("zero_infinity", &TrainerOptions::zero_infinity)
      .def_readwrite("target_length", &TrainerOptions::target_length)
      .def_readwrite("alpha", &TrainerOptions::alpha)
      .def_readwrite("centered", &TrainerOptions::centered)
      .def_readwrite("lr_decay", &TrainerOptions::lr_decay)
      .def_readwrite("initial_accumulator_value", &TrainerOptions::initial_accumulator_value)
      .def_readwrite("beta2_decay", &TrainerOptions::beta2_decay)
      .def_readwrite("epsilon2", &TrainerOptions::epsilon2)
      .def_readwrite("clip_threshold", &TrainerOptions::clip_threshold)
      .def_readwrite("ns_steps", &TrainerOptions::ns_steps)
      .def_readwrite("match_rms_adamw", &TrainerOptions::match_rms_adamw)
      .def_readwrite("adamw_for", &TrainerOptions::adamw_for)
      .def_readwrite("ema", &TrainerOptions::ema)
      .def_readwrite("layer_decay", &TrainerOptions::layer_decay)
      .def_readwrite("rise", &TrainerOptions::rise)
      .def_readwrite("div_factor", &TrainerOptions::div_factor)
      .def_readwrite("final_div_factor", &TrainerOptions::final_div_factor)
      .def_readwrite("power", &TrainerOptions::power)
      .def_readwrite("neftune_alpha", &TrainerOptions::neftune_alpha)
      .def_readwrite("distill_weight", &TrainerOptions::distill_weight)
      .def_readwrite("preference_beta", &TrainerOptions::preference_beta)
      .def_readwrite("desirable_weight", &TrainerOptions::desirable_weight)
      .def_readwrite("undesirable_weight", &TrainerOptions::undesirable_weight)
      .def_readwrite("proximal", &TrainerOptions::proximal)
      .def_readwrite("predictions", &TrainerOptions::predictions)
      .def_readwrite("no_fusion", &TrainerOptions::no_fusion)
      .def_readwrite("group_timeout_ms", &TrainerOptions::group_timeout_ms)
      .def_readwrite("group_pause_ms", &TrainerOptions::group_pause_ms)
      // For as long as the call that they are for: the package keeps the objects.
      .def("set_teacher", [](TrainerOptions& o, ModelHandle& teacher) { o.teacher = teacher->get(); })
      .def("set_data", [](TrainerOptions& o, DataHandle& data) { o.data = &*data; });
}

void add_running_options(py::module_& module) {
  py::class_<InputFormat> format(module, "InputFormat");
  format.def(py::init<>());
  number(format, "element", &InputFormat::element);
  format.def_readwrite("name", &InputFormat::name)
      .def_readwrite("channels_last", &InputFormat::channels_last)
      .def_readwrite("scale", &InputFormat::scale)
      .def_readwrite("offset", &InputFormat::offset);
  py::class_<SessionOptions> session(module, "SessionOptions");
  session.def(py::init<>());
  number(session, "precision", &SessionOptions::precision);
  sizes(session, "bindings", &SessionOptions::bindings);
  session.def_readwrite("budget", &SessionOptions::budget)
      .def_readwrite("of", &SessionOptions::of)
      .def_readwrite("signature", &SessionOptions::signature)
      .def_readwrite("wrt", &SessionOptions::wrt)
      .def_readwrite("fetch", &SessionOptions::fetch)
      .def_readwrite("train_mode", &SessionOptions::train_mode)
      .def_readwrite("resizable", &SessionOptions::resizable)
      .def_readwrite("inputs", &SessionOptions::inputs)
      .def_readwrite("recover_device", &SessionOptions::recover_device)
      .def_readwrite("allow_non_finite", &SessionOptions::allow_non_finite);
  py::class_<GradientOptions> gradients(module, "GradientOptions");
  gradients.def(py::init<>());
  sizes(gradients, "bindings", &GradientOptions::bindings);
  gradients.def_readwrite("of", &GradientOptions::of)
      .def_readwrite("wrt", &GradientOptions::wrt)
      .def_readwrite("budget", &GradientOptions::budget)
      .def_readwrite("micro_batch", &GradientOptions::micro_batch)
      .def_readwrite("per_sample", &GradientOptions::per_sample)
      .def_readwrite("train_mode", &GradientOptions::train_mode);
  py::class_<GeneratorOptions> generator(module, "GeneratorOptions");
  generator.def(py::init<>());
  number(generator, "precision", &GeneratorOptions::precision);
  number(generator, "cache", &GeneratorOptions::cache);
  generator.def_readwrite("context", &GeneratorOptions::context)
      .def_readwrite("prefill", &GeneratorOptions::prefill)
      .def_readwrite("budget", &GeneratorOptions::budget)
      .def_readwrite("prompt_lookup", &GeneratorOptions::prompt_lookup)
      .def_readwrite("sequences", &GeneratorOptions::sequences)
      .def_readwrite("recover_device", &GeneratorOptions::recover_device);
  py::class_<EmbedderOptions> embedder(module, "EmbedderOptions");
  embedder.def(py::init<>());
  number(embedder, "pooling", &EmbedderOptions::pooling);
  number(embedder, "precision", &EmbedderOptions::precision);
  embedder.def_readwrite("normalize", &EmbedderOptions::normalize)
      .def_readwrite("cut", &EmbedderOptions::cut)
      .def_readwrite("length", &EmbedderOptions::length)
      .def_readwrite("batch", &EmbedderOptions::batch)
      .def_readwrite("of", &EmbedderOptions::of)
      .def_readwrite("budget", &EmbedderOptions::budget)
      .def_readwrite("recover_device", &EmbedderOptions::recover_device);
  py::class_<ImportanceOptions>(module, "ImportanceOptions")
      .def(py::init<>())
      .def_readwrite("context", &ImportanceOptions::context)
      .def_readwrite("chunks", &ImportanceOptions::chunks)
      .def_readwrite("head", &ImportanceOptions::head)
      .def_readwrite("parse_special", &ImportanceOptions::parse_special)
      .def_readwrite("budget", &ImportanceOptions::budget)
      .def_readwrite("recover_device", &ImportanceOptions::recover_device);
  py::class_<GenerateOptions>(module, "GenerateOptions")
      .def(py::init<>())
      .def_readwrite("max_tokens", &GenerateOptions::max_tokens)
      .def_readwrite("temperature", &GenerateOptions::temperature)
      .def_readwrite("top_k", &GenerateOptions::top_k)
      .def_readwrite("top_p", &GenerateOptions::top_p)
      .def_readwrite("min_p", &GenerateOptions::min_p)
      .def_readwrite("repetition_penalty", &GenerateOptions::repetition_penalty)
      .def_readwrite("seed", &GenerateOptions::seed)
      .def_readwrite("grammar", &GenerateOptions::grammar)
      .def_readwrite("json_schema", &GenerateOptions::json_schema)
      .def_readwrite("log_probabilities", &GenerateOptions::log_probabilities)
      .def_readwrite("most_probable", &GenerateOptions::most_probable)
      .def_property(
          "bias", [](const GenerateOptions&) { return py::none(); },
          [](GenerateOptions& options, const std::map<std::int32_t, float>& bias) {
            options.bias.clear();
            for (const auto& [token, score] : bias) options.bias.push_back({token, score});
          })
      .def_readwrite("stop", &GenerateOptions::stop);
}

void add_other_options(py::module_& module) {
  py::class_<ContextOptions> context(module, "ContextOptions");
  context.def(py::init<>());
  number(context, "log_level", &ContextOptions::log_level);
  number(context, "matmul_precision", &ContextOptions::matmul_precision);
  number(context, "priority", &ContextOptions::priority);
  context.def_readwrite("device", &ContextOptions::device)
      .def_readwrite("vulkan_library", &ContextOptions::vulkan_library)
      .def_readwrite("pipeline_cache", &ContextOptions::pipeline_cache);
  py::class_<CheckpointOptions>(module, "CheckpointOptions")
      .def(py::init<>())
      .def_readwrite("folder", &CheckpointOptions::folder)
      .def_readwrite("every", &CheckpointOptions::every)
      .def_readwrite("journal_every", &CheckpointOptions::journal_every)
      .def_readwrite("journal_ms", &CheckpointOptions::journal_ms)
      .def_readwrite("keep", &CheckpointOptions::keep)
      .def_readwrite("resume", &CheckpointOptions::resume)
      .def_readwrite("from_", &CheckpointOptions::from)
      .def_readwrite("with_changes", &CheckpointOptions::with_changes)
      .def_readwrite("continue_on_mismatch", &CheckpointOptions::continue_on_mismatch)
      .def_readwrite("allow_non_finite", &CheckpointOptions::allow_non_finite)
      .def_readwrite("data", &CheckpointOptions::data)
      .def_readwrite("metadata", &CheckpointOptions::metadata);
}

template <typename Info>
void bytes_by_class(py::class_<Info>& bound) {
  bound.def_readonly("weights", &Info::weights)
      .def_readonly("parameters", &Info::parameters)
      .def_readonly("gradients", &Info::gradients)
      .def_readonly("optimizer", &Info::optimizer)
      .def_readonly("activations", &Info::activations)
      .def_readonly("workspace", &Info::workspace)
      .def_readonly("staging", &Info::staging)
      .def_readonly("step_state", &Info::step_state)
      .def_readonly("total", &Info::total);
}

void add_infos(py::module_& module) {
  py::class_<Memory> memory(module, "Memory");
  bytes_by_class(memory);
  py::class_<Forecast> forecast(module, "Forecast");
  bytes_by_class(forecast);
  forecast.def_readonly("flops", &Forecast::flops)
      .def_readonly("extra_flops", &Forecast::extra_flops)
      .def_readonly("micro_batch", &Forecast::micro_batch)
      .def_readonly("recomputed", &Forecast::recomputed);
  py::class_<Metrics>(module, "Metrics")
      .def_readonly("step", &Metrics::step)
      .def_readonly("loss", &Metrics::loss)
      .def_readonly("accuracy", &Metrics::accuracy)
      .def_readonly("learning_rate", &Metrics::learning_rate)
      .def_readonly("loss_scale", &Metrics::loss_scale)
      .def_readonly("skipped_steps", &Metrics::skipped_steps)
      .def_readonly("reward_margin", &Metrics::reward_margin);
  py::class_<CheckpointInfo>(module, "CheckpointInfo")
      .def_readonly("step", &CheckpointInfo::step)
      .def_readonly("samples_done", &CheckpointInfo::samples_done)
      .def_readonly("journalled", &CheckpointInfo::journalled);
}

}  // namespace

void add_options(py::module_& module) {
  add_trainer_options(module);
  add_running_options(module);
  add_other_options(module);
  add_infos(module);
}

}  // namespace graft::python
