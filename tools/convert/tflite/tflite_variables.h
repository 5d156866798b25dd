// Variables that TensorFlow Lite keeps from call to call (streaming models): inputs and outputs of the network.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "tools/convert/tflite/tflite_context.h"

namespace graft::convert {

/// VAR_HANDLE, READ_VARIABLE, ASSIGN_VARIABLE and CALL_ONCE, in the order of the file's operators. A variable that is
/// assigned becomes the input NAME, what the call before left, and the output NAME/next; one that keeps what CALL_ONCE
/// gave it is a constant.
class TfliteVariables {
 public:
  explicit TfliteVariables(const TfliteFile& file) : file_(file) {}

  static bool handles(tfl::BuiltinOperator code);
  /// Errors are the rest of a sentence about the operator.
  Status take(tfl::BuiltinOperator code, const tfl::Operator& op, OpContext& c);
  /// Adds inputs, constants, outputs and notes.
  void finish(OnnxGraph& graph);

 private:
  struct Variable {
    std::string input;    ///< its name in the graph
    std::string current;  ///< the value at this point of the file
    const TfliteTensor* like = nullptr;
    bool read = false, assigned = false;
    std::shared_ptr<HostTensor> initial;  ///< null: unknown
  };
  Result<Variable*> variable_at(const tfl::Operator& op, const std::map<std::int32_t, std::string>& names);
  Status initialize(const tfl::Operator& call);

  const TfliteFile& file_;
  std::map<std::int32_t, std::string> names_;  ///< by the tensor that is its handle
  std::map<std::string, Variable, std::less<>> variables_;
};

}  // namespace graft::convert
