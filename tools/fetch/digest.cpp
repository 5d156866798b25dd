#include "tools/fetch/digest.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

namespace graft::cli {
namespace {

// FIPS 180-4, 5.3.1 and 5.3.3.
constexpr std::uint32_t kSha1Start[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
constexpr std::uint32_t kSha256Start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                           0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
// 4.2.2: the first 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr std::uint32_t kSha256Round[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

}  // namespace

Digester::Digester(Digest kind) : kind_(kind) {
  if (kind == Digest::sha1) {
    std::ranges::copy(kSha1Start, state_);
  } else {
    std::ranges::copy(kSha256Start, state_);
  }
}

void Digester::add(std::span<const unsigned char> bytes) {
  size_ += bytes.size();
  while (!bytes.empty()) {
    if (rest_size_ == 0 && bytes.size() >= sizeof rest_) {
      block(bytes.data());
      bytes = bytes.subspan(sizeof rest_);
      continue;
    }
    const std::size_t taken = std::min(bytes.size(), sizeof rest_ - rest_size_);
    std::memcpy(rest_ + rest_size_, bytes.data(), taken);
    rest_size_ += taken;
    bytes = bytes.subspan(taken);
    if (rest_size_ == sizeof rest_) {
      block(rest_);
      rest_size_ = 0;
    }
  }
}

std::string Digester::finish() {
  const std::uint64_t bits = size_ * 8;
  unsigned char end[72] = {0x80};
  // The bits' number takes the last 8 bytes of a block.
  const std::size_t zeros = (rest_size_ < 56 ? 56 : 120) - rest_size_;
  for (std::size_t i = 0; i < 8; ++i) end[zeros + i] = static_cast<unsigned char>(bits >> (56 - 8 * i));
  add({end, zeros + 8});
  std::string text;
  for (std::size_t i = 0; i < (kind_ == Digest::sha1 ? 5U : 8U); ++i) {
    char digits[9];
    std::snprintf(digits, sizeof digits, "%08x", static_cast<unsigned>(state_[i]));
    text += digits;
  }
  return text;
}

void Digester::block(const unsigned char* bytes) {
  std::uint32_t words[16];
  for (std::size_t i = 0; i < 16; ++i) {
    words[i] = std::uint32_t{bytes[4 * i]} << 24 | std::uint32_t{bytes[4 * i + 1]} << 16 |
               std::uint32_t{bytes[4 * i + 2]} << 8 | bytes[4 * i + 3];
  }
  if (kind_ == Digest::sha1) {
    block_sha1(words);
  } else {
    block_sha256(words);
  }
}

// 6.1.2.
void Digester::block_sha1(const std::uint32_t* words) {
  std::uint32_t w[80];
  std::copy_n(words, 16, w);
  for (std::size_t t = 16; t < 80; ++t) w[t] = std::rotl(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
  auto [a, b, c, d, e] = std::to_array({state_[0], state_[1], state_[2], state_[3], state_[4]});
  for (std::size_t t = 0; t < 80; ++t) {
    std::uint32_t mixed = b ^ c ^ d;
    std::uint32_t constant = t < 40 ? 0x6ed9eba1 : 0xca62c1d6;
    if (t < 20) {
      mixed = (b & c) | (~b & d);
      constant = 0x5a827999;
    } else if (t >= 40 && t < 60) {
      mixed = (b & c) | (b & d) | (c & d);
      constant = 0x8f1bbcdc;
    }
    const std::uint32_t next = std::rotl(a, 5) + mixed + e + constant + w[t];
    e = d;
    d = c;
    c = std::rotl(b, 30);
    b = a;
    a = next;
  }
  const std::uint32_t added[5] = {a, b, c, d, e};
  for (std::size_t i = 0; i < 5; ++i) state_[i] += added[i];
}

// 6.2.2.
void Digester::block_sha256(const std::uint32_t* words) {
  std::uint32_t w[64];
  std::copy_n(words, 16, w);
  for (std::size_t t = 16; t < 64; ++t) {
    const std::uint32_t s0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ (w[t - 15] >> 3);
    const std::uint32_t s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ (w[t - 2] >> 10);
    w[t] = w[t - 16] + s0 + w[t - 7] + s1;
  }
  std::uint32_t v[8];
  std::ranges::copy(state_, v);
  for (std::size_t t = 0; t < 64; ++t) {
    const std::uint32_t s1 = std::rotr(v[4], 6) ^ std::rotr(v[4], 11) ^ std::rotr(v[4], 25);
    const std::uint32_t chosen = (v[4] & v[5]) ^ (~v[4] & v[6]);
    const std::uint32_t first = v[7] + s1 + chosen + kSha256Round[t] + w[t];
    const std::uint32_t s0 = std::rotr(v[0], 2) ^ std::rotr(v[0], 13) ^ std::rotr(v[0], 22);
    const std::uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
    std::copy_backward(v, v + 7, v + 8);
    v[4] += first;
    v[0] = first + s0 + majority;
  }
  for (std::size_t i = 0; i < 8; ++i) state_[i] += v[i];
}

Result<std::string> digest_of_file(const std::string& path, Digest kind, const std::string& prefix) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (file == nullptr) return error(Code::io_error, "Cannot read \"", path, "\": ", std::strerror(errno), ".");
  Digester digester(kind);
  digester.add({reinterpret_cast<const unsigned char*>(prefix.data()), prefix.size()});
  std::vector<unsigned char> piece(std::size_t{1} << 20);
  while (const std::size_t read = std::fread(piece.data(), 1, piece.size(), file.get())) {
    digester.add({piece.data(), read});
  }
  if (std::ferror(file.get()) != 0) return error(Code::io_error, "Cannot read \"", path, "\" to its end.");
  return digester.finish();
}

}  // namespace graft::cli
