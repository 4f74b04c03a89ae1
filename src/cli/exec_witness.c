#include "cli/exec_witness.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/registry.h"
#include "base/check.h"
#include "cli/failed.h"
#include "run/program_glance.h"
#include "run/program_look.h"
#include "run/program_observed.h"

struct exec_witness {
    const struct cli_options *options;
    const struct world_spec *spec;
    const struct program_plan *plan;
    struct world_program_watch hooks;
    struct program_facts *facts;         /* Owned [plan->n] */
    struct program_look *before, *after; /* Owned [n_hosts] */
    struct program_cut *cuts;            /* Owned [n_cuts] */
    uint32_t n_cuts;
    bool *keeps_down; /* Owned [n_faults] */
    bool *is_active;  /* Owned [n_faults]; began, and has not ended */
    bool has_looked, has_told;
    off_t written[2]; /* bytes in the files of stdout and stderr before the run */
};

/* ---- what happens ---- */

static void take_start(void *context, uint32_t program, weft_ns now)
{
    struct exec_witness *witness = context;

    witness->facts[program].has_begun = true;
    witness->facts[program].began_ns = now;
}

static void take_end(void *context, uint32_t program, enum world_program_end end,
                     int code, weft_ns now)
{
    struct exec_witness *witness = context;
    struct program_facts *facts = &witness->facts[program];

    facts->has_ended = true;
    facts->end = end;
    facts->code = code;
    facts->ended_ns = now;
}

static void take_fault(void *context, uint32_t index, bool undo, weft_ns now, int problem)
{
    struct exec_witness *witness = context;
    const struct world_fault *fault = &witness->spec->faults[index];

    if (problem != 0) {
        return;
    }
    witness->is_active[index] = !undo;
    if (fault->kind == WORLD_FAULT_STOP) {
        program_stop(witness->facts, witness->plan->n, fault->host, undo, now);
    }
    if (fault->kind == WORLD_FAULT_KILL) {
        program_kill(witness->facts, witness->plan->n, fault->host, now);
    }
    if (fault->has_port) {
        program_cuts_follow(witness->spec, index, undo, now, witness->keeps_down,
                            witness->cuts, &witness->n_cuts);
    }
}

static bool take_over(void *context, uint32_t job)
{
    struct exec_witness *witness = context;

    (void)job;
    for (uint32_t i = 0; i < witness->plan->n; i++) {
        witness->has_looked =
            witness->has_looked || program_has_exited_badly(&witness->facts[i]);
    }
    return witness->has_looked;
}

static void look(void *context, uint32_t host, struct weft_text *out)
{
    const struct exec_witness *witness = context;

    if (host == WORLD_PROGRAM_OUTSIDE) {
        program_look_outside(witness->spec, backend_program_device, out);
    } else {
        program_look_make(&witness->spec->hosts[host], witness->spec->log, out);
    }
}

/* Takes an inspection. Hosts are as new before the programs, so only their state afterwards is
 * read. */
static void take_look(void *context, uint32_t job, uint32_t host, const char *bytes,
                      size_t n)
{
    struct exec_witness *witness = context;
    const struct world_spec *spec = witness->spec;
    struct program_look *looks[] = {witness->before, witness->after};

    (void)job;
    for (size_t i = 0; i < WEFT_LENGTH(looks); i++) {
        if (host == WORLD_PROGRAM_OUTSIDE) {
            program_look_count(spec, bytes, n, looks[i]);
        } else {
            program_look_decode(spec, host, backend_program_device, bytes, n,
                                &looks[i][host]);
        }
    }
    for (uint32_t i = 0; host == WORLD_PROGRAM_OUTSIDE && i < spec->n_hosts; i++) {
        program_look_reset(&spec->hosts[i], &witness->before[i]);
    }
}

/* ---- what they wrote ---- */

/* Appends what was written to a stream since the run began. Does nothing unless it is a file, as it
 * is in a guest. */
