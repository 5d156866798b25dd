// SHA-256 and SHA-1 of files, by which a hub says what a file holds. The command line has no other use for a library
// of cryptography.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tools/common/status.h"

namespace graft::cli {

enum class Digest { sha1, sha256 };

/// A digest that is fed piece by piece (FIPS 180-4).
class Digester {
 public:
  explicit Digester(Digest kind);
  void add(std::span<const unsigned char> bytes);
  /// In hexadecimal digits; the digester is then done.
  std::string finish();

 private:
  void block(const unsigned char* bytes);
  void block_sha1(const std::uint32_t* words);
  void block_sha256(const std::uint32_t* words);

  Digest kind_;
  std::uint32_t state_[8];
  unsigned char rest_[64];
  std::size_t rest_size_ = 0;
  std::uint64_t size_ = 0;
};

/// Of `prefix` and then the file.
Result<std::string> digest_of_file(const std::string& path, Digest kind, const std::string& prefix = "");

}  // namespace graft::cli
