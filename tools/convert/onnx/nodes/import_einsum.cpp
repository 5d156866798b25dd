// Einsum: any equation, as sums, products of matrices and of elements.
#include <algorithm>
#include <cctype>

#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/import/import.h"

namespace graft::convert {
namespace {

/// A letter for each axis; those of the ellipsis are digits, counted from its end.
struct Subscripts {
  std::vector<std::string> inputs;
  std::string output;
};

constexpr std::string_view kDots = "...";

/// Axes of the ellipsis become digits: with two of them "1" and "0", so that they align at the end.
std::string without_dots(const std::string& part, std::size_t axes) {
  const auto at = part.find(kDots);
  if (at == std::string::npos) return part;
  std::string digits;
  for (std::size_t i = axes; i-- > 0;) digits += static_cast<char>('0' + i);
  return part.substr(0, at) + digits + part.substr(at + kDots.size());
}

Status check_part(const std::string& part, const std::string& equation) {
  std::string letters = part;
  if (const auto at = letters.find(kDots); at != std::string::npos) letters.erase(at, kDots.size());
  const bool well = std::all_of(letters.begin(), letters.end(),
                                [](char ch) { return std::isalpha(static_cast<unsigned char>(ch)) != 0; });
  return well ? ok_status() : corrupt("its equation \"", equation, "\" is malformed");
}

Result<Subscripts> parse_equation(const NodeContext& c) {
  const std::string text = c.attr_text("equation", "");
  std::string equation = text;
  std::erase(equation, ' ');
  const auto arrow = equation.find("->");
  const std::string left = equation.substr(0, arrow);
  Subscripts s;
  std::size_t dots = 0;
  for (std::size_t start = 0; start <= left.size();) {
    const auto end = std::min(left.find(',', start), left.size());
    s.inputs.push_back(left.substr(start, end - start));
    start = end + 1;
  }
  if (s.inputs.size() != c.inputs()) {
    return corrupt("its equation \"", text, "\" has ", s.inputs.size(), " operands for ", c.inputs(), " inputs");
  }
  std::string all;
  for (std::size_t i = 0; i < s.inputs.size(); ++i) {
    std::string& part = s.inputs[i];
    GRAFT_TRY(check_part(part, text));
    const bool any = part.find(kDots) != std::string::npos;
    const std::size_t letters = part.size() - (any ? kDots.size() : 0);
    if (letters > c.rank(i) || (!any && letters != c.rank(i))) {
      return corrupt("its operand ", i, " has ", c.rank(i), " axes for \"", part, "\"");
    }
    part = without_dots(part, c.rank(i) - letters);
    dots = std::max(dots, c.rank(i) - letters);
    all += part;
  }
  if (arrow != std::string::npos) {
    const std::string right = equation.substr(arrow + 2);
    GRAFT_TRY(check_part(right, text));
    s.output = without_dots(right, dots);
  } else {  // the ellipsis, then the letters that occur once, in order of the alphabet
    s.output = without_dots(std::string(kDots), dots);
    for (char ch = 'A'; ch <= 'z'; ++ch) {
      if (std::count(all.begin(), all.end(), ch) == 1) s.output += ch;
    }
  }
  for (const char letter : s.output) {
    if (all.find(letter) == std::string::npos || std::count(s.output.begin(), s.output.end(), letter) > 1) {
      return corrupt("its output letter '", letter, "' is unknown or repeated");
    }
  }
  return s;
}

bool has(const std::string& letters, char letter) { return letters.find(letter) != std::string::npos; }

/// A value with a letter for each axis, none twice.
struct Term {
  ValueId value;
  std::string letters;
};

class Einsum {
 public:
  explicit Einsum(NodeContext& c) : c_(c) {}

  /// Of letters that stand twice the diagonal remains: with both axes at the end, every (n + 1)th element.
  Result<Term> term(std::size_t i, std::string letters) {
    Term t{c_.in(i), std::move(letters)};
    while (c_.status().ok()) {
      std::size_t second = 0;
      std::size_t first = std::string::npos;
      for (; second < t.letters.size(); ++second) {
        first = t.letters.find(t.letters[second]);
        if (first != second) break;
      }
      if (second == t.letters.size()) break;
      const Shape shape = c_.shape_of(t.value);
      if (shape[first] != shape[second] || !shape[first].is_constant()) {
        return unsupported("its diagonal is of axes of sizes ", shape[first].text(), " and ", shape[second].text());
      }
      const std::int64_t n = shape[first].value();
      const char letter = t.letters[first];
      Perm perm;
      std::vector<Dim> dims;
      std::string rest;
      for (std::size_t k = 0; k < t.letters.size(); ++k) {
        if (k == first || k == second) continue;
        perm.push_back(static_cast<std::uint8_t>(k));
        dims.push_back(shape[k]);
        rest += t.letters[k];
      }
      perm.push_back(static_cast<std::uint8_t>(first));
      perm.push_back(static_cast<std::uint8_t>(second));
      dims.push_back(n * n);
      const ValueId flat = c_.reshape(c_.transpose(t.value, perm), Shape(dims));
      Ints starts(dims.size(), 0), ends(dims.size(), std::int64_t{0x7fffffff}), steps(dims.size(), 1);
      ends.back() = n * n;
      steps.back() = n + 1;
      t = {c_.emit(Op::slice, {flat}, {{"starts", starts}, {"ends", ends}, {"steps", steps}}), rest + letter};
    }
    return t;
  }

