/* Random topologies, reasonable and not: every accepted one has valid paths and an answer to
 * every query. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/rng.h"
#include "base/suite_testing.h"
#include "base/text.h"
#include "nccl/dump.h"
#include "nccl/graphs.h"
#include "nccl/paths.h"

enum { N_TOPOLOGIES = 10000, N_BATCHES = 20, GPUS_MAX = 12 };

struct drawing {
    struct weft_rng rng;
    struct weft_text text;
    uint32_t n_gpus, n_nets, n_buses;
    char buses[GPUS_MAX][16];
};

static uint32_t below(struct drawing *drawing, uint32_t n)
{
    return (uint32_t)weft_rng_below(&drawing->rng, n);
}

static bool chance(struct drawing *drawing, uint32_t percent)
{
    return below(drawing, 100) < percent;
}

/* Writes a new bus id, or sometimes an existing one. */
static void draw_bus(struct drawing *drawing, char *out)
{
    uint32_t bus = chance(drawing, 3) ? below(drawing, 4) : drawing->n_buses++;

    weft_format(out, 16, "0000:%02x:00.0", bus & 255);
}

static const char *draw_speed(struct drawing *drawing)
{
    static const char *const speeds[] = {"16.0 GT/s PCIe", "32.0 GT/s PCIe", "8 GT/s", "",
                                         "2.5 GT/s",       "64.0 GT/s PCIe", "Unknown"};

    return speeds[below(drawing, WEFT_LENGTH(speeds))];
}

static void draw_links(struct drawing *drawing)
{
    for (uint32_t n = below(drawing, 4); n > 0; n--) {
        uint32_t other = below(drawing, drawing->n_gpus + 1);

        weft_text_add(&drawing->text, "<nvlink target='%s' count='%u' tclass='0x%s'/>",
                      other < drawing->n_gpus ? drawing->buses[other] : "0000:fe:00.0",
                      below(drawing, 19),
                      chance(drawing, 70)   ? "030200"
                      : chance(drawing, 70) ? "068000"
                                            : "068001");
    }
    if (chance(drawing, 10)) {
        weft_text_add(&drawing->text, "<c2c bw='43125' count='%u'/>", below(drawing, 9));
    }
}

static void draw_gpu(struct drawing *drawing, const char *bus)
{
    static const int models[] = {60, 70, 80, 86, 90, 100, 121};

    weft_text_add(&drawing->text, "<gpu dev='%u' sm='%d' gdr='%u'", drawing->n_gpus,
                  models[below(drawing, WEFT_LENGTH(models))], below(drawing, 2));
    if (drawing->n_gpus < GPUS_MAX && chance(drawing, 95)) {
        weft_text_add(&drawing->text, " rank='%u'", drawing->n_gpus);
        memcpy(drawing->buses[drawing->n_gpus++], bus, 16);
        weft_text_add(&drawing->text, ">");
        draw_links(drawing);
    } else {
        weft_text_add(&drawing->text, ">");
    }
    weft_text_add(&drawing->text, "</gpu>");
}

static void draw_nic(struct drawing *drawing)
{
    weft_text_add(&drawing->text, "<nic>");
    for (uint32_t n = 1 + below(drawing, 2); n > 0; n--) {
        weft_text_add(&drawing->text, "<net name='m' speed='%d' gdr='%u' guid='0x%x'",
                      (int)below(drawing, 5) * 100000 - 1, below(drawing, 2),
                      below(drawing, 1000));
        if (chance(drawing, 95)) {
            weft_text_add(&drawing->text, " dev='%u'", drawing->n_nets++);
        }
        weft_text_add(&drawing->text, "/>");
    }
    weft_text_add(&drawing->text, "</nic>");
}

