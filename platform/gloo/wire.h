// What workers say to each other before Gloo connects them, and the sockets that it goes through.
#pragma once

#include <netdb.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "platform/base/status.h"

namespace graft::gloo_group {

using Clock = std::chrono::steady_clock;
using Nonce = std::array<unsigned char, 16>;
using Mac = std::array<unsigned char, 32>;
using Blob = std::vector<char>;

constexpr std::uint32_t kVersion = 5;
constexpr std::uint32_t kNoNumber = UINT32_MAX;   ///< of a worker that is new
constexpr std::uint32_t kElsewhere = UINT32_MAX;  ///< as a rank: the run goes on at the address that this comes from
constexpr std::chrono::seconds kCourtesy{5};      ///< with somebody who may be a stranger
constexpr std::array<char, 8> kMagic = {'g', 'r', 'a', 'f', 't', 'g', 'l', 'o'};

/// Whether a worker that is come to waits for the others, or its group takes steps.
enum class Doing : std::uint32_t { meets, runs };

struct Challenge {
  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t doing = 0;
  Nonce nonce = {};
};

struct Answer {
  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t rank = 0;  ///< that it was started as
  std::uint32_t size = 0;
  std::uint32_t number = kNoNumber;
  std::uint32_t port = 0;  ///< at which it can be reached
  Nonce nonce = {};
  Mac proof = {};
};

enum class Verdict : std::uint32_t { welcome, other_size, rank_taken };

struct Welcome {
  std::uint32_t verdict = 0;
  std::uint32_t rank = 0;
  std::uint32_t size = 0;
  std::uint32_t number = 0;
  Mac proof = {};
};

Mac proof_of(const std::string& secret, const Nonce& challenge, const Answer& answer);
Mac proof_of(const std::string& secret, const Nonce& answer, const Nonce& challenge, const Welcome& welcome);
bool equal(const Mac& a, const Mac& b);
Result<Nonce> draw();

/// With what the system says.
Status failure(const char* what);
int milliseconds_to(Clock::time_point until);

/// A socket that is closed in the end.
class Socket {
 public:
  explicit Socket(int descriptor = -1) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    other.close();
    return *this;
  }
  ~Socket() { close(); }
  void close();
  int get() const { return descriptor_; }
  /// By the other end, which has sent nothing that was not received.
  bool is_closed() const;
  explicit operator bool() const { return descriptor_ >= 0; }

 private:
  int descriptor_;
};

/// All of it or an error; `until` is the latest.
Status transfer(const Socket& socket, void* data, std::size_t bytes, bool sends, Clock::time_point until);

template <typename T>
Status send_all(const Socket& socket, const T& value, Clock::time_point until) {
  T copy = value;
  return transfer(socket, &copy, sizeof copy, true, until);
}

template <typename T>
Status receive_all(const Socket& socket, T& value, Clock::time_point until) {
  return transfer(socket, &value, sizeof value, false, until);
}

Status send_blob(const Socket& socket, Blob blob, Clock::time_point until);
Result<Blob> receive_blob(const Socket& socket, Clock::time_point until);

struct Address {
  sockaddr_storage where = {};
  socklen_t size = 0;

  std::string text() const;
  std::uint16_t port() const;
  void set_port(std::uint16_t port);
  bool is_loopback() const;
};

/// A host's name or number. not_found where it has no address.
Result<Address> resolve(const std::string& host, std::uint16_t port);
Address own_end(const Socket& socket);
Address other_end(const Socket& socket);

/// Begins to connect, and does not wait; no socket where that fails at once.
Socket begin_to_connect(const Address& address);
/// Waits no longer than until then.
Result<Socket> connect_to(const Address& address, Clock::time_point until);

}  // namespace graft::gloo_group
