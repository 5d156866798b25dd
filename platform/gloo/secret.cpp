#include "platform/gloo/secret.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>

#include "platform/gloo/wire.h"

namespace graft::gloo_group {
namespace {

constexpr std::size_t kDigits = 64;
constexpr const char* kAdvice = " Give all workers the same GRAFT_SECRET instead.";

std::string home_folder() {
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') return home;
  const passwd* const user = getpwuid(geteuid());
  return user == nullptr || user->pw_dir == nullptr ? "" : user->pw_dir;
}

/// With both folders above the file, as far as they can be made.
std::string folder_of_secret() {
  const char* const given = std::getenv("XDG_CACHE_HOME");
  const std::string cache = given != nullptr && *given != '\0' ? given : home_folder() + "/.cache";
  mkdir(cache.c_str(), 0700);
  mkdir((cache + "/graft").c_str(), 0700);
  return cache + "/graft";
}

Status failed(const std::string& path) {
  return Status(
      Code::io_error,
      cat(failure(cat("The workers' secret \"", path, "\" cannot be made or read").c_str()).message(), kAdvice));
}

Result<std::string> random_digits() {
  std::array<unsigned char, kDigits / 2> bytes;
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return failure("There are no random numbers");
  }
  std::string digits;
  for (const unsigned char byte : bytes) {
    digits += "0123456789abcdef"[byte >> 4];
    digits += "0123456789abcdef"[byte & 15];
  }
  return digits;
}

/// Whole or not at all, and only where there is none: of several processes the first one makes it.
Status make(const std::string& path) {
  GRAFT_TRY_ASSIGN(const std::string digits, random_digits());
  const std::string draft = cat(path, ".", getpid());
  unlink(draft.c_str());  // of a process that ended
  const Socket file(open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return failed(draft);
  const bool written = write(file.get(), digits.data(), digits.size()) == static_cast<ssize_t>(digits.size()) &&
                       fsync(file.get()) == 0 && (link(draft.c_str(), path.c_str()) == 0 || errno == EEXIST);
  const int why = errno;
  unlink(draft.c_str());
  errno = why;
  return written ? Status() : failed(path);
}

}  // namespace

Result<std::string> secret_of_user() {
  const std::string path = folder_of_secret() + "/secret";
  if (access(path.c_str(), F_OK) != 0) GRAFT_TRY(make(path));
  const Socket file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat about = {};
  if (!file || fstat(file.get(), &about) != 0) return failed(path);
  if (!S_ISREG(about.st_mode) || about.st_uid != geteuid() || (about.st_mode & 077) != 0) {
    return invalid("The workers' secret \"", path, "\" is not this user's alone: remove it, or set its mode to 600.",
                   kAdvice);
  }
  std::string digits(kDigits, '\0');
  if (read(file.get(), digits.data(), digits.size()) != static_cast<ssize_t>(kDigits)) {
    return invalid("The workers' secret \"", path, "\" is shorter than ", kDigits, " characters: remove it.", kAdvice);
  }
  return digits;
}

}  // namespace graft::gloo_group
