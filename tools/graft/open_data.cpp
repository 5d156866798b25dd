#include "tools/graft/open_data.h"

#ifdef GRAFT_HAVE_CODECS
#include "platform/codecs/codecs.h"
#endif
#include "runtime/session/text_spec.h"
#include "tools/convert/tokenizer/tokenizer_load.h"

namespace graft::cli {

Result<std::unique_ptr<data::Source>> open_data(std::string_view text, const Model& model, std::int64_t length,
                                                const data::Hints& hints, bool sequence_starts) {
  if (is_text_spec(text)) {
    const auto load = [](const std::string& path) { return convert::load_vocabulary(os::system_files(), path); };
    return open_text_spec(text, model, {length, sequence_starts, load});
  }
  data::FileOptions files;
#ifdef GRAFT_HAVE_CODECS
  files.codecs = &codecs::system_codecs();
#endif
  return data::open_spec(text, files, hints);
}

}  // namespace graft::cli
