// graft_checkpoint_*: a trainer's run kept in a folder.
#include "runtime/c_api/c_cipher.h"
#include "runtime/c_api/c_data.h"
#include "runtime/c_api/c_distribute.h"
#include "runtime/c_api/c_handles.h"
#include "runtime/core/features.h"
#include "runtime/lora/adapter.h"

using namespace graft;
using namespace graft::c_api;

namespace {

Result<CheckpointOptions> read_checkpoint_options(const graft_checkpoint_options& given, graft_context* context) {
  CheckpointOptions out;
  if (given.folder == nullptr) return invalid("A checkpoint needs a folder.");
  out.folder = given.folder;
  out.every = given.every;
  out.journal = {.every = given.journal_ms != 0 ? 0 : given.journal_every, .max_delay_ms = given.journal_ms};
  out.keep = given.keep;
  out.resume = given.resume != 0;
  if (given.from != nullptr) out.from = given.from;
  out.with_changes = given.with_changes != 0;
  out.forgets = given.forget != 0;
  if (out.forgets && !out.resume) return invalid("graft_checkpoint_options.forget needs resume.");
  out.stop_on_mismatch = given.continue_on_mismatch == 0;
  out.allow_non_finite = given.allow_non_finite != 0;
  if (given.metadata_count > 0 && given.metadata == nullptr) return invalid("The metadata is NULL.");
  for (std::size_t i = 0; i < given.metadata_count; ++i) {
    const graft_pair& pair = given.metadata[i];
    if (pair.key == nullptr || pair.value == nullptr) return invalid("Metadata ", i, " has no key or no value.");
    out.metadata[pair.key] = pair.value;
  }
  if (given.model_file != nullptr) out.model_file = given.model_file;
  out.late_sync = given.late != 0;
  if (given.take_over != 0) {
    out.resume = true;
    out.from.clear();
    out.looks_deep = false;
  }
  if (given.report != nullptr) {
    out.report = [report = given.report, user = given.report_user](const std::string& text) {
      const CallbackScope in_callback;
      report(user, text.c_str());
    };
  } else {
    out.report = [context](const std::string& text) { context->log(LogLevel::warning, text); };
  }
  return out;
}

Status need_checkpoint(const graft_trainer& trainer) {
  if (trainer.checkpointer) return ok_status();
  return invalid("The trainer has no checkpoint; open one first.");
}

}  // namespace

graft_status graft_checkpoint_open(graft_trainer* trainer, const graft_checkpoint_options* options,
                                   graft_checkpoint_info* info) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&]() -> Status {
    if (trainer->checkpointer) return invalid("The trainer has a checkpoint already; close it first.");
    if (info != nullptr) GRAFT_TRY(check_info(info, "graft_checkpoint_info"));
    GRAFT_TRY_ASSIGN(const graft_checkpoint_options given, read_options(options, "graft_checkpoint_options"));
    GRAFT_TRY_ASSIGN(CheckpointOptions wanted, read_checkpoint_options(given, trainer->context));
    GRAFT_TRY_ASSIGN(trainer->cipher, read_cipher(given.cipher));
    wanted.cipher = trainer->cipher.get();
    Configuration configuration = configuration_of(*trainer->trainer);
    if (given.data != nullptr) configuration["data"] = given.data;
    configure_wire(*trainer, configuration);
    if (trainer->teacher != nullptr) configuration["teacher"] = name_of_base(trainer->teacher->model);
    if (given.loader != nullptr) {
      if constexpr (!kHasData) return left_out("data sets", "data");
      GRAFT_TRY(check_known(*given.loader));
      configure_data(*given.loader, configuration);
      given.loader->pending = nullptr;  // a resume brings it elsewhere
    }
    if (!kHasGroups && given.take_over != 0) return left_out("trainers of several workers", "groups");
    GRAFT_TRY_ASSIGN(auto opened, Checkpointer::open(*trainer->context->files, wanted, *trainer->trainer,
                                                     trainer->model->model, std::move(configuration)));
    data::Loader* const loader = given.loader == nullptr ? nullptr : given.loader->loader.get();
    if (kHasGroups && given.take_over != 0) {
      GRAFT_TRY(opened->take_over(loader));
    } else {
      GRAFT_TRY(detail::to_status(opened->begin(loader)));
    }
    trainer->checkpointer = std::move(opened);
    GRAFT_TRY_ASSIGN(trainer->skipped_before, trainer->trainer->skipped_steps());
    if (trainer->profile) trainer->profile->profile.set_next(trainer->trainer->state().step + 1);
    if (info == nullptr) return ok_status();
    graft_checkpoint_info out{};
    out.step = trainer->trainer->state().step;
    out.samples_done = trainer->trainer->state().samples_done;
    out.journalled = trainer->checkpointer->to_replay();
    return write_info(out, info, "graft_checkpoint_info");
  });
}

