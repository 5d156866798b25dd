// Averages of clients against double-precision references, and the server's steps.
#include <algorithm>
#include <cmath>

#include "runtime/delta/average.h"
#include "runtime/delta/delta_file.h"
#include "runtime/delta/server.h"
#include "runtime/delta/svd.h"
#include "tests/support/delta_models.h"

namespace graft::test::delta_average_test {
namespace {

using delta::Averager;
using delta::Coding;
using delta::Delta;
using delta::Weighing;

Delta client(const Model& base, std::uint64_t seed, std::uint64_t samples, Coding coding = Coding::f32) {
  delta::MakeOptions options;
  options.samples = samples;
  options.local_steps = seed;
  options.coding = coding;
  auto made = delta::make(base, delta_model(seed), options);
  EXPECT_TRUE(made.ok()) << made.status().message();
  return made.ok() ? std::move(*made) : Delta{};
}

Delta average_of(const std::vector<Delta>& deltas, const delta::AverageOptions& options = {}) {
  Averager averager(options);
  for (const Delta& delta : deltas) {
    const Status added = averager.add(delta);
    EXPECT_TRUE(added.ok()) << added.message();
  }
  auto average = averager.finish();
  EXPECT_TRUE(average.ok()) << average.status().message();
  return average.ok() ? std::move(*average) : Delta{};
}

TEST(DeltaAverage, ClientsWeighBySamplesOrAllTheSame) {
  const Model base = delta_model(1);
  const std::uint64_t samples[] = {10, 1, 89};
  std::vector<Delta> deltas;
  for (std::uint64_t k = 0; k < 3; ++k) deltas.push_back(client(base, 20 + k, samples[k]));
  for (const Weighing weighing : {Weighing::samples, Weighing::equal}) {
    const Delta average = average_of(deltas, {.weighing = weighing});
    EXPECT_EQ(average.clients, 3u);
    EXPECT_EQ(average.samples, 100u);
    EXPECT_EQ(average.local_steps, 63u);
    for (const auto& tensor : average.tensors) {
      const auto got = numbers_of(average, tensor);
      for (std::size_t i = 0; i < got.size(); ++i) {
        double sum = 0;
        for (std::size_t k = 0; k < 3; ++k) {
          const double weight = weighing == Weighing::samples ? static_cast<double>(samples[k]) / 100 : 1.0 / 3;
          sum += weight * static_cast<double>(numbers_of(deltas[k], *deltas[k].find(tensor.name))[i]);
        }
        EXPECT_NEAR(got[i], sum, 1e-7 * (1 + std::abs(sum))) << "one rounding to f32";
      }
    }
  }
}

TEST(DeltaAverage, ATensorThatAClientLeftOutDidNotChangeThere) {
  const Model base = delta_model(1);
  const Delta whole = client(base, 20, 1);
  Delta part = client(base, 21, 3);
  std::erase_if(part.tensors, [](const delta::Tensor& tensor) { return tensor.name == "fc.weight"; });
  const Delta average = average_of({whole, part});
  const auto got = numbers_of(average, *average.find("fc.weight")), one = numbers_of(whole, *whole.find("fc.weight"));
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], one[i] / 4, 1e-7);
}

/// What secure aggregation needs: sums of integers do not depend on the order, and masks that cancel leave no trace.
TEST(DeltaAverage, MaskedIntegersGiveTheAverageExactly) {
  const Model base = delta_model(1);
  std::vector<Delta> deltas;
  for (std::uint64_t k = 0; k < 4; ++k) deltas.push_back(client(base, 30 + k, 5 + k, Coding::fixed));
  const Delta plain = average_of(deltas);
  data::Random random(9);
  for (std::size_t a = 0; a < deltas.size(); ++a) {
    for (std::size_t b = a + 1; b < deltas.size(); ++b) {  // each pair agrees on a mask: one adds it, one takes it away
      for (std::size_t t = 0; t < deltas[a].tensors.size(); ++t) {
        auto& ours = deltas[a].tensors[t].coded;
        auto& theirs = deltas[b].tensors[t].coded;
        for (std::size_t at = 0; at < ours.size(); at += 4) {
          const auto mask = static_cast<std::uint32_t>(random.next());
          std::uint32_t x = 0, y = 0;
          std::memcpy(&x, &ours[at], 4);
          std::memcpy(&y, &theirs[at], 4);
          x += mask;
          y -= mask;
          std::memcpy(&ours[at], &x, 4);
          std::memcpy(&theirs[at], &y, 4);
        }
      }
    }
  }
  std::ranges::reverse(deltas);
  const Delta masked = average_of(deltas);
  EXPECT_EQ(*delta::to_bytes(masked), [&] {
    Delta expected = plain;
    return *delta::to_bytes(expected);
  }());
  // And it is the average: each client's numbers are rounded to 1 / (samples 2^8).
  std::vector<Delta> exact;
  for (std::uint64_t k = 0; k < 4; ++k) exact.push_back(client(base, 30 + k, 5 + k));
  const Delta reference = average_of(exact);
  for (const auto& tensor : reference.tensors) {
    const auto a = numbers_of(reference, tensor), b = numbers_of(masked, *masked.find(tensor.name));
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 4 * 0.5 / 256 / 26 + 1e-6);
  }
}

