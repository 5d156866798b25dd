#include "tools/watch/server.h"

#ifdef GRAFT_HAVE_HTTPLIB

#include <httplib.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <mutex>
#include <thread>

namespace graft::cli {
namespace {

std::atomic<bool> g_ends{false};

void on_signal(int) { g_ends = true; }

// A signal that was ignored when the process began, as by nohup, stays so.
void end_at(int signal) {
  if (std::signal(signal, on_signal) == SIG_IGN) std::signal(signal, SIG_IGN);
}

void refuse(httplib::Response& response, int status, const char* sentence) {
  response.status = status;
  response.set_content(sentence, "text/plain; charset=utf-8");
}

bool is_own_host(const httplib::Request& request, std::uint16_t port) {
  if (request.get_header_value_count("Host") != 1) return false;
  const std::string host = request.get_header_value("Host"), end = cat(':', port);
  return host == "127.0.0.1" + end || host == "localhost" + end;
}

}  // namespace

Status serve(std::uint16_t port, const std::function<void(std::uint16_t port)>& begins,
             const std::function<Answer(const Question&)>& answer) {
  httplib::Server server;
  std::mutex one;
  server.new_task_queue = [] { return new httplib::ThreadPool(4); };
  // The body of a refused request is never read, so nothing may follow it on its connection.
  server.set_keep_alive_max_count(1);
  server.set_read_timeout(5);
  server.set_default_headers({{"X-Content-Type-Options", "nosniff"},
                              {"Cache-Control", "no-store"},
                              {"Cross-Origin-Resource-Policy", "same-origin"},
                              {"X-Frame-Options", "DENY"}});
  server.set_pre_routing_handler([&](const httplib::Request& request, httplib::Response& response) {
    if (!is_own_host(request, port)) {
      refuse(response, 403, "graft watch answers to 127.0.0.1 and localhost only.\n");
    } else if (request.method != "GET") {
      response.set_header("Allow", "GET");
      refuse(response, 405, "graft watch answers GET only.\n");
    } else {
      const std::scoped_lock lock(one);
      const Answer told = answer({request.path, [&](const char* name) { return request.get_param_value(name); }});
      response.status = told.status;
      response.set_content(told.body, told.type.c_str());
    }
    return httplib::Server::HandlerResponse::Handled;
  });
#ifdef _WIN32
  // SO_REUSEADDR would let two processes have one port there.
  server.set_socket_options([](socket_t) {});
#else
  // By default the library shares the port with other processes (SO_REUSEPORT).
  server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
#endif
  constexpr char kHost[] = "127.0.0.1";
  if (port != 0) {
    if (!server.bind_to_port(kHost, port)) {
      return error(Code::io_error, "Port ", port, " of 127.0.0.1 cannot be used: another process may have it.");
    }
  } else {
    const int free = server.bind_to_any_port(kHost);
    if (free <= 0) return error(Code::io_error, "127.0.0.1 has no free port.");
    port = static_cast<std::uint16_t>(free);
  }
  g_ends = false;
  end_at(SIGINT);
  end_at(SIGTERM);
  std::atomic<bool> listens{true};
  std::thread listener([&] {
    server.listen_after_bind();
    listens = false;
  });
  begins(port);
  while (!g_ends && listens) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  // A server that is stopped before it runs would never end.
  while (listens && !server.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  server.stop();
  listener.join();
  return g_ends ? ok_status() : error(Code::io_error, "The server on port ", port, " has ended.");
}

}  // namespace graft::cli

#else

namespace graft::cli {

Status serve(std::uint16_t, const std::function<void(std::uint16_t)>&, const std::function<Answer(const Question&)>&) {
  return unsupported(
      "This build of graft has no web server: it was made without cpp-httplib (libcpp-httplib-dev on Debian). "
      "graft report writes the same page to a file.");
}

}  // namespace graft::cli

#endif
