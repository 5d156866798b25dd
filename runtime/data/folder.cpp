#include "runtime/data/folder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "runtime/data/draws.h"

namespace graft::data {
namespace {

constexpr std::uint64_t kMaxPictureBytes = 256ull << 20;
constexpr std::int32_t kNoClass = -100;  // what losses leave out
// Told apart from other draws for the same sample.
constexpr std::uint64_t kDraws = 0x61756764, kMixup = 0x6d697875;

std::string name_of(const std::string& path) { return cat("\"", path, "\""); }

/// What one sample's geometry is, so that a picture and its mask are turned alike.
struct Geometry {
  bool flip_columns = false, flip_rows = false;
  double across = 0.5, down = 0.5;  ///< where the window lies between its first place and its last
  double degrees = 0;
};

class FolderSource final : public FileSource {
 public:
  FolderSource(FileList list, std::vector<std::string> masks, const FolderOptions& options, Extent size,
               const media::Codecs& codecs, const FileOptions& files)
      : FileSource(std::move(list)),
        masks_(std::move(masks)),
        options_(options),
        size_(size),
        codecs_(codecs),
        files_(files) {
    Shape shape = options_.channels_last ? Shape{size.height, size.width, channels()}
                                         : Shape{channels(), size.height, size.width};
    fields_.push_back({"image", DType::f32, std::move(shape), Role::feature});
    if (!masks_.empty()) {
      fields_.push_back({"mask", DType::i32, Shape{size.height, size.width}, Role::label});
      return;
    }
    fields_.push_back(label_field(list_));
    if (options_.mixup == 0) return;
    classes_ = static_cast<std::int64_t>(list_.classes.size());
    for (const auto& item : list_.items) classes_ = std::max<std::int64_t>(classes_, item.label + 1);
    fields_[1].dtype = DType::f32;
    fields_[1].shape = Shape{classes_};
  }

  bool draws_by_number() const override {
    const Augmentation& a = options_.augment;
    return a.on && (a.flip_columns || a.flip_rows || a.random_crop || a.rotate > 0 || a.jitter.any() || a.cut_out > 0 ||
                    options_.mixup > 0);
  }

  Result<bool> read(std::uint64_t& position, SampleOut out) override {
    if (position >= list_.items.size()) return false;
    GRAFT_TRY_ASSIGN(Picture picture, sample(position, out));
    if (options_.mixup > 0) {
      GRAFT_TRY(mix_up(position, picture, out));
    } else if (masks_.empty()) {
      store_label(list_, list_.items[position], out[1]);
    }
    store(picture, out[0]);
    ++position;
    return true;
  }

 private:
  std::int64_t channels() const { return options_.gray ? 1 : 3; }

  Geometry draw(std::uint64_t position, Random& random) const {
    Geometry g;
    const Augmentation& a = options_.augment;
    if (!a.on) return g;
    random = Random(mix(key_, position, kDraws));
    // All are drawn, whatever is used: one more option does not change the others.
    g.flip_columns = (random.uniform() < 0.5) && a.flip_columns;
    g.flip_rows = (random.uniform() < 0.5) && a.flip_rows;
    const double across = random.uniform(), down = random.uniform();
    if (a.random_crop) {
      g.across = across;
      g.down = down;
    }
    g.degrees = a.rotate * random.uniform(-1, 1);
    return g;
  }

  Picture shaped(const Decoded& decoded, const Geometry& g, Sampling sampling, float fill) const {
    const Extent now = resize_of(decoded.size());
    const std::int64_t pad = options_.augment.on ? options_.augment.random_crop.value_or(0) : 0;
    const auto place = [&](std::int64_t has, std::int64_t wants, double where) {
      const std::int64_t first = -pad, places = has + 2 * pad - wants + 1;
      if (!options_.augment.on || !options_.augment.random_crop || places < 1) return (has - wants) / 2;
      return first + std::min(static_cast<std::int64_t>(where * static_cast<double>(places)), places - 1);
    };
    const std::int64_t top = place(now.height, size_.height, g.down), left = place(now.width, size_.width, g.across);
    Picture picture = now == decoded.size() ? window(decoded, top, left, size_, fill)
                                            : window(resized(decoded, now, sampling), top, left, size_, fill);
    if (g.flip_columns) flip_columns(picture);
    if (g.flip_rows) flip_rows(picture);
    return g.degrees == 0 ? picture : rotated(picture, g.degrees, sampling, fill);
  }

