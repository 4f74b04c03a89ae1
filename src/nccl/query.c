/* NCCL's queries about paths (its paths.cc, topo.cc and search.cc). */
#include "nccl/query.h"
#include "base/check.h"
#include "nccl/paths.h"

struct topo_node *topo_gpu_of(const struct topo_system *system, int rank)
{
    for (uint32_t i = 0; i < system->n[TOPO_GPU]; i++) {
        if (system->nodes[TOPO_GPU][i]->u.gpu.rank == rank) {
            return system->nodes[TOPO_GPU][i];
        }
    }
    return NULL;
}

struct topo_node *topo_local_cpu(const struct topo_system *system,
                                 const struct topo_node *gpu)
{
    struct topo_node *best = NULL;
    uint32_t n_best = 0;

    for (uint32_t i = 0; gpu->paths[TOPO_CPU] != NULL && i < system->n[TOPO_CPU]; i++) {
        uint32_t n = gpu->paths[TOPO_CPU][i].n_hops;

        if (n > 0 && (best == NULL || n < n_best)) {
            best = system->nodes[TOPO_CPU][i];
            n_best = n;
        }
    }
    return best;
}

/* ---- GPU to GPU ---- */

static bool share_host(const struct topo_comm *comm, int a, int b)
{
    return comm->peers[a].host_hash == comm->peers[b].host_hash;
}

bool topo_share_memory(const struct topo_comm *comm, int a, int b)
{
    return share_host(comm, a, b) && comm->peers[a].shm_dev == comm->peers[b].shm_dev;
}

/* Default: not through a CPU, except with AMD CPUs and at most two GPUs. */
enum topo_path_type topo_p2p_level(const struct topo_view *view)
{
    const struct topo_system *system = view->system;
    const struct topo_cpu *cpu = &system->nodes[TOPO_CPU][0]->u.cpu;
    bool is_amd = cpu->arch == TOPO_ARCH_X86 && cpu->vendor == TOPO_VENDOR_AMD;

    if (view->settings->has_p2p_level) {
        return view->settings->p2p_level;
    }
    return is_amd && system->n[TOPO_GPU] <= 2 ? TOPO_SYS : TOPO_PXB;
}

static bool is_p2p_off(const struct topo_machine *machine, int a, int b)
{
    for (uint32_t i = 0; machine != NULL && i < machine->n_p2p_off; i++) {
        const int *pair = machine->p2p_off[i];

        if ((pair[0] == a && pair[1] == b) || (pair[0] == b && pair[1] == a)) {
            return true;
        }
    }
    return false;
}

/* Applies what NVML reports for each leg. Over NVLink a denial is an error, because it means a
 * broken machine. */
static weft_status ask_nvml(const struct topo_view *view, const struct topo_node *a,
                            const struct topo_node *middle, const struct topo_node *b,
                            bool *out, struct weft_error *error)
{
    const struct topo_node *stops[3] = {a, middle != NULL ? middle : b, b};
    uint32_t n_legs = middle != NULL ? 2 : 1;

    for (uint32_t i = 0; i < n_legs; i++) {
        int from = stops[i]->u.gpu.dev;
        int to = stops[i + 1]->u.gpu.dev;

        if (!is_p2p_off(view->machine, from, to)) {
            continue;
        }
        *out = false;
        if (view->settings->ignore_disabled_p2p == 0 &&
            topo_path(a, b)->type <= TOPO_NVB) {
            return weft_fail(
                error, WEFT_ERR_INPUT, WEFT_PHASE_PATHS,
                "NVML says no peer access between GPUs %d and %d, which NVLink "
                "connects: NCCL gives up (NCCL_IGNORE_DISABLED_P2P=1 goes on)",
                from, to);
        }
    }
    return WEFT_OK;
}

static bool may_share(const struct topo_comm *comm, int a, int b)
{
    return comm == NULL || topo_share_memory(comm, a, b);
}

weft_status topo_check_gpus(const struct topo_view *view, const struct topo_node *from,
                            const struct topo_node *to, struct topo_p2p *out,
                            struct weft_error *error)
{
    const struct topo_comm *comm = view->comm;
    const struct topo_path *path = topo_path(from, to);
    const struct topo_node *middle = NULL;
    weft_status status = WEFT_OK;

