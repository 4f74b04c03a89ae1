#include "nccl/transports.h"

#include <string.h>

#include "base/text.h"

static enum transport_reason can_share(const struct topo_comm *comm, uint32_t a,
                                       uint32_t b)
{
    const struct topo_peer *self = &comm->peers[a];
    const struct topo_peer *peer = &comm->peers[b];

    if (self->host_hash != peer->host_hash) {
        return TRANSPORT_OTHER_HOST;
    }
    if (self->shm_dev == 0 || peer->shm_dev == 0) {
        return TRANSPORT_NO_SHM;
    }
    return self->shm_dev == peer->shm_dev ? TRANSPORT_CAN : TRANSPORT_OTHER_SHM;
}

/* Checks whether CUDA IPC is allowed and the GPUs can access each other's memory. */
static enum transport_reason may_open(const struct transport_question *question)
{
    if (question->is_ipc_off) {
        return TRANSPORT_OFF;
    }
    return question->can_access ? TRANSPORT_CAN : TRANSPORT_NO_ACCESS;
}

/* Decides p2p for two processes on one GPU, which NCCL does not allow. The path is the shortest
 * possible, so of NCCL's settings only NCCL_P2P_DISABLE can rule it out. */
static enum transport_reason ask_same_gpu(const struct transport_question *question,
                                          struct transport_choice *out)
{
    const struct topo_settings *settings = question->view->settings;

    out->path = TOPO_LOC;
    out->limit = TOPO_LOC;
    return settings->has_p2p_level && settings->p2p_level == TOPO_LOC
               ? TRANSPORT_OFF
               : may_open(question);
}

/* Implements p2pCanConnect. Checks the path first; then, unless a GPU between the two forwards,
 * whether the network is wider; then what the driver reports. */
static weft_status ask_p2p(const struct transport_question *question,
                           struct transport_choice *out, struct weft_error *error)
{
    const struct topo_view *view = question->view;
    enum transport_reason *reason = &out->reasons[WEFT_TRANSPORT_P2P];
    int self = (int)question->self, peer = (int)question->peer;
    const struct topo_node *from, *to;
    struct topo_p2p p2p;
    weft_status status;

    *reason = can_share(view->comm, question->self, question->peer);
    if (*reason != TRANSPORT_CAN) {
        return WEFT_OK;
    }
    if (question->is_same_gpu) {
        *reason = ask_same_gpu(question, out);
        return WEFT_OK;
    }
    from = view->system == NULL ? NULL : topo_gpu_of(view->system, self);
    to = view->system == NULL ? NULL : topo_gpu_of(view->system, peer);
    if (from == NULL || to == NULL) {
        *reason = view->system == NULL ? TRANSPORT_INSIDE_UNKNOWN : TRANSPORT_APART;
        return WEFT_OK;
    }
    out->path = topo_path(from, to)->type;
    out->limit = topo_p2p_level(view);
    status = topo_check_p2p(view, self, peer, &p2p, error);
    if (status != WEFT_OK) {
        return status;
    }
    out->reads = p2p.reads;
    if (!p2p.is_on) {
        *reason = out->path > out->limit ? TRANSPORT_TOO_FAR : TRANSPORT_NO_ACCESS;
    } else if (p2p.intermediate_rank < 0 && topo_check_net(view, self, peer)) {
        *reason = TRANSPORT_NET_IS_WIDER;
    } else {
        *reason = may_open(question);
    }
    return WEFT_OK;
}

static bool net_is_wider(const struct transport_question *question)
{
    const struct topo_view *view = question->view;

    return view->system != NULL &&
           topo_check_net(view, (int)question->self, (int)question->peer);
}

static enum transport_reason ask_shm(const struct transport_question *question)
{
    const struct topo_view *view = question->view;
    enum transport_reason reason;

    if (view->settings->shm_disable) {
        return TRANSPORT_OFF;
    }
    reason = can_share(view->comm, question->self, question->peer);
    return reason == TRANSPORT_CAN && net_is_wider(question) ? TRANSPORT_NET_IS_WIDER
                                                             : reason;
}

/* Decides net. If topo_trim() removed one of the GPUs, net_is_wider() is true. */
static enum transport_reason ask_net(const struct transport_question *question)
{
    const struct topo_view *view = question->view;
    const struct topo_comm *comm = view->comm;

    if (comm->peers[question->self].host_hash != comm->peers[question->peer].host_hash) {
        return TRANSPORT_CAN;
    }
    if (view->settings->net_disable_intra) {
        return TRANSPORT_OFF;
    }
    if (view->system == NULL) {
        return TRANSPORT_CAN;
    }
    return net_is_wider(question) ? TRANSPORT_CAN : TRANSPORT_INSIDE_WIDER;
}

