// Data sets, loaders, evaluations, gates.
#include "platform/python/native/data.h"

#include <pybind11/stl.h>

#include <cstring>

#include "graft/gate.h"
#include "graft/steps.hpp"
#include "platform/python/native/arrays.h"

namespace graft::python {
namespace {

using EvaluationHandle = Owned<graft::Evaluation, ContextHandle>;

std::shared_ptr<DataHandle> handle_of(const std::shared_ptr<ContextHandle>& context, Result<graft::DataSet> made,
                                      py::object kept) {
  auto parent = std::make_shared<DataParent>();
  parent->context = context;
  parent->kept = std::make_shared<Kept>(std::move(kept));
  return std::make_shared<DataHandle>(context, std::move(parent), value_of(std::move(made)));
}

std::shared_ptr<DataHandle> open_data(const std::shared_ptr<ContextHandle>& self, const std::string& spec,
                                      const std::shared_ptr<ModelHandle>& model, const DataOptions& options) {
  auto made = self->call([&] {
    return model == nullptr ? self->context().open_data(spec) : self->context().open_data(spec, **model, options);
  });
  return handle_of(self, std::move(made), py::none());
}

/// The arrays are contiguous, of the fields' dtypes, and all samples of each.
std::shared_ptr<DataHandle> data_of(const std::shared_ptr<ContextHandle>& self, const std::vector<Field>& fields,
                                    const std::vector<py::array>& arrays, std::uint64_t samples) {
  std::vector<const void*> blocks;
  for (const py::array& array : arrays) blocks.push_back(array.data());
  auto made = self->call([&] { return self->context().data_from_memory(fields, blocks, samples); });
  return handle_of(self, std::move(made), py::cast(arrays));
}

/// `read(index)` gives the bytes of one sample's fields, in order, or None where the data ends before it.
std::shared_ptr<DataHandle> data_by(const std::shared_ptr<ContextHandle>& self, const std::vector<Field>& fields,
                                    std::uint64_t samples, py::object read) {
  auto kept = std::make_shared<Kept>(read);
  auto call = [kept](std::uint64_t index, void* const* out) {
    const py::gil_scoped_acquire acquired;
    try {
      const py::object parts = kept->get()(index);
      if (parts.is_none()) return 0;
      std::size_t i = 0;
      for (const py::handle part : parts) {
        const auto bytes = static_cast<std::string_view>(part.cast<py::bytes>());
        std::memcpy(out[i++], bytes.data(), bytes.size());
      }
      return 1;
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable("a data set's function");
      return -1;
    }
  };
  auto made = self->call([&] { return self->context().data_from_callback(fields, samples, std::move(call)); });
  return handle_of(self, std::move(made), std::move(read));
}

py::list fields_of(DataHandle& self) {
  py::list out;
  for (const Field& field : self.ask([](auto& set) -> Result<std::vector<Field>> { return set.fields(); })) {
    out.append(py::make_tuple(field.name, dtype_name(field.dtype), field.dims,
                              field.is_weight  ? "weight"
                              : field.is_label ? "target"
                                               : "input",
                              field.classes));
  }
  return out;
}

/// The contents of each field as bytes, (epoch, last_of_epoch); None: the epochs are over.
py::object next_batch(LoaderHandle& self, const std::vector<std::size_t>& sizes) {
  std::vector<std::string> contents;
  graft_batch batch{};
  self.tell([&](auto& loader) -> Status {
    auto got = loader.next();
    if (!got.ok()) return got.status();
    batch = *got;
    for (std::size_t i = 0; i < sizes.size() && batch.samples != 0; ++i) {
      contents.emplace_back(static_cast<const char*>(batch.fields[i]), sizes[i] * batch.samples);
    }
    return {};
  });
  if (batch.samples == 0) return py::none();
  py::list out;
  for (const std::string& content : contents) out.append(py::bytes(content));
  return py::make_tuple(out, batch.samples, batch.epoch, batch.last_of_epoch != 0);
}

py::object train_next(TrainerHandle& self, LoaderHandle& loader) {
  const auto metrics = self.ask([&](auto& trainer) { return trainer.train_next(*loader); });
  return metrics ? py::cast(*metrics) : py::none();
}

std::shared_ptr<EvaluationHandle> kept(const std::shared_ptr<ContextHandle>& context, graft::Evaluation made) {
  return std::make_shared<EvaluationHandle>(context, context, std::move(made));
}

py::dict told(EvaluationHandle& self) {
  return self.ask([](auto& made) -> Result<std::function<py::dict()>> {
    return std::function<py::dict()>(
        [totals = made.totals(), metrics = made.metrics(), confusion = made.confusion(), classes = made.classes()] {
          const graft_totals& means = totals;
          py::dict out, by_class;
          py::list list;
          for (const MetricValue& metric : metrics) {
            list.append(py::make_tuple(metric.name, metric.value));
            if (!metric.by_class.empty()) by_class[py::str(metric.name)] = metric.by_class;
          }
          out["samples"] = means.samples;
          out["loss"] = means.loss;
          out["accuracy"] = means.accuracy;
          out["top5"] = means.top5;
          out["perplexity"] = means.perplexity;
          out["metrics"] = list;
          out["by_class"] = by_class;
          out["confusion"] = confusion;
          out["classes"] = classes;
          return out;
        });
  })();
}

std::vector<std::uint64_t> numbers(const std::uint64_t* data, std::size_t count) { return {data, data + count}; }

py::dict compare(EvaluationHandle& self, EvaluationHandle& before) {
  struct Copy {
    graft_comparison c;
    std::vector<std::uint64_t> changed, lost, gained;
    std::vector<graft_class_change> classes;
  };
  const Copy made = self.ask([&](auto& now) -> Result<Copy> {
    auto got = now.compare(*before);
    if (!got.ok()) return got.status();
    const graft_comparison& c = *got;
    return Copy{c,
                numbers(c.changed, c.changed_count),
                numbers(c.lost, c.lost_count),
                numbers(c.gained, c.gained_count),
                {c.classes, c.classes + c.class_count}};
  });
  const graft_comparison& c = made.c;
  py::dict out;
  out["samples"] = c.samples;
  out["rows"] = c.rows;
  out["both_right"] = c.both_right;
  out["only_old"] = c.only_old;
  out["only_new"] = c.only_new;
  out["neither"] = c.neither;
  out["p_value"] = c.p_value;
  out["exact"] = c.exact != 0;
  out["changed"] = made.changed;
  out["lost"] = made.lost;
  out["gained"] = made.gained;
  py::list classes;
  for (const graft_class_change& change : made.classes) {
    classes.append(py::make_tuple(change.label, change.rows, change.old_right, change.new_right));
  }
  out["classes"] = classes;
  return out;
}

/// (stop, best, slower, learning rate)
py::tuple observe(TrainerHandle& self, EvaluationHandle& evaluation, const WatchOptions& options) {
  const graft_verdict verdict = self.ask([&](auto& trainer) { return evaluation->observed_by(trainer, options); });
  return py::make_tuple(verdict.stop != 0, verdict.best != 0, verdict.slower != 0, verdict.learning_rate);
}

py::dict gate(ModelHandle& candidate, const std::shared_ptr<ModelHandle>& old, DataHandle& data,
              const std::string& conditions, double margin, const std::string& path, const TrainerOptions& training) {
  const GateResult result = candidate.ask([&](auto& model) {
    return graft::gate(model, old == nullptr ? nullptr : &**old, *data, {conditions, margin}, path, training);
  });
  py::list rows;
  for (const GateRow& row : result.rows) {
    rows.append(py::make_tuple(row.metric, row.now, row.before, row.holds, row.no_worse));
  }
  py::dict out;
  out["passed"] = result.passed;
  out["reason"] = result.reason;
  out["p_value"] = result.p_value;
  out["changed"] = result.changed;
  out["lost"] = result.lost;
  out["gained"] = result.gained;
  out["rows"] = rows;
  return out;
}

void add_data_options(py::module_& module) {
  py::class_<Field>(module, "Field")
      .def(py::init([](const std::string& name, int dtype, std::vector<std::int64_t> dims, const std::string& role) {
        Field field;
        field.name = name;
        field.dtype = static_cast<graft_dtype>(dtype);
        field.dims = std::move(dims);
        field.is_label = role == "target";
        field.is_weight = role == "weight";
        return field;
      }));
  py::class_<DataOptions> data(module, "DataOptions");
  data.def(py::init<>())
      .def_readwrite("evaluation", &DataOptions::evaluation)
      .def_readwrite("length", &DataOptions::length)
      .def_readwrite("sequence_starts", &DataOptions::sequence_starts)
      .def_readwrite("first", &DataOptions::first)
      .def_readwrite("count", &DataOptions::count)
      .def_property(
          "preference", [](const DataOptions& o) { return static_cast<int>(o.preference); },
          [](DataOptions& o, int value) { o.preference = static_cast<graft_preference>(value); })
      .def_property(
          "pooling", [](const DataOptions& o) { return static_cast<int>(o.pooling); },
          [](DataOptions& o, int value) { o.pooling = static_cast<graft_pooling>(value); });
  py::class_<LoaderOptions>(module, "LoaderOptions")
      .def(py::init<>())
      .def_readwrite("batch", &LoaderOptions::batch)
      .def_readwrite("seed", &LoaderOptions::seed)
      .def_readwrite("in_order", &LoaderOptions::in_order)
      .def_readwrite("drop_last", &LoaderOptions::drop_last)
      .def_readwrite("epochs", &LoaderOptions::epochs)
      .def_readwrite("shuffle_buffer", &LoaderOptions::shuffle_buffer)
      .def_readwrite("memory_limit", &LoaderOptions::memory_limit)
      .def_readwrite("read_threads", &LoaderOptions::read_threads);
  py::class_<EvaluationOptions>(module, "EvaluationOptions")
      .def(py::init<>())
      .def_readwrite("metrics", &EvaluationOptions::metrics)
      .def_readwrite("confusion", &EvaluationOptions::confusion)
      .def_readwrite("outcomes", &EvaluationOptions::outcomes);
  py::class_<WatchOptions>(module, "WatchOptions")
      .def(py::init<>())
      .def_readwrite("plateau", &WatchOptions::plateau)
      .def_readwrite("patience", &WatchOptions::patience)
      .def_readwrite("factor", &WatchOptions::factor)
      .def_readwrite("early_stop", &WatchOptions::early_stop)
      .def_readwrite("stop_patience", &WatchOptions::stop_patience)
      .def_readwrite("min_delta", &WatchOptions::min_delta)
      .def_readwrite("best", &WatchOptions::best);
}

}  // namespace

void add_data(py::module_& module) {
  add_data_options(module);
  py::class_<DataHandle, std::shared_ptr<DataHandle>>(module, "DataSet")
      .def("samples",
           [](DataHandle& self) { return self.ask([](auto& set) -> Result<std::uint64_t> { return set.samples(); }); })
      .def("fields", fields_of)
      .def("add_reference",
           [](DataHandle& self, ModelHandle& model, std::uint32_t batch) {
             self.tell([&](auto& set) { return set.add_reference(model->get(), batch); });
           })
      .def("select",
           [](const std::shared_ptr<DataHandle>& self, const std::vector<std::uint64_t>& rows) {
             return handle_of(self->context(), self->ask([&](auto& set) { return set.select(rows); }), py::cast(self));
           })
      .def("split", [](DataHandle& self, const std::string& way, std::uint64_t parts,
                       std::uint64_t seed) { return self.ask([&](auto& set) { return set.split(way, parts, seed); }); })
      .def("loader", [](const std::shared_ptr<DataHandle>& self, const LoaderOptions& options) {
        auto made = self->ask([&](auto& set) { return set.loader(options); });
        return std::make_shared<LoaderHandle>(self->context(), self, std::move(made));
      });
  py::class_<LoaderHandle, std::shared_ptr<LoaderHandle>>(module, "Loader").def("next", next_batch);
  py::class_<EvaluationHandle, std::shared_ptr<EvaluationHandle>>(module, "Evaluation")
      .def("told", told)
      .def("compare", compare);
  module.def("open_data", open_data)
      .def("data_of", data_of)
      .def("data_by", data_by)
      .def("train_next", train_next)
      .def("evaluate_data", [](TrainerHandle& trainer,
                               DataHandle& data) { return trainer.ask([&](auto& t) { return t.evaluate(*data); }); })
      .def("keep_classes",
           [](ModelHandle& model, DataHandle& data) {
             model.tell([&](auto& m) {
               return detail::to_status(graft_model_keep_classes(m.get(), data->get()), m.context());
             });
           })
      .def("classes",
           [](ModelHandle& model) {
             return model.ask([](auto& m) -> Result<std::vector<std::string>> {
               std::vector<std::string> names;
               while (const char* name = graft_model_class(m.get(), names.size())) names.emplace_back(name);
               return names;
             });
           })
      .def("evaluate_model",
           [](ModelHandle& model, DataHandle& data, const EvaluationOptions& options, const TrainerOptions& training) {
             return kept(model.context(),
                         model.ask([&](auto& m) { return graft::Evaluation::of(m, *data, options, training); }));
           })
      .def("evaluate_trainer",
           [](TrainerHandle& trainer, DataHandle& data, const EvaluationOptions& options) {
             return kept(trainer.context(),
                         trainer.ask([&](auto& t) { return graft::Evaluation::of(t, *data, options); }));
           })
      .def("observe", observe)
      .def("restart",
           [](TrainerHandle& trainer, ModelHandle* model) {
             trainer.tell([&](auto& t) { return restart(t, model == nullptr ? nullptr : &**model); });
           })
      .def("gate", gate)
      .def("metric_names", [] { return std::string(graft_metric_names()); });
}

}  // namespace graft::python