    *out = (struct topo_p2p){.intermediate_rank = -1};
    if (!may_share(comm, from->u.gpu.rank, to->u.gpu.rank)) {
        return WEFT_OK; /* other machine or container */
    }
    if (path->n_hops == 2 && path->hops[0]->to->type == TOPO_GPU) {
        middle = path->hops[0]->to;
        out->intermediate_rank = middle->u.gpu.rank;
    }
    out->is_on = path->type <= topo_p2p_level(view);
    if (out->is_on && from != to && view->settings->ignore_disabled_p2p != 2 &&
        (comm == NULL || share_host(comm, from->u.gpu.rank, (int)comm->rank))) {
        status = ask_nvml(view, from, middle, to, &out->is_on, error);
    }
    out->reads = path->type == TOPO_NVL && from->u.gpu.sm == 80 && to->u.gpu.sm == 80;
    return status;
}

weft_status topo_check_p2p(const struct topo_view *view, int a, int b,
                           struct topo_p2p *out, struct weft_error *error)
{
    const struct topo_node *from = topo_gpu_of(view->system, a);
    const struct topo_node *to = topo_gpu_of(view->system, b);

    *out = (struct topo_p2p){.intermediate_rank = -1};
    if (from == NULL && may_share(view->comm, a, b)) {
        return weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_PATHS,
                         "rank %d has no GPU here", a);
    }
    return from == NULL || to == NULL ? WEFT_OK
                                      : topo_check_gpus(view, from, to, out, error);
}

float topo_net_speed(const struct topo_system *system, const struct topo_node *gpu)
{
    float best = 0;

    for (uint32_t i = 0; i < system->n[TOPO_NET]; i++) {
        const struct topo_path *path = topo_path(gpu, system->nodes[TOPO_NET][i]);

        if (path != NULL && path->type <= TOPO_PXB && path->bw > best) {
            best = path->bw;
        }
    }
    return best;
}

bool topo_check_net(const struct topo_view *view, int a, int b)
{
    const struct topo_node *from = topo_gpu_of(view->system, a);
    const struct topo_node *to = topo_gpu_of(view->system, b);
    float speed;

    if (view->settings->net_disable_intra) {
        return false;
    }
    if (from == NULL || to == NULL) {
        return true;
    }
    speed = topo_path(from, to)->bw;
    return topo_net_speed(view->system, from) > speed &&
           topo_net_speed(view->system, to) > speed;
}

weft_status topo_p2p_can_connect(const struct topo_view *view, int a, int b, bool *out,
                                 struct weft_error *error)
{
    struct topo_p2p p2p;
    weft_status status = topo_check_p2p(view, a, b, &p2p, error);

    /* Paths through another GPU are used even if the network is faster. */
    *out = status == WEFT_OK && p2p.is_on &&
           (p2p.intermediate_rank != -1 || !topo_check_net(view, a, b));
    return status;
}

bool topo_shm_can_connect(const struct topo_view *view, int a, int b)
{
    return !view->settings->shm_disable && !topo_check_net(view, a, b) &&
           topo_share_memory(view->comm, a, b);
}

/* ---- GPU to NET ---- */

weft_status topo_intermediate_rank(const struct topo_node *gpu,
                                   const struct topo_node *net, int *out,
                                   struct weft_error *error)
{
    const struct topo_path *path = topo_path(gpu, net);
    const struct topo_node *first = NULL;

    *out = gpu->u.gpu.rank;
    if (path->type != TOPO_PXN) {
        return WEFT_OK;
    }
    for (uint32_t i = 0; i < path->n_hops; i++) {
        first = path->hops[i]->to;
        if (first->type != TOPO_NVS) {
            break;
        }
    }
    if (first == NULL || first->type != TOPO_GPU) {
        char gpu_name[TOPO_NAME_BYTES], net_name[TOPO_NAME_BYTES];

        return weft_fail(
            error, WEFT_ERR_INPUT, WEFT_PHASE_PATHS,
            "the way from %s over a GPU to %s begins at no GPU: NCCL gives up",
            topo_node_name(gpu, gpu_name), topo_node_name(net, net_name));
    }
    *out = first->u.gpu.rank;
    return WEFT_OK;
}

/* Before sm 80, reading from a GPU disturbs other PCI traffic, so it is permitted only if GPUs
 * use NVLink. */
static bool may_read(const struct topo_view *view, const struct topo_node *gpu)
{
    const struct topo_system *system = view->system;
    bool has_nvlink = system->n[TOPO_GPU] == 1;

    if (view->settings->gdr_read >= 0) {
        return view->settings->gdr_read != 0;
    }
    for (uint32_t i = 0; i < system->n[TOPO_GPU]; i++) {
        const struct topo_node *other = system->nodes[TOPO_GPU][i];

        has_nvlink =
            has_nvlink || (other != gpu && topo_path(gpu, other)->type == TOPO_NVL);
    }
    return gpu->u.gpu.sm >= 80 || has_nvlink;
}

