/* One cable with every common kind of addressing, from ARP or neighbour discovery to the last
 * byte. */
#include <check.h>
#include <string.h>

#include "backends/sim/backend.h"
#include "backends/sim/bed_testing.h"
#include "base/check.h"
#include "base/suite_testing.h"
#include "io/verbs.h"

static struct bed bed;
static struct bed_end ends[2];

static void stop(void)
{
    sim_bed_close(&ends[0]);
    sim_bed_close(&ends[1]);
    sim_bed_fini(&bed);
}

static const struct {
    const char *addresses[2];
    uint32_t mtus[2];
    int path_mtu;         /* of the connection, as enum ibv_mtu */
    const char *decoy;    /* an address that each port gets first, or NULL */
    uint32_t frame_bytes; /* on the wire, for a middle packet of a message */
} pairs[] = {
    {{"10.0.0.1/24", "10.0.0.2/24"}, {9000, 9000}, IBV_MTU_4096, NULL, 4178},
    {{"10.0.0.0/31", "10.0.0.1/31"}, {9000, 9000}, IBV_MTU_4096, NULL, 4178},
    {{"10.0.0.1/30", "10.0.0.2/30"}, {1500, 1500}, IBV_MTU_1024, NULL, 1106},
    {{"10.0.0.1/24", "10.0.0.2/24"}, {65535, 65535}, IBV_MTU_4096, NULL, 4178},
    {{"10.0.0.1/24", "10.0.0.2/24"}, {4200, 1500}, IBV_MTU_1024, NULL, 1106},
    {{"fd00:1::1/64", "fd00:1::2/64"}, {9000, 9000}, IBV_MTU_4096, NULL, 4198},
    {{"fd00:1::/127", "fd00:1::1/127"}, {9000, 9000}, IBV_MTU_4096, NULL, 4198},
    {{"fd00:1::1/126", "fd00:1::2/126"}, {1500, 1500}, IBV_MTU_1024, NULL, 1126},
    {{"fe80::1/64", "fe80::2/64"}, {9000, 9000}, IBV_MTU_4096, NULL, 4198},
    {{"10.0.0.1/24", "10.0.0.2/24"}, {9000, 9000}, IBV_MTU_4096, "10.7.0.9/16", 4178},
    {{"fd00:1::1/64", "fd00:1::2/64"}, {9000, 9000}, IBV_MTU_4096, "10.7.0.9/16", 4198},
    {{"10.0.0.1/24", "10.0.0.2/24"}, {9000, 9000}, IBV_MTU_4096, "10.0.0.9/25", 4178},
};

START_TEST(a_cable_carries_it)
{
    sim_bed_init(&bed);
    for (uint32_t i = 0; i < 2; i++) {
        sim_bed_host(&bed);
        sim_bed_port(&bed, i, pairs[_i].addresses[i], 0);
        bed.ports[i][0].mtu_bytes = pairs[_i].mtus[i];
        if (pairs[_i].decoy != NULL) {
            /* The other address, and its route, come first in the GID table. */
            bed.addresses[i][0][1] = bed.addresses[i][0][0];
            ck_assert(io_prefix_parse(pairs[_i].decoy, &bed.addresses[i][0][0]));
            bed.addresses[i][0][0].ip.bytes[15] += (uint8_t)i;
            bed.ports[i][0].n_addresses = 2;
        }
    }
    sim_bed_cable(&bed, (struct world_end){.node = 0}, (struct world_end){.node = 1});
    sim_bed_create(&bed);
    for (uint32_t i = 0; i < 2; i++) {
        sim_bed_open(&bed, &ends[i], i, 0, 0);
        if (pairs[_i].decoy != NULL) {
            ends[i].ip = bed.addresses[i][0][1].ip;
        }
        ends[i].path_mtu = pairs[_i].path_mtu;
    }
    ck_assert_int_eq(sim_bed_connect(&ends[0], &ends[1]), 0);
    struct world_cable_stats before, after;
    backend_sim.cable_stats(bed.world, 0, &before);
    memset(ends[0].memory, 0x71, BED_BYTES);
    sim_bed_write(&ends[0], &ends[1], BED_BYTES, 1);
    (void)sim_bed_wait(&ends[0], 1);
    ck_assert_mem_eq(ends[0].memory, ends[1].memory, BED_BYTES);
    backend_sim.cable_stats(bed.world, 0, &after);
    uint64_t payload = 128u << pairs[_i].path_mtu;
    uint64_t n = BED_BYTES / payload;
    ck_assert_uint_eq(after.packets[0] - before.packets[0], n);
    ck_assert_uint_eq(after.bytes[0] - before.bytes[0], n * pairs[_i].frame_bytes + 16);
    ck_assert_uint_eq(after.drops[0] + after.drops[1], 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("backends/sim/pair");
    TCase *networks = tcase_create("networks");
    tcase_add_checked_fixture(networks, NULL, stop);
    tcase_add_loop_test(networks, a_cable_carries_it, 0, (int)WEFT_LENGTH(pairs));
    suite_add_tcase(suite, networks);
    return suite_run(suite);
}
