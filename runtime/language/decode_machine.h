// The programs of a language model that goes on token by token, over one memory, which may leave the device or be lost.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/exec/host_state.h"
#include "runtime/exec/program.h"
#include "runtime/language/generate_options.h"
#include "runtime/lora/live_adapters.h"
#include "runtime/model/model.h"
#include "runtime/passes/decode_graph.h"

namespace graft {

/// What one of a model's programs takes on in a run.
struct DecodeForm {
  std::uint32_t tokens = 1;
  bool logits = true;
  passes::DecodeSlots slots = {};
};
/// Graphs of decode_graph() with the same caches, as `options` have them.
Result<std::vector<Graph>> decode_graphs(const Graph& graph, const GeneratorOptions& options, std::uint32_t context,
                                         std::span<const DecodeForm> forms);

/// What is said of budgets that do not suffice: "Generating with a context of 48 tokens".
using NameOfWork = std::string;

/// Threads: as its device, which must outlive it, as must the model.
class DecodeMachine {
 public:
  /// Plans, allocates, uploads and records. `graphs` are of decode_graph(), of one model and the same caches.
  static Result<std::unique_ptr<DecodeMachine>> create(gpu::Device& device, const Model& model,
                                                       std::vector<Graph> graphs, const GeneratorOptions& options,
                                                       const NameOfWork& work);
  /// What it would allocate; nothing is.
  static Result<std::uint64_t> bytes_of(gpu::Device& device, std::span<const Graph> graphs,
                                        const GeneratorOptions& options);

  /// On the device: not while paused.
  Program& program(std::size_t i) { return *programs_[i]; }
  Memory& memory() { return *memory_; }
  const Graph& graph() const { return graph_; }  ///< the first
  /// Rows of numbers that the last run of a program gave as its output.
  std::span<const float> output_row(std::size_t program, std::size_t row, std::size_t width) const;
  RunControl* control() const { return program_options_.control; }

  MemoryByClass planned() const { return Memory::planned(residents(), plans()); }
  std::string streaming() const;

  /// Calls attempt(), a Status, on the device, and again on another one where it is lost: forgotten() is called where
  /// caches were lost with it, and found_again(lost) once everything is on a device again.
  template <typename Try, typename Forgotten, typename FoundAgain>
  Status on_device(Try attempt, Forgotten forgotten, FoundAgain found_again) {
    return through_losses(
        reopen_,
        [&]() -> Status {
          GRAFT_TRY(bring_back(found_again));
          return attempt();
        },
        [&](const Status&) { return recover(forgotten); });
  }
  /// Gives the device's memory back; contents wait with the host.
  template <typename Forgotten>
  Status pause(Forgotten forgotten) {
    return through_losses(
        reopen_, [&] { return try_pause(); }, [&](const Status&) { return recover(forgotten); });
  }
  bool is_paused() const { return paused_.has_value(); }

  /// LiveAdapters::swap; on the device.
  Status swap_adapters(const Model* adapter);

 private:
  struct Paused {
    Residents residents;
    std::vector<Plan> plans;
    HostState state;
    bool lost = false;  ///< the caches were lost with a device
  };
  DecodeMachine() = default;
  Status create_programs(std::vector<Plan> plans, const ProgramOptions& options);
  Paused as_paused(HostState state, bool lost) const;
  void give_back();
  Status try_pause();
  Status put_back();
  Status keep_adapters();
  std::vector<const Plan*> plans() const;
  const Residents& residents() const { return paused_ ? paused_->residents : memory_->residents(); }

  template <typename FoundAgain>
  Status bring_back(FoundAgain found_again) {
    if (!paused_) return ok_status();
    const auto restore = [&]() -> Status {
      GRAFT_TRY(put_back());
      return found_again(paused_->lost);
    };
    if (const Status done = restore(); !done.ok()) {
      give_back();
      return done;
    }
    if (paused_->lost) kept_ = std::move(paused_->state);
    paused_.reset();
    return ok_status();
  }
  /// As if it were paused, on a new device, but for what the caches held.
  template <typename Forgotten>
  Status recover(Forgotten forgotten) {
    if (!paused_) {
      Paused paused = as_paused(std::exchange(kept_, {}), true);
      give_back();
      paused_ = std::move(paused);
      forgotten();
    }
    GRAFT_TRY_ASSIGN(device_, reopen_(*device_));
    return ok_status();
  }

  gpu::Device* device_ = nullptr;
  const Model* model_ = nullptr;
  ProgramOptions program_options_;
  Graph graph_;
  std::optional<Paused> paused_;
  std::unique_ptr<Memory> memory_;
  std::vector<std::unique_ptr<Program>> programs_;
  HostState kept_, next_kept_;  ///< adapters that were swapped in, where the device may be lost
  Reopen reopen_;
  LiveAdapters adapters_;
};

}  // namespace graft
