// Outputs that are as long as the data decide, handed out without what is not there.
#include <algorithm>
#include <cstring>

#include "runtime/session/session.h"

namespace graft {
namespace {

/// How many there are, within what the graph has room for.
std::uint64_t count_in(std::span<const std::byte> bytes, std::uint64_t most) {
  std::int32_t count = 0;
  if (bytes.size() < sizeof count) return most;
  std::memcpy(&count, bytes.data(), sizeof count);
  return std::min<std::uint64_t>(static_cast<std::uint64_t>(std::max(count, 0)), most);
}

}  // namespace

Status Session::find_counted() {
  GRAFT_TRY_ASSIGN(const std::vector<CountedOutput> all, counted_outputs(*model_));
  for (const CountedOutput& one : all) {
    const auto port = std::ranges::find(plan().outputs, one.name, &PlanPort::name);
    if (port == plan().outputs.end()) continue;
    // Rows that do not begin the tensor are moved together: room for it is taken now, not after a run.
    std::vector<std::byte> room;
    if (port->shape.elements(0, one.axis) != 1) room.resize(port->bytes);
    counted_.push_back({one, std::move(room)});
  }
  return ok_status();
}

Session::Contents Session::contents(std::string_view name) const {
  const auto& ports = plan().outputs;
  const auto port = std::ranges::find(ports, name, &PlanPort::name);
  if (port == ports.end()) return {};
  Contents whole{port->shape, output(name)};
  const auto found = std::ranges::find(counted_, name, [](const Counted& one) { return one.output.name; });
  if (found == counted_.end() || whole.bytes.empty()) return whole;
  const std::size_t axis = found->output.axis;
  const std::uint64_t most = whole.shape.elements(axis, axis + 1);
  const std::uint64_t count = count_in(output(found->output.count), most);
  const std::uint64_t outer = whole.shape.elements(0, axis);
  const std::uint64_t row = whole.bytes.size() / (outer * most);
  whole.shape[axis] = static_cast<std::int64_t>(count);
  if (outer == 1) {
    whole.bytes = whole.bytes.first(count * row);
  } else if (count < most) {
    for (std::uint64_t i = 0; i < outer; ++i) {
      std::memcpy(found->room.data() + i * count * row, whole.bytes.data() + i * most * row, count * row);
    }
    whole.bytes = std::span<const std::byte>(found->room).first(outer * count * row);
  }
  return whole;
}

}  // namespace graft
