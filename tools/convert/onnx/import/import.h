// The ONNX importer's inside: what it knows of each value, and what an op's rule sees.
//
// It only imports: every value has the source's order of axes, and where an op of graft knows another order alone
// (images are channels-last) transposes stand around it. What need not move is found later, for the whole graph at once
// (runtime/passes/layout.cpp). Weights are brought to the order in which they are first used, once and for all.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/core/op_id.gen.h"
#include "runtime/core/source_order.h"
#include "tools/convert/onnx/import/convert_onnx.h"
#include "tools/convert/onnx/import/counted_axis.h"
#include "tools/convert/onnx/import/subgraphs.h"

namespace graft::convert {

using Perm = SourcePerm;

/// [0, 2, ..., rank-1, 1]; empty for rank < 3, where it changes nothing.
Perm channels_last(std::size_t rank);
Perm identity_perm(std::size_t rank);
/// Empty where perm changes nothing.
Perm simplified(Perm perm);
Shape permuted(const Shape& shape, const Perm& perm);

struct QuantizedWeight;  // quantized_values.h

/// What is known of one value of the source.
struct Record {
  std::string name;
  ElemType type = ElemType::f32;
  Shape shape;                             ///< in the source's order
  std::shared_ptr<const HostTensor> host;  ///< contents, where known at conversion
  bool trainable = false;                  ///< `host` comes from weights: a device value must stay connected to them
  bool running_stat = false;               ///< kept as state rather than parameter
  ValueId value;                           ///< in the graph; kNoValue as long as nothing needs it
  Perm perm;                               ///< of a weight: graft's axis i is source axis perm[i]; empty: the same
  std::map<Perm, ValueId> others;          ///< the same with its axes in other orders
  int deferred = -1;                       ///< the node to convert when a device value is wanted
  unsigned depth = 0;                      ///< of deferred nodes behind this one
  std::optional<std::vector<std::string>> sequence;  ///< the names of its tensors, where the value is a sequence
  bool absent = false;                               ///< an optional that holds nothing
  std::shared_ptr<const QuantizedWeight> quantized;  ///< made of such weights when a device value is wanted
  std::optional<CountedAxis> counted;                ///< in the source's order of axes
};

class NodeContext;
using Rule = Status (*)(NodeContext&);
struct RuleEntry {
  const char* op;
  std::size_t min_inputs;
  std::size_t max_inputs;
  Rule rule;
  Op target = Op::count_;  ///< for a rule that serves several ops: which of graft's it makes
};
/// nullptr where there is no rule for the op, which is named with its domain unless that is ONNX's own.
const RuleEntry* find_rule(std::string_view op);
// One table per family (import_<family>.cpp), ended by a null op.
extern const RuleEntry kElementwiseRules[], kConvRules[], kPoolRules[], kNormRules[], kMatmulRules[], kReduceRules[],
    kShapeRules[], kMoveRules[], kResizeRules[], kLossRules[], kComposedRules[], kAttentionRules[], kFusedRules[],
    kRecurrentRules[], kIndexRules[], kEinsumRules[], kRandomRules[], kMlRules[], kTfliteRules[], kQuantizeRules[],
    kIntegerRules[], kSampleRules[], kSignalRules[], kImageRules[], kChosenRules[], kDetectionRules[];

class Importer {
 public:
  Importer(OnnxGraph source, const ConvertOptions& options) : source_(std::move(source)), options_(options) {}
  Result<Converted> run(const std::string& file_name, Report* report);

 private:
  friend class NodeContext;
  friend class Expansion;
  using Names = std::vector<std::string>;

