// graft_group over Gloo. Gloo throws, aborts on sizes that differ, and writes to sockets that may be closed: none of
// that leaves this file.
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <stdexcept>
#include <string_view>

#include "graft/gloo.h"
#include "platform/gloo/header.h"
#include "platform/gloo/loop_thread.h"
#include "platform/gloo/pulse.h"
#include "platform/gloo/rendezvous.h"
#include "platform/gloo/without_sigpipe.h"

namespace graft::gloo_group {
namespace {

constexpr std::chrono::milliseconds kForever = std::chrono::hours(24 * 30);
/// For the others to come and hear why one leaves: they may be computing.
constexpr std::chrono::milliseconds kFarewell{5000};
/// In a tag: of parts, not of headers.
constexpr std::uint64_t kParts = 1ull << 63;
/// With workers that stand still after a failure, beside the time that they may compute.
constexpr std::chrono::milliseconds kPatience{2000};

/// What Gloo's workers tell each other, by way of the rendezvous: each sets a key of its own as often as the others.
class Store : public ::gloo::rendezvous::Store {
 public:
  explicit Store(Rendezvous& rendezvous) : rendezvous_(rendezvous) {}
  void set(const std::string& key, const std::vector<char>& data) override {
    Blob own(key.begin(), key.end());
    own.push_back('\0');
    own.insert(own.end(), data.begin(), data.end());
    auto all = rendezvous_.gather(own);
    if (!all.ok()) throw std::runtime_error(all.status().message());
    for (const Blob& blob : *all) {
      const auto end = std::ranges::find(blob, '\0');
      if (end != blob.end()) known_[std::string(blob.begin(), end)] = {end + 1, blob.end()};
    }
  }
  std::vector<char> get(const std::string& key) override { return known_.at(key); }
  void wait(const std::vector<std::string>&) override {}  // set() has waited

 private:
  Rendezvous& rendezvous_;
  std::map<std::string, std::vector<char>> known_;
};

class GlooGroup {
 public:
  static Result<std::unique_ptr<GlooGroup>> join(const RendezvousOptions& options, std::chrono::milliseconds silence) {
    const WithoutSigpipe without;
    GRAFT_TRY_ASSIGN(auto rendezvous, Rendezvous::join(options));
    std::unique_ptr<GlooGroup> made(new GlooGroup(std::move(rendezvous), options.timeout, silence));
    GRAFT_TRY(made->connect());
    return made;
  }

  std::uint32_t rank() const { return rank_; }
  std::uint32_t size() const { return size_; }

  /// Those that are left, with new ranks; what was exchanged before is forgotten.
  Status reform() {
    const WithoutSigpipe without;
    close();
    GRAFT_TRY(rendezvous_->meet_again(kPatience + 2 * longest_absence_));
    return connect();
  }

  bool somebody_waits() {
    const WithoutSigpipe without;
    return rendezvous_->somebody_waits();
  }

  ~GlooGroup() { leave(GRAFT_OK, ""); }

  Status exchange(const Parts& parts, std::uint64_t deadline_ms) {
    if (!broken_.ok()) return broken_;
    if (parts.count == 0 || parts.count > kMostParts) {
      return invalid("An exchange has 1 to ", kMostParts, " parts for each worker, not ", parts.count, ".");
    }
    const WithoutSigpipe without;
    const auto wait = deadline_ms == UINT64_MAX ? kForever : std::min(kForever, std::chrono::milliseconds(deadline_ms));
    const auto begun = Clock::now();
    if (call_ > 0) {
      longest_absence_ =
          std::max(longest_absence_, std::chrono::duration_cast<std::chrono::milliseconds>(begun - last_));
    }
    Posted posted((1 + parts.count) * size_);
    wait_for(wait);
    broken_ = try_exchange(parts, posted);
    ++call_;
    last_ = Clock::now();
    if (!broken_.ok()) {
      name_the_silent();
      close();  // before what was posted goes
    }
    return broken_;
  }

