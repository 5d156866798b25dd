// The graph's inputs: their shapes and symbols, axes that are opened, and contents that are fixed.
#include <algorithm>
#include <cctype>

#include "platform/base/names.h"
#include "tools/convert/onnx/import/import.h"

namespace graft::convert {
namespace {

constexpr std::int64_t kMostTensors = 4096;  // of a sequence

/// Sizes of a tensor without elements; symbols beside the zero do not matter.
std::vector<std::int64_t> empty_dims(const Shape& shape) {
  std::vector<std::int64_t> dims;
  for (const Dim& dim : shape) dims.push_back(dim.is_constant() ? dim.value() : 1);
  return dims;
}

std::string as_symbol(const std::string& text) {
  std::string name;
  for (const char c : text) name += std::isalnum(static_cast<unsigned char>(c)) || c == '_' ? c : '_';
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) name = "d" + name;
  return name.substr(0, 64);
}

}  // namespace

std::string dimension_symbol(const OnnxValue& value, std::size_t axis) {
  const std::string& symbol = value.dims[axis].symbol;
  if (!symbol.empty()) return as_symbol(symbol);
  return axis == 0 ? "batch" : as_symbol(cat(value.name, "_", axis));
}

OnnxValue sequence_element(const OnnxValue& sequence, std::size_t i) {
  OnnxValue element = sequence;
  element.name = cat(sequence.name, ".", i);
  for (std::size_t axis = 0; axis < element.dims.size(); ++axis) {
    if (element.dims[axis].value < 0) element.dims[axis].symbol = cat(element.name, "_", axis);
  }
  return element;
}

Result<Shape> Importer::read_shape(const OnnxValue& value) {
  std::vector<Dim> dims;
  if (value.dims.size() > Shape::kMaxRank) {
    return unsupported("has ", value.dims.size(), " axes, and tensors of more than ", Shape::kMaxRank,
                       " axes are not supported");
  }
  for (std::size_t axis = 0; axis < value.dims.size(); ++axis) {
    const OnnxDim& dim = value.dims[axis];
    if (dim.value >= 0 && dim.symbol.empty()) {
      dims.push_back(dim.value);
      continue;
    }
    const std::string symbol = dimension_symbol(value, axis);
    const auto bound = options_.bindings.find(symbol);
    if (bound != options_.bindings.end() && bound->second <= 0) {
      return invalid("has the symbol ", symbol, " bound to ", bound->second, ", which is not positive");
    }
    dims.push_back(bound == options_.bindings.end() ? Dim::symbol(symbol) : Dim(bound->second));
  }
  return Shape(std::move(dims));
}

void Importer::add_tensor_input(const OnnxValue& input) {
  const auto fail = [&](const std::string& text) {
    problem(cat("The input \"", input.name, "\" ", text, "."));
    unknown_.insert(input.name);
  };
  if (!input.has_shape) return fail("has no shape, so its rank is unknown");
  auto shape = read_shape(input);
  if (!shape.ok()) return fail(shape.status().message());
  if (std::any_of(shape->begin(), shape->end(), [](const Dim& dim) { return dim == Dim(0); })) {
    // Nothing is in it, so everything about it is known. It stays an input of the model, which nothing reads.
    Record& record = create(input.name);
    record.host = std::make_shared<HostTensor>(HostTensor{.type = input.type, .dims = empty_dims(*shape)});
    record.type = input.type;
    record.shape = record.host->shape();
  }
  auto dtype = device_dtype(input.type);
  if (!dtype.ok()) return fail("cannot be used: " + dtype.status().message());
  auto id = model_.graph.add_value(input.name, *dtype, *shape, ValueKind::input);
  if (!id.ok()) {
    problem(id.status().message());
    unknown_.insert(input.name);
    return;
  }
  model_.graph.mutable_value(*id).source_type = source_type(input.type);
  note_type(input.type, "inputs");
  if (find(input.name) != nullptr) return;
  Record& record = create(input.name);
  record.type = input.type;
  record.shape = *shape;
  record.value = *id;
}

/// A sequence's tensors are inputs of their own, with sizes of their own.
void Importer::add_sequence_input(const OnnxValue& input) {
  const auto given = options_.lengths.find(input.name);
  if (given == options_.lengths.end() || given->second < 0 || given->second > kMostTensors) {
    problem(cat("The input \"", input.name, "\" is ", input.sequence ? "a sequence" : "an optional", "; say ",
                input.sequence ? "how many tensors it holds" : "whether it holds a tensor (1) or nothing (0)",
                ", up to ", kMostTensors, " (--length ", quoted_argument(quoted_name(input.name) + "=COUNT"), ")."));
    unknown_.insert(input.name);
    return;
  }
  if (input.optional && given->second == 0) {
    create(input.name).absent = true;
    return;
  }
  if (!input.sequence) return add_tensor_input(input);
  Names elements;
  for (std::int64_t i = 0; i < given->second; ++i) {
    const OnnxValue element = sequence_element(input, static_cast<std::size_t>(i));
    add_tensor_input(element);
    if (unknown_.contains(element.name)) unknown_.insert(input.name);
    elements.push_back(element.name);
  }
  create(input.name).sequence = std::move(elements);
}

