#include "nccl/dump.h"

#include "base/check.h"
#include "nccl/paths.h"

/* ---- nodes and links ---- */

static void dump_attributes(const struct topo_node *node, struct weft_text *out)
{
    const struct topo_gpu *gpu = &node->u.gpu;
    const struct topo_cpu *cpu = &node->u.cpu;
    const struct topo_net *net = &node->u.net;

    switch (node->type) {
    case TOPO_GPU:
        weft_text_add(out, " dev %d rank %d sm %d gdr %d", gpu->dev, gpu->rank, gpu->sm,
                      gpu->gdr);
        break;
    case TOPO_CPU:
        weft_text_add(out, " arch %d vendor %d model %d", cpu->arch, cpu->vendor,
                      cpu->model);
        break;
    case TOPO_PCI:
        weft_text_add(out, " device %llx", (unsigned long long)node->u.pci_device);
        break;
    case TOPO_NET:
        weft_text_add(out,
                      " dev %d asic %llx port %d bw %g latency %g gdr %d coll %d "
                      "maxChannels %d",
                      net->dev, (unsigned long long)net->asic, net->port, (double)net->bw,
                      (double)net->latency, net->gdr, net->coll, net->max_channels);
        break;
    case TOPO_NVS:
    case TOPO_NIC:
    case TOPO_N_TYPES:
        break;
    }
}

void topo_dump_system(const struct topo_system *system, struct weft_text *out)
{
    char name[TOPO_NAME_BYTES];

    for (int type = 0; type < TOPO_N_TYPES; type++) {
        for (uint32_t i = 0; i < system->n[type]; i++) {
            const struct topo_node *node = system->nodes[type][i];

            weft_text_add(out, "NODE %u %s", i, topo_node_name(node, name));
            dump_attributes(node, out);
            weft_text_add(out, "\n");
            for (uint32_t k = 0; k < node->n_links; k++) {
                const struct topo_link *link = &node->links[k];

                weft_text_add(out, "  LINK %s %g -> %s\n", topo_link_name(link->type),
                              (double)link->bw, topo_node_name(link->to, name));
            }
        }
    }
}

/* ---- paths ---- */

void topo_dump_hops(const struct topo_path *path, struct weft_text *out)
{
    char name[TOPO_NAME_BYTES];

    for (uint32_t i = 0; i < path->n_hops; i++) {
        const struct topo_link *hop = path->hops[i];

        weft_text_add(out, " %s(%g)->%s", topo_link_name(hop->type), (double)hop->bw,
                      topo_node_name(hop->to, name));
    }
}

static void dump_from(const struct topo_system *system, const struct topo_node *from,
                      struct weft_text *out)
{
    char from_name[TOPO_NAME_BYTES], to_name[TOPO_NAME_BYTES];

    for (int type = 0; type < TOPO_N_TYPES; type++) {
        for (uint32_t i = 0; from->paths[type] != NULL && i < system->n[type]; i++) {
            const struct topo_path *path = &from->paths[type][i];

            weft_text_add(out, "PATH %s %s %u %g %s :", topo_node_name(from, from_name),
                          topo_node_name(system->nodes[type][i], to_name), path->n_hops,
                          (double)path->bw, topo_path_name(path->type));
            topo_dump_hops(path, out);
            weft_text_add(out, "\n");
        }
    }
}

void topo_dump_paths(const struct topo_system *system, struct weft_text *out)
{
    static const enum topo_type order[] = {TOPO_GPU, TOPO_NET, TOPO_CPU,
                                           TOPO_NVS, TOPO_PCI, TOPO_NIC};

    for (size_t t = 0; t < WEFT_LENGTH(order); t++) {
        for (uint32_t i = 0; i < system->n[order[t]]; i++) {
            dump_from(system, system->nodes[order[t]][i], out);
        }
    }
}

/* ---- queries ---- */

static void dump_p2p(const struct topo_view *view, int a, int b, struct weft_text *out)
{
    struct topo_p2p p2p;
    weft_status status = topo_check_p2p(view, a, b, &p2p, NULL);
    bool by_p2p = false;

    weft_text_add(out,
                  "CHECKP2P rank %d -> %d : rc %d p2p %d read %d intermediate %d "
                  "checknet %d",
                  a, b, status == WEFT_OK ? 0 : 1, p2p.is_on, p2p.reads,
                  p2p.intermediate_rank, topo_check_net(view, a, b));
    if (view->comm != NULL) {
        topo_p2p_can_connect(view, a, b, &by_p2p, NULL);
        weft_text_add(out, " canconnect_p2p %d canconnect_shm %d", by_p2p,
                      topo_shm_can_connect(view, a, b));
    }
    weft_text_add(out, "\n");
}

static void dump_gdr(const struct topo_view *view, const struct topo_node *gpu,
                     const struct topo_node *net, struct weft_text *out)
{
    bool writes = false, reads = false;
    int middle = -1;
    char name[TOPO_NAME_BYTES];

    topo_check_gdr(view, gpu, net, false, &writes, NULL);
    topo_check_gdr(view, gpu, net, true, &reads, NULL);
    topo_intermediate_rank(gpu, net, &middle, NULL);
    weft_text_add(out,
                  "CHECKGDR rank %d %s : recv(write) %d send(read) %d intermediate %d\n",
                  gpu->u.gpu.rank, topo_node_name(net, name), writes, reads, middle);
}

