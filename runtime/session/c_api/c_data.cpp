// graft/data.h: data sets, their batches, and training on them.
#include "runtime/session/c_api/c_data.h"

#include <algorithm>
#include <limits>

#include "platform/base/checked.h"
#include "runtime/core/features.gen.h"
#include "runtime/data/spec.h"
#include "runtime/lora/new_tokens.h"
#include "runtime/session/c_api/c_async.h"
#include "runtime/session/c_api/c_distribute.h"
#include "runtime/session/c_api/c_media.h"
#include "runtime/session/c_api/c_tokenizer.h"
#include "runtime/session/c_api/c_trainer.h"
#include "runtime/session/data_hints.h"
#include "runtime/session/preference.h"
#include "runtime/session/text_spec.h"

using namespace graft;
using namespace graft::c_api;

namespace graft::c_api {

void configure_data(const graft_loader& loader, Configuration& configuration) {
  if (!loader.set->spec.empty()) configuration.try_emplace("data", loader.set->spec);
  configuration["data contents"] = loader.fingerprint;
  configuration["order"] = loader.order;
}

graft_tensor_info info_of(const data::Field& field) {
  graft_tensor_info info = info_of(field.name.c_str(), field.dtype, field.shape);
  if (field.packed) info.dtype = static_cast<graft_dtype>(GRAFT_U8 + static_cast<int>(*field.packed));
  return info;
}

Status check_samples(const graft_trainer& trainer, const data::Source& source) {
  const auto same = [](const data::Field& a, const data::Field& b) {
    return a.name == b.name && a.dtype == b.dtype && a.packed == b.packed && a.shape == b.shape && a.role == b.role;
  };
  if (std::equal(trainer.fields.begin(), trainer.fields.end(), source.fields().begin(), source.fields().end(), same)) {
    return ok_status();
  }
  return invalid("The trainer was made for other samples than this data set's: name it in graft_trainer_options.data.");
}

}  // namespace graft::c_api

