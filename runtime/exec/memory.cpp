#include "runtime/exec/memory.h"

#include <algorithm>
#include <cstring>

#include "platform/base/checked.h"
#include "runtime/exec/numbers.h"

namespace graft {
namespace {

struct Needs {
  std::uint64_t transient = 0;
  std::uint64_t upload = 0;
  std::uint64_t readback = 0;
  std::uint64_t stream = 0;
  std::uint64_t stream_staging = 0;
  std::uint64_t step_state = 0;
  const Plan* largest = nullptr;
};

Needs needs_of(const Residents& residents, std::span<const Plan* const> plans) {
  Needs needs;
  needs.upload = needs.readback = residents.transfer_bytes();
  for (const Plan* plan : plans) {
    if (needs.largest == nullptr || plan->transient_bytes > needs.transient) needs.largest = plan;
    needs.transient = std::max(needs.transient, plan->transient_bytes);
    needs.upload = std::max(needs.upload, plan->upload_bytes);
    needs.readback = std::max(needs.readback, plan->readback_bytes);
    needs.stream = std::max(needs.stream, plan->stream_bytes);
    needs.stream_staging = std::max(needs.stream_staging, plan->stream_staging_bytes);
    needs.step_state = std::max(needs.step_state, plan->step_state_bytes());
  }
  return needs;
}

/// On the device; of a resident that is kept in 16 bits that is half of what the host sees.
std::uint64_t device_bytes(const Resident& resident, std::uint64_t host_bytes) {
  return resident.low_precision() ? host_bytes / dtype_size(resident.dtype) * dtype_size(resident.stored) : host_bytes;
}
std::uint64_t host_bytes(const Resident& resident, std::uint64_t device_bytes) {
  return resident.low_precision() ? device_bytes / dtype_size(resident.stored) * dtype_size(resident.dtype)
                                  : device_bytes;
}

std::uint64_t bytes_of(const std::vector<std::unique_ptr<gpu::Buffer>>& buffers) {
  std::uint64_t bytes = 0;
  for (const auto& buffer : buffers) bytes += buffer->size();
  return bytes;
}

}  // namespace

Result<std::unique_ptr<Memory>> Memory::create(gpu::Device& device, const Residents& residents,
                                               std::span<const Plan* const> plans) {
  std::unique_ptr<Memory> memory(new Memory(device, residents));
  GRAFT_TRY(memory->allocate(plans).with_context(
      cat("While allocating ", bytes_text(planned(residents, plans).total()), " of device memory")));
  return memory;
}

MemoryByClass Memory::planned(const Residents& residents, std::span<const Plan* const> plans) {
  const Needs needs = needs_of(residents, plans);
  MemoryByClass memory = residents.memory();
  if (needs.largest != nullptr) {
    const MemoryByClass& all = needs.largest->memory;
    const MemoryByClass& kept = needs.largest->residents_memory;
    for (const MemoryClass c : {MemoryClass::gradients, MemoryClass::activations}) memory[c] += all[c] - kept[c];
    memory[MemoryClass::workspace] += all[MemoryClass::workspace];
  }
  memory[MemoryClass::weights] += needs.stream;
  memory[MemoryClass::staging] = needs.upload + needs.readback + needs.stream_staging;
  memory[MemoryClass::step_state] = needs.step_state;
  return memory;
}

Status Memory::allocate(std::span<const Plan* const> plans) {
  for (const Plan* plan : plans) {
    if (plan->resident_bytes == residents_.bytes() && plan->segment_bytes == residents_.segment_bytes()) continue;
    return invalid("A plan was made with other residents (", plan->resident_bytes, " bytes) than its memory (",
                   residents_.bytes(), " bytes).");
  }
  const Needs needs = needs_of(residents_, plans);
  transient_bytes_ = needs.transient;
  stream_bytes_ = needs.stream;
  stream_staging_bytes_ = needs.stream_staging;
  sources_.resize(residents_.entries().size());
  using enum gpu::MemoryKind;
  GRAFT_TRY(allocate_segments(residents_.bytes(), device, "residents", resident_));
  GRAFT_TRY(allocate_segments(needs.transient, device, "arena", transient_));
  GRAFT_TRY(allocate_segments(needs.stream, needs.stream_staging != 0 ? device : upload, "stream ring", stream_));
  GRAFT_TRY(allocate_segments(needs.stream_staging, upload, "stream staging", stream_staging_));
  if (needs.step_state != 0) {
    GRAFT_TRY_ASSIGN(step_state_, device_.create_buffer(needs.step_state, gpu::MemoryKind::device, "step state"));
  }
  if (needs.upload != 0) {
    GRAFT_TRY_ASSIGN(upload_, device_.create_buffer(needs.upload, gpu::MemoryKind::upload, "upload staging"));
  }
  if (needs.readback != 0) {
    GRAFT_TRY_ASSIGN(readback_, device_.create_buffer(needs.readback, gpu::MemoryKind::readback, "readback staging"));
  }
  return ok_status();
}

Status Memory::allocate_segments(std::uint64_t bytes, gpu::MemoryKind kind, std::string_view name,
                                 std::vector<std::unique_ptr<gpu::Buffer>>& out) {
  const std::uint64_t segment = residents_.segment_bytes();
  for (std::uint64_t at = 0; at < bytes; at += segment) {
    GRAFT_TRY_ASSIGN(auto buffer, device_.create_buffer(std::min(segment, bytes - at), kind, name));
    out.push_back(std::move(buffer));
  }
  return ok_status();
}

std::uint64_t Memory::allocated_bytes() const {
  std::uint64_t bytes = bytes_of(resident_) + bytes_of(transient_) + bytes_of(stream_) + bytes_of(stream_staging_);
  for (const auto* buffer : {&step_state_, &upload_, &readback_}) bytes += *buffer ? (*buffer)->size() : 0;
  return bytes;
}

bool Memory::covers(const Plan& plan) const {
  return plan.resident_bytes == residents_.bytes() && plan.segment_bytes == residents_.segment_bytes() &&
         plan.transient_bytes <= transient_bytes_ && plan.upload_bytes <= (upload_ ? upload_->size() : 0) &&
         plan.readback_bytes <= (readback_ ? readback_->size() : 0) && plan.stream_bytes <= stream_bytes_ &&
         (plan.stream_bytes == 0 || (plan.stream_staging_bytes != 0) == (stream_staging_bytes_ != 0)) &&
         plan.stream_staging_bytes <= stream_staging_bytes_ &&
         plan.step_state_bytes() <= (step_state_ ? step_state_->size() : 0);
}

gpu::BufferRange Memory::range(Space space, std::uint64_t offset, std::uint64_t size) {
  const std::uint64_t segment = residents_.segment_bytes();
  switch (space) {
    case Space::resident: return {resident_[offset / segment].get(), offset % segment, size};
    case Space::transient: return {transient_[offset / segment].get(), offset % segment, size};
    case Space::step_state: return {step_state_.get(), offset, size};
    case Space::upload: return {upload_.get(), offset, size};
    case Space::readback: return {readback_.get(), offset, size};
    case Space::stream: return {stream_[offset / segment].get(), offset % segment, size};
    case Space::stream_staging: return {stream_staging_[offset / segment].get(), offset % segment, size};
  }
  return {};
}

Result<const Resident*> Memory::find(std::string_view name, std::uint64_t offset, std::uint64_t size) const {
  const Resident* resident = residents_.find(name);
  if (resident == nullptr) return error(Code::not_found, "There is no resident value \"", name, "\".");
  const std::uint64_t word = host_bytes(*resident, 4);
  if (!in_bounds(offset, size, resident->bytes) || offset % word != 0 ||
      (size % word != 0 && offset + size != resident->bytes)) {
    return invalid("Bytes ", offset, " + ", size, " were asked for of the resident value \"", name, "\", which has ",
                   resident->bytes, " bytes and is moved in words of ", word, ".");
  }
  return resident;
}

/// Where residents are staged: at the end, behind the inputs or outputs of any plan. (Not so where memory is unified
/// and tests do without mapped memory all the same.)
std::uint64_t Memory::transfer_offset(const gpu::Buffer& staging) const {
  return staging.size() - residents_.transfer_bytes();
}

std::byte* Memory::mapped(const gpu::BufferRange& range) const {
  const auto bytes = use_mapped_ ? range.buffer->mapped() : std::span<std::byte>();
  return bytes.empty() ? nullptr : bytes.data() + range.offset;
}

Status Memory::submit(gpu::Recorder& recorder) {
  recorder.host_barrier();
  GRAFT_TRY_ASSIGN(const auto list, recorder.finish());
  gpu::CommandList* const lists[] = {list.get()};
  GRAFT_TRY_ASSIGN(const gpu::Ticket ticket, device_.submit(lists));
  return device_.wait(ticket, timeout_);
}

Status Memory::submit_copy(const gpu::BufferRange& from, const gpu::BufferRange& to) {
  GRAFT_TRY_ASSIGN(const auto recorder, device_.record("transfer"));
  recorder->copy(from, to);
  return submit(*recorder);
}

Status Memory::write(std::string_view name, std::span<const std::byte> bytes, std::uint64_t offset) {
  GRAFT_TRY_ASSIGN(const Resident* resident, find(name, offset, bytes.size()));
  const std::uint64_t base = resident->offset + device_bytes(*resident, offset);
  if (resident->streamed) {
    return invalid("The value \"", name, "\" is streamed: it is provided, not written.");
  }
  if (bytes.empty()) return ok_status();
  GRAFT_TRY(check_numbers(*resident, bytes));
  const std::uint64_t total = device_bytes(*resident, bytes.size());
  const gpu::BufferRange whole = range(Space::resident, base, align_up(total, 4));
  if (std::byte* const direct = mapped(whole); direct != nullptr) {
    convert_numbers(resident->dtype, bytes, resident->stored, direct);
    return ok_status();
  }
  for (std::uint64_t done = 0; done < total;) {
    const std::uint64_t n = std::min<std::uint64_t>(total - done, residents_.transfer_bytes());
    const auto piece = bytes.subspan(host_bytes(*resident, done), host_bytes(*resident, n));
    const std::uint64_t staging = transfer_offset(*upload_);
    convert_numbers(resident->dtype, piece, resident->stored, upload().data() + staging);
    const std::uint64_t words = align_up(n, 4);
    GRAFT_TRY(submit_copy(range(Space::upload, staging, words), range(Space::resident, base + done, words))
                  .with_context(cat("While writing the resident value \"", name, "\"")));
    done += n;
  }
  return ok_status();
}

Status Memory::read(std::string_view name, std::span<std::byte> bytes, std::uint64_t offset) {
  GRAFT_TRY_ASSIGN(const Resident* resident, find(name, offset, bytes.size()));
  const std::uint64_t base = resident->offset + device_bytes(*resident, offset);
  if (bytes.empty()) return ok_status();
  if (resident->streamed) {
    const auto from = source(static_cast<std::uint32_t>(resident - residents_.entries().data()));
    if (from.empty()) return error(Code::not_found, "The streamed value \"", name, "\" was not provided.");
    round_numbers(resident->dtype, from.subspan(offset, bytes.size()), resident->stored, bytes.data());
    return ok_status();
  }
  const std::uint64_t total = device_bytes(*resident, bytes.size());
  const gpu::BufferRange whole = range(Space::resident, base, align_up(total, 4));
  if (const std::byte* const direct = mapped(whole); direct != nullptr) {
    convert_numbers(resident->stored, {direct, total}, resident->dtype, bytes.data());
    return ok_status();
  }
  for (std::uint64_t done = 0; done < total;) {
    const std::uint64_t n = std::min<std::uint64_t>(total - done, residents_.transfer_bytes());
    const std::uint64_t words = align_up(n, 4);
    const std::uint64_t staging = transfer_offset(*readback_);
    GRAFT_TRY(submit_copy(range(Space::resident, base + done, words), range(Space::readback, staging, words))
                  .with_context(cat("While reading the resident value \"", name, "\"")));
    const auto piece = readback().subspan(staging, n);
    convert_numbers(resident->stored, piece, resident->dtype, bytes.data() + host_bytes(*resident, done));
    done += n;
  }
  return ok_status();
}

Status Memory::provide(std::string_view name, std::span<const std::byte> bytes) {
  GRAFT_TRY_ASSIGN(const Resident* resident, find(name, 0, bytes.size()));
  if (!resident->streamed) return write(name, bytes);
  if (bytes.size() != resident->bytes) {
    return invalid("The streamed value \"", name, "\" has ", resident->bytes, " bytes, but ", bytes.size(),
                   " were provided.");
  }
  GRAFT_TRY(check_numbers(*resident, bytes));
  sources_[static_cast<std::size_t>(resident - residents_.entries().data())] = bytes;
  return ok_status();
}

/// Before anything is rounded: an infinite weight would give no number at all.
Status Memory::check_numbers(const Resident& resident, std::span<const std::byte> bytes) const {
  if (!resident.low_precision()) return ok_status();
  const std::optional<float> large = first_beyond(resident.dtype, bytes, resident.stored);
  if (!large) return ok_status();
  return invalid("The value \"", resident.name, "\" holds ", *large, ", which ", dtype_name(resident.stored),
                 " cannot: another precision must be chosen.");
}

std::span<const std::byte> Memory::source(const Refill& refill) const {
  const Resident& resident = residents_.entries()[refill.resident];
  const std::span<const std::byte> all = source(refill.resident);
  const std::uint64_t from = host_bytes(resident, refill.from);
  return all.empty() ? all : all.subspan(from, std::min(host_bytes(resident, refill.bytes), all.size() - from));
}

std::byte* Memory::target(const Plan& plan, const Refill& refill) {
  const bool staged = plan.stream_staging_bytes != 0;
  const gpu::BufferRange to = staged ? range(Space::stream_staging, refill.staging, refill.bytes)
                                     : range(Space::stream, refill.offset, refill.bytes);
  return to.buffer->mapped().data() + to.offset;
}

Status Memory::move(std::span<const Move> moves) {
  GRAFT_TRY_ASSIGN(const auto recorder, device_.record("move"));
  for (const Move& move : moves) {
    GRAFT_TRY_ASSIGN(const Resident* resident, find(move.name, 0, 0));
    const std::uint64_t room = resident->streamed ? 0 : resident->device_bytes;
    if (!in_bounds(move.from, move.bytes, room) || !in_bounds(move.to, move.bytes, room) ||
        (move.from | move.to | move.bytes) % 4 != 0) {
      return invalid("Bytes ", move.from, " + ", move.bytes, " of the resident value \"", move.name,
                     "\" were to be put at ", move.to, "; it has ", room,
                     " bytes on the device and is moved in words of 4.");
    }
    if (move.bytes == 0) continue;
    recorder->copy(range(Space::resident, resident->offset + move.from, move.bytes),
                   range(Space::resident, resident->offset + move.to, move.bytes));
  }
  return submit(*recorder).with_context("While residents were moved");
}

Status Memory::fill(std::string_view name, std::uint32_t word) {
  GRAFT_TRY_ASSIGN(const Resident* resident, find(name, 0, 0));
  if (resident->streamed) return invalid("The value \"", name, "\" is streamed and cannot be filled.");
  GRAFT_TRY_ASSIGN(const auto recorder, device_.record("fill"));
  recorder->fill(range(Space::resident, resident->offset, resident->device_bytes), word);
  return submit(*recorder).with_context(cat("While filling the resident value \"", name, "\""));
}

}  // namespace graft
