#include "runtime/text/template/run.h"

#include <algorithm>

#include "runtime/text/template/json_value.h"

namespace graft::text::jinja {
namespace {

constexpr int kDeepestRun = 400;
constexpr unsigned kDeepestValue = 100;
constexpr std::size_t kTextsPerMemory = 16;  // a text is copied while it is worked on: none may be a large part of all
constexpr std::size_t kLargestTemplate = std::size_t{4} << 20;

/// Whether it is a message's role: message.role, message["role"], message.get("role") or a variable of that name.
bool is_role(const Node& node) {
  switch (node.kind) {
    case NodeKind::name:
    case NodeKind::attribute: return node.text == "role";
    case NodeKind::item: return node.parts[1]->kind == NodeKind::string && node.parts[1]->text == "role";
    case NodeKind::call:
      return node.parts[0]->text == "get" && !node.arguments.empty() && node.arguments[0].value->text == "role";
    default: return false;
  }
}

/// Adds what a template compares roles with.
void find_roles(const Node& node, std::vector<std::string>& roles) {
  if (node.kind == NodeKind::comparison && std::ranges::any_of(node.parts, [](const auto& p) { return is_role(*p); })) {
    for (const NodePtr& part : node.parts) {
      if (part->kind == NodeKind::string) roles.push_back(part->text);
      if (part->kind != NodeKind::list && part->kind != NodeKind::tuple) continue;
      for (const NodePtr& one : part->parts) {
        if (one->kind == NodeKind::string) roles.push_back(one->text);
      }
    }
  }
  const auto find_all = [&](const std::vector<NodePtr>& nodes) {
    for (const NodePtr& one : nodes) {
      if (one != nullptr) find_roles(*one, roles);
    }
  };
  find_all(node.parts);
  for (const Argument& argument : node.arguments) {
    if (argument.value != nullptr) find_roles(*argument.value, roles);
  }
  for (const auto& body : node.bodies) find_all(body);
}

}  // namespace

Template::Template(std::vector<NodePtr> body)
    : body_(std::move(body)),
      roles_({"assistant", "developer", "function", "ipython", "model", "observation", "system", "tool", "user"}) {
  for (const NodePtr& node : body_) find_roles(*node, roles_);
  std::ranges::sort(roles_);
}

Result<Template> Template::parse(std::string_view source) {
  if (source.size() > kLargestTemplate) {
    return invalid("The chat template has ", source.size(), " bytes; ", kLargestTemplate, " can be read.");
  }
  auto body = parse_template(source);
  if (!body.ok()) return invalid("The chat template cannot be read: ", body.status().message(), ".");
  return Template(std::move(*body));
}

Result<RenderedTemplate> Template::render(std::span<const TemplateInput> inputs, const TemplateLimits& limits,
                                          std::optional<std::time_t> now) const {
  Heap heap{0, limits.memory};
  Run run(heap, limits, now);
  for (const TemplateInput& input : inputs) {
    const char mark = input.origin == Origin::model ? kFromTemplate : kFromData;
    auto value = value_of_json(heap, input.json, mark, input.origin == Origin::conversation ? &roles_ : nullptr);
    if (!value.ok()) {
      return invalid("The JSON of \"", input.name.empty() ? "variables" : shown(input.name),
                     "\" cannot be read: ", value.status().message());
    }
    if (!input.name.empty()) {
      run.set(input.name, std::move(*value));
      continue;
    }
    if (!value->is(Kind::dict))
      return invalid("The variables of a chat template are ", kind_text(*value), ", no JSON object.");
    for (const auto& [name, one] : value->dict().items) run.set(name.string().bytes, one);
  }
  return run.run(body_);
}

const Value* Arguments::find(std::string_view name) const {
  for (const auto& [known, value] : named) {
    if (known == name) return &value;
  }
  return nullptr;
}

Result<RenderedTemplate> Run::run(const std::vector<NodePtr>& body) {
  Scope top(&globals_);
  scope_ = &top;
  exec(body);
  scope_ = &globals_;
  if (!error_.ok()) return invalid("The chat template fails in ", error_.message(), ".");
  return std::move(result_);
}

bool Run::step(std::size_t count) {
  steps_ += count;
  if (steps_ > limits_.steps) fail("it takes more than ", limits_.steps, " steps");
  if (heap_.held > limits_.memory) room(0);
  return error_.ok();
}

bool Run::room(std::size_t bytes) {
  if (!heap_.has_room(bytes)) fail("it needs more than ", bytes_text(limits_.memory), " of memory");
  return error_.ok();
}

Value Run::text(MarkedText value) {
  if (value.size() > limits_.memory / kTextsPerMemory) {
    return fail("a text needs more than ", bytes_text(limits_.memory / kTextsPerMemory), " of memory");
  }
  if (value.bytes.capacity() > value.size() + value.size() / 4 + 64) {
    value.bytes.shrink_to_fit();
    value.marks.shrink_to_fit();
  }
  if (!step(1 + value.size() / 64) || !room(2 * value.size())) return {};
  return Value::object(Kind::string, new StringObject(heap_, std::move(value)));
}

Value Run::list(std::vector<Value> items, Flavor flavor) {
  if (items.capacity() > items.size() + items.size() / 4 + 16) items.shrink_to_fit();
  if (!step(1 + items.size() / 8) || !room(items.size() * sizeof(Value))) return {};
  Value out = Value::object(Kind::list, new ListObject(heap_, std::move(items), flavor));
  if (out.depth() > kDeepestValue) return fail("lists are nested more than ", kDeepestValue, " deep");
  if (out.weight() > limits_.memory) return fail("a list holds more than ", bytes_text(limits_.memory));
  return out;
}

bool Run::set_item(DictObject& dict, const Value& key, const Value& value) {
  if (!hash_key(key)) fail(kind_text(key), " cannot be a key");
  if (!step()) return false;
  dict.set(key, value);
  if (dict.depth > kDeepestValue) fail("mappings are nested more than ", kDeepestValue, " deep");
  if (dict.weight > limits_.memory) fail("a mapping holds more than ", bytes_text(limits_.memory));
  return !failed();
}

Value Run::undefined(std::string_view name) {
  return Value::object(Kind::undefined, new StringObject(heap_, marked(name)));
}

Value Run::bound(const Value& self, std::string_view name) {
  return Value::object(Kind::method, new MethodObject(heap_, self, std::string(name)));
}

MarkedText Run::string_of(const Value& value) {
  if (value.is(Kind::string)) return value.string();
  if (!step(1 + value.weight() / 64) || !room(4 * value.weight())) return {};
  auto out = text_of(value);
  if (!out) {
    fail(kind_text(value), " cannot be written as text");
    return {};
  }
  return std::move(*out);
}

void Run::put(const MarkedText& text) {
  const std::size_t held = 3 * text.size();  // bytes and marks of a text that grows
  if (!step(text.size() / 64) || !room(held)) return;
  if (out_->size() + text.size() > limits_.output) {
    fail("it writes more than ", bytes_text(limits_.output));
    return;
  }
  out_->add(text);
  hold_output(held);
}

/// A scope, and what it stands in again at its end.
class Run::Inner {
 public:
  explicit Inner(Run& run, Scope* around) : run_(run), before_(run.scope_), scope_(std::make_unique<Scope>(around)) {
    run_.scope_ = scope_.get();
  }
  Inner(const Inner&) = delete;
  Inner& operator=(const Inner&) = delete;
  ~Inner() {
    run_.scope_ = before_;
    if (scope_->is_kept) run_.own(std::move(scope_));
  }

