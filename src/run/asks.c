#include "run/asks.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "run/seeing.h"

/* ---- one rank ---- */

/* Fills `out` with the ports of a NET. */
static weft_status nic_of(const struct run_seeing *seeing, uint64_t net_id,
                          int proxy_rank, struct run_nic *out, struct weft_error *error)
{
    int dev = (int)topo_local_of(net_id);

    *out = (struct run_nic){.dev = dev, .proxy_rank = proxy_rank};
    for (uint32_t i = 0; i < seeing->n_nets; i++) {
        const struct topo_net_ports *net = &seeing->nets[i];

        for (uint32_t k = 0; net->dev == dev && k < net->n_nets; k++) {
            out->ports[out->n_ports++] = net->nets[k]; /* ordered as the host's ports */
        }
    }
    return out->n_ports > 0 ? WEFT_OK
                            : weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_PATHS,
                                        "there is no network");
}

/* Selects a rank's NIC on a channel of the ring as NCCL's net.cc does: the channel's first NET if
 * the rank is the first of its host on the channel, otherwise the second. */
static weft_status ring_nic(const struct run_seeing *seeing, uint32_t rank,
                            uint32_t channel, struct run_nic *out,
                            struct weft_error *error)
{
    const struct topo_graph *ring = seeing->ring;
    uint32_t n_gpus = seeing->system->n[TOPO_GPU];
    uint32_t index = ring->ranks[channel * n_gpus] == (int)rank ? 0 : 1;
    uint64_t id = ring->nets[channel * 2 + index];
    const struct topo_node *net = NULL;
    int proxy_rank = (int)rank;
    weft_status status = WEFT_OK;

    for (uint32_t i = 0; i < seeing->system->n[TOPO_NET]; i++) {
        net = seeing->system->nodes[TOPO_NET][i]->id == id
                  ? seeing->system->nodes[TOPO_NET][i]
                  : net;
    }
    if (net != NULL) {
        status = topo_intermediate_rank(topo_gpu_of(seeing->system, (int)rank), net,
                                        &proxy_rank, error);
    }
    return status == WEFT_OK ? nic_of(seeing, id, proxy_rank, out, error) : status;
}

/* The receiving end passes itself as the peer. */
static weft_status pair_nic(const struct run_seeing *seeing, uint32_t rank, uint32_t peer,
                            uint32_t channel, struct run_nic *out,
                            struct weft_error *error)
{
    struct topo_net_choice choice;
    weft_status status =
        topo_net_for(&seeing->view, (int)rank, channel, (int)peer, &choice, error);

    return status == WEFT_OK
               ? nic_of(seeing, choice.net->id, choice.proxy_rank, out, error)
               : status;
}

weft_status run_asks_of_rank(const struct scenario_world *world, uint32_t rank,
                             bool as_net_ib, bool is_ring, struct run_nic *out,
                             struct weft_error *error)
{
    struct run_seeing seeing;
    weft_status status = run_see(world, rank, as_net_ib, &seeing, error);

    if (status == WEFT_OK && is_ring) {
        status = ring_nic(&seeing, rank, 0, out, error);
    } else if (status == WEFT_OK) {
        status = pair_nic(&seeing, rank, rank, 0, out, error);
    }
    run_unsee(&seeing);
    return status;
}

/* ---- all ranks ---- */

struct asking {
    const struct scenario_world *world;
    /* The topology as each rank has it [n_ranks]. Ranks of a host that can reach each other share
     * one entry, which the first of them owns. */
    struct run_seeing **ranks;
    uint32_t *nodes; /* Owned [n_nodes]; one rank of each node, in rank order */
    uint32_t n_nodes;
    struct run_asks *out;
};

static struct run_ask *add_ask(struct asking *asking, const struct run_ask *ask)
{
    struct run_asks *out = asking->out;

    if ((out->n & (out->n + 1)) == 0) {
        out->asks =
            weft_realloc(out->asks, (2 * (size_t)out->n + 1) * sizeof(*out->asks));
    }
    out->asks[out->n] = *ask;
    return &out->asks[out->n++];
}

static uint32_t host_of(const struct asking *asking, uint32_t rank)
{
    return asking->world->ranks[rank].host;
}

/* Groups ranks into nodes by the first rank of their first channel, as NCCL does. */
static void find_nodes(struct asking *asking)
{
    struct run_asks *out = asking->out;

    out->n_channels = INT32_MAX;
    for (uint32_t i = 0; i < asking->world->n_ranks; i++) {
        const struct topo_graph *ring = asking->ranks[i]->ring;
        bool is_known = false;

        for (uint32_t k = 0; k < asking->n_nodes; k++) {
            is_known = is_known ||
                       asking->ranks[asking->nodes[k]]->ring->ranks[0] == ring->ranks[0];
        }
        if (!is_known) {
            asking->nodes[asking->n_nodes++] = i;
        }
        out->n_channels =
            ring->n_channels < out->n_channels ? ring->n_channels : out->n_channels;
        out->cross_nic =
            ring->cross_nic > out->cross_nic ? ring->cross_nic : out->cross_nic;
    }
}

/* Returns the first and the last rank of a node on a channel. With cross_nic and an even number of
 * nodes, every second node exchanges the channels of a pair. */
static void ends_of(const struct asking *asking, uint32_t node, uint32_t channel,
                    uint32_t *out_first, uint32_t *out_last)
{
    const struct run_seeing *seeing = asking->ranks[asking->nodes[node]];
    uint32_t n_gpus = seeing->system->n[TOPO_GPU];
    bool is_swapped = seeing->ring->cross_nic != 0 && asking->n_nodes % 2 == 0 &&
                      node % 2 == 1 && (channel ^ 1) < (uint32_t)asking->out->n_channels;
    uint32_t at = (is_swapped ? channel ^ 1 : channel) * n_gpus;

    *out_first = (uint32_t)seeing->ring->ranks[at];
    *out_last = (uint32_t)seeing->ring->ranks[at + n_gpus - 1];
}

