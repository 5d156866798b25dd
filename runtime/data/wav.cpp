// wav:DIR: recordings as a data set, as samples of one rate and length or as log-mel spectra of them.
#include <algorithm>
#include <cstring>
#include <optional>

#include "runtime/data/csv_reader.h"
#include "runtime/data/file_list.h"
#include "runtime/data/random.h"
#include "runtime/data/sound.h"

namespace graft::data {
namespace {

constexpr std::uint64_t kMaxSoundBytes = 1ull << 30;
constexpr std::uint64_t kShift = 0x73686966;  // told apart from other draws

struct WavOptions {
  std::uint32_t rate = 0;
  std::uint64_t length = 0;  ///< samples at that rate
  std::optional<LogMel> mel;
  std::uint64_t bands = 0;
  bool frames_first = false;
  std::string lengths;      ///< an input that gets how much is no padding; empty: none
  std::uint64_t shift = 0;  ///< samples by which a recording is moved at random, at most
  double mean = 0, std = 1;
};

class WavSource final : public FileSource {
 public:
  WavSource(FileList list, WavOptions options, const FileOptions& files)
      : FileSource(std::move(list)), options_(std::move(options)), files_(files) {
    const auto length = static_cast<std::int64_t>(options_.length);
    Shape shape{length};
    if (options_.mel) {
      const auto frames = static_cast<std::int64_t>(options_.mel->frames(options_.length));
      const auto bands = static_cast<std::int64_t>(options_.bands);
      shape = options_.frames_first ? Shape{frames, bands} : Shape{bands, frames};
    }
    fields_.push_back({"sound", DType::f32, std::move(shape), Role::feature});
    if (!options_.lengths.empty()) fields_.push_back({options_.lengths, DType::i32, Shape{}, Role::feature, true, {}});
    fields_.push_back(label_field(list_));
  }
  bool draws_by_number() const override { return options_.shift > 0; }

  Result<bool> read(std::uint64_t& position, SampleOut out) override {
    if (position >= list_.items.size()) return false;
    const FileList::Item& item = list_.items[position];
    GRAFT_TRY_ASSIGN(std::vector<float> samples, load(item.path));
    const std::uint64_t whole = std::min<std::uint64_t>(samples.size(), options_.length);
    place(position, samples);
    if (!options_.lengths.empty()) {
      const auto length = static_cast<std::int32_t>(options_.mel ? options_.mel->frames(whole) : whole);
      std::memcpy(out[1], &length, 4);
    }
    if (options_.mel) samples = spectrum(samples);
    for (float& value : samples) value = static_cast<float>((value - options_.mean) / options_.std);
    std::memcpy(out[0], samples.data(), 4 * samples.size());
    store_label(list_, item, out[fields_.size() - 1]);
    ++position;
    return true;
  }

 private:
  Result<std::vector<float>> load(const std::string& path) const {
    GRAFT_TRY_ASSIGN(const HostBuffer file, os::read_file(*files_.files, path, kMaxSoundBytes, files_.allocator));
    auto sound = files_.codecs->decode_sound(file.bytes(), {});
    if (!sound.ok()) return error(sound.status().code(), "\"", path, "\" ", sound.status().message());
    return resampled(sound->samples, sound->rate, options_.rate, options_.length + options_.shift);
  }

  /// Cut or padded with silence behind; moved where that is asked for.
  void place(std::uint64_t position, std::vector<float>& samples) const {
    if (options_.shift > 0) {
      Random random(mix(key_, position, kShift));
      const auto by =
          static_cast<std::int64_t>(random.below(2 * options_.shift + 1)) - static_cast<std::int64_t>(options_.shift);
      if (by > 0) samples.insert(samples.begin(), static_cast<std::size_t>(by), 0.0f);
      if (by < 0) samples.erase(samples.begin(), samples.begin() + std::min<std::ptrdiff_t>(-by, std::ssize(samples)));
    }
    samples.resize(options_.length);
  }

  std::vector<float> spectrum(const std::vector<float>& samples) const {
    std::vector<float> bands_first = options_.mel->of(samples);
    if (!options_.frames_first) return bands_first;
    const std::size_t frames = bands_first.size() / options_.bands;
    std::vector<float> out(bands_first.size());
    for (std::size_t b = 0; b < options_.bands; ++b) {
      for (std::size_t t = 0; t < frames; ++t) out[t * options_.bands + b] = bands_first[b * frames + t];
    }
    return out;
  }