  void leave(graft_status why, const char* message) {
    if (context_ == nullptr) return;
    const WithoutSigpipe without;
    Header farewell{call_, 1, why};
    std::snprintf(farewell.words, sizeof farewell.words, "%s", message == nullptr ? "" : message);
    std::vector<Header> copies(size_, farewell);
    // Whoever is gone already is none of this one's business. Others may leave as well: each hears the other then.
    std::vector<Header> heard(size_);
    std::vector<Buffer> sent(size_), received(size_);
    static_cast<void>(on_loop([&] {
      for (std::uint32_t r = 0; r < size_; ++r) {
        if (r == rank_) continue;
        static_cast<void>(caught([&] {
          received[r] = context_->createUnboundBuffer(&heard[r], sizeof heard[r]);
          received[r]->recv(static_cast<int>(r), header_tag());
          sent[r] = context_->createUnboundBuffer(&copies[r], sizeof copies[r]);
          sent[r]->send(static_cast<int>(r), header_tag());
        }));
      }
    }));
    wait_for(kFarewell);
    for (std::uint32_t r = 0; r < size_; ++r) {
      if (sent[r] != nullptr) static_cast<void>(finish(r, *sent[r], true));
    }
    broken_ = error(Code::cancelled, "This worker has left.");
    close();  // before what was posted goes
  }

 private:
  using Buffer = std::unique_ptr<::gloo::transport::UnboundBuffer>;
  /// To and from one other.
  struct Pair {
    Buffer sent, received;
  };
  /// Headers by rank, then parts.
  using Posted = std::vector<Pair>;

  GlooGroup(std::unique_ptr<Rendezvous> rendezvous, std::chrono::milliseconds timeout,
            std::chrono::milliseconds silence)
      : rendezvous_(std::move(rendezvous)), timeout_(timeout), silence_(silence) {}

  Status connect() {
    rank_ = rendezvous_->rank();
    size_ = rendezvous_->size();
    call_ = 0;
    broken_ = caught([&] {
      ::gloo::transport::tcp::attr attributes;
      attributes.hostname = rendezvous_->local_address();  // one interface
      auto device = ::gloo::transport::tcp::CreateDevice(attributes);
      auto context = std::make_shared<::gloo::rendezvous::Context>(static_cast<int>(rank_), static_cast<int>(size_));
      context->setTimeout(timeout_);
      Store store(*rendezvous_);
      context->connectFullMesh(store, device);
      auto loop = LoopThread::of(device);
      if (!loop.ok()) throw std::runtime_error(loop.status().message());
      loop_ = std::move(*loop);
      context_ = std::move(context);
    });
    if (broken_.ok() && size_ > 1) {
      const bool listens = silence_.count() > 0;
      auto started = Pulse::start(listens ? rendezvous_->lines() : std::vector<Pulse::Line>(),
                                  listens ? silence_ : kForever, [this](bool silent, auto ran) { look(silent, ran); });
      if (started.ok()) pulse_ = std::move(*started);
      broken_ = started.status();
    }
    if (broken_.ok()) return {};
    return Status(broken_).with_context("While the workers were connected");
  }

  /// What comes now is waited for so long, by the time in which this process runs.
  void wait_for(std::chrono::milliseconds time) {
    const std::lock_guard lock(waiting_mutex_);
    left_ = time;
  }

  /// What this worker waits for ends where somebody is silent, or the time is over.
  void look(bool silent, Clock::duration ran) {
    const std::lock_guard lock(waiting_mutex_);
    if (waiting_ == nullptr) return;
    left_ -= ran;
    if (!silent && left_ > Clock::duration::zero()) return;
    waiting_->abortWaitRecv();
    waiting_->abortWaitSend();
  }

  /// Whoever is silent is why an exchange failed, whatever this worker saw of it.
  void name_the_silent() {
    if (pulse_ == nullptr || (broken_.code() != Code::io_error && broken_.code() != Code::timeout)) return;
    const auto silent = pulse_->silent();
    if (!silent || *silent >= size_) return;
    if (rank_ == 0) pulse_->tell(*silent);
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%.1f", 1e-3 * static_cast<double>(silence_.count()));
    broken_ = error(Code::timeout, "Worker ", *silent, " has said nothing for ", seconds,
                    " s: it stands still, or is cut off.");
  }

