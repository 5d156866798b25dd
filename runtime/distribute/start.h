// What workers do before their first step together.
#pragma once

#include <chrono>
#include <map>
#include <string>

#include "platform/group/group.h"
#include "runtime/data/loader.h"
#include "runtime/train/run/trainer.h"

namespace graft::distribute {

/// invalid_argument names the first of these, and the workers, of which two have different words: {"model": ..., }.
/// One exchange of a fixed size where all have the same. `newcomer`: this worker takes part for the first time. Where
/// newcomers alone have other words than worker 0, that is an io_error for the others: they meet again without them.
Status agree(group::Group& group, const std::map<std::string, std::string, std::less<>>& words, bool newcomer,
             std::chrono::nanoseconds deadline);

/// Worker 0's state, all tensors that training changes and the place in the data, becomes that of all. The trainers are
/// of one plan. `loader`: null where nobody has one. Where a step is half done, all go on with it, and need the whole
/// of its batch.
Status share_state(group::Group& group, train::Trainer& trainer, data::Loader* loader,
                   std::chrono::nanoseconds deadline);

/// After the last step: returns once all have ended it, so that nobody is missed who is still needed; with what worker
/// 0 says of itself, who has things to finish.
Result<bool> end_together(group::Group& group, bool finished, std::chrono::nanoseconds deadline);

}  // namespace graft::distribute
