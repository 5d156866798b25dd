// The bytes of a memory file: a header with its settings, then frames, each of which is checked and sealed by itself.
//
//   header    64 bytes: "GRAFTMEM", version, flags (1: sealed), the file's random identity, the number of its first
//             commit, bytes of the settings, checksum of the settings, zeros, checksum of the 56 bytes before it
//   settings  fields, limits, policy, seed: sealed, bound to the first 40 bytes of the header
//   frames    at multiples of 8, zeros in front: 40 bytes (magic, kind with a bit for the last of its commit, commit,
//             index within it, bytes of the body, checksum of the body, checksum of the 32 bytes before it), then the
//             body: sealed, bound to the file's identity and the frame's first 24 bytes
//
// Numbers are little endian. A commit is all its frames or none: those after the last whole commit are what a crash
// left of one that nobody was told of. A bad frame with a later commit behind it is damage.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "platform/base/status.h"
#include "runtime/checkpoint/sealer.h"
#include "runtime/data/source.h"

namespace graft::personal {

inline constexpr std::size_t kMemoryHeaderBytes = 64;
inline constexpr std::size_t kFrameBytes = 40;
inline constexpr std::uint64_t kMaxBodyBytes = 1ull << 28;
inline constexpr std::size_t kMaxIdBytes = 255;

/// Which record goes if there are too many: always one of the class of which there are most.
enum class Policy : std::uint8_t {
  reservoir,  ///< what stays is a uniform sample of all that came, by a keyed hash of ids
  loss,       ///< the smallest loss goes first; one whose loss is not known stays
  age,        ///< the oldest goes first
};

struct Settings {
  std::vector<data::Field> fields;
  std::uint64_t bytes = 64ull << 20;  ///< of the file
  std::uint64_t records = 0;          ///< 0: no limit
  Policy policy = Policy::reservoir;
  double held_out = 0.1;  ///< share of records that are never trained on
  std::uint64_t seed = 0;
};

/// What is known of a record without its sample.
struct Record {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

  std::string id;
  std::uint64_t number = 0;  ///< by arrival, from 0
  std::int64_t added_ms = 0;
  std::int64_t expires_ms = 0;  ///< 0: never
  std::int64_t label = 0;       ///< the class, of samples whose first label is one whole number
  double loss = kUnknown;
  bool may_train = true;
  bool may_evaluate = true;
  bool may_export = false;
};

struct MemoryHeader {
  bool sealed = false;
  std::uint64_t identity = 0;
  std::uint64_t first_commit = 0;
  std::uint64_t settings_bytes = 0;
};

/// The header and the settings behind it.
Result<std::vector<std::byte>> write_start(const checkpoint::Sealer& sealer, std::uint64_t first_commit,
                                           const Settings& settings);
/// Of the first kMemoryHeaderBytes bytes. corrupt; unsupported for another version.
Result<MemoryHeader> read_memory_header(std::span<const std::byte> bytes);
/// Requires the header's bytes, and behind them the settings'. invalid_argument for another key.
Result<Settings> read_settings(const checkpoint::Sealer& sealer, const MemoryHeader& header,
                               std::span<const std::byte> start);

enum class FrameKind : std::uint32_t { put = 1, drop = 2, loss = 3 };

struct FrameHeader {
  FrameKind kind = FrameKind::put;
  bool last = false;  ///< of its commit
  std::uint64_t commit = 0;
  std::uint32_t index = 0;
  std::uint32_t bytes = 0;  ///< of the body
  std::uint64_t checksum = 0;
};
/// Of the frame with its zeros.
inline std::uint64_t frame_size(std::uint64_t body) { return (kFrameBytes + body + 7) / 8 * 8; }

/// Appends a whole frame; `checksum` and `bytes` of the header follow from the body.
Status append_frame(const checkpoint::Sealer& sealer, FrameHeader header, std::span<const std::byte> body,
                    std::vector<std::byte>& out);
/// The header at the start of `bytes`, or nullopt where there is no right one.
std::optional<FrameHeader> read_frame_header(std::span<const std::byte> bytes);
/// What was sealed. `frame`: the header and the body. corrupt where it is not right.
Result<std::vector<std::byte>> open_frame(const checkpoint::Sealer& sealer, const FrameHeader& header,
                                          std::span<const std::byte> frame);
/// Whether the body is what the header says, without opening it.
bool is_whole(const FrameHeader& header, std::span<const std::byte> frame);

std::vector<std::byte> put_body(const Record& record, std::span<const std::byte> sample);
/// `sample`: the `sample_bytes` bytes that follow the record.
Result<Record> read_put(std::span<const std::byte> body, std::uint64_t sample_bytes,
                        std::span<const std::byte>* sample = nullptr);
std::vector<std::byte> drop_body(std::span<const std::string> ids);
Result<std::vector<std::string>> read_drop(std::span<const std::byte> body);
std::vector<std::byte> loss_body(const std::string& id, double loss);
Result<std::pair<std::string, double>> read_loss(std::span<const std::byte> body);

}  // namespace graft::personal
