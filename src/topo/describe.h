/* From the facts of one host to the topology that NCCL would have made of them: the document that
 * it writes with NCCL_TOPO_DUMP_FILE, and the system. */
#ifndef WEFT_TOPO_DESCRIBE_H
#define WEFT_TOPO_DESCRIBE_H

#include "base/text.h"
#include "io/machine.h"
#include "topo/topo.h"

/* A host and who uses it. */
struct topo_inside {
    const struct io_machine *machine;
    uint64_t host_hash; /* the same for all ranks of a host */
    /* Ranks of the host's processes [n_ranks]: the ith has the GPU with the ith least number.
     * Of none, there are still CPUs and ports. */
    const int *ranks;
    uint32_t n_ranks;
    /* Ports of one card are one NET, as net_ib of NCCL has them by default
     * (NCCL_NET_MERGE_LEVEL=PORT). A net plugin without makeVDevice, like ours, gets each port. */
    bool merges_nics;
};

/* Appends the document. Of a machine with a document of its own: that, with `rank` and `dev` for
 * these ranks and ports, without what nobody uses. WEFT_ERR_INPUT: it is no such document
 * ("line:column: what"), there are fewer GPUs than ranks, or NCCL would give up. */
weft_status topo_describe(const struct topo_inside *inside, struct weft_text *out,
                          struct weft_error *error);
/* The system of that document, the caller's (topo_free); not yet its paths. */
weft_status topo_of_host(const struct topo_inside *inside, const struct topo_rules *rules,
                         struct topo_system **out, struct weft_error *error);

/* What a NET of the system is: indices into the machine's nets. NCCL merges at most four. */
#define TOPO_NET_PORTS_MAX 4
struct topo_net_ports {
    int dev; /* topo_net.dev */
    uint32_t nets[TOPO_NET_PORTS_MAX];
    uint32_t n_nets;
};
/* The NETs that these facts give, by `dev`: active ports, or cards of them. Returns how many of
 * `cap`. */
uint32_t topo_net_ports_of(const struct topo_inside *inside, struct topo_net_ports *out,
                           uint32_t cap);

#endif
