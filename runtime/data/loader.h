// Batches of a data set, prepared ahead by a thread. Only the batches in flight are in memory.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "platform/base/allocator.h"
#include "platform/os/threads.h"
#include "runtime/data/order.h"
#include "runtime/data/readers.h"

namespace graft::data {

/// Of a batch of so many samples, the first one and the number of those that are read: what several workers have to
/// read of the same batches. The contents of others are undefined. Streams are read as a whole. Called by the loader's
/// thread.
using Wanted = std::function<std::pair<std::uint64_t, std::uint64_t>(std::uint64_t samples)>;

struct LoaderOptions {
  std::uint64_t batch = 32;  ///< samples
  bool shuffle = true;
  bool keyed = false;  ///< by a hash of each sample (keyed_order.h), which a mixture needs; with shuffle
  std::uint64_t seed = 0;
  std::uint64_t shuffle_buffer = 1024;  ///< samples; used by streams only, others are permuted as a whole
  bool drop_last = false;               ///< leave out a last batch that is not full
  std::uint64_t epochs = 0;             ///< 0: without end
  std::uint32_t threads = 0;       ///< that read samples at once, where the source allows it; 0: one a core, 8 at most
  std::uint32_t prefetch = 2;      ///< batches that the thread may be ahead; 0: no thread
  std::uint64_t memory_limit = 0;  ///< bytes for batches and the shuffle buffer; 0: none
  Wanted wanted = nullptr;         ///< null: all samples are read
  HostAllocator allocator = default_host_allocator();
};

/// Samples of one epoch, in order. Valid until the next call of the loader.
class Batch {
 public:
  /// Samples that the caller keeps in memory, one block per field, for training without a loader.
  static Batch view(std::span<const std::span<const std::byte>> blocks, std::uint64_t count);
  /// The same for a batch that is used again and again: allocates once. Not for a loader's batches.
  void refer_to(std::span<const std::span<const std::byte>> blocks, std::uint64_t count);

  std::uint64_t epoch() const { return epoch_; }
  std::uint64_t first() const { return first_; }  ///< position in the epoch of the first sample
  std::uint64_t count() const { return count_; }  ///< samples; fewer than LoaderOptions::batch at an epoch's end
  bool last_of_epoch() const { return last_of_epoch_; }
  /// "sample 17 of the data set", counted from 0 as the source counts them; "sample 2 of the batch" without a loader.
  std::string name_of(std::uint64_t sample) const;
  /// Field f of all samples, one after another.
  std::span<const std::byte> field(std::size_t f) const {
    return {fields_[f], static_cast<std::size_t>(count_ * sample_bytes_[f])};
  }
  /// Where the loader stands once this batch is used.
  const Cursor& after() const { return after_; }

 private:
  friend class Loader;
  std::uint64_t epoch_ = 0;
  std::uint64_t first_ = 0;
  std::uint64_t count_ = 0;
  bool last_of_epoch_ = false;
  bool end_ = false;  // no batch: the epochs asked for are over
  Status status_;     // no batch: why there is none
  Cursor after_;
  HostBuffer memory_;
  std::vector<std::byte*> fields_;
  std::vector<std::uint64_t> sample_bytes_;
  std::vector<std::uint64_t> rows_;  // by sample: its number in the source; empty without a loader
};

/// Threads: belongs to one thread; its own thread calls Source::read.
class Loader {
 public:
  /// `source` must outlive the loader. All memory is taken here: (prefetch + 1) batches and the shuffle buffer. An
  /// error where that is more than the limit says how much is needed.
  static Result<std::unique_ptr<Loader>> create(Source& source, const LoaderOptions& options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// The next batch; null when LoaderOptions::epochs are over. After an error every call returns the same error.
  /// Allocates nothing.
  Result<const Batch*> next();

  /// Where the caller stands: after the last batch that next() gave.
  const Cursor& cursor() const { return cursor_; }
  /// Goes on from a saved cursor: the batches to come are those that would have come then, if the data set and the
  /// options are the same (the batch size may differ). On error the loader stands where it stood.
  Status restore(const Cursor& cursor);

  /// Another LoaderOptions::wanted from the next batch on. On error it stands where it stood.
  Status read_only(Wanted wanted);

  Source& source() { return source_; }
  std::uint64_t memory_bytes() const { return memory_bytes_; }
  /// nullopt for streams.
  std::optional<std::uint64_t> batches_per_epoch() const;

 private:
  Loader(Source& source, const LoaderOptions& options, Order order)
      : source_(source), options_(options), order_(std::move(order)) {}
  Status allocate();
  void fill(Batch& batch);
  Status fill_samples(Batch& batch);
  Status fill_at_once(Batch& batch, std::pair<std::uint64_t, std::uint64_t> wanted);
  bool last_batch_of_epoch() const;
  void start();
  void stop();
  void work();

  Source& source_;
  LoaderOptions options_;
  std::unique_ptr<Readers> readers_;  // null: samples are read one after another
  std::uint64_t memory_bytes_ = 0;
  Cursor cursor_;
  bool holding_ = false;  // the caller has the batch released_ % batches_.size()

  // The thread's alone while it runs.
  Order order_;
  std::vector<std::byte*> pointers_;

  std::vector<Batch> batches_;  // a ring; the numbers below count since start()
  os::Thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t produced_ = 0;
  std::uint64_t released_ = 0;
  bool stopping_ = false;
};

}  // namespace graft::data
