// Opening a store: its root, its snapshots, and the way back to the last good state.
#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <thread>

#include "platform/base/checked.h"
#include "platform/base/stable_sort.h"
#include "platform/os/access.h"
#include "platform/os/clock.h"
#include "platform/os/threads.h"
#include "runtime/checkpoint/chunk_reader.h"
#include "runtime/checkpoint/store.h"

namespace graft::checkpoint {
namespace {

/// Damage, not a failure of the system to read: recovery steps back from damage alone.
bool is_damage(const Status& status) {
  return status.code() == Code::corrupt || status.code() == Code::not_found || status.code() == Code::invalid_argument;
}

std::uint64_t new_identity(const std::string& path) {
  const std::array<std::int64_t, 2> times = {os::wall_clock_ms(), os::monotonic_ns()};
  const std::array<std::span<const std::byte>, 2> parts = {std::as_bytes(std::span(times)),
                                                           std::as_bytes(std::span(path.data(), path.size()))};
  return hash128(parts).low;
}

Status check_options(const StoreOptions& options) {
  if (options.chunk_bytes < kMinChunkBytes || options.chunk_bytes > kMaxChunkBytes || options.chunk_bytes % 8 != 0) {
    return invalid("Chunks of ", options.chunk_bytes, " bytes were asked for; a multiple of 8 from ", kMinChunkBytes,
                   " to ", kMaxChunkBytes, " is allowed.");
  }
  if (options.max_chain < 1 || options.max_chain > kMaxChain) {
    return invalid("Chains of ", options.max_chain, " chunks were asked for; 1 to ", kMaxChain, " are allowed.");
  }
  if (!(options.max_restore_cost >= 1)) {
    return invalid("A restore cost of ", options.max_restore_cost, " was asked for; it is at least 1.");
  }
  if (options.zstd_level < 1 || options.zstd_level > kMaxZstdLevel) {
    return invalid("zstd level ", options.zstd_level, " was asked for; 1 to ", kMaxZstdLevel, " are allowed.");
  }
  if (options.cipher != nullptr && (options.cipher->overhead() == 0 || options.cipher->overhead() > kMaxSealBytes)) {
    return invalid("The cipher adds ", options.cipher->overhead(), " bytes; 1 to ", kMaxSealBytes, " are allowed.");
  }
  return ok_status();
}

constexpr std::size_t kPerBlock = 64;  ///< snapshots that a thread reads at a time

}  // namespace

std::size_t Store::threads_for(std::size_t snapshots) {
  constexpr std::size_t kPerThread = 512;  // fewer are read in the time that a thread takes to start
  constexpr std::size_t kMostThreads = 8;
  const std::size_t cores = std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, kMostThreads);
  return std::clamp<std::size_t>(snapshots / kPerThread, 1, cores);
}

std::string Store::file_path(FileKind kind, std::uint64_t number) const {
  std::string path;
  path.reserve(path_.size() + 32);
  return path.append(path_).append("/").append(file_name(kind, number));
}

Status Store::check_writable() const {
  if (writable()) return ok_status();
  return invalid("The checkpoint store \"", path_, "\" was opened for reading only.");
}

Result<Store> Store::open(os::FileSystem& files, const std::string& path, const StoreOptions& options) {
  GRAFT_TRY(check_options(options));
  Store store(files, path, options);
  const std::string context = cat("While opening the checkpoint store \"", path, "\"");
  if (options.mode == StoreMode::create) {
    if (Status status = os::make_private_directories(files, path); !status.ok()) {
      return std::move(status).with_context(context);
    }
  }
  if (options.mode != StoreMode::read_only) {
    const auto info = files.info(path);
    if (!info.ok()) return Status(info.status()).with_context(context);
    auto lock = files.lock(path + "/" + std::string(kLockName));
    if (!lock.ok()) {
      return std::move(lock).status().with_context(context + ", which one writer at a time may use");
    }
    store.lock_ = std::move(lock).value();
  }
  if (Status status = store.initialize(); !status.ok()) return std::move(status).with_context(context);
  return store;
}

