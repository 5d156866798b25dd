// What a template's run owns and changes: scopes, namespaces, loops, macros.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/text/template/value.h"

namespace graft::text::jinja {

struct Node;

struct Thing {
  virtual ~Thing() = default;
  virtual std::string_view what() const = 0;
};

/// The names of one block; lookups go on in the scopes around it.
struct Scope : Thing {
  explicit Scope(Scope* around) : parent(around) {}
  std::string_view what() const override { return "a scope"; }
  Value* find(std::string_view name) {
    for (auto& [known, value] : names) {
      if (known == name) return &value;
    }
    return nullptr;
  }
  void set(std::string_view name, Value value) {
    if (Value* known = find(name)) {
      *known = std::move(value);
    } else {
      names.emplace_back(std::string(name), std::move(value));
    }
  }
  Scope* parent;
  std::vector<std::pair<std::string, Value>> names;
  bool is_kept = false;  ///< a macro may come back to it
};

struct Namespace : Thing {
  std::string_view what() const override { return "a namespace"; }
  std::vector<std::pair<std::string, Value>> names;
};

struct Macro : Thing {
  std::string_view what() const override { return "a macro"; }
  const Node* node = nullptr;
  Scope* scope = nullptr;  ///< around its definition
};

struct Loop : Thing {
  std::string_view what() const override { return "a loop"; }
  const Node* node = nullptr;
  Scope* scope = nullptr;
  std::vector<Value> items;
  std::size_t index = 0;
  int depth = 0;
  Value last_changed = Value::absent();
};

/// cycler() and joiner().
struct Turns : Thing {
  std::string_view what() const override { return "a cycler"; }
  std::vector<Value> items;
  std::size_t next = 0;
  bool is_joiner = false;
};

}  // namespace graft::text::jinja
