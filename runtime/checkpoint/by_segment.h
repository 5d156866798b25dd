// What is known of segments, by their numbers.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>

namespace graft::checkpoint {

/// A map from segments' numbers. A snapshot's chunks lie in a few segments, by turns: the last few dozen that were
/// asked for are found without a search.
template <class T>
class BySegment {
 public:
  BySegment() = default;
  BySegment(BySegment&&) noexcept = default;
  BySegment& operator=(BySegment&&) noexcept = default;

  /// Null where nothing is known of it.
  T* find(std::uint64_t segment) {
    Recent& recent = recent_[segment % recent_.size()];
    if (recent.value != nullptr && recent.segment == segment) return recent.value;
    const auto found = all_.find(segment);
    if (found == all_.end()) return nullptr;
    recent = {segment, &found->second};
    return recent.value;
  }
  T& operator[](std::uint64_t segment) {
    if (T* known = find(segment)) return *known;
    return all_[segment];
  }

 private:
  struct Recent {
    std::uint64_t segment = 0;
    T* value = nullptr;
  };
  std::unordered_map<std::uint64_t, T> all_;  // whose values stay where they are
  std::array<Recent, 64> recent_;
};

}  // namespace graft::checkpoint
