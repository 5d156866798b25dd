#include "tools/graft/open_data.h"

#ifdef GRAFT_HAVE_CODECS
#include "platform/codecs/codecs.h"
#endif
#include "tools/convert/tokenizer/tokenizer_load.h"

#include <cstdio>
#include <nlohmann/json.hpp>

namespace graft::cli {

void add_long_flag(CLI::App& app, TextFlags& flags) {
  app.add_option("--on-long", flags.on_long,
                 "What becomes of texts of jsonl: that are longer than a sample: cut, drop, error or split (texts that "
                 "are learned as a whole are split, all others cut)")
      ->check(CLI::IsMember({"cut", "drop", "error", "split"}));
}

void print_summary(const char* what, const TextInfo& info, bool brief) {
  if (!info.is_text || (brief && !info.summary.lost_any())) return;
  const char* begin = what;
  for (const std::string& sentence : sentences_of(info.summary)) {
    std::fprintf(stderr, "%s%s\n", begin, sentence.c_str());
    begin = "  ";
  }
}

void print_shown(const TextInfo& info) {
  constexpr std::size_t kWidth = 100;
  for (std::size_t i = 0; i < info.shown.size(); ++i) {
    std::printf("sample %zu, a * before what is learned:\n", i + 1);
    std::string line;
    const auto end_line = [&] {
      if (!line.empty()) std::printf(" %s\n", line.c_str());
      line.clear();
    };
    for (const ShownToken& token : info.shown[i]) {
      const std::string text =
          nlohmann::json(token.text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
      if (token.begins || line.size() + text.size() > kWidth) end_line();
      line += cat(" ", token.learned ? "*" : "", text);
    }
    end_line();
  }
  if (!info.shown.empty()) std::fflush(stdout);
}

Result<std::unique_ptr<data::Source>> open_data(std::string_view text, const Model& model, std::int64_t length,
                                                const data::Hints& hints, bool sequence_starts,
                                                const TextFlags& text_flags, TextInfo* info) {
  if (is_text_spec(text)) {
    const auto load = [](const std::string& path) { return convert::load_vocabulary(os::system_files(), path); };
    TextOptions options{.length = length,
                        .sequence_starts = sequence_starts,
                        .load = load,
                        .preference = text_flags.preference,
                        .show = text_flags.show};
    if (!text_flags.pooling.empty()) {
      TRY_ASSIGN(options.pooling, parse_pooling(text_flags.pooling));
    }
    if (!text_flags.on_long.empty()) {
      TRY_ASSIGN(options.on_long, parse_on_long(text_flags.on_long));
    }
    TRY_ASSIGN(TextSet set, open_text_set(text, model, options));
    if (info != nullptr) *info = {true, std::move(set.summary), std::move(set.shown)};
    return std::move(set.source);
  }
  data::FileOptions files;
#ifdef GRAFT_HAVE_CODECS
  files.codecs = &codecs::system_codecs();
#endif
  return data::open_spec(text, files, hints);
}

}  // namespace graft::cli