namespace {

Result<std::vector<data::Field>> read_fields(const graft_field* fields, std::size_t count) {
  if (fields == nullptr || count == 0) return invalid("A data set needs at least one field.");
  std::vector<data::Field> out;
  for (std::size_t i = 0; i < count; ++i) {
    const graft_field& given = fields[i];
    if (given.name == nullptr) return invalid("The name of field ", i, " is NULL.");
    const auto dtype = static_cast<unsigned>(given.dtype);
    const bool is_packed = dtype >= GRAFT_U8 && dtype <= GRAFT_BF16;
    if (dtype != GRAFT_F32 && dtype != GRAFT_I32 && !is_packed) {
      return invalid("The field \"", given.name, "\" is of dtype number ", dtype,
                     "; f32, i32, and of inputs bytes and halves are known.");
    }
    if (is_packed && given.is_label != 0) {
      return invalid("The field \"", given.name, "\" is of bytes or halves, which only inputs of the model are.");
    }
    if (given.rank > GRAFT_MAX_RANK) {
      return invalid("The field \"", given.name, "\" has ", given.rank, " axes; the limit is ", GRAFT_MAX_RANK, ".");
    }
    std::vector<Dim> dims;
    for (std::uint32_t axis = 0; axis < given.rank; ++axis) {
      if (given.dims[axis] <= 0) {
        return invalid("Axis ", axis, " of the field \"", given.name, "\" has the size ", given.dims[axis], ".");
      }
      dims.emplace_back(given.dims[axis]);
    }
    if (given.is_label < 0 || given.is_label > 2) {
      return invalid("The field \"", given.name, "\" says is_label = ", given.is_label, "; 0 to 2 are known.");
    }
    out.push_back({given.name, given.dtype == GRAFT_F32 ? DType::f32 : DType::i32, Shape(std::move(dims)),
                   static_cast<data::Role>(given.is_label)});
    if (!is_packed) continue;
    out.back().dtype = DType::f32;
    out.back().packed = static_cast<Packed>(dtype - GRAFT_U8);
  }
  GRAFT_TRY(data::check_fields(out));
  return out;
}

/// make() gives the source.
template <typename Make>
graft_status make_set(graft_context* context, graft_data_set** set, std::string spec, Make make) {
  return guarded(context, [&]() -> Status {
    if (set == nullptr) return invalid("A data set needs a place for its handle.");
    *set = nullptr;
    GRAFT_TRY_ASSIGN(auto source, make());
    auto opened = std::make_unique<graft_data_set>();
    opened->context = context;
    opened->spec = std::move(spec);
    opened->source = std::move(source);
    *set = opened.release();
    return ok_status();
  });
}

/// The set's source, and what is told of its texts.
Status open_text_for(const graft_model* model, const char* spec, const graft_data_options& options,
                     os::FileSystem& files, graft_data_set& set) {
  const auto preference = static_cast<unsigned>(options.preference);
  if (preference > GRAFT_PREFERENCE_GROUPS) return invalid("There is no preference number ", preference, ".");
  const auto pooling = static_cast<unsigned>(options.pooling);
  if (pooling > GRAFT_POOLING_CLS) return invalid("There is no pooling number ", pooling, ".");
  const auto on_long = static_cast<unsigned>(options.on_long);
  if (on_long > GRAFT_ON_LONG_SPLIT) return invalid("There is no number ", on_long, " of graft_on_long.");
  if (model == nullptr) return invalid("Samples of text are tokens of a model: name it in graft_data_options.model.");
  if constexpr (kHasText) {
    TextOptions wanted;
    wanted.length = options.length;
    wanted.sequence_starts = options.sequence_starts != 0;
    wanted.on_long = static_cast<OnLong>(on_long);
    wanted.preference = static_cast<Preference>(options.preference);
    if (pooling != 0) wanted.pooling = static_cast<Pooling>(pooling - 1);
    if (options.tokenizer != nullptr) wanted.words = &options.tokenizer->tokenizer.vocabulary();
    GRAFT_TRY_ASSIGN(TextSet made, open_text_set(spec, model->model, wanted, files));
    for (const std::string& sentence : sentences_of(made.summary)) set.summary_text += sentence + '\n';
    set.summary_json = json_of(made.summary);
    set.summary = std::move(made.summary);
    set.source = std::move(made.source);
    return ok_status();
  } else {
    return unsupported("This build of graft leaves out text (GRAFT_TEXT).");
  }
}

/// The samples that options.first and count leave.
Result<std::unique_ptr<data::Source>> part_of(std::unique_ptr<data::Source> source, const graft_data_options& options) {
  if (options.first == 0 && options.count == 0) return source;
  const auto size = source->size();
  if (!size || options.first >= *size) {
    return invalid("There is no sample ", options.first, " of the data set, which has ",
                   size ? cat(*size) : "an unknown number", " of them.");
  }
  const std::uint64_t left = *size - options.first;
  return data::range(std::move(source), options.first, options.count == 0 ? left : std::min(left, options.count));
}

Result<std::unique_ptr<graft_data_set>> open_set(graft_context& context, const char* spec,
                                                 const graft_data_options& options) {
  if (spec == nullptr) return invalid("The data set's SPEC is NULL.");
  auto set = std::make_unique<graft_data_set>();
  set->context = &context;
  set->spec = spec;
  if (options.first != 0 || options.count != 0) set->spec += cat(" from ", options.first, ", ", options.count);
  GRAFT_TRY_ASSIGN(set->codecs, read_media(options.media));
  std::unique_ptr<data::Source> source;
  if (is_text_spec(spec)) {
    GRAFT_TRY(open_text_for(options.model, spec, options, *context.files, *set));
    source = std::move(set->source);
  } else {
    data::Hints hints;
    if (options.model != nullptr) {
      hints = options.evaluation != 0 ? hints_of(options.model->model) : training_hints_of(options.model->model);
    }
    hints.augment = options.evaluation == 0;
    const data::FileOptions files = {
        .files = context.files, .allocator = context.allocator, .codecs = set->codecs.get()};
    GRAFT_TRY_ASSIGN(source, data::open_spec(spec, files, hints));
  }
  GRAFT_TRY_ASSIGN(set->source, part_of(std::move(source), options));
  return set;
}

}  // namespace

