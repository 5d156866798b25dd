#include "runtime/data/loader.h"

#include <algorithm>
#include <thread>

#include "platform/base/checked.h"
#include "platform/os/caught.h"

namespace graft::data {
namespace {

constexpr std::uint64_t kFieldAlignment = 64;

std::optional<std::uint64_t> batch_bytes(const Source& source, std::uint64_t batch) {
  std::uint64_t total = 0;
  for (const Field& field : source.fields()) {
    const auto bytes = checked_mul(field.bytes(), batch);
    const auto aligned = bytes ? checked_align(*bytes, kFieldAlignment) : std::nullopt;
    const auto sum = aligned ? checked_add(total, *aligned) : std::nullopt;
    if (!sum) return std::nullopt;
    total = *sum;
  }
  return total;
}

}  // namespace

std::string Batch::name_of(std::uint64_t sample) const {
  if (sample < rows_.size()) return cat("sample ", rows_[sample], " of the data set");
  return cat("sample ", sample, " of the batch");
}

Batch Batch::view(std::span<const std::span<const std::byte>> blocks, std::uint64_t count) {
  Batch batch;
  batch.refer_to(blocks, count);
  return batch;
}

void Batch::refer_to(std::span<const std::span<const std::byte>> blocks, std::uint64_t count) {
  count_ = count;
  fields_.clear();
  sample_bytes_.clear();
  for (const auto& block : blocks) {
    // Only a loader writes through these, and only into its own batches.
    fields_.push_back(const_cast<std::byte*>(block.data()));
    sample_bytes_.push_back(count == 0 ? 0 : block.size() / count);
  }
}

Result<std::unique_ptr<Loader>> Loader::create(Source& source, const LoaderOptions& options) {
  GRAFT_TRY(check_fields(source.fields()));
  constexpr std::uint32_t kMaxPrefetch = 1024;
  if (options.batch == 0) return invalid("The batch size is 0; it must be at least 1.");
  if (options.threads > kMaxPrefetch) {
    return invalid("Reading by ", options.threads, " threads is more than ", kMaxPrefetch, ".");
  }
  if (options.prefetch > kMaxPrefetch) {
    return invalid("Prefetching ", options.prefetch, " batches is more than ", kMaxPrefetch, ".");
  }
  if (source.size() && *source.size() == 0) return invalid("The data set holds no sample.");
  if (options.keyed && !options.shuffle) return invalid("Samples are taken in their order or by keys, not both.");
  if (source.mixture() && !options.keyed) {
    return invalid("A data set with a share of other samples mixed in has an order by keys alone.");
  }
  const Order::Options order_options{options.shuffle, options.keyed, options.seed, options.shuffle_buffer};
  const auto batch = batch_bytes(source, options.batch);
  const auto batches = batch ? checked_mul<std::uint64_t>(*batch, options.prefetch + 1ull) : std::nullopt;
  if (!batches) return invalid("A batch of ", options.batch, " samples has more bytes than can be counted.");
  const std::uint64_t need = *batches + Order::buffer_bytes(source, order_options);
  if (options.memory_limit != 0 && need > options.memory_limit) {
    return error(Code::out_of_memory, "Loading needs ", bytes_text(need), " (", options.prefetch + 1, " batches of ",
                 options.batch, " samples), but its limit is ", bytes_text(options.memory_limit),
                 ". Use a smaller batch or prefetch fewer.");
  }
  GRAFT_TRY_ASSIGN(Order order, Order::create(source, order_options, options.allocator));
  if (options.drop_last && order.places() && *order.places() < options.batch) {
    return invalid("The data set of ", *order.places(), " samples has no full batch of ", options.batch,
                   ", and batches that are not full are left out.");
  }
  std::unique_ptr<Loader> loader(new Loader(source, options, std::move(order)));
  loader->memory_bytes_ = need;
  GRAFT_TRY(loader->allocate());
  constexpr std::uint32_t kMostAlone = 8;
  const std::uint32_t threads =
      options.threads != 0 ? options.threads : std::min(std::max(std::thread::hardware_concurrency(), 1u), kMostAlone);
  if (threads > 1 && source.size() && source.parallel()) loader->readers_ = std::make_unique<Readers>(threads - 1);
  loader->start();
  return loader;
}

Loader::~Loader() { stop(); }

Status Loader::allocate() {
  pointers_.resize(source_.fields().size());
  batches_.resize(options_.prefetch + 1);
  cursor_ = order_.cursor();
  for (Batch& batch : batches_) {
    GRAFT_TRY_ASSIGN(batch.memory_,
                     HostBuffer::create(*batch_bytes(source_, options_.batch), "a batch of data", options_.allocator));
    std::byte* at = batch.memory_.data();
    for (const Field& field : source_.fields()) {
      batch.fields_.push_back(at);
      batch.sample_bytes_.push_back(field.bytes());
      at += align_up(field.bytes() * options_.batch, kFieldAlignment);
    }
    batch.rows_.resize(options_.batch);
    // Copies of the cursor must not allocate later.
    if (!source_.size()) batch.after_.buffered.reserve(options_.shuffle_buffer);
  }
  if (!source_.size()) cursor_.buffered.reserve(options_.shuffle_buffer);
  return {};
}

bool Loader::last_batch_of_epoch() const {
  if (order_.exhausted()) return true;
  return options_.drop_last && order_.places() && *order_.places() - order_.position() < options_.batch;
}

Status Loader::fill_samples(Batch& batch) {
  batch.epoch_ = order_.epoch();
  batch.first_ = order_.position();
  batch.count_ = 0;
  std::pair<std::uint64_t, std::uint64_t> wanted = {0, options_.batch};
  if (options_.wanted && order_.places()) {
    wanted = options_.wanted(std::min(options_.batch, *order_.places() - order_.position()));
  }
  if (readers_ != nullptr) return fill_at_once(batch, wanted);
  while (batch.count_ < options_.batch) {
    if (batch.count_ - wanted.first >= wanted.second) {  // below the first wraps around
      if (!order_.skip()) break;
      batch.rows_[batch.count_++] = order_.row();
      continue;
    }
    for (std::size_t f = 0; f < pointers_.size(); ++f) {
      pointers_[f] = batch.fields_[f] + batch.count_ * batch.sample_bytes_[f];
    }
    GRAFT_TRY_ASSIGN(const bool more, order_.next(pointers_));
    if (!more) break;
    batch.rows_[batch.count_++] = order_.row();
  }
  return {};
}

/// The same samples in the same places, whichever thread reads which.
Status Loader::fill_at_once(Batch& batch, std::pair<std::uint64_t, std::uint64_t> wanted) {
  while (batch.count_ < options_.batch && order_.skip()) batch.rows_[batch.count_++] = order_.row();
  if (wanted.first >= batch.count_) return {};
  const auto read = [&](std::size_t i) -> Status {
    const std::uint64_t sample = wanted.first + i;
    std::vector<std::byte*> out(pointers_.size());
    for (std::size_t f = 0; f < out.size(); ++f) out[f] = batch.fields_[f] + sample * batch.sample_bytes_[f];
    std::uint64_t row = batch.rows_[sample];
    GRAFT_TRY_ASSIGN(const bool more, source_.read(row, out));
    return more ? ok_status() : corrupt("The data set ended before its size of ", *source_.size(), " samples.");
  };
  std::size_t failed = 0;
  Status status = readers_->run(std::min(wanted.second, batch.count_ - wanted.first), read, failed);
  if (status.ok()) return status;
  return std::move(status).with_context(
      cat("While reading sample ", batch.rows_[wanted.first + failed], " of the data set"));
}

void Loader::fill(Batch& batch) {
  batch.end_ = false;
  // A stream may end where a batch does, or in a batch that is left out: then the next epoch begins, once.
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (options_.epochs != 0 && order_.epoch() >= options_.epochs) {
      batch.end_ = true;
      return;
    }
    batch.status_ = fill_samples(batch);
    if (!batch.status_.ok()) {
      if (readers_ == nullptr) {
        batch.status_ =
            std::move(batch.status_).with_context(cat("While reading sample ", order_.row(), " of the data set"));
      }
      return;
    }
    const bool usable = batch.count_ == options_.batch || (batch.count_ > 0 && !options_.drop_last);
    batch.last_of_epoch_ = !usable || last_batch_of_epoch();
    if (batch.last_of_epoch_) order_.begin_epoch(order_.epoch() + 1);
    if (usable) {
      batch.after_ = order_.cursor();
      return;
    }
  }
  batch.status_ = invalid("The data stream holds no ", options_.drop_last ? "full batch." : "sample.");
}

