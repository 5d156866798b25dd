// ctest: slow
// ONNX's own backend cases: each is converted, run by the reference and on the device, and compared. A case either
// gives the expected numbers or names what is missing. The device, which compiles kernels for each, takes every fourth:
// GRAFT_CASES_DEVICE=all gives it all. GRAFT_CASES=<part of a name> runs some, and says more.
// GRAFT_ONNX_CASES=<folder> runs other cases of the same layout (CASE/model.onnx, CASE/test_data_set_*/input_*.pb and
// output_*.pb) and says of each whether it is right, refused or wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "runtime/passes/bind.h"
#include "runtime/session/session.h"
#include "tests/support/counted_rows.h"
#include "tests/support/files/tar.h"
#include "tests/support/gpu_device.h"
#include "tests/support/model_tensors.h"
#include "tests/support/paths.h"
#include "tests/support/run_graph.h"
#include "tools/convert/onnx/import/convert_onnx.h"

namespace graft::test::onnx_cases_test {
namespace {

using convert::HostTensor;

// ONNX's own runner compares with rtol 1e-3 and atol 1e-7. The reference computes in double, so atol holds as it is;
// the device computes in f32, where a sum of terms of size 1 to 100 is known to about 1e-5.
constexpr double kRelative = 1e-3;
constexpr double kReferenceAbsolute = 1e-7;
constexpr double kDeviceAbsolute = 1e-5;
constexpr std::size_t kPassing = 1114;  // of 1152, at least: a rule that refuses what it took is seen

/// Cases whose numbers neither PyTorch nor ONNX Runtime computes (docs/reference/conversion.md, "Types").
constexpr std::string_view kOtherwise[] = {"resize_downsample_scales_linear_align_corners"};

struct Case {
  std::string name;
  std::vector<std::byte> model;
  struct Set {
    std::vector<std::vector<std::byte>> inputs, outputs;
  };
  std::vector<Set> sets;
};

enum class Verdict { passed, unsupported, wrong };
struct Outcome {
  Verdict verdict = Verdict::passed;
  std::string why;
};

std::vector<Case> read_cases(const std::map<std::string, std::vector<std::byte>>& files) {
  std::vector<Case> cases;
  for (const auto& [path, bytes] : files) {
    if (!path.ends_with("/model.onnx")) continue;
    const std::string folder = path.substr(0, path.size() - std::string("model.onnx").size());
    Case c{folder.substr(0, folder.size() - 1), bytes, {}};
    for (std::size_t set = 0; set < 8; ++set) {
      Case::Set data;
      for (std::size_t i = 0; i < 64; ++i) {
        const auto in = files.find(cat(folder, "test_data_set_", set, "/input_", i, ".pb"));
        const auto out = files.find(cat(folder, "test_data_set_", set, "/output_", i, ".pb"));
        if (in != files.end()) data.inputs.push_back(in->second);
        if (out != files.end()) data.outputs.push_back(out->second);
      }
      if (!data.outputs.empty()) c.sets.push_back(std::move(data));
    }
    cases.push_back(std::move(c));
  }
  return cases;
}

bool close(double got, double expected, double absolute) {
  if (std::isnan(expected)) return std::isnan(got);
  if (std::isinf(expected)) return got == expected;
  return std::abs(got - expected) <= absolute + kRelative * std::abs(expected);
}

/// Empty where the tensors agree.
std::string difference(const RefTensor& got, const HostTensor& expected, double absolute) {
  if (got.dims != expected.dims) {
    return cat("shape ", Shape::of(got.dims).text(), " instead of ", expected.shape().text());
  }
  // What is expected was computed in f32 itself: sums that cancel are off by some units of the largest term.
  double largest = 0;
  for (std::size_t i = 0; i < got.data.size(); ++i) {
    if (std::isfinite(expected.number(i))) largest = std::max(largest, std::abs(expected.number(i)));
  }
  absolute = std::max(absolute, std::min(0x1p-23 * largest, kDeviceAbsolute));
  for (std::size_t i = 0; i < got.data.size(); ++i) {
    if (close(got.data[i], expected.number(i), absolute)) continue;
    return cat("element ", i, " of ", got.data.size(), " is ", got.data[i], " instead of ", expected.number(i));
  }
  return {};
}

/// The reason without what differs from case to case, so that reasons can be counted.
std::string summary(const convert::Report& report, const Status& status) {
  for (const auto& entry : report.entries) {
    if (entry.fate == convert::Report::Fate::unsupported) return cat(entry.op, ": ", entry.reason);
  }
  return report.problems.empty() ? status.message() : report.problems[0];
}

using Inputs = std::vector<std::pair<std::string, HostTensor>>;
using Lengths = std::map<std::string, std::int64_t, std::less<>>;

/// Values of inputs that shapes depend on are fixed, as many times as the converter asks for another.
Result<convert::Converted> convert_with(const convert::OnnxGraph& source, const std::string& name, const Inputs& inputs,
                                        const Lengths& lengths, const Bindings& sizes, std::set<std::string>& fixed,
                                        convert::Report& report) {
  convert::ConvertOptions options;
  options.lengths = lengths;
  options.bindings = sizes;
  while (true) {
    auto converted = convert::convert_onnx(source, name, options, &report);
    if (converted.ok() || report.fix_inputs.empty()) return converted;
    const std::size_t before = fixed.size();
    for (const auto& [input, value] : inputs) {
      for (const std::string& wanted : report.fix_inputs) {
        if (wanted != input) continue;
        fixed.insert(input);
        options.fixed_inputs[input] = value;
      }
    }
    if (fixed.size() == before) return converted;
  }
}

/// Sizes of the inputs, for what must know them at conversion (--bind).
Bindings sizes_of(const std::vector<convert::OnnxValue>& declared, const Inputs& inputs) {
  std::map<std::string, convert::OnnxValue> tensors;
  for (const convert::OnnxValue& value : declared) {
    tensors[value.name] = value;
    for (std::size_t i = 0; value.sequence && i < inputs.size(); ++i) {
      const convert::OnnxValue element = convert::sequence_element(value, i);
      tensors[element.name] = element;
    }
  }
  Bindings sizes;
  for (const auto& [name, tensor] : inputs) {
    const convert::OnnxValue& value = tensors[name];
    for (std::size_t axis = 0; axis < value.dims.size() && axis < tensor.dims.size(); ++axis) {
      const bool open = value.dims[axis].value < 0 || !value.dims[axis].symbol.empty();
      if (open) sizes[convert::dimension_symbol(value, axis)] = tensor.dims[axis];
    }
  }
  return sizes;
}

/// What the symbols of the inputs stand for in this data set.
Bindings bindings_of(const Graph& graph, const Inputs& inputs, const std::set<std::string>& fixed) {
  Bindings bindings;
  for (const auto& [name, tensor] : inputs) {
    const ValueId input = graph.find_value(name);
    if (!input.valid() || fixed.contains(name)) continue;
    const Shape& shape = graph.value(input).shape;
    for (std::size_t i = 0; i < shape.rank() && i < tensor.dims.size(); ++i) {
      if (!shape[i].is_constant()) bindings[shape[i].symbols()] = tensor.dims[i];
    }
  }
  return bindings;
}

/// types: the graph's values say what types the source has.
Outcome compare(const Graph& graph, const std::vector<CountedOutput>& counted, const RefTensors& got,
                const std::vector<HostTensor>& expected, double absolute, const char* where, bool types = false) {
  std::set<std::string> counts;  // outputs of graft's own
  for (const CountedOutput& one : counted) counts.insert(one.count);
  if (graph.outputs().size() != expected.size() + counts.size()) {
    return {Verdict::wrong, cat(where, " gave ", graph.outputs().size(), " outputs instead of ", expected.size())};
  }
  for (std::size_t k = 0; k < expected.size(); ++k) {
    const Value& value = graph.value(graph.outputs()[k].value);
    const auto found = got.find(value.name);
    if (found == got.end()) return {Verdict::wrong, cat(where, " gave no \"", value.name, "\"")};
    const auto dtype = convert::device_dtype(expected[k].type);
    const bool typed = value.source_type == convert::source_type(expected[k].type);
    if (!dtype.ok() || *dtype != value.dtype || (types && !typed)) {
      return {Verdict::wrong,
              cat("output ", k, " is ", dtype_name(value.dtype), " instead of ", convert::elem_name(expected[k].type))};
    }
    const RefTensor there = counted_output(graph, got, counted, graph.outputs()[k]);
    const std::string text = difference(there, expected[k], absolute);
    if (!text.empty()) return {Verdict::wrong, cat(where, ", output ", k, ": ", text)};
  }
  return {};
}

Outcome run_set(const convert::OnnxGraph& source, const std::string& name, const Case::Set& set, bool device) {
  Inputs inputs;
  std::vector<convert::OnnxValue> declared;
  Lengths lengths;
  std::set<std::string> initializers;
  for (const auto& initializer : source.initializers) initializers.insert(initializer.name);
  for (const auto& input : source.inputs) {
    if (!initializers.contains(input.name)) declared.push_back(input);
  }
  std::string unreadable;
  for (std::size_t i = 0; i < set.inputs.size() && i < declared.size(); ++i) {
    auto tensors = convert::parse_onnx_tensors(set.inputs[i], declared[i]);
    if (!tensors.ok()) {
      unreadable = tensors.status().message();
      continue;
    }
    const std::string& name_of = declared[i].name;
    if (!declared[i].tensor) lengths[name_of] = std::ssize(*tensors);
    for (std::size_t k = 0; k < tensors->size(); ++k) {
      inputs.emplace_back(declared[i].sequence ? cat(name_of, ".", k) : name_of, std::move((*tensors)[k]));
    }
  }
  std::set<std::string> fixed;
  convert::Report report;
  auto converted = convert_with(source, name, inputs, lengths, {}, fixed, report);
  if (!converted.ok()) {  // as somebody would who reads that a size must be bound
    fixed.clear();
    converted = convert_with(source, name, inputs, lengths, sizes_of(declared, inputs), fixed, report);
  }
  if (!converted.ok()) return {Verdict::unsupported, summary(report, converted.status())};
  // float64 that float32 cannot hold is refused.
  if (unreadable.find("beyond the range of float32") != std::string::npos) return {Verdict::unsupported, unreadable};
  if (!unreadable.empty()) return {Verdict::wrong, "an input converted that cannot be read: " + unreadable};

  std::vector<HostTensor> expected;
  for (std::size_t k = 0; k < set.outputs.size() && k < source.outputs.size(); ++k) {
    auto tensors = convert::parse_onnx_tensors(set.outputs[k], source.outputs[k]);
    if (!tensors.ok())
      return {Verdict::wrong, "an output converted that cannot be read: " + tensors.status().message()};
    std::move(tensors->begin(), tensors->end(), std::back_inserter(expected));
  }
  // Such a file's outputs are a training step's; graft drops nothing outside of training, and then by its own numbers.
  for (const std::string& note : converted->report.notes) {
    if (note.find("dropout in training mode") != std::string::npos ||
        note.find("graft's own generator") != std::string::npos) {
      return {Verdict::unsupported, "what is expected comes from another generator of random numbers"};
    }
  }
  const Bindings bindings = bindings_of(converted->model.graph, inputs, fixed);
  auto graph = graft::bind(converted->model.graph, bindings);
  if (!graph.ok()) return {Verdict::wrong, graph.status().message()};
  if (Status valid = validate(*graph); !valid.ok()) return {Verdict::wrong, valid.message()};
  RefTensors feeds = weights_of(converted->model);
  for (const auto& [input, tensor] : inputs) {
    if (graph->find_value(input).valid() && !fixed.contains(input)) feeds[input] = to_ref(tensor);
  }
  RefTensors computed = feeds;
  if (Status status = interpret(*graph, computed); !status.ok()) return {Verdict::wrong, status.message()};
  const auto counted = counted_outputs(converted->model);
  if (!counted.ok()) return {Verdict::wrong, counted.status().message()};
  Outcome outcome = compare(*graph, *counted, computed, expected, kReferenceAbsolute, "reference", true);
  if (outcome.verdict != Verdict::passed) return outcome;
  // What a session runs and hands out is another graph: after every pass, its outputs in the source's order of axes.
  auto session = request_graph(converted->model, bindings, {});
  if (!session.ok()) return {Verdict::wrong, session.status().message()};
  computed = feeds;
  if (Status status = interpret(*session, computed); !status.ok()) return {Verdict::wrong, status.message()};
  outcome =
      compare(*session, *counted, computed, expected, kReferenceAbsolute, "what a session hands out, by the reference");
  if (outcome.verdict != Verdict::passed || !device) return outcome;
  auto ran = run_on_device(*session, feeds);
  if (!ran.ok()) {
    return {ran.status().code() == Code::unsupported ? Verdict::unsupported : Verdict::wrong, ran.status().message()};
  }
  return compare(*session, *counted, *ran, expected, kDeviceAbsolute, "device");
}

Outcome run_case(const Case& c, bool device) {
  auto source = convert::parse_onnx(c.model);
  if (!source.ok()) return {Verdict::unsupported, source.status().message()};
  const bool otherwise = std::ranges::any_of(kOtherwise, [&](std::string_view name) { return c.name.ends_with(name); });
  for (const auto& set : c.sets) {
    Outcome outcome = run_set(*source, c.name, set, device);
    if (otherwise && outcome.verdict == Verdict::wrong) {
      outcome = {Verdict::unsupported, "ONNX Runtime and graft compute something else"};
    }
    if (outcome.verdict != Verdict::passed) return outcome;
  }
  return c.sets.empty() ? Outcome{Verdict::unsupported, "the case holds no data"} : Outcome{};
}

/// The files of cases in a folder, by their paths below it.
Result<std::map<std::string, std::vector<std::byte>>> read_folder(const std::filesystem::path& folder) {
  std::map<std::string, std::vector<std::byte>> files;
  std::error_code failure;
  std::filesystem::recursive_directory_iterator walk(folder, failure);
  if (failure)
    return error(Code::not_found, "The folder ", folder.string(), " cannot be read: ", failure.message(), ".");
  for (const auto& entry : walk) {
    const std::string extension = entry.path().extension().string();
    if (!entry.is_regular_file() || (extension != ".onnx" && extension != ".pb")) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const auto bytes = std::as_bytes(std::span(text));
    files[std::filesystem::relative(entry.path(), folder).generic_string()].assign(bytes.begin(), bytes.end());
  }
  return files;
}

TEST(OnnxConformance, CasesOfAFolder) {
  const char* folder = std::getenv("GRAFT_ONNX_CASES");
  if (folder == nullptr) GTEST_SKIP() << "GRAFT_ONNX_CASES names no folder.";
  auto files = read_folder(folder);
  ASSERT_TRUE(files.ok()) << files.status().message();
  const std::vector<Case> cases = read_cases(*files);
  ASSERT_FALSE(cases.empty()) << "There is no CASE/model.onnx below " << folder << ".";
  const bool device = std::getenv("GRAFT_CASES_REFERENCE") == nullptr && device_available().ok();
  std::map<Verdict, std::size_t> counts;
  for (const Case& c : cases) {
    const Outcome outcome = run_case(c, device);
    ++counts[outcome.verdict];
    const char* verdict = outcome.verdict == Verdict::passed        ? "right"
                          : outcome.verdict == Verdict::unsupported ? "refused"
                                                                    : "wrong";
    std::printf("%-8s %s%s%s\n", verdict, c.name.c_str(), outcome.why.empty() ? "" : ": ", outcome.why.c_str());
    std::fflush(stdout);  // the last line names the culprit of a crash
    EXPECT_NE(outcome.verdict, Verdict::wrong) << c.name << ": " << outcome.why;
    if (outcome.verdict == Verdict::unsupported) {
      EXPECT_FALSE(outcome.why.empty()) << c.name;
    }
  }
  std::printf("\n%zu right, %zu refused, %zu wrong of %zu\n", counts[Verdict::passed], counts[Verdict::unsupported],
              counts[Verdict::wrong], cases.size());
}

TEST(OnnxConformance, Cases) {
  if (std::getenv("GRAFT_ONNX_CASES") != nullptr) GTEST_SKIP() << "GRAFT_ONNX_CASES names other cases.";
  const std::string archive = test_data("onnx-conformance/cases.tar.gz");
  auto files = read_tar_gz(archive);
  if (!files.ok()) GTEST_SKIP() << files.status().message();
  const char* filter = std::getenv("GRAFT_CASES");
  const char* no_device = std::getenv("GRAFT_CASES_REFERENCE");
  const bool device = no_device == nullptr && device_available().ok();
  const std::size_t every = filter != nullptr || std::getenv("GRAFT_CASES_DEVICE") != nullptr ? 1 : 4;
  std::size_t at = 0;
  std::map<std::string, std::size_t> reasons;
  std::size_t passed = 0, unsupported_cases = 0;
  std::vector<std::string> wrong;
  for (const Case& c : read_cases(*files)) {
    if (filter != nullptr && c.name.find(filter) == std::string::npos) continue;
    const Outcome outcome = run_case(c, device && at++ % every == 0);
    if (filter != nullptr) {
      std::printf("%-12s %s  %s\n",
                  outcome.verdict == Verdict::passed        ? "passed"
                  : outcome.verdict == Verdict::unsupported ? "unsupported"
                                                            : "WRONG",
                  c.name.c_str(), outcome.why.c_str());
      std::fflush(stdout);  // the last line names the culprit of a crash
    }
    if (outcome.verdict == Verdict::passed) ++passed;
    if (outcome.verdict == Verdict::wrong) wrong.push_back(c.name + ": " + outcome.why);
    if (outcome.verdict != Verdict::unsupported) continue;
    ++unsupported_cases;
    ++reasons[outcome.why];
    EXPECT_FALSE(outcome.why.empty()) << c.name << " is unsupported without a reason.";
  }
  std::vector<std::pair<std::size_t, std::string>> table;
  for (const auto& [why, count] : reasons) table.emplace_back(count, why);
  std::sort(table.rbegin(), table.rend());
  std::printf("\nMissing, by reason:\n");
  for (const auto& [count, why] : table) std::printf("%5zu  %s\n", count, why.c_str());
  std::printf("\n%zu passed%s, %zu unsupported, %zu wrong\n", passed,
              !device      ? " (reference only)"
              : every == 1 ? ""
                           : " (every fourth on the device)",
              unsupported_cases, wrong.size());
  for (const std::string& text : wrong) ADD_FAILURE() << text;
  if (filter == nullptr) {
    EXPECT_GE(passed, kPassing);
  }
}

}  // namespace
}  // namespace graft::test::onnx_cases_test
