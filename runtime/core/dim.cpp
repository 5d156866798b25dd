// Dimensions: products of symbols and of sums that stand for windows, slices and pads.
#include <algorithm>
#include <charconv>
#include <numeric>
#include <set>

#include "platform/base/checked.h"
#include "platform/base/stable_sort.h"
#include "runtime/core/shape.h"

namespace graft {
namespace {

constexpr int kMaxNesting = 16;  // of parentheses: what is written can be read, and reading calls itself
constexpr std::int64_t kMaxCoefficient = std::int64_t{1} << 62;  // negatives and greatest divisors fit

/// Splits at a separator that stands outside of all parentheses.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  if (text.empty()) return parts;
  std::size_t start = 0;
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    if (depth != 0 || text[i] != separator) continue;
    parts.push_back(text.substr(start, i - start));
    start = i + 1;
  }
  parts.push_back(text.substr(start));
  return parts;
}

int nesting(std::string_view text) {
  int depth = 0, most = 0;
  for (const char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    most = std::max(most, depth);
  }
  return most;
}

bool in_range(std::int64_t coefficient) { return coefficient >= -kMaxCoefficient && coefficient <= kMaxCoefficient; }

std::string join(std::vector<std::string> parts) {
  graft::stable_sort(parts);
  std::string joined;
  for (const auto& part : parts) joined += (joined.empty() ? "" : "*") + part;
  return joined;
}

std::vector<std::string> factor_texts(const std::string& symbols) {
  const auto views = split(symbols, '*');
  return {views.begin(), views.end()};
}

