// graft/data.h: data sets, their batches, and training on them.
#include "runtime/c_api/c_data.h"

#include <algorithm>
#include <limits>
#include <span>

#include "platform/base/checked.h"
#include "platform/base/hash.h"
#include "runtime/c_api/c_media.h"
#include "runtime/c_api/c_tokenizer.h"
#include "runtime/core/features.gen.h"
#include "runtime/data/keyed_order.h"
#include "runtime/data/spec.h"
#include "runtime/data/split.h"
#include "runtime/language/preference.h"
#include "runtime/language/text_spec.h"
#include "runtime/lora/new_tokens.h"
#include "runtime/personal/memory_source.h"
#include "runtime/run_state/data_hints.h"

using namespace graft;
using namespace graft::c_api;

namespace graft::c_api {

void configure_data(const graft_loader& loader, Configuration& configuration) {
  if (!loader.set->spec.empty()) configuration.try_emplace("data", loader.set->spec);
  configuration["data contents"] = loader.fingerprint;
  configuration["order"] = loader.order;
}

Status check_known(const graft_loader& loader) {
  if (!loader.fingerprint.empty()) return ok_status();
  return invalid(
      "The loader is anonymous (graft_loader_options): a run that is kept or shared tells its data from others.");
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

}  // namespace graft::c_api

namespace {

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
    wanted.show = options.show;
    if (options.tokenizer != nullptr) wanted.words = &options.tokenizer->tokenizer.vocabulary();
    GRAFT_TRY_ASSIGN(TextSet made, open_text_set(spec, model->model, wanted, files));
    for (const std::string& sentence : sentences_of(made.summary)) set.summary_text += sentence + '\n';
    set.summary_json = json_of(made.summary);
    set.summary = std::move(made.summary);
    set.shown = std::move(made.shown);
    for (const std::vector<ShownToken>& sample : set.shown) {
      auto& rows = set.shown_rows.emplace_back();
      for (const ShownToken& token : sample) {
        rows.push_back({token.text.c_str(), token.text.size(), token.learned ? 1 : 0, token.begins ? 1 : 0});
      }
    }
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
  for (std::size_t i = 0; options.classes != nullptr && i < options.class_count; ++i) {
    if (options.classes[i] == nullptr) return invalid("The name of class ", i, " is NULL.");
  }
  auto set = std::make_unique<graft_data_set>();
  set->context = &context;
  set->spec = spec;
  if (options.first != 0 || options.count != 0) set->spec += cat(" from ", options.first, ", ", options.count);
  GRAFT_TRY_ASSIGN(set->codecs, read_media(options.media));
  std::unique_ptr<data::Source> source;
  if (is_text_spec(spec)) {
    GRAFT_TRY(open_text_for(options.model, spec, options, *context.files, *set));
    source = std::move(set->source);
  } else if (personal::is_memory_spec(spec)) {
    GRAFT_TRY_ASSIGN(source, personal::open_memory_spec(spec, *context.files));
  } else {
    data::Hints hints;
    if (options.model != nullptr) {
      hints = options.evaluation != 0 ? hints_of(options.model->model) : training_hints_of(options.model->model);
    }
    hints.augment = options.evaluation == 0;
    if (options.classes != nullptr) hints.classes.assign(options.classes, options.classes + options.class_count);
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

graft_status graft_data_shown(const graft_data_set* set, uint64_t sample, const graft_shown_token** tokens,
                              size_t* count) {
  if (set == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(set->context, [&]() -> Status {
    if (tokens == nullptr || count == nullptr) return invalid("graft_data_shown needs places for its results.");
    if (sample >= set->shown_rows.size()) {
      return error(Code::not_found, "The tokens of ", set->shown_rows.size(), " samples are kept; number ", sample,
                   " is none of them.");
    }
    *tokens = set->shown_rows[sample].data();
    *count = set->shown_rows[sample].size();
    return ok_status();
  });
}

namespace {

/// What the model makes of a set's texts becomes part of its samples; kept in `file`, where it is not null.
Status add_reference(graft_data_set& set, const Model& reference, gpu::Device& device, const ReferenceOptions& options,
                     const char* file) {
  os::FileSystem& files = *set.context->files;
  const std::string of =
      cat(set.fingerprint, ' ', name_of_base(reference), ' ', std::string(dtype_name(options.precision)));
  std::vector<float> references;
  bool known = false;
  if (file != nullptr) {
    auto kept = read_references(files, file, of, set.source->size().value_or(0));
    known = kept.ok();
    if (known) references = std::move(*kept);
    if (!known && kept.status().code() != Code::not_found) return std::move(kept).status();
  }
  if (!known) {
    GRAFT_TRY_ASSIGN(references, log_probabilities(device, reference, *set.source, options));
  }
  if (!known && file != nullptr) {
    const std::string path = file;
    const std::size_t end = path.find_last_of("/\\");
    if (end != std::string::npos && end != 0) GRAFT_TRY(os::make_directories(files, path.substr(0, end)));
    GRAFT_TRY(write_references(files, path, of, references));
  }
  GRAFT_TRY_ASSIGN(set.source, with_references(std::move(set.source), std::move(references)));
  return ok_status();
}

}  // namespace

graft_status graft_data_add_reference(graft_data_set* set, graft_model* model, uint32_t batch) {
  auto options = defaults<graft_reference_options>();
  options.batch = batch;
  return graft_data_add_reference_with(set, model, &options);
}

graft_status graft_data_add_reference_with(graft_data_set* set, graft_model* model,
                                           const graft_reference_options* given) {
  if (set == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(set->context, [&]() -> Status {
    if (model == nullptr) return invalid("graft_data_add_reference needs the model that is the reference.");
    if (&*model->context != &*set->context) return invalid("The model and the data set are of two contexts.");
    if (set->has_loader()) return invalid("The data set has a loader already: its samples are read.");
    GRAFT_TRY_ASSIGN(const graft_reference_options asked, read_options(given, "graft_reference_options"));
    if constexpr (kHasText && kHasTraining) {
      ReferenceOptions options;
      options.batch = asked.batch;
      GRAFT_TRY_ASSIGN(options.precision, read_precision(asked.precision));
      GRAFT_TRY_ASSIGN(options.bindings, read_bindings(asked.bindings, asked.binding_count));
      options.trainer.program.proof = set->context->proof.get();
      options.trainer.program.control = &set->context->control;
      GRAFT_TRY_ASSIGN(gpu::Device* const device, device_of(*set->context));
      // Without adapters: what the model was before they were put on, but for tokens that texts are made of.
      GRAFT_TRY_ASSIGN(const auto tokens, new_tokens_of(model->model.metadata));
      const Model& reference = model->base && !tokens ? *model->base : model->model;
      if (set->fingerprint.empty()) {
        GRAFT_TRY_ASSIGN(set->fingerprint, fingerprint_of(*set->source));
      }
      return add_reference(*set, reference, *device, options, asked.file);
    } else {
      return unsupported("This build of graft leaves out text or training.");
    }
  });
}

graft_status graft_data_narrow(graft_data_set* set, uint64_t first, uint64_t count) {
  if (set == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(set->context, [&]() -> Status {
    if (set->has_loader()) return invalid("The data set has a loader already: its samples are read.");
    if (set->source->mixture()) return invalid("A data set that a memory is mixed into has no parts.");
    const auto size = set->source->size();
    if (!size || count == 0 || first > *size || count > *size - first) {
      return invalid("The data set has ", size ? cat(*size) : "an unknown number of", " samples; ", count, " from ",
                     first, " on are none of them.");
    }
    GRAFT_TRY_ASSIGN(set->source, data::range(std::move(set->source), first, count));
    if (!set->spec.empty()) set->spec += cat(" from ", first, ", ", count);
    set->fingerprint.clear();
    return ok_status();
  });
}

void graft_data_destroy(graft_data_set* set) {
  if (set != nullptr) destroy<graft_context>(set->context, set);
}

uint64_t graft_data_samples(const graft_data_set* set) {
  if (set == nullptr) return 0;
  return data::places_of(set->source->size().value_or(0), set->source->mixture());
}

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

// ---- Parts: of clients, and of folds ----

graft_status graft_data_select(graft_data_set* set, const uint64_t* rows, uint64_t count, graft_data_set** selected) {
  if (set == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(set->context, [&]() -> Status {
    if (selected == nullptr) return invalid("graft_data_select needs a place for the set.");
    *selected = nullptr;
    if (set->source->mixture()) return invalid("A data set that a memory is mixed into has no parts.");
    if (rows == nullptr || count == 0) return invalid("graft_data_select needs the numbers of samples.");
    const std::span<const std::uint64_t> wanted(rows, static_cast<std::size_t>(count));
    auto made = std::make_unique<graft_data_set>();
    made->context = set->context;
    made->whole = set;
    GRAFT_TRY_ASSIGN(made->source, data::select(*set->source, {wanted.begin(), wanted.end()}));
    // As runs tell their data from others: what a reference adds to samples differs from device to device.
    const std::string of = cat(" rows ", hash_text(hash128(std::as_bytes(wanted))));
    if (!set->spec.empty()) made->spec = set->spec + of;
    if (!set->fingerprint.empty()) made->fingerprint = set->fingerprint + of;
    *selected = made.release();
    return ok_status();
  });
}

graft_status graft_data_split(graft_data_set* set, const char* way, uint64_t parts, uint64_t seed, uint64_t* rows,
                              uint64_t* ends) {
  if (set == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(set->context, [&]() -> Status {
    if (way == nullptr || rows == nullptr || ends == nullptr) {
      return invalid("graft_data_split needs a way, and places for rows and ends.");
    }
    if (set->has_loader()) return invalid("The data set has a loader already: its samples are read.");
    const auto size = set->source->size();
    if (!size) return invalid("Nobody knows how many samples the data set has: it cannot be shared out.");
    GRAFT_TRY_ASSIGN(const data::Split split, data::parse_split(way));
    std::vector<std::int64_t> labels(*size);
    if (split.kind != data::Split::Kind::iid) {
      GRAFT_TRY_ASSIGN(labels, data::labels_of(*set->source));
    }
    GRAFT_TRY_ASSIGN(const auto shared, data::split_rows(labels, parts, split, seed));
    std::uint64_t end = 0;
    for (std::size_t part = 0; part < shared.size(); ++part) {
      std::ranges::copy(shared[part], rows + end);
      ends[part] = end += shared[part].size();
    }
    return ok_status();
  });
}
