/* weft paths: what NCCL makes of a host's topology. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "cli/cli.h"
#include "topo/dump.h"
#include "topo/paths.h"

enum { RANKS_MAX = 65536, PAIRS_MAX = 1024 };

/* Hosts of ranks whose GPU is in the document, and of all others. */
#define HASH_HERE 1u
#define HASH_ELSEWHERE 2u
#define SHM_HERE 0x2au

struct session {
    const struct cli_options *options;
    struct topo_system *system;
    struct topo_settings settings;
    struct topo_comm comm;
    struct topo_peer *peers; /* Owned */
    struct topo_machine machine;
    int pairs[PAIRS_MAX][2];
    struct topo_view view;
    struct weft_text out;
};

static const char *get_setting(void *context, const char *name)
{
    (void)context;
    return getenv(name);
}

static int complain(const char *flag, const char *wanted, const char *got)
{
    fprintf(stderr, "weft paths: --%s: expected %s, not %s\n", flag, wanted, got);
    return CLI_USAGE;
}

/* A number from 0 to `max`, after which `*text` stands. */
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

/* "r=0x..,r=0x..": sets a member of those peers. */
static bool read_peers(struct session *session, const char *text, size_t offset)
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

static bool read_no_gdr(struct session *session, const char *text)
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

/* "a,b": GPUs by number; more pairs after a semicolon. */
static bool read_p2p_off(struct session *session, const char *text)
{
    struct topo_machine *machine = &session->machine;

    while (*text != '\0') {
        uint64_t a, b;

        if (machine->n_p2p_off == PAIRS_MAX || !read_number(&text, 10, INT32_MAX, &a) ||
            *text++ != ',' || !read_number(&text, 10, INT32_MAX, &b) ||
            (*text != '\0' && *text != ';')) {
            return false;
        }
        session->pairs[machine->n_p2p_off][0] = (int)a;
        session->pairs[machine->n_p2p_off++][1] = (int)b;
        text += *text == ';';
    }
    machine->p2p_off = (const int(*)[2])session->pairs;
    return true;
}

/* Ranks whose GPU is not in the document are on other machines like this one. */
static void make_peers(struct session *session)
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

static int set_up(struct session *session)
{
    const struct cli_options *options = session->options;
    struct topo_comm *comm = &session->comm;
    uint64_t number = 0;
    const char *text = options->nranks;

    if (session->system->n[TOPO_GPU] == 0) {
        fprintf(stderr, "weft: %s: no GPU has a rank\n", options->operands[0]);
        return CLI_USAGE;
    }
    comm->n_ranks = session->system->n[TOPO_GPU];
    if (text != NULL) {
        if (!read_number(&text, 10, RANKS_MAX, &number) || *text != '\0' || number == 0) {
            return complain("nranks", "a number from 1 to 65536", options->nranks);
        }
        comm->n_ranks = (uint32_t)number;
    }
    text = options->rank;
    if (text != NULL) {
        if (!read_number(&text, 10, comm->n_ranks - 1, &number) || *text != '\0') {
            return complain("rank", "one of the ranks", options->rank);
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
            return complain("shmdev", "RANK=0x..", text);
        }
    }
    for (size_t i = 0; i < options->hosthash.n; i++) {
        text = options->hosthash.values[i];
        if (!read_peers(session, text, offsetof(struct topo_peer, host_hash))) {
            return complain("hosthash", "RANK=0x..", text);
        }
    }
    if (options->nogdr != NULL && !read_no_gdr(session, options->nogdr)) {
        return complain("nogdr", "ranks, with commas between them", options->nogdr);
    }
    for (size_t i = 0; i < options->p2poff.n; i++) {
        if (!read_p2p_off(session, options->p2poff.values[i])) {
            return complain("p2poff", "two GPU numbers A,B", options->p2poff.values[i]);
        }
    }
    return CLI_OK;
}

static void head(struct session *session, const char *what)
{
    weft_text_add(&session->out, "## %s : systemId %u nHosts %u\n", what,
                  session->system->system_id, session->system->n_hosts);
}

