/* From a host's facts to the topology that NCCL would have made of them. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "io/world.h"
#include "topo/describe.h"
#include "topo/graphs.h"

static struct world_port ports[8];
static struct world_host host;
static const uint64_t roots[2] = {100000000000, 100000000000};
static struct io_machine machine;
static struct topo_inside inside;
static struct topo_system *built;
static struct weft_text text;
static struct weft_error error;
static const int ranks[] = {0, 1, 2, 3};

static void set_up(void)
{
    static const char *const names[] = {"p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7"};

    memset(ports, 0, sizeof(ports));
    for (uint32_t i = 0; i < 8; i++) {
        ports[i] = (struct world_port){
            .name = names[i], .device = i, .port = 1, .rate_bps = 100000000000};
    }
    host = (struct world_host){.name = "titanic", .ports = ports, .n_gpus = 1};
    weft_error_clear(&error);
    inside = (struct topo_inside){
        .machine = &machine, .host_hash = 0xabc, .ranks = ranks, .n_ranks = 1};
}

static void tear_down(void)
{
    topo_free(built);
    built = NULL;
    weft_text_fini(&text);
    text = (struct weft_text){NULL, 0, 0};
    io_machine_fini(&machine);
}

/* Two cages: four functions, the first ones of both roots first. */
static void take_spark(void)
{
    static const char *const names[] = {"c0.0", "c1.0", "c0.1", "c1.1"};

    for (uint32_t i = 0; i < 4; i++) {
        ports[i].name = names[i];
        ports[i].is_cage = true;
        ports[i].pcie_root = i / 2;
    }
    host.n_ports = 4;
    host.pcie_root_bps = roots;
    host.n_pcie_roots = 2;
    io_machine_of_world(&host, NULL, &machine);
}

static void describe(void)
{
    ck_assert_msg(topo_describe(&inside, &text, &error) == WEFT_OK, "%s", error.message);
}

static const char *no_setting(void *context, const char *name)
{
    (void)context;
    (void)name;
    return NULL;
}

/* The ring of a job of `n_hosts` hosts like this one. */
static void find_ring(uint32_t n_hosts, struct topo_graph *out)
{
    static struct topo_settings settings;
    static struct topo_peer peers[16];
    struct topo_comm comm = {.n_ranks = inside.n_ranks * n_hosts, .peers = peers};
    struct topo_view view = {.settings = &settings, .comm = &comm};

    for (uint32_t i = 0; i < comm.n_ranks; i++) {
        peers[i] = (struct topo_peer){.host_hash = i / inside.n_ranks, .shm_dev = 1};
    }
    ck_assert_msg(topo_of_host(&inside, topo_rules_find("2.25"), &built, &error) ==
                      WEFT_OK,
                  "%s", error.message);
    view.system = built;
    topo_settings_read(built->rules, no_setting, NULL, &settings);
    ck_assert_int_eq(topo_compute_paths(&view, &error), WEFT_OK);
    ck_assert_int_eq(topo_trim(&view, &error), WEFT_OK);
    ck_assert_int_eq(topo_compute_paths(&view, &error), WEFT_OK);
    ck_assert_int_eq(topo_graph_ring(&view, out, &error), WEFT_OK);
}

START_TEST(a_spark_is_described_as_its_dump_has_it)
{
    take_spark();
    describe();
    ck_assert_str_eq(
        text.bytes,
        "<system version=\"1\">\n"
        "  <cpu host_hash=\"0xabc\" numaid=\"0\" affinity=\"fffff\" arch=\"arm64\">\n"
        "    <pci busid=\"0000:01:00.0\" class=\"0x020000\" vendor=\"0x15b3\" "
        "device=\"0x1021\" link_speed=\"32.0 GT/s PCIe\" link_width=\"4\">\n"
        "      <nic>\n"
        "        <net name=\"c0.0\" dev=\"0\" latency=\"0\" speed=\"100000\" port=\"1\" "
        "guid=\"0x4cbb470300c00030\" maxconn=\"131072\" gdr=\"0\"/>\n"
        "        <net name=\"c1.0\" dev=\"1\" latency=\"0\" speed=\"100000\" port=\"2\" "
        "guid=\"0x4cbb470300c00030\" maxconn=\"131072\" gdr=\"0\"/>\n"
        "      </nic>\n"
        "    </pci>\n"
        "    <pci busid=\"0002:01:00.0\" class=\"0x020000\" vendor=\"0x15b3\" "
        "device=\"0x1021\" link_speed=\"32.0 GT/s PCIe\" link_width=\"4\">\n"
        "      <nic>\n"
        "        <net name=\"c0.1\" dev=\"2\" latency=\"0\" speed=\"100000\" port=\"1\" "
        "guid=\"0x4cbb470300c00050\" maxconn=\"131072\" gdr=\"0\"/>\n"
        "        <net name=\"c1.1\" dev=\"3\" latency=\"0\" speed=\"100000\" port=\"2\" "
        "guid=\"0x4cbb470300c00050\" maxconn=\"131072\" gdr=\"0\"/>\n"
        "      </nic>\n"
        "    </pci>\n"
        "    <pci busid=\"000f:01:00.0\" class=\"0x030200\" link_speed=\"2.5 GT/s PCIe\" "
        "link_width=\"16\">\n"
        "      <gpu dev=\"0\" sm=\"121\" rank=\"0\" gdr=\"0\">\n"
        "        <c2c bw=\"43125\" count=\"8\"/>\n"
        "      </gpu>\n"
        "    </pci>\n"
        "  </cpu>\n"
        "</system>\n");
}
END_TEST

START_TEST(a_ring_of_sparks_has_two_channels_on_nets_0_and_2)
{
    struct topo_graph *ring = weft_calloc(1, sizeof(*ring));

    take_spark();
    find_ring(3, ring);
    ck_assert_int_eq(ring->n_channels, 2);
    ck_assert_uint_eq(ring->nets[0], 0);
    ck_assert_uint_eq(ring->nets[1], 0);
    ck_assert_uint_eq(ring->nets[2], 2);
    ck_assert_uint_eq(ring->nets[3], 2);
    free(ring);
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("describe");
    TCase *tcase = tcase_create("facts");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, a_spark_is_described_as_its_dump_has_it);
    tcase_add_test(tcase, a_ring_of_sparks_has_two_channels_on_nets_0_and_2);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(suite());

    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? 0 : 1;
}
