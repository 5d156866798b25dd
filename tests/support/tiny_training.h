// Small networks and data for tests of training.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/core/build.h"
#include "runtime/data/random.h"
#include "runtime/data/source.h"
#include "runtime/train/run/trainer.h"

namespace graft::test {

/// A graph with a symbolic batch, and contents for its parameters and state.
struct TinyModel {
  Graph graph;
  std::map<std::string, std::vector<float>> weights;

  /// Adds a value with random contents in [-scale, scale], or all `fill`.
  ValueId weight(const std::string& name, std::vector<std::int64_t> dims, double scale,
                 ValueKind kind = ValueKind::parameter);
  ValueId filled(const std::string& name, std::vector<std::int64_t> dims, float value,
                 ValueKind kind = ValueKind::parameter);
  ValueId input(const std::string& name, const std::vector<std::int64_t>& sample_dims);
  train::WeightOf weight_of() const;

 private:
  std::uint64_t next_key_ = 1;
};

/// x [batch, inputs] -> tanh layer -> [batch, outputs], with parameters fc1.weight, fc1.bias, fc2.weight, fc2.bias.
TinyModel tiny_mlp(std::int64_t inputs, std::int64_t hidden, std::int64_t outputs);
/// image [batch, 1, 8, 8] -> conv, batch norm, relu, max pool, dropout, linear -> [batch, classes].
TinyModel tiny_cnn(std::int64_t classes, double dropout = 0);
/// LeNet-5 with ReLU and max pooling: image [batch, 1, 28, 28] -> logits [batch, 10]; dropout before the last layer.
TinyModel lenet(double dropout = 0);

/// Random features in [-1, 1] of `sample_dims` and labels below `classes` (0: real targets of one element).
struct TinyData {
  std::vector<data::Field> fields;
  std::vector<float> x;
  std::vector<std::int32_t> labels;
  std::vector<float> targets;
  std::uint64_t samples = 0;
  /// Refers to the vectors above.
  std::unique_ptr<data::Source> source() const;
};
TinyData tiny_data(std::uint64_t samples, const std::vector<std::int64_t>& sample_dims, std::int32_t classes,
                   std::uint64_t seed = 1);

/// All kept values by name, as floats.
using Contents = std::map<std::string, std::vector<float>>;
Contents contents_of(train::Trainer& trainer);

}  // namespace graft::test