weft_status topo_check_gdr(const struct topo_view *view, const struct topo_node *gpu,
                           const struct topo_node *net, bool read, bool *out,
                           struct weft_error *error)
{
    const struct topo_settings *settings = view->settings;
    enum topo_path_type level = settings->has_gdr_level ? settings->gdr_level : TOPO_PXB;
    enum topo_path_type distance;

    *out = false;
    if (net->u.net.gdr == 0 || gpu->u.gpu.gdr == 0 || (read && !may_read(view, gpu))) {
        return WEFT_OK;
    }
    distance = topo_path(gpu, net)->type;
    if (distance == TOPO_PXN) {
        int rank;
        weft_status status = topo_intermediate_rank(gpu, net, &rank, error);

        if (status != WEFT_OK) {
            return status;
        }
        distance = topo_path(topo_gpu_of(view->system, rank), net)->type;
    }
    if (settings->gdr_c2c && distance == TOPO_P2C) {
        distance = TOPO_C2C;
    }
    *out = distance <= level;
    topo_tell(view, (struct topo_event){.kind = TOPO_GDR,
                                        .from = gpu,
                                        .to = net,
                                        .distance = distance,
                                        .level = level,
                                        .is_on = *out,
                                        .reads = read});
    return WEFT_OK;
}

bool topo_need_flush(const struct topo_view *view, const struct topo_node *gpu,
                     const struct topo_node *net)
{
    const struct topo_node *cpu = topo_local_cpu(view->system, gpu);

    if (view->settings->force_flush || (view->comm != NULL && view->comm->forces_flush) ||
        gpu->u.gpu.sm < 90) {
        return true;
    }
    return view->system->rules->has_gdr_pci_flush && cpu != NULL && net != NULL &&
           topo_path(gpu, net)->type <= TOPO_PXB && topo_path(gpu, cpu)->type == TOPO_C2C;
}

/* ---- locality ---- */

uint32_t topo_locals(const struct topo_system *system, const struct topo_node *of,
                     enum topo_type type, struct topo_node **out)
{
    enum topo_path_type nearest = TOPO_DIS;
    float widest = 0;
    uint32_t n = 0;

    for (uint32_t i = 0; of->paths[type] != NULL && i < system->n[type]; i++) {
        const struct topo_path *path = &of->paths[type][i];

        if (path->bw > widest || (path->bw == widest && path->type < nearest)) {
            widest = path->bw;
            nearest = path->type;
            n = 0;
        }
        if (path->bw == widest && path->type == nearest) {
            out[n++] = system->nodes[type][i];
        }
    }
    return n;
}

uint32_t topo_net_count_by_bw(const struct topo_system *system,
                              const struct topo_node *gpu)
{
    struct topo_node *nets[TOPO_NODES_MAX];
    uint32_t n_nets = topo_locals(system, gpu, TOPO_NET, nets);
    float own = 0, sum = 0;
    uint32_t n = 0;

    for (uint32_t i = 0; i < gpu->n_links; i++) {
        own = gpu->links[i].to->type == TOPO_CPU ? gpu->links[i].bw : own;
    }
    for (; n < n_nets && sum < own; n++) {
        sum += topo_path(gpu, nets[n])->bw;
    }
    return n;
}

/* Returns the bits of `value` below `n`, a power of two, in reverse order. */
static uint32_t mirrored(uint32_t value, uint32_t n)
{
    uint32_t out = 0;

    for (uint32_t bit = 1, other = n >> 1; bit < n; bit <<= 1, other >>= 1) {
        out |= (value & bit) != 0 ? other : 0;
    }
    return out;
}

struct topo_node *topo_local_net(const struct topo_system *system,
                                 const struct topo_node *gpu, uint32_t channel)
{
    struct topo_node *nets[TOPO_NODES_MAX], *gpus[TOPO_NODES_MAX];
    uint32_t n_nets = topo_locals(system, gpu, TOPO_NET, nets);
    uint32_t n_gpus = n_nets > 0 ? topo_locals(system, nets[0], TOPO_GPU, gpus) : 0;
    uint32_t at = (uint32_t)gpu->u.gpu.dev;

    if (n_nets == 0 || n_gpus == 0) {
        return NULL;
    }
    if ((n_nets & (n_nets - 1)) == 0) {
        at = mirrored(at, n_nets);
    }
    at += channel % ((n_nets + n_gpus - 1) / n_gpus);
    return nets[at % n_nets];
}

