#include "runtime/core/shape.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "platform/base/checked.h"

namespace graft {
namespace {

constexpr std::int64_t kMaxElements = std::int64_t{1} << 62;

std::vector<std::string> split_symbols(const std::string& symbols) {
  std::vector<std::string> parts;
  for (std::size_t start = 0; start < symbols.size();) {
    const std::size_t end = std::min(symbols.find('*', start), symbols.size());
    parts.push_back(symbols.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

std::string join_symbols(std::vector<std::string> parts) {
  std::sort(parts.begin(), parts.end());
  std::string joined;
  for (const auto& part : parts) joined += (joined.empty() ? "" : "*") + part;
  return joined;
}

bool valid_symbol(std::string_view name) {
  const auto word = [](char c) { return c == '_' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z'); };
  return !name.empty() && name.size() <= 64 && !(name[0] >= '0' && name[0] <= '9') &&
         std::all_of(name.begin(), name.end(), word);
}

}  // namespace

Dim Dim::symbol(std::string_view name) {
  GRAFT_CHECK(valid_symbol(name));
  Dim dim(1);
  dim.symbols_ = name;
  return dim;
}

Result<Dim> Dim::parse(std::string_view text) {
  Dim dim(1);
  std::vector<std::string> symbols;
  for (const std::string& part : split_symbols(std::string(text))) {
    std::int64_t number = 0;
    const auto [end, failure] = std::from_chars(part.data(), part.data() + part.size(), number);
    if (failure == std::errc() && end == part.data() + part.size()) {
      const auto product = checked_mul(dim.coefficient_, number);
      if (!product) return invalid("The dimension \"", text, "\" overflows.");
      dim.coefficient_ = *product;
    } else if (valid_symbol(part)) {
      symbols.push_back(part);
    } else {
      return invalid("\"", text, "\" is not a dimension: numbers and names joined with '*' are.");
    }
  }
  if (text.empty()) return invalid("An empty text is not a dimension.");
  if (dim.coefficient_ != 0) dim.symbols_ = join_symbols(std::move(symbols));
  return dim;
}

std::int64_t Dim::value() const {
  GRAFT_CHECK(is_constant());
  return coefficient_;
}

std::string Dim::text() const {
  if (is_constant()) return cat(coefficient_);
  return coefficient_ == 1 ? symbols_ : cat(coefficient_, "*", symbols_);
}

std::optional<Dim> multiply(const Dim& a, const Dim& b) {
  const auto product = checked_mul(a.coefficient_, b.coefficient_);
  if (!product) return std::nullopt;
  Dim out(*product);
  if (*product == 0) return out;
  if (a.symbols_.empty() || b.symbols_.empty()) {
    out.symbols_ = a.symbols_ + b.symbols_;
  } else {
    auto parts = split_symbols(a.symbols_);
    const auto more = split_symbols(b.symbols_);
    parts.insert(parts.end(), more.begin(), more.end());
    out.symbols_ = join_symbols(std::move(parts));
  }
  return out;
}

std::optional<Dim> divide_exactly(const Dim& a, const Dim& b) {
  if (b.coefficient_ == 0 || a.coefficient_ % b.coefficient_ != 0) return std::nullopt;
  Dim out(a.coefficient_ / b.coefficient_);
  auto parts = split_symbols(a.symbols_);
  if (a.coefficient_ != 0) {
    for (const auto& part : split_symbols(b.symbols_)) {
      const auto found = std::find(parts.begin(), parts.end(), part);
      if (found == parts.end()) return std::nullopt;
      parts.erase(found);
    }
  }
  out.symbols_ = join_symbols(std::move(parts));
  return out;
}

Result<Dim> bind(const Dim& dim, const Bindings& bindings) {
  Dim out(dim.coefficient());
  for (const auto& symbol : split_symbols(dim.symbols())) {
    const auto found = bindings.find(symbol);
    const auto next = multiply(out, found == bindings.end() ? Dim::symbol(symbol) : Dim(found->second));
    if (!next) return invalid("The dimension ", dim.text(), " overflows with the sizes given.");
    out = *next;
  }
  return out;
}

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

Result<Shape> broadcast(const Shape& a, const Shape& b) {
  const std::size_t rank = std::max(a.rank(), b.rank());
  std::vector<Dim> dims(rank, Dim(1));
  for (std::size_t i = 0; i < rank; ++i) {
    const Dim x = i < a.rank() ? a[a.rank() - 1 - i] : Dim(1);
    const Dim y = i < b.rank() ? b[b.rank() - 1 - i] : Dim(1);
    if (x != y && x != Dim(1) && y != Dim(1)) {
      return invalid("The shapes ", a.text(), " and ", b.text(), " cannot be broadcast together: ", x.text(), " meets ",
                     y.text(), ".");
    }
    dims[rank - 1 - i] = x == Dim(1) ? y : x;
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
