// Preloaded (LD_PRELOAD) into graft: the system call that the environment names fails, or the process dies at it. Only
// calls on files below the working folder, or named without a leading '/', count.
//
// GRAFT_TEST_FAIL=CALL:K:HOW   the K-th call of that name (open, pwrite, pread, fsync, ftruncate, rename, remove,
// mkdir,
//                              mmap, opendir, flock, or any) from 1 on. HOW: an errno's number; with '+' behind it
//                              every later call of that name fails as well, as on a disk that stays full; "kill":
//                              SIGKILL before the call; "half": pwrite writes half and the next one finds the disk full
// GRAFT_TEST_CALLS=FILE        at the end: a line with the name and number of calls for each, and for any
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr const char* kCalls[] = {"open",   "pwrite", "pread", "fsync",   "ftruncate", "rename",
                                  "remove", "mkdir",  "mmap",  "opendir", "flock",     "any"};
enum Call {
  kOpen,
  kPwrite,
  kPread,
  kFsync,
  kFtruncate,
  kRename,
  kRemove,
  kMkdir,
  kMmap,
  kOpendir,
  kFlock,
  kAny,
  kCount
};

struct State {
  std::atomic<unsigned long> calls[kCount]{};
  Call fails = kCount;
  unsigned long from = 0;
  int error = 0;
  bool on = false, kill = false, half = false;
  char folder[PATH_MAX] = {};

  State() {
    if (getcwd(folder, sizeof folder) == nullptr) folder[0] = 0;
    const char* text = std::getenv("GRAFT_TEST_FAIL");
    char name[16] = {}, how[16] = {};
    if (text == nullptr || std::sscanf(text, "%15[a-z]:%lu:%15s", name, &from, how) != 3) return;
    for (int call = 0; call < kCount; ++call) {
      if (std::strcmp(name, kCalls[call]) == 0) fails = static_cast<Call>(call);
    }
    kill = std::strcmp(how, "kill") == 0;
    half = std::strcmp(how, "half") == 0;
    on = half || std::strchr(how, '+') != nullptr;
    error = half ? ENOSPC : std::atoi(how);
  }
  ~State() {
    const char* path = std::getenv("GRAFT_TEST_CALLS");
    std::FILE* file = path == nullptr ? nullptr : std::fopen(path, "w");
    if (file == nullptr) return;
    for (int call = 0; call < kCount; ++call) std::fprintf(file, "%s %lu\n", kCalls[call], calls[call].load());
    std::fclose(file);
  }
};

State& state() {
  static State made;
  return made;
}

bool below_folder(const char* path) {
  const char* folder = state().folder;
  return path[0] != '/' || (folder[0] != 0 && std::strncmp(path, folder, std::strlen(folder)) == 0);
}

bool below_folder(int descriptor) {
  char link[64], path[PATH_MAX];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const ssize_t size = readlink(link, path, sizeof path - 1);
  if (size < 0) return false;
  path[size] = 0;
  return path[0] == '/' && below_folder(path);
}

/// Counts a call; true where it is to fail. `first` tells whether it is the first that does.
template <class Where>
bool fails(Call call, const Where& where, bool* first = nullptr) {
  State& s = state();
  if (!below_folder(where)) return false;
  const unsigned long any = ++s.calls[kAny], own = ++s.calls[call];
  const unsigned long count = s.fails == kAny ? any : own;
  if ((s.fails != call && s.fails != kAny) || count < s.from || (count > s.from && !s.on)) return false;
  if (s.kill) raise(SIGKILL);
  if (first != nullptr) *first = count == s.from;
  errno = s.error;
  return true;
}

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  static const auto real = next<int (*)(const char*, int, ...)>("open");
  va_list rest;
  va_start(rest, flags);
  const int mode = (flags & O_CREAT) != 0 ? va_arg(rest, int) : 0;
  va_end(rest);
  return fails(kOpen, path) ? -1 : real(path, flags, mode);
}

ssize_t pwrite(int descriptor, const void* bytes, size_t size, off_t offset) {
  static const auto real = next<ssize_t (*)(int, const void*, size_t, off_t)>("pwrite");
  bool first = false;
  if (!fails(kPwrite, descriptor, &first)) return real(descriptor, bytes, size, offset);
  if (first && state().half && size > 1) return real(descriptor, bytes, size / 2, offset);
  return -1;
}

ssize_t pread(int descriptor, void* bytes, size_t size, off_t offset) {
  static const auto real = next<ssize_t (*)(int, void*, size_t, off_t)>("pread");
  return fails(kPread, descriptor) ? -1 : real(descriptor, bytes, size, offset);
}

int fsync(int descriptor) {
  static const auto real = next<int (*)(int)>("fsync");
  return fails(kFsync, descriptor) ? -1 : real(descriptor);
}

int ftruncate(int descriptor, off_t size) {
  static const auto real = next<int (*)(int, off_t)>("ftruncate");
  return fails(kFtruncate, descriptor) ? -1 : real(descriptor, size);
}

int rename(const char* from, const char* to) {
  static const auto real = next<int (*)(const char*, const char*)>("rename");
  return fails(kRename, from) ? -1 : real(from, to);
}

int remove(const char* path) {
  static const auto real = next<int (*)(const char*)>("remove");
  return fails(kRemove, path) ? -1 : real(path);
}

int mkdir(const char* path, mode_t mode) {
  static const auto real = next<int (*)(const char*, mode_t)>("mkdir");
  return fails(kMkdir, path) ? -1 : real(path, mode);
}

void* mmap(void* address, size_t size, int protection, int flags, int descriptor, off_t offset) {
  static const auto real = next<void* (*)(void*, size_t, int, int, int, off_t)>("mmap");
  if (descriptor >= 0 && fails(kMmap, descriptor)) return MAP_FAILED;
  return real(address, size, protection, flags, descriptor, offset);
}

DIR* opendir(const char* path) {
  static const auto real = next<DIR* (*)(const char*)>("opendir");
  return fails(kOpendir, path) ? nullptr : real(path);
}

int flock(int descriptor, int operation) {
  static const auto real = next<int (*)(int, int)>("flock");
  return fails(kFlock, descriptor) ? -1 : real(descriptor, operation);
}
}
