// graft/media.h: an app's decoders behind the interface that data sets read with.
#pragma once

#include <memory>

#include "graft/media.h"
#include "platform/media/media.h"

namespace graft::c_api {

/// Null for null. invalid_argument: a struct of the wrong size, or formats without the function that reads them.
Result<std::unique_ptr<media::Codecs>> read_media(const graft_media* given);

}  // namespace graft::c_api
