#include "platform/gloo/rendezvous.h"

#include <poll.h>

#include <algorithm>
#include <cstring>
#include <sstream>
#include <thread>

#include "platform/gloo/secret.h"

namespace graft::gloo_group {
namespace {

constexpr std::chrono::milliseconds kLook{50};
constexpr std::chrono::seconds kTellAgain{2};
constexpr int kMostRefusals = 3;

}  // namespace

Rendezvous::Rendezvous(const RendezvousOptions& options)
    : options_(options),
      rank_(options.rank),
      size_(options.size),
      until_(Clock::now() + options.timeout),
      door_(options.secret) {}

void Rendezvous::hang_up() {
  others_.clear();
  first_.close();
}

/// Of several addresses some may be unknown.
Status Rendezvous::find_masters() {
  Status unknown;
  std::istringstream hosts(options_.address);
  for (std::string host; std::getline(hosts, host, ',');) {
    auto address = resolve(host, options_.port);
    if (!address.ok()) {
      unknown = address.status();
    } else if (!options_.trusts_network && !address->is_loopback()) {
      return invalid("\"", host,
                     "\" is another address than loopback, and what workers send each other is neither "
                     "encrypted nor authenticated: give --insecure-network where the network is trusted, or a tunnel's "
                     "loopback address.");
    } else if (options_.secret.empty() && !address->is_loopback()) {
      return invalid("Workers on several machines need a secret (GRAFT_SECRET), which \"", host,
                     "\" is not reached without.");
    } else {
      masters_.push_back(*address);
    }
  }
  if (!masters_.empty()) return {};
  return unknown.ok() ? invalid("Worker 0's address is empty.") : unknown;
}

Result<std::unique_ptr<Rendezvous>> Rendezvous::join(const RendezvousOptions& options) {
  std::unique_ptr<Rendezvous> made(new Rendezvous(options));
  GRAFT_TRY(made->find_masters());
  if (options.secret.empty()) {
    GRAFT_TRY_ASSIGN(made->options_.secret, secret_of_user());
    made->door_.set_secret(made->options_.secret);
  }
  if (options.rank != 0) {
    GRAFT_TRY(made->come_in(made->masters_));
  } else if (Status opened = made->door_.open(made->masters_.front()); opened.ok()) {
    made->local_address_ = made->door_.address().text();
    GRAFT_TRY(made->receive());
  } else {
    // A run may go on there, which lost its worker 0.
    made->until_ = std::min(made->until_, Clock::now() + 2 * kCourtesy);
    if (const Status in = made->come_in(made->masters_); !in.ok())
      return error(opened.code(), opened.message(), " ", in.message());
  }
  GRAFT_TRY(made->share_addresses());
  return made;
}

/// Whether the caller becomes one of the guests of a run that begins; an error ends it.
Result<bool> Rendezvous::judge(Caller& caller, std::vector<Caller>& guests) {
  const Answer& answer = caller.answer;
  // Two of them wait for one run, of which they may both hear that it goes on elsewhere: this one looks again.
  if (answer.rank == 0 && answer.size == size_) return false;
  auto verdict = Verdict::welcome;
  if (answer.size != size_ || answer.rank == 0 || answer.rank >= size_) {
    verdict = Verdict::other_size;
  } else if (std::ranges::any_of(guests, [&](const Caller& guest) { return guest.answer.rank == answer.rank; })) {
    verdict = Verdict::rank_taken;
  }
  if (verdict == Verdict::welcome) {
    guests.push_back(std::move(caller));
    return true;
  }
  static_cast<void>(door_.welcome(caller, {static_cast<std::uint32_t>(verdict), 0, size_, 0, {}}));
  if (verdict == Verdict::rank_taken) return invalid("Two workers were started as number ", answer.rank, ".");
  return invalid("A worker was started as ", answer.rank, " of ", answer.size, ", worker 0 as one of ", size_, ".");
}

/// All must come.
Status Rendezvous::receive() {
  std::vector<Caller> guests;
  const auto is_here = [&](std::uint32_t rank) {
    return std::ranges::any_of(guests, [&](const Caller& guest) { return guest.answer.rank == rank; });
  };
  number_ = 0;
  while (guests.size() + 1 < size_) {
    GRAFT_TRY_ASSIGN(std::vector<Caller> callers, door_.look(Doing::meets, kLook));
    for (Caller& caller : callers) {
      // It takes part already, and looks for a worker 0 that was here before.
      const bool goes_on = caller.answer.rank == kElsewhere || caller.answer.number != kNoNumber;
      if (goes_on) return go_elsewhere(caller);
      GRAFT_TRY(detail::to_status(judge(caller, guests)));
    }
    std::erase_if(guests, [](const Caller& guest) { return guest.socket.is_closed(); });  // it may be started again
    if (guests.size() + 1 == size_ || Clock::now() < until_) continue;
    std::string ranks;
    for (std::uint32_t r = 1; r < size_; ++r) {
      if (!is_here(r)) ranks += cat(ranks.empty() ? "" : ", ", r);
    }
    return error(Code::timeout, "Of ", size_, " workers, these did not come to ", options_.address, " port ",
                 options_.port, " in time: ", ranks, ".");
  }
  next_number_ = size_;
  return seat(std::move(guests));
}

bool Rendezvous::knows(std::uint32_t number) const {
  return std::ranges::find(peers_, number, &Peer::number) != peers_.end();
}

/// Tells the guests their ranks. Who has gone meanwhile shows in the first gather().
Status Rendezvous::seat(std::vector<Caller> guests) {
  const bool begins = peers_.empty();
  for (Caller& guest : guests) {
    if (!begins && !knows(guest.answer.number)) guest.answer.number = kNoNumber;  // of a group of long ago
  }
  std::ranges::sort(guests, [](const Caller& a, const Caller& b) {
    return std::pair(a.answer.number, a.answer.rank) < std::pair(b.answer.number, b.answer.rank);
  });
  hang_up();
  rank_ = 0;
  size_ = static_cast<std::uint32_t>(guests.size() + 1);
  others_.resize(size_);
  for (std::uint32_t r = 1; r < size_; ++r) {
    Caller& guest = guests[r - 1];
    std::uint32_t number = guest.answer.number;
    if (number == kNoNumber) number = begins ? guest.answer.rank : next_number_++;
    const Welcome welcome{static_cast<std::uint32_t>(Verdict::welcome), r, size_, number, {}};
    static_cast<void>(door_.welcome(guest, welcome));
    others_[r] = std::move(guest.socket);
  }
  return {};
}

/// To a worker 0 that may not be there yet, or to a run that goes on already.
Status Rendezvous::come_in(const std::vector<Address>& places) {
  Status last = error(Code::timeout, "it does not answer.");
  int refusals = 0;
  for (; Clock::now() < until_; std::this_thread::sleep_for(kLook)) {
    for (const Address& master : places) {
      auto socket = connect_to(master, std::min(until_, Clock::now() + kCourtesy));
      if (!socket.ok()) {
        last = socket.status();
        continue;
      }
      Challenge challenge;
      last = receive_all(*socket, challenge, until_);
      if (!last.ok()) continue;
      if (challenge.magic != kMagic || challenge.version != kVersion) {
        return invalid("At ", master.text(), " port ", options_.port, " is no worker 0 of this version of graft.");
      }
      last = answer(std::move(*socket), challenge, until_);
      if (last.ok() || last.code() == Code::invalid_argument) return last;
      // Whom it came to may have gone, or be a worker 0 as well.
      if (challenge.doing == static_cast<std::uint32_t>(Doing::runs) || options_.rank == 0) continue;
      if (++refusals < kMostRefusals) continue;  // it may have had to make room for others
      return invalid("Worker 0 at ", options_.address, " port ", options_.port,
                     " did not take this one in: the secrets differ, or it ended.");
    }
  }
  return error(Code::timeout, "Worker 0 did not answer at ", options_.address, " port ", options_.port, ": ",
               last.message());
}

/// A worker 0 that was started again while the others go on without it.
Status Rendezvous::go_elsewhere(Caller& messenger) {
  Address there = other_end(messenger.socket);
  there.set_port(static_cast<std::uint16_t>(messenger.answer.port));
  messenger.socket.close();
  door_.close();
  number_ = kNoNumber;
  return come_in({there});
}

/// Takes the place that it is given.
Status Rendezvous::answer(Socket socket, const Challenge& challenge, Clock::time_point until) {
  // Where those look who come later, worker 0 alone listens.
  door_.keep_first();
  const bool at_a_master = std::ranges::any_of(masters_, [&](const Address& m) { return door_.is_open_at(m); });
  if (at_a_master) door_.close();
  if (!door_.is_open()) {
    Address own = own_end(socket);
    own.set_port(0);
    GRAFT_TRY(door_.open(own));
  }
  Answer answer;
  GRAFT_TRY_ASSIGN(answer.nonce, draw());
  answer.rank = options_.rank;
  answer.size = options_.size;
  answer.number = number_;
  answer.port = door_.address().port();
  answer.proof = proof_of(options_.secret, challenge.nonce, answer);
  Welcome welcome;
  GRAFT_TRY(send_all(socket, answer, until));
  GRAFT_TRY(receive_all(socket, welcome, until));
  if (!equal(welcome.proof, proof_of(options_.secret, answer.nonce, challenge.nonce, welcome))) {
    return invalid("Who answers at ", other_end(socket).text(), " port ", other_end(socket).port(),
                   " does not know the secret.");
  }
  if (static_cast<Verdict>(welcome.verdict) == Verdict::other_size) {
    return invalid("This worker was started as ", options_.rank, " of ", options_.size, ", worker 0 as one of ",
                   welcome.size, ".");
  }
  if (static_cast<Verdict>(welcome.verdict) == Verdict::rank_taken) {
    return invalid("Two workers were started as number ", options_.rank, ".");
  }
  hang_up();
  rank_ = welcome.rank;
  size_ = welcome.size;
  number_ = welcome.number;
  local_address_ = own_end(socket).text();
  first_ = std::move(socket);
  return {};
}

Status Rendezvous::share_addresses() {
  struct Told {
    Peer self;
    std::uint32_t next_number = 0;
  };
  const Told own{{number_, door_.address()}, next_number_};
  Blob blob(sizeof own);
  std::memcpy(blob.data(), &own, sizeof own);
  GRAFT_TRY_ASSIGN(const std::vector<Blob> all, gather(blob));
  std::vector<Peer> peers;
  for (const Blob& one : all) {
    Told told;
    if (one.size() != sizeof told) return error(Code::corrupt, "A worker says nonsense about itself.");
    std::memcpy(&told, one.data(), sizeof told);
    next_number_ = std::max(next_number_, told.next_number);
    peers.push_back(told.self);
  }
  peers_ = std::move(peers);
  return {};
}

Result<std::vector<Blob>> Rendezvous::gather(const Blob& own) {
  std::vector<Blob> all(size_);
  all[rank_] = own;
  if (rank_ != 0) {
    GRAFT_TRY(send_blob(first_, own, until_));
    for (Blob& blob : all) {
      GRAFT_TRY_ASSIGN(blob, receive_blob(first_, until_));
    }
    return all;
  }
  for (std::uint32_t r = 1; r < size_; ++r) {
    GRAFT_TRY_ASSIGN(all[r], receive_blob(others_[r], until_));
  }
  for (std::uint32_t r = 1; r < size_; ++r) {
    for (const Blob& blob : all) GRAFT_TRY(send_blob(others_[r], blob, until_));
  }
  return all;
}

std::vector<Pulse::Line> Rendezvous::lines() const {
  if (rank_ != 0) return {{0, first_.get()}};
  std::vector<Pulse::Line> lines;
  for (std::uint32_t r = 1; r < size_; ++r) lines.push_back({r, others_[r].get()});
  return lines;
}

bool Rendezvous::somebody_waits() {
  if (rank_ != 0) return false;
  tell_where();
  auto callers = door_.look(Doing::runs, {});
  if (callers.ok()) {
    for (Caller& caller : *callers) {
      if (caller.answer.rank != kElsewhere) knocking_.push_back(std::move(caller));
    }
  }
  std::erase_if(knocking_, [](const Caller& caller) { return caller.socket.is_closed(); });
  return !knocking_.empty();
}

/// Workers that are started again look for the run where worker 0 was to be found: this one goes there if it can; if
/// another worker 0 waits there, it is told.
void Rendezvous::tell_where() {
  if (messenger_) {
    Challenge challenge;
    const ssize_t bytes = recv(messenger_.get(), &challenge, sizeof challenge, MSG_DONTWAIT);
    if (bytes == sizeof challenge && challenge.magic == kMagic && challenge.version == kVersion) {
      Answer answer;
      const auto nonce = draw();
      if (nonce.ok()) answer.nonce = *nonce;
      answer.rank = kElsewhere;
      answer.port = door_.address().port();
      answer.proof = proof_of(options_.secret, challenge.nonce, answer);
      send(messenger_.get(), &answer, sizeof answer, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    if (bytes >= 0 || Clock::now() >= messenger_until_) messenger_.close();
    return;
  }
  if (Clock::now() < messenger_until_) return;
  messenger_until_ = Clock::now() + kTellAgain;
  for (const Address& master : masters_) {
    if (!door_.is_open_at(master)) static_cast<void>(door_.open(master));
  }
  if (!door_.is_open_at(masters_.front())) messenger_ = begin_to_connect(masters_.front());
}

}  // namespace graft::gloo_group
