/* What Swift sees of graft. */
#include <graft/cache.h>
#include <graft/external.h>
#include <graft/graft.h>
