// graft's C++ API: owning handles over the C ABI (graft.h), header only, so that one binary library serves every
// compiler; it needs C++20. The rules of graft.h hold. Functions of the app's that graft calls may throw: the call that
// they are called by ends, leaves all as after a cancel or a failure, and throws the same.
//
//   auto context = graft::Context::create();
//   if (!context.ok()) return complain(context.status().message());
//   auto model = context->load("digits.graft");
//   ...
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "graft/async.hpp"
#include "graft/base.hpp"
#include "graft/data.hpp"
#include "graft/head.hpp"
#include "graft/importance.hpp"
#include "graft/language.hpp"
#include "graft/memory.hpp"
#include "graft/session.hpp"
#include "graft/snapshots.hpp"
#include "graft/source.hpp"
#include "graft/trainer.hpp"

namespace graft {
inline namespace v0 {

/// A loaded model. What was made from it may outlive it.
class Model {
 public:
  /// What the model takes, in order; -1 stands for a named dimension.
  std::vector<TensorInfo> inputs() const { return tensors(GRAFT_INPUTS); }
  /// What it gives, in order.
  std::vector<TensorInfo> outputs() const { return tensors(GRAFT_OUTPUTS); }
  /// Keyed by fully qualified name (TensorInfo::name), in the file's order.
  std::vector<TensorInfo> named_parameters() const { return tensors(GRAFT_PARAMETERS); }
  /// Running statistics, which training moves.
  std::vector<TensorInfo> buffers() const { return tensors(GRAFT_BUFFERS); }
  /// Weights that are not trained.
  std::vector<TensorInfo> constants() const { return tensors(GRAFT_CONSTANTS); }
  /// The name of a dimension that is -1 there, as in "batch"; empty for one that is a number.
  Result<std::string> dimension(graft_tensor_kind kind, std::size_t index, std::uint32_t axis) const {
    const char* name = nullptr;
    Status got = status(graft_model_dimension(handle_.get(), kind, index, axis, &name));
    if (!got.ok()) return got;
    return std::string(name);
  }
  graft_model* get() const { return handle_.get(); }   ///< for what only the C ABI has
  graft_context* context() const { return context_; }  ///< the same
  /// Writes the model as a .graft file, atomically. Weights that are not finite are refused.
  Status save(const std::string& path) { return status(graft_model_save(handle_.get(), path.c_str())); }

  /// A parameter, a frozen weight or a running statistic, in the source model's order of axes. T: float or int32_t.
  template <typename T = float>
  Result<std::vector<T>> read(const std::string& name) const {
    return detail::read_tensor<T>(context_, [&](void* data, std::size_t bytes, TensorInfo* info) {
      return graft_model_read(handle_.get(), name.c_str(), data, bytes, info);
    });
  }
  /// Other numbers in its place: NaN and infinity are refused. The model must have no sessions, generators or trainers.
  template <typename T>
  Status write(const std::string& name, std::span<const T> data) {
    return status(graft_model_write(handle_.get(), name.c_str(), data.data(), data.size_bytes()));
  }
  /// All keys with their values.
  std::map<std::string, std::string> metadata() const {
    std::map<std::string, std::string> all;
    for (std::size_t i = 0; i < graft_model_metadata_count(handle_.get()); ++i) {
      const char *key = "", *value = "";
      if (graft_model_metadata_at(handle_.get(), i, &key, &value) == GRAFT_OK) all[key] = value;
    }
    return all;
  }
  /// The value of a key; GRAFT_NOT_FOUND where there is none.
  Result<std::string> metadata(const std::string& key) const {
    const char* value = "";
    Status found = status(graft_model_metadata(handle_.get(), key.c_str(), &value));
    if (!found.ok()) return found;
    return std::string(value);
  }
  /// UTF-8 without control characters, in place of what the key had.
  Status set_metadata(const std::string& key, const std::string& value) {
    return status(graft_model_set_metadata(handle_.get(), key.c_str(), value.c_str()));
  }
  /// Takes the key away; one that is absent is no error.
  Status remove_metadata(const std::string& key) {
    return status(graft_model_set_metadata(handle_.get(), key.c_str(), nullptr));
  }

  /// Puts the parameters of a snapshot (number or tag; "": the newest) into this model, which was trained; how many.
  Result<std::size_t> restore(Store& store, const std::string& snapshot = {}) {
    std::size_t tensors = 0;
    Status done = status(graft_store_restore(store.handle_.get(), snapshot.c_str(), handle_.get(), &tensors));
    if (!done.ok()) return done;
    return tensors;
  }

  /// Adds fresh low-rank adapters ("r=8,alpha=16,targets=q_proj|v_proj"), which replace those that the model has;
  /// tokens of add_tokens() keep their rows. For this and all calls about adapters, no session, generator or trainer of
  /// the model may exist.
  Status add_adapters(const std::string& options = {}, std::uint32_t seed = 0) {
    return status(graft_model_add_adapters(handle_.get(), options.c_str(), seed));
  }
  /// Adds tokens to the vocabulary: a JSON array of texts, or of {"content": TEXT, "special": true}. Their rows are
  /// trained, and adapters with them. Adapters and tokens of earlier calls keep their bits.
  Status add_tokens(const std::string& tokens) { return status(graft_model_add_tokens(handle_.get(), tokens.c_str())); }
  /// The adapters of a file, which replace those that the model has; an empty path takes adapters off.
  Status load_adapters(const std::string& path) {
    return status(graft_model_load_adapters(handle_.get(), detail::or_null(path)));
  }
  /// Those of a source.
  Status load_adapters(const Source& source) {
    const graft_source raw = source.raw();
    return status(graft_model_load_adapters_source(handle_.get(), &raw));
  }
  /// Those of several files at once, each with the weight that its product is multiplied by.
  Status load_adapters(const std::vector<std::pair<std::string, double>>& files) {
    std::vector<const char*> paths;
    std::vector<double> weights;
    for (const auto& [path, weight] : files) {
      paths.push_back(path.c_str());
      weights.push_back(weight);
    }
    return status(graft_model_load_adapters_together(handle_.get(), paths.data(), weights.data(), files.size()));
  }
  /// Those of several sources at once, with weights as above.
  Status load_adapters(const std::vector<std::pair<Source, double>>& sources) {
    std::vector<graft_source> raw;
    std::vector<const graft_source*> pointers;
    std::vector<double> weights;
    for (const auto& [source, weight] : sources) {
      raw.push_back(source.raw());
      weights.push_back(weight);
    }
    for (const graft_source& source : raw) pointers.push_back(&source);
    return status(graft_model_load_adapters_sources(handle_.get(), pointers.data(), weights.data(), sources.size()));
  }
  /// Adds their product to the weights: from then on there are none. Merged matrices become blocks of the format
  /// `quantize` ("q8_0", ...), frozen; "": f32.
  Status merge_adapters(const std::string& quantize = {}) {
    return status(graft_model_merge_adapters(handle_.get(), detail::or_null(quantize)));
  }
  /// Writes the adapters alone, atomically.
  Status save_adapters(const std::string& path) {
    return status(graft_model_save_adapters(handle_.get(), path.c_str()));
  }

  /// Another number of classes for the last layer; see graft_model_resize_head.
  Status resize_head(std::int64_t classes, const HeadOptions& options = {}) {
    return status(detail::resize_head(handle_.get(), classes, options));
  }

  /// Plans and records the model for one set of sizes.
  Result<Session> session(const SessionOptions& options = {}) {
    const auto bindings = detail::raw_bindings(options.bindings);
    const auto wrt = detail::raw_names(options.wrt), fetch = detail::raw_names(options.fetch);
    auto raw = detail::sized<graft_session_options>();
    raw.bindings = bindings.data();
    raw.binding_count = bindings.size();
    raw.budget = options.budget;
    raw.of = detail::or_null(options.of);
    raw.wrt = wrt.data();
    raw.wrt_count = wrt.size();
    raw.precision = options.precision;
    raw.allow_non_finite = options.allow_non_finite ? 1 : 0;
    raw.fetch = fetch.data();
    raw.fetch_count = fetch.size();
    raw.train_mode = options.train_mode ? 1 : 0;
    raw.resizable = options.resizable ? 1 : 0;
    const auto inputs = detail::raw_formats(options.inputs);
    raw.inputs = inputs.data();
    raw.input_count = inputs.size();
    raw.signature = detail::or_null(options.signature);
    raw.recover_device = options.recover_device ? 1 : 0;
    graft_session* session = nullptr;
    const graft_status code = graft_session_create(handle_.get(), &raw, &session);
    return detail::made(code, context_, Session(session, context_));
  }

  /// Gradients of any number of samples, in micro-batches that keep to a budget. `inputs`: bytes of the model's inputs
  /// by name, for all samples, and "cotangent" where options.of has more than one element.
  Result<Gradients> gradients(const GradientOptions& options,
                              const std::map<std::string, std::span<const std::byte>>& inputs) {
    graft_gradients* made = nullptr;
    const graft_status code = Gradients::compute(handle_.get(), options, inputs, &made);
    return detail::made(code, context_, Gradients(made, context_));
  }

  /// For a language model: plans prompt and decode steps, and allocates the caches.
  Result<Generator> generator(const GeneratorOptions& options = {}) {
    auto raw = detail::sized<graft_generator_options>();
    raw.context = options.context;
    raw.prefill = options.prefill;
    raw.budget = options.budget;
    raw.precision = options.precision;
    raw.recover_device = options.recover_device ? 1 : 0;
    raw.prompt_lookup = options.prompt_lookup;
    raw.cache = options.cache;
    raw.sequences = options.sequences;
    graft_generator* generator = nullptr;
    const graft_status code = graft_generator_create(handle_.get(), &raw, &generator);
    return detail::made(code, context_, Generator(generator, context_));
  }

  /// Vectors of texts, for a language model or an encoder: plans a batch of them.
  Result<Embedder> embedder(const EmbedderOptions& options = {}) {
    auto raw = detail::sized<graft_embedder_options>();
    raw.pooling = options.pooling;
    raw.normalize = options.normalize ? 1 : 0;
    raw.cut = options.cut ? 1 : 0;
    raw.length = options.length;
    raw.batch = options.batch;
    raw.of = detail::or_null(options.of);
    raw.precision = options.precision;
    raw.budget = options.budget;
    raw.recover_device = options.recover_device ? 1 : 0;
    graft_embedder* embedder = nullptr;
    const graft_status code = graft_embedder_create(handle_.get(), &raw, &embedder);
    return detail::made(code, context_, Embedder(embedder, context_));
  }

  /// How much the columns of a language model's matrices matter to texts: plans one chunk of them.
  Result<Importance> importance(const ImportanceOptions& options = {}) {
    auto raw = detail::sized<graft_importance_options>();
    raw.context = options.context;
    raw.chunks = options.chunks;
    raw.head = options.head ? 1 : 0;
    raw.parse_special = options.parse_special ? 1 : 0;
    raw.budget = options.budget;
    raw.recover_device = options.recover_device ? 1 : 0;
    graft_importance* importance = nullptr;
    const graft_status code = graft_importance_create(handle_.get(), &raw, &importance);
    return detail::made(code, context_, Importance(importance, context_));
  }

  /// How the model's text becomes tokens; needs the model no longer.
  Result<Tokenizer> tokenizer() {
    graft_tokenizer* tokenizer = nullptr;
    const graft_status code = graft_tokenizer_create(handle_.get(), &tokenizer);
    return detail::made(code, context_, Tokenizer(tokenizer, context_));
  }

  /// Plans a training run, and allocates all of it; see graft_trainer_create().
  Result<Trainer> trainer(const TrainerOptions& options = {}) {
    const detail::RawTrainerOptions raw(options);
    graft_trainer* trainer = nullptr;
    const graft_status code = graft_trainer_create(handle_.get(), raw.get(), &trainer);
    return detail::made(code, context_, Trainer(trainer, context_));
  }

  /// What trainer(options) would take and do: in milliseconds, and without a device (ContextOptions::device = "none").
  Result<Forecast> forecast(const TrainerOptions& options = {}) {
    const detail::RawTrainerOptions raw(options);
    Forecast forecast = detail::sized<Forecast>();
    Status made = status(graft_forecast_training(handle_.get(), raw.get(), &forecast));
    if (!made.ok()) return made;
    return forecast;
  }

 private:
  friend class Context;
  friend Result<Model> copy(Trainer& trainer, bool ema);  // graft/steps.hpp
  Model(graft_model* handle, graft_context* context) : handle_(handle), context_(context) {}
  Status status(graft_status code) const { return detail::to_status(code, context_); }
  std::vector<TensorInfo> tensors(graft_tensor_kind kind) const {
    std::vector<TensorInfo> list(graft_model_count(handle_.get(), kind));
    for (std::size_t i = 0; i < list.size(); ++i) (void)graft_model_tensor(handle_.get(), kind, i, &list[i]);
    return list;
  }
  detail::Handle<graft_model, graft_model_destroy> handle_;
  graft_context* context_;
};

/// A device. If its options have a log or an allocator, it must outlive everything made from it.
class Context {
 public:
  /// Opens the device; an error where there is none of that name, or none at all.
  static Result<Context> create(const ContextOptions& options = {}) { return create(options, graft_context_create); }
  /// The same by another function of the C interface, as create_by(const graft_context_options*, graft_context**).
  template <typename Create>
  static Result<Context> create(const ContextOptions& options, Create create_by) {
    auto calls = std::make_unique<detail::ContextCalls>(options);
    const graft_context_options raw = detail::raw_options(*calls);
    graft_context* handle = nullptr;
    const graft_status code = create_by(&raw, &handle);
    detail::Thrown::forget(handle);
    Context context(handle, std::move(calls));
    Status status = detail::to_status(code, handle);  // its sentence is the context's
    if (!status.ok()) return status;
    return context;
  }
  std::string device_name() const { return graft_device_name(handle_.get()); }  ///< as the driver calls it
  void cancel() { graft_cancel(handle_.get()); }                                ///< from any thread: see graft_cancel
  bool uncancel() { return graft_uncancel(handle_.get()); }                     ///< from any thread: see graft_uncancel
  Status set_pace(double slice_ms, double duty) {                               ///< from any thread: see graft_set_pace
    return detail::to_status(graft_set_pace(handle_.get(), slice_ms, duty), handle_.get());
  }
  graft_context* get() const { return handle_.get(); }  ///< for what only the C ABI has
  /// A data set by a SPEC, as "csv:rows.csv?label=kind".
  Result<DataSet> open_data(const std::string& spec) {
    return data_set(nullptr, [&](graft_data_set** set) { return graft_data_open(handle_.get(), spec.c_str(), set); });
  }
  /// The same for a model: text becomes its tokens, labels its classes.
  Result<DataSet> open_data(const std::string& spec, const Model& model, const DataOptions& options = {}) {
    auto raw = detail::sized<graft_data_options>();
    raw.model = model.get();
    raw.evaluation = options.evaluation ? 1 : 0;
    raw.length = options.length;
    raw.sequence_starts = options.sequence_starts ? 1 : 0;
    raw.media = options.media;
    raw.first = options.first;
    raw.count = options.count;
    raw.preference = options.preference;
    raw.pooling = options.pooling;
    raw.on_long = options.on_long;
    raw.show = options.show;
    raw.tokenizer = options.tokenizer;
    return data_set(nullptr,
                    [&](graft_data_set** set) { return graft_data_open_with(handle_.get(), spec.c_str(), &raw, set); });
  }
  /// Samples that stay where they are, unchanged, while the set lives: a block for each field.
  Result<DataSet> data_from_memory(const std::vector<Field>& fields, const std::vector<const void*>& blocks,
                                   std::uint64_t samples) {
    if (blocks.size() != fields.size()) return Status(GRAFT_INVALID_ARGUMENT, "A set needs a block for each field.");
    const auto raw = DataSet::raw_fields(fields);
    return data_set(nullptr, [&](graft_data_set** set) {
      return graft_data_from_memory(handle_.get(), raw.data(), raw.size(), blocks.data(), samples, set);
    });
  }
  /// Samples that `read` makes, on graft's reading thread. samples = 0: nobody knows how many. If `read` throws, the
  /// call that needs the sample throws the same.
  Result<DataSet> data_from_callback(const std::vector<Field>& fields, std::uint64_t samples, DataSet::Read read) {
    const auto raw = DataSet::raw_fields(fields);
    auto kept = std::make_shared<DataSet::ReadCall>(handle_.get(), std::move(read));
    DataSet::ReadCall* const user = kept.get();
    const auto call = [](void* function, std::uint64_t index, void* const* out) {
      const auto& of = *static_cast<DataSet::ReadCall*>(function);
      return detail::Thrown::caught(of.context, -1, [&] { return of.read(index, out); });
    };
    return data_set(std::move(kept), [&](graft_data_set** set) {
      return graft_data_from_callback(handle_.get(), raw.data(), raw.size(), samples, call, user, set);
    });
  }
  /// The folder that a run is kept in. `writable`: to tag, prune and branch. The cipher must outlive the store.
  Result<Store> open_store(const std::string& folder, bool writable = false, Cipher* cipher = nullptr) {
    graft_cipher raw_cipher{};
    if (cipher != nullptr) raw_cipher = detail::raw_cipher(*cipher, handle_.get());
    auto raw = detail::sized<graft_store_options>();
    raw.writable = writable ? 1 : 0;
    raw.cipher = cipher == nullptr ? nullptr : &raw_cipher;
    graft_store* store = nullptr;
    const graft_status code = graft_store_open(handle_.get(), folder.c_str(), &raw, &store);
    return detail::made(code, handle_.get(), Store(store, handle_.get()));
  }
  /// A .graft file, whose weights are mapped: it must not change while the model lives.
  Result<Model> load(const std::string& path, graft_weight_check check = GRAFT_CHECK_ON_USE) {
    return loaded(check, [&](const graft_model_options* options, graft_model** model) {
      return graft_model_open(handle_.get(), path.c_str(), options, model);
    });
  }
  /// A .graft file that is no file of its own.
  Result<Model> load(const Source& source, graft_weight_check check = GRAFT_CHECK_ON_USE) {
    const graft_source raw = source.raw();
    return loaded(check, [&](const graft_model_options* options, graft_model** model) {
      return graft_model_open_source(handle_.get(), &raw, options, model);
    });
  }

 private:
  template <typename Make>
  Result<DataSet> data_set(std::shared_ptr<DataSet::ReadCall> read, Make make) {
    graft_data_set* set = nullptr;
    const graft_status code = make(&set);
    return detail::made(code, handle_.get(), DataSet(set, handle_.get(), std::move(read)));
  }
  template <typename Open>
  Result<Model> loaded(graft_weight_check check, Open open) {
    auto raw = detail::sized<graft_model_options>();
    raw.check = check;
    graft_model* model = nullptr;
    const graft_status code = open(&raw, &model);
    return detail::made(code, handle_.get(), Model(model, handle_.get()));
  }
  Context(graft_context* handle, std::unique_ptr<detail::ContextCalls> calls)
      : calls_(std::move(calls)), handle_(handle) {}
  std::unique_ptr<detail::ContextCalls> calls_;  // goes after the context
  detail::Handle<graft_context, graft_context_destroy> handle_;
};

}  // namespace v0
}  // namespace graft
