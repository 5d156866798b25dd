// What numbers on the command line may be. CLI11 puts the flag's own name before each sentence.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/common/status.h"

namespace graft::cli {

/// A whole number from `least` to `most`, written in digits alone.
CLI::Validator whole(std::int64_t least, std::int64_t most = INT64_MAX);

/// Which of its ends a range has: both, the lower one, the upper one, none.
enum class Ends { closed, open_above, open_below, open };

/// A finite number in a range.
CLI::Validator number(double least, double most, Ends ends = Ends::closed);
/// Above 0, or 0 and above.
CLI::Validator positive();
CLI::Validator not_negative();
/// Turns a time such as 90, 90s, 15m, 1.5h or 2d into seconds.
CLI::Validator duration();

/// "0.5,1,2". An error names the flag.
Result<std::vector<double>> list_of_numbers(const std::string& text, const char* flag);

/// Flags that were given although they do nothing, because of what `why` says: the first of `names` is named.
/// Flags that the command does not have are passed over.
void refuse_idle(const CLI::App& app, bool idle, const std::vector<std::string>& names, const std::string& why);

}  // namespace graft::cli
