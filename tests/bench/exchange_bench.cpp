// What workers send each other in a step, over libgraft_gloo, beside Gloo's own all-reduce (its ring) in the same run:
// exchange_bench [WORKERS [MIB [ROUNDS]]]
// exchange_bench --step RANK WORKERS ADDRESS BYTES SLOTS SECONDS STEPS: one worker of several, wherever they are
// (links.py), that take steps of so many slots each, which are slept instead of computed.
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
#include <ctime>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <thread>
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

/// Of all threads of this worker.
template <typename Body>
double processor_seconds(const Body& body) {
  const std::clock_t begun = std::clock();
  body();
  return static_cast<double>(std::clock() - begun) / CLOCKS_PER_SEC;
}

void demand(const graft::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.message().c_str());
  std::exit(1);
}

/// As GroupExchange, with so many slots each, of which each takes so long.
void sum_in_order(graft::distribute::SlotTransfer& transfer, const graft::group::Group& group, std::span<float> data,
                  std::uint64_t own_slots = 1, std::chrono::duration<double> each = {}) {
  using graft::distribute::Wire;
  demand(transfer.begin(std::vector<std::uint64_t>(group.size(), own_slots), data.size()));
  const graft::Capture::Entry gradients{nullptr, std::as_bytes(data)};
  for (std::uint64_t slot = 0; slot < own_slots; ++slot) {
    if (each.count() > 0) std::this_thread::sleep_for(each);
    demand(transfer.give(std::span(&gradients, 1)));
  }
  const auto add = [](std::span<const std::span<const std::byte>> slots, std::span<std::byte> sum) {
    graft::distribute::add_on_host(slots, Wire::f32, true, sum);
    return graft::ok_status();
  };
  constexpr std::array<std::byte, 256> kSection = {};  // what each tells of itself
  const std::vector<std::uint64_t> told(group.size(), kSection.size());
  demand(transfer.end({add, true, [&] { return std::span<const std::byte>(kSection); }, told},
                      std::as_writable_bytes(data)));
}

int work(std::uint32_t rank, std::uint32_t workers, std::size_t bytes, int rounds, const std::string& folder,
         std::uint16_t port) {
  std::array<char, 512> message = {};
  graft_group joined = {};
  const graft_gloo_options options = {sizeof options, rank, workers, "127.0.0.1", port, nullptr, 20'000, 10'000};
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
  graft::distribute::Parcels small(group);
  graft::distribute::SlotTransfer transfer(group,
                                           {.overlap = true, .piece = graft::distribute::ExchangeOptions().piece});
  std::vector<double> own, ring, agreement, own_work, ring_work;
  const auto agree = [&] { demand(small.share(std::as_bytes(std::span(words)), graft::group::kNoDeadline)); };
  // All begin at once, and none has the cores for something else while another still waits.
  const auto begin = [&] {
    std::ranges::fill(data, 1.0f);
    agree();
  };
  for (int i = 0; i < rounds; ++i) {
    begin();
    agreement.push_back(seconds(agree));
    agree();
    own_work.push_back(
        processor_seconds([&] { own.push_back(seconds([&] { sum_in_order(transfer, group, data); })); }));
    if (data[0] != static_cast<float>(workers) || data.back() != data[0]) return std::fprintf(stderr, "wrong\n"), 1;
    begin();
    ring_work.push_back(processor_seconds([&] {
      ring.push_back(seconds([&] {
        gloo::AllreduceOptions all(context);
        all.setOutput(data.data(), data.size());
        all.setReduceFunction(static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
        all.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
        gloo::allreduce(all);
      }));
    }));
    agree();
  }
  if (rank == 0) {
    std::printf(
        "%u workers, %.1f MB: in the order of slots %.1f ms, Gloo's ring %.1f ms (%.2f times); agreement %.3f ms; "
        "processor time of a worker %.1f and %.1f ms (%.2f times)\n",
        workers, static_cast<double>(bytes) * 1e-6, 1e3 * median(own), 1e3 * median(ring), median(own) / median(ring),
        1e3 * median(agreement), 1e3 * median(own_work), 1e3 * median(ring_work), median(own_work) / median(ring_work));
  }
  graft_gloo_leave(&joined);
  return 0;
}

/// One worker of several machines, or of several network namespaces.
int take_steps(char** words) {
  const auto rank = static_cast<std::uint32_t>(std::atoi(words[0])),
             workers = static_cast<std::uint32_t>(std::atoi(words[1]));
  const auto elements = static_cast<std::size_t>(std::atoll(words[3])) / sizeof(float);
  const auto slots = static_cast<std::uint64_t>(std::atoi(words[4]));
  const double each = std::atof(words[5]);
  std::array<char, 512> message = {};
  graft_group joined = {};
  const graft_gloo_options options = {sizeof options, rank, workers, words[2], 29471, "links", 60'000, 10'000};
  if (graft_gloo_join(&options, &joined, message.data(), message.size()) != GRAFT_OK) {
    return std::fprintf(stderr, "%s\n", message.data()), 1;
  }
  graft::CallbackGroup group(joined);
  std::vector<float> data(elements, 1.0f), words_of_step(32);
  graft::distribute::Parcels small(group);
  graft::distribute::SlotTransfer transfer(group,
                                           {.overlap = true, .piece = graft::distribute::ExchangeOptions().piece});
  std::vector<double> steps;
  for (int i = 0; i < std::atoi(words[6]); ++i) {
    steps.push_back(seconds([&] {
      demand(small.share(std::as_bytes(std::span(words_of_step)), graft::group::kNoDeadline));
      sum_in_order(transfer, group, data, slots, std::chrono::duration<double>(each));
    }));
  }
  if (rank == 0) {
    const double step = median(steps), work = static_cast<double>(slots) * each;
    std::printf("%.4f s a step, of which %.4f s are work: %.1f %%\n", step, work, 100 * work / step);
  }
  graft_gloo_leave(&joined);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 9 && std::string_view(argv[1]) == "--step") return take_steps(argv + 2);
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
