// Sequences and optionals of tensors. Which tensors are in one is known at conversion, and nothing else is needed: what
// reads a sequence reads its tensors.
#include <algorithm>

#include "tools/convert/onnx/import/import.h"
#include "tools/convert/onnx/import/subgraphs.h"

namespace graft::convert {
namespace {

constexpr std::size_t kMostElements = 4096;

bool given(const OnnxNode& node, std::size_t i) { return i < node.inputs.size() && !node.inputs[i].empty(); }

/// A place among `count`, counted from the end where it is negative.
Result<std::size_t> place_of(std::int64_t at, std::size_t count) {
  const auto size = static_cast<std::int64_t>(count);
  if (at < -size || at >= size) return corrupt("its position ", at, " is outside a sequence of ", size);
  return static_cast<std::size_t>(at < 0 ? at + size : at);
}

}  // namespace

bool Importer::is_sequence_op(const OnnxNode& node) {
  if (!node.domain.empty()) return false;
  static constexpr std::string_view kOps[] = {"SequenceEmpty", "SequenceConstruct",  "SequenceInsert",
                                              "SequenceErase", "SequenceAt",         "SequenceLength",
                                              "SequenceMap",   "SplitToSequence",    "ConcatFromSequence",
                                              "Optional",      "OptionalHasElement", "OptionalGetElement"};
  if (std::find(std::begin(kOps), std::end(kOps), node.op) != std::end(kOps)) return true;
  const Record* record = node.op == "Identity" && given(node, 0) ? find(node.inputs[0]) : nullptr;
  return record != nullptr && (record->sequence || record->absent);
}

Result<Importer::Names> Importer::sequence_in(const OnnxNode& node, std::size_t i) {
  const Record* record = given(node, i) ? find(node.inputs[i]) : nullptr;
  if (record == nullptr || !record->sequence) return corrupt("its input ", i, " is no sequence");
  return *record->sequence;
}

Status Importer::out_sequence(const OnnxNode& node, std::size_t k, Names elements) {
  if (elements.size() > kMostElements) return unsupported("its sequence has more than ", kMostElements, " tensors");
  if (k < node.outputs.size() && !node.outputs[k].empty()) create(node.outputs[k]).sequence = std::move(elements);
  return {};
}

Status Importer::insert_or_erase(const OnnxNode& node, bool inserts) {
  GRAFT_TRY_ASSIGN(Names elements, sequence_in(node, 0));
  const std::size_t at = inserts ? 2 : 1;
  std::size_t place = elements.size();
  if (!inserts && elements.empty()) return corrupt("it takes a tensor out of an empty sequence");
  if (given(node, at)) {
    GRAFT_TRY_ASSIGN(const std::int64_t wanted, known_scalar(node.inputs[at], "position"));
    GRAFT_TRY_ASSIGN(place, place_of(wanted, elements.size() + (inserts && wanted >= 0 ? 1 : 0)));
  } else if (!inserts) {
    place = elements.size() - 1;
  }
  const auto where = elements.begin() + static_cast<std::ptrdiff_t>(place);
  if (!inserts) {
    elements.erase(where);
  } else if (given(node, 1)) {
    elements.insert(where, node.inputs[1]);
  } else {
    return corrupt("its tensor is missing");
  }
  return out_sequence(node, 0, std::move(elements));
}

Status Importer::split_to_sequence(const OnnxNode& node) {
  const Record* record = given(node, 0) ? find(node.inputs[0]) : nullptr;
  if (record == nullptr) return corrupt("its input 0 is missing");
  GRAFT_TRY_ASSIGN(const std::size_t axis, normalize_axis(integer_of(node, "axis", 0), record->shape.rank()));
  const Dim& size = record->shape[axis];
  if (!size.is_constant()) {
    return unsupported("it splits the symbolic axis ", size.text(), "; bind it (--bind NAME=SIZE)");
  }
  std::vector<std::int64_t> sizes;
  std::int64_t chunk = 1;
  if (given(node, 1)) {
    const Record* split = find(node.inputs[1]);
    if (split == nullptr || split->host == nullptr || split->host->symbolic()) {
      return split == nullptr ? corrupt("its split is missing") : must_be_known(*split, "split");
    }
    if (split->host->dims.empty()) chunk = split->host->ints.empty() ? 0 : split->host->ints[0];
    if (!split->host->dims.empty()) sizes = split->host->ints;
  }
  if (chunk < 1) return corrupt("its split is ", chunk);
  const bool chunks = !given(node, 1) || find(node.inputs[1])->host->dims.empty();
  if (chunks && size.value() / chunk >= static_cast<std::int64_t>(kMostElements)) {
    return unsupported("its sequence has more than ", kMostElements, " tensors");
  }
  for (std::int64_t at = 0; chunks && at < size.value(); at += chunk) {
    sizes.push_back(std::min(chunk, size.value() - at));
  }
  if (sizes.size() > kMostElements) return unsupported("its sequence has more than ", kMostElements, " tensors");
  const std::string scope = scope_of(node);
  OnnxNode split{node.name, "Split", "", {node.inputs[0]}, {}, {}};
  split.inputs.push_back(constant_record(scope + "sizes", HostTensor::of_ints(sizes)));
  split.attrs["axis"] = integer_attribute(static_cast<std::int64_t>(axis));
  Names elements;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    elements.push_back(cat(scope, i));
    wanted_.insert(elements.back());
  }
  split.outputs = elements;
  GRAFT_TRY(import_made(std::move(split)));
  if (!given(node, 1) && integer_of(node, "keepdims", 1) == 0) {
    const OnnxAttr axes = integers_attribute({static_cast<std::int64_t>(axis)});
    for (std::string& element : elements) {
      const std::string name = element + "/squeezed";
      wanted_.insert(name);
      GRAFT_TRY(import_made({"", "Squeeze", "", {element}, {name}, {{"axes", axes}}}));
      element = name;
    }
  }
  return out_sequence(node, 0, std::move(elements));
}

