// One run of a template: what its filters, tests, methods and functions work with.
//
// Errors are sticky: fail() keeps the first, and from then on everything ends soon with values of no meaning.
#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "platform/base/status.h"
#include "runtime/text/template/syntax.h"
#include "runtime/text/template/template.h"
#include "runtime/text/template/things.h"
#include "runtime/text/template/value.h"

namespace graft::text::jinja {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
  const Value* find(std::string_view name) const;
};

class Run {
 public:
  Run(Heap& heap, const TemplateLimits& limits, std::optional<std::time_t> now)
      : heap_(heap), limits_(limits), now_(now) {}

  /// Sets a variable of the template.
  void set(std::string name, Value value) { globals_.set(name, std::move(value)); }
  Result<RenderedTemplate> run(const std::vector<NodePtr>& body);

  // Errors and limits.
  template <typename... Parts>
  Value fail(const Parts&... parts) {
    if (error_.ok()) error_ = invalid("line ", line_, ": ", parts...);
    return {};
  }
  bool failed() const { return !error_.ok(); }
  /// Counts work; false where there was an error or too much of it.
  bool step(std::size_t count = 1);
  /// Whether so many bytes may still be held; false and an error otherwise.
  bool room(std::size_t bytes);

  // Values.
  Value text(MarkedText value);
  Value text(std::string_view value) { return text(marked(value)); }
  Value list(std::vector<Value> items, Flavor flavor = Flavor::list);
  Value undefined(std::string_view name);
  Value bound(const Value& self, std::string_view name);
  /// A thing that lives as long as the run.
  template <typename T>
  T* own(std::unique_ptr<T> thing) {
    T* out = thing.get();
    heap_.held += sizeof(T) + 64;
    owned_held_ += sizeof(T) + 64;
    owned_.push_back(std::move(thing));
    return out;
  }
  DictObject* new_dict() { return new DictObject(heap_); }
  bool set_item(DictObject& dict, const Value& key, const Value& value);

  // What values say: each fails with a sentence where Python would raise.
  MarkedText string_of(const Value& value);
  /// Everything that iterating gives.
  std::vector<Value> walk(const Value& value);
  std::int64_t length_of(const Value& value);
  std::int64_t integer_of(const Value& value, std::string_view what);
  bool contains(const Value& all, const Value& item);
  int compared(const Value& a, const Value& b);

  // Looking things up, calling them.
  Value attribute(const Value& of, const std::string& name);
  Value item(const Value& of, const Value& key);
  /// "a.b" or a number, through item(): as filters take attributes.
  Value attribute_path(const Value& of, const Value& path);
  Value call(const Value& what, const Arguments& arguments);
  Value apply_filter(const std::string& name, const Value& value, const Arguments& arguments);
  bool apply_test(const std::string& name, const Value& value, const Arguments& arguments);
  /// Values of named parameters ("width,first"), `absent` where one is not given.
  std::vector<Value> bind(std::string_view what, std::string_view parameters, const Arguments& arguments);

  // Operators.
  Value add(const Value& a, const Value& b);
  Value multiply(const Value& a, const Value& b);
  Value formatted(const MarkedText& pattern, const Value& values);
  std::time_t now() const { return now_ ? *now_ : std::time(nullptr); }
  const TemplateLimits& limits() const { return limits_; }
  ~Run() { heap_.held -= owned_held_ + output_held_; }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

 private:
  enum class Flow : std::uint8_t { on, next, stop };
  class Inner;
  class Capture;

  Flow exec(const std::vector<NodePtr>& body);
  Flow exec(const Node& node);
  Flow exec_branch(const Node& node);
  void exec_loop(const Node& node);
  void run_loop(const Node& node, const Value& over, int depth);
  void exec_with(const Node& node);
  void exec_generation(const Node& node);
  void assign(const Node& target, const Value& value);
  void define_macro(const Node& node, std::string_view name);
  MarkedText captured(const std::vector<NodePtr>& body);
  void put(const MarkedText& text);
  void hold_output(std::size_t bytes);

  Value eval(const Node& node);
  Value eval_name(const Node& node);
  Value eval_items(const Node& node);
  Value eval_dict(const Node& node);
  Value eval_item(const Node& node);
  Value eval_slice(const Value& of, const Node& node);
  Value eval_call(const Node& node, const Value* caller = nullptr);
  Value eval_filter(const Node& node, const Value* block = nullptr);
  Value eval_test(const Node& node);
  Value eval_unary(const Node& node);
  Value eval_binary(const Node& node);
  Value eval_comparison(const Node& node);
  bool compare(const std::string& how, const Value& a, const Value& b);
  Value arithmetic(const std::string& how, const Value& a, const Value& b);
  Arguments eval_arguments(const Node& node);

  Value call_macro(const Macro& macro, const Arguments& arguments);
  Value call_function(Function function, const Arguments& arguments);
  Value call_loop(const Loop& loop, const Arguments& arguments);
  Value thing_attribute(const Value& of, const std::string& name);
  Value call_thing_method(const MethodObject& method, const Arguments& arguments);
  Value macro_value(const Node& node);
  void keep_scopes();

  Heap& heap_;
  const TemplateLimits limits_;
  std::optional<std::time_t> now_;
  Status error_;
  int line_ = 1;
  int depth_ = 0;
  std::uint64_t steps_ = 0;
  std::size_t owned_held_ = 0, output_held_ = 0;
  std::vector<std::unique_ptr<Thing>> owned_;
  Scope globals_{nullptr};
  Scope* scope_ = &globals_;
  RenderedTemplate result_;
  MarkedText* out_ = &result_.text;
};

/// Methods of texts, lists and mappings; what they change is refused.
bool is_method(const Value& of, std::string_view name);
Value call_method(Run& run, const MethodObject& method, const Arguments& arguments);

using FilterFunction = Value (*)(Run& run, const Value& value, const std::vector<Value>& given);
struct FilterRow {
  std::string_view name;
  std::string_view parameters;
  FilterFunction apply;
};
const FilterRow* find_text_filter(std::string_view name);
const FilterRow* find_list_filter(std::string_view name);
/// map, select, reject, selectattr, rejectattr, format: those that take whatever arguments.
using OpenFilter = Value (*)(Run& run, const Value& value, const Arguments& arguments);
OpenFilter find_open_filter(std::string_view name);
bool is_test(std::string_view name);

}  // namespace graft::text::jinja
