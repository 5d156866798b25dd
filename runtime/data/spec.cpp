#include "runtime/data/spec.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <span>
#include <utility>

#include "runtime/data/column.h"
#include "runtime/data/csv.h"
#include "runtime/data/csv_reader.h"
#include "runtime/data/digits.h"

namespace graft::data {
namespace {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// Options that are taken out one by one, so that what is left was not understood.
class OptionReader {
 public:
  explicit OptionReader(const Spec& spec) : spec_(spec), left_(spec.options) {}

  std::optional<std::string> text(std::string_view name) {
    known_.emplace_back(name);
    const auto found = left_.find(name);
    if (found == left_.end()) return std::nullopt;
    std::string value = std::move(found->second);
    left_.erase(found);
    return value;
  }

  Result<std::optional<std::uint64_t>> whole(std::string_view name) {
    text(name);  // it is known, and understood
    return whole_option(spec_, name);
  }

  Result<std::vector<double>> numbers(std::string_view name) {
    std::vector<double> numbers;
    const auto value = text(name);
    if (!value) return numbers;
    for (const std::string& part : split(*value, ',')) {
      double number = 0;
      if (!parse_number(part, number)) {
        return invalid("Option ", name, "=", *value, " of a data set must be numbers; \"", part, "\" is none.");
      }
      numbers.push_back(number);
    }
    return numbers;
  }

  /// An error where an option was not asked for.
  Status finish() const {
    if (left_.empty()) return {};
    std::string names;
    for (auto it = known_.begin(); it != known_.end(); ++it) {
      if (std::find(known_.begin(), it, *it) == it) names += (names.empty() ? "" : ", ") + *it;
    }
    return invalid("\"", spec_.kind, ":\" data sets have no option \"", left_.begin()->first, "\"; they have ", names,
                   ".");
  }

 private:
  const Spec& spec_;
  std::map<std::string, std::string, std::less<>> left_;
  std::vector<std::string> known_;
};

Status expect_arguments(const Spec& spec, std::size_t count, std::string_view usage) {
  const bool empty = std::any_of(spec.arguments.begin(), spec.arguments.end(), [](const auto& a) { return a.empty(); });
  if (spec.arguments.size() == count && (count == 0 || !empty)) return {};
  return invalid("A data set of this kind is written ", usage, ".");
}

using OpenResult = Result<std::unique_ptr<Source>>;

OpenResult open_idx_pair(const Spec& spec, OptionReader& options, const FileOptions& files) {
  GRAFT_TRY(expect_arguments(spec, 2, "idx:IMAGES,LABELS"));
  GRAFT_TRY_ASSIGN(const std::vector<double> scale, options.numbers("scale"));
  if (scale.size() > 1) return invalid("Option scale takes one number, but ", scale.size(), " were given.");
  IdxOptions image{"image", Role::feature, std::nullopt};
  if (!scale.empty()) image.scale = scale[0];
  std::vector<std::unique_ptr<Column>> columns(2);
  GRAFT_TRY_ASSIGN(columns[0], open_idx(spec.arguments[0], image, files));
  GRAFT_TRY_ASSIGN(columns[1], open_idx(spec.arguments[1], {"label", Role::label, std::nullopt}, files));
  return zip(std::move(columns));
}

OpenResult open_npy_pair(const Spec& spec, OptionReader& options, const FileOptions& files) {
  GRAFT_TRY(expect_arguments(spec, 2, "npy:X.npy,Y.npy"));
  const std::string integers = options.text("integers").value_or("no");
  if (integers != "yes" && integers != "no") {
    return invalid("Option integers=", integers, " of an npy data set must be yes or no.");
  }
  std::vector<std::unique_ptr<Column>> columns(2);
  GRAFT_TRY_ASSIGN(columns[0], open_npy(spec.arguments[0], "features", Role::feature, integers == "yes", files));
  GRAFT_TRY_ASSIGN(columns[1], open_npy(spec.arguments[1], "label", Role::label, true, files));
  return zip(std::move(columns));
}

OpenResult open_csv_file(const Spec& spec, OptionReader& options, const FileOptions& files) {
  GRAFT_TRY(expect_arguments(spec, 1, "csv:FILE"));
  CsvOptions csv;
  csv.label = options.text("label").value_or("");
  const std::string header = options.text("header").value_or("");
  if (header == "yes") csv.header = CsvOptions::Header::yes;
  if (header == "no") csv.header = CsvOptions::Header::no;
  if (!header.empty() && header != "yes" && header != "no") {
    return invalid("Option header=", header, " of a csv data set must be yes or no.");
  }
  return open_csv(spec.arguments[0], csv, files);
}

OpenResult open_digits_spec(const Spec& spec, OptionReader& options, const FileOptions&) {
  GRAFT_TRY(expect_arguments(spec, 0, "digits:"));
  const std::string part = options.text("split").value_or("train");
  if (part != "train" && part != "test") return invalid("Option split=", part, " of digits must be train or test.");
  DigitsOptions digits;
  digits.test = part == "test";
  GRAFT_TRY_ASSIGN(const auto seed, options.whole("seed"));
  GRAFT_TRY_ASSIGN(const auto count, options.whole("count"));
  digits.seed = seed.value_or(0);
  digits.count = count.value_or(digits.test ? 2000 : 10000);
  return open_digits(digits);
}

struct Kind {
  std::string_view name;
  OpenResult (*open)(const Spec&, OptionReader&, const FileOptions&);
};
constexpr Kind kKinds[] = {
    {"idx", open_idx_pair}, {"csv", open_csv_file}, {"npy", open_npy_pair}, {"digits", open_digits_spec}};

OpenResult normalize(std::unique_ptr<Source> source, const std::vector<double>& numbers) {
  const auto feature = find_role(*source, Role::feature);
  if (!feature) return invalid("A data set without features cannot be normalized.");
  const Field field = source->fields()[*feature];
  const std::uint64_t channels = field.shape.rank() == 0 ? 1 : static_cast<std::uint64_t>(field.shape[0].value());
  if (numbers.size() != 2 && numbers.size() != 2 * channels) {
    return invalid("Option normalize takes a mean and a deviation, or one of both for each of ", channels,
                   " channels, but ", numbers.size(), " numbers were given.");
  }
  const std::size_t given = numbers.size() / 2;
  for (std::size_t c = 0; c < given; ++c) {
    if (numbers[given + c] > 0) continue;
    return invalid("Option normalize has a deviation of ", numbers[given + c], "; it must be above 0.");
  }
  std::vector<Field> fields = source->fields();
  const std::uint64_t elements = field.shape.elements();
  const std::uint64_t block = elements / given;
  auto function = [numbers, given, block, fields, f = *feature](std::uint64_t, std::span<const std::byte* const> in,
                                                                SampleOut out) {
    for (std::size_t g = 0; g < fields.size(); ++g) {
      if (g != f) std::memcpy(out[g], in[g], fields[g].bytes());
    }
    for (std::uint64_t i = 0; i < given * block; ++i) {
      float value = 0;
      std::memcpy(&value, in[f] + 4 * i, 4);
      value = static_cast<float>((value - numbers[i / block]) / numbers[given + i / block]);
      std::memcpy(out[f] + 4 * i, &value, 4);
    }
    return Status();
  };
  return map(std::move(source), std::move(fields), std::move(function));
}

OpenResult open_parsed(const Spec& spec, const FileOptions& files) {
  const auto kind =
      std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& k) { return k.name == spec.kind; });
  if (kind == std::end(kKinds)) {
    std::string names;
    for (const Kind& k : kKinds) names += cat(names.empty() ? "" : ", ", k.name, ":");
    return invalid("There is no kind of data set \"", spec.kind, ":\"; there are ", names,
                   ", and text: and jsonl: for language models.");
  }
  OptionReader options(spec);
  GRAFT_TRY_ASSIGN(std::unique_ptr<Source> source, kind->open(spec, options, files));
  GRAFT_TRY_ASSIGN(const std::vector<double> numbers, options.numbers("normalize"));
  for (const char* name : {"skip", "count"}) options.text(name);
  GRAFT_TRY(options.finish());
  GRAFT_TRY_ASSIGN(source, part_of(std::move(source), spec));
  if (!numbers.empty()) return normalize(std::move(source), numbers);
  return source;
}

}  // namespace

