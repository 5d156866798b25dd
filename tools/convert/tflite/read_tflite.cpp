// The driver: tensors become inputs and initializers, operators nodes.
#include <algorithm>
#include <set>

#include "platform/base/text.h"
#include "tools/convert/tflite/tflite_context.h"
#include "tools/convert/tflite/tflite_options.h"
#include "tools/convert/tflite/tflite_variables.h"

namespace graft::convert {
namespace {

constexpr std::size_t kMaxOperators = 1 << 20;

const TfliteOp* find_op(tfl::BuiltinOperator code, std::string_view custom) {
  for (const TfliteOp* table : {kTfliteMaths, kTfliteMoves, kTfliteImages, kTfliteCustom, kTfliteDetection}) {
    for (const TfliteOp* entry = table; entry->translate != nullptr; ++entry) {
      if (entry->op == code && entry->custom == custom) return entry;
    }
  }
  return nullptr;
}

class Reader {
 public:
  Reader(const TfliteFile& file, const TfliteOptions& options) : file_(file), options_(options) {}

  Result<OnnxGraph> run() {
    out_.format = "tflite 3";
    out_.opsets[""] = 17;
    if (file_.model().description() != nullptr) out_.producer = shown(file_.model().description()->str());
    GRAFT_TRY(read_ends());
    GRAFT_TRY(read_operators());
    round_inputs();
    GRAFT_TRY(read_constants());
    tell_quantization();
    return std::move(out_);
  }

 private:
  Result<const TfliteTensor*> tensor_at(std::int32_t index, const char* what) const {
    if (index < 0 || static_cast<std::size_t>(index) >= file_.tensors().size()) {
      return corrupt("Its ", what, " is the tensor ", index, " of ", file_.tensors().size(), ".");
    }
    return &file_.tensors()[static_cast<std::size_t>(index)];
  }

  static OnnxValue value_of(const TfliteTensor& tensor) {
    OnnxValue value;
    value.name = tensor.name;
    value.tensor = value.has_shape = true;
    value.type = tensor.elem;
    for (const std::int64_t dim : tensor.open_dims) value.dims.push_back({dim, {}});
    return value;
  }

  Status read_ends() {
    const tfl::SubGraph& graph = file_.graph();
    for (const auto* list : {graph.inputs(), graph.outputs()}) {
      if (list == nullptr) continue;
      const bool in = list == graph.inputs();
      for (const std::int32_t index : *list) {
        GRAFT_TRY_ASSIGN(const TfliteTensor* tensor, tensor_at(index, in ? "input" : "output"));
        (in ? out_.inputs : out_.outputs).push_back(value_of(*tensor));
        ends_.insert(tensor);
      }
    }
    return {};
  }

  Status read_operators() {
    const auto* operators = file_.graph().operators();
    if (operators == nullptr) return {};
    if (operators->size() > kMaxOperators) return unsupported("It has ", operators->size(), " operators.");
    TfliteVariables variables(file_);
    for (const tfl::Operator* op : *operators) {
      GRAFT_TRY_ASSIGN(const tfl::BuiltinOperator code, file_.code(*op));
      const char* known = tfl::EnumNameBuiltinOperator(code);
      std::string name = known == nullptr || *known == '\0' ? cat("operator ", static_cast<int>(code)) : known;
      std::string custom;
      if (code == tfl::BuiltinOperator::CUSTOM) {
        custom = file_.custom_name(*op);
        name = cat("CUSTOM ", custom);
      }
      OpContext context(file_, *op, name, options_, out_);
      Status status = check_options(*op, code, file_.bytes());
      if (status.ok()) {
        status = TfliteVariables::handles(code) ? variables.take(code, *op, context)
                                                : translate(context, find_op(code, custom), code, name);
      }
      if (!status.ok()) context.set_refusal(status.message());
    }
    variables.finish(out_);
    return {};
  }

  static Status translate(OpContext& c, const TfliteOp* entry, tfl::BuiltinOperator code, const std::string& name) {
    GRAFT_TRY(c.check());
    if (entry == nullptr) {
      const bool control = code == tfl::BuiltinOperator::IF || code == tfl::BuiltinOperator::WHILE;
      return unsupported("the op ", name, control ? " is control flow, which is not supported" : " is not supported");
    }
    if (c.inputs() < entry->min_inputs || c.inputs() > entry->max_inputs) {
      return corrupt("it has ", c.inputs(), " inputs where ", entry->min_inputs, " to ", entry->max_inputs,
                     " are allowed");
    }
    for (std::size_t i = 0; i < entry->min_inputs; ++i) {
      if (!c.has(i)) return corrupt("its input ", i, " is missing");
    }
    GRAFT_TRY(entry->translate(c));
    return c.check();
  }

