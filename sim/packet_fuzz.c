/* Fuzzes the packet decoder: an accepted packet must encode to the same bytes, and decode
 * from them to the same packet. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "sim/icrc.h"
#include "sim/packet_testing.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Checks that `roce` encodes to `frame`, and decodes from that again. */
static void check_round(const struct sim_roce *roce, const uint8_t *frame, size_t n_frame)
{
    uint8_t out[SIM_PACKET_BYTES_MAX];
    struct sim_roce again;
    size_t used = 0;
    size_t n = sim_roce_encode(roce, out, sizeof(out));
    weft_check(n == n_frame && memcmp(out, frame, n) == 0);
    weft_check(sim_roce_decode(out, n, &again, &used) == SIM_PACKET_OK);
    weft_check(used == n && sim_roce_equal(roce, &again));
    weft_check(sim_roce_encode(roce, out, n - 1) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sim_roce roce;
    size_t used = 0;
    /* A copy of the exact size, so that reading one byte too far is detected. */
    uint8_t *frame = malloc(size > 0 ? size : 1);
    if (frame == NULL) {
        return 0;
    }
    memcpy(frame, data, size);
    enum sim_packet_reject reject = sim_roce_decode(frame, size, &roce, &used);
    weft_check(reject < SIM_PACKET_N_REJECTS && sim_packet_reject_name(reject) != NULL);
    if (reject == SIM_PACKET_IP_CHECKSUM) {
        /* The fuzzer does not find valid checksums, so this corrects it. */
        uint8_t *ip = frame + (roce.has_vlan ? 18 : 14);
        ip[10] = ip[11] = 0;
        uint16_t sum = (uint16_t)~sim_ones_sum(0, ip, 20);
        ip[10] = (uint8_t)(sum >> 8);
        ip[11] = (uint8_t)sum;
        reject = sim_roce_decode(frame, size, &roce, &used);
        weft_check(reject != SIM_PACKET_IP_CHECKSUM);
    }
    if (reject == SIM_PACKET_ICRC) {
        /* Nor does it find valid CRCs. With the correct one the packet must be
         * accepted. */
        weft_check(used <= size && roce.n_payload <= used);
        for (unsigned i = 0; i < 4; i++) {
            frame[used - 4 + i] = 0;
        }
        size_t ip = roce.has_vlan ? 18 : 14;
        uint32_t icrc = sim_icrc(frame + ip, used - 4 - ip, roce.layer == SIM_ROCE_V1);
        for (unsigned i = 0; i < 4; i++) {
            frame[used - 4 + i] = (uint8_t)(icrc >> (8 * i));
        }
        reject = sim_roce_decode(frame, size, &roce, &used);
        weft_check(reject == SIM_PACKET_OK || reject == SIM_PACKET_UDP_CHECKSUM);
    }
    if (reject == SIM_PACKET_OK) {
        check_round(&roce, frame, used);
    }
    free(frame);
    return 0;
}