static void draw_pci(struct drawing *drawing, int depth)
{
    uint32_t kind = below(drawing, 10);
    char bus[16];

    draw_bus(drawing, bus);
    weft_text_add(&drawing->text,
                  "<pci busid='%s' class='0x%s' link_speed='%s' link_width='%u'%s>", bus,
                  kind < 4   ? "030200"
                  : kind < 7 ? "020700"
                             : "060400",
                  draw_speed(drawing), below(drawing, 2) * 16,
                  chance(drawing, 10)
                      ? " vendor='0x1000' device='0xc010' subsystem_vendor='0x1000' "
                        "subsystem_device='0xa096'"
                      : "");
    if (kind < 4) {
        draw_gpu(drawing, bus);
    } else if (kind < 7) {
        draw_nic(drawing);
    } else if (depth < 4) {
        for (uint32_t n = below(drawing, 5); n > 0; n--) {
            draw_pci(drawing, depth + 1);
        }
        if (chance(drawing, 5)) {
            weft_text_add(&drawing->text, "<pcilink target='0000:0%u:00.0'/>",
                          below(drawing, 9));
        }
    }
    weft_text_add(&drawing->text, "</pci>");
}

static void draw_cpu(struct drawing *drawing, uint32_t numa)
{
    static const char *const kinds[] = {
        "arch='x86_64' vendor='GenuineIntel' familyid='6' modelid='143'",
        "arch='x86_64' vendor='AuthenticAMD'", "arch='arm64'", "arch='ppc64'",
        "arch='x86_64' vendor='CentaurHauls' familyid='7' modelid='91'"};

    weft_text_add(&drawing->text, "<cpu numaid='%u' %s>", numa,
                  kinds[below(drawing, WEFT_LENGTH(kinds))]);
    for (uint32_t n = below(drawing, 5); n > 0; n--) {
        draw_pci(drawing, 0);
    }
    if (chance(drawing, 5)) {
        draw_nic(drawing);
    }
    weft_text_add(&drawing->text, "</cpu>");
}

/* ---- checks ---- */

static bool is_link_of(const struct topo_node *node, const struct topo_link *link)
{
    return link >= node->links && link < node->links + node->n_links;
}

/* Checks that every hop leaves from where the previous one ended, and that the last ends at
 * the base. */
static void check_path(const struct topo_node *from, const struct topo_node *to)
{
    const struct topo_path *path = topo_path(from, to);
    const struct topo_node *at = from;

    for (uint32_t i = 0; i < path->n_hops; i++) {
        ck_assert(is_link_of(at, path->hops[i]));
        at = path->hops[i]->to;
    }
    ck_assert(path->type == TOPO_DIS || path->type == TOPO_NETWORK || path->bw > 0);
    ck_assert(path->bw == 0 || at == to);
}

static void check_paths(const struct topo_system *system)
{
    static const enum topo_type bases[] = {TOPO_GPU, TOPO_NVS, TOPO_CPU, TOPO_NET};

    for (int type = 0; type < TOPO_N_TYPES; type++) {
        for (uint32_t i = 0; i < system->n[type]; i++) {
            const struct topo_node *from = system->nodes[type][i];

            for (size_t b = 0; b < WEFT_LENGTH(bases); b++) {
                for (uint32_t k = 0; from->paths[bases[b]] && k < system->n[bases[b]];
                     k++) {
                    check_path(from, system->nodes[bases[b]][k]);
                }
            }
        }
    }
}

/* Checks that every channel contains every rank once. */
static void check_channels(const struct topo_system *system,
                           const struct topo_graph *graph)
{
    ck_assert_int_ge(graph->n_channels, 1);
    ck_assert_int_le(graph->n_channels, graph->max_channels);
    for (int c = 0; c < graph->n_channels; c++) {
        uint32_t seen = 0;

        for (uint32_t i = 0; i < system->n[TOPO_GPU]; i++) {
            int rank = graph->ranks[(uint32_t)c * system->n[TOPO_GPU] + i];

            ck_assert_ptr_nonnull(topo_gpu_of(system, rank));
            seen |= 1u << rank;
        }
        ck_assert_int_eq(__builtin_popcount(seen), (int)system->n[TOPO_GPU]);
    }
}

static void check_graphs(const struct topo_view *view, struct weft_text *text)
{
    struct topo_graph *graphs = weft_calloc(2, sizeof(*graphs));

    if (topo_graph_ring(view, &graphs[0], NULL) == WEFT_OK &&
        topo_graph_tree(view, &graphs[0], &graphs[1], NULL) == WEFT_OK) {
        for (int i = 0; i < 2; i++) {
            check_channels(view->system, &graphs[i]);
            topo_dump_graph(view->system, &graphs[i], "", text);
        }
    }
    free(graphs);
}

