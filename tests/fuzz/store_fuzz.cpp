// A checkpoint store of anything (mutate/store_input.h): opened, read through, gone on with. Checksums of headers and
// frames are made right, so that what they would hide is reached.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "runtime/checkpoint/store.h"
#include "tests/fuzz/mutate/mutate.h"
#include "tests/fuzz/mutate/store_input.h"
#include "tests/support/files/power_files.h"

namespace {

using namespace graft;
using namespace graft::checkpoint;
using namespace graft::fuzz;
using test::PowerFiles;

void mend(FileKind kind, std::string& bytes) {
  if (bytes.size() < kHeaderBytes) return;
  const auto field = [&](std::size_t i) { return number_at<std::uint64_t>(bytes, 16 + 8 * i); };
  const bool whole = kind == FileKind::root || kind == FileKind::snapshot;
  const std::string_view body = std::string_view(bytes).substr(whole ? kHeaderBytes : bytes.size());
  const auto header = write_header({kind, 77, field(0), field(1), field(2), field(3)}, std::as_bytes(std::span(body)));
  std::memcpy(bytes.data(), header.data(), header.size());
  if (kind != FileKind::journal) return;
  Hash128 chain = header_checksum(header);
  std::size_t at = kHeaderBytes;
  for (const std::string& frame : frames_of(bytes)) {
    const auto all = std::as_bytes(std::span(frame));
    const auto start = write_frame(all.first(16), all.subspan(kFrameHeaderBytes), chain);
    std::memcpy(bytes.data() + at, start.data(), start.size());
    std::memcpy(&chain.low, start.data() + 16, 8);
    std::memcpy(&chain.high, start.data() + 24, 8);
    at += frame.size();
  }
}

PowerFiles::Image image_of(std::string_view input) {
  PowerFiles::Image image;
  for (StoreFile& file : parse_store(input)) {
    if (file.sealed()) mend(file.kind(), file.bytes);
    const auto bytes = std::as_bytes(std::span(file.bytes));
    image["s/" + file_name(file.kind(), file.number)] = {bytes.begin(), bytes.end()};
  }
  return image;
}

void read_all(const Store& store) {
  (void)store.verify();
  for (const auto& [number, manifest] : store.snapshots()) {
    (void)store.sizes().at(number);
    (void)store.diff(number, store.snapshots().begin()->first);
    for (const Stream& stream : *manifest.streams) {
      const auto bytes = store.restore(number, stream.name, std::uint64_t{1} << 20, stream.worker);
      if (bytes.ok() && bytes->size() != stream.bytes) std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto image = image_of({reinterpret_cast<const char*>(data), size});
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

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return mutate_with(mutate_store, data, size, max_size, seed);
}
