#include "tools/convert/pytorch/pickle.h"

#include <algorithm>
#include <map>
#include <optional>

#include "platform/base/text.h"

namespace graft::convert {
namespace {

// A value takes up to 150 bytes here and one byte in a file: this many at least, and of large files one for each 8
// bytes. A tensor has about 20 values in 100 bytes.
constexpr std::size_t kLeastLimit = 1 << 20;
constexpr std::size_t kBytesPerValue = 8;
constexpr std::size_t kMaxGlobal = 32;  // of a module's or a function's name: a memo may repeat a long one
constexpr std::size_t kMaxLine = 1 << 16;

}  // namespace

/// The stack machine that a pickle is a program for, without the opcodes that would find or make anything.
class PickleMachine {
 public:
  explicit PickleMachine(ByteReader& in) : in_(in), most_values_(kLeastLimit + in.left() / kBytesPerValue) {}

  Result<Pickle> run() {
    for (;;) {
      GRAFT_TRY_ASSIGN(const std::uint8_t code, in_.number<std::uint8_t>());
      if (code == '.') break;
      GRAFT_TRY(step(code));
    }
    GRAFT_TRY_ASSIGN(out_.root_, pop());
    return std::move(out_);
  }

 private:
  using Kind = PickleValue::Kind;

  Result<PickleId> make(Kind kind) {
    if (out_.values_.size() >= most_values_)
      return unsupported("The pickle holds more than ", most_values_, " values.");
    out_.values_.emplace_back().kind = kind;
    return static_cast<PickleId>(out_.values_.size() - 1);
  }
  PickleValue& at(PickleId id) { return out_.values_[id]; }
  Status push(Kind kind, std::int64_t integer = 0) {
    GRAFT_TRY_ASSIGN(const PickleId id, make(kind));
    at(id).integer = integer;
    stack_.push_back(id);
    return {};
  }
  Status push_text(std::uint64_t size) {
    GRAFT_TRY_ASSIGN(const std::string_view text, in_.text(size));
    GRAFT_TRY(push(Kind::text));
    at(stack_.back()).text = text;
    return {};
  }
  Result<PickleId> pop() {
    if (stack_.size() <= floor()) return corrupt("The pickle takes from an empty stack at offset ", in_.offset(), ".");
    const PickleId id = stack_.back();
    stack_.pop_back();
    return id;
  }
  Result<PickleId> top() {
    if (stack_.size() <= floor()) return corrupt("The pickle reads an empty stack at offset ", in_.offset(), ".");
    return stack_.back();
  }
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  /// What was pushed since the mark.
  Result<std::vector<PickleId>> popped_to_mark() {
    if (marks_.empty()) return corrupt("The pickle has no mark at offset ", in_.offset(), ".");
    const auto from = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<PickleId> items(from, stack_.end());
    stack_.erase(from, stack_.end());
    marks_.pop_back();
    return items;
  }
  Status push_items(Kind kind, std::vector<PickleId> items) {
    GRAFT_TRY(push(kind));
    at(stack_.back()).items = std::move(items);
    return {};
  }
  Status push_last(std::size_t count) {
    std::vector<PickleId> items(count);
    for (std::size_t i = count; i-- > 0;) {
      GRAFT_TRY_ASSIGN(items[i], pop());
    }
    return push_items(Kind::tuple, std::move(items));
  }
  Result<std::string_view> line() {
    std::string_view text = text_ahead();
    const auto end = text.find('\n');
    if (end == std::string_view::npos) return corrupt("The pickle ends within a line.");
    GRAFT_TRY(in_.take(end + 1).status());
    return text.substr(0, end);
  }
  std::string_view text_ahead() {
    ByteReader ahead = in_;
    const auto text = ahead.text(std::min<std::uint64_t>(ahead.left(), kMaxLine));
    return text.ok() ? *text : std::string_view();
  }

  template <class T>
  Status push_number() {
    GRAFT_TRY_ASSIGN(const T value, in_.number<T>());
    return push(Kind::integer, value);
  }
  /// Little endian, two's complement, of any length; what does not fit 64 bits stays bytes.
  Status push_long(std::uint64_t size) {
    GRAFT_TRY_ASSIGN(const std::string_view bytes, in_.text(size));
    GRAFT_TRY(push(Kind::integer));
    if (size > 8) {
      at(stack_.back()).text = bytes;
      return {};
    }
    std::uint64_t value = size > 0 && (bytes.back() & 0x80) != 0 ? ~std::uint64_t{0} : 0;
    for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<std::uint8_t>(bytes[i]);
    at(stack_.back()).integer = static_cast<std::int64_t>(value);
    return {};
  }
  template <class T>
  Status push_sized_text() {
    GRAFT_TRY_ASSIGN(const T size, in_.number<T>());
    return push_text(size);
  }

