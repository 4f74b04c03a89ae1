#include "base/wait.h"

#include <stddef.h>
#include <string.h>

#include "base/check.h"

static const char *const names[] = {
    [WEFT_WAIT_ROUND] = "round",   [WEFT_WAIT_CONNECTION] = "connection",
    [WEFT_WAIT_SEND] = "send",     [WEFT_WAIT_RECEIVE] = "receive",
    [WEFT_WAIT_CLIENT] = "client", [WEFT_WAIT_CLOSE] = "close",
    [WEFT_WAIT_RELAY] = "relay",   [WEFT_WAIT_OWN] = "own",
};

static const char *const texts[] = {
    [WEFT_WAIT_ROUND] = "to take part in a round",
    [WEFT_WAIT_CONNECTION] = "to connect",
    [WEFT_WAIT_SEND] = "to receive",
    [WEFT_WAIT_RECEIVE] = "to send",
    [WEFT_WAIT_CLIENT] = "to connect as a client",
    [WEFT_WAIT_CLOSE] = "to close a connection",
    [WEFT_WAIT_RELAY] = "to take what is relayed to it",
    [WEFT_WAIT_OWN] = "to finish work of its own",
};

_Static_assert(WEFT_LENGTH(names) == WEFT_N_WAITS, "one name each");
_Static_assert(WEFT_LENGTH(texts) == WEFT_N_WAITS, "one text each");

const char *weft_wait_name(enum weft_wait_for what)
{
    weft_check((size_t)what < WEFT_LENGTH(names));
    return names[what];
}

const char *weft_wait_text(enum weft_wait_for what)
{
    weft_check((size_t)what < WEFT_LENGTH(texts));
    return texts[what];
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