static void read_back(const struct exec_witness *witness, int stream,
                      struct weft_text *out)
{
    const char *path = stream == 0 ? "/proc/self/fd/1" : "/proc/self/fd/2";
    struct stat status;
    int fd = stat(path, &status) == 0 && S_ISREG(status.st_mode)
                 ? open(path, O_RDONLY | O_CLOEXEC)
                 : -1;

    failed_add_output(fd, witness->written[stream], out);
    if (fd >= 0) {
        close(fd);
    }
}

/* Appends the lines that begin with "HOST: ", without that. */
static void add_lines_of(const char *host, const struct weft_text *all,
                         struct weft_text *out)
{
    size_t n_host = strlen(host);
    size_t from = 0;

    while (from < all->n) {
        const char *line = all->bytes + from;
        const char *newline = memchr(line, '\n', all->n - from);
        size_t n = newline != NULL ? (size_t)(newline - line) + 1 : all->n - from;

        if (n > n_host + 2 && memcmp(line, host, n_host) == 0 &&
            memcmp(line + n_host, ": ", 2) == 0) {
            weft_text_add_bytes(out, line + n_host + 2, n - n_host - 2);
        }
        from += n;
    }
}

/* Appends what each program wrote to its facts. */
static void add_outputs(const struct exec_witness *witness,
                        struct program_facts *all_facts)
{
    struct weft_text all = {NULL, 0, 0};

    read_back(witness, 0, &all);
    read_back(witness, 1, &all);
    for (uint32_t i = 0; i < witness->plan->n; i++) {
        struct program_facts *facts = &all_facts[i];

        if (witness->plan->n == 1) {
            weft_text_add_bytes(&facts->output, all.bytes, all.n);
        } else {
            add_lines_of(facts->host_name, &all, &facts->output);
        }
        weft_text_add(&facts->output, "%s", "");
    }
    weft_text_fini(&all);
}

static void free_outputs(const struct exec_witness *witness, struct program_facts *facts)
{
    for (uint32_t i = 0; i < witness->plan->n; i++) {
        weft_text_fini(&facts[i].output);
    }
}

/* ---- reporting ---- */

static void add_command(char *const *argv, struct weft_text *out)
{
    for (size_t i = 0; argv[i] != NULL; i++) {
        weft_text_add(out, "%s%s", i > 0 ? " " : "", argv[i]);
    }
}

/* Prints the findings, if a rule decides. */
static void tell(struct exec_witness *witness, const struct program_facts *facts,
                 const struct program_look *before, const struct program_look *after)
{
    uint32_t n = witness->plan->n;
    struct weft_text *texts = weft_calloc((size_t)n + 1, sizeof(*texts));
    const char **commands = weft_calloc((size_t)n + 1, sizeof(*commands));
    const struct program_causes causes = {.spec = witness->spec,
                                          .device = backend_program_device,
                                          .facts = facts,
                                          .commands = commands,
                                          .n = n,
                                          .before = before,
                                          .after = after,
                                          .cuts = witness->cuts,
                                          .n_cuts = witness->n_cuts};
    json_t *document;

    for (uint32_t i = 0; i < n; i++) {
        add_command(witness->plan->items[i].argv, &texts[i]);
        commands[i] = texts[i].bytes;
    }
    document = failed_findings(&causes);
    witness->has_told = json_array_size(json_object_get(document, "findings")) > 0;
    failed_tell(witness->options, document);
    json_decref(document);
    for (uint32_t i = 0; i < n; i++) {
        weft_text_fini(&texts[i]);
    }
    free(texts);
    free(commands);
}

/* ---- while programs run ---- */

/* Adds to `look` what faults have changed at its host since. */
static void apply_faults(const struct exec_witness *witness, uint32_t host,
                         struct program_look *look)
{
    const struct world_spec *spec = witness->spec;

    for (uint32_t i = 0; i < spec->hosts[host].n_ports; i++) {
        for (uint32_t k = 0; k < witness->n_cuts; k++) {
            look->losses[i] += program_shares_carrier(spec, host, i, &witness->cuts[k]);
        }
        for (uint32_t k = 0; k < spec->n_faults; k++) {
            const struct world_fault *fault = &spec->faults[k];

            if (witness->is_active[k] && fault->kind == WORLD_FAULT_MTU &&
                fault->host == host && fault->has_port && fault->port == i) {
                program_glance_mtu(&look->host.ports[i], fault->size_bytes);
            }
        }
    }
}

