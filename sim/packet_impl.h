/* Wire constants shared by encoder and decoder. Private to sim/packet*.c. */
#ifndef WEFT_SIM_PACKET_IMPL_H
#define WEFT_SIM_PACKET_IMPL_H

#include <stddef.h>
#include <stdint.h>

enum {
    ETHERTYPE_IPV4 = 0x0800,
    ETHERTYPE_VLAN = 0x8100,
    ETHERTYPE_IPV6 = 0x86dd,
    ETHERTYPE_ROCE_V1 = 0x8915,
    PROTOCOL_UDP = 17,
    NEXT_HEADER_BTH = 0x1b, /* of a GRH */
    ROCE_UDP_PORT = 4791,
    IPV4_DONT_FRAGMENT = 0x4000
};

enum {
    ETHERNET_BYTES = 14,
    VLAN_BYTES = 4,
    IPV4_BYTES = 20,
    IPV6_BYTES = 40,
    UDP_BYTES = 8,
    BTH_BYTES = 12,
    ICRC_BYTES = 4,
    CNP_RESERVED_BYTES = 16,
    FCS_PREAMBLE_GAP_BYTES = 4 + 8 + 12
};

/* Bits of bytes 1, 4 and 8 of the BTH. */
enum {
    BTH_SOLICITED = 0x80,
    BTH_MIG_REQ = 0x40,
    BTH_FECN = 0x80,
    BTH_BECN = 0x40,
    BTH_ACK_REQ = 0x80
};

/* Returns the one's complement sum of 16-bit words (RFC 1071), continuing from `sum`. An
 * odd last byte is the upper half of a word. At most 64 KiB. */
uint16_t sim_ones_sum(uint32_t sum, const uint8_t *bytes, size_t n_bytes);

#endif
