/* Clients outside the job. They connect to every listener, send a text or nothing, read what
 * arrives, and stay until the other end closes or the fault ends. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backends/sim/sim_world.h"
#include "base/check.h"
#include "base/text.h"
#include "sim/tcp.h"

struct sim_stranger {
    /* Must be the first member, because the waker's context is used as an io_task. Its host is no
     * process, so that no process's death closes the stream. */
    struct io_task task;
    struct sim_event event;
    struct sim_world *world;
    const struct world_fault *spec; /* Not owned */
    struct sim_stream *stream;      /* Owned; NULL once closed */
    size_t n_sent;
    struct sim_stranger *next;
};

/* Continues later, because TCP is processing a segment. */
static void wake(void *context)
{
    struct sim_stranger *stranger = context;
    struct sim_engine *engine = stranger->world->engine;

    sim_schedule(engine, &stranger->event, sim_now(engine));
}

static int say(struct sim_stranger *stranger)
{
    const char *text = stranger->spec->send != NULL ? stranger->spec->send : "";
    size_t n = strlen(text);
    int error = 0;

    while (error == 0 && stranger->n_sent < n) {
        size_t n_taken = 0;

        error = sim_tcp_send(stranger->stream, text + stranger->n_sent,
                             n - stranger->n_sent, &n_taken);
        stranger->n_sent += n_taken;
    }
    return error == EAGAIN ? 0 : error;
}

/* Returns EPIPE if the other end has closed. */
static int read_on(struct sim_stranger *stranger)
{
    uint8_t bytes[256];
    size_t n = 1;
    int error = 0;

    while (error == 0 && n > 0) {
        error = sim_tcp_recv(stranger->stream, bytes, sizeof(bytes), &n);
    }
    return error == 0 ? EPIPE : error == EAGAIN ? 0 : error;
}

static void go_on(struct sim_event *event)
{
    struct sim_stranger *stranger = weft_container_of(event, struct sim_stranger, event);
    int error = stranger->stream == NULL ? EAGAIN : sim_tcp_connected(stranger->stream);

    if (error == EAGAIN) {
        return;
    }
    error = error == 0 ? say(stranger) : error;
    error = error == 0 ? read_on(stranger) : error;
    if (error != 0) {
        sim_tcp_close(stranger->stream, false);
        stranger->stream = NULL;
    }
}

static int knock(struct sim_fault *fault, const struct sim_endpoint *at)
{
    const struct sim_endpoint to = {.ip = at->ip, .port = at->port};
    struct sim_stranger *stranger = weft_calloc(1, sizeof(*stranger));
    struct sim_waker waker = {wake, stranger};
    int error;

    stranger->task.host = UINT32_MAX;
    stranger->world = fault->world;
    stranger->spec = fault->spec;
    sim_event_init(&stranger->event, go_on);
    error = sim_tcp_connect(fault->world->hosts[fault->spec->from].stack, NULL, &to,
                            waker, &stranger->stream);
    if (error != 0) {
        free(stranger);
        return error;
    }
    stranger->next = fault->strangers;
    fault->strangers = stranger;
    return 0;
}

int sim_strangers_come(struct sim_fault *fault)
{
    const struct world_fault *spec = fault->spec;
    const struct sim_host *host = &fault->world->hosts[spec->host];
    uint32_t n_each = spec->n_calls == 0 ? 1 : spec->n_calls;
    struct sim_endpoint at;

    sim_strangers_leave(fault);
    if (fault->world->hosts[spec->from].is_dead) {
        return EHOSTDOWN;
    }
    for (uint32_t i = 0; sim_tcp_listening(host->stack, i, &at); i++) {
        for (uint32_t k = 0; k < n_each; k++) {
            (void)knock(fault, &at); /* other ports can have a route */
        }
    }
    return fault->strangers != NULL ? 0 : ECONNREFUSED;
}

void sim_strangers_leave(struct sim_fault *fault)
{
    while (fault->strangers != NULL) {
        struct sim_stranger *stranger = fault->strangers;

        fault->strangers = stranger->next;
        sim_cancel(fault->world->engine, &stranger->event);
        sim_tcp_close(stranger->stream, false);
        free(stranger);
    }
}
