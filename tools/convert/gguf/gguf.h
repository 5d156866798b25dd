// GGUF files, versions 2 and 3: the metadata and where the tensors lie. Hardened: every length, offset and name is
// checked before it is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "platform/base/status.h"

namespace graft::convert {

inline constexpr std::uint32_t kGgufMagic = 0x46554747;  ///< "GGUF", little endian

/// Numbers as in the file.
enum class GgufType : std::uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};

struct GgufValue {
  GgufType type = GgufType::u8;
  GgufType element = GgufType::u8;     ///< of an array
  std::span<const std::byte> bytes;    ///< of a number, or of an array's numbers, packed
  std::uint64_t count = 0;             ///< elements of an array
  std::vector<std::string_view> text;  ///< one string, or an array's strings
};

struct GgufTensor {
  std::string_view name;
  std::vector<std::uint64_t> dims;  ///< the fastest first, as in the file: one to four, whose product fits 63 bits
  std::uint32_t type = 0;           ///< ggml's number for the block format
  std::uint64_t offset = 0;         ///< from GgufFile::data
};

class GgufFile {
 public:
  /// Reads the header, the metadata and the tensor list. `bytes` must outlive the result.
  /// corrupt: anything that contradicts the format; unsupported: another version, big-endian files.
  static Result<GgufFile> parse(std::span<const std::byte> bytes);

  bool has(std::string_view key) const { return find(key) != nullptr; }
  const GgufValue* find(std::string_view key) const;
  /// Forgets a key; false where it is missing.
  bool erase(std::string_view key);
  /// Each: not_found where the key is missing, corrupt where its type is another one or the number does not fit.
  Result<std::string_view> text(std::string_view key) const;
  Result<std::int64_t> integer(std::string_view key) const;
  Result<double> real(std::string_view key) const;  ///< of any number type
  Result<bool> flag(std::string_view key) const;
  Result<std::span<const std::string_view>> texts(std::string_view key) const;
  Result<std::vector<std::int64_t>> integers(std::string_view key) const;
  Result<std::vector<float>> reals(std::string_view key) const;  ///< an array of f32 or f64

  const std::map<std::string_view, GgufValue>& metadata() const { return metadata_; }
  /// The keys of the metadata, in file order.
  std::span<const std::string_view> keys() const { return keys_; }
  /// In file order; names differ from each other. How many bytes a tensor has depends on its type: the caller checks
  /// that it lies within data().
  std::span<const GgufTensor> tensors() const { return tensors_; }
  /// From the aligned start of the tensor data to the end of the file.
  std::span<const std::byte> data() const { return data_; }
  std::uint64_t alignment() const { return alignment_; }

 private:
  Result<const GgufValue*> get(std::string_view key) const;

  std::map<std::string_view, GgufValue> metadata_;
  std::vector<std::string_view> keys_;
  std::vector<GgufTensor> tensors_;
  std::span<const std::byte> data_;
  std::uint64_t alignment_ = 32;
};

}  // namespace graft::convert
