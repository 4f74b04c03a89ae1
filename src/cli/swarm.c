/* weft swarm: runs each seed of a range as `weft run` would. Prints rows in the order of files and
 * seeds, independent of the number of processes. */
#include "cli/swarm.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/registry.h"
#include "cli/isolate.h"
#include "cli/progress.h"
#include "report/json_read.h"
#include "scenario/diagnose.h"

/* SHRINK_GUESTS_MAX is lower than SHRINK_RUNS_MAX, because a run in a guest takes seconds. */
enum {
    JOBS_MAX = 256,
    SHRINK_RUNS_MAX = 2000,
    SHRINK_GUESTS_MAX = 200,
    PATIENCE_DEFAULT_S = 600
};

#define MEMORY_KEPT_BYTES (256 << 20)

struct swarm {
    struct cli_options *options;
    struct swarm_file *files; /* Owned [n_files] */
    size_t n_files;
    uint64_t first_seed, n_seeds;
    /* This shard has the seeds first_seed + shard + k * n_shards. */
    uint64_t shard, n_shards;
    uint64_t n_seeds_here; /* number of seeds of this shard */
    uint64_t n_items;      /* files times seeds of this shard */
    uint32_t n_jobs;
    int patience_ms;
};

/* A process that runs the items `next`, `next` + n_jobs and so on. */
struct worker {
    const struct swarm *swarm;
    struct isolate isolate;
    uint64_t next;
};

struct tally {
    uint64_t n_passed, n_failed;
    int code;
    int64_t time_ns;
};

static const struct swarm_file *file_of(const struct swarm *swarm, uint64_t item)
{
    return &swarm->files[item / swarm->n_seeds_here];
}

static uint64_t seed_of(const struct swarm *swarm, uint64_t item)
{
    return swarm->first_seed + swarm->shard +
           item % swarm->n_seeds_here * swarm->n_shards;
}

static void print_row(const json_t *row)
{
    char *line = json_dumps(row, JSON_COMPACT);

    puts(line);
    free(line);
}

/* Returns true if the backend of `context`, the options, accepts the file as `weft run` does. */
static bool can_express(const char *text, size_t n, void *context)
{
    const struct cli_options *options = context;
    struct scenario_diagnostics diagnostics;
    struct scenario_world *world = NULL;
    struct scenario *scenario = NULL;
    const char *key = NULL;
    bool ok =
        scenario_load_text("", text, n, NULL, 0, &scenario, &diagnostics) == WEFT_OK &&
        !scenario_not_implemented(scenario, &key) &&
        scenario_to_world(scenario, &world) == WEFT_OK &&
        backend_can_express(backend_named(options->backend), &world->spec);

    scenario_world_free(world);
    scenario_free(scenario);
    return ok;
}

const struct swarm_file *swarm_file_get(const struct cli_options *options,
                                        const struct swarm_file *file, uint64_t seed)
{
    const struct swarm_backend backend = {options->backend, can_express,
                                          (void *)(uintptr_t)options};
    bool has_all = backend_named(options->backend)->can_express == NULL;
    struct swarm_file *drawn;
    char path[128];

    if (file->space == NULL) {
        return file;
    }
    drawn = weft_calloc(1, sizeof(*drawn));
    weft_format(path, sizeof(path), "swarm-%s-%llu.yaml", swarm_space_name(file->space),
                (unsigned long long)seed);
    drawn->path = weft_strdup(path);
    drawn->space = file->space;
    swarm_draw(file->space, seed, has_all ? NULL : &backend, &drawn->text);
    drawn->scenario =
        cli_load_bytes(options, drawn->path, drawn->text.bytes, drawn->text.n);
    if (drawn->scenario == NULL) {
        abort(); /* a space draws valid files only */
    }
    return drawn;
}

void swarm_file_put(const struct swarm_file *file)
{
    struct swarm_file *drawn = (struct swarm_file *)(uintptr_t)file;

    if (file->space != NULL) {
        scenario_free(drawn->scenario);
        weft_text_fini(&drawn->text);
        free((void *)(uintptr_t)drawn->path);
        free(drawn);
    }
}