TEST(DeltaAverage, WhatDoesNotAddUpIsRefused) {
  const Model base = delta_model(1);
  const Delta one = client(base, 20, 1);
  EXPECT_FALSE(Averager({}).finish().ok());
  const auto refused = [&](const Delta& other, const char* says, const delta::AverageOptions& options = {}) {
    Averager averager(options);
    EXPECT_TRUE(averager.add(one).ok());
    const Status status = averager.add(other);
    EXPECT_NE(status.message().find(says), std::string::npos) << status.message();
  };
  refused(client(delta_model(2), 20, 1), "base has the weights");
  refused(client(base, 20, 1, Coding::fixed), "Integers add up with integers");
  Delta reshaped = client(base, 21, 1);
  reshaped.tensors[0].shape = Shape::of({3, 100});
  refused(reshaped, "has the shape");
  Averager noisy({.weighing = Weighing::equal, .noise = 1, .clip_norm = 2});
  EXPECT_NE(noisy.add(one).message().find("clipped to"), std::string::npos) << "it was not clipped";
  Averager unequal({.weighing = Weighing::samples, .noise = 1, .clip_norm = 2});
  EXPECT_NE(unequal.add(one).message().find("weigh the same"), std::string::npos);
}

/// scale B A of each client, averaged densely in double precision.
std::vector<double> dense_average(const std::vector<Model>& adapters, const std::vector<double>& weights,
                                  const std::string& layer, std::size_t out, std::size_t in) {
  std::vector<double> sum(out * in);
  for (std::size_t k = 0; k < adapters.size(); ++k) {
    const auto layers = *adapter_layers(adapters[k]);
    const auto found = std::ranges::find(layers, layer, &AdapterLayer::layer);
    const auto a = numbers_in(adapters[k], cat(layer, kLoraA)), b = numbers_in(adapters[k], cat(layer, kLoraB));
    const auto rank = static_cast<std::size_t>(found->rank);
    for (std::size_t o = 0; o < out; ++o) {
      for (std::size_t i = 0; i < in; ++i) {
        for (std::size_t r = 0; r < rank; ++r) {
          sum[o * in + i] +=
              weights[k] * found->scale() * static_cast<double>(b[o * rank + r]) * static_cast<double>(a[r * in + i]);
        }
      }
    }
  }
  return sum;
}

double squared_distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

TEST(DeltaAverage, ProductsOfAdaptersAreAveragedAndFactoredAgain) {
  const Model base = two_layers();
  std::vector<Model> adapters;
  adapters.push_back(adapters_for(base, 2, 4, 1));
  adapters.push_back(adapters_for(base, 2, 4, 2));
  adapters.push_back(adapters_for(base, 3, 9, 3));  // another rank and scale
  const std::vector<double> weights = {0.2, 0.3, 0.5};
  std::vector<Delta> deltas;
  for (std::size_t k = 0; k < 3; ++k) {
    delta::MakeOptions options;
    options.samples = static_cast<std::uint64_t>(std::lround(10 * weights[k]));
    deltas.push_back(std::move(delta::make(base, adapters[k], options)).value());
  }
  for (const std::uint32_t rank : {7u, 4u, 0u}) {
    auto products = delta::average_products(deltas, rank, Weighing::samples);
    ASSERT_TRUE(products.ok()) << products.status().message();
    const std::uint32_t wanted = rank == 0 ? 3 : rank;
    EXPECT_EQ(products->average.rank, wanted);
    double square = 0;
    for (const auto& tensor : products->average.tensors) {
      for (const float x : numbers_of(products->average, tensor)) square += double{x} * double{x};
    }
    EXPECT_NEAR(products->average.norm, std::sqrt(square), 1e-5 * std::sqrt(square)) << "of the matrices in the file";
    const auto result = delta::apply(base, products->average);
    ASSERT_TRUE(result.ok());
    ASSERT_TRUE(with_adapter(base, *result).ok());
    double lost = 0, least = 0, all = 0;
    for (const auto& [layer, out, in] : {std::tuple<std::string, std::size_t, std::size_t>{"a", 9, 12}, {"b", 8, 9}}) {
      const auto exact = dense_average(adapters, weights, layer, out, in);
      std::vector<Model> one;
      one.push_back(std::move(borrow_model(*result)).value());
      lost += squared_distance(dense_average(one, {1}, layer, out, in), exact);
      all += squared_distance(exact, std::vector<double>(exact.size()));
      // No matrix of a rank is nearer than the singular values behind it add up to (Eckart and Young, 1936).
      delta::Matrix dense(in, out);
      dense.values = exact;
      const auto singular = delta::svd(dense).singular;
      for (std::size_t k = wanted; k < singular.size(); ++k) least += singular[k] * singular[k];
    }
    EXPECT_NEAR(lost, least, 1e-6 * all);
    EXPECT_NEAR(products->kept, 1 - lost / all, 1e-6);
    if (rank == 7) {
      EXPECT_LT(lost / all, 1e-12) << "7 = 2 + 2 + 3: nothing is lost but to f32";
    }
  }
  EXPECT_FALSE(delta::average_products({}, 4, Weighing::samples).ok());
}

