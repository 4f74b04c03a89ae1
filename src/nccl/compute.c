/* Paths as NCCL uses them: those that the search found, changed by what is permitted. */
#include <string.h>

#include "base/check.h"
#include "nccl/paths.h"
#include "nccl/query.h"
#include "nccl/search.h"

/* Returns the type of a path of two parts. */
static enum topo_path_type merged(const struct topo_rules *rules, enum topo_path_type a,
                                  enum topo_path_type b)
{
    enum topo_path_type far = a > b ? a : b;
    enum topo_path_type near = a > b ? b : a;

    return rules->has_c2c && far == TOPO_PHB && near == TOPO_C2C ? TOPO_P2C : far;
}

/* Sets the path from `from` to `to` to the one through `middle`, even if it contains loops. */
static void divert(struct topo_system *system, struct topo_node *middle,
                   struct topo_node *from, const struct topo_node *to)
{
    const struct topo_path *first = topo_own_path(system, from, middle);
    const struct topo_path *second = topo_own_path(system, middle, to);
    struct topo_path *path = topo_own_path(system, from, to);
    uint32_t n = first->n_hops + second->n_hops;
    struct topo_link **hops = topo_hops(system, n);

    if (first->n_hops > 0) {
        memcpy(hops, first->hops, first->n_hops * sizeof(*hops));
    }
    if (second->n_hops > 0) {
        memcpy(hops + first->n_hops, second->hops, second->n_hops * sizeof(*hops));
    }
    path->type = middle->type == TOPO_GPU
                     ? TOPO_PXN
                     : merged(system->rules, first->type, second->type);
    path->bw = first->bw < second->bw ? first->bw : second->bw;
    path->n_hops = n;
    path->hops = hops;
}

static weft_status search_all(const struct topo_view *view, struct weft_error *error)
{
    static const enum topo_type bases[] = {TOPO_CPU, TOPO_GPU, TOPO_NET, TOPO_NVS};
    struct topo_system *system = view->system;

    for (size_t i = 0; i < WEFT_LENGTH(bases); i++) {
        for (uint32_t k = 0; k < system->n[bases[i]]; k++) {
            weft_status status = topo_search_from(system, system->nodes[bases[i]][k],
                                                  view->settings->nvb_disable, error);

            if (status != WEFT_OK) {
                return status;
            }
        }
    }
    return WEFT_OK;
}

static weft_status no_cpu(const struct topo_node *gpu, struct weft_error *error)
{
    char name[TOPO_NAME_BYTES];

    return weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_PATHS, "no CPU is near %s",
                     topo_node_name(gpu, name));
}

/* State of settle_gpus. net_speeds is computed first, from unchanged paths to NETs. */
struct settling {
    const struct topo_view *view;
    float net_speeds[TOPO_NODES_MAX]; /* by GPU */
};

/* Without peer access, moves the path through the CPU of the destination. */
static weft_status divert_p2p(const struct settling *settling, struct topo_node *from,
                              const struct topo_node *to, struct weft_error *error)
{
    struct topo_p2p p2p;
    struct topo_node *cpu;
    weft_status status = topo_check_gpus(settling->view, from, to, &p2p, error);

    if (status != WEFT_OK || p2p.is_on) {
        return status;
    }
    cpu = topo_local_cpu(settling->view->system, to);
    if (cpu == NULL) {
        return no_cpu(to, error);
    }
    divert(settling->view->system, cpu, from, to);
    topo_tell(
        settling->view,
        (struct topo_event){.kind = TOPO_NO_P2P, .from = from, .to = to, .middle = cpu});
    return WEFT_OK;
}

/* Marks the path as network only if neither peer access nor shared memory would connect the
 * GPUs, by the rules of topo_p2p_can_connect and topo_shm_can_connect. */
static weft_status set_apart(const struct settling *settling, struct topo_node *from,
                             const struct topo_node *to, struct weft_error *error)
{
    const struct topo_view *view = settling->view;
    struct topo_path *path = topo_own_path(view->system, from, to);
    bool prefers_net = !view->settings->net_disable_intra &&
                       settling->net_speeds[from->index] > path->bw &&
                       settling->net_speeds[to->index] > path->bw;
    bool shares = topo_share_memory(view->comm, from->u.gpu.rank, to->u.gpu.rank);
    bool by_shm = shares && !view->settings->shm_disable && !prefers_net;
    struct topo_p2p p2p;
    weft_status status = topo_check_gpus(view, from, to, &p2p, error);
    bool by_p2p = p2p.is_on && (p2p.intermediate_rank != -1 || !prefers_net);

    if (status == WEFT_OK && !by_p2p && !by_shm) {
        path->type = TOPO_NETWORK;
        topo_tell(view, (struct topo_event){.kind = TOPO_APART, .from = from, .to = to});
    }
    return status;
}

