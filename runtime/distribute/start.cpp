#include "runtime/distribute/start.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "platform/base/hash.h"
#include "runtime/distribute/parcels.h"

namespace graft::distribute {
namespace {

constexpr std::uint64_t kVersion = 5;          // of what workers say to each other
constexpr std::uint64_t kMostWords = 1 << 20;  // bytes

struct Hello {
  std::array<char, 8> magic = {'g', 'r', 'a', 'f', 't', 'g', 'r', 'p'};
  std::uint64_t version = kVersion;
  Hash128 words;
  std::uint64_t bytes = 0;     ///< of the words
  std::uint64_t newcomer = 0;  ///< 1: it has not taken part before
};

struct Sums {  // train::Metrics
  double loss_sum = 0;
  double correct = 0;
  double top5 = 0;
  std::uint64_t count = 0;
  double weight = 0;
  std::uint32_t has_correct = 0;
  std::uint32_t has_top5 = 0;
};

Sums pack(const train::Metrics& m) {
  return {m.loss_sum, m.correct, m.top5, m.count, m.weight, m.has_correct, m.has_top5};
}
train::Metrics unpack(const Sums& s) {
  return {s.loss_sum, s.count, s.weight, s.correct, s.top5, s.has_correct != 0, s.has_top5 != 0};
}

struct State {
  std::uint64_t step = 0;
  std::uint64_t epoch = 0;
  std::uint64_t samples_done = 0;
  std::uint64_t cursor_bytes = 0;
  double learning_rate = 0;
  Sums epoch_metrics;
  Sums step_metrics;
  std::uint32_t seed = 0;
  std::uint32_t is_whole = 1;  ///< worker 0 has the optimizer's state of all
  std::array<train::MonitorState, train::kMonitors> monitors = {};
  std::uint64_t evaluated_at = 0;
};

std::string text_of(const std::map<std::string, std::string, std::less<>>& words) {
  std::string text;
  for (const auto& [name, value] : words) text += cat(name, '\n', value.size(), '\n', value, '\n');
  return text;
}

// The name of the first entry that the other's text has not.
std::string first_difference(const std::map<std::string, std::string, std::less<>>& words, std::string_view other) {
  for (const auto& [name, value] : words) {
    const std::string entry = text_of({{name, value}});
    if (!other.starts_with(entry)) return name;
    other.remove_prefix(entry.size());
  }
  return "configuration";
}

}  // namespace

Status agree(group::Group& group, const std::map<std::string, std::string, std::less<>>& words, bool newcomer,
             std::chrono::nanoseconds deadline) {
  Parcels parcels(group);
  const std::string text = text_of(words);
  const Hello mine{
      .words = hash128(std::as_bytes(std::span(text))), .bytes = text.size(), .newcomer = newcomer ? 1u : 0u};
  GRAFT_TRY(parcels.share(std::as_bytes(std::span(&mine, 1)), deadline));
  std::vector<Hello> all(group.size());
  for (std::size_t rank = 0; rank < group.size(); ++rank) {
    std::memcpy(&all[rank], parcels.in(rank).data(), sizeof(Hello));
    if (all[rank].magic != mine.magic || all[rank].version != kVersion || all[rank].bytes > kMostWords) {
      return invalid("Worker ", rank, " runs another version of graft than worker ", group.rank(), ".");
    }
  }
  const auto same = [&](const Hello& hello) { return hello.words == mine.words && hello.bytes == mine.bytes; };
  if (std::ranges::all_of(all, [&](const Hello& hello) { return hello.words == all[0].words; })) return ok_status();
  for (std::size_t rank = 0; rank < group.size(); ++rank) {
    std::ranges::copy(std::as_bytes(std::span(text)), parcels.out(rank, text.size()).begin());
    parcels.expect(rank, all[rank].bytes);
  }
  GRAFT_TRY(parcels.send(deadline));
  const bool is_right = all[0].words == mine.words && all[0].newcomer == 0;
  const bool only_newcomers =
      std::ranges::all_of(all, [&](const Hello& hello) { return hello.newcomer != 0 || hello.words == all[0].words; });
  // Worker 0's words, or for worker 0 those of the first that differs.
  std::size_t other = 0;
  while (other + 1 < group.size() && same(all[other])) ++other;
  const std::span<const std::byte> bytes = parcels.in(other);
  const std::string_view its(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::string what =
      cat("Worker ", other, " was started with another ", first_difference(words, its), " than worker ", group.rank());
  if (is_right && only_newcomers) return error(Code::io_error, what, ": it is left out.");
  return invalid(what, ".");
}

Status share_state(group::Group& group, train::Trainer& trainer, data::Loader* loader,
                   std::chrono::nanoseconds deadline) {
  Parcels parcels(group);
  const train::TrainingState& now = trainer.state();
  std::vector<std::byte> cursor = data::serialize(loader == nullptr ? now.cursor : loader->cursor());
  State state{now.step,
              now.epoch,
              now.samples_done,
              cursor.size(),
              trainer.options().optimizer.learning_rate,
              pack(now.epoch_metrics),
              pack(now.step_metrics),
              now.seed,
              trainer.has_whole_state() ? 1u : 0u,
              now.monitors,
              now.evaluated_at};
  GRAFT_TRY(parcels.broadcast(std::as_writable_bytes(std::span(&state, 1)), deadline));
  cursor.resize(state.cursor_bytes);
  GRAFT_TRY(parcels.broadcast(cursor, deadline));
  constexpr std::size_t kPiece = std::size_t{4} << 20;
  std::vector<std::byte> bytes;
  std::vector<train::NamedTensor> tensors = trainer.named_tensors();
  // Where the optimizer's state is shared out, each worker has its own first.
  if (trainer.is_sharded()) std::ranges::sort(tensors, {}, &train::NamedTensor::name);
  for (const train::NamedTensor& tensor : tensors) {
    if (tensor.kind == ValueKind::constant) continue;
    if (state.is_whole == 0 && tensor.memory_class == MemoryClass::optimizer) continue;  // each keeps its own
    bytes.resize(tensor.bytes);
    if (group.rank() == 0) GRAFT_TRY(trainer.read(tensor.name, bytes));
    for (std::size_t at = 0; at < bytes.size(); at += kPiece) {
      const std::size_t count = std::min(kPiece, bytes.size() - at);
      GRAFT_TRY(parcels.broadcast(std::span(bytes).subspan(at, count), deadline));
    }
    if (group.rank() != 0 && !trainer.is_elsewhere(tensor.name)) GRAFT_TRY(trainer.write(tensor.name, bytes));
  }
  if (group.rank() == 0) return ok_status();
  GRAFT_TRY_ASSIGN(data::Cursor place, data::parse_cursor(cursor));
  if (loader != nullptr) GRAFT_TRY(loader->restore(place));
  GRAFT_TRY(trainer.set_learning_rate(state.learning_rate));
  trainer.state() = {state.step,
                     state.seed,
                     std::move(place),
                     state.epoch,
                     unpack(state.epoch_metrics),
                     state.samples_done,
                     unpack(state.step_metrics),
                     state.monitors,
                     state.evaluated_at};
  return ok_status();
}

Result<bool> end_together(group::Group& group, bool finished, std::chrono::nanoseconds deadline) {
  Parcels parcels(group);
  const std::byte word{finished ? std::uint8_t{2} : std::uint8_t{1}};
  GRAFT_TRY(parcels.share(std::span(&word, 1), deadline));
  return parcels.in(0)[0] == std::byte{2};
}

}  // namespace graft::distribute
