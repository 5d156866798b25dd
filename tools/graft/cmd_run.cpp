// graft run and graft grad: a model on .npy files, forward or differentiated.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>

#include "runtime/data/npy.h"
#include "runtime/passes/precision.h"
#include "runtime/session/data_hints.h"
#include "runtime/session/session.h"
#include "runtime/session/split_gradients.h"
#include "tools/bench/device.h"
#include "tools/bench/model_io.h"
#include "tools/common/numbers.h"
#include "tools/common/options.h"
#include "tools/graft/adapted_model.h"
#include "tools/graft/output.h"
#include "tools/graft/trace.h"

namespace graft::cli {
namespace {

struct RunArguments {
  DeviceFlags flags;
  std::string path;
  AdapterFlags adapter;
  bool check = false;
  std::vector<std::string> inputs;
  std::vector<std::string> bind;
  std::string folder;
  std::string of;
  std::string cotangent;
  std::string wrt;
  bool train_mode = false;
  std::string profile;
  std::string budget;
  std::int64_t micro_batch = 0;
  bool per_sample = false;
  std::string precision = "f32";
  bool allow_non_finite = false;
  std::vector<std::string> fetch;
  std::vector<std::string> bytes;  ///< inputs that the device makes of bytes

  bool splits() const { return !budget.empty() || micro_batch != 0 || per_sample; }
};

using Arrays = SampleArrays;

Result<Arrays> read_inputs(const RunArguments& options) {
  Arrays arrays;
  for (const std::string& item : options.inputs) {
    TRY_ASSIGN(const auto pair, parse_assignment(item, "--input"));
    TRY_ASSIGN(auto array, data::read_npy(os::system_files(), pair.second));
    if (!arrays.emplace(pair.first, std::move(array)).second) {
      return invalid("--input gives \"", pair.first, "\" twice.");
    }
  }
  return arrays;
}

/// "0.5/1/2".
Result<std::vector<float>> parse_numbers(const std::string& text) {
  std::vector<float> numbers;
  for (const std::string& part : split_text(text, '/')) {
    float value = 0;
    const auto [end, failure] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (failure != std::errc() || end != part.data() + part.size()) {
      return invalid("--bytes takes numbers with slashes between; \"", part, "\" is none.");
    }
    numbers.push_back(value);
  }
  return numbers;
}

/// "image:scale=0.0039,offset=-0.5,layout=nhwc".
Result<passes::PackedInput> parse_bytes(const std::string& text) {
  const std::size_t colon = text.find(':');
  passes::PackedInput input{text.substr(0, colon), passes::Packed::u8, false, {}, {}};
  for (const std::string& item : split_list(colon == std::string::npos ? "" : text.substr(colon + 1))) {
    TRY_ASSIGN(const auto pair, parse_assignment(item, "--bytes NAME:"));
    if (pair.first == "scale" || pair.first == "offset") {
      TRY_ASSIGN((pair.first == "scale" ? input.scale : input.offset), parse_numbers(pair.second));
    } else if (pair.first == "layout" && (pair.second == "nhwc" || pair.second == "nchw")) {
      input.channels_last = pair.second == "nhwc";
    } else {
      return invalid("--bytes knows scale, offset and layout=nhwc or nchw, not \"", item, "\".");
    }
  }
  return input;
}

/// The file's integers as bytes, with the shape that the model takes.
Status pack(const passes::PackedInput& input, Arrays& arrays) {
  const auto found = arrays.find(input.name);
  if (found == arrays.end()) return invalid("--bytes names \"", input.name, "\", which --input does not give.");
  data::Array& array = found->second;
  const std::uint64_t count = array.shape.elements();
  if (array.dtype != DType::i32) return invalid("The file of \"", input.name, "\" holds no bytes.");
  TRY_ASSIGN(HostBuffer bytes, HostBuffer::create(count, "bytes of an input"));
  for (std::uint64_t i = 0; i < count; ++i) {
    std::int32_t number = 0;
    std::memcpy(&number, array.buffer.data() + i * sizeof number, sizeof number);
    if (number < 0 || number > 255) {
      return invalid("The file of \"", input.name, "\" holds ", number, ", which is no byte.");
    }
    bytes.data()[i] = static_cast<std::byte>(number);
  }
  array.buffer = std::move(bytes);
  array.dtype = DType::f32;  // what the model gets
  if (!input.channels_last || array.shape.rank() < 3) return ok_status();
  std::vector<Dim> dims(array.shape.begin(), array.shape.end());
  std::rotate(dims.begin() + 1, dims.end() - 1, dims.end());
  array.shape = Shape(std::move(dims));
  return ok_status();
}

/// Whether a node or an output needs it.
bool is_read(const Graph& graph, ValueId id) {
  const auto reads = [&](const Node& node) { return std::ranges::find(node.inputs, id) != node.inputs.end(); };
  return std::ranges::any_of(graph.nodes(), reads) ||
         std::ranges::any_of(graph.outputs(), [&](const Output& output) { return output.value == id; });
}

// Named dimensions follow from the files' shapes; --bind may say the same or more.
Status bind_from_inputs(const Model& model, const Arrays& arrays, Bindings& bindings) {
  std::string inputs;
  for (const ValueId id : model.graph.inputs()) inputs += cat(inputs.empty() ? "" : ", ", model.graph.value(id).name);
  for (const auto& [name, array] : arrays) {
    const ValueId id = model.graph.find_value(name);
    if (id.valid() && model.graph.value(id).kind == ValueKind::input) continue;
    return invalid("The model has no input \"", name, "\"; its inputs are: ", inputs, ".");
  }
  for (const ValueId id : model.graph.inputs()) {
    const Value& value = model.graph.value(id);
    const auto found = arrays.find(value.name);
    if (found == arrays.end() && !is_read(model.graph, id)) continue;
    if (found == arrays.end())
      return invalid("The input \"", value.name, "\" is missing; give --input ", value.name, "=FILE.npy.");
    const Shape& given = found->second.shape;
    if (given.rank() != value.shape.rank()) {
      return invalid("The input \"", value.name, "\" has the shape ", value.shape.text(), "; the file has ",
                     given.text(), ".");
    }
    for (std::size_t axis = 0; axis < given.rank(); ++axis) {
      const Dim& dim = value.shape[axis];
      if (!dim.is_symbol()) continue;
      const auto [at, fresh] = bindings.emplace(dim.symbols(), given[axis].value());
      if (!fresh && at->second != given[axis].value()) {
        return invalid("The dimension \"", dim.symbols(), "\" is ", at->second, ", but the file of \"", value.name,
                       "\" has the shape ", given.text(), ".");
      }
    }
  }
  return ok_status();
}

/// What is no input of the plan, since nothing reads it, is left alone.
Status feed(Session& session, const std::string& name, const data::Array& array) {
  for (const PlanPort& port : session.plan().inputs) {
    if (port.name != name) continue;
    if (port.dtype != array.dtype || port.shape != array.shape) {
      return invalid("The input \"", name, "\" takes ", dtype_name(port.dtype), port.shape.text(), "; the file has ",
                     dtype_name(array.dtype), array.shape.text(), ".");
    }
    return session.set_input(name, array.buffer.bytes());
  }
  return ok_status();
}

Status write_array(const std::string& folder, const std::string& name, DType dtype, const Shape& shape,
                   std::span<const std::byte> bytes, SourceType type = SourceType::same) {
  const std::string path = folder + "/" + npy_file_name(name);
  TRY(data::write_npy_as(os::system_files(), path, type, dtype, shape, bytes));
  const std::string_view element = type == SourceType::same ? dtype_name(dtype) : source_type_info(type).name;
  std::printf("%s  %s%s\n", path.c_str(), std::string(element).c_str(), shape.text().c_str());
  return ok_status();
}

/// Which class each sample's largest number stands for, where the model knows the names.
void print_classes(const PlanPort& port, const Session::Contents& contents, const std::vector<std::string>& classes) {
  constexpr std::int64_t kMost = 20;
  const bool scores = !classes.empty() && port.dtype == DType::f32 && contents.shape.rank() == 2 &&
                      contents.shape[1].value() == static_cast<std::int64_t>(classes.size());
  const std::int64_t samples = scores ? contents.shape[0].value() : 0;
  std::vector<float> row(classes.size());
  for (std::int64_t i = 0; i < std::min(samples, kMost); ++i) {
    std::memcpy(row.data(), contents.bytes.data() + static_cast<std::size_t>(i) * 4 * row.size(), 4 * row.size());
    const auto best = static_cast<std::size_t>(std::ranges::max_element(row) - row.begin());
    std::printf("  %s[%lld] is largest for %s\n", port.name.c_str(), static_cast<long long>(i), classes[best].c_str());
  }
  if (samples > kMost) std::printf("  and so on, %lld in all\n", static_cast<long long>(samples));
}

/// In the source model's element types.
Status write_outputs(const Session& session, const Model& model, const std::string& folder) {
  const std::vector<std::string> classes = classes_of(model);
  TRY(os::make_directories(os::system_files(), folder));
  for (const PlanPort& port : session.plan().outputs) {
    const auto& outputs = model.graph.outputs();
    const auto found = std::ranges::find(outputs, port.name, &Output::name);
    const SourceType type = found == outputs.end() ? SourceType::same : model.graph.value(found->value).source_type;
    const Session::Contents contents = session.contents(port.name);
    TRY(write_array(folder, port.name, port.dtype, contents.shape, contents.bytes, type));
    print_classes(port, contents, classes);
  }
  return ok_status();
}

// Gradients in micro-batches.
Status run_split(gpu::Device& device, const Model& model, const RunArguments& options,
                 const SessionOptions& session_options, const Arrays& arrays) {
  if (!options.profile.empty()) return invalid("--profile is of one run; it does not go with micro-batches.");
  if (!options.fetch.empty()) return invalid("--fetch is of one run; it does not go with micro-batches.");
  SplitGradientRequest request;
  request.gradients = session_options.gradients;
  request.bindings = session_options.bindings;
  request.precision = session_options.precision;
  request.allow_non_finite = session_options.allow_non_finite;
  if (!options.budget.empty()) {
    TRY_ASSIGN(request.budget, parse_size(options.budget));
  }
  if (options.micro_batch < 0) return invalid("--micro-batch ", options.micro_batch, " is below 1.");
  request.micro_batch = options.micro_batch;
  request.per_sample = options.per_sample;
  TRY_ASSIGN(const SplitGradients result, split_gradients(device, model, request, arrays));
  std::fprintf(stderr, "%lld samples at once, %s of device memory\n", static_cast<long long>(result.micro_batch),
               bytes_text(result.device_bytes).c_str());
  TRY(os::make_directories(os::system_files(), options.folder));
  for (const auto& [name, array] : result.gradients) {
    TRY(write_array(options.folder, name, array.dtype, array.shape, array.buffer.bytes()));
  }
  return ok_status();
}

Status claim_outputs(const RunArguments& options, const Model& model, bool gradients) {
  Outputs outputs;
  outputs.reads("the model", options.path);
  for (const std::string& file : adapter_files(options.adapter)) outputs.reads("the adapter", file);
  outputs.reads("the cotangent", options.cotangent);
  for (const std::string& item : options.inputs) {
    TRY_ASSIGN(const auto pair, parse_assignment(item, "--input"));
    outputs.reads("the input", pair.second);
  }
  std::vector<std::string> names;
  if (gradients) {
    for (const std::string& name : split_list(options.wrt)) names.push_back(npy_file_name(name));
  } else {
    for (const Output& output : model.graph.outputs()) names.push_back(npy_file_name(output.name));
  }
  for (const std::string& name : split_lists(options.fetch)) names.push_back(npy_file_name(name));
  TRY(outputs.folder("--out", options.folder, names));
  return outputs.file("--profile", options.profile);
}

Status run_model(const RunArguments& options, bool gradients) {
  TRY_ASSIGN(AdaptedModel opened, open_adapted(options.path, options.adapter, when(options.check)));
  const Model& model = opened.get();
  TRY(claim_outputs(options, model, gradients));
  TRY_ASSIGN(Arrays arrays, read_inputs(options));
  SessionOptions session_options;
  std::vector<passes::PackedInput> packed;
  for (const std::string& item : options.bytes) {
    TRY_ASSIGN(passes::PackedInput input, parse_bytes(item));
    TRY(pack(input, arrays));
    packed.push_back(std::move(input));
  }
  TRY_ASSIGN(session_options.precision, passes::parse_precision(options.precision));
  TRY_ASSIGN(session_options.bindings, parse_bindings(options.bind));
  TRY(bind_from_inputs(model, arrays, session_options.bindings));
  TRY_ASSIGN(session_options.bindings, complete_bindings(model, session_options.bindings, false));
  session_options.allow_non_finite = options.allow_non_finite;
  session_options.program.profile = !options.profile.empty();
  if (gradients) {
    session_options.gradients = {options.of, split_list(options.wrt), options.train_mode};
    session_options.keep_outputs = false;
    if (!options.cotangent.empty()) {
      TRY_ASSIGN(arrays[std::string(kCotangentInput)], data::read_npy(os::system_files(), options.cotangent));
    }
  }
  session_options.gradients.fetch = split_lists(options.fetch);
  session_options.gradients.packed = std::move(packed);
  Profile profile(1);
  if (!options.profile.empty()) session_options.program.observer = &profile;
  TRY_ASSIGN(auto device, OpenDevice::open(options.flags));
  device->give_to(session_options.program);
  if (gradients && options.splits()) {
    TRY(run_split(device->device(), model, options, session_options, arrays));
    return device->close();
  }
  {
    if (!options.budget.empty()) {
      TRY_ASSIGN(session_options.plan.budget, parse_size(options.budget));
    }
    TRY_ASSIGN(auto session, Session::create(device->device(), model, session_options));
    if (const std::string text = session->streaming(); !text.empty()) std::fprintf(stderr, "%s\n", text.c_str());
    for (const PlanPort& port : session->plan().inputs) {
      if (port.name == kCotangentInput && !arrays.contains(kCotangentInput)) {
        return invalid("\"", options.of, "\" has the shape ", port.shape.text(),
                       "; what has more than one element needs a --cotangent of that shape.");
      }
    }
    for (const auto& [name, array] : arrays) {
      const auto& formats = session_options.gradients.packed;
      if (std::ranges::find(formats, name, &passes::PackedInput::name) != formats.end()) {
        TRY(session->set_input(name, array.buffer.bytes()));
      } else {
        TRY(feed(*session, name, array));
      }
    }
    TRY(session->run());
    if (!options.profile.empty()) {
      const Consumers consumers = consumers_of(profile);
      TRY(write_trace(options.profile, profile, consumers));
      print_consumers(consumers, profile);
    }
    TRY(write_outputs(*session, model, options.folder));
  }
  return device->close();
}

void add_common(CLI::App& app, RunArguments& options) {
  app.add_option("MODEL", options.path, "A .graft file")->required();
  add_adapter_flags(app, options.adapter);
  add_check_flag(app, options.check);
  app.add_option("--input", options.inputs, "NAME=FILE.npy, once per input of the model");
  app.add_option("--bind", options.bind, "Sizes of named dimensions that the files do not tell");
  add_precision_flag(app, options.precision);
  app.add_flag("--allow-non-finite", options.allow_non_finite, "Take inputs that hold NaN or infinity");
  app.add_option("--fetch", options.fetch, "Values on the way that are written as well, as in relu1,fc1");
  app.add_option("--out", options.folder, "Folder for the results, NAME.npy each")->required();
  app.add_option("--profile", options.profile,
                 "Write a trace of device times (Chrome, Perfetto) to this file; print what took most");
  add_device_flags(app, options.flags);
  add_pace_flags(app, options.flags);
}

}  // namespace

Action add_run(CLI::App& app) {
  auto options = std::make_shared<RunArguments>();
  add_common(app, *options);
  app.add_option("--budget", options->budget,
                 "Largest device memory, as in 64MiB; weights that it has no room for are streamed from the file");
  app.add_option(
      "--bytes", options->bytes,
      "NAME:scale=S,offset=O,layout=nhwc: the file of this float input holds bytes, and the device makes byte * "
      "S + O of them (S1/S2/S3 for channels), in the model's order of axes; repeatable");
  return [options] { return run_model(*options, false); };
}

Action add_grad(CLI::App& app) {
  auto options = std::make_shared<RunArguments>();
  add_common(app, *options);
  app.add_option("--of", options->of, "The output or value to differentiate")->required();
  app.add_option("--cotangent", options->cotangent, "Its cotangent as .npy; needed where it has more than one element");
  app.add_option("--wrt", options->wrt, "Inputs, parameters or values, as in a,b,c")->required();
  app.add_flag("--train-mode", options->train_mode,
               "As a training step computes it: batch norm by the batch's statistics, dropout at work");
  app.add_option("--budget", options->budget,
                 "Largest device memory, as in 64MiB: any number of samples runs in micro-batches that fit");
  app.add_option("--micro-batch", options->micro_batch, "Samples on the device at once")->check(whole(1, INT32_MAX));
  app.add_flag("--per-sample", options->per_sample, "Gradients of parameters for each sample, not summed");
  return [options] { return run_model(*options, true); };
}

}  // namespace graft::cli
