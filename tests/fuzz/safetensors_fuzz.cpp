// safetensors files: the header, then every number that it promises.
#include <cstdint>

#include "tests/fuzz/mutate/mutate.h"
#include "tools/convert/huggingface/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  graft::convert::SourceTensors tensors;
  std::vector<std::string> skipped;
  const auto status = graft::convert::read_safetensors(std::as_bytes(std::span(data, size)), tensors, skipped);
  if (!status.ok()) return 0;
  for (const auto& [name, tensor] : tensors.by_name) (void)graft::convert::to_f32(tensor, name);
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return graft::fuzz::mutate_with(graft::fuzz::mutate_safetensors, data, size, max_size, seed);
}
