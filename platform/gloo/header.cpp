#include "platform/gloo/header.h"

#include <cstring>

namespace graft::gloo_group {

std::array<std::size_t, kMostParts> along(std::size_t parts, const std::size_t* bytes, std::uint32_t worker,
                                          std::uint32_t size) {
  std::array<std::size_t, kMostParts> small = {};
  std::size_t left = kSmall;
  for (std::size_t p = 0; p < parts; ++p) {
    const std::size_t wanted = bytes[p * size + worker];
    if (wanted > left) continue;
    small[p] = wanted;
    left -= wanted;
  }
  return small;
}

void Header::write(std::uint64_t number, const Parts& given, std::uint32_t to, std::uint32_t size) {
  call = number;
  parts = given.count;
  const auto small = along(given.count, given.out_bytes, to, size);
  char* next = words;
  for (std::size_t p = 0; p < given.count; ++p) {
    const std::size_t at = p * size + to;
    bytes[p] = given.out_bytes[at];
    if (small[p] > 0) std::memcpy(next, given.out[at], small[p]);
    next += small[p];
  }
}

Status Header::check(std::uint64_t number, const Parts& wanted, std::uint32_t from, std::uint32_t rank,
                     std::uint32_t size) const {
  if (call != number) {
    return invalid("Worker ", from, " is at exchange ", call, ", worker ", rank, " at ", number, ".");
  }
  if (parts != wanted.count) {
    return invalid("Worker ", from, " gives ", parts, " parts; worker ", rank, " waits for ", wanted.count, ".");
  }
  for (std::size_t p = 0; p < wanted.count; ++p) {
    const std::size_t expected = wanted.in_bytes[p * size + from];
    if (bytes[p] == expected) continue;
    return invalid("Worker ", from, " gives worker ", rank, " ", bytes[p], " bytes; it waits for ", expected, ".");
  }
  return {};
}

void Header::read(const Parts& wanted, std::uint32_t from, std::uint32_t size) const {
  const auto small = along(wanted.count, wanted.in_bytes, from, size);
  const char* next = words;
  for (std::size_t p = 0; p < wanted.count; ++p) {
    if (small[p] > 0) std::memcpy(wanted.in[p * size + from], next, small[p]);
    next += small[p];
  }
}

}  // namespace graft::gloo_group
