#include "platform/gloo/rendezvous.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <list>
#include <thread>

namespace graft::gloo_group {
namespace {

using Clock = std::chrono::steady_clock;
using Nonce = std::array<unsigned char, 16>;
using Mac = std::array<unsigned char, 32>;

constexpr std::uint32_t kVersion = 1;
constexpr std::uint32_t kMostBlob = 1 << 16;
constexpr std::chrono::seconds kPatience{5};  // with somebody who may be a stranger
constexpr std::size_t kMostStrangers = 64;
constexpr std::chrono::milliseconds kLook{50};  // at who is gone

struct Challenge {
  std::array<char, 8> magic = {'g', 'r', 'a', 'f', 't', 'g', 'l', 'o'};
  std::uint32_t version = kVersion;
  Nonce nonce = {};
};

struct Answer {
  std::array<char, 8> magic = {'g', 'r', 'a', 'f', 't', 'g', 'l', 'o'};
  std::uint32_t version = kVersion;
  std::uint32_t rank = 0;
  std::uint32_t size = 0;
  Nonce nonce = {};
  Mac proof = {};
};

enum class Verdict : std::uint32_t { welcome, other_size, rank_taken };

struct Welcome {
  std::uint32_t verdict = 0;
  std::uint32_t rank = 0;
  std::uint32_t size = 0;
  Mac proof = {};
};

template <typename... Parts>
Mac hmac(const std::string& secret, const Parts&... parts) {
  std::vector<unsigned char> text;
  const auto append = [&](const auto& part) {
    const auto* const bytes = reinterpret_cast<const unsigned char*>(&part);
    text.insert(text.end(), bytes, bytes + sizeof part);
  };
  (append(parts), ...);
  Mac mac = {};
  unsigned int size = 0;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()), text.data(), text.size(), mac.data(), &size);
  return mac;
}

bool equal(const Mac& a, const Mac& b) { return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }

Result<Nonce> draw() {
  Nonce nonce;
  if (RAND_bytes(nonce.data(), nonce.size()) != 1) return error(Code::io_error, "There are no random numbers.");
  return nonce;
}

Status failure(const char* what) { return error(Code::io_error, what, ": ", std::strerror(errno), "."); }

int milliseconds_to(Clock::time_point until) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30));
}

// All of it or an error; `until` is the latest.
Status transfer(int socket, void* data, std::size_t bytes, bool sends, Clock::time_point until) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    pollfd ready = {socket, static_cast<short>(sends ? POLLOUT : POLLIN), 0};
    const int found = poll(&ready, 1, milliseconds_to(until));
    if (found < 0 && errno == EINTR) continue;
    if (found < 0) return failure("A connection cannot be waited for");
    if (found == 0) return error(Code::timeout, "A worker did not answer in time.");
    const ssize_t done = sends ? send(socket, at, bytes, MSG_NOSIGNAL) : recv(socket, at, bytes, 0);
    if (done < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (done < 0) return failure("A connection failed");
    if (done == 0) return error(Code::io_error, "A connection was closed.");
    at += done;
    bytes -= static_cast<std::size_t>(done);
  }
  return {};
}

template <typename T>
Status send_all(int socket, const T& value, Clock::time_point until) {
  T copy = value;
  return transfer(socket, &copy, sizeof copy, true, until);
}

template <typename T>
Status receive_all(int socket, T& value, Clock::time_point until) {
  return transfer(socket, &value, sizeof value, false, until);
}

Status send_blob(int socket, Blob blob, Clock::time_point until) {
  GRAFT_TRY(send_all(socket, static_cast<std::uint32_t>(blob.size()), until));
  return transfer(socket, blob.data(), blob.size(), true, until);
}

Result<Blob> receive_blob(int socket, Clock::time_point until) {
  std::uint32_t size = 0;
  GRAFT_TRY(receive_all(socket, size, until));
  if (size > kMostBlob) return error(Code::corrupt, "A worker says more about itself than it may.");
  Blob blob(size);
  GRAFT_TRY(transfer(socket, blob.data(), size, false, until));
  return blob;
}

