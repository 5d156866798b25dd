// The trainability report: what becomes of every op of a source model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/convert/common/blocks.h"

namespace graft::convert {

struct Report {
  enum class Fate {
    converted,    ///< runs on the device
    folded,       ///< computed once, at conversion
    unused,       ///< no output of the model depends on it
    unsupported,  ///< `reason` says what is missing
    unchecked,    ///< it needs the result of an unsupported node whose shape is unknown
  };
  struct Entry {
    std::string node;  ///< the source's name; the first output's where it has none
    std::string op;    ///< with its domain where that is not ONNX's own
    Fate fate = Fate::converted;
    std::string reason;           ///< why there is no forward
    bool gradient = false;        ///< a gradient can flow through
    std::string gradient_reason;  ///< why not
    std::string precision;        ///< what differs from the source's arithmetic; may be empty
  };

  struct Constant {
    std::string name;
    std::uint64_t elements = 0;
    std::string reason;
  };

  struct Trained {
    std::string name;
    std::vector<std::int64_t> dims;  ///< the source's
  };

  std::string source;  ///< "lenet.onnx (ONNX opset 17, pytorch)"
  std::vector<Entry> entries;
  std::vector<std::string> problems;    ///< every reason why the model cannot be converted, one sentence each
  std::vector<std::string> notes;       ///< what a user should know all the same
  std::string tokenizer_fault;          ///< why a language model is without its tokenizer; empty for all others
  std::vector<std::string> fix_inputs;  ///< inputs whose values must be known at conversion (--fix)
  std::vector<Constant> constants;      ///< float tensors of the file that are not trained, and why
  std::vector<Trained> trained;         ///< the others; of ONNX and TFLite files
  std::vector<BlockError> blocks;       ///< matrices that became blocks, with the model's names
  std::size_t parameters = 0;           ///< trainable tensors
  std::uint64_t parameter_elements = 0;

  bool ok() const { return problems.empty(); }
  /// One table by op type, then problems and notes.
  std::string text() const;
  std::string json() const;
};

const char* fate_name(Report::Fate fate);

}  // namespace graft::convert
