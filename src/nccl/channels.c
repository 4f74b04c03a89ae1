#include "nccl/paths.h"

static uint32_t clamp(int64_t value, int64_t low, int64_t high)
{
    value = value < high ? value : high;
    return (uint32_t)(value > low ? value : low);
}

static uint32_t round_up_pow2(uint32_t n)
{
    uint32_t out = 1;

    while (out < n && out < 1u << 31) {
        out *= 2;
    }
    return out;
}

/* Returns `n_channels` limited as NCCL's settings ask; the lower limit wins. At least 1, because
 * the settings can be negative. */
static uint32_t within_settings(const struct topo_settings *settings, uint32_t n_channels)
{
    int64_t n = n_channels;

    n = n < settings->max_p2p_channels ? n : settings->max_p2p_channels;
    n = n > settings->min_p2p_channels ? n : settings->min_p2p_channels;
    return n > 1 ? (uint32_t)n : 1;
}

/* Returns the channels to a rank of another machine: two per NIC, fewer if many ranks share
 * the channels, but at least as many as there are NICs to fill. */
static uint32_t to_remote(const struct topo_view *view, const struct topo_node *gpu,
                          uint32_t n_channels)
{
    uint32_t by_bw = topo_net_count_by_bw(view->system, gpu);
    uint32_t n = 2;

    if (view->settings->channels_per_net_peer != -1) {
        return clamp(view->settings->channels_per_net_peer, 0, TOPO_CHANNELS_MAX);
    }
    while (n > 1 && (uint64_t)n * view->comm->n_ranks > (uint64_t)n_channels * 4) {
        n /= 2;
    }
    return by_bw > n ? by_bw : n;
}

static uint32_t to_local(const struct topo_view *view, const struct topo_node *gpu,
                         const struct topo_node *peer)
{
    const struct topo_path *path = topo_path(peer, gpu);
    int n_links;

    if (path->type != TOPO_NVL) {
        return 2;
    }
    n_links = (int)(path->bw / topo_nvlink_bw(view->system->rules, gpu->u.gpu.sm));
    return 2 * (uint32_t)(n_links > 1 ? n_links : 1);
}

void topo_p2p_channels(const struct topo_view *view, uint32_t n_channels,
                       uint32_t *out_channels, uint32_t *out_per_peer)
{
    const struct topo_system *system = view->system;
    uint32_t n_all = within_settings(view->settings, n_channels), least = n_all;

    for (uint32_t g = 0; g < system->n[TOPO_GPU]; g++) {
        const struct topo_node *gpu = system->nodes[TOPO_GPU][g];

        for (uint32_t rank = 0; rank < view->comm->n_ranks; rank++) {
            const struct topo_node *peer = topo_gpu_of(system, (int)rank);
            uint32_t n = peer == gpu    ? least
                         : peer != NULL ? to_local(view, gpu, peer)
                                        : to_remote(view, gpu, n_all);

            least = n < least ? n : least;
        }
    }
    *out_channels = round_up_pow2(n_all);
    *out_per_peer = round_up_pow2(least);
    *out_per_peer = *out_per_peer < *out_channels ? *out_per_peer : *out_channels;
}