  Status find_producers();
  Status mark_used();
  Status order_nodes();
  Status add_initializers();
  Status add_inputs();
  void add_tensor_input(const OnnxValue& input);
  void add_sequence_input(const OnnxValue& input);
  void add_sequence_output(const std::string& name, const std::vector<std::string>& elements);
  void import_nodes();
  void import_node(std::size_t index);
  bool try_fold(std::size_t index, Report::Entry& entry);
  Status apply_rule(std::size_t index, Report::Entry& entry);
  void note_gradient(std::size_t first_node, Report::Entry& entry);
  void add_unknown_outputs(const OnnxNode& node);
  void add_outputs();
  void add_counts();
  // import_counts.cpp: axes that are as long as the data decide.
  bool reads_counted(std::size_t index);
  bool is_counted_size(const Dim& dim) const;
  bool reads_counted_sizes(std::size_t index);
  bool may_fold_sizes(std::size_t index);
  Result<bool> apply_counted(std::size_t index, Report::Entry& entry);
  Status shape_of_counted(const OnnxNode& node, const Record& record);
  Dim most_of(const Dim& dim) const;
  void problem(std::string text);
  void note_type(ElemType type, std::string_view what);
  Result<Shape> read_shape(const OnnxValue& value);
  Status open_axes();
  Status check_bindings() const;
  void check_opened();
  // import_report.cpp: what the report says when all nodes are there.
  void list_trained();
  void drop_unread_constants();
  void note_tied();
  void note_narrowed();

  Record* find(const std::string& name);
  Record& create(const std::string& name);
  /// A value in the graph: converts deferred nodes, and makes constants of contents, in the order asked for.
  Status ensure_value(Record& record, const Perm& wanted);
  Result<ValueId> value_in(Record& record, const Perm& perm);
  Status materialise(Record& record, const Perm& perm);
  /// Of contents that are sizes, some of them symbols.
  Status materialise_sizes(Record& record);
  /// A size as a number [1] of i32.
  Result<ValueId> size_value(const Dim& size, const std::string& name);
  /// Packed words, or a parameter, and the node that makes numbers of them.
  Status materialise_quantized(Record& record, const Perm& perm);
  /// A value of this name, or of the first free one made of it.
  Result<ValueId> add_weight(const std::string& name, DType dtype, Shape shape, ValueKind kind, const Perm& perm,
                             std::span<const std::byte> bytes);
  /// How often each value of the source is read, and what is done after a node: large weights that it alone reads, and
  /// that are in the model now, are not held twice.
  void count_reads();
  void release_weights(std::size_t index);
  std::int64_t opset(const std::string& domain) const;
  /// What the contents of a value that are not known come from.
  struct Origins {
    bool is_input = false;          ///< it is one of the graph's
    std::set<std::string> symbols;  ///< of open dimensions
    Names small_inputs;             ///< numbers and lists of them, which may well be fixed; not whole images
    bool of_sizes() const { return !symbols.empty() && small_inputs.empty(); }
  };
  Origins origins_of(const Record& record);
  /// The error about a value whose contents are needed: says what it depends on, and asks for inputs to be fixed.
  Status must_be_known(const Record& record, std::string_view what);

  // Control flow (import_control.cpp) and sequences (import_sequence.cpp): nodes that become other nodes.
  const OnnxNode& node_at(std::size_t index) const;
  const Names& captures(std::size_t index);  ///< what bodies of the node read
  Status import_made(OnnxNode node);
  std::string constant_record(const std::string& name, HostTensor contents);
  Status add_alias(const std::string& name, const std::string& of);
  /// Nodes of a body, with `names` for its inputs and prefixes before all others. Gives its outputs' names.
  Result<Names> inline_body(const OnnxGraph& body, const std::string& prefix, const std::string& weights,
                            NameMap names);
  static std::string scope_of(const OnnxNode& node);
  Result<std::int64_t> known_scalar(const std::string& name, std::string_view what);
  static bool is_control(const OnnxNode& node);
  Status expand_control(std::size_t index, Report::Entry& entry);
  Status expand_if(const OnnxNode& node, Report::Entry& entry);
  Result<Names> inline_branch(const OnnxNode& node, std::string_view attribute, const std::string& scope);
  Status compute_both(const OnnxNode& node, const Record& condition);
  Status expand_loop(const OnnxNode& node, Report::Entry& entry);
  Status expand_scan(const OnnxNode& node, Report::Entry& entry);
  Result<Names> scan(const OnnxNode& node, const OnnxGraph& body, std::size_t states, const Names& values,
                     const std::string& scope);
  Result<std::string> element_of(const std::string& of, std::int64_t index, std::int64_t axis);
  Status stack(const std::string& output, Names parts, std::int64_t axis, bool new_axis);
  Status stack_turns(const std::string& output, const Names& parts, std::int64_t axis, const OnnxValue& declared);
  static bool is_expanded(const OnnxNode& node);  ///< import_expand.cpp: written as other ops of ONNX
  Status expand_node(std::size_t index, Report::Entry& entry);
  bool is_sequence_op(const OnnxNode& node);
  Status import_sequence(std::size_t index, Report::Entry& entry);
  Result<Names> sequence_in(const OnnxNode& node, std::size_t i);
  Status out_sequence(const OnnxNode& node, std::size_t k, Names elements);
  Status insert_or_erase(const OnnxNode& node, bool inserts);
  Status split_to_sequence(const OnnxNode& node);
  Status sequence_map(const OnnxNode& node);

