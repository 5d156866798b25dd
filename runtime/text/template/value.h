// What a template computes with: Python's values as far as templates see them.
//
// Strings, lists and mappings are shared and never change; what changes (namespaces, loops, macros) belongs to the run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/text/template/marked_text.h"

namespace graft::text::jinja {

/// Counts what values hold.
struct Heap {
  std::size_t held = 0;
  std::size_t limit = 0;
  bool has_room(std::size_t bytes) const { return held <= limit && bytes <= limit - held; }
};

struct Object {
  Object(Heap& on, std::size_t bytes) : heap(on), held(bytes + 64) { heap.held += held; }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() { heap.held -= held; }
  Heap& heap;
  std::size_t held;
  unsigned uses = 0;
  unsigned depth = 0;      ///< of values within values
  std::size_t weight = 1;  ///< bytes and values, shared ones as often as they occur: what walking over it takes
};

/// One of the owners of an object.
class Ref {
 public:
  Ref() = default;
  explicit Ref(Object* object) : object_(object) { ++object_->uses; }
  Ref(const Ref& other) : object_(other.object_) {
    if (object_ != nullptr) ++object_->uses;
  }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_ != nullptr && --object_->uses == 0) delete object_;
  }
  Object* get() const { return object_; }

 private:
  Object* object_ = nullptr;
};

struct StringObject;
struct ListObject;
struct DictObject;
struct MethodObject;
struct Thing;

enum class Kind : std::uint8_t {
  absent,  ///< an argument that was not given
  undefined,
  none,
  boolean,
  integer,
  real,
  string,
  list,
  dict,
  method,
  function,
  thing
};

enum class Function : std::uint8_t { range, make_namespace, dict, raise_exception, strftime_now, joiner, cycler };

class Value {
 public:
  Value() = default;
  static Value absent() { return Value(Kind::absent); }
  static Value none() { return Value(Kind::none); }
  static Value boolean(bool value) { return Value(Kind::boolean, value ? 1 : 0); }
  static Value integer(std::int64_t value) { return Value(Kind::integer, value); }
  static Value real(double value) {
    Value out(Kind::real);
    out.real_ = value;
    return out;
  }
  static Value function(Function value) { return Value(Kind::function, static_cast<std::int64_t>(value)); }
  static Value thing(Thing* value) {
    Value out(Kind::thing);
    out.thing_ = value;
    return out;
  }
  static Value object(Kind kind, Object* object) {
    Value out(kind);
    out.object_ = Ref(object);
    return out;
  }

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_integer() const { return kind_ == Kind::integer || kind_ == Kind::boolean; }
  bool is_number() const { return is_integer() || kind_ == Kind::real; }
  std::int64_t integer() const { return integer_; }
  double real() const { return kind_ == Kind::real ? real_ : static_cast<double>(integer_); }
  const MarkedText& string() const;
  const ListObject& list() const;
  const DictObject& dict() const;
  const MethodObject& method() const;
  Thing* thing() const { return thing_; }
  /// Of an undefined value: what was not there; may be empty.
  std::string_view name() const;
  unsigned depth() const { return object_.get() == nullptr ? 0 : object_.get()->depth; }
  std::size_t weight() const { return object_.get() == nullptr ? 1 : object_.get()->weight; }
  const Object* identity() const { return object_.get(); }

 private:
  explicit Value(Kind kind, std::int64_t integer = 0) : kind_(kind), integer_(integer) {}
  Kind kind_ = Kind::undefined;
  std::int64_t integer_ = 0;
  double real_ = 0;
  Thing* thing_ = nullptr;
  Ref object_;
};

/// What Python calls a list: a real one, or something that is walked over.
enum class Flavor : std::uint8_t {
  list,
  tuple,
  group,  ///< a tuple of .grouper and .list
  range,
  keys,
  values,
  items,
  lazy  ///< generators and iterators: true, without length, walked over once
};

struct StringObject : Object {
  StringObject(Heap& on, MarkedText given)
      : Object(on, given.bytes.capacity() + given.marks.capacity() + 64), text(std::move(given)) {
    weight += text.size();
  }
  const MarkedText text;
};

struct ListObject : Object {
  ListObject(Heap& on, std::vector<Value> given, Flavor how);
  const std::vector<Value> items;
  const Flavor flavor;
  mutable std::size_t walked = 0;  ///< of a lazy one
};

/// In the order of insertion.
struct DictObject : Object {
  explicit DictObject(Heap& on) : Object(on, 0) {}
  /// `key` must be hashable.
  void set(const Value& key, const Value& value);
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  std::vector<std::pair<Value, Value>> items;

 private:
  std::unordered_map<std::string, std::size_t> index_;
};

struct MethodObject : Object {
  MethodObject(Heap& on, Value of, std::string called) : Object(on, 64), self(std::move(of)), name(std::move(called)) {
    depth = self.depth() + 1;
  }
  const Value self;
  const std::string name;
};

/// Equal keys have equal texts; nullopt for what cannot be a key.
std::optional<std::string> hash_key(const Value& value);

bool is_true(const Value& value);
bool is_equal(const Value& a, const Value& b);
/// Below, at and above zero as a is to b; nullopt where they have no order.
std::optional<int> order(const Value& a, const Value& b);
/// As messages call it: "a list".
std::string_view kind_text(const Value& value);

/// What Python's str() and repr() say; nullopt where that would name addresses in memory.
std::optional<MarkedText> text_of(const Value& value);
std::optional<MarkedText> literal_of(const Value& value);
std::string number_text(double value);

}  // namespace graft::text::jinja
