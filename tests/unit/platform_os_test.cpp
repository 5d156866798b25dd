// Files: round trips, limits, real short writes and full disks, and a failure of every call of an atomic replace.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <new>
#include <numeric>

#include "platform/os/access.h"
#include "platform/os/atomic_write.h"
#include "platform/os/dynamic_library.h"
#include "platform/os/file.h"
#include "platform/os/process.h"
#include "platform/os/threads.h"
#include "tests/support/files/fault_files.h"

namespace graft::os::platform_os_test {
namespace {

using test::FaultFiles;
using test::TemporaryFolder;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string contents(const std::string& path) {
  auto text = read_text_file(system_files(), path, 1 << 20);
  return text.ok() ? *text : cat("<", text.status().message(), ">");
}

std::vector<std::string> names(const std::string& path) {
  std::vector<std::string> out;
  for (const auto& entry : system_files().list(path).value()) out.push_back(entry.name);
  return out;
}

TEST(Files, WriteReadAndMap) {
  const TemporaryFolder folder;
  FileSystem& files = system_files();
  const std::string path = folder.file("a");
  {
    auto file = files.open(path, OpenMode::create_new).value();
    ASSERT_TRUE(file->append(bytes_of("hello ")).ok());
    ASSERT_TRUE(file->append(bytes_of("world")).ok());
    ASSERT_TRUE(file->write_at(0, bytes_of("J")).ok());
    ASSERT_TRUE(file->sync().ok());
    EXPECT_EQ(file->size().value(), 11u);
    std::array<std::byte, 20> buffer{};
    EXPECT_EQ(file->read_at(6, buffer).value(), 5u) << "short only at the end";
    EXPECT_EQ(file->read_at(100, buffer).value(), 0u);
    EXPECT_EQ(read_exactly(*file, 6, buffer, path).code(), Code::corrupt);
    EXPECT_EQ(file->read_at(~0ull - 3, buffer).status().code(), Code::invalid_argument)
        << "offset arithmetic is checked";
  }
  EXPECT_EQ(contents(path), "Jello world");
  auto map = files.map(path).value();
  EXPECT_EQ(map->bytes().size(), 11u);
  EXPECT_EQ(map->bytes()[10], std::byte{'d'});
  EXPECT_EQ(files.open(path, OpenMode::create_new).status().code(), Code::io_error);
  ASSERT_TRUE(files.open(path, OpenMode::append).value()->append(bytes_of("!")).ok());
  EXPECT_EQ(contents(path), "Jello world!");
  ASSERT_TRUE(files.open(path, OpenMode::read_write).value()->truncate(5).ok());
  EXPECT_EQ(contents(path), "Jello");
  EXPECT_EQ(files.info(path)->size, 5u);
  (void)files.open(path, OpenMode::create).value();
  EXPECT_EQ(contents(path), "");
  EXPECT_EQ(files.map(path).value()->bytes().size(), 0u) << "an empty file maps to nothing";
  ASSERT_TRUE(files.remove(path).ok());
  EXPECT_FALSE(exists(files, path));
}

TEST(Files, ErrorsNamePathAndReason) {
  const TemporaryFolder folder;
  const std::string path = folder.file("absent");
  const auto missing = system_files().open(path, OpenMode::read);
  EXPECT_EQ(missing.status().code(), Code::not_found);
  EXPECT_EQ(missing.status().message(), "\"" + path + "\" could not be opened: No such file or directory (errno 2).");
  EXPECT_EQ(system_files().map(path).status().code(), Code::not_found);
  EXPECT_EQ(system_files().remove(path).code(), Code::not_found);
  EXPECT_EQ(read_file(system_files(), folder.path(), 100).status().code(), Code::io_error) << "a folder is not a file";
  EXPECT_EQ(system_files().open(std::string("a\0b", 3), OpenMode::read).status().code(), Code::invalid_argument);
  const auto library = DynamicLibrary::open("libgraft-does-not-exist.so");
  EXPECT_EQ(library.status().code(), Code::not_found);
}

TEST(Files, ReadHonoursItsLimit) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a");
  ASSERT_TRUE(atomic_write_file(system_files(), path, "12345").ok());
  EXPECT_TRUE(read_file(system_files(), path, 5).ok());
  const auto big = read_file(system_files(), path, 4);
  EXPECT_EQ(big.status().code(), Code::invalid_argument);
  EXPECT_NE(big.status().message().find("5 B"), std::string::npos) << big.status().message();
}

TEST(Files, Directories) {
  const TemporaryFolder folder;
  FileSystem& files = system_files();
  ASSERT_TRUE(make_directories(files, folder.file("x/y/z")).ok());
  ASSERT_TRUE(make_directories(files, folder.file("x/y/z")).ok()) << "twice is fine";
  ASSERT_TRUE(atomic_write_file(files, folder.file("x/b"), "b").ok());
  ASSERT_TRUE(atomic_write_file(files, folder.file("x/a"), "a").ok());
  EXPECT_EQ(names(folder.file("x")), (std::vector<std::string>{"a", "b", "y"}));
  EXPECT_EQ(files.list(folder.file("x")).value()[2].type, EntryType::directory);
  EXPECT_FALSE(files.remove(folder.file("x")).ok()) << "not empty";
  EXPECT_FALSE(make_directories(files, folder.file("x/a/deeper")).ok()) << "a file is in the way";
  EXPECT_EQ(parent_directory("a/b"), "a");
  EXPECT_EQ(parent_directory("a/b/"), "a");
  EXPECT_EQ(parent_directory("b"), ".");
  EXPECT_EQ(parent_directory("/b"), "/");
  EXPECT_EQ(parent_directory("/"), "/");
}

TEST(Files, LockIsExclusiveUntilDropped) {
  const TemporaryFolder folder;
  auto lock = system_files().lock(folder.file("lock")).value();
  const auto second = system_files().lock(folder.file("lock"));
  EXPECT_EQ(second.status().code(), Code::io_error);
  EXPECT_NE(second.status().message().find("is locked"), std::string::npos);
  lock.reset();
  EXPECT_TRUE(system_files().lock(folder.file("lock")).ok());
}

TEST(Files, FullDiskIsReported) {
  auto full = system_files().open("/dev/full", OpenMode::read_write);
  if (!full.ok()) GTEST_SKIP() << full.status().message();
  const Status status = (*full)->append(bytes_of("x"));
  EXPECT_EQ(status.code(), Code::io_error);
  EXPECT_NE(status.message().find("No space left on device"), std::string::npos) << status.message();
}

TEST(Files, KernelShortWriteLeavesTheOldFile) {
  // A file size limit makes the kernel write a part and then refuse; a child process, as limits are per process.
  const TemporaryFolder folder;
  const std::string path = folder.file("a");
  ASSERT_TRUE(atomic_write_file(system_files(), path, "old").ok());
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    setrlimit(RLIMIT_FSIZE, &limit);
    const Status status = atomic_write_file(system_files(), path, std::string(5000, 'n'));
    _exit(status.code() == Code::io_error && status.message().find("left as it was") != std::string::npos ? 0 : 1);
  }
  int result = -1;
  ASSERT_EQ(waitpid(child, &result, 0), child);
  EXPECT_EQ(result, 0) << "the child expected a clean error";
  EXPECT_EQ(contents(path), "old");
  EXPECT_EQ(names(folder.path()).size(), 1u) << "no temporary file is left";
}