 private:
  Run& run_;
  Scope* before_;
  std::unique_ptr<Scope> scope_;
};

Run::Flow Run::exec(const std::vector<NodePtr>& body) {
  for (const NodePtr& node : body) {
    const Flow flow = exec(*node);
    if (failed()) return Flow::stop;
    if (flow != Flow::on) return flow;
  }
  return Flow::on;
}

Run::Flow Run::exec(const Node& node) {
  line_ = node.line;
  if (!step()) return Flow::stop;
  if (depth_ > kDeepestRun) {
    fail("it is nested more than ", kDeepestRun, " deep");
    return Flow::stop;
  }
  ++depth_;
  Flow flow = Flow::on;
  switch (node.kind) {
    case NodeKind::data: put(marked(node.text)); break;
    case NodeKind::output: put(string_of(eval(*node.parts[0]))); break;
    case NodeKind::branch: flow = exec_branch(node); break;
    case NodeKind::loop: exec_loop(node); break;
    case NodeKind::assign: assign(*node.parts[0], eval(*node.parts[1])); break;
    case NodeKind::assign_block: {
      Value value = text(captured(node.bodies[0]));
      if (node.parts[1] != nullptr) value = eval_filter(*node.parts[1], &value);
      assign(*node.parts[0], value);
      break;
    }
    case NodeKind::macro: scope_->set(node.text, macro_value(node)); break;
    case NodeKind::call_block: {
      const Value caller = macro_value(node);
      put(string_of(eval_call(*node.parts[0], &caller)));
      break;
    }
    case NodeKind::filter_block: {
      const Value value = text(captured(node.bodies[0]));
      put(string_of(eval_filter(*node.parts[0], &value)));
      break;
    }
    case NodeKind::with: exec_with(node); break;
    case NodeKind::generation: exec_generation(node); break;
    case NodeKind::stop: flow = Flow::stop; break;
    case NodeKind::next: flow = Flow::next; break;
    default: break;
  }
  --depth_;
  return flow;
}

Run::Flow Run::exec_branch(const Node& node) {
  for (std::size_t i = 0; i < node.parts.size(); ++i) {
    const bool is_so = is_true(eval(*node.parts[i]));
    if (failed()) return Flow::stop;
    if (is_so) return exec(node.bodies[i]);
  }
  return node.bodies.size() > node.parts.size() ? exec(node.bodies.back()) : Flow::on;
}

void Run::exec_loop(const Node& node) {
  const Value over = eval(*node.parts[1]);
  if (!failed()) run_loop(node, over, 0);
}

void Run::run_loop(const Node& node, const Value& over, int depth) {
  auto made = std::make_unique<Loop>();
  Loop* loop = own(std::move(made));
  loop->node = &node;
  loop->scope = scope_;
  loop->depth = depth;
  if (!node.text.empty()) keep_scopes();
  for (Value& item : walk(over)) {
    if (node.parts[2] != nullptr) {
      const Inner inner(*this, scope_);
      assign(*node.parts[0], item);
      const bool stays = is_true(eval(*node.parts[2]));
      if (!stays) continue;
    }
    if (failed()) return;
    loop->items.push_back(std::move(item));
  }
  const std::size_t held = loop->items.size() * sizeof(Value);
  if (!room(held) || !step(loop->items.size() / 8)) return;
  heap_.held += held;
  const std::size_t count = loop->items.size();
  for (; loop->index < count && !failed(); ++loop->index) {
    const Inner inner(*this, scope_);
    scope_->set("loop", Value::thing(loop));
    assign(*node.parts[0], loop->items[loop->index]);
    if (failed() || exec(node.bodies[0]) == Flow::stop) break;
  }
  heap_.held -= held;
  loop->items.clear();
  if (count == 0 && node.bodies.size() > 1 && !failed()) {
    const Inner inner(*this, scope_);
    exec(node.bodies[1]);
  }
}

void Run::exec_with(const Node& node) {
  std::vector<Value> values;
  for (std::size_t i = 1; i < node.parts.size(); i += 2) values.push_back(eval(*node.parts[i]));
  const Inner inner(*this, scope_);
  for (std::size_t i = 0; i < values.size(); ++i) assign(*node.parts[2 * i], values[i]);
  if (!failed()) exec(node.bodies[0]);
}

void Run::exec_generation(const Node& node) {
  const std::size_t begin = out_->size();
  {
    const Inner inner(*this, scope_);
    exec(node.bodies[0]);
  }
  // Within a block that is captured, places are not yet those of the whole.
  result_.has_generation = true;
  if (out_ == &result_.text) result_.generation.emplace_back(begin, out_->size());
}

void Run::assign(const Node& target, const Value& value) {
  if (failed()) return;
  if (target.kind == NodeKind::name) return scope_->set(target.text, value);
  if (target.kind == NodeKind::attribute) {
    Value place;
    for (Scope* at = scope_; at != nullptr; at = at->parent) {
      if (const Value* known = at->find(target.texts[0])) {
        place = *known;
        break;
      }
    }
    auto* space = place.is(Kind::thing) ? dynamic_cast<Namespace*>(place.thing()) : nullptr;
    if (space == nullptr) {
      fail("\"", target.texts[0], "\" is no namespace, so that nothing of it can be set");
      return;
    }
    for (auto& [name, known] : space->names) {
      if (name != target.text) continue;
      known = value;
      return;
    }
    space->names.emplace_back(target.text, value);
    return;
  }
  const std::vector<Value> items = walk(value);
  if (failed()) return;
  if (items.size() != target.parts.size()) {
    fail(items.size(), " values are given for ", target.parts.size(), " names");
    return;
  }
  for (std::size_t i = 0; i < items.size(); ++i) assign(*target.parts[i], items[i]);
}

/// What is written until its end goes to a text of its own.
class Run::Capture {
 public:
  explicit Capture(Run& run) : run_(run), before_(std::exchange(run.out_, &text)), held_(run.output_held_) {}
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture() {
    run_.out_ = before_;
    run_.heap_.held -= run_.output_held_ - held_;
    run_.output_held_ = held_;
  }
  MarkedText text;

