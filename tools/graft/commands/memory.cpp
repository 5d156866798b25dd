// graft memory: a file of examples that a model learns from for years; what is in it, and what goes.
#include <chrono>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "graft/examples.h"
#include "tools/common/files.h"
#include "tools/common/numbers.h"
#include "tools/common/options.h"
#include "tools/common/terminal.h"
#include "tools/graft/shared/command.h"
#include "tools/graft/shared/output.h"
#include "tools/graft/shared/public_api.h"
#include "tools/graft/shared/tensor_files.h"

namespace graft::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kPolicies[] = {"reservoir", "loss", "age"};

struct MemoryArguments {
  std::string file;
  std::string data;
  std::string model;
  std::string prefix;
  std::string bytes = "64MiB";
  std::uint64_t records = 0;
  std::string policy = kPolicies[0];
  double held_out = 0.1;
  std::uint64_t seed = 0;
  std::uint64_t expires_days = 0;
  std::string may = "train,evaluate";
  std::vector<std::string> ids;
  std::string output;
  bool json = false;
};

struct OpenMemory {
  Owned<graft_context> context;
  Owned<graft_memory_file> memory;

  Status check(graft_status status) const { return checked(status, context.get()); }
  Result<graft_memory_info> info() const {
    graft_memory_info info = {};
    info.struct_size = sizeof info;
    TRY(check(graft_memory_describe(memory.get(), &info)));
    return info;
  }
};

