// Delta files. What is read is averaged, put on a model and written again.
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "runtime/delta/average.h"
#include "runtime/delta/delta_file.h"
#include "runtime/delta/server.h"
#include "tests/fuzz/follow.h"
#include "tests/fuzz/mutate/mutate.h"

namespace {

using namespace graft::fuzz;

constexpr std::size_t kHeader = 64;

/// The header's size and checksum made right for the root.
void reseal(std::string& file) {
  const std::uint64_t size = file.size() - kHeader;
  const graft::Hash128 hash = graft::hash128(std::as_bytes(std::span(file)).subspan(kHeader));
  std::memcpy(&file[8], &size, 8);
  std::memcpy(&file[16], &hash, 16);
}

/// Fields of a delta that can be read, or bytes of its root.
std::string mutate_delta(std::string_view input, Random& random) {
  if (input.size() <= kHeader) return {};
  auto read = graft::delta::from_bytes(std::as_bytes(std::span(input)), "d");
  if (read.ok() && !read->tensors.empty() && random.one_in(2)) {
    graft::delta::Tensor& tensor = random.pick(read->tensors);
    switch (random.below(6)) {
      case 0: tensor.name = odd_text(random); break;
      case 1: read->samples = extreme_integer(random, read->samples); break;
      case 2: read->fixed_bits = static_cast<std::uint32_t>(extreme_integer(random)); break;
      case 3: read->metadata[odd_text(random)] = odd_text(random); break;
      case 4: read->norm = extreme_number(random); break;
      default:
        if (!tensor.coded.empty()) random.pick(tensor.coded) ^= static_cast<std::byte>(1 << random.below(8));
    }
    const auto bytes = graft::delta::to_bytes(*read);
    if (bytes.ok()) return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
  }
  std::string root(input.substr(kHeader));
  change_bytes(root, random);
  std::string file = std::string(input.substr(0, kHeader)) + root;
  reseal(file);
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto delta = graft::delta::from_bytes(std::as_bytes(std::span(data, size)), "d");
  if (!delta.ok()) {
    check_refusal(delta.status());
    return 0;
  }
  const auto bytes = graft::delta::to_bytes(*delta);
  check(bytes.ok() && graft::delta::from_bytes(*bytes, "d").ok());
  graft::delta::Averager averager({});
  if (averager.add(*delta).ok() && averager.add(*delta).ok()) {
    const auto average = averager.finish();
    check(average.ok());
    graft::delta::Server server({.kind = graft::delta::ServerKind::fedadam});
    (void)server.step(*average, {});
  }
  (void)graft::delta::average_products({*delta}, 1, graft::delta::Weighing::samples);
  graft::delta::Server server({});
  (void)server.restore(*bytes, "d");
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return mutate_with(mutate_delta, data, size, max_size, seed);
}