TEST(AtomicWrite, ReplacesAndConcatenates) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a");
  const std::array<std::span<const std::byte>, 3> parts = {bytes_of("one"), bytes_of(""), bytes_of("two")};
  ASSERT_TRUE(atomic_write_file(system_files(), path, parts).ok());
  EXPECT_EQ(contents(path), "onetwo");
  ASSERT_TRUE(atomic_write_file(system_files(), path, "three").ok());
  EXPECT_EQ(contents(path), "three");
  EXPECT_EQ(names(folder.path()).size(), 1u);
}

TEST(AtomicWrite, PutsNoFileInThePlaceOfAnythingElse) {
  const TemporaryFolder folder;
  ASSERT_TRUE(system_files().make_directory(folder.file("d")).ok());
  // A pipe stands for devices: a test that fails must not put a file in the place of one of this machine's.
  ASSERT_EQ(mkfifo(folder.file("pipe").c_str(), 0600), 0);
  for (const std::string& path : {folder.file("d"), folder.file("pipe")}) {
    const Status status = atomic_write_file(system_files(), path, "x");
    EXPECT_EQ(status.code(), Code::io_error);
    EXPECT_NE(status.message().find("is not a regular file"), std::string::npos) << status.message();
  }
  EXPECT_EQ(system_files().info(folder.file("pipe"))->type, EntryType::other);
}