std::int64_t now_ms() {
  using std::chrono::milliseconds;
  return std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Status open_file(const std::string& path, const graft_memory_options& options, OpenMemory& opened) {
  graft_memory_file* made = nullptr;
  const graft_status status = graft_memory_open(opened.context.get(), path.c_str(), &options, &made);
  opened.memory.reset(made);
  return opened.check(status);
}

Result<OpenMemory> open_memory(const MemoryArguments& options, bool writable) {
  OpenMemory opened;
  TRY_ASSIGN(opened.context, open_context_without_device());
  auto wanted = sized<graft_memory_options>();
  wanted.read_only = writable ? 0 : 1;
  TRY(open_file(options.file, wanted, opened));
  return opened;
}

/// As in "2026-01-31", in UTC.
std::string day_text(std::int64_t milliseconds) {
  if (milliseconds == 0) return "never";
  const std::chrono::sys_days day =
      std::chrono::floor<std::chrono::days>(std::chrono::sys_time(std::chrono::milliseconds(milliseconds)));
  const std::chrono::year_month_day date(day);
  char text[32];
  std::snprintf(text, sizeof text, "%04d-%02u-%02u", static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                static_cast<unsigned>(date.day()));
  return text;
}

Result<graft_record_options> record_options(const MemoryArguments& options) {
  auto record = sized<graft_record_options>();
  record.may_train = record.may_evaluate = record.may_export = 0;
  for (const std::string& word : split_list(options.may)) {
    if (word == "train") {
      record.may_train = 1;
    } else if (word == "evaluate") {
      record.may_evaluate = 1;
    } else if (word == "export") {
      record.may_export = 1;
    } else {
      return invalid("--may takes train, evaluate and export; \"", word, "\" is none of these.");
    }
  }
  constexpr std::int64_t kDayMs = 86400000;
  if (options.expires_days != 0) {
    record.expires_ms = now_ms() + static_cast<std::int64_t>(options.expires_days) * kDayMs;
  }
  return record;
}

Status add(const MemoryArguments& options) {
  OpenMemory opened;
  TRY_ASSIGN(opened.context, open_context_without_device());
  TRY_ASSIGN(const graft_record_options record, record_options(options));
  graft_data_set* made = nullptr;
  auto how = sized<graft_data_options>();
  how.evaluation = 1;  // samples as they are
  Owned<graft_model> model;
  if (!options.model.empty()) {
    TRY_ASSIGN(model, open_model(opened.context.get(), options.model));
    how.model = model.get();
  }
  const graft_status read = graft_data_open_with(opened.context.get(), options.data.c_str(), &how, &made);
  const Owned<graft_data_set> set(made);
  TRY(opened.check(read));
  auto wanted = sized<graft_memory_options>();
  wanted.like = made;
  TRY_ASSIGN(wanted.bytes, parse_size(options.bytes));
  wanted.records = options.records;
  for (int i = 0; i < 3; ++i) {
    if (options.policy == kPolicies[i]) wanted.policy = static_cast<graft_memory_policy>(i);
  }
  wanted.held_out_share = options.held_out;
  wanted.seed = options.seed;
  TRY(open_file(options.file, wanted, opened));
  std::uint64_t stored = 0;
  TRY(opened.check(graft_memory_add_data(opened.memory.get(), made, options.prefix.c_str(), &record, &stored)));
  TRY_ASSIGN(const graft_memory_info info, opened.info());
  const std::uint64_t samples = graft_data_samples(made);
  if (options.json) {
    print_json({{"samples", samples}, {"stored", stored}, {"records", info.records}, {"bytes", info.bytes}});
  } else {
    to_stdout("%llu of %llu samples are in the memory, which has %llu records and %s.\n",
              static_cast<unsigned long long>(stored), static_cast<unsigned long long>(samples),
              static_cast<unsigned long long>(info.records), bytes_text(info.bytes).c_str());
  }
  return ok_status();
}

const char* part_of(const graft_memory_record& record) {
  if (record.is_held_out != 0) return record.may_evaluate != 0 ? "held out" : "none";
  return record.may_train != 0 ? "training" : "none";
}

Status list(const MemoryArguments& options) {
  TRY_ASSIGN(const OpenMemory opened, open_memory(options, false));
  Json rows = Json::array();
  Table table({{"record", 20, Table::Kind::name},
               {"class", 5, Table::Kind::number},
               {"loss", 8, Table::Kind::number},
               {"part", 8, Table::Kind::word},
               {"export", 6, Table::Kind::word},
               {"added", 10, Table::Kind::word},
               {"expires", 10, Table::Kind::word}});
  graft_memory_record record = {};
  record.struct_size = sizeof record;
  for (std::size_t i = 0; graft_memory_at(opened.memory.get(), i, &record) == GRAFT_OK; ++i) {
    if (options.json) {
      rows.push_back({{"id", record.id},
                      {"class", record.label},
                      {"loss", std::isnan(record.loss) ? Json() : Json(record.loss)},
                      {"part", part_of(record)},
                      {"may_train", record.may_train != 0},
                      {"may_evaluate", record.may_evaluate != 0},
                      {"may_export", record.may_export != 0},
                      {"added_ms", record.added_ms},
                      {"expires_ms", record.expires_ms}});
      continue;
    }
    table.row({record.id, cat(record.label), std::isnan(record.loss) ? "-" : number_text("%.4g", record.loss),
               part_of(record), record.may_export != 0 ? "yes" : "no", day_text(record.added_ms),
               day_text(record.expires_ms)});
  }
  if (options.json) {
    print_json(rows);
  } else {
    table.print();
  }
  return ok_status();
}

Status info(const MemoryArguments& options) {
  TRY_ASSIGN(const OpenMemory opened, open_memory(options, false));
  TRY_ASSIGN(const graft_memory_info told, opened.info());
  if (options.json) {
    print_json({{"records", told.records},
                {"held_out", told.held_out_records},
                {"bytes", told.bytes},
                {"record_bytes", told.record_bytes},
                {"most_bytes", told.most_bytes},
                {"most_records", told.most_records},
                {"torn_bytes", told.torn_bytes},
                {"policy", kPolicies[told.policy]},
                {"held_out_share", told.held_out_share},
                {"seed", told.seed}});
    return ok_status();
  }
  to_stdout("%llu records, of which %llu are held out (a share of %g, seed %llu).\n",
            static_cast<unsigned long long>(told.records), static_cast<unsigned long long>(told.held_out_records),
            told.held_out_share, static_cast<unsigned long long>(told.seed));
  to_stdout("The file has %s, at most %s; records take %s of it.\n", bytes_text(told.bytes).c_str(),
            bytes_text(told.most_bytes).c_str(), bytes_text(told.record_bytes).c_str());
  if (told.most_records != 0) {
    to_stdout("It has at most %llu records.\n", static_cast<unsigned long long>(told.most_records));
  }
  to_stdout("When it is full, records are evicted by %s.\n", kPolicies[told.policy]);
  if (told.torn_bytes != 0) {
    to_stdout("%s at its end are what a crash left; the next command that writes removes them.\n",
              bytes_text(told.torn_bytes).c_str());
  }
  return ok_status();
}

Status tell_removed(const MemoryArguments& options, const OpenMemory& opened, std::uint64_t removed) {
  TRY_ASSIGN(const graft_memory_info told, opened.info());
  if (options.json) {
    print_json({{"removed", removed}, {"records", told.records}, {"bytes", told.bytes}});
  } else {
    to_stdout("Erased %llu %s; %llu are left.\n", static_cast<unsigned long long>(removed),
              removed == 1 ? "record" : "records", static_cast<unsigned long long>(told.records));
  }
  return ok_status();
}

Status remove(const MemoryArguments& options) {
  TRY_ASSIGN(const OpenMemory opened, open_memory(options, true));
  TRY_ASSIGN(const graft_memory_info before, opened.info());
  std::vector<const char*> ids;
  for (const std::string& id : options.ids) ids.push_back(id.c_str());
  TRY(opened.check(graft_memory_remove(opened.memory.get(), ids.data(), ids.size())));
  TRY_ASSIGN(const graft_memory_info after, opened.info());
  return tell_removed(options, opened, before.records - after.records);
}

Status expire(const MemoryArguments& options) {
  TRY_ASSIGN(const OpenMemory opened, open_memory(options, true));
  std::uint64_t removed = 0;
  TRY(opened.check(graft_memory_expire(opened.memory.get(), 0, &removed)));
  return tell_removed(options, opened, removed);
}

/// A field of all exported records, one after another.
struct ExportedField {
  graft_field field;
  std::string file;
  std::size_t bytes = 0;  ///< of one record
  std::vector<std::byte> contents = {};
};

Result<std::vector<ExportedField>> exported_fields(const graft_data_set* set) {
  std::vector<ExportedField> fields;
  std::vector<std::string> names;
  graft_field field = {};
  for (std::size_t i = 0; graft_data_field(set, i, &field) == GRAFT_OK; ++i) {
    if (field.dtype != GRAFT_F32 && field.dtype != GRAFT_I32) {
      return unsupported("The field \"", field.name, "\" has elements of less than 32 bits, which are not exported.");
    }
    ExportedField one{field, {}, 4};
    for (std::uint32_t axis = 0; axis < field.rank; ++axis) one.bytes *= static_cast<std::size_t>(field.dims[axis]);
    fields.push_back(std::move(one));
    names.emplace_back(field.name);
  }
  const auto files = npy_file_names(names);
  for (std::size_t i = 0; i < fields.size(); ++i) fields[i].file = files.at(names[i]);
  return fields;
}

Status export_records(const MemoryArguments& options) {
  TRY_ASSIGN(const OpenMemory opened, open_memory(options, false));
  const std::int64_t now = now_ms();
  graft_data_set* made = nullptr;
  const graft_status found = graft_memory_data(opened.memory.get(), GRAFT_MEMORY_EXPORT, now, &made);
  const Owned<graft_data_set> set(made);
  TRY(opened.check(found));
  TRY_ASSIGN(auto fields, exported_fields(made));
  Outputs outputs;
  outputs.reads("the memory", options.file);
  std::vector<std::string> names = {"records.json"};
  for (const ExportedField& field : fields) names.push_back(field.file);
  TRY(outputs.folder("-o", options.output, names));
  Json rows = Json::array();
  graft_memory_record record = {};
  record.struct_size = sizeof record;
  for (std::size_t i = 0; graft_memory_at(opened.memory.get(), i, &record) == GRAFT_OK; ++i) {
    if (record.may_export == 0 || (record.expires_ms != 0 && record.expires_ms <= now)) continue;
    const std::string id = record.id;
    rows.push_back({{"id", id}, {"added_ms", record.added_ms}, {"expires_ms", record.expires_ms}});
    const void* data = nullptr;
    std::size_t bytes = 0;
    TRY(opened.check(graft_memory_read(opened.memory.get(), id.c_str(), &data, &bytes)));
    const auto* at = static_cast<const std::byte*>(data);
    for (ExportedField& field : fields) {
      field.contents.insert(field.contents.end(), at, at + field.bytes);
      at += field.bytes;
    }
  }
  TRY(make_folders(options.output));
  for (const ExportedField& field : fields) {
    std::vector<std::int64_t> dims = {static_cast<std::int64_t>(rows.size())};
    dims.insert(dims.end(), field.field.dims, field.field.dims + field.field.rank);
    TRY(write_npy(cat(options.output, "/", field.file), field.field.dtype == GRAFT_I32 ? NpyType::i32 : NpyType::f32,
                  dims, field.contents));
  }
  TRY(write_text(cat(options.output, "/records.json"), rows.dump(2) + "\n"));
  if (options.json) {
    print_json({{"output", options.output}, {"records", rows.size()}, {"files", names}});
  } else {
    to_stdout("Wrote %zu records to %s: %zu files.\n", rows.size(), options.output.c_str(), names.size());
  }
  return ok_status();
}

void add_flags_of_add(CLI::App& app, MemoryArguments& options) {
  app.add_option("--data", options.data, "Samples to add, as graft train takes them: csv:FILE, npy:X.npy,Y.npy, ...")
      ->required();
  app.add_option("--model", options.model, "The model that they are for, which decides their shapes and class numbers");
  app.add_option("--prefix", options.prefix,
                 "Records are named by this and their number; without it, by a hash of their contents");
  app.add_option("--expires", options.expires_days, "Days until the records' time is over (never)")->check(whole(1));
  app.add_option("--may", options.may, "What they may be used for: train, evaluate, export (train,evaluate)");
  app.add_option("--bytes", options.bytes, "Of a new file: its largest size (64MiB)");
  app.add_option("--records", options.records, "Of a new file: the most records (no limit)")->check(whole(1));
  app.add_option(
         "--policy", options.policy,
         "Of a new file: what is evicted of the largest class when it is full: all alike by chance (reservoir), "
         "the smallest loss or the oldest (age)")
      ->check(CLI::IsMember({"reservoir", "loss", "age"}));
  app.add_option("--held-out", options.held_out, "Of a new file: share of records that are never trained on (0.1)")
      ->check(number(0, 1));
  app.add_option("--seed", options.seed, "Of a new file: draws the records that are held out or evicted (0)");
}

}  // namespace

Action add_memory(CLI::App& app) {
  auto options = std::make_shared<MemoryArguments>();
  auto chosen = std::make_shared<Status (*)(const MemoryArguments&)>(nullptr);
  app.require_subcommand(1);
  const auto sub = [&](const char* name, const char* summary, Status (*action)(const MemoryArguments&)) {
    CLI::App* command = app.add_subcommand(name, summary);
    command->add_option("FILE", options->file, "The memory's file")->required();
    command->add_flag("--json", options->json, "Print JSON");
    command->callback([chosen, action] { *chosen = action; });
    return command;
  };
  add_flags_of_add(*sub("add", "Add samples; a file that is missing is made", add), *options);
  sub("list", "Records: class, loss, part, consent, times", list);
  sub("info", "How much it holds, and its limits", info);
  sub("remove", "Erase records", remove)->add_option("ID", options->ids, "Their ids")->required();
  sub("expire", "Erase the records of which the time is over", expire);
  sub("export", "Write the records that may leave the device as .npy files", export_records)
      ->add_option("-o,--output", options->output, "The folder to write")
      ->required();
  return [options, chosen]() -> Status { return (*chosen)(*options); };
}

}  // namespace graft::cli
