#include "tools/convert/tflite/export_tflite.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "platform/base/half.h"
#include "runtime/core/narrow.h"
#include "platform/base/text.h"
#include "tools/convert/common/export_tensor.h"
#include "tools/convert/tflite/tflite_buffers.h"
#include "tools/convert/tflite/tflite_file.h"

namespace graft::convert {
namespace {

template <class T>
void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// Scales that hold all of `floats`; true where one had to grow.
bool widen(const TfliteTensor& tensor, const std::vector<float>& floats, TfliteQuantization& q) {
  const auto range = quantized_range(tensor.type);
  if (!range) return false;
  const TfliteSlices slices = slices_of(tensor);
  std::vector<double> low(slices.count, 0), high(slices.count, 0);
  for (std::size_t i = 0; i < floats.size(); ++i) {
    const std::size_t k = slices.of(i);
    low[k] = std::min<double>(low[k], floats[i]);
    high[k] = std::max<double>(high[k], floats[i]);
  }
  bool grown = false;
  for (std::size_t k = 0; k < slices.count; ++k) {
    const double scale = q.scale[k];
    // Half a step more still rounds into the range.
    const double least = (static_cast<double>(range->low - q.zero[k]) - 0.5) * scale;
    const double most = (static_cast<double>(range->high - q.zero[k]) + 0.5) * scale;
    if (low[k] >= least && high[k] <= most) continue;
    grown = true;
    if (q.zero[k] == 0 && range->low < 0) {
      q.scale[k] = static_cast<float>(std::max(-low[k], high[k]) / static_cast<double>(range->high));
    } else {
      q.scale[k] = static_cast<float>((high[k] - low[k]) / static_cast<double>(range->high - range->low));
      q.zero[k] = range->low + std::llround(-low[k] / static_cast<double>(q.scale[k]));
    }
  }
  return grown;
}

std::int64_t quantized(float value, float scale, std::int64_t zero, std::int64_t low, std::int64_t high) {
  if (scale == 0) return std::clamp(zero, low, high);
  const double steps = std::round(static_cast<double>(value) / static_cast<double>(scale));
  return std::clamp(static_cast<std::int64_t>(std::clamp(steps, -9e15, 9e15)) + zero, low, high);
}

/// The numbers as the tensor keeps them.
Result<std::string> bytes_of(const TfliteTensor& tensor, const std::vector<float>& floats,
                             const TfliteQuantization& q) {
  if (tensor.type == tfl::TensorType::FLOAT16) GRAFT_TRY(check_narrowing(tensor.name, floats, DType::f16));
  std::string out;
  const TfliteSlices slices = slices_of(tensor);
  const auto range =
      quantized_range(tensor.type)
          .value_or(TfliteRange{std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()});
  for (std::size_t i = 0; i < floats.size(); ++i) {
    const std::size_t k = slices.of(i);
    const std::int64_t n = q.given() ? quantized(floats[i], q.scale[k], q.zero[k], range.low, range.high) : 0;
    switch (tensor.type) {
      case tfl::TensorType::FLOAT32: append(out, floats[i]); break;
      case tfl::TensorType::FLOAT16: append(out, float_to_half(floats[i])); break;
      case tfl::TensorType::FLOAT64: append(out, static_cast<double>(floats[i])); break;
      case tfl::TensorType::INT8:
      case tfl::TensorType::UINT8: append(out, static_cast<std::uint8_t>(n)); break;
      case tfl::TensorType::INT16: append(out, static_cast<std::int16_t>(n)); break;
      case tfl::TensorType::INT32: append(out, static_cast<std::int32_t>(n)); break;
      case tfl::TensorType::INT64: append(out, n); break;
      case tfl::TensorType::INT4:
        if (i % 2 == 0)
          out.push_back(static_cast<char>(n & 15));
        else
          out.back() = static_cast<char>(out.back() | (n & 15) << 4);
        break;
      default: return unsupported("It is ", tensor_type_name(tensor.type), " in the file.");
    }
  }
  return out;
}

class Patcher {
 public:
  /// `out` is a copy of the bytes, from `base` on, that the file is of.
  Patcher(const TfliteFile& file, const std::byte* base, std::string& out) : file_(file), out_(out), base_(base) {
    for (std::size_t i = 0; i < file.tensors().size(); ++i) index_.emplace(file.tensors()[i].name, i);
  }

