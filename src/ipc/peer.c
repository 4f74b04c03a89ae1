#include "ipc/peer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

static struct ipc_node *node_of(const struct ipc_peer *peer)
{
    return peer->link.config.node;
}

void ipc_peer_init(struct ipc_peer *peer, const struct ipc_link_config *config)
{
    memset(peer, 0, sizeof(*peer));
    ipc_link_init(&peer->link, config);
}

bool ipc_peer_fini(struct ipc_peer *peer)
{
    struct ipc_node *node = node_of(peer);
    struct io_gpu *gpu = node->env->gpu;

    if (!ipc_link_fini(&peer->link)) {
        return false;
    }
    for (uint32_t i = 0; i < peer->n_events; i++) {
        gpu->sharing->event_destroy(gpu, peer->events[i].event);
    }
    peer->n_events = 0;
    if (peer->stream != NULL) {
        gpu->sharing->stream_destroy(gpu, peer->stream);
        peer->stream = NULL;
    }
    ipc_cache_forget(&node->cache, peer->link.peer.nonce);
    free(peer->offered);
    free(peer->closing);
    peer->offered = NULL;
    peer->closing = NULL;
    peer->n_offered = 0;
    peer->n_closing = 0;
    return true;
}

/* ---- offering ---- */

static struct ipc_offered_buffer *find_offered(const struct ipc_peer *peer,
                                               uint64_t buffer_id)
{
    for (uint32_t i = 0; i < peer->n_offered; i++) {
        if (peer->offered[i].buffer_id == buffer_id) {
            return &peer->offered[i];
        }
    }
    return NULL;
}

static void remember_offered(struct ipc_peer *peer, uint64_t buffer_id)
{
    if (find_offered(peer, buffer_id) != NULL) {
        return;
    }
    if (peer->n_offered == peer->cap_offered) {
        peer->cap_offered = peer->cap_offered == 0 ? 8 : 2 * peer->cap_offered;
        peer->offered =
            weft_realloc(peer->offered, peer->cap_offered * sizeof(*peer->offered));
    }
    peer->offered[peer->n_offered++] =
        (struct ipc_offered_buffer){.buffer_id = buffer_id};
}

static uint32_t kinds_for(const struct ipc_peer *peer)
{
    const struct io_gpu_identity *own = &node_of(peer)->identity.gpu;
    const struct io_gpu_identity *other = &peer->link.peer.gpu;
    uint32_t kinds = own->kinds & other->kinds;

    return own->pid_ns == other->pid_ns ? kinds : kinds & ~(1u << IO_GPU_HANDLE_FD);
}

/* Describes the message's memory and the event behind its work. Returns a positive errno, such
 * as EOPNOTSUPP, if it cannot be offered. */
static int make_offer(struct ipc_peer *peer, const void *memory, uint64_t n_bytes,
                      struct io_gpu_stream *stream, struct io_gpu_event *event,
                      struct ipc_offer *offer)
{
    struct io_gpu *gpu = node_of(peer)->env->gpu;
    const struct ipc_offered_buffer *offered;
    int sys_errno =
        gpu->sharing->export_memory(gpu, memory, kinds_for(peer), &offer->memory);

    if (sys_errno == 0) {
        offered = find_offered(peer, offer->memory.buffer_id);
        /* Memory that is being invalidated must not be opened again. */
        sys_errno = offered != NULL && offered->is_going ? EBUSY : 0;
    }
    if (sys_errno == 0) {
        offer->offset = (uint64_t)(uintptr_t)memory - offer->memory.base;
        offer->n_bytes = n_bytes;
        sys_errno = offer->offset + offer->n_bytes > offer->memory.n_bytes ? EINVAL : 0;
    }
    if (sys_errno == 0) {
        sys_errno = gpu->sharing->record(gpu, event, stream);
    }
    if (sys_errno == 0) {
        sys_errno = gpu->sharing->export_event(gpu, event, &offer->event);
    }
    return sys_errno;
}

