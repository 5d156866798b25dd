#include "tests/support/files/model_example.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "runtime/core/op_id.gen.h"
#include "runtime/model/format.h"
#include "tests/support/files/fault_files.h"

namespace graft::test {
namespace {

template <typename T>
T must(Result<T> result) {
  EXPECT_TRUE(result.ok()) << result.status().message();
  return std::move(result).value();
}
void must(const Status& status) { EXPECT_TRUE(status.ok()) << status.message(); }

void fill(Model& model, ValueId id) {
  const Value& value = model.graph.value(id);
  Bytes bytes(value.shape.elements() * dtype_size(value.dtype));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(7 * i + id.index);
  must(model.copy_weight(id, bytes));
}

std::string values_differ(const Graph& a, const Graph& b) {
  if (a.values().size() != b.values().size()) return "the number of values";
  for (std::size_t i = 0; i < a.values().size(); ++i) {
    const Value& x = a.values()[i];
    const Value& y = b.values()[i];
    const bool same = x.name == y.name && x.dtype == y.dtype && x.kind == y.kind && x.shape == y.shape &&
                      x.producer == y.producer && x.source_perm == y.source_perm;
    if (!same) return "value " + x.name;
  }
  return {};
}

std::string nodes_differ(const Graph& a, const Graph& b) {
  if (a.nodes().size() != b.nodes().size()) return "the number of nodes";
  for (std::size_t i = 0; i < a.nodes().size(); ++i) {
    const Node& x = a.nodes()[i];
    const Node& y = b.nodes()[i];
    const bool same =
        x.name == y.name && x.op == y.op && x.inputs == y.inputs && x.outputs == y.outputs && x.attrs == y.attrs;
    if (!same) return "node " + x.name;
  }
  return {};
}

bool same_list(const std::vector<Output>& a, const std::vector<Output>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Output& x, const Output& y) { return x.name == y.name && x.value == y.value; });
}

}  // namespace

Model example_model() {
  Model model;
  Graph& g = model.graph;
  const ValueId x = must(g.add_value("x", DType::f32, {Dim::symbol("batch"), 2, 3}, ValueKind::input));
  g.mutable_value(x).source_perm = {0, 2, 1};
  const ValueId w = must(g.add_value("layer.weight", DType::f32, {2, 3}, ValueKind::parameter));
  const ValueId c = must(g.add_value("table", DType::i32, {5}, ValueKind::constant));
  const ValueId s = must(g.add_value("sum", DType::f32, {2, 3}, ValueKind::state));
  const NodeId t = must(g.add_node(Op::transpose, {x}, {{"perm", Ints{0, 2, 1}}}, "swap", {"swapped"}));
  const Shape flat{Dim::symbol("batch"), 6};
  const NodeId r = must(g.add_node(Op::reshape, {g.node(t).outputs[0]}, {{"shape", flat}}, "flatten"));
  const ValueId late = must(g.add_value("late", DType::boolean, {1}, ValueKind::state));
  const NodeId e = must(g.add_node(Op::expand, {c}, {{"shape", Shape{4, 5}}}, "spread"));
  must(g.add_node(Op::accumulate, {s, w}, {}, "add up"));
  g.add_output("y", g.node(r).outputs[0]);
  g.add_output("tables", g.node(e).outputs[0]);
  for (const ValueId id : {w, c, late}) fill(model, id);
  model.metadata = {{"source.format", "none"}, {"trainability", "all ops\nhave gradients"}, {"ключ", "значение"}};
  model.symbol_defaults = {{"batch", 4}};
  model.signatures = {{"flat", {{"image", x}}, {{"y", g.node(r).outputs[0]}}}, {"nothing", {}, {}}};
  return model;
}

Bytes file_of(const Model& model) {
  const TemporaryFolder folder;
  const std::string path = folder.file("model.graft");
  must(save_model(os::system_files(), path, model));
  const HostBuffer file = must(os::read_file(os::system_files(), path, 1u << 30));
  return {file.bytes().begin(), file.bytes().end()};
}

std::string difference(const Model& a, const Model& b) {
  if (const std::string what = values_differ(a.graph, b.graph); !what.empty()) return what;
  if (const std::string what = nodes_differ(a.graph, b.graph); !what.empty()) return what;
  if (!same_list(a.graph.outputs(), b.graph.outputs())) return "the outputs";
  if (a.metadata != b.metadata) return "the metadata";
  if (a.symbol_defaults != b.symbol_defaults) return "the defaults of symbols";
  if (a.signatures.size() != b.signatures.size()) return "the number of signatures";
  for (std::size_t i = 0; i < a.signatures.size(); ++i) {
    const Signature& x = a.signatures[i];
    const Signature& y = b.signatures[i];
    if (x.name != y.name || !same_list(x.inputs, y.inputs) || !same_list(x.outputs, y.outputs)) {
      return "signature " + x.name;
    }
  }
  for (std::uint32_t i = 0; i < a.graph.values().size(); ++i) {
    const auto x = a.weight({i});
    const auto y = b.weight({i});
    if (x.has_value() != y.has_value() || (x && !std::equal(x->begin(), x->end(), y->begin(), y->end()))) {
      return "the contents of " + a.graph.values()[i].name;
    }
  }
  return {};
}

ModelEditor::ModelEditor(Bytes file) : file_(std::move(file)) { fb::GetModel(file_.data())->UnPackTo(&tables); }

Bytes ModelEditor::bytes() const {
  flatbuffers::FlatBufferBuilder builder;
  fb::FinishModelBuffer(builder, fb::Model::Pack(builder, &tables));
  std::string root =
      model_format::add_header({reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()});
  Bytes out = file_;
  if (out.size() <= model_format::kSegmentAlignment) {
    out.resize(root.size());
  } else {
    EXPECT_LE(root.size(), model_format::kSegmentAlignment);
  }
  model_format::seal(std::as_writable_bytes(std::span(root)), out.size());
  std::memcpy(out.data(), root.data(), root.size());
  return out;
}

std::size_t root_bytes_of(const Bytes& file) {
  std::uint64_t bytes;
  std::memcpy(&bytes, file.data() + 16, sizeof bytes);
  return static_cast<std::size_t>(bytes);
}

void reseal(Bytes& file, std::size_t root_bytes) { model_format::seal(std::span(file).first(root_bytes), file.size()); }

}  // namespace graft::test
