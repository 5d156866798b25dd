#include <algorithm>
#include <cstring>

#include "runtime/core/copy_graph.h"
#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/model/format.h"
#include "runtime/model/model.h"
#include "schema/model_generated.h"
#include "tests/fuzz/mutate/mutate.h"
#include "tests/support/files/power_files.h"

namespace graft::fuzz {
namespace {

constexpr const char* kPath = "m";

AttrValue changed_attr(const AttrValue& value, Random& random) {
  AttrValue out = value;
  if (auto* integer = std::get_if<std::int64_t>(&out)) {
    *integer = static_cast<std::int64_t>(extreme_integer(random, static_cast<std::uint64_t>(*integer)));
  } else if (auto* number = std::get_if<double>(&out)) {
    *number = extreme_number(random);
  } else if (auto* text = std::get_if<std::string>(&out)) {
    *text = odd_text(random);
  } else if (auto* list = std::get_if<Ints>(&out)) {
    if (list->empty() || random.one_in(4)) {
      list->push_back(static_cast<std::int64_t>(extreme_integer(random)));
    } else if (random.one_in(4)) {
      list->erase(list->begin() + static_cast<std::ptrdiff_t>(random.below(list->size())));
    } else {
      std::int64_t& item = random.pick(*list);
      item = static_cast<std::int64_t>(extreme_integer(random, static_cast<std::uint64_t>(item)));
    }
  }
  return out;
}

/// Nodes of other inputs, attributes and ops, each with the shape that inference gives it; a node that no longer can be
/// is left out, and what read it reads another value of its type.
class Rebuilder {
 public:
  Rebuilder(const Model& model, Random& random) : old_(model.graph), random_(random), values_(old_.values().size()) {}

  Graph rebuilt() {
    for (std::uint32_t i = 0; i < old_.values().size(); ++i) {
      const Value& value = old_.values()[i];
      if (value.kind == ValueKind::temporary) continue;
      if (const auto added = graph_.add_value_like(value); added.ok()) values_[i] = *added;
    }
    const std::size_t chosen = random_.below(old_.nodes().size());
    for (std::uint32_t i = 0; i < old_.nodes().size(); ++i) {
      add(old_.nodes()[i], i == chosen || random_.one_in(30));
      if (random_.one_in(20)) add(old_.nodes()[i], true);
    }
    for (const Output& output : old_.outputs()) {
      if (const ValueId value = values_[output.value.index]; value.valid()) graph_.add_output(output.name, value);
    }
    if (graph_.outputs().empty() && !graph_.values().empty()) {
      graph_.add_output("last", {static_cast<std::uint32_t>(graph_.values().size() - 1)});
    }
    return std::move(graph_);
  }

 private:
  ValueId any_like(ValueId old) {
    ValueId found = kNoValue;
    for (std::uint32_t i = 0, seen = 0; i < graph_.values().size(); ++i) {
      if (graph_.values()[i].dtype == old_.value(old).dtype && random_.one_in(++seen)) found = {i};
    }
    return found;
  }

  void add(const Node& node, bool change) {
    Op op = node.op;
    std::vector<ValueId> inputs;
    Attrs attrs = node.attrs;
    const std::size_t what = change ? random_.below(4) : 4;
    for (const ValueId input : node.inputs) {
      ValueId mapped = input.valid() ? values_[input.index] : kNoValue;
      if (input.valid() && (!mapped.valid() || (what == 0 && random_.one_in(2)))) mapped = any_like(input);
      inputs.push_back(mapped);
    }
    if (what == 1 && !attrs.items().empty()) {
      const auto item = random_.pick(attrs.items());
      attrs.set(item.first, changed_attr(item.second, random_));
    } else if (what == 2) {
      op = static_cast<Op>(random_.below(static_cast<std::size_t>(Op::count_)));
      if (!random_.one_in(3)) attrs = {};
    } else if (what == 3 && !inputs.empty()) {
      random_.one_in(2) ? void(inputs.push_back(inputs[0])) : void(std::swap(inputs[0], inputs[inputs.size() - 1]));
    }
    const auto added = graph_.add_node(op, inputs, attrs, node.name);
    if (!added.ok()) return;
    const Node& made = graph_.node(*added);
    for (std::size_t i = 0; i < std::min(made.outputs.size(), node.outputs.size()); ++i) {
      values_[node.outputs[i].index] = made.outputs[i];
    }
  }