weft_status ipc_peer_offer(struct ipc_peer *peer, const void *memory, uint64_t n_bytes,
                           struct io_gpu_stream *stream, struct ipc_offer *out,
                           uint32_t *out_event)
{
    struct ipc_node *node = node_of(peer);

    if (!ipc_link_is_up(&peer->link) || n_bytes == 0) {
        return WEFT_ERR_UNSUPPORTED;
    }
    if (!ipc_node_lend(node, out_event)) {
        return ipc_node_lends(node) ? WEFT_AGAIN : WEFT_ERR_UNSUPPORTED;
    }
    if (make_offer(peer, memory, n_bytes, stream, node->events[*out_event], out) != 0) {
        ipc_node_return(node, *out_event);
        return WEFT_ERR_UNSUPPORTED;
    }
    out->generation = ++node->generation;
    remember_offered(peer, out->memory.buffer_id);
    peer->n_offers++;
    return WEFT_OK;
}

/* ---- copies of offered messages ---- */

/* Returns the imported event. The peer reuses its events, at most IPC_EVENTS_MAX. */
static int event_of(struct ipc_peer *peer, const struct io_gpu_handle *handle,
                    struct io_gpu_event **out)
{
    struct io_gpu *gpu = node_of(peer)->env->gpu;
    int sys_errno;

    for (uint32_t i = 0; i < peer->n_events; i++) {
        if (memcmp(&peer->events[i].handle, handle, sizeof(*handle)) == 0) {
            *out = peer->events[i].event;
            return 0;
        }
    }
    if (peer->n_events == IPC_EVENTS_MAX) {
        gpu->sharing->event_destroy(gpu, peer->events[0].event);
        peer->events[0] = peer->events[--peer->n_events];
    }
    sys_errno = gpu->sharing->import_event(gpu, handle, out);
    if (sys_errno == 0) {
        peer->events[peer->n_events++] = (struct ipc_peer_event){*handle, *out};
    }
    return sys_errno;
}

/* Starts the copy behind the event. Both need a stream. */
static int start_copy(struct ipc_peer *peer, const struct ipc_offer *offer,
                      struct io_gpu_op *op)
{
    struct io_gpu *gpu = node_of(peer)->env->gpu;
    struct io_gpu_event *event;
    int sys_errno = event_of(peer, &offer->event, &event);

    if (sys_errno == 0 && peer->stream == NULL) {
        sys_errno = gpu->sharing->stream_create(gpu, &peer->stream);
    }
    if (sys_errno == 0) {
        sys_errno = gpu->sharing->wait(gpu, event, peer->stream);
    }
    if (sys_errno == 0) {
        op->stream = peer->stream;
        sys_errno = gpu->ops->start(gpu, op);
    }
    return sys_errno;
}

int ipc_peer_copy(struct ipc_peer *peer, const struct ipc_offer *offer, void *to,
                  struct io_task *task, struct io_gpu_op *op,
                  struct ipc_mapping **out_mapping)
{
    struct ipc_node *node = node_of(peer);
    int sys_errno = ipc_cache_acquire(&node->cache, peer->link.peer.nonce, &offer->memory,
                                      offer->generation, io_now(node->env), out_mapping);

    if (sys_errno == 0) {
        *op = (struct io_gpu_op){.kind = IO_GPU_COPY,
                                 .task = task,
                                 .out = to,
                                 .a = (uint8_t *)(*out_mapping)->at + offer->offset,
                                 .count = offer->n_bytes};
        sys_errno = start_copy(peer, offer, op);
        if (sys_errno != 0) {
            ipc_cache_release(&node->cache, *out_mapping);
        }
    }
    if (sys_errno != 0) {
        *out_mapping = NULL;
        return sys_errno;
    }
    peer->n_copies++;
    return 0;
}

/* ---- invalidation ---- */

