#include "runtime/delta/server.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "runtime/delta/delta_file.h"

namespace graft::delta {
namespace {

constexpr std::array<std::string_view, 4> kServers = {"fedavg", "fedadagrad", "fedadam", "fedyogi"};
constexpr std::string_view kFirst = "/first", kSecond = "/second";
constexpr std::string_view kStateOf = "server.kind";

}  // namespace

std::string_view server_name(ServerKind kind) { return kServers[static_cast<std::size_t>(kind)]; }

Result<ServerKind> parse_server(std::string_view name) {
  const auto* const found = std::ranges::find(kServers, name);
  if (found != kServers.end()) return static_cast<ServerKind>(found - kServers.begin());
  return invalid("A server's step is fedavg, fedadagrad, fedadam or fedyogi, not \"", name, "\".");
}

Status check(const ServerOptions& options) {
  if (!(options.rate > 0) || !std::isfinite(options.rate)) return invalid("A server's rate of ", options.rate, ".");
  for (const double beta : {options.beta1, options.beta2}) {
    if (!(beta >= 0 && beta < 1)) return invalid("A server's beta of ", beta, "; from 0 to below 1 is wanted.");
  }
  if (!(options.tau > 0) || !std::isfinite(options.tau)) return invalid("A server's tau of ", options.tau, ".");
  return ok_status();
}

Result<Delta> Server::step(const Delta& average, const std::vector<std::string>& statistics) {
  GRAFT_TRY(check(options_));
  if (average.kind == Kind::adapters) {
    return invalid("A server's step is taken from adapters to adapters: make the deltas against the adapters of the ",
                   "round before.");
  }
  Delta out = average;
  out.coding = Coding::f32;
  out.fixed_bits = 0;
  const bool plain = options_.kind == ServerKind::fedavg;
  for (const Tensor& tensor : average.tensors) {
    const std::vector<float> change = numbers_of(average, tensor);
    std::vector<double> numbers(change.begin(), change.end());
    if (std::ranges::find(statistics, tensor.name) == statistics.end()) {
      Moments& moments = moments_[tensor.name];
      if (moments.first.empty()) {
        moments.shape = tensor.shape;
        moments.first.resize(change.size());
        if (!plain) moments.second.assign(change.size(), static_cast<float>(options_.tau * options_.tau));
      }
      if (moments.first.size() != change.size()) {
        return invalid("The server's moments of \"", tensor.name, "\" have the shape ", moments.shape.text(), ", not ",
                       tensor.shape.text(), ".");
      }
      for (std::size_t i = 0; i < change.size(); ++i) {
        const double d = change[i];
        const double m = options_.beta1 * static_cast<double>(moments.first[i]) + (plain ? 1 : 1 - options_.beta1) * d;
        moments.first[i] = static_cast<float>(m);
        numbers[i] = options_.rate * m;
        if (plain) continue;
        double v = moments.second[i];
        const double keep = 1 - options_.beta2;
        switch (options_.kind) {
          case ServerKind::fedadagrad: v += d * d; break;
          case ServerKind::fedyogi: v -= keep * d * d * (v > d * d ? 1 : v < d * d ? -1 : 0); break;
          default: v = options_.beta2 * v + keep * d * d; break;
        }
        moments.second[i] = static_cast<float>(v);
        numbers[i] /= std::sqrt(v) + options_.tau;
      }
    }
    GRAFT_TRY(set_numbers(out, tensor.name, numbers));
  }
  return out;
}

Result<std::vector<std::byte>> Server::state() const {
  Delta kept;
  kept.metadata[std::string(kStateOf)] = server_name(options_.kind);
  const auto add = [&](const std::string& name, std::string_view part, const Shape& shape,
                       const std::vector<float>& numbers) {
    if (numbers.empty()) return;
    const auto bytes = std::as_bytes(std::span(numbers));
    kept.tensors.push_back({cat(name, part), shape, DType::f32, {bytes.begin(), bytes.end()}});
  };
  for (const auto& [name, moments] : moments_) {
    add(name, kFirst, moments.shape, moments.first);
    add(name, kSecond, moments.shape, moments.second);
  }
  std::ranges::sort(kept.tensors, {}, &Tensor::name);
  return to_bytes(kept);
}

Status Server::restore(std::span<const std::byte> bytes, std::string_view name) {
  GRAFT_TRY_ASSIGN(const Delta kept, from_bytes(bytes, name));
  const auto kind = kept.metadata.find(kStateOf);
  if (kind == kept.metadata.end() || kept.coding != Coding::f32) return invalid("\"", name, "\" is no server's state.");
  if (kind->second != server_name(options_.kind)) {
    return invalid("The state in \"", name, "\" is of ", kind->second, ", not of ", server_name(options_.kind), ".");
  }
  std::map<std::string, Moments> moments;
  for (const Tensor& tensor : kept.tensors) {
    const bool first = tensor.name.ends_with(kFirst);
    if (!first && !tensor.name.ends_with(kSecond)) return invalid("\"", name, "\" is no server's state.");
    Moments& of = moments[tensor.name.substr(0, tensor.name.size() - (first ? kFirst : kSecond).size())];
    of.shape = tensor.shape;
    (first ? of.first : of.second) = numbers_of(kept, tensor);
  }
  for (const auto& [tensor, of] : moments) {
    const bool second = options_.kind != ServerKind::fedavg;
    if (of.first.empty() || of.second.size() != (second ? of.first.size() : 0)) {
      return invalid("The state in \"", name, "\" lacks moments of \"", tensor, "\".");
    }
  }
  moments_ = std::move(moments);
  return ok_status();
}

std::vector<std::string> statistics_of(const Model& model) {
  std::vector<std::string> names;
  for (const ValueId id : model.graph.of_kind(ValueKind::state)) names.push_back(model.graph.value(id).name);
  return names;
}

}  // namespace graft::delta
