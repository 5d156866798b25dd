// The subcommands.
#pragma once

#include "tools/common/command.h"

namespace graft::cli {

// One per cmd_<name>.cpp.
Action add_delta(CLI::App& app);
Action add_devices(CLI::App& app);
Action add_checkpoint(CLI::App& app);
Action add_compare(CLI::App& app);
Action add_convert(CLI::App& app);
Action add_chat(CLI::App& app);
Action add_generate(CLI::App& app);
Action add_imatrix(CLI::App& app);
Action add_info(CLI::App& app);
Action add_memory(CLI::App& app);
Action add_plan(CLI::App& app);
Action add_recipes(CLI::App& app);
Action add_report(CLI::App& app);
Action add_run(CLI::App& app);
Action add_simulate(CLI::App& app);
Action add_grad(CLI::App& app);
Action add_train(CLI::App& app);
Action add_eval(CLI::App& app);
Action add_merge(CLI::App& app);
Action add_embed(CLI::App& app);
Action add_export(CLI::App& app);
Action add_resize(CLI::App& app);
Action add_tokenize(CLI::App& app);
Action add_verify(CLI::App& app);
Action add_watch(CLI::App& app);

}  // namespace graft::cli
