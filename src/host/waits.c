/* Records which members this one waits for, and so why it has not reached the end of its job. The
 * diagnosis follows these waits from member to member to the one at fault. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "host/private.h"

static void add(struct host *host, enum weft_wait_for what, uint32_t member)
{
    if (host->n_waits < HOST_WAITS_MAX) {
        host->waits[host->n_waits++] = (struct host_wait){what, member};
    }
}

/* Adds the members that the present gather or barrier lacks. */
static void add_round(struct host *host)
{
    for (uint32_t member = 0; host->boot != NULL && member < host->config.n_members;
         member++) {
        if (member != host->config.rank && boot_awaits(host->boot, member)) {
            add(host, WEFT_WAIT_ROUND, member);
        }
    }
}

/* Adds the other ranks of this host. */
static void add_inside(struct host *host, enum weft_wait_for what)
{
    const struct host_peer *self = &host->peers[host->config.rank];

    for (uint32_t rank = 0; rank < host->config.n_ranks; rank++) {
        if (rank != host->config.rank && memcmp(host->peers[rank].host_id, self->host_id,
                                                sizeof(self->host_id)) == 0) {
            add(host, what, rank);
        }
    }
}

static void add_connections(struct host *host)
{
    for (uint32_t rank = 0; rank < host->config.n_ranks; rank++) {
        if (rank != host->config.rank && host_connects_to(host, rank)) {
            add(host, WEFT_WAIT_CONNECTION, rank);
        }
    }
    if (!host_inside_is_up(host)) {
        add_inside(host, WEFT_WAIT_CONNECTION);
    }
}

/* Adds the members whose connections are not closed yet. */
static void add_closing(struct host *host)
{
    for (uint32_t rank = 0; rank < host->config.n_ranks; rank++) {
        const struct host_peer *peer = &host->peers[rank];

        if (peer->send != NULL || peer->receive != NULL) {
            add(host, WEFT_WAIT_CLOSE, rank);
        }
    }
    if (host->inside != NULL && !inside_is_closed(host->inside)) {
        add_inside(host, WEFT_WAIT_CLOSE);
    }
}

static void add_messages(struct host *host)
{
    const struct coll_exec *exec = host->private->jobs.exec;

    for (uint32_t rank = 0; exec != NULL && rank < host->config.n_ranks; rank++) {
        if (rank == host->config.rank) {
            continue;
        }
        if (coll_exec_sends_to(exec, rank)) {
            add(host, WEFT_WAIT_SEND, rank);
        }
        if (coll_exec_receives_from(exec, rank)) {
            add(host, WEFT_WAIT_RECEIVE, rank);
        }
    }
}

/* Adds a member that lanes of the relay wait for, unless it was added before. */
static void add_next(void *context, uint32_t member)
{
    struct host *host = context;
    bool is_new = true;

    for (uint32_t i = 0; i < host->n_waits; i++) {
        is_new = is_new && (host->waits[i].what != WEFT_WAIT_RELAY ||
                            host->waits[i].member != member);
    }
    if (is_new) {
        add(host, WEFT_WAIT_RELAY, member);
    }
}

void host_note_waits(struct host *host)
{
    if (host->waits == NULL) {
        host->waits = weft_calloc(HOST_WAITS_MAX, sizeof(*host->waits));
    }
    host->n_waits = 0;
    host->waited_ns = io_now(host->env) - host->private->since_ns;
    switch (host->state) {
    case HOST_BOOT:
    case HOST_SETUP:
    case HOST_BARRIER:
        add_round(host);
        break;
    case HOST_CLOSE:
        if (host->private->is_closing) {
            add_closing(host);
        } else {
            add_round(host);
        }
        break;
    case HOST_CONNECT:
        add_connections(host);
        break;
    case HOST_JOBS:
        add_messages(host);
        break;
    case HOST_DISCOVER:
    case HOST_LISTEN:
        break;
    case HOST_NEW: /* the host has no process yet, or no longer */
    case HOST_DONE:
    case HOST_FAILED:
    case HOST_DEAD:
        return;
    }
    if (host->relay != NULL) {
        relay_awaited(host->relay, add_next, host);
    }
    if (host->n_waits == 0) {
        add(host, WEFT_WAIT_OWN, host->config.rank);
    }
}

bool host_waits_for(const struct host *host, uint32_t member)
{
    for (uint32_t i = 0; i < host->n_waits; i++) {
        const struct host_wait *wait = &host->waits[i];

        if (wait->member == member &&
            (wait->what == WEFT_WAIT_CONNECTION || wait->what == WEFT_WAIT_SEND ||
             wait->what == WEFT_WAIT_RECEIVE)) {
            return true;
        }
    }
    return false;
}

/* Returns the last known reason why the flows with the member do not go on, or NULL. */
static const struct weft_error *why_with(const struct host *host, uint32_t member)
{
    const struct host_peer *peer = &host->peers[member];
    const struct weft_error *why = peer->send != NULL ? flow_why(peer->send) : NULL;

    return why == NULL && peer->receive != NULL ? flow_why(peer->receive) : why;
}

static void describe(const struct host *host, const struct host_wait *wait,
                     struct weft_text *out)
{
    const struct weft_error *why = NULL;
    char name[80], text[400];

    if (wait->what == WEFT_WAIT_OWN) {
        weft_text_add(out, "%s waits for no other: its own devices, kernel or memory\n",
                      host->env->name);
        return;
    }
    weft_format(name, sizeof(name), "rank %u", wait->member);
    if (host->has_peers) {
        weft_format(name, sizeof(name), "%s", host->peers[wait->member].name);
        why = why_with(host, wait->member);
    }
    weft_text_add(out, "%s waits for %s %s", host->env->name, name,
                  weft_wait_text(wait->what));
    if (why != NULL) {
        weft_error_format(why, text, sizeof(text));
        weft_text_add(out, "; last reason: %s", text);
    }
    weft_text_add(out, "\n");
}

void host_describe_waits(struct host *host, struct weft_text *out)
{
    host_note_waits(host);
    weft_text_add(out, "%s: in state %s for %lld s\n", host->env->name,
                  host_state_name(host->state),
                  (long long)(host->waited_ns / 1000000000));
    for (uint32_t i = 0; i < host->n_waits; i++) {
        describe(host, &host->waits[i], out);
    }
}