bool valid_symbol(std::string_view name) {
  const auto word = [](char c) { return c == '_' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z'); };
  return !name.empty() && name.size() <= 64 && !(name[0] >= '0' && name[0] <= '9') &&
         std::all_of(name.begin(), name.end(), word);
}

std::optional<std::int64_t> number_of(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

/// Coefficients by their factors' text; "" is the constant. None is 0.
using Sum = std::map<std::string, std::int64_t, std::less<>>;

}  // namespace

/// Keeps sums in one form: without a common divisor, terms in the order of their texts, the constant last.
class DimMath {
 public:
  static Dim of(std::int64_t coefficient, std::string symbols) {
    Dim dim(coefficient);
    if (coefficient != 0) dim.symbols_ = std::move(symbols);
    return dim;
  }

  static std::optional<Sum> sum_of(const Dim& dim) {
    Sum sum;
    if (dim.coefficient() == 0) return sum;
    if (!in_range(dim.coefficient())) return std::nullopt;
    const auto factors = factors_of(dim);
    if (factors.size() != 1 || !factors[0].symbol.empty() || factors[0].divisor != 1) {
      sum[dim.symbols()] = dim.coefficient();
      return sum;
    }
    for (const Dim& term : factors[0].terms) {
      const auto scaled = checked_mul(term.coefficient(), dim.coefficient());
      if (!scaled || !in_range(*scaled)) return std::nullopt;
      sum[term.symbols()] = *scaled;
    }
    return sum;
  }

  static std::optional<Dim> dim_of(const Sum& sum) {
    if (sum.empty()) return Dim(0);
    if (sum.size() == 1) return of(sum.begin()->second, sum.begin()->first);
    std::int64_t common = 0;
    for (const auto& [symbols, coefficient] : sum) common = std::gcd(common, coefficient);
    Sum reduced;
    for (const auto& [symbols, coefficient] : sum) reduced[symbols] = coefficient / common;
    return bounded(of(common, "(" + text(reduced) + ")"));
  }

  static std::optional<Dim> quotient(const Sum& whole, std::int64_t divisor) {
    Sum out, rest;
    for (const auto& [symbols, coefficient] : whole) {
      if (const std::int64_t part = floor_div(coefficient, divisor);
          part != 0 && (symbols.empty() || coefficient % divisor == 0)) {
        out[symbols] = part;
      }
      const std::int64_t left = coefficient - floor_div(coefficient, divisor) * divisor;
      if (left != 0) rest[symbols] = symbols.empty() ? left : coefficient;
    }
    if (rest.empty() || (rest.size() == 1 && rest.begin()->first.empty())) return dim_of(out);
    const auto atom = floor_of(rest, divisor);
    return atom ? combine(out, *atom) : std::nullopt;
  }

  static std::optional<Dim> combine(Sum sum, const Dim& other) {
    const auto more = sum_of(other);
    if (!more) return std::nullopt;
    for (const auto& [symbols, coefficient] : *more) {
      const auto total = checked_add(sum[symbols], coefficient);
      if (!total || !in_range(*total)) return std::nullopt;
      sum[symbols] = *total;
      if (*total == 0) sum.erase(symbols);
    }
    return dim_of(sum);
  }

 private:
  static std::string text(const Sum& sum) {
    std::string out;
    const auto append = [&](std::int64_t coefficient, const std::string& symbols) {
      if (!out.empty() && coefficient > 0) out += '+';
      if (symbols.empty()) {
        out += cat(coefficient);
      } else if (coefficient == 1) {
        out += symbols;
      } else if (coefficient == -1) {
        out += "-" + symbols;
      } else {
        out += cat(coefficient, "*", symbols);
      }
    };
    for (const auto& [symbols, coefficient] : sum) {
      if (!symbols.empty()) append(coefficient, symbols);
    }
    if (const auto constant = sum.find(""); constant != sum.end()) append(constant->second, "");
    return out;
  }

  static std::optional<Dim> bounded(Dim dim) {
    if (dim.symbols().size() > kMaxDimText || nesting(dim.symbols()) > kMaxNesting) return std::nullopt;
    return dim;
  }

  /// floor(sum / divisor) where no term is divisible and the constant is less than the divisor.
  static std::optional<Dim> floor_of(Sum sum, std::int64_t divisor) {
    std::int64_t constant = 0;
    if (const auto found = sum.find(""); found != sum.end()) {
      constant = found->second;
      sum.erase(found);
    }
    std::int64_t common = divisor;
    for (const auto& [symbols, coefficient] : sum) common = std::gcd(common, coefficient);
    for (auto& [symbols, coefficient] : sum) coefficient /= common;
    constant = floor_div(constant, common);
    divisor /= common;
    // What is taken away rounded down is what is added rounded up: -(-h // 4) is (h + 3) // 4.
    if (sum.begin()->second < 0) {
      for (auto& [symbols, coefficient] : sum) coefficient = -coefficient;
      sum[""] = divisor - 1 - constant;
      const auto up = floor_of(std::move(sum), divisor);
      return up ? multiply(*up, Dim(-1)) : std::nullopt;
    }
    // A quotient of a quotient is one quotient.
    if (sum.size() == 1 && sum.begin()->second == 1) {
      const auto inner = factors_of(of(1, sum.begin()->first));
      if (inner.size() == 1 && inner[0].divisor > 1) {
        const auto product = checked_mul(inner[0].divisor, divisor), more = checked_mul(inner[0].divisor, constant);
        if (!product || !more) return std::nullopt;
        std::optional<Dim> whole = Dim(*more);
        for (const Dim& term : inner[0].terms) {
          if (whole) whole = add(*whole, term);
        }
        return whole ? divide_floor(*whole, *product) : std::nullopt;
      }
    }
    if (constant != 0) sum[""] = constant;
    const std::string inner = text(sum);
    const bool bare = sum.size() == 1;
    return bounded(of(1, cat("(", bare ? inner : "(" + inner + ")", "//", divisor, ")")));
  }
};

namespace {

Result<Dim> parse_dim(std::string_view text);

Result<Dim> parse_sum(std::string_view text) {
  Dim sum(0);
  std::size_t start = 0;
  int open = 0;
  for (std::size_t i = 1; i <= text.size(); ++i) {
    open += text[i - 1] == '(' ? 1 : text[i - 1] == ')' ? -1 : 0;
    if (i != text.size() && (open != 0 || (text[i] != '+' && text[i] != '-'))) continue;
    std::string_view part = text.substr(start, i - start);
    if (!part.empty() && part[0] == '+') part.remove_prefix(1);
    const bool negative = part.size() > 1 && part[0] == '-' && !(part[1] >= '0' && part[1] <= '9');
    GRAFT_TRY_ASSIGN(const Dim term, parse_dim(negative ? part.substr(1) : part));
    const auto total = negative ? subtract(sum, term) : add(sum, term);
    if (!total) return invalid("The dimension \"", text, "\" is too long or overflows.");
    sum = *total;
    start = i;
  }
  return sum;
}

/// "(SUM)" or "(SUM//NUMBER)" without the outer parentheses.
Result<Dim> parse_factor(std::string_view text) {
  const auto parts = split(text, '/');
  if (parts.size() == 1) return parse_sum(text);
  const auto divisor = parts.size() == 3 && parts[1].empty() ? number_of(parts[2]) : std::nullopt;
  if (!divisor || *divisor < 1)
    return invalid("\"", text, "\" is no dimension: it divides by something else than a number.");
  std::string_view whole = parts[0];
  if (whole.size() > 1 && whole.front() == '(' && whole.back() == ')' && split(whole, '*').size() == 1) {
    whole = whole.substr(1, whole.size() - 2);
  }
  GRAFT_TRY_ASSIGN(const Dim sum, parse_sum(whole));
  const auto out = divide_floor(sum, *divisor);
  if (!out) return invalid("The dimension \"", text, "\" is too long or overflows.");
  return *out;
}

Result<Dim> parse_dim(std::string_view text) {
  Dim dim(1);
  for (const std::string_view part : split(text, '*')) {
    Dim factor;
    if (const auto number = number_of(part)) {
      factor = Dim(*number);
    } else if (valid_symbol(part)) {
      factor = Dim::symbol(part);
    } else if (part.size() > 2 && part.front() == '(' && part.back() == ')') {
      GRAFT_TRY_ASSIGN(factor, parse_factor(part.substr(1, part.size() - 2)));
    } else {
      return invalid("\"", text, "\" is not a dimension: numbers and names joined with '*' are.");
    }
    const auto product = multiply(dim, factor);
    if (!product) return invalid("The dimension \"", text, "\" overflows.");
    dim = *product;
  }
  if (text.empty()) return invalid("An empty text is not a dimension.");
  return dim;
}

void add_names(const Dim& dim, std::set<std::string, std::less<>>& names) {
  for (const DimFactor& factor : factors_of(dim)) {
    if (!factor.symbol.empty()) names.insert(factor.symbol);
    for (const Dim& term : factor.terms) add_names(term, names);
  }
}

}  // namespace

Dim Dim::symbol(std::string_view name) {
  GRAFT_CHECK(valid_symbol(name));
  Dim dim(1);
  dim.symbols_ = name;
  return dim;
}

Result<Dim> Dim::parse(std::string_view text) {
  if (text.size() > 2 * kMaxDimText) return invalid("A dimension has ", text.size(), " characters.");
  if (nesting(text) > kMaxNesting) {
    return invalid("A dimension has parentheses that nest more than ", kMaxNesting, " deep.");
  }
  return parse_dim(text);
}

std::int64_t Dim::value() const {
  GRAFT_CHECK(is_constant());
  return coefficient_;
}

bool Dim::is_symbol() const { return coefficient_ == 1 && valid_symbol(symbols_); }

std::vector<std::string> Dim::names() const {
  std::set<std::string, std::less<>> names;
  add_names(*this, names);
  return {names.begin(), names.end()};
}

std::string Dim::text() const {
  if (is_constant()) return cat(coefficient_);
  return coefficient_ == 1 ? symbols_ : cat(coefficient_, "*", symbols_);
}

std::vector<DimFactor> factors_of(const Dim& dim) {
  std::vector<DimFactor> out;
  for (const std::string_view part : split(dim.symbols(), '*')) {
    DimFactor& factor = out.emplace_back();
    if (part.front() != '(') {
      factor.symbol = part;
      continue;
    }
    std::string_view sum = part.substr(1, part.size() - 2);
    if (const auto parts = split(sum, '/'); parts.size() == 3) {
      factor.divisor = number_of(parts[2]).value_or(1);
      sum = parts[0];
      if (sum.front() == '(' && split(sum, '*').size() == 1) sum = sum.substr(1, sum.size() - 2);
    }
    std::size_t start = 0;
    int open = 0;
    for (std::size_t i = 1; i <= sum.size(); ++i) {
      open += sum[i - 1] == '(' ? 1 : sum[i - 1] == ')' ? -1 : 0;
      if (i != sum.size() && (open != 0 || (sum[i] != '+' && sum[i] != '-'))) continue;
      std::string_view term = sum.substr(start, i - start);
      start = i;
      if (term.front() == '+') term.remove_prefix(1);
      std::int64_t coefficient = 1;
      if (const auto number = number_of(term)) {
        factor.terms.emplace_back(*number);
        continue;
      }
      if (term.front() == '-' && !(term[1] >= '0' && term[1] <= '9')) {
        coefficient = -1;
        term.remove_prefix(1);
      } else if (const std::size_t star = term.find('*'); star != std::string_view::npos) {
        if (const auto number = number_of(term.substr(0, star))) {
          coefficient = *number;
          term.remove_prefix(star + 1);
        }
      }
      factor.terms.push_back(DimMath::of(coefficient, std::string(term)));
    }
  }
  return out;
}

std::optional<Dim> multiply(const Dim& a, const Dim& b) {
  const auto product = checked_mul(a.coefficient_, b.coefficient_);
  if (!product) return std::nullopt;
  Dim out(*product);
  if (*product == 0) return out;
  if (a.symbols_.empty() || b.symbols_.empty()) {
    out.symbols_ = a.symbols_ + b.symbols_;
  } else {
    auto parts = factor_texts(a.symbols_);
    const auto more = factor_texts(b.symbols_);
    parts.insert(parts.end(), more.begin(), more.end());
    out.symbols_ = join(std::move(parts));
    if (out.symbols_.size() > 2 * kMaxDimText) return std::nullopt;
  }
  return out;
}

std::optional<Dim> divide_exactly(const Dim& a, const Dim& b) {
  if (b.coefficient_ == 0 || a.coefficient_ % b.coefficient_ != 0) return std::nullopt;
  Dim out(a.coefficient_ / b.coefficient_);
  auto parts = factor_texts(a.symbols_);
  if (a.coefficient_ != 0) {
    for (const auto& part : factor_texts(b.symbols_)) {
      const auto found = std::find(parts.begin(), parts.end(), part);
      if (found == parts.end()) return std::nullopt;
      parts.erase(found);
    }
  }
  out.symbols_ = join(std::move(parts));
  return out;
}

std::optional<Dim> add(const Dim& a, const Dim& b) {
  const auto sum = DimMath::sum_of(a);
  return sum ? DimMath::combine(*sum, b) : std::nullopt;
}

std::optional<Dim> subtract(const Dim& a, const Dim& b) {
  const auto negative = multiply(b, Dim(-1));
  return negative ? add(a, *negative) : std::nullopt;
}

std::optional<Dim> divide_floor(const Dim& a, std::int64_t divisor) {
  GRAFT_CHECK(divisor >= 1);
  const auto sum = DimMath::sum_of(a);
  return sum ? DimMath::quotient(*sum, divisor) : std::nullopt;
}

namespace {

/// Where nothing is taken away: each symbol is at least 1.
std::optional<std::int64_t> least_where_it_grows(const Dim& dim);

std::optional<std::int64_t> least_of_terms(const std::vector<Dim>& terms) {
  std::int64_t sum = 0;
  for (const Dim& term : terms) {
    const auto part = least_where_it_grows(term), total = part ? checked_add(sum, *part) : std::nullopt;
    if (!total) return std::nullopt;
    sum = *total;
  }
  return sum;
}

template <typename LeastOfTerms>
std::optional<std::int64_t> least_of_product(const Dim& dim, const LeastOfTerms& least_of) {
  if (dim.is_constant()) return dim.value();
  if (dim.coefficient() < 0) return std::nullopt;
  std::int64_t product = dim.coefficient();
  for (const DimFactor& factor : factors_of(dim)) {
    const auto sum = factor.symbol.empty() ? least_of(factor.terms) : std::optional<std::int64_t>(1);
    const std::int64_t least = sum ? floor_div(*sum, factor.divisor) : -1;
    const auto next = least < 0 ? std::nullopt : checked_mul(product, least);
    if (!next) return std::nullopt;
    product = *next;
  }
  return product;
}

std::optional<std::int64_t> least_where_it_grows(const Dim& dim) { return least_of_product(dim, least_of_terms); }

/// A sum of products of symbols that is no greater than what it was made of.
struct LowerBound {
  Sum sum;

  /// Adds `times` of the dimension. What is divided by k and rounded down lies between its (k - 1)th part less than the
  /// quotient and the quotient.
  bool add(const Dim& dim, std::int64_t times) {
    const auto scaled = checked_mul(times, dim.coefficient());
    if (!scaled) return false;
    const auto factors = factors_of(dim);
    if (factors.size() != 1 || !factors[0].symbol.empty()) return put(dim.symbols(), *scaled);
    const std::int64_t k = factors[0].divisor;
    if (*scaled % k != 0) return put(dim.symbols(), *scaled);
    const auto less = checked_mul(1 - k, std::max<std::int64_t>(*scaled / k, 0));
    if (!less || !put("", *less)) return false;
    return std::all_of(factors[0].terms.begin(), factors[0].terms.end(),
                       [&](const Dim& term) { return add(term, *scaled / k); });
  }

  bool put(const std::string& symbols, std::int64_t times) {
    const auto total = checked_add(sum[symbols], times);
    if (total) sum[symbols] = *total;
    return total.has_value();
  }
};

/// Where quotients cancel out what is taken away, as in h - 2 * (h // 2).
std::optional<std::int64_t> least_of_sum(const std::vector<Dim>& terms) {
  LowerBound bound;
  for (const Dim& term : terms) {
    if (!bound.add(term, 1)) return std::nullopt;
  }
  std::int64_t total = 0;
  for (const auto& [symbols, times] : bound.sum) {
    if (times == 0) continue;
    const auto one = symbols.empty() ? 1 : least_where_it_grows(DimMath::of(1, symbols));
    const bool grows = symbols.empty() || times > 0;
    const auto part = one && grows ? checked_mul(*one, times) : std::nullopt;
    const auto next = part ? checked_add(total, *part) : std::nullopt;
    if (!next) return std::nullopt;
    total = *next;
  }
  return total;
}

}  // namespace

std::optional<std::int64_t> least(const Dim& dim) {
  return least_of_product(dim, [](const std::vector<Dim>& terms) {
    const auto sum = least_of_terms(terms);
    return sum ? sum : least_of_sum(terms);
  });
}

Result<Dim> bind(const Dim& dim, const Bindings& bindings) {
  std::optional<Dim> out = Dim(dim.coefficient());
  for (const DimFactor& factor : factors_of(dim)) {
    std::optional<Dim> bound = Dim(0);
    if (!factor.symbol.empty()) {
      const auto found = bindings.find(factor.symbol);
      bound = found == bindings.end() ? Dim::symbol(factor.symbol) : Dim(found->second);
    }
    for (const Dim& term : factor.terms) {
      GRAFT_TRY_ASSIGN(const Dim part, bind(term, bindings));
      if (bound) bound = add(*bound, part);
    }
    if (bound && factor.divisor != 1) bound = divide_floor(*bound, factor.divisor);
    if (out) out = bound ? multiply(*out, *bound) : std::nullopt;
  }
  if (!out) return invalid("The dimension ", dim.text(), " overflows with the sizes given.");
  return *out;
}

}  // namespace graft