static weft_status settle_gpus(const struct topo_view *view, struct weft_error *error)
{
    struct topo_system *system = view->system;
    struct topo_node **gpus = system->nodes[TOPO_GPU];
    struct settling settling = {.view = view};
    weft_status status = WEFT_OK;

    for (uint32_t i = 0; i < system->n[TOPO_GPU]; i++) {
        settling.net_speeds[i] = topo_net_speed(system, gpus[i]);
    }
    for (uint32_t to = 0; to < system->n[TOPO_GPU]; to++) {
        for (uint32_t from = 0; status == WEFT_OK && from < system->n[TOPO_GPU]; from++) {
            status = divert_p2p(&settling, gpus[from], gpus[to], error);
        }
        for (uint32_t from = 0;
             status == WEFT_OK && view->comm != NULL && from < system->n[TOPO_GPU];
             from++) {
            if (from != to) {
                status = set_apart(&settling, gpus[from], gpus[to], error);
            }
        }
    }
    return status;
}

/* Prefers a coherent link followed by the CPU's PCI to a path through a CPU. */
static weft_status note_c2c(const struct topo_view *view, struct weft_error *error)
{
    struct topo_system *system = view->system;

    for (uint32_t n = 0; system->rules->has_c2c && n < system->n[TOPO_NET]; n++) {
        struct topo_node *net = system->nodes[TOPO_NET][n];

        for (uint32_t g = 0; g < system->n[TOPO_GPU]; g++) {
            struct topo_node *gpu = system->nodes[TOPO_GPU][g];
            const struct topo_node *cpu = topo_local_cpu(system, gpu);

            if (cpu == NULL) {
                return no_cpu(gpu, error);
            }
            struct topo_path *there = topo_own_path(system, gpu, net);
            struct topo_path *back = topo_own_path(system, net, gpu);
            if (merged(system->rules, topo_own_path(system, gpu, cpu)->type,
                       topo_own_path(system, net, cpu)->type) == TOPO_P2C) {
                there->type = there->type < TOPO_P2C ? there->type : TOPO_P2C;
                back->type = back->type < TOPO_P2C ? back->type : TOPO_P2C;
                topo_tell(view, (struct topo_event){
                                    .kind = TOPO_BY_C2C, .from = gpu, .to = net});
            }
        }
    }
    return WEFT_OK;
}

/* The GPU that serves a NET for others. Valid until a path that decides it changes. */
struct relaying {
    struct topo_node *net;
    struct topo_node *relay;                /* NULL if there is none */
    struct topo_node *near[TOPO_NODES_MAX]; /* GPUs whose paths to NETs decide it */
    uint32_t n_near;
    bool is_known;
};

static struct topo_node *relay_of(const struct topo_view *view, struct relaying *relaying)
{
    if (!relaying->is_known) {
        relaying->is_known = true;
        relaying->relay = topo_local_gpu(view->system, relaying->net);
        relaying->n_near =
            topo_locals(view->system, relaying->net, TOPO_GPU, relaying->near);
    }
    return relaying->relay;
}

static bool is_near(const struct relaying *relaying, const struct topo_node *gpu)
{
    for (uint32_t i = 0; i < relaying->n_near; i++) {
        if (relaying->near[i] == gpu) {
            return true;
        }
    }
    return false;
}

/* Moves the path to a NET through a GPU that has NVLink to this one and is nearer to the NIC.
 * Only in the direction of sending. */
static void divert_pxn(const struct topo_view *view, struct topo_node *gpu,
                       struct relaying *relaying)
{
    struct topo_system *system = view->system;
    const struct topo_node *net = relaying->net;
    struct topo_node *relay = topo_pxn_is_off(view) ? NULL : relay_of(view, relaying);

    if (relay == NULL || relay == gpu) {
        return;
    }
    const struct topo_path *own = topo_own_path(system, gpu, net);
    const struct topo_path *theirs = topo_own_path(system, relay, net);
    if (theirs->type <= topo_pxn_reach(view) &&
        topo_own_path(system, relay, gpu)->type <= TOPO_NVL &&
        topo_system_of(relay->id) == topo_system_of(gpu->id) &&
        (theirs->bw > own->bw || own->type > system->rules->pxn_above)) {
        divert(system, relay, gpu, net);
        topo_tell(view,
                  (struct topo_event){
                      .kind = TOPO_BY_PXN, .from = gpu, .to = net, .middle = relay});
        relaying->is_known = relaying->is_known && !is_near(relaying, gpu);
    }
}