std::string address_of(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, text, sizeof text);
  } else {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, text, sizeof text);
  }
  return text;
}

std::string local_address_of(int socket) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  return address_of(address);
}

bool is_loopback(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    return ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24 == 127;
  }
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

struct Addresses {
  addrinfo* first = nullptr;
  Addresses() = default;
  Addresses(Addresses&& other) noexcept : first(std::exchange(other.first, nullptr)) {}
  Addresses& operator=(Addresses&&) = delete;
  ~Addresses() {
    if (first != nullptr) freeaddrinfo(first);
  }
};

Result<Addresses> resolve(const RendezvousOptions& options) {
  Addresses found;
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  const int failed = getaddrinfo(options.address.c_str(), std::to_string(options.port).c_str(), &hints, &found.first);
  if (failed != 0) {
    return error(Code::not_found, "Worker 0's address \"", options.address, "\" is unknown: ", gai_strerror(failed),
                 ".");
  }
  if (options.secret.empty() && !is_loopback(found.first->ai_addr)) {
    return invalid("Workers on several machines need a secret (GRAFT_SECRET), which \"", options.address,
                   "\" is not reached without.");
  }
  return found;
}

// Somebody who has connected to worker 0.
struct Stranger {
  int socket = -1;
  Nonce nonce = {};
  Answer answer;
  std::size_t read = 0;
  Clock::time_point until;
};

}  // namespace

struct Rendezvous::Guest {
  int socket = -1;
  std::uint32_t rank = 0;  ///< until now
  Nonce own;
  Nonce its;
};

Rendezvous::Rendezvous(const RendezvousOptions& options)
    : options_(options), rank_(options.rank), size_(options.size), until_(Clock::now() + options.timeout) {}

Rendezvous::~Rendezvous() {
  hang_up();
  if (server_ >= 0) close(server_);
}

void Rendezvous::hang_up() {
  for (const int socket : others_) {
    if (socket >= 0) close(socket);
  }
  others_.clear();
  if (first_ >= 0) close(std::exchange(first_, -1));
}

Result<std::unique_ptr<Rendezvous>> Rendezvous::join(const RendezvousOptions& options) {
  std::unique_ptr<Rendezvous> made(new Rendezvous(options));
  if (options.rank != 0) {
    GRAFT_TRY(made->connect(false));
  } else {
    GRAFT_TRY(made->open());
    GRAFT_TRY(made->receive(false, options.timeout));
  }
  return made;
}

Status Rendezvous::meet_again(std::chrono::milliseconds patience) {
  until_ = Clock::now() + options_.timeout;
  return rank_ == 0 ? receive(true, patience) : connect(true);
}