static const char *draw_setting(void *context, const char *name)
{
    static const char *const levels[] = {"LOC", "NVL", "PIX", "PXB", "PHB", "SYS", "3"};
    struct drawing *drawing = context;

    if (chance(drawing, 80)) {
        return NULL;
    }
    if (strstr(name, "LEVEL") != NULL && strstr(name, "PXN") == NULL) {
        return levels[below(drawing, WEFT_LENGTH(levels))];
    }
    return chance(drawing, 50) ? "1" : "2";
}

static weft_status run(struct drawing *drawing, struct topo_system *system,
                       const struct topo_rules *rules, struct weft_error *error)
{
    struct topo_settings settings;
    struct topo_peer peers[2 * GPUS_MAX];
    struct topo_comm comm = {.rank = below(drawing, drawing->n_gpus + 1),
                             .n_ranks = drawing->n_gpus * (1 + below(drawing, 2)),
                             .peers = peers};
    struct topo_view view = {.system = system,
                             .settings = &settings,
                             .comm =
                                 comm.n_ranks > 0 && chance(drawing, 80) ? &comm : NULL};
    weft_status status;

    for (uint32_t i = 0; i < WEFT_LENGTH(peers); i++) {
        peers[i] =
            (struct topo_peer){.host_hash = i < drawing->n_gpus && chance(drawing, 95),
                               .shm_dev = chance(drawing, 95),
                               .nvml_dev = (int)(i % (drawing->n_gpus + 1))};
    }
    topo_settings_read(rules, draw_setting, drawing, &settings);
    status = topo_compute_paths(&view, error);
    if (status == WEFT_OK) {
        check_paths(system);
    }
    if (status == WEFT_OK && view.comm != NULL) {
        status = topo_trim(&view, error);
        status = status == WEFT_OK ? topo_compute_paths(&view, error) : status;
    }
    if (status == WEFT_OK) {
        struct weft_text text = {NULL, 0, 0};

        check_paths(system);
        topo_dump_system(system, &text);
        topo_dump_paths(system, &text);
        topo_dump_queries(&view, &text);
        if (view.comm != NULL && system->n[TOPO_GPU] <= 6 && system->n[TOPO_NET] <= 6) {
            check_graphs(&view, &text);
        }
        weft_text_fini(&text);
    }
    return status;
}

START_TEST(ten_thousand_topologies)
{
    uint32_t n_run = 0;

    for (uint32_t i = 0; i < N_TOPOLOGIES / N_BATCHES; i++) {
        struct drawing drawing = {.n_gpus = 0};
        const struct topo_rules *rules = topo_rules_find(i % 2 == 0 ? "2.25" : "2.28");
        struct topo_system *system;
        struct weft_error error;
        uint32_t seed = (uint32_t)_i * N_TOPOLOGIES + i;

        weft_error_clear(&error);
        weft_rng_init(&drawing.rng, seed, "topologies");
        weft_text_add(&drawing.text, "<system version='1'>");
        for (uint32_t n = 1 + below(&drawing, 3); n > 0; n--) {
            draw_cpu(&drawing, n - 1);
        }
        weft_text_add(&drawing.text, "</system>");
        if (topo_load(drawing.text.bytes, drawing.text.n, rules, &system, &error) ==
            WEFT_OK) {
            n_run += run(&drawing, system, rules, &error) == WEFT_OK;
            topo_free(system);
        }
        /* A rejection gives a reason. */
        ck_assert(error.status == WEFT_OK || error.message[0] != '\0');
        weft_text_fini(&drawing.text);
    }
    ck_assert_uint_gt(n_run, N_TOPOLOGIES / N_BATCHES / 4);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("topo random");
    TCase *tests = tcase_create("random");

    suite_add_sweep(tests, ten_thousand_topologies, 0, N_BATCHES);
    tcase_set_timeout(tests, 300);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
