// What tables of cosines and sines say: which angles a rotary embedding turns by.
#pragma once

#include <optional>

#include "runtime/passes/match.h"

namespace graft::passes {

/// A tensor whose last axis turns, and how its elements are paired: (2i, 2i + 1), or (i, i + dim / 2).
struct Turned {
  Shape shape;
  bool interleaved = false;
};

struct Angles {
  double theta = 0;              ///< of position * theta^(-2i / dim); 0: by frequencies
  double magnitude = 1;          ///< that cosines and sines were multiplied by
  ValueId positions = kNoValue;  ///< i32, one for each token or for each token of each item; kNoValue: its index
  ValueId frequencies = kNoValue;
  std::size_t sequence_axis = 0;  ///< of x
};

/// Tables [.., dim] or, for one of each pair, [.., dim / 2], that broadcast to x: constants, rows looked up by
/// position, or cosines and sines of positions times frequencies. `inference`: parameters stay as they are.
std::optional<Angles> read_angles(const Match& m, const Turned& x, ValueId cosine, ValueId sine, bool inference);

}  // namespace graft::passes
