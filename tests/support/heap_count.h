// Counting heap allocations: a test that calls this replaces operator new for the whole program.
#pragma once

#include <cstdint>

namespace graft::test {

/// Calls of operator new so far, in every thread; always 0 in sanitizer builds.
std::uint64_t heap_allocations();
/// Bytes that these asked for, in all.
std::uint64_t heap_bytes_asked_for();

}  // namespace graft::test
