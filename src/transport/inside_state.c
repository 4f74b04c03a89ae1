/* The state of the connectors inside a host, and how they fail. */
#include <stdarg.h>
#include <stdio.h>

#include "base/check.h"
#include "base/text.h"
#include "transport/inside_private.h"

weft_status inside_fail(struct inside *inside, uint32_t peer, weft_status status,
                        enum weft_phase phase, const char *format, ...)
{
    char text[160];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (inside->error.status == WEFT_OK) {
        inside->error_peer = peer;
    }
    weft_fail(&inside->error, status, phase, "rank %u: %s", peer, text);
    weft_error_int(&inside->error, WEFT_VALUE_RANK, peer);
    return status;
}

void inside_enter(struct inside *inside, enum inside_state next)
{
    static const char *const names[] = {"facts", "setup",   "exchange", "connect",
                                        "up",    "closing", "closed",   "failed"};
    struct io_env *env = inside->env;
    char object[32];

    weft_check(next == INSIDE_FAILED || next == INSIDE_CLOSING ||
               next == inside->state + 1);
    weft_format(object, sizeof(object), "rank%u", inside->config.rank);
    weft_trace_event(env->trace, io_now(env), env->name, object, "inside",
                     "from=%s to=%s", names[inside->state], names[next]);
    inside->state = next;
}
