#include "ipc/link.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

#define EXPIRY_DOUBLINGS 6u

static struct ipc_node *node_of(const struct ipc_link *link)
{
    return link->config.node;
}

static bool is_original(const struct ipc_link *link)
{
    return node_of(link)->settings.is_original;
}

enum ipc_state ipc_link_state(const struct ipc_link *link)
{
    return is_original(link) ? link->original.state : link->machine.state;
}

bool ipc_link_is_up(const struct ipc_link *link)
{
    return is_original(link) ? smcuda_is_up(&link->original)
                             : link->machine.state == IPC_OK;
}

enum ipc_reason ipc_link_reason(const struct ipc_link *link)
{
    return link->reason != IPC_FINE ? link->reason : link->peer_reason;
}

static void trace_state(struct ipc_link *link, enum ipc_state before)
{
    struct io_env *env = node_of(link)->env;
    enum ipc_state now = ipc_link_state(link);
    bool was_nothing = before == IPC_INIT && link->reason == IPC_PEER_GONE;
    char object[32];

    if (before == now || was_nothing || !weft_trace_on(env->trace, WEFT_TRACE_STORY)) {
        return;
    }
    weft_format(object, sizeof(object), "ipc%u", link->config.peer);
    weft_trace_begin(env->trace, io_log_now(env), env->name, object, "state");
    weft_trace_int(env->trace, "rank", link->config.self);
    weft_trace_text(env->trace, "from", ipc_state_name(before));
    weft_trace_text(env->trace, "to", ipc_state_name(now));
    weft_trace_int(env->trace, "epoch", link->machine.epoch);
    if (now == IPC_BAD) {
        weft_trace_text(env->trace, "reason", ipc_reason_name(ipc_link_reason(link)));
    }
    weft_trace_end(env->trace);
}

void ipc_link_init(struct ipc_link *link, const struct ipc_link_config *config)
{
    memset(link, 0, sizeof(*link));
    link->config = *config;
    link->original.is_higher = config->is_higher;
    link->deadline_ns = WEFT_NEVER;
    link->expires_ns = WEFT_NEVER;
}

/* ---- the machine and its actions ---- */

static void start_probe(struct ipc_link *link);

static void step(struct ipc_link *link, const struct ipc_event *event)
{
    struct ipc_node *node = node_of(link);
    enum ipc_state before = link->machine.state;
    struct ipc_actions actions = ipc_machine_step(&link->machine, event);

    trace_state(link, before);
    link->says_hello |= actions.says_hello;
    link->says_verdict |= actions.says_verdict;
    link->is_again |= actions.is_again;
    if (actions.judges && link->probe == IPC_PROBE_IDLE) {
        start_probe(link);
    } else if (actions.judges) {
        link->probe = IPC_PROBE_OUTDATED;
    }
    link->deadline_ns = node->settings.resend_ns == 0 ||
                                ipc_machine_is_settled(&link->machine) ||
                                link->machine.state == IPC_INIT
                            ? WEFT_NEVER
                            : io_now(node->env) + node->settings.resend_ns;
}

static void simply(struct ipc_link *link, enum ipc_input input)
{
    step(link, &(struct ipc_event){.input = input});
}

/* Returns true if the reason was found by trying, so that another attempt can succeed. The
 * others depend on facts that do not change. */
static bool expires(enum ipc_reason reason)
{
    return reason == IPC_NO_ACCESS || reason == IPC_OTHER_MEMORY;
}

static void judged(struct ipc_link *link, uint32_t epoch, enum ipc_reason reason)
{
    struct ipc_node *node = node_of(link);
    uint32_t doublings =
        link->n_refusals < EXPIRY_DOUBLINGS ? link->n_refusals : EXPIRY_DOUBLINGS;

    if (link->machine.state != IPC_ACKING || link->machine.peer_epoch != epoch) {
        return; /* outdated */
    }
    link->reason = reason;
    link->expires_ns = WEFT_NEVER;
    if (expires(reason)) {
        link->expires_ns = io_now(node->env) + (node->settings.negative_ns << doublings);
        link->n_refusals++;
    } else if (reason == IPC_FINE) {
        link->n_refusals = 0;
    }
    step(link, &(struct ipc_event){
                   .input = IPC_JUDGED, .about = epoch, .accepts = reason == IPC_FINE});
}

/* ---- the probe: reading the peer's memory proves that it can be opened ---- */

static enum ipc_reason open_probe(struct ipc_link *link)
{
    struct ipc_node *node = node_of(link);
    struct io_gpu *gpu = node->env->gpu;

