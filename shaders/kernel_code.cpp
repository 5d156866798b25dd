#include "shaders/kernel_code.h"

#include <zstd.h>

#include <memory>
#include <mutex>
#include <new>

namespace graft::shaders {
namespace {

struct Unpacked {
  std::mutex mutex;
  std::unique_ptr<std::uint32_t[]> words;
};

/// A program uses a few dozen of some hundred kernels: each group is unpacked when a kernel of it is first wanted.
const std::uint32_t* unpacked(std::uint32_t group) {
  static const std::unique_ptr<Unpacked[]> all(new (std::nothrow) Unpacked[kernel_groups().size()]);
  if (all == nullptr) return nullptr;
  Unpacked& own = all[group];
  const std::lock_guard lock(own.mutex);
  if (own.words != nullptr) return own.words.get();
  const PackedGroup& packed = kernel_groups()[group];
  std::unique_ptr<std::uint32_t[]> words(new (std::nothrow) std::uint32_t[packed.words]);
  if (words == nullptr) return nullptr;
  const std::size_t bytes = packed.words * sizeof(std::uint32_t);
  const auto frame = packed_kernels().subspan(packed.offset, packed.bytes);
  if (ZSTD_decompress(words.get(), bytes, frame.data(), frame.size()) != bytes) return nullptr;  // no memory for it
  own.words = std::move(words);
  return own.words.get();
}

}  // namespace

std::span<const std::uint32_t> KernelInfo::spirv() const {
  if (!built()) return {};
  const std::uint32_t* words = unpacked(place.group);
  if (words == nullptr) return {};
  return {words + place.first, place.words};
}

}  // namespace graft::shaders
