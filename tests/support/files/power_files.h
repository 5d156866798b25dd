// A file system in memory that can be cut off from power: it records every change and every sync, and rebuilds what a
// storage device may legally hold if the power fails between any two of them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "platform/os/file.h"

namespace graft::test {

class PowerFiles final : public os::FileSystem {
 public:
  using Bytes = std::vector<std::byte>;
  using Image = std::map<std::string, Bytes>;  ///< path -> contents

  PowerFiles();
  explicit PowerFiles(const Image& image);  ///< starts with these files, all of them durable

  /// A device that lies: syncs of names or of bytes are forgotten. What relies on them must then fail.
  bool ignore_name_syncs = false;
  bool ignore_data_syncs = false;

  /// Changes and syncs so far.
  std::size_t operations() const { return log_.size(); }
  /// Forgets the history: what is there now counts as durable.
  Image contents() const;

  /// How the unsynced changes before the cut fared.
  enum class Fate { none, all, data_only, names_only, random };
  /// What storage holds after a cut following operation `count`. Writes tear at 512 bytes; names change one at a time;
  /// with Fate::random each sector and each change of a name survives or not, in any combination.
  Image after_cut(std::size_t count, Fate fate, std::mt19937& random) const;

  Result<std::unique_ptr<os::File>> open(const std::string& path, os::OpenMode mode) override;
  Result<std::unique_ptr<os::MappedFile>> map(const std::string& path) override;
  Result<os::FileInfo> info(const std::string& path) override;
  Result<std::vector<os::DirectoryEntry>> list(const std::string& path) override;
  Status make_directory(const std::string& path) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status remove(const std::string& path) override;
  Status sync_directory(const std::string& path) override;
  Result<std::unique_ptr<os::FileLock>> lock(const std::string& path) override;
  Result<std::uint64_t> free_bytes(const std::string& path) override;

  struct Operation {
    enum class Kind { write, resize, sync, name, rename, unname, sync_names } kind;
    std::size_t file = 0;
    std::string path, to;
    std::uint64_t offset = 0;
    Bytes bytes;
  };
  struct State {
    std::vector<Bytes> files;                  ///< by number, as the process sees them
    std::map<std::string, std::size_t> names;  ///< path -> file
    std::map<std::string, bool> locks;
  };

 private:
  friend class PowerFile;
  State state_;
  State start_;
  std::vector<std::string> folders_;
  std::vector<Operation> log_;
};

}  // namespace graft::test
