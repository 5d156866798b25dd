#include "runtime/train/step/loss_terms.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "platform/base/names.h"
#include "platform/base/text.h"
#include "runtime/core/features.h"
#include "runtime/core/op_def.h"

namespace graft::train {
namespace {

struct LossName {
  std::string_view name;
  Loss loss;
};
// The first name of each is the one that it is shown under.
constexpr LossName kLosses[] = {{"ce", Loss::cross_entropy},
                                {"mse", Loss::mse},
                                {"l1", Loss::l1},
                                {"bce", Loss::bce},
                                {"focal", Loss::focal},
                                {"dice", Loss::dice},
                                {"huber", Loss::huber},
                                {"smooth_l1", Loss::smooth_l1},
                                {"kl", Loss::kl},
                                {"cosine", Loss::cosine},
                                {"triplet", Loss::triplet},
                                {"info_nce", Loss::info_nce},
                                {"ctc", Loss::ctc},
                                {"output", Loss::output},
                                {"distill", Loss::distill},
                                {"dpo", Loss::dpo},
                                {"ipo", Loss::ipo},
                                {"orpo", Loss::orpo},
                                {"kto", Loss::kto},
                                {"cross_entropy", Loss::cross_entropy},
                                {"mae", Loss::l1},
                                {"bce_with_logits", Loss::bce},
                                {"kl_div", Loss::kl},
                                {"cosine_embedding", Loss::cosine},
                                {"triplet_margin", Loss::triplet},
                                {"infonce", Loss::info_nce}};

Status check_factor(std::string_view name, double value) {
  if (value >= 0 && value <= 1e6) return ok_status();
  return invalid("A ", name, " is ", value, "; it must be in [0, 1e6].");
}

Status check_weights(std::string_view name, const std::vector<double>& weights) {
  for (const double weight : weights) GRAFT_TRY(check_factor(name, weight));
  const bool nothing = !weights.empty() && std::ranges::all_of(weights, [](double w) { return w == 0; });
  return nothing ? invalid("All ", name, "s are 0: there is nothing to learn from.") : ok_status();
}

Status check_term(const LossOptions& term) {
  GRAFT_TRY(check_factor("weight of a loss", term.weight));
  GRAFT_TRY(check_weights("class weight", term.class_weights));
  GRAFT_TRY(check_weights("pos weight", term.pos_weight));
  if (term.kind != Loss::dpo || term.label_smoothing <= 0.5) return ok_status();
  return invalid("The label smoothing of dpo is ", term.label_smoothing, "; it must be at most 0.5.");
}

/// "0.5*": the number in front of a term; 1 where there is none.
Result<double> take_weight(std::string_view& text) {
  const std::size_t star = text.find('*');
  if (star == std::string_view::npos || star > text.find(':')) return 1.0;
  double weight = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + star, weight);
  if (failure != std::errc() || end != text.data() + star) {
    return invalid("\"", text.substr(0, star), "\" in front of a loss is no number.");
  }
  text.remove_prefix(star + 1);
  return weight;
}

/// Where the term that begins at `from` ends: names may hold '+', so what follows one must begin a term.
std::size_t end_of_term(std::string_view text, std::size_t from) {
  for (std::size_t plus = find_separator(text, "+", from); plus != std::string_view::npos;
       plus = find_separator(text, "+", plus + 1)) {
    std::string_view rest = text.substr(plus + 1);
    if (!take_weight(rest).ok()) continue;
    if (parse_loss(rest.substr(0, rest.find_first_of(":+"))).ok()) return plus;
  }
  return text.size();
}

Result<LossOptions> parse_term(std::string_view text, const LossOptions& like) {
  LossOptions term = like;
  GRAFT_TRY_ASSIGN(term.weight, take_weight(text));
  const std::size_t colon = std::min(text.find(':'), text.size());
  GRAFT_TRY_ASSIGN(term.kind, parse_loss(text.substr(0, colon)));
  if (colon == text.size()) return term;
  const std::string_view names = text.substr(colon + 1);
  const std::size_t equals = rfind_separator(names, "=");
  term.output = names.substr(0, equals);
  if (equals != std::string_view::npos) term.target = plain_name(names.substr(equals + 1));
  if (names.empty() || (equals != std::string_view::npos && (term.output.empty() || term.target.empty()))) {
    return invalid("The loss \"", text, "\" lacks a name; KIND:OUTPUT and KIND:OUTPUT=FIELD are known.");
  }
  return term;
}

std::vector<LossOptions*> terms_of(TrainOptions& options) {
  std::vector<LossOptions*> terms = {&options.loss};
  for (LossOptions& term : options.more_losses) terms.push_back(&term);
  return terms;
}

bool is_value(const Graph& model, const std::string& names) {
  for (const std::string& name : split_names(names)) {
    if (!model.resolve(name).ok()) return false;
  }
  return true;
}

}  // namespace

