// Language models in GGUF files: metadata, tokenizer, tensors, the graph that is made of them, and its plan.
#include <cstdint>

#include "runtime/text/tokenizer/vocabulary_bytes.h"
#include "tests/fuzz/follow.h"
#include "tests/fuzz/mutate/mutate.h"
#include "tools/convert/language_model/convert_decoder.h"

using namespace graft::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto converted = graft::convert::convert_gguf(bytes, "a.gguf");
  if (!converted.ok()) {
    check_refusal(converted.status());
    return 0;
  }
  // What converts must be a model that can be saved.
  check(graft::validate(converted->model).ok());
  follow_model_far(converted->model);
  if (const auto& tokenizer = converted->model.tokenizer; tokenizer) {
    const auto vocabulary = graft::text::vocabulary_from_bytes(std::as_bytes(std::span(tokenizer->bytes)));
    check(vocabulary.ok());
    follow_vocabulary(*vocabulary);
  }
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return mutate_with(mutate_gguf, data, size, max_size, seed);
}
