#include "runtime/personal/memory.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "platform/base/hash.h"
#include "platform/base/json.h"
#include "platform/os/clock.h"
#include "runtime/data/random.h"
#include "runtime/personal/memory_source.h"

namespace graft::personal {
namespace {

// What a seed draws: told apart, so that no draw says anything of another.
constexpr std::uint64_t kHeldOutKey = 0x68656c64, kReservoirKey = 0x72657365;
constexpr std::uint64_t kLeastBytes = 4096;

/// The class of a sample: its first label, if that is one whole number.
std::int64_t label_of(const std::vector<data::Field>& fields, std::span<const std::byte> sample) {
  for (const data::Field& field : fields) {
    if (field.role == data::Role::label) {
      std::int32_t label = 0;
      if (field.dtype != DType::i32 || field.shape.elements() != 1) return 0;
      std::memcpy(&label, sample.data(), sizeof label);
      return label;
    }
    sample = sample.subspan(static_cast<std::size_t>(field.bytes()));
  }
  return 0;
}

Status check_settings(const Settings& settings) {
  GRAFT_TRY(data::check_fields(settings.fields));
  if (settings.bytes < kLeastBytes) {
    return invalid("A memory of ", settings.bytes, " bytes is too small; at least ", kLeastBytes, " are needed.");
  }
  if (!(settings.held_out >= 0 && settings.held_out < 1)) {
    return invalid("The held-out share of a memory is ", settings.held_out, "; it lies from 0 to below 1.");
  }
  return ok_status();
}

Status check_id(const std::string& id) {
  if (id.size() > kMaxIdBytes) {
    return invalid("The id of a record has ", id.size(), " bytes; the limit is ", kMaxIdBytes, ".");
  }
  const bool is_plain = std::ranges::none_of(id, [](char c) { return static_cast<unsigned char>(c) < ' '; });
  if (is_plain && json::is_utf8(id)) return ok_status();
  return invalid("The id ", json::quoted(id), " of a record is not text in UTF-8 without control characters.");
}

Status check_same(const std::vector<data::Field>& known, const std::vector<data::Field>& given) {
  const auto same = [](const data::Field& a, const data::Field& b) {
    return a.name == b.name && a.dtype == b.dtype && a.packed == b.packed && a.shape == b.shape && a.role == b.role;
  };
  for (std::size_t f = 0; f < std::max(known.size(), given.size()); ++f) {
    if (f < known.size() && f < given.size() && same(known[f], given[f])) continue;
    const auto told = [&](const std::vector<data::Field>& fields) {
      if (f >= fields.size()) return std::string("none");
      return cat("\"", fields[f].name, "\", ", fields[f].type_name(), " ", fields[f].shape.text());
    };
    return invalid("The memory holds other samples: its field ", f, " is ", told(known), ", that of the samples is ",
                   told(given), ".");
  }
  return ok_status();
}

}  // namespace

std::uint64_t key_of(const std::string& id) { return hash64(std::as_bytes(std::span(id.data(), id.size()))); }

Result<std::unique_ptr<ExampleMemory>> ExampleMemory::open(const std::string& path, const MemoryOptions& options) {
  os::FileSystem& files = *options.files;
  std::unique_ptr<os::FileLock> lock;
  if (!options.read_only) {
    auto locked = files.lock(path + ".lock");
    if (!locked.ok()) {
      return std::move(locked).status().with_context(cat("While opening the memory \"", path, "\" to write"));
    }
    lock = std::move(*locked);
  }
  if (!options.read_only && !options.settings.fields.empty() && !os::exists(files, path)) {
    GRAFT_TRY(check_settings(options.settings));
    GRAFT_TRY(MemoryFile::create(files, path, options.cipher.get(), options.settings));
  }
  GRAFT_TRY_ASSIGN(MemoryFile file, MemoryFile::open(files, path, options.cipher, !options.read_only));
  std::unique_ptr<ExampleMemory> memory(new ExampleMemory(std::move(file)));
  memory->lock_ = std::move(lock);
  memory->read_only_ = options.read_only;
  if (!options.settings.fields.empty()) GRAFT_TRY(check_same(memory->settings().fields, options.settings.fields));
  const std::uint64_t sample_bytes = memory->file_.reader()->sample_bytes();
  const auto found = [&](FrameKind kind, std::span<const std::byte> body, std::uint64_t offset,
                         std::uint64_t bytes) -> Status {
    if (kind == FrameKind::put) {
      GRAFT_TRY_ASSIGN(Record record, read_put(body, sample_bytes));
      if (memory->entries_.contains(record.id)) {
        return corrupt("It holds the record \"", record.id, "\" twice.");
      }
      memory->next_number_ = std::max(memory->next_number_, record.number + 1);
      memory->insert({std::move(record), offset, bytes});
      return ok_status();
    }
    if (kind == FrameKind::drop) {
      GRAFT_TRY_ASSIGN(const auto ids, read_drop(body));
      for (const std::string& id : ids) {
        if (!memory->entries_.contains(id)) return corrupt("It removes the record \"", id, "\", which it lacks.");
        (void)memory->take(id);
      }
      return ok_status();
    }
    GRAFT_TRY_ASSIGN(const auto loss, read_loss(body));
    if (!memory->entries_.contains(loss.first)) {
      return corrupt("It has a loss of the record \"", loss.first, "\", which it lacks.");
    }
    Entry entry = memory->take(loss.first);
    entry.record.loss = loss.second;
    memory->insert(std::move(entry));
    return ok_status();
  };
  GRAFT_TRY(memory->file_.scan(found));
  return memory;
}

ExampleMemory::Rank ExampleMemory::rank_of(const Record& record) const {
  const std::uint64_t hash = data::mix(settings().seed ^ kReservoirKey, key_of(record.id));
  switch (settings().policy) {
    case Policy::loss:
      return {std::isnan(record.loss) ? std::numeric_limits<double>::infinity() : record.loss, ~hash, record.id};
    case Policy::age: return {0, record.number, record.id};
    case Policy::reservoir: break;
  }
  return {0, ~hash, record.id};
}

void ExampleMemory::insert(Entry entry) {
  listed_.clear();
  classes_[entry.record.label].insert(rank_of(entry.record));
  live_bytes_ += entry.bytes;
  std::string id = entry.record.id;
  entries_.emplace(std::move(id), std::move(entry));
}

ExampleMemory::Entry ExampleMemory::take(const std::string& id) {
  listed_.clear();
  const auto found = entries_.find(id);
  Entry entry = std::move(found->second);
  entries_.erase(found);
  const auto ranks = classes_.find(entry.record.label);
  ranks->second.erase(rank_of(entry.record));
  if (ranks->second.empty()) classes_.erase(ranks);
  live_bytes_ -= entry.bytes;
  return entry;
}

/// A quarter of the file is room for changes, so that the whole file is rarely written.
bool ExampleMemory::is_over() const {
  const std::uint64_t most = settings().bytes - settings().bytes / 4;
  return file_.start_bytes() + live_bytes_ > most || (settings().records != 0 && entries_.size() > settings().records);
}

std::string ExampleMemory::victim() const {
  const auto most = std::ranges::max_element(
      classes_, {}, [](const auto& one) { return one.second.size(); });  // of equal ones, the smallest label
  return std::get<2>(*most->second.begin());
}

Status ExampleMemory::check_writable() const {
  return read_only_ ? invalid("The memory is open to read only.") : ok_status();
}

/// Writes the whole file from what is in memory.
Status ExampleMemory::rewrite() {
  std::vector<Entry*> all;
  for (auto& [id, entry] : entries_) all.push_back(&entry);
  std::ranges::sort(all, {}, [](const Entry* entry) { return entry->record.number; });
  std::vector<std::byte> sample(static_cast<std::size_t>(file_.reader()->sample_bytes()));
  const auto body = [&](std::size_t i) -> Result<std::vector<std::byte>> {
    if (all[i]->pending != nullptr) return *all[i]->pending;
    GRAFT_TRY(file_.reader()->read(all[i]->offset, sample));
    return put_body(all[i]->record, sample);
  };
  std::vector<std::uint64_t> offsets;
  GRAFT_TRY(file_.replace(body, all.size(), offsets));
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i]->offset = offsets[i];
    all[i]->pending = nullptr;
  }
  return ok_status();
}