    if (ipc_cache_acquire(&node->cache, link->peer.nonce, &link->peer.probe, 0,
                          io_now(node->env), &link->probe_mapping) != 0) {
        return IPC_NO_ACCESS;
    }
    if (link->probe_landing == NULL &&
        gpu->ops->alloc(gpu, IO_MEMORY_DEVICE, IPC_NONCE_BYTES, &link->probe_landing) !=
            0) {
        link->probe_landing = NULL;
    }
    memcpy(link->probe_owner, link->peer.nonce, IPC_NONCE_BYTES);
    link->probe_buffer = link->peer.probe.buffer_id;
    link->probe_op = (struct io_gpu_op){.kind = IO_GPU_COPY,
                                        .task = node->task,
                                        .stream = node->stream,
                                        .out = link->probe_landing,
                                        .a = link->probe_mapping->at,
                                        .count = IPC_NONCE_BYTES};
    if (link->probe_landing == NULL || gpu->ops->start(gpu, &link->probe_op) != 0) {
        ipc_cache_release(&node->cache, link->probe_mapping);
        return IPC_NO_ACCESS;
    }
    return IPC_FINE;
}

static void start_probe(struct ipc_link *link)
{
    struct ipc_node *node = node_of(link);
    uint32_t epoch = link->machine.peer_epoch;
    enum ipc_reason reason = ipc_judge(&node->identity, &link->peer, &node->settings);

    if (reason == IPC_FINE) {
        reason = open_probe(link);
    }
    if (reason != IPC_FINE) {
        judged(link, epoch, reason);
        return;
    }
    link->probe = IPC_PROBE_COPYING;
    link->probe_epoch = epoch;
}

static void end_probe(struct ipc_link *link)
{
    struct ipc_node *node = node_of(link);
    struct io_gpu *gpu = node->env->gpu;
    int sys_errno = gpu->ops->poll(gpu, &link->probe_op);
    uint8_t read[IPC_NONCE_BYTES];
    bool is_outdated = link->probe == IPC_PROBE_OUTDATED;
    enum ipc_reason reason = IPC_NO_ACCESS;

    if (sys_errno == EINPROGRESS) {
        return;
    }
    /* Close the mapping before the verdict is sent, because the peer may then free the probe. */
    ipc_cache_release(&node->cache, link->probe_mapping);
    (void)ipc_cache_invalidate(&node->cache, link->probe_owner, link->probe_buffer, 0);
    link->probe = IPC_PROBE_IDLE;
    if (sys_errno == 0 &&
        gpu->ops->download(gpu, read, link->probe_landing, sizeof(read)) == 0) {
        reason = memcmp(read, link->peer.nonce, sizeof(read)) == 0 ? IPC_FINE
                                                                   : IPC_OTHER_MEMORY;
    }
    if (!is_outdated) {
        judged(link, link->probe_epoch, reason);
    } else if (link->machine.state == IPC_ACKING) {
        start_probe(link);
    }
}

/* ---- mode smcuda-4.1 ---- */

static void original_step(struct ipc_link *link, const struct ipc_message *message)
{
    struct ipc_node *node = node_of(link);
    enum ipc_state before = link->original.state;
    enum smcuda_message said;

    link->original.is_ready = ipc_node_ready(node);
    if (message == NULL) {
        said = smcuda_send(&link->original);
    } else {
        link->peer = message->identity;
        said = smcuda_receive(&link->original, (enum smcuda_message)message->original,
                              ipc_judge_original(node, &link->peer));
    }
    if (said != SMCUDA_NOTHING && link->n_original_said < IPC_SAID_MAX) {
        link->original_said[link->n_original_said++] = said;
    }
    if (link->original.state == IPC_BAD) {
        link->reason = IPC_NO_ACCESS;
    }
    trace_state(link, before);
}

/* ---- interface ---- */

/* Sends HELLO if the negotiation waited for a usable context and there is one now. */
static void find_context(struct ipc_link *link)
{
    if (!link->machine.is_wanted || link->machine.is_ready ||
        !ipc_node_ready(node_of(link))) {
        return;
    }
    if (link->machine.epoch == 0) {
        simply(link, IPC_READY);
    } else {
        /* The epoch began without a context, so its HELLO offered nothing to open. */
        ipc_link_renew(link);
    }
}

void ipc_link_touch(struct ipc_link *link)
{
    struct ipc_node *node = node_of(link);

    if (node->settings.is_off || link->machine.is_gone) {
        return;
    }
    if (is_original(link)) {
        original_step(link, NULL);
        return;
    }
    if (!link->machine.is_wanted) {
        simply(link, IPC_WANTED);
    }
    find_context(link);
    if (link->machine.state == IPC_BAD && io_now(node->env) >= link->expires_ns) {
        link->expires_ns = WEFT_NEVER;
        link->reason = IPC_FINE;
        simply(link, IPC_RENEW);
    }
}

