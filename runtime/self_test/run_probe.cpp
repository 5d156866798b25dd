// A probe on the device, beside the reference.
#include <algorithm>
#include <cstring>

#include "platform/gpu/with_target.h"
#include "runtime/reference/compare.h"
#include "runtime/self_test/self_test_probes.h"

namespace graft {
namespace {

// New memory is often what the last probe freed, with the right answers in it: a kernel that does nothing would pass.
// So it is filled with NaN words first.
class FilledDevice final : public gpu::WithTarget {
 public:
  explicit FilledDevice(gpu::Device& device) : WithTarget(device) {}

  Result<std::unique_ptr<gpu::Buffer>> create_buffer(std::uint64_t bytes, gpu::MemoryKind kind,
                                                     std::string_view name) override {
    GRAFT_TRY_ASSIGN(auto buffer, WithTarget::create_buffer(bytes, kind, name));
    const std::span<std::byte> mapped = buffer->mapped();
    if (mapped.empty()) {
      GRAFT_TRY(fill(*buffer));
    } else {
      for (std::size_t i = 0; i + sizeof kNoNumber <= mapped.size(); i += sizeof kNoNumber) {
        std::memcpy(mapped.data() + i, &kNoNumber, sizeof kNoNumber);
      }
    }
    return buffer;
  }

 private:
  static constexpr std::uint32_t kNoNumber = 0x7fc12345;

  Status fill(gpu::Buffer& buffer) {
    GRAFT_TRY_ASSIGN(const auto recorder, record("fill", 0));
    recorder->fill({&buffer, 0, buffer.size() / sizeof kNoNumber * sizeof kNoNumber}, kNoNumber);
    GRAFT_TRY_ASSIGN(const auto list, recorder->finish());
    gpu::CommandList* const lists[] = {list.get()};
    GRAFT_TRY_ASSIGN(const gpu::Ticket ticket, submit(lists));
    return wait(ticket, std::chrono::seconds(60));
  }
};

}  // namespace

Result<std::string> fault_of_probe(gpu::Device& device, const BuiltProbe& built, double tolerance) {
  RefTensors expected = built.feeds;
  GRAFT_TRY(interpret(built.graph, expected, built.step));
  FilledDevice filled(device);
  const auto actual = run_on_device(filled, built.graph, built.feeds, built.step, {});
  if (!actual.ok()) {
    const Code code = actual.status().code();
    if (code == Code::device_lost || code == Code::out_of_memory) return actual.status();
    return actual.status().message();
  }
  for (const auto& [name, tensor] : *actual) {
    const double error = worst_error(tensor.data, expected[name].data);
    if (!(error <= tolerance)) {
      return cat("\"", name, "\" differs from the reference by ", error, " of its root mean square.");
    }
  }
  return std::string();
}

}  // namespace graft
