#include "platform/gloo/door.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace graft::gloo_group {
namespace {

constexpr std::size_t kMostStrangers = 64;
/// Long enough to answer: whoever was let in before that makes room for others.
constexpr std::chrono::milliseconds kTimeToAnswer{500};
/// Of workers that take steps: who comes is looked at once in a step.
constexpr std::chrono::minutes kLongestStep{10};

}  // namespace

Status Door::open(const Address& address) {
  Socket server(socket(address.where.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!server) return failure("There is no socket");
  const int on = 1;
  setsockopt(server.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const auto* const where = reinterpret_cast<const sockaddr*>(&address.where);
  if (bind(server.get(), where, address.size) != 0 || ::listen(server.get(), 128) != 0) {
    return error(Code::io_error, "No worker can listen at ", address.text(), " port ", address.port(), ": ",
                 std::strerror(errno), ".");
  }
  servers_.push_back(std::move(server));
  return {};
}

bool Door::is_open_at(const Address& address) const {
  return std::ranges::any_of(servers_, [&](const Socket& server) {
    const Address own = own_end(server);
    return own.text() == address.text() && own.port() == address.port();
  });
}

/// The oldest goes, once it could have answered.
void Door::make_room() {
  if (strangers_.size() < kMostStrangers || Clock::now() < strangers_.front().came + kTimeToAnswer) return;
  strangers_.pop_front();
}

Status Door::let_in(const Socket& server, Doing doing) {
  for (std::size_t i = 0; i < kMostStrangers; ++i) {  // more wait outside
    make_room();
    if (strangers_.size() >= kMostStrangers) break;
    Socket socket(accept4(server.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) break;
    GRAFT_TRY_ASSIGN(const Nonce nonce, draw());
    const Challenge challenge{.doing = static_cast<std::uint32_t>(doing), .nonce = nonce};
    // Fits into the buffer of any new connection.
    if (send(socket.get(), &challenge, sizeof challenge, MSG_NOSIGNAL) != sizeof challenge) continue;
    const auto patience = doing == Doing::runs ? Clock::duration(kLongestStep) : Clock::duration(kCourtesy);
    const auto now = Clock::now();
    strangers_.push_back({std::move(socket), nonce, {}, 0, now, now + patience});
  }
  return {};
}

bool Door::is_known(const Stranger& stranger) const {
  const Answer& answer = stranger.answer;
  return answer.magic == kMagic && answer.version == kVersion &&
         equal(proof_of(secret_, stranger.nonce, answer), answer.proof);
}

Result<std::vector<Caller>> Door::look(Doing doing, std::chrono::milliseconds wait) {
  std::vector<pollfd> ready;
  const bool opening = strangers_.size() < kMostStrangers || Clock::now() >= strangers_.front().came + kTimeToAnswer;
  const short opens = opening ? POLLIN : 0;
  for (const Socket& server : servers_) ready.push_back({server.get(), opens, 0});
  for (const Stranger& stranger : strangers_) ready.push_back({stranger.socket.get(), POLLIN, 0});
  if (poll(ready.data(), ready.size(), static_cast<int>(wait.count())) < 0 && errno != EINTR) {
    return failure("poll failed");
  }
  // Those who have answered are heard before the oldest make room.
  std::vector<Caller> callers;
  for (auto stranger = strangers_.begin(); stranger != strangers_.end();) {
    auto* const into = reinterpret_cast<char*>(&stranger->answer) + stranger->read;
    const ssize_t read = recv(stranger->socket.get(), into, sizeof(Answer) - stranger->read, 0);
    bool goes = read == 0 || (read < 0 && errno != EAGAIN && errno != EINTR) || Clock::now() >= stranger->until;
    if (read > 0) stranger->read += static_cast<std::size_t>(read);
    if (stranger->read == sizeof(Answer)) {
      if (is_known(*stranger)) callers.push_back({std::move(stranger->socket), stranger->answer, stranger->nonce});
      goes = true;
    }
    stranger = goes ? strangers_.erase(stranger) : std::next(stranger);
  }
  for (const Socket& server : servers_) GRAFT_TRY(let_in(server, doing));
  return callers;
}

Status Door::welcome(const Caller& caller, const Welcome& words) const {
  Welcome proved = words;
  proved.proof = proof_of(secret_, caller.answer.nonce, caller.nonce, words);
  return send_all(caller.socket, proved, Clock::now() + kCourtesy);
}

void Door::close() {
  strangers_.clear();
  servers_.clear();
}

void Door::clear() {
  strangers_.clear();
  for (const Socket& server : servers_) {
    while (Socket(accept4(server.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK))) continue;
  }
}

}  // namespace graft::gloo_group
