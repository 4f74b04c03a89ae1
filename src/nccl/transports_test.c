/* Tests NCCL's canConnect rules case by case. The expected results were derived by hand from
 * NCCL's transports, not computed. */
#include "nccl/transports.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/suite_testing.h"
#include "base/text.h"

#define CPU                                                                              \
    "<cpu numaid=\"%u\" affinity=\"ff\" arch=\"x86_64\" vendor=\"%s\" familyid=\"6\" "   \
    "modelid=\"85\">"

/* A machine with two GPUs at each socket, behind one PCI switch or directly at the CPU. */
struct machine {
    const char *vendor;
    bool has_switches;
    unsigned nvlinks; /* from each GPU to its neighbour, 0-1 and 2-3 */
    unsigned sm;
    unsigned net_mbps; /* speed of a NET on each switch; 0 if none */
};

static void add_gpu(const struct machine *m, unsigned i, struct weft_text *out)
{
    weft_text_add(out,
                  "<pci busid=\"0000:%02x:00.0\" class=\"0x030200\" link_speed=\"16.0 "
                  "GT/s PCIe\" link_width=\"16\"><gpu dev=\"%u\" sm=\"%u\" rank=\"%u\" "
                  "gdr=\"1\">",
                  0x11 + i, i, m->sm, i);
    if (m->nvlinks > 0) {
        weft_text_add(out,
                      "<nvlink target=\"0000:%02x:00.0\" count=\"%u\" "
                      "tclass=\"0x030200\"/>",
                      0x11 + (i ^ 1), m->nvlinks);
    }
    weft_text_add(out, "</gpu></pci>");
}

static void add_net(const struct machine *m, unsigned i, struct weft_text *out)
{
    if (m->net_mbps > 0) {
        weft_text_add(
            out,
            "<pci busid=\"0000:%02x:00.0\" class=\"0x020000\" link_speed=\"32.0 "
            "GT/s PCIe\" link_width=\"16\"><nic><net name=\"n%u\" dev=\"%u\" "
            "speed=\"%u\" port=\"1\" guid=\"0x%u\" maxconn=\"131072\" "
            "gdr=\"1\"/></nic></pci>",
            0x41 + i, i, i, m->net_mbps, i + 1);
    }
}

static struct topo_system *build(const struct machine *m)
{
    struct weft_text text = {0};
    struct topo_system *system = NULL;
    struct weft_error error = {0};

    weft_text_add(&text, "<system version=\"1\">");
    for (unsigned cpu = 0; cpu < 2; cpu++) {
        weft_text_add(&text, CPU, cpu, m->vendor);
        if (m->has_switches) {
            weft_text_add(&text,
                          "<pci busid=\"0000:%02x:00.0\" class=\"0x060400\" "
                          "link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">",
                          0x31 + cpu);
        }
        add_gpu(m, 2 * cpu, &text);
        add_gpu(m, 2 * cpu + 1, &text);
        add_net(m, cpu, &text);
        weft_text_add(&text, "%s</cpu>", m->has_switches ? "</pci>" : "");
    }
    weft_text_add(&text, "</system>");
    ck_assert_int_eq(
        topo_load(text.bytes, text.n, topo_rules_find("2.25"), &system, &error), WEFT_OK);
    weft_text_fini(&text);
    return system;
}

static const char *env_name, *env_value;

static const char *get(void *context, const char *name)
{
    (void)context;
    return env_name != NULL && strcmp(name, env_name) == 0 ? env_value : NULL;
}

struct expected {
    const struct machine *machine; /* NULL: topology unknown */
    const char *setting, *value;
    unsigned a, b;
    bool other_host, other_shm, same_gpu, no_access, ipc_off;
    const char *transport, *why;
};

static void ask(const struct expected *e)
{
    struct topo_peer peers[4] = {{1, 24, 0}, {1, 24, 1}, {1, 24, 2}, {1, 24, 3}};
    struct topo_settings settings;
    struct topo_comm comm = {.rank = e->a, .n_ranks = 4, .peers = peers};
    struct topo_view view = {.settings = &settings, .comm = &comm};
    const struct transport_question question = {.view = &view,
                                                .self = e->a,
                                                .peer = e->b,
                                                .is_same_gpu = e->same_gpu,
                                                .can_access = !e->no_access,
                                                .is_ipc_off = e->ipc_off};
    struct transport_choice choice;
    struct weft_error error = {0};
    char why[TRANSPORT_WHY_BYTES];

    env_name = e->setting;
    env_value = e->value;
    topo_settings_read(topo_rules_find("2.25"), get, NULL, &settings);
    peers[e->b].host_hash += e->other_host;
    peers[e->b].shm_dev += e->other_shm;
    if (e->machine != NULL) {
        view.system = build(e->machine);
        ck_assert_int_eq(topo_compute_paths(&view, &error), WEFT_OK);
        ck_assert_int_eq(topo_trim(&view, &error), WEFT_OK);
        ck_assert_int_eq(topo_compute_paths(&view, &error), WEFT_OK);
    }
    ck_assert_int_eq(transport_choose(&question, &choice, &error), WEFT_OK);
    ck_assert_str_eq(choice.is_made ? weft_transport_name(choice.kind) : "none",
                     e->transport);
    ck_assert_str_eq(transport_why(&choice, why), e->why);
    topo_free(view.system);
}

