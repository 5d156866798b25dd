// NpyReader on anything: the header, then every element that it promises.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "runtime/data/npy.h"
#include "tests/fuzz/mutate/mutate.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto reader = graft::data::NpyReader::from_bytes({reinterpret_cast<const std::byte*>(data), size}, "a.npy");
  if (!reader.ok()) return 0;
  // The header was checked against the data, so that the elements are as many as the input has bytes at most.
  if (reader->elements() > size) std::abort();
  std::vector<std::byte> out(reader->elements() * 4);
  (void)reader->read(0, reader->elements(), out);
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return graft::fuzz::mutate_with(graft::fuzz::mutate_npy, data, size, max_size, seed);
}