graft_status graft_data_open_with(graft_context* context, const char* spec, const graft_data_options* options,
                                  graft_data_set** set) {
  return guarded(context, [&]() -> Status {
    if (set == nullptr) return invalid("A data set needs a place for its handle.");
    *set = nullptr;
    GRAFT_TRY_ASSIGN(const graft_data_options given, read_options(options, "graft_data_options"));
    GRAFT_TRY_ASSIGN(auto opened, open_set(*context, spec, given));
    *set = opened.release();
    return ok_status();
  });
}

graft_status graft_data_open(graft_context* context, const char* spec, graft_data_set** set) {
  return graft_data_open_with(context, spec, nullptr, set);
}

graft_status graft_model_keep_classes(graft_model* model, const graft_data_set* set) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    if (set == nullptr) return invalid("graft_model_keep_classes needs a data set.");
    const auto* names = data::class_names(*set->source);
    if (names == nullptr) return error(Code::not_found, "The data set's labels have no names.");
    keep_classes(names, model->model);
    return ok_status();
  });
}

const char* graft_model_class(graft_model* model, size_t index) {
  if (model == nullptr) return nullptr;
  const char* name = nullptr;
  (void)guarded(model->context, [&] {
    const auto names = classes_of(model->model);
    if (index >= names.size()) return ok_status();
    model->class_name = names[index];
    name = model->class_name.c_str();
    return ok_status();
  });
  return name;
}

graft_status graft_data_from_memory(graft_context* context, const graft_field* fields, size_t field_count,
                                    const void* const* blocks, uint64_t samples, graft_data_set** set) {
  return make_set(context, set, {}, [&]() -> Result<std::unique_ptr<data::Source>> {
    GRAFT_TRY_ASSIGN(auto read, read_fields(fields, field_count));
    if (blocks == nullptr) return invalid("The blocks of samples are NULL.");
    std::vector<std::span<const std::byte>> spans;
    for (std::size_t i = 0; i < field_count; ++i) {
      if (blocks[i] == nullptr) return invalid("The samples of \"", read[i].name, "\" are NULL.");
      const auto bytes = checked_mul(samples, read[i].bytes());
      if (!bytes || *bytes > std::numeric_limits<std::size_t>::max()) {
        return invalid(samples, " samples of \"", read[i].name, "\" are more than there are addresses.");
      }
      spans.emplace_back(static_cast<const std::byte*>(blocks[i]), static_cast<std::size_t>(*bytes));
    }
    return data::from_slices(std::move(read), std::move(spans), samples);
  });
}

graft_status graft_data_from_callback(graft_context* context, const graft_field* fields, size_t field_count,
                                      uint64_t samples, graft_read_sample read, void* user, graft_data_set** set) {
  return make_set(context, set, {}, [&]() -> Result<std::unique_ptr<data::Source>> {
    if (read == nullptr) return invalid("The function that reads a sample is NULL.");
    GRAFT_TRY_ASSIGN(auto known, read_fields(fields, field_count));
    const auto generate = [read, user](std::uint64_t index, data::SampleOut out) -> Result<bool> {
      void* places[64];
      if (out.size() > std::size(places)) return invalid("A sample has ", out.size(), " fields; 64 are known.");
      std::copy(out.begin(), out.end(), places);
      const CallbackScope in_callback;
      const int result = read(user, index, places);
      if (result >= 0) return result > 0;
      return error(Code::io_error, "The app could not read sample ", index, ".");
    };
    return data::from_generator(std::move(known), generate,
                                samples == 0 ? std::nullopt : std::optional<std::uint64_t>(samples));
  });
}

