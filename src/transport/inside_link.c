/* Set-up of one connector inside the host, by requests to the proxies of both ends. */
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "transport/inside_private.h"

static void enter(struct inside_link *link, enum inside_link_state next)
{
    weft_check(next == link->state + 1 ||
               (link->state == INSIDE_LINK_TOLD && next == INSIDE_LINK_CONNECT) ||
               (link->state == INSIDE_LINK_CONNECT &&
                (next == INSIDE_LINK_UP || next == INSIDE_LINK_FETCHING)));
    link->state = next;
}

static weft_status refused(struct inside_link *link, const struct proxy_call *call,
                           uint32_t proxy_rank, int sys_errno)
{
    struct inside *inside = link->inside;

    weft_fail_errno(&inside->error, sys_errno, WEFT_PHASE_INSIDE,
                    "%s of a %s connection with rank %u: the proxy of rank %u refused",
                    proxy_type_name(call->type), weft_transport_name(link->choice.kind),
                    link->peer, proxy_rank);
    weft_error_text(&inside->error, WEFT_VALUE_REQUEST, proxy_type_name(call->type));
    weft_error_text(&inside->error, WEFT_VALUE_TRANSPORT,
                    weft_transport_name(link->choice.kind));
    inside->error_peer = link->peer;
    return inside->error.status;
}

/* Sends a request to the own proxy without a stream, but through the same encoding. A refusal is
 * in the answer. */
static weft_status put_to_own(struct inside_link *link, const struct proxy_call *call,
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
    return proxy_decode_answer(back, proxy_encode_answer(&answer, back), out,
                               &inside->error);
}

static weft_status ask_own(struct inside_link *link, const struct proxy_call *call,
                           struct proxy_answer *out)
{
    weft_status status = put_to_own(link, call, out);

    return status == WEFT_OK && out->sys_errno != 0
               ? refused(link, call, link->inside->config.rank, out->sys_errno)
               : status;
}

