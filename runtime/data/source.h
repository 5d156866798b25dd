// A data set: samples of named fields, read one at a time into memory that the caller owns.
//
// A source keeps no cursor: whoever reads passes a position, so that a run can be continued exactly by writing down a
// few integers. It may keep buffers, so one source serves one loader at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "platform/base/status.h"
#include "runtime/core/dtype.h"
#include "runtime/core/packed.h"
#include "runtime/core/shape.h"

namespace graft::data {

enum class Role : std::uint8_t {
  feature,  ///< an input of the model
  label,    ///< a target, which a loss compares with
  weight,   ///< how much the sample counts for: one number of 0 or more
};

/// One tensor of a sample. `shape` is constant and without the batch axis: image [1, 28, 28], label [].
struct Field {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  Role role = Role::feature;
  bool exact = false;  ///< whoever made the data set chose the name: it is for the input of this name and no other
  std::vector<std::string> classes = {};  ///< of a label: what its numbers 0, 1, .. stand for; empty: nobody knows

  /// A feature that the device turns into f32 (dtype): as which its elements are given.
  std::optional<Packed> packed = {};

  std::uint64_t element_bytes() const { return packed ? packed_size(*packed) : dtype_size(dtype); }
  std::uint64_t bytes() const { return shape.elements() * element_bytes(); }
  std::string_view type_name() const { return packed ? packed_name(*packed) : dtype_name(dtype); }
};

/// Where a sample goes: for each field, Field::bytes() bytes.
using SampleOut = std::span<std::byte* const>;

/// Of a data set that is two in one: from sample `first` on they are others, of which a loader by keys (see
/// keyed_order.h) gives `share` of all samples.
struct Mixture {
  std::uint64_t first = 0;
  double share = 0;  ///< above 0 and below 1
};

class Source {
 public:
  virtual ~Source() = default;

  /// Features first, then labels, a weight last; never empty.
  virtual const std::vector<Field>& fields() const = 0;

  /// The number of samples; nullopt for a stream, whose end shows only when it is reached.
  virtual std::optional<std::uint64_t> size() const = 0;

  /// Fills `out` with the sample at `position` and moves `position` to the sample after it; false past the end.
  /// Where size() is known, positions are 0 .. size() - 1 and may come in any order; in a stream, 0 is the first, and
  /// only positions that read() gave are valid.
  /// Threads: a loader calls it from a thread of its own, one call at a time.
  virtual Result<bool> read(std::uint64_t& position, SampleOut out) = 0;

  /// Before the first sample of each epoch, and again where a run goes on in its middle: what is drawn at random for a
  /// sample depends on these two and its position alone. Not while a read() is going on.
  virtual void start_epoch(std::uint64_t /*seed*/, std::uint64_t /*epoch*/) {}

  /// Decides the sample's place in an order by keys, whatever its number is: by default a hash of its contents. Where
  /// size() is known.
  virtual Result<std::uint64_t> key(std::uint64_t position);

  /// True: what is drawn at random for a sample depends on its number, and so on the samples before it.
  virtual bool draws_by_number() const { return false; }

  virtual std::optional<Mixture> mixture() const { return std::nullopt; }

  /// True: any number of threads may be in read() at once.
  virtual bool parallel() const { return false; }
};

/// Bytes of one sample, all fields together.
std::uint64_t sample_bytes(const Source& source);
/// The names of a label's classes, of the first label that has any; null where there is none.
const std::vector<std::string>* class_names(const Source& source);
/// The index of the first field of `role`, or nullopt.
std::optional<std::size_t> find_role(const Source& source, Role role);
/// Refuses what a loader cannot hold: no fields, duplicate names, shapes that are not constant.
Status check_fields(std::span<const Field> fields);

/// Samples in memory that the caller keeps, unchanged while a loader reads: one block of `samples` * Field::bytes()
/// bytes for each field.
Result<std::unique_ptr<Source>> from_slices(std::vector<Field> fields, std::vector<std::span<const std::byte>> blocks,
                                            std::uint64_t samples);

/// Fills sample number `index`; false where the data ends. A pure function of `index`: it is asked again for an index
/// after a restore, and in any order where the count is known.
using Generate = std::function<Result<bool>(std::uint64_t index, SampleOut out)>;
/// Samples made by a callback. Without `samples` it is a stream.
Result<std::unique_ptr<Source>> from_generator(std::vector<Field> fields, Generate generate,
                                               std::optional<std::uint64_t> samples = std::nullopt);

/// Turns one sample of the source into one of `fields`. A pure function of its arguments; `position` names the sample,
/// for random augmentation (see random.h). `in` points at the source's fields.
using Map = std::function<Status(std::uint64_t position, std::span<const std::byte* const> in, SampleOut out)>;
/// Every sample of `source` through `map`.
Result<std::unique_ptr<Source>> map(std::unique_ptr<Source> source, std::vector<Field> fields, Map function);

/// Samples [first, first + count) of a source of known size. An empty range is an error.
Result<std::unique_ptr<Source>> range(std::unique_ptr<Source> source, std::uint64_t first, std::uint64_t count);

/// Samples `rows` of a source of known size, in this order; the source must outlive it.
Result<std::unique_ptr<Source>> select(Source& source, std::vector<std::uint64_t> rows);

}  // namespace graft::data
