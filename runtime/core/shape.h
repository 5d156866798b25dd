// Dimensions that may be named symbols, and shapes of them.
//
// A Dim is a monomial: a constant coefficient times a product of symbols ("4*batch*seq"). That is closed under
// what shapes do to symbolic axes (multiply, divide exactly, compare); anything else asks for the symbol to be bound.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "platform/base/status.h"

namespace graft {

class Dim {
 public:
  Dim() = default;
  Dim(std::int64_t value) : coefficient_(value) {}  // NOLINT: a number is a dimension
  /// A symbol such as "batch": letters, digits and '_', not starting with a digit. Requires a valid name.
  static Dim symbol(std::string_view name);
  /// Reads what text() writes, as in "4*batch".
  static Result<Dim> parse(std::string_view text);

  bool is_constant() const { return symbols_.empty(); }
  /// Requires is_constant().
  std::int64_t value() const;
  std::int64_t coefficient() const { return coefficient_; }
  /// Sorted names joined with '*'; empty for a constant.
  const std::string& symbols() const { return symbols_; }
  std::string text() const;

  friend bool operator==(const Dim&, const Dim&) = default;

 private:
  friend std::optional<Dim> multiply(const Dim& a, const Dim& b);
  friend std::optional<Dim> divide_exactly(const Dim& a, const Dim& b);
  std::int64_t coefficient_ = 0;
  std::string symbols_;
};

std::optional<Dim> multiply(const Dim& a, const Dim& b);        ///< nullopt on overflow
std::optional<Dim> divide_exactly(const Dim& a, const Dim& b);  ///< nullopt when there is a remainder

/// Values for symbols, as in {"batch": 32}.
using Bindings = std::map<std::string, std::int64_t, std::less<>>;
Result<Dim> bind(const Dim& dim, const Bindings& bindings);

class Shape {
 public:
  static constexpr std::size_t kMaxRank = 8;

  Shape() = default;  ///< rank 0: a scalar
  Shape(std::initializer_list<Dim> dims) : dims_(dims) {}
  explicit Shape(std::vector<Dim> dims) : dims_(std::move(dims)) {}
  static Shape of(const std::vector<std::int64_t>& dims);

  std::size_t rank() const { return dims_.size(); }
  const Dim& operator[](std::size_t axis) const { return dims_[axis]; }
  Dim& operator[](std::size_t axis) { return dims_[axis]; }
  const Dim& back() const { return dims_.back(); }
  auto begin() const { return dims_.begin(); }
  auto end() const { return dims_.end(); }
  const std::vector<Dim>& dims() const { return dims_; }

  bool is_constant() const;
  /// The product of all dims; an error (with the shape) on overflow of 2^62.
  Result<Dim> element_count() const;
  /// Requires is_constant() and a validated shape (element_count() succeeded).
  std::uint64_t elements() const;
  /// Product of dims [from, to); same requirements.
  std::uint64_t elements(std::size_t from, std::size_t to) const;
  /// Requires is_constant().
  std::vector<std::int64_t> values() const;
  std::string text() const;  ///< "[batch, 28, 28, 1]"

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::vector<Dim> dims_;
};

Result<Shape> bind(const Shape& shape, const Bindings& bindings);

/// NumPy broadcasting: trailing axes align; each pair is equal or one of it is 1.
Result<Shape> broadcast(const Shape& a, const Shape& b);

/// Turns an axis in [-rank, rank) into [0, rank); `what` names it in the error.
Result<std::size_t> normalize_axis(std::int64_t axis, std::size_t rank, std::string_view what = "axis");

}  // namespace graft
