#include "tools/graft/report/tensorboard.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "tools/common/files.h"
#include "tools/common/terminal.h"

namespace graft::cli {
namespace {

// The fields of tensorflow.Event, Summary and HistogramProto that are written, by number.
constexpr int kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;

/// Protocol buffers, as far as events need them.
class Message {
 public:
  void varint(int field, std::uint64_t value) {
    key(field, 0);
    raw_varint(value);
  }
  void number(int field, double value) {
    key(field, 1);
    append(value);
  }
  void small_number(int field, float value) {
    key(field, 5);
    append(value);
  }
  void text(int field, const std::string& value) {
    key(field, 2);
    raw_varint(value.size());
    bytes_ += value;
  }
  void numbers(int field, const std::vector<double>& values) {
    key(field, 2);
    raw_varint(values.size() * sizeof(double));
    for (const double value : values) append(value);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void key(int field, int type) {
    raw_varint(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(type));
  }
  void raw_varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  template <typename T>
  void append(T value) {
    static_assert(std::endian::native == std::endian::little);
    char raw[sizeof value];
    std::memcpy(raw, &value, sizeof value);
    bytes_.append(raw, sizeof value);
  }
  std::string bytes_;
};

Message event_now(std::uint64_t step) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  Message event;
  event.number(kWallTime, std::chrono::duration<double>(now).count());
  if (step != 0) event.varint(kStep, step);
  return event;
}

/// Summary.Value: tag = 1, simple_value = 2, histo = 5.
void add_scalar(Message& summary, const std::string& tag, double value) {
  Message entry;
  entry.text(1, tag);
  entry.small_number(2, static_cast<float>(value));
  summary.text(1, entry.bytes());
}

void add_histogram(Message& summary, const std::string& tag, std::span<const float> values) {
  constexpr std::size_t kBuckets = 30;
  double least = values[0], most = values[0], sum = 0, squares = 0;
  for (const double value : values) {
    least = std::min(least, value);
    most = std::max(most, value);
    sum += value;
    squares += value * value;
  }
  const double width = most > least ? (most - least) / kBuckets : 1;
  std::vector<double> limits(kBuckets), counts(kBuckets);
  for (std::size_t i = 0; i < kBuckets; ++i) limits[i] = least + width * static_cast<double>(i + 1);
  limits.back() = std::max(limits.back(), most);
  for (const double value : values) {
    const double at = std::floor((value - least) / width);
    counts[static_cast<std::size_t>(std::clamp(at, 0.0, kBuckets - 1.0))] += 1;
  }
  Message histogram;
  histogram.number(1, least);
  histogram.number(2, most);
  histogram.number(3, static_cast<double>(values.size()));
  histogram.number(4, sum);
  histogram.number(5, squares);
  histogram.numbers(6, limits);
  histogram.numbers(7, counts);
  Message entry;
  entry.text(1, tag);
  entry.text(5, histogram.bytes());
  summary.text(1, entry.bytes());
}

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes) {
  static const auto kTable = [] {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t crc = i;
      for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
      table[i] = crc;
    }
    return table;
  }();
  std::uint32_t crc = ~0u;
  for (const std::byte byte : bytes) crc = crc >> 8 ^ kTable[(crc ^ static_cast<std::uint32_t>(byte)) & 0xff];
  return ~crc;
}

std::uint32_t masked_crc(std::span<const std::byte> bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

Result<std::unique_ptr<TensorBoard>> TensorBoard::open(const std::string& folder, std::uint64_t resumed_step) {
  TRY(make_folders(folder));
  auto board = std::make_unique<TensorBoard>();
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  for (int number = 0; board->file_ == nullptr && number < 1000; ++number) {  // "x": a file of its own
    board->path_ = cat(folder, "/events.out.tfevents.", seconds, ".graft.", number);
    board->file_ = std::fopen(board->path_.c_str(), "wbx");
    if (board->file_ == nullptr && errno != EEXIST) break;
  }
  if (board->file_ == nullptr) {
    return error(Code::io_error, "Cannot write \"", board->path_, "\": ", std::strerror(errno), ".");
  }
  Message version = event_now(0);
  version.text(kFileVersion, "brain.Event:2");
  board->write(version.bytes());
  if (resumed_step > 0) {
    // SessionLog{status: START}: what was written of this step and later ones before is to be forgotten.
    Message log, start = event_now(resumed_step + 1);
    log.varint(1, 1);
    start.text(kSessionLog, log.bytes());
    board->write(start.bytes());
  }
  return board;
}

TensorBoard::~TensorBoard() {
  if (file_ != nullptr) std::fclose(file_);
}

void TensorBoard::write(const std::string& event) {
  if (file_ == nullptr) return;
  std::string record;
  const auto append = [&](auto value) {
    char raw[sizeof value];
    std::memcpy(raw, &value, sizeof value);
    record.append(raw, sizeof value);
  };
  append(static_cast<std::uint64_t>(event.size()));
  append(masked_crc(std::as_bytes(std::span(record.data(), 8))));
  record += event;
  append(masked_crc(std::as_bytes(std::span(event.data(), event.size()))));
  // In one call: a process that is killed leaves whole records, or a last one that readers drop.
  if (std::fwrite(record.data(), record.size(), 1, file_) == 1 && std::fflush(file_) == 0) return;
  to_stderr("Cannot write \"%s\": %s. No more events are written.\n", path_.c_str(), std::strerror(errno));
  std::fclose(file_);
  file_ = nullptr;
}

void TensorBoard::step(std::uint64_t step, const Scalars& scalars) {
  Message summary, event = event_now(step);
  for (const auto& [name, value] : scalars) add_scalar(summary, "train/" + name, value);
  event.text(kSummary, summary.bytes());
  write(event.bytes());
}

void TensorBoard::held_out(std::uint64_t step, const nlohmann::ordered_json& row) {
  Message summary, event = event_now(step);
  for (const auto& [name, value] : row.items()) {
    if (value.is_number() && name != "step") add_scalar(summary, "held_out/" + name, value.get<double>());
  }
  event.text(kSummary, summary.bytes());
  write(event.bytes());
}

Status TensorBoard::epoch(std::uint64_t step, const std::function<Status(const Add& add)>& each) {
  Message summary, event = event_now(step);
  TRY(each([&](std::string_view name, std::span<const float> values) {
    add_histogram(summary, "parameters/" + std::string(name), values);
  }));
  event.text(kSummary, summary.bytes());
  write(event.bytes());
  return ok_status();
}

}  // namespace graft::cli
