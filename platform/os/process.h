// This process and others.
#pragma once

#include <cstdint>
#include <string>

namespace graft::os {

std::uint64_t process_id();

/// False only where there is surely none (of this machine, or of this container).
bool process_is_alive(std::uint64_t id);

/// The path of this process's program; empty if the system does not tell.
std::string program_path();

/// Runs the program at `path` with `argv` in place of this process, and does not return unless that fails. On Windows
/// it runs the program and exits with its exit status.
void become_program(const std::string& path, char** argv);

/// Of this machine in its network; empty where the system does not say.
std::string host_name();

}  // namespace graft::os
