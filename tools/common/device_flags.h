// The flags of every command that uses a device.
#pragma once

#include <array>
#include <string>

#include "tools/common/command.h"

namespace graft::cli {

/// What a command opens a device for. Where it is to run something, one that only compiles is refused.
enum class DeviceUse : std::uint8_t {
  run,
  plan,     ///< its capabilities and what is remembered of it
  compile,  ///< without any submission, whatever it is; nothing is remembered
};

/// --device, --vulkan-library, --validate, --cache, ... of every command that runs something.
struct DeviceFlags {
  std::string device;
  std::string library;
  std::string matmul_precision = {};  ///< empty: highest, or what --caps says
  std::string cache;                  ///< folder; empty: the user's; "none"
  bool no_self_test = false;
  bool validate = false;
  bool verbose = false;
  double slice_ms = 0;  ///< 0: nobody asked
  double duty = 1;
  DeviceUse use = DeviceUse::run;
};

/// What --matmul-precision takes, in the order of graft_matmul_precision.
inline constexpr std::array<const char*, 3> kMatmulPrecisions = {"highest", "high", "medium"};

void add_device_flags(CLI::App& app, DeviceFlags& flags);
/// --slice-ms and --duty of commands that run a model.
void add_pace_flags(CLI::App& app, DeviceFlags& flags);

/// The folder that the flags mean; empty: none.
std::string cache_folder(const DeviceFlags& flags);

}  // namespace graft::cli
