// graft's C++ API: owning handles over the C ABI (graft.h), header only, so that one binary library serves every
// compiler; it needs C++20. The rules of graft.h hold. Functions of the app's that graft calls may throw: the call that
// they are called by ends, leaves all as after a cancel or a failure, and throws the same.
//
//   auto context = graft::Context::create();
//   if (!context.ok()) return complain(context.status().message());
//   auto model = context->load("digits.graft");
//   ...
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "graft/async.hpp"
#include "graft/context_calls.hpp"
#include "graft/data.hpp"
#include "graft/gradients_calls.hpp"
#include "graft/importance.hpp"
#include "graft/language.hpp"
#include "graft/memory_file.hpp"
#include "graft/model_calls.hpp"
#include "graft/session.hpp"
#include "graft/store.hpp"
#include "graft/trainer.hpp"

namespace graft {
inline namespace v0 {

/// The version of the library that is linked, as in "0.1.0".
inline std::string version() { return graft_version(); }
/// As in "invalid_argument".
inline std::string status_name(graft_status status) { return graft_status_name(status); }
/// The names of metrics, and of losses, for sentences.
inline std::string metric_names() { return graft_metric_names(); }
inline std::string loss_names() { return graft_loss_names(); }  ///< see metric_names()
/// What each term of TrainerOptions::losses is; GRAFT_INVALID_ARGUMENT: they are no losses.
inline Result<std::vector<graft_loss>> loss_kinds(const std::string& losses) {
  std::size_t count = 0;
  graft_status code = graft_loss_kinds(losses.c_str(), nullptr, 0, &count);
  std::vector<graft_loss> kinds(count);
  if (code == GRAFT_OK) code = graft_loss_kinds(losses.c_str(), kinds.data(), kinds.size(), &count);
  if (code != GRAFT_OK) return Status(code, graft_status_name(code));
  return kinds;
}
/// See graft_delta_privacy_order.
inline std::uint32_t delta_privacy_order(double noise, double share, std::uint64_t rounds, double delta) {
  return graft_delta_privacy_order(noise, share, rounds, delta);
}
/// Gets what each kernel did with a known answer.
using KernelReport = std::function<void(const char* kernel, graft_kernel_verdict verdict, const char* why)>;

/// Gradients of any number of samples: Model::gradients() makes them.
class Gradients : public detail::GradientsCalls {
 public:
  using GradientsCalls::GradientsCalls;
};

/// A loaded model. What was made from it may outlive it.
class Model : public detail::ModelCalls {
 public:
  using ModelCalls::load_adapters;
  using ModelCalls::metadata;
  using ModelCalls::ModelCalls;
  std::vector<TensorInfo> inputs() const { return tensors(GRAFT_INPUTS); }                ///< what the model takes
  std::vector<TensorInfo> outputs() const { return tensors(GRAFT_OUTPUTS); }              ///< what it gives
  std::vector<TensorInfo> named_parameters() const { return tensors(GRAFT_PARAMETERS); }  ///< what is trained
  std::vector<TensorInfo> buffers() const {
    return tensors(GRAFT_BUFFERS);
  }  ///< running statistics, which training moves
  std::vector<TensorInfo> constants() const { return tensors(GRAFT_CONSTANTS); }  ///< weights that are not trained

  /// A parameter, a frozen weight or a running statistic, in the source model's order of axes. T: float or int32_t.
  template <typename T = float>
  Result<std::vector<T>> read(const std::string& name) const {
    return detail::read_tensor<T>(context(), [&](void* data, std::size_t bytes, TensorInfo* info) {
      return graft_model_read(get(), name.c_str(), data, bytes, info);
    });
  }
  /// Other numbers in its place: NaN and infinity are refused. The model must have no sessions, generators or trainers.
  template <typename T>
  Status write(const std::string& name, std::span<const T> data) {
    return status(graft_model_write(get(), name.c_str(), data.data(), data.size_bytes()));
  }
  /// All keys with their values.
  std::map<std::string, std::string> metadata() const {
    const auto all = metadata_list();
    return {all.begin(), all.end()};
  }
  /// Takes the key away; one that is absent is no error.
  Status remove_metadata(const std::string& key) {
    return status(graft_model_set_metadata(get(), key.c_str(), nullptr));
  }

  /// Adapters of several files at once, each with the weight that its product is multiplied by.
  Status load_adapters(const std::vector<std::pair<std::string, double>>& files) {
    std::vector<const char*> paths;
    std::vector<double> weights;
    for (const auto& [path, weight] : files) paths.push_back(path.c_str()), weights.push_back(weight);
    return status(graft_model_load_adapters_together(get(), paths.data(), weights.data(), files.size()));
  }
  /// Those of several sources at once, with weights as above.
  Status load_adapters(const std::vector<std::pair<Source, double>>& sources) {
    std::vector<graft_source> raw;
    std::vector<const graft_source*> pointers;
    std::vector<double> weights;
    for (const auto& [source, weight] : sources) raw.push_back(source.raw()), weights.push_back(weight);
    for (const graft_source& source : raw) pointers.push_back(&source);
    return status(graft_model_load_adapters_sources(get(), pointers.data(), weights.data(), sources.size()));
  }

  /// Plans and records the model for one set of sizes.
  Result<Session> session(const SessionOptions& options = {}) { return Session::create(*this, options); }
  /// For a language model: plans prompt and decode steps, and allocates the caches.
  Result<Generator> generator(const GeneratorOptions& options = {}) { return Generator::create(*this, options); }
  /// Vectors of texts, for a language model or an encoder: plans a batch of them.
  Result<Embedder> embedder(const EmbedderOptions& options = {}) { return Embedder::create(*this, options); }
  /// How much the columns of a language model's matrices matter to texts: plans one chunk of them.
  Result<Importance> importance(const ImportanceOptions& options = {}) { return Importance::create(*this, options); }
  /// How the model's text becomes tokens; needs the model no longer.
  Result<Tokenizer> tokenizer() { return Tokenizer::create(*this); }
  /// Plans a training run, and allocates all of it.
  Result<Trainer> trainer(const TrainerOptions& options = {}) { return Trainer::create(*this, options); }
  /// Gradients of any number of samples, in micro-batches that keep to a budget. `inputs`: bytes of the model's inputs
  /// by name, for all samples, and "cotangent" where options.of has more than one element.
  Result<Gradients> gradients(const GradientOptions& options,
                              const std::map<std::string, std::span<const std::byte>>& inputs) {
    const detail::RawGradientOptions raw(options);
    std::vector<graft_data> data;
    for (const auto& [name, bytes] : inputs) data.push_back({name.c_str(), bytes.data(), bytes.size()});
    graft_gradients* made = nullptr;
    const graft_status code = graft_gradients_compute(get(), raw.get(), data.data(), data.size(), &made);
    return detail::made(code, context(), Gradients(made, context()));
  }

  /// Gets what became of one node; true ends the call.
  using NodeReport = std::function<bool(const graft_node_verdict& verdict)>;
  /// How many nodes were compared, and failed.
  struct Verified {
    std::size_t nodes = 0;
    std::size_t failed = 0;
    Status status;
  };
  /// Compares each node on the device with double precision: see graft_model_verify.
  Verified verify(const VerifyOptions& options = {}, const NodeReport& report = {}) {
    const detail::RawVerifyOptions raw(options);
    const auto told = [](void* user, const graft_node_verdict* verdict) {
      const auto& to = *static_cast<const NodeReport*>(user);
      return to && detail::Thrown::caught(nullptr, true, [&] { return to(*verdict); }) ? 1 : 0;
    };
    Verified out;
    auto* const user = const_cast<NodeReport*>(&report);
    out.status = status(graft_model_verify(get(), raw.get(), told, user, &out.nodes, &out.failed));
    return out;
  }
};

namespace detail {

/// A context's functions, which the library calls as long as it lives: what they throw goes to the call that is in
/// progress; what `log` throws on graft's own threads is dropped.
struct ContextFunctions {
  explicit ContextFunctions(const ContextOptions& given) : options(given), raw(*RawContextOptions(options)) {
    if (options.allocate != nullptr) raw.allocate = allocate;
    if (options.deallocate != nullptr) raw.deallocate = deallocate;
    if (options.log != nullptr) raw.log = write_log;
    raw.allocator_user = raw.log_user = this;
  }
  ContextFunctions(const ContextFunctions&) = delete;
  ContextFunctions& operator=(const ContextFunctions&) = delete;

  static void write_log(void* user, graft_log_level level, const char* message) {
    const ContextOptions& of = static_cast<ContextFunctions*>(user)->options;
    (void)Thrown::caught(nullptr, 0, [&] { return of.log(of.log_user, level, message), 0; });
  }
  static void* allocate(void* user, std::size_t bytes, std::size_t alignment) {
    const ContextOptions& of = static_cast<ContextFunctions*>(user)->options;
    return Thrown::caught(nullptr, static_cast<void*>(nullptr),
                          [&] { return of.allocate(of.allocator_user, bytes, alignment); });
  }
  static void deallocate(void* user, void* pointer, std::size_t bytes, std::size_t alignment) {
    const ContextOptions& of = static_cast<ContextFunctions*>(user)->options;
    of.deallocate(of.allocator_user, pointer, bytes, alignment);
  }
  ContextOptions options;
  graft_context_options raw;
};
struct FunctionsOfContext {
  std::unique_ptr<ContextFunctions> functions_;  // goes after the context
};

inline void tell_kernel(void* user, const char* kernel, graft_kernel_verdict verdict, const char* why) {
  const auto& to = *static_cast<const KernelReport*>(user);
  (void)Thrown::caught(nullptr, 0, [&] { return to(kernel, verdict, why), 0; });
}

}  // namespace detail

/// A device. If its options have a log or an allocator, it must outlive everything made from it.
class Context : private detail::FunctionsOfContext, public detail::ContextCalls {
 public:
  /// Opens the device; an error where there is none of that name, or none at all.
  static Result<Context> create(const ContextOptions& options = {}) { return create(options, graft_context_create); }
  /// The same by another function of the C interface, as create_by(const graft_context_options*, graft_context**).
  template <typename Create>
  static Result<Context> create(const ContextOptions& options, Create create_by) {
    auto functions = std::make_unique<detail::ContextFunctions>(options);
    graft_context* handle = nullptr;
    const graft_status code = create_by(&functions->raw, &handle);
    detail::Thrown::forget(handle);
    Context context(handle, std::move(functions));
    Status status = detail::to_status(code, handle);  // its sentence is the context's
    if (!status.ok()) return status;
    return context;
  }
  /// A data set by a SPEC, as "csv:rows.csv?label=kind"; `options` may name the model that it is for.
  Result<DataSet> open_data(const std::string& spec, const DataOptions& options = {}) {
    return DataSet::open(*this, spec, options);
  }
  /// The same for a model: text becomes its tokens, labels its classes.
  Result<DataSet> open_data(const std::string& spec, const ModelHandle& model, DataOptions options = {}) {
    options.model = model.get();
    return DataSet::open(*this, spec, options);
  }
  /// Samples that stay where they are, unchanged, while the set lives: a block for each field.
  Result<DataSet> data_from_memory(const std::vector<Field>& fields, const std::vector<const void*>& blocks,
                                   std::uint64_t samples) {
    if (blocks.size() != fields.size()) return Status(GRAFT_INVALID_ARGUMENT, "A set needs a block for each field.");
    const auto raw = detail::raw_fields(fields);
    graft_data_set* set = nullptr;
    const graft_status code = graft_data_from_memory(get(), raw.data(), raw.size(), blocks.data(), samples, &set);
    return detail::made(code, get(), DataSet(set, get()));
  }
  /// Samples that `read` makes, on graft's reading thread. samples = 0: nobody knows how many. If `read` throws, the
  /// call that needs the sample throws the same.
  Result<DataSet> data_from_callback(const std::vector<Field>& fields, std::uint64_t samples, DataSet::Read read) {
    const auto raw = detail::raw_fields(fields);
    auto kept = std::make_shared<detail::ReadCall>(detail::ReadCall{get(), std::move(read)});
    const auto call = [](void* function, std::uint64_t index, void* const* out) {
      const auto& of = *static_cast<detail::ReadCall*>(function);
      return detail::Thrown::caught(of.context, -1, [&] { return of.read(index, out); });
    };
    graft_data_set* set = nullptr;
    const graft_status code = graft_data_from_callback(get(), raw.data(), raw.size(), samples, call, kept.get(), &set);
    return detail::made(code, get(), DataSet(set, get(), std::move(kept)));
  }
  /// The folder that a run is kept in. `writable`: to tag, prune and branch. The cipher must outlive the store.
  Result<Store> open_store(const std::string& folder, bool writable = false, Cipher* cipher = nullptr) {
    return Store::open(*this, folder, {.writable = writable, .cipher = cipher});
  }
  /// A .graft file, whose weights are mapped: it must not change while the model lives.
  Result<Model> load(const std::string& path, graft_weight_check check = GRAFT_CHECK_ON_USE) {
    return Model::open(*this, path, {.check = check});
  }
  /// A .graft file that is no file of its own.
  Result<Model> load(const Source& source, graft_weight_check check = GRAFT_CHECK_ON_USE) {
    return Model::open(*this, source, {.check = check});
  }
  /// Runs every kernel that this device may choose against a known answer: see graft_context_self_test.
  Status self_test(KernelReport report) { return status(graft_context_self_test(get(), detail::tell_kernel, &report)); }
  /// The verdicts that a context with a cache knows so far, without a test.
  Status known_kernels(KernelReport report) {
    return status(graft_context_known_kernels(get(), detail::tell_kernel, &report));
  }

 private:
  Context(graft_context* handle, std::unique_ptr<detail::ContextFunctions> functions)
      : FunctionsOfContext{std::move(functions)}, ContextCalls(handle, handle) {}
};

}  // namespace v0
}  // namespace graft
