// Files as every system must have them: what the store and the savers of models count on. Also built for Windows and
// arm64 (tools/cross), where it runs under wine and qemu.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <string>
#include <thread>

#include "platform/os/clock.h"
#include "platform/os/descriptor.h"
#include "platform/os/dynamic_library.h"
#include "platform/os/file.h"
#include "platform/os/process.h"
#include "tests/support/files/temporary_folder.h"

namespace graft::os::files_test {
namespace {

using test::TemporaryFolder;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string contents(const std::string& path) {
  auto text = read_text_file(system_files(), path, 1 << 20);
  return text.ok() ? *text : cat("<", text.status().message(), ">");
}

TEST(AnyFiles, AreWrittenReadAndMapped) {
  const TemporaryFolder folder;
  FileSystem& files = system_files();
  const std::string path = folder.file("a file, with \xC3\xA4");  // UTF-8
  {
    auto opened = files.open(path, OpenMode::create_new);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    File& file = **opened;
    ASSERT_TRUE(file.append(bytes_of("hello world")).ok());
    ASSERT_TRUE(file.write_at(0, bytes_of("J")).ok());
    ASSERT_TRUE(file.sync().ok());
    std::array<std::byte, 20> buffer{};
    EXPECT_EQ(file.read_at(6, buffer).value(), 5u) << "short only at the end";
    EXPECT_EQ(file.read_at(100, buffer).value(), 0u);
    EXPECT_EQ(file.read_at(~0ull - 3, buffer).status().code(), Code::invalid_argument);
    ASSERT_TRUE(file.truncate(14).ok());
    EXPECT_EQ(file.size().value(), 14u);
    ASSERT_TRUE(file.truncate(11).ok());
  }
  EXPECT_EQ(contents(path), "Jello world");
  EXPECT_EQ(text_of(files.map(path).value()->bytes()), "Jello world");
  EXPECT_EQ(files.open(path, OpenMode::create_new).status().code(), Code::io_error);
  EXPECT_EQ(files.open(folder.file("none"), OpenMode::read).status().code(), Code::not_found);
  EXPECT_EQ(files.map(folder.file("none")).status().code(), Code::not_found);
  EXPECT_TRUE(files.map(folder.write("empty", "")).value()->bytes().empty());
  const auto kept = files.open(path, OpenMode::append);
  ASSERT_TRUE(kept.ok());
  EXPECT_EQ((*kept)->size().value(), 11u);
}

// As models inside packages are: from an offset that is no multiple of a page, by a descriptor that is closed then.
TEST(AnyFiles, AreMappedInPart) {
  const TemporaryFolder folder;
  std::string text(200'000, 'a');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + i % 23);
  std::FILE* const file = std::fopen(folder.write("package", text).c_str(), "rb");
  ASSERT_NE(file, nullptr);
  auto part = map_descriptor(fileno(file), 70'001, 1000, "package");
  auto rest = map_descriptor(fileno(file), 131'072, 0, "package");
  auto again = open_descriptor(fileno(file), "package");
  const auto beyond = map_descriptor(fileno(file), 199'999, 2, "package");
  std::fclose(file);
  ASSERT_TRUE(part.ok()) << part.status().message();
  ASSERT_TRUE(rest.ok()) << rest.status().message();
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(text_of((*part)->bytes()), text.substr(70'001, 1000));
  EXPECT_EQ(text_of((*rest)->bytes()), text.substr(131'072));
  std::array<std::byte, 5> buffer{};
  ASSERT_EQ((*again)->read_at(7, buffer).value(), buffer.size());
  EXPECT_EQ(text_of(buffer), text.substr(7, 5));
  EXPECT_EQ(beyond.status().code(), Code::corrupt);
}

TEST(AnyFiles, AreReplacedAtOnceWhileOthersReadThem) {
  const TemporaryFolder folder;
  FileSystem& files = system_files();
  const std::string path = folder.file("state");
  ASSERT_TRUE(atomic_write_file(files, path, "old").ok());
  const auto reader = files.open(path, OpenMode::read);
  ASSERT_TRUE(reader.ok());
  const Status written = atomic_write_file(files, path, "the new one");
#if defined(_WIN32)  // wine 8, and Windows before 10, have no rename over a file that is open: all must then stay as it
                     // was
  if (!written.ok()) {
    EXPECT_EQ(contents(path), "old");
    EXPECT_EQ(files.list(folder.path()).value().size(), 1u);
    GTEST_SKIP() << written.message();
  }
#endif
  ASSERT_TRUE(written.ok()) << written.message();
  EXPECT_EQ(contents(path), "the new one");
  EXPECT_EQ(files.list(folder.path()).value().size(), 1u) << "nothing is left beside it";
}

TEST(AnyFiles, LieInFolders) {
  const TemporaryFolder folder;
  FileSystem& files = system_files();
  const std::string below = folder.path() + "/one/two";
  ASSERT_TRUE(make_directories(files, below).ok());
  ASSERT_TRUE(files.make_directory(below).ok()) << "that is there is no error";
  folder.write("one/b", "x");
  folder.write("one/a", "yy");
  const auto entries = files.list(folder.file("one")).value();
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].name, "a");
  EXPECT_EQ(entries[0].type, EntryType::file);
  EXPECT_EQ(entries[2].name, "two");
  EXPECT_EQ(entries[2].type, EntryType::directory);
  EXPECT_EQ(files.info(folder.file("one/a"))->size, 2u);
  EXPECT_EQ(files.info(folder.file("one/none")).status().code(), Code::not_found);
  EXPECT_FALSE(files.remove(folder.file("one")).ok()) << "it is not empty";
  EXPECT_TRUE(files.remove(below).ok());
  EXPECT_TRUE(files.remove(folder.file("one/a")).ok());
  EXPECT_FALSE(exists(files, folder.file("one/a")));
  EXPECT_GT(files.free_bytes(folder.path()).value(), 0u);
  EXPECT_TRUE(files.sync_directory(folder.path()).ok());
  EXPECT_FALSE(files.sync_directory(folder.file("one/b")).ok());
}

TEST(AnyFiles, AreLockedByOne) {
  const TemporaryFolder folder;
  FileSystem& files = system_files();
  const std::string path = folder.file("lock");
  {
    const auto held = files.lock(path);
    ASSERT_TRUE(held.ok()) << held.status().message();
    const auto second = files.lock(path);
    ASSERT_FALSE(second.ok());
    EXPECT_NE(second.status().message().find("is locked"), std::string::npos) << second.status().message();
  }
  EXPECT_TRUE(files.lock(path).ok()) << "it was given back";
}

TEST(AnyProcess, KnowsItselfAndItsTime) {
  EXPECT_TRUE(process_is_alive(process_id()));
  EXPECT_FALSE(process_is_alive(0));
  const double before = thread_seconds();
  std::uint64_t sum = 0;
  const volatile std::uint64_t one = 1;
  for (std::uint64_t i = 0; i < 50'000'000; ++i) sum += one;
  EXPECT_GT(thread_seconds(), before) << sum;
}

TEST(AnyProcess, LoadsNoLibraryThatIsAbsent) {
  const auto none = DynamicLibrary::open("no_library_of_this_name");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().code(), Code::not_found);
  EXPECT_NE(none.status().message().find("no_library_of_this_name"), std::string::npos);
}

}  // namespace
}  // namespace graft::os::files_test
