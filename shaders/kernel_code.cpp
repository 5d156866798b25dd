#include "shaders/kernel_code.h"

#include <zstd.h>

#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "shaders/kernel_words.h"

namespace graft::shaders {
namespace {

using Bytes = std::unique_ptr<std::byte[]>;

struct Unpacked {
  std::mutex mutex;  ///< of the words of its kernels too
  Bytes bytes;
};

Bytes unpack(const PackedGroup& packed, const Bytes& dictionary, std::size_t dictionary_size) {
  struct Free {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };
  const std::unique_ptr<ZSTD_DCtx, Free> context(ZSTD_createDCtx());
  Bytes bytes(new (std::nothrow) std::byte[packed.size]);
  if (bytes == nullptr || context == nullptr) return nullptr;
  const auto frame = packed_kernels().subspan(packed.offset, packed.bytes);
  const std::size_t size = ZSTD_decompress_usingDict(context.get(), bytes.get(), packed.size, frame.data(),
                                                     frame.size(), dictionary.get(), dictionary_size);
  return size == packed.size ? std::move(bytes) : nullptr;  // else there is no memory for it
}

/// A program uses kernels of a few folders: each group is unpacked when a kernel of it is first wanted, and of its
/// kernels only those that are.
const std::uint32_t* unpacked(const KernelPlace& place, std::size_t index) {
  static const std::unique_ptr<Unpacked[]> all(new (std::nothrow) Unpacked[kernel_groups().size()]);
  static const std::unique_ptr<std::unique_ptr<std::uint32_t[]>[]> words(
      new (std::nothrow) std::unique_ptr<std::uint32_t[]>[kernel_count()]);
  static const Bytes dictionary = unpack(kernel_groups().back(), nullptr, 0);
  if (all == nullptr || words == nullptr || dictionary == nullptr) return nullptr;
  const PackedGroup& packed = kernel_groups()[place.group];
  Unpacked& group = all[place.group];
  const std::lock_guard lock(group.mutex);
  if (words[index] != nullptr) return words[index].get();
  if (group.bytes == nullptr) group.bytes = unpack(packed, dictionary, kernel_groups().back().size);
  std::unique_ptr<std::uint32_t[]> own(new (std::nothrow) std::uint32_t[place.words]);
  if (group.bytes == nullptr || own == nullptr) return nullptr;
  const std::span<const std::byte> bytes(group.bytes.get() + place.first, packed.size - place.first);
  if (read_kernel(bytes, {own.get(), place.words})) words[index] = std::move(own);
  return words[index].get();
}

}  // namespace

const char* kernel_names() {
  static const Bytes names = unpack(*(kernel_groups().end() - 2), nullptr, 0);
  return reinterpret_cast<const char*>(names.get());
}

std::span<const std::uint32_t> KernelInfo::spirv() const {
  if (!built()) return {};
  const std::uint32_t* words = unpacked(place, static_cast<std::size_t>(this - &kernel_info(KernelId{0})));
  if (words == nullptr) return {};
  return {words, place.words};
}

}  // namespace graft::shaders
