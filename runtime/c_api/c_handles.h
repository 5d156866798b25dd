// What stands behind the opaque handles of graft.h, and how each entry point keeps its promises.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "graft/evaluate.h"
#include "graft/graft.h"
#include "platform/base/allocator.h"
#include "platform/base/cancel.h"
#include "platform/base/log.h"
#include "platform/gpu/gpu.h"
#include "platform/os/file.h"
#include "platform/vulkan/vulkan_device.h"
#include "runtime/c_api/c_calls.h"
#include "runtime/c_api/c_options.h"
#include "runtime/c_api/c_worker.h"
#include "runtime/distribute/group_exchange.h"
#include "runtime/exec/run_control.h"
#include "runtime/kernels/kernel_proof.h"
#include "runtime/language/batch_generator.h"
#include "runtime/model/model.h"
#include "runtime/report/layers.h"
#include "runtime/report/run_profile.h"
#include "runtime/run_state/checkpointing.h"
#include "runtime/run_state/gate.h"
#include "runtime/session/callback_group.h"
#include "runtime/session/session.h"
#include "runtime/session/time_limit.h"
#include "runtime/train/run/trainer.h"

struct graft_context {
  ~graft_context();

  graft::HostAllocator allocator = graft::default_host_allocator();
  graft::LogSink log;
  void (*log_callback)(void* user, graft_log_level level, const char* message) = nullptr;
  void* log_user = nullptr;
  graft::c_api::Messages messages;
  graft::os::FileSystem* files = &graft::os::system_files();   // tests put others here
  bool deviceless = false;                                     ///< asked for, to forecast
  bool plans_only = false;                                     ///< the device is not to be run on
  graft::vulkan::DeviceOptions device_options = {};            ///< to open it anew after it was lost
  std::vector<std::unique_ptr<graft::gpu::Device>> lost = {};  ///< what was made of them is destroyed later
  /// Of the validation layers, where they were asked for; told when the device has gone.
  struct Validation {
    explicit Validation(const graft::LogSink& sink) : log(sink) {}
    Validation(const Validation&) = delete;
    Validation& operator=(const Validation&) = delete;
    ~Validation() {
      for (const std::string& message : messages.take()) log(graft::LogLevel::error, "validation: ", message);
    }
    graft::vulkan::ValidationMessages messages;
    const graft::LogSink& log;
  } validation{log};
  // Null in a context that failed to be made or is deviceless. It goes before the log that it may still use.
  std::unique_ptr<graft::gpu::Device> device;
  std::unique_ptr<graft::KernelProof> proof = {};         ///< of graft_context_open_cache(); null without
  const std::uint64_t process = graft::os::process_id();  ///< a forked child has neither its threads nor its device
  std::mutex mutex;                                       ///< of the call in progress
  std::atomic<std::thread::id> owner{};                   ///< the thread that is in it
  graft::RunControl control;                              ///< of the call in progress
  graft::c_api::Users users;
  graft::c_api::Worker worker;  ///< for what does not block; first to go
};

struct graft_model {
  graft::c_api::Ref<graft_context> context;
  graft::Model model;
  bool allow_non_finite = false;   ///< in what is saved
  bool stores_non_finite = false;  ///< and in what is stored
  bool shapes_only = false;        ///< weights may lack contents
  std::string explanation = {};    ///< of the last forecast
  std::string dimension = {};      ///< of the last graft_model_dimension()
  std::string dtype_text = {};     ///< of the last graft_model_tensor_text()
  std::string shape_text = {};
  std::string count_name = {};                   ///< of the last graft_model_counted()
  graft::Bindings bindings = {};                 ///< of the last graft_model_complete_bindings()
  std::vector<graft_binding> binding_rows = {};  ///< over them
  std::string missing = {};                      ///< of the last graft_model_known_bindings()
  std::string class_name = {};                   ///< of the last graft_model_class()
  std::string parts = {};                        ///< of the last graft_model_parts()
  // Where adapters are on: what `model` borrows its weights from.
  std::unique_ptr<graft::Model> base = nullptr;
  std::unique_ptr<graft::Model> adapters = nullptr;
  std::vector<std::unique_ptr<graft::Model>> merged_into = {};  ///< what it borrows from where adapters were merged
  std::vector<graft::Layer> layers = {};                        ///< of the last graft_model_layers()
  std::vector<graft_layer> layer_rows = {};                     ///< over them
  std::vector<graft_damage> damage = {};                        ///< of the last graft_model_find_damage()
  graft::c_api::Ref<graft_model> copied = {};                   ///< that it borrows from: graft_trainer_copy()
  std::unique_ptr<graft::GateReport> gate = nullptr;            ///< of the last graft_gate()
  std::vector<graft_class_change> gate_changes = {};            ///< of the last graft_gate_compare()
  graft::c_api::Users users = {};
};

/// Of graft/profile.h.
struct graft_profile {
  graft_profile(graft_context* of, std::size_t steps) : context(of), profile(steps) {}

  graft::c_api::Ref<graft_context> context;
  graft::RunProfile profile;
  graft::Consumers told = {};  ///< by the last graft_profile_describe()
  graft::c_api::Users users = {};
};

struct graft_session {
  graft::c_api::Ref<graft_context> context;
  graft::c_api::Ref<graft_model> model;
  graft::c_api::Ref<graft_profile> profile;  // watches it; goes after it
  std::unique_ptr<graft::Session> session;
  std::string streaming = {};
  graft::c_api::Users users = {};
};