 public:
  /// What the options make of a picture of this size, before it is cropped.
  static Extent resize_of(Extent size, const FolderOptions& options) {
    if (options.resize) return *options.resize;
    if (options.short_side == 0) return size;
    const std::int64_t least = std::min(size.height, size.width);
    return {options.short_side * size.height / least, options.short_side * size.width / least};
  }

 private:
  Extent resize_of(Extent size) const { return resize_of(size, options_); }

  /// All bits that the file has for a pixel; a mask's are classes.
  Result<Decoded> load(const std::string& path, media::Pixels pixels) const {
    GRAFT_TRY_ASSIGN(const HostBuffer file, os::read_file(*files_.files, path, kMaxPictureBytes, files_.allocator));
    const auto decode = [&]() -> Result<media::Image> {
      GRAFT_TRY_ASSIGN(const media::ImageHeader header, codecs_.image_header(file.bytes(), options_.limits));
      if (header.bits == 16 && pixels == media::Pixels::gray) pixels = media::Pixels::gray16;
      if (header.bits == 16 && pixels == media::Pixels::rgb) pixels = media::Pixels::rgb16;
      return codecs_.decode_image(file.bytes(), pixels, options_.limits);
    };
    auto image = decode();
    if (!image.ok()) return error(image.status().code(), name_of(path), ' ', image.status().message());
    return Decoded(std::move(image).value(), pixels, options_.upright);
  }

  /// The picture as it will be, and its mask in its place.
  Result<Picture> sample(std::uint64_t position, SampleOut out) const {
    Random random(0);
    const Geometry g = draw(position, random);
    Picture picture;
    Extent before;
    {
      GRAFT_TRY_ASSIGN(const Decoded decoded,
                       load(list_.items[position].path, options_.gray ? media::Pixels::gray : media::Pixels::rgb));
      before = decoded.size();
      picture = shaped(decoded, g, Sampling::linear, 0);
    }
    if (options_.augment.on && options_.augment.jitter.any()) jitter(picture, options_.augment.jitter, random);
    if (options_.augment.on && options_.augment.cut_out > 0) cut_out(picture, options_.augment.cut_out, random);
    if (masks_.empty()) return picture;
    GRAFT_TRY_ASSIGN(const Decoded classes, load(masks_[position], media::Pixels::index));
    if (classes.size() != before) {
      return invalid(name_of(masks_[position]), " has ", classes.size().width, " x ", classes.size().height,
                     " pixels, but ", name_of(list_.items[position].path), " has ", before.width, " x ", before.height,
                     ".");
    }
    const Picture mask = shaped(classes, g, Sampling::nearest, kNoClass);
    for (std::size_t i = 0; i < mask.values.size(); ++i) {
      auto number = static_cast<std::int32_t>(mask.values[i]);
      if (options_.unset && number == *options_.unset) number = kNoClass;
      std::memcpy(out[1] + 4 * i, &number, 4);
    }
    return picture;
  }

  /// Blends another sample in, and writes the shares of both classes.
  Status mix_up(std::uint64_t position, Picture& picture, SampleOut out) const {
    std::vector<float> shares(static_cast<std::size_t>(classes_));
    const auto& items = list_.items;
    float share = 1;
    if (options_.augment.on) {
      Random random(mix(key_, position, kMixup));
      const std::uint64_t other = random.below(items.size());
      share = static_cast<float>(beta_variate(random, options_.mixup));
      GRAFT_TRY_ASSIGN(const Picture second, sample(other, out));
      for (std::size_t i = 0; i < picture.values.size(); ++i) {
        picture.values[i] = share * picture.values[i] + (1 - share) * second.values[i];
      }
      shares[static_cast<std::size_t>(items[other].label)] += 1 - share;
    }
    shares[static_cast<std::size_t>(items[position].label)] += share;
    std::memcpy(out[1], shares.data(), 4 * shares.size());
    return {};
  }

  void store(const Picture& picture, std::byte* out) const {
    const std::int64_t pixels = size_.height * size_.width, c = channels();
    const auto one_of = [](const std::vector<double>& all, std::int64_t channel, double none) {
      return all.empty() ? none : all[all.size() == 1 ? 0 : static_cast<std::size_t>(channel)];
    };
    for (std::int64_t channel = 0; channel < c; ++channel) {
      const double mean = one_of(options_.mean, channel, 0), deviation = one_of(options_.std, channel, 1);
      for (std::int64_t i = 0; i < pixels; ++i) {
        const float value = picture.values[static_cast<std::size_t>(i * c + channel)] / 255.0f;
        const auto scaled = static_cast<float>((value - mean) / deviation);
        const std::int64_t at = options_.channels_last ? i * c + channel : channel * pixels + i;
        std::memcpy(out + 4 * at, &scaled, 4);
      }
    }
  }

