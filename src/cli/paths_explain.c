/* weft paths --explain: prints why a path is as it is, and which settings would change it. For the
 * latter recomputes the paths with each setting. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cli/paths.h"
#include "nccl/dump.h"

/* Settings and values to try. */
static const struct {
    const char *name, *values[8];
} tries[] = {
    {"NCCL_NET_GDR_LEVEL", {"LOC", "PIX", "PXB", "PHB", "SYS"}},
    {"NCCL_NET_GDR_READ", {"0", "1"}},
    {"NCCL_NET_GDR_C2C", {"0"}},
    {"NCCL_P2P_LEVEL", {"LOC", "NVL", "PIX", "PXB", "PHB", "SYS"}},
    {"NCCL_P2P_DISABLE", {"1"}},
    {"NCCL_PXN_DISABLE", {"1"}},
    {"NCCL_PXN_C2C", {"0"}},
    {"NCCL_NVB_DISABLE", {"1"}},
    {"NCCL_SHM_DISABLE", {"1"}},
    {"NCCL_NET_DISABLE_INTRA", {"1"}},
};

struct explaining {
    const struct cli_options *options;
    const struct paths_document *document;
    const char *from, *to;
    struct weft_text out;
};

/* A computation and the session that it runs in. */
struct watching {
    struct explaining *explaining;
    struct paths_session *session;
};

static void add_path(const struct topo_path *path, struct weft_text *out)
{
    if (path == NULL || path->type == TOPO_DIS) {
        weft_text_add(out, "no way");
        return;
    }
    weft_text_add(out, "%s, %u hop%s, %g GB/s", topo_path_name(path->type), path->n_hops,
                  path->n_hops == 1 ? "" : "s", (double)path->bw);
    weft_text_add(out, "%s", path->n_hops > 0 ? ":" : "");
    topo_dump_hops(path, out);
}

/* Returns why a path has its type, which its longest step determines. */
static const char *reason(enum topo_path_type type)
{
    static const char *const reasons[TOPO_N_PATH_TYPES] = {
        [TOPO_LOC] = "it is the node itself",
        [TOPO_NVL] = "NVLink all the way",
        [TOPO_NVB] = "NVLink, through one other GPU",
        [TOPO_C2C] = "the GPU's coherent link to its CPU",
        [TOPO_PIX] = "at most one PCI switch is on the way",
        [TOPO_PXB] = "several PCI switches are on the way, but no CPU",
        [TOPO_P2C] = "the GPU's coherent link, then the PCI of the CPU",
        [TOPO_PXN] = "over another GPU, with NVLink, which is nearer to the NIC",
        [TOPO_PHB] = "it goes through a CPU",
        [TOPO_SYS] = "it goes from one CPU to another",
        [TOPO_NETWORK] = "only the network is left between them",
        [TOPO_DIS] = "nothing connects them"};

    return reasons[type];
}

/* Appends the narrowest hop of a path with several hops. */
static void add_narrowest(const struct topo_node *from, const struct topo_path *path,
                          struct weft_text *out)
{
    const struct topo_node *at = from;
    char a[TOPO_NAME_BYTES], b[TOPO_NAME_BYTES];

    for (uint32_t i = 0; path->n_hops > 1 && i < path->n_hops; i++) {
        const struct topo_link *hop = path->hops[i];

        if (hop->bw <= path->bw) {
            weft_text_add(out, "               narrowest: %s %g GB/s from %s to %s\n",
                          topo_link_name(hop->type), (double)hop->bw,
                          topo_node_name(at, a), topo_node_name(hop->to, b));
            return;
        }
        at = hop->to;
    }
}

static void add_stage(struct watching *watching, const char *stage,
                      const struct topo_node *from, const struct topo_node *to)
{
    struct weft_text *out = &watching->explaining->out;
    const struct topo_path *path = topo_path(from, to);

    weft_text_add(out, "  %-12s ", stage);
    add_path(path, out);
    weft_text_add(out, "\n");
    if (path != NULL) {
        weft_text_add(out, "               %s: %s\n", topo_path_name(path->type),
                      reason(path->type));
        add_narrowest(from, path, out);
    }
}

static bool is_pair(const struct topo_event *event, const struct topo_node *from,
                    const struct topo_node *to)
{
    return (event->from == from && event->to == to) ||
           (event->from == to && event->to == from && event->kind == TOPO_NO_GDR);
}

/* Appends the check that changed the path, with the new path. */
static void tell(void *context, const struct topo_event *event)
{
    static const char *const stages[] = {[TOPO_NO_P2P] = "no P2P",
                                         [TOPO_APART] = "apart",
                                         [TOPO_BY_C2C] = "C2C",
                                         [TOPO_BY_PXN] = "PXN",
                                         [TOPO_NO_GDR] = "no GDR"};
    struct watching *watching = context;
    const struct topo_system *system = watching->session->system;
    const struct topo_node *from =
        paths_find(system, watching->explaining->from, TOPO_GPU);
    const struct topo_node *to = paths_find(system, watching->explaining->to, TOPO_NET);

    if (from == NULL || to == NULL) {
        return; /* removed by the trim */
    }
    if (event->kind == TOPO_PATHS_FOUND) {
        add_stage(watching, "found", from, to);
    } else if (event->kind == TOPO_GDR && is_pair(event, from, to)) {
        weft_text_add(&watching->explaining->out,
                      "  %-12s %s: %s is %s than %s (NCCL_NET_GDR_LEVEL)\n", "GPUDirect",
                      event->is_on ? "on" : "off", topo_path_name(event->distance),
                      event->is_on ? "no farther" : "farther",
                      topo_path_name(event->level));
    } else if (event->kind != TOPO_GDR && is_pair(event, from, to)) {
        add_stage(watching, stages[event->kind], from, to);
    }
}

