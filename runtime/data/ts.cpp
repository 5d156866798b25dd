// ts:FILE: the text files of the UCR and UEA archives of time series, for classification and regression.
#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "runtime/data/csv_reader.h"
#include "runtime/data/spec_reader.h"

namespace graft::data {
namespace {

constexpr std::uint64_t kMaxBytes = 4ull << 30, kMaxLine = 64u << 20;

struct Series {
  std::vector<float> values;  // a dimension after another
  std::uint64_t length = 0;
  std::string label;
};

class Reader {
 public:
  Reader(const DataFile& file) : file_(file) {}

  Result<std::vector<Series>> read() {
    std::string line;
    for (;;) {
      GRAFT_TRY_ASSIGN(const bool more, next(line));
      if (!more) break;
      while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
      if (line.empty() || line[0] == '#') continue;
      if (line[0] == '@') {
        GRAFT_TRY(property(line));
        continue;
      }
      if (!in_data_) return corrupt("Line ", number_, " of \"", file_.path(), "\" stands before @data.");
      GRAFT_TRY(add(line));
    }
    if (series_.empty()) return corrupt("\"", file_.path(), "\" holds no time series.");
    return std::move(series_);
  }

  /// @targetlabel true: not names of classes.
  bool labels_are_numbers() const { return labels_are_numbers_; }

 private:
  /// "@timeStamps false": those that change what a line of data means.
  Status property(std::string line) {
    std::ranges::transform(line, line.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    std::ranges::replace(line, '\t', ' ');
    const std::size_t space = line.find(' ');
    const std::string name = line.substr(0, space);
    const std::size_t value = line.find_first_not_of(' ', space);
    const bool on = value != std::string::npos && line.compare(value, 4, "true") == 0;
    if (name == "@data") in_data_ = true;
    if (name == "@targetlabel") labels_are_numbers_ = on;
    if (name == "@timestamps" && on) {
      return unsupported("\"", file_.path(),
                         "\" has a time with each value (@timeStamps true); save the values alone.");
    }
    if (name == "@classlabel" && !on) labels_missing_ = true;
    return {};
  }

  Result<bool> next(std::string& line) {
    line.clear();
    bool any = false;
    for (;;) {
      if (at_ == chunk_.size()) {
        if (offset_ == file_.size()) break;
        chunk_.resize(std::min<std::uint64_t>(1u << 16, file_.size() - offset_));
        GRAFT_TRY(file_.read(offset_, std::as_writable_bytes(std::span(chunk_))));
        offset_ += chunk_.size();
        at_ = 0;
      }
      const char c = chunk_[at_++];
      any = true;
      if (c == '\n') break;
      line.push_back(c);
      if (line.size() > kMaxLine) return corrupt("Line ", number_ + 1, " of \"", file_.path(), "\" has no end.");
    }
    number_ += any ? 1 : 0;
    return any;
  }

  /// "1,2,3:4,5,6:label".
  Status add(const std::string& line) {
    const auto parts = split(line, ':');
    if (parts.size() < 2 || (labels_missing_ && !labels_are_numbers_)) {
      return corrupt("Line ", number_, " of \"", file_.path(), "\" has no label.");
    }
    Series one;
    one.label = parts.back();
    for (std::size_t d = 0; d + 1 < parts.size(); ++d) {
      const std::size_t before = one.values.size();
      for (const std::string& text : split(parts[d], ',')) {
        double value = 0;
        if (!parse_number(text, value) || std::abs(value) > std::numeric_limits<float>::max()) {
          return corrupt("Line ", number_, " of \"", file_.path(), "\" holds \"", shown(text).substr(0, 40),
                         "\" where a number is wanted.");
        }
        one.values.push_back(static_cast<float>(value));
      }
      const std::uint64_t length = one.values.size() - before;
      if (d > 0 && length != one.length) {
        return corrupt("Line ", number_, " of \"", file_.path(), "\" has dimensions of ", one.length, " and ", length,
                       " values.");
      }
      one.length = length;
    }
    if (!series_.empty() && one.values.size() / one.length != series_[0].values.size() / series_[0].length) {
      return corrupt("Line ", number_, " of \"", file_.path(), "\" has ", one.values.size() / one.length,
                     " dimensions, but the first has ", series_[0].values.size() / series_[0].length, ".");
    }
    series_.push_back(std::move(one));
    return {};
  }

  const DataFile& file_;
  std::vector<Series> series_;
  std::vector<char> chunk_;
  std::size_t at_ = 0;
  std::uint64_t offset_ = 0;
  std::uint64_t number_ = 0;  // of the line, from 1
  bool in_data_ = false;
  bool labels_are_numbers_ = false;
  bool labels_missing_ = false;  // @classLabel false
};

struct TsOptions {
  std::int64_t length = 0;
  std::int64_t dimensions = 0;
  bool steps_first = false;
  std::string lengths;
};

class TsSource final : public Source {
 public:
  /// `label`: how each of `labels` is meant.
  TsSource(std::vector<Series> series, std::vector<std::uint32_t> labels, Field label, TsOptions options)
      : series_(std::move(series)), labels_(std::move(labels)), options_(std::move(options)) {
    const Shape shape = options_.steps_first ? Shape{options_.length, options_.dimensions}
                                             : Shape{options_.dimensions, options_.length};
    fields_.push_back({"features", DType::f32, shape, Role::feature});
    if (!options_.lengths.empty()) fields_.push_back({options_.lengths, DType::i32, Shape{}, Role::feature, true, {}});
    fields_.push_back(std::move(label));
  }
  const std::vector<Field>& fields() const override { return fields_; }
  std::optional<std::uint64_t> size() const override { return series_.size(); }
  bool parallel() const override { return true; }

