/* Selects the transport that connects two ranks by NCCL's canConnect rules, in NCCL's order, and
 * records why. Pure functions of the facts exchanged by the ranks and of the paths inside the
 * host. */
#ifndef WEFT_NCCL_TRANSPORTS_H
#define WEFT_NCCL_TRANSPORTS_H

#include "base/transport.h"
#include "nccl/paths.h"

/* Why a transport was or was not selected. */
enum transport_reason {
    TRANSPORT_NOT_ASKED, /* an earlier transport was selected */
    TRANSPORT_CAN,
    TRANSPORT_OTHER_HOST,
    TRANSPORT_OTHER_SHM,      /* different /dev/shm, as in different containers */
    TRANSPORT_NO_SHM,         /* no /dev/shm on one of the two */
    TRANSPORT_OFF,            /* disabled by a setting */
    TRANSPORT_TOO_FAR,        /* the path is longer than allowed */
    TRANSPORT_NET_IS_WIDER,   /* the network is faster than the path inside the host */
    TRANSPORT_NO_ACCESS,      /* the GPUs cannot access each other's memory */
    TRANSPORT_NOT_OPENED,     /* memory could not be exported or opened */
    TRANSPORT_OTHER_END,      /* the peer cannot use it */
    TRANSPORT_APART,          /* NCCL removed the peer's GPU: unreachable inside */
    TRANSPORT_INSIDE_UNKNOWN, /* the topology of the host is unknown */
    TRANSPORT_INSIDE_WIDER,   /* net: the path inside the host is no slower */
    TRANSPORT_NO_PLUGIN       /* collNet: no network offloads collectives */
};

struct transport_choice {
    bool is_made; /* false if no transport can connect them */
    enum weft_transport kind;
    bool reads; /* p2p: the receiver reads, rather than the sender writing */
    enum transport_reason reasons[WEFT_N_TRANSPORTS];
    /* between the GPUs; longest that p2p allows; DIS: unknown */
    enum topo_path_type path, limit;
    int sys_errno; /* NOT_OPENED: errno of the driver */
};

struct transport_question {
    /* System, settings and communicator. `system` is NULL if the topology of the host is
     * unknown; `comm` has the ranks of all members. */
    const struct topo_view *view;
    uint32_t self, peer;
    bool is_same_gpu; /* both processes use one GPU */
    bool can_access;  /* this rank's GPU can copy to and from the peer's memory */
    bool is_ipc_off;  /* memory of the peer's process may not be opened */
};

/* Fails with WEFT_ERR_INPUT where NCCL fails. */
weft_status transport_choose(const struct transport_question *question,
                             struct transport_choice *out,
                             struct weft_error *error) WEFT_MUST_CHECK;

/* Replaces p2p, which was chosen but failed for `reason`, by shared memory of the host. */
void transport_fall_back(struct transport_choice *choice, enum transport_reason reason,
                         int sys_errno);

#define TRANSPORT_WHY_BYTES 128
/* Writes the reasons as text, such as "p2p: path PHB is farther than PXB; shm: same /dev/shm".
 * Returns `out`. */
char *transport_why(const struct transport_choice *choice, char out[TRANSPORT_WHY_BYTES]);

#endif