void Loader::work() {
  for (;;) {
    Batch* batch = nullptr;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || produced_ - released_ < batches_.size(); });
      if (stopping_) return;
      batch = &batches_[produced_ % batches_.size()];
    }
    if (Status filled = os::caught([&] {
          fill(*batch);
          return ok_status();
        });
        !filled.ok()) {
      batch->status_ = std::move(filled).with_context(cat("While reading sample ", order_.row(), " of the data set"));
    }
    const bool done = batch->end_ || !batch->status_.ok();
    {
      std::lock_guard lock(mutex_);
      ++produced_;
    }
    changed_.notify_all();
    if (done) return;
  }
}

void Loader::start() {
  produced_ = released_ = 0;
  holding_ = stopping_ = false;
  if (options_.prefetch == 0) return;
  auto thread = os::start_thread([this] { work(); }, "to prefetch batches");
  if (thread.ok()) {
    thread_ = std::move(thread).value();
  } else {
    options_.prefetch = 0;  // next() then fills batches itself: the same ones, only later
  }
}

void Loader::stop() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Result<const Batch*> Loader::next() {
  Batch* batch = nullptr;
  if (options_.prefetch == 0) {
    batch = batches_.data();
    if (!batch->end_ && batch->status_.ok()) fill(*batch);
  } else {
    std::unique_lock lock(mutex_);
    if (holding_) {
      ++released_;
      holding_ = false;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return produced_ > released_; });
    batch = &batches_[released_ % batches_.size()];
  }
  if (!batch->status_.ok()) return batch->status_;
  if (batch->end_) return static_cast<const Batch*>(nullptr);
  holding_ = true;
  cursor_ = batch->after_;
  return static_cast<const Batch*>(batch);
}

Status Loader::restore(const Cursor& cursor) {
  stop();
  for (Batch& batch : batches_) {
    batch.status_ = {};
    batch.end_ = false;
  }
  Status status = order_.restore(cursor);
  if (status.ok()) {
    cursor_ = cursor;
  } else if (Status back = order_.restore(cursor_); !back.ok()) {
    return std::move(status).with_context("The loader cannot go back either (" + back.message() + ")");
  }
  start();
  return status;
}

Status Loader::read_only(Wanted wanted) {
  stop();
  options_.wanted = std::move(wanted);
  return restore(Cursor(cursor_));  // what was read ahead is read again
}

std::optional<std::uint64_t> Loader::batches_per_epoch() const {
  const auto places = order_.places();
  if (!places) return std::nullopt;
  return options_.drop_last ? *places / options_.batch : ceil_div(*places, options_.batch);
}

}  // namespace graft::data