/* Runs a worker's items in its process. */
static void work(void *context)
{
    const struct worker *worker = context;
    const struct swarm *swarm = worker->swarm;

    /* Keeps freed memory in the process, because worlds are created and destroyed repeatedly. */
    mallopt(M_MMAP_THRESHOLD, MEMORY_KEPT_BYTES);
    mallopt(M_TRIM_THRESHOLD, MEMORY_KEPT_BYTES);
    for (uint64_t item = worker->next; item < swarm->n_items; item += swarm->n_jobs) {
        uint64_t seed = seed_of(swarm, item);
        const struct swarm_file *file =
            swarm_file_get(swarm->options, file_of(swarm, item), seed);
        json_t *row = swarm_row(
            &(struct swarm_run){.options = swarm->options,
                                .path = file->path,
                                .scenario = file->scenario,
                                .text = file->space != NULL ? &file->text : NULL,
                                .no_story = file->space != NULL,
                                .seed = seed,
                                .patience_ms = swarm->patience_ms});

        print_row(row);
        fflush(stdout);
        json_decref(row);
        swarm_file_put(file);
    }
}

/* ---- arguments ---- */

/* Selects the backend. A seed of a swarm must be repeatable, so all backends but sim need a guest
 * with virtual time. */
static int choose_backend(struct cli_options *options)
{
    const struct backend *backend = backend_named(options->backend);
    struct weft_error error;
    char text[512];

    if (strcmp(options->backend, "sim") == 0) {
        return CLI_OK;
    }
    if (backend == NULL || strstr(backend->clocks, "virtual") == NULL) {
        fprintf(stderr,
                "weft swarm: --backend: expected sim, soft or rxe, got '%s': a seed of a "
                "swarm "
                "repeats, and that backend lives in real time\n",
                options->backend);
        return CLI_USAGE;
    }
    options->clock = "virtual"; /* for replay commands */
    weft_error_clear(&error);
    if (!options->print && backend_can_be_virtual(&error) != WEFT_OK) {
        weft_error_format(&error, text, sizeof(text));
        fprintf(stderr, "weft swarm: %s\n", text);
        return CLI_ENVIRONMENT;
    }
    return CLI_OK;
}

static bool refuse(const char *flag, const char *wanted, const char *got)
{
    char quoted[DIAGNOSE_QUOTE_BYTES];

    fprintf(stderr, "weft swarm: --%s: expected %s%s%s%s\n", flag, wanted,
            got != NULL ? ", got '" : "", got != NULL ? diagnose_quote(got, quoted) : "",
            got != NULL ? "'" : "");
    return false;
}

static bool parse_number(const char *text, const char **end, uint64_t *out)
{
    char *after = NULL;

    errno = 0;
    *out = strtoull(text, &after, 10);
    *end = after;
    return after != text && errno == 0 && *text >= '0' && *text <= '9';
}

static bool read_seeds(struct swarm *swarm, const char *text)
{
    static const char wanted[] = "A..B, two numbers from 0 to 2^64-1, not more than 2^32 "
                                 "apart";
    const char *end = text;
    uint64_t last = 0;
    bool is_range = text != NULL && parse_number(text, &end, &swarm->first_seed) &&
                    strncmp(end, "..", 2) == 0 && parse_number(end + 2, &end, &last) &&
                    *end == '\0';

    if (!is_range || last < swarm->first_seed || last - swarm->first_seed > UINT32_MAX) {
        return refuse("seeds", wanted, text);
    }
    swarm->n_seeds = last - swarm->first_seed + 1;
    return true;
}

static bool read_shard(struct swarm *swarm, const char *text)
{
    const char *end = text;

    swarm->shard = 1;
    swarm->n_shards = 1;
    if (text != NULL && !(parse_number(text, &end, &swarm->shard) && *end == '/' &&
                          parse_number(end + 1, &end, &swarm->n_shards) && *end == '\0' &&
                          swarm->shard >= 1 && swarm->shard <= swarm->n_shards &&
                          swarm->n_shards <= UINT32_MAX)) {
        return refuse("shard", "i/N, from 1/N to N/N", text);
    }
    swarm->shard--;
    swarm->n_seeds_here =
        swarm->n_seeds > swarm->shard
            ? (swarm->n_seeds - swarm->shard + swarm->n_shards - 1) / swarm->n_shards
            : 0;
    return true;
}

static bool read_jobs(struct swarm *swarm, const char *text)
{
    long n_processors = sysconf(_SC_NPROCESSORS_ONLN);
    const char *end = text;
    uint64_t n = n_processors > 0 ? (uint64_t)n_processors : 1;

    if (text != NULL &&
        !(parse_number(text, &end, &n) && *end == '\0' && n >= 1 && n <= JOBS_MAX)) {
        return refuse("jobs", "a number from 1 to 256", text);
    }
    swarm->n_jobs = (uint32_t)(n < JOBS_MAX ? n : JOBS_MAX);
    return true;
}