Result<Added> ExampleMemory::store(Record record, std::span<const std::byte> sample) {
  GRAFT_TRY(check_writable());
  if (!std::isnan(record.loss) && !std::isfinite(record.loss)) return invalid("The loss of a record is not finite.");
  if (record.id.empty()) record.id = hash_text(hash128(sample));
  GRAFT_TRY(check_id(record.id));
  Added added{record.id};
  if (const auto known = entries_.find(record.id); known != entries_.end()) {
    std::vector<std::byte> there(sample.size());
    GRAFT_TRY(file_.reader()->read(known->second.offset, there));
    if (std::ranges::equal(there, sample)) {
      added.is_known = true;
      return added;
    }
    return invalid("The memory has a record \"", record.id, "\" with another sample; remove it first.");
  }
  record.number = next_number_;
  record.label = label_of(settings().fields, sample);
  if (record.added_ms == 0) record.added_ms = os::wall_clock_ms();
  std::vector<Change> changes(1);
  changes[0].body = put_body(record, sample);
  Entry entry;
  entry.record = std::move(record);
  entry.pending = &changes[0].body;
  entry.bytes = file_.bytes_of(changes);
  if (const std::uint64_t most = settings().bytes - settings().bytes / 4; file_.start_bytes() + entry.bytes > most) {
    return invalid("A record of ", bytes_text(entry.bytes), " does not fit into a memory of ",
                   bytes_text(settings().bytes), ", of which records take three quarters at most.");
  }
  insert(std::move(entry));
  std::vector<Entry> gone;
  while (is_over()) {
    const std::string id = victim();
    gone.push_back(take(id));
    if (id == added.id) break;
    added.evicted.push_back(id);
  }
  added.stored = entries_.contains(added.id);
  const auto restored = [&](Status failure) {  // nothing has happened
    if (added.stored) (void)take(added.id);
    for (Entry& one : gone) {
      if (one.record.id != added.id) insert(std::move(one));
    }
    return failure;
  };
  if (!added.stored) {
    (void)restored(ok_status());  // it is the first to go; whatever went before it went for its sake
    added.evicted.clear();
    return added;
  }
  if (!added.evicted.empty()) changes.push_back({FrameKind::drop, drop_body(added.evicted)});
  std::swap(changes.front(), changes.back());  // what goes, then what comes
  Entry& stored = entries_.at(added.id);
  stored.pending = &changes.back().body;
  if (file_.is_broken() || file_.size() + file_.bytes_of(changes) > settings().bytes) {
    if (Status written = rewrite(); !written.ok()) return restored(std::move(written));
  } else {
    std::vector<std::uint64_t> offsets;
    if (Status written = file_.append(changes, offsets); !written.ok()) return restored(std::move(written));
    stored.offset = offsets.back();
    stored.pending = nullptr;
  }
  ++next_number_;
  return added;
}

