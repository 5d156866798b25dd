/* Decoders of pictures and sounds over libjpeg, libpng, libwebp and libsndfile, as far as the build found them: a
 * library beside graft (graft_codecs) for tools on a desktop; apps have their platform's. The rules of graft.h hold. */
#ifndef GRAFT_CODECS_H
#define GRAFT_CODECS_H

#include "graft/media.h"

#ifdef __cplusplus
extern "C" {
#endif

/* For graft_data_options.media. It lives as long as the program; any threads may use it. */
const graft_media* graft_codecs_media(void);

#ifdef __cplusplus
}
#endif
#endif