  Status take(const Value& value, std::span<const std::byte> contents, ExportReport& report) {
    const auto found = index_.find(value.name);
    if (found == index_.end()) {
      return error(Code::not_found, "The parameter \"", value.name, "\" is no tensor of the file.");
    }
    const TfliteTensor& tensor = file_.tensors()[found->second];
    ExportTensor source = export_tensor(value, contents);
    if (tensor.dims != source.dims() || !tensor.constant) {
      return corrupt("The tensor \"", value.name, "\" is ", Shape::of(tensor.dims).text(), " in the file and ",
                     Shape::of(source.dims()).text(), " in the model.");
    }
    if (tensor.dense != nullptr) {
      return unsupported("The tensor \"", value.name,
                         "\" is sparse in the file: its new weights are not written there.");
    }
    source.dtype = DType::f32;
    GRAFT_TRY_ASSIGN(const ExportBytes made, export_bytes(source));
    Changed& changed = changed_[found->second];
    changed.floats.resize(made.bytes.size() / sizeof(float));
    std::memcpy(changed.floats.data(), made.bytes.data(), made.bytes.size());
    changed.quantization = tensor.quantization;
    changed.grown = widen(tensor, changed.floats, changed.quantization);
    ++report.tensors;
    report.bytes += tensor.data.size();
    return {};
  }

  /// Each tensor gets its numbers; one whose buffer others share, which keep theirs, gets a buffer of its own.
  Status write(ExportReport& report) {
    GRAFT_TRY(scale_biases());
    std::map<std::size_t, std::string> made;
    std::size_t grown = 0;
    for (const auto& [index, changed] : changed_) {
      const TfliteTensor& tensor = file_.tensors()[index];
      const auto context = cat("The tensor \"", tensor.name, "\"");
      GRAFT_TRY_ASSIGN(made[index], bytes_of(tensor, changed.floats, changed.quantization).with_context(context));
      if (changed.grown) GRAFT_TRY(write_scales(index, changed.quantization).with_context(context));
      grown += changed.grown;
    }
    std::vector<std::string> added;
    std::map<std::pair<std::uint32_t, std::string_view>, std::uint32_t> own;  // by old buffer and contents
    const auto buffers = static_cast<std::uint32_t>(file_.model().buffers()->size());
    for (const auto& [index, bytes] : made) {
      const TfliteTensor& tensor = file_.tensors()[index];
      if (is_shared(index, made)) {
        const auto [found, is_new] =
            own.try_emplace({tensor.buffer, bytes}, buffers + static_cast<std::uint32_t>(added.size()));
        if (is_new) added.push_back(bytes);
        std::memcpy(place(buffer_number(index)), &found->second, sizeof found->second);
      } else {
        std::memcpy(place(tensor.data.data()), bytes.data(), bytes.size());
      }
    }
    if (!added.empty()) {
      GRAFT_TRY_ASSIGN(out_, with_buffers(out_, added));
      report.notes.push_back(cat(added.size(), " buffers were added for tensors that shared theirs with others."));
    }
    if (grown > 0) report.notes.push_back(cat("The scales of ", grown, " tensors grew with their numbers."));
    return check_written(made);
  }

 private:
  struct Changed {
    std::vector<float> floats;
    TfliteQuantization quantization;
    bool grown = false;
  };

  /// Whether a tensor of any graph that names the same buffer wants other bytes there.
  bool is_shared(std::size_t index, const std::map<std::size_t, std::string>& made) const {
    const TfliteTensor& tensor = file_.tensors()[index];
    const std::string& bytes = made.at(index);
    if (std::memcmp(tensor.data.data(), bytes.data(), bytes.size()) == 0) return false;
    for (const tfl::SubGraph* graph : *file_.model().subgraphs()) {
      if (graph->tensors() == nullptr) continue;
      for (std::uint32_t i = 0; i < graph->tensors()->size(); ++i) {
        if (graph->tensors()->Get(i)->buffer() != tensor.buffer) continue;
        const auto other = graph == &file_.graph() ? made.find(i) : made.end();
        if (other == made.end() || other->second != bytes) return true;
      }
    }
    return false;
  }

  const void* buffer_number(std::size_t index) const {
    const tfl::Tensor* tensor = file_.graph().tensors()->Get(static_cast<flatbuffers::uoffset_t>(index));
    return reinterpret_cast<const flatbuffers::Table*>(tensor)->GetAddressOf(tfl::Tensor::VT_BUFFER);
  }

  /// What was written, read again: no tensor has changed that was not to, whatever the file's tables share.
  Status check_written(const std::map<std::size_t, std::string>& made) const {
    GRAFT_TRY_ASSIGN(const TfliteFile written, TfliteFile::open(std::as_bytes(std::span(out_))));
    for (std::size_t i = 0; i < written.tensors().size(); ++i) {
      const TfliteTensor &before = file_.tensors()[i], &now = written.tensors()[i];
      const auto bytes = made.find(i);
      const auto changed = changed_.find(i);
      const TfliteQuantization& wanted = changed == changed_.end() ? before.quantization : changed->second.quantization;
      const bool same = bytes == made.end() ? std::ranges::equal(now.data, before.data)
                                            : std::ranges::equal(now.data, bytes->second, {}, {}, as_byte);
      if (same && now.quantization.scale == wanted.scale && now.quantization.zero == wanted.zero) continue;
      return unsupported("The tensor \"", before.name,
                         "\" shares bytes or scales with another one in the file, and they differ now.");
    }
    return ok_status();
  }
  static std::uint8_t as_byte(char c) { return static_cast<std::uint8_t>(c); }

