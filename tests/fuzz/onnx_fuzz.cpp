// The ONNX importer on anything: a file either converts to a valid graph or gets one sentence.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "tools/convert/onnx/convert_onnx.h"

namespace {

void check(bool condition) {
  if (!condition) std::abort();
}

void check_sentence(const graft::Status& status) {
  check(status.code() != graft::Code::internal);
  check(status.message().ends_with('.'));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // A small limit: what an honest file of this size needs, many times over.
  const graft::convert::LoadLimits limits{.max_file_bytes = 1 << 20, .max_tensor_bytes = 1 << 22};
  auto parsed = graft::convert::parse_onnx(std::as_bytes(std::span(data, size)), {}, limits);
  if (!parsed.ok()) {
    check_sentence(parsed.status());
    return 0;
  }
  const auto converted = graft::convert::convert_onnx(std::move(parsed).value(), "fuzz.onnx");
  if (converted.ok()) {
    check(graft::validate(converted->model.graph).ok());
  } else {
    check_sentence(converted.status());
  }
  return 0;
}
