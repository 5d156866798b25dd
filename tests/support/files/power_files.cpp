#include "tests/support/files/power_files.h"

#include <algorithm>
#include <cstring>

namespace graft::test {
namespace {

constexpr std::size_t kSector = 512;
using Kind = PowerFiles::Operation::Kind;

void apply_write(PowerFiles::Bytes& file, std::uint64_t offset, std::span<const std::byte> bytes) {
  if (file.size() < offset + bytes.size()) file.resize(offset + bytes.size());
  std::copy(bytes.begin(), bytes.end(), file.begin() + static_cast<std::ptrdiff_t>(offset));
}

class Lock final : public os::FileLock {
 public:
  explicit Lock(bool& held) : held_(held) { held_ = true; }
  ~Lock() override { held_ = false; }

 private:
  bool& held_;
};

}  // namespace

class PowerFile final : public os::File {
 public:
  PowerFile(PowerFiles& files, std::size_t number, std::string path)
      : files_(files), number_(number), path_(std::move(path)) {}

  Result<std::uint64_t> size() const override { return std::uint64_t{bytes().size()}; }
  Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    if (offset >= bytes().size()) return std::size_t{0};
    const std::size_t count = std::min<std::size_t>(out.size(), bytes().size() - offset);
    std::copy_n(bytes().begin() + static_cast<std::ptrdiff_t>(offset), count, out.begin());
    return count;
  }
  Status write_at(std::uint64_t offset, std::span<const std::byte> in) override {
    files_.log_.push_back({Kind::write, number_, path_, {}, offset, {in.begin(), in.end()}});
    apply_write(bytes(), offset, in);
    return ok_status();
  }
  Status append(std::span<const std::byte> in) override { return write_at(bytes().size(), in); }
  Status truncate(std::uint64_t size) override {
    files_.log_.push_back({Kind::resize, number_, path_, {}, size});
    bytes().resize(size);
    return ok_status();
  }
  Status sync() override {
    files_.log_.push_back({Kind::sync, number_, path_});
    return ok_status();
  }

 private:
  PowerFiles::Bytes& bytes() { return files_.state_.files[number_]; }
  const PowerFiles::Bytes& bytes() const { return files_.state_.files[number_]; }
  PowerFiles& files_;
  std::size_t number_;
  std::string path_;
};

PowerFiles::PowerFiles() : folders_{"."} {}

PowerFiles::PowerFiles(const Image& image) : PowerFiles() {
  for (const auto& [path, bytes] : image) {
    state_.names[path] = state_.files.size();
    state_.files.push_back(bytes);
    folders_.push_back(os::parent_directory(path));
  }
  start_ = state_;
}

PowerFiles::Image PowerFiles::contents() const {
  Image image;
  for (const auto& [path, number] : state_.names) image[path] = state_.files[number];
  return image;
}

PowerFiles::Image PowerFiles::after_cut(std::size_t count, Fate fate, std::mt19937& random) const {
  // When each file's bytes and the names were last synced before the cut: what was done before that is durable.
  std::map<std::size_t, std::size_t> synced;
  std::size_t names_synced = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (log_[i].kind == Kind::sync && !ignore_data_syncs) synced[log_[i].file] = i;
    if (log_[i].kind == Kind::sync_names && !ignore_name_syncs) names_synced = i;
  }
  const auto survives = [&](bool data) {
    switch (fate) {
      case Fate::none: return false;
      case Fate::all: return true;
      case Fate::data_only: return data;
      case Fate::names_only: return !data;
      case Fate::random: return (random() & 1) != 0;
    }
    return false;
  };
  State state = start_;
  state.files.resize(state_.files.size());
  for (std::size_t i = 0; i < count; ++i) {
    const Operation& op = log_[i];
    const bool data_safe = synced.count(op.file) != 0 && i < synced[op.file];
    const bool name_safe = i < names_synced;
    switch (op.kind) {
      case Kind::write:
        for (std::size_t at = 0; at < op.bytes.size();) {
          const std::size_t part = std::min(kSector - (op.offset + at) % kSector, op.bytes.size() - at);
          if (data_safe || survives(true)) {
            apply_write(state.files[op.file], op.offset + at, std::span(op.bytes).subspan(at, part));
          }
          at += part;
        }
        break;
      case Kind::resize:
        if (data_safe || survives(true)) state.files[op.file].resize(op.offset);
        break;
      case Kind::name:
        if (name_safe || survives(false)) state.names[op.path] = op.file;
        break;
      case Kind::rename:
        if (name_safe || survives(false)) {
          state.names.erase(op.path);
          state.names[op.to] = op.file;
        }
        break;
      case Kind::unname:
        if (name_safe || survives(false)) state.names.erase(op.path);
        break;
      case Kind::sync:
      case Kind::sync_names: break;
    }
  }
  Image image;
  for (const auto& [path, number] : state.names) image[path] = state.files[number];
  return image;
}

