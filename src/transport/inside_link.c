/* One connector inside the host, from nothing to a ring of steps: what its state machine asks of
 * the two proxies. */
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "transport/inside_private.h"

static void enter(struct inside_link *link, enum inside_link_state next)
{
    weft_check(next == link->state + 1 ||
               (link->state == INSIDE_LINK_TOLD && next == INSIDE_LINK_CONNECT) ||
               (link->state == INSIDE_LINK_CONNECT && next == INSIDE_LINK_UP));
    link->state = next;
}

static weft_status refused(struct inside_link *link, const struct proxy_call *call,
                           uint32_t proxy_rank, int sys_errno)
{
    struct inside *inside = link->inside;

    weft_fail_errno(&inside->error, sys_errno, "inside",
                    "%s of a %s connection with rank %u: the proxy of rank %u refused",
                    proxy_type_name(call->type), transport_kind_name(link->choice.kind),
                    link->peer, proxy_rank);
    weft_error_text(&inside->error, "request", proxy_type_name(call->type));
    weft_error_text(&inside->error, "transport", transport_kind_name(link->choice.kind));
    inside->error_peer = link->peer;
    return inside->error.status;
}

/* The short way to the own proxy, through the same bytes. */
static weft_status ask_own(struct inside_link *link, const struct proxy_call *call,
                           struct proxy_answer *out)
{
    struct inside *inside = link->inside;
    uint8_t bytes[PROXY_CALL_MAX], back[PROXY_ANSWER_BYTES];
    struct proxy_call asked;
    struct proxy_answer answer;
    weft_status status =
        proxy_decode_call(bytes, proxy_encode_call(call, bytes), &asked, &inside->error);

    if (status == WEFT_OK) {
        status = proxy_serve(inside->proxy, inside->config.rank, &asked, &answer);
    }
    if (status != WEFT_OK) {
        return status;
    }
    status = proxy_decode_answer(back, proxy_encode_answer(&answer, back), out,
                                 &inside->error);
    if (status == WEFT_OK && out->sys_errno != 0) {
        status = refused(link, call, inside->config.rank, out->sys_errno);
    }
    return status;
}

/* The first call asks; AGAIN until the answer is there. */
static weft_status ask_peer(struct inside_link *link, enum proxy_type type)
{
    struct inside *inside = link->inside;
    struct proxy_call call = {.type = type, .connection = link->other.connection};
    uint32_t place = inside_place(inside, link->peer);

    if (link->op == 0) {
        call.op = ++inside->last_op;
        if (inside_ask(inside, place, &call)) {
            link->op = call.op;
            link->answer = (struct proxy_answer){0};
        }
        return WEFT_AGAIN;
    }
    if (link->answer.op != link->op) {
        return WEFT_AGAIN;
    }
    link->op = 0;
    return link->answer.sys_errno == 0
               ? WEFT_OK
               : refused(link, &call, link->peer, link->answer.sys_errno);
}

bool inside_answered(struct inside *inside, const struct proxy_answer *answer)
{
    for (uint32_t i = 0; i < inside->n_links; i++) {
        struct inside_link *link = inside->links[inside->order[i]];

        if (answer->op != 0 && link->op == answer->op) {
            link->answer = *answer;
            return true;
        }
    }
    return false;
}

/* ---- blobs ---- */

void inside_blob_of(const struct inside_link *link, struct inside_blob *out)
{
    *out = (struct inside_blob){.is_there = true,
                                .kind = link->choice.kind,
                                .is_owner = link->is_owner,
                                .reads = link->choice.reads,
                                .connection = link->connection,
                                .channel = link->connector.channel,
                                .step_bytes = link->inside->step_bytes};
}

/* Both ends chose by the same rules from the same facts; if they did not, nothing fits. */
weft_status inside_blob_take(struct inside_link *link, const struct inside_blob *blob)
{
    struct inside *inside = link->inside;

    if (!blob->is_there || blob->kind != link->choice.kind) {
        return inside_fail(inside, link->peer, WEFT_ERR_PROTOCOL, "inside",
                           "this rank chose %s, the other %s",
                           transport_kind_name(link->choice.kind),
                           blob->is_there ? transport_kind_name(blob->kind) : "none");
    }
    if (blob->is_owner == link->is_owner || blob->reads != link->choice.reads ||
        blob->channel != link->connector.channel ||
        blob->step_bytes != inside->step_bytes) {
        return inside_fail(
            inside, link->peer, WEFT_ERR_PROTOCOL, "inside",
            "its connector is of another shape: steps of %u bytes, here %u",
            blob->step_bytes, inside->step_bytes);
    }
    link->other = *blob;
    enter(link, INSIDE_LINK_TOLD);
    return WEFT_OK;
}

/* ---- setting up ---- */

static weft_status init(struct inside_link *link)
{
    const struct proxy_call call = {.type = PROXY_INIT,
                                    .kind = link->choice.kind,
                                    .is_sender = link->is_sender,
                                    .is_owner = link->is_owner,
                                    .peer = link->peer,
                                    .channel = link->connector.channel};
    struct proxy_answer answer;
    weft_status status = ask_own(link, &call, &answer);

    if (status == WEFT_OK) {
        link->connection = answer.connection;
        enter(link, INSIDE_LINK_INIT);
    }
    return status;
}