Result<Store::Listing> Store::list_files() const {
  Listing listing;
  GRAFT_TRY(files_->visit(path_, [&](std::string_view name, os::EntryType type) {
    if (type != os::EntryType::file) return;
    const std::string_view replaced = name.substr(0, name.find(".tmp"));
    if (os::is_temporary(name)) {
      listing.leftovers.emplace_back(name);
    } else if (replaced != name) {  // of earlier versions of graft
      if (replaced == kRootName || file_number(FileKind::snapshot, replaced)) listing.leftovers.emplace_back(name);
    } else if (const auto snapshot = file_number(FileKind::snapshot, name)) {
      listing.snapshots.push_back(*snapshot);
    } else if (const auto segment = file_number(FileKind::segment, name)) {
      listing.segments.push_back(*segment);
    } else if (const auto journal = file_number(FileKind::journal, name)) {
      listing.journals.push_back(*journal);
    } else if (name == kRootName) {
      listing.root = true;
    }
  }));
  for (auto* numbers : {&listing.snapshots, &listing.segments, &listing.journals}) graft::stable_sort(*numbers);
  graft::stable_sort(listing.leftovers);
  return listing;
}

Status Store::initialize() {
  GRAFT_TRY_ASSIGN(const Listing listing, list_files());
  if (!listing.root && listing.journals.empty() && listing.snapshots.empty()) {
    if (options_.mode != StoreMode::create) return error(Code::not_found, "There is no checkpoint store.");
    if (!listing.segments.empty()) return corrupt("There are segments without a root, a snapshot or a journal.");
    return create_empty();
  }
  if (options_.mode == StoreMode::create && creation_was_cut_off(listing)) {
    GRAFT_TRY(files_->remove(file_path(FileKind::journal, 0)));
    return create_empty();
  }
  bool trusted = false;
  GRAFT_TRY(read_root(listing, trusted));
  GRAFT_TRY(load_snapshots(listing));
  GRAFT_TRY(recover());
  if (writable() && trusted) remove_leftovers(listing);
  return ok_status();
}

/// A power cut during creation can leave one journal without a header; it never held anything.
bool Store::creation_was_cut_off(const Listing& listing) const {
  if (listing.root || !listing.snapshots.empty() || !listing.segments.empty()) return false;
  if (listing.journals.size() != 1 || listing.journals.front() != 0) return false;
  const auto journal = read_journal(*files_, file_path(FileKind::journal, 0), 0, options_.cipher);
  return !journal.ok() && is_damage(journal.status());
}

Status Store::create_empty() {
  sealer_ = Sealer(options_.cipher, options_.identity != 0 ? options_.identity : new_identity(path_));
  root_ = {0, 0, 0, 0};
  return start_journal();
}

Result<Store::Root> Store::parse_root(Header& header, std::vector<std::byte>& bytes) const {
  GRAFT_TRY(os::read_file(*files_, file_path(FileKind::root, 0), kHeaderBytes + kMaxSealBytes, bytes));
  GRAFT_TRY_ASSIGN(header, read_header(FileKind::root, bytes));
  if (!header.sealed && bytes.size() != kHeaderBytes) return corrupt("It has ", bytes.size(), " bytes.");
  if (header.number == 0 || header.a >= header.number || header.b >= header.number || header.c >= header.number) {
    return corrupt("It names snapshot ", header.a, ", journal ", header.b, " and segment ", header.c,
                   ", but the next free number is ", header.number, ".");
  }
  return Root{header.number, header.a, header.b, header.c};
}

Status Store::read_root(const Listing& listing, bool& trusted) {
  Header header;
  std::vector<std::byte> bytes;
  auto root = parse_root(header, bytes);
  trusted = root.ok();
  if (root.ok()) {
    root_ = *root;
    sealer_ = Sealer(options_.cipher, header.store);
    return sealer_.check_key(header, bytes);
  }
  if (!is_damage(root.status())) return std::move(root).status();
  notes_.push_back(cat("ROOT is unreadable (", root.status().message(), "); the newest journal stands in for it."));
  root_unsure_ = true;
  return guess_root(listing);
}

