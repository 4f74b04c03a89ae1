/* All-gathers of the ranks' facts and connectors' blobs, and the choice of transports from the
 * facts. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "transport/inside_private.h"

/* ---- facts ---- */

static void own_facts(struct inside *inside, struct inside_facts *out)
{
    struct io_env *env = inside->env;

    *out = (struct inside_facts){
        .has_proxy = inside->listener != NULL,
        .at = {.ip = inside->at.ip, .port = inside->at.port},
        .shm_dev = env->shm == NULL ? 0 : env->ops->hostinfo(env)->shm_dev,
    };
    weft_format(out->gpu, sizeof(out->gpu), "%s", env->gpu->uuid);
}

static weft_status take_facts(struct inside *inside, const uint8_t *result)
{
    for (uint32_t rank = 0; rank < inside->config.n_members; rank++) {
        struct topo_peer *peer = &inside->peers[rank];
        uint32_t place = inside_place(inside, rank);
        struct inside_facts facts;
        weft_status status = inside_decode_facts(
            result + (size_t)rank * INSIDE_FACTS_BYTES, &facts, &inside->error);

        if (status != WEFT_OK) {
            inside->error_peer = rank;
            return status;
        }
        /* A rank without a proxy cannot be asked for memory, so it cannot share any. */
        *peer = (struct topo_peer){.host_hash = (uint64_t)inside->host_of[rank] + 1,
                                   .shm_dev = facts.has_proxy ? facts.shm_dev : 0,
                                   .nvml_dev = place == UINT32_MAX ? 0 : (int)place};
        if (place != UINT32_MAX) {
            inside->facts[place] = facts;
        }
    }
    return WEFT_OK;
}

/* ---- choosing ---- */

static bool reaches(struct inside *inside, uint32_t place)
{
    struct io_gpu *gpu = inside->env->gpu;

    return gpu->ops->can_access != NULL &&
           gpu->ops->can_access(gpu, inside->facts[place].gpu);
}

/* Returns false if this process works on host memory and has no GPU. */
static bool has_same_gpu(const struct inside *inside, uint32_t place)
{
    const struct io_gpu *gpu = inside->env->gpu;

    return gpu->sharing != NULL && strcmp(inside->facts[place].gpu, gpu->uuid) == 0;
}

/* Returns true if settings forbid opening memory of the peer. The rings of p2p also use CUDA
 * IPC. */
static bool may_not(const struct inside *inside, uint32_t place)
{
    const struct ipc_settings *settings = &inside->ipc_settings;

    return settings->is_off ||
           (settings->forbids_same_gpu && has_same_gpu(inside, place));
}

static void add_link(struct inside *inside, uint32_t place, bool is_sender,
                     uint32_t channel, const struct transport_choice *choice)
{
    uint32_t at = inside_link_index(inside, place, is_sender, channel);
    struct inside_link *link = weft_calloc(1, sizeof(*link));

    inside->links[at] = link;
    link->choice = *choice;
    link->inside = inside;
    link->peer = inside->locals[place];
    link->is_sender = is_sender;
    link->connector.channel = channel;
    /* The receiver owns shared memory (NCCL_SHM_LOCALITY=2). With p2p the sender writes to the
     * receiver's GPU, unless the receiver reads. */
    link->is_owner = link->choice.reads ? is_sender : !is_sender;
    inside->order[inside->n_links++] = at;
}

/* Chooses the transport of one direction, for all its channels alike, because the rules do not
 * depend on the channel. */
static weft_status choose(struct inside *inside, uint32_t place, bool is_sender)
{
    uint32_t peer = inside->locals[place];
    uint32_t channels =
        (is_sender ? inside->send_channels : inside->receive_channels)[peer];
    struct transport_choice choice;
    const struct transport_question question = {.view = &inside->view,
                                                .self = inside->config.rank,
                                                .peer = peer,
                                                .is_same_gpu =
                                                    has_same_gpu(inside, place),
                                                .can_access = reaches(inside, place),
                                                .is_ipc_off = may_not(inside, place)};
    weft_status status;

    if (channels == 0) {
        return WEFT_OK;
    }
    status = transport_choose(&question, &choice, &inside->error);
    if (status != WEFT_OK) {
        inside->error_peer = peer;
        return status;
    }
    if (!choice.is_made) {
        char why[TRANSPORT_WHY_BYTES];

        return inside_fail(inside, peer, WEFT_ERR_ROUTE, WEFT_PHASE_INSIDE,
                           "no transport found: %s", transport_why(&choice, why));
    }
    for (uint32_t c = 0; c < inside->config.n_channels; c++) {
        if ((channels >> c & 1) != 0) {
            add_link(inside, place, is_sender, c, &choice);
        }
    }
    return WEFT_OK;
}

