/* weft paths: prints the paths that NCCL computes for a host's topology. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "cli/paths.h"
#include "scenario/diagnose.h"
#include "topo/dump.h"
#include "topo/graphs.h"

/* Host hashes of ranks whose GPU is in the document and of all others. */
#define HASH_HERE 1u
#define HASH_ELSEWHERE 2u
#define SHM_HERE 0x2au

/* A setting that overrides the environment. */
struct override {
    const char *name, *value;
};

static const char *get_setting(void *context, const char *name)
{
    const struct override *override = context;
    bool is_it = override->name != NULL && strcmp(override->name, name) == 0;

    return is_it ? override->value : getenv(name);
}

static int refuse(const char *flag, const char *wanted, const char *got)
{
    char quoted[DIAGNOSE_QUOTE_BYTES];

    fprintf(stderr, "weft paths: --%s: expected %s, got '%s'\n", flag, wanted,
            diagnose_quote(got, quoted));
    return CLI_USAGE;
}

/* Parses a number from 0 to `max` and advances `*text` past it. */
static bool read_number(const char **text, int base, uint64_t max, uint64_t *out)
{
    char *end = NULL;

    errno = 0;
    *out = strtoull(*text, &end, base);
    if (end == *text || errno != 0 || **text == '-' || *out > max) {
        return false;
    }
    *text = end;
    return true;
}

/* Parses "r=0x..,r=0x.." and sets the 64-bit member at `offset` of those peers. */
static bool read_peers(struct paths_session *session, const char *text, size_t offset)
{
    while (*text != '\0') {
        uint64_t rank, value;

        if (!read_number(&text, 10, session->comm.n_ranks - 1, &rank) || *text++ != '=' ||
            !read_number(&text, 0, UINT64_MAX, &value) ||
            (*text != '\0' && *text != ',')) {
            return false;
        }
        memcpy((char *)&session->peers[rank] + offset, &value, sizeof(value));
        text += *text == ',';
    }
    return true;
}

static bool read_no_gdr(struct paths_session *session, const char *text)
{
    while (*text != '\0') {
        uint64_t rank;
        struct topo_node *gpu;

        if (!read_number(&text, 10, INT32_MAX, &rank) ||
            (*text != '\0' && *text != ',')) {
            return false;
        }
        gpu = topo_gpu_of(session->system, (int)rank);
        if (gpu != NULL) {
            gpu->u.gpu.gdr = 0;
        }
        text += *text == ',';
    }
    return true;
}

/* Parses "a,b;c,d": pairs of GPU numbers. */
static bool read_p2p_off(struct paths_session *session, const char *text)
{
    struct topo_machine *machine = &session->machine;

    while (*text != '\0') {
        uint64_t a, b;

        if (machine->n_p2p_off == PATHS_PAIRS_MAX ||
            !read_number(&text, 10, INT32_MAX, &a) || *text++ != ',' ||
            !read_number(&text, 10, INT32_MAX, &b) || (*text != '\0' && *text != ';')) {
            return false;
        }
        session->pairs[machine->n_p2p_off][0] = (int)a;
        session->pairs[machine->n_p2p_off++][1] = (int)b;
        text += *text == ';';
    }
    machine->p2p_off = (const int(*)[2])session->pairs;
    return true;
}

/* Fills in the peers. Ranks whose GPU is not in the document are on other machines of the same
 * kind. */
static void make_peers(struct paths_session *session)
{
    const struct topo_system *system = session->system;
    uint32_t n_here = system->n[TOPO_GPU];

    session->peers = weft_calloc(session->comm.n_ranks, sizeof(*session->peers));
    session->comm.peers = session->peers;
    for (uint32_t rank = 0; rank < session->comm.n_ranks; rank++) {
        const struct topo_node *gpu = topo_gpu_of(system, (int)rank);
        struct topo_peer *peer = &session->peers[rank];

        peer->shm_dev = SHM_HERE;
        peer->host_hash = gpu != NULL ? HASH_HERE : HASH_ELSEWHERE + rank / n_here;
        if (gpu == NULL) {
            gpu = system->nodes[TOPO_GPU][rank % n_here];
        }
        peer->nvml_dev = gpu->u.gpu.dev;
    }
}

/* Takes the ranks of the document: those of a dump of the second machine of a job begin with the
 * number of GPUs of the first. */
