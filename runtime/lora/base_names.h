// How the names of a language model's source file differ from the model's; its adapters carry it too.
#pragma once

#include <string_view>

namespace graft {

/// Words that tools/convert/language_model/decoder_source.h lists.
inline constexpr std::string_view kMetaSourceNames = "source.names";

}  // namespace graft
