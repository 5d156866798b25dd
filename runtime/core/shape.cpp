#include "runtime/core/shape.h"

#include <algorithm>

#include "platform/base/checked.h"

namespace graft {
namespace {

constexpr std::int64_t kMaxElements = std::int64_t{1} << 62;

}  // namespace

Shape Shape::of(const std::vector<std::int64_t>& dims) { return Shape(std::vector<Dim>(dims.begin(), dims.end())); }

bool Shape::is_constant() const {
  return std::all_of(dims_.begin(), dims_.end(), [](const Dim& d) { return d.is_constant(); });
}

Result<Dim> Shape::element_count() const {
  Dim count(1);
  bool empty = false;
  for (const Dim& dim : dims_) {
    if (dim.coefficient() < 0) return invalid("The shape ", text(), " has a negative dimension.");
    // A zero elsewhere must not hide an overflow: strides are computed from the other axes.
    empty = empty || dim.coefficient() == 0;
    if (dim.coefficient() == 0) continue;
    const auto product = multiply(count, dim);
    if (!product || product->coefficient() > kMaxElements) {
      return invalid("The shape ", text(), " has more than 2^62 elements.");
    }
    count = *product;
  }
  return empty ? Dim(0) : count;
}

std::uint64_t Shape::elements() const { return elements(0, rank()); }

std::uint64_t Shape::elements(std::size_t from, std::size_t to) const {
  std::uint64_t count = 1;
  for (std::size_t axis = from; axis < to; ++axis) count *= static_cast<std::uint64_t>(dims_[axis].value());
  return count;
}

std::vector<std::int64_t> Shape::values() const {
  std::vector<std::int64_t> out;
  out.reserve(dims_.size());
  for (const Dim& dim : dims_) out.push_back(dim.value());
  return out;
}

std::string Shape::text() const {
  std::string out = "[";
  for (std::size_t axis = 0; axis < dims_.size(); ++axis) out += (axis ? ", " : "") + dims_[axis].text();
  return out + "]";
}

Result<Shape> bind(const Shape& shape, const Bindings& bindings) {
  std::vector<Dim> dims;
  for (const Dim& dim : shape) {
    GRAFT_TRY_ASSIGN(Dim bound, bind(dim, bindings));
    dims.push_back(std::move(bound));
  }
  return Shape(std::move(dims));
}

std::optional<Dim> one_size(const Dim& a, const Dim& b) {
  if (a == b) return a;
  if (a.is_constant() || b.is_constant()) {
    if (a.is_constant() && b.is_constant()) return std::nullopt;
    return a.is_constant() ? a : b;
  }
  return b.text().size() < a.text().size() ? b : a;
}

bool one_shape(const Shape& a, const Shape& b) {
  return std::ranges::equal(a, b, [](const Dim& x, const Dim& y) { return one_size(x, y).has_value(); });
}

Result<Shape> broadcast(const Shape& a, const Shape& b) {
  const std::size_t rank = std::max(a.rank(), b.rank());
  std::vector<Dim> dims(rank, Dim(1));
  for (std::size_t i = 0; i < rank; ++i) {
    const Dim x = i < a.rank() ? a[a.rank() - 1 - i] : Dim(1);
    const Dim y = i < b.rank() ? b[b.rank() - 1 - i] : Dim(1);
    const std::optional<Dim> size = x == Dim(1) ? y : y == Dim(1) ? x : one_size(x, y);
    if (!size) {
      return invalid("The shapes ", a.text(), " and ", b.text(), " cannot be broadcast together: ", x.text(), " meets ",
                     y.text(), ".");
    }
    dims[rank - 1 - i] = *size;
  }
  return Shape(std::move(dims));
}

Result<std::size_t> normalize_axis(std::int64_t axis, std::size_t rank, std::string_view what) {
  const auto signed_rank = static_cast<std::int64_t>(rank);
  if (axis < -signed_rank || axis >= signed_rank) {
    return invalid("The ", what, " ", axis, " is out of range for rank ", rank, ".");
  }
  return static_cast<std::size_t>(axis < 0 ? axis + signed_rank : axis);
}

}  // namespace graft
