// Where a worker can be reached. A caller that does not know the secret, says nonsense or nothing is closed. Silent
// ones make room for later ones, however many they are.
#pragma once

#include <algorithm>
#include <list>

#include "platform/gloo/wire.h"

namespace graft::gloo_group {

/// Somebody who knows the secret.
struct Caller {
  Socket socket;
  Answer answer;
  Nonce nonce;  ///< that it answered
};

class Door {
 public:
  explicit Door(const std::string& secret) : secret_(secret) {}
  void set_secret(const std::string& secret) { secret_ = secret; }

  /// One more address to be reached at. Port 0: any that is free.
  Status open(const Address& address);
  bool is_open_at(const Address& address) const;
  /// The first address.
  Address address() const { return own_end(servers_.front()); }
  bool is_open() const { return !servers_.empty(); }

  /// Those who have proved themselves by the time that somebody does, or at the latest after `wait`.
  Result<std::vector<Caller>> look(Doing doing, std::chrono::milliseconds wait);

  Status welcome(const Caller& caller, const Welcome& words) const;

  /// Whoever has come so far is let go.
  void clear();
  /// At no other address than the first any more.
  void keep_first() { servers_.resize(std::min<std::size_t>(servers_.size(), 1)); }
  /// Nobody can come any more.
  void close();

 private:
  struct Stranger {
    Socket socket;
    Nonce nonce = {};
    Answer answer;
    std::size_t read = 0;
    Clock::time_point came;
    Clock::time_point until;
  };
  void make_room();
  Status let_in(const Socket& server, Doing doing);
  bool is_known(const Stranger& stranger) const;

  std::string secret_;
  std::vector<Socket> servers_;
  std::list<Stranger> strangers_;
};

}  // namespace graft::gloo_group
