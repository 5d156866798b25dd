// graft info: a model by layer, before anything runs.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "runtime/core/source_order.h"
#include "runtime/model/counted.h"
#include "runtime/session/text_model.h"
#include "tools/bench/model_io.h"
#include "tools/common/options.h"

namespace graft::cli {
namespace {

struct InfoArguments {
  std::string path;
  std::vector<std::string> bind;
  bool json = false;
};

nlohmann::ordered_json ports(const Graph& graph, const std::vector<Output>& list) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const Output& port : list) {
    const Value& value = graph.value(port.value);
    out.push_back({{"name", port.name}, {"dtype", dtype_name(value.dtype)}, {"shape", source_shape(value).text()}});
  }
  return out;
}

std::vector<Output> inputs_of(const Graph& graph) {
  std::vector<Output> list;
  for (const ValueId id : graph.inputs()) list.push_back({graph.value(id).name, id});
  return list;
}

std::vector<Output> parameters_of(const Graph& graph) {
  std::vector<Output> list;
  for (std::uint32_t i = 0; i < graph.values().size(); ++i) {
    const Value& value = graph.values()[i];
    if (value.kind == ValueKind::parameter) list.push_back({value.name, ValueId{i}});
  }
  return list;
}

Layer total_of(const std::vector<Layer>& layers) {
  Layer total;
  for (const Layer& layer : layers) {
    total.parameters += layer.parameters;
    total.bytes += layer.bytes;
    total.flops += layer.flops;
  }
  return total;
}

/// "scored_bpe, 2048 tokens", or what is wrong with it; nothing where the model has none.
std::optional<std::string> tokenizer_text(const Model& model) {
  if (!model.tokenizer && !model.metadata.contains(kMetaTokenizerFault)) return std::nullopt;
  const auto tokenizer = tokenizer_of(model);
  if (!tokenizer.ok()) return tokenizer.status().message();
  return cat(text::algorithm_name(tokenizer->vocabulary().algorithm), ", ", tokenizer->size(), " tokens");
}

std::string bindings_text(const Bindings& bindings) {
  std::string text;
  for (const auto& [name, size] : bindings) text += (text.empty() ? "" : ", ") + name + " = " + cat(size);
  return text;
}

/// What a file that was converted said may be long.
std::string shortened(const std::string& text) {
  constexpr std::size_t kMost = 200;
  return text.size() <= kMost ? text : cat(text.substr(0, 24), "... (", bytes_text(text.size()), ")");
}

/// Of an output that is as long as the data decide: which axis is, and what says how long.
std::string count_note(const Model& model, const Output& port) {
  const auto counted = counted_outputs(model);
  if (!counted.ok()) return cat("  ", counted.status().message());
  const auto found = std::ranges::find(*counted, port.name, &CountedOutput::name);
  if (found == counted->end()) return {};
  return cat("  (axis ", found->axis, ": up to ", source_shape(model.graph.value(port.value))[found->axis].text(),
             ", as many as \"", found->count, "\" says)");
}

void print(const Model& model, const std::string& path, const std::vector<Layer>& layers, const Bindings& bindings) {
  std::printf("%s\n", path.c_str());
  for (const auto& [key, text] : model.metadata) {
    if (key == kMetaTokenizerFault) continue;  // the line below says it whole
    if (text.find('\n') == std::string::npos) std::printf("  %-18s %s\n", key.c_str(), shortened(text).c_str());
  }
  if (const auto tokenizer = tokenizer_text(model)) std::printf("  %-18s %s\n", "tokenizer", tokenizer->c_str());
  for (const Output& port : inputs_of(model.graph)) {
    const Value& value = model.graph.value(port.value);
    std::printf("  input  %-24s %s%s\n", port.name.c_str(), std::string(dtype_name(value.dtype)).c_str(),
                source_shape(value).text().c_str());
  }
  for (const Output& port : model.graph.outputs()) {
    const Value& value = model.graph.value(port.value);
    std::printf("  output %-24s %s%s%s\n", port.name.c_str(), std::string(dtype_name(value.dtype)).c_str(),
                source_shape(value).text().c_str(), count_note(model, port).c_str());
  }
  std::printf("\n%-32s %-18s %-24s %12s %12s %10s\n", "layer", "op", "output", "parameters", "bytes", "FLOPs");
  for (const Layer& layer : layers) {
    std::printf("%-32s %-18s %-24s %12s %12s %10s\n", layer.name.c_str(), layer.op.c_str(), layer.shape.c_str(),
                grouped(layer.parameters).c_str(), grouped(layer.bytes).c_str(),
                si_text(static_cast<double>(layer.flops)).c_str());
  }
  const Layer total = total_of(layers);
  std::printf("%-32s %-18s %-24s %12s %12s %10s\n", "total", "", "", grouped(total.parameters).c_str(),
              grouped(total.bytes).c_str(), si_text(static_cast<double>(total.flops)).c_str());
  if (!bindings.empty()) std::printf("FLOPs at %s.\n", bindings_text(bindings).c_str());
}

Status run_info(const InfoArguments& options) {
  TRY_ASSIGN(const Model model, open_model(options.path));
  TRY_ASSIGN(const Bindings given, parse_bindings(options.bind));
  TRY_ASSIGN(const Bindings bindings, complete_bindings(model, given, true));
  TRY_ASSIGN(const std::vector<Layer> layers, layers_of(model, bindings));
  if (!options.json) {
    print(model, options.path, layers, bindings);
    return ok_status();
  }
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Layer& layer : layers) {
    rows.push_back({{"name", layer.name},
                    {"op", layer.op},
                    {"output", layer.shape},
                    {"parameters", layer.parameters},
                    {"bytes", layer.bytes},
                    {"flops", layer.flops}});
  }
  const Layer total = total_of(layers);
  const nlohmann::ordered_json all = {
      {"file", options.path},
      {"metadata", model.metadata},
      {"tokenizer", tokenizer_text(model).value_or("")},
      {"inputs", ports(model.graph, inputs_of(model.graph))},
      {"outputs", ports(model.graph, model.graph.outputs())},
      {"parameters", ports(model.graph, parameters_of(model.graph))},
      {"bindings", bindings},
      {"layers", rows},
      {"total", {{"parameters", total.parameters}, {"bytes", total.bytes}, {"flops", total.flops}}}};
  std::printf("%s\n", all.dump(2).c_str());
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
