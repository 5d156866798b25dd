// The records of a memory file as a data set.
#pragma once

#include <memory>
#include <string_view>

#include "runtime/data/spec.h"
#include "runtime/personal/memory_file.h"

namespace graft::personal {

struct StoredSample {
  std::uint64_t offset = 0;  ///< of its frame
  std::uint64_t key = 0;     ///< of its place in an order by keys: a hash of its id
};

/// Reads from the file as it is now, whatever becomes of the memory.
std::unique_ptr<data::Source> stored_samples(std::shared_ptr<const MemoryReader> reader,
                                             std::vector<data::Field> fields, std::vector<StoredSample> samples);

/// "memory:FILE", with part=training|held-out (training): a memory without a cipher.
bool is_memory_spec(std::string_view spec);
Result<std::unique_ptr<data::Source>> open_memory_spec(std::string_view spec, os::FileSystem& files);

}  // namespace graft::personal
