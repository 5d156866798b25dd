// Contexts and models.
#include <pybind11/stl.h>

#include <map>

#include "platform/python/native/arrays.h"
#include "platform/python/native/handles.h"

namespace graft::python {
namespace {

py::list tensors_of(ModelHandle& self, graft_tensor_kind kind) {
  py::list out;
  const auto tensors = self.ask([&](auto& model) -> Result<std::vector<TensorInfo>> {
    switch (kind) {
      case GRAFT_INPUTS: return model.inputs();
      case GRAFT_OUTPUTS: return model.outputs();
      case GRAFT_PARAMETERS: return model.named_parameters();
      case GRAFT_BUFFERS: return model.buffers();
      default: return model.constants();
    }
  });
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    py::tuple shape = shape_of(tensors[i]);
    for (std::uint32_t axis = 0; axis < tensors[i].rank; ++axis) {
      if (tensors[i].dims[axis] >= 0) continue;
      shape[axis] = py::str(self.ask([&](auto& model) { return model.dimension(kind, i, axis); }));
    }
    out.append(described(tensors[i], shape));
  }
  return out;
}

template <typename Object, typename Options>
std::shared_ptr<Owned<Object, ModelHandle>> made_from(const std::shared_ptr<ModelHandle>& self, const Options& options,
                                                      Result<Object> (graft::Model::*make)(const Options&)) {
  auto made = self->ask([&](auto& model) { return (model.*make)(options); });
  return std::make_shared<Owned<Object, ModelHandle>>(self->context(), self, std::move(made));
}

/// The arrays are all samples of the inputs, contiguous and of their dtypes.
py::dict gradients_of(ModelHandle& self, const GradientOptions& options,
                      const std::map<std::string, py::array>& inputs) {
  std::map<std::string, std::span<const std::byte>> bytes;
  for (const auto& [name, array] : inputs) {
    bytes[name] = bytes_of(array);
  }
  const auto context = self.context();
  auto computed = self.ask([&](auto& model) { return model.gradients(options, bytes); });
  Owned<graft::Gradients, ModelHandle> gradients(context, nullptr, std::move(computed));
  py::dict out;
  for (const std::string& name : options.wrt) {
    out[py::str(name)] = copied(gradients, [&](auto* handle, const void** data, std::size_t* size, TensorInfo* info) {
      return graft_gradients_get(handle, name.c_str(), data, size, info);
    });
  }
  return out;
}

std::shared_ptr<ContextHandle> open_context(const ContextOptions& options, py::object log) {
  auto made = std::make_shared<ContextHandle>();
  made->open(options, std::move(log));
  return made;
}

std::shared_ptr<ModelHandle> load(const std::shared_ptr<ContextHandle>& self, const std::string& path,
                                  int weight_check) {
  auto model =
      value_of(self->call([&] { return self->context().load(path, static_cast<graft_weight_check>(weight_check)); }));
  return std::make_shared<ModelHandle>(self, self, std::move(model));
}

std::shared_ptr<ModelHandle> load_bytes(const std::shared_ptr<ContextHandle>& self, const py::bytes& file,
                                        int weight_check) {
  const std::string_view bytes = file;
  const Source source = Source::copy(detail::bytes_at(bytes.data(), bytes.size()));
  auto model =
      value_of(self->call([&] { return self->context().load(source, static_cast<graft_weight_check>(weight_check)); }));
  return std::make_shared<ModelHandle>(self, self, std::move(model));
}

/// (name, names of inputs, names of outputs) of each.
py::list signatures(ModelHandle& self) {
  using Names = std::vector<std::string>;
  return py::cast(self.ask([](auto& model) -> Result<std::vector<std::tuple<std::string, Names, Names>>> {
    std::vector<std::tuple<std::string, Names, Names>> out;
    for (std::size_t i = 0; i < graft_model_signature_count(model.get()); ++i) {
      graft_signature signature = detail::sized<graft_signature>();
      if (graft_model_signature(model.get(), i, &signature) != GRAFT_OK) continue;
      const auto names = [&](graft_tensor_kind kind, std::size_t count) {
        Names all;
        TensorInfo info{};
        for (std::size_t t = 0; t < count; ++t) {
          if (graft_model_signature_tensor(model.get(), i, kind, t, &info) == GRAFT_OK) all.emplace_back(info.name);
        }
        return all;
      };
      out.emplace_back(signature.name, names(GRAFT_INPUTS, signature.input_count),
                       names(GRAFT_OUTPUTS, signature.output_count));
    }
    return out;
  }));
}

void open_cache(ContextHandle& self, const std::string& folder, bool self_test) {
  check(self.call([&] { return graft::open_cache(self.context(), {.folder = folder, .self_test = self_test}); }));
}

void add_model(py::module_& module) {
  py::class_<ModelHandle, std::shared_ptr<ModelHandle>>(module, "Model")
      .def("tensors",
           [](ModelHandle& self, int kind) { return tensors_of(self, static_cast<graft_tensor_kind>(kind)); })
      .def("save", [](ModelHandle& self, const std::string& path) { self.tell([&](auto& m) { return m.save(path); }); })
      .def("read",
           [](ModelHandle& self, const std::string& name) {
             return weight(self, [&](auto* model, void* data, std::size_t bytes, TensorInfo* info) {
               return graft_model_read(model, name.c_str(), data, bytes, info);
             });
           })
      .def("write", [](ModelHandle& self, const std::string& name,
                       const py::array& array) { self.tell([&](auto& m) { return m.write(name, bytes_of(array)); }); })
      .def("add_adapters",
           [](ModelHandle& self, const std::string& options, std::uint32_t seed) {
             self.tell([&](auto& m) { return m.add_adapters(options, seed); });
           })
      .def("add_tokens", [](ModelHandle& self,
                            const std::string& tokens) { self.tell([&](auto& m) { return m.add_tokens(tokens); }); })
      .def("resize_head",
           [](ModelHandle& self, std::int64_t classes, const HeadOptions& options) {
             self.tell([&](auto& m) { return m.resize_head(classes, options); });
           })
      .def("load_adapters", [](ModelHandle& self,
                               const std::string& path) { self.tell([&](auto& m) { return m.load_adapters(path); }); })
      .def("merge_adapters",
           [](ModelHandle& self, const std::string& quantize) {
             self.tell([&](auto& m) { return m.merge_adapters(quantize); });
           })
      .def("load_adapters_bytes",
           [](ModelHandle& self, const py::bytes& file) {
             const std::string_view bytes = file;
             self.tell(
                 [&](auto& m) { return m.load_adapters(Source::copy(detail::bytes_at(bytes.data(), bytes.size()))); });
           })
      .def("load_adapters_together",
           [](ModelHandle& self, const std::vector<std::pair<std::string, double>>& files) {
             self.tell([&](auto& m) { return m.load_adapters(files); });
           })
      .def("metadata",
           [](ModelHandle& self) {
             return self.ask([](auto& m) -> Result<std::map<std::string, std::string>> { return m.metadata(); });
           })
      .def("set_metadata",
           [](ModelHandle& self, const std::string& key, const std::optional<std::string>& value) {
             self.tell([&](auto& m) { return value ? m.set_metadata(key, *value) : m.remove_metadata(key); });
           })
      .def("signatures", signatures)
      .def("save_adapters", [](ModelHandle& self,
                               const std::string& path) { self.tell([&](auto& m) { return m.save_adapters(path); }); })
      .def("session", [](const std::shared_ptr<ModelHandle>& self,
                         const SessionOptions& options) { return made_from(self, options, &graft::Model::session); })
      .def("trainer", [](const std::shared_ptr<ModelHandle>& self,
                         const TrainerOptions& options) { return made_from(self, options, &graft::Model::trainer); })
      .def("importance",
           [](const std::shared_ptr<ModelHandle>& self, const ImportanceOptions& options) {
             return made_from(self, options, &graft::Model::importance);
           })
      .def("embedder", [](const std::shared_ptr<ModelHandle>& self,
                          const EmbedderOptions& options) { return made_from(self, options, &graft::Model::embedder); })
      .def("generator",
           [](const std::shared_ptr<ModelHandle>& self, const GeneratorOptions& options) {
             return made_from(self, options, &graft::Model::generator);
           })
      .def("tokenizer",
           [](const std::shared_ptr<ModelHandle>& self) {
             auto made = self->ask([](auto& m) { return m.tokenizer(); });
             return std::make_shared<TokenizerHandle>(self->context(), self, std::move(made));
           })
      .def("gradients", gradients_of)
      // (forecast, explanation)
      .def("forecast", [](ModelHandle& self, const TrainerOptions& options) {
        std::string explanation;
        const Forecast made = self.ask([&](auto& model) {
          auto forecast = model.forecast(options);
          if (forecast.ok()) explanation = forecast->explanation;
          return forecast;
        });
        return py::make_tuple(made, explanation);
      });
}

}  // namespace

void add_context(py::module_& module) {
  py::class_<PyCipher, std::shared_ptr<PyCipher>>(module, "Cipher").def(py::init<std::size_t, py::object>());
  py::class_<ContextHandle, std::shared_ptr<ContextHandle>>(module, "Context")
      .def(py::init(&open_context))
      .def_property_readonly("device_name", [](ContextHandle& self) { return self.context().device_name(); })
      // Not through call(): they are for while another thread is in one.
      .def("cancel", [](ContextHandle& self) { self.context().cancel(); })
      .def("uncancel", [](ContextHandle& self) { return self.context().uncancel(); })
      .def("set_pace",
           [](ContextHandle& self, double slice_ms, double duty) {
             if (const Status set = self.context().set_pace(slice_ms, duty); !set.ok()) raise(set);
           })
      .def("set_progress", [](ContextHandle& self, py::object told) { self.set_progress(std::move(told)); })
      .def("open_cache", open_cache)
      .def("load_bytes", load_bytes)
      .def("load", load);
  add_model(module);
}

}  // namespace graft::python
