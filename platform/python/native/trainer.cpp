// Trainers.
#include <pybind11/stl.h>

#include <optional>

#include "platform/python/native/arrays.h"
#include "platform/python/native/data.h"

namespace graft::python {
namespace {

/// The arrays are contiguous, of the dtypes that sample() names, and of `samples` samples each.
struct Arrays {
  std::vector<const void*> inputs;
  const void* target = nullptr;

  Arrays(const std::vector<py::array>& given, const std::optional<py::array>& wanted)
      : target(wanted ? wanted->data() : nullptr) {
    for (const py::array& array : given) inputs.push_back(array.data());
  }
};

Metrics step(TrainerHandle& self, const std::vector<py::array>& inputs, const std::optional<py::array>& target,
             std::uint32_t samples) {
  const Arrays arrays(inputs, target);
  return self.ask([&](auto& trainer) { return trainer.train_step(arrays.inputs, arrays.target, samples); });
}

/// None until the step's last micro-batch.
py::object micro_step(TrainerHandle& self, const std::vector<py::array>& inputs, const std::optional<py::array>& target,
                      std::uint32_t samples) {
  const Arrays arrays(inputs, target);
  const auto metrics =
      self.ask([&](auto& trainer) { return trainer.micro_step(arrays.inputs, arrays.target, samples); });
  return metrics ? py::cast(*metrics) : py::none();
}

Metrics evaluate(TrainerHandle& self, const std::vector<py::array>& inputs, const std::optional<py::array>& target,
                 std::uint32_t samples) {
  const Arrays arrays(inputs, target);
  return self.ask([&](auto& trainer) { return trainer.evaluate(arrays.inputs, arrays.target, samples); });
}

py::list sample(TrainerHandle& self) {
  py::list out;
  const auto parts = self.ask([](auto& trainer) -> Result<std::vector<TensorInfo>> { return trainer.sample(); });
  for (const TensorInfo& info : parts) out.append(described(info, shape_of(info)));
  return out;
}

py::object fetch(TrainerHandle& self, const std::string& name) {
  return copied(self, [&](auto* handle, const void** data, std::size_t* bytes, TensorInfo* info) {
    return graft_trainer_fetch(handle, name.c_str(), data, bytes, info);
  });
}

void set_checkpoint_data(TrainerHandle& self, const py::bytes& data, std::uint32_t worker) {
  const std::string_view bytes = data;
  self.tell(
      [&](auto& trainer) { return trainer.set_checkpoint_data(detail::bytes_at(bytes.data(), bytes.size()), worker); });
}

py::bytes checkpoint_data(TrainerHandle& self, std::uint32_t worker) {
  return py::bytes(self.ask([&](auto& trainer) -> Result<std::string> {
    auto data = trainer.checkpoint_data(worker);
    if (!data.ok()) return data.status();
    return std::string(reinterpret_cast<const char*>(data->data()), data->size());
  }));
}

void add_checkpoints(py::class_<TrainerHandle, std::shared_ptr<TrainerHandle>>& trainer) {
  trainer
      .def("open_checkpoint",
           [](TrainerHandle& self, CheckpointOptions options, LoaderHandle* loader,
              const std::shared_ptr<PyCipher>& cipher) {
             options.loader = loader == nullptr ? nullptr : &**loader;
             options.cipher = cipher.get();
             if (cipher != nullptr) self.context()->keep(cipher);
             return self.ask([&](auto& t) { return t.open_checkpoint(options); });
           })
      .def("save_checkpoint",
           [](TrainerHandle& self, const std::string& tag) {
             self.tell([&](auto& t) { return t.save_checkpoint(tag); });
           })
      .def("close_checkpoint", [](TrainerHandle& self) { self.tell([](auto& t) { return t.close_checkpoint(); }); })
      .def("set_checkpoint_data", set_checkpoint_data)
      .def("checkpoint_data", checkpoint_data)
      .def("warm_start", [](TrainerHandle& self, const std::string& folder, const std::string& snapshot,
                            const std::shared_ptr<PyCipher>& cipher) {
        self.tell([&](auto& t) { return t.warm_start(folder, snapshot, cipher.get()); });
      });
}

}  // namespace

void add_trainer(py::module_& module) {
  py::class_<TrainerHandle, std::shared_ptr<TrainerHandle>> trainer(module, "Trainer");
  trainer.def("sample", sample)
      .def("step", step)
      .def("micro_step", micro_step)
      .def("evaluate", evaluate)
      .def("fetch", fetch)
      .def("read",
           [](TrainerHandle& self, const std::string& name) {
             return weight(self, [&](auto* handle, void* data, std::size_t bytes, TensorInfo* info) {
               return graft_trainer_read(handle, name.c_str(), data, bytes, info);
             });
           })
      .def("write", [](TrainerHandle& self, const std::string& name,
                       const py::array& array) { self.tell([&](auto& t) { return t.write(name, bytes_of(array)); }); })
      .def_property(
          "learning_rate",
          [](TrainerHandle& self) { return self.ask([](auto& t) -> Result<double> { return t.learning_rate(); }); },
          [](TrainerHandle& self, double rate) { self.tell([&](auto& t) { return t.set_learning_rate(rate); }); })
      .def("store", [](TrainerHandle& self) { self.tell([](auto& t) { return t.store(); }); })
      .def("store_ema", [](TrainerHandle& self) { self.tell([](auto& t) { return t.store_ema(); }); })
      .def("memory", [](TrainerHandle& self) { return self.ask([](auto& t) { return t.memory(); }); })
      .def("set_budget",
           [](TrainerHandle& self, std::uint64_t bytes) { self.tell([&](auto& t) { return t.set_budget(bytes); }); })
      .def("resume", [](TrainerHandle& self) { self.tell([](auto& t) { return t.resume(); }); })
      .def("pause", [](TrainerHandle& self) { self.tell([](auto& t) { return t.pause(); }); })
      .def("trim", [](TrainerHandle& self, std::uint64_t bytes) { self.tell([&](auto& t) { return t.trim(bytes); }); })
      .def("shortages", [](TrainerHandle& self) {
        return self.ask([](auto& t) -> Result<std::uint64_t> { return t.shortages(); });
      });
  add_checkpoints(trainer);
}

}  // namespace graft::python
