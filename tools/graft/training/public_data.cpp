#include "tools/graft/training/public_data.h"

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
  auto options = sized<graft_data_options>();
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

}  // namespace graft::cli
