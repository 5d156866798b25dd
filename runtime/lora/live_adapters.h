// Swapping the adapters of a running model: nothing is planned, recorded or allocated anew.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/exec/memory.h"
#include "runtime/model/model.h"

namespace graft {

/// What a running model has that its file has not: state, and adapters that were swapped in.
bool changes_on_device(const Resident& resident);

/// Knows where a graph's adapters lie, once they are on a device.
class LiveAdapters {
 public:
  LiveAdapters() = default;
  /// For a graph with adapters (with_lora, with_adapter), or one without. `base`: base_text() of its model.
  LiveAdapters(const Graph& graph, std::string base);

  /// Writes the matrices of an adapter file; layers that it lacks run as without one. Ranks may be smaller than those
  /// in place. The programs' scale stays, so B is multiplied by the ratio of the file's scale to it. nullptr: all
  /// layers run as without adapters. unsupported: DoRA, PiSSA of
  /// this run, new tokens. Nothing changes where the file does not fit: its error names
  /// the layer.
  Status swap(Memory& memory, const Model* adapter) const;

 private:
  struct Site {
    std::string layer;
    std::int64_t rank, in, out;
    double scale;
  };
  struct Matrices {
    std::vector<float> a, b;
  };
  static Result<Matrices> matrices(const Site& site, const Model& adapter, double scale, std::int64_t rank);
  std::vector<Site> sites_;
  bool dora_ = false;       ///< there are magnitudes too
  bool pissa_ = false;      ///< what the adapters began with is taken off the weights
  bool embedding_ = false;  ///< one is of an embedding
  bool tokens_ = false;     ///< there are new tokens
  std::string base_;
};

}  // namespace graft
