// The log sink: the embedder's callback. Libraries never print; without a sink a message is dropped.
#pragma once

#include <string_view>

#include "platform/base/text.h"

namespace graft {

enum class LogLevel : int { debug = 0, info = 1, warning = 2, error = 3 };

/// A callback and a threshold; plain data, copied freely. The callback may come from any thread of graft, must not
/// call back into graft, and `user` must outlive whatever the sink was given to.
struct LogSink {
  using Write = void (*)(void* user, LogLevel level, std::string_view message);

  Write write = nullptr;  ///< null drops everything
  void* user = nullptr;
  LogLevel threshold = LogLevel::info;  ///< less severe messages are not even formatted

  bool wants(LogLevel level) const { return write != nullptr && level >= threshold; }

  template <typename... Parts>
  void operator()(LogLevel level, const Parts&... parts) const {
    if (wants(level)) write(user, level, cat(parts...));
  }
};

}  // namespace graft
