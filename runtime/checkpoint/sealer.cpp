#include "runtime/checkpoint/sealer.h"

#include <cstring>

namespace graft::checkpoint {

Status Sealer::check_key(const Header& header, std::span<const std::byte> start) const {
  if (header.sealed && !on()) return invalid("The store is encrypted; it opens with its cipher and key only.");
  if (!header.sealed && on()) return invalid("A cipher was given, but the store is not encrypted.");
  const auto check = start.subspan(kHeaderBytes);
  if (open(start.first(kHeaderFieldBytes), check, "key check").ok() && check.size() == overhead()) return ok_status();
  return invalid("The key is not the one that the store was made with, or its files were tampered with.");
}

Result<std::vector<std::byte>> Sealer::seal(std::span<const std::byte> associated,
                                            std::span<const std::byte> plain) const {
  if (!on()) return std::vector<std::byte>(plain.begin(), plain.end());
  std::vector<std::byte> sealed(plain.size() + overhead());
  GRAFT_TRY(cipher_->seal(associated, plain, sealed));
  return sealed;
}

Result<std::vector<std::byte>> Sealer::open(std::span<const std::byte> associated, std::span<const std::byte> sealed,
                                            std::string_view what) const {
  if (!on()) return std::vector<std::byte>(sealed.begin(), sealed.end());
  if (sealed.size() < overhead()) return corrupt("The ", what, " has ", sealed.size(), " bytes, too few to be sealed.");
  std::vector<std::byte> plain(sealed.size() - overhead());
  if (const Status status = cipher_->open(associated, sealed, plain); !status.ok()) {
    return corrupt("The ", what, " was tampered with or sealed under another key: ", status.message());
  }
  return plain;
}

Result<Manifest> Sealer::decode_snapshot(std::span<const std::byte> bytes, std::uint64_t number,
                                         const Alike& like) const {
  GRAFT_TRY_ASSIGN(const Header header, read_header(FileKind::snapshot, bytes));
  if (header.store != store_ || header.number != number) {
    return corrupt("It is snapshot ", header.number, " of store ", header.store, ", not snapshot ", number,
                   " of store ", store_, ".");
  }
  if (header.sealed != on()) return corrupt("It is ", header.sealed ? "" : "not ", "encrypted, unlike its store.");
  const auto body = bytes.subspan(kHeaderBytes);
  if (header.a != body.size() || body.empty()) {
    return corrupt("It declares ", header.a, " bytes of tables and has ", body.size(), ".");
  }
  if (!on()) return decode_tables(body, header, like);
  GRAFT_TRY_ASSIGN(const auto tables, open(bytes.first(kHeaderFieldBytes), body, "snapshot's tables"));
  return decode_tables(tables, header, like);
}

std::vector<std::byte> Sealer::bound_to(const Chunk& chunk) const {
  std::vector<std::byte> bytes(40);
  std::memcpy(bytes.data(), "GRFD", 4);
  std::memcpy(&bytes[8], &store_, 8);
  std::memcpy(&bytes[16], &chunk.hash.low, 8);
  std::memcpy(&bytes[24], &chunk.hash.high, 8);
  std::memcpy(&bytes[32], &chunk.decoded_bytes, 4);
  bytes[36] = static_cast<std::byte>(chunk.codec);
  bytes[37] = static_cast<std::byte>(chunk.compression);
  bytes[38] = static_cast<std::byte>(chunk.element_bytes);
  return bytes;
}

}  // namespace graft::checkpoint
