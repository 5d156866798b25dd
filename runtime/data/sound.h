// Sounds as numbers: another rate, and log-mel spectra. On the host, in double precision and in one order, so that the
// same file gives the same bits in every run.
#pragma once

#include <cstdint>
#include <vector>

#include "platform/base/status.h"

namespace graft::data {

/// How many samples a sound has at another rate.
std::uint64_t resampled_count(std::uint64_t samples, std::uint32_t from, std::uint32_t to);
/// At another rate, by a windowed sinc of six zero crossings a side (Hann), as torchaudio.functional.resample has it;
/// the first `most` samples of it.
std::vector<float> resampled(const std::vector<float>& in, std::uint32_t from, std::uint32_t to, std::uint64_t most);

struct MelOptions {
  std::uint64_t bands = 40;
  std::uint64_t window = 256;  ///< samples of a Hann window
  std::uint64_t hop = 128;
  std::uint64_t fft = 0;  ///< points, a power of two; 0: the least that holds the window
  double low = 0;         ///< Hz
  double high = 0;        ///< 0: half the rate
};

/// log(energy + 1e-6) of triangular bands, evenly spaced on HTK's mel scale, of the power spectrum; windows are not
/// centred: frame t holds samples [t hop, t hop + window).
class LogMel {
 public:
  /// Errors name the option.
  static Result<LogMel> create(const MelOptions& options, std::uint32_t rate);
  /// Of so many samples; 0 where there are fewer than a window.
  std::uint64_t frames(std::uint64_t samples) const;
  /// [bands, frames].
  std::vector<float> of(const std::vector<float>& samples) const;

 private:
  void transform(std::vector<double>& re, std::vector<double>& im) const;

  MelOptions options_;
  std::vector<double> window_, cosine_, sine_;
  struct Band {
    std::size_t first = 0;
    std::vector<double> weights;
  };
  std::vector<Band> bands_;
};

}  // namespace graft::data