static int refuse_space(const char *name)
{
    fprintf(stderr, "weft swarm: --space: there is no space '%s', only\n", name);
    for (unsigned i = 0; swarm_space_at(i) != NULL; i++) {
        const struct swarm_space *space = swarm_space_at(i);

        fprintf(stderr, "  %-10s %s\n", swarm_space_name(space), swarm_space_help(space));
    }
    return CLI_USAGE;
}

static int load_files(struct swarm *swarm)
{
    struct cli_options *options = swarm->options;
    const char *key = NULL;
    int code = CLI_OK;

    swarm->n_files = (size_t)options->n_operands + (options->space != NULL ? 1 : 0);
    swarm->files = weft_calloc(swarm->n_files, sizeof(*swarm->files));
    swarm->n_items = swarm->n_seeds_here * (uint64_t)swarm->n_files;
    if (options->space != NULL) {
        swarm->files[options->n_operands] = (struct swarm_file){
            .path = options->space, .space = swarm_space_find(options->space)};
        if (swarm_space_find(options->space) == NULL) {
            return refuse_space(options->space);
        }
    }
    for (int i = 0; i < options->n_operands; i++) {
        struct swarm_file *file = &swarm->files[i];

        file->path = options->operands[i];
        file->scenario = cli_load_keep(options, file->path, &file->text);
        if (file->scenario == NULL) {
            code = cli_worse(code, CLI_USAGE);
        } else if (scenario_not_implemented(file->scenario, &key)) {
            fprintf(stderr, "weft: %s: not implemented yet: %s\n", file->path, key);
            code = cli_worse(code, CLI_ENVIRONMENT);
        }
    }
    return code;
}

/* ---- rows ---- */

/* Returns the row of `item` from the worker that runs it. Replaces a worker that crashed or
 * hung. */
static json_t *next_row(const struct swarm *swarm, struct worker *worker, uint64_t item)
{
    struct weft_text line = {NULL, 0, 0};
    struct weft_text how = {NULL, 0, 0};
    enum isolate_read read = ISOLATE_ENDED;
    json_t *row = NULL;

    worker->next = item;
    if (worker->isolate.pid == 0 && !isolate_start(&worker->isolate, work, worker)) {
        weft_text_add(&how, "no process: %s", strerror(errno));
    } else {
        read = isolate_line(&worker->isolate,
                            swarm_patience_ms(swarm->options, swarm->patience_ms), &line);
    }
    if (read == ISOLATE_LINE) {
        row = json_loadb(line.bytes, line.n, 0, NULL);
    } else {
        isolate_stop(&worker->isolate, &how);
    }
    if (row == NULL) {
        const struct swarm_file *file =
            swarm_file_get(swarm->options, file_of(swarm, item), seed_of(swarm, item));
        bool is_late = read == ISOLATE_LATE;
        bool lacks_memory = how.n > 0 && strcmp(how.bytes, "exit status 3") == 0;

        row = swarm_row_of_crash(swarm->options, file->path, file->scenario,
                                 seed_of(swarm, item),
                                 is_late        ? "timeout"
                                 : lacks_memory ? "error"
                                                : "crash",
                                 is_late     ? "out of time"
                                 : how.n > 0 ? how.bytes
                                             : "it said nothing");
        swarm_file_put(file);
    }
    weft_text_fini(&line);
    weft_text_fini(&how);
    return row;
}

/* Shrinks the first failure of a file and saves it in the current directory. */
static void shrink(const struct swarm *swarm, const struct swarm_file *file,
                   const json_t *row, uint64_t seed)
{
    struct weft_text small = {NULL, 0, 0};
    struct weft_text text = {NULL, 0, 0};
    struct weft_text failure = {NULL, 0, 0};
    char path[128];
    bool is_sim = strcmp(swarm->options->backend, "sim") == 0;
    unsigned n_runs = swarm_shrink(swarm->options, file, row, seed,
                                   is_sim ? SHRINK_RUNS_MAX : SHRINK_GUESTS_MAX,
                                   swarm->patience_ms, &small);

    swarm_signature(row, &failure);
    weft_format(path, sizeof(path),
                file->space != NULL ? "%s-small-%llu.yaml" : "%s-seed-%llu.yaml",
                file->scenario->name, (unsigned long long)seed);
    weft_text_add(&text, "# %s with seed %llu, made small: %s.\n# It was: %s\n",
                  file->path, (unsigned long long)seed, failure.bytes,
                  json_read_text(row, "replay", ""));
    weft_text_add_bytes(&text, small.bytes, small.n);
    if (cli_write_file(path, text.bytes, text.n)) {
        fprintf(stderr, "shrunk in %u runs: weft run %s --backend %s\n", n_runs, path,
                swarm->options->backend);
    }
    weft_text_fini(&small);
    weft_text_fini(&text);
    weft_text_fini(&failure);
}

