// Several inputs and targets by name: npy and csv.
#include <gtest/gtest.h>

#include <cstring>

#include "runtime/data/npy.h"
#include "runtime/data/spec.h"
#include "tests/support/samples.h"
#include "tests/support/files/temporary_folder.h"

namespace graft::data::named_test {
namespace {

class Named : public testing::Test {
 protected:
  std::string npy(const std::string& name, DType dtype, const Shape& shape, const auto& values) {
    const std::string path = folder_.file(name);
    EXPECT_TRUE(write_npy(os::system_files(), path, dtype, shape, std::as_bytes(std::span(values))).ok());
    return path;
  }
  std::string csv(const std::string& text) { return "csv:" + folder_.write("t.csv", text); }

  test::TemporaryFolder folder_;
};

std::string message(const Result<std::unique_ptr<Source>>& result) {
  EXPECT_FALSE(result.ok());
  return result.ok() ? "" : result.status().message();
}

TEST_F(Named, NpyInputsTargetsAndWeights) {
  const std::string a = npy("a.npy", DType::f32, Shape{2, 2}, std::vector<float>{1, 2, 3, 4});
  const std::string b = npy("b.npy", DType::i32, Shape{2, 3}, std::vector<std::int32_t>{5, 6, 7, 8, 9, 10});
  const std::string y = npy("y.npy", DType::i32, Shape{2, 1}, std::vector<std::int32_t>{0, 1});
  const std::string w = npy("w.npy", DType::i32, Shape{2}, std::vector<std::int32_t>{1, 3});
  auto opened = open_spec("npy:image=" + a + ",table=" + b + ";label=" + y + ",box=" + a + "?weight=" + w);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  Source& source = **opened;
  const auto& fields = source.fields();
  ASSERT_EQ(fields.size(), 5u);
  const char* names[] = {"image", "table", "label", "box", "weight"};
  const Role roles[] = {Role::feature, Role::feature, Role::label, Role::label, Role::weight};
  const DType types[] = {DType::f32, DType::i32, DType::i32, DType::f32, DType::f32};
  for (std::size_t f = 0; f < 5; ++f) {
    EXPECT_EQ(fields[f].name, names[f]);
    EXPECT_EQ(fields[f].role, roles[f]);
    EXPECT_EQ(fields[f].dtype, types[f]);
    EXPECT_TRUE(fields[f].exact);
  }
  EXPECT_EQ(fields[2].shape, Shape{});
  EXPECT_EQ(fields[4].shape, Shape{});
  EXPECT_EQ(test::sample_of(source, 1), (std::vector<double>{3, 4, 8, 9, 10, 1, 3, 4, 3}));
  // No targets: the loss may be an output of the network.
  EXPECT_EQ(open_spec("npy:x=" + a).value()->fields().size(), 1u);
  EXPECT_NE(message(open_spec("npy:x=" + a + ";" + y)).find("is not written NAME=FILE.npy"), std::string::npos);
  EXPECT_NE(message(open_spec("npy:x=" + a + ",x=" + b)).find("Two fields of a data set are named \"x\""),
            std::string::npos);
  const std::string odd = npy("odd.npy", DType::f32, Shape{2, 2}, std::vector<float>{1, 2, 3, 4});
  EXPECT_NE(message(open_spec("npy:x=" + a + ";y=" + y + "?weight=" + odd)).find("one f32 is wanted"),
            std::string::npos);
}

TEST_F(Named, CsvColumnsByNameNumberAndRange) {
  const std::string file =
      csv("id,a0,a1,a2,b,kind,w,x,y\n"
          "first,1,2,3,4,dog,0.5,7,8\n"
          "second,10,20,30,40,cat,2,70,80.5\n");
  auto opened = open_spec(file + "?inputs=acc:a0..a2;b&targets=class:kind;box:x,y&weight=w");
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  Source& source = **opened;
  ASSERT_EQ(source.fields().size(), 5u);
  EXPECT_EQ(source.fields()[0].name, "acc");
  EXPECT_EQ(source.fields()[0].shape, Shape{3});
  EXPECT_EQ(source.fields()[1].name, "b");
  EXPECT_EQ(source.fields()[2].name, "class");
  EXPECT_EQ(source.fields()[2].classes, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(source.fields()[3].dtype, DType::f32);
  EXPECT_EQ(test::sample_of(source, 0), (std::vector<double>{1, 2, 3, 4, 1, 7, 8, 0.5}));
  EXPECT_EQ(test::sample_of(source, 1), (std::vector<double>{10, 20, 30, 40, 0, 70, 80.5, 2}));
  // What no field uses may hold anything; all columns that are left are features where no input is named.
  EXPECT_EQ(open_spec(file + "?inputs=x:1..3&label=4").value()->fields()[0].shape, Shape{3});
  EXPECT_NE(message(open_spec(file + "?label=kind")).find("Column 0 of sample 0"), std::string::npos);
  EXPECT_NE(message(open_spec(file + "?inputs=acc:a0..a9")).find("has no column \"a9\"; it has 9 columns: id, a0"),
            std::string::npos);
  EXPECT_NE(message(open_spec(file + "?inputs=acc:a2..a0")).find("end before they begin"), std::string::npos);
  EXPECT_NE(message(open_spec(file + "?label=kind&targets=y")).find("not both"), std::string::npos);
  // The classes of a model keep their numbers.
  Hints hints;
  hints.classes = {"bird", "cat", "dog"};
  EXPECT_EQ(test::sample_of(*open_spec(file + "?inputs=b&label=kind", {}, hints).value(), 1),
            (std::vector<double>{40, 1}));
  hints.classes = {"dog"};
  EXPECT_NE(message(open_spec(file + "?inputs=b&label=kind", {}, hints)).find("class \"cat\", which is none of the 1"),
            std::string::npos);
}

TEST_F(Named, CsvTextsAreBytesWithALength) {
  const std::string file = csv("text,good,funny\n\"ab, c\",1,0\nabcdefgh,0,1\n");
  auto opened = open_spec(file + "?inputs=text&targets=labels:good,funny&length=6&lengths=sizes");
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ((*opened)->fields()[0].dtype, DType::i32);
  EXPECT_EQ(test::sample_of(**opened, 0), (std::vector<double>{'a', 'b', ',', ' ', 'c', 0, 5, 1, 0}));
  EXPECT_EQ(test::sample_of(**opened, 1), (std::vector<double>{'a', 'b', 'c', 'd', 'e', 'f', 6, 0, 1}));
  EXPECT_NE(message(open_spec(file + "?inputs=text&label=good")).find("not a number"), std::string::npos);
  EXPECT_NE(message(open_spec(file + "?inputs=good&label=funny&length=6&lengths=n")).find("needs an input of text"),
            std::string::npos);
}

TEST_F(Named, CsvIntegersThatFloatsDoNotHold) {
  const std::string file = csv("id,label\n16777217,0\n-5,1\n");
  auto source = open_spec(file).value();
  EXPECT_EQ(source->fields()[0].dtype, DType::i32);
  EXPECT_EQ(test::sample_of(*source, 0), (std::vector<double>{16777217, 0}));
  EXPECT_NE(message(open_spec(csv("a,b,w\n1,0,1\n2,1,-1\n") + "?label=b&weight=w")).find("Column 2 of sample 1"),
            std::string::npos)
      << "a weight below 0";
}

TEST_F(Named, SkipAndCountGiveWhatIsThere) {
  const std::string file = csv("a,b\n1,0\n2,1\n3,0\n");
  EXPECT_EQ(open_spec(file + "?skip=1&count=5").value()->size(), 2u);
  EXPECT_EQ(open_spec(file + "?count=2").value()->size(), 2u);
  EXPECT_NE(message(open_spec(file + "?skip=3&count=1")).find("skip=3 leaves nothing of a data set of 3 samples"),
            std::string::npos);
  EXPECT_NE(message(open_spec(file + "?skip=1&count=0")).find("must be 1 to 2"), std::string::npos);
}

}  // namespace
}  // namespace graft::data::named_test
