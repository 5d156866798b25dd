// The built-in data set: handwritten-looking digits, drawn in code.
//
// Each sample is a pen stroke drawing of a digit 0 to 9 on 28 x 28 pixels, with random proportions, slant, wobble, pen
// width and noise. Sample i of a seed and split is a pure function of (seed, split, i) in IEEE arithmetic, without the
// system's math library, so every machine draws the same bytes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "runtime/data/source.h"

namespace graft::data {

struct DigitsOptions {
  std::uint64_t count = 10000;
  std::uint64_t seed = 0;
  bool test = false;  ///< the test split shares no sample with the training split
  int classes = 10;   ///< only the digits below this one
};

inline constexpr int kDigitSide = 28;
inline constexpr std::size_t kDigitPixels = std::size_t{kDigitSide} * kDigitSide;
using DigitImage = std::array<std::uint8_t, kDigitPixels>;

/// Draws sample `index`; returns its label. Each run of `classes` samples holds each digit once.
int draw_digit(const DigitsOptions& options, std::uint64_t index, DigitImage& image);

/// Fields: image f32 [1, 28, 28] in [0, 1], ink is 1; label i32 [].
Result<std::unique_ptr<Source>> open_digits(const DigitsOptions& options);

}  // namespace graft::data
