// Data sets by name, as the command line takes them.
//
//   idx:IMAGES,LABELS     two idx files; bytes become 0 to 1 (scale=S: each element times S instead)
//   csv:FILE              label=COLUMN (a name, or a number from 0; the last column otherwise), header=yes|no
//   npy:X.npy,Y.npy       the first axis counts samples; integers=yes: whole numbers of X stay so (token ids)
//   digits:               built in: count=N (10000, of the test split 2000), seed=N, split=train|test
//
// Options follow a '?', separated by '&'. All kinds take
//   skip=N, count=N       samples [skip, skip + count) of the data set alone
//   normalize=MEAN,STD    (x - MEAN) / STD after scaling; for C channels MEAN1,..,MEANC,STD1,..,STDC
// Files of idx and csv may be gzip-compressed.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/data_file.h"
#include "runtime/data/source.h"

namespace graft::data {

struct Spec {
  std::string kind;
  std::vector<std::string> arguments;  ///< what stands between ':' and '?', split at commas
  std::map<std::string, std::string, std::less<>> options;
};

Result<Spec> parse_spec(std::string_view text);
/// An option that is a whole number; nullopt where it is not given.
Result<std::optional<std::uint64_t>> whole_option(const Spec& spec, std::string_view name);
/// The samples that skip and count leave. Errors name the option, its value and its range.
Result<std::unique_ptr<Source>> part_of(std::unique_ptr<Source> source, const Spec& spec);

/// Opens what a SPEC names. Errors name the spec, the file or the option.
Result<std::unique_ptr<Source>> open_spec(std::string_view text, const FileOptions& files = {});

}  // namespace graft::data
