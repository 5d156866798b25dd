// A memory of examples: samples that an app adds one by one over years, in an encrypted file of bounded size.
//
// What is in it, and what training reads of it, follows from the records and the seed alone: not from the order in
// which threads run, the clock or the file's layout.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "platform/os/file.h"
#include "runtime/personal/memory_file.h"

namespace graft::personal {

struct MemoryOptions {
  Settings settings;  ///< for a new file; of one that is there only fields are compared, if there are any
  std::shared_ptr<checkpoint::Cipher> cipher = nullptr;
  bool read_only = false;
  os::FileSystem* files = &os::system_files();
};

/// Records that one purpose may use.
enum class Part : std::uint8_t { training, held_out, exported };

struct Added {
  std::string id;
  bool stored = false;  ///< false: it was evicted itself, or an equal record is there already (is_known)
  bool is_known = false;
  std::vector<std::string> evicted = {};
};

/// The key of a record's place in an order by keys.
std::uint64_t key_of(const std::string& id);

/// Threads: one call at a time, but for sources, which read by themselves.
class ExampleMemory {
 public:
  /// Opens the file, or makes it if it is missing and settings name fields. One process at a time writes to it.
  static Result<std::unique_ptr<ExampleMemory>> open(const std::string& path, const MemoryOptions& options);
  ExampleMemory(const ExampleMemory&) = delete;
  ExampleMemory& operator=(const ExampleMemory&) = delete;

  /// A sample: a pointer for each field. An empty id becomes a hash of the contents; record.label and record.number
  /// are found out. On storage when it returns. invalid_argument where the id has other contents.
  Result<Added> add(Record record, std::span<const std::byte* const> sample);
  /// All samples of a set with these fields, as `like` except for ids: `prefix` and the sample's number, or a hash
  /// where it is empty. Each is stored as by add().
  Result<std::vector<Added>> add_all(data::Source& source, const Record& like, const std::string& prefix);
  Status set_loss(const std::string& id, double loss);
  /// Erases records, and their bytes from the file. not_found names the first that is missing, and none is erased.
  Status remove(std::span<const std::string> ids);
  /// Erases those whose time is over at `now_ms`; gives their ids.
  Result<std::vector<std::string>> expire(std::int64_t now_ms);

  const Settings& settings() const { return file_.settings(); }
  std::size_t size() const { return entries_.size(); }
  /// By id.
  std::vector<const Record*> records() const;
  /// The record of this index in records(), or null. Fast if asked for one after another.
  const Record* at(std::size_t index) const;
  /// not_found.
  Result<const Record*> find(const std::string& id) const;
  /// The fields one after another.
  Status read(const std::string& id, std::vector<std::byte>& sample) const;
  /// Whether a record of this id is never trained on: by a hash of the seed and the id.
  bool is_held_out(const std::string& id) const;
  /// The records of this part, by id, as they are now; without those whose time is over. not_found where there is none.
  Result<std::unique_ptr<data::Source>> source(Part part, std::int64_t now_ms) const;
  /// Ids of what source() gives, in its order.
  std::vector<std::string> ids_of(Part part, std::int64_t now_ms) const;

  std::uint64_t file_bytes() const { return file_.size(); }
  std::uint64_t record_bytes() const { return live_bytes_; }
  std::uint64_t torn_bytes() const { return file_.torn_bytes(); }

 private:
  struct Entry {
    Record record;
    std::uint64_t offset = 0;                         ///< of its frame
    std::uint64_t bytes = 0;                          ///< of its frame
    const std::vector<std::byte>* pending = nullptr;  ///< its body, while it is not in the file
  };
  using Rank = std::tuple<double, std::uint64_t, std::string>;  ///< what goes first is smallest

  explicit ExampleMemory(MemoryFile file) : file_(std::move(file)) {}
  Rank rank_of(const Record& record) const;
  void insert(Entry entry);
  Entry take(const std::string& id);
  bool is_over() const;
  std::string victim() const;
  Result<Added> store(Record record, std::span<const std::byte> sample);
  Status rewrite();
  Status erase(std::span<const std::string> ids);
  Status check_writable() const;
  bool is_in(const Record& record, Part part, std::int64_t now_ms) const;

  MemoryFile file_;
  std::unique_ptr<os::FileLock> lock_;
  std::map<std::string, Entry> entries_;
  std::map<std::int64_t, std::set<Rank>> classes_;
  std::uint64_t live_bytes_ = 0;
  std::uint64_t next_number_ = 0;
  mutable std::vector<const Record*> listed_;  // for at(); empty: not made since a change
  bool read_only_ = false;
};

}  // namespace graft::personal
