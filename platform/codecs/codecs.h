// Pictures by libjpeg, libpng and libwebp, sounds by libsndfile, as far as the build found them; BMP by itself.
#pragma once

#include "platform/media/media.h"

namespace graft::codecs {

/// Lives as long as the program.
const media::Codecs& system_codecs();

}  // namespace graft::codecs
