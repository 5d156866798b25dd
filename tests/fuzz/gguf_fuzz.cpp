// Language models in GGUF files: metadata, tokenizer, tensors, the graph that is made of them.
#include <cstdint>

#include "tools/convert/language_model/convert_decoder.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto converted = graft::convert::convert_gguf(bytes, "a.gguf");
  // What converts must be a model that can be saved.
  if (converted.ok() && !graft::validate(converted->model).ok()) __builtin_trap();
  return 0;
}
