#include "base/wait.h"

#include <stddef.h>
#include <string.h>

#include "base/check.h"

static const char *const names[] = {
    [WEFT_WAIT_ROUND] = "round",   [WEFT_WAIT_CONNECTION] = "connection",
    [WEFT_WAIT_SEND] = "send",     [WEFT_WAIT_RECEIVE] = "receive",
    [WEFT_WAIT_CLIENT] = "client",
};

_Static_assert(WEFT_LENGTH(names) == WEFT_N_WAITS, "one name each");

const char *weft_wait_name(enum weft_wait_for what)
{
    weft_check((size_t)what < WEFT_LENGTH(names));
    return names[what];
}

bool weft_wait_find(const char *name, enum weft_wait_for *out)
{
    for (size_t i = 0; i < WEFT_LENGTH(names); i++) {
        if (strcmp(names[i], name) == 0) {
            *out = (enum weft_wait_for)i;
            return true;
        }
    }
    return false;
}
