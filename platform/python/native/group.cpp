// Groups of workers: threads of one process, and what Python brings of its own.
#include <pybind11/stl.h>

#include <cstdio>

#include "graft/steps.hpp"
#include "platform/python/native/data.h"

namespace graft::python {
namespace {

/// What TrainerOptions::group points to, and what its functions use.
struct GroupEnd {
  graft_group raw{};
  std::shared_ptr<void> used;
};

/// An object with rank, size, exchange() and leave(); reform() and waiting() where it has them.
class PyGroup {
 public:
  explicit PyGroup(py::object object) : size_(object.attr("size").cast<std::uint32_t>()), object_(std::move(object)) {}

  static std::shared_ptr<GroupEnd> end(const py::object& object) {
    auto group = std::make_shared<PyGroup>(object);
    auto end = std::make_shared<GroupEnd>();
    graft_group& raw = end->raw;
    raw.struct_size = sizeof raw;
    raw.rank = object.attr("rank").cast<std::uint32_t>();
    raw.size = group->size_;
    raw.user = group.get();
    raw.exchange = exchange;
    raw.leave = leave;
    if (py::hasattr(object, "reform")) raw.reform = reform;
    if (py::hasattr(object, "waiting")) raw.waiting = waiting;
    end->used = std::move(group);
    return end;
  }

 private:
  /// Runs `call` with the interpreter's lock; what it raises becomes a status and its sentence.
  template <typename Call>
  static graft_status told(char* message, std::size_t bytes, Call&& call) {
    const py::gil_scoped_acquire acquired;
    try {
      call();
      return GRAFT_OK;
    } catch (py::error_already_set& error) {
      std::snprintf(message, bytes, "%s", py::str(error.value()).cast<std::string>().c_str());
      if (error.matches(PyExc_TimeoutError)) return GRAFT_TIMEOUT;
      if (error.matches(PyExc_OSError)) return GRAFT_IO_ERROR;
      return error.matches(PyExc_KeyboardInterrupt) ? GRAFT_CANCELLED : GRAFT_INVALID_ARGUMENT;
    } catch (const py::cast_error& error) {
      std::snprintf(message, bytes, "%s", error.what());
      return GRAFT_INVALID_ARGUMENT;
    }
  }
  static graft_status exchange(void* user, std::size_t parts, const void* const* out, const std::size_t* out_bytes,
                               void* const* in, const std::size_t* in_bytes, std::uint64_t deadline_ms, char* message,
                               std::size_t message_bytes) {
    PyGroup& self = *static_cast<PyGroup*>(user);
    return told(message, message_bytes, [&] {
      static char nothing;  // where parts are empty
      py::list given, taken;
      for (std::size_t part = 0; part < parts; ++part) {
        py::list from, to;
        for (std::size_t i = part * self.size_; i < (part + 1) * self.size_; ++i) {
          from.append(py::memoryview::from_memory(out_bytes[i] == 0 ? &nothing : out[i],
                                                  static_cast<py::ssize_t>(out_bytes[i])));
          to.append(py::memoryview::from_memory(in_bytes[i] == 0 ? &nothing : in[i],
                                                static_cast<py::ssize_t>(in_bytes[i]), /*readonly=*/false));
        }
        given.append(from);
        taken.append(to);
      }
      const py::object deadline = deadline_ms == UINT64_MAX
                                      ? py::object(py::none())
                                      : py::object(py::float_(static_cast<double>(deadline_ms) / 1e3));
      self.object_.get().attr("exchange")(given, taken, deadline);
      // The memory is graft's again: whoever kept a view finds it released.
      for (const py::list& rows : {given, taken}) {
        for (const py::handle row : rows) {
          for (const py::handle view : row) view.attr("release")();
        }
      }
    });
  }
  static void leave(void* user, graft_status why, const char* message) {
    const py::gil_scoped_acquire acquired;
    try {
      static_cast<PyGroup*>(user)->object_.get().attr("leave")(why == GRAFT_OK ? py::object(py::none())
                                                                               : py::object(py::str(message)));
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable("a group that is left");
    }
  }
  static graft_status reform(void* user, std::uint32_t* rank, std::uint32_t* size, char* message, std::size_t bytes) {
    PyGroup& self = *static_cast<PyGroup*>(user);
    return told(message, bytes, [&] {
      const auto place = self.object_.get().attr("reform")().cast<std::pair<std::uint32_t, std::uint32_t>>();
      *rank = place.first;
      *size = self.size_ = place.second;
    });
  }
  static int waiting(void* user) {
    const py::gil_scoped_acquire acquired;
    try {
      return static_cast<PyGroup*>(user)->object_.get().attr("waiting")().cast<bool>() ? 1 : 0;
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable("a group's waiting()");
      return 0;
    }
  }

