#pragma once

#include <graft/graft.hpp>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/bindings/oracle_models.h"

namespace graft::test {

/// Where and how the oracle writes, and the samples that it trains on.
struct Oracle {
  std::string folder;
  std::vector<float> x;
  std::vector<std::int32_t> labels;

  template <typename T>
  void write(const std::string& name, std::span<const T> values) const {
    std::ofstream(folder + "/" + name, std::ios::binary)
        .write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size_bytes()));
  }
  void need(const graft::Status& status, const char* what) const {
    if (status.ok()) return;
    std::fprintf(stderr, "%s: %s\n", what, status.message().c_str());
    std::exit(1);
  }
  template <typename T>
  T need(graft::Result<T> result, const char* what) const {
    need(result.status(), what);
    return std::move(result.value());
  }
};

/// What comes of language models, data sets, evaluations, deltas, importance and plans.
void write_more(Oracle& to, graft::Context& context);

}  // namespace graft::test