std::string loss_names() {
  std::string names;
  std::set<Loss> seen;
  for (const LossName& entry : kLosses) {
    if (seen.insert(entry.loss).second) names += cat(names.empty() ? "" : ", ", entry.name);
  }
  return names;
}

std::string_view loss_name(Loss loss) {
  for (const LossName& entry : kLosses) {
    if (entry.loss == loss) return entry.name;
  }
  return "?";
}

Result<Loss> parse_loss(std::string_view name) {
  for (const LossName& entry : kLosses) {
    if (entry.name == name) return entry.loss;
  }
  return invalid("There is no loss \"", name, "\"; there are ", loss_names(), ".");
}

Result<std::vector<LossOptions>> parse_losses(std::string_view text, const LossOptions& like) {
  if constexpr (!kHasLosses) return left_out("losses other than the cross entropy of labels", "losses");
  std::vector<LossOptions> terms;
  for (std::size_t at = 0;;) {
    const std::size_t end = end_of_term(text, at);
    GRAFT_TRY_ASSIGN(LossOptions term, parse_term(text.substr(at, end - at), like));
    terms.push_back(std::move(term));
    if (end == text.size()) break;
    at = end + 1;
  }
  if (terms.size() <= kMaxLossTerms) return terms;
  return invalid("The loss has ", terms.size(), " terms; ", kMaxLossTerms, " are possible.");
}

std::vector<const LossOptions*> loss_terms(const TrainOptions& options) {
  std::vector<const LossOptions*> terms = {&options.loss};
  for (const LossOptions& term : options.more_losses) terms.push_back(&term);
  return terms;
}

std::size_t outputs_of(Loss loss) {
  const bool two = loss == Loss::cosine || loss == Loss::info_nce || loss == Loss::distill;
  return loss == Loss::triplet ? 3 : two ? 2 : 1;
}

double temperature_of(const LossOptions& term) {
  return term.temperature.value_or(term.kind == Loss::distill ? 2 : 0.07);
}

bool has_target(Loss loss) { return loss != Loss::triplet && loss != Loss::info_nce && loss != Loss::output; }

bool needs_whole_batch(const TrainOptions& options) {
  return std::ranges::any_of(loss_terms(options), [](const LossOptions* term) {
    return term->kind == Loss::info_nce || term->kind == Loss::kto;
  });
}

bool is_preference(Loss loss) {
  if constexpr (!kHasLosses) return false;
  return loss == Loss::dpo || loss == Loss::ipo || loss == Loss::orpo || loss == Loss::kto;
}

bool needs_reference(Loss loss) { return is_preference(loss) && loss != Loss::orpo; }

Status check_losses(const TrainOptions& options) {
  if constexpr (!kHasLosses) {
    const LossOptions& term = options.loss;
    const bool plain = term.kind == Loss::cross_entropy && term.class_weights.empty() && options.more_losses.empty() &&
                       options.sample_weights.empty();
    if (!plain) return left_out("losses other than the cross entropy of labels", "losses");
    return ok_status();
  }
  const auto terms = loss_terms(options);
  if (terms.size() > kMaxLossTerms) {
    return invalid("The loss has ", terms.size(), " terms; ", kMaxLossTerms, " are possible.");
  }
  for (const LossOptions* term : terms) GRAFT_TRY(check_term(*term));
  if (std::ranges::all_of(terms, [](const LossOptions* term) { return term->weight == 0; })) {
    return invalid("All terms of the loss have the weight 0: there is nothing to learn from.");
  }
  const bool parts = options.micro_batch != 0 && options.micro_batch < options.batch;
  if (needs_whole_batch(options) && parts) {
    const bool kto = std::ranges::any_of(terms, [](const LossOptions* term) { return term->kind == Loss::kto; });
    return invalid(kto ? "kto" : "info_nce", " compares the samples of a batch with each other: micro-batches of ",
                   options.micro_batch, " would change it.");
  }
  if (terms.size() > 1 &&
      std::ranges::any_of(terms, [](const LossOptions* term) { return is_preference(term->kind); })) {
    return invalid("A loss of preferences stands alone: it has no other terms beside it.");
  }
  if (!options.sample_weights.empty() &&
      std::ranges::any_of(terms, [](const LossOptions* term) { return term->kind == Loss::output; })) {
    return invalid("A loss that the graph computes cannot be weighted by sample.");
  }
  return ok_status();
}

