// What workers send each other in a step, over libgraft_gloo, beside Gloo's own all-reduce (its ring) in the same run:
// exchange_bench [WORKERS [MIB [ROUNDS]]]
//
// The workers are processes on loopback. Each has one slot's gradients; piece j of all goes to worker j, which adds the
// slots up in their order, on the host; then all get all sums. Prints the median of each way, what the agreement before
// a step takes, and the ratio. The ways take turns.
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "graft/gloo.h"
#include "runtime/distribute/group_exchange.h"
#include "runtime/session/callback_group.h"

namespace {

using Clock = std::chrono::steady_clock;

double median(std::vector<double> times) {
  std::ranges::sort(times);
  return times[times.size() / 2];
}

template <typename Body>
double seconds(const Body& body) {
  const auto begun = Clock::now();
  body();
  return std::chrono::duration<double>(Clock::now() - begun).count();
}

void demand(const graft::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.message().c_str());
  std::exit(1);
}

/// As GroupExchange, with one slot each.
void sum_in_order(graft::distribute::Parcels& parcels, const graft::group::Group& group, std::span<float> data) {
  const std::size_t workers = group.size(), piece = graft::distribute::ExchangeOptions().piece;
  for (std::size_t first = 0; first < data.size(); first += piece) {
    const std::size_t count = std::min(piece, data.size() - first);
    const auto begin_of = [&](std::size_t j) { return first + count * j / workers; };
    const auto part = [&](std::size_t j) { return data.subspan(begin_of(j), begin_of(j + 1) - begin_of(j)); };
    const std::span<float> own = part(group.rank());
    for (std::size_t j = 0; j < workers; ++j) {
      std::ranges::copy(std::as_bytes(part(j)), parcels.out(j, part(j).size_bytes()).begin());
      parcels.expect(j, own.size_bytes());
    }
    demand(parcels.send(graft::group::kNoDeadline));
    std::memcpy(own.data(), parcels.in(0).data(), own.size_bytes());
    for (std::size_t j = 1; j < workers; ++j) {
      const auto* const slot = reinterpret_cast<const float*>(parcels.in(j).data());
      for (std::size_t i = 0; i < own.size(); ++i) own[i] += slot[i];
    }
    for (std::size_t j = 0; j < workers; ++j) {
      std::ranges::copy(std::as_bytes(own), parcels.out(j, own.size_bytes()).begin());
      parcels.expect(j, part(j).size_bytes());
    }
    demand(parcels.send(graft::group::kNoDeadline));
    for (std::size_t j = 0; j < workers; ++j) {
      std::ranges::copy(parcels.in(j), std::as_writable_bytes(part(j)).begin());
    }
  }
}

int work(std::uint32_t rank, std::uint32_t workers, std::size_t bytes, int rounds, const std::string& folder,
         std::uint16_t port) {
  std::array<char, 512> message = {};
  graft_group joined = {};
  const graft_gloo_options options = {sizeof options, rank, workers, "127.0.0.1", port, nullptr, 20'000};
  if (graft_gloo_join(&options, &joined, message.data(), message.size()) != GRAFT_OK) {
    std::fprintf(stderr, "%s\n", message.data());
    return 1;
  }
  graft::CallbackGroup group(joined);

  gloo::transport::tcp::attr attributes;
  attributes.hostname = "127.0.0.1";
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::FileStore store(folder);
  auto context = std::make_shared<gloo::rendezvous::Context>(static_cast<int>(rank), static_cast<int>(workers));
  context->connectFullMesh(store, device);

  std::vector<float> data(bytes / sizeof(float), 1.0f), words(16);
  graft::distribute::Parcels small(group), parcels(group);
  std::vector<double> own, ring, agreement;
  for (int i = 0; i < rounds; ++i) {
    agreement.push_back(
        seconds([&] { demand(small.share(std::as_bytes(std::span(words)), graft::group::kNoDeadline)); }));
    std::ranges::fill(data, 1.0f);
    own.push_back(seconds([&] { sum_in_order(parcels, group, data); }));
    if (data[0] != static_cast<float>(workers) || data.back() != data[0]) return std::fprintf(stderr, "wrong\n"), 1;
    std::ranges::fill(data, 1.0f);
    demand(small.share(std::as_bytes(std::span(words)), graft::group::kNoDeadline));  // all begin at once
    ring.push_back(seconds([&] {
      gloo::AllreduceOptions all(context);
      all.setOutput(data.data(), data.size());
      all.setReduceFunction(static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
      all.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
      gloo::allreduce(all);
    }));
    demand(small.share(std::as_bytes(std::span(words)), graft::group::kNoDeadline));
  }
  if (rank == 0) {
    std::printf(
        "%u workers, %.1f MB: in the order of slots %.1f ms, Gloo's ring %.1f ms (%.2f times); agreement %.3f ms\n",
        workers, static_cast<double>(bytes) * 1e-6, 1e3 * median(own), 1e3 * median(ring), median(own) / median(ring),
        1e3 * median(agreement));
  }
  graft_gloo_leave(&joined);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const auto workers = static_cast<std::uint32_t>(argc > 1 ? std::atoi(argv[1]) : 4);
  const std::size_t bytes = static_cast<std::size_t>((argc > 2 ? std::atof(argv[2]) : 9.5367) * (1 << 20)) / 4 * 4;
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 21;
  if (workers < 2 || workers > 64 || rounds < 1) {
    return std::fprintf(stderr, "usage: exchange_bench [WORKERS [MIB [ROUNDS]]]\n"), 2;
  }
  std::string folder = (std::filesystem::temp_directory_path() / "graft_exchange_XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 1;
  const auto port = static_cast<std::uint16_t>(20000 + getpid() % 20000);
  for (std::uint32_t rank = 0; rank < workers; ++rank) {
    if (fork() == 0) _exit(work(rank, workers, bytes, rounds, folder, port) | (std::fflush(stdout) == 0 ? 0 : 1));
  }
  int failed = 0, status = 0;
  while (wait(&status) > 0) failed |= status;
  std::filesystem::remove_all(folder);
  return failed == 0 ? 0 : 1;
}
