#include "sim/frame.h"

/* Sizes of the extension headers in bytes (IBA 9.3). */
enum {
    RETH = 16,
    IMM = 4,
    IETH = 4,
    FETH = 4,
    AETH = 4,
    ATOMIC_ETH = 28,
    ATOMIC_ACK_ETH = 8
};

enum {
    SEND = RC_IS_REQUEST | RC_IS_SEND | RC_HAS_PAYLOAD,
    WRITE = RC_IS_REQUEST | RC_IS_WRITE | RC_HAS_PAYLOAD,
    RESPONSE = RC_IS_RESPONSE | RC_IS_READ | RC_HAS_PAYLOAD,
    ATOMIC = RC_IS_REQUEST | RC_IS_ATOMIC | RC_HAS_ATOMIC | RC_IS_FIRST | RC_IS_LAST,
    ONLY = RC_IS_FIRST | RC_IS_LAST
};

const struct rc_opcode_info rc_opcode_unknown = {0, 0, "?"};

const struct rc_opcode_info rc_opcode_infos[RC_N_OPCODES] = {
    [RC_SEND_FIRST] = {SEND | RC_IS_FIRST, 0, "SEND_FIRST"},
    [RC_SEND_MIDDLE] = {SEND, 0, "SEND_MIDDLE"},
    [RC_SEND_LAST] = {SEND | RC_IS_LAST, 0, "SEND_LAST"},
    [RC_SEND_LAST_IMM] = {SEND | RC_IS_LAST | RC_HAS_IMM, IMM, "SEND_LAST_IMM"},
    [RC_SEND_ONLY] = {SEND | ONLY, 0, "SEND_ONLY"},
    [RC_SEND_ONLY_IMM] = {SEND | ONLY | RC_HAS_IMM, IMM, "SEND_ONLY_IMM"},
    [RC_WRITE_FIRST] = {WRITE | RC_IS_FIRST | RC_HAS_RETH, RETH, "WRITE_FIRST"},
    [RC_WRITE_MIDDLE] = {WRITE, 0, "WRITE_MIDDLE"},
    [RC_WRITE_LAST] = {WRITE | RC_IS_LAST, 0, "WRITE_LAST"},
    [RC_WRITE_LAST_IMM] = {WRITE | RC_IS_LAST | RC_HAS_IMM, IMM, "WRITE_LAST_IMM"},
    [RC_WRITE_ONLY] = {WRITE | ONLY | RC_HAS_RETH, RETH, "WRITE_ONLY"},
    [RC_WRITE_ONLY_IMM] = {WRITE | ONLY | RC_HAS_RETH | RC_HAS_IMM, RETH + IMM,
                           "WRITE_ONLY_IMM"},
    [RC_READ_REQUEST] = {RC_IS_REQUEST | RC_IS_READ | ONLY | RC_HAS_RETH, RETH,
                         "READ_REQUEST"},
    [RC_READ_FIRST] = {RESPONSE | RC_IS_FIRST | RC_HAS_AETH, AETH, "READ_FIRST"},
    [RC_READ_MIDDLE] = {RESPONSE, 0, "READ_MIDDLE"},
    [RC_READ_LAST] = {RESPONSE | RC_IS_LAST | RC_HAS_AETH, AETH, "READ_LAST"},
    [RC_READ_ONLY] = {RESPONSE | ONLY | RC_HAS_AETH, AETH, "READ_ONLY"},
    [RC_ACK] = {RC_IS_RESPONSE | RC_HAS_AETH, AETH, "ACK"},
    [RC_ATOMIC_ACK] = {RC_IS_RESPONSE | RC_IS_ATOMIC | RC_HAS_AETH, AETH + ATOMIC_ACK_ETH,
                       "ATOMIC_ACK"},
    [RC_COMPARE_SWAP] = {ATOMIC, ATOMIC_ETH, "COMPARE_SWAP"},
    [RC_FETCH_ADD] = {ATOMIC, ATOMIC_ETH, "FETCH_ADD"},
    [RC_SEND_LAST_INVALIDATE] = {RC_IS_SEND | RC_IS_LAST | RC_HAS_IETH | RC_HAS_PAYLOAD,
                                 IETH, "SEND_LAST_INVALIDATE"},
    [RC_SEND_ONLY_INVALIDATE] = {RC_IS_SEND | ONLY | RC_HAS_IETH | RC_HAS_PAYLOAD, IETH,
                                 "SEND_ONLY_INVALIDATE"},
    [RC_FLUSH] = {ONLY | RC_HAS_FETH | RC_HAS_RETH, FETH + RETH, "FLUSH"},
    [RC_ATOMIC_WRITE] = {ONLY | RC_HAS_RETH | RC_HAS_PAYLOAD, RETH, "ATOMIC_WRITE"},
    /* Not assigned for the reliable connection. */
    [0x15] = {0, 0, "?"},
    [0x18] = {0, 0, "?"},
    [0x19] = {0, 0, "?"},
    [0x1a] = {0, 0, "?"},
    [0x1b] = {0, 0, "?"},
};
