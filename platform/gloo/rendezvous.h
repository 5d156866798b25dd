// How workers find each other: worker 0 listens, the others come.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "platform/base/status.h"

namespace graft::gloo_group {

struct RendezvousOptions {
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  std::string address;
  std::uint16_t port = 0;
  std::string secret;
  std::chrono::milliseconds timeout{};
};

using Blob = std::vector<char>;

/// What every worker says about itself, told to all. Whoever does not know the secret, says nonsense or nothing is let
/// go and disturbs nobody.
///
/// Protocol, all of fixed size but the blobs, whose sizes come first: worker 0 sends a nonce; the other its own, its
/// rank, the number of workers and HMAC-SHA256(secret, all of that); worker 0 the HMAC of the nonces the other way
/// round, with the rank and number that count from here on, or why not. Then each sends a blob and gets those of all,
/// as often as they like.
class Rendezvous {
 public:
  /// Returns once all are there and known.
  static Result<std::unique_ptr<Rendezvous>> join(const RendezvousOptions& options);
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  std::uint32_t rank() const { return rank_; }
  std::uint32_t size() const { return size_; }
  /// The address of this machine by which worker 0 is reached: the one to bind to.
  const std::string& local_address() const { return local_address_; }
  /// The blobs of all workers, by rank. All call it as often.
  Result<std::vector<Blob>> gather(const Blob& own);

  /// Those that are left meet again, with new ranks in the order of the old ones. The connections of before tell who is
  /// gone: worker 0 waits for all others, but no longer than `patience` for those that stand still; the others fail at
  /// once where worker 0 is gone.
  Status meet_again(std::chrono::milliseconds patience);

 private:
  struct Guest;  ///< a worker that has proved itself

  explicit Rendezvous(const RendezvousOptions& options);
  Status open();
  Status receive(bool again, std::chrono::milliseconds patience);
  Status seat(std::vector<Guest>& guests);
  Status connect(bool again);
  void hang_up();

  const RendezvousOptions options_;
  std::uint32_t rank_;
  std::uint32_t size_;
  std::chrono::steady_clock::time_point until_;
  std::string local_address_;
  int server_ = -1;          ///< of worker 0
  std::vector<int> others_;  ///< of worker 0: the connection to each, by rank
  int first_ = -1;           ///< of the others: that to worker 0
};

}  // namespace graft::gloo_group
