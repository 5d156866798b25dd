#include "runtime/data/order.h"

#include <cstring>
#include <numeric>

#include "platform/base/checked.h"
#include "runtime/data/keyed_order.h"
#include "runtime/data/random.h"

namespace graft::data {
namespace {

// Told apart from the keys of the epoch's permutation, so that no draw repeats one of its words.
constexpr std::uint64_t kDrawKey = 0x64726177;

// Fields of a buffered sample start at multiples of this, so that callbacks may write doubles.
constexpr std::uint64_t kAlign = 16;

std::uint64_t buffered_sample_bytes(const Source& source) {
  std::uint64_t bytes = 0;
  for (const Field& field : source.fields()) bytes += align_up(field.bytes(), kAlign);
  return bytes;
}

}  // namespace

std::uint64_t Order::buffer_bytes(const Source& source, const Options& options) {
  constexpr std::uint64_t kKeyBytes = 5 * sizeof(std::uint64_t);  // a key, a row, and while they are sorted
  if (source.size()) return options.keyed ? *source.size() * kKeyBytes : 0;
  return buffered_sample_bytes(source) * (options.shuffle ? options.shuffle_buffer : 1);
}

Result<Order> Order::create(Source& source, const Options& options, const HostAllocator& allocator) {
  constexpr std::uint64_t kMaxBuffer = 1u << 24;
  if (options.shuffle_buffer == 0 || options.shuffle_buffer > kMaxBuffer) {
    return invalid("The shuffle buffer is ", options.shuffle_buffer, " samples; it must be 1 to ", kMaxBuffer, ".");
  }
  Order order(source, options);
  order.cursor_.seed = options.seed;
  order.cursor_.shuffle = options.shuffle;
  order.cursor_.keyed = options.keyed;
  if (!source.size()) {
    GRAFT_TRY_ASSIGN(order.buffer_, HostBuffer::create(buffer_bytes(source, options), "the shuffle buffer", allocator));
    order.pointers_.resize(source.fields().size());
    order.cursor_.buffered.reserve(order.capacity());
    order.buffer_slot_.resize(order.capacity());
  }
  if (options.keyed) {
    source.start_epoch(options.seed, 0);
    GRAFT_TRY_ASSIGN(order.keys_, keys_of(source));
  }
  order.begin_epoch(0);
  order.cursor_.samples = order.places().value_or(Cursor::kUnknownSize);
  return order;
}

void Order::begin_epoch(std::uint64_t epoch) {
  source_->start_epoch(cursor_.seed, epoch);
  if (options_.keyed) rows_ = keyed_order(keys_, source_->mixture(), cursor_.seed, epoch);
  cursor_.epoch = epoch;
  cursor_.position = 0;
  cursor_.stream_position = 0;
  cursor_.stream_ended = false;
  cursor_.buffered.clear();
  std::iota(buffer_slot_.begin(), buffer_slot_.end(), 0u);
}

bool Order::exhausted() const {
  if (source_->size()) return cursor_.position == *places();
  return cursor_.stream_ended && cursor_.buffered.empty();
}

void Order::point_at(std::uint64_t slot) {
  std::byte* at = buffer_.data() + slot * buffered_sample_bytes(*source_);
  for (std::size_t f = 0; f < pointers_.size(); ++f) {
    pointers_[f] = at;
    at += align_up(source_->fields()[f].bytes(), kAlign);
  }
}

/// Reads the stream's next sample into a slot, and notes its position at the end of cursor_.buffered; false at the end.
Result<bool> Order::refill(std::uint64_t slot) {
  point_at(slot);
  const std::uint64_t at = row_ = cursor_.stream_position;
  GRAFT_TRY_ASSIGN(const bool more, source_->read(cursor_.stream_position, pointers_));
  if (more) cursor_.buffered.push_back(at);
  cursor_.stream_ended = !more;
  return more;
}

Result<bool> Order::next_of_stream(SampleOut out) {
  auto& buffered = cursor_.buffered;
  while (!cursor_.stream_ended && buffered.size() < capacity()) {
    GRAFT_TRY(refill(buffer_slot_[buffered.size()]));
  }
  if (buffered.empty()) return false;
  const std::uint64_t key = mix(cursor_.seed ^ kDrawKey, cursor_.epoch, cursor_.position);
  const std::size_t drawn = options_.shuffle ? key % buffered.size() : 0;
  row_ = buffered[drawn];
  point_at(buffer_slot_[drawn]);
  for (std::size_t f = 0; f < pointers_.size(); ++f) {
    std::memcpy(out[f], pointers_[f], source_->fields()[f].bytes());
  }
  // The last takes the place of the drawn one, and the freed memory comes last.
  const std::size_t last = buffered.size() - 1;
  std::swap(buffer_slot_[drawn], buffer_slot_[last]);
  buffered[drawn] = buffered[last];
  buffered.pop_back();
  const std::uint64_t row = row_;
  if (!cursor_.stream_ended) GRAFT_TRY(refill(buffer_slot_[last]));
  row_ = row;
  return true;
}

std::uint64_t Order::row_at_position() const {
  if (options_.keyed) return rows_[cursor_.position];
  if (!options_.shuffle) return cursor_.position;
  return Permutation(*source_->size(), mix(cursor_.seed, cursor_.epoch))(cursor_.position);
}

bool Order::skip() {
  if (exhausted()) return false;
  row_ = row_at_position();
  ++cursor_.position;
  return true;
}

Result<bool> Order::next(SampleOut out) {
  if (exhausted()) return false;
  bool more = true;
  if (source_->size()) {
    std::uint64_t at = row_at_position();
    row_ = at;
    GRAFT_TRY_ASSIGN(more, source_->read(at, out));
    if (!more) {
      return corrupt("The data set ended at sample ", row_, ", before its size of ", *source_->size(), " samples.");
    }
  } else {
    GRAFT_TRY_ASSIGN(more, next_of_stream(out));
  }
  if (more) ++cursor_.position;
  return more;
}

Status Order::restore(const Cursor& cursor) {
  if (cursor.samples != cursor_.samples) {
    const auto text = [](std::uint64_t n) { return n == Cursor::kUnknownSize ? "unknown" : cat(n); };
    return invalid("The data cursor was saved on a data set of ", text(cursor.samples), " samples, but this one has ",
                   text(cursor_.samples), ".");
  }
  if (cursor.seed != cursor_.seed || cursor.shuffle != cursor_.shuffle || cursor.keyed != cursor_.keyed) {
    const auto text = [](const Cursor& of) { return of.keyed ? "by keys" : of.shuffle ? "shuffled" : "in order"; };
    return invalid("The data cursor was saved with seed ", cursor.seed, ", ", text(cursor), ", but this run has seed ",
                   cursor_.seed, ", ", text(cursor_), ".");
  }
  if (source_->size()) {
    if (!cursor.buffered.empty() || cursor.position > cursor.samples) {
      return corrupt("The data cursor does not fit a data set of ", cursor.samples, " samples.");
    }
    begin_epoch(cursor.epoch);
    cursor_ = cursor;
    return {};
  }
  const bool full = cursor.buffered.size() == capacity();
  if (cursor.buffered.size() > capacity() || (cursor.position > 0 && !full && !cursor.stream_ended)) {
    return invalid("The data cursor was saved with ", cursor.buffered.size(),
                   " samples in the shuffle buffer, but this run's buffer holds ", capacity(), ".");
  }
  begin_epoch(cursor.epoch);
  for (std::size_t i = 0; i < cursor.buffered.size(); ++i) {
    cursor_.stream_position = cursor.buffered[i];
    GRAFT_TRY_ASSIGN(const bool more, refill(buffer_slot_[i]));
    if (!more) return corrupt("The data stream ended before position ", cursor.buffered[i], " of the saved cursor.");
  }
  cursor_ = cursor;
  cursor_.buffered.reserve(capacity());
  return {};
}

}  // namespace graft::data