Status Rendezvous::open() {
  GRAFT_TRY_ASSIGN(const Addresses found, resolve(options_));
  server_ = socket(found.first->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (server_ < 0) return failure("There is no socket");
  const int on = 1;
  setsockopt(server_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(server_, found.first->ai_addr, found.first->ai_addrlen) != 0 || ::listen(server_, 128) != 0) {
    return error(Code::io_error, "Worker 0 cannot listen at ", options_.address, " port ", options_.port, ": ",
                 std::strerror(errno), ".");
  }
  local_address_ = local_address_of(server_);
  return {};
}

/// The first time all must come.
Status Rendezvous::receive(bool again, std::chrono::milliseconds patience) {
  std::list<Stranger> strangers;
  std::vector<Guest> guests;
  struct Closing {
    std::list<Stranger>& strangers;
    ~Closing() {
      for (const Stranger& stranger : strangers) close(stranger.socket);
    }
  } const closing{strangers};
  const auto forget = [&](const Status& why) {
    for (const Guest& guest : guests) close(guest.socket);
    return why;
  };
  // Whether the stranger is one of the workers; its socket is a guest's then.
  const auto judge = [&](const Stranger& stranger) -> Result<bool> {
    const Answer& answer = stranger.answer;
    const Challenge own;
    const Mac proof = hmac(options_.secret, stranger.nonce, answer.nonce, answer.rank, answer.size);
    if (answer.magic != own.magic || answer.version != own.version || !equal(proof, answer.proof)) return false;
    auto verdict = Verdict::welcome;
    if (answer.size != size_ || answer.rank == 0 || answer.rank >= size_) {
      verdict = Verdict::other_size;
    } else if (std::ranges::find(guests, answer.rank, &Guest::rank) != guests.end()) {
      verdict = Verdict::rank_taken;
    }
    if (verdict == Verdict::welcome) {
      guests.push_back({stranger.socket, answer.rank, stranger.nonce, answer.nonce});
      return true;
    }
    const Welcome refusal{static_cast<std::uint32_t>(verdict), 0, size_,
                          hmac(options_.secret, answer.nonce, stranger.nonce)};
    static_cast<void>(send_all(stranger.socket, refusal, Clock::now() + kPatience));
    if (again) return false;  // a run that goes on is not ended by whoever comes
    if (verdict == Verdict::rank_taken) return invalid("Two workers were started as number ", answer.rank, ".");
    return invalid("A worker was started as ", answer.rank, " of ", answer.size, ", worker 0 as one of ", size_, ".");
  };

  std::vector<bool> gone(size_);
  const auto is_missing = [&](std::uint32_t r) {
    return !gone[r] && std::ranges::find(guests, r, &Guest::rank) == guests.end();
  };
  const auto end = Clock::now() + patience;
  for (;;) {
    bool missing = false;
    for (std::uint32_t r = 1; r < size_; ++r) {
      char byte = 0;  // nobody sends any: only the end of the connection is read
      gone[r] = gone[r] || (again && recv(others_[r], &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0);
      missing = missing || is_missing(r);
    }
    if (!missing) break;
    if (Clock::now() >= end) {
      if (again) break;
      std::string ranks;
      for (std::uint32_t r = 1; r < size_; ++r) {
        if (is_missing(r)) ranks += cat(ranks.empty() ? "" : ", ", r);
      }
      return forget(error(Code::timeout, "Of ", size_, " workers, these did not come to ", options_.address, " port ",
                          options_.port, " in time: ", ranks, "."));
    }
    std::vector<pollfd> ready = {{server_, static_cast<short>(strangers.size() < kMostStrangers ? POLLIN : 0), 0}};
    auto until = std::min(end, Clock::now() + kLook);
    for (const Stranger& stranger : strangers) {
      ready.push_back({stranger.socket, POLLIN, 0});
      until = std::min(until, stranger.until);
    }
    if (poll(ready.data(), ready.size(), milliseconds_to(until) + 1) < 0 && errno != EINTR) {
      return forget(failure("poll failed"));
    }
    auto at = ready.begin() + 1;
    for (auto stranger = strangers.begin(); stranger != strangers.end(); ++at) {
      bool goes = Clock::now() >= stranger->until;
      if ((at->revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
        auto* const into = reinterpret_cast<char*>(&stranger->answer) + stranger->read;
        const ssize_t read = recv(stranger->socket, into, sizeof(Answer) - stranger->read, 0);
        goes = goes || read == 0 || (read < 0 && errno != EAGAIN && errno != EINTR);
        if (read > 0) stranger->read += static_cast<std::size_t>(read);
      }
      if (stranger->read == sizeof(Answer)) {
        const auto worker = judge(*stranger);
        if (!worker.ok()) return forget(worker.status());
        if (*worker) {
          stranger = strangers.erase(stranger);
          continue;
        }
        goes = true;
      }
      if (goes) close(stranger->socket);
      stranger = goes ? strangers.erase(stranger) : std::next(stranger);
    }
    if ((ready[0].revents & POLLIN) == 0) continue;
    const int socket = accept4(server_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket < 0) continue;
    const auto nonce = draw();
    if (!nonce.ok()) {
      close(socket);
      return forget(nonce.status());
    }
    strangers.push_back({socket, *nonce, {}, 0, std::min(until_, Clock::now() + kPatience)});
    Challenge challenge;
    challenge.nonce = *nonce;
    // Fits into the buffer of any new connection.
    if (send(socket, &challenge, sizeof challenge, MSG_NOSIGNAL) != sizeof challenge) strangers.back().until = {};
  }
  return seat(guests);
}

/// Tells the guests their ranks. Who has gone meanwhile shows in the first gather().
Status Rendezvous::seat(std::vector<Guest>& guests) {
  std::ranges::sort(guests, {}, &Guest::rank);
  hang_up();
  size_ = static_cast<std::uint32_t>(guests.size() + 1);
  others_.assign(size_, -1);
  for (std::uint32_t r = 1; r < size_; ++r) {
    const Guest& guest = guests[r - 1];
    others_[r] = guest.socket;
    const Welcome welcome{static_cast<std::uint32_t>(Verdict::welcome), r, size_,
                          hmac(options_.secret, guest.its, guest.own)};
    static_cast<void>(send_all(guest.socket, welcome, Clock::now() + kPatience));
  }
  return {};
}

Status Rendezvous::connect(bool again) {
  GRAFT_TRY_ASSIGN(const Addresses found, resolve(options_));
  Status last;
  // The connection of before stays until there is another: its end would say that this worker is gone.
  struct Closing {
    int socket;
    ~Closing() {
      if (socket >= 0) close(socket);
    }
  } const before{std::exchange(first_, -1)};
  // Worker 0 may not be there yet.
  for (; Clock::now() < until_; std::this_thread::sleep_for(std::chrono::milliseconds(50))) {
    hang_up();
    first_ = socket(found.first->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (first_ < 0) return failure("There is no socket");
    if (::connect(first_, found.first->ai_addr, found.first->ai_addrlen) != 0) {
      if (again) return error(Code::not_found, "Worker 0 is gone.");
      last = failure("it cannot be reached");
      continue;
    }
    Challenge challenge;
    last = receive_all(first_, challenge, again ? until_ : std::min(until_, Clock::now() + kPatience));
    if (!last.ok() && again) return error(Code::not_found, "Worker 0 is gone.");
    if (!last.ok()) continue;
    Answer answer;
    if (challenge.magic != answer.magic || challenge.version != kVersion) {
      return invalid("At ", options_.address, " port ", options_.port, " is no worker 0 of this version of graft.");
    }
    GRAFT_TRY_ASSIGN(answer.nonce, draw());
    answer.rank = rank_;
    answer.size = size_;
    answer.proof = hmac(options_.secret, challenge.nonce, answer.nonce, answer.rank, answer.size);
    Welcome welcome;
    last = send_all(first_, answer, until_);
    if (last.ok()) last = receive_all(first_, welcome, until_);
    if (!last.ok()) {
      return invalid("Worker 0 at ", options_.address, " port ", options_.port,
                     " did not take this one in: the secrets differ, or it ended.");
    }
    if (!equal(welcome.proof, hmac(options_.secret, answer.nonce, challenge.nonce))) {
      return invalid("Who answers at ", options_.address, " port ", options_.port, " does not know the secret.");
    }
    if (static_cast<Verdict>(welcome.verdict) == Verdict::other_size) {
      return invalid("This worker was started as ", rank_, " of ", size_, ", worker 0 as one of ", welcome.size, ".");
    }
    if (static_cast<Verdict>(welcome.verdict) == Verdict::rank_taken) {
      return invalid("Two workers were started as number ", rank_, ".");
    }
    rank_ = welcome.rank;
    size_ = welcome.size;
    local_address_ = local_address_of(first_);
    return {};
  }
  return error(Code::timeout, "Worker 0 did not answer at ", options_.address, " port ", options_.port, ": ",
               last.message());
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

}  // namespace graft::gloo_group