static weft_status ask_simply(struct inside_link *link, enum proxy_type type,
                              enum inside_link_state next)
{
    const struct proxy_call call = {.type = type,
                                    .connection = link->connection,
                                    .step_bytes = link->inside->step_bytes};
    struct proxy_answer answer;
    weft_status status = ask_own(link, &call, &answer);

    if (status == WEFT_OK) {
        enter(link, next);
    }
    return status;
}

static weft_status connect(struct inside_link *link)
{
    struct proxy_call call = {.type = PROXY_CONNECT, .connection = link->connection};
    struct proxy_answer answer;
    weft_status status;

    if (!link->is_owner) {
        memcpy(call.name, link->answer.name, sizeof(call.name));
        call.memory = link->answer.memory;
    }
    status = ask_own(link, &call, &answer);
    auth_forget(call.name, sizeof(call.name));
    if (status == WEFT_OK && !link->is_owner) {
        enter(link, INSIDE_LINK_STARTING);
    }
    return status;
}

static weft_status come_up(struct inside_link *link)
{
    struct inside *inside = link->inside;
    struct io_env *env = inside->env;
    struct steps_config config = {.gpu = env->gpu,
                                  .task = inside->task,
                                  .step_bytes = inside->step_bytes,
                                  .peer = link->peer,
                                  .is_sender = link->is_sender,
                                  .direct_bytes = inside->direct_bytes};
    char object[48];
    bool is_there =
        proxy_region(inside->proxy, link->connection, &config.control, &config.memory);

    weft_check(is_there);
    if (link->choice.kind == TRANSPORT_P2P) {
        config.ipc = inside_ipc_with(inside, inside_place(inside, link->peer));
    }
    steps_init(&link->steps, &config);
    link->connector = (struct transport_connector){.kind = link->choice.kind,
                                                   .is_sender = link->is_sender,
                                                   .peer = link->peer,
                                                   .channel = link->connector.channel,
                                                   .inside = link};
    weft_format(object, sizeof(object), "rank%u", inside->config.rank);
    weft_trace_event(env->trace, io_now(env), env->name, object, "connector",
                     "peer=%u direction=%s channel=%u transport=%s", link->peer,
                     link->is_sender ? "send" : "receive", link->connector.channel,
                     transport_kind_name(link->choice.kind));
    enter(link, INSIDE_LINK_UP);
    return WEFT_OK;
}

/* WEFT_OK: one state further. */
static weft_status step(struct inside_link *link)
{
    weft_status status;

    switch (link->state) {
    case INSIDE_LINK_NEW:
        return init(link);
    case INSIDE_LINK_INIT:
        return ask_simply(link, PROXY_SHARED_INIT, INSIDE_LINK_SHARED_INIT);
    case INSIDE_LINK_SHARED_INIT:
        return ask_simply(link, PROXY_SETUP, INSIDE_LINK_SETUP);
    case INSIDE_LINK_SETUP:
        break; /* until the blobs are exchanged */
    case INSIDE_LINK_TOLD:
        if (link->inside->state != INSIDE_CONNECT) {
            break;
        }
        enter(link, link->is_owner ? INSIDE_LINK_CONNECT : INSIDE_LINK_FETCHING);
        return WEFT_OK;
    case INSIDE_LINK_FETCHING:
        status = ask_peer(link, PROXY_GET_FD);
        if (status == WEFT_OK) {
            enter(link, INSIDE_LINK_CONNECT);
        }
        return status;
    case INSIDE_LINK_CONNECT:
        status = connect(link);
        return status == WEFT_OK && link->is_owner ? come_up(link) : status;
    case INSIDE_LINK_STARTING:
        status = ask_peer(link, PROXY_START);
        return status == WEFT_OK ? come_up(link) : status;
    case INSIDE_LINK_UP:
        break;
    }
    return WEFT_AGAIN;
}

weft_status inside_link_progress(struct inside_link *link)
{
    weft_status status;

    do {
        status = step(link);
    } while (status == WEFT_OK);
    return status == WEFT_AGAIN ? WEFT_OK : status;
}

void inside_link_close(struct inside_link *link)
{
    const struct proxy_call call = {.type = PROXY_CLOSE, .connection = link->connection};
    struct proxy_answer answer;
    weft_status status;

    if (link->connection != 0) {
        status = ask_own(link, &call, &answer);
        weft_check(status == WEFT_OK);
        link->connection = 0;
    }
}

void inside_link_ring(struct inside_link *link)
{
    const struct proxy_call bell = {.type = PROXY_BELL};

    if (!link->steps.must_ring) {
        return;
    }
    /* Where there is no room, the other end has bells enough that it did not hear yet; when it
     * does, it sees this counter too. */
    link->steps.must_ring = false;
    (void)inside_ask(link->inside, inside_place(link->inside, link->peer), &bell);
}
