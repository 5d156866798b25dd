#include "tools/convert/tflite/tflite_sparse.h"

#include <cstring>
#include <string_view>

#include "platform/base/checked.h"

namespace graft::convert {
namespace {

struct Level {
  bool sparse = false;
  std::uint64_t size = 0;
  std::vector<std::int64_t> segments, indices;  ///< where it is sparse
};

template <class Vector>
std::vector<std::int64_t> numbers_of(const Vector* from) {
  if (from == nullptr || from->values() == nullptr) return {};
  return {from->values()->begin(), from->values()->end()};
}

/// Of the union's three widths.
std::vector<std::int64_t> numbers_of(tfl::SparseIndexVector type, const void* from) {
  switch (type) {
    case tfl::SparseIndexVector::Int32Vector: return numbers_of(static_cast<const tfl::Int32Vector*>(from));
    case tfl::SparseIndexVector::Uint16Vector: return numbers_of(static_cast<const tfl::Uint16Vector*>(from));
    case tfl::SparseIndexVector::Uint8Vector: return numbers_of(static_cast<const tfl::Uint8Vector*>(from));
    default: return {};
  }
}

class Expander {
 public:
  Expander(std::span<const std::int64_t> dims, std::size_t element, std::span<const std::uint8_t> data)
      : dims_(dims), element_(element), data_(data) {}

  Result<std::vector<std::uint8_t>> run(const tfl::SparsityParameters& sparsity, std::uint64_t limit) {
    std::uint64_t bytes = element_;
    for (const std::int64_t dim : dims_) {
      const auto product = checked_mul<std::uint64_t>(bytes, static_cast<std::uint64_t>(dim));
      if (dim < 1 || !product) return corrupt("is sparse, and its shape is not one of elements");
      bytes = *product;
    }
    if (bytes > limit) return unsupported("is sparse, and dense it would have ", bytes, " bytes");
    GRAFT_TRY(read_levels(sparsity));
    out_.assign(bytes, 0);
    at_.assign(levels_.size(), 0);
    GRAFT_TRY(walk(0, 0));
    if (next_ != data_.size()) return bad("has more elements than its indices name");
    return std::move(out_);
  }

 private:
  static Status bad(std::string_view what) { return corrupt("is sparse, and ", what); }

  Status read_levels(const tfl::SparsityParameters& sparsity) {
    const std::size_t rank = dims_.size();
    const auto* order = sparsity.traversal_order();
    const auto* metadata = sparsity.dim_metadata();
    const std::size_t blocks = sparsity.block_map() == nullptr ? 0 : sparsity.block_map()->size();
    if (order == nullptr || metadata == nullptr || blocks > rank || order->size() != rank + blocks ||
        metadata->size() != rank + blocks) {
      return bad("its levels are not those of its shape");
    }
    std::vector<bool> seen(rank + blocks);
    for (std::size_t level = 0; level < rank + blocks; ++level) {
      const std::int64_t axis = order->Get(static_cast<flatbuffers::uoffset_t>(level));
      const std::size_t from = level < rank ? 0 : rank, to = level < rank ? rank : rank + blocks;
      if (axis < static_cast<std::int64_t>(from) || axis >= static_cast<std::int64_t>(to) ||
          seen[static_cast<std::size_t>(axis)]) {
        return bad("its order of traversal is none of its axes");
      }
      seen[static_cast<std::size_t>(axis)] = true;
      if (level >= rank && static_cast<std::size_t>(axis) != level)
        return unsupported("is sparse with blocks in another order");
      order_.push_back(static_cast<std::size_t>(axis));
    }
    std::vector<std::uint64_t> sizes(dims_.begin(), dims_.end());  // in blocks
    for (std::size_t k = 0; k < blocks; ++k) {
      const std::int64_t axis = sparsity.block_map()->Get(static_cast<flatbuffers::uoffset_t>(k));
      const std::int64_t size = metadata->Get(static_cast<flatbuffers::uoffset_t>(rank + k))->dense_size();
      if (axis < 0 || axis >= static_cast<std::int64_t>(rank) || size < 1)
        return bad("its blocks have no axis or size");
      std::uint64_t& whole = sizes[static_cast<std::size_t>(axis)];
      if (whole != static_cast<std::uint64_t>(dims_[static_cast<std::size_t>(axis)]) ||
          whole % static_cast<std::uint64_t>(size) != 0) {
        return bad("its blocks do not fill its shape");
      }
      whole /= static_cast<std::uint64_t>(size);
      block_axes_.push_back(static_cast<std::size_t>(axis));
      sizes.push_back(static_cast<std::uint64_t>(size));
    }
    for (std::size_t level = 0; level < rank + blocks; ++level) {
      const tfl::DimensionMetadata& given = *metadata->Get(static_cast<flatbuffers::uoffset_t>(level));
      Level& made = levels_.emplace_back();
      made.size = sizes[order_[level]];
      made.sparse = given.format() == tfl::DimensionType::SPARSE_CSR;
      if (!made.sparse) {
        if (given.format() != tfl::DimensionType::DENSE || given.dense_size() < 1 ||
            static_cast<std::uint64_t>(given.dense_size()) != made.size) {
          return bad("a level of it has another size than its shape");
        }
        continue;
      }
      if (level >= rank) return unsupported("is sparse within blocks");
      made.segments = numbers_of(given.array_segments_type(), given.array_segments());
      made.indices = numbers_of(given.array_indices_type(), given.array_indices());
    }
    return {};
  }