/// Every commit writes a journal before the root, so the newest journal's header repeats what the root said.
Status Store::guess_root(const Listing& listing) {
  std::uint64_t largest = 0;
  for (const auto* numbers : {&listing.snapshots, &listing.segments, &listing.journals}) {
    if (!numbers->empty()) largest = std::max(largest, numbers->back());
  }
  std::string why;
  if (largest == ~std::uint64_t{0}) return corrupt("The numbers of its files leave none free.");
  for (auto it = listing.journals.rbegin(); it != listing.journals.rend(); ++it) {
    const auto journal = read_journal(*files_, file_path(FileKind::journal, *it), *it, options_.cipher);
    if (!journal.ok() && !is_damage(journal.status())) return journal.status();
    if (!journal.ok()) why = cat(" Journal ", *it, ": ", journal.status().message());
    if (!journal.ok() || journal->header.a > *it) continue;
    sealer_ = Sealer(options_.cipher, journal->header.store);
    root_ = {largest + 1, journal->header.a, *it, largest};
    return ok_status();
  }
  return corrupt("Neither ROOT nor any journal is readable, so nothing says where training stood.", why);
}

/// A store may hold thousands of snapshots, and reading one is a few system calls: threads share them. A cipher is the
/// caller's, and is not asked to be used in several.
Status Store::load_snapshots(const Listing& listing) {
  std::vector<std::uint64_t> numbers;
  for (const std::uint64_t number : listing.snapshots) {
    if (number != 0 && number < root_.next) numbers.push_back(number);  // others were never acknowledged
  }
  std::vector<Result<Manifest>> loaded;
  loaded.reserve(numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) loaded.emplace_back(Manifest{});
  const std::size_t threads = sealer_.on() ? 1 : threads_for(numbers.size());
  std::atomic<std::size_t> next = 0;
  os::run_in_threads(threads, [&](std::size_t) {
    Known known;
    if (threads > 1) known.alike.slab = std::make_shared<Slab>();  // a few snapshots are not worth its pages
    // In blocks, as they come: a core that others use too must not be waited for.
    for (std::size_t begin = 0; (begin = next.fetch_add(kPerBlock)) < numbers.size();) {
      const std::size_t end = std::min(begin + kPerBlock, numbers.size());
      for (std::size_t i = begin; i < end; ++i) loaded[i] = load_snapshot(numbers[i], known);
    }
    if (known.alike.slab != nullptr) known.alike.slab->close();
  });
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (loaded[i].ok()) {
      snapshots_.emplace_hint(snapshots_.end(), numbers[i], std::move(*loaded[i]));
      continue;
    }
    Status status = std::move(loaded[i]).status();
    if (!is_damage(status)) return std::move(status).with_context(cat("While reading snapshot ", numbers[i]));
    notes_.push_back(cat("Snapshot ", numbers[i], " is damaged: ", status.message()));
    damaged_[numbers[i]] = status.message();
  }
  return ok_status();
}

Result<Manifest> Store::load_snapshot(std::uint64_t number, Known& known) const {
  GRAFT_TRY(os::read_file(*files_, file_path(FileKind::snapshot, number), kMaxSnapshotFileBytes, known.bytes));
  GRAFT_TRY_ASSIGN(Manifest manifest, sealer_.decode_snapshot(known.bytes, number, known.alike));
  known.alike.metadata = manifest.meta.metadata;
  known.alike.streams = manifest.streams;
  // Their segments are opened where one is to be used.
  GRAFT_TRY(check_segments(manifest, &known.sizes));
  return manifest;
}

/// Checks that the segments are there and long enough; without `sizes`, which remembers theirs, also that they are this
/// store's, for which each is opened.
Status Store::check_segments(const Manifest& manifest, BySegment<std::uint64_t>* sizes) const {
  BySegment<std::uint64_t> opened;
  BySegment<std::uint64_t>& known = sizes != nullptr ? *sizes : opened;
  std::optional<ChunkReader> reader;
  const auto find_size = [&](std::uint64_t segment) -> Result<std::uint64_t> {
    if (sizes == nullptr) {
      if (!reader) reader.emplace(*files_, path_, sealer_);
      return reader->segment_bytes(segment);
    }
    GRAFT_TRY_ASSIGN(const os::FileInfo info, files_->info(file_path(FileKind::segment, segment)));
    return info.size;
  };
  for (const Chunk& chunk : manifest.chunks) {
    const std::uint64_t segment = chunk.segment;
    if (segment == 0 || segment >= root_.next) {
      return corrupt("A chunk lies in segment ", segment, "; those of this store are 1 to ", root_.next - 1, ".");
    }
    const std::uint64_t* size = known.find(segment);
    if (size == nullptr) {
      GRAFT_TRY_ASSIGN(const std::uint64_t found, find_size(segment));
      size = &(known[segment] = found);
    }
    const std::uint64_t end = chunk.offset + chunk.stored_bytes;
    if (*size < end) return corrupt("Segment ", segment, " has ", *size, " bytes; ", end, " are referred to.");
  }
  return ok_status();
}

