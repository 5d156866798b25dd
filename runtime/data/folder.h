// A folder of pictures as a data set.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/data/file_list.h"
#include "runtime/data/picture.h"

namespace graft::data {

/// What is drawn at random for each sample, by (seed, epoch, sample) alone.
struct Augmentation {
  bool flip_columns = false, flip_rows = false;
  std::optional<std::int64_t> random_crop;  ///< zeros on each side before a window is drawn
  double rotate = 0;                        ///< degrees at most, either way
  Jitter jitter;
  std::int64_t cut_out = 0;  ///< the square's side
  bool on = true;            ///< false: nothing is drawn, for evaluation
};

struct FolderOptions {
  bool gray = false;
  bool channels_last = false;
  std::int64_t short_side = 0;    ///< resize so that the shorter side is this; 0: no
  std::optional<Extent> resize;   ///< to exactly this
  std::optional<Extent> crop;     ///< the middle, or a window at random
  std::vector<double> mean, std;  ///< of values from 0 to 1: one for all channels, or one for each; empty: none
  Augmentation augment;
  double mixup = 0;                   ///< alpha of the Beta distribution; labels are then shares of classes
  std::string masks;                  ///< a folder of masks, by the pictures' names; empty: labels are classes
  std::optional<std::int32_t> unset;  ///< a mask's number that stands for no class
  bool upright = true;                ///< images are turned as EXIF's orientation says
  media::Limits limits;
};

/// "image": f32 [C, H, W] or [H, W, C]; "label": i32 [], f32 [1], with mixup f32 [classes]; with masks "mask": i32 [H,
/// W]. Every file's header is read; an error where sizes differ and neither resize nor crop makes them one.
Result<std::unique_ptr<Source>> open_folder(FileList list, const FolderOptions& options, const media::Codecs& codecs,
                                            const FileOptions& files);

}  // namespace graft::data