struct topo_node *topo_local_gpu(const struct topo_system *system,
                                 const struct topo_node *net)
{
    struct topo_node *gpus[TOPO_NODES_MAX];
    uint32_t n_gpus = topo_locals(system, net, TOPO_GPU, gpus);

    for (uint32_t channel = 0; channel < TOPO_CHANNELS_MAX; channel++) {
        for (uint32_t i = 0; i < n_gpus; i++) {
            if (topo_local_net(system, gpus[i], channel) == net) {
                return gpus[i];
            }
        }
    }
    return NULL;
}

/* ---- the NET of a peer ---- */

static struct topo_node *gpu_of_dev(const struct topo_system *system, int dev)
{
    for (uint32_t i = 0; i < system->n[TOPO_GPU]; i++) {
        const struct topo_node *gpu = system->nodes[TOPO_GPU][i];

        if (topo_system_of(gpu->id) == system->system_id && gpu->u.gpu.dev == dev) {
            return system->nodes[TOPO_GPU][i];
        }
    }
    return NULL;
}

/* Prefers the NET that the peer uses on its own host, if it can be reached from here. */
static weft_status prefer_of_peer(const struct topo_view *view, struct topo_node *gpu,
                                  uint32_t channel, const struct topo_node *twin,
                                  struct topo_net_choice *out, struct weft_error *error)
{
    const struct topo_settings *settings = view->settings;
    const struct topo_node *net = topo_local_net(view->system, twin, channel);
    int level = topo_pxn_is_off(view) ? 0 : settings->p2p_pxn_level;

    if (net == NULL) {
        return weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_PATHS, "there is no network");
    }
    if (settings->cross_nic == 0) {
        out->net = net;
    }
    if (level == 1 && topo_path(gpu, net)->type <= TOPO_PXN) {
        out->net = net;
        return topo_intermediate_rank(gpu, net, &out->proxy_rank, error);
    }
    if (level == 2) {
        const struct topo_node *relay = topo_local_gpu(view->system, net);

        if (relay != NULL && topo_path(relay, gpu)->type <= TOPO_NVL &&
            topo_path(relay, net)->type <= topo_pxn_reach(view)) {
            out->net = net;
            out->proxy_rank = relay->u.gpu.rank;
        }
    }
    return WEFT_OK;
}

weft_status topo_net_for(const struct topo_view *view, int rank, uint32_t channel,
                         int peer, struct topo_net_choice *out, struct weft_error *error)
{
    const struct topo_settings *settings = view->settings;
    struct topo_node *gpu = topo_gpu_of(view->system, rank);
    struct topo_node *twin;

    weft_check(gpu != NULL);
    *out = (struct topo_net_choice){.net = topo_local_net(view->system, gpu, channel),
                                    .proxy_rank = rank};
    if (out->net == NULL) {
        return weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_PATHS, "there is no network");
    }
    if (settings->cross_nic != 0 &&
        (topo_pxn_is_off(view) || settings->p2p_pxn_level == 0)) {
        return WEFT_OK;
    }
    twin = gpu_of_dev(view->system, view->comm->peers[peer].nvml_dev);
    return twin == NULL ? WEFT_OK : prefer_of_peer(view, gpu, channel, twin, out, error);
}

/* ---- all pairs ---- */

enum topo_path_type topo_min_path(const struct topo_system *system, enum topo_type type)
{
    enum topo_path_type best = TOPO_SYS;

    for (uint32_t i = 0; i < system->n[TOPO_GPU]; i++) {
        const struct topo_path *paths = system->nodes[TOPO_GPU][i]->paths[type];

        for (uint32_t k = 0; paths != NULL && k < system->n[type]; k++) {
            bool is_self = type == TOPO_GPU && i == k;

            best = !is_self && paths[k].type < best ? paths[k].type : best;
        }
    }
    return best;
}

enum topo_path_type topo_max_path(const struct topo_system *system, enum topo_type type)
{
    enum topo_path_type worst = TOPO_LOC;

    for (uint32_t i = 0; i < system->n[TOPO_GPU]; i++) {
        const struct topo_path *paths = system->nodes[TOPO_GPU][i]->paths[type];

        for (uint32_t k = 0; paths != NULL && k < system->n[type]; k++) {
            bool is_self = type == TOPO_GPU && i == k;

            worst = !is_self && paths[k].type > worst ? paths[k].type : worst;
        }
    }
    return worst;
}

bool topo_pxn_is_off(const struct topo_view *view)
{
    return view->settings->pxn_disable || (view->comm != NULL && view->comm->is_net_v4);
}

enum topo_path_type topo_pxn_reach(const struct topo_view *view)
{
    return view->system->rules->has_c2c && view->settings->pxn_c2c ? TOPO_P2C : TOPO_PXB;
}
