// Weight deltas: what training changed, small enough to send, for devices that come and go.
// McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data", 2017.
//
//   Coding        coding.h      numbers to bytes: f32, bf16, blocks of int8, integers for secure aggregation
//   Delta         here          made from two models, put on a model
//   write_delta   delta_file.h  files
//   clip, noise   privacy.h     differential privacy, and what it costs
//   average       average.h     of clients, by samples; of adapters, of their products
//   Server        server.h      what a server does with the average: FedAvg, FedAdam, ...
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "platform/base/hash.h"
#include "runtime/core/dtype.h"
#include "runtime/delta/coding.h"
#include "runtime/model/model.h"

namespace graft::delta {

/// What the numbers are added to; as in schema/delta.fbs.
enum class Kind : std::uint8_t {
  weights,   ///< the base's weights; the base is a model or an adapter file
  adapters,  ///< nothing: they are adapters of the base
};

/// The changes of one weight.
struct Tensor {
  std::string name;
  Shape shape;
  DType dtype = DType::f32;      ///< of the weight: f32, f16 or bf16
  std::vector<std::byte> coded;  ///< as Delta::coding says
};

struct Delta {
  Kind kind = Kind::weights;
  Coding coding = Coding::f32;
  std::uint32_t fixed_bits = 0;   ///< of Coding::fixed
  Hash128 base;                   ///< weights_hash() of the base
  std::string base_file;          ///< its name, for messages; may be empty
  std::uint64_t samples = 1;      ///< that training used; what an average weighs by
  std::uint32_t clients = 1;      ///< whose deltas are in it
  std::uint64_t local_steps = 0;  ///< optimizer steps, of all clients
  std::uint32_t rank = 0;         ///< of adapters, the largest; 0: of others
  double clip_norm = 0;           ///< 0: not clipped
  double noise = 0;               ///< standard deviation of what was added to each number; 0: none
  double norm = 0;                ///< before it was clipped; with noise, after the noise
  Metadata metadata;              ///< the adapters' own, where there are any
  std::vector<Tensor> tensors;    ///< sorted by name; what did not change is left out, unless the delta is clipped

  std::uint64_t elements() const;
  const Tensor* find(std::string_view name) const;
};

/// What each number of a tensor stands for. Of integers: their sum divided by the samples.
std::vector<float> numbers_of(const Delta& delta, const Tensor& tensor);

/// What coding lost in earlier rounds, by tensor.
using Residual = std::map<std::string, std::vector<float>>;

struct MakeOptions {
  std::uint64_t samples = 1;
  std::uint64_t local_steps = 0;
  Coding coding = Coding::f32;
  std::uint32_t fixed_bits = 8;
  std::uint32_t room = 1024;  ///< Coding::fixed: so many clients' integers may be added without overflow
  /// The whole delta is scaled down until what a reader decodes has at most this L2 norm; 0: not. All trainable tensors
  /// are in such a delta, so that it does not tell which of them changed.
  double clip_norm = 0;
  /// Standard deviation over clip_norm of normal noise on every number of every trainable tensor, after clipping and
  /// before coding; 0: none.
  double noise = 0;
  std::optional<std::uint64_t> seed;  ///< of the noise, for tests; default: the system's entropy
  Residual* residual = nullptr;       ///< added before coding, then replaced by what this one loses; null: not
};

/// `updated` less `base`: two models of one graph, or two adapter files; or the adapters of `updated` where that is an
/// adapter file and `base` is a model. invalid_argument: they differ in more than parameters and running statistics,
/// numbers are not finite, an option makes no sense. Weights are compared with their files' checksums.
Result<Delta> make(const Model& base, const Model& updated, const MakeOptions& options);

/// Codes numbers, by name, as the changes of these weights; for what makes deltas from deltas.
Status set_numbers(Delta& delta, std::string_view name, const std::vector<double>& numbers);

/// The base with the delta, times `rate`, added; or the adapters. Weights that the delta does not change are borrowed
/// from the base. invalid_argument: another base; tensors that it lacks.
Result<Model> apply(const Model& base, const Delta& delta, double rate = 1);

/// invalid_argument where `delta` was not made for `base`.
Status check_base(const Delta& delta, const Model& base);

}  // namespace graft::delta