static const struct machine switches = {.vendor = "GenuineIntel", true, 0, 86, 0};
static const struct machine plain = {.vendor = "GenuineIntel", false, 0, 86, 0};
static const struct machine a100 = {.vendor = "GenuineIntel", true, 4, 80, 0};
static const struct machine h100 = {.vendor = "GenuineIntel", true, 4, 90, 0};
static const struct machine wide = {.vendor = "GenuineIntel", true, 0, 86, 200000};

static const struct expected cases[] = {
    {&a100, NULL, NULL, 0, 1, .transport = "p2p",
     .why = "p2p: path NVL, read by the receiver"},
    {&h100, NULL, NULL, 0, 1, .transport = "p2p", .why = "p2p: path NVL"},
    {&switches, NULL, NULL, 0, 1, .transport = "p2p", .why = "p2p: path PIX"},
    {&switches, NULL, NULL, 0, 1, .no_access = true, .transport = "shm",
     .why = "p2p: no peer access; shm: same /dev/shm"},
    {&switches, NULL, NULL, 0, 1, .ipc_off = true, .transport = "shm",
     .why = "p2p: switched off; shm: same /dev/shm"},
    /* Two processes on one GPU, whether or not the topology is known. */
    {&plain, NULL, NULL, 0, 1, .same_gpu = true, .transport = "p2p",
     .why = "p2p: same GPU"},
    {NULL, NULL, NULL, 0, 1, .same_gpu = true, .transport = "p2p",
     .why = "p2p: same GPU"},
    {&plain, NULL, NULL, 0, 1, .same_gpu = true, .ipc_off = true, .transport = "shm",
     .why = "p2p: switched off; shm: same /dev/shm"},
    {&plain, "NCCL_P2P_DISABLE", "1", 0, 1, .same_gpu = true, .transport = "shm",
     .why = "p2p: switched off; shm: same /dev/shm"},
    {&plain, NULL, NULL, 0, 1, .same_gpu = true, .other_shm = true, .transport = "net",
     .why = "p2p: other /dev/shm; shm: other /dev/shm; net: the network reaches it"},
    {&switches, NULL, NULL, 0, 2, .transport = "shm",
     .why = "p2p: path SYS is farther than PXB; shm: same /dev/shm"},
    {&switches, "NCCL_P2P_LEVEL", "SYS", 0, 2, .transport = "p2p",
     .why = "p2p: path SYS"},
    {&switches, "NCCL_P2P_DISABLE", "1", 0, 1, .transport = "shm",
     .why = "p2p: path PHB is farther than LOC; shm: same /dev/shm"},
    {&plain, NULL, NULL, 0, 1, .transport = "shm",
     .why = "p2p: path PHB is farther than PXB; shm: same /dev/shm"},
    {&plain, "NCCL_SHM_DISABLE", "1", 0, 1, .transport = "net",
     .why = "p2p: out of reach inside; shm: switched off; net: the network reaches it"},
    {&switches, NULL, NULL, 0, 1, .other_shm = true, .transport = "net",
     .why = "p2p: other /dev/shm; shm: other /dev/shm; net: the network reaches it"},
    {&switches, "NCCL_NET_DISABLE_INTRA", "1", 0, 1, .other_shm = true,
     .transport = "none",
     .why = "p2p: other /dev/shm; shm: other /dev/shm; net: switched off; collnet: no "
            "such network"},
    {&switches, NULL, NULL, 0, 3, .other_host = true, .transport = "net",
     .why = "p2p: another host; shm: another host; net: the network reaches it"},
    /* 25 GB/s of network at each socket is more than the 10 GB/s between the sockets (SYS,
     * Skylake). The GPUs of the other socket are removed; those of one socket still use p2p. */
    {&wide, NULL, NULL, 0, 1, .transport = "p2p", .why = "p2p: path PIX"},
    {&switches, "NCCL_SHM_DISABLE", "1", 0, 1, .no_access = true, .transport = "none",
     .why = "p2p: no peer access; shm: switched off; net: the way inside is no slower; "
            "collnet: no such network"},
    {NULL, NULL, NULL, 0, 1, .transport = "shm",
     .why = "p2p: inside unknown; shm: same /dev/shm"},
    {NULL, NULL, NULL, 0, 1, .other_shm = true, .transport = "net",
     .why = "p2p: other /dev/shm; shm: other /dev/shm; net: the network reaches it"},
};

START_TEST(ranks_are_connected_as_nccl_connects_them)
{
    ask(&cases[_i]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("nccl/transports");
    TCase *tests = tcase_create("choice");

    tcase_add_loop_test(tests, ranks_are_connected_as_nccl_connects_them, 0,
                        (int)(sizeof(cases) / sizeof(cases[0])));
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
