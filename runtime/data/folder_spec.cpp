#include <algorithm>
#include <cmath>

#include "runtime/data/csv_reader.h"
#include "runtime/data/folder.h"

namespace graft::data {
namespace {

constexpr std::int64_t kMaxSide = 1 << 16;

/// "HxW".
Result<Extent> extent_of(std::string_view name, const std::string& text) {
  const auto [height, width] = named_value(text, 'x');
  double h = 0, w = 0;
  const bool numbers = parse_number(height, h) && parse_number(width, w) && h == std::floor(h) && w == std::floor(w);
  if (!numbers || h < 1 || w < 1 || h > kMaxSide || w > kMaxSide) {
    return invalid("Option ", name, "=", text, " of a folder of pictures must be HEIGHTxWIDTH, or one number.");
  }
  return Extent{static_cast<std::int64_t>(h), static_cast<std::int64_t>(w)};
}

Status read_sizes(const Opening& o, FolderOptions& out) {
  if (const auto resize = o.options.text("resize")) {
    if (resize->find('x') != std::string::npos) {
      GRAFT_TRY_ASSIGN(out.resize, extent_of("resize", *resize));
    } else {
      GRAFT_TRY_ASSIGN(const Extent square, extent_of("resize", *resize + "x" + *resize));
      out.short_side = square.height;
    }
  }
  if (const auto crop = o.options.text("crop")) {
    const bool square = crop->find('x') == std::string::npos;
    GRAFT_TRY_ASSIGN(out.crop, extent_of("crop", square ? *crop + "x" + *crop : *crop));
  }
  return {};
}

/// A number from 0 to `most`.
Result<double> share(const Opening& o, std::string_view name, double most) {
  GRAFT_TRY_ASSIGN(const auto numbers, o.options.numbers(name));
  if (numbers.empty()) return 0.0;
  if (numbers.size() == 1 && numbers[0] >= 0 && numbers[0] <= most) return numbers[0];
  return invalid("Option ", name, " of a folder of pictures must be one number from 0 to ", most, ".");
}

Status read_augmentation(const Opening& o, FolderOptions& out) {
  Augmentation& a = out.augment;
  a.on = o.hints.augment;
  const std::string flip = o.options.text("flip").value_or("no");
  a.flip_columns = flip == "yes" || flip == "both";
  a.flip_rows = flip == "both";
  if (!a.flip_columns && flip != "no") return invalid("Option flip=", flip, " must be yes, both or no.");
  GRAFT_TRY_ASSIGN(const auto pad, o.options.whole("random_crop"));
  if (pad && *pad > 4096) return invalid("Option random_crop=", *pad, " must be 0 to 4096.");
  if (pad) a.random_crop = static_cast<std::int64_t>(*pad);
  GRAFT_TRY_ASSIGN(a.rotate, share(o, "rotate", 180));
  GRAFT_TRY_ASSIGN(const auto jitter, o.options.numbers("jitter"));
  const bool fits = jitter.size() <= 4 && std::ranges::all_of(jitter, [](double x) { return x >= 0 && x <= 1; }) &&
                    (jitter.size() < 4 || jitter[3] <= 0.5);
  if (!fits) {
    return invalid("Option jitter takes brightness, contrast, saturation and hue, from 0 to 1 (hue: to 0.5).");
  }
  const auto one = [&](std::size_t i) { return i < jitter.size() ? jitter[i] : 0; };
  a.jitter = {one(0), one(1), one(2), one(3)};
  GRAFT_TRY_ASSIGN(const std::uint64_t side, o.options.whole("cutout", 0, 1, 4096));
  a.cut_out = static_cast<std::int64_t>(side);
  GRAFT_TRY_ASSIGN(out.mixup, share(o, "mixup", 100));
  return {};
}

bool is_channels(std::int64_t n) { return n == 1 || n == 3; }

/// Channels and their place as the model's first input of rank 3 has them.
Status read_layout(const Opening& o, FolderOptions& out) {
  for (const ModelInput& input : o.hints.inputs) {
    if (input.dims.size() != 3) continue;
    const bool first = is_channels(input.dims[0]), last = is_channels(input.dims[2]);
    if (!first && !last) break;
    out.channels_last = last && !first;
    out.gray = input.dims[out.channels_last ? 2 : 0] == 1;
    break;
  }
  GRAFT_TRY_ASSIGN(const auto gray, o.options.flag("grayscale"));
  if (gray) out.gray = *gray;
  const auto layout = o.options.text("layout");
  if (layout && *layout != "chw" && *layout != "hwc") return invalid("Option layout=", *layout, " must be chw or hwc.");
  if (layout) out.channels_last = *layout == "hwc";
  return {};
}

}  // namespace

OpenResult open_folder_spec(const Opening& o) {
  constexpr std::string_view kUsage = "A data set of this kind is written folder:DIR or folder:IMAGES;mask=DIR.";
  const auto& sections = o.spec.sections;
  if (sections.empty() || sections.size() > 2 || sections[0].empty()) return invalid(kUsage);
  if (o.files.codecs == nullptr) {
    return unsupported(
        "Pictures are read by the command line tool, or where the app gives codecs; there are none here.");
  }
  FolderOptions options;
  if (sections.size() == 2) {
    auto [name, folder] = named_value(sections[1]);
    if (name != "mask" || folder.empty()) return invalid(kUsage);
    options.masks = std::move(folder);
  }
  GRAFT_TRY(read_sizes(o, options));
  GRAFT_TRY(read_augmentation(o, options));
  GRAFT_TRY(read_layout(o, options));
  const std::string orientation = o.options.text("orientation").value_or("apply");
  options.upright = orientation == "apply";
  if (!options.upright && orientation != "ignore") {
    return invalid("Option orientation=", orientation, " must be apply or ignore.");
  }
  GRAFT_TRY_ASSIGN(options.mean, o.options.numbers("mean"));
  GRAFT_TRY_ASSIGN(options.std, o.options.numbers("std"));
  GRAFT_TRY_ASSIGN(const auto normal, o.options.numbers("normalize"));
  if (!normal.empty()) {
    if (!options.mean.empty() || !options.std.empty()) return invalid("Give mean= and std=, or normalize=, not both.");
    const auto half = static_cast<std::ptrdiff_t>(normal.size() / 2);
    if (normal.size() % 2 != 0) return invalid("Option normalize takes as many deviations as means.");
    options.mean.assign(normal.begin(), normal.begin() + half);
    options.std.assign(normal.begin() + half, normal.end());
  }
  const auto unset = o.options.text("void");
  double number = 0;
  if (unset && (options.masks.empty() || !parse_number(*unset, number) || number < 0 || number > 255)) {
    return invalid("Option void=", *unset, " is a number of a mask, from 0 to 255, that stands for no class.");
  }
  if (unset) options.unset = static_cast<std::int32_t>(number);
  GRAFT_TRY_ASSIGN(FileList list,
                   list_files(o, sections[0], {".jpg", ".jpeg", ".png", ".webp", ".bmp"}, !options.masks.empty()));
  return open_folder(std::move(list), options, *o.files.codecs, o.files);
}

}  // namespace graft::data
