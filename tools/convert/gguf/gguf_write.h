// Writing GGUF files, version 3: the metadata, the list of tensors, then their aligned bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "platform/os/file.h"
#include "tools/convert/common/export_tensor.h"
#include "tools/convert/gguf/gguf.h"

namespace graft::convert {

/// Metadata in the order in which it is added. A key that was added already is left as it was.
class GgufWriter {
 public:
  void add(std::string_view key, std::string_view text);
  void add(std::string_view key, const char* text) { add(key, std::string_view(text)); }
  void add(std::string_view key, std::uint32_t number);
  void add(std::string_view key, float number);
  void add(std::string_view key, bool flag);
  void add(std::string_view key, std::span<const std::string> texts);
  void add(std::string_view key, std::span<const std::int32_t> numbers);
  void add(std::string_view key, std::span<const float> numbers);
  void add(std::string_view key, std::span<const std::byte> bytes);  ///< an array of i8
  /// As another file has it.
  void add(std::string_view key, const GgufValue& value);

  /// Sets the alignment of tensors, where it is not 32: a power of two, which the metadata says too.
  void align(std::uint32_t alignment);

  /// Replaces `path` atomically; tensors are made and written one after another. Their dtypes are floats and blocks.
  /// `told` hears of each as it was made.
  using Told = std::function<void(const ExportTensor&, const ExportBytes&)>;
  Status write(os::FileSystem& files, const std::string& path, std::span<const ExportTensor> tensors,
               const Told& told = {}) const;
  /// The same in memory.
  Result<std::string> bytes(std::span<const ExportTensor> tensors) const;

 private:
  bool begin(std::string_view key, GgufType type);
  void put_text(std::string_view text);
  template <typename Number>
  void put(Number number);
  template <typename Number>
  void put_array(GgufType element, std::span<const Number> numbers);
  std::string header(std::span<const ExportTensor> tensors) const;
  template <typename Append>
  Status write_to(std::span<const ExportTensor> tensors, const Told& told, Append append) const;

  std::string entries_;
  std::set<std::string, std::less<>> keys_;
  std::uint64_t alignment_ = 32;
};

}  // namespace graft::convert
