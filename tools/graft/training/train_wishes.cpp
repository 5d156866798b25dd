#include "tools/graft/training/train_wishes.h"

#include <charconv>
#include <set>

#include "tools/common/numbers.h"
#include "tools/common/text.h"

namespace graft::cli {
namespace {

constexpr double kLargestOfGroup = 1e30;  // as graft takes it

Result<double> group_value(std::string text, const std::string& what) {
  const std::string wrong = cli::number(0, kLargestOfGroup)(text);
  if (!wrong.empty()) return invalid("--group ", what, " ", wrong, ".");
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// "*.bias:weight_decay=0,lr=0.1"
Result<ParameterGroup> parse_parameter_group(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  const std::vector<std::string> items = split_list(colon == std::string::npos ? "" : text.substr(colon + 1));
  if (items.empty() || colon == 0) {
    return invalid("--group takes PATTERN:lr=SCALE,weight_decay=X; \"", text, "\" is not that.");
  }
  ParameterGroup group = {.pattern = text.substr(0, colon)};
  std::set<std::string> given;
  for (const std::string& item : items) {
    TRY_ASSIGN(const auto pair, parse_assignment(item, "--group PATTERN:"));
    if (pair.first != "lr" && pair.first != "weight_decay")
      return invalid("--group knows lr and weight_decay, not \"", pair.first, "\".");
    if (!given.insert(pair.first).second) return invalid("--group gives ", pair.first, " of one pattern twice.");
    TRY_ASSIGN(const double value, group_value(pair.second, pair.first));
    if (pair.first == "lr") {
      group.learning_rate_scale = value;
    } else {
      group.weight_decay = value;
    }
  }
  return group;
}

/// --loss and --loss-of as one text of terms.
Result<std::string> loss_text(const TrainFlags& flags) {
  const bool named = flags.loss.find_first_of(":+") != std::string::npos;
  if (flags.output.empty()) return flags.loss;
  if (named) {
    return invalid("--loss ", flags.loss, " and --loss-of ", flags.output, " both name outputs; give one of them.");
  }
  return flags.loss + ":" + flags.output;
}

std::vector<Binding> list_of(const Bindings& bindings) {
  std::vector<Binding> all;
  for (const auto& [name, size] : bindings) all.push_back({name, size});
  return all;
}

}  // namespace

Status TrainWishes::read(const TrainFlags& flags, std::uint64_t total_steps) {
  if (flags.batch < 1 || flags.accumulate < 1 || flags.batch > (std::int64_t{1} << 31) / flags.accumulate) {
    return invalid("--batch ", flags.batch, " and --accumulate ", flags.accumulate,
                   " must be at least 1, and their product at most 2^31.");
  }
  options_ = std::make_unique<TrainerOptions>(flags.options);
  TrainerOptions& out = *options_;
  TRY_ASSIGN(out.losses, loss_text(flags));
  TRY_ASSIGN(out.precision, parse_precision(flags.precision));
  for (const std::string& text : flags.groups) {
    TRY_ASSIGN(out.groups.emplace_back(), parse_parameter_group(text));
  }
  TRY_ASSIGN(Bindings bindings, bindings_of(flags));
  if (has_pairs(flags)) bindings.erase("seq");  // of one text, of which samples hold two
  out.bindings = list_of(bindings);
  bindings.erase("seq");
  of_reference_ = PublicBindings(bindings);
  out.total_steps = total_steps;
  out.batch = static_cast<std::uint32_t>(flags.batch * flags.accumulate);
  out.micro_batch = static_cast<std::uint32_t>(flags.batch);
  raw_ = std::make_unique<graft::detail::RawTrainerOptions>(out);
  return ok_status();
}

graft_reference_options TrainWishes::reference() const {
  auto out = sized<graft_reference_options>();
  out.batch = options_->micro_batch;
  out.precision = options_->precision;
  out.bindings = of_reference_.data();
  out.binding_count = of_reference_.size();
  return out;
}

graft_trainer_options TrainWishes::of_evaluation() const {
  graft_trainer_options out = options();
  out.ema = 0;  // of the weights as they are in the model
  out.freeze = nullptr;
  return out;
}

}  // namespace graft::cli
