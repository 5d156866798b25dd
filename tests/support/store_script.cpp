#include "tests/support/store_script.h"

#include <cmath>
#include <cstring>
#include <random>

namespace graft::test {

using namespace checkpoint;

Result<StoreState> read_state(const Store& store) {
  StoreState state;
  if (store.head() != 0) {
    const Manifest& manifest = store.snapshots().at(store.head());
    state.step = manifest.meta.step;
    for (const Stream& stream : manifest.streams) {
      GRAFT_TRY_ASSIGN(const HostBuffer buffer, store.restore(store.head(), stream.name, std::uint64_t{1} << 24));
      state.streams[stream.name].assign(buffer.bytes().begin(), buffer.bytes().end());
    }
  }
  for (const auto& record : store.journal()) {
    if (record != step_record(record.step)) return corrupt("The record of step ", record.step, " is wrong.");
    state.journal.push_back(record.step);
  }
  return state;
}

std::map<std::string, std::vector<std::byte>> training_state(std::uint64_t step, std::size_t scale) {
  std::mt19937 random(7);
  std::vector<float> weights(500 * scale), moments(500 * scale);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const float start = static_cast<float>(random() % 2000) / 1000.0f - 1.0f;
    const bool moves = i < weights.size() / 2;  // the other half is not trained
    weights[i] = moves ? start + 1e-4f * static_cast<float>(step) * std::sin(static_cast<float>(i)) : start;
    moments[i] = moves ? start * std::pow(0.9f, static_cast<float>(step)) : 0.0f;
  }
  const auto bytes = [](const auto& values) {
    const auto span = std::as_bytes(std::span(values));
    return std::vector<std::byte>(span.begin(), span.end());
  };
  return {{"weight", bytes(weights)}, {"moment", bytes(moments)}, {"rng", bytes(std::vector<std::uint64_t>{step, 42})}};
}

Result<PutReport> put(Store& store, std::uint64_t step, const std::map<std::string, std::vector<std::byte>>& streams) {
  std::vector<StreamInput> inputs;
  for (const auto& [name, bytes] : streams) {
    const bool rng = name == "rng";
    inputs.push_back({name, rng ? StreamKind::rng : StreamKind::parameter, rng ? Element::bytes : Element::f32, bytes});
  }
  SnapshotMeta meta{step, 1.0 / static_cast<double>(step + 1), 1700000000000, {}, {{"model", "script"}}};
  if (step % 2 == 0) meta.tags.push_back("even");
  return store.put_snapshot(inputs, meta);
}

JournalRecord step_record(std::uint64_t step) {
  JournalRecord record{1, step, std::vector<std::byte>(24 + step % 7)};
  for (std::size_t i = 0; i < record.payload.size(); ++i) record.payload[i] = static_cast<std::byte>(step * 31 + i);
  return record;
}

Status run_script(Store& store, std::uint64_t last, bool stop, const std::function<void(const StoreState&)>& done) {
  GRAFT_TRY_ASSIGN(StoreState state, read_state(store));
  const auto attempt = [&](auto call) {
    Status status = detail::to_status(call());
    return status.ok() || stop ? status : detail::to_status(call());
  };
  for (std::uint64_t step = state.step + state.journal.size() + 1; step <= last; ++step) {
    GRAFT_TRY(attempt([&] { return store.append(step_record(step)); }));
    state.journal.push_back(step);
    done(state);
    if (step % 3 == 0) {
      const auto streams = training_state(step);
      GRAFT_TRY(attempt([&] { return put(store, step, streams); }));
      state = {step, streams, {}};
      done(state);
    }
    if (step % 6 == 0) {
      GRAFT_TRY(attempt([&] { return store.prune({2, {}, false}); }));
      done(state);
    }
  }
  return ok_status();
}

}  // namespace graft::test
