// Options and infos of graft.hpp as Python objects with attributes. The package's classes fill them by keyword.
#include <map>

#include "interface/python.h"
#include "platform/python/native/data.h"
#include "platform/python/native/handles.h"

namespace graft::python {
namespace {

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
  bind(options);
  // For as long as the call that they are for: the package keeps the objects.
  options.def("set_teacher", [](TrainerOptions& o, ModelHandle& teacher) { o.teacher = teacher->get(); })
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