static weft_status ask_rings(struct asking *asking, struct weft_error *error)
{
    weft_status status = WEFT_OK;

    for (uint32_t c = 0; c < (uint32_t)asking->out->n_channels; c++) {
        for (uint32_t i = 0; i < asking->n_nodes && status == WEFT_OK; i++) {
            struct run_ask ask = {.is_ring = true, .channel = c};
            uint32_t unused;

            ends_of(asking, i, c, &unused, &ask.from);
            ends_of(asking, (i + 1) % asking->n_nodes, c, &ask.to, &unused);
            if (host_of(asking, ask.from) == host_of(asking, ask.to)) {
                continue;
            }
            status = ring_nic(asking->ranks[ask.from], ask.from, c, &ask.send, error);
            if (status == WEFT_OK) {
                status = ring_nic(asking->ranks[ask.to], ask.to, c, &ask.receive, error);
            }
            add_ask(asking, &ask);
        }
    }
    return status;
}

static bool is_same_nic(const struct run_nic *a, const struct run_nic *b)
{
    return a->dev == b->dev && a->proxy_rank == b->proxy_rank;
}

/* Adds the connections of a pair, one for each channel that does not repeat the NICs of an earlier
 * one. */
static weft_status ask_pair(struct asking *asking, uint32_t from, uint32_t to,
                            uint32_t n_channels, struct weft_error *error)
{
    uint32_t first = asking->out->n;
    weft_status status = WEFT_OK;

    for (uint32_t c = 0; c < n_channels && status == WEFT_OK; c++) {
        struct run_ask ask = {.channel = c, .from = from, .to = to};
        bool is_known = false;

        status = pair_nic(asking->ranks[from], from, to, c, &ask.send, error);
        if (status == WEFT_OK) {
            status = pair_nic(asking->ranks[to], to, to, c, &ask.receive, error);
        }
        for (uint32_t i = first; i < asking->out->n; i++) {
            is_known =
                is_known || (is_same_nic(&asking->out->asks[i].send, &ask.send) &&
                             is_same_nic(&asking->out->asks[i].receive, &ask.receive));
        }
        if (status == WEFT_OK && !is_known) {
            add_ask(asking, &ask);
        }
    }
    return status;
}

static weft_status ask_pairs(struct asking *asking, struct weft_error *error)
{
    uint32_t n = asking->world->n_ranks;
    uint32_t n_all, n_channels = TOPO_CHANNELS_MAX;
    weft_status status = WEFT_OK;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t n_own;

        topo_p2p_channels(&asking->ranks[i]->view, 2 * (uint32_t)asking->out->n_channels,
                          &n_all, &n_own);
        n_channels = n_own < n_channels ? n_own : n_channels;
    }
    for (uint32_t i = 0; i < n * n && status == WEFT_OK; i++) {
        if (host_of(asking, i / n) != host_of(asking, i % n)) {
            status = ask_pair(asking, i / n, i % n, n_channels, error);
        }
    }
    return status;
}

static weft_status see_or_share(struct asking *asking, uint32_t rank, bool as_net_ib,
                                struct weft_error *error)
{
    for (uint32_t i = 0; i < rank; i++) {
        if (host_of(asking, i) == host_of(asking, rank) &&
            topo_gpu_of(asking->ranks[i]->system, (int)rank) != NULL) {
            asking->ranks[rank] = asking->ranks[i];
            return WEFT_OK;
        }
    }
    asking->ranks[rank] = weft_calloc(1, sizeof(*asking->ranks[rank]));
    return run_see(asking->world, rank, as_net_ib, asking->ranks[rank], error);
}

static bool is_one_host(const struct scenario_world *world)
{
    bool is_one = true;

    for (uint32_t i = 1; i < world->n_ranks; i++) {
        is_one = is_one && world->ranks[i].host == world->ranks[0].host;
    }
    return is_one;
}

weft_status run_asks_make(const struct scenario_world *world, bool as_net_ib,
                          struct run_asks *out, struct weft_error *error)
{
    struct asking asking = {.world = world, .out = out};
    weft_status status = WEFT_OK;
    uint32_t n_seen = 0;

    *out = (struct run_asks){.n_channels = 0};
    if (is_one_host(world)) {
        return WEFT_OK; /* no connection between hosts */
    }
    asking.ranks = weft_calloc(world->n_ranks + 1, sizeof(*asking.ranks));
    asking.nodes = weft_calloc(world->n_ranks + 1, sizeof(*asking.nodes));
    while (n_seen < world->n_ranks && status == WEFT_OK) {
        status = see_or_share(&asking, n_seen++, as_net_ib, error);
    }
    if (status == WEFT_OK) {
        find_nodes(&asking);
        status = ask_rings(&asking, error);
    }
    if (status == WEFT_OK) {
        status = ask_pairs(&asking, error);
    }
    /* Backwards, so that an entry is freed after its last user. */
    for (uint32_t i = n_seen; i > 0; i--) {
        struct run_seeing *seeing = asking.ranks[i - 1];

        if (seeing->comm.rank == i - 1) {
            run_unsee(seeing);
            free(seeing);
        }
    }
    free(asking.ranks);
    free(asking.nodes);
    return status;
}

void run_asks_fini(struct run_asks *asks)
{
    free(asks->asks);
    *asks = (struct run_asks){.n_channels = 0};
}