  /// `slot`: which of the places at this level, counted through all that are before. Every place is visited once at
  /// most, so this ends with the shape.
  Status walk(std::size_t level, std::uint64_t slot) {
    if (level == levels_.size()) return take();
    const Level& l = levels_[level];
    if (!l.sparse) {
      for (std::uint64_t i = 0; i < l.size; ++i) {
        at_[level] = i;
        GRAFT_TRY(walk(level + 1, slot * l.size + i));
      }
      return {};
    }
    if (slot + 1 >= l.segments.size()) return bad("has too few segments");
    const std::int64_t begin = l.segments[slot], end = l.segments[slot + 1];
    if (begin < 0 || end < begin || end > static_cast<std::int64_t>(l.indices.size())) {
      return bad("a segment of it is none of its indices");
    }
    std::int64_t last = -1;
    for (std::int64_t k = begin; k < end; ++k) {
      const std::int64_t index = l.indices[static_cast<std::size_t>(k)];
      if (index <= last || index >= static_cast<std::int64_t>(l.size)) return bad("an index of it is out of order");
      last = index;
      at_[level] = static_cast<std::uint64_t>(index);
      GRAFT_TRY(walk(level + 1, static_cast<std::uint64_t>(k)));
    }
    return {};
  }

  Status take() {
    const std::size_t rank = dims_.size();
    std::vector<std::uint64_t> place(rank);
    for (std::size_t level = 0; level < rank; ++level) place[order_[level]] = at_[level];
    for (std::size_t k = 0; k < block_axes_.size(); ++k) {
      std::uint64_t& axis = place[block_axes_[k]];
      axis = axis * levels_[rank + k].size + at_[rank + k];
    }
    std::uint64_t flat = 0;
    for (std::size_t axis = 0; axis < rank; ++axis) flat = flat * static_cast<std::uint64_t>(dims_[axis]) + place[axis];
    if (element_ > data_.size() - next_) return bad("has fewer elements than its indices name");
    std::memcpy(out_.data() + flat * element_, data_.data() + next_, element_);
    next_ += element_;
    return {};
  }

  std::span<const std::int64_t> dims_;
  std::size_t element_;
  std::span<const std::uint8_t> data_;
  std::vector<Level> levels_;
  std::vector<std::size_t> order_;       ///< the axis of each level; blocks behind the axes
  std::vector<std::size_t> block_axes_;  ///< which axis each level of blocks divides
  std::vector<std::uint64_t> at_;
  std::vector<std::uint8_t> out_;
  std::size_t next_ = 0;
};

}  // namespace

Result<std::vector<std::uint8_t>> dense_bytes(const tfl::SparsityParameters& sparsity,
                                              std::span<const std::int64_t> dims, std::size_t element,
                                              std::span<const std::uint8_t> data, std::uint64_t limit) {
  return Expander(dims, element, data).run(sparsity, limit);
}

}  // namespace graft::convert
