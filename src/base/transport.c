#include "base/transport.h"

const char *const weft_transport_names[WEFT_N_TRANSPORTS] = {
    [WEFT_TRANSPORT_P2P] = "p2p",
    [WEFT_TRANSPORT_SHM] = "shm",
    [WEFT_TRANSPORT_NET] = "net",
    [WEFT_TRANSPORT_COLLNET] = "collnet",
};

const char *weft_transport_name(enum weft_transport transport)
{
    return (unsigned)transport < WEFT_N_TRANSPORTS ? weft_transport_names[transport]
                                                   : "?";
}