weft_status transport_choose(const struct transport_question *question,
                             struct transport_choice *out, struct weft_error *error)
{
    weft_status status;

    *out = (struct transport_choice){.path = TOPO_DIS, .limit = TOPO_DIS};
    status = ask_p2p(question, out, error);
    if (status != WEFT_OK) {
        return status;
    }
    for (int kind = 0; kind < WEFT_N_TRANSPORTS && !out->is_made; kind++) {
        if (kind == WEFT_TRANSPORT_SHM) {
            out->reasons[kind] = ask_shm(question);
        } else if (kind == WEFT_TRANSPORT_NET) {
            out->reasons[kind] = ask_net(question);
        } else if (kind == WEFT_TRANSPORT_COLLNET) {
            out->reasons[kind] = TRANSPORT_NO_PLUGIN;
        }
        out->is_made = out->reasons[kind] == TRANSPORT_CAN;
        out->kind = (enum weft_transport)kind;
    }
    return WEFT_OK;
}

void transport_fall_back(struct transport_choice *choice, enum transport_reason reason,
                         int sys_errno)
{
    choice->kind = WEFT_TRANSPORT_SHM;
    choice->reads = false;
    choice->reasons[WEFT_TRANSPORT_P2P] = reason;
    choice->reasons[WEFT_TRANSPORT_SHM] = TRANSPORT_CAN;
    choice->sys_errno = sys_errno;
}

/* ---- as text ---- */

static const char *word_of(enum transport_reason reason, enum weft_transport kind)
{
    switch (reason) {
    case TRANSPORT_NOT_ASKED:
        break;
    case TRANSPORT_CAN:
        return kind == WEFT_TRANSPORT_SHM   ? "same /dev/shm"
               : kind == WEFT_TRANSPORT_NET ? "the network reaches it"
                                            : "near enough";
    case TRANSPORT_OTHER_HOST:
        return "another host";
    case TRANSPORT_OTHER_SHM:
        return "other /dev/shm";
    case TRANSPORT_NO_SHM:
        return "no /dev/shm";
    case TRANSPORT_OFF:
        return "switched off";
    case TRANSPORT_TOO_FAR:
        return "too far";
    case TRANSPORT_NET_IS_WIDER:
        return "the network is wider";
    case TRANSPORT_NO_ACCESS:
        return "no peer access";
    case TRANSPORT_NOT_OPENED:
        return "memory not opened";
    case TRANSPORT_OTHER_END:
        return "the other end cannot";
    case TRANSPORT_APART:
        return "out of reach inside";
    case TRANSPORT_INSIDE_UNKNOWN:
        return "inside unknown";
    case TRANSPORT_INSIDE_WIDER:
        return "the way inside is no slower";
    case TRANSPORT_NO_PLUGIN:
        return "no such network";
    }
    return "";
}

char *transport_why(const struct transport_choice *choice, char out[TRANSPORT_WHY_BYTES])
{
    size_t n = 0;

    out[0] = '\0';
    for (int kind = 0; kind < WEFT_N_TRANSPORTS; kind++) {
        enum transport_reason reason = choice->reasons[kind];
        const char *name = weft_transport_name((enum weft_transport)kind);
        const char *separator = n == 0 ? "" : "; ";

        if (reason == TRANSPORT_NOT_ASKED) {
            continue;
        }
        if (kind == WEFT_TRANSPORT_P2P && reason == TRANSPORT_TOO_FAR) {
            weft_format(out + n, TRANSPORT_WHY_BYTES - n,
                        "%s%s: path %s is farther than %s", separator, name,
                        topo_path_name(choice->path), topo_path_name(choice->limit));
        } else if (kind == WEFT_TRANSPORT_P2P && reason == TRANSPORT_CAN &&
                   choice->path == TOPO_LOC) {
            weft_format(out + n, TRANSPORT_WHY_BYTES - n, "%s%s: same GPU", separator,
                        name);
        } else if (kind == WEFT_TRANSPORT_P2P && reason == TRANSPORT_CAN) {
            weft_format(out + n, TRANSPORT_WHY_BYTES - n, "%s%s: path %s%s", separator,
                        name, topo_path_name(choice->path),
                        choice->reads ? ", read by the receiver" : "");
        } else if (reason == TRANSPORT_NOT_OPENED) {
            weft_format(out + n, TRANSPORT_WHY_BYTES - n,
                        "%s%s: memory not opened (errno %d)", separator, name,
                        choice->sys_errno);
        } else {
            weft_format(out + n, TRANSPORT_WHY_BYTES - n, "%s%s: %s", separator, name,
                        word_of(reason, (enum weft_transport)kind));
        }
        n += strlen(out + n);
    }
    return out;
}