/// The body once for each element of the first sequence; other inputs are sequences as long, or tensors.
Status Importer::sequence_map(const OnnxNode& node) {
  const auto found = node.attrs.find("body");
  if (found == node.attrs.end() || found->second.graph == nullptr) return corrupt("its body is missing");
  const OnnxGraph& body = *found->second.graph;
  if (body.inputs.size() != node.inputs.size() || body.outputs.size() < node.outputs.size()) {
    return corrupt("its body has ", body.inputs.size(), " inputs for ", node.inputs.size());
  }
  GRAFT_TRY_ASSIGN(const Names first, sequence_in(node, 0));
  std::vector<Names> results(node.outputs.size());
  const std::size_t problems = report_.problems.size();
  for (std::size_t turn = 0; turn < first.size(); ++turn) {
    NameMap names;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const Record* record = find(node.inputs[i]);
      if (record == nullptr) return corrupt("its input ", i, " is missing");
      if (record->sequence && turn >= record->sequence->size()) return corrupt("its sequences differ in length");
      names[body.inputs[i].name] = record->sequence ? (*record->sequence)[turn] : node.inputs[i];
    }
    const std::string scope = scope_of(node);
    GRAFT_TRY_ASSIGN(const Names outputs, inline_body(body, cat(scope, turn, "/"), scope, std::move(names)));
    if (report_.problems.size() > problems) return unsupported("its body cannot be converted");
    for (std::size_t k = 0; k < results.size(); ++k) results[k].push_back(outputs[k]);
  }
  for (std::size_t k = 0; k < results.size(); ++k) GRAFT_TRY(out_sequence(node, k, std::move(results[k])));
  return {};
}

Status Importer::import_sequence(std::size_t index, Report::Entry& entry) {
  const OnnxNode& node = node_at(index);
  entry.fate = Report::Fate::folded;
  if (node.outputs.empty()) return corrupt("it has no output");
  const auto known = [&](std::int64_t value, ElemType type) {
    HostTensor tensor = HostTensor::of_ints({value});
    tensor.type = type;
    tensor.dims = {};
    Record& record = create(node.outputs[0]);
    record.type = type;
    record.host = std::make_shared<HostTensor>(std::move(tensor));
    return ok_status();
  };
  const Record* first = given(node, 0) ? find(node.inputs[0]) : nullptr;
  if (node.op == "SequenceEmpty") return out_sequence(node, 0, {});
  if (node.op == "SequenceConstruct") return out_sequence(node, 0, node.inputs);
  if (node.op == "SequenceInsert" || node.op == "SequenceErase")
    return insert_or_erase(node, node.op == "SequenceInsert");
  if (node.op == "SplitToSequence") return split_to_sequence(node);
  if (node.op == "SequenceMap") return sequence_map(node);
  if (node.op == "SequenceLength") {
    GRAFT_TRY_ASSIGN(const Names elements, sequence_in(node, 0));
    return known(std::ssize(elements), ElemType::i64);
  }
  if (node.op == "SequenceAt") {
    GRAFT_TRY_ASSIGN(const Names elements, sequence_in(node, 0));
    if (!given(node, 1)) return corrupt("its position is missing");
    GRAFT_TRY_ASSIGN(const std::int64_t wanted, known_scalar(node.inputs[1], "position"));
    GRAFT_TRY_ASSIGN(const std::size_t place, place_of(wanted, elements.size()));
    return add_alias(node.outputs[0], elements[place]);
  }
  if (node.op == "ConcatFromSequence") {
    GRAFT_TRY_ASSIGN(Names elements, sequence_in(node, 0));
    if (elements.empty()) return corrupt("its sequence is empty");
    return stack(node.outputs[0], std::move(elements), integer_of(node, "axis", 0),
                 integer_of(node, "new_axis", 0) != 0);
  }
  if (node.op == "OptionalHasElement") return known(first != nullptr && !first->absent ? 1 : 0, ElemType::boolean);
  if (node.op == "Optional" && first == nullptr) {
    create(node.outputs[0]).absent = true;
    return {};
  }
  if (first == nullptr) return corrupt("its input is missing");
  if (node.op == "OptionalGetElement" && first->absent) return corrupt("its optional holds nothing");
  return add_alias(node.outputs[0], node.inputs[0]);  // Optional, OptionalGetElement, Identity
}

}  // namespace graft::convert
