/* Makes, from the facts of one host, the topology that NCCL would make of them: the document
 * that it writes with NCCL_TOPO_DUMP_FILE, and the system. */
#ifndef WEFT_NCCL_DESCRIBE_H
#define WEFT_NCCL_DESCRIBE_H

#include "base/text.h"
#include "io/machine.h"
#include "nccl/topo.h"

/* A host and the ranks that use it. */
struct topo_inside {
    const struct io_machine *machine;
    uint64_t host_hash; /* the same for all ranks of a host */
    /* Ranks of the host's processes [n_ranks]: the ith has the GPU with the ith lowest number.
     * With none, CPUs and ports are still described. */
    const int *ranks;
    uint32_t n_ranks;
    /* Merge the ports of one card into one NET, as NCCL's net_ib does by default
     * (NCCL_NET_MERGE_LEVEL=PORT). A net plugin without makeVDevice, such as Weft's, gets each
     * port. */
    bool merges_nics;
};

/* Appends the document. If the machine has its own topology document, appends that document
 * with `rank` and `dev` set for these ranks and ports and unused devices removed. Fails with
 * WEFT_ERR_INPUT if that is no such document ("line:column: what"), there are fewer GPUs than
 * ranks, or NCCL would give up. */
weft_status topo_describe(const struct topo_inside *inside, struct weft_text *out,
                          struct weft_error *error);
/* Makes the system of that document, without its paths. The caller frees it with topo_free.
 * Fails like topo_describe. */
weft_status topo_of_host(const struct topo_inside *inside, const struct topo_rules *rules,
                         struct topo_system **out, struct weft_error *error);

/* The ports of a NET of the system, as indices into the machine's nets. NCCL merges at most
 * four. */
#define TOPO_NET_PORTS_MAX 4
struct topo_net_ports {
    int dev; /* topo_net.dev */
    uint32_t nets[TOPO_NET_PORTS_MAX];
    uint32_t n_nets;
};
/* Writes the NETs that these facts give, in order of `dev`: active ports, or cards of them.
 * Returns how many, at most `cap`. */
uint32_t topo_net_ports_of(const struct topo_inside *inside, struct topo_net_ports *out,
                           uint32_t cap);

#endif
