// graft/examples.h: a memory of examples.
#include "graft/examples.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "platform/base/checked.h"
#include "platform/os/clock.h"
#include "runtime/c_api/c_cipher.h"
#include "runtime/c_api/c_data.h"
#include "runtime/c_api/c_handles.h"
#include "runtime/data/keyed_order.h"
#include "runtime/data/mix.h"
#include "runtime/personal/memory.h"

using namespace graft;
using namespace graft::c_api;

struct graft_memory_file {
  Ref<graft_context> context;
  std::unique_ptr<personal::ExampleMemory> memory = nullptr;
  std::string id = {};       ///< of the last call
  std::string evicted = {};  ///< likewise
  std::vector<std::byte> sample = {};
  Users users = {};
};

namespace {

template <typename Body>
graft_status on_memory(graft_memory_file* memory, Body&& body) {
  if (memory == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(memory->context, std::forward<Body>(body));
}

std::int64_t time_of(std::int64_t now_ms) { return now_ms == 0 ? os::wall_clock_ms() : now_ms; }

Result<personal::Settings> settings_of(const graft_memory_options& given) {
  personal::Settings settings;
  if (given.fields != nullptr && given.like != nullptr) {
    return invalid("The fields of a memory are given twice: by fields and by like.");
  }
  if (given.fields != nullptr) {
    GRAFT_TRY_ASSIGN(settings.fields, read_fields(given.fields, given.field_count));
  }
  if (given.like != nullptr) settings.fields = given.like->source->fields();
  const auto policy = static_cast<unsigned>(given.policy);
  if (policy > GRAFT_MEMORY_AGE) return invalid("There is no policy number ", policy, " of a memory.");
  settings.bytes = given.bytes;
  settings.records = given.records;
  settings.policy = static_cast<personal::Policy>(policy);
  settings.held_out = given.held_out_share;
  settings.seed = given.seed;
  return settings;
}

Result<personal::Record> record_of(const graft_record_options* options) {
  GRAFT_TRY_ASSIGN(const graft_record_options given, read_options(options, "graft_record_options"));
  if (given.expires_ms < 0 || given.added_ms < 0) return invalid("A time of a record is before 1970.");
  personal::Record record;
  if (given.has_loss != 0) {
    if (!std::isfinite(given.loss)) return invalid("The loss of a record is not finite.");
    record.loss = given.loss;
  }
  record.added_ms = given.added_ms;
  record.expires_ms = given.expires_ms;
  record.may_train = given.may_train != 0;
  record.may_evaluate = given.may_evaluate != 0;
  record.may_export = given.may_export != 0;
  return record;
}

Result<std::string> id_of(const char* id) {
  if (id == nullptr) return invalid("The id of a record is NULL.");
  return std::string(id);
}

Status tell(graft_memory_file& memory, const personal::Record& record, graft_memory_record* out) {
  memory.id = record.id;
  graft_memory_record told{};
  told.id = memory.id.c_str();
  told.number = record.number;
  told.added_ms = record.added_ms;
  told.expires_ms = record.expires_ms;
  told.label = record.label;
  told.loss = record.loss;
  told.may_train = record.may_train ? 1 : 0;
  told.may_evaluate = record.may_evaluate ? 1 : 0;
  told.may_export = record.may_export ? 1 : 0;
  told.is_held_out = memory.memory->is_held_out(record.id) ? 1 : 0;
  return write_info(told, out, "graft_memory_record");
}

/// A set of the memory's, told from others by what it holds.
std::unique_ptr<graft_data_set> set_of(graft_context* context, std::unique_ptr<data::Source> source) {
  auto made = std::make_unique<graft_data_set>();
  made->context = context;
  made->source = std::move(source);
  return made;
}

}  // namespace

graft_status graft_memory_open(graft_context* context, const char* path, const graft_memory_options* options,
                               graft_memory_file** memory) {
  return guarded(context, [&]() -> Status {
    if (path == nullptr || memory == nullptr) return invalid("A memory is opened from a path to a place; one is NULL.");
    *memory = nullptr;
    GRAFT_TRY_ASSIGN(const graft_memory_options given, read_options(options, "graft_memory_options"));
    personal::MemoryOptions wanted;
    GRAFT_TRY_ASSIGN(wanted.settings, settings_of(given));
    GRAFT_TRY_ASSIGN(wanted.cipher, read_cipher(given.cipher));
    wanted.read_only = given.read_only != 0;
    wanted.files = context->files;
    auto made = std::make_unique<graft_memory_file>();
    made->context = context;
    GRAFT_TRY_ASSIGN(made->memory, personal::ExampleMemory::open(path, wanted));
    *memory = made.release();
    return ok_status();
  });
}

void graft_memory_destroy(graft_memory_file* memory) {
  if (memory != nullptr) destroy<graft_context>(memory->context, memory);
}

graft_status graft_memory_add(graft_memory_file* memory, const char* id, const void* const* contents,
                              size_t content_count, const graft_record_options* options, graft_memory_added* added) {
  return on_memory(memory, [&]() -> Status {
    if (contents == nullptr) return invalid("The contents of a record are NULL.");
    if (added != nullptr) GRAFT_TRY(check_info(added, "graft_memory_added"));
    GRAFT_TRY_ASSIGN(personal::Record record, record_of(options));
    GRAFT_TRY_ASSIGN(record.id, id_of(id));
    std::vector<const std::byte*> sample(content_count);
    for (std::size_t i = 0; i < content_count; ++i) sample[i] = static_cast<const std::byte*>(contents[i]);
    GRAFT_TRY_ASSIGN(const personal::Added done, memory->memory->add(std::move(record), sample));
    if (added == nullptr) return ok_status();
    memory->id = done.id;
    memory->evicted.clear();
    for (const std::string& one : done.evicted) memory->evicted += (memory->evicted.empty() ? "" : "\n") + one;
    graft_memory_added told{};
    told.id = memory->id.c_str();
    told.stored = done.stored ? 1 : 0;
    told.is_known = done.is_known ? 1 : 0;
    told.evicted = memory->evicted.c_str();
    return write_info(told, added, "graft_memory_added");
  });
}

graft_status graft_memory_add_data(graft_memory_file* memory, const graft_data_set* set, const char* prefix,
                                   const graft_record_options* options, uint64_t* stored) {
  return on_memory(memory, [&]() -> Status {
    if (set == nullptr) return invalid("graft_memory_add_data needs a data set.");
    if (set->has_loader()) return invalid("The data set has a loader, whose thread reads it; open it once more.");
    GRAFT_TRY_ASSIGN(const personal::Record record, record_of(options));
    GRAFT_TRY_ASSIGN(const std::string before, id_of(prefix));
    GRAFT_TRY_ASSIGN(const auto all, memory->memory->add_all(*set->source, record, before));
    std::uint64_t there = 0;
    for (const personal::Added& one : all) there += memory->memory->find(one.id).ok() ? 1 : 0;
    if (stored != nullptr) *stored = there;
    return ok_status();
  });
}

graft_status graft_memory_set_loss(graft_memory_file* memory, const char* id, double loss) {
  return on_memory(memory, [&]() -> Status {
    GRAFT_TRY_ASSIGN(const std::string name, id_of(id));
    return memory->memory->set_loss(name, loss);
  });
}

graft_status graft_memory_remove(graft_memory_file* memory, const char* const* ids, size_t id_count) {
  return on_memory(memory, [&]() -> Status {
    if (ids == nullptr && id_count != 0) return invalid("The ids of the records to remove are NULL.");
    std::vector<std::string> names;
    for (std::size_t i = 0; i < id_count; ++i) {
      GRAFT_TRY_ASSIGN(std::string name, id_of(ids[i]));
      names.push_back(std::move(name));
    }
    return memory->memory->remove(names);
  });
}

graft_status graft_memory_expire(graft_memory_file* memory, int64_t now_ms, uint64_t* removed) {
  return on_memory(memory, [&]() -> Status {
    GRAFT_TRY_ASSIGN(const auto ids, memory->memory->expire(time_of(now_ms)));
    if (removed != nullptr) *removed = ids.size();
    return ok_status();
  });
}

graft_status graft_memory_at(graft_memory_file* memory, size_t index, graft_memory_record* record) {
  return on_memory(memory, [&]() -> Status {
    const personal::Record* const found = memory->memory->at(index);
    if (found != nullptr) return tell(*memory, *found, record);
    return error(Code::not_found, "There are ", memory->memory->size(), " records; number ", index, " is not one.");
  });
}

graft_status graft_memory_find(graft_memory_file* memory, const char* id, graft_memory_record* record) {
  return on_memory(memory, [&]() -> Status {
    GRAFT_TRY_ASSIGN(const std::string name, id_of(id));
    GRAFT_TRY_ASSIGN(const personal::Record* const found, memory->memory->find(name));
    return tell(*memory, *found, record);
  });
}

graft_status graft_memory_read(graft_memory_file* memory, const char* id, const void** data, size_t* bytes) {
  return on_memory(memory, [&]() -> Status {
    GRAFT_TRY_ASSIGN(const std::string name, id_of(id));
    GRAFT_TRY(memory->memory->read(name, memory->sample));
    if (data != nullptr) *data = memory->sample.data();
    if (bytes != nullptr) *bytes = memory->sample.size();
    return ok_status();
  });
}

graft_status graft_memory_describe(graft_memory_file* memory, graft_memory_info* info) {
  return on_memory(memory, [&]() -> Status {
    const personal::ExampleMemory& of = *memory->memory;
    graft_memory_info out{};
    out.records = of.size();
    for (const personal::Record* record : of.records()) out.held_out_records += of.is_held_out(record->id) ? 1 : 0;
    out.bytes = of.file_bytes();
    out.record_bytes = of.record_bytes();
    out.most_bytes = of.settings().bytes;
    out.most_records = of.settings().records;
    out.torn_bytes = of.torn_bytes();
    out.policy = static_cast<graft_memory_policy>(of.settings().policy);
    out.held_out_share = of.settings().held_out;
    out.seed = of.settings().seed;
    return write_info(out, info, "graft_memory_info");
  });
}

graft_status graft_memory_data(graft_memory_file* memory, graft_memory_part part, int64_t now_ms,
                               graft_data_set** set) {
  return on_memory(memory, [&]() -> Status {
    if (set == nullptr) return invalid("A data set needs a place for its handle.");
    *set = nullptr;
    const auto number = static_cast<unsigned>(part);
    if (number > GRAFT_MEMORY_EXPORT) return invalid("There is no part number ", number, " of a memory.");
    GRAFT_TRY_ASSIGN(auto source, memory->memory->source(static_cast<personal::Part>(number), time_of(now_ms)));
    *set = set_of(memory->context, std::move(source)).release();
    return ok_status();
  });
}

graft_status graft_memory_mix(graft_memory_file* memory, graft_data_set* set, double share, int64_t now_ms,
                              graft_data_set** mixed) {
  return on_memory(memory, [&]() -> Status {
    if (set == nullptr || mixed == nullptr) return invalid("graft_memory_mix needs a data set, and a place for one.");
    *mixed = nullptr;
    if (&*set->context != &*memory->context) return invalid("The memory and the data set are of two contexts.");
    if (set->has_loader()) return invalid("The data set has a loader already: its samples are read.");
    GRAFT_TRY_ASSIGN(auto records, memory->memory->source(personal::Part::training, time_of(now_ms)));
    GRAFT_TRY_ASSIGN(auto source, data::mix_in(*set->source, std::move(records), share));
    auto made = set_of(memory->context, std::move(source));
    made->whole = set;
    if (!set->spec.empty()) made->spec = cat(set->spec, " mixed with a memory by ", share);
    *mixed = made.release();
    return ok_status();
  });
}

graft_status graft_memory_first_use(const graft_data_set* set, const graft_loader_options* options, const char* id,
                                    uint64_t limit, uint64_t* batch) {
  if (set == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(set->context, [&]() -> Status {
    if (batch == nullptr) return invalid("graft_memory_first_use needs a place for the batch.");
    if (set->has_loader()) return invalid("The data set has a loader, whose thread reads it; open it once more.");
    GRAFT_TRY_ASSIGN(const graft_loader_options given, read_options(options, "graft_loader_options"));
    GRAFT_TRY_ASSIGN(const std::string name, id_of(id));
    if (given.keyed == 0)
      return invalid("Where a record stands is known of an order by keys (graft_loader_options.keyed).");
    if (limit == 0 && given.epochs == 0) {
      return invalid("The epochs of the loader are unbounded; say how many batches are looked at.");
    }
    GRAFT_TRY_ASSIGN(const auto keys, data::keys_of(*set->source));
    const data::Batches batches = {given.seed, given.batch, given.drop_last != 0, given.epochs};
    const auto found = data::first_batch_with(personal::key_of(name), keys, set->source->mixture(), batches,
                                              limit == 0 ? std::numeric_limits<std::uint64_t>::max() : limit);
    if (!found) return error(Code::not_found, "No batch that was asked about has the record \"", name, "\".");
    *batch = *found;
    return ok_status();
  });
}
