#include <sndfile.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "platform/codecs/formats.h"

namespace graft::codecs {
namespace {

struct Reading {
  Bytes file;
  sf_count_t at = 0;
};

sf_count_t length(void* user) { return static_cast<sf_count_t>(static_cast<Reading*>(user)->file.size()); }
sf_count_t seek(sf_count_t offset, int whence, void* user) {
  auto* reading = static_cast<Reading*>(user);
  const sf_count_t size = length(user);
  const sf_count_t base = whence == SEEK_CUR ? reading->at : whence == SEEK_END ? size : 0;
  reading->at = std::clamp<sf_count_t>(offset > size - base ? size : base + offset, 0, size);
  return reading->at;
}
sf_count_t read(void* out, sf_count_t count, void* user) {
  auto* reading = static_cast<Reading*>(user);
  count = std::clamp<sf_count_t>(count, 0, length(user) - reading->at);
  std::memcpy(out, reading->file.data() + reading->at, static_cast<std::size_t>(count));
  reading->at += count;
  return count;
}
sf_count_t write(const void*, sf_count_t, void*) { return 0; }
sf_count_t tell(void* user) { return static_cast<Reading*>(user)->at; }

/// libsndfile takes what there is of a file that was cut off; such a recording would be another one.
Status check_whole(Bytes file) {
  if (!starts_with(file, "RIFF") || !starts_with(file, "WAVE", 8)) return ok_status();
  for (std::size_t at = 12; at + 8 <= file.size();) {
    const std::uint64_t bytes = number_at(file, at + 4, 4, false), left = file.size() - at - 8;
    const bool streamed = bytes == 0xffffffffu || bytes == 0;  // by writers that could not go back
    if (starts_with(file, "data", at)) {
      if (bytes > left && !streamed) {
        return corrupt("is damaged: it has ", left, " bytes of sound where its header says ", bytes, ".");
      }
      return ok_status();
    }
    if (bytes > left) break;
    at += 8 + bytes + bytes % 2;
  }
  return corrupt("is damaged: a WAV file without sound.");
}

}  // namespace

Result<media::Sound> decode_sound(Bytes file, const media::Limits& limits) {
  const bool known = (starts_with(file, "RIFF") && starts_with(file, "WAVE", 8)) || starts_with(file, "RF64") ||
                     starts_with(file, "FORM") || starts_with(file, "fLaC");
  if (!known) return unsupported("is no sound that this build reads: WAV, AIFF, FLAC.");
  GRAFT_TRY(check_whole(file));
  Reading reading{file};
  SF_VIRTUAL_IO io{length, seek, read, write, tell};
  SF_INFO info{};
  const std::unique_ptr<SNDFILE, int (*)(SNDFILE*)> sound(sf_open_virtual(&io, SFM_READ, &info, &reading), sf_close);
  if (!sound) {
    std::string why = sf_strerror(nullptr);
    while (!why.empty() && (why.back() == '.' || why.back() == '\n')) why.pop_back();
    return corrupt("is damaged, or its encoding is not supported: ", why, ".");
  }
  if (info.channels <= 0 || info.channels > 64 || info.samplerate <= 0 || info.samplerate > 1 << 20 ||
      info.frames <= 0) {
    return corrupt("is damaged: a sound of ", info.frames, " samples in ", info.channels, " channels at ",
                   info.samplerate, " a second.");
  }
  const auto channels = static_cast<std::uint64_t>(info.channels), frames = static_cast<std::uint64_t>(info.frames);
  const std::uint64_t most = media::most_samples(limits, file.size());
  if (frames > most / channels) {
    return invalid("has ", frames, " samples in ", channels, " channels, more than the limit of ", most,
                   most < limits.samples ? cat(" for a file of ", file.size(), " bytes.") : ".");
  }
  media::Sound out{static_cast<std::uint32_t>(info.samplerate), {}};
  out.samples.reserve(frames);
  constexpr std::uint64_t kFrames = 4096;
  std::vector<float> chunk(kFrames * channels);
  for (std::uint64_t done = 0; done < frames;) {
    const auto got = static_cast<std::uint64_t>(std::max<sf_count_t>(
        sf_readf_float(sound.get(), chunk.data(), static_cast<sf_count_t>(std::min(kFrames, frames - done))), 0));
    if (got == 0) return corrupt("is damaged: it ends after ", done, " of ", frames, " samples.");
    for (std::uint64_t i = 0; i < got; ++i) {
      double sum = 0;
      for (std::uint64_t c = 0; c < channels; ++c) sum += chunk[i * channels + c];
      if (!std::isfinite(sum)) return corrupt("is damaged: its sample ", done + i, " is no number.");
      out.samples.push_back(static_cast<float>(sum / static_cast<double>(channels)));
    }
    done += got;
  }
  return out;
}

}  // namespace graft::codecs
