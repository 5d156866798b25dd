#include "platform/base/status.h"

#include <cstdarg>

namespace graft {

struct Status::Failure {
  Code code;
  std::string message;
};

Status::Status(Code code, std::string message) : failure_(new Failure{code, std::move(message)}) {
  GRAFT_DCHECK(code != Code::ok);
}

Status::Failure* Status::failed(Code code, std::uint64_t kinds, ...) {  // NOLINT(cert-dcl50-cpp)
  std::va_list parts;
  va_start(parts, kinds);
  Failure* const failure = new Failure{code, detail::cat_list(kinds, parts)};
  va_end(parts);
  return failure;
}

Status::Failure* Status::copied(const Failure* failure) { return failure == moved() ? moved() : new Failure(*failure); }

void Status::end() noexcept {
  if (owns()) delete failure_;
}

Code Status::failed_code() const { return owns() ? failure_->code : Code::internal; }

const std::string& Status::message() const {
  static const std::string none;
  return owns() ? failure_->message : none;
}

Status Status::with_context(const std::string& context) && {
  if (owns()) failure_->message = context + ": " + failure_->message;
  return std::move(*this);
}

void detail::no_value() { GRAFT_CHECK(!"a Result that failed has no value"); }
void detail::no_error() { GRAFT_CHECK(!"a Result without a value needs a Status that failed"); }

const char* code_name(Code code) {
  switch (code) {
    case Code::ok: return "ok";
    case Code::invalid_argument: return "invalid_argument";
    case Code::not_found: return "not_found";
    case Code::io_error: return "io_error";
    case Code::corrupt: return "corrupt";
    case Code::unsupported: return "unsupported";
    case Code::out_of_memory: return "out_of_memory";
    case Code::device_error: return "device_error";
    case Code::device_lost: return "device_lost";
    case Code::timeout: return "timeout";
    case Code::cancelled: return "cancelled";
    case Code::internal: return "internal";
  }
  return "unknown";
}

}  // namespace graft
