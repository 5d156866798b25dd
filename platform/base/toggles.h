// Named switches for experiments and debugging. The app parses one string once (from a flag or an environment
// variable of its choice) and passes the result down; nothing below it reads the environment.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "platform/base/status.h"

namespace graft {

/// A switch that exists, with the sentence that `--help` shows.
struct ToggleInfo {
  std::string_view name;  ///< lower case words joined by '-'
  std::string_view help;
};

class Toggles {
 public:
  /// Parses "fuse,no-recompute,tile=32": a bare name switches on, "no-" before it off, "=" gives a value.
  /// An unknown name is an error that lists the known ones; the last mention of a name wins.
  static Result<Toggles> parse(std::string_view text, std::span<const ToggleInfo> known);

  /// The switch's state, or `fallback` where the text did not mention it.
  bool enabled(std::string_view name, bool fallback = false) const;
  /// The text after "=", where one was given.
  std::optional<std::string_view> value(std::string_view name) const;

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace graft
