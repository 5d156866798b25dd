// What graft.hpp says of the folder that a run is kept in. Included by graft.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "graft/base.hpp"

namespace graft {
inline namespace v0 {

/// As graft_snapshot, on its own feet.
struct Snapshot {
  std::uint64_t number = 0;
  std::uint64_t step = 0;
  double loss = 0;
  std::int64_t made_ms = 0;
  std::uint64_t bytes = 0;         ///< of the state, decoded
  std::uint64_t stored_bytes = 0;  ///< of all that it needs, however many snapshots share it
  std::uint64_t own_bytes = 0;     ///< of what no other snapshot needs
  std::vector<std::string> tags = {};
  bool is_head = false;  ///< training goes on from here
};

/// How one stream of two snapshots differs.
struct StreamDifference {
  std::string name;
  std::uint32_t worker = 0;
  graft_difference difference = GRAFT_SAME;
  std::uint64_t bytes_in_first = 0;
  std::uint64_t bytes_in_second = 0;
  std::uint64_t changed_bytes = 0;
};

/// The snapshots of a run; see graft/snapshots.h. Snapshots are named by number or tag, the one that training goes on
/// from by "".
class Store {
 public:
  /// All of them, the oldest first.
  std::vector<Snapshot> snapshots() {
    std::vector<Snapshot> all;
    for (std::size_t i = 0; i < graft_store_count(handle_.get()); ++i) {
      auto raw = detail::sized<graft_snapshot>();
      if (graft_store_snapshot(handle_.get(), i, &raw) == GRAFT_OK) all.push_back(from(raw));
    }
    return all;
  }
  /// One by its number or tag; "": that which training goes on from.
  Result<Snapshot> find(const std::string& name = {}) {
    auto raw = detail::sized<graft_snapshot>();
    Status found = status(graft_store_find(handle_.get(), name.c_str(), &raw));
    if (!found.ok()) return found;
    return from(raw);
  }
  /// What the run said of itself when the snapshot was made.
  Result<std::string> metadata(const std::string& name, const std::string& key) {
    const char* value = "";
    Status found = status(graft_store_metadata(handle_.get(), name.c_str(), key.c_str(), &value));
    if (!found.ok()) return found;
    return std::string(value);
  }
  /// What is there beside snapshots.
  Result<graft_store_info> describe() {
    auto raw = detail::sized<graft_store_info>();
    Status done = status(graft_store_describe(handle_.get(), &raw));
    if (!done.ok()) return done;
    return raw;
  }
  /// What a worker said of itself at a snapshot's step; an error beyond the last. The host's name is valid until the
  /// next call of this.
  Result<graft_worker_report> worker(const std::string& name, std::size_t worker) {
    auto raw = detail::sized<graft_worker_report>();
    Status done = status(graft_store_worker(handle_.get(), name.c_str(), worker, &raw));
    if (!done.ok()) return done;
    return raw;
  }
  /// The first parameter that is not finite; empty where all are.
  Result<std::string> find_non_finite(const std::string& name) {
    const char* parameter = "";
    Status done = status(graft_store_find_non_finite(handle_.get(), name.c_str(), &parameter));
    if (!done.ok()) return done;
    return std::string(parameter);
  }
  /// Decodes and compares everything; the chunks that there are.
  Result<std::uint64_t> verify() {
    std::uint64_t chunks = 0;
    Status sound = status(graft_store_verify(handle_.get(), &chunks, nullptr));
    if (!sound.ok()) return sound;
    return chunks;
  }
  /// Compares two, stream by stream.
  Result<std::vector<StreamDifference>> diff(const std::string& first, const std::string& second) {
    const graft_stream_difference* streams = nullptr;
    std::size_t count = 0;
    Status done = status(graft_store_diff(handle_.get(), first.c_str(), second.c_str(), &streams, &count));
    if (!done.ok()) return done;
    std::vector<StreamDifference> all;
    for (std::size_t i = 0; i < count; ++i) {
      const graft_stream_difference& s = streams[i];
      all.push_back({s.name, s.worker, s.difference, s.bytes_in_first, s.bytes_in_second, s.changed_bytes});
    }
    return all;
  }
  /// Gives it a name, by which it is found and for which it is not pruned.
  Status tag(const std::string& name, const std::string& tag) {
    return status(graft_store_tag(handle_.get(), name.c_str(), tag.c_str()));
  }
  /// Takes the name away.
  Status untag(const std::string& name, const std::string& tag) {
    return status(graft_store_untag(handle_.get(), name.c_str(), tag.c_str()));
  }
  /// Deletes all but the newest `keep`, those with a tag and the head; how many went.
  Result<std::size_t> prune(std::size_t keep) {
    std::size_t removed = 0;
    Status done = status(graft_store_prune(handle_.get(), keep, &removed, nullptr));
    if (!done.ok()) return done;
    return removed;
  }
  /// A resume goes on from this snapshot; later ones stay.
  Status branch(const std::string& name) { return status(graft_store_branch(handle_.get(), name.c_str())); }

 private:
  friend class Context;
  friend class Model;
  Store(graft_store* handle, graft_context* context) : handle_(handle), context_(context) {}
  Status status(graft_status code) const { return detail::to_status(code, context_); }
  static Snapshot from(const graft_snapshot& raw) {
    Snapshot out{raw.number, raw.step, raw.loss, raw.made_ms, raw.bytes, raw.stored_bytes, raw.own_bytes};
    out.is_head = raw.is_head != 0;
    const std::string tags = raw.tags;
    for (std::size_t at = 0; at < tags.size();) {
      const std::size_t end = std::min(tags.find('\n', at), tags.size());
      out.tags.push_back(tags.substr(at, end - at));
      at = end + 1;
    }
    return out;
  }
  detail::Handle<graft_store, graft_store_destroy> handle_;
  graft_context* context_;
};

}  // namespace v0
}  // namespace graft