Result<Added> ExampleMemory::add(Record record, std::span<const std::byte* const> sample) {
  const auto& fields = settings().fields;
  if (sample.size() != fields.size()) {
    return invalid("A sample of the memory has ", fields.size(), " fields; ", sample.size(), " were given.");
  }
  std::vector<std::byte> bytes;
  for (std::size_t f = 0; f < fields.size(); ++f) {
    if (sample[f] == nullptr) return invalid("The contents of \"", fields[f].name, "\" are NULL.");
    bytes.insert(bytes.end(), sample[f], sample[f] + fields[f].bytes());
  }
  return store(std::move(record), bytes);
}

Result<std::vector<Added>> ExampleMemory::add_all(data::Source& source, const Record& like, const std::string& prefix) {
  GRAFT_TRY(check_same(settings().fields, source.fields()));
  std::vector<std::byte> sample(static_cast<std::size_t>(file_.reader()->sample_bytes()));
  std::vector<std::byte*> out;
  for (std::size_t at = 0, f = 0; f < source.fields().size(); at += source.fields()[f++].bytes()) {
    out.push_back(sample.data() + at);
  }
  std::vector<Added> all;
  source.start_epoch(0, 0);
  for (std::uint64_t position = 0;;) {
    GRAFT_TRY_ASSIGN(const bool more, source.read(position, out));
    if (!more) return all;
    Record record = like;
    record.id = prefix.empty() ? std::string() : cat(prefix, all.size());
    auto added = store(std::move(record), sample);
    if (!added.ok()) {
      return std::move(added).status().with_context(cat("While adding sample ", all.size(), " of the data set"));
    }
    all.push_back(std::move(*added));
  }
}

