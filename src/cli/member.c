#include "cli/member.h"
#include "scenario/diagnose.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/registry.h"
#include "base/check.h"
#include "base/text.h"

/* ---- numbers ---- */

/* Parses all of `text` as a number up to `max`. */
static bool parse_number(const char *text, unsigned long max, uint32_t *out)
{
    char *end = NULL;
    unsigned long number = strtoul(text, &end, 10);

    *out = (uint32_t)number;
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && number <= max;
}

static bool wrong(const char *name, const char *problem, const char *value)
{
    char quoted[DIAGNOSE_QUOTE_BYTES];

    fprintf(stderr, "weft: %s: %s '%s'\n", name, problem, diagnose_quote(value, quoted));
    return false;
}

/* ---- launchers ---- */

/* Environment variables of launchers, in order of precedence: a torchrun inside a Slurm allocation
 * counts as torchrun. */
struct starter {
    const char *name;
    const char *rank, *n_ranks, *local_rank;
};

static const struct starter starters[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"},
};

static bool take_starter(const struct starter *starter, struct cli_member *out)
{
    const char *rank = getenv(starter->rank);
    const char *n_ranks = getenv(starter->n_ranks);
    const char *local = getenv(starter->local_rank);

    if (!parse_number(n_ranks, UINT32_MAX, &out->n_ranks) || out->n_ranks == 0) {
        return wrong(starter->n_ranks, "expected the number of ranks, got", n_ranks);
    }
    if (!parse_number(rank, out->n_ranks - 1, &out->rank)) {
        return wrong(starter->rank, "expected a rank below the number of ranks, got",
                     rank);
    }
    if (local != NULL && !parse_number(local, out->n_ranks - 1, &out->local_rank)) {
        return wrong(starter->local_rank, "expected a rank of this host, got", local);
    }
    out->has_rank = true;
    out->started_by = starter->name;
    return true;
}

static bool find_starter(struct cli_member *out)
{
    for (size_t i = 0; i < WEFT_LENGTH(starters); i++) {
        if (getenv(starters[i].rank) != NULL && getenv(starters[i].n_ranks) != NULL) {
            return take_starter(&starters[i], out);
        }
    }
    return true;
}

/* ---- the rendezvous ---- */

/* Sets the address of rank 0. Rank 0 listens on all addresses if `host` is a name, because the
 * others may resolve it to another address. */
static bool take_host(const char *what, const char *host, bool is_first,
                      struct cli_member *out)
{
    struct weft_error error = {0};

    if (io_ip_parse(host, &out->rendezvous.ip)) {
        return true;
    }
    if (is_first) {
        out->rendezvous.ip = (struct io_ip){0};
        return true;
    }
    if (backend_resolve(host, &out->rendezvous.ip, &error) != WEFT_OK) {
        return wrong(what, error.message, host);
    }
    return true;
}

/* Parses "10.0.0.1:29500", "titanic:29500" or "[fe80::1]:29500". */
static bool take_rendezvous(const char *text, bool is_first, struct cli_member *out)
{
    const char *colon = strrchr(text, ':');
    char host[256];
    size_t n = colon == NULL ? 0 : (size_t)(colon - text);
    uint32_t port = 0;

    if (n >= 2 && text[0] == '[' && text[n - 1] == ']') {
        weft_format(host, sizeof(host), "%.*s", (int)(n - 2), text + 1);
    } else {
        weft_format(host, sizeof(host), "%.*s", (int)(n < 255 ? n : 255), text);
    }
    if (n == 0 || n >= sizeof(host) || !parse_number(colon + 1, UINT16_MAX, &port) ||
        port == 0) {
        return wrong("--rendezvous", "expected HOST:PORT, got", text);
    }
    out->rendezvous.port = (uint16_t)port;
    out->has_rendezvous = true;
    return take_host("--rendezvous", host, is_first, out);
}

/* Takes the rendezvous from MASTER_ADDR and MASTER_PORT. If torchrun's agent serves its store on
 * that port, uses the next one. */
static bool take_master(bool is_first, struct cli_member *out)
{
    const char *address = getenv("MASTER_ADDR");
    const char *text = getenv("MASTER_PORT");
    const char *agent = getenv("TORCHELASTIC_USE_AGENT_STORE");
    uint32_t port = 0;

    if (address == NULL || text == NULL) {
        return true;
    }
    if (!parse_number(text, UINT16_MAX, &port) || port == 0) {
        return wrong("MASTER_PORT", "expected a TCP port, got", text);
    }
    if (agent != NULL && strcmp(agent, "True") == 0) {
        port = port < UINT16_MAX ? port + 1 : port - 1;
    }
    out->rendezvous.port = (uint16_t)port;
    out->has_rendezvous = true;
    return take_host("MASTER_ADDR", address, is_first, out);
}

/* ---- PMIx and launchers ---- */