/* Visits peers in NCCL's order: the rank i before, from which this rank receives, then the rank
 * i after. */
static weft_status choose_all(struct inside *inside)
{
    uint32_t n = inside->n_locals;
    weft_status status = WEFT_OK;

    inside->comm = (struct topo_comm){.rank = inside->config.rank,
                                      .n_ranks = inside->config.n_members,
                                      .peers = inside->peers};
    inside->view =
        (struct topo_view){.settings = &inside->settings, .comm = &inside->comm};
    inside_find_topology(inside);
    for (uint32_t i = 1; i < n && status == WEFT_OK; i++) {
        status = choose(inside, (inside->self + n - i) % n, false);
        if (status == WEFT_OK) {
            status = choose(inside, (inside->self + i) % n, true);
        }
    }
    return status;
}

struct inside_link *inside_link_at(const struct inside *inside, uint32_t i)
{
    struct inside_link *link = inside->links[inside->order[i]];

    return link->choice.kind == WEFT_TRANSPORT_NET ? NULL : link;
}

weft_status inside_links_progress(struct inside *inside)
{
    weft_status status = WEFT_OK;

    for (uint32_t i = 0; i < inside->n_links && status == WEFT_OK; i++) {
        struct inside_link *link = inside_link_at(inside, i);

        if (link != NULL) {
            status = inside_link_progress(link);
        }
    }
    return status;
}

/* ---- rounds ---- */

/* Returns the number of offsets in this round. An offset i has the blobs for the rank i before,
 * then those for the rank i after. */
static uint32_t offsets_of_round(const struct inside *inside)
{
    uint32_t left = inside->n_locals_max - 1 - inside->n_offsets;
    uint32_t most = INSIDE_ROUND_PEERS / inside->config.n_channels;

    return left < most ? left : most;
}

/* Returns the size of the blobs of one direction of one offset. */
static size_t blobs_bytes(const struct inside *inside)
{
    return (size_t)inside->config.n_channels * INSIDE_BLOB_BYTES;
}

static void put_blobs(struct inside *inside, uint32_t place, bool is_sender, uint8_t *out)
{
    for (uint32_t c = 0; c < inside->config.n_channels; c++) {
        const struct inside_link *link =
            inside->links[inside_link_index(inside, place, is_sender, c)];
        struct inside_blob blob = {.is_there = false};

        if (link != NULL && link->choice.kind != WEFT_TRANSPORT_NET) {
            inside_blob_of(link, &blob);
        }
        inside_encode_blob(&blob, out + (size_t)c * INSIDE_BLOB_BYTES);
    }
}

static size_t round_bytes(const struct inside *inside)
{
    return 2 * (size_t)offsets_of_round(inside) * blobs_bytes(inside);
}

static void make_round(struct inside *inside)
{
    uint32_t n = inside->n_locals, n_here = offsets_of_round(inside);
    uint8_t *out;

    inside->round_bytes = weft_realloc(inside->round_bytes, round_bytes(inside));
    out = inside->round_bytes;
    memset(out, 0, round_bytes(inside));
    for (uint32_t k = 0; k < n_here; k++) {
        uint32_t i = inside->n_offsets + 1 + k;

        if (i < n) {
            put_blobs(inside, (inside->self + n - i) % n, false, out);
            put_blobs(inside, (inside->self + i) % n, true, out + blobs_bytes(inside));
        }
        out += 2 * blobs_bytes(inside);
    }
}