Status ExampleMemory::set_loss(const std::string& id, double loss) {
  GRAFT_TRY(check_writable());
  GRAFT_TRY(detail::to_status(find(id)));
  if (!std::isfinite(loss)) return invalid("The loss of the record \"", id, "\" is not finite.");
  const double before = entries_.at(id).record.loss;
  const auto change = [&](double now) {
    Entry entry = take(id);
    entry.record.loss = now;
    insert(std::move(entry));
  };
  change(loss);
  const std::array changes = {Change{FrameKind::loss, loss_body(id, loss)}};
  std::vector<std::uint64_t> offsets;
  const bool is_full = file_.size() + file_.bytes_of(changes) > settings().bytes;
  Status written = file_.is_broken() || is_full ? rewrite() : file_.append(changes, offsets);
  if (!written.ok()) change(before);
  return written;
}

Status ExampleMemory::erase(std::span<const std::string> ids) {
  std::vector<Entry> gone;
  for (const std::string& id : ids) gone.push_back(take(id));
  Status written = rewrite();
  if (!written.ok()) {
    for (Entry& entry : gone) insert(std::move(entry));
  }
  return written;
}

Status ExampleMemory::remove(std::span<const std::string> ids) {
  GRAFT_TRY(check_writable());
  const std::set<std::string> once(ids.begin(), ids.end());
  for (const std::string& id : ids) GRAFT_TRY(detail::to_status(find(id)));
  const std::vector<std::string> all(once.begin(), once.end());
  return all.empty() ? ok_status() : erase(all);
}

Result<std::vector<std::string>> ExampleMemory::expire(std::int64_t now_ms) {
  GRAFT_TRY(check_writable());
  std::vector<std::string> over;
  for (const auto& [id, entry] : entries_) {
    if (entry.record.expires_ms != 0 && entry.record.expires_ms <= now_ms) over.push_back(id);
  }
  if (!over.empty()) GRAFT_TRY(erase(over));
  return over;
}

std::vector<const Record*> ExampleMemory::records() const {
  std::vector<const Record*> all;
  for (const auto& [id, entry] : entries_) all.push_back(&entry.record);
  return all;
}

const Record* ExampleMemory::at(std::size_t index) const {
  if (listed_.empty()) listed_ = records();
  return index < listed_.size() ? listed_[index] : nullptr;
}

Result<const Record*> ExampleMemory::find(const std::string& id) const {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return error(Code::not_found, "The memory has no record \"", id, "\".");
  return &found->second.record;
}

Status ExampleMemory::read(const std::string& id, std::vector<std::byte>& sample) const {
  GRAFT_TRY(detail::to_status(find(id)));
  sample.resize(static_cast<std::size_t>(file_.reader()->sample_bytes()));
  return detail::to_status(file_.reader()->read(entries_.at(id).offset, sample));
}

bool ExampleMemory::is_held_out(const std::string& id) const {
  const std::uint64_t drawn = data::mix(settings().seed ^ kHeldOutKey, key_of(id));
  return static_cast<double>(drawn >> 11) * 0x1p-53 < settings().held_out;
}

bool ExampleMemory::is_in(const Record& record, Part part, std::int64_t now_ms) const {
  if (record.expires_ms != 0 && record.expires_ms <= now_ms) return false;
  switch (part) {
    case Part::training: return record.may_train && !is_held_out(record.id);
    case Part::held_out: return record.may_evaluate && is_held_out(record.id);
    case Part::exported: return record.may_export;
  }
  return false;
}

std::vector<std::string> ExampleMemory::ids_of(Part part, std::int64_t now_ms) const {
  std::vector<std::string> ids;
  for (const auto& [id, entry] : entries_) {
    if (is_in(entry.record, part, now_ms)) ids.push_back(id);
  }
  return ids;
}

Result<std::unique_ptr<data::Source>> ExampleMemory::source(Part part, std::int64_t now_ms) const {
  std::vector<StoredSample> samples;
  for (const auto& [id, entry] : entries_) {
    if (is_in(entry.record, part, now_ms)) samples.push_back({entry.offset, key_of(id)});
  }
  if (samples.empty()) {
    constexpr const char* kWanted[] = {"that may be trained on", "that is held out", "that may be exported"};
    return error(Code::not_found, "The memory holds no record ", kWanted[static_cast<std::size_t>(part)], ": it has ",
                 entries_.size(), " in all.");
  }
  return stored_samples(file_.reader(), settings().fields, std::move(samples));
}

}  // namespace graft::personal