mode_t mode_of(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 ? info.st_mode & 07777 : ~mode_t{0};
}

TEST(AtomicWrite, KeepsTheModeAndTheOwnerOfWhatItReplaces) {
  const TemporaryFolder folder;
  const std::string path = folder.file("a");
  const mode_t before = ::umask(027);
  ASSERT_TRUE(atomic_write_file(system_files(), path, "x").ok());
  EXPECT_EQ(mode_of(path), 0640u) << "a new file follows the umask";
  for (const mode_t mode : {0600u, 0444u, 0666u, 0755u}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    mode_t while_written = 0;
    const Status status = atomic_write_file(system_files(), path, [&](File& file) {
      for (const auto& name : names(folder.path())) {
        if (is_temporary(name)) while_written = mode_of(folder.file(name));
      }
      return file.append(bytes_of("y"));
    });
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(mode_of(path), mode);
    EXPECT_EQ(while_written, 0600u) << "nobody else may read it before";
  }
  const std::array<std::span<const std::byte>, 1> parts = {bytes_of("secret")};
  ASSERT_TRUE(atomic_write_private(system_files(), path, parts).ok());
  EXPECT_EQ(mode_of(path), 0600u);
  ASSERT_TRUE(make_private_directories(system_files(), folder.file("b/c")).ok());
  EXPECT_EQ(mode_of(folder.file("b")), 0750u);
  EXPECT_EQ(mode_of(folder.file("b/c")), 0700u);
  ::umask(before);
  if (::geteuid() != 0) GTEST_SKIP() << "only root may give a file away";
  ASSERT_EQ(::chown(path.c_str(), 1234, 4321), 0);
  ASSERT_TRUE(atomic_write_file(system_files(), path, "z").ok());
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, 1234u);
  EXPECT_EQ(info.st_gid, 4321u);
}

TEST(AtomicWrite, ANameMayBeAsLongAsTheSystemAllows) {
  const TemporaryFolder folder;
  for (const std::size_t length : {1u, 245u, 246u, 255u}) {
    const std::string path = folder.file(std::string(length, 'n'));
    EXPECT_TRUE(check_writable(system_files(), path).ok()) << length;
    const Status status = atomic_write_file(system_files(), path, "x");
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(contents(path), "x");
  }
  EXPECT_FALSE(check_writable(system_files(), folder.file(std::string(256, 'n'))).ok());
}

// As in /tmp. The test plays the other user, which only root can.
TEST(AtomicWrite, DoesNotFollowALinkThatAnotherUserPlanted) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may give a link away";
  const TemporaryFolder folder;
  FileSystem& files = system_files();
  ASSERT_TRUE(files.make_directory(folder.file("open")).ok());
  ASSERT_TRUE(files.make_directory(folder.file("mine")).ok());
  folder.write("mine/a", "mine");
  const std::string link = folder.file("open/a"), at_folder = folder.file("open/f");
  ASSERT_EQ(::symlink("../mine/a", link.c_str()), 0);
  ASSERT_EQ(::symlink("../mine", at_folder.c_str()), 0);
  struct Case {
    mode_t mode;
    uid_t folder_owner, link_owner;
    bool followed;
  };
  for (const Case& c : {Case{01777, 0, 0, true}, Case{01777, 0, 1234, false}, Case{01777, 1234, 1234, true},
                        Case{0777, 0, 1234, true}, Case{01755, 0, 1234, true}}) {
    ASSERT_EQ(::chown(folder.file("open").c_str(), c.folder_owner, 0), 0);
    ASSERT_EQ(::chmod(folder.file("open").c_str(), c.mode), 0);
    for (const std::string& path : {link, at_folder}) ASSERT_EQ(::lchown(path.c_str(), c.link_owner, 0), 0);
    const std::array<Status, 5> all = {
        atomic_write_file(files, link, "new"), atomic_write_file(files, at_folder + "/b", "new"),
        files.open(link, OpenMode::append).status(), files.lock(at_folder + "/lock").status(),
        make_directories(files, at_folder + "/deeper")};
    for (const Status& status : all) {
      // Where the kernel has the rule too, it may refuse first.
      EXPECT_EQ(status.ok(), c.followed) << c.mode << " " << c.folder_owner << " " << status.message();
    }
    EXPECT_EQ(contents(folder.file("mine/a")), c.followed ? "new" : "mine");
    EXPECT_EQ(names(folder.file("mine")).size(), c.followed ? 4u : 1u);
    for (const char* made : {"mine/b", "mine/lock", "mine/deeper"}) (void)files.remove(folder.file(made));
    folder.write("mine/a", "mine");
  }
}