static void take_row(const struct swarm *swarm, uint64_t item, const json_t *row,
                     bool *was_shrunk, struct tally *tally)
{
    int code = swarm_code(row);
    const struct swarm_file *file;

    print_row(row);
    tally->code = cli_worse(tally->code, code);
    tally->time_ns += json_read_int(row, "sim_time_ns", 0);
    if (code == CLI_OK) {
        tally->n_passed++;
        return;
    }
    tally->n_failed++;
    fprintf(stderr, "replay: %s\n", json_read_text(row, "replay", ""));
    file = swarm_file_get(swarm->options, file_of(swarm, item), seed_of(swarm, item));
    if (file->space != NULL) {
        (void)cli_write_file(file->path, file->text.bytes, file->text.n);
    }
    if (swarm->options->shrink && !*was_shrunk) {
        *was_shrunk = true;
        shrink(swarm, file, row, seed_of(swarm, item));
    }
    swarm_file_put(file);
}

/* Prints the files that would run, as a stream of YAML documents. */
static void print_all(const struct swarm *swarm)
{
    for (uint64_t item = 0; item < swarm->n_items; item++) {
        const struct swarm_file *file =
            swarm_file_get(swarm->options, file_of(swarm, item), seed_of(swarm, item));

        (void)cli_print("---\n", item > 0 ? 4 : 0);
        (void)cli_print(file->text.bytes, file->text.n);
        swarm_file_put(file);
    }
}

static void run_all(const struct swarm *swarm, struct tally *tally)
{
    struct worker *workers = weft_calloc(swarm->n_jobs, sizeof(*workers));
    bool *was_shrunk = weft_calloc(swarm->n_files, sizeof(*was_shrunk));
    struct progress_line line = progress_line_start(!swarm->options->quiet);

    for (uint32_t i = 0; i < swarm->n_jobs && i < swarm->n_items; i++) {
        workers[i] = (struct worker){.swarm = swarm, .next = i};
        isolate_start(&workers[i].isolate, work, &workers[i]);
    }
    for (uint64_t item = 0; item < swarm->n_items; item++) {
        struct worker *worker = &workers[item % swarm->n_jobs];
        json_t *row = next_row(swarm, worker, item);

        take_row(swarm, item, row, &was_shrunk[item / swarm->n_seeds_here], tally);
        json_decref(row);
        progress_line_count(&line, item + 1, swarm->n_items, "runs");
    }
    progress_line_end(&line);
    for (uint32_t i = 0; i < swarm->n_jobs; i++) {
        isolate_stop(&workers[i].isolate, NULL);
    }
    free(was_shrunk);
    free(workers);
}

int cli_swarm(struct cli_options *options)
{
    struct swarm swarm = {.options = options};
    struct tally tally = {.code = CLI_OK};
    int code;

    if (options->n_operands == 0 && options->space == NULL) {
        fprintf(stderr, "usage: weft swarm FILE... --seeds A..B [flags]\n"
                        "       weft swarm --space NAME --seeds A..B [flags]\n");
        return CLI_USAGE;
    }
    if (options->print &&
        cli_refuse_given(options, "shrink", "not with --print, which runs nothing")) {
        return CLI_USAGE;
    }
    if (!read_seeds(&swarm, options->seeds) || !read_shard(&swarm, options->shard) ||
        !read_jobs(&swarm, options->jobs)) {
        return CLI_USAGE;
    }
    code = choose_backend(options);
    if (code != CLI_OK) {
        return code;
    }
    swarm.patience_ms =
        1000 * (options->time_limit_s > 0 ? options->time_limit_s : PATIENCE_DEFAULT_S);
    cli_end_when_interrupted();
    code = load_files(&swarm);
    if (code == CLI_OK && options->print) {
        print_all(&swarm);
    } else if (code == CLI_OK) {
        run_all(&swarm, &tally);
        code = tally.code;
        if (!options->quiet && !options->print) {
            fprintf(stderr, "%llu runs, %.3f s of world time: %llu passed, %llu failed\n",
                    (unsigned long long)swarm.n_items, (double)tally.time_ns / 1e9,
                    (unsigned long long)tally.n_passed,
                    (unsigned long long)tally.n_failed);
        }
    }
    for (size_t i = 0; i < swarm.n_files; i++) {
        scenario_free(swarm.files[i].scenario);
        weft_text_fini(&swarm.files[i].text);
    }
    free(swarm.files);
    return code;
}
