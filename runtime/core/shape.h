// Dimensions that may be named symbols, and shapes of them.
//
// A Dim is a coefficient times a product of factors ("4*batch*seq"). A factor is a symbol, a sum of such products
// ("(height+2)"), or a sum divided and rounded down ("((height+2)//2)"), as windows, slices and pads make them. Equal
// texts are equal sizes; of what cannot be written so (a minimum of two symbols), the symbol must be bound first.
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
  /// Reads what text() writes, as in "4*batch" or "3*((height+2)//2)".
  static Result<Dim> parse(std::string_view text);

  bool is_constant() const { return symbols_.empty(); }
  /// Requires is_constant().
  std::int64_t value() const;
  std::int64_t coefficient() const { return coefficient_; }
  /// Sorted factors joined with '*'; empty for a constant.
  const std::string& symbols() const { return symbols_; }
  /// A symbol and nothing else.
  bool is_symbol() const;
  std::vector<std::string> names() const;  ///< of the symbols in it, each once, sorted
  std::string text() const;

  friend bool operator==(const Dim&, const Dim&) = default;

 private:
  friend std::optional<Dim> multiply(const Dim& a, const Dim& b);
  friend std::optional<Dim> divide_exactly(const Dim& a, const Dim& b);
  friend class DimMath;
  std::int64_t coefficient_ = 0;
  std::string symbols_;
};

std::optional<Dim> multiply(const Dim& a, const Dim& b);        ///< nullopt on overflow, or a text of 1024 bytes
std::optional<Dim> divide_exactly(const Dim& a, const Dim& b);  ///< nullopt when there is a remainder
/// nullopt on overflow, or where the text would be longer than kMaxDimText.
std::optional<Dim> add(const Dim& a, const Dim& b);
std::optional<Dim> subtract(const Dim& a, const Dim& b);
/// Rounded down; requires divisor >= 1. nullopt as of add().
std::optional<Dim> divide_floor(const Dim& a, std::int64_t divisor);
/// The least that it is where each symbol is 1 or more; nullopt where nothing says so.
std::optional<std::int64_t> least(const Dim& dim);

/// A dimension taken apart: coefficient * factors, each of which is floor(sum(terms) / divisor); a symbol is itself.
struct DimFactor {
  std::string symbol;      ///< where it is one
  std::vector<Dim> terms;  ///< otherwise
  std::int64_t divisor = 1;
};
std::vector<DimFactor> factors_of(const Dim& dim);

/// Bytes of a sum's text; a product has at most twice as many.
inline constexpr std::size_t kMaxDimText = 512;

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

/// The size of both where they are to be one: they are equal, or one of them is open, whose size then has to be that;
/// of two open ones the simpler. nullopt for different numbers. What is taken for granted here is checked where sizes
/// are bound (passes/bind.h).
std::optional<Dim> one_size(const Dim& a, const Dim& b);
/// Whether all sizes of both can be one.
bool one_shape(const Shape& a, const Shape& b);

/// NumPy broadcasting: trailing axes align; each pair is 1 and another, or one_size().
Result<Shape> broadcast(const Shape& a, const Shape& b);

/// Turns an axis in [-rank, rank) into [0, rank); `what` names it in the error.
Result<std::size_t> normalize_axis(std::int64_t axis, std::size_t rank, std::string_view what = "axis");

}  // namespace graft