Result<Spec> parse_spec(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos || colon == 0) {
    return invalid("Data set \"", text, "\" does not begin with a kind, as in idx:, csv:, npy: or digits:.");
  }
  Spec spec;
  spec.kind = text.substr(0, colon);
  std::string_view rest = text.substr(colon + 1);
  const std::size_t mark = rest.rfind('?');
  if (mark != std::string_view::npos) {
    for (const std::string& option : split(rest.substr(mark + 1), '&')) {
      const std::size_t equals = option.find('=');
      if (equals == 0 || equals == std::string::npos) {
        return invalid("Option \"", option, "\" of data set \"", text, "\" is not written name=value.");
      }
      if (!spec.options.emplace(option.substr(0, equals), option.substr(equals + 1)).second) {
        return invalid("Option \"", option.substr(0, equals), "\" of data set \"", text, "\" is given twice.");
      }
    }
    rest = rest.substr(0, mark);
  }
  if (!rest.empty()) spec.arguments = split(rest, ',');
  return spec;
}

Result<std::optional<std::uint64_t>> whole_option(const Spec& spec, std::string_view name) {
  const auto found = spec.options.find(name);
  if (found == spec.options.end()) return std::optional<std::uint64_t>();
  const std::string& text = found->second;
  std::uint64_t number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed == std::errc() && end == text.data() + text.size()) return std::optional<std::uint64_t>(number);
  return invalid("Option ", name, "=", text, " of a data set must be a whole number of 0 or more.");
}

OpenResult part_of(std::unique_ptr<Source> source, const Spec& spec) {
  GRAFT_TRY_ASSIGN(const auto skip, whole_option(spec, "skip"));
  GRAFT_TRY_ASSIGN(const auto count, whole_option(spec, "count"));
  if (!skip && !count) return source;
  const std::uint64_t size = source->size().value_or(0), first = skip.value_or(0);
  if (first >= size) return invalid("Option skip=", first, " leaves nothing of a data set of ", size, " samples.");
  const std::uint64_t wanted = count.value_or(size - first);
  if (wanted == 0 || wanted > size - first) {
    return invalid("Option count=", wanted, " must be 1 to ", size - first, ", the samples that there are",
                   first > 0 ? cat(" after the first ", first) : "", ".");
  }
  return range(std::move(source), first, wanted);
}

OpenResult open_spec(std::string_view text, const FileOptions& files) {
  GRAFT_TRY_ASSIGN(const Spec spec, parse_spec(text));
  return open_parsed(spec, files).with_context(cat("While opening data set \"", text, "\""));
}

}  // namespace graft::data
