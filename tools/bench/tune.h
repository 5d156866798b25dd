// graft bench --tune: which variant of each kernel is the fastest on this device.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "platform/gpu/figures.h"
#include "runtime/model/model.h"
#include "runtime/self_test/device_profile.h"
#include "tools/bench/bench_time.h"
#include "tools/common/status.h"

namespace graft::cli {

struct TunedChoice {
  std::string key;
  std::string usual;  ///< what the rules choose
  std::string best;
  double usual_seconds = 0;
  double best_seconds = 0;
  std::size_t candidates = 0;
  struct Measured {
    std::string variant;
    double seconds = 0;
    double estimated = 0;  ///< as graft plan --time has it; 0: not asked for
  };
  std::vector<Measured> measured;  ///< the usual one first
};

/// Times every variant that the device can run, once for every choice that nodes of these graphs (bound) make. What is
/// faster than the rules' choice by 3 % or more goes into the profile, which is saved, and into the device's advice;
/// what was tuned for these choices before is forgotten first.
/// `target`: the device's, or those of a lesser one, whose choices are then measured but not kept.
/// `speed`: what to estimate times by, for a comparison; null: nothing is estimated.
/// `run`: false: nothing runs, and choices are made by the estimates, where these differ by a tenth or more: of tiles
/// of products and convolutions alone.
Result<std::vector<TunedChoice>> tune(gpu::Device& device, const gpu::Target& target, std::span<const Graph> graphs,
                                      int repeat, Clock clock, DeviceProfile* profile,
                                      const gpu::Speed* speed = nullptr, bool run = true);

/// The model's forward pass and, where it can be trained on labels, its training step.
Result<std::vector<Graph>> graphs_of_model(const Model& model, const Bindings& given);

/// `estimated`: by whose figures the times are, where they were not measured.
void print_tuned(const std::vector<TunedChoice>& choices, const std::string& estimated);
nlohmann::ordered_json tuned_json(const std::vector<TunedChoice>& choices);

}  // namespace graft::cli