  /// Integer devices are given steps of the grid: whoever reads an input reads it rounded to them.
  void round_inputs() {
    if (!options_.keep_grid) return;
    for (const TfliteTensor* tensor : ends_) {
      const TfliteQuantization& q = tensor->quantization;
      const auto range = quantized_range(tensor->type);
      const bool is_input = std::ranges::any_of(out_.inputs, [&](const auto& v) { return v.name == tensor->name; });
      if (!is_input || !range || q.scale.size() != 1 || q.zero.empty() || q.scale[0] == 0) continue;
      const std::string base = cat(tensor->name, "/graft_grid");
      for (OnnxNode& node : out_.nodes) std::ranges::replace(node.inputs, tensor->name, cat(base, "_3"));
      std::size_t made = 0;
      const auto number = [&](float value) {
        std::string name = cat(base, "/number_", out_.initializers.size());
        out_.initializers.push_back({name, std::make_shared<HostTensor>(HostTensor::scalar(value)), {}, true});
        return name;
      };
      const auto add = [&](const char* op, std::vector<std::string> inputs) {
        OnnxNode& node = out_.nodes.emplace_back();
        node.op = op;
        node.inputs = std::move(inputs);
        node.outputs = {cat(base, "_", made++)};
        return node.outputs[0];
      };
      const std::string scale = number(q.scale[0]);
      const std::string steps = add("Round", {add("Div", {tensor->name, scale})});
      const std::string low = number(static_cast<float>(range->low - q.zero[0]));
      const std::string kept = add("Clip", {steps, low, number(static_cast<float>(range->high - q.zero[0]))});
      add("Mul", {kept, scale});
    }
  }

  /// Only what something reads: the rest of a file costs nothing.
  Status read_constants() {
    std::set<std::string_view> read, passed_on;
    for (const OnnxNode& node : out_.nodes) {
      read.insert(node.inputs.begin(), node.inputs.end());
      if (node.op == "Identity") passed_on.insert(node.inputs.begin(), node.inputs.end());
    }
    for (const OnnxValue& value : out_.outputs) read.insert(value.name);
    for (const TfliteTensor& tensor : file_.tensors()) {
      if (!read.contains(tensor.name)) continue;
      if (!tensor.error.empty() && tensor.constant) {
        out_.initializers.push_back({tensor.name, nullptr, tensor.error, false});
      } else if (tensor.constant) {
        auto contents = TfliteFile::contents(tensor);
        if (!contents.ok()) {
          out_.initializers.push_back({tensor.name, nullptr, contents.status().message(), false});
          continue;
        }
        // DEQUANTIZE, an Identity here, makes float32 of halves.
        if (contents->type == ElemType::f16 && passed_on.contains(tensor.name)) contents->type = ElemType::f32;
        out_.initializers.push_back({tensor.name, std::make_shared<HostTensor>(std::move(*contents)), {}, false});
        quantized_ += tensor.quantization.given();
      }
    }
    return {};
  }

  void tell_quantization() {
    std::size_t values = 0;
    for (const TfliteTensor& tensor : file_.tensors()) values += !tensor.constant && tensor.quantization.given();
    if (quantized_ == 0 && values == 0) return;
    out_.notes.push_back(cat("The file is quantized: ", quantized_, " of its constants were dequantized to float32",
                             values == 0 ? "."
                             : options_.keep_grid
                                 ? ", and each value is rounded to the file's grid, which no gradient passes."
                                 : ", and are trained so; values are floats, not rounded to the file's grid."));
    for (const TfliteTensor& tensor : file_.tensors()) {
      if (!ends_.contains(&tensor) || !tensor.quantization.given() || tensor.quantization.scale.size() != 1) continue;
      if (tensor.quantization.zero.empty()) continue;
      out_.notes.push_back(cat("\"", tensor.name, "\" is float32 here: ", tensor.quantization.scale[0], " * (q - ",
                               tensor.quantization.zero[0], ") of the file's ", tensor_type_name(tensor.type), " q."));
    }
  }

  const TfliteFile& file_;
  const TfliteOptions& options_;
  OnnxGraph out_;
  std::set<const TfliteTensor*> ends_;
  std::size_t quantized_ = 0;
};

}  // namespace

Result<OnnxGraph> read_tflite(std::span<const std::byte> bytes, const TfliteOptions& options) {
  GRAFT_TRY_ASSIGN(const TfliteFile file, TfliteFile::open(bytes));
  return Reader(file, options).run();
}

bool is_tflite(const std::string& path) { return path.ends_with(".tflite"); }

Result<Converted> convert_tflite(os::FileSystem& files, const std::string& path, const TfliteOptions& tflite,
                                 const ConvertOptions& options, Report* report) {
  GRAFT_TRY_ASSIGN(const HostBuffer bytes, os::read_file(files, path, kMaxTfliteBytes));
  const auto slash = path.find_last_of('/');
  auto graph = read_tflite(bytes.bytes(), tflite);
  if (!graph.ok()) return std::move(graph).status().with_context(cat("\"", path, "\" cannot be converted"));
  return convert_onnx(std::move(graph).value(), slash == std::string::npos ? path : path.substr(slash + 1), options,
                      report);
}

}  // namespace graft::convert
