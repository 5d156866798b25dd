#include "tests/support/files/fault_files.h"

#include <mutex>

namespace graft::test {
namespace {

std::mutex g_mutex;  // files are used from several threads

bool fails(FaultFiles::State& state) {
  ++state.calls;
  if (state.fail_call == 0) return false;
  return state.keep_failing ? state.calls >= state.fail_call : state.calls == state.fail_call;
}

Status count(FaultFiles::State& state, const char* call, const std::string& path) {
  const std::lock_guard lock(g_mutex);
  if (!fails(state)) return ok_status();
  if (state.failed.empty()) state.failed = call;
  return error(Code::io_error, "\"", path, "\": ", call, " was made to fail as call ", state.calls, ".");
}

class FaultFile final : public os::File {
 public:
  FaultFile(std::unique_ptr<os::File> base, FaultFiles::State& state, std::string path)
      : base_(std::move(base)), state_(state), path_(std::move(path)) {}

  Result<std::uint64_t> size() const override {
    GRAFT_TRY(count(state_, "size", path_));
    return base_->size();
  }
  Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> bytes) const override {
    GRAFT_TRY(count(state_, "read_at", path_));
    return base_->read_at(offset, bytes);
  }
  Status write_at(std::uint64_t offset, std::span<const std::byte> bytes) override {
    const Status status = count(state_, "write_at", path_);
    if (!status.ok() && state_.short_write) (void)base_->write_at(offset, bytes.first(bytes.size() / 2));
    return status.ok() ? base_->write_at(offset, bytes) : status;
  }
  Status append(std::span<const std::byte> bytes) override {
    const Status status = count(state_, "append", path_);
    if (!status.ok() && state_.short_write) (void)base_->append(bytes.first(bytes.size() / 2));
    return status.ok() ? base_->append(bytes) : status;
  }
  Status truncate(std::uint64_t bytes) override {
    GRAFT_TRY(count(state_, "truncate", path_));
    return base_->truncate(bytes);
  }
  Status sync() override {
    GRAFT_TRY(count(state_, "sync", path_));
    return state_.skip_sync ? ok_status() : base_->sync();
  }

 private:
  std::unique_ptr<os::File> base_;
  FaultFiles::State& state_;
  std::string path_;
};

}  // namespace

Result<std::unique_ptr<os::File>> FaultFiles::open(const std::string& path, os::OpenMode mode) {
  GRAFT_TRY(count(state, "open", path));
  GRAFT_TRY_ASSIGN(auto file, base_.open(path, mode));
  return std::unique_ptr<os::File>(std::make_unique<FaultFile>(std::move(file), state, path));
}
Result<std::unique_ptr<os::MappedFile>> FaultFiles::map(const std::string& path) {
  GRAFT_TRY(count(state, "map", path));
  return base_.map(path);
}
Result<os::FileInfo> FaultFiles::info(const std::string& path) {
  GRAFT_TRY(count(state, "info", path));
  return base_.info(path);
}
Result<std::vector<os::DirectoryEntry>> FaultFiles::list(const std::string& path) {
  GRAFT_TRY(count(state, "list", path));
  return base_.list(path);
}
Status FaultFiles::make_directory(const std::string& path) {
  GRAFT_TRY(count(state, "make_directory", path));
  return base_.make_directory(path);
}
Status FaultFiles::rename(const std::string& from, const std::string& to) {
  GRAFT_TRY(count(state, "rename", from));
  return base_.rename(from, to);
}
Status FaultFiles::remove(const std::string& path) {
  GRAFT_TRY(count(state, "remove", path));
  return base_.remove(path);
}
Status FaultFiles::sync_directory(const std::string& path) {
  GRAFT_TRY(count(state, "sync_directory", path));
  return state.skip_sync ? ok_status() : base_.sync_directory(path);
}
Result<std::unique_ptr<os::FileLock>> FaultFiles::lock(const std::string& path) {
  GRAFT_TRY(count(state, "lock", path));
  return base_.lock(path);
}
Result<std::uint64_t> FaultFiles::free_bytes(const std::string& path) {
  GRAFT_TRY(count(state, "free_bytes", path));
  return base_.free_bytes(path);
}

}  // namespace graft::test