  const Graph& old_;
  Random& random_;
  std::vector<ValueId> values_;
  Graph graph_;
};

std::string valid_model(std::string_view root, Random& random) {
  const std::vector<std::byte> file = model_of_root(root);
  const auto loaded = load_model(file, "m", {.check = WeightCheck::never});
  if (!loaded.ok() || loaded->graph.nodes().empty()) return {};
  Model out;
  out.graph = Rebuilder(*loaded, random).rebuilt();
  for (std::uint32_t i = 0; i < loaded->graph.values().size(); ++i) {
    const Value& value = loaded->graph.values()[i];
    const auto contents = loaded->weight({i});
    const ValueId mapped = contents ? out.graph.find_value(value.name) : kNoValue;
    if (mapped.valid() && !out.view_weight(mapped, *contents).ok()) return {};
  }
  for (const std::string& symbol : out.graph.symbols()) {
    const auto size = loaded->symbol_defaults.find(symbol);
    if (size != loaded->symbol_defaults.end()) out.symbol_defaults[symbol] = size->second;
  }
  out.metadata = loaded->metadata;
  out.tokenizer = loaded->tokenizer;
  test::PowerFiles files;
  if (!save_model(files, kPath, out).ok()) return {};
  const auto contents = files.contents();
  const auto& bytes = contents.at(kPath);
  const std::string_view saved(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return std::string(saved.substr(0, number_at<std::uint64_t>(saved, 16)));
}

void change_shape(fb::ShapeT& shape, Random& random) {
  if (shape.coefficients.empty() || random.one_in(4)) {
    shape.coefficients.push_back(static_cast<std::int64_t>(extreme_integer(random)));
  } else if (!shape.symbols.empty() && random.one_in(2)) {
    random.pick(shape.symbols) = odd_text(random);
  } else {
    std::int64_t& size = random.pick(shape.coefficients);
    size = static_cast<std::int64_t>(extreme_integer(random, static_cast<std::uint64_t>(size)));
  }
}

void change_value(fb::ValueT& value, Random& random) {
  switch (random.below(5)) {
    case 0: value.name = odd_text(random); break;
    case 1: value.dtype = static_cast<fb::DType>(random.below(16)); break;
    case 2: value.kind = static_cast<fb::ValueKind>(random.below(7)); break;
    case 3: value.source_perm.push_back(static_cast<std::uint8_t>(extreme_integer(random))); break;
    default:
      if (value.shape) change_shape(*value.shape, random);
  }
}

void change_indices(std::vector<std::uint32_t>& list, Random& random) {
  if (list.empty() || random.one_in(3)) {
    list.push_back(static_cast<std::uint32_t>(extreme_integer(random)));
  } else {
    std::uint32_t& index = random.pick(list);
    index = static_cast<std::uint32_t>(extreme_integer(random, index));
  }
}

void change_node(fb::NodeT& node, Random& random) {
  switch (random.below(4)) {
    case 0: node.op = static_cast<fb::Op>(extreme_integer(random)); break;
    case 1: change_indices(node.inputs, random); break;
    case 2: change_indices(node.outputs, random); break;
    default: {
      if (node.attrs.empty()) return;
      fb::AttrT& attr = *random.pick(node.attrs);
      if (random.one_in(3)) attr.name = odd_text(random);
      if (auto* integer = attr.value.Asinteger()) integer->value = static_cast<std::int64_t>(extreme_integer(random));
      if (auto* number = attr.value.Asnumber()) number->value = extreme_number(random);
      if (auto* list = attr.value.Asintegers()) list->value.push_back(static_cast<std::int64_t>(random.next()));
      if (auto* shape = attr.value.Asshape(); shape != nullptr && shape->value) change_shape(*shape->value, random);
    }
  }
}

void change_places(fb::ModelT& model, Random& random) {
  const auto far = [&](auto& number) {
    number = static_cast<std::decay_t<decltype(number)>>(extreme_integer(random, number));
  };
  if (!model.segments.empty() && random.one_in(3)) {
    fb::SegmentT& segment = *random.pick(model.segments);
    random.one_in(2) ? far(segment.offset) : far(segment.bytes);
  } else if (!model.tensors.empty()) {
    fb::TensorT& tensor = *random.pick(model.tensors);
    switch (random.below(6)) {
      case 0: far(tensor.value); break;
      case 1: far(tensor.segment); break;
      case 2: far(tensor.offset); break;
      case 3: far(tensor.bytes); break;
      case 4: tensor.dtype = static_cast<fb::DType>(random.below(16)); break;
      default: tensor.blocks.resize(random.below(5));
    }
  }
}

void change_rest(fb::ModelT& model, Random& random) {
  fb::GraphT& graph = *model.graph;
  switch (random.below(5)) {
    case 0:
      if (!model.metadata.empty()) random.pick(model.metadata)->value = odd_text(random);
      break;
    case 1:
      if (!model.metadata.empty()) random.pick(model.metadata)->key = odd_text(random);
      break;
    case 2:
      if (!graph.symbols.empty()) {
        random.pick(graph.symbols)->default_size = static_cast<std::int64_t>(extreme_integer(random));
      }
      break;
    case 3:
      if (!graph.outputs.empty()) random.pick(graph.outputs)->value = static_cast<std::uint32_t>(random.below(40));
      break;
    default:
      if (!model.signatures.empty()) random.pick(model.signatures)->inputs.resize(1);
      if (!model.signatures.empty() && !random.pick(model.signatures)->inputs[0]) model.signatures.clear();
  }
}

std::string changed_tables(std::string_view root, Random& random) {
  const std::vector<std::byte> file = model_of_root(root);
  // FlatBuffers' own code takes only what a reader has accepted: it knows no misaligned numbers, and no attributes of
  // types to come.
  if (!load_model(file, "m", {.check = WeightCheck::never}).ok()) return {};
  fb::ModelT model;
  fb::GetModel(file.data())->UnPackTo(&model);
  for (std::size_t left = 1 + random.below(3); left > 0; --left) {
    const std::size_t what = random.below(10);
    if (what < 3 && !model.graph->values.empty()) {
      change_value(*random.pick(model.graph->values), random);
    } else if (what < 6 && !model.graph->nodes.empty()) {
      change_node(*random.pick(model.graph->nodes), random);
    } else if (what < 8) {
      change_places(model, random);
    } else {
      change_rest(model, random);
    }
  }
  flatbuffers::FlatBufferBuilder builder;
  fb::FinishModelBuffer(builder, fb::Model::Pack(builder, &model));
  return model_format::add_header({reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()});
}

}  // namespace

bool is_model_root(std::string_view root) {
  return root.size() > model_format::kHeaderBytes && root.size() <= model_format::kSegmentAlignment;
}

std::vector<std::byte> model_of_root(std::string_view root) {
  using namespace model_format;
  constexpr std::size_t kWeights = 1024;
  std::vector<std::byte> file(kSegmentAlignment + kWeights);
  std::memcpy(file.data(), root.data(), root.size());
  const std::uint32_t table = std::max<std::uint32_t>(8, number_at<std::uint16_t>(root, 0));
  std::memcpy(file.data(), &table, sizeof table);
  std::memcpy(file.data() + 4, "GRFT", 4);
  std::memset(file.data() + 8, 0, kHeaderBytes - 8);
  file[8] = std::byte{kVersion};
  seal(std::span(file).first(root.size()), file.size());
  return file;
}

std::string mutate_model(std::string_view root, Random& random) {
  if (!is_model_root(root)) return {};
  return random.one_in(3) ? changed_tables(root, random) : valid_model(root, random);
}

}  // namespace graft::fuzz
