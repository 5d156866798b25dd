#include "tools/graft/report/checkpoint_report.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "tools/common/terminal.h"
#include "tools/graft/shared/output.h"
#include "tools/graft/shared/public_api.h"

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

const char* difference_name(graft_difference difference) {
  switch (difference) {
    case GRAFT_SAME: return "same";
    case GRAFT_CHANGED: return "changed";
    case GRAFT_ONLY_IN_FIRST: return "gone";
    case GRAFT_ONLY_IN_SECOND: return "new";
  }
  return "";
}

Result<nlohmann::ordered_json> metadata_json(graft_store* store, const graft_context* context,
                                             const std::string& number) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  for (std::size_t i = 0;; ++i) {
    const char* key = nullptr;
    const char* value = nullptr;
    const graft_status told = graft_store_metadata_at(store, number.c_str(), i, &key, &value);
    if (told == GRAFT_NOT_FOUND) return out;
    TRY(checked(told, context));
    out[key] = value;
  }
}

nlohmann::ordered_json worker_json(std::size_t rank, const graft_worker_report& w) {
  return {{"worker", rank},
          {"host", w.host},
          {"step", w.step},
          {"epoch", w.epoch},
          {"place", w.place},
          {"first_sample", w.first_sample},
          {"samples", w.samples},
          {"seed", w.seed},
          {"first_micro_batch", w.first_micro_batch},
          {"micro_batches", w.micro_batches},
          {"loss", w.loss},
          {"computing_seconds", 1e-9 * static_cast<double>(w.computing_ns)},
          {"waiting_seconds", 1e-9 * static_cast<double>(w.waiting_ns)},
          {"all_steps", w.all_steps},
          {"all_samples", w.all_samples},
          {"all_computing_seconds", 1e-9 * static_cast<double>(w.all_computing_ns)},
          {"all_waiting_seconds", 1e-9 * static_cast<double>(w.all_waiting_ns)}};
}

void add_worker(Table& table, const std::string& where, std::size_t rank, const graft_worker_report& w) {
  const auto ms = [](std::uint64_t ns) { return number_text("%.1f ms", 1e-6 * static_cast<double>(ns)); };
  table.row({where, cat(w.step), cat(rank), w.host, cat(w.micro_batches), cat(w.samples), number_text("%.6g", w.loss),
             ms(w.computing_ns), ms(w.waiting_ns), cat(w.all_samples)});
}

}  // namespace

Status print_list(graft_store* store, const graft_context* context, bool json) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  using Kind = Table::Kind;
  Table table({{"number", 8, Kind::number},
               {"step", 10, Kind::number},
               {"loss", 12, Kind::number},
               {"state", 12, Kind::optional},
               {"stored", 12, Kind::optional},
               {"alone", 12, Kind::optional},
               {"made (UTC)", 19, Kind::optional},
               {"tags", 0, Kind::name}});
  TimeText time_text;
  std::uint64_t head = 0;
  for (std::size_t i = 0; i < graft_store_count(store); ++i) {
    auto snapshot = sized<graft_snapshot>();
    TRY(checked(graft_store_snapshot(store, i, &snapshot), context));
    const std::vector<std::string> tags = split_text(snapshot.tags, '\n');
    if (json) {
      TRY_ASSIGN(const nlohmann::ordered_json metadata, metadata_json(store, context, cat(snapshot.number)));
      rows.push_back({{"number", snapshot.number},
                      {"step", snapshot.step},
                      {"loss", snapshot.loss},
                      {"bytes", snapshot.bytes},
                      {"stored_bytes", snapshot.stored_bytes},
                      {"own_bytes", snapshot.own_bytes},
                      {"made_ms", snapshot.made_ms},
                      {"tags", tags},
                      {"metadata", metadata},
                      {"head", snapshot.is_head != 0}});
      continue;
    }
    if (snapshot.is_head != 0) head = snapshot.number;
    std::string names;
    for (const std::string& tag : tags) names += (names.empty() ? "" : " ") + tag;
    table.row({std::to_string(snapshot.number), std::to_string(snapshot.step), number_text("%.6g", snapshot.loss),
               bytes_text(snapshot.bytes), bytes_text(snapshot.stored_bytes), bytes_text(snapshot.own_bytes),
               time_text.of(snapshot.made_ms), names});
  }
  auto info = sized<graft_store_info>();
  TRY(checked(graft_store_describe(store, &info), context));
  nlohmann::ordered_json damaged = nlohmann::ordered_json::object();
  std::string damaged_lines;
  for (std::size_t i = 0; i < info.damaged; ++i) {
    std::uint64_t number = 0;
    const char* why = nullptr;
    TRY(checked(graft_store_damaged(store, i, &number, &why), context));
    damaged[cat(number)] = why;
    damaged_lines += cat("Snapshot ", number, " is damaged: ", why, "\n");
  }
  if (json) {
    print_json({{"snapshots", rows}, {"journalled_steps", info.journalled_steps}, {"damaged", damaged}});
    return ok_status();
  }
  table.print();
  to_stdout("Training continues from %s; %llu steps are journalled after it.\n%s",
            head == 0 ? "its start" : cat("snapshot ", head).c_str(),
            static_cast<unsigned long long>(info.journalled_steps), damaged_lines.c_str());
  return ok_status();
}

