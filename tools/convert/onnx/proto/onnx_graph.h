// What graft reads of an ONNX file, free of protobuf types.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/convert/common/host_tensor.h"

namespace graft::convert {

struct OnnxGraph;

struct OnnxAttr {
  enum class Kind { number, integer, text, tensor, numbers, integers, texts, graph, other };
  Kind kind = Kind::other;
  double number = 0;
  std::int64_t integer = 0;
  std::string text;
  std::vector<float> numbers;
  std::vector<std::int64_t> integers;
  std::vector<std::string> texts;
  std::shared_ptr<const HostTensor> tensor;  ///< null where `tensor_error` says why
  std::string tensor_error;
  std::shared_ptr<const OnnxGraph> graph;  ///< a body of control flow; its nodes may read values of the graph around it
  std::string ref;                         ///< in a function: the attribute of the call that this one stands for
  mutable bool read = false;               ///< since OnnxAttrs::forget_reads()
};

/// A node's attributes. Lookups note what was read: a node with an attribute that nothing read is refused (unread.h),
/// so no rule can forget one.
class OnnxAttrs : public std::map<std::string, OnnxAttr, std::less<>> {
 public:
  using map::map;
  const_iterator find(std::string_view name) const {
    const auto found = map::find(name);
    if (found != end()) found->second.read = true;
    return found;
  }
  /// nullptr if the attribute is missing or of another kind, which then counts as not read.
  const OnnxAttr* of_kind(std::string_view name, OnnxAttr::Kind kind) const {
    const auto found = map::find(name);
    if (found == end() || found->second.kind != kind) return nullptr;
    found->second.read = true;
    return &found->second;
  }
  void forget_reads() const {
    for (const auto& [name, attr] : *this) attr.read = false;
  }
};

struct OnnxNode {
  std::string name;  ///< may be empty, need not be unique
  std::string op;
  std::string domain;  ///< "" is ONNX's own
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  OnnxAttrs attrs;
  std::string source_op;  ///< what another format calls it; empty: kind()
  std::string refusal;    ///< why the reader of that format could not say it in these terms; empty: it could

  /// As reports and messages name it.
  std::string shown_op() const { return source_op.empty() ? kind() : source_op; }
  /// The op, with its domain where that is not ONNX's own: "Conv", "com.microsoft.FusedMatMul".
  std::string kind() const { return domain.empty() ? op : domain + "." + op; }
  /// `node "conv1" (Conv)`, or the first output's name where the node has none.
  std::string label() const;
};

struct OnnxDim {
  std::int64_t value = -1;  ///< -1: unknown
  std::string symbol;       ///< dim_param, as it stands in the file
};

struct OnnxValue {
  std::string name;
  bool tensor = false;    ///< false: a sequence, map or optional
  bool sequence = false;  ///< of tensors, which the rest describes; an optional may be one of those
  bool optional = false;
  ElemType type = ElemType::undefined;
  bool has_shape = false;
  std::vector<OnnxDim> dims;
};

struct OnnxInitializer {
  std::string name;
  std::shared_ptr<const HostTensor> tensor;  ///< null where `error` says why
  std::string error;
  bool part_of_op = false;  ///< of another format's operator: a number of its definition, which nobody trains
};

/// A function of the model's own, which calls name by domain and op.
struct OnnxFunction {
  std::string name;
  std::string domain;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::vector<OnnxNode> nodes;
};

struct OnnxGraph {
  std::string format;              ///< "tflite 3" where it was read from another format; empty: ONNX
  std::vector<std::string> notes;  ///< what its reader has to say
  std::string name;
  std::string producer;
  std::int64_t ir_version = 0;
  std::map<std::string, std::int64_t> opsets;  ///< by domain
  std::vector<OnnxNode> nodes;
  std::vector<OnnxValue> inputs;
  std::vector<OnnxValue> outputs;
  std::vector<OnnxValue> intermediates;
  std::vector<OnnxInitializer> initializers;
  std::vector<OnnxFunction> functions;
  std::map<std::string, std::string> metadata;
};

/// A sentence fit for a terminal: names from files may hold control characters, invalid UTF-8 and megabytes.
/// The beginning and the end of long ones stay.
std::string printable(std::string text);
/// Text as one argument of a shell: between single quotes.
std::string quoted_argument(std::string_view text);

/// Limits that are checked before memory is taken.
/// The name of a parameter that a node keeps in its attribute.
std::string attribute_weight(const std::string& node, const std::vector<std::string>& outputs,
                             std::string_view attribute);

struct LoadLimits {
  std::uint64_t max_file_bytes = (std::uint64_t{2} << 30) - 1;  ///< protobuf itself ends there
  std::uint64_t max_tensor_bytes = std::uint64_t{16} << 30;     ///< all tensors together, external ones too
  /// False: of large float tensors only the sizes are checked; their HostTensor has no numbers.
  bool large_weights = true;
};

/// Reads an ONNX file and the external data beside it. External data must lie in the file's folder or below:
/// absolute paths, ".." and symbolic links that lead out are errors.
Result<OnnxGraph> load_onnx(const std::filesystem::path& path, const LoadLimits& limits = {});
/// The same from memory; without a folder external data is an error.
Result<OnnxGraph> parse_onnx(std::span<const std::byte> bytes, const std::filesystem::path& folder = {},
                             const LoadLimits& limits = {});
/// A serialized TensorProto, as in the test data of ONNX's own backend cases.
Result<HostTensor> parse_onnx_tensor(std::span<const std::byte> bytes);
/// The same of a value of any type: a tensor, those of a sequence, or nothing of an empty optional.
Result<std::vector<HostTensor>> parse_onnx_tensors(std::span<const std::byte> bytes, const OnnxValue& type);

}  // namespace graft::convert
