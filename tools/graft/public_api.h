// What commands share that use graft/*.h alone, as any app does.
#pragma once

#include <memory>
#include <string>

#include "graft/convert.h"
#include "graft/graft.h"
#include "tools/common/device_flags.h"

namespace graft::cli {

struct Destroy {
  void operator()(graft_context* context) const { graft_context_destroy(context); }
  void operator()(graft_model* model) const { graft_model_destroy(model); }
  void operator()(graft_embedder* embedder) const { graft_embedder_destroy(embedder); }
  void operator()(graft_importance* importance) const { graft_importance_destroy(importance); }
  void operator()(graft_tokenizer* tokenizer) const { graft_tokenizer_destroy(tokenizer); }
  void operator()(graft_conversion* conversion) const { graft_conversion_destroy(conversion); }
};
template <typename T>
using Owned = std::unique_ptr<T, Destroy>;

/// What a call's failure says.
Status checked(graft_status status, const graft_context* context);

/// A context by these flags, with what is remembered of its device.
Result<Owned<graft_context>> open_context(const DeviceFlags& flags);
Result<Owned<graft_model>> open_model(graft_context* context, const std::string& path);

/// Those of add_device_flags() that open_context() looks at.
void add_public_device_flags(CLI::App& app, DeviceFlags& flags);

}  // namespace graft::cli
