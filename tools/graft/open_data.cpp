#include "tools/graft/open_data.h"

#ifdef GRAFT_HAVE_CODECS
#include "platform/codecs/codecs.h"
#endif
#include "tools/convert/tokenizer/tokenizer_load.h"

namespace graft::cli {

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