  template <typename Body>
  static Status caught(const Body& body) {
    try {
      body();
    } catch (const std::exception& failed) {
      std::string_view why = failed.what();  // "[FILE:LINE] words"
      if (const std::size_t end = why.find("] "); why.starts_with('[') && end != std::string_view::npos) {
        why.remove_prefix(end + 2);
      }
      return error(Code::io_error, "a connection failed (", why, ").");
    }
    return {};
  }

  std::uint64_t header_tag() const { return call_; }
  /// Who has sent this worker's header of a call is at most one call ahead.
  std::uint64_t part_tag(std::size_t part, std::size_t bytes) const {
    return kParts | (call_ & 0x1fff) << 50 | part << 48 | bytes;
  }

  void close() {
    pulse_.reset();
    static_cast<void>(caught([&] {
      if (context_ != nullptr) context_->closeConnections();
    }));
    context_.reset();
    loop_.reset();
  }

  /// What `body` posts.
  Status on_loop(const std::function<void()>& body) {
    return caught([&] { loop_->run(body); });
  }

  Status send(Posted& posted, std::size_t at, std::uint32_t to, const void* data, std::size_t bytes,
              std::uint64_t tag) {
    if (bytes == 0) return {};
    const Status done = caught([&] {
      Buffer& sent = posted[at + to].sent;
      sent = context_->createUnboundBuffer(const_cast<void*>(data), bytes);
      sent->send(static_cast<int>(to), tag);
    });
    if (done.ok()) return done;
    return error(Code::io_error, "Worker ", to, " is gone: ", done.message());
  }

  Status receive(Posted& posted, std::size_t at, std::uint32_t from, void* data, std::size_t bytes, std::uint64_t tag) {
    if (bytes == 0) return {};
    const Status done = caught([&] {
      Buffer& received = posted[at + from].received;
      received = context_->createUnboundBuffer(data, bytes);
      received->recv(static_cast<int>(from), tag);
    });
    if (done.ok()) return done;
    return error(Code::io_error, "Worker ", from, " is gone: ", done.message());
  }

  Status finish(std::uint32_t rank, ::gloo::transport::UnboundBuffer& buffer, bool sends) {
    {
      const std::lock_guard lock(waiting_mutex_);
      waiting_ = &buffer;
    }
    bool came = true;
    Status done = caught([&] { came = sends ? buffer.waitSend(kForever) : buffer.waitRecv(kForever); });
    {
      const std::lock_guard lock(waiting_mutex_);
      waiting_ = nullptr;
    }
    if (done.ok() && came) return done;
    if (done.ok()) {
      return error(Code::timeout, "Worker ", rank, " did not come to an exchange in time.");
    }
    return error(Code::io_error, "Worker ", rank, " is gone: ", done.message());
  }

  /// All that came, or went.
  Status finish(Posted& posted, std::size_t at, bool sends) {
    for (std::uint32_t i = 1; i < size_; ++i) {
      const std::uint32_t other = sends ? (rank_ + i) % size_ : (rank_ + size_ - i) % size_;
      const Buffer& buffer = sends ? posted[at + other].sent : posted[at + other].received;
      if (buffer != nullptr) GRAFT_TRY(finish(other, *buffer, sends));
    }
    return {};
  }