graft_status graft_checkpoint_save(graft_trainer* trainer, const char* tag) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&]() -> Status {
    GRAFT_TRY(need_checkpoint(*trainer));
    return trainer->checkpointer->save(tag == nullptr ? "" : tag);
  });
}

graft_status graft_checkpoint_acknowledge(graft_trainer* trainer) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&]() -> Status {
    GRAFT_TRY(need_checkpoint(*trainer));
    trainer->checkpointer->acknowledge();
    return ok_status();
  });
}

graft_status graft_checkpoint_describe(const graft_trainer* trainer, graft_checkpoint_state* state) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&]() -> Status {
    GRAFT_TRY(need_checkpoint(*trainer));
    const Checkpointer& from = *trainer->checkpointer;
    graft_checkpoint_state out{};
    out.replayed = from.replayed();
    out.journalled = from.to_replay();
    out.skipped = from.skipped();
    out.seconds = from.seconds();
    return write_info(out, state, "graft_checkpoint_state");
  });
}

graft_status graft_checkpoint_close(graft_trainer* trainer) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&]() -> Status {
    if (!trainer->checkpointer) return ok_status();
    Status flushed = trainer->checkpointer->flush();
    trainer->checkpointer.reset();
    return flushed;
  });
}

graft_status graft_checkpoint_set_data(graft_trainer* trainer, uint32_t worker, const void* data, size_t bytes) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&]() -> Status {
    GRAFT_TRY(need_checkpoint(*trainer));
    if (data == nullptr && bytes > 0) return invalid("The data is NULL.");
    const auto* begin = static_cast<const std::byte*>(data);
    trainer->checkpointer->user_data()[worker].assign(begin, begin + bytes);
    return ok_status();
  });
}

graft_status graft_checkpoint_data(graft_trainer* trainer, uint32_t worker, const void** data, size_t* bytes) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&]() -> Status {
    GRAFT_TRY(need_checkpoint(*trainer));
    const UserData& all = trainer->checkpointer->user_data();
    const auto found = all.find(worker);
    if (found == all.end()) return error(Code::not_found, "There is no data of worker ", worker, ".");
    if (data != nullptr) *data = found->second.data();
    if (bytes != nullptr) *bytes = found->second.size();
    return ok_status();
  });
}

graft_status graft_warm_start(graft_trainer* trainer, const char* folder, const char* snapshot,
                              const graft_cipher* cipher) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&]() -> Status {
    if (folder == nullptr) return invalid("A warm start needs a folder.");
    GRAFT_TRY_ASSIGN(const auto key, read_cipher(cipher));
    GRAFT_TRY_ASSIGN(const auto store,
                     checkpoint::Store::open(*trainer->context->files, folder, {.cipher = key.get()}));
    GRAFT_TRY_ASSIGN(const std::uint64_t number, find_snapshot(store, snapshot == nullptr ? "" : snapshot));
    const auto head = resized_head_of(trainer->model->model.metadata);
    return warm_start(store, number, *trainer->trainer, head ? &*head : nullptr);
  });
}
