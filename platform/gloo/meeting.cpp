// How workers that have lost one find each other again.
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>

#include "platform/gloo/rendezvous.h"

namespace graft::gloo_group {
namespace {

constexpr std::chrono::milliseconds kGlance{5};
/// Until a connection that was closed is tried again.
constexpr std::chrono::milliseconds kRetry{20};
/// For what is said once all are there.
constexpr std::chrono::seconds kWords{10};

/// A connection to where another worker can be reached.
class Probe {
 public:
  Probe(std::uint32_t number, const Address& address) : number_(number), address_(address) {}
  std::uint32_t number() const { return number_; }
  bool is_gone() const { return gone_; }
  void close() { socket_.close(); }

  /// True once it has said what a worker says to whom it takes in.
  bool look() {
    if (gone_) return false;
    if (!socket_) {
      if (Clock::now() < retry_) return false;
      socket_ = begin_to_connect(address_);
      read_ = 0;
      if (!socket_) return try_later(errno == ECONNREFUSED);
    }
    pollfd ready = {socket_.get(), static_cast<short>(POLLIN | POLLOUT), 0};
    if (poll(&ready, 1, 0) <= 0) return false;  // on its way still
    int why = 0;
    socklen_t size = sizeof why;
    getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &why, &size);
    if (why != 0) return try_later(why == ECONNREFUSED);
    if ((ready.revents & (POLLIN | POLLHUP | POLLERR)) == 0 || read_ == sizeof challenge_) return false;
    const ssize_t got =
        recv(socket_.get(), reinterpret_cast<char*>(&challenge_) + read_, sizeof challenge_ - read_, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (got <= 0) return try_later(false);
    read_ += static_cast<std::size_t>(got);
    return read_ == sizeof challenge_ && challenge_.magic == kMagic && challenge_.version == kVersion;
  }
  const Challenge& challenge() const { return challenge_; }
  Socket take() {
    retry_ = Clock::now() + kRetry;
    return std::move(socket_);
  }

 private:
  /// Nobody listens there any more: a worker that is alive does.
  bool try_later(bool refused) {
    socket_.close();
    gone_ = refused;
    retry_ = Clock::now() + kRetry;
    return false;
  }

  std::uint32_t number_;
  Address address_;
  Socket socket_;
  Challenge challenge_;
  std::size_t read_ = 0;
  Clock::time_point retry_;
  bool gone_ = false;
};

}  // namespace

class Rendezvous::Meeting {
 public:
  Meeting(Rendezvous& place, std::chrono::milliseconds patience)
      : place_(place), patience_(patience), begun_(Clock::now()), guests_(std::move(place.knocking_)) {
    place.knocking_.clear();
    for (const Peer& peer : place.peers_) {
      if (peer.number != place.number_) probes_.emplace_back(peer.number, peer.address);
    }
  }

  Status hold() {
    for (;;) {
      for (Probe& probe : probes_) {
        if (!probe.look()) continue;
        const bool runs = probe.challenge().doing == static_cast<std::uint32_t>(Doing::runs);
        if (!runs && probe.number() > place_.number_) continue;  // it takes this one for gone; it will see
        guests_.clear();
        receives_.reset();
        const Challenge challenge = probe.challenge();
        if (place_.answer(probe.take(), challenge, Clock::now() + kWords + 3 * patience_).ok()) {
          place_.door_.clear();
          return {};
        }
      }
      if (!is_first()) {
        std::this_thread::sleep_for(kGlance);
        continue;
      }
      if (!receives_) receives_ = Clock::now();
      GRAFT_TRY_ASSIGN(std::vector<Caller> callers, place_.door_.look(Doing::meets, kGlance));
      for (Caller& caller : callers) take_in(caller);
      std::erase_if(guests_, [](const Caller& guest) { return guest.socket.is_closed(); });
      if (missing().empty() || Clock::now() >= *receives_ + patience_) break;
    }
    GRAFT_TRY(check_number());
    return place_.seat(std::move(guests_));
  }

 private:
  /// All before this one are gone, or stand still for longer than any of them would wait.
  bool is_first() const {
    auto until = begun_;
    for (const Probe& probe : probes_) {
      if (probe.number() > place_.number_) continue;
      until += patience_;
      if (!probe.is_gone() && Clock::now() < until) return false;
    }
    return true;
  }

  void take_in(Caller& caller) {
    if (caller.answer.rank == kElsewhere) return;
    const std::uint32_t number = caller.answer.number;
    // One that was cut off comes again.
    if (number != kNoNumber) std::erase_if(guests_, [&](const Caller& g) { return g.answer.number == number; });
    if (number != place_.number_) guests_.push_back(std::move(caller));
  }

  std::vector<std::uint32_t> missing() const {
    std::vector<std::uint32_t> numbers;
    for (const Probe& probe : probes_) {
      const bool is_here =
          std::ranges::any_of(guests_, [&](const Caller& guest) { return guest.answer.number == probe.number(); });
      // Whom nobody waits for any more.
      const bool is_late = probe.number() < place_.number_;
      if (!is_here && !probe.is_gone() && !(is_late && receives_ && !counts_late_)) numbers.push_back(probe.number());
    }
    return numbers;
  }

  /// Those that stand still may be cut off, and go on: only the more of two parts of a group does, or that of two
  /// halves which has the first of them.
  Status check_number() {
    counts_late_ = true;
    const std::vector<std::uint32_t> still = missing();
    std::size_t here = 1;
    for (const Caller& guest : guests_) here += place_.knows(guest.answer.number) ? 1 : 0;
    if (still.size() < here || (still.size() == here && std::ranges::min(still) > place_.number_)) return {};
    return error(Code::not_found, still.size(), still.size() == 1 ? " worker does" : " workers do",
                 " not answer, but may go on; ", here,
                 here == 1 ? " alone does not go on without it." : " others do not go on without them.");
  }

  Rendezvous& place_;
  const std::chrono::milliseconds patience_;
  const Clock::time_point begun_;
  std::vector<Caller> guests_;
  std::vector<Probe> probes_;
  std::optional<Clock::time_point> receives_;  ///< since when, once this one is the first
  bool counts_late_ = false;
};

Status Rendezvous::meet_again(std::chrono::milliseconds patience) {
  hang_up();
  GRAFT_TRY(Meeting(*this, patience).hold());
  until_ = Clock::now() + kWords;
  return share_addresses();
}

}  // namespace graft::gloo_group
