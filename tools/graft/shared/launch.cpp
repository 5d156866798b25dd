#include "tools/graft/shared/launch.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

namespace graft::cli {
namespace {

constexpr std::uint16_t kPort = 29471;
constexpr std::uint32_t kMostWorkers = 1024;

class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  std::string text(const char* name) const {
    const char* const value = environment_(name);
    return value == nullptr ? "" : value;
  }
  bool has(const char* name) const { return !text(name).empty(); }

  Result<std::uint32_t> number(const char* name, std::uint32_t most) const {
    const std::string value = text(name);
    std::uint32_t number = 0;
    const auto [end, failed] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (failed == std::errc() && end == value.data() + value.size() && number <= most) return number;
    return invalid(name, " is \"", value.substr(0, 80), "\", which is no number up to ", most, ".");
  }

 private:
  const Environment& environment_;
};

/// What one kind of launcher says; nullopt: it is not the one.
using Answer = Result<std::optional<Launch>>;

struct Names {
  const char* who;
  const char* rank;
  const char* size;
  const char* local;
};

Answer by_numbers(const Reader& env, const Names& names) {
  if (!env.has(names.rank) && !env.has(names.size)) return std::optional<Launch>();
  if (!env.has(names.rank) || !env.has(names.size)) {
    if (*names.who != '\0') return std::optional<Launch>();  // somebody else's word
    return invalid(env.has(names.rank) ? names.rank : names.size, " is set, but ",
                   env.has(names.rank) ? names.size : names.rank, " is not.");
  }
  Launch launch;
  launch.by = cat(names.who, names.rank, ", ", names.size);
  TRY_ASSIGN(launch.size, env.number(names.size, kMostWorkers));
  TRY_ASSIGN(launch.rank, env.number(names.rank, kMostWorkers));
  if (launch.rank >= launch.size) {
    return invalid(names.rank, " is ", launch.rank, ", which is not below ", names.size, ", ", launch.size, ".");
  }
  launch.local_rank = launch.rank;
  if (env.has(names.local)) {
    TRY_ASSIGN(launch.local_rank, env.number(names.local, kMostWorkers));
  }
  return std::optional(launch);
}

Answer graft_says(const Reader& env) {
  return by_numbers(env, {"", "GRAFT_RANK", "GRAFT_WORLD_SIZE", "GRAFT_LOCAL_RANK"});
}

Answer torchrun_says(const Reader& env) { return by_numbers(env, {"torchrun's ", "RANK", "WORLD_SIZE", "LOCAL_RANK"}); }

/// On one machine worker 0 is here.
void here_if_all_are(const Reader& env, const char* local_size, std::optional<Launch>& launch) {
  if (launch && env.text(local_size) == std::to_string(launch->size)) launch->address = "127.0.0.1";
}

Answer open_mpi_says(const Reader& env) {
  TRY_ASSIGN(auto launch, by_numbers(env, {"Open MPI's ", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                           "OMPI_COMM_WORLD_LOCAL_RANK"}));
  here_if_all_are(env, "OMPI_COMM_WORLD_LOCAL_SIZE", launch);
  return launch;
}

Answer pmi_says(const Reader& env) {
  TRY_ASSIGN(auto launch, by_numbers(env, {"PMI's ", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"}));
  here_if_all_are(env, "MPI_LOCALNRANKS", launch);
  return launch;
}

/// "node[03-07,9],b1" -> "node03".
std::string first_of_nodes(const std::string& list) {
  const std::size_t end = list.find_first_of(",[");
  if (end == std::string::npos || list[end] == ',') return list.substr(0, end);
  const std::size_t first = list.find_first_of(",-]", end);
  return list.substr(0, end) + list.substr(end + 1, first - end - 1);
}

Answer slurm_says(const Reader& env) {
  // A batch script has the number of tasks, too, but is none of them.
  if (!env.has("SLURM_STEP_NODELIST") && !env.has("SLURM_STEPID")) return std::optional<Launch>();
  TRY_ASSIGN(auto launch, by_numbers(env, {"Slurm's ", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"}));
  if (launch) launch->address = first_of_nodes(env.text("SLURM_STEP_NODELIST"));
  return launch;
}

/// "host:port", "[v6]:port" or a host.
Status split_address(const std::string& text, Launch& launch) {
  const std::size_t colon = text.rfind(':');
  launch.address = text.substr(0, colon);
  if (launch.address.starts_with('[') && launch.address.ends_with(']')) {
    launch.address = launch.address.substr(1, launch.address.size() - 2);
  }
  if (colon == std::string::npos) return ok_status();
  const char* const end = text.data() + text.size();
  const auto [at, failed] = std::from_chars(text.data() + colon + 1, end, launch.port);
  if (failed == std::errc() && at == end) return ok_status();
  return invalid("\"", text.substr(0, 80), "\" is no address of a worker.");
}

/// {"cluster": {"chief": [...], "worker": ["host:port", ...]}, "task": {"type": "worker", "index": 0}}
Answer tensorflow_says(const Reader& env) {
  if (!env.has("TF_CONFIG")) return std::optional<Launch>();
  const auto config = nlohmann::json::parse(env.text("TF_CONFIG"), nullptr, false);
  const auto wrong = invalid("TF_CONFIG does not say which worker of \"cluster\" this \"task\" is.");
  if (!config.is_object() || !config.contains("cluster") || !config.contains("task")) return wrong;
  const auto& task = config["task"];
  const auto& cluster = config["cluster"];
  if (!task.is_object() || !cluster.is_object() || !task.contains("index")) return wrong;
  const auto& index = task["index"];
  const bool counts = index.is_number_unsigned() || index.is_string();
  const std::string type =
      task.contains("type") && task["type"].is_string() ? task["type"].get<std::string>() : "worker";
  const std::string wanted = index.is_string() ? index.get<std::string>()
                             : counts          ? std::to_string(index.get<std::uint64_t>())
                                               : "";
  Launch launch;
  launch.by = "TF_CONFIG";
  bool found = false;
  std::string first;
  std::uint32_t rank = 0;
  for (const char* kind : {"chief", "master", "worker"}) {  // in the order of ranks
    if (!cluster.contains(kind) || !cluster[kind].is_array()) continue;
    for (std::size_t i = 0; i < cluster[kind].size(); ++i, ++rank) {
      if (!cluster[kind][i].is_string() || rank >= kMostWorkers) return wrong;
      if (rank == 0) first = cluster[kind][i].get<std::string>();
      if (type != kind || std::to_string(i) != wanted) continue;
      launch.rank = rank;
      found = true;
    }
  }
  if (!found) return wrong;
  launch.size = rank;
  TRY(split_address(first, launch));
  return std::optional(launch);
}

/// SM_HOSTS: ["algo-1", "algo-2"]; SM_CURRENT_HOST: one of them.
Answer sagemaker_says(const Reader& env) {
  if (!env.has("SM_HOSTS")) return std::optional<Launch>();
  const auto hosts = nlohmann::json::parse(env.text("SM_HOSTS"), nullptr, false);
  const std::string here = env.text("SM_CURRENT_HOST");
  Launch launch;
  launch.by = "SageMaker's SM_HOSTS, SM_CURRENT_HOST";
  bool found = false;
  if (hosts.is_array() && hosts.size() <= kMostWorkers) {
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      if (!hosts[i].is_string() || hosts[i].get<std::string>() != here) continue;
      launch.rank = static_cast<std::uint32_t>(i);
      found = true;
    }
  }
  if (!found) return invalid("SM_HOSTS is no list that SM_CURRENT_HOST, \"", here.substr(0, 80), "\", is one of.");
  launch.size = static_cast<std::uint32_t>(hosts.size());
  if (!hosts[0].is_string()) return invalid("SM_HOSTS is no list of names.");
  launch.address = hosts[0].get<std::string>();
  return std::optional(launch);
}

/// GRAFT_MASTER_ADDR and MASTER_ADDR say where worker 0 is, whoever started it.
Status find_first(const Reader& env, Launch& launch) {
  for (const char* prefix : {"MASTER_", "GRAFT_MASTER_"}) {
    const std::string address = cat(prefix, "ADDR"), port = cat(prefix, "PORT");
    if (env.has(address.c_str())) launch.address = env.text(address.c_str());
    if (!env.has(port.c_str())) continue;
    TRY_ASSIGN(const std::uint32_t number, env.number(port.c_str(), UINT16_MAX));
    launch.port = static_cast<std::uint16_t>(number);
  }
  // torchrun's own agent listens at the port that it tells.
  const bool taken = !env.has("GRAFT_MASTER_PORT") && env.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  if (taken && launch.port != 0) launch.port = launch.port == UINT16_MAX ? kPort : launch.port + 1;
  if (launch.port == 0) launch.port = kPort;
  if (!launch.address.empty()) return ok_status();
  return invalid("This is worker ", launch.rank, " of ", launch.size, " (", launch.by,
                 "), but nobody says where worker 0 is: give GRAFT_MASTER_ADDR.");
}

}  // namespace

Result<std::optional<Launch>> launched_as(const Environment& environment) {
  const Reader env(environment);
  std::optional<Launch> first;
  for (const auto ask :
       {graft_says, torchrun_says, open_mpi_says, pmi_says, slurm_says, tensorflow_says, sagemaker_says}) {
    TRY_ASSIGN(auto launch, ask(env));
    if (!launch) continue;
    if (!first) {
      first = std::move(launch);
    } else if (first->rank != launch->rank || first->size != launch->size) {
      return invalid("By ", first->by, " this is worker ", first->rank, " of ", first->size, ", by ", launch->by, " ",
                     launch->rank, " of ", launch->size, ". Unset those that are not meant.");
    }
  }
  if (!first || first->size == 1) return std::optional<Launch>();
  TRY(find_first(env, *first));
  return first;
}

}  // namespace graft::cli
