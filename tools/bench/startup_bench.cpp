#include "tools/bench/startup_bench.h"

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "platform/os/process.h"
#include "runtime/data/loader.h"
#include "runtime/data/spec.h"
#include "runtime/run_state/training.h"
#include "tools/bench/model_io.h"
#include "tools/common/files.h"
#include "tools/common/terminal.h"

namespace graft::cli {
namespace {

struct Moment {
  double wall = 0;
  double own = 0;  ///< processor time of this thread
  double driver_wall = 0;
  double driver_own = 0;
};

double clock_seconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

class Phases {
 public:
  explicit Phases(const vulkan::CallTimes& calls) : calls_(calls), last_(now()) {}

  /// What passed since the phase before: wall clock outside of the driver, this thread's processor time outside of
  /// the driver, wall clock inside it.
  void end(const std::string& name) {
    const Moment m = now();
    const double driver = m.driver_wall - last_.driver_wall;
    rows_.push_back({{"phase", name},
                     {"graft_seconds", m.wall - last_.wall - driver},
                     {"graft_processor_seconds", m.own - last_.own - (m.driver_own - last_.driver_own)},
                     {"driver_seconds", driver}});
    last_ = m;
  }
  void add(const std::string& name, double seconds) {
    rows_.push_back(
        {{"phase", name}, {"graft_seconds", seconds}, {"graft_processor_seconds", seconds}, {"driver_seconds", 0.0}});
  }
  const nlohmann::ordered_json& rows() const { return rows_; }

 private:
  Moment now() const {
    return {clock_seconds(CLOCK_MONOTONIC), clock_seconds(CLOCK_THREAD_CPUTIME_ID), calls_.wall_seconds,
            calls_.processor_seconds};
  }
  const vulkan::CallTimes& calls_;
  Moment last_;
  nlohmann::ordered_json rows_ = nlohmann::ordered_json::array();
};

// In quotes for a shell.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

Result<nlohmann::ordered_json> run_process(const DeviceFlags& flags, const std::string& model,
                                           const std::string& folder) {
  const std::string program = os::program_path();
  if (program.empty()) return unsupported("This system does not tell where the program is.");
  std::string command = cat("XDG_CACHE_HOME=", quoted(folder), " MESA_SHADER_CACHE_DIR=", quoted(folder), " ",
                            quoted(program), " bench startup-once ", quoted(model));
  if (!flags.device.empty()) command += " --device " + quoted(flags.device);
  if (!flags.library.empty()) command += " --vulkan-library " + quoted(flags.library);
  if (flags.no_self_test) command += " --no-self-test";
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return error(Code::io_error, "The process to measure could not be started.");
  std::string text;
  char block[4096];
  for (std::size_t n = 0; (n = std::fread(block, 1, sizeof block, pipe)) > 0;) text.append(block, n);
  if (pclose(pipe) != 0) return error(Code::io_error, "The process to measure failed.");
  auto json = nlohmann::ordered_json::parse(text, nullptr, false);
  if (json.is_discarded()) return error(Code::io_error, "The process to measure gave no times.");
  return json;
}

void print_phases(const char* title, const nlohmann::ordered_json& phases) {
  Table table({{title, 34, Table::Kind::name},
               {"graft, ms", 12, Table::Kind::number},
               {"its processor time, ms", 22, Table::Kind::number},
               {"driver, ms", 12, Table::Kind::number}});
  const auto add = [&](const std::string& name, const double(&ms)[3]) {
    table.row({name, number_text("%.2f", ms[0]), number_text("%.2f", ms[1]), number_text("%.2f", ms[2])});
  };
  double sums[3] = {};
  for (const auto& row : phases) {
    const double ms[3] = {row["graft_seconds"].get<double>() * 1e3, row["graft_processor_seconds"].get<double>() * 1e3,
                          row["driver_seconds"].get<double>() * 1e3};
    add(row["phase"].get<std::string>(), ms);
    if (row["phase"] == "second step") continue;
    for (int i = 0; i < 3; ++i) sums[i] += ms[i];
  }
  add("to the end of the first step", sums);
  table.print();
  to_stdout("\n");
}

}  // namespace

Status run_startup(const DeviceFlags& flags, const std::string& path) {
  vulkan::CallTimes calls;
  Phases phases(calls);
  phases.add("loading the program", clock_seconds(CLOCK_PROCESS_CPUTIME_ID));
  TRY_ASSIGN(const Model model, open_model(path));
  TRY_ASSIGN(const auto source, data::open_spec("digits:", {}, {}));
  data::LoaderOptions loader_options;
  loader_options.batch = 64;
  TRY_ASSIGN(const auto loader, data::Loader::create(*source, loader_options));
  TRY_ASSIGN(const data::Batch* batch, loader->next());
  phases.end("model and data");
  TRY_ASSIGN(auto device, OpenDevice::open(flags, &calls));
  phases.end("opening the device and its cache");
  {
    train::TrainOptions options;
    options.batch = 64;
    train::TrainerOptions trainer_options;
    trainer_options.request.evaluation = false;
    device->give_to(trainer_options.program);
    TRY_ASSIGN(const auto trainer, create_trainer(device->device(), model, options, source->fields(), trainer_options));
    phases.end("plans, memory, pipelines");
    TRY(trainer->train_step(*batch));
    phases.end("first step");
    TRY_ASSIGN(batch, loader->next());
    TRY(trainer->train_step(*batch));
    phases.end("second step");
  }
  to_stdout("%s\n", nlohmann::ordered_json({{"device", device->device().caps().device_name},
                                            {"driver", device->device().caps().driver_info},
                                            {"phases", phases.rows()}})
                        .dump()
                        .c_str());
  return device->close();
}

Status bench_startup(const DeviceFlags& flags, const std::string& model, bool json) {
  if (model.empty()) return invalid("Give the model to start with: graft bench startup MODEL.");
  TRY_ASSIGN(const std::string random, random_name());
  const auto folder = std::filesystem::temp_directory_path() / cat("graft-startup-", random);
  TRY(make_folders(folder.string()));
  auto cold = run_process(flags, model, folder.string());
  auto warm = cold.ok() ? run_process(flags, model, folder.string()) : cold;
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  TRY_ASSIGN(const auto cold_times, std::move(cold));
  TRY_ASSIGN(const auto warm_times, std::move(warm));
  if (json) {
    to_stdout("%s\n", nlohmann::ordered_json({{"device", cold_times["device"]},
                                              {"driver", cold_times["driver"]},
                                              {"cold", cold_times["phases"]},
                                              {"warm", warm_times["phases"]}})
                          .dump(2)
                          .c_str());
    return ok_status();
  }
  to_stdout("%s, %s\n\n", cold_times["device"].get<std::string>().c_str(),
            cold_times["driver"].get<std::string>().c_str());
  print_phases("cold", cold_times["phases"]);
  print_phases("warm", warm_times["phases"]);
  return ok_status();
}

}  // namespace graft::cli