Status set_targets(const Graph& model, const std::vector<data::Field>& fields, TrainOptions& options) {
  std::vector<const data::Field*> labels;
  for (const data::Field& field : fields) {
    if (field.role == data::Role::weight && options.sample_weights.empty()) options.sample_weights = field.name;
    const bool other = field.name == options.sample_weights || field.name == kReferenceField;
    if (field.role == data::Role::label && !other) labels.push_back(&field);
  }
  const auto find = [&](const std::string& name) -> const data::Field* {
    const auto found = std::ranges::find(labels, name, [](const data::Field* field) { return field->name; });
    return found == labels.end() ? nullptr : *found;
  };
  std::size_t next = 0;
  for (LossOptions* const term : terms_of(options)) {
    const std::string output = plain_name(term->output);
    if (term->target.empty() && !output.empty() && !is_value(model, term->output) && find(output)) {
      term->target = output;
      term->output.clear();
    }
    if (!has_target(term->kind) || labels.empty()) continue;
    const data::Field* field = term->target.empty() ? nullptr : find(term->target);
    if (field == nullptr && !term->target.empty()) {
      return invalid("The data set has no target \"", term->target, "\", which the loss ", loss_name(term->kind),
                     " asks for.");
    }
    if (field == nullptr && !term->output.empty()) field = find(plain_name(term->output));
    // Targets in order: several terms may share the only one.
    if (field == nullptr) field = labels[std::min(next, labels.size() - 1)];
    ++next;
    term->target = field->name;
    term->target_shape = field->shape;
    term->target_dtype = field->dtype;
  }
  return ok_status();
}

bool is_dense(const LossOptions& term, const Shape& output) {
  if (!term.target_shape) return false;
  const Shape& target = *term.target_shape;
  if (target.elements() != output.elements(1, output.rank()) && target.elements() != output.elements()) return false;
  // [N, 1] and labels [N]: one class that all have, which is a yes or no rather than a class.
  return target.rank() + 1 == output.rank() || term.target_dtype == DType::f32 || output.rank() < 2 ||
         output.back() == Dim(1);
}

Result<std::size_t> class_axis_of(const LossOptions& term, std::string_view output, const Shape& shape,
                                  std::int64_t usual, std::string* note) {
  if (shape.rank() < 2) {
    return invalid("The loss ", loss_name(term.kind), " needs an output of a batch axis and a class axis; \"", output,
                   "\" has the shape ", shape.text(), ".");
  }
  GRAFT_TRY_ASSIGN(std::size_t axis, normalize_axis(term.class_axis.value_or(usual), shape.rank(), "class axis"));
  if (axis == 0) return invalid("The class axis cannot be 0, the batch axis.");
  if (!term.target_shape) return axis;
  // An output without a batch axis has the labels of one sample along its first axis, too.
  const auto as_many_from = [&](std::size_t first) {
    return term.target_shape->elements() == shape.elements(first, shape.rank()) / shape.elements(axis, axis + 1);
  };
  const bool as_many = as_many_from(1) || as_many_from(0);
  if (term.class_axis) {
    if (as_many) return axis;
    return invalid("The classes of \"", output, "\" ", shape.text(), " are along axis ", axis,
                   ", as --class-axis says, and labels of the shape ", term.target_shape->text(),
                   " for each sample do not fit that.");
  }
  const auto fits = [&](std::size_t at, std::size_t first) {
    std::vector<Dim> rows;
    for (std::size_t i = first; i < shape.rank(); ++i) {
      if (i != at) rows.push_back(shape[i]);
    }
    return Shape(rows) == *term.target_shape;
  };
  std::vector<std::size_t> found;
  for (const std::size_t first : {1, 0}) {  // with a batch axis, else without
    if (!found.empty()) break;
    for (std::size_t i = 1; i < shape.rank(); ++i) {
      if (fits(i, first)) found.push_back(i);
    }
  }
  if (found.empty() && as_many) return axis;
  if (found.empty()) {
    return invalid("No axis of \"", output, "\" ", shape.text(), " can be the class axis of labels of the shape ",
                   term.target_shape->text(), " for each sample: axis ", axis,
                   " was tried, and each other one; --class-axis names one.");
  }
  if (std::ranges::find(found, axis) == found.end()) axis = found.front();
  if (found.size() > 1 && note != nullptr) {
    *note = cat("The labels fit several class axes of \"", output, "\" ", shape.text(), "; axis ", axis,
                " is taken (--class-axis names another)");
  }
  return axis;
}

void LossWeights::add(const LossWeights& other) {
  samples += other.samples;
  rows += other.rows;
  for (std::size_t i = 0; i < terms.size(); ++i) terms[i] += other.terms[i];
}

bool LossWeights::is_nothing() const {
  return std::ranges::all_of(terms, [](std::uint64_t weight) { return weight == 0; });
}

double LossWeights::total(std::size_t term_count) const {
  return term_count > 1 ? static_cast<double>(samples) : static_cast<double>(terms[0]) * kLossWeightUnit;
}

void LossWeights::to_step_state(std::size_t term_count, StepState& state) const {
  const double all = total(term_count);
  state.loss_weight = all == 0 ? 0.0F : static_cast<float>(1.0 / all);
  for (std::size_t i = 0; i < term_count && term_count > 1; ++i) {
    const double weight = static_cast<double>(terms[i]) * kLossWeightUnit;
    state.term_weight[i] = weight == 0 ? 0.0F : static_cast<float>(all / weight);
  }
}

}  // namespace graft::train
