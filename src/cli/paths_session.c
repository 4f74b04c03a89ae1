/* weft paths: loads a document with its settings and computes the paths. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "cli/paths.h"
#include "scenario/diagnose.h"

#define NET_VERSION_MIN 4 /* of NCCL's net plugins: the last without PXN */
#define NET_VERSION_MAX 12
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
    if (*text == '\0') {
        return false;
    }
    while (*text != '\0') {
        uint64_t rank;
        struct topo_node *gpu;

        if (!read_number(&text, 10, session->comm.n_ranks - 1, &rank) ||
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

static bool has_gpu(const struct topo_system *system, uint64_t number)
{
    for (uint32_t i = 0; i < system->n[TOPO_GPU]; i++) {
        if ((uint64_t)system->nodes[TOPO_GPU][i]->u.gpu.dev == number) {
            return true;
        }
    }
    return false;
}

/* Parses "a,b;c,d": pairs of GPU numbers. */
static bool read_p2p_off(struct paths_session *session, const char *text)
{
    struct topo_machine *machine = &session->machine;

    if (*text == '\0') {
        return false;
    }
    while (*text != '\0') {
        uint64_t a, b;

        if (machine->n_p2p_off == PATHS_PAIRS_MAX ||
            !read_number(&text, 10, INT32_MAX, &a) || *text++ != ',' ||
            !read_number(&text, 10, INT32_MAX, &b) || (*text != '\0' && *text != ';') ||
            a == b || !has_gpu(session->system, a) || !has_gpu(session->system, b)) {
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
    text = options->netversion;
    if (text != NULL) {
        if (!read_number(&text, 10, NET_VERSION_MAX, &number) || *text != '\0' ||
            number < NET_VERSION_MIN) {
            return refuse("netversion", "a number from 4 to 12", options->netversion);
        }
        comm->is_net_v4 = number == NET_VERSION_MIN;
    }
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
            return refuse("p2poff", "the numbers of two of the GPUs, as A,B",
                          options->p2poff.values[i]);
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
