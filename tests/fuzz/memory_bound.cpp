// What a target may take of the host's memory for one input: a finding where it takes more. The linker puts this around
// each target's LLVMFuzzerTestOneInput (--wrap), so that libFuzzer and the replay of the seeds both pass here.
// Counted is every malloc of the process: by the sanitizer's hooks, or by functions that stand in front of glibc's.
#include <malloc.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier): the linker's and the libraries' own names
int __real_LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
int __wrap_LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
}

namespace {

/// As docs/reference/formats.md promises of readers. What a target does with what was read is counted as well.
constexpr std::int64_t kFixed = 128 << 20, kPerByte = 32;

std::atomic<std::int64_t> live{0}, peak{0};

[[maybe_unused]] void add(std::int64_t bytes) {
  const std::int64_t now = live.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::int64_t most = peak.load(std::memory_order_relaxed);
  while (now > most && !peak.compare_exchange_weak(most, now, std::memory_order_relaxed)) continue;
}

}  // namespace

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GRAFT_UNDER_ASAN 1
#elif __has_feature(thread_sanitizer)
#define GRAFT_UNDER_TSAN 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define GRAFT_UNDER_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define GRAFT_UNDER_TSAN 1
#endif

#if defined(GRAFT_UNDER_ASAN)

extern "C" {  // of <sanitizer/allocator_interface.h>, which GCC does not install
std::size_t __sanitizer_get_current_allocated_bytes();
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void*, std::size_t),
                                              void (*on_free)(const volatile void*));
}

namespace {

/// Only large blocks are looked at: the question costs more than a malloc, and small ones alone reach no bound unseen.
constexpr std::size_t kWorthAsking = 4096;

std::int64_t at_the_start() { return static_cast<std::int64_t>(__sanitizer_get_current_allocated_bytes()); }

void on_malloc(const volatile void*, std::size_t bytes) {
  if (bytes < kWorthAsking) return;
  const std::int64_t now = at_the_start();
  if (now > peak.load(std::memory_order_relaxed)) peak.store(now, std::memory_order_relaxed);
}
void on_free(const volatile void*) {}

const int hooks = __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);

}  // namespace

#elif defined(__GLIBC__) && !defined(GRAFT_UNDER_TSAN)

namespace {
std::int64_t at_the_start() { return live.load(std::memory_order_relaxed); }
void* counted(void* block) {
  if (block != nullptr) add(static_cast<std::int64_t>(malloc_usable_size(block)));
  return block;
}
}  // namespace

extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* block, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
void __libc_free(void* block);

void* malloc(std::size_t bytes) { return counted(__libc_malloc(bytes)); }
void* calloc(std::size_t count, std::size_t bytes) { return counted(__libc_calloc(count, bytes)); }
void* memalign(std::size_t alignment, std::size_t bytes) { return counted(__libc_memalign(alignment, bytes)); }
void* aligned_alloc(std::size_t alignment, std::size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** block, std::size_t alignment, std::size_t bytes) {
  *block = memalign(alignment, bytes);
  return *block == nullptr ? 12 : 0;  // ENOMEM
}
void* realloc(void* block, std::size_t bytes) {
  const std::int64_t before = block == nullptr ? 0 : static_cast<std::int64_t>(malloc_usable_size(block));
  void* const moved = __libc_realloc(block, bytes);
  if (moved != nullptr || bytes == 0) add(-before);
  return counted(moved);
}
void free(void* block) {
  if (block != nullptr) add(-static_cast<std::int64_t>(malloc_usable_size(block)));
  __libc_free(block);
}
}

#else

namespace {
std::int64_t at_the_start() { return 0; }  // nothing is counted
}  // namespace

#endif

int __wrap_LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::int64_t before = at_the_start();
  peak.store(before, std::memory_order_relaxed);
  const int result = __real_LLVMFuzzerTestOneInput(data, size);
  const std::int64_t taken = peak.load(std::memory_order_relaxed) - before;
  const std::int64_t most = kFixed + kPerByte * static_cast<std::int64_t>(size);
  if (taken > most) {
    std::fprintf(stderr, "An input of %zu bytes took %lld bytes of memory; at most %lld are allowed.\n", size,
                 static_cast<long long>(taken), static_cast<long long>(most));
    std::abort();
  }
  return result;
}
// NOLINTEND(bugprone-reserved-identifier)
