// Data sets by name, as the command line takes them.
//
//   idx:IMAGES,LABELS     two idx files; bytes become 0 to 1 (scale=S: each element times S instead)
//   csv:FILE              label=COLUMN (a name, or a number from 0; the last column otherwise), header=yes|no,
//                         delimiter=CHARACTER (otherwise what the first row shows); or several
//                         inputs and targets by name: inputs=NAME:COLUMNS;.. and targets=NAME:COLUMNS;.., where COLUMNS
//                         are a,b,c or first..last; a column of text is its bytes, length=N of them, zeros behind
//                         (lengths=NAME: how many, as an input of its own)
//   npy:X.npy,Y.npy       the first axis counts samples; npy:IN=A.npy,IN=B.npy;OUT=Y.npy,OUT=Z.npy by name
//   digits:               built in: count=N (10000, of the test split 2000), seed=N, split=train|test
//
// Options follow a '?', separated by '&'. All kinds take
//   skip=N, count=N       samples [skip, skip + count) of the data set alone, as far as there are any
//   normalize=MEAN,STD    (x - MEAN) / STD after scaling; for C channels MEAN1,..,MEANC,STD1,..,STDC; of the first
//   input
// csv and npy also take
//   weight=COLUMN|W.npy   how much each sample counts for
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
  std::vector<std::string> sections;   ///< the same, split at semicolons
  std::map<std::string, std::string, std::less<>> options;
};

/// An input of the model that the data is for.
struct ModelInput {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> dims;  ///< of one sample, in the order of the model's source; -1: open
};
/// What is known of the model and decides what a data set leaves open; all of it may be left out.
struct Hints {
  std::vector<ModelInput> inputs;
  std::vector<std::string> classes;  ///< the classes that the model's outputs stand for, in their order
  bool augment = true;               ///< false: samples as they are, for evaluation
};

Result<Spec> parse_spec(std::string_view text);
/// An option that is a whole number; nullopt where it is not given.
Result<std::optional<std::uint64_t>> whole_option(const Spec& spec, std::string_view name);
/// The samples that skip and count leave. Errors name the option, its value and its range.
Result<std::unique_ptr<Source>> part_of(std::unique_ptr<Source> source, const Spec& spec);

/// Opens what a SPEC names. Errors name the spec, the file or the option.
Result<std::unique_ptr<Source>> open_spec(std::string_view text, const FileOptions& files = {},
                                          const Hints& hints = {});

}  // namespace graft::data
