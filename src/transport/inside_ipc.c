/* CUDA IPC between the ranks of a host: one negotiation for every pair connected by p2p, carried
 * by the streams between their processes. steps.h describes its use. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "transport/inside_private.h"

static bool is_set(struct io_env *env, const char *name)
{
    const char *value = env->ops->setting(env, name);

    return value != NULL && strtol(value, NULL, 0) != 0;
}

weft_status inside_ipc_open(struct inside *inside, struct weft_error *error)
{
    struct io_env *env = inside->env;
    struct ipc_settings *settings = &inside->ipc_settings;
    weft_status status = ipc_settings_read(env, settings, error);

    if (status != WEFT_OK) {
        return status;
    }
    inside->direct_bytes = TRANSPORT_DIRECT_BYTES;
    inside->has_ipc = env->gpu->sharing != NULL && !settings->is_off &&
                      inside->n_locals > 1 && !is_set(env, "NCCL_P2P_DIRECT_DISABLE");
    if (inside->has_ipc) {
        ipc_node_init(&inside->ipc, env, &inside->door, settings);
    }
    return WEFT_OK;
}

struct ipc_peer *inside_ipc_with(struct inside *inside, uint32_t place)
{
    struct inside_ipc **with = &inside->peers_ipc[place];

    if (*with == NULL && inside->has_ipc) {
        *with = weft_calloc(1, sizeof(**with));
        ipc_peer_init(&(*with)->peer,
                      &(struct ipc_link_config){.node = &inside->ipc,
                                                .self = inside->config.rank,
                                                .peer = inside->locals[place],
                                                .is_higher = inside->self > place});
    }
    return *with == NULL ? NULL : &(*with)->peer;
}

void inside_ipc_say(struct inside *inside, uint32_t place)
{
    struct inside_ipc *with = inside->peers_ipc[place];
    struct inside_stream *stream = inside->streams[place];
    struct ipc_message message;
    bool any = false;

    if (with == NULL || stream == NULL || stream->state != INSIDE_STREAM_OPEN) {
        return;
    }
    while (with->n_said > 0 || ipc_peer_next(&with->peer, &message)) {
        if (with->n_said == 0) {
            with->n_said = ipc_encode(&message, with->said);
        }
        if (!frame_send(&stream->link, CODEC_IPC, with->said, with->n_said)) {
            break;
        }
        with->n_said = 0;
        any = true;
    }
    if (any) {
        inside_stream_flush(stream);
    }
}

void inside_ipc_progress(struct inside *inside)
{
    for (uint32_t place = 0; inside->has_ipc && place < inside->n_locals; place++) {
        if (inside->peers_ipc[place] != NULL) {
            ipc_peer_progress(&inside->peers_ipc[place]->peer);
            inside_ipc_say(inside, place);
        }
    }
}

weft_status inside_ipc_take(struct inside *inside, uint32_t place, const uint8_t *bytes,
                            size_t n_bytes, struct weft_error *error)
{
    struct ipc_message message;
    struct ipc_peer *peer = inside_ipc_with(inside, place);
    weft_status status = ipc_decode(bytes, n_bytes, &message, error);

    if (peer == NULL) {
        return WEFT_OK; /* no answer, so the peer keeps using the steps */
    }
    if (status == WEFT_ERR_UNSUPPORTED) {
        ipc_link_other_version(&peer->link);
        return WEFT_OK;
    }
    if (status == WEFT_OK && !ipc_peer_take(peer, &message)) {
        status =
            weft_fail(error, WEFT_ERR_LIMIT, WEFT_PHASE_INSIDE, "it takes back too much");
    }
    inside_ipc_say(inside, place);
    return status;
}

void inside_ipc_stop(struct inside *inside)
{
    for (uint32_t i = 0; i < inside->n_links; i++) {
        steps_abandon(&inside->links[inside->order[i]]->steps);
    }
    for (uint32_t place = 0; inside->has_ipc && place < inside->n_locals; place++) {
        if (inside->peers_ipc[place] != NULL) {
            struct ipc_link *link = &inside->peers_ipc[place]->peer.link;

            link->probe_op.task = NULL; /* the task `door` is about to end */
            ipc_link_gone(link);
        }
    }
}

void inside_ipc_fini(struct inside *inside)
{
    for (uint32_t place = 0; inside->has_ipc && place < inside->n_locals; place++) {
        struct inside_ipc *with = inside->peers_ipc[place];

        if (with != NULL && !ipc_peer_fini(&with->peer)) {
            ipc_link_drop_probe(&with->peer.link);
            weft_check(ipc_peer_fini(&with->peer));
        }
        free(with);
    }
    if (inside->has_ipc) {
        ipc_node_fini(&inside->ipc);
    }
    free(inside->peers_ipc);
}