  char* place(const void* in_file) { return out_.data() + (static_cast<const std::byte*>(in_file) - base_); }

  /// An integer bias counts in steps of its input's scale times its weight's.
  Status scale_biases() {
    if (file_.graph().operators() == nullptr) return {};
    for (const tfl::Operator* op : *file_.graph().operators()) {
      GRAFT_TRY_ASSIGN(const tfl::BuiltinOperator code, file_.code(*op));
      const bool back = code == tfl::BuiltinOperator::TRANSPOSE_CONV;
      const bool has_bias = back || code == tfl::BuiltinOperator::CONV_2D ||
                            code == tfl::BuiltinOperator::DEPTHWISE_CONV_2D ||
                            code == tfl::BuiltinOperator::FULLY_CONNECTED;
      const auto at = [&](std::uint32_t i) -> std::size_t {
        const auto* in = op->inputs();
        if (in == nullptr || i >= in->size() || in->Get(i) < 0) return file_.tensors().size();
        return static_cast<std::size_t>(in->Get(i));
      };
      const std::size_t input = at(back ? 2 : 0), weight = at(1), bias = at(back ? 3 : 2);
      const auto weight_changed = changed_.find(weight), bias_changed = changed_.find(bias);
      if (!has_bias || bias >= file_.tensors().size() || input >= file_.tensors().size()) continue;
      if (weight_changed == changed_.end() || !weight_changed->second.grown) continue;
      const TfliteTensor& from = file_.tensors()[input];
      if (!file_.tensors()[bias].quantization.given() || from.quantization.scale.size() != 1) continue;
      if (bias_changed == changed_.end()) {
        return unsupported("The weight \"", file_.tensors()[weight].name,
                           "\" needs a larger scale, and its bias is not trained.");
      }
      TfliteQuantization& q = bias_changed->second.quantization;
      const std::vector<float>& scales = weight_changed->second.quantization.scale;
      for (std::size_t k = 0; k < q.scale.size(); ++k) {
        q.scale[k] = from.quantization.scale[0] * scales[scales.size() == 1 ? 0 : std::min(k, scales.size() - 1)];
      }
      bias_changed->second.grown = true;
    }
    return {};
  }

  Status write_scales(std::size_t index, const TfliteQuantization& q) {
    const tfl::QuantizationParameters* in_file =
        file_.graph().tensors()->Get(static_cast<flatbuffers::uoffset_t>(index))->quantization();
    std::memcpy(place(in_file->scale()->Data()), q.scale.data(), q.scale.size() * sizeof(float));
    const TfliteQuantization& before = file_.tensors()[index].quantization;
    if (q.zero == before.zero) return {};
    if (in_file->zero_point() == nullptr || in_file->zero_point()->size() != q.zero.size()) {
      return unsupported("It needs zero points, and the file has no place for them.");
    }
    std::memcpy(place(in_file->zero_point()->Data()), q.zero.data(), q.zero.size() * sizeof(std::int64_t));
    return {};
  }

  const TfliteFile& file_;
  std::string& out_;
  const std::byte* base_;
  std::map<std::string_view, std::size_t> index_;
  std::map<std::size_t, Changed> changed_;
};

}  // namespace

Result<ExportReport> export_tflite(os::FileSystem& files, const std::string& path, const Model& model,
                                   const std::string& source) {
  GRAFT_TRY_ASSIGN(const HostBuffer bytes, os::read_file(files, source, kMaxTfliteBytes));
  auto file = TfliteFile::open(bytes.bytes());
  if (!file.ok()) return std::move(file).status().with_context(source);
  std::string out(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  Patcher patcher(*file, bytes.bytes().data(), out);
  ExportReport report;
  for (std::uint32_t i = 0; i < model.graph.values().size(); ++i) {
    const Value& value = model.graph.values()[i];
    const auto contents = model.weight({i});
    if (!contents || (value.kind != ValueKind::parameter && value.kind != ValueKind::state)) continue;
    GRAFT_TRY(patcher.take(value, *contents, report).with_context(source));
  }
  GRAFT_TRY(patcher.write(report).with_context(source));
  report.files = {path};
  GRAFT_TRY(os::atomic_write_file(files, path, out));
  return report;
}

}  // namespace graft::convert
