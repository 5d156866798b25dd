// What is known of models, plans, devices and kept runs.
#include <pybind11/stl.h>

#include "graft/devices.h"
#include "graft/plan.h"
#include "graft/verify.h"
#include "platform/python/native/arrays.h"
#include "platform/python/native/handles.h"

namespace graft::python {
namespace {

Status status_of(graft_status code, const graft::Model& model) { return detail::to_status(code, model.context()); }

struct PlanDeleter {
  void operator()(graft_plan* plan) const { graft_plan_destroy(plan); }
};
using Plan = std::unique_ptr<graft_plan, PlanDeleter>;

struct Node {
  std::string name, op;
  graft_plan_node n;
};
struct Value {
  std::string name, memory_class;
  graft_plan_value v;
};

/// All that a plan says: the forecast with its explanation, nodes, values, and the curve where it was asked for.
struct Planned {
  Forecast forecast = detail::sized<Forecast>();
  std::string explanation;
  std::vector<Node> nodes;
  std::vector<Value> values;
  std::vector<graft_plan_point> curve;
};

Result<Planned> planned(graft::Model& model, const graft_plan_options& options) {
  graft_plan* made = nullptr;
  if (Status done = status_of(graft_plan_create(model.get(), &options, &made), model); !done.ok()) return done;
  const Plan plan(made);
  Planned out;
  if (graft_plan_forecast(made, &out.forecast) == GRAFT_OK) out.explanation = out.forecast.explanation;
  for (std::size_t i = 0; i < graft_plan_node_count(made); ++i) {
    auto node = detail::sized<graft_plan_node>();
    if (graft_plan_node_at(made, i, &node) == GRAFT_OK) out.nodes.push_back({node.name, node.op, node});
  }
  for (std::size_t i = 0; i < graft_plan_value_count(made); ++i) {
    auto value = detail::sized<graft_plan_value>();
    if (graft_plan_value_at(made, i, &value) == GRAFT_OK) out.values.push_back({value.name, value.memory_class, value});
  }
  const graft_plan_point* points = nullptr;
  std::size_t count = 0;
  if (options.curve != 0 && graft_plan_curve(made, &points, &count) == GRAFT_OK)
    out.curve.assign(points, points + count);
  return out;
}

py::dict told(const Planned& plan) {
  py::list nodes, values, curve;
  for (const Node& node : plan.nodes) {
    const graft_plan_node& n = node.n;
    nodes.append(py::make_tuple(node.name, node.op, n.backward != 0, n.recomputed != 0, n.flops, n.bytes,
                                n.scratch_bytes, n.live_bytes, n.dispatches));
  }
  for (const Value& value : plan.values) {
    const graft_plan_value& v = value.v;
    values.append(py::make_tuple(value.name, value.memory_class, v.offset, v.bytes, v.first, v.last, v.saved != 0));
  }
  for (const graft_plan_point& p : plan.curve) {
    curve.append(py::make_tuple(p.bytes, p.extra_flops, p.extra_bytes, p.recomputed));
  }
  py::dict out;
  out["forecast"] = plan.forecast;
  out["explanation"] = plan.explanation;
  out["nodes"] = nodes;
  out["values"] = values;
  out["curve"] = curve;
  return out;
}

py::dict plan_training(ModelHandle& self, const TrainerOptions& training, const std::string& caps, bool curve) {
  const detail::RawTrainerOptions raw(training);
  graft_plan_options options = detail::sized<graft_plan_options>();
  options.training = raw.get();
  options.caps = detail::or_null(caps);
  options.curve = curve ? 1 : 0;
  return told(self.ask([&](auto& model) { return planned(model, options); }));
}

py::dict plan_running(ModelHandle& self, const std::map<std::string, std::int64_t>& sizes, std::uint64_t budget,
                      int precision, const std::string& caps) {
  std::vector<graft_binding> bindings;
  for (const auto& [name, size] : sizes) bindings.push_back({name.c_str(), size});
  auto session = detail::sized<graft_session_options>();
  session.bindings = bindings.data();
  session.binding_count = bindings.size();
  session.budget = budget;
  session.precision = static_cast<graft_precision>(precision);
  graft_plan_options options = detail::sized<graft_plan_options>();
  options.session = &session;
  options.caps = detail::or_null(caps);
  return told(self.ask([&](auto& model) { return planned(model, options); }));
}

py::list layers(ModelHandle& self, const std::map<std::string, std::int64_t>& sizes) {
  struct Copy {
    std::string name, op, shape;
    graft_layer layer;
  };
  std::vector<graft_binding> bindings;
  for (const auto& [name, size] : sizes) bindings.push_back({name.c_str(), size});
  py::list out;
  for (const Copy& copy : self.ask([&](auto& model) -> Result<std::vector<Copy>> {
         const graft_layer* all = nullptr;
         std::size_t count = 0;
         Status got = status_of(graft_model_layers(model.get(), bindings.data(), bindings.size(), &all, &count), model);
         if (!got.ok()) return got;
         std::vector<Copy> copies;
         for (std::size_t i = 0; i < count; ++i) {
           const graft_layer& layer = all[i];
           copies.push_back({layer.name, layer.op, layer.shape, layer});
         }
         return copies;
       })) {
    const graft_layer& layer = copy.layer;
    out.append(py::make_tuple(copy.name, copy.op, copy.shape, layer.parameters, layer.bytes, layer.flops));
  }
  return out;
}

/// (weight, first byte, last byte) of each damage.
py::list find_damage(ModelHandle& self) {
  using Found = std::vector<std::tuple<std::string, std::uint64_t, std::uint64_t>>;
  return py::cast(self.ask([&](auto& model) -> Result<Found> {
    const graft_damage* damage = nullptr;
    std::size_t count = 0;
    Status got = status_of(graft_model_find_damage(model.get(), &damage, &count), model);
    if (!got.ok()) return got;
    Found out;
    for (const graft_damage* d = damage; d != damage + count; ++d)
      out.emplace_back(d->weight, d->first_byte, d->last_byte);
    return out;
  }));
}

struct NodeVerdict {
  std::string node, op, failure;
  double forward, gradient;
  bool passed;
};

int note_verdict(void* user, const graft_node_verdict* verdict) {
  static_cast<std::vector<NodeVerdict>*>(user)->push_back(
      {verdict->node, verdict->op, verdict->failure, verdict->forward, verdict->gradient, verdict->passed != 0});
  const py::gil_scoped_acquire acquired;
  return PyErr_CheckSignals() == 0 ? 0 : 1;
}

/// (node, op, forward, gradient, failure, passed) of each.
py::list verify(ModelHandle& self, const std::map<std::string, std::int64_t>& sizes, std::uint64_t seed,
                double tolerance) {
  std::vector<graft_binding> bindings;
  for (const auto& [name, size] : sizes) bindings.push_back({name.c_str(), size});
  auto options = detail::sized<graft_verify_options>();
  options.bindings = bindings.data();
  options.binding_count = bindings.size();
  options.seed = seed;
  options.tolerance = tolerance;
  std::vector<NodeVerdict> verdicts;
  const auto context = self.context();
  const Status done = context->call([&]() -> Status {
    return status_of(graft_model_verify((*self).get(), &options, note_verdict, &verdicts, nullptr, nullptr), *self);
  });
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();
  if (!done.ok() && done.code() != GRAFT_DEVICE_ERROR) raise(done);
  py::list out;
  for (const NodeVerdict& v : verdicts) {
    out.append(py::make_tuple(v.node, v.op, v.forward, v.gradient, v.failure, v.passed));
  }
  return out;
}

using KernelVerdicts = std::vector<std::tuple<std::string, int, std::string>>;

void note_kernel(void* user, const char* kernel, graft_kernel_verdict verdict, const char* why) {
  static_cast<KernelVerdicts*>(user)->emplace_back(kernel, verdict, why);
}

template <typename Ask>
KernelVerdicts kernels(ContextHandle& self, Ask ask) {
  KernelVerdicts out;
  check(self.call([&] {
    graft_context* context = self.context().get();
    return detail::to_status(ask(context, note_kernel, &out), context);
  }));
  return out;
}

struct DevicesDeleter {
  void operator()(graft_devices* devices) const { graft_devices_destroy(devices); }
};

/// A dict for each device.
py::list find_devices(const ContextOptions& given) {
  detail::ContextCalls calls(given);
  const graft_context_options raw = detail::raw_options(calls);
  graft_devices* found = nullptr;
  const graft_status code = graft_devices_find(&raw, &found);
  const std::unique_ptr<graft_devices, DevicesDeleter> owned(found);
  if (code != GRAFT_OK) raise(Status(code, found == nullptr ? "Out of memory." : graft_devices_message(found)));
  py::list out;
  for (std::size_t i = 0; i < graft_devices_count(found); ++i) {
    auto info = detail::sized<graft_device_info>();
    if (graft_devices_info(found, i, &info) != GRAFT_OK) continue;
    py::dict one;
    one["name"] = info.name;
    one["driver"] = info.driver;
    one["driver_info"] = info.driver_info;
    one["type"] = static_cast<int>(info.type);
    one["vendor_id"] = info.vendor_id;
    one["device_id"] = info.device_id;
    one["api_version"] = py::make_tuple(info.api_version[0], info.api_version[1], info.api_version[2]);
    one["memory"] = info.memory;
    one["largest_heap"] = info.largest_heap;
    one["unified_memory"] = info.unified_memory != 0;
    one["timestamps"] = info.timestamps != 0;
    py::dict features, limits;
    py::list matrices, quirks;
    auto fact = detail::sized<graft_device_fact>();
    for (std::size_t f = 0; graft_devices_fact(found, i, f, &fact) == GRAFT_OK; ++f) {
      if (fact.text != nullptr) {
        matrices.append(fact.text);
      } else if (fact.is_feature != 0) {
        features[fact.name] = fact.values[0] != 0;
      } else {
        limits[fact.name] = std::vector<std::uint64_t>(fact.values, fact.values + fact.value_count);
      }
      fact = detail::sized<graft_device_fact>();
    }
    auto quirk = detail::sized<graft_device_quirk>();
    for (std::size_t q = 0; graft_devices_quirk(found, i, q, &quirk) == GRAFT_OK; ++q) {
      quirks.append(py::make_tuple(quirk.name, quirk.action, quirk.reason, quirk.link));
    }
    one["features"] = features;
    one["limits"] = limits;
    one["matrices"] = matrices;
    one["quirks"] = quirks;
    out.append(one);
  }
  return out;
}

py::tuple told(const Snapshot& s) {
  return py::make_tuple(s.number, s.step, s.loss, s.made_ms, s.bytes, s.stored_bytes, s.own_bytes, s.tags, s.is_head);
}

void add_store(py::module_& module) {
  py::class_<StoreHandle, std::shared_ptr<StoreHandle>>(module, "Store")
      .def("snapshots",
           [](StoreHandle& self) {
             py::list out;
             for (const Snapshot& one :
                  self.ask([](auto& store) -> Result<std::vector<Snapshot>> { return store.snapshots(); })) {
               out.append(told(one));
             }
             return out;
           })
      .def("find",
           [](StoreHandle& self, const std::string& name) {
             return told(self.ask([&](auto& store) { return store.find(name); }));
           })
      .def("metadata",
           [](StoreHandle& self, const std::string& name, const std::string& key) {
             return self.ask([&](auto& store) { return store.metadata(name, key); });
           })
      .def("verify", [](StoreHandle& self) { return self.ask([](auto& store) { return store.verify(); }); })
      .def("diff",
           [](StoreHandle& self, const std::string& first, const std::string& second) {
             py::list out;
             for (const StreamDifference& s : self.ask([&](auto& store) { return store.diff(first, second); })) {
               out.append(py::make_tuple(s.name, s.worker, static_cast<int>(s.difference), s.bytes_in_first,
                                         s.bytes_in_second, s.changed_bytes));
             }
             return out;
           })
      .def("restore",
           [](StoreHandle& self, const std::string& name, ModelHandle& model) {
             return self.ask([&](auto& store) { return (*model).restore(store, name); });
           })
      .def("tag", [](StoreHandle& self, const std::string& name,
                     const std::string& tag) { self.tell([&](auto& store) { return store.tag(name, tag); }); })
      .def("untag", [](StoreHandle& self, const std::string& name,
                       const std::string& tag) { self.tell([&](auto& store) { return store.untag(name, tag); }); })
      .def("prune",
           [](StoreHandle& self, std::size_t keep) { return self.ask([&](auto& s) { return s.prune(keep); }); })
      .def("branch", [](StoreHandle& self, const std::string& name) {
        self.tell([&](auto& store) { return store.branch(name); });
      });
  module.def("open_store", [](const std::shared_ptr<ContextHandle>& context, const std::string& folder, bool writable,
                              const std::shared_ptr<PyCipher>& cipher) {
    if (cipher != nullptr) context->keep(cipher);
    auto store = value_of(context->call([&] { return context->context().open_store(folder, writable, cipher.get()); }));
    return std::make_shared<StoreHandle>(context, context, std::move(store));
  });
}

}  // namespace

void add_inspection(py::module_& module) {
  module.def("plan_training", plan_training)
      .def("plan_running", plan_running)
      .def("layers", layers)
      .def("find_damage", find_damage)
      .def("verify", verify)
      .def("self_test", [](ContextHandle& self) { return kernels(self, graft_context_self_test); })
      .def("known_kernels", [](ContextHandle& self) { return kernels(self, graft_context_known_kernels); })
      .def("find_devices", find_devices);
  add_store(module);
}

}  // namespace graft::python