Result<std::unique_ptr<os::File>> PowerFiles::open(const std::string& path, os::OpenMode mode) {
  const auto found = state_.names.find(path);
  const bool there = found != state_.names.end();
  const bool makes = mode == os::OpenMode::create || mode == os::OpenMode::create_new || mode == os::OpenMode::append;
  if (!there && !makes) return error(Code::not_found, "\"", path, "\" is not there.");
  if (there && mode == os::OpenMode::create_new) return error(Code::io_error, "\"", path, "\" exists.");
  if (!there) {
    log_.push_back({Kind::name, state_.files.size(), path});
    state_.names[path] = state_.files.size();
    state_.files.emplace_back();
  }
  auto file = std::make_unique<PowerFile>(*this, state_.names[path], path);
  if (there && mode == os::OpenMode::create) GRAFT_TRY(file->truncate(0));
  return std::unique_ptr<os::File>(std::move(file));
}

Result<std::unique_ptr<os::MappedFile>> PowerFiles::map(const std::string& path) {
  return unsupported("\"", path, "\": files in memory are not mapped.");
}

Result<os::FileInfo> PowerFiles::info(const std::string& path) {
  if (std::count(folders_.begin(), folders_.end(), path) != 0) return os::FileInfo{0, os::EntryType::directory};
  const auto found = state_.names.find(path);
  if (found == state_.names.end()) return error(Code::not_found, "\"", path, "\" is not there.");
  return os::FileInfo{state_.files[found->second].size(), os::EntryType::file};
}

Result<std::vector<os::DirectoryEntry>> PowerFiles::list(const std::string& path) {
  std::vector<os::DirectoryEntry> entries;
  for (const auto& [name, number] : state_.names) {
    if (os::parent_directory(name) == path) entries.push_back({name.substr(path.size() + 1), os::EntryType::file});
  }
  return entries;
}

Status PowerFiles::make_directory(const std::string& path) {
  folders_.push_back(path);
  return ok_status();
}

Status PowerFiles::rename(const std::string& from, const std::string& to) {
  const auto found = state_.names.find(from);
  if (found == state_.names.end()) return error(Code::not_found, "\"", from, "\" is not there.");
  log_.push_back({Kind::rename, found->second, from, to});
  state_.names[to] = found->second;
  state_.names.erase(from);
  return ok_status();
}

Status PowerFiles::remove(const std::string& path) {
  if (state_.names.count(path) == 0) return error(Code::not_found, "\"", path, "\" is not there.");
  log_.push_back({Kind::unname, state_.names[path], path});
  state_.names.erase(path);
  return ok_status();
}

Status PowerFiles::sync_directory(const std::string&) {
  log_.push_back({Kind::sync_names});
  return ok_status();
}

Result<std::unique_ptr<os::FileLock>> PowerFiles::lock(const std::string& path) {
  if (state_.locks[path]) return error(Code::io_error, "\"", path, "\" is locked.");
  return std::unique_ptr<os::FileLock>(std::make_unique<Lock>(state_.locks[path]));
}

Result<std::uint64_t> PowerFiles::free_bytes(const std::string&) { return ~std::uint64_t{0}; }

}  // namespace graft::test
