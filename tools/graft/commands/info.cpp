// graft info: a model by layer, before anything runs.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "graft/language.h"
#include "graft/parameters.h"
#include "graft/plan.h"
#include "tools/common/options.h"
#include "tools/common/terminal.h"
#include "tools/graft/shared/command.h"
#include "tools/graft/shared/public_api.h"

namespace graft::cli {
namespace {

struct InfoArguments {
  std::string path;
  std::vector<std::string> bind;
  bool json = false;
};

/// Metadata of a model that was converted without its tokenizer: a sentence that says why.
constexpr std::string_view kTokenizerFault = "text.no_tokenizer";

struct Port {
  std::string name;
  std::string dtype;
  std::string shape;
  std::string note = {};       ///< of an output that is as long as the data decide
  std::uint64_t elements = 0;  ///< of a parameter
};

struct Layer {
  std::string name;
  std::string op;
  std::string shape;
  std::uint64_t parameters = 0;
  std::uint64_t bytes = 0;
  std::uint64_t flops = 0;
};

/// All that is told of a model.
struct Info {
  std::vector<std::pair<std::string, std::string>> metadata = {};
  std::optional<std::string> tokenizer = {};  ///< "scored_bpe, 2048 tokens", or what is wrong with it; none: no such
  std::vector<Port> inputs = {};
  std::vector<Port> outputs = {};
  std::vector<Port> parameters = {};
  Bindings bindings = {};
  std::vector<Layer> layers = {};
  Layer total = {.name = "total"};
};

nlohmann::ordered_json json_of(const std::vector<Port>& ports) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const Port& port : ports) out.push_back({{"name", port.name}, {"dtype", port.dtype}, {"shape", port.shape}});
  return out;
}

/// Of an output that is as long as the data decide: which axis is, and what says how long.
std::string count_note(const graft_context* context, graft_model* model, std::size_t index) {
  std::uint32_t axis = 0;
  const char* count = nullptr;
  const graft_status told = graft_model_counted(model, index, &axis, &count);
  if (told == GRAFT_NOT_FOUND) return {};
  if (told != GRAFT_OK) return cat("  ", graft_message(context));
  const std::string name = count;
  graft_tensor_info info = {};
  const char* symbol = "";
  if (graft_model_tensor(model, GRAFT_OUTPUTS, index, &info) != GRAFT_OK ||
      graft_model_dimension(model, GRAFT_OUTPUTS, index, axis, &symbol) != GRAFT_OK) {
    return cat("  ", graft_message(context));
  }
  const std::string most = *symbol != '\0' ? symbol : cat(info.dims[axis]);
  return cat("  (axis ", axis, ": up to ", most, ", as many as \"", name, "\" says)");
}

Status read_ports(const graft_context* context, graft_model* model, graft_tensor_kind kind, std::vector<Port>& ports) {
  for (std::size_t i = 0; i < graft_model_count(model, kind); ++i) {
    graft_tensor_text text = {};
    text.struct_size = sizeof text;
    TRY(checked(graft_model_tensor_text(model, kind, i, &text), context));
    ports.push_back({text.name, text.dtype, text.shape});
    if (kind == GRAFT_OUTPUTS) ports.back().note = count_note(context, model, i);
    if (kind != GRAFT_PARAMETERS) continue;
    graft_tensor_info tensor = {};
    TRY(checked(graft_model_tensor(model, kind, i, &tensor), context));
    ports.back().elements = 1;
    for (std::size_t axis = 0; axis < tensor.rank; ++axis)
      ports.back().elements *= static_cast<std::uint64_t>(tensor.dims[axis]);
  }
  return ok_status();
}

Status read_metadata(const graft_context* context, graft_model* model, Info& info) {
  for (std::size_t i = 0; i < graft_model_metadata_count(model); ++i) {
    const char* key = nullptr;
    const char* value = nullptr;
    TRY(checked(graft_model_metadata_at(model, i, &key, &value), context));
    info.metadata.emplace_back(key, value);
  }
  graft_tokenizer* made = nullptr;
  const graft_status created = graft_tokenizer_create(model, &made);
  const Owned<graft_tokenizer> tokenizer(made);
  const char* fault = nullptr;
  if (created == GRAFT_OK) {
    info.tokenizer = cat(graft_tokenizer_algorithm(made), ", ", graft_tokenizer_size(made), " tokens");
  } else if (const std::string why = graft_message(context);
             created != GRAFT_NOT_FOUND ||
             graft_model_metadata(model, std::string(kTokenizerFault).c_str(), &fault) == GRAFT_OK) {
    info.tokenizer = why;
  }
  return ok_status();
}

Status read_layers(const graft_context* context, graft_model* model, const PublicBindings& given, Info& info) {
  const graft_binding* bindings = nullptr;
  std::size_t count = 0;
  TRY(checked(graft_model_complete_bindings(model, given.data(), given.size(), &bindings, &count), context));
  for (std::size_t i = 0; i < count; ++i) info.bindings.emplace(bindings[i].name, bindings[i].size);
  const graft_layer* layers = nullptr;
  TRY(checked(graft_model_layers(model, given.data(), given.size(), &layers, &count), context));
  for (std::size_t i = 0; i < count; ++i) {
    const graft_layer& layer = layers[i];
    info.layers.push_back({layer.name, layer.op, layer.shape, layer.parameters, layer.bytes, layer.flops});
    info.total.parameters += layer.parameters;
    info.total.bytes += layer.bytes;
    info.total.flops += layer.flops;
  }
  return ok_status();
}

