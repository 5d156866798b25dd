#include "platform/gloo/wire.h"

#include <arpa/inet.h>
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace graft::gloo_group {
namespace {

constexpr std::uint32_t kMostBlob = 1 << 16;

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

}  // namespace

Mac proof_of(const std::string& secret, const Nonce& challenge, const Answer& answer) {
  return hmac(secret, challenge, answer.nonce, answer.rank, answer.size, answer.number, answer.port);
}

Mac proof_of(const std::string& secret, const Nonce& answer, const Nonce& challenge, const Welcome& welcome) {
  return hmac(secret, answer, challenge, welcome.verdict, welcome.rank, welcome.size, welcome.number);
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

void Socket::close() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

bool Socket::is_closed() const {
  char byte = 0;
  return recv(descriptor_, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0;
}

Status transfer(const Socket& socket, void* data, std::size_t bytes, bool sends, Clock::time_point until) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    pollfd ready = {socket.get(), static_cast<short>(sends ? POLLOUT : POLLIN), 0};
    const int found = poll(&ready, 1, milliseconds_to(until));
    if (found < 0 && errno == EINTR) continue;
    if (found < 0) return failure("A connection cannot be waited for");
    if (found == 0) return error(Code::timeout, "A worker did not answer in time.");
    const ssize_t done = sends ? send(socket.get(), at, bytes, MSG_NOSIGNAL) : recv(socket.get(), at, bytes, 0);
    if (done < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (done < 0) return failure("A connection failed");
    if (done == 0) return error(Code::io_error, "A connection was closed.");
    at += done;
    bytes -= static_cast<std::size_t>(done);
  }
  return {};
}

Status send_blob(const Socket& socket, Blob blob, Clock::time_point until) {
  GRAFT_TRY(send_all(socket, static_cast<std::uint32_t>(blob.size()), until));
  return transfer(socket, blob.data(), blob.size(), true, until);
}

Result<Blob> receive_blob(const Socket& socket, Clock::time_point until) {
  std::uint32_t size = 0;
  GRAFT_TRY(receive_all(socket, size, until));
  if (size > kMostBlob) return error(Code::corrupt, "A worker says more about itself than it may.");
  Blob blob(size);
  GRAFT_TRY(transfer(socket, blob.data(), size, false, until));
  return blob;
}

std::string Address::text() const {
  char text[INET6_ADDRSTRLEN] = "";
  if (where.ss_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(where).sin_addr, text, sizeof text);
  } else {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(where).sin6_addr, text, sizeof text);
  }
  return text;
}

std::uint16_t Address::port() const {
  return ntohs(where.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in&>(where).sin_port
                                          : reinterpret_cast<const sockaddr_in6&>(where).sin6_port);
}

void Address::set_port(std::uint16_t port) {
  (where.ss_family == AF_INET ? reinterpret_cast<sockaddr_in&>(where).sin_port
                              : reinterpret_cast<sockaddr_in6&>(where).sin6_port) = htons(port);
}

bool Address::is_loopback() const {
  if (where.ss_family == AF_INET) {
    return ntohl(reinterpret_cast<const sockaddr_in&>(where).sin_addr.s_addr) >> 24 == 127;
  }
  return where.ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(where).sin6_addr);
}

Result<Address> resolve(const std::string& host, std::uint16_t port) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (failed != 0) {
    return error(Code::not_found, "Worker 0's address \"", host, "\" is unknown: ", gai_strerror(failed), ".");
  }
  Address address;
  std::memcpy(&address.where, found->ai_addr, found->ai_addrlen);
  address.size = found->ai_addrlen;
  freeaddrinfo(found);
  return address;
}

Address own_end(const Socket& socket) {
  Address address;
  address.size = sizeof address.where;
  getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address.where), &address.size);
  return address;
}

Address other_end(const Socket& socket) {
  Address address;
  address.size = sizeof address.where;
  getpeername(socket.get(), reinterpret_cast<sockaddr*>(&address.where), &address.size);
  return address;
}

Socket begin_to_connect(const Address& address) {
  Socket made(socket(address.where.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made) return made;
  const auto* const where = reinterpret_cast<const sockaddr*>(&address.where);
  if (connect(made.get(), where, address.size) != 0 && errno != EINPROGRESS) return Socket();
  return made;
}

Result<Socket> connect_to(const Address& address, Clock::time_point until) {
  Socket made = begin_to_connect(address);
  if (!made) return failure("it cannot be reached");
  pollfd ready = {made.get(), POLLOUT, 0};
  int found = 0;
  do {
    found = poll(&ready, 1, milliseconds_to(until));
  } while (found < 0 && errno == EINTR);
  if (found == 0) return error(Code::timeout, "it does not answer.");
  int why = 0;
  socklen_t size = sizeof why;
  getsockopt(made.get(), SOL_SOCKET, SO_ERROR, &why, &size);
  if (why == 0) return made;
  errno = why;
  return failure("it cannot be reached");
}

}  // namespace graft::gloo_group
