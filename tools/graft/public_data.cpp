#include "tools/graft/public_data.h"

#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#ifdef GRAFT_HAVE_CODECS
#include "graft/codecs.h"
#endif
#include "tools/common/numbers.h"
#include "tools/common/terminal.h"
#include "tools/common/text.h"

namespace graft::cli {
namespace {

/// The file that "text:FILE?tokenizer=FILE" names; empty: none.
std::string tokenizer_of(const std::string& spec) {
  constexpr std::string_view kName = "tokenizer=";
  const std::size_t mark = spec.rfind('?');
  if (mark == std::string::npos || (!spec.starts_with("text:") && !spec.starts_with("jsonl:"))) return {};
  for (const std::string& option : split_text(std::string_view(spec).substr(mark + 1), '&')) {
    if (option.starts_with(kName)) return option.substr(kName.size());
  }
  return {};
}

Result<Owned<graft_tokenizer>> open_tokenizer(graft_context* context, const std::string& path) {
  graft_conversion* made = nullptr;
  graft_status status = graft_convert_tokenizer(path.c_str(), &made);
  const Owned<graft_conversion> conversion(made);
  const void* data = nullptr;
  std::size_t bytes = 0;
  if (status == GRAFT_OK) status = graft_conversion_bytes(made, &data, &bytes);
  if (status != GRAFT_OK) return error(static_cast<Code>(status), graft_conversion_message(made));
  graft_tokenizer* tokenizer = nullptr;
  const graft_status opened = graft_tokenizer_open(context, data, bytes, &tokenizer);
  Owned<graft_tokenizer> owned(tokenizer);
  TRY(checked(opened, context));
  return owned;
}

}  // namespace

bool has_pairs(const TrainFlags& flags) { return is_preference(flags); }

Result<Owned<graft_data_set>> open_set(graft_context* context, graft_model* model, const std::string& spec,
                                       const TrainFlags& flags, const std::string& on_long, const SetWishes& wishes) {
  graft_data_options options = {};
  options.struct_size = sizeof options;
  options.model = model;
  options.evaluation = wishes.evaluation ? 1 : 0;
  options.sequence_starts = wishes.sequence_starts ? 1 : 0;
  options.show = wishes.show;
  static constexpr const char* kNoClasses[] = {""};
  std::vector<const char*> classes;
  if (wishes.classes != nullptr) {
    for (const std::string& name : *wishes.classes) classes.push_back(name.c_str());
    options.classes = classes.empty() ? kNoClasses : classes.data();
    options.class_count = classes.size();
  }
  options.length = flags.seq;
#ifdef GRAFT_HAVE_CODECS
  options.media = graft_codecs_media();
#endif
  options.preference = preference_of(flags);
  options.pooling = flags.pooling == "mean"   ? GRAFT_POOLING_MEAN
                    : flags.pooling == "last" ? GRAFT_POOLING_LAST
                    : flags.pooling == "cls"  ? GRAFT_POOLING_CLS
                                              : GRAFT_POOLING_DEFAULT;
  options.on_long = on_long == "cut"     ? GRAFT_ON_LONG_CUT
                    : on_long == "drop"  ? GRAFT_ON_LONG_DROP
                    : on_long == "error" ? GRAFT_ON_LONG_ERROR
                    : on_long == "split" ? GRAFT_ON_LONG_SPLIT
                                         : GRAFT_ON_LONG_BY_KIND;
  Owned<graft_tokenizer> tokenizer;
  if (const std::string path = tokenizer_of(spec); !path.empty()) {
    auto opened = open_tokenizer(context, path);
    if (!opened.ok()) return std::move(opened).status().with_context(cat("While opening data set \"", spec, "\""));
    tokenizer = std::move(opened).value();
    options.tokenizer = tokenizer.get();
  }
  graft_data_set* made = nullptr;
  const graft_status status = graft_data_open_with(context, spec.c_str(), &options, &made);
  Owned<graft_data_set> set(made);
  TRY(checked(status, context));
  return set;
}

Status print_summary(graft_context* context, const char* what, const graft_data_set* set, bool brief) {
  graft_data_summary summary = {};
  summary.struct_size = sizeof summary;
  TRY(checked(graft_data_describe(set, &summary), context));
  if (summary.is_text == 0 || (brief && summary.lost == 0)) return ok_status();
  const char* begin = what;
  for (const std::string& sentence : split_text(summary.text, '\n')) {
    to_stderr("%s%s\n", begin, sentence.c_str());
    begin = "  ";
  }
  return ok_status();
}

void print_shown(const graft_data_set* set) {
  constexpr std::size_t kWidth = 100;
  const graft_shown_token* tokens = nullptr;
  std::size_t count = 0;
  std::uint64_t sample = 0;
  for (; graft_data_shown(set, sample, &tokens, &count) == GRAFT_OK; ++sample) {
    to_stdout("sample %llu, a * before what is learned:\n", static_cast<unsigned long long>(sample + 1));
    std::string line;
    const auto end_line = [&] {
      if (!line.empty()) to_stdout(" %s\n", line.c_str());
      line.clear();
    };
    for (const graft_shown_token& token : std::span(tokens, count)) {
      const std::string text = nlohmann::json(std::string(token.text, token.bytes))
                                   .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
      if (token.begins != 0 || line.size() + text.size() > kWidth) end_line();
      line += cat(" ", token.learned != 0 ? "*" : "", text);
    }
    end_line();
  }
  if (sample > 0) std::fflush(stdout);
}

Status LossWishes::read(const TrainFlags& flags) {
  flags_ = &flags;
  losses_ = flags.loss;
  const bool named = losses_.find_first_of(":+") != std::string::npos;
  if (named && !flags.output.empty()) {
    return invalid("--loss ", flags.loss, " and --loss-of ", flags.output, " both name outputs; give one of them.");
  }
  if (!flags.output.empty()) losses_ += ":" + flags.output;
  if (flags.ignore_index < INT32_MIN || flags.ignore_index > INT32_MAX) {
    return invalid("--ignore-index ", flags.ignore_index, " does not fit 32 bits.");
  }
  TRY_ASSIGN(class_weights_, list_of_numbers(flags.class_weights, "--class-weights"));
  TRY_ASSIGN(pos_weight_, list_of_numbers(flags.pos_weight, "--pos-weight"));
  TRY_ASSIGN(precision_, parse_precision(flags.precision));
  TRY_ASSIGN(Bindings bindings, bindings_of(flags));
  if (has_pairs(flags)) bindings.erase("seq");  // of one text, of which samples hold two
  bindings_ = PublicBindings(bindings);
  bindings.erase("seq");
  of_reference_ = PublicBindings(bindings);
  return ok_status();
}

graft_trainer_options LossWishes::options() const {
  const TrainFlags& flags = *flags_;
  graft_trainer_options out = {};
  out.struct_size = sizeof out;
  out.losses = losses_.c_str();
  out.label_smoothing = flags.label_smoothing;
  out.own_ignore_index = 1;
  out.ignore_index = static_cast<std::int32_t>(flags.ignore_index);
  out.own_class_axis = flags.class_axis != INT64_MIN ? 1 : 0;
  out.class_axis = flags.class_axis;
  out.class_weights = class_weights_.data();
  out.class_weight_count = class_weights_.size();
  out.pos_weight = pos_weight_.data();
  out.pos_weight_count = pos_weight_.size();
  if (!flags.sample_weights.empty()) out.sample_weights = flags.sample_weights.c_str();
  out.own_focal_gamma = 1;
  out.focal_gamma = flags.focal_gamma;
  // 0 would be none; as f32 this is 0.
  out.focal_alpha = flags.focal_alpha == 0 ? std::numeric_limits<double>::denorm_min() : flags.focal_alpha;
  out.huber_delta = flags.huber_delta;
  out.own_smooth_l1_beta = 1;
  out.smooth_l1_beta = flags.smooth_l1_beta;
  out.own_margin = std::isnan(flags.margin) ? 0 : 1;
  out.margin = flags.margin;
  if (!std::isnan(flags.temperature)) out.temperature = flags.temperature;
  out.own_distill_weight = 1;
  out.distill_weight = flags.distill_weight;
  out.preference_beta = flags.preference_beta;
  out.own_kto_weights = 1;
  out.desirable_weight = flags.desirable_weight;
  out.undesirable_weight = flags.undesirable_weight;
  out.blank = static_cast<std::int32_t>(flags.blank);
  out.zero_infinity = flags.zero_infinity ? 1 : 0;
  out.precision = precision_;
  out.batch = static_cast<std::uint32_t>(flags.batch);
  out.micro_batch = out.batch;
  out.bindings = bindings_.data();
  out.binding_count = bindings_.size();
  return out;
}

graft_reference_options LossWishes::reference() const {
  graft_reference_options out = {};
  out.struct_size = sizeof out;
  out.batch = static_cast<std::uint32_t>(flags_->batch);
  out.precision = precision_;
  out.bindings = of_reference_.data();
  out.binding_count = of_reference_.size();
  return out;
}

}  // namespace graft::cli