Result<Info> read_info(const InfoArguments& options) {
  TRY_ASSIGN(const auto context, open_context_without_device());
  TRY_ASSIGN(const auto model, open_model(context.get(), options.path));
  TRY_ASSIGN(const Bindings given, parse_bindings(options.bind));
  Info info;
  TRY(read_layers(context.get(), model.get(), PublicBindings(given), info));
  TRY(read_metadata(context.get(), model.get(), info));
  TRY(read_ports(context.get(), model.get(), GRAFT_INPUTS, info.inputs));
  TRY(read_ports(context.get(), model.get(), GRAFT_OUTPUTS, info.outputs));
  TRY(read_ports(context.get(), model.get(), GRAFT_PARAMETERS, info.parameters));
  return info;
}

std::string bindings_text(const Bindings& bindings) {
  std::string text;
  for (const auto& [name, size] : bindings) text += (text.empty() ? "" : ", ") + name + " = " + cat(size);
  return text;
}

/// What a file that was converted said may be long.
std::string shown_text(const std::string& text) {
  constexpr std::size_t kMost = 200;
  return text.size() <= kMost ? text : cat(text.substr(0, 24), "... (", bytes_text(text.size()), ")");
}

void print(const Info& info, const std::string& path) {
  to_stdout("%s\n", path.c_str());
  for (const auto& [key, text] : info.metadata) {
    if (key == kTokenizerFault) continue;  // the line below says it whole
    if (text.find('\n') == std::string::npos) to_stdout("  %-18s %s\n", key.c_str(), shown_text(text).c_str());
  }
  if (info.tokenizer) to_stdout("  %-18s %s\n", "tokenizer", info.tokenizer->c_str());
  for (const Port& port : info.inputs) {
    to_stdout("  input  %-24s %s%s\n", port.name.c_str(), port.dtype.c_str(), port.shape.c_str());
  }
  for (const Port& port : info.outputs) {
    to_stdout("  output %-24s %s%s%s\n", port.name.c_str(), port.dtype.c_str(), port.shape.c_str(), port.note.c_str());
  }
  to_stdout("\n");
  using Kind = Table::Kind;
  if (info.layers.empty()) {  // an adapter, say: matrices for the layers of another file
    Table table({{"parameter", 32, Kind::name},
                 {"type", 6, Kind::word},
                 {"shape", 18, Kind::name},
                 {"elements", 12, Kind::number}});
    for (const Port& port : info.parameters) table.row({port.name, port.dtype, port.shape, grouped(port.elements)});
    table.print();
    return;
  }
  Table table({{"layer", 32, Kind::name},
               {"op", 18, Kind::name},
               {"output", 24, Kind::name},
               {"parameters", 12, Kind::number},
               {"bytes", 12, Kind::optional},
               {"FLOPs", 10, Kind::number}});
  const auto add = [&](const Layer& layer) {
    table.row({layer.name, layer.op, layer.shape, grouped(layer.parameters), grouped(layer.bytes),
               si_text(static_cast<double>(layer.flops))});
  };
  for (const Layer& layer : info.layers) add(layer);
  add(info.total);
  table.print();
  if (!info.bindings.empty()) to_stdout("FLOPs at %s.\n", bindings_text(info.bindings).c_str());
}

Status run_info(const InfoArguments& options) {
  TRY_ASSIGN(const Info info, read_info(options));
  if (!options.json) {
    print(info, options.path);
    return ok_status();
  }
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Layer& layer : info.layers) {
    rows.push_back({{"name", layer.name},
                    {"op", layer.op},
                    {"output", layer.shape},
                    {"parameters", layer.parameters},
                    {"bytes", layer.bytes},
                    {"flops", layer.flops}});
  }
  nlohmann::ordered_json metadata = nlohmann::ordered_json::object();
  for (const auto& [key, text] : info.metadata) metadata[key] = text;
  const nlohmann::ordered_json all = {
      {"file", options.path},
      {"metadata", metadata},
      {"tokenizer", info.tokenizer.value_or("")},
      {"inputs", json_of(info.inputs)},
      {"outputs", json_of(info.outputs)},
      {"parameters", json_of(info.parameters)},
      {"bindings", info.bindings},
      {"layers", rows},
      {"total", {{"parameters", info.total.parameters}, {"bytes", info.total.bytes}, {"flops", info.total.flops}}}};
  to_stdout("%s\n", all.dump(2).c_str());
  return ok_status();
}

}  // namespace

Action add_info(CLI::App& app) {
  auto options = std::make_shared<InfoArguments>();
  app.add_option("FILE", options->path, "A .graft file")->required();
  app.add_option("--bind", options->bind, "Sizes of named dimensions, as in batch=32,seq=128 (default 1)");
  app.add_flag("--json", options->json, "Print JSON");
  return [options] { return run_info(*options); };
}

}  // namespace graft::cli
