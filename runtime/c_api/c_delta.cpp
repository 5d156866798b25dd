// graft/delta.h: what training changed, made, averaged and applied.
#include "graft/delta.h"

#include <array>

#include "platform/base/exceptions.h"
#include "runtime/c_api/c_adapter.h"
#include "runtime/c_api/c_source.h"
#include "runtime/delta/average.h"
#include "runtime/delta/delta_file.h"
#include "runtime/delta/privacy.h"
#include "runtime/delta/server.h"

using namespace graft;
using namespace graft::c_api;

struct graft_delta {
  Ref<graft_context> context;
  delta::Delta delta;
  std::string base = {};              ///< as text
  std::vector<std::byte> bytes = {};  ///< of the last graft_delta_bytes()
  double kept = 1;                    ///< delta::Products::kept
  std::string dtype = {};             ///< of the last graft_delta_tensor_text()
  std::string shape = {};
  Users users = {};
};

struct graft_averager {
  Ref<graft_context> context;
  delta::Averager averager;
  Users users = {};
};

struct graft_server {
  Ref<graft_context> context;
  delta::ServerOptions options;
  delta::Server server;
  Users users = {};
};

struct graft_residual {
  Ref<graft_context> context;
  delta::Residual residual = {};
  Users users = {};
};

namespace {

static_assert(static_cast<int>(delta::Coding::fixed) == GRAFT_DELTA_FIXED);
static_assert(static_cast<int>(delta::ServerKind::fedyogi) == GRAFT_SERVER_FEDYOGI);

std::optional<std::uint64_t> seed_of(const uint64_t* seed) {
  return seed == nullptr ? std::nullopt : std::optional<std::uint64_t>(*seed);
}

graft_delta* handle_of(graft_context* context, delta::Delta delta) {
  std::unique_ptr<graft_delta> made(new graft_delta{context, std::move(delta)});
  made->base = hash_text(made->delta.base);
  return made.release();
}

/// As guarded(), of a delta that is there.
template <typename Body>
graft_status on_delta(graft_delta* delta, Body&& body) {
  if (delta == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(delta->context, std::forward<Body>(body));
}

Result<delta::MakeOptions> make_options(const graft_delta_options& given) {
  delta::MakeOptions out;
  out.samples = given.samples;
  out.local_steps = given.local_steps;
  if (static_cast<unsigned>(given.coding) > GRAFT_DELTA_FIXED) {
    return invalid("There is no coding number ", static_cast<unsigned>(given.coding), ".");
  }
  out.coding = static_cast<delta::Coding>(given.coding);
  out.fixed_bits = given.fixed_bits;
  out.room = given.room;
  out.clip_norm = given.clip_norm;
  out.noise = given.noise;
  out.seed = seed_of(given.seed);
  return out;
}

delta::AverageOptions average_options(const graft_average_options& given) {
  return {given.equal != 0 ? delta::Weighing::equal : delta::Weighing::samples, given.noise, given.clip_norm,
          seed_of(given.seed), given.expected_clients};
}

/// The tensor of that name.
Result<delta::Tensor*> tensor_of(graft_delta& delta, const char* name) {
  if (name == nullptr) return invalid("The tensor's name is NULL.");
  for (delta::Tensor& tensor : delta.delta.tensors) {
    if (tensor.name == name) return &tensor;
  }
  return error(Code::not_found, "The delta has no tensor \"", name, "\".");
}

/// What a model is trained in: its adapters, or itself.
Result<Model> trained_part(const graft_model& model) {
  return model.base ? adapter_of(model.model) : borrow_model(model.model);
}

/// The model with the delta, which owns what changed.
Status apply_to(graft_model& model, const delta::Delta& delta, double rate) {
  if (delta.kind == delta::Kind::adapters) {
    return load_onto(model, delta::apply(model.base ? *model.base : model.model, delta, rate));
  }
  GRAFT_TRY_ASSIGN(const Model before, trained_part(model));
  GRAFT_TRY_ASSIGN(Model after, delta::apply(before, delta, rate));
  // All, before the first is set; sizes are those of the weights that there are.
  for (const delta::Tensor& tensor : delta.tensors) {
    const auto contents = after.weight(after.graph.find_value(tensor.name));
    GRAFT_TRY(model.model.copy_weight(model.model.graph.find_value(tensor.name), *contents, model.context->allocator));
  }
  return ok_status();
}

}  // namespace

graft_status graft_residual_create(graft_context* context, graft_residual** residual) {
  return guarded(context, [&]() -> Status {
    if (residual == nullptr) return invalid("The place for the residual is NULL.");
    *residual = new graft_residual{context};
    return ok_status();
  });
}

void graft_residual_destroy(graft_residual* residual) {
  if (residual != nullptr) destroy<graft_context>(residual->context, residual);
}

graft_status graft_delta_make(const graft_model* base, const graft_model* updated, const graft_delta_options* options,
                              graft_delta** delta) {
  if (base == nullptr || updated == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(updated->context, [&]() -> Status {
    if (delta == nullptr) return invalid("The place for the delta is NULL.");
    *delta = nullptr;
    for (const graft_model* const one : {base, updated}) GRAFT_TRY(need_contents(*one));
    os::FileSystem& files = *updated->context->files;
    GRAFT_TRY_ASSIGN(const graft_delta_options given, read_options(options, "graft_delta_options"));
    GRAFT_TRY_ASSIGN(delta::MakeOptions make, make_options(given));
    if (given.residual != nullptr && given.kept != nullptr) {
      return invalid("What coding lost is kept in a file (residual) or in memory (kept), not in both.");
    }
    const char* const kept = given.residual;
    delta::Residual residual;
    if (kept != nullptr) {
      GRAFT_TRY_ASSIGN(residual, delta::read_residual(files, kept));
      make.residual = &residual;
    }
    if (given.kept != nullptr) make.residual = &given.kept->residual;
    GRAFT_TRY_ASSIGN(const Model from, trained_part(*base));
    GRAFT_TRY_ASSIGN(const Model to, trained_part(*updated));
    GRAFT_TRY_ASSIGN(delta::Delta made, delta::make(from, to, make));
    if (kept != nullptr) GRAFT_TRY(delta::write_residual(files, kept, made, residual));
    *delta = handle_of(updated->context, std::move(made));
    return ok_status();
  });
}

graft_status graft_delta_load(graft_context* context, const char* path, graft_delta** delta) {
  return guarded(context, [&]() -> Status {
    if (path == nullptr || delta == nullptr) return invalid("A delta is loaded from a path to a place; one is NULL.");
    *delta = nullptr;
    GRAFT_TRY_ASSIGN(delta::Delta read, delta::read_delta(*context->files, path));
    *delta = handle_of(context, std::move(read));
    return ok_status();
  });
}

graft_status graft_delta_load_source(graft_context* context, const graft_source* source, graft_delta** delta) {
  return guarded(context, [&]() -> Status {
    if (delta == nullptr) return invalid("The place for the delta is NULL.");
    *delta = nullptr;
    GRAFT_TRY_ASSIGN(const SourceBytes from, read_source(*context, source));
    GRAFT_TRY_ASSIGN(delta::Delta read, delta::from_bytes(from.bytes->bytes(), from.name));
    *delta = handle_of(context, std::move(read));
    return ok_status();
  });
}

graft_status graft_delta_save(graft_delta* delta, const char* path) {
  return on_delta(delta, [&]() -> Status {
    if (path == nullptr) return invalid("graft_delta_save needs a path.");
    return delta::write_delta(*delta->context->files, path, delta->delta);
  });
}

graft_status graft_delta_bytes(graft_delta* delta, const void** data, size_t* bytes) {
  return on_delta(delta, [&]() -> Status {
    if (data == nullptr || bytes == nullptr) return invalid("graft_delta_bytes needs places for data and bytes.");
    GRAFT_TRY_ASSIGN(delta->bytes, delta::to_bytes(delta->delta));
    *data = delta->bytes.data();
    *bytes = delta->bytes.size();
    return ok_status();
  });
}

void graft_delta_destroy(graft_delta* delta) {
  if (delta != nullptr) destroy<graft_context>(delta->context, delta);
}

graft_status graft_delta_describe(graft_delta* delta, graft_delta_info* info) {
  return on_delta(delta, [&]() -> Status {
    const delta::Delta& from = delta->delta;
    graft_delta_info out{};
    out.base = delta->base.c_str();
    out.base_file = from.base_file.c_str();
    out.of_adapters = from.kind == delta::Kind::adapters ? 1 : 0;
    out.samples = from.samples;
    out.clients = from.clients;
    out.local_steps = from.local_steps;
    out.rank = from.rank;
    out.coding = static_cast<graft_delta_coding>(from.coding);
    out.norm = from.norm;
    out.clip_norm = from.clip_norm;
    out.noise = from.noise;
    out.tensors = from.tensors.size();
    out.numbers = from.elements();
    out.fixed_bits = from.fixed_bits;
    out.kept = delta->kept;
    return write_info(out, info, "graft_delta_info");
  });
}

graft_status graft_delta_tensor(graft_delta* delta, size_t index, graft_tensor_info* info) {
  return on_delta(delta, [&]() -> Status {
    const auto& tensors = delta->delta.tensors;
    if (info == nullptr) return invalid("The graft_tensor_info to fill is NULL.");
    if (index >= tensors.size()) {
      return error(Code::not_found, "The delta has ", tensors.size(), " tensors; number ", index, " is not one.");
    }
    *info = info_of(tensors[index].name.c_str(), tensors[index].dtype, tensors[index].shape);
    return ok_status();
  });
}

graft_status graft_delta_tensor_text(graft_delta* delta, size_t index, graft_tensor_text* text) {
  return on_delta(delta, [&]() -> Status {
    GRAFT_TRY(check_info(text, "graft_tensor_text"));
    const auto& tensors = delta->delta.tensors;
    if (index >= tensors.size()) {
      return error(Code::not_found, "The delta has ", tensors.size(), " tensors; number ", index, " is not one.");
    }
    delta->dtype = dtype_name(tensors[index].dtype);
    delta->shape = tensors[index].shape.text();
    graft_tensor_text out{};
    out.name = tensors[index].name.c_str();
    out.dtype = delta->dtype.c_str();
    out.shape = delta->shape.c_str();
    return write_info(out, text, "graft_tensor_text");
  });
}

graft_status graft_delta_numbers(graft_delta* delta, const char* name, float* numbers, size_t count) {
  return on_delta(delta, [&]() -> Status {
    GRAFT_TRY_ASSIGN(const delta::Tensor* const tensor, tensor_of(*delta, name));
    const std::uint64_t there = tensor->shape.elements();
    if (numbers == nullptr || count != there) {
      return invalid("The tensor \"", name, "\" has ", there, " numbers; there is room for ",
                     numbers == nullptr ? 0 : count, ".");
    }
    const std::vector<float> decoded = numbers_of(delta->delta, *tensor);
    std::copy(decoded.begin(), decoded.end(), numbers);
    return ok_status();
  });
}

graft_status graft_delta_integers(graft_delta* delta, const char* name, uint32_t** integers, size_t* count) {
  return on_delta(delta, [&]() -> Status {
    if (integers == nullptr || count == nullptr) return invalid("graft_delta_integers needs places for both results.");
    if (delta->delta.coding != delta::Coding::fixed) return invalid("The delta's numbers are not coded as integers.");
    GRAFT_TRY_ASSIGN(delta::Tensor* const tensor, tensor_of(*delta, name));
    *integers = reinterpret_cast<uint32_t*>(tensor->coded.data());
    *count = tensor->coded.size() / sizeof(uint32_t);
    return ok_status();
  });
}

graft_status graft_delta_average(graft_context* context, graft_delta* const* deltas, size_t count,
                                 const graft_average_options* options, graft_delta** average) {
  return guarded(context, [&]() -> Status {
    if (average == nullptr || (deltas == nullptr && count > 0)) return invalid("There are no deltas, or no place.");
    *average = nullptr;
    GRAFT_TRY_ASSIGN(const graft_average_options given, read_options(options, "graft_average_options"));
    for (size_t i = 0; i < count; ++i) {
      if (deltas[i] == nullptr) return invalid("Delta ", i, " is NULL.");
    }
    const auto weighing = given.equal != 0 ? delta::Weighing::equal : delta::Weighing::samples;
    if (given.products != 0) {
      if (given.noise != 0) return invalid("Products are averaged without noise.");
      std::vector<delta::Delta> all;
      for (size_t i = 0; i < count; ++i) all.push_back(deltas[i]->delta);
      GRAFT_TRY_ASSIGN(delta::Products products, delta::average_products(all, given.rank, weighing));
      *average = handle_of(context, std::move(products.average));
      (*average)->kept = products.kept;
      return ok_status();
    }
    const delta::AverageOptions wanted = average_options(given);
    delta::Averager averager(wanted);
    for (size_t i = 0; i < count; ++i) GRAFT_TRY(averager.add(deltas[i]->delta).with_context(cat("In delta ", i)));
    GRAFT_TRY_ASSIGN(delta::Delta result, averager.finish());
    *average = handle_of(context, std::move(result));
    return ok_status();
  });
}

graft_status graft_averager_create(graft_context* context, const graft_average_options* options,
                                   graft_averager** averager) {
  return guarded(context, [&]() -> Status {
    if (averager == nullptr) return invalid("The place for the averager is NULL.");
    *averager = nullptr;
    GRAFT_TRY_ASSIGN(const graft_average_options given, read_options(options, "graft_average_options"));
    if (given.products != 0) return invalid("Products are averaged together: see graft_delta_average().");
    const delta::AverageOptions wanted = average_options(given);
    *averager = new graft_averager{context, delta::Averager(wanted)};
    return ok_status();
  });
}

graft_status graft_averager_add(graft_averager* averager, const graft_delta* delta) {
  if (averager == nullptr || delta == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(averager->context, [&] { return averager->averager.add(delta->delta); });
}

graft_status graft_averager_finish(graft_averager* averager, graft_delta** average) {
  if (averager == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(averager->context, [&]() -> Status {
    if (average == nullptr) return invalid("The place for the average is NULL.");
    *average = nullptr;
    GRAFT_TRY_ASSIGN(delta::Delta result, averager->averager.finish());
    *average = handle_of(averager->context, std::move(result));
    return ok_status();
  });
}

void graft_averager_destroy(graft_averager* averager) {
  if (averager != nullptr) destroy<graft_context>(averager->context, averager);
}

graft_status graft_server_create(graft_context* context, const graft_server_options* options, graft_server** server) {
  return guarded(context, [&]() -> Status {
    if (server == nullptr) return invalid("The place for the server is NULL.");
    *server = nullptr;
    GRAFT_TRY_ASSIGN(const graft_server_options given, read_options(options, "graft_server_options"));
    if (static_cast<unsigned>(given.kind) > GRAFT_SERVER_FEDYOGI) {
      return invalid("There is no server number ", static_cast<unsigned>(given.kind), ".");
    }
    delta::ServerOptions wanted;
    wanted.kind = static_cast<delta::ServerKind>(given.kind);
    wanted.rate = given.rate;
    wanted.beta1 = given.beta1;
    wanted.beta2 = given.beta2;
    wanted.tau = given.tau;
    GRAFT_TRY(delta::check(wanted));
    *server = new graft_server{context, wanted, delta::Server(wanted)};
    return ok_status();
  });
}

void graft_server_destroy(graft_server* server) {
  if (server != nullptr) destroy<graft_context>(server->context, server);
}

int graft_server_keeps(const graft_server* server) {
  if (server == nullptr) return 0;
  return server->options.kind != delta::ServerKind::fedavg || server->options.beta1 > 0 ? 1 : 0;
}

graft_status graft_server_load(graft_server* server, const char* path) {
  if (server == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(server->context, [&]() -> Status {
    if (path == nullptr) return invalid("graft_server_load needs a path.");
    constexpr std::uint64_t kLargest = std::uint64_t{1} << 31;  // of a delta file
    GRAFT_TRY_ASSIGN(const HostBuffer bytes, os::read_file(*server->context->files, path, kLargest));
    return server->server.restore(bytes.bytes(), path);
  });
}

graft_status graft_server_save(graft_server* server, const char* path) {
  if (server == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(server->context, [&]() -> Status {
    if (path == nullptr) return invalid("graft_server_save needs a path.");
    GRAFT_TRY_ASSIGN(const auto bytes, server->server.state());
    const std::array parts = {std::span<const std::byte>(bytes)};
    return os::atomic_write_file(*server->context->files, path, parts);
  });
}

graft_status graft_server_step(graft_server* server, graft_model* base, const graft_delta* average,
                               graft_delta** step) {
  if (server == nullptr || base == nullptr || average == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(server->context, [&]() -> Status {
    if (step == nullptr) return invalid("The place for the step is NULL.");
    *step = nullptr;
    GRAFT_TRY(need_contents(*base));
    GRAFT_TRY_ASSIGN(const Model before, trained_part(*base));
    GRAFT_TRY(check_base(average->delta, before));
    GRAFT_TRY_ASSIGN(delta::Delta made, server->server.step(average->delta, delta::statistics_of(before)));
    *step = handle_of(server->context, std::move(made));
    return ok_status();
  });
}

graft_status graft_delta_apply(graft_model* model, graft_delta* delta, double rate) {
  if (model == nullptr || delta == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    GRAFT_TRY(check_unused(*model, "a delta is applied"));
    GRAFT_TRY(need_contents(*model));
    return apply_to(*model, delta->delta, rate);
  });
}

graft_status graft_delta_privacy(graft_context* context, double noise, double share, uint64_t rounds, double delta,
                                 double* epsilon) {
  return guarded(context, [&]() -> Status {
    if (epsilon == nullptr) return invalid("The place for epsilon is NULL.");
    GRAFT_TRY_ASSIGN(const auto cost, delta::privacy_of(noise, share, rounds, delta));
    *epsilon = cost.epsilon;
    return ok_status();
  });
}

uint32_t graft_delta_privacy_order(double noise, double share, uint64_t rounds, double delta) {
  return or_without_memory(0u, [&] {
    const auto cost = delta::privacy_of(noise, share, rounds, delta);
    return cost.ok() ? cost->order : 0;
  });
}