  Status put(std::uint64_t key) {
    GRAFT_TRY_ASSIGN(const PickleId id, top());
    if (key < memo_.size()) {
      memo_[key] = id;
    } else if (key == memo_.size()) {
      memo_.push_back(id);
      far_memo_.erase(key);
    } else {
      far_memo_[key] = id;
    }
    return {};
  }
  Status get(std::uint64_t key) {
    const auto far = far_memo_.find(key);
    if (key >= memo_.size() && far == far_memo_.end()) {
      return corrupt("The pickle asks for ", key, ", which it never kept.");
    }
    stack_.push_back(key < memo_.size() ? memo_[key] : far->second);
    return {};
  }
  Status fill(const std::vector<PickleId>& items, bool pairs) {
    GRAFT_TRY_ASSIGN(const PickleId to, top());
    if (pairs && items.size() % 2 != 0) return corrupt("The pickle sets a key without a value.");
    if (!pairs) {
      at(to).items.insert(at(to).items.end(), items.begin(), items.end());
      return {};
    }
    for (std::size_t i = 0; i < items.size(); i += 2) at(to).pairs.emplace_back(items[i], items[i + 1]);
    return {};
  }
  Status call() {
    GRAFT_TRY_ASSIGN(const PickleId arguments, pop());
    GRAFT_TRY_ASSIGN(const PickleId callee, pop());
    return push_items(Kind::call, {callee, arguments});
  }
  Status global(std::string_view module, std::string_view name) {
    std::string text = cat(module.substr(0, kMaxGlobal), " ", name.substr(0, kMaxGlobal));
    GRAFT_TRY(push(Kind::global));
    at(stack_.back()).text = std::move(text);
    return {};
  }

  Status step(std::uint8_t code);
  Status step_numbers(std::uint8_t code);
  Status step_containers(std::uint8_t code);

