// Weight deltas, for federated rounds.
#include "graft/delta.hpp"

#include <pybind11/stl.h>

#include "platform/python/native/arrays.h"
#include "platform/python/native/handles.h"

namespace graft::python {
namespace {

using DeltaHandle = Owned<graft::Delta, ContextHandle>;

std::shared_ptr<DeltaHandle> kept(const std::shared_ptr<ContextHandle>& context, Result<graft::Delta> made) {
  return std::make_shared<DeltaHandle>(context, context, value_of(std::move(made)));
}

py::dict describe(DeltaHandle& self) {
  struct Copy {
    graft_delta_info info;
    std::string base, base_file;
  };
  const Copy made = self.ask([](auto& delta) -> Result<Copy> {
    auto told = delta.describe();
    if (!told.ok()) return told.status();
    const graft_delta_info& info = *told;
    return Copy{info, info.base, info.base_file};
  });
  const graft_delta_info& info = made.info;
  py::dict out;
  out["base"] = made.base;
  out["base_file"] = made.base_file;
  out["of_adapters"] = info.of_adapters != 0;
  out["samples"] = info.samples;
  out["clients"] = info.clients;
  out["local_steps"] = info.local_steps;
  out["rank"] = info.rank;
  out["coding"] = static_cast<int>(info.coding);
  out["fixed_bits"] = info.fixed_bits;
  out["kept"] = info.kept;
  out["norm"] = info.norm;
  out["clip_norm"] = info.clip_norm;
  out["noise"] = info.noise;
  out["tensors"] = info.tensors;
  out["numbers"] = info.numbers;
  return out;
}

/// (name, dtype, shape) of tensor `index`.
py::tuple tensor(DeltaHandle& self, std::size_t index) {
  const TensorInfo info = self.ask([&](auto& delta) -> Result<TensorInfo> {
    TensorInfo out{};
    Status got = detail::to_status(graft_delta_tensor(delta.get(), index, &out), delta.context());
    if (!got.ok()) return got;
    return out;
  });
  return described(info, shape_of(info));
}

/// In place: the array keeps the delta.
py::array integers(const std::shared_ptr<DeltaHandle>& self, const std::string& name) {
  const auto found = self->ask([&](auto& delta) { return delta.integers(name); });
  return py::array_t<std::uint32_t>(static_cast<py::ssize_t>(found.size()), found.data(), py::cast(self));
}

using AveragerHandle = Owned<graft::Averager, ContextHandle>;
using ServerHandle = Owned<graft::Server, ContextHandle>;

void add_server(py::module_& module) {
  py::class_<AveragerHandle, std::shared_ptr<AveragerHandle>>(module, "Averager")
      .def("add", [](AveragerHandle& self,
                     DeltaHandle& delta) { self.tell([&](auto& averager) { return averager.add(*delta); }); })
      .def("finish", [](AveragerHandle& self) {
        return std::make_shared<DeltaHandle>(self.context(), self.context(),
                                             self.ask([](auto& averager) { return averager.finish(); }));
      });
  py::class_<ServerHandle, std::shared_ptr<ServerHandle>>(module, "Server")
      .def("keeps",
           [](ServerHandle& self) { return self.ask([](auto& server) -> Result<bool> { return server.keeps(); }); })
      .def("load",
           [](ServerHandle& self, const std::string& path) { self.tell([&](auto& s) { return s.load(path); }); })
      .def("save",
           [](ServerHandle& self, const std::string& path) { self.tell([&](auto& s) { return s.save(path); }); })
      .def("step", [](ServerHandle& self, ModelHandle& base, DeltaHandle& average) {
        return std::make_shared<DeltaHandle>(self.context(), self.context(),
                                             self.ask([&](auto& server) { return server.step(*base, *average); }));
      });
  module
      .def("averager",
           [](const std::shared_ptr<ContextHandle>& context, const AverageOptions& options) {
             auto made = value_of(context->call([&] { return graft::Averager::create(context->context(), options); }));
             return std::make_shared<AveragerHandle>(context, context, std::move(made));
           })
      .def("server", [](const std::shared_ptr<ContextHandle>& context, int kind, double rate, double beta1,
                        double beta2, double tau) {
        graft::Server::Options options;
        options.kind = static_cast<graft_server_kind>(kind);
        options.rate = rate;
        options.beta1 = beta1;
        options.beta2 = beta2;
        options.tau = tau;
        auto made = value_of(context->call([&] { return graft::Server::create(context->context(), options); }));
        return std::make_shared<ServerHandle>(context, context, std::move(made));
      });
}

std::shared_ptr<DeltaHandle> average(const std::shared_ptr<ContextHandle>& self,
                                     const std::vector<std::shared_ptr<DeltaHandle>>& deltas,
                                     const AverageOptions& options) {
  std::vector<graft::Delta*> all;
  for (const auto& delta : deltas) all.push_back(&**delta);
  return kept(self, self->call([&] { return graft::Delta::average(self->context(), all, options); }));
}

double privacy(ContextHandle& self, double noise, double share, std::uint64_t rounds, double delta) {
  double epsilon = 0;
  check(self.call([&] {
    graft_context* context = self.context().get();
    return detail::to_status(graft_delta_privacy(context, noise, share, rounds, delta, &epsilon), context);
  }));
  return epsilon;
}

}  // namespace

void add_delta(py::module_& module) {
  py::class_<DeltaOptions>(module, "DeltaOptions")
      .def(py::init<>())
      .def_readwrite("samples", &DeltaOptions::samples)
      .def_readwrite("local_steps", &DeltaOptions::local_steps)
      .def_property(
          "coding", [](const DeltaOptions& o) { return static_cast<int>(o.coding); },
          [](DeltaOptions& o, int value) { o.coding = static_cast<graft_delta_coding>(value); })
      .def_readwrite("fixed_bits", &DeltaOptions::fixed_bits)
      .def_readwrite("room", &DeltaOptions::room)
      .def_readwrite("clip_norm", &DeltaOptions::clip_norm)
      .def_readwrite("noise", &DeltaOptions::noise)
      .def_readwrite("residual", &DeltaOptions::residual);
  py::class_<AverageOptions>(module, "AverageOptions")
      .def(py::init<>())
      .def_readwrite("equal", &AverageOptions::equal)
      .def_readwrite("products", &AverageOptions::products)
      .def_readwrite("rank", &AverageOptions::rank)
      .def_readwrite("noise", &AverageOptions::noise)
      .def_readwrite("clip_norm", &AverageOptions::clip_norm)
      .def_readwrite("expected_clients", &AverageOptions::expected_clients);
  py::class_<DeltaHandle, std::shared_ptr<DeltaHandle>>(module, "Delta")
      .def("describe", describe)
      .def("tensor", tensor)
      .def("numbers",
           [](DeltaHandle& self, const std::string& name) {
             const auto all = self.ask([&](auto& delta) { return delta.numbers(name); });
             return py::array_t<float>(static_cast<py::ssize_t>(all.size()), all.data());
           })
      .def("integers", integers)
      .def("save",
           [](DeltaHandle& self, const std::string& path) { self.tell([&](auto& delta) { return delta.save(path); }); })
      .def("bytes",
           [](DeltaHandle& self) {
             return py::bytes(self.ask([](auto& delta) -> Result<std::string> {
               auto all = delta.bytes();
               if (!all.ok()) return all.status();
               return std::string(reinterpret_cast<const char*>(all->data()), all->size());
             }));
           })
      .def("apply_to", [](DeltaHandle& self, ModelHandle& model, double rate) {
        self.tell([&](auto& delta) { return delta.apply_to(*model, rate); });
      });
  module
      .def("make_delta",
           [](ModelHandle& base, ModelHandle& updated, const DeltaOptions& options) {
             const auto context = updated.context();
             return kept(context, context->call([&] { return graft::Delta::make(*base, *updated, options); }));
           })
      .def("load_delta",
           [](const std::shared_ptr<ContextHandle>& context, const std::string& path) {
             return kept(context, context->call([&] { return graft::Delta::load(context->context(), path); }));
           })
      .def("load_delta_bytes",
           [](const std::shared_ptr<ContextHandle>& context, const py::bytes& file) {
             const std::string_view bytes = file;
             return kept(context, context->call([&] {
               return graft::Delta::load(context->context(),
                                         Source::copy(detail::bytes_at(bytes.data(), bytes.size())));
             }));
           })
      .def("average_deltas", average)
      .def("delta_privacy", privacy);
  add_server(module);
}

}  // namespace graft::python
