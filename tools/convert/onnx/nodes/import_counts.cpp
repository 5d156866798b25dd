// What the importer knows of axes that are as long as the data decide: who reads them, how they are named as sizes, and
// how the model tells of them.
#include <algorithm>
#include <map>
#include <set>

#include "runtime/model/counted.h"
#include "tools/convert/onnx/import/import.h"
#include "tools/convert/onnx/proto/onnx_uses.h"

namespace graft::convert {

bool Importer::reads_counted(std::size_t index) {
  const auto counted = [&](const std::string& name) {
    const Record* record = name.empty() ? nullptr : find(name);
    return record != nullptr && record->counted.has_value();
  };
  return std::ranges::any_of(node_at(index).inputs, counted) || std::ranges::any_of(captures(index), counted);
}

bool Importer::is_counted_size(const Dim& dim) const {
  return std::ranges::any_of(dim.names(), [&](const std::string& name) { return counted_sizes_.contains(name); });
}

bool Importer::reads_counted_sizes(std::size_t index) {
  if (counted_sizes_.empty()) return false;
  return std::ranges::any_of(node_at(index).inputs, [&](const std::string& name) {
    const Record* record = name.empty() ? nullptr : find(name);
    return record != nullptr && record->host != nullptr && record->host->symbolic() &&
           std::ranges::any_of(record->host->symbols, [&](const Dim& dim) { return is_counted_size(dim); });
  });
}

/// Sizes that the data decide are moved at conversion, and nothing else: a symbol is taken to be 1 or more, and what is
/// counted may be 0.
bool Importer::may_fold_sizes(std::size_t index) {
  return is_one_of(node_at(index).kind(), {"Gather", "Concat", "Unsqueeze", "Squeeze", "Cast", "Slice", "Identity"}) ||
         !reads_counted_sizes(index);
}

/// What other nodes than rules' make of counted rows and sizes; true: nothing is left to do.
Result<bool> Importer::apply_counted(std::size_t index, Report::Entry& entry) {
  const OnnxNode& node = node_at(index);
  const bool rows = reads_counted(index);
  if (rows && (is_control(node) || is_sequence_op(node) || is_expanded(node))) {
    return unsupported("one of its inputs is as long as the data decide");
  }
  if (reads_counted_sizes(index) && !(rows && node.kind() == "Reshape")) {
    return unsupported("it computes with how many rows there are, which the data decide");
  }
  if (!rows || node.kind() != "Shape" || node.outputs.empty()) return false;
  entry.fate = Report::Fate::folded;
  GRAFT_TRY(shape_of_counted(node, *find(node.inputs[0])));
  return true;
}

/// A symbol stands for how many there are; whoever reshapes rows by it says that they stay rows.
Status Importer::shape_of_counted(const OnnxNode& node, const Record& record) {
  const CountedAxis& own = *record.counted;
  const auto known =
      std::ranges::find_if(counted_sizes_, [&](const auto& one) { return one.second.count == own.count; });
  std::string name = known == counted_sizes_.end() ? std::string() : known->first;
  if (name.empty()) {
    const std::vector<std::string> taken = model_.graph.symbols();
    name = cat("counted_", counted_sizes_.size());
    while (std::ranges::find(taken, name) != taken.end()) name += '_';
    counted_sizes_[name] = {own.count, record.shape[own.axis]};
  }
  std::vector<Dim> dims(record.shape.begin(), record.shape.end());
  dims[own.axis] = Dim::symbol(name);
  const auto place = [&](const char* attribute, std::int64_t fallback) {
    const auto found = node.attrs.find(attribute);
    std::int64_t at = found == node.attrs.end() ? fallback : found->second.integer;
    if (at < 0) at += std::ssize(dims);
    return std::clamp<std::int64_t>(at, 0, std::ssize(dims));
  };
  const std::int64_t start = place("start", 0), end = std::max(start, place("end", std::ssize(dims)));
  HostTensor sizes = HostTensor::of_dims({dims.begin() + start, dims.begin() + end});
  Record& out = create(node.outputs.at(0));
  out.type = sizes.type;
  out.shape = sizes.shape();
  out.host = std::make_shared<HostTensor>(std::move(sizes));
  return {};
}

/// What the most is that such a size can be; other sizes as they are.
Dim Importer::most_of(const Dim& dim) const {
  const auto found = dim.is_symbol() ? counted_sizes_.find(dim.symbols()) : counted_sizes_.end();
  return found == counted_sizes_.end() ? dim : found->second.most;
}

bool NodeContext::is_size_of(const Dim& dim, const CountedAxis& counted) const {
  const auto found = dim.is_symbol() ? importer_.counted_sizes_.find(dim.symbols()) : importer_.counted_sizes_.end();
  return found != importer_.counted_sizes_.end() && found->second.count == counted.count;
}

/// Each is an output too, so that whoever takes the most knows how much of it is there.
void Importer::add_counts() {
  std::vector<CountedOutput> all;
  std::map<ValueId, std::string> names;
  const auto taken = [&](const std::string& name) {
    return std::ranges::find(model_.graph.outputs(), name, &Output::name) != model_.graph.outputs().end();
  };
  for (const OnnxValue& output : source_.outputs) {
    const Record* record = unknown_.contains(output.name) ? nullptr : find(output.name);
    if (record == nullptr || !record->counted) continue;
    const auto [name, fresh] = names.emplace(record->counted->count, cat(output.name, ".count"));
    while (fresh && taken(name->second)) name->second += '_';
    if (fresh) model_.graph.add_output(name->second, record->counted->count);
    all.push_back({output.name, record->counted->axis, name->second});
    report_.notes.push_back(cat("the output \"", output.name, "\" is as long as the data decide: axis ",
                                record->counted->axis, " has up to ", record->shape[record->counted->axis].text(),
                                ", and \"", name->second, "\" says how many"));
  }
  if (!all.empty()) model_.metadata[std::string(kMetaCounted)] = counted_text(all);
}

}  // namespace graft::convert