  Term summed(Term t, const std::string& kept) {
    Ints axes;
    std::string rest;
    for (std::size_t k = 0; k < t.letters.size(); ++k) {
      if (has(kept, t.letters[k])) {
        rest += t.letters[k];
      } else {
        axes.push_back(static_cast<std::int64_t>(k));
      }
    }
    if (axes.empty()) return t;
    return {c_.emit(Op::reduce_sum, {t.value}, {{"axes", axes}, {"keepdims", std::int64_t{0}}}), rest};
  }

  /// The axes in the order of `letters`; missing ones have size 1.
  ValueId arranged(const Term& t, const std::string& letters) {
    Perm perm;
    std::vector<Dim> dims;
    const Shape shape = c_.shape_of(t.value);
    for (const char letter : letters) {
      const auto at = t.letters.find(letter);
      if (at == std::string::npos) {
        dims.push_back(1);
      } else {
        perm.push_back(static_cast<std::uint8_t>(at));
        dims.push_back(shape[at]);
      }
    }
    return c_.reshape(c_.transpose(t.value, perm), Shape(std::move(dims)));
  }

  Dim size_of(const Term& t, char letter) const { return c_.shape_of(t.value)[t.letters.find(letter)]; }

  Result<Dim> size_of(const Term& t, const std::string& letters) const {
    std::vector<Dim> dims;
    for (const char letter : letters) dims.push_back(size_of(t, letter));
    return Shape(std::move(dims)).element_count();
  }

  /// The product of two, summed over letters that are not kept.
  Result<Term> contracted(Term a, Term b, const std::string& kept) {
    a = summed(a, kept + b.letters);
    b = summed(b, kept + a.letters);
    if (!c_.status().ok()) return c_.status();
    std::string batch, rows, columns, inner;
    bool plain = c_.dtype_of(a.value) == DType::f32;
    for (const char letter : a.letters) {
      if (!has(b.letters, letter)) {
        rows += letter;
        continue;
      }
      (has(kept, letter) ? batch : inner) += letter;
      plain = plain && size_of(a, letter) == size_of(b, letter);
    }
    for (const char letter : b.letters) {
      if (!has(a.letters, letter)) columns += letter;
    }
    if (inner.empty() || !plain) {
      const std::string letters = batch + rows + columns + inner;
      if (letters.size() > Shape::kMaxRank)
        return unsupported("it has more than ", Shape::kMaxRank, " letters at once");
      return summed({c_.emit(Op::mul, {arranged(a, letters), arranged(b, letters)}), letters}, kept);
    }
    std::vector<Dim> dims;
    for (const char letter : batch) dims.push_back(size_of(a, letter));
    for (const char letter : rows) dims.push_back(size_of(a, letter));
    for (const char letter : columns) dims.push_back(size_of(b, letter));
    if (dims.size() > Shape::kMaxRank) return unsupported("it has more than ", Shape::kMaxRank, " letters at once");
    const Attrs plainly = {{"trans_a", std::int64_t{0}}, {"trans_b", std::int64_t{0}}};
    // A product of matrices as it is: patterns of attention are looked for in such.
    if (rows.size() == 1 && columns.size() == 1 && inner.size() == 1) {
      const ValueId left = arranged(a, batch + rows + inner), right = arranged(b, batch + inner + columns);
      return Term{c_.emit(Op::matmul, {left, right}, Attrs(plainly)), batch + rows + columns};
    }
    GRAFT_TRY_ASSIGN(const Dim n, size_of(a, batch));
    GRAFT_TRY_ASSIGN(const Dim m, size_of(a, rows));
    GRAFT_TRY_ASSIGN(const Dim k, size_of(a, inner));
    GRAFT_TRY_ASSIGN(const Dim w, size_of(b, columns));
    const bool many = !batch.empty();
    const ValueId left = c_.reshape(arranged(a, batch + rows + inner), many ? Shape{n, m, k} : Shape{m, k});
    const ValueId right = c_.reshape(arranged(b, batch + inner + columns), many ? Shape{n, k, w} : Shape{k, w});
    const ValueId y = c_.emit(Op::matmul, {left, right}, Attrs(plainly));
    return Term{c_.reshape(y, Shape(std::move(dims))), batch + rows + columns};
  }

 private:
  NodeContext& c_;
};

Status einsum(NodeContext& c) {
  if (!is_float(c.type(0)) && !is_integer(c.type(0))) return unsupported("its input is ", elem_name(c.type(0)));
  GRAFT_TRY_ASSIGN(const Subscripts s, parse_equation(c));
  Einsum e(c);
  GRAFT_TRY_ASSIGN(Term total, e.term(0, s.inputs[0]));
  for (std::size_t i = 1; i < s.inputs.size(); ++i) {
    if (c.type(i) != c.type(0)) return corrupt("its operands differ in type");
    std::string kept = s.output;
    for (std::size_t k = i + 1; k < s.inputs.size(); ++k) kept += s.inputs[k];
    GRAFT_TRY_ASSIGN(const Term next, e.term(i, s.inputs[i]));
    GRAFT_TRY_ASSIGN(total, e.contracted(std::move(total), next, kept));
  }
  total = e.summed(std::move(total), s.output);
  if (!c.status().ok()) return c.status();
  // Axes of an ellipsis that no operand has as many of have size 1 here; none is missing.
  c.out(0, c.kept_in(e.arranged(total, s.output), c.type(0)));
  return {};
}

}  // namespace

const RuleEntry kEinsumRules[] = {
    {"Einsum", 1, 64, einsum},
    {nullptr, 0, 0, nullptr},
};

}  // namespace graft::convert
