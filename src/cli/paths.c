/* weft paths: prints the paths that NCCL computes for a host's topology. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/paths.h"
#include "nccl/dump.h"
#include "nccl/graphs.h"

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
    if ((options->xml &&
         cli_refuse_given(options, "dump info json explain", "not with --xml")) ||
        (options->explain != NULL &&
         cli_refuse_given(options, "dump info json", "not with --explain")) ||
        (options->json != NULL &&
         cli_refuse_given(options, "dump info", "not with --json"))) {
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
