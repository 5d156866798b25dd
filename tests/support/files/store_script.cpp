#include "tests/support/files/store_script.h"

#include <cmath>
#include <cstring>
#include <random>

#include "runtime/checkpoint/snapshot_writer.h"

namespace graft::test {

using namespace checkpoint;

Result<StoreState> read_state(const Store& store) {
  StoreState state;
  if (store.head() != 0) {
    const Manifest& manifest = store.snapshots().at(store.head());
    state.step = manifest.meta.step;
    state.tags = manifest.meta.tags;
    for (const Stream& stream : *manifest.streams) {
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

namespace {

std::vector<StreamInput> inputs_of(const std::map<std::string, std::vector<std::byte>>& streams) {
  std::vector<StreamInput> inputs;
  for (const auto& [name, bytes] : streams) {
    const bool rng = name == "rng";
    inputs.push_back({name, rng ? StreamKind::rng : StreamKind::parameter, rng ? Element::bytes : Element::f32, bytes});
  }
  return inputs;
}

SnapshotMeta meta_of(std::uint64_t step) {
  SnapshotMeta meta{step, 1.0 / static_cast<double>(step + 1), 1700000000000};
  meta.metadata.edit()["model"] = "script";
  if (step % 2 == 0) meta.tags.push_back("even");
  return meta;
}

}  // namespace

Result<PutReport> put(Store& store, std::uint64_t step, const std::map<std::string, std::vector<std::byte>>& streams) {
  return store.put_snapshot(inputs_of(streams), meta_of(step));
}

JournalRecord step_record(std::uint64_t step) {
  JournalRecord record{1, step, std::vector<std::byte>(24 + step % 7)};
  for (std::size_t i = 0; i < record.payload.size(); ++i) record.payload[i] = static_cast<std::byte>(step * 31 + i);
  return record;
}

namespace {

/// A snapshot of `step`, with the next step journalled before it is committed.
Status put_beside(Store& store, std::uint64_t step, const std::function<Status()>& next_step) {
  GRAFT_TRY_ASSIGN(auto writer, store.begin_snapshot(meta_of(step)));
  const auto streams = training_state(step);
  for (const StreamInput& stream : inputs_of(streams)) GRAFT_TRY(writer->add(stream));
  GRAFT_TRY(writer->finish());
  GRAFT_TRY(next_step());
  return detail::to_status(store.commit_snapshot(std::move(writer)));
}

}  // namespace

Status run_script(Store& store, std::uint64_t last, bool stop, const std::function<void(const StoreState&)>& done) {
  GRAFT_TRY_ASSIGN(StoreState state, read_state(store));
  const auto attempt = [&](auto call) {
    Status status = detail::to_status(call());
    return status.ok() || stop ? status : detail::to_status(call());
  };
  std::uint64_t step = state.step + state.journal.size();
  const auto journal_step = [&]() -> Status {
    GRAFT_TRY(attempt([&] { return store.append(step_record(step + 1)); }));
    state.journal.push_back(++step);
    done(state);
    return ok_status();
  };
  while (step < last) {
    GRAFT_TRY(journal_step());
    if (step % 3 == 0 && step % 2 != 0) {
      GRAFT_TRY(attempt([&] { return put(store, step, training_state(step)); }));
      state = {step, training_state(step), {}, {}};
      done(state);
      GRAFT_TRY(attempt([&] { return store.tag(store.head(), "good"); }));
      state.tags.push_back("good");
      done(state);
    } else if (step % 6 == 0) {
      if (Status status = put_beside(store, step, journal_step); !status.ok() && stop) return status;
      StoreState now;
      GRAFT_TRY(attempt([&]() -> Status {
        GRAFT_TRY_ASSIGN(now, read_state(store));
        return ok_status();
      }));
      if (now.step != state.step) state = now, done(state);
      GRAFT_TRY(attempt([&] { return store.prune({.keep_last = 2}); }));
      done(state);
    }
  }
  return ok_status();
}

}  // namespace graft::test
