#include "tools/graft/report/run_document.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>

namespace graft::cli {
namespace {

constexpr auto kReadStoreEvery = std::chrono::seconds(2);

/// A word as shells read it.
std::string shell_word(const std::string& text) {
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("_-./=+,").find(static_cast<char>(c)) != std::string_view::npos;
  };
  const bool is_flag = text.starts_with('-');
  if (!text.empty() && !is_flag && std::ranges::all_of(text, is_plain)) return text;
  std::string out = is_flag ? "./'" : "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

nlohmann::ordered_json snapshot_json(const graft_snapshot& snapshot, const std::string& folder) {
  return {{"number", snapshot.number},
          {"step", snapshot.step},
          {"loss", snapshot.loss},
          {"bytes", snapshot.bytes},
          {"stored_bytes", snapshot.stored_bytes},
          {"made_ms", snapshot.made_ms},
          {"tags", split_text(snapshot.tags, '\n')},
          {"head", snapshot.is_head != 0},
          {"restore", cat("graft checkpoint restore ", shell_word(folder), ' ', snapshot.number, " -o snapshot-",
                          snapshot.number, ".graft")}};
}

/// What the workers said at the last journalled step, or else at the snapshot that training continues from.
nlohmann::ordered_json workers_json(graft_store* store) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  auto worker = sized<graft_worker_report>();
  const bool journalled = graft_store_journalled_worker(store, 0, &worker) == GRAFT_OK;
  const auto told = [&](std::size_t i) {
    return journalled ? graft_store_journalled_worker(store, i, &worker)
                      : graft_store_worker(store, nullptr, i, &worker);
  };
  for (std::size_t i = 0; told(i) == GRAFT_OK; ++i) {
    rows.push_back({{"worker", i},
                    {"host", worker.host},
                    {"step", worker.step},
                    {"micro_batches", worker.micro_batches},
                    {"samples", worker.samples},
                    {"loss", worker.loss},
                    {"computing_seconds", 1e-9 * static_cast<double>(worker.computing_ns)},
                    {"waiting_seconds", 1e-9 * static_cast<double>(worker.waiting_ns)},
                    {"all_samples", worker.all_samples}});
  }
  return rows;
}

}  // namespace

Result<RunDocument> RunDocument::open(const std::vector<std::string>& paths) {
  RunDocument run;
  for (const std::string& path : paths) {
    std::error_code failed;
    const bool is_folder = std::filesystem::is_directory(path, failed);
    if (!std::filesystem::exists(path, failed)) {
      return error(Code::not_found, "There is no file or folder \"", path, "\".");
    }
    if (is_folder ? !run.folder_.empty() : run.metrics_.has_value()) {
      return invalid("\"", path, "\" is a second ", is_folder ? "checkpoint folder" : "file of metrics",
                     ": give those of one run.");
    }
    if (is_folder) {
      run.folder_ = path;
      TRY_ASSIGN(run.context_, open_context_without_device());
    } else {
      run.metrics_.emplace(path);
    }
    run.title_ += (run.title_.empty() ? "" : ", ") + path;
  }
  TRY(run.refresh());
  return run;
}

Status RunDocument::refresh() {
  if (metrics_) TRY(metrics_->read());
  if (folder_.empty()) return ok_status();
  // Opening a folder of thousands of snapshots takes a while.
  const auto now = std::chrono::steady_clock::now();
  if (!store_.is_null() && now < store_read_at_ + kReadStoreEvery) return ok_status();
  store_read_at_ = now;
  return read_store();
}

Status RunDocument::read_store() {
  graft_store* made = nullptr;
  const graft_status opened = graft_store_open(context_.get(), folder_.c_str(), nullptr, &made);
  const Owned<graft_store> store(made);
  TRY(checked(opened, context_.get()));
  nlohmann::ordered_json snapshots = nlohmann::ordered_json::array(), damaged = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < graft_store_count(made); ++i) {
    auto snapshot = sized<graft_snapshot>();
    // A run may prune one at any time.
    if (graft_store_snapshot(made, i, &snapshot) == GRAFT_OK) snapshots.push_back(snapshot_json(snapshot, folder_));
  }
  auto info = sized<graft_store_info>();
  TRY(checked(graft_store_describe(made, &info), context_.get()));
  for (std::size_t i = 0; i < info.damaged; ++i) {
    std::uint64_t number = 0;
    const char* why = "";
    TRY(checked(graft_store_damaged(made, i, &number, &why), context_.get()));
    damaged.push_back({{"number", number}, {"why", why}});
  }
  store_ = {{"folder", folder_},
            {"journalled_steps", info.journalled_steps},
            {"snapshots", std::move(snapshots)},
            {"damaged", std::move(damaged)},
            {"workers", workers_json(made)}};
  return ok_status();
}

std::string RunDocument::json(std::uint64_t first, std::uint64_t generation) const {
  const std::uint64_t of_rows = metrics_ ? metrics_->generation() : 0;
  if (generation != of_rows) first = 0;
  const nlohmann::ordered_json head = {{"title", title_},
                                       {"generation", of_rows},
                                       {"has_metrics", metrics_.has_value()},
                                       {"is_cut", metrics_ && metrics_->is_cut()},
                                       {"store", store_}};
  // A path may hold bytes that are not UTF-8.
  std::string out = head.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  out.back() = ',';
  std::size_t rows = 0;
  std::string texts;
  if (metrics_) {
    rows = metrics_->rows().size();
    for (std::size_t i = std::min<std::uint64_t>(first, rows); i < rows; ++i) {
      texts += (texts.empty() ? "\n" : ",\n") + metrics_->rows()[i];
    }
  }
  return cat(out, "\"first\":", std::min<std::uint64_t>(first, rows), ",\"rows\":[", texts, "]}");
}

}  // namespace graft::cli