static void take_ranks(const struct topo_system *system, struct topo_comm *comm)
{
    comm->n_ranks = system->n[TOPO_GPU];
    comm->rank = TOPO_RANKS_MAX;
    for (uint32_t i = 0; i < system->n[TOPO_GPU]; i++) {
        uint32_t rank = (uint32_t)system->nodes[TOPO_GPU][i]->u.gpu.rank;

        comm->n_ranks = rank >= comm->n_ranks ? rank + 1 : comm->n_ranks;
        comm->rank = rank < comm->rank ? rank : comm->rank;
    }
}

static int set_up(struct paths_session *session)
{
    const struct cli_options *options = session->options;
    struct topo_comm *comm = &session->comm;
    uint64_t number = 0;
    const char *text = options->nranks;

    if (session->system->n[TOPO_GPU] == 0) {
        if (session->document->is_machine) {
            return CLI_OK; /* no ranks and thus no communicator, but still paths */
        }
        fprintf(stderr, "weft: %s: no GPU has a rank\n", session->document->name);
        return CLI_USAGE;
    }
    take_ranks(session->system, comm);
    if (text != NULL) {
        if (!read_number(&text, 10, TOPO_RANKS_MAX, &number) || *text != '\0' ||
            number == 0) {
            return refuse("nranks", "a number from 1 to 65536", options->nranks);
        }
        comm->n_ranks = (uint32_t)number;
    }
    text = options->rank;
    if (text != NULL) {
        if (!read_number(&text, 10, comm->n_ranks - 1, &number) || *text != '\0') {
            return refuse("rank", "one of the ranks", options->rank);
        }
        comm->rank = (uint32_t)number;
    }
    make_peers(session);
    comm->is_net_v4 =
        options->netversion != NULL && strcmp(options->netversion, "4") == 0;
    comm->forces_flush = options->forceflush;
    for (size_t i = 0; i < options->shmdev.n; i++) {
        text = options->shmdev.values[i];
        if (!read_peers(session, text, offsetof(struct topo_peer, shm_dev))) {
            return refuse("shmdev", "RANK=0x..", text);
        }
    }
    for (size_t i = 0; i < options->hosthash.n; i++) {
        text = options->hosthash.values[i];
        if (!read_peers(session, text, offsetof(struct topo_peer, host_hash))) {
            return refuse("hosthash", "RANK=0x..", text);
        }
    }
    if (options->nogdr != NULL && !read_no_gdr(session, options->nogdr)) {
        return refuse("nogdr", "ranks, with commas between them", options->nogdr);
    }
    for (size_t i = 0; i < options->p2poff.n; i++) {
        if (!read_p2p_off(session, options->p2poff.values[i])) {
            return refuse("p2poff", "two GPU numbers A,B", options->p2poff.values[i]);
        }
    }
    return CLI_OK;
}

static int load(struct paths_session *session)
{
    const struct weft_text *text = &session->document->text;
    struct weft_error error;

    weft_error_clear(&error);
    if (topo_load(text->bytes != NULL ? text->bytes : "", text->n, session->rules,
                  &session->system, &error) != WEFT_OK) {
        fprintf(stderr, "%s:%s\n", session->document->name, error.message);
        return CLI_USAGE;
    }
    return CLI_OK;
}

int paths_open(struct paths_session *session, const struct cli_options *options,
               const struct paths_document *document, const char *name, const char *value)
{
    const char *version = options->nccl != NULL ? options->nccl : "2.25";
    struct override override = {name, value};
    int code;

    memset(session, 0, sizeof(*session));
    session->options = options;
    session->document = document;
    session->rules = topo_rules_find(version);
    if (session->rules == NULL) {
        return refuse("nccl", "2.25 or 2.28", version);
    }
    code = load(session);
    code = code == CLI_OK ? set_up(session) : code;
    topo_settings_read(session->rules, get_setting, &override, &session->settings);
    session->view = (struct topo_view){
        .system = session->system,
        .settings = &session->settings,
        .comm = options->nocomm || session->comm.n_ranks == 0 ? NULL : &session->comm,
        .machine = &session->machine};
    return code;
}

void paths_close(struct paths_session *session)
{
    topo_free(session->system);
    free(session->peers);
}

