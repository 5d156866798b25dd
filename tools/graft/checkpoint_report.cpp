#include "tools/graft/checkpoint_report.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

namespace graft::cli {
namespace {

/// As in "2026-01-31 12:30:00", in UTC. Thousands of snapshots are of a few days.
class TimeText {
 public:
  std::string of(std::int64_t milliseconds) {
    constexpr std::time_t kDay = 86400;
    const std::time_t seconds = std::max<std::int64_t>(milliseconds, 0) / 1000, day = seconds / kDay;
    if (day_ != day) {
      std::tm parts{};
      char text[32];
      const bool told = gmtime_r(&seconds, &parts) != nullptr && std::strftime(text, sizeof text, "%F", &parts) != 0;
      date_ = told ? text : "?";
      day_ = day;
    }
    const auto digits = [](std::time_t n) {
      return std::string{static_cast<char>('0' + n / 10), static_cast<char>('0' + n % 10)};
    };
    const std::time_t second = seconds % kDay;
    return date_ + ' ' + digits(second / 3600) + ':' + digits(second / 60 % 60) + ':' + digits(second % 60);
  }

 private:
  std::time_t day_ = -1;
  std::string date_;
};

void add_right(std::string& lines, std::string_view text, std::size_t width) {
  if (text.size() < width) lines.append(width - text.size(), ' ');
  lines += text;
}

const char* difference_name(checkpoint::Difference difference) {
  switch (difference) {
    case checkpoint::Difference::same: return "same";
    case checkpoint::Difference::changed: return "changed";
    case checkpoint::Difference::only_in_a: return "gone";
    case checkpoint::Difference::only_in_b: return "new";
  }
  return "";
}

}  // namespace

void print(const nlohmann::ordered_json& json) { std::printf("%s\n", json.dump(2).c_str()); }

Status print_list(const checkpoint::Store& store, bool json) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  if (!json)
    std::printf("%8s %10s %12s %12s %12s %12s  %-20s %s\n", "number", "step", "loss", "state", "stored", "alone",
                "made (UTC)", "tags");
  const auto sizes = store.sizes();
  TimeText time_text;
  std::string lines;  // thousands are formatted faster so than by printf
  for (const auto& [number, snapshot] : store.snapshots()) {
    const bool head = number == store.head();
    const checkpoint::SnapshotSize& size = sizes.at(number);
    if (json) {
      rows.push_back({{"number", number},
                      {"step", snapshot.meta.step},
                      {"loss", snapshot.meta.loss},
                      {"bytes", size.raw_bytes},
                      {"stored_bytes", size.stored_bytes},
                      {"own_bytes", size.own_bytes},
                      {"made_ms", snapshot.meta.wall_clock_ms},
                      {"tags", snapshot.meta.tags},
                      {"metadata", *snapshot.meta.metadata},
                      {"head", head}});
      continue;
    }
    std::string tags;
    for (const std::string& tag : snapshot.meta.tags) tags += tag + ' ';
    add_right(lines, std::to_string(number), 8);
    add_right(lines, std::to_string(snapshot.meta.step), 11);
    char loss[32];
    std::snprintf(loss, sizeof loss, "%.6g", snapshot.meta.loss);
    add_right(lines, loss, 13);
    for (const std::uint64_t bytes : {size.raw_bytes, size.stored_bytes, size.own_bytes}) {
      add_right(lines, bytes_text(bytes), 13);
    }
    lines.append("  ").append(time_text.of(snapshot.meta.wall_clock_ms)).append("  ").append(tags);
    lines.append(head ? "<- training goes on from here\n" : "\n");
  }
  if (json) {
    nlohmann::ordered_json damaged = nlohmann::ordered_json::object();
    for (const auto& [number, reason] : store.damaged()) damaged[cat(number)] = reason;
    print({{"snapshots", rows}, {"journalled_steps", store.journal().size()}, {"damaged", damaged}});
    return ok_status();
  }
  std::fwrite(lines.data(), 1, lines.size(), stdout);
  std::printf("%zu steps are journalled after it.\n", store.journal().size());
  for (const auto& [number, reason] : store.damaged()) {
    std::printf("Snapshot %llu is damaged: %s\n", static_cast<unsigned long long>(number), reason.c_str());
  }
  return ok_status();
}

Status print_diff(const checkpoint::Store& store, std::uint64_t a, std::uint64_t b, bool json) {
  TRY_ASSIGN(const checkpoint::SnapshotDiff diff, store.diff(a, b));
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  std::size_t same = 0;
  if (!json) std::printf("%-8s %14s %14s  %s\n", "", "bytes", "of changed", "stream");
  for (const checkpoint::StreamDiff& stream : diff.streams) {
    rows.push_back({{"name", stream.name},
                    {"worker", stream.worker},
                    {"difference", difference_name(stream.difference)},
                    {"bytes_a", stream.bytes_a},
                    {"bytes_b", stream.bytes_b},
                    {"changed_bytes", stream.changed_bytes}});
    same += stream.difference == checkpoint::Difference::same ? 1 : 0;
    if (json || stream.difference == checkpoint::Difference::same) continue;
    std::printf("%-8s %14s %14s  %s\n", difference_name(stream.difference),
                bytes_text(std::max(stream.bytes_a, stream.bytes_b)).c_str(), bytes_text(stream.changed_bytes).c_str(),
                stream.name.c_str());
  }
  const std::uint64_t step_a = store.snapshots().at(a).meta.step, step_b = store.snapshots().at(b).meta.step;
  if (json) {
    print({{"a", {{"number", a}, {"step", step_a}}},
           {"b", {{"number", b}, {"step", step_b}}},
           {"streams", rows},
           {"metadata", diff.metadata},
           {"stored_bytes", diff.stored_bytes}});
    return ok_status();
  }
  for (const std::string& key : diff.metadata) std::printf("%-8s %29s  %s\n", "changed", "", key.c_str());
  std::printf("Steps %llu and %llu: %zu streams are the same; %s are stored for what differs.\n",
              static_cast<unsigned long long>(step_a), static_cast<unsigned long long>(step_b), same,
              bytes_text(diff.stored_bytes).c_str());
  return ok_status();
}

}  // namespace graft::cli