 private:
  Run& run_;
  MarkedText* before_;
  std::size_t held_;
};

void Run::hold_output(std::size_t bytes) {
  heap_.held += bytes;
  output_held_ += bytes;
}

MarkedText Run::captured(const std::vector<NodePtr>& body) {
  Capture capture(*this);
  {
    const Inner inner(*this, scope_);
    exec(body);
  }
  return std::move(capture.text);
}

/// A macro may come back to all scopes that it stands in.
void Run::keep_scopes() {
  for (Scope* at = scope_; at != nullptr; at = at->parent) at->is_kept = true;
}

Value Run::macro_value(const Node& node) {
  auto macro = std::make_unique<Macro>();
  macro->node = &node;
  macro->scope = scope_;
  keep_scopes();
  return Value::thing(own(std::move(macro)));
}

Value Run::call_macro(const Macro& macro, const Arguments& arguments) {
  const Node& node = *macro.node;
  const std::string_view name = node.kind == NodeKind::macro ? std::string_view(node.text) : "caller";
  const std::size_t count = node.arguments.size();
  if (arguments.positional.size() > count && !node.reads_varargs) {
    return fail("the macro \"", name, "\" takes ", count, " arguments, and gets ", arguments.positional.size());
  }
  const Inner inner(*this, macro.scope);
  std::vector<bool> is_used(arguments.named.size());
  bool has_caller = false;
  for (std::size_t i = 0; i < count && !failed(); ++i) {
    const Argument& parameter = node.arguments[i];
    has_caller = has_caller || parameter.name == "caller";
    const Value* given = i < arguments.positional.size() ? &arguments.positional[i] : nullptr;
    for (std::size_t k = 0; k < arguments.named.size(); ++k) {
      if (arguments.named[k].first != parameter.name) continue;
      if (given != nullptr) return fail("the macro \"", name, "\" gets \"", parameter.name, "\" twice");
      given = &arguments.named[k].second;
      is_used[k] = true;
    }
    if (given != nullptr) {
      scope_->set(parameter.name, *given);
    } else {
      scope_->set(parameter.name, parameter.value == nullptr ? undefined(parameter.name) : eval(*parameter.value));
    }
  }
  for (std::size_t k = 0; k < arguments.named.size(); ++k) {
    const auto& [key, value] = arguments.named[k];
    if (is_used[k]) continue;
    if (key == "caller" && node.reads_caller && !has_caller) {
      scope_->set("caller", value);
      is_used[k] = true;
    } else if (!node.reads_kwargs) {
      return fail("the macro \"", name, "\" has no parameter \"", key, "\"");
    }
  }
  if (node.reads_caller && !has_caller && scope_->find("caller") == nullptr) {
    scope_->set("caller", undefined("caller"));
  }
  if (node.reads_varargs) {
    std::vector<Value> more;
    for (std::size_t i = count; i < arguments.positional.size(); ++i) more.push_back(arguments.positional[i]);
    scope_->set("varargs", list(std::move(more), Flavor::tuple));
  }
  if (node.reads_kwargs) {
    auto* dict = new_dict();
    const Value all = Value::object(Kind::dict, dict);
    for (std::size_t k = 0; k < arguments.named.size(); ++k) {
      if (!is_used[k]) set_item(*dict, text(arguments.named[k].first), arguments.named[k].second);
    }
    scope_->set("kwargs", all);
  }
  if (failed()) return {};
  Capture capture(*this);
  exec(node.bodies[0]);
  return text(std::move(capture.text));
}

Value Run::call_loop(const Loop& loop, const Arguments& arguments) {
  if (loop.node->text.empty()) return fail("a loop that is not recursive cannot be called");
  if (arguments.positional.size() != 1) return fail("a loop is called with what it goes over");
  Scope* before = std::exchange(scope_, loop.scope);
  Capture capture(*this);
  run_loop(*loop.node, arguments.positional[0], loop.depth + 1);
  scope_ = before;
  return text(std::move(capture.text));
}

}  // namespace graft::text::jinja