/* Without GPUDirect, moves the path through the GPU's CPU in both directions. */
static weft_status divert_gdr(const struct topo_view *view, struct topo_node *gpu,
                              struct relaying *relaying, struct weft_error *error)
{
    struct topo_system *system = view->system;
    struct topo_node *net = relaying->net;
    struct topo_node *cpu;
    bool is_direct = false;
    weft_status status;

    if (topo_own_path(system, gpu, net)->type >= TOPO_PHB) {
        return WEFT_OK;
    }
    status = topo_check_gdr(view, gpu, net, false, &is_direct, error);
    if (status != WEFT_OK || is_direct) {
        return status;
    }
    cpu = topo_local_cpu(system, gpu);
    if (cpu == NULL) {
        return no_cpu(gpu, error);
    }
    divert(system, cpu, net, gpu);
    divert(system, cpu, gpu, net);
    topo_tell(view, (struct topo_event){
                        .kind = TOPO_NO_GDR, .from = gpu, .to = net, .middle = cpu});
    relaying->is_known = false;
    return WEFT_OK;
}

static weft_status settle_nets(const struct topo_view *view, struct weft_error *error)
{
    struct topo_system *system = view->system;
    weft_status status = note_c2c(view, error);

    for (uint32_t n = 0; n < system->n[TOPO_NET]; n++) {
        struct relaying relaying = {.net = system->nodes[TOPO_NET][n]};

        for (uint32_t g = 0; status == WEFT_OK && g < system->n[TOPO_GPU]; g++) {
            struct topo_node *gpu = system->nodes[TOPO_GPU][g];

            divert_pxn(view, gpu, &relaying);
            status = divert_gdr(view, gpu, &relaying, error);
        }
    }
    return status;
}

/* Checks that the document's ranks are valid indices of the communicator's peers. */
static weft_status check_ranks(const struct topo_view *view, struct weft_error *error)
{
    const struct topo_system *system = view->system;

    for (uint32_t i = 0; view->comm != NULL && i < system->n[TOPO_GPU]; i++) {
        int rank = system->nodes[TOPO_GPU][i]->u.gpu.rank;

        if (rank < 0 || (uint32_t)rank >= view->comm->n_ranks) {
            return weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_PATHS,
                             "a GPU has rank %d, of %u ranks", rank, view->comm->n_ranks);
        }
    }
    return WEFT_OK;
}

weft_status topo_compute_paths(const struct topo_view *view, struct weft_error *error)
{
    weft_status status = check_ranks(view, error);

    topo_forget_paths(view->system);
    status = status == WEFT_OK ? search_all(view, error) : status;
    if (status == WEFT_OK) {
        topo_tell(view, (struct topo_event){.kind = TOPO_PATHS_FOUND});
    }
    status = status == WEFT_OK ? settle_gpus(view, error) : status;
    return status == WEFT_OK ? settle_nets(view, error) : status;
}

weft_status topo_trim(const struct topo_view *view, struct weft_error *error)
{
    struct topo_system *system = view->system;
    struct topo_node **gpus = system->nodes[TOPO_GPU];
    uint32_t n_gpus = system->n[TOPO_GPU];
    uint32_t domains[TOPO_NODES_MAX];
    uint32_t own = 0;

    if (n_gpus == 0) {
        return weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_PATHS, "there is no GPU");
    }
    /* Each pair is considered once, so that domains that only a later GPU joins stay apart, as
     * in NCCL. */
    for (uint32_t g = 0; g < n_gpus; g++) {
        domains[g] = g;
        for (uint32_t p = 0; p < g; p++) {
            if (topo_own_path(system, gpus[g], gpus[p])->type < TOPO_NETWORK &&
                domains[p] < domains[g]) {
                domains[g] = domains[p];
            }
        }
        own = (uint32_t)gpus[g]->u.gpu.rank == view->comm->rank ? domains[g] : own;
    }
    for (uint32_t g = n_gpus; g > 0; g--) {
        if (domains[g - 1] != own) {
            topo_remove(system, gpus[g - 1]);
        }
    }
    system->is_inter = system->n[TOPO_GPU] != view->comm->n_ranks;
    while (!system->is_inter && system->rules->trims_nets && system->n[TOPO_NET] > 0) {
        topo_remove(system, system->nodes[TOPO_NET][system->n[TOPO_NET] - 1]);
    }
    return WEFT_OK;
}

bool topo_is_inter(const struct topo_system *system)
{
    return system->rules->trims_nets ? system->n[TOPO_NET] > 0 : system->is_inter;
}