Status print_workers(graft_store* store, const graft_context* context, bool json) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  using Kind = Table::Kind;
  Table table({{"snapshot", 10, Kind::number},
               {"step", 8, Kind::number},
               {"worker", 6, Kind::number},
               {"host", 16, Kind::name},
               {"parts", 5, Kind::number},
               {"samples", 8, Kind::number},
               {"loss", 12, Kind::number},
               {"computing", 13, Kind::optional},
               {"waiting", 13, Kind::optional},
               {"in all", 10, Kind::optional}});
  const auto print_all = [&](const std::string& where, auto&& ask) -> Status {
    for (std::size_t rank = 0;; ++rank) {
      auto worker = sized<graft_worker_report>();
      const graft_status told = ask(rank, &worker);
      if (told == GRAFT_NOT_FOUND) return ok_status();
      TRY(checked(told, context));
      if (json) {
        rows.push_back(worker_json(rank, worker));
        rows.back()["snapshot"] = where;
      } else {
        add_worker(table, where, rank, worker);
      }
    }
  };
  for (std::size_t i = 0; i < graft_store_count(store); ++i) {
    auto snapshot = sized<graft_snapshot>();
    TRY(checked(graft_store_snapshot(store, i, &snapshot), context));
    const std::string number = cat(snapshot.number);
    TRY(print_all(number, [&](std::size_t rank, graft_worker_report* worker) {
      return graft_store_worker(store, number.c_str(), rank, worker);
    }));
  }
  TRY(print_all("journal", [&](std::size_t rank, graft_worker_report* worker) {
    return graft_store_journalled_worker(store, rank, worker);
  }));
  if (json) {
    print_json({{"workers", rows}});
  } else {
    table.print();
  }
  return ok_status();
}

Status print_diff(graft_store* store, const graft_context* context, const graft_snapshot& a, const graft_snapshot& b,
                  bool json) {
  const graft_stream_difference* streams = nullptr;
  std::size_t count = 0;
  TRY(checked(graft_store_diff(store, cat(a.number).c_str(), cat(b.number).c_str(), &streams, &count), context));
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  std::size_t same = 0;
  using Kind = Table::Kind;
  Table table(
      {{"", 8, Kind::word}, {"bytes", 14, Kind::number}, {"of changed", 14, Kind::number}, {"stream", 0, Kind::name}});
  for (std::size_t i = 0; i < count; ++i) {
    const graft_stream_difference& stream = streams[i];
    rows.push_back({{"name", stream.name},
                    {"worker", stream.worker},
                    {"difference", difference_name(stream.difference)},
                    {"bytes_a", stream.bytes_in_first},
                    {"bytes_b", stream.bytes_in_second},
                    {"changed_bytes", stream.changed_bytes}});
    same += stream.difference == GRAFT_SAME ? 1 : 0;
    if (json || stream.difference == GRAFT_SAME) continue;
    table.row({difference_name(stream.difference), bytes_text(std::max(stream.bytes_in_first, stream.bytes_in_second)),
               bytes_text(stream.changed_bytes), stream.name});
  }
  auto info = sized<graft_diff_info>();
  TRY(checked(graft_store_diff_info(store, &info), context));
  const std::vector<std::string> metadata = split_text(info.metadata, '\n');
  if (json) {
    print_json({{"a", {{"number", a.number}, {"step", a.step}}},
           {"b", {{"number", b.number}, {"step", b.step}}},
           {"streams", rows},
           {"metadata", metadata},
           {"stored_bytes", info.stored_bytes}});
    return ok_status();
  }
  for (const std::string& key : metadata) table.row({"changed", "", "", key});
  table.print();
  to_stdout("Steps %llu and %llu: %zu streams are the same; %s are stored for what differs.\n",
            static_cast<unsigned long long>(a.step), static_cast<unsigned long long>(b.step), same,
            bytes_text(info.stored_bytes).c_str());
  return ok_status();
}

}  // namespace graft::cli
