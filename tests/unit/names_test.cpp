// Names in flags: a backslash before a separator makes it part of one.
#include "platform/base/names.h"

#include <gtest/gtest.h>

#include <set>

#include "runtime/train/step/loss_terms.h"
#include "tools/common/options.h"

namespace graft::test::names_test {
namespace {

using Texts = std::vector<std::string>;

TEST(Names, ABackslashTakesASeparatorAndIsItselfElsewhere) {
  EXPECT_EQ(split_names("a,b"), (Texts{"a", "b"}));
  EXPECT_EQ(split_names("a\\,b,c"), (Texts{"a,b", "c"}));
  EXPECT_EQ(split_names(",a,,"), (Texts{"a"}));
  EXPECT_EQ(split_names("a\\\\,b"), (Texts{"a\\", "b"}));
  EXPECT_EQ(split_names("a\\n\\"), (Texts{"a\\n\\"}));
  EXPECT_EQ(split_parts("a\\,b=1,c=2"), (Texts{"a\\,b=1", "c=2"}));
  EXPECT_EQ(find_separator("a\\=b=c", "="), 4u);
  EXPECT_EQ(rfind_separator("a=b\\=c", "="), 1u);
  EXPECT_EQ(find_separator("a\\=b", "="), std::string_view::npos);
}

TEST(Names, QuotedOnesComeBack) {
  for (const std::string name : {"a", "a,b", "x=y", "\\", "a\\,b", "a:0", "a+b*c;d", "\\\\="}) {
    EXPECT_EQ(split_names(quoted_name(name)), Texts{name}) << name;
    const auto pair = cli::parse_assignment(quoted_name(name) + "=C:\\files\\f.npy", "--input");
    ASSERT_TRUE(pair.ok()) << name;
    EXPECT_EQ(pair->first, name);
    EXPECT_EQ(pair->second, "C:\\files\\f.npy");
  }
}

TEST(Names, BindingsAndLossesTakeThem) {
  const auto bound = cli::parse_bindings({"a\\,b=3,c\\=d=4"});
  ASSERT_TRUE(bound.ok()) << bound.status().message();
  EXPECT_EQ(*bound, (cli::Bindings{{"a,b", 3}, {"c=d", 4}}));
  const auto losses = train::parse_losses("0.5*mse:out\\=1=to\\,day+l1:b\\+mse:c", {});
  ASSERT_TRUE(losses.ok()) << losses.status().message();
  ASSERT_EQ(losses->size(), 2u);
  EXPECT_EQ(split_names((*losses)[0].output), Texts{"out=1"});
  EXPECT_EQ((*losses)[0].target, "to,day");
  EXPECT_EQ(split_names((*losses)[1].output), Texts{"b+mse:c"});
}

TEST(Names, EachHasAFileOfItsOwn) {
  const auto files = cli::npy_file_names({"y:0", "y_0", "grad:x", "x", "Y_0", "a/b"});
  EXPECT_EQ(files.at("Y_0"), "Y_0.npy");
  EXPECT_EQ(files.at("y_0"), "y_0~2.npy") << "where case does not matter they are one file";
  EXPECT_EQ(files.at("y:0"), "y_0~3.npy");
  EXPECT_EQ(files.at("grad:x"), "x.npy");
  EXPECT_EQ(files.at("x"), "x~2.npy");
  EXPECT_EQ(files.at("a/b"), "a_b.npy");
  std::set<std::string> distinct;
  for (const auto& [name, file] : files) EXPECT_TRUE(distinct.insert(file).second) << name;
  EXPECT_LE(cli::npy_file_names({std::string(1000, 'n')}).begin()->second.size(), 255u);
}

}  // namespace
}  // namespace graft::test::names_test