Result<bool> Store::good(std::uint64_t number) {
  if (number == 0) return true;
  const auto snapshot = snapshots_.find(number);
  if (snapshot == snapshots_.end()) return false;
  const Status status = options_.deep ? verify(number) : check_segments(snapshot->second, nullptr);
  if (status.ok()) return true;
  if (!is_damage(status)) return status;
  notes_.push_back(cat("Snapshot ", number, " is damaged: ", status.message()));
  damaged_[number] = status.message();
  snapshots_.erase(number);
  return false;
}

/// Walks the journals back until one follows a good snapshot; their records, joined, lead on from it.
Status Store::recover() {
  const std::uint64_t wanted = root_.head;
  std::vector<std::vector<JournalRecord>> parts;
  std::uint64_t number = root_.journal;
  std::uint64_t limit = kMaxJournalBytes;
  bool found = false;
  while (!found) {
    auto journal = read_journal(*files_, file_path(FileKind::journal, number), number, options_.cipher, limit);
    if (!journal.ok() && !is_damage(journal.status())) return std::move(journal).status();
    if (!journal.ok() || journal->header.store != sealer_.store() || journal->header.a > number) {
      notes_.push_back(cat("Journal ", number, " is unreadable: its steps are lost."));
      break;
    }
    const bool newest = number == root_.journal;
    if (!journal->problem.empty()) notes_.push_back(cat("Journal ", number, ": ", journal->problem));
    if (newest && journal->tail_bytes != 0) {
      notes_.push_back(cat("The last ", journal->tail_bytes, " bytes of journal ", number,
                           " are no whole record and were left out."));
    }
    if (!newest && journal->good_bytes != limit) {
      notes_.push_back(cat("Journal ", number, " has ", journal->good_bytes, " good bytes of ", limit,
                           ": the steps after them are lost."));
      parts.clear();
    }
    parts.push_back(std::move(journal->records));
    const Header& header = journal->header;
    GRAFT_TRY_ASSIGN(found, good(header.a));
    if (found) {
      root_.head = header.a;
      previous_journal_ = header.b < number ? header.b : kNoJournal;
      previous_bytes_ = header.c;
    } else if (header.b >= number) {
      break;  // none before; only a smaller number is followed, so this ends
    } else {
      number = header.b;
      limit = header.c;
    }
  }
  if (found) {
    for (auto it = parts.rbegin(); it != parts.rend(); ++it) {
      for (auto& record : *it) records_.push_back(std::move(record));
    }
  } else {
    GRAFT_TRY_ASSIGN(bool usable, good(wanted));
    for (root_.head = wanted; !usable;) {
      const auto after = snapshots_.lower_bound(root_.head);
      root_.head = after == snapshots_.begin() ? 0 : std::prev(after)->first;
      GRAFT_TRY_ASSIGN(usable, good(root_.head));
    }
  }
  if (root_.head != wanted) step_back(wanted);
  return ok_status();
}

void Store::step_back(std::uint64_t damaged_head) {
  notes_.push_back(cat("The last snapshot, ", damaged_head, ", is not usable; training goes on from ",
                       root_.head == 0 ? std::string("the start") : cat("snapshot ", root_.head), " and ",
                       records_.size(), " journalled steps."));
}

/// What a crash left behind. Failing to delete it harms nothing: it is tried again next time.
void Store::remove_leftovers(const Listing& listing) {
  for (const auto& name : listing.leftovers) (void)files_->remove(path_ + "/" + name);
  const auto remove = [&](FileKind kind, const std::vector<std::uint64_t>& numbers) {
    for (auto it = std::lower_bound(numbers.begin(), numbers.end(), root_.next); it != numbers.end(); ++it)
      (void)files_->remove(file_path(kind, *it));
  };
  remove(FileKind::snapshot, listing.snapshots);
  remove(FileKind::journal, listing.journals);
  remove(FileKind::segment, listing.segments);
}

}  // namespace graft::checkpoint
