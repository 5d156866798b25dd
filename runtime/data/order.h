// The order in which an epoch visits a source's samples.
#pragma once

#include <cstdint>
#include <vector>

#include "platform/base/allocator.h"
#include "runtime/data/cursor.h"
#include "runtime/data/source.h"

namespace graft::data {

/// Reads samples one after another. Sources of known size are visited in a keyed permutation, which needs no memory; a
/// stream goes through a buffer from which samples are drawn at random (unshuffled: a buffer of one, which tells the
/// end one sample ahead). Every draw depends on (seed, epoch, position) alone.
class Order {
 public:
  struct Options {
    bool shuffle = true;
    bool keyed = false;  ///< in the order of keyed_order.h instead; not of streams, and with `shuffle`
    std::uint64_t seed = 0;
    std::uint64_t shuffle_buffer = 1024;  ///< samples; streams only
  };

  /// `source` must outlive the order. Allocates the shuffle buffer.
  static Result<Order> create(Source& source, const Options& options, const HostAllocator& allocator);
  /// Bytes that create() takes for the shuffle buffer, or for keys.
  static std::uint64_t buffer_bytes(const Source& source, const Options& options);

  /// The next sample of this epoch; false when the epoch is over.
  Result<bool> next(SampleOut out);
  /// As next(), without reading it. Not of streams.
  bool skip();
  /// True when no sample of this epoch is left. Exact once next() was called in this epoch.
  bool exhausted() const;
  void begin_epoch(std::uint64_t epoch);

  /// Samples of an epoch: those of the source, unless it is a mixture. nullopt for streams.
  std::optional<std::uint64_t> places() const {
    return options_.keyed ? std::optional<std::uint64_t>(rows_.size()) : source_->size();
  }
  std::uint64_t epoch() const { return cursor_.epoch; }
  std::uint64_t position() const { return cursor_.position; }
  /// Which sample of the source next() gave last, or failed to read: its number, or in a stream its position.
  std::uint64_t row() const { return row_; }
  const Cursor& cursor() const { return cursor_; }
  /// Reads what waited in the shuffle buffer anew. invalid_argument where the cursor is of another data set or seed.
  Status restore(const Cursor& cursor);

 private:
  Order(Source& source, const Options& options) : source_(&source), options_(options) {}
  std::uint64_t capacity() const { return options_.shuffle ? options_.shuffle_buffer : 1; }
  std::uint64_t row_at_position() const;
  void point_at(std::uint64_t slot);
  Result<bool> refill(std::uint64_t slot);
  Result<bool> next_of_stream(SampleOut out);

  Source* source_;
  Options options_;
  Cursor cursor_;
  std::uint64_t row_ = 0;
  std::vector<std::uint64_t> keys_, rows_;  // by keys: of each sample, and of this epoch
  HostBuffer buffer_;                       // capacity() samples, each its fields one after another
  std::vector<std::byte*> pointers_;        // the fields of one buffered sample
  std::vector<std::uint32_t> buffer_slot_;  // where in buffer_ the sample of cursor_.buffered[i] lies
};

}  // namespace graft::data