graft_status graft_data_describe(const graft_data_set* set, graft_data_summary* summary) {
  if (set == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(set->context, [&] {
    graft_data_summary out{};
    out.is_text = set->summary ? 1 : 0;
    if constexpr (kHasText) out.lost = set->summary && set->summary->lost_any() ? 1 : 0;
    out.text = set->summary_text.c_str();
    out.json = set->summary_json.c_str();
    return write_info(out, summary, "graft_data_summary");
  });
}

graft_status graft_data_add_reference(graft_data_set* set, graft_model* model, uint32_t batch) {
  graft_reference_options options = {};
  options.struct_size = sizeof options;
  options.batch = batch;
  return graft_data_add_reference_with(set, model, &options);
}

graft_status graft_data_add_reference_with(graft_data_set* set, graft_model* model,
                                           const graft_reference_options* given) {
  if (set == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(set->context, [&]() -> Status {
    if (model == nullptr) return invalid("graft_data_add_reference needs the model that is the reference.");
    if (&*model->context != &*set->context) return invalid("The model and the data set are of two contexts.");
    if (set->has_loader) return invalid("The data set has a loader already: its samples are read.");
    GRAFT_TRY_ASSIGN(const graft_reference_options asked, read_options(given, "graft_reference_options"));
    if constexpr (kHasText && kHasTraining) {
      ReferenceOptions options;
      if (asked.batch != 0) options.batch = asked.batch;
      GRAFT_TRY_ASSIGN(options.precision, read_precision(asked.precision));
      GRAFT_TRY_ASSIGN(options.bindings, read_bindings(asked.bindings, asked.binding_count));
      options.trainer.program.proof = set->context->proof.get();
      options.trainer.program.control = &set->context->control;
      GRAFT_TRY_ASSIGN(gpu::Device* const device, device_of(*set->context));
      // Without adapters: what the model was before they were put on, but for tokens that texts are made of.
      GRAFT_TRY_ASSIGN(const auto tokens, new_tokens_of(model->model.metadata));
      const Model& reference = model->base && !tokens ? *model->base : model->model;
      GRAFT_TRY_ASSIGN(auto references, log_probabilities(*device, reference, *set->source, options));
      GRAFT_TRY_ASSIGN(set->source, with_references(std::move(set->source), std::move(references)));
      return ok_status();
    } else {
      return unsupported("This build of graft leaves out text or training.");
    }
  });
}

void graft_data_destroy(graft_data_set* set) {
  if (set != nullptr) destroy<graft_context>(set->context, set);
}

uint64_t graft_data_samples(const graft_data_set* set) { return set == nullptr ? 0 : set->source->size().value_or(0); }

size_t graft_data_field_count(const graft_data_set* set) { return set == nullptr ? 0 : set->source->fields().size(); }

graft_status graft_data_field(const graft_data_set* set, size_t index, graft_field* field) {
  if (set == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(set->context, [&]() -> Status {
    if (field == nullptr) return invalid("graft_data_field needs a place for the field.");
    const auto& fields = set->source->fields();
    if (index >= fields.size()) {
      return error(Code::not_found, "There are ", fields.size(), " fields; number ", index, " is not one.");
    }
    const graft_tensor_info info = info_of(fields[index]);
    graft_field out{};
    out.name = info.name;
    out.dtype = info.dtype;
    out.rank = info.rank;
    std::copy_n(info.dims, info.rank, out.dims);
    out.is_label = static_cast<int>(fields[index].role);
    *field = out;
    return ok_status();
  });
}

const char* graft_data_class(const graft_data_set* set, size_t field, size_t index) {
  if (set == nullptr || field >= set->source->fields().size()) return nullptr;
  const auto& classes = set->source->fields()[field].classes;
  return index < classes.size() ? classes[index].c_str() : nullptr;
}

graft_status graft_loader_create(graft_data_set* set, const graft_loader_options* options, graft_loader** loader) {
  if (set == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(set->context, [&]() -> Status {
    if (loader == nullptr) return invalid("graft_loader_create needs a place for the loader.");
    *loader = nullptr;
    GRAFT_TRY_ASSIGN(const graft_loader_options given, read_options(options, "graft_loader_options"));
    if (set->has_loader) return invalid("The data set has a loader already; a set has one at a time.");
    data::LoaderOptions wanted;
    if (given.batch != 0) wanted.batch = given.batch;
    wanted.seed = given.seed;
    wanted.shuffle = given.in_order == 0;
    wanted.drop_last = given.drop_last != 0;
    wanted.epochs = given.epochs;
    if (given.shuffle_buffer != 0) wanted.shuffle_buffer = given.shuffle_buffer;
    wanted.memory_limit = given.memory_limit;
    wanted.threads = given.read_threads;
    wanted.allocator = set->context->allocator;
    auto made = std::make_unique<graft_loader>();
    made->context = set->context;
    made->order = order_text(wanted.shuffle, wanted.drop_last);
    // Now: later the loader's thread reads the set.
    GRAFT_TRY_ASSIGN(made->fingerprint, fingerprint_of(*set->source));
    GRAFT_TRY_ASSIGN(made->loader, data::Loader::create(*set->source, wanted));
    made->fields.resize(set->source->fields().size());
    made->set = set;
    set->has_loader = true;
    *loader = made.release();
    return ok_status();
  });
}

void graft_loader_destroy(graft_loader* loader) {
  if (loader != nullptr) destroy<graft_context>(loader->context, loader);
}

graft_status graft_loader_next(graft_loader* loader, graft_batch* batch) {
  if (loader == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(loader->context, [&]() -> Status {
    GRAFT_TRY(write_info(graft_batch{}, batch, "graft_batch"));
    loader->pending = nullptr;
    GRAFT_TRY_ASSIGN(const data::Batch* next, loader->loader->next());
    if (next == nullptr) return ok_status();
    for (std::size_t f = 0; f < loader->fields.size(); ++f) loader->fields[f] = next->field(f).data();
    graft_batch out{};
    out.samples = next->count();
    out.epoch = next->epoch();
    out.last_of_epoch = next->last_of_epoch() ? 1 : 0;
    out.fields = loader->fields.data();
    return write_info(out, batch, "graft_batch");
  });
}

namespace {

Status train_next(graft_trainer& trainer, graft_loader& loader, int& more, graft_metrics* metrics) {
  if (&*loader.context != &*trainer.context) return invalid("The loader and the trainer are of two contexts.");
  if (metrics != nullptr) GRAFT_TRY(check_info(metrics, "graft_metrics"));
  GRAFT_TRY(check_samples(trainer, *loader.set->source));
  more = 1;
  if (loader.pending == nullptr) {
    GRAFT_TRY_ASSIGN(loader.pending, loader.loader->next());
  }
  if (loader.pending == nullptr) {
    more = 0;
    return ok_status();
  }
  const auto result = trainer.trainer->train_step(*loader.pending);
  // Samples that are themselves at fault would be so the next time: the step was thrown away, and others follow.
  const bool refused = result.status().code() == Code::invalid_argument && trainer.trainer->state().samples_done == 0;
  if (result.ok() || refused) loader.pending = nullptr;
  GRAFT_TRY(Status(result.status()));
  GRAFT_TRY(follow_shares(trainer, *loader.loader));
  return end_step(trainer, *result, metrics);
}

}  // namespace

graft_status graft_train_next(graft_trainer* trainer, graft_loader* loader, int* more, graft_metrics* metrics) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&]() -> Status {
    if (loader == nullptr || more == nullptr) return invalid("graft_train_next needs a loader and a place for more.");
    return train_next(*trainer, *loader, *more, metrics);
  });
}

graft_status graft_train_next_async(graft_trainer* trainer, graft_loader* loader, int* more, graft_metrics* metrics,
                                    graft_done done, void* user) {
  if (loader == nullptr || more == nullptr) return GRAFT_INVALID_ARGUMENT;
  return ask(trainer, done, user, [loader = Ref<graft_loader>(loader), more, metrics](graft_trainer& of) {
    return train_next(of, *loader, *more, metrics);
  });
}

graft_status graft_evaluate_data(graft_trainer* trainer, graft_data_set* set, graft_metrics* metrics) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&]() -> Status {
    if (set == nullptr) return invalid("graft_evaluate_data needs a data set.");
    if (set->has_loader) return invalid("The data set has a loader, whose thread reads it; open it once more.");
    if (metrics != nullptr) GRAFT_TRY(check_info(metrics, "graft_metrics"));
    GRAFT_TRY(check_samples(*trainer, *set->source));
    GRAFT_TRY_ASSIGN(const train::Metrics result, trainer->trainer->evaluate(*set->source));
    if (metrics == nullptr) return ok_status();
    return write_info(metrics_of(*trainer->trainer, result, trainer->trainer->learning_rate()), metrics,
                      "graft_metrics");
  });
}
