// graft run and graft grad: a model on .npy files, forward or differentiated.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "tools/common/numbers.h"
#include "tools/common/options.h"
#include "tools/common/terminal.h"
#include "tools/graft/shared/consumers.h"
#include "tools/graft/shared/output.h"
#include "tools/graft/shared/put_adapters.h"
#include "tools/graft/shared/tensor_files.h"

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

using Arrays = std::map<std::string, NpyArray, std::less<>>;

/// What gradients of more than one number are multiplied with.
constexpr const char* kCotangentInput = "cotangent";

Result<Arrays> read_inputs(const RunArguments& options) {
  Arrays arrays;
  for (const std::string& item : options.inputs) {
    TRY_ASSIGN(const auto pair, parse_assignment(item, "--input"));
    TRY_ASSIGN(auto array, read_npy(pair.second));
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

/// How an input's bytes become numbers.
struct ByteInput {
  std::string name;
  bool channels_last = false;
  std::vector<float> scale, offset;

  graft_input_format format() const {
    return {name.c_str(),          GRAFT_ELEMENT_U8,
            channels_last ? 1 : 0, scale.empty() ? nullptr : scale.data(),
            scale.size(),          offset.empty() ? nullptr : offset.data(),
            offset.size()};
  }
};

/// "image:scale=0.0039,offset=-0.5,layout=nhwc".
Result<ByteInput> parse_bytes(const std::string& text) {
  const std::size_t colon = find_separator(text, ':');
  ByteInput input{unquoted(text.substr(0, colon)), false, {}, {}};
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
Status pack(const ByteInput& input, Arrays& arrays) {
  const auto found = arrays.find(input.name);
  if (found == arrays.end()) return invalid("--bytes names \"", input.name, "\", which --input does not give.");
  NpyArray& array = found->second;
  const std::size_t count = array.bytes / sizeof(std::int32_t);
  if (array.type != NpyType::i32) return invalid("The file of \"", input.name, "\" holds no bytes.");
  for (std::size_t i = 0; i < count; ++i) {  // in place: a byte stands before the word that it is of
    std::int32_t number = 0;
    std::memcpy(&number, array.data.get() + i * sizeof number, sizeof number);
    if (number < 0 || number > 255) {
      return invalid("The file of \"", input.name, "\" holds ", number, ", which is no byte.");
    }
    array.data[i] = static_cast<std::byte>(number);
  }
  array.bytes = count;
  array.type = NpyType::f32;  // what the model gets
  if (input.channels_last && array.dims.size() >= 3) {
    std::rotate(array.dims.begin() + 1, array.dims.end() - 1, array.dims.end());
  }
  return ok_status();
}

/// Whether it names a dimension: "batch", and not a number or a product.
bool is_plain_name(std::string_view text) {
  return !text.empty() && text.find_first_of("*+-/ ()") == std::string_view::npos;
}

/// All tensors of a kind that tensor(index, &info) tells.
template <typename Tensor>
std::vector<graft_tensor_info> all_of(Tensor tensor) {
  std::vector<graft_tensor_info> out;
  for (graft_tensor_info info = {}; tensor(out.size(), &info) == GRAFT_OK;) out.push_back(info);
  return out;
}
std::vector<graft_tensor_info> tensors_of(const graft_model* model, graft_tensor_kind kind) {
  return all_of([&](std::size_t i, graft_tensor_info* info) { return graft_model_tensor(model, kind, i, info); });
}
std::vector<graft_tensor_info> tensors_of(const graft_session* session, graft_tensor_kind kind) {
  return all_of([&](std::size_t i, graft_tensor_info* info) { return graft_session_tensor(session, kind, i, info); });
}

// Named dimensions follow from the files' shapes; --bind may say the same or more.
Status bind_from_inputs(graft_context* context, graft_model* model, const Arrays& arrays, Bindings& bindings) {
  const auto inputs = tensors_of(model, GRAFT_INPUTS);
  std::string names;
  for (const graft_tensor_info& input : inputs) names += cat(names.empty() ? "" : ", ", input.name);
  for (const auto& [name, array] : arrays) {
    if (std::ranges::any_of(inputs, [&](const auto& input) { return name == input.name; })) continue;
    return invalid("The model has no input \"", name, "\"; its inputs are: ", names, ".");
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const graft_tensor_info& input = inputs[i];
    const auto found = arrays.find(input.name);
    if (found == arrays.end() && graft_model_reads_input(model, i) == 0) continue;
    if (found == arrays.end())
      return invalid("The input \"", input.name, "\" is missing; give --input ", quoted(input.name), "=FILE.npy.");
    const std::vector<std::int64_t>& given = found->second.dims;
    if (given.size() != input.rank) {
      graft_tensor_text text = {};
      text.struct_size = sizeof text;
      TRY(checked(graft_model_tensor_text(model, GRAFT_INPUTS, i, &text), context));
      return invalid("The input \"", input.name, "\" has the shape ", text.shape, "; the file has ", dims_text(given),
                     ".");
    }
    for (std::uint32_t axis = 0; axis < input.rank; ++axis) {
      const char* symbol = "";
      TRY(checked(graft_model_dimension(model, GRAFT_INPUTS, i, axis, &symbol), context));
      if (!is_plain_name(symbol)) continue;
      const auto [at, fresh] = bindings.emplace(symbol, given[axis]);
      if (!fresh && at->second != given[axis]) {
        return invalid("The dimension \"", symbol, "\" is ", at->second, ", but the file of \"", input.name,
                       "\" has the shape ", dims_text(given), ".");
      }
    }
  }
  return ok_status();
}

/// With the model's own sizes; an error where a dimension has none.
Result<Bindings> known_bindings(graft_context* context, graft_model* model, const Bindings& given) {
  const PublicBindings raw(given);
  const graft_binding* known = nullptr;
  std::size_t count = 0;
  const char* missing = "";
  TRY(checked(graft_model_known_bindings(model, raw.data(), raw.size(), &known, &count, &missing), context));
  if (*missing != '\0') {
    std::string flags;
    for (const std::string& name : split_text(missing, ',')) flags += cat(flags.empty() ? "" : ",", name, "=N");
    return invalid("The model has dimensions without a size; give --bind ", flags, ".");
  }
  Bindings out;
  for (std::size_t i = 0; i < count; ++i) out.emplace(known[i].name, known[i].size);
  return out;
}

Status misfit(const std::string& name, const graft_tensor_info& takes, const NpyArray& array) {
  return invalid("The input \"", name, "\" takes ", npy_type_name(type_of(takes)), dims_text(dims_of(takes)),
                 "; the file has ", npy_type_name(array.type), dims_text(array.dims), ".");
}

bool holds_non_finite(const NpyArray& array) {
  for (std::size_t at = 0; at + sizeof(float) <= array.bytes; at += sizeof(float)) {
    float number = 0;
    std::memcpy(&number, array.data.get() + at, sizeof number);
    if (!std::isfinite(number)) return true;
  }
  return false;
}

/// What is no input of the session, since nothing reads it, is left alone.
Status feed(graft_context* context, graft_session* session, const std::string& name, const NpyArray& array,
            bool as_bytes) {
  for (const graft_tensor_info& input : tensors_of(session, GRAFT_INPUTS)) {
    if (name != input.name) continue;
    const bool fits = type_of(input) == array.type && std::ranges::equal(dims_of(input), array.dims);
    if (!as_bytes && !fits) return misfit(name, input, array);
    const Status fed = checked(graft_session_set_input(session, name.c_str(), array.data.get(), array.bytes), context);
    if (fed.ok() || !fits || array.type != NpyType::f32 || !holds_non_finite(array)) return fed;
    return error(fed.code(), fed.message(), " --allow-non-finite takes NaN and infinity.");
  }
  return ok_status();
}

/// Which class each sample's largest number stands for, where the model knows the names.
void print_classes(const graft_tensor_info& info, std::span<const std::byte> bytes,
                   const std::vector<std::string>& classes) {
  constexpr std::int64_t kMost = 20;
  const bool scores = !classes.empty() && info.dtype == GRAFT_F32 && info.rank == 2 &&
                      info.dims[1] == static_cast<std::int64_t>(classes.size());
  const std::int64_t samples = scores ? info.dims[0] : 0;
  std::vector<float> row(classes.size());
  for (std::int64_t i = 0; i < std::min(samples, kMost); ++i) {
    std::memcpy(row.data(), bytes.data() + static_cast<std::size_t>(i) * 4 * row.size(), 4 * row.size());
    const auto best = static_cast<std::size_t>(std::ranges::max_element(row) - row.begin());
    to_stdout("  %s[%lld] is largest for %s\n", info.name, static_cast<long long>(i), classes[best].c_str());
  }
  if (samples > kMost) to_stdout("  and so on, %lld in all\n", static_cast<long long>(samples));
}

/// In the source model's element types.
Status write_outputs(graft_context* context, graft_session* session, graft_model* model, const std::string& folder) {
  std::vector<std::string> classes;
  while (const char* name = graft_model_class(model, classes.size())) classes.emplace_back(name);
  std::map<std::string, std::string, std::less<>> sources;
  for (std::size_t i = 0; i < graft_model_count(model, GRAFT_OUTPUTS); ++i) {
    graft_tensor_text text = {};
    text.struct_size = sizeof text;
    TRY(checked(graft_model_tensor_text(model, GRAFT_OUTPUTS, i, &text), context));
    sources.emplace(text.name, text.source_dtype);
  }
  TRY(make_folders(folder));
  std::vector<std::string> names;
  for (const graft_tensor_info& output : tensors_of(session, GRAFT_OUTPUTS)) names.emplace_back(output.name);
  const FileNames files = npy_file_names(names);
  for (const graft_tensor_info& output : tensors_of(session, GRAFT_OUTPUTS)) {
    const void* data = nullptr;
    std::size_t bytes = 0;
    graft_tensor_info info = {};
    TRY(checked(graft_session_output(session, output.name, &data, &bytes, &info), context));
    const std::span<const std::byte> contents(static_cast<const std::byte*>(data), bytes);
    const auto source = sources.find(output.name);
    TRY(write_array(folder, files, info, contents, source == sources.end() ? std::string() : source->second));
    print_classes(info, contents, classes);
  }
  return ok_status();
}

// Gradients in micro-batches.
Status run_split(graft_context* context, graft_model* model, const RunArguments& options, const Bindings& bindings,
                 const Arrays& arrays) {
  if (!options.profile.empty()) return invalid("--profile is of one run; it does not go with micro-batches.");
  if (!options.fetch.empty()) return invalid("--fetch is of one run; it does not go with micro-batches.");
  const std::vector<std::string> wrt = split_list(options.wrt);
  std::vector<const char*> names;
  for (const std::string& name : wrt) names.push_back(name.c_str());
  const PublicBindings sizes(bindings);
  graft_gradient_options wanted = {};
  wanted.struct_size = sizeof wanted;
  const std::string of = unquoted(options.of);
  wanted.of = of.c_str();
  wanted.wrt = names.data();
  wanted.wrt_count = names.size();
  wanted.bindings = sizes.data();
  wanted.binding_count = sizes.size();
  TRY_ASSIGN(wanted.budget, parse_budget(options.budget));
  if (options.micro_batch < 0) return invalid("--micro-batch ", options.micro_batch, " is below 1.");
  wanted.micro_batch = static_cast<std::uint32_t>(options.micro_batch);
  wanted.per_sample = options.per_sample ? 1 : 0;
  wanted.train_mode = options.train_mode ? 1 : 0;
  TRY_ASSIGN(wanted.precision, parse_precision(options.precision));
  wanted.allow_non_finite = options.allow_non_finite ? 1 : 0;
  for (const graft_tensor_info& input : tensors_of(model, GRAFT_INPUTS)) {
    const auto found = arrays.find(input.name);
    if (found == arrays.end()) continue;
    bool fits = type_of(input) == found->second.type;
    for (std::uint32_t axis = 0; axis < input.rank; ++axis) {
      fits = fits && (input.dims[axis] < 0 || input.dims[axis] == found->second.dims[axis]);
    }
    if (!fits) return misfit(found->first, input, found->second);
  }
  if (const auto given = arrays.find(kCotangentInput); given != arrays.end() && given->second.type != NpyType::f32) {
    return invalid("The file of the cotangent holds no floats.");
  }
  std::vector<graft_data> samples;
  for (const auto& [name, array] : arrays) samples.push_back({name.c_str(), array.data.get(), array.bytes});
  graft_gradients* made = nullptr;
  const graft_status computed = graft_gradients_compute(model, &wanted, samples.data(), samples.size(), &made);
  const Owned<graft_gradients> gradients(made);
  TRY(checked(computed, context));
  graft_gradients_info info = {};
  info.struct_size = sizeof info;
  TRY(checked(graft_gradients_describe(made, &info), context));
  to_stderr("%u samples at once, %s of device memory\n", info.micro_batch, bytes_text(info.device_bytes).c_str());
  TRY(make_folders(options.folder));
  std::vector<std::string> sorted = wrt;
  std::ranges::sort(sorted);
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  const FileNames files = npy_file_names(sorted);
  for (const std::string& name : sorted) {
    const void* data = nullptr;
    std::size_t bytes = 0;
    graft_tensor_info tensor = {};
    TRY(checked(graft_gradients_get(made, name.c_str(), &data, &bytes, &tensor), context));
    TRY(write_array(options.folder, files, tensor, {static_cast<const std::byte*>(data), bytes}));
  }
  return ok_status();
}

Status claim_outputs(const RunArguments& options, const graft_model* model, bool gradients) {
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
    for (const std::string& name : split_list(options.wrt)) names.push_back("grad:" + name);
  } else {
    for (const graft_tensor_info& output : tensors_of(model, GRAFT_OUTPUTS)) names.emplace_back(output.name);
  }
  for (std::string& name : split_lists(options.fetch)) names.push_back(std::move(name));
  std::vector<std::string> files;
  for (const auto& [name, file] : npy_file_names(names)) files.push_back(file);
  TRY(outputs.folder("--out", options.folder, files));
  return outputs.file("--profile", options.profile);
}

/// A session for the files, and what it is measured with.
struct OpenRun {
  Owned<graft_profile> profile;  ///< null where nobody asked for one
  Owned<graft_session> session;
};

Result<OpenRun> open_run(graft_context* context, graft_model* model, const RunArguments& options, bool gradients,
                         const Bindings& bindings, const std::vector<ByteInput>& packed) {
  OpenRun out;
  graft_session_options wanted = {};
  wanted.struct_size = sizeof wanted;
  const PublicBindings sizes(bindings);
  wanted.bindings = sizes.data();
  wanted.binding_count = sizes.size();
  TRY_ASSIGN(wanted.budget, parse_budget(options.budget));
  TRY_ASSIGN(wanted.precision, parse_precision(options.precision));
  wanted.allow_non_finite = options.allow_non_finite ? 1 : 0;
  const std::vector<std::string> wrt = split_list(options.wrt), fetch = split_lists(options.fetch);
  const std::string of = unquoted(options.of);
  std::vector<const char*> wrt_names, fetch_names;
  for (const std::string& name : wrt) wrt_names.push_back(name.c_str());
  for (const std::string& name : fetch) fetch_names.push_back(name.c_str());
  if (gradients) {
    wanted.of = of.c_str();
    wanted.wrt = wrt_names.data();
    wanted.wrt_count = wrt_names.size();
    wanted.train_mode = options.train_mode ? 1 : 0;
    wanted.gradients_only = 1;
  }
  wanted.fetch = fetch_names.data();
  wanted.fetch_count = fetch_names.size();
  std::vector<graft_input_format> formats;
  for (const ByteInput& input : packed) formats.push_back(input.format());
  wanted.inputs = formats.data();
  wanted.input_count = formats.size();
  if (!options.profile.empty()) {
    graft_profile* profile = nullptr;
    TRY(checked(graft_profile_create(context, 1, &profile), context));
    out.profile.reset(profile);
    wanted.profile = profile;
  }
  graft_session* made = nullptr;
  const graft_status created = graft_session_create(model, &wanted, &made);
  out.session.reset(made);
  TRY(checked(created, context));
  if (const char* const text = graft_session_streaming(made); *text != '\0') to_stderr("%s\n", text);
  return out;
}

Status run_session(graft_context* context, graft_model* model, const RunArguments& options, bool gradients,
                   const Bindings& bindings, const std::vector<ByteInput>& packed, const Arrays& arrays) {
  TRY_ASSIGN(const auto run, open_run(context, model, options, gradients, bindings, packed));
  graft_session* const session = run.session.get();
  for (const graft_tensor_info& input : tensors_of(session, GRAFT_INPUTS)) {
    const std::span<const std::int64_t> dims = dims_of(input);
    const bool one = std::ranges::all_of(dims, [](std::int64_t size) { return size == 1; });
    if (std::string_view(input.name) == kCotangentInput && !one && !arrays.contains(kCotangentInput)) {
      return invalid("\"", options.of, "\" has the shape ", dims_text(dims),
                     "; what has more than one element needs a --cotangent of that shape.");
    }
  }
  for (const auto& [name, array] : arrays) {
    TRY(feed(context, session, name, array, std::ranges::find(packed, name, &ByteInput::name) != packed.end()));
  }
  TRY(checked(graft_session_run(session), context));
  if (run.profile != nullptr) {
    TRY_ASSIGN(const ProfileReport report, report_of(context, run.profile.get()));
    TRY(checked(graft_profile_save_trace(run.profile.get(), options.profile.c_str()), context));
    print_consumers(report);
  }
  return write_outputs(context, session, model, options.folder);
}

Status run_with(graft_context* context, const RunArguments& options, bool gradients) {
  TRY_ASSIGN(const auto model, open_adapted(context, options.path, options.adapter, when_to_check(options.check)));
  TRY(claim_outputs(options, model.get(), gradients));
  TRY_ASSIGN(Arrays arrays, read_inputs(options));
  std::vector<ByteInput> packed;
  for (const std::string& item : options.bytes) {
    TRY_ASSIGN(ByteInput input, parse_bytes(item));
    TRY(pack(input, arrays));
    packed.push_back(std::move(input));
  }
  TRY(parse_precision(options.precision));
  TRY_ASSIGN(Bindings bindings, parse_bindings(options.bind));
  TRY(bind_from_inputs(context, model.get(), arrays, bindings));
  TRY_ASSIGN(bindings, known_bindings(context, model.get(), bindings));
  if (gradients && !options.cotangent.empty()) {
    TRY_ASSIGN(arrays[kCotangentInput], read_npy(options.cotangent));
  }
  if (gradients && options.splits()) return run_split(context, model.get(), options, bindings, arrays);
  return run_session(context, model.get(), options, gradients, bindings, packed, arrays);
}

Status run_model(const RunArguments& options, bool gradients) {
  TRY_ASSIGN(auto context, open_context(options.flags));
  TRY(run_with(context.get(), options, gradients));
  return close_context(std::move(context));
}

void add_common(CLI::App& app, RunArguments& options) {
  app.add_option("MODEL", options.path, "A .graft file")->required();
  add_adapter_flags(app, options.adapter);
  add_check_flag(app, options.check);
  app.add_option("--input", options.inputs, cat("NAME=FILE.npy, once per input of the model; ", kNamesHelp));
  app.add_option("--bind", options.bind, "Sizes of named dimensions that the files do not tell");
  add_precision_flag(app, options.precision);
  app.add_flag("--allow-non-finite", options.allow_non_finite, "Take inputs that hold NaN or infinity");
  app.add_option("--fetch", options.fetch,
                 cat("Values on the way that are written as well, as in relu1,fc1; ", kNamesHelp));
  app.add_option("--out", options.folder,
                 "Folder for the results, NAME.npy each (/, : and \\ become _; names that would share a file get ~2, "
                 "~3 behind)")
      ->required();
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
  app.add_option("--wrt", options->wrt, cat("Inputs, parameters or values, as in a,b,c; ", kNamesHelp))->required();
  app.add_flag("--train-mode", options->train_mode,
               "As a training step computes it: batch norm by the batch's statistics, dropout at work");
  app.add_option("--budget", options->budget,
                 "Largest device memory, as in 64MiB: any number of samples runs in micro-batches that fit");
  app.add_option("--micro-batch", options->micro_batch, "Samples on the device at once")->check(whole(1, INT32_MAX));
  app.add_flag("--per-sample", options->per_sample, "Gradients of parameters for each sample, not summed");
  return [options] { return run_model(*options, true); };
}

}  // namespace graft::cli