static void take_failure(void *context, weft_ns now)
{
    struct exec_witness *witness = context;
    uint32_t n_hosts = witness->spec->n_hosts;
    uint32_t n = witness->plan->n;
    struct program_look *before, *after;
    struct program_facts *facts;

    if (witness->has_told) {
        return;
    }
    before = weft_calloc((size_t)n_hosts + 1, sizeof(*before));
    after = weft_calloc((size_t)n_hosts + 1, sizeof(*after));
    facts = weft_calloc((size_t)n + 1, sizeof(*facts));
    program_glance(witness->spec, backend_program_device, before, after);
    for (uint32_t i = 0; i < n_hosts; i++) {
        apply_faults(witness, i, &after[i]);
    }
    for (uint32_t i = 0; i < n; i++) {
        facts[i] = witness->facts[i];
        program_end_now(&facts[i], &after[facts[i].host], now);
    }
    add_outputs(witness, facts);
    if (program_causes_any(facts, n)) {
        tell(witness, facts, before, after);
    }
    free_outputs(witness, facts);
    for (uint32_t i = 0; i < n_hosts; i++) {
        program_look_fini(&before[i]);
        program_look_fini(&after[i]);
    }
    free(before);
    free(after);
    free(facts);
}

/* ---- life ---- */

struct exec_witness *exec_witness_create(const struct cli_options *options,
                                         const struct world_spec *spec,
                                         const struct program_plan *plan)
{
    struct exec_witness *witness = weft_calloc(1, sizeof(*witness));
    struct stat status;

    json_object_seed(
        1); /* draws no random number while programs run, as it does otherwise */

    *witness = (struct exec_witness){
        .options = options,
        .spec = spec,
        .plan = plan,
        .hooks = {.context = witness,
                  .began = take_start,
                  .ended = take_end,
                  .fault = take_fault,
                  .over = take_over,
                  .look = look,
                  .saw = take_look,
                  .failing = failed_is_now(options) ? take_failure : NULL},
        .facts = weft_calloc((size_t)plan->n + 1, sizeof(*witness->facts)),
        .before = weft_calloc((size_t)spec->n_hosts + 1, sizeof(*witness->before)),
        .after = weft_calloc((size_t)spec->n_hosts + 1, sizeof(*witness->after)),
        .is_active = weft_calloc((size_t)spec->n_faults + 1, sizeof(bool)),
        .cuts = weft_calloc((size_t)spec->n_faults + 1, sizeof(*witness->cuts)),
        .keeps_down = weft_calloc((size_t)spec->n_faults + 1, sizeof(bool)),
    };
    for (uint32_t i = 0; i < plan->n; i++) {
        witness->facts[i].host = plan->items[i].host;
        witness->facts[i].id = i;
        witness->facts[i].host_name = spec->hosts[plan->items[i].host].name;
    }
    for (int i = 0; i < 2; i++) {
        witness->written[i] = fstat(i == 0 ? STDOUT_FILENO : STDERR_FILENO, &status) == 0
                                  ? status.st_size
                                  : 0;
    }
    return witness;
}

const struct world_program_watch *exec_witness_hooks(struct exec_witness *witness)
{
    return &witness->hooks;
}

void exec_witness_tell(struct exec_witness *witness)
{
    if (witness->has_looked && !witness->has_told) {
        add_outputs(witness, witness->facts);
        tell(witness, witness->facts, witness->before, witness->after);
    }
}

void exec_witness_free(struct exec_witness *witness)
{
    if (witness == NULL) {
        return;
    }
    free_outputs(witness, witness->facts);
    for (uint32_t i = 0; i < witness->spec->n_hosts; i++) {
        program_look_fini(&witness->before[i]);
        program_look_fini(&witness->after[i]);
    }
    free(witness->facts);
    free(witness->before);
    free(witness->after);
    free(witness->is_active);
    free(witness->cuts);
    free(witness->keeps_down);
    free(witness);
}
