// Runs a fuzz target over the files of a folder: each as it is, and changed by the target's own mutator.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" {
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size, unsigned seed);

// libFuzzer's part: here a flipped bit.
std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size) {
  if (size == 0 && max_size > 0) data[size++] = 'a';
  if (size > 0) data[size / 2] ^= 1;
  return size;
}
}

namespace {

constexpr unsigned kChanges = 5;  // of each seed: fuzzers do the rest
constexpr std::size_t kRoom = 4096;

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 || !std::filesystem::is_directory(argv[1])) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  std::size_t count = 0, changed = 0;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    std::ifstream file(entry.path(), std::ios::binary);
    std::vector<char> seed(std::istreambuf_iterator<char>(file), {});
    std::vector<std::uint8_t> bytes(seed.begin(), seed.end());
    std::printf("%s\n", entry.path().filename().c_str());  // the last line names the culprit of a crash
    std::fflush(stdout);
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    ++count;
    for (unsigned change = 0; change < kChanges; ++change) {
      std::vector<std::uint8_t> input = bytes;
      input.resize(bytes.size() + kRoom);
      input.resize(LLVMFuzzerCustomMutator(input.data(), bytes.size(), input.size(), change));
      changed += input != bytes ? 1 : 0;
      LLVMFuzzerTestOneInput(input.data(), input.size());
    }
  }
  std::printf("%zu seeds, %zu changes\n", count, changed);
  return count == 0 || changed == 0 ? 1
                                    : 0;  // a corpus that went missing must not pass, nor a mutator that does nothing
}
