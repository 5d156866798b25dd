#include "runtime/core/quantized.h"
#include "runtime/lora/adapter.h"

#include "runtime/c_api/c_adapter.h"
#include "runtime/c_api/c_swap.h"

using namespace graft;
using namespace graft::c_api;

namespace {

void take_off(graft_model& model) {
  if (model.base) model.model = std::move(*model.base);
  model.base.reset();
  model.adapters.reset();
}

}  // namespace

Status graft::c_api::load_onto(graft_model& model, Result<Model> loaded, const std::string& names) {
  GRAFT_TRY(loaded.status());
  auto adapters = std::make_unique<Model>(std::move(*loaded));
  const Model& file = *adapters;
  return put_on(model, std::move(adapters), [&](const Model& base) -> Result<Model> {
    auto adapted = with_adapter(base, file);
    if (adapted.ok() || names.empty()) return adapted;
    return std::move(adapted).status().with_context(cat("While putting the adapter \"", names, "\" on"));
  });
}

namespace {

/// A file's adapters, whose name errors have.
Status load_one(graft_model& model, Result<Model> loaded) {
  const std::string name(loaded.ok() ? loaded->source() : std::string_view());
  return load_onto(model, std::move(loaded), name);
}

/// load(i) reads one of `count` adapters, which are added up by their weights.
template <typename Load>
Status load_together(graft_model& model, const double* weights, std::size_t count, Load load) {
  std::vector<Model> read;
  std::vector<WeightedAdapter> all;
  std::string names;
  read.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    GRAFT_TRY_ASSIGN(Model one, load(i));
    names += cat(i == 0 ? "" : "\" and \"", one.source());
    read.push_back(std::move(one));
    all.push_back({&read.back(), weights == nullptr ? 1 : weights[i]});
  }
  // DoRA, and what adds tokens, stands alone.
  if (count == 1 && all[0].weight == 1) return load_onto(model, std::move(read[0]), names);
  return load_onto(model, combine_adapters(all), names);
}

}  // namespace

graft_status graft_model_add_adapters(graft_model* model, const char* options, uint32_t seed) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    GRAFT_TRY(check_unused(*model, "its adapters change"));
    GRAFT_TRY_ASSIGN(const LoraOptions wanted, parse_lora(options == nullptr ? "" : options));
    std::optional<NewTokens> tokens;  // fresh ones stay; those of a file go with it
    if (model->adapters == nullptr) {
      GRAFT_TRY_ASSIGN(tokens, new_tokens_of(model->model.metadata));
    }
    return put_on(*model, nullptr, [&](const Model& base) {
      return tokens ? with_new_tokens(base, tokens->tokens, &wanted, seed, &model->model)
                    : with_lora(base, wanted, seed);
    });
  });
}

graft_status graft_model_add_tokens(graft_model* model, const char* tokens) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    GRAFT_TRY(check_unused(*model, "tokens are added"));
    if (tokens == nullptr) return invalid("graft_model_add_tokens needs tokens.");
    GRAFT_TRY_ASSIGN(const std::vector<NewToken> wanted, parse_new_tokens(tokens));
    return put_on(*model, nullptr, [&](const Model& base) {
      return model->base ? with_more_tokens(base, model->model, wanted) : with_new_tokens(base, wanted);
    });
  });
}

graft_status graft_model_load_adapters(graft_model* model, const char* path) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    GRAFT_TRY(check_unused(*model, "its adapters change"));
    if (path == nullptr) {
      take_off(*model);
      return ok_status();
    }
    return load_one(*model, load_model(*model->context->files, path, kAtOnce));
  });
}

graft_status graft_model_load_adapters_source(graft_model* model, const graft_source* source) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    GRAFT_TRY(check_unused(*model, "its adapters change"));
    return load_one(*model, load_source(*model->context, source, kAtOnce));
  });
}

graft_status graft_model_load_adapters_together(graft_model* model, const char* const* paths, const double* weights,
                                                size_t count) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    GRAFT_TRY(check_unused(*model, "its adapters change"));
    if (paths == nullptr || count == 0) return invalid("graft_model_load_adapters_together needs paths.");
    return load_together(*model, weights, count, [&](std::size_t i) -> Result<Model> {
      if (paths[i] == nullptr) return invalid("Path ", i, " of the adapters is NULL.");
      return load_model(*model->context->files, paths[i], kAtOnce);
    });
  });
}

graft_status graft_model_load_adapters_sources(graft_model* model, const graft_source* const* sources,
                                               const double* weights, size_t count) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    GRAFT_TRY(check_unused(*model, "its adapters change"));
    if (sources == nullptr || count == 0) return invalid("graft_model_load_adapters_sources needs sources.");
    return load_together(*model, weights, count,
                         [&](std::size_t i) { return load_source(*model->context, sources[i], kAtOnce); });
  });
}

graft_status graft_model_save_adapters(graft_model* model, const char* path) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    if (path == nullptr) return invalid("graft_model_save_adapters needs a path.");
    GRAFT_TRY_ASSIGN(const Model adapters, adapter_of(model->model));
    if (!model->allow_non_finite) GRAFT_TRY(adapters.check_finite().with_context("Nothing was saved"));
    return save_model(*model->context->files, path, adapters);
  });
}

graft_status graft_model_merge_adapters(graft_model* model, const char* quantize) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    GRAFT_TRY(check_unused(*model, "its adapters are merged"));
    GRAFT_TRY(need_contents(*model));
    if (!model->base) return invalid("The model has no adapters that could be merged.");
    GRAFT_TRY_ASSIGN(const auto blocks, parse_block_format(quantize == nullptr ? "" : quantize));
    GRAFT_TRY_ASSIGN(const Model adapters, adapter_of(model->model));
    if (!model->allow_non_finite) GRAFT_TRY(adapters.check_finite().with_context("Nothing was merged"));
    GRAFT_TRY_ASSIGN(Model merged, merge_adapter(*model->base, adapters, blocks));
    model->merged_into.push_back(std::move(model->base));
    model->model = std::move(merged);
    model->adapters.reset();
    return ok_status();
  });
}

namespace {

/// `from`: a path or a source.
template <typename From>
graft_status swap_of_session(graft_session* session, From from) {
  if (session == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(session->context, [&] {
    return swap_from(*session->context, from, [&](const Model* m) { return session->session->swap_adapters(m); });
  });
}

}  // namespace

graft_status graft_session_swap_adapters(graft_session* session, const char* path) {
  return swap_of_session(session, path);
}

graft_status graft_session_swap_adapters_source(graft_session* session, const graft_source* source) {
  return swap_of_session(session, source);
}