struct graft_trainer {
  graft::c_api::Ref<graft_context> context;
  graft::c_api::Ref<graft_model> model;
  graft::c_api::Ref<graft_model> teacher;
  graft::c_api::Ref<graft_profile> profile;  // watches it; goes after it
  std::optional<graft::Model> masked;        ///< what is trained instead where samples hold several texts
  std::optional<graft::Model> taught;        ///< and where there is a teacher
  std::vector<graft::data::Field> fields;
  std::unique_ptr<graft::CallbackGroup> group;  ///< null: alone
  bool has_joined = false;                      ///< no newcomer to the group
  bool asks_whole = false;                      ///< graft_trainer_request_whole()
  std::chrono::nanoseconds group_timeout = graft::group::kNoDeadline;
  std::chrono::nanoseconds group_pause = graft::group::kNoDeadline;  ///< between two steps
  bool rounds_wire = false;                                          ///< gradients, on their way to the others
  std::unique_ptr<graft::distribute::GroupExchange> exchange;
  graft::train::Share share = {.workers = 0};      ///< that its loader reads by
  std::optional<graft::data::Cursor> first_place;  ///< of the loader, before the first step of all workers
  std::unique_ptr<graft::train::Trainer> trainer;
  std::vector<std::span<const std::byte>> blocks;  ///< of the caller's arrays, for one call
  graft::data::Batch batch;                        ///< over them
  std::unique_ptr<graft::checkpoint::Cipher> cipher;
  std::unique_ptr<graft::Checkpointer> checkpointer;  ///< null where nothing is kept
  std::optional<graft::train::StepResult> last;       ///< of graft_trainer_last_step()
  std::uint64_t skipped_before = 0;                   ///< steps that were left out before a resume
  bool ends_epoch = false;                            ///< that step
  graft::TimeLimit limit;                             ///< graft_trainer_options.max_time
  std::optional<graft::RunObserver::Time> told;       ///< when it was; the app has had the time since
  std::string explanation;                            ///< of the last graft_trainer_describe()
  graft::c_api::Users users;
};

/// Something that was asked for beside the app. Its mutex is its own: no call on it waits for the context.
struct graft_task {
  enum class State : std::uint8_t { idle, waits, runs, over };

  graft::c_api::Ref<graft_context> context;
  std::mutex mutex;
  std::condition_variable changed;
  State state = State::idle;
  bool cancelled = false;  ///< what waits or runs
  graft_status outcome = GRAFT_OK;
  std::string message;
  graft::c_api::Users users;
};

struct graft_generator {
  graft::c_api::Ref<graft_context> context;
  graft::c_api::Ref<graft_model> model;
  std::unique_ptr<graft::Generator> generator;   // of one text after the other
  std::unique_ptr<graft::BatchGenerator> batch;  // of several; one of the two
  graft::Generated last;                         // what the last call gave
  std::string streaming = {};                    // as graft_generator_describe() tells it
  graft::c_api::Users users = {};
};

namespace graft::c_api {

/// What guarded() runs: `call(body)`.
using GuardedBody = Status(void* body);
/// guarded(), once for all bodies.
graft_status guarded_call(graft_context* context, GuardedBody* call, void* body);

/// Runs `body` (returning Status): nothing is thrown, and the sentence stays with the context.
template <typename Body>
graft_status guarded(graft_context* context, Body&& body) {
  using Plain = std::remove_reference_t<Body>;
  const auto call = [](void* its) -> Status { return (*static_cast<Plain*>(its))(); };
  return guarded_call(context, call, const_cast<std::remove_const_t<Plain>*>(&body));
}

/// The context's device, or an error where it has none.
inline Result<graft::gpu::Device*> device_of(const graft_context& context) {
  if (context.plans_only) return invalid("This context was made for plans alone (plans_only): nothing runs on it.");
  if (context.device) return context.device.get();
  return invalid("This context has no device: ",
                 context.deviceless ? "it was made with \"none\", to forecast." : "graft_context_create failed.");
}

/// Opens the context's device anew after it was lost.
Result<graft::gpu::Device*> reopen_device(graft_context& context);
/// The same for what still has an earlier one: others may have opened it anew meanwhile.
inline Result<graft::gpu::Device*> reopen_device(graft_context& context, const graft::gpu::Device& lost) {
  return context.device.get() == &lost ? reopen_device(context) : context.device.get();
}

/// Sessions, generators and trainers refer to a model's weights and graph. what: "its adapters change".
inline Status check_unused(const graft_model& model, const char* what) {
  if (model.users.count.load() == 1) return ok_status();
  return invalid("A session, a generator or a trainer of this model lives: ", what,
                 " only once that is destroyed. Nothing changed.");
}

/// Whether weights can be read.
inline Status need_contents(const graft_model& model) {
  if (!model.shapes_only) return ok_status();
  return invalid("The model was opened for its shapes alone (shapes_only): it can be planned, and nothing else.");
}

/// What the number stands for.
inline Result<DType> read_precision(graft_precision given) {
  constexpr DType kPrecisions[] = {DType::f32, DType::f16, DType::bf16};
  const auto number = static_cast<unsigned>(given);
  if (number >= std::size(kPrecisions)) return invalid("There is no precision number ", number, ".");
  return kPrecisions[number];
}

graft_tensor_info info_of(const char* name, DType dtype, const Shape& shape);
graft_memory memory_of(const MemoryByClass& memory);
void set_memory(const MemoryByClass& memory, graft_forecast& forecast);
/// What plans on this context are made for: its device, or without one what every device has.
gpu::Target target_of(const graft_context& context);

struct NamedValue {
  const char* name;
  ValueId value;
};

/// One of the model's inputs, outputs or parameters.
Result<NamedValue> tensor_of(const graft_model& model, graft_tensor_kind kind, std::size_t index);

}  // namespace graft::c_api