/* Appends the result of a computation as text, for comparison. */
static void add_outcome(struct paths_session *session, struct explaining *explaining,
                        struct weft_text *out)
{
    const struct topo_node *from =
        paths_find(session->system, explaining->from, TOPO_GPU);
    const struct topo_node *to = paths_find(session->system, explaining->to, TOPO_NET);
    bool receives = false, sends = false;

    if (from == NULL || to == NULL) {
        weft_text_add(out, "%s is taken out: it takes no part",
                      from == NULL ? explaining->from : explaining->to);
        return;
    }
    add_path(topo_path(from, to), out);
    if (from->type == TOPO_GPU && to->type == TOPO_NET) {
        topo_check_gdr(&session->view, from, to, false, &receives, NULL);
        topo_check_gdr(&session->view, from, to, true, &sends, NULL);
        weft_text_add(out, "; GPUDirect %s",
                      receives && sends ? "both ways"
                      : receives        ? "to receive only"
                                        : "off");
    }
}

/* Appends the result with one setting changed; nothing if the document cannot be opened with it. */
static void outcome_with(struct explaining *explaining, const char *name,
                         const char *value, struct weft_text *out)
{
    struct paths_session *session = weft_calloc(1, sizeof(*session));
    struct weft_error error;

    weft_error_clear(&error);
    weft_text_add(out, "%s", "");
    if (paths_open(session, explaining->options, explaining->document, name, value) ==
        CLI_OK) {
        if (paths_compute(session, NULL, NULL, &error) == WEFT_OK) {
            add_outcome(session, explaining, out);
        } else {
            weft_text_add(out, "NCCL gives up: %s", error.message);
        }
    }
    paths_close(session);
    free(session);
}

static void add_alternatives(struct explaining *explaining, const char *is)
{
    struct weft_text *out = &explaining->out;
    bool has_any = false;

    for (size_t i = 0; i < WEFT_LENGTH(tries); i++) {
        for (size_t k = 0; k < WEFT_LENGTH(tries[i].values); k++) {
            const char *value = tries[i].values[k];
            struct weft_text other = {NULL, 0, 0};
            char setting[64];

            if (value == NULL) {
                break;
            }
            outcome_with(explaining, tries[i].name, value, &other);
            if (strcmp(other.bytes, is) != 0) {
                weft_format(setting, sizeof(setting), "%s=%s", tries[i].name, value);
                weft_text_add(out, "%s  %-26s %s\n",
                              has_any ? "" : "what would change it\n", setting,
                              other.bytes);
                has_any = true;
            }
            weft_text_fini(&other);
        }
    }
    weft_text_add(out, "%s", has_any ? "" : "no setting would change it\n");
}

/* Appends which end lacks GPUDirect support, in which case NCCL does not check further. */
static void add_support(const struct topo_node *from, const struct topo_node *to,
                        struct weft_text *out)
{
    bool is_pair = from->type == TOPO_GPU && to->type == TOPO_NET;
    bool by_gpu = is_pair && from->u.gpu.gdr == 0;
    bool by_net = is_pair && to->u.net.gdr == 0;

    if (by_gpu || by_net) {
        weft_text_add(out, "  %-12s off: %s not support it (gdr=\"0\")\n", "GPUDirect",
                      by_gpu && by_net ? "GPU and NIC do"
                      : by_gpu         ? "the GPU does"
                                       : "the NIC does");
    }
}

static int explain(struct explaining *explaining, struct paths_session *session)
{
    struct watching watching = {explaining, session};
    struct weft_text is = {NULL, 0, 0};
    struct weft_error error;
    char from[TOPO_NAME_BYTES], to[TOPO_NAME_BYTES];
    const struct topo_node *a = paths_find(session->system, explaining->from, TOPO_GPU);
    const struct topo_node *b = paths_find(session->system, explaining->to, TOPO_NET);

    if (a == NULL || b == NULL || b->type == TOPO_PCI || b->type == TOPO_NIC) {
        fprintf(stderr, "weft paths: --explain: no such %s: %s\n",
                a == NULL ? "node" : "GPU, NET, CPU or NVS",
                a == NULL ? explaining->from : explaining->to);
        return CLI_USAGE;
    }
    weft_text_add(&explaining->out, "%s to %s, NCCL %s\n", topo_node_name(a, from),
                  topo_node_name(b, to), session->rules->name);
    add_support(a, b, &explaining->out);
    session->view.tell = tell;
    session->view.tell_context = &watching;
    weft_error_clear(&error);
    if (topo_compute_paths(&session->view, &error) != WEFT_OK) {
        weft_text_add(&explaining->out, "  NCCL gives up: %s\n", error.message);
    }
    outcome_with(explaining, NULL, NULL, &is);
    weft_text_add(&explaining->out, "in the end\n  %s\n", is.bytes);
    add_alternatives(explaining, is.bytes);
    weft_text_fini(&is);
    return cli_print(explaining->out.bytes, explaining->out.n) ? CLI_OK : CLI_USAGE;
}

int paths_explain(const struct cli_options *options,
                  const struct paths_document *document, const char *from, const char *to)
{
    struct explaining explaining = {options, document, from, to, {NULL, 0, 0}};
    struct paths_session *session = weft_calloc(1, sizeof(*session));
    int code = paths_open(session, options, document, NULL, NULL);

    code = code == CLI_OK ? explain(&explaining, session) : code;
    weft_text_fini(&explaining.out);
    paths_close(session);
    free(session);
    return code;
}
