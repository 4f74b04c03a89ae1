#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>

void weft_check_failed(const char *file, int line, const char *text)
{
    fflush(stdout);
    fprintf(stderr, "%s:%d: check failed: %s\n", file, line, text);
    fflush(stderr);
    abort();
}
