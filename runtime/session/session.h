// A model made ready to run on a device: bound, differentiated where asked, planned, recorded.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "platform/gpu/gpu.h"
#include "runtime/core/source_order.h"
#include "runtime/exec/host_state.h"
#include "runtime/exec/lost_device.h"
#include "runtime/exec/program.h"
#include "runtime/lora/live_adapters.h"
#include "runtime/model/counted.h"
#include "runtime/model/model.h"
#include "runtime/passes/constant_folding.h"
#include "runtime/passes/input_rules.h"
#include "runtime/passes/packed_inputs.h"
#include "runtime/passes/precision.h"
#include "runtime/passes/wide_integers.h"

namespace graft {

/// What a session gives beside the model's outputs: gradients d<of, cotangent>/d(wrt), and values on the way; and how
/// it takes its inputs.
struct GradientRequest {
  std::string of;                ///< an output or any value; empty: none
  std::vector<std::string> wrt;  ///< inputs, parameters or any values
  /// As a training step computes it: batch norm by the batch's statistics, dropout at work. The model's own outputs are
  /// then left out, for they may lie elsewhere.
  bool train_mode = false;
  /// Inputs, weights or values of the forward pass, given as outputs of these names. One that is an output of the model
  /// already stays that.
  std::vector<std::string> fetch = {};
  /// Inputs that are given in fewer than 32 bits. There are no gradients with respect to these.
  std::vector<passes::PackedInput> packed = {};
  /// The model's signature whose outputs take the place of all outputs; empty: none.
  std::string signature = {};
};

/// The name of the gradient with respect to `name` among a request graph's outputs.
std::string gradient_name(std::string_view name);
/// The input that holds the cotangent: its shape is of's, in the source's order. Of one element it need not be given.
inline constexpr std::string_view kCotangentInput = "cotangent";
/// Whether this input is a cotangent of one element, which is 1 unless it is given.
bool is_implied(const PlanPort& port);

/// The model's graph, bound, with the gradients asked for as further outputs. Everything that it takes and gives has
/// the source model's order of axes. `keep_outputs` false leaves the model's own outputs out.
Result<Graph> request_graph(const Model& model, const Bindings& bindings, const GradientRequest& request,
                            bool keep_outputs = true);

/// What a session runs: the request's graph after all passes but fusion, and the constants in it that are no weights of
/// the model, computed when those are loaded.
struct SessionGraph {
  Graph graph;
  std::vector<passes::FoldedConstant> constants;
  std::vector<passes::InputRule> rules;
  passes::PrecisionReport precision;
};
Result<SessionGraph> session_graph(const Model& model, const Bindings& bindings, const GradientRequest& request,
                                   DType precision, bool keep_outputs = true, const passes::MayFold& may_fold = {});

struct SessionOptions {
  Bindings bindings;
  /// Session::resize() will be called. Constants that depend on sizes are then not folded.
  bool resizable = false;
  GradientRequest gradients;
  bool keep_outputs = true;
  /// How the device keeps results on the way, and weights (store_results): f32, f16 or bf16.
  DType precision = DType::f32;
  PlanOptions plan;
  ProgramOptions program;
  /// Whether f32 inputs may hold NaN and infinity; without, set_input() refuses them.
  bool allow_non_finite = false;
  /// Gives another device where this one is lost; then inputs, and what changes on the device, are kept with the host
  /// as well, and a call on which the device is lost is repeated on the other. Empty: such a call is device_lost.
  Reopen reopen = {};
  /// Plans as for a lesser device; the default is the device's own capabilities.
  std::optional<gpu::Target> target = {};
};

/// Threads: as its device. The model and the device must outlive the session.
class Session {
 public:
  static Result<std::unique_ptr<Session>> create(gpu::Device& device, const Model& model,
                                                 const SessionOptions& options);

  const Graph& graph() const { return now_->graph; }
  const Plan& plan() const { return paused_ ? paused_->plan : now_->program->plan(); }
  Program& program() { return *now_->program; }  ///< of one that is not paused

  /// Other sizes for named dimensions, each at most that of SessionOptions::bindings; those that are not named stay.
  /// Plans and compiles at the first use of some sizes, and switches at the next (the newest are kept); memory is what
  /// the bound was given. All inputs are to be set again, unless nothing changes. On failure nothing changed:
  /// invalid_argument for sizes beyond the bound or that the graph does not take, unsupported for those that would need
  /// more memory than the bound, or other constants.
  Status resize(const Bindings& sizes);

  /// What is streamed to keep to the budget: a sentence, or nothing.
  std::string streaming() const;

