/* Which transport connects two ranks, and why: NCCL's canConnect rules, in its order. Pure
 * functions of what ranks told each other and of the paths inside the host. */
#ifndef WEFT_TRANSPORT_CHOICE_H
#define WEFT_TRANSPORT_CHOICE_H

#include "topo/paths.h"
#include "transport/transport.h"

/* What decided on one transport. */
enum transport_reason {
    TRANSPORT_NOT_ASKED, /* one before it can */
    TRANSPORT_CAN,
    TRANSPORT_OTHER_HOST,
    TRANSPORT_OTHER_SHM,    /* another /dev/shm: another container */
    TRANSPORT_NO_SHM,       /* none at all */
    TRANSPORT_OFF,          /* a setting says so */
    TRANSPORT_TOO_FAR,      /* the path is farther than allowed */
    TRANSPORT_NET_IS_WIDER, /* the network between them is faster than the way inside */
    TRANSPORT_NO_ACCESS,    /* the GPUs cannot reach each other's memory */
    TRANSPORT_NOT_OPENED, /* they should, but one's memory was not opened by the other */
    TRANSPORT_OTHER_END,  /* the other end cannot */
    TRANSPORT_APART,      /* NCCL took the peer's GPU out: no way inside leads to it */
    TRANSPORT_INSIDE_UNKNOWN, /* nobody knows what is inside the host */
    TRANSPORT_INSIDE_WIDER,   /* net: the way inside is no slower */
    TRANSPORT_NO_PLUGIN       /* collNet: there is no network that computes */
};

struct transport_choice {
    bool is_made; /* false: no transport can */
    enum transport_kind kind;
    bool reads; /* p2p: the receiver reads, instead of the sender writing */
    enum transport_reason reasons[TRANSPORT_N_KINDS];
    enum topo_path_type path, limit; /* of the GPUs, and of p2p; DIS: unknown */
    int sys_errno;                   /* NOT_OPENED: what the driver said */
};

struct transport_question {
    /* System, settings and communicator; a NULL system: nobody knows the inside. `comm` has the
     * ranks of all members. */
    const struct topo_view *view;
    uint32_t self, peer;
    bool is_same_gpu; /* both processes are on one GPU */
    bool can_access;  /* copies of the own GPU reach the peer's memory */
    bool is_ipc_off;  /* no memory of the peer's process may be opened */
};

/* WEFT_ERR_INPUT where NCCL gives up. */
weft_status transport_choose(const struct transport_question *question,
                             struct transport_choice *out,
                             struct weft_error *error) WEFT_MUST_CHECK;

/* P2p was chosen, and cannot be: the two share memory of the host instead. */
void transport_fall_back(struct transport_choice *choice, enum transport_reason reason,
                         int sys_errno);

#define TRANSPORT_WHY_BYTES 96
/* "p2p: path PHB is farther than PXB; shm: same /dev/shm". Returns `out`. */
char *transport_why(const struct transport_choice *choice, char out[TRANSPORT_WHY_BYTES]);

#endif