static void dump_local_nets(const struct topo_view *view, const struct topo_node *gpu,
                            struct weft_text *out)
{
    weft_text_add(out, "LOCALNET rank %d : countByBw %u channels 0..7", gpu->u.gpu.rank,
                  topo_net_count_by_bw(view->system, gpu));
    for (uint32_t channel = 0; channel < 8; channel++) {
        const struct topo_node *net = topo_local_net(view->system, gpu, channel);

        if (net == NULL) {
            weft_text_add(out, " none");
        } else {
            weft_text_add(out, " %llx/dev%d", (unsigned long long)topo_local_of(net->id),
                          net->u.net.dev);
        }
    }
    weft_text_add(out, "\n");
}

static void dump_gpu(const struct topo_view *view, const struct topo_node *gpu,
                     struct weft_text *out)
{
    const struct topo_system *system = view->system;
    const struct topo_node *cpu = topo_local_cpu(system, gpu);
    int rank = gpu->u.gpu.rank;
    char name[TOPO_NAME_BYTES];

    weft_text_add(out, "LOCALCPU rank %d -> %s\n", rank,
                  cpu != NULL ? topo_node_name(cpu, name) : "none");
    for (uint32_t i = 0; i < system->n[TOPO_GPU]; i++) {
        dump_p2p(view, rank, system->nodes[TOPO_GPU][i]->u.gpu.rank, out);
    }
    for (uint32_t i = 0; i < system->n[TOPO_NET]; i++) {
        dump_gdr(view, gpu, system->nodes[TOPO_NET][i], out);
    }
    if (system->n[TOPO_NET] > 0) {
        dump_local_nets(view, gpu, out);
    }
    weft_text_add(out, "NVBGPUS rank %d :", rank);
    for (uint32_t i = 0; i < system->n[TOPO_GPU]; i++) {
        if (gpu->paths[TOPO_GPU][i].type == TOPO_NVB) {
            weft_text_add(out, " %d", system->nodes[TOPO_GPU][i]->u.gpu.rank);
        }
    }
    weft_text_add(out, "\n");
    if (view->comm != NULL) {
        const struct topo_node *net =
            system->n[TOPO_NET] > 0 ? topo_local_net(system, gpu, 0) : NULL;

        weft_text_add(out, "NEEDFLUSH rank %d : %d\n", rank,
                      topo_need_flush(view, gpu, net));
    }
}

static void dump_nets(const struct topo_view *view, struct weft_text *out)
{
    char net_name[TOPO_NAME_BYTES], gpu_name[TOPO_NAME_BYTES];

    for (uint32_t i = 0; i < view->system->n[TOPO_NET]; i++) {
        const struct topo_node *net = view->system->nodes[TOPO_NET][i];
        const struct topo_node *gpu = topo_local_gpu(view->system, net);

        weft_text_add(out, "LOCALGPU %s -> %s\n", topo_node_name(net, net_name),
                      gpu != NULL ? topo_node_name(gpu, gpu_name) : "none");
    }
    weft_text_add(
        out, "GPU-GPU minpath %s maxpath %s GPU-NET minpath %s maxpath %s allNvLink %d\n",
        topo_path_name(topo_min_path(view->system, TOPO_GPU)),
        topo_path_name(topo_max_path(view->system, TOPO_GPU)),
        topo_path_name(topo_min_path(view->system, TOPO_NET)),
        topo_path_name(topo_max_path(view->system, TOPO_NET)),
        topo_max_path(view->system, TOPO_GPU) < TOPO_PIX);
}

static void dump_net_choice(const struct topo_view *view, int rank, int peer,
                            struct weft_text *out)
{
    weft_text_add(out, "NETDEV rank %d -> peer %d :", rank, peer);
    for (uint32_t channel = 0; channel < 4; channel++) {
        struct topo_net_choice choice;
        weft_status status = topo_net_for(view, rank, channel, peer, &choice, NULL);

        weft_text_add(
            out, " ch%u(rc%d dev%d id%llx proxy%d)", channel, status == WEFT_OK ? 0 : 1,
            choice.net != NULL ? choice.net->u.net.dev : -1,
            choice.net != NULL ? (unsigned long long)topo_local_of(choice.net->id) : 0,
            choice.proxy_rank);
    }
    weft_text_add(out, "\n");
}

void topo_dump_queries(const struct topo_view *view, struct weft_text *out)
{
    static const uint32_t n_channels[] = {1, 2, 4, 8, 12, 16, 24, 32};
    const struct topo_system *system = view->system;

    for (uint32_t i = 0; i < system->n[TOPO_GPU]; i++) {
        dump_gpu(view, system->nodes[TOPO_GPU][i], out);
    }
    dump_nets(view, out);
    if (view->comm == NULL) {
        return;
    }
    for (uint32_t i = 0; system->n[TOPO_NET] > 0 && i < system->n[TOPO_GPU]; i++) {
        int rank = system->nodes[TOPO_GPU][i]->u.gpu.rank;

        for (uint32_t peer = 0; peer < view->comm->n_ranks; peer++) {
            if ((int)peer != rank) {
                dump_net_choice(view, rank, (int)peer, out);
            }
        }
    }
    for (size_t i = 0; i < WEFT_LENGTH(n_channels); i++) {
        uint32_t n_all, per_peer;

        topo_p2p_channels(view, n_channels[i], &n_all, &per_peer);
        weft_text_add(out,
                      "P2PCHANNELS nChannels %u nRanks %u -> p2pnChannels %u "
                      "p2pnChannelsPerPeer %u\n",
                      n_channels[i], view->comm->n_ranks, n_all, per_peer);
    }
}
