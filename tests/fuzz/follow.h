// What a fuzz target does with what it has read.
#pragma once

#include <string_view>

#include "platform/base/status.h"
#include "platform/gpu/target.h"
#include "runtime/model/model.h"
#include "runtime/text/tokenizer/vocabulary.h"

namespace graft::fuzz {

/// Ends the process where it does not hold: a finding.
void check(bool condition);
/// Bad input gets one sentence, and is never called a fault of graft's own.
void check_refusal(const Status& status);

/// A valid model is described, goes through the passes, and is planned for inference on a device that is not there.
/// What cannot be is refused.
void follow_model(const Model& model, const gpu::Target& target = {.caps = {.device_name = "any Vulkan 1.1 device"}});
/// The same, then with little memory, and for training: some ten times the work.
void follow_model_far(const Model& model);

/// A vocabulary encodes and decodes texts, as a whole and piece by piece, and keeps its form as bytes.
void follow_vocabulary(const text::Vocabulary& vocabulary);

}  // namespace graft::fuzz
