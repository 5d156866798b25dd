// A run as its page wants it: the rows of its --metrics file and what its checkpoint folder holds, as JSON.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "graft/snapshots.h"
#include "tools/graft/shared/public_api.h"
#include "tools/watch/metrics_rows.h"

namespace graft::cli {

class RunDocument {
 public:
  /// `paths`: a file of graft train --metrics, a checkpoint folder, or both of one run.
  static Result<RunDocument> open(const std::vector<std::string>& paths);

  /// Reads what a run has added since.
  Status refresh();
  /// The JSON object that page.html reads. `first`: rows before this one are left out, if `generation` is still that of
  /// the rows.
  std::string json(std::uint64_t first = 0, std::uint64_t generation = 0) const;
  /// Of the page.
  const std::string& title() const { return title_; }

 private:
  Status read_store();

  std::string title_;
  std::optional<MetricsRows> metrics_;
  std::string folder_;  ///< "": none
  Owned<graft_context> context_;
  nlohmann::ordered_json store_;
  std::chrono::steady_clock::time_point store_read_at_;
};

}  // namespace graft::cli
