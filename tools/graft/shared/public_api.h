// What commands share that use graft/*.h alone, as any app does.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graft/defaults.hpp"
#include "graft/convert.h"
#include "graft/graft.h"
#include "tools/common/device_flags.h"
#include "tools/common/options.h"

namespace graft::cli {

struct Destroy {
  void operator()(graft_context* context) const { graft_context_destroy(context); }
  void operator()(graft_model* model) const { graft_model_destroy(model); }
  void operator()(graft_embedder* embedder) const { graft_embedder_destroy(embedder); }
  void operator()(graft_generator* generator) const { graft_generator_destroy(generator); }
  void operator()(graft_data_set* set) const { graft_data_destroy(set); }
  void operator()(graft_evaluation* evaluation) const { graft_evaluation_destroy(evaluation); }
  void operator()(graft_session* session) const { graft_session_destroy(session); }
  void operator()(graft_profile* profile) const { graft_profile_destroy(profile); }
  void operator()(graft_gradients* gradients) const { graft_gradients_destroy(gradients); }
  void operator()(graft_importance* importance) const { graft_importance_destroy(importance); }
  void operator()(graft_tokenizer* tokenizer) const { graft_tokenizer_destroy(tokenizer); }
  void operator()(graft_conversion* conversion) const { graft_conversion_destroy(conversion); }
  void operator()(graft_devices* devices) const { graft_devices_destroy(devices); }
  void operator()(graft_store* store) const { graft_store_destroy(store); }
  void operator()(graft_memory_file* memory) const { graft_memory_destroy(memory); }
  void operator()(graft_residual* residual) const { graft_residual_destroy(residual); }
  void operator()(graft_delta* delta) const { graft_delta_destroy(delta); }
  void operator()(graft_averager* averager) const { graft_averager_destroy(averager); }
  void operator()(graft_server* server) const { graft_server_destroy(server); }
  void operator()(graft_plan* plan) const { graft_plan_destroy(plan); }
  void operator()(graft_loader* loader) const { graft_loader_destroy(loader); }
  void operator()(graft_trainer* trainer) const { graft_trainer_destroy(trainer); }
};
template <typename T>
using Owned = std::unique_ptr<T, Destroy>;

/// A struct of the C interface with its size, and with its defaults if it has any.
template <typename T>
T sized() {
  T out = {};
  out.struct_size = sizeof out;
  if constexpr (requires { graft_init(&out); }) graft_init(&out);
  return out;
}

/// What a call's failure says.
Status checked(graft_status status, const graft_context* context);
/// What a conversion's failure says, in the words of the command line.
Status checked(graft_status status, const graft_conversion* conversion);

/// The devices that there are, of which none is opened.
Result<Owned<graft_devices>> find_devices(const DeviceFlags& flags);

/// A context by these flags, with what is remembered of its device, at the pace that they ask for.
Result<Owned<graft_context>> open_context(const DeviceFlags& flags);
/// One without a device, for what only reads files.
Result<Owned<graft_context>> open_context_without_device();
/// Ends it, with all that was made of it gone before, and fails where the validation layers found anything.
Status close_context(Owned<graft_context> context);
/// What is not finite in its file is saved as it is.
Result<Owned<graft_model>> open_model(graft_context* context, const std::string& path,
                                      graft_weight_check check = GRAFT_CHECK_ON_USE);
/// The same of a model whose weights will be others: none that are not finite are stored in it.
Result<Owned<graft_model>> open_trainable(graft_context* context, const std::string& path, graft_weight_check check);

/// "batch=32,seq=128" as calls take it.
class PublicBindings {
 public:
  explicit PublicBindings(Bindings bindings) : bindings_(std::move(bindings)) {
    for (const auto& [name, size] : bindings_) raw_.push_back({name.c_str(), size});
  }
  const graft_binding* data() const { return raw_.data(); }
  std::size_t size() const { return raw_.size(); }

 private:
  Bindings bindings_;
  std::vector<graft_binding> raw_;
};

/// What --precision says.
Result<graft_precision> parse_precision(const std::string& name);
/// Sizes as --budget takes them; 0 for an empty text: no limit.
Result<std::uint64_t> parse_budget(const std::string& text);
struct Budget {
  std::uint64_t bytes = 0;
  std::uint64_t beside_weights = 0;  ///< in place of it, where it is not 0
};
/// "512MiB", or "weights+150MB" for so much beside the frozen weights; none for an empty text.
Result<Budget> parse_step_budget(const std::string& text);

/// --check, for commands that read weights when they use them or not at all.
void add_check_flag(CLI::App& app, bool& check);
inline graft_weight_check when_to_check(bool check) { return check ? GRAFT_CHECK_AT_ONCE : GRAFT_CHECK_ON_USE; }

/// Refuses a file of another format, with the command to convert it with.
Status check_is_model(const std::string& path);

/// All that a function of an index names.
std::vector<std::string> all_names(const char* (*name_at)(std::size_t index));

/// Those of add_device_flags() that open_context() looks at.
void add_public_device_flags(CLI::App& app, DeviceFlags& flags);

}  // namespace graft::cli
