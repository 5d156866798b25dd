// What ops say of their attributes in their tables is what holds: absent ones are the default, and no other number than
// those of the range is accepted.
#include "runtime/core/attrs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/core/node_check.h"
#include "runtime/core/op_id.gen.h"
#include "tests/support/plan_checks.h"

namespace graft::test::core_attrs_test {
namespace {

// Calls each(def, spec) for every attribute of every op of this build.
template <typename Each>
void each_attribute(Each each) {
  for (std::uint16_t op = 0; op < static_cast<std::uint16_t>(Op::count_); ++op) {
    const OpDef& def = op_def(static_cast<Op>(op));
    if (def.infer == nullptr) continue;
    for (const AttrSpec& spec : def.attrs) each(def, spec);
  }
}

AttrValue value_of(const AttrSpec& spec, double x) {
  if (spec.type == AttrType::integer) return static_cast<std::int64_t>(x);
  return x;
}

// Of an op that needs nothing else than `spec`.
Status check_alone(const AttrSpec& spec, double x) {
  const AttrSpec table[] = {spec};
  return check_attrs({.name = "op", .attrs = table}, Attrs({{spec.name, value_of(spec, x)}}));
}

TEST(CoreAttrs, AnAbsentOneIsWhatTheTableSays) {
  std::size_t met = 0;
  each_attribute([&](const OpDef& def, const AttrSpec& spec) {
    SCOPED_TRACE(cat(def.name, " ", spec.name));
    Attrs attrs;
    attrs.declared_by(def.attrs);
    if (spec.type == AttrType::integer) {
      EXPECT_EQ(attrs.integer(spec.name), static_cast<std::int64_t>(spec.number));
    }
    if (spec.type == AttrType::number) {
      EXPECT_EQ(attrs.number(spec.name), spec.number);
    }
    if (spec.type == AttrType::text) {
      EXPECT_EQ(attrs.text(spec.name), spec.text);
    }
    met += spec.number != 0 || !spec.text.empty();
  });
  EXPECT_GT(met, 50u);
}

TEST(CoreAttrs, DefaultsAreInRangeAndItsNeighboursAreNot) {
  std::size_t met = 0;
  each_attribute([&](const OpDef& def, const AttrSpec& spec) {
    if (!spec.checked) return;
    SCOPED_TRACE(cat(def.name, " ", spec.name));
    ++met;
    EXPECT_TRUE(spec.required || check_alone(spec, spec.number).ok());
    EXPECT_TRUE(check_alone(spec, spec.low).ok());
    const double infinity = std::numeric_limits<double>::infinity();
    const bool whole = spec.type == AttrType::integer;
    if (!whole) {
      EXPECT_FALSE(check_alone(spec, std::nan("")).ok());
    }
    if (spec.low > -AttrSpec::kFinite) {
      EXPECT_FALSE(check_alone(spec, whole ? spec.low - 1 : std::nextafter(spec.low, -infinity)).ok());
    }
    if (spec.high < AttrSpec::kFinite) {
      EXPECT_TRUE(check_alone(spec, spec.high).ok());
      EXPECT_FALSE(check_alone(spec, whole ? spec.high + 1 : std::nextafter(spec.high, infinity)).ok());
    } else if (!whole && spec.high < infinity) {
      EXPECT_FALSE(check_alone(spec, infinity).ok());
    }
  });
  EXPECT_GT(met, 50u);
}

TEST(CoreAttrs, ANodeReadsTheTableOfItsOwnOp) {
  GraphMaker g;
  const ValueId x = g.input("x", {2, 3});
  g.output("elu", g.add(Op::elu, {x}));
  const ValueId leaky =
      g.add(Op::leaky_relu, {x}, Attrs(g.graph.node(g.graph.value(g.graph.find_value("elu")).producer).attrs));
  EXPECT_EQ(g.graph.node(g.graph.value(leaky).producer).attrs.number("alpha"), 0.01) << "not elu's 1";
  const Status wrong = g.graph.add_node(Op::dropout, {x}, {{"p", 1.5}}).status();
  EXPECT_NE(wrong.message().find("The attribute \"p\" is 1.5; it must lie in [0, 1]."), std::string::npos)
      << wrong.message();
  const Status negative = g.graph.add_node(Op::rms_norm, {x}, {{"epsilon", -1.0}}).status();
  EXPECT_NE(negative.message().find("it must be finite and at least 0."), std::string::npos) << negative.message();
}

}  // namespace
}  // namespace graft::test::core_attrs_test
