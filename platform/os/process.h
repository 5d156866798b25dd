// This process and others.
#pragma once

#include <cstdint>
#include <string>

namespace graft::os {

std::uint64_t process_id();

/// False only where there is surely none (of this machine, or of this container).
bool process_is_alive(std::uint64_t id);

/// Of this machine in its network; empty where the system does not say.
std::string host_name();

}  // namespace graft::os
