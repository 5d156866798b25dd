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
#include "platform/base/hash.h"
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
void sum_in_order(graft::distribute::SlotTransfer& transfer, graft::distribute::Parcels& results,
                  const graft::group::Group& group, std::span<float> data) {
  using graft::distribute::Wire;
  demand(transfer.begin(std::vector<std::uint64_t>(group.size(), 1), data.size()));
  const graft::Capture::Entry gradients{nullptr, std::as_bytes(data)};
  demand(transfer.give(std::span(&gradients, 1)));
  auto slots = transfer.end();
  demand(slots.status());
  const std::span<std::byte> sums = std::as_writable_bytes(data);
  graft::distribute::add_on_host(*slots, Wire::f32, true,
                                 sums.subspan(transfer.begin_of(group.rank()), transfer.own_bytes()));
  const auto share = [&](auto&& sum_for, auto&& sum_of) {
    for (std::size_t r = 0; r < group.size(); ++r) {
      const std::uint64_t sum = sum_for(r);
      std::memcpy(results.out(r, sizeof sum).data(), &sum, sizeof sum);
      results.expect(r, sizeof sum);
    }
    demand(results.send(graft::group::kNoDeadline));
    for (std::size_t r = 0; r < group.size(); ++r) {
      std::uint64_t sum = 0;
      std::memcpy(&sum, results.in(r).data(), sizeof sum);
      if (sum != sum_of(r)) demand(graft::corrupt("A part was changed on the way."));
    }
  };
  share([&](std::size_t r) { return transfer.sent_sum(r); }, [&](std::size_t r) { return transfer.received_sum(r); });
  demand(transfer.spread(sums));
  const auto part_sum = [&](std::size_t r) {
    const std::uint64_t begin = transfer.begin_of(r);
    return graft::hash64(sums.subspan(begin, transfer.begin_of(r + 1) - begin));
  };
  share([&](std::size_t) { return part_sum(group.rank()); }, part_sum);
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
  graft::distribute::Parcels small(group), results(group);
  graft::distribute::SlotTransfer transfer(group,
                                           {.overlap = true, .piece = graft::distribute::ExchangeOptions().piece});
  std::vector<double> own, ring, agreement;
  for (int i = 0; i < rounds; ++i) {
    agreement.push_back(
        seconds([&] { demand(small.share(std::as_bytes(std::span(words)), graft::group::kNoDeadline)); }));
    std::ranges::fill(data, 1.0f);
    own.push_back(seconds([&] { sum_in_order(transfer, results, group, data); }));
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
