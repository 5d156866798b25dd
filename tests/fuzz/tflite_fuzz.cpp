// The TensorFlow Lite importer on anything: a file either converts to a valid graph, which is then planned, or gets one
// sentence.
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "tests/fuzz/follow.h"
#include "tests/fuzz/mutate/mutate.h"
#include "tools/convert/tflite/convert_tflite.h"

using namespace graft::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Aligned, as files and mappings are.
  std::vector<std::uint64_t> aligned((size + 7) / 8);
  if (size > 0) std::memcpy(aligned.data(), data, size);
  auto graph = graft::convert::read_tflite(std::as_bytes(std::span(aligned)).first(size), {.keep_grid = size % 2 == 0});
  if (!graph.ok()) {
    check_refusal(graph.status());
    return 0;
  }
  const auto converted = graft::convert::convert_onnx(std::move(graph).value(), "fuzz.tflite");
  if (converted.ok()) {
    check(graft::validate(converted->model.graph).ok());
    follow_model(converted->model);
  } else {
    check_refusal(converted.status());
  }
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  const auto changed = [](std::string_view input, Random& random) {
    std::string bytes(input);
    for (std::size_t i = 1 + random.below(3); i-- > 0;) {  // in place: offsets lead on
      if (bytes.size() < 4) break;
      const std::size_t at = random.below(bytes.size() - 3);
      const std::uint64_t value = extreme_integer(random, number_at<std::uint32_t>(bytes, at));
      for (std::size_t k = 0; k < 1 + random.below(4); ++k) bytes[at + k] = static_cast<char>(value >> (8 * k));
    }
    return bytes;
  };
  return mutate_with(changed, data, size, max_size, seed);
}