static int give_up(struct session *session, const struct weft_error *error)
{
    weft_text_add(&session->out, "ERROR %s\n", error->message);
    cli_print(session->out.bytes, session->out.n);
    fprintf(stderr, "weft: %s: %s\n", session->options->operands[0], error->message);
    return CLI_FAILED;
}

static int dump(struct session *session)
{
    static const char paths[] = "(from to count bw type : hops as link(bw)->node)\n";
    struct weft_text *out = &session->out;
    struct weft_error error;

    weft_error_clear(&error);
    weft_text_add(out, "# nranks %u local GPUs %u rank(me) %u comm %s\n",
                  session->comm.n_ranks, session->system->n[TOPO_GPU], session->comm.rank,
                  session->view.comm != NULL ? "set" : "NULL");
    head(session, "SYSTEM after load");
    topo_dump_system(session->system, out);
    if (topo_compute_paths(&session->view, &error) != WEFT_OK) {
        return give_up(session, &error);
    }
    weft_text_add(out, "## PATHS after first compute %s", paths);
    topo_dump_paths(session->system, out);
    if (session->view.comm != NULL) {
        if (topo_trim(&session->view, &error) != WEFT_OK) {
            return give_up(session, &error);
        }
        head(session, "SYSTEM after trim");
        topo_dump_system(session->system, out);
        if (topo_compute_paths(&session->view, &error) != WEFT_OK) {
            return give_up(session, &error);
        }
        weft_text_add(out, "## PATHS after trim and recompute %s", paths);
        topo_dump_paths(session->system, out);
    }
    weft_text_add(out, "## QUERIES\n");
    topo_dump_queries(&session->view, out);
    return cli_print(out->bytes, out->n) ? CLI_OK : CLI_USAGE;
}

static bool read_file(const char *path, struct weft_text *out)
{
    FILE *file = fopen(path, "rb");
    char chunk[4096];
    size_t n;
    bool ok;

    if (file == NULL) {
        return false;
    }
    while ((n = fread(chunk, 1, sizeof(chunk), file)) > 0) {
        weft_text_add_bytes(out, chunk, n);
    }
    ok = ferror(file) == 0;
    fclose(file);
    return ok;
}

static int load(struct session *session)
{
    const struct cli_options *options = session->options;
    const char *version = options->nccl != NULL ? options->nccl : "2.25";
    const struct topo_rules *rules = topo_rules_find(version);
    struct weft_text text = {NULL, 0, 0};
    struct weft_error error;
    weft_status status;

    if (rules == NULL) {
        return complain("nccl", "2.25 or 2.28", version);
    }
    if (!read_file(options->operands[0], &text)) {
        fprintf(stderr, "weft: %s: %s\n", options->operands[0], strerror(errno));
        weft_text_fini(&text);
        return CLI_USAGE;
    }
    weft_error_clear(&error);
    status = topo_load(text.bytes != NULL ? text.bytes : "", text.n, rules,
                       &session->system, &error);
    weft_text_fini(&text);
    if (status != WEFT_OK) {
        fprintf(stderr, "%s:%s\n", options->operands[0], error.message);
        return CLI_USAGE;
    }
    topo_settings_read(rules, get_setting, NULL, &session->settings);
    return CLI_OK;
}

int cli_paths(struct cli_options *options)
{
    struct session *session = weft_calloc(1, sizeof(*session));
    int code;

    session->options = options;
    if (options->n_operands != 1) {
        fprintf(stderr, "usage: weft paths FILE.xml [flags]\n");
        free(session);
        return CLI_USAGE;
    }
    code = load(session);
    code = code == CLI_OK ? set_up(session) : code;
    if (code == CLI_OK) {
        session->view =
            (struct topo_view){.system = session->system,
                               .settings = &session->settings,
                               .comm = options->nocomm ? NULL : &session->comm,
                               .machine = &session->machine};
        code = dump(session);
    }
    weft_text_fini(&session->out);
    topo_free(session->system);
    free(session->peers);
    free(session);
    return code;
}
