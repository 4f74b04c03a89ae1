/* The state of an engine as text: what each end of a connection waits for, to debug a job that
 * hangs. */
#include "base/text.h"
#include "plugin/engine_private.h"
#include "plugin/finding.h"

/* Maximum number of requests of a comm that are described one by one. */
#define DESCRIBED_MAX 16u

static const char *state_name(const struct engine_comm *comm)
{
    static const char *const names[] = {
        [ENGINE_COMM_NEW] = "new",         [ENGINE_COMM_CONNECTING] = "being connected",
        [ENGINE_COMM_UP] = "up",           [ENGINE_COMM_FAILED] = "failed",
        [ENGINE_COMM_CLOSING] = "closing",
    };

    return comm->is_closing ? "closing" : names[atomic_load(&comm->state)];
}

/* Returns what a request waits for that its flow has not taken yet. */
static const char *why_not_started(const struct engine_comm *comm,
                                   const struct engine_request *request)
{
    const struct engine_request *before = comm->waiting.first;

    if (comm->flow == NULL || !flow_is_up(comm->flow)) {
        return "a way to the peer";
    }
    if (request->is_flush) {
        return "room"; /* flushes pass receives */
    }
    if (!comm->is_sender) {
        return before == request ? "room" : "those before it";
    }
    while (before != NULL && before != request && before->tags[0] != request->tags[0]) {
        before = before->next;
    }
    return before == request ? "the peer to post a receive with this tag"
                             : "an earlier one with this tag";
}

static void describe_request(const struct engine_comm *comm,
                             const struct engine_request *request, struct weft_text *out)
{
    if (request->is_flush) {
        weft_text_add(out, "  flush %zu B", request->sizes[0]);
    } else {
        weft_text_add(out, "  %s", comm->is_sender ? "send" : "receive");
    }
    for (uint32_t i = 0; i < request->n; i++) {
        weft_text_add(out, "%s %zu B tag %u", i == 0 ? "" : ",", request->sizes[i],
                      request->tags[i]);
    }
    if (request->flow == NULL) {
        weft_text_add(out, ": not started; waits for %s\n",
                      why_not_started(comm, request));
        return;
    }
    weft_text_add(out, ": ");
    flow_request_describe(comm->flow, request->flow, out);
    weft_text_add(out, "\n");
}

/* Describes the first DESCRIBED_MAX requests of a comm, and counts the others of this queue. */
static void describe_queue(const struct engine_comm *comm,
                           const struct engine_queue *queue, uint32_t *n_described,
                           struct weft_text *out)
{
    uint32_t n_more = 0;

    for (const struct engine_request *request = queue->first; request != NULL;
         request = request->next) {
        if (*n_described < DESCRIBED_MAX) {
            ++*n_described;
            describe_request(comm, request, out);
        } else {
            n_more++;
        }
    }
    if (n_more > 0) {
        weft_text_add(out, "  and %u more\n", n_more);
    }
}

static uint32_t length_of(const struct engine_queue *queue)
{
    uint32_t n = 0;

    for (const struct engine_request *request = queue->first; request != NULL;
         request = request->next) {
        n++;
    }
    return n;
}

static void describe_comm(struct engine_comm *comm, struct weft_text *out)
{
    struct flow_counters counters = {0};
    struct weft_error error;
    uint32_t n_described = 0;
    char text[400];

    if (comm->flow != NULL) {
        flow_counters(comm->flow, &counters);
    }
    weft_text_add(out, "comm %08x %s %s: %s, %u requests move, %u wait to start",
                  comm->is_sender ? comm->from : comm->to,
                  comm->is_sender ? "sends to" : "receives from",
                  comm->peer[0] != '\0' ? comm->peer : "?", state_name(comm),
                  length_of(&comm->moving), length_of(&comm->waiting));
    weft_text_add(out,
                  "; sent %llu messages %llu B, received %llu messages %llu B, "
                  "%u epochs, %u failovers\n",
                  (unsigned long long)counters.xfer.messages_sent,
                  (unsigned long long)counters.xfer.bytes_sent,
                  (unsigned long long)counters.xfer.messages_received,
                  (unsigned long long)counters.xfer.bytes_received, counters.epochs,
                  counters.failovers);
    if (atomic_load(&comm->state) == ENGINE_COMM_FAILED) {
        engine_comm_error(comm, &error);
        finding_format(&error, text, sizeof(text));
        weft_text_add(out, "  because: %s\n", text);
    }
    if (comm->flow != NULL) {
        flow_describe(comm->flow, "  ", out);
    }
    describe_queue(comm, &comm->moving, &n_described, out);
    describe_queue(comm, &comm->waiting, &n_described, out);
    pthread_mutex_lock(&comm->lock);
    if (comm->incoming.first != NULL) {
        weft_text_add(out, "  and %u that were posted just now\n",
                      length_of(&comm->incoming));
    }
    pthread_mutex_unlock(&comm->lock);
}

void engine_dump(struct engine *engine, struct weft_text *out)
{
    struct engine_counters counters;

    engine_counters(engine, &counters);
    weft_text_add(
        out,
        "%u comms, %u listens; connected %llu, accepted %llu, failed %llu, "
        "refused %llu\n",
        counters.n_comms, counters.n_listens, (unsigned long long)counters.n_connected,
        (unsigned long long)counters.n_accepted, (unsigned long long)counters.n_failed,
        (unsigned long long)counters.n_refused);
    for (uint32_t i = 0; i < engine->rdma->n_ports; i++) {
        const struct rdma_port *port = &engine->rdma->ports[i];

        weft_text_add(out, "port %s, netdev %s: %s, %u GIDs\n", port->name, port->netdev,
                      port->is_active ? "has a link" : "no link", port->n_gids);
    }
    if (engine->relay != NULL) {
        struct relay_counters relayed;

        relay_counters(engine->relay, &relayed);
        weft_text_add(out, "relay: %llu B forwarded, %u lanes now, %u failed\n",
                      (unsigned long long)relayed.bytes, relayed.lanes, relayed.failed);
    }
    pthread_mutex_lock(&engine->lock);
    for (const struct engine_listen *listen = engine->listens; listen != NULL;
         listen = listen->next) {
        weft_text_add(out, "listen %08x: %s\n", listen->id,
                      listen->comm == NULL ? "no connection yet"
                                           : "a connection came; waits for accept");
    }
    pthread_mutex_unlock(&engine->lock);
    engine_waits_describe(engine, out);
    for (struct engine_comm *comm = engine->comms; comm != NULL; comm = comm->next) {
        describe_comm(comm, out);
    }
    for (const struct engine_call *call = engine->calls; call != NULL;
         call = call->next) {
        weft_text_add(out, "comm %08x: a thread waits for %s of %zu B\n",
                      call->comm->is_sender ? call->comm->from : call->comm->to,
                      call->kind == ENGINE_CALL_REGISTER ? "registration"
                                                         : "deregistration",
                      call->region.length);
    }
}
