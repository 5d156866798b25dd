// Samples of a data set as numbers.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "runtime/data/source.h"

namespace graft::test {

/// Sample `position`: every field's elements one after another.
inline std::vector<double> sample_of(data::Source& source, std::uint64_t position) {
  std::vector<std::vector<std::byte>> memory;
  std::vector<std::byte*> out;
  for (const data::Field& field : source.fields()) memory.emplace_back(field.bytes());
  for (auto& block : memory) out.push_back(block.data());
  auto more = source.read(position, out);
  EXPECT_TRUE(more.ok() && *more) << (more.ok() ? "past the end" : more.status().message());
  std::vector<double> values;
  for (std::size_t f = 0; f < memory.size(); ++f) {
    for (std::size_t at = 0; at < memory[f].size(); at += 4) {
      float number = 0;
      std::int32_t whole = 0;
      std::memcpy(&number, &memory[f][at], 4);
      std::memcpy(&whole, &memory[f][at], 4);
      values.push_back(source.fields()[f].dtype == DType::f32 ? static_cast<double>(number) : whole);
    }
  }
  return values;
}

}  // namespace graft::test