weft_status inside_round(struct inside *inside, const uint8_t **out_bytes,
                         size_t *out_n_bytes, struct weft_error *error)
{
    struct inside_facts facts;
    weft_status status = WEFT_OK;

    if (inside->state == INSIDE_FACTS) {
        own_facts(inside, &facts);
        inside->round_bytes = weft_realloc(inside->round_bytes, INSIDE_FACTS_BYTES);
        inside_encode_facts(&facts, inside->round_bytes);
        *out_n_bytes = INSIDE_FACTS_BYTES;
    } else {
        status = inside_links_progress(inside);
        if (status < 0) {
            *error = inside->error;
            return status;
        }
        if (inside->state == INSIDE_SETUP) {
            inside_enter(inside, INSIDE_EXCHANGE);
        }
        *out_n_bytes = round_bytes(inside);
        if (*out_n_bytes > 0) {
            make_round(inside);
        }
    }
    *out_bytes = inside->round_bytes;
    return status;
}

static weft_status take_blob(struct inside *inside, const uint8_t *bytes, uint32_t place,
                             bool is_sender, uint32_t channel)
{
    struct inside_link *link =
        inside->links[inside_link_index(inside, place, is_sender, channel)];
    struct inside_blob blob;
    weft_status status = inside_decode_blob(bytes, &blob, &inside->error);

    if (status != WEFT_OK) {
        inside->error_peer = inside->locals[place];
        return status;
    }
    return link == NULL || link->choice.kind == WEFT_TRANSPORT_NET
               ? WEFT_OK
               : inside_blob_take(link, &blob);
}

/* Takes the blobs of all channels of one direction from the rank at `place`. */
static weft_status take_blobs(struct inside *inside, const uint8_t *bytes, uint32_t place,
                              bool is_sender)
{
    weft_status status = WEFT_OK;

    for (uint32_t c = 0; c < inside->config.n_channels && status == WEFT_OK; c++) {
        status =
            take_blob(inside, bytes + (size_t)c * INSIDE_BLOB_BYTES, place, is_sender, c);
    }
    return status;
}

/* Takes from the rank i before the blobs it sent to the rank i after it, which is this one, and
 * from the rank i after those it sent to the rank i before. */
static weft_status take_round(struct inside *inside, const uint8_t *result)
{
    uint32_t n = inside->n_locals, n_here = offsets_of_round(inside);
    size_t each = round_bytes(inside), half = blobs_bytes(inside);
    weft_status status = WEFT_OK;

    for (uint32_t k = 0; k < n_here && status == WEFT_OK; k++) {
        uint32_t i = inside->n_offsets + 1 + k;
        uint32_t before = (inside->self + n - i % (n + !n)) % (n + !n);
        uint32_t after = (inside->self + i) % (n + !n);
        size_t at = 2 * (size_t)k * half;

        if (i >= n) {
            break;
        }
        status = take_blobs(inside, result + inside->locals[before] * each + at + half,
                            before, false);
        if (status == WEFT_OK) {
            status = take_blobs(inside, result + inside->locals[after] * each + at, after,
                                true);
        }
    }
    inside->n_offsets += n_here;
    return status;
}

static weft_status dial_all(struct inside *inside)
{
    weft_status status = WEFT_OK;

    for (uint32_t i = 0; i < inside->n_links && status == WEFT_OK; i++) {
        const struct inside_link *link = inside_link_at(inside, i);
        uint32_t place = link == NULL ? 0 : inside_place(inside, link->peer);

        if (link != NULL && inside->streams[place] == NULL) {
            status = inside_dial(inside, place);
        }
    }
    return status;
}

weft_status inside_take(struct inside *inside, const uint8_t *result,
                        struct weft_error *error)
{
    weft_status status;

    inside->round++;
    if (inside->state == INSIDE_FACTS) {
        status = take_facts(inside, result);
        if (status == WEFT_OK) {
            status = choose_all(inside);
        }
        inside_enter(inside, INSIDE_SETUP);
    } else {
        status = take_round(inside, result);
        if (status == WEFT_OK && offsets_of_round(inside) == 0) {
            inside_enter(inside, INSIDE_CONNECT);
            status = dial_all(inside);
        }
    }
    if (status < 0) {
        *error = inside->error;
    }
    return status;
}
