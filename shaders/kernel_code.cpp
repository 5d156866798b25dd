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

using Words = std::unique_ptr<std::uint32_t[]>;

Words unpack(const PackedGroup& packed, const Words& dictionary, std::size_t dictionary_words) {
  struct Free {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };
  const std::unique_ptr<ZSTD_DCtx, Free> context(ZSTD_createDCtx());
  Words words(new (std::nothrow) std::uint32_t[packed.words]);
  if (words == nullptr || context == nullptr) return nullptr;
  const std::size_t bytes = packed.words * sizeof(std::uint32_t);
  const auto frame = packed_kernels().subspan(packed.offset, packed.bytes);
  const std::size_t size = ZSTD_decompress_usingDict(context.get(), words.get(), bytes, frame.data(), frame.size(),
                                                     dictionary.get(), dictionary_words * sizeof(std::uint32_t));
  return size == bytes ? std::move(words) : nullptr;  // else there is no memory for it
}

/// A program uses kernels of a few folders: each group is unpacked when a kernel of it is first wanted.
const std::uint32_t* unpacked(std::uint32_t group) {
  static const std::unique_ptr<Unpacked[]> all(new (std::nothrow) Unpacked[kernel_groups().size()]);
  static const Words dictionary = unpack(kernel_groups().back(), nullptr, 0);
  if (all == nullptr || dictionary == nullptr) return nullptr;
  Unpacked& own = all[group];
  const std::lock_guard lock(own.mutex);
  if (own.words == nullptr) own.words = unpack(kernel_groups()[group], dictionary, kernel_groups().back().words);
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