weft_status paths_compute(struct paths_session *session, void (*first)(void *context),
                          void *context, struct weft_error *error)
{
    weft_status status = topo_compute_paths(&session->view, error);

    if (status == WEFT_OK && first != NULL) {
        first(context);
    }
    if (status == WEFT_OK && session->view.comm != NULL) {
        status = topo_trim(&session->view, error);
        status = status == WEFT_OK ? topo_compute_paths(&session->view, error) : status;
    }
    return status;
}

struct topo_node *paths_find(const struct topo_system *system, const char *name,
                             enum topo_type type)
{
    char own[TOPO_NAME_BYTES];

    for (int t = 0; t < TOPO_N_TYPES; t++) {
        for (uint32_t i = 0; i < system->n[t]; i++) {
            struct topo_node *node = system->nodes[t][i];
            int number = t == TOPO_GPU   ? node->u.gpu.dev
                         : t == TOPO_NET ? node->u.net.dev
                                         : (int)i;
            char digits[16], short_name[24];

            weft_format(digits, sizeof(digits), "%d", number);
            weft_format(short_name, sizeof(short_name), "%s%d",
                        topo_type_name((enum topo_type)t), number);
            if (strcmp(topo_node_name(node, own), name) == 0 ||
                strcmp(short_name, name) == 0 ||
                (t == (int)type && strcmp(digits, name) == 0)) {
                return node;
            }
        }
    }
    return NULL;
}

/* ---- output ---- */

struct dumping {
    struct paths_session *session;
    struct weft_text out;
};

static void head(struct dumping *dumping, const char *what)
{
    const struct topo_system *system = dumping->session->system;

    weft_text_add(&dumping->out, "## %s : systemId %u nHosts %u\n", what,
                  system->system_id, system->n_hosts);
}

static void dump_paths(struct dumping *dumping, const char *when)
{
    weft_text_add(&dumping->out,
                  "## PATHS after %s (from to count bw type : hops as link(bw)->node)\n",
                  when);
    topo_dump_paths(dumping->session->system, &dumping->out);
}

static void dump_first(void *context)
{
    dump_paths(context, "first compute");
}

static int give_up(struct dumping *dumping, const struct weft_error *error)
{
    weft_text_add(&dumping->out, "ERROR %s\n", error->message);
    cli_print(dumping->out.bytes, dumping->out.n);
    fprintf(stderr, "weft: %s: %s\n", dumping->session->document->name, error->message);
    return CLI_FAILED;
}

static void dump_summary(const char *name, const struct topo_graph *graph,
                         struct weft_text *out)
{
    weft_text_add(out,
                  "GRAPH %s nChannels %d bwIntra %g bwInter %g typeIntra %s typeInter %s "
                  "sameChannels %d crossNic %d",
                  name, graph->n_channels, (double)graph->bw_intra,
                  (double)graph->bw_inter, topo_path_name(graph->type_intra),
                  topo_path_name(graph->type_inter), graph->same_channels,
                  graph->cross_nic);
    if (graph->id != 0) {
        weft_text_add(out, " pattern %d", (int)graph->pattern);
    }
    weft_text_add(out, "\n");
}

/* Appends the graphs; with `is_log` only as NCCL logs them. */
static weft_status dump_graphs(struct dumping *dumping, bool is_log,
                               struct weft_error *error)
{
    struct paths_session *session = dumping->session;
    struct topo_graph *graphs = weft_calloc(2, sizeof(*graphs));
    struct weft_text *out = &dumping->out;
    weft_status status = topo_graph_ring(&session->view, &graphs[0], error);

    if (status == WEFT_OK) {
        status = topo_graph_tree(&session->view, &graphs[0], &graphs[1], error);
    }
    if (status == WEFT_OK) {
        weft_text_add(out, "%s",
                      is_log ? "" : "## GRAPHS (ring id 0, balanced tree id 1)\n");
        for (int i = 0; i < 2; i++) {
            topo_dump_graph(session->system, &graphs[i], is_log ? "NCCL INFO " : "INFO ",
                            out);
        }
    }
    if (status == WEFT_OK && !is_log) {
        dump_summary("ring", &graphs[0], out);
        dump_summary("tree", &graphs[1], out);
    }
    free(graphs);
    return status;
}

