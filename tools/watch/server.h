// A web server for this machine's own browser. The only file that includes cpp-httplib is server.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tools/common/status.h"

namespace graft::cli {

struct Answer {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body = {};
};

/// Of a GET request: its path, and the value of a parameter of its query, "" if it is not there.
struct Question {
  std::string path;
  std::function<std::string(const char* name)> parameter;
};

/// Serves 127.0.0.1 until SIGINT or SIGTERM, then returns. `port` 0: a free one. `begins` gets the port once requests
/// are answered. `answer` runs on one thread at a time. Requests other than GET are refused, as are those whose Host is
/// another name than 127.0.0.1 or localhost: a foreign page may point its own name at this machine.
/// unsupported: this build has no server. io_error: the port is taken.
Status serve(std::uint16_t port, const std::function<void(std::uint16_t port)>& begins,
             const std::function<Answer(const Question&)>& answer);

}  // namespace graft::cli
