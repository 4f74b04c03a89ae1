/* Runs a decoder of xfer/, which the first byte selects, on any bytes. If they decode, the result
 * encodes to the same bytes. */
#include <string.h>

#include "base/check.h"
#include "xfer/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void purpose(const uint8_t bytes[CONN_PURPOSE_BYTES])
{
    uint8_t again[CONN_PURPOSE_BYTES];
    struct flow_purpose decoded;

    if (flow_purpose_decode(bytes, &decoded)) {
        flow_purpose_encode(&decoded, again);
        weft_check(memcmp(bytes, again, sizeof(again)) == 0);
    }
}

static void answer(const uint8_t bytes[CONN_PURPOSE_BYTES])
{
    uint8_t again[CONN_PURPOSE_BYTES];
    struct flow_answer decoded;

    if (flow_answer_decode(bytes, &decoded)) {
        flow_answer_encode(&decoded, again);
        weft_check(memcmp(bytes, again, sizeof(again)) == 0);
    }
}

static void final_state(const uint8_t bytes[CONN_PURPOSE_BYTES])
{
    uint8_t again[CONN_PURPOSE_BYTES];
    struct flow_final decoded;

    if (flow_final_decode(bytes, &decoded)) {
        flow_final_encode(&decoded, again);
        weft_check(memcmp(bytes, again, sizeof(again)) == 0);
    }
}

static void entry(const uint8_t bytes[XFER_CTS_BYTES])
{
    uint8_t again[XFER_CTS_BYTES];
    struct xfer_cts decoded;

    if (xfer_cts_decode(bytes, &decoded)) {
        xfer_cts_encode(&decoded, again);
        weft_check(memcmp(bytes, again, sizeof(again)) == 0);
    }
}

static void immediate(const uint8_t bytes[4])
{
    uint32_t bits = (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 |
                    (uint32_t)bytes[2] << 8 | bytes[3];
    struct xfer_imm decoded = xfer_imm_decode(bits);

    weft_check(decoded.kind == XFER_IMM_NONE || xfer_imm_encode(&decoded) == bits);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t bytes[64] = {0};

    if (size == 0) {
        return 0;
    }
    memcpy(bytes, data + 1, size - 1 < sizeof(bytes) ? size - 1 : sizeof(bytes));
    switch (data[0] % 5) {
    case 0:
        purpose(bytes);
        break;
    case 1:
        answer(bytes);
        break;
    case 2:
        entry(bytes);
        break;
    case 3:
        immediate(bytes);
        break;
    default:
        final_state(bytes);
        break;
    }
    return 0;
}
