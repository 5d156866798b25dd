#include "runtime/data/spec.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <span>
#include <utility>

#include "runtime/data/spec_reader.h"

namespace graft::data {
namespace {

struct Kind {
  std::string_view name;
  OpenResult (*open)(const Opening&);
};
constexpr Kind kKinds[] = {{"idx", open_idx_spec},       {"csv", open_csv_spec},       {"npy", open_npy_spec},
                           {"digits", open_digits_spec}, {"folder", open_folder_spec}, {"wav", open_wav_spec},
                           {"ts", open_ts_spec}};

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
  fields[*feature].dtype = DType::f32;
  const bool whole = field.dtype == DType::i32;
  const std::uint64_t elements = field.shape.elements();
  const std::uint64_t block = elements / given;
  auto function = [numbers, given, block, fields, whole, f = *feature](
                      std::uint64_t, std::span<const std::byte* const> in, SampleOut out) {
    for (std::size_t g = 0; g < fields.size(); ++g) {
      if (g != f) std::memcpy(out[g], in[g], fields[g].bytes());
    }
    for (std::uint64_t i = 0; i < given * block; ++i) {
      double number = 0;
      if (whole) {
        std::int32_t integer = 0;
        std::memcpy(&integer, in[f] + 4 * i, 4);
        number = integer;
      } else {
        float real = 0;
        std::memcpy(&real, in[f] + 4 * i, 4);
        number = real;
      }
      const auto value = static_cast<float>((number - numbers[i / block]) / numbers[given + i / block]);
      std::memcpy(out[f] + 4 * i, &value, 4);
    }
    return Status();
  };
  return map(std::move(source), std::move(fields), std::move(function));
}

OpenResult open_parsed(const Spec& spec, const FileOptions& files, const Hints& hints) {
  const auto kind =
      std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& k) { return k.name == spec.kind; });
  if (kind == std::end(kKinds)) {
    std::string names;
    for (const Kind& k : kKinds) names += cat(names.empty() ? "" : ", ", k.name, ":");
    return invalid("There is no kind of data set \"", spec.kind, ":\"; there are ", names,
                   ", and text: and jsonl: for language models.");
  }
  OptionReader options(spec);
  GRAFT_TRY_ASSIGN(std::unique_ptr<Source> source, kind->open({spec, options, files, hints}));
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
  if (!rest.empty()) {
    spec.sections = split(rest, ';');
    spec.arguments = split(rest, ',');
  }
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
  if (count == 0u) {
    return invalid("Option count=0 must be 1 to ", size - first, ", the samples that there are",
                   first > 0 ? cat(" after the first ", first) : "", ".");
  }
  const std::uint64_t wanted = std::min(count.value_or(size - first), size - first);
  return range(std::move(source), first, wanted);
}

OpenResult open_spec(std::string_view text, const FileOptions& files, const Hints& hints) {
  GRAFT_TRY_ASSIGN(const Spec spec, parse_spec(text));
  return open_parsed(spec, files, hints).with_context(cat("While opening data set \"", text, "\""));
}

}  // namespace graft::data
