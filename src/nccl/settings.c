#include "nccl/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Reads a number like NCCL_PARAM: any base; ignores trailing text; empty text and overflow
 * give the default. */
static int64_t number(const char *text, int64_t otherwise)
{
    char *end = NULL;
    long long value;

    if (text == NULL || text[0] == '\0') {
        return otherwise;
    }
    errno = 0;
    value = strtoll(text, &end, 0);
    return errno != 0 ? otherwise : value;
}

/* Reads a name, or a digit as in releases before there were names. */
static bool read_level(const struct topo_rules *rules, const char *text,
                       enum topo_path_type *out)
{
    static const enum topo_path_type old[] = {TOPO_LOC, TOPO_PIX, TOPO_PXB,
                                              TOPO_PHB, TOPO_SYS, TOPO_SYS};
    long digit;

    if (text == NULL) {
        return false;
    }
    if (topo_path_parse(rules, text, out) && *out <= TOPO_SYS) {
        return true;
    }
    if (text[0] < '0' || text[0] > '9') {
        return false;
    }
    digit = strtol(text, NULL, 0);
    *out = old[digit < 5 ? digit : 5];
    return true;
}

void topo_settings_read(const struct topo_rules *rules,
                        const char *(*get)(void *context, const char *name),
                        void *context, struct topo_settings *out)
{
    const char *disable = get(context, "NCCL_P2P_DISABLE");

    *out = (struct topo_settings){
        .nvb_disable = number(get(context, "NCCL_NVB_DISABLE"), 0) != 0,
        .pxn_disable = number(get(context, "NCCL_PXN_DISABLE"), 0) == 1,
        .pxn_c2c = number(get(context, "NCCL_PXN_C2C"), 1) != 0,
        .gdr_c2c = number(get(context, "NCCL_NET_GDR_C2C"), 1) != 0,
        .shm_disable = number(get(context, "NCCL_SHM_DISABLE"), 0) == 1,
        .net_disable_intra = number(get(context, "NCCL_NET_DISABLE_INTRA"), 0) == 1,
        .force_flush = number(get(context, "NCCL_NET_FORCE_FLUSH"), 0) != 0,
        .ignore_disabled_p2p = (int)number(get(context, "NCCL_IGNORE_DISABLED_P2P"), 0),
        .gdr_read = (int)number(get(context, "NCCL_NET_GDR_READ"), -2),
        .cross_nic = (int)number(get(context, "NCCL_CROSS_NIC"), 2),
        .p2p_pxn_level = (int)number(get(context, "NCCL_P2P_PXN_LEVEL"), 2),
        .channels_per_net_peer =
            (int)number(get(context, "NCCL_NCHANNELS_PER_NET_PEER"), -1),
        .min_p2p_channels = (int)number(get(context, "NCCL_MIN_P2P_NCHANNELS"), 1),
        .max_p2p_channels =
            (int)number(get(context, "NCCL_MAX_P2P_NCHANNELS"), TOPO_CHANNELS_MAX)};
    out->has_gdr_level =
        read_level(rules, get(context, "NCCL_NET_GDR_LEVEL"), &out->gdr_level);
    if (disable != NULL && strtol(disable, NULL, 0) == 1) {
        out->has_p2p_level = true;
        out->p2p_level = TOPO_LOC;
    } else {
        out->has_p2p_level =
            read_level(rules, get(context, "NCCL_P2P_LEVEL"), &out->p2p_level);
    }
}