  ByteReader& in_;
  Pickle out_;
  std::vector<PickleId> stack_;
  std::vector<std::size_t> marks_;
  std::vector<PickleId> memo_;                  // most writers number what they keep from 0 on
  std::map<std::uint64_t, PickleId> far_memo_;  // other numbers
  const std::size_t most_values_;
  bool known_ = true;
};

Status PickleMachine::step(std::uint8_t code) {
  known_ = true;
  GRAFT_TRY(step_numbers(code));
  if (known_) return {};
  known_ = true;
  GRAFT_TRY(step_containers(code));
  if (known_) return {};
  return unsupported("The pickle has the opcode ", static_cast<int>(code), " at offset ", in_.offset() - 1,
                     ", which no file of weights needs.");
}

Status PickleMachine::step_numbers(std::uint8_t code) {
  switch (code) {
    case 0x80: {  // PROTO
      GRAFT_TRY_ASSIGN(const std::uint8_t version, in_.number<std::uint8_t>());
      if (version > 5) return unsupported("The pickle has the protocol ", static_cast<int>(version), ".");
      return {};
    }
    case 0x95:  // FRAME
      return in_.take(8).status();
    case 'N': return push(Kind::none);
    case 0x88: return push(Kind::boolean, 1);
    case 0x89: return push(Kind::boolean, 0);
    case 'J': return push_number<std::int32_t>();
    case 'K': return push_number<std::uint8_t>();
    case 'M': return push_number<std::uint16_t>();
    case 0x8a: {  // LONG1
      GRAFT_TRY_ASSIGN(const std::uint8_t size, in_.number<std::uint8_t>());
      return push_long(size);
    }
    case 0x8b: {  // LONG4
      GRAFT_TRY_ASSIGN(const std::uint32_t size, in_.number<std::uint32_t>());
      return push_long(size);
    }
    case 'G': {  // a double, which no file of weights needs
      GRAFT_TRY(in_.take(8).status());
      return push(Kind::number);
    }
    case 'X':
    case 'T':
    case 'B': return push_sized_text<std::uint32_t>();
    case 0x8c:
    case 'U':
    case 'C': return push_sized_text<std::uint8_t>();
    case 0x8d:
    case 0x8e: return push_sized_text<std::uint64_t>();
    default: known_ = false; return {};
  }
}

Status PickleMachine::step_containers(std::uint8_t code) {
  const auto key = [&](auto size) -> Result<std::uint64_t> {
    GRAFT_TRY_ASSIGN(const auto number, in_.number<decltype(size)>());
    return std::uint64_t{number};
  };
  switch (code) {
    case '(': marks_.push_back(stack_.size()); return {};
    case '0': return pop().status();
    case '1': return popped_to_mark().status();
    case '2': {
      GRAFT_TRY_ASSIGN(const PickleId id, top());
      stack_.push_back(id);
      return {};
    }
    case ')': return push(Kind::tuple);
    case 't': {
      GRAFT_TRY_ASSIGN(auto items, popped_to_mark());
      return push_items(Kind::tuple, std::move(items));
    }
    case 0x85:
    case 0x86:
    case 0x87: return push_last(code - 0x84u);
    case ']':
    case 0x8f:  // EMPTY_SET
      return push(Kind::list);
    case 'l': {
      GRAFT_TRY_ASSIGN(auto items, popped_to_mark());
      return push_items(Kind::list, std::move(items));
    }
    case 'a': {
      GRAFT_TRY_ASSIGN(const PickleId item, pop());
      return fill({item}, false);
    }
    case 'e':
    case 0x90: {  // APPENDS, ADDITEMS
      GRAFT_TRY_ASSIGN(const auto items, popped_to_mark());
      return fill(items, false);
    }
    case '}': return push(Kind::dict);
    case 'd': {
      GRAFT_TRY_ASSIGN(const auto items, popped_to_mark());
      GRAFT_TRY(push(Kind::dict));
      return fill(items, true);
    }
    case 's': {
      GRAFT_TRY_ASSIGN(const PickleId item, pop());
      GRAFT_TRY_ASSIGN(const PickleId name, pop());
      return fill({name, item}, true);
    }
    case 'u': {
      GRAFT_TRY_ASSIGN(const auto items, popped_to_mark());
      return fill(items, true);
    }
    case 'c': {
      GRAFT_TRY_ASSIGN(const std::string_view module, line());
      GRAFT_TRY_ASSIGN(const std::string_view name, line());
      return global(module, name);
    }
    case 0x93: {  // STACK_GLOBAL
      GRAFT_TRY_ASSIGN(const PickleId name, pop());
      GRAFT_TRY_ASSIGN(const PickleId module, pop());
      return global(at(module).text, at(name).text);
    }
    case 'R':
    case 0x81:  // NEWOBJ
      return call();
    case 'b': {  // BUILD: the state of an object
      GRAFT_TRY_ASSIGN(const PickleId state, pop());
      GRAFT_TRY_ASSIGN(const PickleId object, top());
      if (at(object).kind == Kind::call) {
        at(object).items.resize(2);
        at(object).items.push_back(state);
      }
      return {};
    }
    case 'Q': {  // BINPERSID
      GRAFT_TRY_ASSIGN(const PickleId id, pop());
      return push_items(Kind::persistent, {id});
    }
    case 'h': {
      GRAFT_TRY_ASSIGN(const std::uint64_t k, key(std::uint8_t{}));
      return get(k);
    }
    case 'j': {
      GRAFT_TRY_ASSIGN(const std::uint64_t k, key(std::uint32_t{}));
      return get(k);
    }
    case 'q': {
      GRAFT_TRY_ASSIGN(const std::uint64_t k, key(std::uint8_t{}));
      return put(k);
    }
    case 'r': {
      GRAFT_TRY_ASSIGN(const std::uint64_t k, key(std::uint32_t{}));
      return put(k);
    }
    case 0x94:  // MEMOIZE
      return put(memo_.size() + far_memo_.size());
    default: known_ = false; return {};
  }
}

Result<Pickle> Pickle::read(ByteReader& in) { return PickleMachine(in).run(); }

const PickleValue* Pickle::find(const PickleValue& dict, std::string_view key) const {
  // The last one counts, as in Python.
  for (auto pair = dict.pairs.rbegin(); pair != dict.pairs.rend(); ++pair) {
    const PickleValue& name = values_[pair->first];
    if (name.kind == PickleValue::Kind::text && name.text == key) return &values_[pair->second];
  }
  return nullptr;
}

}  // namespace graft::convert
