// How workers find each other: worker 0 listens, the others come; and where worker 0 is gone, the next one listens.
#pragma once

#include <memory>

#include "platform/gloo/door.h"
#include "platform/gloo/pulse.h"

namespace graft::gloo_group {

struct RendezvousOptions {
  std::uint32_t rank = 0;
  std::uint32_t size = 1;
  std::string address;  ///< worker 0's; behind it, with commas, where others may be found that come after it
  std::uint16_t port = 0;
  std::string secret;
  std::chrono::milliseconds timeout{};
  bool trusts_network = false;  ///< others than loopback addresses are allowed
};

/// What every worker says about itself, told to all.
///
/// Protocol, all of fixed size but the blobs, whose sizes come first: worker 0 sends a nonce; the other its own, its
/// rank, the number of workers, where it can be reached itself, and HMAC-SHA256(secret, all of that); worker 0 the HMAC
/// of the nonces the other way round, with the rank and size that count from here on, or why not. Then each sends a
/// blob and gets those of all, as often as they like.
///
/// A worker keeps the number that it was given first. Whoever has the lowest of those that are left is worker 0.
class Rendezvous {
 public:
  /// Returns once all are there and known; or, where a run goes on already, once it has taken this worker in.
  static Result<std::unique_ptr<Rendezvous>> join(const RendezvousOptions& options);
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  std::uint32_t rank() const { return rank_; }
  std::uint32_t size() const { return size_; }
  /// The address of this machine by which the others are reached: the one to bind to.
  const std::string& local_address() const { return local_address_; }
  /// The blobs of all workers, by rank. All call it as often.
  Result<std::vector<Blob>> gather(const Blob& own);

  /// The connections to worker 0, or of worker 0 to all, on which nothing is said between gather() and meet_again().
  std::vector<Pulse::Line> lines() const;

  /// Those that are left meet again, and those that wait outside come in, with ranks in the order of their numbers.
  /// Each looks at where the others can be reached: who refuses is gone, who does not answer within `patience` stands
  /// still. not_found where those who stand still are as many as the others, or more: they may go on by themselves.
  Status meet_again(std::chrono::milliseconds patience);

  /// Worker 0, between two steps: whether somebody wants to take part. Does not wait.
  bool somebody_waits();

 private:
  /// Another worker of the group of before.
  struct Peer {
    std::uint32_t number = 0;
    Address address;
  };
  class Meeting;  ///< meeting.cpp

  explicit Rendezvous(const RendezvousOptions& options);
  Status find_masters();
  Status receive();
  Result<bool> judge(Caller& caller, std::vector<Caller>& guests);
  Status seat(std::vector<Caller> guests);
  Status come_in(const std::vector<Address>& places);
  Status go_elsewhere(Caller& messenger);
  Status answer(Socket socket, const Challenge& challenge, Clock::time_point until);
  Status share_addresses();
  void hang_up();
  bool knows(std::uint32_t number) const;
  void tell_where();

  RendezvousOptions options_;
  std::vector<Address> masters_;
  std::uint32_t rank_;
  std::uint32_t size_;
  std::uint32_t number_ = kNoNumber;
  std::uint32_t next_number_ = 0;  ///< that nobody has had
  std::vector<Peer> peers_;        ///< all, by rank, this one included
  Clock::time_point until_;
  std::string local_address_;
  Door door_;
  std::vector<Socket> others_;    ///< of worker 0: the connection to each, by rank
  Socket first_;                  ///< of the others: that to worker 0
  std::vector<Caller> knocking_;  ///< of worker 0: those who want to take part
  Socket messenger_;              ///< to where a worker 0 may have been started again
  Clock::time_point messenger_until_;
};

}  // namespace graft::gloo_group
