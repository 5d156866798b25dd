#include "runtime/run_state/step_record.h"

#include <cstring>

namespace graft {

Result<std::vector<train::WorkerSection>> parse_sections(std::span<const std::byte> bytes) {
  std::vector<train::WorkerSection> sections(bytes.size() / sizeof(train::WorkerSection));
  if (sections.size() * sizeof(train::WorkerSection) != bytes.size()) {
    return corrupt("The sections of workers have ", bytes.size(), " bytes, which are not a number of them.");
  }
  if (!bytes.empty()) std::memcpy(sections.data(), bytes.data(), bytes.size());
  for (train::WorkerSection& section : sections) {
    section.host.back() = '\0';
    if (section.version == train::WorkerSection().version) continue;
    return unsupported("A worker's section is of version ", section.version, "; ", train::WorkerSection().version,
                       " is known.");
  }
  return sections;
}

Result<std::vector<train::WorkerSection>> sections_of(const checkpoint::Store& store, std::uint64_t number) {
  const auto snapshot = store.snapshots().find(number);
  if (snapshot == store.snapshots().end()) return error(Code::not_found, "There is no snapshot ", number, ".");
  std::vector<train::WorkerSection> sections;
  for (std::uint32_t worker = 1; snapshot->second.find(kWorkerStream, worker) != nullptr; ++worker) {
    constexpr std::uint64_t kMost = 1 << 16;
    GRAFT_TRY_ASSIGN(const HostBuffer bytes, store.restore(number, kWorkerStream, kMost, worker));
    GRAFT_TRY_ASSIGN(const auto one, parse_sections(bytes.bytes()));
    sections.insert(sections.end(), one.begin(), one.end());
  }
  return sections;
}

Result<std::vector<train::WorkerSection>> journalled_sections(const checkpoint::Store& store) {
  const auto& records = store.journal();
  for (auto record = records.rbegin(); record != records.rend(); ++record) {
    if (record->kind != kStepRecord || record->payload.size() < sizeof(StepRecord)) continue;
    return parse_sections(std::span(record->payload).subspan(sizeof(StepRecord)));
  }
  return std::vector<train::WorkerSection>();
}

}  // namespace graft
