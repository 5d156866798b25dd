#include "tools/graft/report/evaluation_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>

#include "tools/graft/report/svg.h"

namespace graft::cli {
namespace {

constexpr std::size_t kMostShown = 20;  // samples named, and classes of a matrix in text

std::string class_name(const std::vector<std::string>& names, std::size_t c) {
  return c < names.size() ? names[c] : std::to_string(c);
}

std::string short_number(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", number);
  return text;
}

std::string padded(const std::string& text, std::size_t width) {
  return text.size() >= width ? text : std::string(width - text.size(), ' ') + text;
}

std::string indices_text(std::span<const std::uint64_t> indices) {
  std::string text;
  for (std::size_t i = 0; i < std::min(indices.size(), kMostShown); ++i) text += cat(i == 0 ? "" : ", ", indices[i]);
  if (indices.size() > kMostShown) text += cat(", ... (", indices.size(), " in all; --json lists them)");
  return indices.empty() ? "none" : text;
}

}  // namespace

std::vector<MetricRow> metrics_of(const graft_evaluation* evaluation) {
  std::vector<MetricRow> rows;
  for (std::size_t i = 0; i < graft_evaluation_count(evaluation); ++i) {
    graft_metric_value value = {};
    value.struct_size = sizeof value;
    if (graft_evaluation_metric(evaluation, i, &value) != GRAFT_OK) continue;
    rows.push_back({value.name, value.value, {value.by_class, value.by_class + value.class_count}});
  }
  return rows;
}

Confusion confusion_of(const graft_evaluation* evaluation) {
  Confusion out;
  const std::uint64_t* counts = nullptr;
  if (graft_evaluation_confusion(evaluation, &counts, &out.classes) != GRAFT_OK) return {};
  out.counts.assign(counts, counts + out.classes * out.classes);
  return out;
}

std::vector<std::string> class_names(const graft_evaluation* evaluation) {
  std::vector<std::string> names;
  while (const char* name = graft_evaluation_class(evaluation, names.size())) names.emplace_back(name);
  return names;
}

nlohmann::ordered_json number_json(double number) {
  return std::isfinite(number) ? nlohmann::ordered_json(number) : nlohmann::ordered_json(nullptr);
}

nlohmann::ordered_json json_of(const std::vector<MetricRow>& values) {
  nlohmann::ordered_json row = nlohmann::ordered_json::object();
  for (const MetricRow& value : values) {
    row[value.name] = number_json(value.value);
    if (value.by_class.size() < 2) continue;
    auto& classes = row[value.name + "_per_class"] = nlohmann::ordered_json::array();
    for (const double of_class : value.by_class) classes.push_back(number_json(of_class));
  }
  return row;
}

std::string text_of(const std::vector<MetricRow>& values) {
  std::string text;
  for (const MetricRow& value : values) text += cat(", ", value.name, ' ', short_number(value.value));
  return text;
}

std::string confusion_text(const Confusion& matrix, const std::vector<std::string>& names) {
  const std::size_t classes = matrix.classes;
  std::size_t width = 5;
  for (std::size_t c = 0; c < classes; ++c) width = std::max(width, class_name(names, c).size());
  for (const std::uint64_t count : matrix.counts) width = std::max(width, std::to_string(count).size());
  std::string text = "Confusion matrix (a row for each true class, a column for each predicted one)\n";
  text += padded("", width);
  for (std::size_t c = 0; c < classes; ++c) text += ' ' + padded(class_name(names, c), width);
  text += '\n';
  for (std::size_t real = 0; real < classes; ++real) {
    text += padded(class_name(names, real), width);
    for (std::size_t taken = 0; taken < classes; ++taken) {
      text += ' ' + padded(std::to_string(matrix.counts[real * classes + taken]), width);
    }
    text += '\n';
  }
  return text;
}

std::string confusion_svg(const Confusion& matrix, const std::vector<std::string>& names) {
  const std::size_t classes = matrix.classes;
  const double cell = std::clamp(720.0 / static_cast<double>(std::max<std::size_t>(classes, 1)), 3.0, 48.0);
  constexpr double kLeft = 120, kTop = 90;
  const double side = cell * static_cast<double>(classes);
  Svg svg(kLeft + side + 30, kTop + side + 30, "Confusion matrix");
  svg.text(kLeft + side / 2, 24, "predicted", "middle", 13);
  svg.text(14, kTop - 10, "true", "start", 13);
  for (std::size_t real = 0; real < classes; ++real) {
    std::uint64_t all = 0;
    for (std::size_t taken = 0; taken < classes; ++taken) all += matrix.counts[real * classes + taken];
    const double y = kTop + cell * static_cast<double>(real);
    const bool labelled = cell >= 9;
    if (labelled) {
      svg.text(kLeft - 8, y + cell / 2 + 4, class_name(names, real), "end", 11);
      const double x = kLeft + cell * (static_cast<double>(real) + 0.5);
      svg.text(x, kTop - 8, class_name(names, real), "start", 11, "#333",
               cat("transform=\"rotate(-45 ", x, ' ', kTop - 8, ")\""));
    }
    for (std::size_t taken = 0; taken < classes; ++taken) {
      const std::uint64_t count = matrix.counts[real * classes + taken];
      const double share = all == 0 ? 0 : static_cast<double>(count) / static_cast<double>(all);
      const auto shade = static_cast<int>(std::lround(255 * (1 - share)));
      char fill[16];
      std::snprintf(fill, sizeof fill, real == taken ? "#%02x%02xff" : "#ff%02x%02x", shade, shade);
      const double x = kLeft + cell * static_cast<double>(taken);
      svg.rect(x, y, cell, cell, fill,
               cat(class_name(names, real), " as ", class_name(names, taken), ": ", count, " of ", all),
               "stroke=\"#ddd\" stroke-width=\"0.5\"");
      if (cell >= 26 && count > 0) {
        svg.text(x + cell / 2, y + cell / 2 + 4, std::to_string(count), "middle", 10, share > 0.6 ? "#fff" : "#333");
      }
    }
  }
  return svg.finish();
}

nlohmann::ordered_json json_of(const Confusion& matrix) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (std::size_t real = 0; real < matrix.classes; ++real) {
    rows.push_back(
        std::vector<std::uint64_t>(matrix.counts.begin() + static_cast<std::ptrdiff_t>(real * matrix.classes),
                                   matrix.counts.begin() + static_cast<std::ptrdiff_t>((real + 1) * matrix.classes)));
  }
  return rows;
}