TEST(Files, ReadsNoPipeAndNoDevice) {
  const TemporaryFolder folder;
  const std::string pipe = folder.file("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, std::string("/dev/zero"), folder.path()}) {
    const auto opened = system_files().open(path, OpenMode::read);
    const auto mapped = system_files().map(path);
    for (const Status& status : {opened.status(), mapped.status()}) {
      EXPECT_EQ(status.code(), Code::io_error);
      EXPECT_NE(status.message().find("not a regular file"), std::string::npos) << status.message();
    }
  }
  EXPECT_FALSE(system_files().open(pipe, OpenMode::append).ok());
}

TEST(AtomicWrite, RemovesWhatDeadProcessesLeftAndNothingElse) {
  const TemporaryFolder folder;
  const pid_t dead = ::fork();
  if (dead == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(dead, nullptr, 0), dead);
  const auto make = [&](const std::string& name) {
    return system_files().open(folder.file(name), OpenMode::create_new).value();
  };
  // What the names of temporary files of "a" and of "b" begin with.
  std::array<std::string, 2> prefix;
  for (const char name : {'a', 'b'}) {
    const auto look = [&](File&) -> Status {
      for (const auto& entry : names(folder.path())) {
        if (is_temporary(entry)) prefix[name - 'a'] = entry.substr(0, entry.find('-', 8) + 1);
      }
      return error(Code::cancelled, "Seen.");
    };
    ASSERT_EQ(atomic_write_file(system_files(), folder.file(std::string(1, name)), look).code(), Code::cancelled);
  }
  ASSERT_NE(prefix[0], prefix[1]);
  (void)make(cat(prefix[0], dead, "-0123456789abcdef.tmp"));
  std::vector<std::string> left = {cat(prefix[0], process_id(), "-1.tmp"),  // ours, so of a living one
                                   cat(prefix[0], dead, "-2.tmp"), cat(prefix[0], dead), cat(prefix[0], dead, "-3.graft"),
                                   cat(prefix[0], "x-4.tmp"), cat(prefix[1], dead, "-5.tmp")};
  for (const std::string& name : left) (void)make(name);
  // Of a container that has ids of its own, and lives.
  const auto held = system_files().lock(folder.file(left[1]));
  ASSERT_TRUE(held.ok());
  ASSERT_TRUE(check_writable(system_files(), folder.file("a")).ok());
  std::ranges::sort(left);
  EXPECT_EQ(names(folder.path()), left);
}

TEST(AtomicWrite, FollowsLinks) {
  const TemporaryFolder folder;
  ASSERT_TRUE(system_files().make_directory(folder.file("far")).ok());
  ASSERT_EQ(::symlink("far/b", folder.file("a").c_str()), 0);
  ASSERT_EQ(::symlink("a", folder.file("again").c_str()), 0);
  for (const char* text : {"made", "replaced"}) {
    ASSERT_TRUE(atomic_write_file(system_files(), folder.file("again"), text).ok());
    EXPECT_EQ(contents(folder.file("far/b")), text);
  }
  EXPECT_EQ(names(folder.path()), (std::vector<std::string>{"a", "again", "far"}));
  EXPECT_EQ(*system_files().follow(folder.file("again")), folder.file("far/b")) << "the links are links still";
  ASSERT_EQ(::symlink("round", folder.file("round").c_str()), 0);
  EXPECT_FALSE(atomic_write_file(system_files(), folder.file("round"), "x").ok());
}

