// PyTorch's checkpoints: the archive, the pickle, then every number that it promises.
#include <cstdint>
#include <span>

#include "tests/fuzz/follow.h"
#include "tests/fuzz/mutate/mutate.h"
#include "tools/convert/pytorch/state_dict.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto dict = graft::convert::read_state_dict(std::as_bytes(std::span(data, size)));
  if (!dict.ok()) {
    graft::fuzz::check_refusal(dict.status());
    return 0;
  }
  for (const graft::convert::StateTensor& tensor : dict->tensors) (void)graft::convert::contents(tensor);
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  const auto changed = [](std::string_view input, graft::fuzz::Random& random) {
    std::string bytes(input);
    graft::fuzz::change_bytes(bytes, random);
    return bytes;
  };
  return graft::fuzz::mutate_with(changed, data, size, max_size, seed);
}
