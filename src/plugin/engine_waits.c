/* Describes which peers the comms of an engine wait for, so that the cause of a job that hangs can
 * be followed from process to process. */
#include <string.h>

#include "base/text.h"
#include "base/wait.h"
#include "plugin/engine_private.h"
#include "plugin/finding.h"

/* Maximum number of lines. */
#define LINES_MAX 32u

/* Comms that wait for one peer to do the same. */
struct line {
    const char *peer;
    enum weft_wait_for what;
    uint32_t n;
    weft_ns since_ns; /* of the one that waits longest */
    const struct weft_error *why;
};

/* Returns the beacon of the process to which the comm sends; NULL if none was received. */
static const struct beacon *beacon_of(const struct engine_comm *comm)
{
    uint8_t handle[CONN_HANDLE_BYTES];
    struct weft_error ignored = {0};
    uint32_t number;

    return comm->is_sender &&
                   engine_handle_split(comm->handle, handle, &number, &ignored) == WEFT_OK
               ? engine_mesh_find(comm->engine, handle)
               : NULL;
}

void engine_note_peer(struct engine_comm *comm)
{
    const struct beacon *beacon = beacon_of(comm);
    const char *name = beacon != NULL ? beacon->name : "", *relay = "";

    for (uint32_t i = 0;
         comm->flow != NULL && name[0] == '\0' && i < flow_n_lanes(comm->flow); i++) {
        const struct conn *conn = flow_lane_conn(comm->flow, i);

        if (conn == NULL) {
            continue;
        }
        if (flow_lane_via(comm->flow, i, NULL, 0) == 0) {
            name = conn->peer.host;
        } else {
            relay = conn->peer.host;
        }
    }
    if (name[0] != '\0') {
        weft_format(comm->peer, sizeof(comm->peer), "%s", name);
    } else if (relay[0] != '\0' && comm->peer[0] == '\0') {
        /* The connection ends at a relay, and nothing that this end receives names the peer. */
        weft_format(comm->peer, sizeof(comm->peer), "a host behind %s", relay);
    }
}

/* Returns true if a request of the queue waits for the peer. A flush waits for the own device. */
static bool has_request(const struct engine_queue *queue)
{
    const struct engine_request *request = queue->first;

    while (request != NULL && request->is_flush) {
        request = request->next;
    }
    return request != NULL;
}

/* Returns true if the comm waits for its peer. Sets *out to what the peer has to do. */
static bool waits(const struct engine_comm *comm, enum weft_wait_for *out)
{
    *out = comm->is_sender ? WEFT_WAIT_SEND : WEFT_WAIT_RECEIVE;
    switch ((enum engine_comm_state)atomic_load(&comm->state)) {
    case ENGINE_COMM_NEW:
    case ENGINE_COMM_CONNECTING:
        *out = WEFT_WAIT_CONNECTION;
        return !comm->is_closing;
    case ENGINE_COMM_UP:
        return has_request(&comm->moving) || has_request(&comm->waiting);
    case ENGINE_COMM_FAILED:
    case ENGINE_COMM_CLOSING:
        break;
    }
    return false;
}

/* Returns a number that changes with the comm's progress. */
static uint64_t mark_of(const struct engine_comm *comm)
{
    struct flow_counters counters = {0};
    enum weft_wait_for what;

    if (comm->flow != NULL) {
        flow_counters(comm->flow, &counters);
    }
    return ((counters.xfer.messages_sent + counters.xfer.messages_received +
             counters.xfer.bytes_sent + counters.xfer.bytes_received)
            << 4) +
           ((uint64_t)atomic_load(&comm->state) << 1) + (waits(comm, &what) ? 1 : 0);
}

void engine_waits_look(struct engine *engine)
{
    weft_ns now = io_now(engine->env);

    for (struct engine_comm *comm = engine->comms; comm != NULL; comm = comm->next) {
        uint64_t mark = mark_of(comm);

        engine_note_peer(comm);
        if (comm->changed_ns == 0 || mark != comm->seen) {
            comm->seen = mark;
            comm->changed_ns = now;
        }
    }
}

static void add(struct line *lines, uint32_t *n, const struct engine_comm *comm,
                enum weft_wait_for what)
{
    const char *peer = comm->peer[0] != '\0' ? comm->peer : "?";
    const struct weft_error *why = comm->flow != NULL ? flow_why(comm->flow) : NULL;
    uint32_t i = 0;

    while (i < *n && (lines[i].what != what || strcmp(lines[i].peer, peer) != 0)) {
        i++;
    }
    if (i == LINES_MAX) {
        return;
    }
    if (i == *n) {
        lines[(*n)++] =
            (struct line){.peer = peer, .what = what, .since_ns = comm->changed_ns};
    }
    lines[i].n++;
    if (comm->changed_ns < lines[i].since_ns) {
        lines[i].since_ns = comm->changed_ns;
    }
    lines[i].why = why != NULL ? why : lines[i].why;
}

void engine_waits_describe(struct engine *engine, struct weft_text *out)
{
    struct line lines[LINES_MAX];
    weft_ns now = io_now(engine->env);
    uint32_t n = 0;
    char text[400];

    engine_waits_look(engine);
    for (const struct engine_comm *comm = engine->comms; comm != NULL;
         comm = comm->next) {
        enum weft_wait_for what;

        if (waits(comm, &what)) {
            add(lines, &n, comm, what);
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        weft_text_add(out, "waits for %s %s: %u comm%s, %lld s without progress",
                      lines[i].peer, weft_wait_text(lines[i].what), lines[i].n,
                      lines[i].n == 1 ? "" : "s",
                      (long long)((now - lines[i].since_ns) / 1000000000));
        if (lines[i].why != NULL) {
            struct weft_error why = *lines[i].why;

            finding_name(engine->rdma, &why);
            finding_format(&why, text, sizeof(text));
            weft_text_add(out, "; last reason: %s", text);
        }
        weft_text_add(out, "\n");
    }
}
