// One stored chunk of anything: decoded by any codec, and coded and decoded again. The input is a byte each for codec,
// compression and the logarithm of the elements' width, two for the decoded size, and the stored bytes, which also
// serve as the parent.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "runtime/checkpoint/codec.h"
#include "tests/fuzz/mutate/mutate.h"

using namespace graft::checkpoint;

namespace {

// zstd frames that are changed rarely stay whole: the stored bytes of those are left alone, and all around them
// changes.
std::string mutate_chunk(std::string_view input, graft::fuzz::Random& random) {
  if (input.size() < 6) return {};
  std::string out(input);
  const bool frame = input[1] % 2 != 0;
  if (random.one_in(frame ? 2 : 4)) {
    out[random.below(5)] = static_cast<char>(random.next());
  } else {
    std::string stored = out.substr(5);
    graft::fuzz::change_bytes(stored, random);
    out = out.substr(0, 5) + stored;
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 6) return 0;
  const auto codec = static_cast<Codec>(data[0] % 5);
  const auto compression = static_cast<Compression>(data[1] % 2);
  const std::size_t width = std::size_t{1} << (data[2] % 3);
  const std::size_t decoded = 1 + (data[3] | static_cast<std::size_t>(data[4]) << 8);
  const auto stored = std::as_bytes(std::span(data, size)).subspan(5);
  std::vector<std::byte> parent(decoded), out(decoded);
  for (std::size_t i = 0; i < decoded; ++i) parent[i] = stored[i % stored.size()];
  ChunkDecoder decoder;
  if (suits(codec, width)) (void)decoder.decode(codec, compression, width, stored, parent, out);

  const auto before = std::span<const std::byte>(parent).first(std::min(decoded, stored.size()));
  std::vector<std::byte> bytes(stored.begin(), stored.begin() + static_cast<std::ptrdiff_t>(before.size()));
  bytes[bytes.size() / 2] ^= static_cast<std::byte>(data[3]);
  ChunkEncoder encoder;
  const auto encoded = encoder.encode(bytes, before, width, width > 1, 1);
  out.resize(bytes.size());
  if (!encoded.ok() || !decoder.decode(encoded->codec, encoded->compression, width, encoded->bytes, before, out).ok() ||
      out != bytes) {
    std::abort();
  }
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return graft::fuzz::mutate_with(mutate_chunk, data, size, max_size, seed);
}
