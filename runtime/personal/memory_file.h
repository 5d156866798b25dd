// A memory file on storage: commits at its end, and a whole new file now and then. Knows nothing of policies.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "platform/os/file.h"
#include "runtime/personal/memory_format.h"

namespace graft::personal {

/// An open file that records are read from. It outlives its replacement: what was read from it then still is.
class MemoryReader {
 public:
  MemoryReader(std::string path, std::shared_ptr<os::File> file, std::shared_ptr<checkpoint::Cipher> cipher,
               std::uint64_t identity, std::uint64_t sample_bytes)
      : path_(std::move(path)),
        file_(std::move(file)),
        cipher_(std::move(cipher)),
        sealer_(cipher_.get(), identity),
        sample_bytes_(sample_bytes) {}

  /// The record whose frame begins at `offset`; `sample` gets its bytes. Any thread.
  Result<Record> read(std::uint64_t offset, std::span<std::byte> sample) const;

  const checkpoint::Sealer& sealer() const { return sealer_; }
  const std::string& path() const { return path_; }
  std::uint64_t sample_bytes() const { return sample_bytes_; }
  os::File& file() const { return *file_; }

 private:
  std::string path_;
  std::shared_ptr<os::File> file_;
  std::shared_ptr<checkpoint::Cipher> cipher_;
  checkpoint::Sealer sealer_;
  std::uint64_t sample_bytes_;
};

/// One change, as a commit holds it.
struct Change {
  FrameKind kind = FrameKind::put;
  std::vector<std::byte> body;
};

class MemoryFile {
 public:
  /// What a file holds, in its order: a frame of a whole commit, where it begins and how much of the file it takes.
  using Found =
      std::function<Status(FrameKind kind, std::span<const std::byte> body, std::uint64_t offset, std::uint64_t bytes)>;

  /// Makes an empty file; an error where there is one.
  static Status create(os::FileSystem& files, const std::string& path, checkpoint::Cipher* cipher,
                       const Settings& settings);
  /// Where `writable`, what a crash left of a commit is cut off.
  static Result<MemoryFile> open(os::FileSystem& files, const std::string& path,
                                 std::shared_ptr<checkpoint::Cipher> cipher, bool writable);
  Status scan(const Found& found);

  /// Bytes that append() of these changes would add.
  std::uint64_t bytes_of(std::span<const Change> changes) const;
  /// All of the changes or none, on storage when it returns; `offsets` gets where each begins. After an error only
  /// replace() writes.
  Status append(std::span<const Change> changes, std::vector<std::uint64_t>& offsets);
  /// A whole new file with `count` records. On failure the file is the old one or the new one, and only replace()
  /// writes from then on.
  Status replace(const std::function<Result<std::vector<std::byte>>(std::size_t index)>& body, std::size_t count,
                 std::vector<std::uint64_t>& offsets);

  const Settings& settings() const { return settings_; }
  const std::shared_ptr<const MemoryReader>& reader() const { return reader_; }
  std::uint64_t size() const { return size_; }
  std::uint64_t start_bytes() const { return start_bytes_; }
  /// Bytes after the last whole commit, when it was opened.
  std::uint64_t torn_bytes() const { return torn_; }
  /// An append() or a replace() failed: what the file holds is not known.
  bool is_broken() const { return broken_; }

 private:
  MemoryFile() = default;
  Result<bool> is_damaged(std::uint64_t offset) const;

  os::FileSystem* files_ = nullptr;
  std::string path_;
  std::shared_ptr<checkpoint::Cipher> cipher_;
  std::uint64_t identity_ = 0;
  Settings settings_;
  std::shared_ptr<const MemoryReader> reader_;
  std::uint64_t start_bytes_ = 0;
  std::uint64_t size_ = 0;  // up to the last whole commit
  std::uint64_t next_commit_ = 0;
  std::uint64_t torn_ = 0;
  bool writable_ = false;
  bool broken_ = false;
};

}  // namespace graft::personal
