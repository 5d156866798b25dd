// Small memories for tests: samples of four numbers and a label, with what a memory of them is made with.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "runtime/personal/memory.h"

namespace graft::test {

struct TinySample {
  std::array<float, 4> x{};
  std::int32_t label = 0;

  std::array<const std::byte*, 2> contents() const {
    return {reinterpret_cast<const std::byte*>(x.data()), reinterpret_cast<const std::byte*>(&label)};
  }
  std::vector<std::byte> bytes() const {
    std::vector<std::byte> out(sizeof x + sizeof label);
    std::memcpy(out.data(), x.data(), sizeof x);
    std::memcpy(out.data() + sizeof x, &label, sizeof label);
    return out;
  }
};

inline TinySample tiny_sample(int number, int classes = 3) {
  const auto n = static_cast<float>(number);
  return {{n, n / 8, -n, 1}, number % classes};
}

inline personal::MemoryOptions tiny_memory_options(os::FileSystem& files, std::uint64_t bytes = 1u << 20) {
  personal::MemoryOptions options;
  options.files = &files;
  options.settings.bytes = bytes;
  options.settings.held_out = 0;
  options.settings.seed = 5;
  options.settings.fields = {{"x", DType::f32, Shape{4}, data::Role::feature},
                             {"y", DType::i32, Shape{}, data::Role::label}};
  return options;
}

inline Result<personal::Added> put_tiny(personal::ExampleMemory& memory, const std::string& id,
                                        const TinySample& sample, double loss = personal::Record::kUnknown) {
  personal::Record record;
  record.id = id;
  record.added_ms = 1;
  record.loss = loss;
  return memory.add(std::move(record), sample.contents());
}

/// Everything that a memory holds, by id.
using MemoryState = std::map<std::string, std::pair<double, std::vector<std::byte>>>;

inline Result<MemoryState> read_memory(const personal::ExampleMemory& memory) {
  MemoryState state;
  for (const personal::Record* record : memory.records()) {
    std::vector<std::byte> sample;
    GRAFT_TRY(memory.read(record->id, sample));
    state[record->id] = {std::isnan(record->loss) ? -1 : record->loss, std::move(sample)};
  }
  return state;
}

}  // namespace graft::test
