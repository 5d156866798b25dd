// What graft remembers about a device: lines behind the head and before the checksum of the file of a made-up device,
// both of which are right. The first byte says otherwise where it is '!': then the input is the whole file.
#include <algorithm>
#include <cstdint>

#include "platform/base/hash.h"
#include "runtime/self_test/device_profile.h"
#include "tests/fuzz/follow.h"
#include "tests/fuzz/mutate/mutate.h"
#include "tests/support/letter_model.h"
#include "tests/support/files/power_files.h"

namespace {

using namespace graft::fuzz;
using graft::test::PowerFiles;

const graft::gpu::Caps& caps() {
  static const graft::gpu::Caps made{.device_name = "fuzzed"};
  return made;
}

/// Path and text of a profile that knows nothing.
const std::pair<std::string, std::string>& empty_profile() {
  static const std::pair<std::string, std::string> made = [] {
    PowerFiles files;
    const auto profile = graft::DeviceProfile::open(files, "cache", caps());
    profile->save();
    const auto contents = files.contents();
    const auto& bytes = contents.at(profile->path());
    return std::pair(profile->path(), std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }();
  return made;
}

std::string file_of(std::string_view input) {
  if (input.starts_with('!')) return std::string(input.substr(1));
  const std::string& empty = empty_profile().second;
  const std::size_t end = empty.rfind("checksum ");
  const std::string text = empty.substr(0, end) + std::string(input);
  return text + "checksum " + graft::hash_text(graft::hash128(std::as_bytes(std::span(text)))) + "\n";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = file_of({reinterpret_cast<const char*>(data), size});
  const auto bytes = std::as_bytes(std::span(text));
  PowerFiles files(PowerFiles::Image{{empty_profile().first, {bytes.begin(), bytes.end()}}});
  const auto profile = graft::DeviceProfile::open(files, "cache", caps());
  profile->begin_probe({"matmul__f32"});
  profile->fail("matmul__f32", "a line\nand another");
  profile->save();
  // What it writes, it reads.
  const auto again = graft::DeviceProfile::open(files, "other", caps());
  again->adopt_verdicts(*profile);
  check(again->failed().contains("matmul__f32"));
  static const graft::Model model = graft::test::letter_model({.layers = 1, .tokenizer = false});
  follow_model(model, {.caps = caps(), .advice = profile->advice()});
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return mutate_with(mutate_lines, data, size, max_size, seed);
}