  OnnxGraph source_;
  std::deque<OnnxNode> expanded_;  ///< numbered behind those of the source
  std::map<std::size_t, Names> captures_;
  const ConvertOptions& options_;
  Model model_;
  Report report_;
  std::deque<Record> records_;
  std::unordered_map<std::string, Record*> by_name_;
  std::unordered_map<std::string, const OnnxInitializer*> broken_;  ///< initializers that cannot be read
  std::unordered_map<std::string, std::size_t> producer_;           ///< of each value: the node that makes it
  std::set<std::string> given_;                                     ///< names of inputs and initializers
  std::set<std::string> unknown_;                                   ///< values that an unsupported node would have made
  std::unordered_map<std::string, std::size_t> reads_;              ///< how often the source reads a value
  std::set<std::string> wanted_;                                    ///< values that something uses
  std::vector<std::size_t> order_;                                  ///< nodes that outputs depend on, producers first
  std::vector<bool> used_;
  std::size_t last_suffix_ = 0;
  /// Symbols that stand for how many rows there are; none of them gets into the graph.
  struct CountedSize {
    ValueId count;
    Dim most;
  };
  std::map<std::string, CountedSize> counted_sizes_;
  std::map<ValueId, Chosen> chosen_;  ///< by what is not zero: exporters ask again for each tensor that is indexed
};

/// What a rule sees. emit() and the getters are sticky: after an error they return kNoValue and do nothing, and the
/// importer reports that error; so rules read as expressions.
class NodeContext {
 public:
  NodeContext(Importer& importer, const OnnxNode& node, const RuleEntry& rule, std::size_t index, Report::Entry& entry);

  const OnnxNode& node;
  const Op target;  ///< RuleEntry::target
  const std::int64_t opset;

  // Inputs. Asking for the value of one that is not given is an error that says so; the rest gives an empty record.
  std::size_t inputs() const { return node.inputs.size(); }
  bool has(std::size_t i) const { return i < node.inputs.size() && !node.inputs[i].empty(); }
  const Record& record(std::size_t i) const {
    if (i < read_.size()) read_[i] = true;
    return has(i) ? *records_[i] : nothing();
  }
  const Shape& shape(std::size_t i) const { return record(i).shape; }
  std::size_t rank(std::size_t i) const { return record(i).shape.rank(); }
  ElemType type(std::size_t i) const { return has(i) ? records_[i]->type : nothing().type; }
  const HostTensor* host(std::size_t i) const { return record(i).host.get(); }
  bool on_device(std::size_t i) const { return record(i).value.valid(); }
  /// In the source's order of axes, or axis i of it source axis perm[i].
  ValueId in(std::size_t i, const Perm& perm = {});
  Record& mutable_record(std::size_t i) { return const_cast<Record&>(record(i)); }
  /// Everything was read that can matter, since forget_reads(): attributes and inputs.
  Status check_read() const;
  void forget_reads();

  /// Integers known at conversion; the error says where the value comes from otherwise.
  Result<std::vector<Dim>> dims(std::size_t i, std::string_view what);
  Result<Ints> ints(std::size_t i, std::string_view what);
  Result<double> number(std::size_t i, std::string_view what);
  Status known(std::size_t i, std::string_view what);  ///< that host(i) is there and holds numbers

  // Attributes.
  bool has_attr(std::string_view name) const { return node.attrs.contains(name); }
  std::int64_t attr(std::string_view name, std::int64_t fallback) const;
  double attr_number(std::string_view name, double fallback) const;
  std::string attr_text(std::string_view name, std::string_view fallback) const;
  Ints attr_ints(std::string_view name, const Ints& fallback = {}) const;
  /// From an attribute in old opsets and an input in new ones; nullopt where neither is given.
  Result<std::optional<Ints>> ints_of(std::string_view attr_name, std::size_t input);
  Result<std::size_t> axis(std::int64_t axis, std::size_t rank) const { return normalize_axis(axis, rank); }