  Result<bool> read(std::uint64_t& position, SampleOut out) override {
    if (position >= series_.size()) return false;
    const Series& one = series_[position];
    const auto length = static_cast<std::int64_t>(one.length), used = std::min(length, options_.length);
    std::memset(out[0], 0, static_cast<std::size_t>(4 * options_.length * options_.dimensions));
    for (std::int64_t d = 0; d < options_.dimensions; ++d) {
      for (std::int64_t t = 0; t < used; ++t) {
        const std::int64_t at = options_.steps_first ? t * options_.dimensions + d : d * options_.length + t;
        std::memcpy(out[0] + 4 * at, &one.values[static_cast<std::size_t>(d * length + t)], 4);
      }
    }
    if (!options_.lengths.empty()) {
      const auto whole = static_cast<std::int32_t>(used);
      std::memcpy(out[1], &whole, 4);
    }
    std::memcpy(out[fields_.size() - 1], &labels_[position], 4);
    ++position;
    return true;
  }

 private:
  std::vector<Series> series_;
  std::vector<std::uint32_t> labels_;
  TsOptions options_;
  std::vector<Field> fields_;
};

/// The classes of the model, or those that there are, by the order of names.
Result<std::vector<std::uint32_t>> classes_of(const std::vector<Series>& series, const DataFile& file, const Opening& o,
                                              Field& label) {
  std::map<std::string, std::uint32_t, std::less<>> numbers;
  label.classes = o.hints.classes;
  for (const Series& one : series) numbers.try_emplace(one.label, 0);
  if (label.classes.empty()) {
    for (const auto& [name, number] : numbers) label.classes.push_back(name);
  }
  for (auto& [name, number] : numbers) {
    const auto found = std::ranges::find(label.classes, name);
    if (found == label.classes.end()) {
      return invalid("\"", file.path(), "\" holds the class \"", shown(name), "\", which is none of the ",
                     label.classes.size(), " that the model was trained on.");
    }
    number = static_cast<std::uint32_t>(found - label.classes.begin());
  }
  std::vector<std::uint32_t> labels;
  for (const Series& one : series) labels.push_back(numbers[one.label]);
  return labels;
}

Result<std::vector<std::uint32_t>> numbers_of(const std::vector<Series>& series, const DataFile& file, Field& label) {
  label.dtype = DType::f32;
  label.shape = Shape{1};
  std::vector<std::uint32_t> labels;
  for (const Series& one : series) {
    double value = 0;
    if (!parse_number(one.label, value) || std::abs(value) > std::numeric_limits<float>::max()) {
      return corrupt("Series ", labels.size(), " of \"", file.path(), "\" has the label \"", shown(one.label),
                     "\", which is not a number that float can hold.");
    }
    labels.push_back(std::bit_cast<std::uint32_t>(static_cast<float>(value)));
  }
  return labels;
}

}  // namespace

OpenResult open_ts_spec(const Opening& o) {
  GRAFT_TRY(expect_arguments(o.spec, 1, "ts:FILE"));
  GRAFT_TRY_ASSIGN(const DataFile file, DataFile::open(o.spec.arguments[0], o.files));
  if (file.size() > kMaxBytes) return invalid("\"", file.path(), "\" has more than ", kMaxBytes, " bytes.");
  GRAFT_TRY(expect_utf8(file));
  Reader reader(file);
  GRAFT_TRY_ASSIGN(std::vector<Series> series, reader.read());
  TsOptions options;
  options.dimensions = static_cast<std::int64_t>(series[0].values.size() / series[0].length);
  std::uint64_t longest = 0;
  for (const Series& one : series) longest = std::max(longest, one.length);
  GRAFT_TRY_ASSIGN(const std::uint64_t length, o.options.whole("length", longest, 1, 1u << 26));
  options.length = static_cast<std::int64_t>(length);
  options.lengths = o.options.text("lengths").value_or("");
  const auto layout = o.options.text("layout");
  if (layout && *layout != "dimensions" && *layout != "steps") {
    return invalid("Option layout=", *layout, " says what comes first: dimensions or steps.");
  }
  if (layout) {
    options.steps_first = *layout == "steps";
  } else if (!o.hints.inputs.empty() && o.hints.inputs[0].dims.size() == 2) {
    const auto& dims = o.hints.inputs[0].dims;
    options.steps_first = dims[1] == options.dimensions && dims[0] != options.dimensions;
  }
  Field label{"label", DType::i32, Shape{}, Role::label, false, {}};
  GRAFT_TRY_ASSIGN(std::vector<std::uint32_t> labels,
                   reader.labels_are_numbers() ? numbers_of(series, file, label) : classes_of(series, file, o, label));
  auto source = std::make_unique<TsSource>(std::move(series), std::move(labels), std::move(label), std::move(options));
  GRAFT_TRY(check_fields(source->fields()));
  return std::unique_ptr<Source>(std::move(source));
}

}  // namespace graft::data