  /// Copies the bytes (row-major, in the input's dtype and source shape, or as GradientRequest::packed says); they stay
  /// from run to run.
  /// invalid_argument names the first number that the model does not take (passes::input_rules); what was given before
  /// then stays.
  Status set_input(std::string_view name, std::span<const std::byte> bytes);
  /// From now on the input or output of this name is read from, or written to, `memory` from `offset` on, and not
  /// copied through the host; nullopt: as before. Each run takes it over and gives it back: nobody else may use it
  /// meanwhile, and what others write must be done. Its numbers are not checked. Undone by resize() and pause().
  /// not_found, unsupported, invalid_argument: nothing changed.
  Status bind(std::string_view name, const std::optional<gpu::ExternalMemory>& memory, std::uint64_t offset = 0);
  bool is_bound(std::string_view name) const { return !is_paused() && now_->program->is_bound(name); }

  /// Every input that something reads must have been set. No allocation after the first run.
  Status run(const StepState& state = {});
  /// Other adapters in place of those that are on (LiveAdapters::swap); outputs change with the next run.
  Status swap_adapters(const Model* adapter);
  /// The output of the last run, valid until the next; empty when there is no such output.
  std::span<const std::byte> output(std::string_view name) const {
    return is_paused() ? std::span<const std::byte>() : now_->program->output(name);
  }
  /// The same with its shape: of an output that is as long as the data decide (runtime/model/counted.h), what is there.
  struct Contents {
    Shape shape;
    std::span<const std::byte> bytes;
  };
  Contents contents(std::string_view name) const;

  /// Gives all device memory back. Inputs, state and adapters that were swapped in wait with the host; outputs are
  /// gone. The next call that needs the device, or resume(), builds everything again. On failure nothing changed.
  Status pause();
  Status resume();
  bool is_paused() const { return paused_.has_value(); }

 private:
  Session() = default;
  Status upload(Memory& memory);
  Status find_counted();

  /// The session at some sizes.
  struct Sized {
    Bindings bindings;
    Graph graph;
    std::vector<passes::InputRule> rules;
    std::optional<passes::WideIntegers> wide = {};  ///< if the source computes in 64 bits
    std::map<std::string, std::unique_ptr<gpu::Buffer>, std::less<>> imported = {};  ///< by what is bound to it
    std::unique_ptr<Program> program;                                                ///< null while paused
  };
  struct Paused {
    Residents residents;
    Plan bound, plan;
    HostState state;
    std::vector<std::vector<std::byte>> inputs;
  };
  /// Repeats the attempt on another device where this one is lost.
  template <typename Try>
  Status on_device(Try attempt) {
    return through_losses(options_.reopen, attempt, [&](const Status& why) { return recover(why); });
  }
  Status recover(const Status& why);
  Status keep_copy();
  Status try_pause();
  Status try_resume();
  Status try_set_input(std::string_view name, std::span<const std::byte> bytes);
  Status try_bind(std::string_view name, const std::optional<gpu::ExternalMemory>& memory, std::uint64_t offset);
  Status try_resize(const Bindings& bindings);
  Status unbind_all();
  Status check_input(const PlanPort& port, std::span<const std::byte> bytes) const;
  Status check_casts() const;
  Result<std::optional<passes::WideIntegers>> wide_integers(const Bindings& bindings) const;
  Result<Bindings> within_bound(const Bindings& sizes) const;
  Result<std::unique_ptr<Sized>> make_sized(const Bindings& bindings);
  const gpu::Target& target() const { return options_.target ? *options_.target : device_->target(); }
  static Result<SessionGraph> graph_of(const Model& model, const SessionOptions& options, const Bindings& bindings,
                                       const passes::MayFold& may_fold);
  static Result<SessionGraph> bound_graph(const Model& model, const SessionOptions& options);

  gpu::Device* device_ = nullptr;
  const Model* model_ = nullptr;
  SessionOptions options_;
  std::vector<passes::FoldedConstant> constants_;
  std::optional<Paused> paused_;
  std::unique_ptr<Memory> memory_;
  std::vector<std::unique_ptr<Sized>> sizes_;  ///< the bound, then others, the oldest first
  Sized* now_ = nullptr;
  std::vector<bool> given_;
  std::set<std::string, std::less<>> casts_;  ///< passes::cast_from_floats()
  struct Counted {
    CountedOutput output;
    mutable std::vector<std::byte> room;  ///< for rows moved together; empty where they begin the tensor anyway
  };
  std::vector<Counted> counted_;
  // With SessionOptions::reopen: inputs as they were given, and what the device alone has.
  std::vector<std::vector<std::byte>> copies_;
  HostState kept_, next_kept_;
  LiveAdapters adapters_;
  std::vector<HostBuffer> streamed_constants_;  ///< folded ones, which the device takes anew for each use
};

/// Writes a model's weights into the residents of a bound graph of it; state without contents becomes zero.
/// `constants` are computed from weights first; what is streamed of them is kept in `streamed`, which must outlive the
/// memory.
Status upload_weights(Memory& memory, const Model& model, const Graph& graph,
                      std::span<const passes::FoldedConstant> constants = {},
                      std::vector<HostBuffer>* streamed = nullptr);

}  // namespace graft