nlohmann::ordered_json json_of(const graft_comparison& c, const std::vector<std::string>& names) {
  nlohmann::ordered_json out = {{"samples", c.samples},   {"rows", c.rows},         {"both_right", c.both_right},
                                {"only_old", c.only_old}, {"only_new", c.only_new}, {"neither", c.neither}};
  out["mcnemar"] = {{"p", c.p_value}, {"exact", c.exact != 0}};
  out["classes"] = nlohmann::ordered_json::array();
  for (const graft_class_change& its : std::span(c.classes, c.class_count)) {
    nlohmann::ordered_json row = {
        {"class", its.label}, {"rows", its.rows}, {"old_right", its.old_right}, {"new_right", its.new_right}};
    if (static_cast<std::size_t>(its.label) < names.size()) row["name"] = names[static_cast<std::size_t>(its.label)];
    out["classes"].push_back(std::move(row));
  }
  out["changed"] = std::span(c.changed, c.changed_count);
  out["lost"] = std::span(c.lost, c.lost_count);
  out["gained"] = std::span(c.gained, c.gained_count);
  return out;
}

std::string text_of(const graft_comparison& c, const std::vector<std::string>& names) {
  std::string text;
  char line[256];
  std::vector<graft_class_change> classes(c.classes, c.classes + c.class_count);
  if (classes.size() > kMostShown) {  // of a language model they are its tokens
    const auto change = [](const graft_class_change& its) {
      return std::max(its.old_right, its.new_right) - std::min(its.old_right, its.new_right);
    };
    std::ranges::stable_sort(classes, std::ranges::greater(), change);
    classes.resize(kMostShown);
    text += cat("The ", kMostShown, " classes of ", c.class_count, " that changed most (--json lists all):\n");
  }
  if (!classes.empty()) text += "class                 rows   old right   new right\n";
  for (const graft_class_change& its : classes) {
    const auto share = [&](std::uint64_t right) {
      return 100 * static_cast<double>(right) / static_cast<double>(its.rows);
    };
    std::snprintf(line, sizeof line, "%-16s %9llu %10.2f%% %10.2f%%\n",
                  class_name(names, static_cast<std::size_t>(its.label)).substr(0, 16).c_str(),
                  static_cast<unsigned long long>(its.rows), share(its.old_right), share(its.new_right));
    text += line;
  }
  const bool numbers = c.regression != 0;
  text += numbers ? cat("Of ", c.samples, " samples the old is closer to ", c.only_old, ", the new to ", c.only_new)
                  : cat("Right only in the old: ", c.only_old, ", only in the new: ", c.only_new,
                        ", in both: ", c.both_right, ", in none: ", c.neither);
  std::snprintf(line, sizeof line, "; %s p = %.4g (%s).\n", numbers ? "sign test" : "McNemar's test", c.p_value,
                c.exact != 0 ? "exact" : "chi-squared");
  text += line;
  text += cat("Samples that changed: ", indices_text({c.changed, c.changed_count}), '\n');
  text += cat("Samples that got worse: ", indices_text({c.lost, c.lost_count}), '\n');
  return text;
}

}  // namespace graft::cli
