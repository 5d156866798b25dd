// The C++ API of conversion, over graft/convert.h; link libgraft_convert.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graft/base.hpp"
#include "graft/convert.h"
#include "graft/importance.hpp"

namespace graft {
inline namespace v0 {

/// As graft_open_axis.
struct OpenAxis {
  std::string symbol;
  std::string input;
  std::int64_t axis = 0;
};

/// As graft_convert_options. If `cancelled` or `progress` throws, convert() throws the same.
struct ConvertOptions {
  std::vector<Binding> bindings = {};        ///< sizes of named dimensions; the others stay open
  std::vector<std::string> constants = {};   ///< patterns ('*', '?') of float tensors that are not trained
  std::vector<std::string> parameters = {};  ///< of some that are, although they look like constants
  std::string quantize = {};                 ///< matrices of a language model become "q8_0", "q4_0", ...
  bool expand = false;                       ///< quantized matrices become f32, which can be trained
  std::string weights = {};                  ///< a .pth, .pt or safetensors file with an ONNX graph's weights
  std::vector<OpenAxis> opens = {};          ///< axes of size 1 that become named dimensions
  std::vector<std::pair<std::string, std::string>> contents = {};  ///< inputs and the .npy file of what each holds
  std::vector<std::pair<std::string, std::int64_t>> lengths = {};  ///< tensors of a sequence among the inputs
  bool train_buffers = false;                                      ///< grids, masks and tables are trained as well
  bool fake_quantize = false;              ///< a quantized TFLite file's values keep to its grid
  int (*cancelled)(void* user) = nullptr;  ///< asked now and then; not 0: the call ends with GRAFT_CANCELLED
  void* user = nullptr;
  int (*progress)(void* user, std::uint64_t done, std::uint64_t total) = nullptr;  ///< told how far it is; as above
  std::string imatrix = {};  ///< with `quantize`: an importance matrix, by which scales of blocks are searched
  std::vector<std::string> ignored_fields = {};  ///< of a language model's configuration
};

/// What became of every operator, and what can be trained: as a table and as JSON.
struct ConvertReport {
  std::string text;
  std::string json;
  std::string errors = {};           ///< graft_conversion_errors()
  std::string tokenizer_fault = {};  ///< graft_conversion_tokenizer_fault()
};

namespace detail {

/// The functions of ConvertOptions, called without letting an exception through.
struct ConvertCalls {
  static int cancelled(void* user) {
    const auto& of = *static_cast<const ConvertOptions*>(user);
    return Thrown::caught(nullptr, 1, [&] { return of.cancelled(of.user); });
  }
  static int progress(void* user, std::uint64_t done, std::uint64_t total) {
    const auto& of = *static_cast<const ConvertOptions*>(user);
    return Thrown::caught(nullptr, 1, [&] { return of.progress(of.user, done, total); });
  }
};

/// What a conversion came to; it is destroyed.
inline Status ended(graft_status code, graft_conversion* made, ConvertReport* report = nullptr) {
  const Handle<graft_conversion, graft_conversion_destroy> conversion(made);
  Thrown::rethrow(code, nullptr);
  if (report != nullptr && made != nullptr) {
    *report = {graft_conversion_report(made), graft_conversion_report_json(made), graft_conversion_errors(made),
               graft_conversion_tokenizer_fault(made)};
  }
  if (code == GRAFT_OK) return {};
  return Status(code, made == nullptr ? "There is no memory for the conversion." : graft_conversion_message(made));
}

/// What it made, in memory; it is destroyed.
inline Result<std::vector<std::byte>> bytes_of(graft_status code, graft_conversion* made) {
  const void* data = nullptr;
  std::size_t bytes = 0;
  if (code == GRAFT_OK) code = graft_conversion_bytes(made, &data, &bytes);
  std::vector<std::byte> out;
  if (code == GRAFT_OK) out.assign(static_cast<const std::byte*>(data), static_cast<const std::byte*>(data) + bytes);
  Status done = ended(code, made);
  if (!done.ok()) return done;
  return out;
}

}  // namespace detail

/// Converts an ONNX file, a TFLite file, a GGUF file or a Hugging Face folder and writes `output` atomically. `report`,
/// where given, is filled also for a model that does not convert.
inline Status convert(const std::string& path, const std::string& output, const ConvertOptions& options = {},
                      ConvertReport* report = nullptr) {
  const auto bindings = detail::raw_bindings(options.bindings);
  auto raw = detail::sized<graft_convert_options>();
  raw.bindings = bindings.data();
  raw.binding_count = bindings.size();
  const auto constants = detail::raw_names(options.constants), parameters = detail::raw_names(options.parameters);
  raw.constants = constants.data();
  raw.constant_count = constants.size();
  raw.parameters = parameters.data();
  raw.parameter_count = parameters.size();
  raw.quantize = detail::or_null(options.quantize);
  raw.expand = options.expand ? 1 : 0;
  raw.weights = detail::or_null(options.weights);
  std::vector<graft_open_axis> opens;
  for (const OpenAxis& open : options.opens) opens.push_back({open.symbol.c_str(), open.input.c_str(), open.axis});
  raw.opens = opens.data();
  raw.open_count = opens.size();
  std::vector<graft_input_contents> contents;
  for (const auto& [input, file] : options.contents) contents.push_back({input.c_str(), file.c_str()});
  raw.contents = contents.data();
  raw.content_count = contents.size();
  std::vector<graft_input_length> lengths;
  for (const auto& [input, count] : options.lengths) lengths.push_back({input.c_str(), count});
  raw.lengths = lengths.data();
  raw.length_count = lengths.size();
  raw.train_buffers = options.train_buffers ? 1 : 0;
  raw.fake_quantize = options.fake_quantize ? 1 : 0;
  raw.cancelled = options.cancelled == nullptr ? nullptr : detail::ConvertCalls::cancelled;
  raw.progress = options.progress == nullptr ? nullptr : detail::ConvertCalls::progress;
  raw.user = const_cast<ConvertOptions*>(&options);  // handed back as const
  raw.imatrix = detail::or_null(options.imatrix);
  const auto ignored = detail::raw_names(options.ignored_fields);
  raw.ignored_fields = ignored.data();
  raw.ignored_field_count = ignored.size();
  graft_conversion* made = nullptr;
  const graft_status code = graft_convert(path.c_str(), &raw, output.c_str(), &made);
  return detail::ended(code, made, report);
}

/// The adapters of a PEFT folder or a GGUF file, for the model `base`, become a .graft file. `any_base`: those of a
/// .graft file too, although it was made for other weights. `ignored_fields`: of adapter_config.json.
inline Status convert_adapter(const std::string& path, const std::string& base, const std::string& output,
                              bool any_base = false, const std::vector<std::string>& ignored_fields = {}) {
  auto options = detail::sized<graft_convert_adapter_options>();
  options.any_base = any_base ? 1 : 0;
  const auto ignored = detail::raw_names(ignored_fields);
  options.ignored_fields = ignored.data();
  options.ignored_field_count = ignored.size();
  graft_conversion* made = nullptr;
  const graft_status code = graft_convert_adapter_with(path.c_str(), base.c_str(), &options, output.c_str(), &made);
  return detail::ended(code, made);
}

/// The same as the bytes of that file, for Source::borrow() or Source::copy().
inline Result<std::vector<std::byte>> adapter_bytes(const std::string& path, const std::string& base,
                                                    bool any_base = false) {
  auto options = detail::sized<graft_convert_adapter_options>();
  options.any_base = any_base ? 1 : 0;
  graft_conversion* made = nullptr;
  const graft_status code = graft_convert_adapter_with(path.c_str(), base.c_str(), &options, nullptr, &made);
  return detail::bytes_of(code, made);
}

/// A tokenizer's file (tokenizer.json, tokenizer.model, a GGUF file, or a folder with one) as Tokenizer::of() takes it.
inline Result<std::vector<std::byte>> tokenizer_bytes(const std::string& path) {
  graft_conversion* made = nullptr;
  const graft_status code = graft_convert_tokenizer(path.c_str(), &made);
  return detail::bytes_of(code, made);
}

/// An untrained example network ("lenet", ...) as an ONNX file.
inline Status convert_example(const std::string& name, const std::string& output, std::uint64_t seed = 0) {
  graft_conversion* made = nullptr;
  const graft_status code = graft_convert_example(name.c_str(), seed, output.c_str(), &made);
  return detail::ended(code, made);
}

/// The names that it knows.
inline std::vector<std::string> example_networks() {
  std::vector<std::string> names;
  while (const char* name = graft_convert_example_name(names.size())) names.emplace_back(name);
  return names;
}

/// What ConvertOptions::quantize may be.
inline std::vector<std::string> quantize_names() {
  std::vector<std::string> names;
  while (const char* name = graft_convert_quantize_name(names.size())) names.emplace_back(name);
  return names;
}

/// What ExportOptions::format may be.
inline std::vector<std::string> export_formats() {
  std::vector<std::string> names;
  while (const char* name = graft_export_format_name(names.size())) names.emplace_back(name);
  return names;
}

/// What ExportOptions::dtype may be.
inline std::vector<std::string> export_dtypes() {
  std::vector<std::string> names;
  while (const char* name = graft_export_dtype_name(names.size())) names.emplace_back(name);
  return names;
}

/// The format that an output of this name gets where none is named.
inline std::string export_format_of(const std::string& output) { return graft_export_format_of(output.c_str()); }

/// As graft_export_options.
struct ExportOptions {
  std::string format = {};  ///< "gguf", "safetensors", "onnx", "tflite" or "folder"; empty: as the output's name ends
  std::string dtype = {};   ///< what matrices become: "f16", "q8_0", ...; empty: what they are
  std::string source = {};  ///< for "onnx" and "tflite": the file that the model was converted from
  bool allow_non_finite = false;
  std::string imatrix = {};  ///< for blocks of GGUF files: an importance matrix, by which scales are searched
};

/// A .graft file, of a model or of adapters, back to a format of other programs. `report`: the files, and notes.
inline Status export_model(const std::string& path, const std::string& output, const ExportOptions& options = {},
                           ConvertReport* report = nullptr) {
  auto raw = detail::sized<graft_export_options>();
  raw.format = detail::or_null(options.format);
  raw.dtype = detail::or_null(options.dtype);
  raw.source = detail::or_null(options.source);
  raw.allow_non_finite = options.allow_non_finite ? 1 : 0;
  raw.imatrix = detail::or_null(options.imatrix);
  graft_conversion* made = nullptr;
  const graft_status code = graft_export(path.c_str(), &raw, output.c_str(), &made);
  return detail::ended(code, made, report);
}

/// All tensors of a snapshot of a run's folder, optimizer state too, as a safetensors file. `snapshot`: its number or a
/// tag; empty: the one that training goes on from.
inline Status export_snapshot(const std::string& folder, const std::string& snapshot, const std::string& output,
                              ConvertReport* report = nullptr) {
  graft_conversion* made = nullptr;
  const graft_status code = graft_export_snapshot(folder.c_str(), detail::or_null(snapshot), output.c_str(), &made);
  return detail::ended(code, made, report);
}

/// Writes what Importance found out for the .graft file `path` as an importance matrix, for ExportOptions::imatrix and
/// llama.cpp. `datasets`: where the texts are from, which the file says.
inline Status write_imatrix(const std::string& path, const std::vector<ImportanceMatrix>& matrices,
                            const graft_importance_info& info, const std::string& output,
                            const std::vector<std::string>& datasets = {}) {
  std::vector<graft_importance_matrix> raw;
  for (const ImportanceMatrix& one : matrices) {
    raw.push_back({one.name.c_str(), one.sums.data(), one.sums.size(), one.tokens});
  }
  const auto names = detail::raw_names(datasets);
  auto options = detail::sized<graft_imatrix_options>();
  options.matrices = raw.data();
  options.matrix_count = raw.size();
  options.datasets = names.data();
  options.dataset_count = names.size();
  options.chunks = info.chunks;
  options.context = info.context;
  graft_conversion* made = nullptr;
  const graft_status code = graft_write_imatrix(path.c_str(), &options, output.c_str(), &made);
  return detail::ended(code, made);
}

}  // namespace v0
}  // namespace graft
