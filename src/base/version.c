#include "base/version.h"

const char weft_version[] = WEFT_VERSION;