  std::vector<std::string> masks_;  // by item; empty: labels are classes
  FolderOptions options_;
  Extent size_;
  const media::Codecs& codecs_;
  FileOptions files_;
  std::int64_t classes_ = 0;
};

Result<Extent> size_of(const std::string& path, const FolderOptions& options, const media::Codecs& codecs,
                       const FileOptions& files) {
  GRAFT_TRY_ASSIGN(const auto mapped, files.files->map(path));
  const auto header = codecs.image_header(mapped->bytes(), options.limits);
  if (!header.ok()) return error(header.status().code(), name_of(path), ' ', header.status().message());
  return upright_extent(*header, options.upright);
}

/// The mask that has the picture's name, whatever it ends in.
Result<std::vector<std::string>> find_masks(const FileList& list, const std::string& folder, const FileOptions& files) {
  GRAFT_TRY_ASSIGN(const auto entries, files.files->list(folder));
  std::map<std::string, std::string, std::less<>> by_stem;
  for (const os::DirectoryEntry& entry : entries) by_stem[entry.name.substr(0, entry.name.rfind('.'))] = entry.name;
  std::vector<std::string> masks;
  for (const auto& item : list.items) {
    const std::string name = item.path.substr(item.path.rfind('/') + 1);
    const auto found = by_stem.find(name.substr(0, name.rfind('.')));
    if (found == by_stem.end())
      return invalid(name_of(item.path), " has no mask of its name in ", name_of(folder), ".");
    masks.push_back(folder + "/" + found->second);
  }
  return masks;
}

Status check(const FileList& list, const FolderOptions& options) {
  const std::size_t channels = options.gray ? 1 : 3;
  for (const auto* numbers : {&options.mean, &options.std}) {
    if (numbers->size() <= 1 || numbers->size() == channels) continue;
    return invalid("Options mean and std take one number, or one for each of ", channels, " channels, but ",
                   numbers->size(), " were given.");
  }
  for (const double deviation : options.std) {
    if (!(deviation > 0)) return invalid("Option std has a deviation of ", deviation, "; it must be above 0.");
  }
  if (options.mixup == 0) return {};
  if (!options.masks.empty() || list.real) return invalid("Option mixup needs labels that are classes.");
  for (const auto& item : list.items) {
    if (item.label < 0 || item.label > 65535) return invalid("Option mixup does not take the label ", item.label, ".");
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Source>> open_folder(FileList list, const FolderOptions& options, const media::Codecs& codecs,
                                            const FileOptions& files) {
  GRAFT_TRY(check(list, options));
  std::vector<std::string> masks;
  if (!options.masks.empty()) {
    GRAFT_TRY_ASSIGN(masks, find_masks(list, options.masks, files));
  }
  std::optional<Extent> size = options.crop;
  for (const auto& item : list.items) {
    GRAFT_TRY_ASSIGN(const Extent file, size_of(item.path, options, codecs, files));
    const Extent now = FolderSource::resize_of(file, options);
    constexpr std::int64_t kMaxSide = 1 << 16, kMostPixels = 1 << 24;
    const bool large = now.height > kMaxSide || now.width > kMaxSide || now.height * now.width > kMostPixels;
    if (large && now != file) {
      return invalid(name_of(item.path), " would be resized to ", now.width, " x ", now.height,
                     " pixels, more than the limit of ", kMostPixels, ".");
    }
    if (!size) size = now;
    if (options.crop || now == *size) continue;
    return invalid(name_of(item.path), " has ", now.width, " x ", now.height, " pixels",
                   options.short_side > 0 ? " after resizing" : "", ", but ", name_of(list.items.front().path), " has ",
                   size->width, " x ", size->height, "; give resize=HEIGHTxWIDTH, or crop=HEIGHTxWIDTH.");
  }
  auto source = std::make_unique<FolderSource>(std::move(list), std::move(masks), options, *size, codecs, files);
  GRAFT_TRY(check_fields(source->fields()));
  return std::unique_ptr<Source>(std::move(source));
}

}  // namespace graft::data
