/* Tests that a host's facts give the topology that NCCL would make of them. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "io/world.h"
#include "nccl/describe.h"
#include "nccl/graphs.h"

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

/* Makes two cages with four functions, those of the first PCIe root first. */
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

static struct topo_settings settings;
static struct topo_peer peers[16];
static struct topo_comm comm;
static struct topo_view view;

/* Computes the paths of a job of `n_hosts` hosts like this one. */
static void find_paths(uint32_t n_hosts)
{
    comm = (struct topo_comm){.n_ranks = inside.n_ranks * n_hosts, .peers = peers};
    view = (struct topo_view){.settings = &settings, .comm = &comm};
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
}

static void find_ring(uint32_t n_hosts, struct topo_graph *out)
{
    find_paths(n_hosts);
    ck_assert_int_eq(topo_graph_ring(&view, out, &error), WEFT_OK);
}

/* topo.h of NCCL, ncclTopoNVLinkBw: sm 86 is an exception, sm 87 and 89 are not. */
START_TEST(a_link_is_as_fast_as_nccl_takes_it_for)
{
    static const struct {
        int sm;
        float gb_s;
    } rows[] = {{50, 20.0f}, {60, 18.0f}, {62, 18.0f}, {70, 20.0f},
                {75, 20.0f}, {80, 20.0f}, {85, 20.0f}, {86, 12.0f},
                {87, 20.0f}, {89, 20.0f}, {90, 20.6f}, {99, 20.6f}};
    const struct topo_rules rules = {.nvlink_sm100 = 40.1f};

    for (size_t i = 0; i < WEFT_LENGTH(rows); i++) {
        ck_assert_float_eq(topo_nvlink_bw(&rules, rows[i].sm), rows[i].gb_s);
    }
    ck_assert_float_eq(topo_nvlink_bw(&rules, 100), 40.1f);
    ck_assert_float_eq(topo_nvlink_bw(&rules, 121), 40.1f);
}
END_TEST