  /// What goes and comes in this exchange.
  Status post(Posted& posted, const Parts& parts) {
    for (std::uint32_t i = 1; i < size_; ++i) {
      const std::uint32_t from = (rank_ + size_ - i) % size_;
      GRAFT_TRY(receive(posted, 0, from, &theirs_[from], sizeof(Header), header_tag()));
      const auto small = along(parts.count, parts.in_bytes, from, size_);
      for (std::size_t p = 0; p < parts.count; ++p) {
        const std::size_t at = p * size_ + from, bytes = parts.in_bytes[at];
        if (small[p] == 0) GRAFT_TRY(receive(posted, size_ + p * size_, from, parts.in[at], bytes, part_tag(p, bytes)));
      }
    }
    for (std::uint32_t i = 1; i < size_; ++i) {
      const std::uint32_t to = (rank_ + i) % size_;
      GRAFT_TRY(send(posted, 0, to, &mine_[to], sizeof(Header), header_tag()));
    }
    for (std::uint32_t i = 1; i < size_; ++i) {
      const std::uint32_t to = (rank_ + i) % size_;
      const auto small = along(parts.count, parts.out_bytes, to, size_);
      for (std::size_t p = 0; p < parts.count; ++p) {
        const std::size_t at = p * size_ + to, bytes = parts.out_bytes[at];
        if (small[p] == 0) GRAFT_TRY(send(posted, size_ + p * size_, to, parts.out[at], bytes, part_tag(p, bytes)));
      }
    }
    return {};
  }

  /// What this worker gives itself.
  void take_own(const Parts& parts) const {
    for (std::size_t at = rank_; at < parts.count * size_; at += size_) {
      if (parts.in_bytes[at] > 0) std::memcpy(parts.in[at], parts.out[at], parts.in_bytes[at]);
    }
  }

  Status try_exchange(const Parts& parts, Posted& posted) {
    mine_.resize(size_);
    theirs_.resize(size_);
    for (std::uint32_t r = 0; r < size_; ++r) {
      theirs_[r].leaves = 0;
      mine_[r].write(call_, parts, r, size_);
    }
    Status headers;
    const Status posts = on_loop([&] { headers = post(posted, parts); });
    if (!posts.ok()) headers = posts;
    if (headers.ok()) headers = finish(posted, 0, false);
    GRAFT_TRY(check_headers(parts, std::move(headers)));
    take_own(parts);
    for (std::uint32_t r = 0; r < size_; ++r) {
      if (r != rank_) theirs_[r].read(parts, r, size_);
    }
    for (std::size_t p = 1; p <= parts.count; ++p) GRAFT_TRY(finish(posted, p * size_, false));
    for (std::size_t p = 0; p <= parts.count; ++p) GRAFT_TRY(finish(posted, p * size_, true));
    return {};
  }

  Status check_headers(const Parts& parts, Status came) {
    // A worker that left has said why before it closed its connection; that counts for more than the closing.
    for (std::uint32_t r = 0; r < size_; ++r) {
      Header& header = theirs_[r];
      if (r == rank_ || header.leaves == 0) continue;
      header.words[sizeof header.words - 1] = '\0';
      if (header.why == GRAFT_OK) return error(Code::cancelled, "Worker ", r, " has ended its work.");
      return error(static_cast<Code>(header.why), "Worker ", r, " stopped: ", header.words);
    }
    GRAFT_TRY(std::move(came));
    for (std::uint32_t r = 0; r < size_; ++r) {
      GRAFT_TRY((r == rank_ ? mine_ : theirs_)[r].check(call_, parts, r, rank_, size_));
    }
    return {};
  }

