#include "runtime/exec/capture.h"

#include <algorithm>

namespace graft {
namespace {

struct Place {
  const Resident* resident = nullptr;
  std::size_t buffer = 0;
  std::uint64_t offset = 0;
};

/// Whether a copy of `what` has this one.
bool is_captured(const Resident& resident, Capture::What what) {
  if (resident.kind == ValueKind::constant || resident.low_precision() || resident.bytes == 0) return false;
  if (what == Capture::What::all) return true;
  const auto wanted = what == Capture::What::gradients ? MemoryClass::gradients : MemoryClass::parameters;
  return resident.kind == ValueKind::state && resident.memory_class == wanted;
}

/// The residents that change, packed into as many buffers as one allocation's limit asks for.
std::vector<Place> places_of(const Residents& residents, Capture::What what, std::vector<std::uint64_t>& sizes) {
  std::vector<Place> places;
  for (const Resident& resident : residents.entries()) {
    if (!is_captured(resident, what)) continue;
    if (sizes.empty() || sizes.back() + resident.device_bytes > residents.segment_bytes()) sizes.push_back(0);
    places.push_back({&resident, sizes.size() - 1, sizes.back()});
    sizes.back() += resident.device_bytes;
  }
  return places;
}

}  // namespace

std::uint64_t Capture::planned_bytes(const Residents& residents, What what) {
  std::vector<std::uint64_t> sizes;
  (void)places_of(residents, what, sizes);
  std::uint64_t bytes = 0;
  for (const std::uint64_t size : sizes) bytes += size;
  return bytes;
}

Result<std::unique_ptr<Capture>> Capture::create(Memory& memory, std::chrono::nanoseconds timeout, What what) {
  std::unique_ptr<Capture> capture(new Capture(memory, timeout));
  std::vector<std::uint64_t> sizes;
  const std::vector<Place> places = places_of(memory.residents(), what, sizes);
  for (const std::uint64_t size : sizes) {
    auto buffer = memory.device().create_buffer(size, gpu::MemoryKind::readback, "copy of the state");
    if (!buffer.ok()) return std::move(buffer).status().with_context("While allocating memory for checkpoints");
    capture->buffers_.push_back(std::move(buffer).value());
  }
  GRAFT_TRY_ASSIGN(const auto recorder, memory.device().record("copy of the state"));
  for (const Place& place : places) {
    const Resident& resident = *place.resident;
    gpu::Buffer* const buffer = capture->buffers_[place.buffer].get();
    recorder->copy(memory.range(Space::resident, resident.offset, resident.device_bytes),
                   {buffer, place.offset, resident.device_bytes});
    capture->entries_.push_back({&resident, buffer->mapped().subspan(place.offset, resident.bytes)});
  }
  recorder->host_barrier();
  GRAFT_TRY_ASSIGN(capture->copy_, recorder->finish());
  return capture;
}

Status Capture::run(gpu::CommandList& commands, const char* while_doing) {
  gpu::CommandList* const lists[] = {&commands};
  GRAFT_TRY_ASSIGN(const gpu::Ticket ticket, memory_.device().submit(lists));
  Status done = memory_.device().wait(ticket, timeout_);
  if (done.ok()) return {};  // the words allocate
  return std::move(done).with_context(while_doing);
}

Status Capture::take() { return run(*copy_, "While copying the state"); }

Status Capture::fill(std::uint32_t word) {
  auto known = std::ranges::find(fills_, word, [](const auto& fill) { return fill.first; });
  if (known == fills_.end()) {
    GRAFT_TRY_ASSIGN(const auto recorder, memory_.device().record("clear the state"));
    for (const Entry& entry : entries_) {
      recorder->fill(memory_.range(Space::resident, entry.resident->offset, entry.resident->device_bytes), word);
    }
    recorder->host_barrier();
    GRAFT_TRY_ASSIGN(auto commands, recorder->finish());
    fills_.emplace_back(word, std::move(commands));
    known = fills_.end() - 1;
  }
  return run(*known->second, "While clearing the state");
}

std::uint64_t Capture::bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& buffer : buffers_) bytes += buffer->size();
  return bytes;
}

}  // namespace graft
