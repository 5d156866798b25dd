// A checkpoint store of anything: opened, read through, gone on with. The input is a row of files, each a byte for the
// kind (0 ROOT, 1 snapshot, 2 segment, 3 journal; plus 128: leave its checksum alone), one for the number, two for the
// size, and the contents. Checksums are made right, so that what they would hide is reached.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "runtime/checkpoint/store.h"
#include "tests/support/power_files.h"

namespace {

using namespace graft;
using namespace graft::checkpoint;
using test::PowerFiles;

constexpr std::array kKinds = {FileKind::root, FileKind::snapshot, FileKind::segment, FileKind::journal};

void mend(FileKind kind, PowerFiles::Bytes& bytes) {
  if (bytes.size() < kHeaderBytes) return;
  std::array<std::uint64_t, 4> fields;  // number, a, b, c
  std::memcpy(fields.data(), &bytes[16], sizeof fields);
  const bool whole = kind == FileKind::root || kind == FileKind::snapshot;
  const auto body = std::span<const std::byte>(bytes).subspan(kHeaderBytes);
  const auto header =
      write_header({kind, 77, fields[0], fields[1], fields[2], fields[3]}, whole ? body : std::span<const std::byte>());
  std::copy(header.begin(), header.end(), bytes.begin());
}

PowerFiles::Image parse(std::span<const std::byte> input) {
  PowerFiles::Image image;
  while (input.size() >= 4) {
    const auto kind = static_cast<unsigned>(input[0]), number = static_cast<unsigned>(input[1]);
    const std::size_t size = std::min<std::size_t>(
        input.size() - 4, static_cast<std::size_t>(input[2]) | static_cast<std::size_t>(input[3]) << 8);
    PowerFiles::Bytes bytes(input.begin() + 4, input.begin() + 4 + static_cast<std::ptrdiff_t>(size));
    const FileKind which = kKinds[kind % 4];
    if (kind < 128) mend(which, bytes);
    image["s/" + file_name(which, number)] = std::move(bytes);
    input = input.subspan(4 + size);
  }
  return image;
}

void read_all(const Store& store) {
  (void)store.verify();
  for (const auto& [number, manifest] : store.snapshots()) {
    (void)store.sizes().at(number);
    (void)store.diff(number, store.snapshots().begin()->first);
    for (const Stream& stream : manifest.streams) {
      const auto bytes = store.restore(number, stream.name, std::uint64_t{1} << 20, stream.worker);
      if (bytes.ok() && bytes->size() != stream.bytes) std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto image = parse(std::as_bytes(std::span(data, size)));
  PowerFiles files(image);
  if (const auto store = Store::open(files, "s", {.mode = StoreMode::read_only, .deep = true}); store.ok()) {
    read_all(*store);
  }
  if (files.contents() != image) std::abort();  // a reader writes nothing
  auto store = Store::open(files, "s", {.mode = StoreMode::read_write, .compaction = {.min_gain_bytes = 0}});
  if (!store.ok()) return 0;
  const std::uint64_t head = store->head();
  if (!store->append({1, 2, {std::byte{3}}}).ok()) return 0;
  const std::array<std::byte, 100> bytes{};
  const std::array<StreamInput, 1> streams = {StreamInput{.name = "w", .element = Element::f32, .bytes = bytes}};
  if (store->put_snapshot(streams, {}).ok()) {
    std::array<std::byte, 100> got;
    if (!store->restore(store->head(), "w", got).ok() || got != bytes) std::abort();
  }
  if (head != 0 && store->snapshots().count(head) != 0) (void)store->set_head(head);
  (void)store->prune({.keep_last = 2});
  (void)store->compact();
  read_all(*store);
  return 0;
}