  // Making nodes.
  ValueId emit(Op op, std::vector<ValueId> inputs, Attrs attrs = {});
  /// Nodes are named as the source's node, or as said.
  std::vector<ValueId> emit_all(Op op, std::vector<ValueId> inputs, Attrs attrs = {}, std::string_view name = {});
  ValueId constant(const HostTensor& contents);
  /// A parameter that the file keeps in an attribute: NODE/name.
  ValueId parameter(std::string_view name, const HostTensor& contents);
  ValueId full(Shape shape, double value, DType dtype = DType::f32);
  ValueId reshape(ValueId value, Shape shape);
  ValueId transpose(ValueId value, const Perm& perm, std::string_view name = {});
  ValueId expand(ValueId value, Shape shape);
  ValueId cast(ValueId value, DType dtype);
  /// 0, 1, 2, ..., as i32.
  ValueId counting(const Dim& count);
  /// A size as a number of i32 without axes.
  ValueId size(const Dim& size);
  /// The contents of input i as integers, also of one that a Cast makes floats of; nullptr where they are not known.
  const HostTensor* whole_host(std::size_t i) const;
  /// Rounded to, or reduced to the low bits of, what the type holds; the value itself for types of 32 bits and more.
  ValueId narrowed(ValueId value, ElemType type, Attrs more = {});
  /// The same for integers alone: results of arithmetic on narrow integers. Floats stay as they are.
  ValueId kept_in(ValueId value, ElemType type) { return is_integer(type) ? narrowed(value, type) : value; }
  const Shape& shape_of(ValueId value) const;
  DType dtype_of(ValueId value) const;
  const std::string& name_of(ValueId value) const;
  /// Whether a parameter is behind it.
  bool is_trained(ValueId value) const;
  /// Whether it is zeros that the graph makes, however moved.
  bool is_zero(ValueId value) const;

  // Results, in the source's order of axes or with axis i being source axis perm[i].
  bool wants(std::size_t k) const;
  void out(std::size_t k, ValueId value, const Perm& perm = {}) { out_typed(k, value, type(0), perm); }
  void out_typed(std::size_t k, ValueId value, ElemType type, const Perm& perm = {});
  /// The same of a value one of whose axes is as long as the data decide.
  void out_counted(std::size_t k, ValueId value, ElemType type, const CountedAxis& counted);
  void alias(std::size_t k, std::size_t input);
  /// A weight that reaches input i through an Identity becomes a weight of its own, named as the input is.
  void part(std::size_t i);
  /// Output k is made of quantized weights when it is read.
  void out_quantized(std::size_t k, std::size_t scale, std::size_t zero_point, std::int64_t axis,
                     std::int64_t block_size, ElemType type);
  /// The numbers (input i - its zero point) of integers that are known, as many bytes on the device as in the file.
  ValueId packed(std::size_t i, std::size_t zero_point, std::int64_t axis, const Perm& perm);
  void out_host(std::size_t k, HostTensor contents);
  void precision(std::string remark) { entry_.precision = std::move(remark); }
  void note(std::string text);
  std::size_t index() const { return index_; }

  /// What was chosen among the elements of a value; empty before.
  Chosen& chosen_of(ValueId value) { return importer_.chosen_[value]; }
  /// Whether it is the size, as Shape gave it, of an axis that is counted so.
  bool is_size_of(const Dim& dim, const CountedAxis& counted) const;

  bool expands() const { return importer_.options_.expand; }

  void fail(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  const Status& status() const { return status_; }

 private:
  static const Record& nothing();
  Status missing(std::size_t i) const;

  Importer& importer_;
  std::size_t index_;
  Report::Entry& entry_;
  std::vector<Record*> records_;
  mutable std::vector<bool> read_;  ///< inputs that the rule looked at; has() and type() do not count
  std::string base_;
  unsigned emitted_ = 0;
  Status status_;
};

}  // namespace graft::convert
