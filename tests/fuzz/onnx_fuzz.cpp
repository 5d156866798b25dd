// The ONNX importer on anything: a file either converts to a valid graph, which is then planned, or gets one sentence.
#include <cstdint>
#include <span>

#include "tests/fuzz/follow.h"
#include "tests/fuzz/mutate/mutate.h"
#include "tools/convert/onnx/import/convert_onnx.h"

using namespace graft::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // A small limit: what an honest file of this size needs, many times over.
  const graft::convert::LoadLimits limits{.max_file_bytes = 1 << 20, .max_tensor_bytes = 1 << 22};
  auto parsed = graft::convert::parse_onnx(std::as_bytes(std::span(data, size)), {}, limits);
  if (!parsed.ok()) {
    check_refusal(parsed.status());
    return 0;
  }
  const auto converted = graft::convert::convert_onnx(std::move(parsed).value(), "fuzz.onnx");
  if (converted.ok()) {
    check(graft::validate(converted->model.graph).ok());
    follow_model_far(converted->model);
  } else {
    check_refusal(converted.status());
  }
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return mutate_with(mutate_protobuf, data, size, max_size, seed);
}