  std::uint32_t size_;
  Kept object_;
};

std::vector<std::shared_ptr<GroupEnd>> thread_ends(std::uint32_t size) {
  auto group = std::make_shared<ThreadGroup>(size);
  if (group->size() != size || size == 0) raise(Status(GRAFT_INVALID_ARGUMENT, "A group has 1 to 1024 threads."));
  std::vector<std::shared_ptr<GroupEnd>> ends;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    ends.push_back(std::make_shared<GroupEnd>(GroupEnd{(*group)[rank], group}));
  }
  return ends;
}

py::tuple rank(TrainerHandle& self) {
  const WorkerRank worker = self.ask([](auto& trainer) { return trainer.rank(); });
  return py::make_tuple(worker.rank, worker.size);
}

py::tuple share(TrainerHandle& self, std::uint32_t samples) {
  const WorkerShare own = self.ask([&](auto& trainer) { return trainer.share(samples); });
  return py::make_tuple(own.first, own.count);
}

graft::Loader* loader_of(LoaderHandle* loader) { return loader == nullptr ? nullptr : &**loader; }

/// The model borrows what is not trained from the trainer's, which stays as long.
std::shared_ptr<ModelHandle> copy(TrainerHandle& self, bool ema) {
  Model made = self.ask([&](auto& trainer) { return graft::copy(trainer, ema); });
  const std::shared_ptr<ContextHandle> beside(self.parent(), self.context().get());
  return std::make_shared<ModelHandle>(self.context(), beside, std::move(made));
}

py::dict last_step(TrainerHandle& self) {
  const graft_step_info step = self.ask([](auto& trainer) -> Result<graft_step_info> {
    auto report = graft::last_step(trainer);
    if (!report.ok()) return report.status();
    return report->step;
  });
  py::dict out;
  out["step"] = step.step;
  out["epoch"] = step.epoch;
  out["ends_epoch"] = step.ends_epoch != 0;
  out["learning_rate"] = step.learning_rate;
  out["gradient_norm"] = step.gradient_norm;
  out["loss_scale"] = step.loss_scale;
  out["skipped"] = step.skipped != 0;
  out["skipped_steps"] = step.skipped_steps;
  out["submissions"] = step.submissions;
  return out;
}

}  // namespace

void add_group(py::module_& module) {
  py::class_<GroupEnd, std::shared_ptr<GroupEnd>>(module, "GroupEnd")
      .def("share_steps",
           [](GroupEnd& end, bool shard_optimizer, bool moves_shares, bool bf16_wire, bool overlap) {
             graft_group& raw = end.raw;
             raw.shard_optimizer = shard_optimizer ? 1 : 0;
             raw.moves_shares = moves_shares ? 1 : 0;
             raw.bf16_wire = bf16_wire ? 1 : 0;
             raw.overlap = overlap ? 1 : 0;
           })
      .def("set_group", [](GroupEnd& end, TrainerOptions& options) { options.group = &end.raw; })
      .def("keep", [](const std::shared_ptr<GroupEnd>& end, TrainerHandle& trainer) { trainer.context()->keep(end); });
  module.def("thread_ends", thread_ends)
      .def("group_end", PyGroup::end)
      .def("join", [](TrainerHandle& t,
                      LoaderHandle* loader) { return t.ask([&](auto& o) { return o.join(loader_of(loader)); }); })
      .def("meet",
           [](TrainerHandle& t, LoaderHandle* loader) { t.tell([&](auto& o) { return o.meet(loader_of(loader)); }); })
      .def("trouble",
           [](TrainerHandle& t) { return t.ask([](auto& o) -> Result<int> { return static_cast<int>(o.trouble()); }); })
      .def("conclude",
           [](TrainerHandle& t, bool finished) { return t.ask([&](auto& o) { return o.conclude(finished); }); })
      .def("request_whole", [](TrainerHandle& t) { return t.ask([](auto& o) { return o.request_whole(); }); })
      .def("gather", [](TrainerHandle& t) { t.tell([](auto& o) { return o.gather(); }); })
      .def("rank", rank)
      .def("share", share)
      .def("copy", copy)
      .def("last_step", last_step);
}

}  // namespace graft::python
