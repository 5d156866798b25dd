#include "tests/fuzz/mutate/mutate.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

// libFuzzer's own changes; tests/fuzz/replay_main.cpp has one for programs without libFuzzer.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace graft::fuzz {

std::uint64_t Random::next() {
  std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

std::uint64_t extreme_integer(Random& random, std::uint64_t near) {
  switch (random.below(6)) {
    case 0: return random.below(5);
    case 1: return near + random.below(5) - 2;
    case 2: return (std::uint64_t{1} << random.below(64)) + random.below(3) - 1;
    case 3: return ~std::uint64_t{0} - random.below(70);
    case 4: return near * (2 + random.below(3));
    default: return random.next() >> random.below(64);
  }
}

double extreme_number(Random& random) {
  using Limits = std::numeric_limits<double>;
  constexpr std::array<double, 14> kNumbers = {0.0,
                                               -0.0,
                                               1.0,
                                               -1.0,
                                               0.5,
                                               1e-45,
                                               3.4028236e38,
                                               1e300,
                                               -1e300,
                                               Limits::infinity(),
                                               -Limits::infinity(),
                                               Limits::quiet_NaN(),
                                               Limits::denorm_min(),
                                               1e-8};
  if (random.one_in(3)) return static_cast<double>(static_cast<std::int64_t>(extreme_integer(random)));
  return kNumbers[random.below(kNumbers.size())];
}

std::string odd_text(Random& random) {
  switch (random.below(8)) {
    case 0: return {};
    case 1: return std::string(1 + random.below(3000), 'a');
    case 2: return std::string("a\0b", 3);
    case 3: return "\xff\xfe\xc3";
    case 4: return "\"\\\n\t{}[]";
    case 5: return "../../etc/passwd";
    case 6: return "batch*batch*seq";
    default: return std::to_string(extreme_integer(random));
  }
}

void change_bytes(std::string& bytes, Random& random) {
  if (bytes.empty()) {
    bytes.assign(1 + random.below(64), static_cast<char>(random.next()));
    return;
  }
  const std::size_t at = random.below(bytes.size());
  const std::size_t count = 1 + random.below(std::min<std::size_t>(bytes.size() - at, 64));
  switch (random.below(6)) {
    case 0: bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.below(8))); break;
    case 1: {
      const std::size_t width = std::min(bytes.size() - at, std::size_t{1} << random.below(4));
      const std::uint64_t value = extreme_integer(random);
      for (std::size_t i = 0; i < width; ++i) bytes[at + i] = static_cast<char>(value >> (8 * i));
      break;
    }
    case 2: bytes.erase(at, count); break;
    case 3: bytes.insert(random.below(bytes.size()), bytes.substr(at, count)); break;
    case 4: std::rotate(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(at), bytes.end()); break;
    default: {
      const std::size_t other = random.below(bytes.size());
      for (std::size_t i = 0; i < count && other + i < bytes.size(); ++i) std::swap(bytes[at + i], bytes[other + i]);
    }
  }
}

std::size_t mutate_with(Mutate mutate, std::uint8_t* data, std::size_t size, std::size_t max_size, unsigned seed) {
  Random random(seed);
  if (!random.one_in(8)) {
    const std::string changed = mutate({reinterpret_cast<const char*>(data), size}, random);
    if (!changed.empty() && changed.size() <= max_size) {
      std::memcpy(data, changed.data(), changed.size());
      return changed.size();
    }
  }
  return LLVMFuzzerMutate(data, size, max_size);
}

}  // namespace graft::fuzz