static int dump(struct dumping *dumping)
{
    struct paths_session *session = dumping->session;
    struct weft_text *out = &dumping->out;
    struct weft_error error;

    weft_error_clear(&error);
    weft_text_add(out, "# nranks %u local GPUs %u rank(me) %u comm %s\n",
                  session->comm.n_ranks, session->system->n[TOPO_GPU], session->comm.rank,
                  session->view.comm != NULL ? "set" : "NULL");
    head(dumping, "SYSTEM after load");
    topo_dump_system(session->system, out);
    if (paths_compute(session, dump_first, dumping, &error) != WEFT_OK) {
        return give_up(dumping, &error);
    }
    if (session->view.comm != NULL) {
        head(dumping, "SYSTEM after trim");
        topo_dump_system(session->system, out);
        dump_paths(dumping, "trim and recompute");
    }
    weft_text_add(out, "## QUERIES\n");
    topo_dump_queries(&session->view, out);
    if (session->view.comm != NULL && !session->options->nographs &&
        dump_graphs(dumping, false, &error) != WEFT_OK) {
        return give_up(dumping, &error);
    }
    return cli_print(out->bytes, out->n) ? CLI_OK : CLI_USAGE;
}

static void tell_gdr(void *context, const struct topo_event *event)
{
    struct dumping *dumping = context;

    if (event->kind == TOPO_GDR) {
        topo_dump_gdr(dumping->session->rules, event, &dumping->out);
    }
}

/* Prints in the order of NCCL's log: GPUDirect decisions of the path computation, the system, then
 * the network transport's queries for each pair. */
static int info(struct dumping *dumping)
{
    struct paths_session *session = dumping->session;
    struct topo_system *system = session->system;
    struct weft_error error;
    bool is_on;

    weft_error_clear(&error);
    session->view.tell = tell_gdr;
    session->view.tell_context = dumping;
    if (paths_compute(session, NULL, NULL, &error) != WEFT_OK) {
        return give_up(dumping, &error);
    }
    topo_dump_info(system, &dumping->out);
    if (!session->options->nographs && system->n[TOPO_GPU] > 0 &&
        dump_graphs(dumping, true, &error) != WEFT_OK) {
        return give_up(dumping, &error);
    }
    for (uint32_t g = 0; g < system->n[TOPO_GPU]; g++) {
        for (uint32_t n = 0; n < 2 * system->n[TOPO_NET]; n++) {
            topo_check_gdr(&session->view, system->nodes[TOPO_GPU][g],
                           system->nodes[TOPO_NET][n / 2], n % 2 == 1, &is_on, NULL);
        }
    }
    return cli_print(dumping->out.bytes, dumping->out.n) ? CLI_OK : CLI_USAGE;
}

static int print(const struct cli_options *options, const struct paths_document *document)
{
    struct paths_session *session = weft_calloc(1, sizeof(*session));
    struct dumping dumping = {.session = session};
    int code = paths_open(session, options, document, NULL, NULL);

    if (code == CLI_OK) {
        code = options->json != NULL ? paths_json(session)
               : options->info       ? info(&dumping)
                                     : dump(&dumping);
    }
    weft_text_fini(&dumping.out);
    paths_close(session);
    free(session);
    return code;
}

int cli_paths(struct cli_options *options)
{
    struct paths_document document = {.name = NULL};
    int n_names = options->explain != NULL ? 1 : 0;
    int n_files = options->local ? 0 : options->n_operands - n_names;
    int code;

    /* A file, or a machine if there is none. --root with a file completes that file. */
    n_files = n_files == 1 || (n_names == 1 && options->root == NULL && !options->local)
                  ? 1
                  : 0;
    if (options->n_operands != n_files + n_names) {
        fprintf(stderr, "usage: weft paths [FILE.xml | --local | --root DIR | FILE.xml "
                        "--root DIR] [flags]\n"
                        "       weft paths FILE.xml --explain GPU NET\n");
        return CLI_USAGE;
    }
    options->local = n_files == 0;
    code = paths_document_read(options, &document);
    if (code == CLI_OK && options->xml) {
        code = paths_document_print(&document);
    } else if (code == CLI_OK && options->explain != NULL) {
        code = paths_explain(options, &document, options->explain,
                             options->operands[n_files]);
    } else if (code == CLI_OK) {
        code = print(options, &document);
    }
    weft_text_fini(&document.text);
    return code;
}