TEST(AtomicWrite, WhatCannotBeWrittenIsKnownBefore) {
  const TemporaryFolder folder;
  FileSystem& files = system_files();
  EXPECT_TRUE(check_writable(files, folder.file("a")).ok());
  EXPECT_TRUE(names(folder.path()).empty());
  EXPECT_FALSE(check_writable(files, folder.path()).ok()) << "a folder";
  EXPECT_FALSE(check_writable(files, "/dev/null").ok());
  EXPECT_FALSE(check_writable(files, folder.file("nowhere/a")).ok());
}

TEST(AtomicWrite, NothingIsOverwrittenWhereverItFails) {
  for (const bool keep_failing : {false, true}) {
    for (const bool short_write : {false, true}) {
      FaultFiles counting;
      {
        const TemporaryFolder folder;
        ASSERT_TRUE(atomic_write_file(counting, folder.file("a"), "new contents").ok());
      }
      const std::uint64_t calls = counting.state.calls;
      ASSERT_EQ(calls, 6u);  // info, open, append, sync, rename, sync_directory
      for (std::uint64_t k = 1; k <= calls; ++k) {
        const TemporaryFolder folder;
        const std::string path = folder.file("a");
        ASSERT_TRUE(atomic_write_file(system_files(), path, "old").ok());
        FaultFiles files;
        files.state = {0, k, keep_failing, short_write, {}};
        const Status status = atomic_write_file(files, path, "new contents");
        EXPECT_EQ(status.code(), Code::io_error) << files.state.failed;
        EXPECT_EQ(contents(path), k < calls ? "old" : "new contents") << files.state.failed;
        // Where the disk never works again, removing the temporary file cannot work either.
        const std::size_t most = keep_failing ? 2 : 1;
        EXPECT_LE(names(folder.path()).size(), most) << files.state.failed << " left a temporary file";
      }
    }
  }
}

TEST(Threads, ThrowHereWhatOneOfThemThrows) {
  std::atomic<int> done{0};
  const auto work = [&](std::size_t i) {
    if (i == 2) throw std::bad_alloc();
    ++done;
  };
  EXPECT_THROW(run_in_threads(4, work), std::bad_alloc);
  EXPECT_EQ(done, 3) << "all the others have ended";
}

/// Whether all work is done and, where `limited`, whether a thread is refused in a sentence.
bool works_with_threads(bool limited) {
  std::atomic<int> sum{0};
  run_in_threads(4, [&](std::size_t i) { sum += static_cast<int>(i) + 1; });
  run_in_threads(0, [&](std::size_t) { sum += 100; });
  auto thread = start_thread([&] { sum += 1000; }, "to add a thousand");
  if (thread.ok()) thread->join();
  const bool refused = thread.status().code() == Code::out_of_memory &&
                       thread.status().message().find("no thread to add a thousand") != std::string::npos;
  return sum == (limited ? 10 : 1010) && (limited ? refused : thread.ok());
}

TEST(Threads, WorkIsDoneWhereTheSystemGivesThem) { EXPECT_TRUE(works_with_threads(false)); }

TEST(Threads, WorkIsDoneWhereTheSystemGivesNone) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "Sanitizers take address space of their own.";
#endif
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit least{1, 1};  // what is mapped stays; a thread's stack would be more
    ::setrlimit(RLIMIT_AS, &least);
    pthread_attr_t large;  // than the stacks of threads that ended, which the library keeps for others
    ::pthread_attr_init(&large);
    ::pthread_attr_setstacksize(&large, std::size_t{64} << 20);
    ::pthread_setattr_default_np(&large);
    ::_exit(works_with_threads(true) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace graft::os::platform_os_test