TEST(DeltaAverage, SingularValuesAreThoseOfTheMatrix) {
  for (const auto& [rows, columns] : {std::pair<std::size_t, std::size_t>{9, 5}, {5, 9}, {6, 6}, {40, 1}}) {
    delta::Matrix a(rows, columns);
    data::Random random(rows * 100 + columns);
    for (double& x : a.values) x = random.bell();
    if (columns > 2) std::copy_n(a.column(0), rows, a.column(2));  // a column twice: a singular value is 0
    const delta::Svd parts = delta::svd(a);
    double most = 0;
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < columns; ++j) {
        double sum = 0;
        for (std::size_t k = 0; k < parts.singular.size(); ++k) {
          sum += parts.left.column(k)[i] * parts.singular[k] * parts.right.column(k)[j];
        }
        most = std::max(most, std::abs(sum - a.column(j)[i]));
      }
    }
    EXPECT_LT(most, 1e-12);
    EXPECT_TRUE(std::ranges::is_sorted(parts.singular, std::greater<>()));
    for (std::size_t k = 0; k < parts.singular.size(); ++k) {
      for (std::size_t l = 0; l < k; ++l) {
        double dot = 0;
        for (std::size_t i = 0; i < columns; ++i) dot += parts.right.column(k)[i] * parts.right.column(l)[i];
        EXPECT_LT(std::abs(dot), 1e-12);
      }
    }
  }
}

/// Rounds of the server's formulas by hand.
TEST(DeltaServer, StepsAreThoseOfThePaper) {
  const Model base = delta_model(1);
  for (const auto kind : {delta::ServerKind::fedavg, delta::ServerKind::fedadagrad, delta::ServerKind::fedadam,
                          delta::ServerKind::fedyogi}) {
    SCOPED_TRACE(std::string(delta::server_name(kind)));
    delta::ServerOptions options;
    options.kind = kind;
    options.rate = 0.1;
    options.beta1 = 0.9;
    options.beta2 = 0.99;
    options.tau = 0.01;
    delta::Server server(options);
    double m = 0, v = options.tau * options.tau;
    for (std::uint64_t round = 0; round < 4; ++round) {
      const Delta average = client(base, 40 + round, 1);
      // The state goes through a file between rounds.
      const auto state = server.state();
      ASSERT_TRUE(state.ok());
      delta::Server next(options);
      ASSERT_TRUE(next.restore(*state, "s").ok());
      server = std::move(next);
      const auto step = server.step(average, {"norm.mean"});
      ASSERT_TRUE(step.ok()) << step.status().message();
      const double d = numbers_of(average, *average.find("fc.weight"))[3];
      m = 0.9 * m + (kind == delta::ServerKind::fedavg ? 1 : 0.1) * d;
      const double keep = 0.01;
      if (kind == delta::ServerKind::fedadagrad) v += d * d;
      if (kind == delta::ServerKind::fedadam) v = 0.99 * v + keep * d * d;
      if (kind == delta::ServerKind::fedyogi) v -= keep * d * d * (v > d * d ? 1 : -1);
      const double expected = 0.1 * m / (kind == delta::ServerKind::fedavg ? 1 : std::sqrt(v) + 0.01);
      EXPECT_NEAR(numbers_of(*step, *step->find("fc.weight"))[3], expected, 1e-5 * (1 + std::abs(expected)));
      EXPECT_EQ(numbers_of(*step, *step->find("norm.mean")), numbers_of(average, *average.find("norm.mean")))
          << "running statistics are averaged and nothing more";
    }
    delta::ServerOptions other = options;
    other.kind = kind == delta::ServerKind::fedavg ? delta::ServerKind::fedadam : delta::ServerKind::fedavg;
    EXPECT_EQ(delta::Server(other).restore(*server.state(), "s").code(), Code::invalid_argument);
    EXPECT_FALSE(delta::Server(options).restore(*delta::to_bytes(client(base, 2, 1)), "s").ok());
  }
  delta::ServerOptions bad;
  bad.beta1 = 1;
  EXPECT_FALSE(check(bad).ok());
}

}  // namespace
}  // namespace graft::test::delta_average_test
