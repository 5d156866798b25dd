// What a server does with the average of its clients: a step of an optimizer whose gradient it is.
// S. Reddi et al., "Adaptive Federated Optimization", 2021.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/delta/delta.h"

namespace graft::delta {

enum class ServerKind : std::uint8_t {
  fedavg,      ///< adds the average, times the rate, with momentum where beta1 is not 0
  fedadagrad,  ///< v += d^2
  fedadam,     ///< v = beta2 v + (1 - beta2) d^2
  fedyogi,     ///< v -= (1 - beta2) d^2 sign(v - d^2)
};
Result<ServerKind> parse_server(std::string_view name);
std::string_view server_name(ServerKind kind);

struct ServerOptions {
  ServerKind kind = ServerKind::fedavg;
  double rate = 1;
  double beta1 = 0;  ///< of m = beta1 m + (1 - beta1) d; fedavg: of m = beta1 m + d
  double beta2 = 0.99;
  double tau = 1e-3;  ///< the least square root of v: how adaptive it is
};
Status check(const ServerOptions& options);

/// Keeps the moments between rounds.
class Server {
 public:
  explicit Server(const ServerOptions& options) : options_(options) {}

  /// The average turned into what is added to the base, with rate 1: w += rate m / (sqrt(v) + tau), or rate m.
  /// Running statistics (`statistics`: their names) are taken over as they are. invalid_argument: shapes of another
  /// model. Not of adapters that were made against nothing, and not of integers.
  Result<Delta> step(const Delta& average, const std::vector<std::string>& statistics);

  /// The moments as bytes of a delta file, for the next round; and back.
  Result<std::vector<std::byte>> state() const;
  Status restore(std::span<const std::byte> bytes, std::string_view name);

 private:
  struct Moments {
    Shape shape;
    std::vector<float> first;
    std::vector<float> second;
  };
  ServerOptions options_;
  std::map<std::string, Moments> moments_;
};

/// Names of a model's running statistics, which server optimizers leave alone.
std::vector<std::string> statistics_of(const Model& model);

}  // namespace graft::delta
