// What the translation of one operator of a TensorFlow Lite file sees and makes.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tools/convert/onnx/proto/onnx_graph.h"
#include "tools/convert/tflite/convert_tflite.h"
#include "tools/convert/tflite/tflite_file.h"

namespace graft::convert {

OnnxAttr int_attr(std::int64_t value);
OnnxAttr ints_attr(Ints values);
OnnxAttr number_attr(double value);
OnnxAttr text_attr(std::string value);

class OpContext {
 public:
  OpContext(const TfliteFile& file, const tfl::Operator& op, std::string name, const TfliteOptions& options,
            OnnxGraph& out);

  const tfl::Operator& op;

  std::size_t inputs() const { return inputs_.size(); }
  std::size_t outputs() const { return outputs_.size(); }
  bool has(std::size_t i) const { return i < inputs_.size() && inputs_[i] != nullptr; }
  /// Requires has(i).
  const TfliteTensor& input(std::size_t i) const { return *inputs_[i]; }
  const TfliteTensor& output(std::size_t k) const { return *outputs_[k]; }
  std::string in(std::size_t i) const { return has(i) ? inputs_[i]->name : std::string(); }
  std::vector<std::string> all() const;
  std::int64_t rank(std::size_t i) const { return static_cast<std::int64_t>(input(i).dims.size()); }

  /// The integers of a constant input; refused where it is none.
  Result<Ints> ints(std::size_t i, const char* what) const;
  /// An axis as an index from the front.
  Result<std::int64_t> axis(std::int64_t axis, std::size_t input) const;

  /// Adds a node with one result, and gives that a name.
  std::string add(const char* op, std::vector<std::string> from, OnnxAttrs attrs = {}, const char* domain = "");
  std::vector<std::string> add_many(const char* op, std::vector<std::string> from, std::size_t count, OnnxAttrs attrs,
                                    const char* domain = "");
  std::string constant(HostTensor tensor);
  std::string constant(Ints values) { return constant(HostTensor::of_ints(std::move(values))); }
  std::string number(float value) { return constant(HostTensor::scalar(value)); }
  std::string activated(std::string value, tfl::Activation activation);

  /// Ends the operator: its output k is `value`, behind the activation.
  void out(std::size_t k, std::string value, tfl::Activation activation = tfl::Activation::NONE);

  Status check() const;  ///< the indices of its tensors
  void set_refusal(const std::string& why);

 private:
  std::string fresh();
  std::string on_grid(std::string value, const TfliteTensor& tensor);
  OnnxNode* maker(const std::string& value);

  const TfliteOptions& options_;
  OnnxGraph& graph_;
  std::string name_;  ///< the operator's own
  std::vector<const TfliteTensor*> inputs_, outputs_;
  std::size_t first_node_, made_ = 0;
  Status status_;
};

using Translate = Status (*)(OpContext&);
struct TfliteOp {
  tfl::BuiltinOperator op;
  std::size_t min_inputs, max_inputs;
  Translate translate;
  std::string_view custom = {};  ///< the name of an op that is none of the format's own
};
// Ended by a null translation.
extern const TfliteOp kTfliteMaths[], kTfliteMoves[], kTfliteImages[], kTfliteCustom[], kTfliteDetection[];

}  // namespace graft::convert