/// As if the file had left them open.
Status Importer::open_axes() {
  for (const OpenAxis& open : options_.opens) {
    const auto input = std::find_if(source_.inputs.begin(), source_.inputs.end(),
                                    [&](const OnnxValue& v) { return v.name == open.input; });
    if (input == source_.inputs.end()) return invalid("There is no input \"", open.input, "\" to open.");
    if (open.axis >= input->dims.size()) {
      return invalid("The input \"", open.input, "\" has ", input->dims.size(), " axes, and no axis ", open.axis, ".");
    }
    OnnxDim& dim = input->dims[open.axis];
    if (!dim.symbol.empty() || dim.value < 0) {
      return invalid("Axis ", open.axis, " of the input \"", open.input, "\" is open already.");
    }
    if (dim.value != 1) {
      return invalid("Axis ", open.axis, " of the input \"", open.input, "\" has the size ", dim.value,
                     "; only a size of 1 can be opened.");
    }
    dim = {-1, open.symbol};
  }
  return {};
}

/// Every bound name is a dimension of an input.
Status Importer::check_bindings() const {
  std::set<std::string> symbols;
  const auto add = [&](const OnnxValue& value) {
    for (std::size_t axis = 0; axis < value.dims.size(); ++axis) {
      const OnnxDim& dim = value.dims[axis];
      if (dim.value < 0 || !dim.symbol.empty()) symbols.insert(dimension_symbol(value, axis));
    }
  };
  for (const OnnxValue& input : source_.inputs) {
    const auto length = options_.lengths.find(input.name);
    if (input.sequence && length != options_.lengths.end()) {
      for (std::int64_t i = 0; i < std::min(length->second, kMostTensors); ++i) {
        add(sequence_element(input, static_cast<std::size_t>(i)));
      }
    } else {
      add(input);
    }
  }
  for (const auto& [name, size] : options_.bindings) {
    if (symbols.contains(name)) continue;
    std::string known;
    for (const std::string& symbol : symbols) known += cat(known.empty() ? "" : ", ", symbol);
    return invalid("There is no dimension \"", name, "\" to bind; ",
                   known.empty() ? "the inputs have no open dimensions" : cat("the open dimensions are ", known), ".");
  }
  return {};
}

Status Importer::add_inputs() {
  std::set<std::string> seen;
  for (const OnnxValue& input : source_.inputs) {
    if (!seen.insert(input.name).second) return corrupt("There are two inputs named \"", input.name, "\".");
    if (find(input.name) != nullptr || broken_.contains(input.name)) continue;  // a default value, as in old files
    if (input.name.empty()) return corrupt("An input has no name.");
    if (const auto fixed = options_.fixed_inputs.find(input.name); fixed != options_.fixed_inputs.end()) {
      const std::string what = cat("The input \"", input.name, "\" ");
      if (is_float(input.type) != is_float(fixed->second.type)) {
        return invalid(what, "is ", elem_name(input.type), ", and its contents are ", elem_name(fixed->second.type),
                       ".");
      }
      if (input.has_shape && input.dims.size() != fixed->second.dims.size()) {
        return invalid(what, "has ", input.dims.size(), " axes, and its contents have ", fixed->second.dims.size(),
                       ".");
      }
      Record& record = create(input.name);
      HostTensor contents = fixed->second;
      contents.type = input.type;
      record.host = std::make_shared<HostTensor>(std::move(contents));
      record.type = input.type;
      record.shape = fixed->second.shape();
    } else if (input.tensor) {
      add_tensor_input(input);
    } else if (input.sequence || input.optional) {
      add_sequence_input(input);
    } else {
      problem(
          cat("The input \"", input.name, "\" is a map or of another type that is no tensor, sequence or optional."));
      unknown_.insert(input.name);
    }
  }
  for (const auto& [name, length] : options_.lengths) {
    const bool known = std::ranges::any_of(source_.inputs, [&wanted = name](const OnnxValue& input) {
      return input.name == wanted && !input.tensor && (input.sequence || input.optional);
    });
    if (!known) return invalid("There is no sequence or optional \"", name, "\" among the inputs.");
  }
  return {};
}

}  // namespace graft::convert
