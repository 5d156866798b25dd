// Reads values as formulas, whatever nodes an exporter spelled them with.
//
// A product is a number times powers of values: mul, div, neg, reciprocal, square, pow, sqrt, rsqrt and factors that
// are numbers. A sum is a number plus weighted values: add, sub, neg and affine. x * 0.5 * (1 + erf(x / 1.414)) is the
// product 0.5 x s, where s is the sum 1 + e and e an erf, in whatever order it was written.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "runtime/passes/rewriter.h"

namespace graft::passes {

/// Whether a constant of the pattern is meant: models store it as f32, or as a product of a few such.
bool near(double value, double wanted);

struct Factor {
  ValueId value;
  double power = 1;
};

struct Product {
  double scale = 1;
  std::vector<Factor> factors;  ///< each value once, but for fractional powers

  /// The one factor with this power, or kNoValue where there is none or more than one.
  ValueId only(double power) const;
  /// Whether its factors are exactly these, in any order.
  bool is(std::initializer_list<Factor> wanted) const;
};

struct Term {
  ValueId value;
  double weight = 1;
};

struct Sum {
  double offset = 0;
  std::vector<Term> terms;  ///< each value once

  /// The weight of a value; 0 where it is no term.
  double weight(ValueId value) const;
  bool is(double offset, std::initializer_list<Term> wanted) const;
};

/// Formulas of the source graph of a rewriter.
class Match {
 public:
  explicit Match(const Rewriter& rewriter) : rewriter_(rewriter) {}

  /// A constant of one element whose contents are known, or a value filled with one number.
  std::optional<double> number(ValueId v) const;
  /// The contents of a constant that is known, f32, i32 or boolean, as numbers; empty otherwise, and where there are
  /// more than `limit` elements.
  std::vector<double> contents(ValueId v, std::uint64_t limit = 1 << 24) const;

  /// The node behind v, if it is of this op, and its first input: op(x). kNoValue otherwise.
  ValueId argument(Op op, ValueId v) const;
  const Node* node(Op op, ValueId v) const { return rewriter_.producer(v, op); }

  /// v itself is opened whoever reads it; what is behind it only where nothing else does.
  Product product(ValueId v) const;
  Sum sum(ValueId v) const;

  /// Nothing but the pattern cares for what lies between its leaves and its root: no other node reads it, it is
  /// neither an output nor pinned. The root itself may be.
  bool owns(ValueId root, std::initializer_list<ValueId> leaves) const;
  bool owns(ValueId root, const std::vector<ValueId>& leaves) const;

  const Graph& source() const { return rewriter_.source(); }
  const Shape& shape(ValueId v) const { return rewriter_.value(v).shape; }
  const Value& value(ValueId v) const { return rewriter_.value(v); }

 private:
  void multiply(ValueId v, double power, bool root, int& budget, Product& into) const;
  void add(ValueId v, double weight, bool root, int& budget, Sum& into) const;

  const Rewriter& rewriter_;
};

/// The axes that a reduction goes over, ascending; all of them where its attribute names none.
std::vector<std::size_t> reduced_axes(const Node& node, std::size_t rank);

/// Replaces the node's outputs and says true, or does nothing and leaves it to be copied.
using Rule = Result<bool> (*)(Rewriter&, const Match&, const Node&);
/// Offers each node to the rules in their order, and copies those that none takes.
Result<PassGraph> apply_rules(const PassGraph& graph, std::span<const Rule> rules);

}  // namespace graft::passes
