// graft/embed.h: vectors of texts.
#include "graft/embed.h"

#include "runtime/c_api/c_handles.h"
#include "runtime/language/embedder.h"

using namespace graft;
using namespace graft::c_api;

struct graft_embedder {
  Ref<graft_context> context;
  Ref<graft_model> model;
  std::unique_ptr<Embedder> embedder;
  std::vector<float> vectors = {};  // of the last call
  Users users = {};
};

namespace {

Result<EmbedderOptions> embedder_options(const graft_embedder_options& given) {
  constexpr std::optional<Pooling> kPoolings[] = {std::nullopt, Pooling::mean, Pooling::last, Pooling::cls};
  const auto pooling = static_cast<unsigned>(given.pooling);
  if (pooling >= std::size(kPoolings)) return invalid("There is no pooling number ", pooling, ".");
  EmbedderOptions out;
  out.pooling = kPoolings[pooling];
  out.normalize = given.normalize != 0;
  out.cut = given.cut != 0;
  out.length = given.length;
  out.batch = given.batch;
  out.dimensions = given.dimensions;
  if (given.of != nullptr) out.of = given.of;
  GRAFT_TRY_ASSIGN(out.precision, read_precision(given.precision));
  out.plan.budget = given.budget;
  return out;
}

}  // namespace

graft_status graft_embedder_create(graft_model* model, const graft_embedder_options* options,
                                   graft_embedder** embedder) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    if (embedder == nullptr) return invalid("graft_embedder_create needs a place for the embedder.");
    *embedder = nullptr;
    GRAFT_TRY_ASSIGN(const graft_embedder_options given, read_options(options, "graft_embedder_options"));
    GRAFT_TRY_ASSIGN(EmbedderOptions wanted, embedder_options(given));
    GRAFT_TRY_ASSIGN(gpu::Device * device, device_of(*model->context));
    wanted.program.proof = model->context->proof.get();
    wanted.program.control = &model->context->control;
    if (given.recover_device != 0) {
      wanted.reopen = [&context = *model->context](gpu::Device& lost) { return reopen_device(context, lost); };
    }
    GRAFT_TRY_ASSIGN(auto made, Embedder::create(*device, model->model, wanted));
    *embedder = new graft_embedder{model->context, model, std::move(made)};
    return ok_status();
  });
}

void graft_embedder_destroy(graft_embedder* embedder) {
  if (embedder != nullptr) destroy<graft_context>(embedder->context, embedder);
}

size_t graft_embedder_width(const graft_embedder* embedder) {
  return embedder == nullptr ? 0 : embedder->embedder->width();
}

size_t graft_embedder_length(const graft_embedder* embedder) {
  return embedder == nullptr ? 0 : embedder->embedder->length();
}

graft_status graft_embedder_memory(const graft_embedder* embedder, graft_memory* memory) {
  if (embedder == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(embedder->context,
                 [&] { return write_info(memory_of(embedder->embedder->memory()), memory, "graft_memory"); });
}

graft_status graft_embed(graft_embedder* embedder, const char* const* texts, size_t count, const float** vectors,
                         const uint32_t** token_counts) {
  if (embedder == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(embedder->context, [&]() -> Status {
    if (texts == nullptr && count != 0) return invalid(count, " texts were promised, and they are NULL.");
    std::vector<std::string_view> given;
    for (std::size_t i = 0; i < count; ++i) {
      if (texts[i] == nullptr) return invalid("Text ", i, " is NULL.");
      given.emplace_back(texts[i]);
    }
    GRAFT_TRY_ASSIGN(embedder->vectors, embedder->embedder->embed(given));
    if (vectors != nullptr) *vectors = embedder->vectors.data();
    if (token_counts != nullptr) *token_counts = embedder->embedder->token_counts().data();
    return ok_status();
  });
}

graft_status graft_embed_tokens(graft_embedder* embedder, const int32_t* const* ids, const size_t* counts, size_t count,
                                const float** vectors) {
  if (embedder == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(embedder->context, [&]() -> Status {
    if ((ids == nullptr || counts == nullptr) && count != 0) {
      return invalid(count, " texts were promised, and their tokens or how many there are is NULL.");
    }
    std::vector<std::vector<text::TokenId>> given;
    for (std::size_t i = 0; i < count; ++i) {
      if (ids[i] == nullptr && counts[i] != 0) return invalid("The tokens of text ", i, " are NULL.");
      given.emplace_back(ids[i], ids[i] + counts[i]);
    }
    GRAFT_TRY_ASSIGN(embedder->vectors, embedder->embedder->embed(given));
    if (vectors != nullptr) *vectors = embedder->vectors.data();
    return ok_status();
  });
}