/* Sends the request on the first call, then returns WEFT_AGAIN until the answer has arrived. */
static weft_status ask_peer(struct inside_link *link, enum proxy_type type)
{
    struct inside *inside = link->inside;
    struct proxy_call call = {.type = type,
                              .connection = link->other.connection,
                              .is_owner = type == PROXY_FALL_BACK,
                              .sys_errno = link->choice.sys_errno};
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

bool inside_answered(struct inside *inside, uint32_t rank,
                     const struct proxy_answer *answer)
{
    for (uint32_t i = 0; i < inside->n_links; i++) {
        struct inside_link *link = inside->links[inside->order[i]];

        if (link->peer == rank && answer->op != 0 && link->op == answer->op) {
            link->answer = *answer;
            return true;
        }
    }
    return false;
}

/* ---- fallback from p2p to shared memory ---- */

static void note_fall(struct inside_link *link, enum transport_reason reason,
                      int sys_errno)
{
    struct inside *inside = link->inside;
    struct io_env *env = inside->env;
    char object[32], why[TRANSPORT_WHY_BYTES];

    transport_fall_back(&link->choice, reason, sys_errno);
    link->has_fallen = true;
    weft_format(object, sizeof(object), "rank%u", inside->config.rank);
    weft_trace_event(env->trace, io_now(env), env->name, object, "fall_back",
                     "peer=%u direction=%s channel=%u to=shm errno=%d", link->peer,
                     link->is_sender ? "send" : "receive", link->connector.channel,
                     sys_errno);
    weft_log(env->log, WEFT_LOG_INFO, "%s: rank %u %s rank %u: %s", env->name,
             inside->config.rank, link->is_sender ? "to" : "from", link->peer,
             transport_why(&link->choice, why));
}

/* Makes this end use steps in host memory: allocates them if `is_owner`, otherwise attaches
 * later. */
static weft_status fall_back(struct inside_link *link, bool is_owner,
                             enum transport_reason reason, int sys_errno)
{
    const struct proxy_call call = {.type = PROXY_FALL_BACK,
                                    .connection = link->connection,
                                    .is_owner = is_owner,
                                    .sys_errno = sys_errno};
    struct proxy_answer answer;

    note_fall(link, reason, sys_errno);
    if (link->inside->settings.shm_disable) {
        char why[TRANSPORT_WHY_BYTES];

        return inside_fail(link->inside, link->peer, WEFT_ERR_ROUTE, WEFT_PHASE_INSIDE,
                           "%s, but NCCL_SHM_DISABLE is set",
                           transport_why(&link->choice, why));
    }
    link->is_owner = is_owner;
    return ask_own(link, &call, &answer);
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

/* Reconciles the transports that both ends chose. They apply the same rules, but a driver can
 * allow one end what it refuses to the other. If one end says p2p and the other shm, both use
 * shm. inside_blob_take() rejects any other difference. */
static weft_status agree(struct inside_link *link, struct inside_blob *blob)
{
    if (!blob->is_there || link->choice.kind == blob->kind) {
        return WEFT_OK;
    }
    if (blob->kind == WEFT_TRANSPORT_SHM && link->choice.kind == WEFT_TRANSPORT_P2P) {
        return fall_back(link, !blob->is_owner, TRANSPORT_OTHER_END, 0);
    }
    if (blob->kind == WEFT_TRANSPORT_P2P && link->choice.kind == WEFT_TRANSPORT_SHM) {
        /* The peer falls back to shm when it reads this end's blob. */
        blob->kind = WEFT_TRANSPORT_SHM;
        blob->reads = false;
        blob->is_owner = !link->is_owner;
    }
    return WEFT_OK;
}

/* Returns the end at which the steps of a connector are. */
static const char *owner_name(bool is_sender)
{
    return is_sender ? "sender" : "receiver";
}

weft_status inside_blob_take(struct inside_link *link, const struct inside_blob *blob)
{
    struct inside *inside = link->inside;
    struct inside_blob other = *blob;
    weft_status status = agree(link, &other);

    if (status != WEFT_OK) {
        return status;
    }
    if (!other.is_there || other.kind != link->choice.kind) {
        return inside_fail(inside, link->peer, WEFT_ERR_PROTOCOL, WEFT_PHASE_INSIDE,
                           "this rank chose %s, the other %s",
                           weft_transport_name(link->choice.kind),
                           other.is_there ? weft_transport_name(other.kind) : "none");
    }
    if (other.step_bytes != inside->step_bytes) {
        return inside_fail(
            inside, link->peer, WEFT_ERR_PROTOCOL, WEFT_PHASE_INSIDE,
            "its steps have %u bytes, those of this rank %u (NCCL_BUFFSIZE)",
            other.step_bytes, inside->step_bytes);
    }
    if (other.channel != link->connector.channel) {
        return inside_fail(inside, link->peer, WEFT_ERR_PROTOCOL, WEFT_PHASE_INSIDE,
                           "its connector is of channel %u, that of this rank of %u",
                           other.channel, link->connector.channel);
    }
    if (other.is_owner == link->is_owner || other.reads != link->choice.reads) {
        return inside_fail(inside, link->peer, WEFT_ERR_PROTOCOL, WEFT_PHASE_INSIDE,
                           "it expects the steps at the %s, this rank at the %s",
                           owner_name(other.is_owner != link->is_sender),
                           owner_name(link->is_owner == link->is_sender));
    }
    link->other = other;
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

static weft_status shared_init(struct inside_link *link)
{
    const struct proxy_call call = {.type = PROXY_SHARED_INIT,
                                    .connection = link->connection,
                                    .step_bytes = link->inside->step_bytes};
    struct proxy_answer answer;
    weft_status status = ask_own(link, &call, &answer);

    if (status == WEFT_OK) {
        enter(link, INSIDE_LINK_SHARED_INIT);
    }
    return status;
}

/* Sets up the owner's steps. If GPU memory cannot be allocated or exported, falls back to host
 * memory. */
static weft_status set_up(struct inside_link *link)
{
    const struct proxy_call call = {.type = PROXY_SETUP, .connection = link->connection};
    struct proxy_answer answer;
    weft_status status = put_to_own(link, &call, &answer);

    if (status == WEFT_OK && answer.sys_errno != 0) {
        status =
            link->choice.kind == WEFT_TRANSPORT_P2P
                ? fall_back(link, link->is_owner, TRANSPORT_NOT_OPENED, answer.sys_errno)
                : refused(link, &call, link->inside->config.rank, answer.sys_errno);
    }
    if (status == WEFT_OK) {
        enter(link, INSIDE_LINK_SETUP);
    }
    return status;
}

/* Falls back after a failure to open the peer's memory, and asks the peer for steps in host
 * memory. */
static weft_status go_back(struct inside_link *link, int sys_errno)
{
    weft_status status = fall_back(link, false, TRANSPORT_NOT_OPENED, sys_errno);

    if (status == WEFT_OK) {
        link->asks_to_fall_back = true;
        enter(link, INSIDE_LINK_FETCHING);
    }
    return status;
}

static weft_status fetch(struct inside_link *link)
{
    weft_status status =
        ask_peer(link, link->asks_to_fall_back ? PROXY_FALL_BACK : PROXY_GET_FD);

    if (status == WEFT_OK) {
        enter(link, INSIDE_LINK_CONNECT);
    }
    return status;
}

/* Attaches to the peer's memory. Returns WEFT_OK if the state has changed. */
static weft_status attach(struct inside_link *link)
{
    struct proxy_call call = {.type = PROXY_CONNECT,
                              .connection = link->connection,
                              .memory = link->answer.memory};
    struct proxy_answer answer;
    weft_status status;

    memcpy(call.name, link->answer.name, sizeof(call.name));
    status = put_to_own(link, &call, &answer);
    auth_forget(call.name, sizeof(call.name));
    if (status == WEFT_OK && answer.sys_errno != 0) {
        return link->choice.kind == WEFT_TRANSPORT_P2P
                   ? go_back(link, answer.sys_errno)
                   : refused(link, &call, link->inside->config.rank, answer.sys_errno);
    }
    if (status == WEFT_OK) {
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
    int sys_errno;

    weft_check(is_there);
    if (proxy_kind_of(inside->proxy, link->connection, &sys_errno) != link->choice.kind) {
        /* The peer could not open this end's memory. */
        note_fall(link, TRANSPORT_NOT_OPENED, sys_errno);
    }
    if (link->choice.kind == WEFT_TRANSPORT_P2P) {
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
                     weft_transport_name(link->choice.kind));
    enter(link, INSIDE_LINK_UP);
    return WEFT_OK;
}

/* Waits until the peer is attached. */
static weft_status await(struct inside_link *link)
{
    const struct proxy_call call = {.type = PROXY_CONNECT,
                                    .connection = link->connection};
    struct proxy_answer answer;
    weft_status status = ask_own(link, &call, &answer);

    return status == WEFT_OK ? come_up(link) : status;
}

static weft_status start(struct inside_link *link)
{
    weft_status status = ask_peer(link, PROXY_START);

    return status == WEFT_OK ? come_up(link) : status;
}

/* Advances by one state. Returns WEFT_OK if the state has changed. */
static weft_status step(struct inside_link *link)
{
    switch (link->state) {
    case INSIDE_LINK_NEW:
        return init(link);
    case INSIDE_LINK_INIT:
        return shared_init(link);
    case INSIDE_LINK_SHARED_INIT:
        return set_up(link);
    case INSIDE_LINK_SETUP:
        break; /* until the blobs are exchanged */
    case INSIDE_LINK_TOLD:
        if (link->inside->state != INSIDE_CONNECT) {
            break;
        }
        enter(link, link->is_owner ? INSIDE_LINK_CONNECT : INSIDE_LINK_FETCHING);
        return WEFT_OK;
    case INSIDE_LINK_FETCHING:
        return fetch(link);
    case INSIDE_LINK_CONNECT:
        return link->is_owner ? await(link) : attach(link);
    case INSIDE_LINK_STARTING:
        return start(link);
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
    /* If the stream has no room, it already carries bells that the peer has not read. When it
     * reads them, it sees this counter, too. */
    link->steps.must_ring = false;
    (void)inside_ask(link->inside, inside_place(link->inside, link->peer), &bell);
}