uint64_t ipc_peer_invalidate(struct ipc_peer *peer, const void *memory)
{
    struct ipc_node *node = node_of(peer);
    struct io_gpu *gpu = node->env->gpu;
    struct ipc_offered_buffer *offered;
    struct io_gpu_export exported;

    if (!node->is_ready || peer->n_offered == 0 ||
        gpu->sharing->export_memory(gpu, memory, node->identity.gpu.kinds, &exported) !=
            0) {
        return 0;
    }
    offered = find_offered(peer, exported.buffer_id);
    if (offered != NULL && !offered->is_going) {
        offered->is_going = true;
        offered->generation = node->generation;
    }
    return exported.buffer_id;
}

bool ipc_peer_is_closed(const struct ipc_peer *peer, uint64_t buffer_id)
{
    return peer->link.machine.is_gone || find_offered(peer, buffer_id) == NULL;
}

static void take_invalidated(struct ipc_peer *peer, uint64_t buffer_id)
{
    struct ipc_offered_buffer *offered = find_offered(peer, buffer_id);

    if (offered != NULL && offered->is_said) {
        *offered = peer->offered[--peer->n_offered];
    }
}

static bool take_invalidate(struct ipc_peer *peer, const struct ipc_message *message)
{
    if (peer->n_closing == IPC_CLOSING_MAX) {
        return false;
    }
    if (peer->n_closing == peer->cap_closing) {
        peer->cap_closing = peer->cap_closing == 0 ? 8 : 2 * peer->cap_closing;
        peer->closing =
            weft_realloc(peer->closing, peer->cap_closing * sizeof(*peer->closing));
    }
    peer->closing[peer->n_closing++] =
        (struct ipc_closing_buffer){message->buffer_id, message->generation};
    return true;
}

/* ---- messages ---- */

bool ipc_peer_take(struct ipc_peer *peer, const struct ipc_message *message)
{
    if (message->type == IPC_INVALIDATE) {
        return take_invalidate(peer, message);
    }
    if (message->type == IPC_INVALIDATED) {
        take_invalidated(peer, message->buffer_id);
    } else {
        ipc_link_take(&peer->link, message);
    }
    return true;
}

/* Returns INVALIDATED for the first buffer that is closed, now or before. */
static bool next_closed(struct ipc_peer *peer, struct ipc_message *out)
{
    struct ipc_node *node = node_of(peer);

    for (uint32_t i = 0; i < peer->n_closing; i++) {
        const struct ipc_closing_buffer closing = peer->closing[i];

        if (ipc_cache_invalidate(&node->cache, peer->link.peer.nonce, closing.buffer_id,
                                 closing.generation)) {
            peer->n_closing--;
            memmove(&peer->closing[i], &peer->closing[i + 1],
                    (peer->n_closing - i) * sizeof(closing));
            *out = (struct ipc_message){.type = IPC_INVALIDATED,
                                        .buffer_id = closing.buffer_id};
            return true;
        }
    }
    return false;
}

static bool next_going(struct ipc_peer *peer, struct ipc_message *out)
{
    for (uint32_t i = 0; i < peer->n_offered; i++) {
        struct ipc_offered_buffer *offered = &peer->offered[i];

        if (offered->is_going && !offered->is_said) {
            offered->is_said = true;
            *out = (struct ipc_message){.type = IPC_INVALIDATE,
                                        .buffer_id = offered->buffer_id,
                                        .generation = offered->generation};
            return true;
        }
    }
    return false;
}

bool ipc_peer_next(struct ipc_peer *peer, struct ipc_message *out)
{
    if (ipc_link_next(&peer->link, out)) {
        return true;
    }
    return !peer->link.machine.is_gone &&
           (next_closed(peer, out) || next_going(peer, out));
}

void ipc_peer_progress(struct ipc_peer *peer)
{
    ipc_link_progress(&peer->link);
}
