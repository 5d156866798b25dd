// What the openers of all kinds of data sets share: options, names and lists of a SPEC.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/spec.h"

namespace graft::data {

std::vector<std::string> split(std::string_view text, char separator);

/// Options that are taken out one by one, so that what is left was not understood.
class OptionReader {
 public:
  explicit OptionReader(const Spec& spec) : spec_(spec), left_(spec.options) {}

  std::optional<std::string> text(std::string_view name);
  Result<std::optional<std::uint64_t>> whole(std::string_view name);
  /// A whole number from least to most.
  Result<std::uint64_t> whole(std::string_view name, std::uint64_t absent, std::uint64_t least, std::uint64_t most);
  Result<std::vector<double>> numbers(std::string_view name);
  /// yes or no.
  Result<std::optional<bool>> flag(std::string_view name);
  /// An error where an option was not asked for.
  Status finish() const;

 private:
  const Spec& spec_;
  std::map<std::string, std::string, std::less<>> left_;
  std::vector<std::string> known_;
};

/// "NAME=VALUE"; `name` is empty where no '=' stands there.
struct NamedValue {
  std::string name;
  std::string value;
};
NamedValue named_value(std::string_view text, char separator = '=');

struct Opening {
  const Spec& spec;
  OptionReader& options;
  const FileOptions& files;
  const Hints& hints;
};
using OpenResult = Result<std::unique_ptr<Source>>;

Status expect_arguments(const Spec& spec, std::size_t count, std::string_view usage);

OpenResult open_idx_spec(const Opening& opening);
OpenResult open_npy_spec(const Opening& opening);
OpenResult open_csv_spec(const Opening& opening);
OpenResult open_digits_spec(const Opening& opening);
OpenResult open_folder_spec(const Opening& opening);
OpenResult open_wav_spec(const Opening& opening);
OpenResult open_ts_spec(const Opening& opening);

}  // namespace graft::data
