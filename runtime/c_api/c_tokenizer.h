// What stands behind the handle of graft/language.h.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graft/language.h"
#include "runtime/c_api/c_handles.h"
#include "runtime/text/tokenizer/tokenizer.h"

struct graft_tokenizer {
  /// `its`: the generator's; null: this one's own.
  graft_tokenizer(graft_context* of, graft_generator* with, std::optional<graft::text::Tokenizer> made,
                  const graft::text::Tokenizer* its, const graft::Metadata& model)
      : context(of), generator(with), own(std::move(made)), tokenizer(its != nullptr ? *its : *own), metadata(model) {}

  graft::c_api::Ref<graft_context> context;
  graft::c_api::Ref<graft_generator> generator;
  std::optional<graft::text::Tokenizer> own;
  const graft::text::Tokenizer& tokenizer;
  graft::Metadata metadata;  // of the model: it says which format conversations have
  std::vector<graft::text::TokenId> ids = {};
  std::string text = {};
  graft::c_api::Users users = {};
};
