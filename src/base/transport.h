/* Transports: how messages get from rank to rank (docs/transports.md). */
#ifndef WEFT_BASE_TRANSPORT_H
#define WEFT_BASE_TRANSPORT_H

/* In NCCL's order of preference. */
enum weft_transport {
    WEFT_TRANSPORT_P2P,    /* GPU memory of a rank on the same host */
    WEFT_TRANSPORT_SHM,    /* shared memory of the host */
    WEFT_TRANSPORT_NET,    /* RDMA over the mesh */
    WEFT_TRANSPORT_COLLNET /* collectives of a switch, which no mesh has */
};
#define WEFT_N_TRANSPORTS (WEFT_TRANSPORT_COLLNET + 1)

/* Names by enumerator, "p2p", as in scenario files. */
extern const char *const weft_transport_names[WEFT_N_TRANSPORTS];

/* Returns "?" for a number that is no transport, as a peer can send it. */
const char *weft_transport_name(enum weft_transport transport);

#endif
