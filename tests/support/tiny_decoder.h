// A small decoder-only language model, and token data for it.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/model/model.h"
#include "tests/support/tiny_training.h"

namespace graft::test {

struct TinyDecoder {
  std::int64_t width = 32;
  std::int64_t inner = 64;
  std::int64_t layers = 2;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 2;
  std::int64_t vocabulary = 40;
  bool tied = true;
  bool learned_positions = false;  ///< for 16 tokens, instead of rotary ones
};

/// tokens i32 [batch, seq] -> logits [batch, seq, vocabulary]; parameters under the names of Hugging Face's Llama.
TinyModel tiny_llama(const TinyDecoder& spec);

/// The same as a model; linear layers' weights become constants of `dtype`, or of f32 with the numbers that blocks of
/// `dtype` stand for.
Model quantized_model(const TinyModel& source, DType dtype, bool dequantized);
/// The same as a model, weights as they are.
Model plain_model(const TinyModel& source);

/// Random tokens, and as labels the next ones, some of which do not count (-100).
struct TokenData {
  std::vector<data::Field> fields;
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> labels;
  std::uint64_t samples = 0;
  std::unique_ptr<data::Source> source() const;
};
TokenData token_data(std::uint64_t samples, std::int64_t length, std::int32_t vocabulary, std::uint64_t seed = 1);

}  // namespace graft::test
