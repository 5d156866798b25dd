// graft/source.h: models and adapters that are no files of their own.
#include "graft/source.h"

#include <fcntl.h>
#include <unistd.h>

#include "tests/support/c_api.h"
#include "tests/support/heap_count.h"
#include "tests/support/files/stored_zip.h"

namespace graft::test::c_api_source_test {
namespace {

std::string contents(const std::string& path) {
  const auto read = os::read_text_file(os::system_files(), path, 1 << 30);
  return read.ok() ? *read : "";
}

/// A file opened for reading, until it goes.
struct Opened {
  explicit Opened(const std::string& path) : descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~Opened() {
    if (descriptor >= 0) ::close(descriptor);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  int descriptor;
};

/// A reader over a string that notes what it is asked for, and fails from a byte on.
struct StringReader {
  std::string bytes;
  std::uint64_t fail_from = UINT64_MAX;
  std::uint64_t next = 0;
  bool in_order = true;
  std::size_t largest = 0;

  graft_source source() {
    auto out = sized<graft_source>();
    out.kind = GRAFT_SOURCE_READER;
    out.bytes = bytes.size();
    out.user = this;
    out.read = [](void* user, std::uint64_t offset, std::size_t count, void* to) {
      auto& reader = *static_cast<StringReader*>(user);
      reader.in_order = reader.in_order && offset == reader.next;
      reader.next = offset + count;
      reader.largest = std::max(reader.largest, count);
      if (offset + count > reader.fail_from) return 1;
      std::memcpy(to, reader.bytes.data() + offset, count);
      return 0;
    };
    return out;
  }
};

graft_source memory_source(const void* data, std::size_t bytes, bool copy) {
  auto out = sized<graft_source>();
  out.data = data;
  out.bytes = bytes;
  out.copy = copy ? 1 : 0;
  return out;
}

graft_source descriptor_source(int descriptor, std::uint64_t offset, std::uint64_t bytes) {
  auto out = sized<graft_source>();
  out.kind = GRAFT_SOURCE_DESCRIPTOR;
  out.descriptor = descriptor;
  out.offset = offset;
  out.bytes = bytes;
  return out;
}

class Sources : public CApi {
 protected:
  /// Trains the model of h_ for some steps and gives the bytes of the file that it saves.
  std::string train() {
    EXPECT_EQ(open_trainer(trainer_options()), GRAFT_OK) << h_.message();
    for (int i = 0; i < 3; ++i) EXPECT_EQ(batch_.step(h_.trainer), GRAFT_OK) << h_.message();
    EXPECT_EQ(graft_trainer_store(h_.trainer), GRAFT_OK) << h_.message();
    const std::string out = folder_.file("trained.graft");
    EXPECT_EQ(graft_model_save(h_.model, out.c_str()), GRAFT_OK) << h_.message();
    return contents(out);
  }
  graft_status open_source(const graft_source& source) {
    h_.destroy_parts();
    return graft_model_open_source(h_.context, &source, nullptr, &h_.model);
  }
  std::string file_ = contents(path_);  // empty before SetUp()
};

TEST_F(Sources, AModelTrainsToTheSameBytesWhereverItIs) {
  file_ = contents(path_);
  const std::string wanted = train();
  ASSERT_GT(wanted.size(), 0u);

  std::vector<std::uint64_t> aligned(file_.size() / 8 + 2);
  std::memcpy(aligned.data(), file_.data(), file_.size());
  ASSERT_EQ(open_source(memory_source(aligned.data(), file_.size(), false)), GRAFT_OK) << h_.message();
  EXPECT_EQ(train(), wanted) << "borrowed";

  char* odd = reinterpret_cast<char*>(aligned.data()) + 1;
  std::memmove(odd, file_.data(), file_.size());
  ASSERT_EQ(open_source(memory_source(odd, file_.size(), true)), GRAFT_OK) << h_.message();
  std::fill(aligned.begin(), aligned.end(), 0);  // the model has bytes of its own
  EXPECT_EQ(train(), wanted) << "copied";

  StringReader reader{file_};
  const graft_source read = reader.source();
  ASSERT_EQ(open_source(read), GRAFT_OK) << h_.message();
  EXPECT_EQ(reader.next, file_.size());
  EXPECT_TRUE(reader.in_order);
  EXPECT_LE(reader.largest, std::size_t{4} << 20);
  EXPECT_EQ(train(), wanted) << "read";

  for (const std::uint16_t padding : {0, 1, 2, 3, 4, 5, 6, 7}) {
    const StoredZip zip = stored_zip("m.graft", file_, padding);
    const std::string package = folder_.write("app.apk", zip.bytes);
    {
      const Opened opened(package);
      ASSERT_EQ(open_source(descriptor_source(opened.descriptor, zip.offset, file_.size())), GRAFT_OK) << h_.message();
      EXPECT_EQ(::lseek(opened.descriptor, 0, SEEK_CUR), 0);
    }
    EXPECT_EQ(train(), wanted) << "at byte " << zip.offset << " of a package that is closed again";
  }
  {
    const Opened opened(path_);
    ASSERT_EQ(open_source(descriptor_source(opened.descriptor, 0, 0)), GRAFT_OK) << h_.message();
  }
  EXPECT_EQ(train(), wanted) << "a whole file";
}

/// Counts what graft asks the app's allocator for.
struct Counted {
  std::uint64_t bytes = 0;
  static void* allocate(void* user, std::size_t bytes, std::size_t alignment) {
    static_cast<Counted*>(user)->bytes += bytes;
    return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  }
  static void release(void*, void* block, std::size_t, std::size_t) { std::free(block); }
};

TEST_F(Sources, WeightsAreMappedWhereTheyLieAligned) {
  h_.destroy_parts();
  graft_context_destroy(h_.context);
  h_.context = nullptr;
  write_model(tiny_mlp(512, 512, 512), path_);
  file_ = contents(path_);
  constexpr std::uint64_t kWeights = 2 * 512 * 512 * sizeof(float);
  ASSERT_GT(file_.size(), kWeights);
  Counted counted;
  auto options = sized<graft_context_options>();
  options.device = "none";
  options.allocate = Counted::allocate;
  options.deallocate = Counted::release;
  options.allocator_user = &counted;
  ASSERT_EQ(graft_context_create(&options, &h_.context), GRAFT_OK) << h_.message();
  const auto asked_for = [&](const graft_source& source) {
    counted.bytes = 0;
    const std::uint64_t before = heap_bytes_asked_for();
    EXPECT_EQ(open_source(source), GRAFT_OK) << h_.message();
    return counted.bytes + heap_bytes_asked_for() - before;
  };
  // "m.graft" and the header before it are 37 bytes.
  for (const auto& [padding, mapped] : {std::pair{4096 - 37, true}, {8 - 37 % 8, true}, {0, false}, {4 - 1, true}}) {
    const StoredZip zip = stored_zip("m.graft", file_, static_cast<std::uint16_t>(padding));
    const Opened opened(folder_.write("app.apk", zip.bytes));
    const std::uint64_t bytes = asked_for(descriptor_source(opened.descriptor, zip.offset, file_.size()));
    EXPECT_EQ(zip.offset % 8 == 0, mapped);
    EXPECT_EQ(bytes < kWeights / 10, mapped) << bytes << " bytes for a model at byte " << zip.offset;
    EXPECT_EQ(bytes >= file_.size(), !mapped) << bytes << " bytes for a model at byte " << zip.offset;
  }
  std::vector<std::uint64_t> aligned(file_.size() / 8 + 1);
  std::memcpy(aligned.data(), file_.data(), file_.size());
  EXPECT_LT(asked_for(memory_source(aligned.data(), file_.size(), false)), kWeights / 10);
  EXPECT_GE(asked_for(memory_source(aligned.data(), file_.size(), true)), file_.size());
}

TEST_F(Sources, WrongSourcesAreOneSentenceAndNoModel) {
  file_ = contents(path_);
  const auto refused = [&](const graft_source& source, graft_status status, std::string_view part) {
    auto* model = reinterpret_cast<graft_model*>(this);
    EXPECT_EQ(graft_model_open_source(h_.context, &source, nullptr, &model), status) << part;
    EXPECT_EQ(model, nullptr) << part;
    EXPECT_TRUE(contains(h_.message(), part)) << h_.message();
  };
  std::vector<std::uint64_t> aligned(file_.size() / 8 + 1);
  std::memcpy(aligned.data(), file_.data(), file_.size());
  const auto whole = memory_source(aligned.data(), file_.size(), false);
  graft_source wrong = whole;
  wrong.struct_size = 0;
  refused(wrong, GRAFT_INVALID_ARGUMENT, "struct_size");
  wrong = whole;
  wrong.kind = static_cast<graft_source_kind>(3);
  refused(wrong, GRAFT_INVALID_ARGUMENT, "kind of sources number 3");
  wrong = whole;
  wrong.data = nullptr;
  refused(wrong, GRAFT_INVALID_ARGUMENT, "has no data");
  refused(memory_source(reinterpret_cast<char*>(aligned.data()) + 4, 100, false), GRAFT_INVALID_ARGUMENT, "copy = 1");
  wrong = whole;
  wrong.bytes -= 1;
  wrong.name = "asset/m.graft";
  refused(wrong, GRAFT_CORRUPT, "asset/m.graft");
  wrong.bytes = 0;
  refused(wrong, GRAFT_CORRUPT, "asset/m.graft");

  refused(descriptor_source(-1, 0, 0), GRAFT_IO_ERROR, "descriptor -1");
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  refused(descriptor_source(pipe[0], 0, 100), GRAFT_IO_ERROR, "is a pipe, not a regular file");
  ::close(pipe[0]);
  ::close(pipe[1]);
  const Opened opened(path_);
  refused(descriptor_source(opened.descriptor, 1, file_.size()), GRAFT_CORRUPT, "were promised");
  refused(descriptor_source(opened.descriptor, UINT64_MAX, 0), GRAFT_CORRUPT, "were promised");
  refused(descriptor_source(opened.descriptor, 8, 0), GRAFT_CORRUPT, "descriptor ");
  const Opened folder(folder_.path());
  refused(descriptor_source(folder.descriptor, 0, 0), GRAFT_IO_ERROR, "directory");

  StringReader reader{file_};
  wrong = reader.source();
  wrong.read = nullptr;
  refused(wrong, GRAFT_INVALID_ARGUMENT, "no function that reads");
  reader.fail_from = 100;
  refused(reader.source(), GRAFT_IO_ERROR, "did not give");
  reader.fail_from = UINT64_MAX;
  reader.bytes[100] = static_cast<char>(reader.bytes[100] ^ 1);
  refused(reader.source(), GRAFT_CORRUPT, "\"reader\"");

  graft_model* none = nullptr;
  EXPECT_EQ(graft_model_open_source(h_.context, nullptr, nullptr, &none), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_model_open_source(nullptr, &whole, nullptr, &none), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_model_open_source(h_.context, &whole, nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_model_load_adapters_source(nullptr, &whole), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_session_swap_adapters_source(nullptr, &whole), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_generator_swap_adapters_source(nullptr, &whole), GRAFT_INVALID_ARGUMENT);
}

TEST_F(Sources, DamageInMemoryIsFoundWhenTheModelIsUsed) {
  file_ = contents(path_);
  StringReader reader{file_};
  reader.bytes.back() = static_cast<char>(reader.bytes.back() ^ 1);
  ASSERT_EQ(open_source(reader.source()), GRAFT_OK) << h_.message();
  EXPECT_EQ(open_session(), GRAFT_CORRUPT);
}

TEST_F(Sources, AdaptersFromMemoryAndDescriptor) {
  const std::vector<float> plain = run_model(h_.model);
  ASSERT_EQ(graft_model_add_adapters(h_.model, "r=2,targets=fc1|fc2", 1), GRAFT_OK) << h_.message();
  ASSERT_EQ(open_trainer(trainer_options()), GRAFT_OK) << h_.message();
  for (int i = 0; i < 5; ++i) ASSERT_EQ(batch_.step(h_.trainer), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_trainer_store(h_.trainer), GRAFT_OK) << h_.message();
  graft_trainer_destroy(h_.trainer);
  h_.trainer = nullptr;
  const std::string path = folder_.file("adapters.graft");
  ASSERT_EQ(graft_model_save_adapters(h_.model, path.c_str()), GRAFT_OK) << h_.message();
  const std::vector<float> adapted = run_model(h_.model);
  ASSERT_NE(adapted, plain);
  const std::string bytes = contents(path);
  const StoredZip zip = stored_zip("adapters.graft", bytes, 1);
  const std::string package = folder_.write("app.apk", zip.bytes);

  ASSERT_EQ(graft_model_load_adapters(h_.model, nullptr), GRAFT_OK);
  EXPECT_EQ(graft_model_load_adapters_source(h_.model, nullptr), GRAFT_INVALID_ARGUMENT);
  const auto model_bytes = memory_source(file_.data(), file_.size(), true);
  EXPECT_NE(graft_model_load_adapters_source(h_.model, &model_bytes), GRAFT_OK);
  EXPECT_EQ(run_model(h_.model), plain) << "failures change nothing";
  {
    const Opened opened(package);
    const auto source = descriptor_source(opened.descriptor, zip.offset, bytes.size());
    ASSERT_EQ(graft_model_load_adapters_source(h_.model, &source), GRAFT_OK) << h_.message();
  }
  EXPECT_EQ(run_model(h_.model), adapted);

  // A running session takes them from a reader.
  ASSERT_EQ(graft_model_add_adapters(h_.model, "r=2,targets=fc1|fc2", 7), GRAFT_OK) << h_.message();
  ASSERT_EQ(open_session(), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_session_set_input(h_.session, "x", batch_.x.data(), batch_.bytes()), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_session_run(h_.session), GRAFT_OK) << h_.message();
  EXPECT_EQ(output(h_.session), plain);
  StringReader reader{bytes};
  const auto source = reader.source();
  ASSERT_EQ(graft_session_swap_adapters_source(h_.session, &source), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_session_run(h_.session), GRAFT_OK) << h_.message();
  EXPECT_EQ(output(h_.session), adapted);
  EXPECT_EQ(graft_session_swap_adapters_source(h_.session, nullptr), GRAFT_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace graft::test::c_api_source_test