START_TEST(a_spark_is_described_as_its_dump_has_it)
{
    static const char wanted[] =
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
        "</system>\n";

    take_spark();
    describe();
    ck_assert_msg(strcmp(text.bytes, wanted) == 0, "%s", text.bytes);
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

/* ---- several ranks ---- */

static struct io_pci *add_pci(const char *bus_id, uint32_t parent, const char *class)
{
    struct io_pci *pci = io_machine_add_pci(&machine);

    weft_format(pci->bus_id, sizeof(pci->bus_id), "%s", bus_id);
    weft_format(pci->class, sizeof(pci->class), "%s", class);
    weft_format(pci->max_link_speed, sizeof(pci->max_link_speed), "16.0 GT/s PCIe");
    pci->max_link_width = 16;
    pci->parent = parent;
    pci->numa = 0;
    return pci;
}

/* Makes a switch at 01 (upstream) with a NIC between two GPUs, by bus id. */
static void take_switch(void)
{
    weft_format(machine.arch, sizeof(machine.arch), "x86_64");
    weft_format(machine.vendor, sizeof(machine.vendor), "AuthenticAMD");
    machine.family = 25;
    machine.model = 1;
    add_pci("0000:00:01.0", IO_MACHINE_NONE, "0x060400");
    add_pci("0000:01:00.0", 0, "0x060400");
    add_pci("0000:02:00.0", 1, "0x060400")->max_link_width = 8;
    add_pci("0000:03:00.0", 2, "0x030200");
    add_pci("0000:02:01.0", 1, "0x060400");
    add_pci("0000:04:00.0", 4, "");
    add_pci("0000:02:02.0", 1, "0x060400");
    add_pci("0000:05:00.0", 6, "0x030200");
    for (int i = 0; i < 2; i++) {
        struct io_gpu_facts *gpu = io_machine_add_gpu(&machine);

        *gpu = (struct io_gpu_facts){
            .pci = i == 0 ? 7 : 3, .dev = i, .sm = 80, .gdr = true, .n_nvlinks = 1};
        weft_format(gpu->nvlinks[0].target, sizeof(gpu->nvlinks[0].target),
                    "0000:0%d:00.0", i == 0 ? 3 : 5);
        weft_format(gpu->nvlinks[0].tclass, sizeof(gpu->nvlinks[0].tclass), "0x030200");
        gpu->nvlinks[0].count = 4;
    }
    struct io_net_facts *net = io_machine_add_net(&machine);
    *net = (struct io_net_facts){.pci = 5, .port = 1, .is_active = true, .gdr = true};
    weft_format(net->name, sizeof(net->name), "mlx5_0");
    net->speed_mbps = 200000;
    inside.n_ranks = 2;
}

/* Rank 0 has the GPU with the greater bus id and describes it and the NIC; what only rank 1
 * describes follows. */
START_TEST(ranks_put_their_descriptions_together_in_their_order)
{
    take_switch();
    describe();
    const char *first = strstr(text.bytes, "0000:04:00.0");
    const char *second = strstr(text.bytes, "<pci busid=\"0000:05:00.0\"");
    const char *third = strstr(text.bytes, "<pci busid=\"0000:03:00.0\"");
    ck_assert_ptr_nonnull(first);
    ck_assert_ptr_nonnull(second);
    ck_assert_ptr_nonnull(third);
    ck_assert(first < second && second < third);
    ck_assert_ptr_null(strstr(text.bytes, "0000:02:0")); /* downstream ports */
    ck_assert_ptr_null(strstr(text.bytes, "0000:00:01.0"));
    ck_assert_ptr_null(strstr(text.bytes, "keep"));
    ck_assert_ptr_nonnull(strstr(text.bytes, "familyid=\"175\" modelid=\"1\""));
    ck_assert_ptr_nonnull(strstr(third, "link_width=\"8\""));
    ck_assert_ptr_nonnull(strstr(second, "link_width=\"16\""));
    ck_assert_ptr_nonnull(strstr(second, "dev=\"0\" sm=\"80\" rank=\"0\" gdr=\"1\""));
    ck_assert_ptr_nonnull(strstr(third, "dev=\"1\" sm=\"80\" rank=\"1\" gdr=\"1\""));
    /* the NIC reports no class */
    ck_assert_ptr_nonnull(strstr(text.bytes, "class=\"0x02\""));
}
END_TEST

/* ---- NETs ---- */

START_TEST(a_port_without_carrier_is_no_net)
{
    struct topo_net_ports nets[4];

    take_spark();
    machine.nets[1].is_active = false;
    describe();
    ck_assert_ptr_null(strstr(text.bytes, "c1.0"));
    ck_assert_ptr_nonnull(strstr(text.bytes, "name=\"c0.1\" dev=\"1\""));
    ck_assert_uint_eq(topo_net_ports_of(&inside, nets, 4), 3);
    ck_assert_int_eq(nets[1].dev, 1);
    ck_assert_uint_eq(nets[1].nets[0], 2);
    ck_assert_uint_eq(topo_net_ports_of(&inside, nets, 2), 2);
}
END_TEST

START_TEST(merged_cards_are_numbered_after_their_ports)
{
    struct topo_net_ports nets[4];

    take_spark();
    inside.merges_nics = true;
    ck_assert_uint_eq(topo_net_ports_of(&inside, nets, 4), 2);
    ck_assert_int_eq(nets[0].dev, 4);
    ck_assert_uint_eq(nets[0].n_nets, 2);
    ck_assert_uint_eq(nets[0].nets[1], 1);
    ck_assert_uint_eq(nets[1].nets[0], 2);
    describe();
    ck_assert_ptr_nonnull(strstr(text.bytes, "name=\"c0.0+c1.0\" dev=\"4\" latency=\"0\" "
                                             "speed=\"200000\""));
    ck_assert_ptr_nonnull(strstr(text.bytes, "name=\"c0.1+c1.1\" dev=\"5\""));
    ck_assert_ptr_null(strstr(text.bytes, "dev=\"1\""));
}
END_TEST

/* Functions of a card below a CPU: the merged one is connected to the CPU itself, with no
 * limit on bandwidth. */
START_TEST(a_card_of_two_functions_is_merged_where_they_meet)
{
    host.n_ports = 2;
    io_machine_of_world(&host, NULL, &machine);
    inside.merges_nics = true;
    ck_assert_msg(topo_of_host(&inside, topo_rules_find("2.25"), &built, &error) ==
                      WEFT_OK,
                  "%s", error.message);
    ck_assert_uint_eq(built->n[TOPO_NET], 1);
    ck_assert_int_eq(built->nodes[TOPO_NET][0]->u.net.dev, 2);
    ck_assert(built->nodes[TOPO_NET][0]->u.net.bw == 25.0f);
}
END_TEST

/* Every pair of limits gives a power of two, negative ones and those beyond all powers too. */
START_TEST(channels_are_limited_by_the_settings)
{
    static const struct {
        int least, most;
        uint32_t n_channels, n_all;
    } rows[] = {
        {1, 64, 4, 4},
        {1, 64, 5, 8},
        {1, 64, 80, 64},
        {16, 64, 4, 16},
        {8, 4, 16, 8}, /* the lower limit wins */
        {1, 0, 4, 1},
        {0, 0, 4, 1},
        {-3, 64, 4, 4},
        {1, -5, 4, 1},
        {-3, -5, 4, 1},
        {INT32_MIN, INT32_MIN, 4, 1},
        {-1, INT32_MAX, UINT32_MAX, 1u << 31},
        {INT32_MAX, 64, 4, 1u << 31},
        {(1 << 30) + 1, 64, 4, 1u << 31},
    };

    take_spark();
    find_paths(2);
    for (size_t i = 0; i < WEFT_LENGTH(rows); i++) {
        uint32_t n_all, per_peer;

        settings.min_p2p_channels = rows[i].least;
        settings.max_p2p_channels = rows[i].most;
        topo_p2p_channels(&view, rows[i].n_channels, &n_all, &per_peer);
        ck_assert_msg(n_all == rows[i].n_all, "row %zu: %u", i, n_all);
        ck_assert_uint_ge(per_peer, 1);
        ck_assert_uint_le(per_peer, n_all < 4 ? n_all : 4);
    }
}
END_TEST

/* ---- documents ---- */

#define NET(name, dev) "<net name=\"" name "\" dev=\"" dev "\" speed=\"50000\"/>"
#define GPU(bus, dev, rank)                                                              \
    "<pci busid=\"" bus "\" class=\"0x030200\" link_speed=\"\" link_width=\"16\">"       \
    "<gpu dev=\"" dev "\" sm=\"90\"" rank "/></pci>"
#define DOCUMENT                                                                         \
    "<system version=\"1\"><cpu numaid=\"0\" arch=\"arm64\">" GPU(                       \
        "0000:03:00.0", "1", " rank=\"7\"") GPU("0000:04:00.0", "0", " rank=\"6\"")      \
        GPU("0000:05:00.0", "2",                                                         \
            " rank=\"5\"") "<pci busid=\"0000:06:00.0\" class=\"0x020000\" "             \
                           "link_speed=\"\" "                                            \
                           "link_width=\"16\"><nic>" NET("other", "3") NET("p1", "2")    \
                               NET("left", "9") "</nic></pci></cpu></system>"

static void take_document(const char *document)
{
    host.n_ports = 2;
    host.gpu_document = document;
    host.n_gpu_document = strlen(document);
    io_machine_of_world(&host, NULL, &machine);
}

/* GPUs are assigned by number, ports by name and then in order; the rest is left out. */
START_TEST(a_document_gets_this_hosts_ranks_and_ports)
{
    take_document(DOCUMENT);
    inside.n_ranks = 2;
    describe();
    ck_assert_ptr_nonnull(strstr(text.bytes, "dev=\"0\" sm=\"90\" rank=\"0\" gdr=\"1\""));
    ck_assert_ptr_nonnull(strstr(text.bytes, "dev=\"1\" sm=\"90\" rank=\"1\" gdr=\"1\""));
    ck_assert_ptr_null(strstr(text.bytes, "0000:05:00.0"));
    ck_assert_ptr_nonnull(strstr(text.bytes, "name=\"p1\" dev=\"1\" speed=\"50000\""));
    ck_assert_ptr_nonnull(strstr(text.bytes, "name=\"other\" dev=\"0\" speed=\"50000\""));
    ck_assert_ptr_nonnull(strstr(text.bytes, "name=\"left\" speed"));
    ck_assert_ptr_nonnull(strstr(text.bytes, "latency=\"0\" port=\"1\""));
    ck_assert_int_eq(topo_of_host(&inside, topo_rules_find("2.25"), &built, &error),
                     WEFT_OK);
    ck_assert_uint_eq(built->n[TOPO_GPU], 2);
    ck_assert_uint_eq(built->n[TOPO_NET], 2);
}
END_TEST

/* Merged ports meet at a switch of the document; the function that NCCL makes up for them gets
 * the bus id of the nearest one above the first port. A missing one is reported. */
START_TEST(merged_ports_of_a_document_meet_at_its_switch)
{
#define BRIDGE(inner)                                                                    \
    "<system version=\"1\"><cpu numaid=\"0\" arch=\"arm64\">" GPU(                       \
        "0000:03:00.0", "0",                                                             \
        "") "<pci busid=\"0000:07:00.0\" class=\"0x060400\" link_speed=\"\" "            \
            "link_width=\"16\">" inner "</pci></cpu></system>"
#define FUNCTION(busid, name)                                                            \
    "<pci " busid " class=\"0x020000\" link_speed=\"\" link_width=\"16\"><nic>" NET(     \
        name, "0") "</nic></pci>"
    static const struct {
        const char *document, *bus;
    } rows[] = {
        {BRIDGE(FUNCTION("busid=\"0000:08:00.0\"", "p0")
                    FUNCTION("busid=\"0000:08:00.1\"", "p1")),
         "busid=\"0000:08:00.f\""},
        {BRIDGE(FUNCTION("", "p0") FUNCTION("busid=\"0000:08:00.1\"", "p1")), NULL},
        {BRIDGE(FUNCTION("busid=\"0000:08:00.0\"", "p0") FUNCTION("", "p1")),
         "busid=\"0000:08:00.f\""},
        {BRIDGE(FUNCTION("", "p0") FUNCTION("", "p1")), NULL},
        {BRIDGE(NET("p0", "0") NET("p1", "1")), "busid=\"0000:07:00.f\""},
    };

    for (size_t i = 0; i < WEFT_LENGTH(rows); i++) {
        weft_status status;

        take_document(rows[i].document);
        inside.merges_nics = true;
        describe();
        ck_assert_ptr_null(strstr(text.bytes, "null"));
        ck_assert_msg(rows[i].bus == NULL || strstr(text.bytes, rows[i].bus) != NULL,
                      "row %zu: %s", i, text.bytes);
        status = topo_of_host(&inside, topo_rules_find("2.25"), &built, &error);
        ck_assert_msg(rows[i].bus != NULL ? status == WEFT_OK
                                          : strstr(error.message, "busid") != NULL,
                      "row %zu: %s", i, error.message);
        tear_down();
        weft_error_clear(&error);
    }
}
END_TEST

START_TEST(a_port_that_the_document_lacks_hangs_on_the_first_cpu)
{
    take_document("<system version=\"1\"><cpu numaid=\"0\" arch=\"arm64\">" GPU(
        "0000:04:00.0", "0", "") "</cpu></system>");
    ck_assert_int_eq(topo_of_host(&inside, topo_rules_find("2.25"), &built, &error),
                     WEFT_OK);
    ck_assert_uint_eq(built->n[TOPO_NET], 2);
    ck_assert_uint_eq(built->n[TOPO_NIC], 1);
    ck_assert(built->nodes[TOPO_NET][0]->u.net.bw == 12.5f);
}
END_TEST

START_TEST(what_nccl_has_no_room_for_is_told)
{
    static struct world_port many[120];

    for (uint32_t i = 0; i < 120; i++) {
        many[i] = ports[0];
        many[i].device = i;
    }
    host.ports = many;
    host.n_ports = 120;
    io_machine_of_world(&host, NULL, &machine);
    ck_assert_int_eq(topo_describe(&inside, &text, &error), WEFT_ERR_INPUT);
    ck_assert_str_eq(error.message,
                     "NCCL gives up: more than 256 elements, or 128 in one");
    io_machine_fini(&machine);
    weft_error_clear(&error);
    take_document("<system version='1'>\n <cpu numaid='0' arch='arm64'/></system>");
    ck_assert_int_eq(topo_describe(&inside, &text, &error), WEFT_ERR_INPUT);
    ck_assert_str_eq(error.message, "1:1: there are fewer GPUs than processes");
}
END_TEST

static Suite *suite(void)
{
    Suite *suite = suite_create("describe");
    TCase *tcase = tcase_create("facts");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, a_link_is_as_fast_as_nccl_takes_it_for);
    tcase_add_test(tcase, a_spark_is_described_as_its_dump_has_it);
    tcase_add_test(tcase, a_ring_of_sparks_has_two_channels_on_nets_0_and_2);
    tcase_add_test(tcase, ranks_put_their_descriptions_together_in_their_order);
    tcase_add_test(tcase, a_port_without_carrier_is_no_net);
    tcase_add_test(tcase, merged_cards_are_numbered_after_their_ports);
    tcase_add_test(tcase, a_card_of_two_functions_is_merged_where_they_meet);
    tcase_add_test(tcase, a_document_gets_this_hosts_ranks_and_ports);
    tcase_add_test(tcase, channels_are_limited_by_the_settings);
    tcase_add_test(tcase, merged_ports_of_a_document_meet_at_its_switch);
    tcase_add_test(tcase, a_port_that_the_document_lacks_hangs_on_the_first_cpu);
    tcase_add_test(tcase, what_nccl_has_no_room_for_is_told);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return suite_run(suite());
}