/* Returns true if the launcher offers PMIx (mpirun, srun --mpi=pmix), and what it says. */
static bool join_pmix(const struct cli_options *options, bool asks, struct pmix_job *out)
{
    struct weft_error error = {0};

    if (getenv("PMIX_NAMESPACE") == NULL || getenv("RANK") != NULL) {
        return false;
    }
    if (backend_pmix_join(asks, out, &error) != WEFT_OK) {
        weft_log(&options->log, WEFT_LOG_INFO, "PMIx: %s", error.message);
        return false;
    }
    return true;
}

/* Takes the rank from the launcher: from PMIx with, unless set elsewhere, the address of rank 0, or
 * from its environment variables. */
static bool take_launcher(const struct cli_options *options, struct cli_member *out)
{
    /* Processes on loopback addresses of backend soft know the address of rank 0. */
    bool asks = options->rendezvous == NULL && getenv("MASTER_ADDR") == NULL &&
                getenv("WEFT_SOFT_BLOCK") == NULL;
    struct pmix_job job;

    if (!join_pmix(options, asks, &job)) {
        return find_starter(out);
    }
    out->has_rank = true;
    out->started_by = "the launcher";
    out->rank = job.rank;
    out->n_ranks = job.n_ranks;
    out->local_rank = job.local_rank;
    return !asks || take_rendezvous(job.told, job.rank == 0, out);
}

/* ---- all of it ---- */

/* Takes the rank of a member without a launcher from --rank and --nranks. */
static bool take_numbers(const struct cli_options *options, struct cli_member *out)
{
    if (options->nranks == NULL || options->rank == NULL) {
        fprintf(stderr, "weft: --%s %s needs --%s as well\n",
                options->rank != NULL ? "rank" : "nranks",
                options->rank != NULL ? options->rank : options->nranks,
                options->rank != NULL ? "nranks N" : "rank R");
        return false;
    }
    if (!parse_number(options->nranks, UINT32_MAX, &out->n_ranks) || out->n_ranks == 0) {
        return wrong("--nranks", "expected the number of ranks, got", options->nranks);
    }
    if (!parse_number(options->rank, out->n_ranks - 1, &out->rank)) {
        fprintf(stderr, "weft: --rank: expected 0 to %u (--nranks %u), got '%s'\n",
                out->n_ranks - 1, out->n_ranks, options->rank);
        return false;
    }
    out->has_rank = true;
    out->started_by = "--nranks";
    return true;
}

/* Takes the rank from flags or the launcher, unless the host's name in the scenario determines
 * it. */
static bool take_rank(const struct cli_options *options, struct cli_member *out)
{
    if (out->is_relay || (options->scenario != NULL && options->name != NULL)) {
        return true;
    }
    if (options->rank != NULL || options->nranks != NULL) {
        return take_numbers(options, out);
    }
    return take_launcher(options, out);
}

bool cli_member_find(const struct cli_options *options, bool is_relay,
                     struct cli_member *out)
{
    *out = (struct cli_member){.is_relay = is_relay};
    /* A process that `weft run --backend rxe` started has WEFT_BACKEND=rxe, but its NICs are opened
     * through verbs, as without the flag. */
    out->is_soft = strcmp(options->backend, "soft") == 0;
    out->has_secret = options->secret != NULL;
    if (out->has_secret && !cli_secret_read(options->secret, out->secret)) {
        return false;
    }
    if (options->name != NULL) {
        weft_format(out->name, sizeof(out->name), "%s", options->name);
    }
    if (!take_rank(options, out)) {
        return false;
    }
    if (!out->has_rank && (options->name == NULL || options->scenario == NULL)) {
        fprintf(stderr,
                "weft: which %s is this? %s, or start it by torchrun, mpirun or srun\n",
                options->scenario == NULL ? "rank" : "host of the scenario",
                options->scenario == NULL ? "--rank and --nranks" : "--name");
        return false;
    }
    if (out->has_rendezvous) {
        return true; /* set by the launcher */
    }
    return options->rendezvous != NULL
               ? take_rendezvous(options->rendezvous, out->rank == 0 && out->has_rank,
                                 out)
               : take_master(out->rank == 0 && out->has_rank, out);
}

bool cli_member_place(struct cli_member *member, const struct scenario *scenario)
{
    if (!member->has_rank) {
        return true;
    }
    if (member->n_ranks != scenario->n_ranks) {
        fprintf(stderr, "weft: %s started %u ranks, %s has %u\n", member->started_by,
                member->n_ranks, scenario->file, scenario->n_ranks);
        return false;
    }
    const struct scenario_rank *rank = &scenario->ranks[member->rank];

    weft_format(member->name, sizeof(member->name),
                rank->local_rank == 0 ? "%s" : "%s/%u", scenario->hosts[rank->host].name,
                rank->local_rank);
    return true;
}