  WavOptions options_;
  FileOptions files_;
};

/// "mel=40,window=256,hop=128,fft=512,low=0,high=4000".
Status read_mel(const std::string& text, std::uint32_t rate, WavOptions& out) {
  MelOptions mel;
  const auto parts = split(text, ',');
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto [name, value] = i == 0 ? NamedValue{"mel", parts[0]} : named_value(parts[i]);
    double number = 0;
    if (!parse_number(value, number) || number < 0 || number > 65536) {
      return invalid("Option mel=", text, " is written mel=BANDS,window=SAMPLES,hop=SAMPLES, and holds \"", parts[i],
                     "\".");
    }
    const auto whole = static_cast<std::uint64_t>(number);
    if (name == "mel")
      mel.bands = whole;
    else if (name == "window")
      mel.window = whole;
    else if (name == "hop")
      mel.hop = whole;
    else if (name == "fft")
      mel.fft = whole;
    else if (name == "low")
      mel.low = number;
    else if (name == "high")
      mel.high = number;
    else
      return invalid("Option mel has no \"", name, "\"; it has window, hop, fft, low and high.");
  }
  if (mel.bands == 0 || mel.bands > 4096 || mel.window == 0 || mel.hop == 0) {
    return invalid("Option mel=", text, " needs 1 to 4096 bands, and a window and a hop of at least one sample.");
  }
  out.bands = mel.bands;
  GRAFT_TRY_ASSIGN(out.mel, LogMel::create(mel, rate));
  if (out.mel->frames(out.length) > 0) return {};
  return invalid("Samples of length=", out.length, " do not fill one window of ", mel.window, ".");
}

/// A model whose input ends in [.., frames, bands] wants them so.
bool wants_frames_first(const Hints& hints, const WavOptions& options) {
  const auto frames = static_cast<std::int64_t>(options.mel->frames(options.length));
  const auto bands = static_cast<std::int64_t>(options.bands);
  for (const ModelInput& input : hints.inputs) {
    if (input.dims.size() < 2) continue;
    const std::int64_t before = input.dims[input.dims.size() - 2], last = input.dims.back();
    return last == bands && before != bands && (before == frames || before == -1);
  }
  return false;
}

/// Rate and length of the first recording, where the spec does not say.
Status look_at_first(const FileList& list, const FileOptions& files, WavOptions& out) {
  if (out.rate != 0 && out.length != 0) return {};
  const std::string& path = list.items.front().path;
  GRAFT_TRY_ASSIGN(const HostBuffer file, os::read_file(*files.files, path, kMaxSoundBytes, files.allocator));
  auto sound = files.codecs->decode_sound(file.bytes(), {});
  if (!sound.ok()) return error(sound.status().code(), "\"", path, "\" ", sound.status().message());
  if (out.rate == 0) out.rate = sound->rate;
  if (out.length != 0) return {};
  out.length = resampled_count(sound->samples.size(), sound->rate, out.rate);
  const std::uint64_t most = media::most_samples({}, file.size());
  if (out.length <= most) return {};
  return invalid("\"", path, "\" has ", sound->samples.size(), " samples at a rate of ", sound->rate, ", which make ",
                 out.length, " at rate=", out.rate, ", more than the limit of ", most, " for its ", file.size(),
                 " bytes; give length=SAMPLES.");
}

}  // namespace

OpenResult open_wav_spec(const Opening& o) {
  GRAFT_TRY(expect_arguments(o.spec, 1, "wav:DIR"));
  if (o.files.codecs == nullptr || o.files.codecs->sound_formats().empty()) {
    return unsupported("Sounds are read by the command line tool, or where the app gives codecs; there are none here.");
  }
  WavOptions options;
  GRAFT_TRY_ASSIGN(const std::uint64_t rate, o.options.whole("rate", 0, 100, 1 << 20));
  GRAFT_TRY_ASSIGN(options.length, o.options.whole("length", 0, 1, 1u << 26));
  GRAFT_TRY_ASSIGN(options.shift, o.options.whole("shift", 0, 0, 1u << 26));
  if (!o.hints.augment) options.shift = 0;
  options.rate = static_cast<std::uint32_t>(rate);
  options.lengths = o.options.text("lengths").value_or("");
  const auto mel = o.options.text("mel"), layout = o.options.text("layout");
  GRAFT_TRY_ASSIGN(const auto normal, o.options.numbers("normalize"));
  if (!normal.empty() && (normal.size() != 2 || !(normal[1] > 0))) {
    return invalid("Option normalize of recordings takes a mean and a deviation above 0.");
  }
  if (!normal.empty()) {
    options.mean = normal[0];
    options.std = normal[1];
  }
  GRAFT_TRY_ASSIGN(FileList list, list_files(o, o.spec.arguments[0], {".wav", ".aif", ".aiff", ".flac"}, false));
  GRAFT_TRY(look_at_first(list, o.files, options));
  if (layout && (!mel || (*layout != "bands" && *layout != "frames"))) {
    return invalid("Option layout=", *layout, " says what comes first in a spectrum (mel=): bands or frames.");
  }
  if (mel) {
    GRAFT_TRY(read_mel(*mel, options.rate, options));
    options.frames_first = layout ? *layout == "frames" : wants_frames_first(o.hints, options);
  }
  auto source = std::make_unique<WavSource>(std::move(list), std::move(options), o.files);
  GRAFT_TRY(check_fields(source->fields()));
  return std::unique_ptr<Source>(std::move(source));
}

}  // namespace graft::data