static void take_hello(struct ipc_link *link, const struct ipc_message *message)
{
    if (message->epoch > link->machine.peer_epoch) {
        link->peer = message->identity;
        link->peer_reason = IPC_FINE;
        link->reason = IPC_FINE;
        link->expires_ns = WEFT_NEVER;
    }
    step(link, &(struct ipc_event){.input = IPC_HELLO_IN,
                                   .epoch = message->epoch,
                                   .is_again = message->is_again});
}

static void take_verdict(struct ipc_link *link, const struct ipc_message *message)
{
    if (!message->accepts && message->epoch == link->machine.peer_epoch &&
        message->about == link->machine.epoch) {
        link->peer_reason = message->reason;
    }
    step(link, &(struct ipc_event){.input = IPC_VERDICT_IN,
                                   .epoch = message->epoch,
                                   .about = message->about,
                                   .accepts = message->accepts,
                                   .is_again = message->is_again});
}

void ipc_link_take(struct ipc_link *link, const struct ipc_message *message)
{
    if (link->machine.is_gone || node_of(link)->settings.is_off) {
        return;
    }
    if (message->type == IPC_ORIGINAL && is_original(link)) {
        original_step(link, message);
    } else if (message->type == IPC_HELLO && !is_original(link)) {
        take_hello(link, message);
    } else if (message->type == IPC_VERDICT && !is_original(link)) {
        take_verdict(link, message);
    }
    ipc_link_progress(link);
}

static void end(struct ipc_link *link, enum ipc_reason reason)
{
    if (link->machine.is_gone) {
        return;
    }
    link->reason = reason;
    link->expires_ns = WEFT_NEVER;
    if (is_original(link)) {
        enum ipc_state before = link->original.state;

        link->machine.is_gone = true;
        link->original.state = IPC_BAD;
        trace_state(link, before);
    } else {
        simply(link, IPC_GONE);
    }
}

void ipc_link_other_version(struct ipc_link *link)
{
    end(link, IPC_OTHER_VERSION);
}

void ipc_link_gone(struct ipc_link *link)
{
    end(link, IPC_PEER_GONE);
    ipc_cache_forget(&node_of(link)->cache, link->peer.nonce);
}

void ipc_link_renew(struct ipc_link *link)
{
    link->reason = IPC_FINE;
    link->machine.is_ready = ipc_node_ready(node_of(link));
    simply(link, IPC_RENEW);
}

void ipc_link_progress(struct ipc_link *link)
{
    struct ipc_node *node = node_of(link);

    if (link->probe != IPC_PROBE_IDLE) {
        end_probe(link);
    }
    if (is_original(link) || link->machine.is_gone) {
        return;
    }
    find_context(link);
    if (io_now(node->env) >= link->deadline_ns) {
        simply(link, IPC_TIMER);
    }
}

bool ipc_link_next(struct ipc_link *link, struct ipc_message *out)
{
    struct ipc_node *node = node_of(link);

    *out = (struct ipc_message){.identity = node->identity};
    if (link->n_original_said > 0) {
        out->type = IPC_ORIGINAL;
        out->original = link->original_said[0];
        link->n_original_said--;
        memmove(link->original_said, link->original_said + 1,
                link->n_original_said * sizeof(link->original_said[0]));
        return true;
    }
    out->epoch = link->machine.epoch;
    out->is_again = link->is_again;
    if (link->says_hello) {
        out->type = IPC_HELLO;
        link->says_hello = false;
        return true;
    }
    if (link->says_verdict) {
        out->type = IPC_VERDICT;
        out->about = link->machine.peer_epoch;
        out->accepts = link->machine.own == IPC_ACCEPT;
        out->reason = out->accepts ? IPC_FINE : link->reason;
        link->says_verdict = false;
        link->is_again = false;
        return link->machine.own != IPC_UNKNOWN;
    }
    link->is_again = false;
    return false;
}

void ipc_link_drop_probe(struct ipc_link *link)
{
    if (link->probe != IPC_PROBE_IDLE) {
        ipc_cache_release(&node_of(link)->cache, link->probe_mapping);
        link->probe = IPC_PROBE_IDLE;
    }
}

bool ipc_link_fini(struct ipc_link *link)
{
    struct io_gpu *gpu = node_of(link)->env->gpu;

    if (!link->machine.is_gone) {
        ipc_link_gone(link);
    }
    if (link->probe != IPC_PROBE_IDLE) {
        end_probe(link);
    }
    if (link->probe != IPC_PROBE_IDLE) {
        return false;
    }
    if (link->probe_landing != NULL) {
        gpu->ops->free(gpu, link->probe_landing);
        link->probe_landing = NULL;
    }
    return true;
}
