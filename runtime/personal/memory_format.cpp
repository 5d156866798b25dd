#include "runtime/personal/memory_format.h"

#include <cmath>
#include <cstring>

#include "platform/base/byte_reader.h"
#include "platform/base/hash.h"
#include "platform/base/json.h"

namespace graft::personal {
namespace {

constexpr char kMemoryMagic[] = {'G', 'R', 'A', 'F', 'T', 'M', 'E', 'M'};
constexpr std::uint32_t kMemoryVersion = 1;
constexpr std::uint32_t kFrameMagic = 0x31464d47;  // "GMF1"
constexpr std::uint32_t kLastOfCommit = 0x80000000;
constexpr std::size_t kBoundHeaderBytes = 40;  // of the header, to which the settings are bound
constexpr std::size_t kBoundFrameBytes = 24;
constexpr std::uint64_t kMaxSettingsBytes = 1u << 20;
constexpr std::uint32_t kMaxMemoryFields = 64;

class ByteWriter {
 public:
  template <typename T>
  void number(T value) {
    const auto bytes = std::as_bytes(std::span(&value, 1));
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
  void text(std::string_view value) {
    number(static_cast<std::uint32_t>(value.size()));
    const auto bytes = std::as_bytes(std::span(value.data(), value.size()));
    out.insert(out.end(), bytes.begin(), bytes.end());
  }
  std::vector<std::byte> out;
};

Result<std::string> read_sized_text(ByteReader& in) {
  GRAFT_TRY_ASSIGN(const auto size, in.number<std::uint32_t>());
  GRAFT_TRY_ASSIGN(const std::string_view text, in.text(size));
  if (!json::is_utf8(text)) return corrupt("A name in it is not text in UTF-8.");
  return std::string(text);
}

Result<std::string> read_id(ByteReader& in) {
  GRAFT_TRY_ASSIGN(std::string id, read_sized_text(in));
  if (id.empty() || id.size() > kMaxIdBytes) {
    return corrupt("The id of a record has ", id.size(), " bytes; 1 to ", kMaxIdBytes, " are right.");
  }
  return id;
}

template <typename T>
void store(std::span<std::byte> out, std::size_t offset, T value) {
  std::memcpy(out.data() + offset, &value, sizeof value);
}
template <typename T>
T loaded(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

Status expect_end(const ByteReader& in, std::string_view what) {
  if (in.left() == 0) return ok_status();
  return corrupt("The ", what, " has ", in.left(), " bytes too many.");
}

std::vector<std::byte> encoded(const Settings& settings) {
  ByteWriter out;
  out.number(settings.bytes);
  out.number(settings.records);
  out.number(static_cast<std::uint32_t>(settings.policy));
  out.number(settings.held_out);
  out.number(settings.seed);
  out.number(static_cast<std::uint32_t>(settings.fields.size()));
  for (const data::Field& field : settings.fields) {
    out.text(field.name);
    out.number(static_cast<std::uint8_t>(field.dtype));
    out.number(static_cast<std::uint8_t>(field.packed ? static_cast<unsigned>(*field.packed) + 1 : 0));
    out.number(static_cast<std::uint8_t>(field.role));
    out.number(static_cast<std::uint8_t>(field.exact ? 1 : 0));
    out.number(static_cast<std::uint32_t>(field.shape.rank()));
    for (std::size_t axis = 0; axis < field.shape.rank(); ++axis) out.number(field.shape[axis].value());
    out.number(static_cast<std::uint32_t>(field.classes.size()));
    for (const std::string& name : field.classes) out.text(name);
  }
  return out.out;
}

Result<data::Field> decoded_field(ByteReader& in) {
  data::Field field;
  GRAFT_TRY_ASSIGN(field.name, read_sized_text(in));
  GRAFT_TRY_ASSIGN(const auto dtype, in.number<std::uint8_t>());
  GRAFT_TRY_ASSIGN(const auto packed, in.number<std::uint8_t>());
  GRAFT_TRY_ASSIGN(const auto role, in.number<std::uint8_t>());
  GRAFT_TRY_ASSIGN(const auto exact, in.number<std::uint8_t>());
  GRAFT_TRY_ASSIGN(const auto rank, in.number<std::uint32_t>());
  const auto known = static_cast<DType>(dtype);
  if ((known != DType::f32 && known != DType::i32) || packed > static_cast<unsigned>(Packed::bf16) + 1 ||
      role > static_cast<unsigned>(data::Role::weight) || exact > 1 || rank > Shape::kMaxRank) {
    return corrupt("The field \"", field.name, "\" of its samples is none that there can be.");
  }
  field.dtype = known;
  if (packed != 0) field.packed = static_cast<Packed>(packed - 1);
  field.role = static_cast<data::Role>(role);
  field.exact = exact != 0;
  std::vector<Dim> dims;
  for (std::uint32_t axis = 0; axis < rank; ++axis) {
    GRAFT_TRY_ASSIGN(const auto size, in.number<std::int64_t>());
    if (size <= 0) return corrupt("Axis ", axis, " of the field \"", field.name, "\" has the size ", size, ".");
    dims.emplace_back(size);
  }
  field.shape = Shape(std::move(dims));
  GRAFT_TRY_ASSIGN(const auto classes, in.number<std::uint32_t>());
  for (std::uint32_t i = 0; i < classes; ++i) {
    GRAFT_TRY_ASSIGN(std::string name, read_sized_text(in));
    field.classes.push_back(std::move(name));
  }
  return field;
}

Result<Settings> decoded(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  Settings settings;
  GRAFT_TRY_ASSIGN(settings.bytes, in.number<std::uint64_t>());
  GRAFT_TRY_ASSIGN(settings.records, in.number<std::uint64_t>());
  GRAFT_TRY_ASSIGN(const auto policy, in.number<std::uint32_t>());
  GRAFT_TRY_ASSIGN(settings.held_out, in.number<double>());
  GRAFT_TRY_ASSIGN(settings.seed, in.number<std::uint64_t>());
  GRAFT_TRY_ASSIGN(const auto fields, in.number<std::uint32_t>());
  if (policy > static_cast<unsigned>(Policy::age)) return corrupt("Its policy has the number ", policy, ".");
  if (!(settings.held_out >= 0 && settings.held_out < 1)) {
    return corrupt("Its held-out share is ", settings.held_out, "; it lies from 0 to below 1.");
  }
  if (fields == 0 || fields > kMaxMemoryFields) return corrupt("Its samples have ", fields, " fields.");
  settings.policy = static_cast<Policy>(policy);
  for (std::uint32_t i = 0; i < fields; ++i) {
    GRAFT_TRY_ASSIGN(data::Field field, decoded_field(in));
    settings.fields.push_back(std::move(field));
  }
  GRAFT_TRY(expect_end(in, "settings"));
  GRAFT_TRY(data::check_fields(settings.fields));
  return settings;
}

/// What a frame's body is bound to.
std::array<std::byte, 8 + kBoundFrameBytes> binding_of(const checkpoint::Sealer& sealer,
                                                       std::span<const std::byte> frame) {
  std::array<std::byte, 8 + kBoundFrameBytes> bound{};
  store(std::span<std::byte>(bound), 0, sealer.store());
  std::memcpy(bound.data() + 8, frame.data(), kBoundFrameBytes);
  return bound;
}

}  // namespace

Result<std::vector<std::byte>> write_start(const checkpoint::Sealer& sealer, std::uint64_t first_commit,
                                           const Settings& settings) {
  const std::vector<std::byte> plain = encoded(settings);
  const std::uint64_t stored = plain.size() + sealer.overhead();
  if (stored > kMaxSettingsBytes) {
    return invalid("The fields of a memory and the names of their classes have ", stored, " bytes; the limit is ",
                   kMaxSettingsBytes, ".");
  }
  std::vector<std::byte> out(kMemoryHeaderBytes);
  std::memcpy(out.data(), kMemoryMagic, sizeof kMemoryMagic);
  const std::span<std::byte> header(out);
  store(header, 8, kMemoryVersion);
  store(header, 12, std::uint32_t{sealer.on() ? 1u : 0u});
  store(header, 16, sealer.store());
  store(header, 24, first_commit);
  store(header, 32, stored);
  GRAFT_TRY_ASSIGN(const auto body, sealer.seal(header.first(kBoundHeaderBytes), plain));
  store(header, 40, hash64(body));
  store(header, 56, hash64(header.first(56)));
  out.insert(out.end(), body.begin(), body.end());
  out.resize((out.size() + 7) / 8 * 8);
  return out;
}

Result<MemoryHeader> read_memory_header(std::span<const std::byte> bytes) {
  if (bytes.size() < kMemoryHeaderBytes || std::memcmp(bytes.data(), kMemoryMagic, sizeof kMemoryMagic) != 0) {
    return corrupt("It is no memory of graft: it does not begin as one.");
  }
  if (const auto version = loaded<std::uint32_t>(bytes, 8); version != kMemoryVersion) {
    return unsupported("It has version ", version, "; this graft reads version ", kMemoryVersion, ".");
  }
  if (loaded<std::uint64_t>(bytes, 56) != hash64(bytes.first(56)) || loaded<std::uint32_t>(bytes, 12) > 1) {
    return corrupt("Its header is damaged: its checksum is another.");
  }
  const MemoryHeader header = {loaded<std::uint32_t>(bytes, 12) == 1, loaded<std::uint64_t>(bytes, 16),
                               loaded<std::uint64_t>(bytes, 24), loaded<std::uint64_t>(bytes, 32)};
  if (header.settings_bytes > kMaxSettingsBytes) {
    return corrupt("Its settings have ", header.settings_bytes, " bytes; the limit is ", kMaxSettingsBytes, ".");
  }
  return header;
}

Result<Settings> read_settings(const checkpoint::Sealer& sealer, const MemoryHeader& header,
                               std::span<const std::byte> start) {
  if (header.sealed && !sealer.on()) return invalid("It is encrypted; it opens with its cipher and key only.");
  if (!header.sealed && sealer.on()) return invalid("A cipher was given, but it is not encrypted.");
  const auto stored = start.subspan(kMemoryHeaderBytes, static_cast<std::size_t>(header.settings_bytes));
  if (loaded<std::uint64_t>(start, 40) != hash64(stored)) {
    return corrupt("Its settings are damaged: their checksum is another.");
  }
  const auto plain = sealer.open(start.first(kBoundHeaderBytes), stored, "settings");
  if (!plain.ok()) return invalid("The key is not the one that it was made with, or it was tampered with.");
  return decoded(*plain);
}

Status append_frame(const checkpoint::Sealer& sealer, FrameHeader header, std::span<const std::byte> body,
                    std::vector<std::byte>& out) {
  std::array<std::byte, kFrameBytes> start{};
  const std::span<std::byte> bytes(start);
  store(bytes, 0, kFrameMagic);
  store(bytes, 4, static_cast<std::uint32_t>(header.kind) | (header.last ? kLastOfCommit : 0));
  store(bytes, 8, header.commit);
  store(bytes, 16, header.index);
  store(bytes, 20, static_cast<std::uint32_t>(body.size() + sealer.overhead()));
  GRAFT_TRY_ASSIGN(const auto sealed, sealer.seal(binding_of(sealer, start), body));
  store(bytes, 24, hash64(sealed));
  store(bytes, 32, hash64(bytes.first(32)));
  out.insert(out.end(), start.begin(), start.end());
  out.insert(out.end(), sealed.begin(), sealed.end());
  out.resize((out.size() + 7) / 8 * 8);
  return ok_status();
}

std::optional<FrameHeader> read_frame_header(std::span<const std::byte> bytes) {
  if (bytes.size() < kFrameBytes || loaded<std::uint32_t>(bytes, 0) != kFrameMagic ||
      loaded<std::uint64_t>(bytes, 32) != hash64(bytes.first(32))) {
    return std::nullopt;
  }
  const auto kind = loaded<std::uint32_t>(bytes, 4);
  const std::uint32_t plain = kind & ~kLastOfCommit;
  if (plain < static_cast<std::uint32_t>(FrameKind::put) || plain > static_cast<std::uint32_t>(FrameKind::loss)) {
    return std::nullopt;
  }
  return FrameHeader{static_cast<FrameKind>(plain),    (kind & kLastOfCommit) != 0,
                     loaded<std::uint64_t>(bytes, 8),  loaded<std::uint32_t>(bytes, 16),
                     loaded<std::uint32_t>(bytes, 20), loaded<std::uint64_t>(bytes, 24)};
}

bool is_whole(const FrameHeader& header, std::span<const std::byte> frame) {
  return hash64(frame.subspan(kFrameBytes, header.bytes)) == header.checksum;
}

Result<std::vector<std::byte>> open_frame(const checkpoint::Sealer& sealer, const FrameHeader& header,
                                          std::span<const std::byte> frame) {
  if (!is_whole(header, frame)) return corrupt("A record of it is damaged: its checksum is another.");
  return sealer.open(binding_of(sealer, frame), frame.subspan(kFrameBytes, header.bytes), "record");
}

std::vector<std::byte> put_body(const Record& record, std::span<const std::byte> sample) {
  ByteWriter out;
  out.out.reserve(64 + record.id.size() + sample.size());
  out.number(record.number);
  out.number(record.added_ms);
  out.number(record.expires_ms);
  out.number(record.label);
  out.number(record.loss);
  out.number(static_cast<std::uint32_t>((record.may_train ? 1 : 0) | (record.may_evaluate ? 2 : 0) |
                                        (record.may_export ? 4 : 0)));
  out.text(record.id);
  out.out.insert(out.out.end(), sample.begin(), sample.end());
  return std::move(out.out);
}

Result<Record> read_put(std::span<const std::byte> body, std::uint64_t sample_bytes,
                        std::span<const std::byte>* sample) {
  ByteReader in(body);
  Record record;
  GRAFT_TRY_ASSIGN(record.number, in.number<std::uint64_t>());
  GRAFT_TRY_ASSIGN(record.added_ms, in.number<std::int64_t>());
  GRAFT_TRY_ASSIGN(record.expires_ms, in.number<std::int64_t>());
  GRAFT_TRY_ASSIGN(record.label, in.number<std::int64_t>());
  GRAFT_TRY_ASSIGN(record.loss, in.number<double>());
  GRAFT_TRY_ASSIGN(const auto may, in.number<std::uint32_t>());
  GRAFT_TRY_ASSIGN(record.id, read_id(in));
  if (may > 7) return corrupt("The consent of the record \"", record.id, "\" has the number ", may, ".");
  if (std::isinf(record.loss)) return corrupt("The loss of the record \"", record.id, "\" is infinite.");
  record.may_train = (may & 1) != 0;
  record.may_evaluate = (may & 2) != 0;
  record.may_export = (may & 4) != 0;
  if (in.left() != sample_bytes) {
    return corrupt("The sample of the record \"", record.id, "\" has ", in.left(), " bytes, not ", sample_bytes, ".");
  }
  if (sample != nullptr) *sample = body.last(static_cast<std::size_t>(sample_bytes));
  return record;
}

std::vector<std::byte> drop_body(std::span<const std::string> ids) {
  ByteWriter out;
  out.number(static_cast<std::uint32_t>(ids.size()));
  for (const std::string& id : ids) out.text(id);
  return std::move(out.out);
}

Result<std::vector<std::string>> read_drop(std::span<const std::byte> body) {
  ByteReader in(body);
  GRAFT_TRY_ASSIGN(const auto count, in.number<std::uint32_t>());
  std::vector<std::string> ids;
  for (std::uint32_t i = 0; i < count; ++i) {
    GRAFT_TRY_ASSIGN(std::string id, read_id(in));
    ids.push_back(std::move(id));
  }
  GRAFT_TRY(expect_end(in, "list of removed records"));
  return ids;
}

std::vector<std::byte> loss_body(const std::string& id, double loss) {
  ByteWriter out;
  out.text(id);
  out.number(loss);
  return std::move(out.out);
}

Result<std::pair<std::string, double>> read_loss(std::span<const std::byte> body) {
  ByteReader in(body);
  GRAFT_TRY_ASSIGN(std::string id, read_id(in));
  GRAFT_TRY_ASSIGN(const auto loss, in.number<double>());
  if (!std::isfinite(loss)) return corrupt("The loss of the record \"", id, "\" is not finite.");
  GRAFT_TRY(expect_end(in, "loss of a record"));
  return std::pair(std::move(id), loss);
}

}  // namespace graft::personal
