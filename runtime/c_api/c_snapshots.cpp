// graft/snapshots.h: the folder that a run is kept in.
#include "graft/snapshots.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/c_api/c_cipher.h"
#include "runtime/c_api/c_handles.h"
#include "runtime/c_api/c_trainer.h"
#include "runtime/run_state/run_state.h"
#include "runtime/run_state/step_record.h"
#include "runtime/run_state/store_use.h"

using namespace graft;
using namespace graft::c_api;

struct graft_store {
  Ref<graft_context> context;
  std::unique_ptr<checkpoint::Cipher> cipher = nullptr;  // before the store, which uses it
  std::optional<checkpoint::Store> store = {};
  std::vector<std::pair<std::uint64_t, checkpoint::SnapshotSize>> sizes = {};  // empty: not asked for since a change
  std::string text = {};                                                       // of the last call
  std::vector<train::WorkerSection> workers = {};                              // of workers_of
  std::optional<std::uint64_t> workers_of = {};                                // a snapshot
  checkpoint::SnapshotDiff diff = {};
  std::vector<graft_stream_difference> streams = {};
  Users users = {};
};

namespace {

Result<std::uint64_t> number_of(const graft_store& store, const char* name) {
  return find_snapshot(*store.store, name == nullptr ? "" : name);
}

/// By number. Found together, which for one takes as long as for all.
const auto& sizes_of(graft_store& store) {
  if (store.sizes.empty()) {
    const auto sizes = store.store->sizes();
    store.sizes.assign(sizes.begin(), sizes.end());
  }
  return store.sizes;
}

Status tell(graft_store& store, std::uint64_t number, graft_snapshot* snapshot) {
  const checkpoint::Manifest& manifest = store.store->snapshots().at(number);
  const auto& sizes = sizes_of(store);
  const checkpoint::SnapshotSize size =
      std::ranges::lower_bound(sizes, number, {}, [](const auto& one) { return one.first; })->second;
  store.text.clear();
  for (const std::string& tag : manifest.meta.tags) store.text += (store.text.empty() ? "" : "\n") + tag;
  graft_snapshot out{};
  out.number = number;
  out.step = manifest.meta.step;
  out.loss = manifest.meta.loss;
  out.made_ms = manifest.meta.wall_clock_ms;
  out.bytes = size.raw_bytes;
  out.stored_bytes = size.stored_bytes;
  out.own_bytes = size.own_bytes;
  out.tags = store.text.c_str();
  out.is_head = number == store.store->head() ? 1 : 0;
  return write_info(out, snapshot, "graft_snapshot");
}

Status tell(graft_store& store, std::size_t worker, graft_worker_report* report) {
  if (worker >= store.workers.size()) {
    return error(Code::not_found, "There are ", store.workers.size(), " workers; number ", worker, " is not one.");
  }
  return write_info(report_of(store.workers[worker]), report, "graft_worker_report");
}

graft_difference difference_of(checkpoint::Difference difference) {
  switch (difference) {
    case checkpoint::Difference::same: return GRAFT_SAME;
    case checkpoint::Difference::changed: return GRAFT_CHANGED;
    case checkpoint::Difference::only_in_a: return GRAFT_ONLY_IN_FIRST;
    case checkpoint::Difference::only_in_b: return GRAFT_ONLY_IN_SECOND;
  }
  return GRAFT_SAME;
}

/// As guarded(), of a store that is there.
template <typename Body>
graft_status on_store(graft_store* store, Body&& body) {
  if (store == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(store->context, std::forward<Body>(body));
}

}  // namespace

graft_status graft_store_open(graft_context* context, const char* folder, const graft_store_options* options,
                              graft_store** store) {
  return guarded(context, [&]() -> Status {
    if (folder == nullptr || store == nullptr)
      return invalid("A store is opened from a folder to a place; one is NULL.");
    *store = nullptr;
    GRAFT_TRY_ASSIGN(const graft_store_options given, read_options(options, "graft_store_options"));
    auto made = std::make_unique<graft_store>();
    made->context = context;
    GRAFT_TRY_ASSIGN(made->cipher, read_cipher(given.cipher));
    checkpoint::StoreOptions wanted;
    wanted.mode = given.writable != 0 ? checkpoint::StoreMode::read_write : checkpoint::StoreMode::read_only;
    wanted.cipher = made->cipher.get();
    GRAFT_TRY_ASSIGN(made->store, checkpoint::Store::open(*context->files, folder, wanted));
    *store = made.release();
    return ok_status();
  });
}

void graft_store_destroy(graft_store* store) {
  if (store != nullptr) destroy<graft_context>(store->context, store);
}

size_t graft_store_count(const graft_store* store) { return store == nullptr ? 0 : store->store->snapshots().size(); }

graft_status graft_store_snapshot(graft_store* store, size_t index, graft_snapshot* snapshot) {
  return on_store(store, [&]() -> Status {
    const auto& all = sizes_of(*store);
    if (index >= all.size()) {
      return error(Code::not_found, "There are ", all.size(), " snapshots; number ", index, " is not one.");
    }
    return tell(*store, all[index].first, snapshot);
  });
}

graft_status graft_store_find(graft_store* store, const char* name, graft_snapshot* snapshot) {
  return on_store(store, [&]() -> Status {
    GRAFT_TRY_ASSIGN(const std::uint64_t number, number_of(*store, name));
    return tell(*store, number, snapshot);
  });
}

graft_status graft_store_metadata(graft_store* store, const char* name, const char* key, const char** value) {
  return on_store(store, [&]() -> Status {
    if (key == nullptr) return invalid("The key of the metadata is NULL.");
    GRAFT_TRY_ASSIGN(const std::uint64_t number, number_of(*store, name));
    const auto& metadata = *store->store->snapshots().at(number).meta.metadata;
    const auto found = metadata.find(cat(kUserPrefix, key));
    if (found == metadata.end()) return error(Code::not_found, "Snapshot ", number, " has no metadata \"", key, "\".");
    if (value != nullptr) *value = found->second.c_str();
    return ok_status();
  });
}

graft_status graft_store_metadata_at(graft_store* store, const char* name, size_t index, const char** key,
                                     const char** value) {
  return on_store(store, [&]() -> Status {
    GRAFT_TRY_ASSIGN(const std::uint64_t number, number_of(*store, name));
    const auto& metadata = *store->store->snapshots().at(number).meta.metadata;
    if (index >= metadata.size()) {
      return error(Code::not_found, "Snapshot ", number, " has ", metadata.size(), " keys; number ", index,
                   " is not one.");
    }
    const auto entry = std::next(metadata.begin(), static_cast<std::ptrdiff_t>(index));
    if (key != nullptr) *key = entry->first.c_str();
    if (value != nullptr) *value = entry->second.c_str();
    return ok_status();
  });
}

graft_status graft_store_describe(graft_store* store, graft_store_info* info) {
  return on_store(store, [&]() -> Status {
    graft_store_info out{};
    out.journalled_steps = store->store->journal().size();
    out.damaged = store->store->damaged().size();
    return write_info(out, info, "graft_store_info");
  });
}

graft_status graft_store_damaged(graft_store* store, size_t index, uint64_t* number, const char** why) {
  return on_store(store, [&]() -> Status {
    const auto& damaged = store->store->damaged();
    if (index >= damaged.size()) {
      return error(Code::not_found, "There are ", damaged.size(), " damaged snapshots; number ", index, " is not one.");
    }
    const auto found = std::next(damaged.begin(), static_cast<std::ptrdiff_t>(index));
    if (number != nullptr) *number = found->first;
    if (why != nullptr) *why = found->second.c_str();
    return ok_status();
  });
}

graft_status graft_store_worker(graft_store* store, const char* name, size_t worker, graft_worker_report* report) {
  return on_store(store, [&]() -> Status {
    GRAFT_TRY_ASSIGN(const std::uint64_t number, number_of(*store, name));
    if (worker == 0 || store->workers_of != number) {
      GRAFT_TRY_ASSIGN(store->workers, sections_of(*store->store, number));
      store->workers_of = number;
    }
    return tell(*store, worker, report);
  });
}

graft_status graft_store_journalled_worker(graft_store* store, size_t worker, graft_worker_report* report) {
  return on_store(store, [&]() -> Status {
    GRAFT_TRY_ASSIGN(store->workers, journalled_sections(*store->store));
    store->workers_of.reset();
    return tell(*store, worker, report);
  });
}

graft_status graft_store_find_non_finite(graft_store* store, const char* name, const char** parameter) {
  return on_store(store, [&]() -> Status {
    GRAFT_TRY_ASSIGN(const std::uint64_t number, number_of(*store, name));
    GRAFT_TRY_ASSIGN(store->text, find_non_finite(*store->store, number));
    if (parameter != nullptr) *parameter = store->text.c_str();
    return ok_status();
  });
}

graft_status graft_store_hash(graft_store* store, const char* name, const char** hash) {
  return on_store(store, [&]() -> Status {
    GRAFT_TRY_ASSIGN(const std::uint64_t number, number_of(*store, name));
    store->text = state_hash_of(store->store->snapshots().at(number));
    if (hash != nullptr) *hash = store->text.c_str();
    return ok_status();
  });
}

graft_status graft_store_verify(graft_store* store, uint64_t* chunks, const char** problems) {
  return on_store(store, [&]() -> Status {
    GRAFT_TRY_ASSIGN(const auto report, store->store->verify());
    store->text.clear();
    for (const std::string& problem : report.problems) store->text += (store->text.empty() ? "" : "\n") + problem;
    if (chunks != nullptr) *chunks = report.chunks;
    if (problems != nullptr) *problems = store->text.c_str();
    if (report.problems.empty()) return ok_status();
    return corrupt("The store has ", report.problems.size(), " problems; the first: ", report.problems.front());
  });
}

graft_status graft_store_diff(graft_store* store, const char* first, const char* second,
                              const graft_stream_difference** streams, size_t* count) {
  return on_store(store, [&]() -> Status {
    GRAFT_TRY_ASSIGN(const std::uint64_t a, number_of(*store, first));
    GRAFT_TRY_ASSIGN(const std::uint64_t b, number_of(*store, second));
    GRAFT_TRY_ASSIGN(store->diff, store->store->diff(a, b));
    store->streams.clear();
    for (const checkpoint::StreamDiff& stream : store->diff.streams) {
      store->streams.push_back({stream.name.c_str(), stream.worker, difference_of(stream.difference), stream.bytes_a,
                                stream.bytes_b, stream.changed_bytes});
    }
    if (streams != nullptr) *streams = store->streams.data();
    if (count != nullptr) *count = store->streams.size();
    return ok_status();
  });
}

graft_status graft_store_diff_info(graft_store* store, graft_diff_info* info) {
  return on_store(store, [&]() -> Status {
    store->text.clear();
    for (const std::string& key : store->diff.metadata) store->text += (store->text.empty() ? "" : "\n") + key;
    graft_diff_info out{};
    out.metadata = store->text.c_str();
    out.stored_bytes = store->diff.stored_bytes;
    return write_info(out, info, "graft_diff_info");
  });
}

graft_status graft_store_restore(graft_store* store, const char* name, graft_model* model, size_t* tensors) {
  return on_store(store, [&]() -> Status {
    if (model == nullptr) return invalid("graft_store_restore needs the model that was trained.");
    GRAFT_TRY_ASSIGN(const std::uint64_t number, number_of(*store, name));
    GRAFT_TRY(check_unused(*model, "a snapshot can be restored to it"));
    GRAFT_TRY_ASSIGN(const std::size_t restored, restore_to_model(*store->store, number, model->model));
    if (tensors != nullptr) *tensors = restored;
    return ok_status();
  });
}

graft_status graft_store_tag(graft_store* store, const char* name, const char* tag) {
  return on_store(store, [&]() -> Status {
    if (tag == nullptr) return invalid("The tag is NULL.");
    GRAFT_TRY_ASSIGN(const std::uint64_t number, number_of(*store, name));
    return store->store->tag(number, tag);
  });
}

graft_status graft_store_untag(graft_store* store, const char* name, const char* tag) {
  return on_store(store, [&]() -> Status {
    if (tag == nullptr) return invalid("The tag is NULL.");
    GRAFT_TRY_ASSIGN(const std::uint64_t number, number_of(*store, name));
    return store->store->untag(number, tag);
  });
}

graft_status graft_store_prune(graft_store* store, size_t keep, size_t* removed, uint64_t* freed_bytes) {
  return on_store(store, [&]() -> Status {
    store->sizes.clear();
    GRAFT_TRY_ASSIGN(const PrunedStore pruned, prune_store(*store->store, keep));
    if (removed != nullptr) *removed = pruned.removed.size();
    if (freed_bytes != nullptr) *freed_bytes = pruned.freed_bytes;
    return ok_status();
  });
}

graft_status graft_store_branch(graft_store* store, const char* name) {
  return on_store(store, [&]() -> Status {
    GRAFT_TRY_ASSIGN(const std::uint64_t number, number_of(*store, name));
    return store->store->set_head(number);
  });
}