  const std::unique_ptr<Rendezvous> rendezvous_;
  const std::chrono::milliseconds timeout_;
  const std::chrono::milliseconds silence_;  ///< 0: nobody listens
  std::uint32_t rank_ = 0;
  std::uint32_t size_ = 1;
  std::uint64_t call_ = 0;
  Clock::time_point last_;                       // that an exchange ended
  std::chrono::milliseconds longest_absence_{};  // between two: what a step takes the others, too
  Status broken_;
  std::shared_ptr<::gloo::Context> context_;
  std::unique_ptr<LoopThread> loop_;
  std::vector<Header> mine_, theirs_;  // of the exchange in progress
  std::mutex waiting_mutex_;
  ::gloo::transport::UnboundBuffer* waiting_ = nullptr;
  Clock::duration left_{};
  std::unique_ptr<Pulse> pulse_;
};

graft_status say(const Status& status, char* message, std::size_t bytes) {
  if (message != nullptr && bytes > 0) std::snprintf(message, bytes, "%s", status.message().c_str());
  return static_cast<graft_status>(status.code());
}

/// What `body` gives, told; nothing is thrown.
template <typename Body>
graft_status told(char* message, std::size_t bytes, const Body& body) {
  try {
    return say(body(), message, bytes);
  } catch (const std::exception&) {  // of memory that there is not
    if (message != nullptr && bytes > 0) std::snprintf(message, bytes, "The host ran out of memory.");
    return GRAFT_OUT_OF_MEMORY;
  }
}

graft_status exchange(void* user, std::size_t parts, const void* const* out, const std::size_t* out_bytes,
                      void* const* in, const std::size_t* in_bytes, std::uint64_t deadline_ms, char* message,
                      std::size_t bytes) {
  return told(message, bytes, [&] {
    return static_cast<GlooGroup*>(user)->exchange({parts, out, out_bytes, in, in_bytes}, deadline_ms);
  });
}

void leave(void* user, graft_status why, const char* message) {
  static_cast<void>(told(nullptr, 0, [&] {
    static_cast<GlooGroup*>(user)->leave(why, message);
    return Status();
  }));
}

graft_status reform(void* user, std::uint32_t* rank, std::uint32_t* size, char* message, std::size_t bytes) {
  auto* const group = static_cast<GlooGroup*>(user);
  const graft_status status = told(message, bytes, [&] { return group->reform(); });
  *rank = group->rank();
  *size = group->size();
  return status;
}

int waiting(void* user) {
  bool waits = false;
  static_cast<void>(told(nullptr, 0, [&] {
    waits = static_cast<GlooGroup*>(user)->somebody_waits();
    return Status();
  }));
  return waits ? 1 : 0;
}

Status join(const graft_gloo_options& options, graft_group& group) {
  constexpr std::uint32_t kMost = 1024;  // each is connected with each
  constexpr std::uint64_t kFiveMinutes = 300'000;
  constexpr std::size_t kFirst = offsetof(graft_gloo_options, insecure_network);  // of version 0.1
  if (options.struct_size < kFirst || options.address == nullptr) {
    return invalid("The options' struct_size and worker 0's address must be given.");
  }
  if (options.size == 0 || options.size > kMost || options.rank >= options.size) {
    return invalid("Worker ", options.rank, " of ", options.size,
                   ": the rank must be below the number of workers, "
                   "which is at most ",
                   kMost, ".");
  }
  const bool trusts_network = options.struct_size >= sizeof options && options.insecure_network != 0;
  const std::uint64_t wait =
      options.timeout_ms == 0 ? kFiveMinutes : std::min<std::uint64_t>(options.timeout_ms, 1ull << 40);
  const std::uint64_t silence = std::min<std::uint64_t>(options.silence_ms, 1ull << 40);
  GRAFT_TRY_ASSIGN(auto joined, GlooGroup::join({options.rank, options.size, options.address, options.port,
                                                 options.secret == nullptr ? "" : options.secret,
                                                 std::chrono::milliseconds(wait), trusts_network},
                                                std::chrono::milliseconds(silence)));
  const std::uint32_t rank = joined->rank(), size = joined->size();
  group = {sizeof group, rank, size, joined.release(), exchange, leave, reform, waiting, 0, 0, 0};
  return {};
}

}  // namespace
}  // namespace graft::gloo_group

extern "C" graft_status graft_gloo_join(const graft_gloo_options* options, graft_group* group, char* message,
                                        std::size_t message_bytes) {
  return graft::gloo_group::told(message, message_bytes, [&]() -> graft::Status {
    if (options == nullptr || group == nullptr) return graft::invalid("The options or the group are NULL.");
    return graft::gloo_group::join(*options, *group);
  });
}

extern "C" void graft_gloo_leave(graft_group* group) {
  if (group == nullptr) return;
  delete static_cast<graft::gloo_group::GlooGroup*>(group->user);
  group->user = nullptr;
}
