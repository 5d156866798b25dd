// What snapshots of real trainings cost: bytes against the raw state and against zstd -3, and MB/s of one core.
//
//   checkpoint_bench STATES [LEVEL]
//
// STATES is what tests/bench/training_states.py writes. For every training and gap, its states are put into a store in
// memory one after another; the first, which is whole, is not counted. Times are the processor's, so that other work on
// the machine counts for little.
#include <zstd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "runtime/checkpoint/store.h"
#include "tests/support/files/power_files.h"

namespace graft::test {
namespace {

using namespace checkpoint;
using Bytes = std::vector<std::byte>;

struct Tensor {
  std::string name;
  Element element;
  Bytes bytes;
};

struct Sums {
  double raw = 0, stored = 0, tables = 0, plain = 0, put_seconds = 0, plain_seconds = 0, restore_seconds = 0;
  std::size_t codecs[5] = {};
};

class Stopwatch {
 public:
  double seconds() const { return static_cast<double>(std::clock() - start_) / CLOCKS_PER_SEC; }

 private:
  std::clock_t start_ = std::clock();
};

std::vector<std::filesystem::path> sorted(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::vector<Tensor> read_state(const std::filesystem::path& folder) {
  std::vector<Tensor> tensors;
  for (const auto& path : sorted(folder)) {
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
    const std::string name = path.filename().string();
    const auto span = std::as_bytes(std::span(bytes));
    tensors.push_back({name, name.starts_with("bf16.") ? Element::bf16 : Element::f32, {span.begin(), span.end()}});
  }
  return tensors;
}

double zstd3(const std::vector<Tensor>& tensors) {
  double bytes = 0;
  Bytes out;
  for (const Tensor& tensor : tensors) {
    out.resize(ZSTD_compressBound(tensor.bytes.size()));
    bytes += static_cast<double>(ZSTD_compress(out.data(), out.size(), tensor.bytes.data(), tensor.bytes.size(), 3));
  }
  return bytes;
}

void restore_all(const Store& store, Sums& sums) {
  const Stopwatch watch;
  for (const Stream& stream : *store.snapshots().at(store.head()).streams) {
    GRAFT_CHECK(store.restore(store.head(), stream.name, stream.bytes).ok());
  }
  sums.restore_seconds += watch.seconds();
}

Sums measure(const std::filesystem::path& folder, int level) {
  Sums sums;
  PowerFiles files;
  auto store = Store::open(files, "s", {.mode = StoreMode::create, .zstd_level = level});
  GRAFT_CHECK(store.ok());
  for (const auto& path : sorted(folder)) {
    const std::vector<Tensor> tensors = read_state(path);
    std::vector<StreamInput> streams;
    for (const Tensor& tensor : tensors) {
      streams.push_back({tensor.name, StreamKind::parameter, tensor.element, tensor.bytes});
    }
    const bool first = store->head() == 0;
    const Stopwatch watch;
    const auto report = store->put_snapshot(streams, {});
    const double seconds = watch.seconds();
    GRAFT_CHECK(report.ok());
    if (first) continue;
    sums.put_seconds += seconds;
    const Stopwatch plain;
    sums.plain += zstd3(tensors);
    sums.plain_seconds += plain.seconds();
    sums.raw += static_cast<double>(report->raw_bytes);
    sums.stored += static_cast<double>(report->stored_bytes);
    for (const Chunk& chunk : store->snapshots().at(store->head()).chunks) {
      if (chunk.segment == store->head()) ++sums.codecs[static_cast<std::size_t>(chunk.codec)];
    }
    restore_all(*store, sums);
  }
  return sums;
}

int run(const std::filesystem::path& states, int level) {
  std::printf("%-24s %5s %9s %9s %7s %7s | %6s %6s %6s | plain/planes/delta/xor/sparse\n", "training", "steps",
              "raw KiB", "KiB", "ratio", "zstd -3", "put", "read", "zstd");
  for (const auto& training : sorted(states)) {
    auto gaps = sorted(training);
    std::sort(gaps.begin(), gaps.end(), [](const auto& a, const auto& b) {
      return std::stoi(a.filename().string()) < std::stoi(b.filename().string());
    });
    for (const auto& gap : gaps) {
      const Sums sums = measure(gap, level);
      const auto states_counted = static_cast<double>(sorted(gap).size() - 1);
      std::printf("%-24s %5s %9.1f %9.1f %6.2fx %6.2fx | %6.0f %6.0f %6.0f | %zu/%zu/%zu/%zu/%zu\n",
                  training.filename().c_str(), gap.filename().c_str(), sums.raw / 1024 / states_counted,
                  sums.stored / 1024 / states_counted, sums.raw / sums.stored, sums.raw / sums.plain,
                  sums.raw / sums.put_seconds * 1e-6, sums.raw / sums.restore_seconds * 1e-6,
                  sums.raw / sums.plain_seconds * 1e-6, sums.codecs[0], sums.codecs[1], sums.codecs[2], sums.codecs[3],
                  sums.codecs[4]);
      std::fflush(stdout);
    }
  }
  return 0;
}

}  // namespace
}  // namespace graft::test

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: checkpoint_bench STATES [LEVEL]\n");
    return 2;
  }
  return graft::test::run(argv[1], argc == 3 ? std::atoi(argv[2]) : 1);
}
