// The functions that fill in the defaults of options: tools/interface writes them.
#include "interface/inits.h"
