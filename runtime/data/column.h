// One field of a data set, of known size: what idx and .npy files hold. Columns of equal length make a source.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/data/data_file.h"
#include "runtime/data/source.h"

namespace graft::data {

class Column {
 public:
  virtual ~Column() = default;
  virtual const Field& field() const = 0;
  virtual std::uint64_t size() const = 0;
  /// `index` < size(); out has field().bytes().
  virtual Status read(std::uint64_t index, std::span<std::byte> out) = 0;
};

/// One source of several columns; an error where their lengths differ. `exact`: Field::exact of all.
Result<std::unique_ptr<Source>> zip(std::vector<std::unique_ptr<Column>> columns, bool exact = false);

/// A column of an idx file (the format of MNIST's files: big-endian, up to 8 dimensions), gzip-compressed or not.
/// Features become f32, each element times `scale`; a label (one whole number a sample) becomes i32.
/// A sample of two dimensions is an image and gets a channel axis in front: [28, 28] -> [1, 28, 28].
struct IdxOptions {
  std::string name;
  Role role = Role::feature;
  std::optional<double> scale;  ///< default: 1/255 for unsigned bytes, 1 for other types
};
Result<std::unique_ptr<Column>> open_idx(const std::string& path, const IdxOptions& options, const FileOptions& files);

/// A column of a .npy file; its first axis counts samples. Whole numbers are i32, of a label of shape [N, 1] one for
/// each sample; whether a model's input wants them as f32 shows where they go there. Booleans, floats, all weights and
/// whole numbers of which one does not fit 32 bits are f32.
Result<std::unique_ptr<Column>> open_npy(const std::string& path, std::string name, Role role,
                                         const FileOptions& files);

}  // namespace graft::data
