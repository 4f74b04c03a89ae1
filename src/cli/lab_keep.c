/* The daemon of `weft lab`: owns the guest, and answers those who ask. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/registry.h"
#include "base/check.h"
#include "cli/lab.h"
#include "cli/lab_diagnose.h"
#include "run/program_plan.h"

#define VISITORS_MAX 200

/* READS: what its programs wrote, which are over; WAITS: for the end of the lab */
enum visit { ASKS, RUNS, READS, WAITS, IS_OVER };

struct visitor {
    int fd;
    enum visit state;
    uint32_t id;                 /* of its first program; the others follow */
    uint32_t n_programs, n_left; /* those that still run */
    bool has_files;              /* those of programs */
    bool is_diagnosis;           /* which has no programs, but a file of its own */
    bool asks_why;               /* only about `why_id`, which failed */
    uint32_t why_id;
    bool has_hung_up;      /* and they still run */
    bool has_signalled;    /* and does not know yet that the guest has it */
    uint32_t signal_id;    /* the last */
    struct weft_text got;  /* of its request */
    struct weft_text says; /* what is to be sent */
};

struct keeper {
    struct cli_options *options;
    const struct scenario *scenario;
    struct scenario_world *world;
    const char *name;
    int listen_fd, ready_fd;
    struct world_lab *lab; /* NULL: not yet */
    char *folder;          /* Owned; of the programs' files */
    struct visitor visitors[VISITORS_MAX];
    size_t n;
    struct lab_session session; /* programs that run, or ran last */
    bool is_capturing;
    uint32_t capture_id; /* of its last begin or end */
    bool awaits_last;    /* the end of the capture, and then it ends */
    bool is_ending;
};

/* ---- requests ---- */

struct words {
    const char *at, *end;
};

static const char *next_word(struct words *words)
{
    const char *word = words->at;

    words->at += words->at < words->end ? strlen(words->at) + 1 : 0;
    return word;
}

/* Returns the next `n` words, or with ULONG_MAX all that follow, in a list that the caller frees.
 * Returns NULL if there are fewer. */
static char **next_list(struct words *words, unsigned long n)
{
    char **list = weft_calloc((size_t)(words->end - words->at) + 2, sizeof(*list));
    unsigned long i = 0;

    while (i < n && words->at < words->end) {
        list[i++] = (char *)(uintptr_t)next_word(words);
    }
    if (i < n && n != ULONG_MAX) {
        free(list);
        return NULL;
    }
    return list;
}

/* Returns the words of a list that begins with their number. */
static char **next_counted(struct words *words)
{
    return next_list(words, strtoul(next_word(words), NULL, 10));
}

static size_t count(char *const *words)
{
    size_t n = 0;

    while (words[n] != NULL) {
        n++;
    }
    return n;
}

static void refuse(struct visitor *visitor, const char *why)
{
    weft_text_add(&visitor->says, "error %s\n", why);
    visitor->state = IS_OVER;
}

/* Hangs up the programs of a client that is gone, or forgets a client without programs. */
static void hang_up(struct keeper *keeper, struct visitor *visitor)
{
    if (visitor->state == RUNS && !visitor->has_hung_up) {
        for (uint32_t i = 0; i < visitor->n_programs; i++) {
            backend_lab_hang_up(keeper->lab, visitor->id + i);
        }
        visitor->has_hung_up = true;
    } else if (visitor->state != RUNS) {
        visitor->state = IS_OVER;
        visitor->says.n = 0;
    }
}

/* Starts all programs of a request at the same moment of the mesh. */
static void start(struct keeper *keeper, struct visitor *visitor,
                  struct world_lab_program *program, const struct program_plan *plan)
{
    weft_text_add(&visitor->says, "begun\t%s", keeper->folder);
    for (uint32_t i = 0; i < plan->n; i++) {
        const struct world_program *item = &plan->items[i];
        uint32_t id;
        int problem;

        program->host = item->host;
        program->argv = item->argv;
        program->delay_ns = item->step * WORLD_PROGRAM_STEP_NS;
        problem = backend_lab_start(keeper->lab, program, &id);
        if (problem != 0) {
            hang_up(keeper, visitor);
            visitor->says.n = 0;
            refuse(visitor, strerror(problem));
            return;
        }
        if (i == 0) {
            visitor->state = RUNS;
            visitor->has_files = true;
            visitor->id = id;
            weft_text_add(&visitor->says, "\t%u", id);
        }
        visitor->n_programs++;
        visitor->n_left++;
        lab_session_add(&keeper->session, &keeper->world->spec.hosts[item->host],
                        item->host, id, item->argv,
                        backend_lab_now(keeper->lab) + program->delay_ns);
        weft_text_add(&visitor->says, "\t%s", keeper->world->spec.hosts[item->host].name);
    }
    weft_text_add(&visitor->says, "\n");
}

static void plan_and_start(struct keeper *keeper, struct visitor *visitor,
                           struct world_lab_program *program, char *const *hosts,
                           char *const *argv)
{
    struct program_plan plan = {NULL, 0};
    struct weft_text why = {NULL, 0, 0};

    if (program_plan_make(keeper->world, backend_program_device, hosts, count(hosts),
                          argv, count(argv), &plan, &why)) {
        if (program->has_terminal && plan.n != 1) {
            refuse(visitor, "a terminal is for one program");
        } else {
            start(keeper, visitor, program, &plan);
        }
    } else {
        refuse(visitor, why.bytes);
    }
    program_plan_fini(&plan);
    weft_text_fini(&why);
}

static void do_exec(struct keeper *keeper, struct visitor *visitor, struct words words,
                    const char *input, size_t n_input)
{
    struct world_lab_program program = {.input = input, .n_input = n_input};
    unsigned rows = 0, columns = 0;
    bool has_terminal = sscanf(next_word(&words), "%ux%u", &rows, &columns) == 2;
    char **hosts = next_counted(&words);
    char **variables;
    char **argv;

    program.cwd = next_word(&words);
    variables = next_counted(&words);
    argv = next_list(&words, ULONG_MAX);
    program.variables = variables;
    program.has_terminal = has_terminal;
    program.rows = (uint16_t)rows;
    program.columns = (uint16_t)columns;
    if (hosts == NULL || variables == NULL || argv == NULL || argv[0] == NULL) {
        refuse(visitor, "not a request: another version of weft?");
    } else {
        plan_and_start(keeper, visitor, &program, hosts, argv);
    }
    free(hosts);
    free(variables);
    free(argv);
}

static void signal_all(struct keeper *keeper, struct visitor *visitor, int number)
{
    for (uint32_t i = 0; i < visitor->n_programs; i++) {
        visitor->signal_id = backend_lab_signal(keeper->lab, visitor->id + i, number);
    }
    visitor->has_signalled = true;
}

/* Returns the length of the first message, or 0 if it is incomplete. */
static size_t message_length(const char *bytes, size_t n)
{
    uint16_t n_typed = 0;
    size_t length = 1;

    if (bytes[0] == LAB_TYPES && n >= 1 + sizeof(n_typed)) {
        memcpy(&n_typed, bytes + 1, sizeof(n_typed));
        length = 1 + sizeof(n_typed) + n_typed;
    } else if (bytes[0] == LAB_TYPES || bytes[0] == LAB_RESIZES) {
        length = 1 + 2 * sizeof(uint16_t);
    }
    return length <= n ? length : 0;
}

static void obey(struct keeper *keeper, struct visitor *visitor, const char *bytes,
                 size_t n)
{
    uint16_t size[2];

    if (bytes[0] == LAB_TYPES) {
        visitor->signal_id = backend_lab_type(keeper->lab, visitor->id, bytes + 3, n - 3);
        visitor->has_signalled = true;
    } else if (bytes[0] == LAB_RESIZES) {
        memcpy(size, bytes + 1, sizeof(size));
        backend_lab_resize(keeper->lab, visitor->id, size[0], size[1]);
    } else if (bytes[0] > 0) {
        signal_all(keeper, visitor, bytes[0]);
    }
}

/* Signals and the like. What is not whole stays. */
static void look_at_messages(struct keeper *keeper, struct visitor *visitor)
{
    struct weft_text *got = &visitor->got;
    size_t from = 0;
    size_t n;

    while (from < got->n && visitor->has_files &&
           (n = message_length(got->bytes + from, got->n - from)) > 0) {
        obey(keeper, visitor, got->bytes + from, n);
        from += n;
    }
    memmove(got->bytes, got->bytes + from, got->n - from);
    got->n -= from;
}

static size_t n_running(const struct keeper *keeper)
{
    size_t n = 0;

    for (size_t i = 0; i < keeper->n; i++) {
        n += keeper->visitors[i].n_left;
    }
    return n;
}

/* Waits for a fault, a capture or an inspection, which ends as a program does. */
static void await(struct visitor *visitor, uint32_t id)
{
    visitor->id = id;
    visitor->n_programs = visitor->n_left = 1;
    visitor->state = RUNS;
}

static void do_capture(struct keeper *keeper, struct visitor *visitor, const char *path)
{
    bool begins = path[0] != '\0';

    if (begins == keeper->is_capturing) {
        refuse(visitor, begins ? "one is under way: `weft lab capture` ends it"
                               : "there is none: weft lab capture FILE");
        return;
    }
    keeper->is_capturing = begins;
    keeper->capture_id = backend_lab_capture(keeper->lab, path);
    await(visitor, keeper->capture_id);
}

/* Ends the lab, after ending a capture. A second request does not wait for the capture. */
static void go_down(struct keeper *keeper)
{
    keeper->is_ending = keeper->awaits_last || !keeper->is_capturing;
    if (!keeper->is_ending) {
        keeper->capture_id = backend_lab_capture(keeper->lab, NULL);
        keeper->awaits_last = true;
    }
}

/* Begins a fault now. Refuses one with a time, because `at` has no meaning here. */
static void make_fault(struct keeper *keeper, struct visitor *visitor,
                       const struct scenario *scenario)
{
    struct weft_error error = {0};
    struct scenario_world *world = NULL;
    char text[512];

    if (scenario_to_world(scenario, &world) != WEFT_OK ||
        backend_programs_can(&world->spec, false, &error) != WEFT_OK) {
        weft_error_format(&error, text, sizeof(text));
        refuse(visitor, text);
    } else if (world->spec.n_faults != 1 || world->spec.faults[0].at_ns != 0) {
        refuse(visitor, "one fault at a time, and it comes now, without `at`: "
                        "'{on: \"HOST:PORT\", kind: down, for: 2s}'");
    } else {
        await(visitor, backend_lab_fault(keeper->lab, &world->spec.faults[0]));
        lab_session_fault(&keeper->session, &world->spec.faults[0],
                          backend_lab_now(keeper->lab));
    }
    scenario_world_free(world);
}

/* Refuses a fault by what is wrong with it: that it is a --set of the file is not the user's
 * affair. */
static void refuse_fault(struct visitor *visitor, const char *text,
                         const struct scenario_diagnostics *wrong)
{
    static const char place[] = "--set faults: ";
    struct weft_text why = {NULL, 0, 0};
    const char *first = wrong->n > 0 ? wrong->items[0].text : "not a fault";
    bool has_place = strncmp(first, place, strlen(place)) == 0;

    weft_text_add(&why, "%s%s", first + (has_place ? strlen(place) : 0),
                  strchr(text, '{') != NULL
                      ? ""
                      : "; such as '{on: \"HOST:PORT\", kind: down, for: 2s}'");
    refuse(visitor, why.bytes);
    weft_text_fini(&why);
}

/* Reads the file as it was when the lab came up, with this fault in place of its own. */
static void do_fault(struct keeper *keeper, struct visitor *visitor, const char *text)
{
    const struct scenario *file = keeper->scenario;
    struct cli_options options = *keeper->options;
    struct scenario_diagnostics wrong = {0};
    struct scenario *scenario = NULL;
    struct weft_text set = {NULL, 0, 0};

    if (options.n_sets == CLI_SETS_MAX) {
        refuse(visitor, "`weft lab up` had as many --set as there may be");
        return;
    }
    weft_text_add(&set, "faults=[%s]", text);
    options.sets[options.n_sets++].text = set.bytes;
    if (scenario_load_text(file->file, file->text, file->n_text, options.sets,
                           options.n_sets, &scenario, &wrong) != WEFT_OK) {
        refuse_fault(visitor, text, &wrong);
    } else {
        make_fault(keeper, visitor, scenario);
    }
    scenario_diagnostics_fini(&wrong);
    scenario_free(scenario);
    weft_text_fini(&set);
}

static void answer(struct keeper *keeper, struct visitor *visitor,
                   const struct lab_request *request)
{
    const char *bytes = visitor->got.bytes + sizeof(*request);
    struct words words = {bytes, bytes + request->n_words};
    const char *what = next_word(&words);

    if (strcmp(what, "exec") == 0) {
        do_exec(keeper, visitor, words, words.end, request->n_input);
    } else if (strcmp(what, "ls") == 0) {
        weft_ns now = backend_lab_now(keeper->lab);

        weft_text_add(&visitor->says,
                      "%s\t%s\t%u hosts\t%zu programs\tclock %s %lld.%03d s\n",
                      keeper->name, keeper->options->operands[1],
                      keeper->world->spec.n_hosts, n_running(keeper),
                      keeper->options->clock != NULL ? keeper->options->clock : "virtual",
                      (long long)(now / 1000000000), (int)(now / 1000000 % 1000));
        visitor->state = IS_OVER;
    } else if (strcmp(what, "fault") == 0) {
        do_fault(keeper, visitor, next_word(&words));
    } else if (strcmp(what, "clear") == 0) {
        await(visitor, backend_lab_clear(keeper->lab));
        lab_session_fault(&keeper->session, NULL, backend_lab_now(keeper->lab));
    } else if (strcmp(what, "diagnose") == 0) {
        await(visitor, backend_lab_look(keeper->lab));
        visitor->is_diagnosis = true;
    } else if (strcmp(what, "why") == 0) {
        visitor->why_id = (uint32_t)strtoul(next_word(&words), NULL, 10);
        await(visitor, backend_lab_look(keeper->lab));
        visitor->is_diagnosis = visitor->asks_why = true;
    } else if (strcmp(what, "capture") == 0) {
        do_capture(keeper, visitor, next_word(&words));
    } else if (strcmp(what, "down") == 0) {
        go_down(keeper);
        visitor->state = WAITS;
    } else {
        refuse(visitor, "not a request: another version of weft?");
    }
}

/* Keeps the bytes from `from` on, and frees the request, which may be large while its programs may
 * run for long. */
static void keep_rest(struct weft_text *got, size_t from)
{
    struct weft_text rest = {NULL, 0, 0};

    weft_text_add_bytes(&rest, got->bytes + from, got->n - from);
    weft_text_fini(got);
    *got = rest;
}

/* Answers a complete request; what follows it are signals. Ends the connection if the bytes are not
 * a request. */
static void look_at_request(struct keeper *keeper, struct visitor *visitor)
{
    struct lab_request request;
    size_t n;

    if (keeper->lab == NULL || visitor->got.n < sizeof(request)) {
        return;
    }
    memcpy(&request, visitor->got.bytes, sizeof(request));
    n = sizeof(request) + request.n_words + request.n_input;
    if (request.n_words == 0 || request.n_words > LAB_REQUEST_MAX ||
        request.n_input > LAB_REQUEST_MAX ||
        (visitor->got.n >= n &&
         visitor->got.bytes[sizeof(request) + request.n_words - 1] != '\0')) {
        refuse(visitor, "not a request: another version of weft?");
    } else if (visitor->got.n >= n) {
        answer(keeper, visitor, &request);
        keep_rest(&visitor->got, n);
        look_at_messages(keeper, visitor);
    }
}

/* ---- visitors ---- */

static void say(struct visitor *visitor)
{
    ssize_t n = visitor->says.n == 0
                    ? 0
                    : backend_lab_send(visitor->fd, visitor->says.bytes, visitor->says.n);

    if (n > 0) {
        memmove(visitor->says.bytes, visitor->says.bytes + n,
                visitor->says.n - (size_t)n);
        visitor->says.n -= (size_t)n;
    } else if (n < 0 && errno != EAGAIN && errno != EINTR) {
        visitor->says.n = 0;
    }
}

static void hear(struct keeper *keeper, struct visitor *visitor)
{
    char bytes[65536];
    ssize_t n = read(visitor->fd, bytes, sizeof(bytes));

    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        hang_up(keeper, visitor);
    } else if (n > 0 && visitor->state == RUNS) {
        weft_text_add_bytes(&visitor->got, bytes, (size_t)n);
        look_at_messages(keeper, visitor);
    } else if (n > 0 && visitor->state == ASKS) {
        weft_text_add_bytes(&visitor->got, bytes, (size_t)n);
    }
}

static void remove_visitor(struct keeper *keeper, size_t i)
{
    struct visitor *visitor = &keeper->visitors[i];

    close(visitor->fd);
    for (uint32_t j = 0;
         visitor->has_files && keeper->lab != NULL && j < visitor->n_programs; j++) {
        backend_lab_forget(keeper->lab, visitor->id + j);
    }
    weft_text_fini(&visitor->got);
    weft_text_fini(&visitor->says);
    memmove(visitor, visitor + 1, (--keeper->n - i) * sizeof(*visitor));
}

static void let_in(struct keeper *keeper)
{
    int fd = backend_lab_accept(keeper->listen_fd);

    if (fd >= 0) {
        keeper->visitors[keeper->n++] = (struct visitor){.fd = fd};
    }
}

/* ---- hooks ---- */

static void up(void *context, struct world_lab *lab, const char *folder)
{
    struct keeper *keeper = context;

    keeper->lab = lab;
    keeper->folder = weft_strdup(folder);
    (void)backend_lab_send(keeper->ready_fd, "up\n", 3);
    close(keeper->ready_fd);
    keeper->ready_fd = -1;
    (void)!chdir("/"); /* not in the way of an umount */
}

static size_t wants(void *context, struct pollfd *fds, size_t n_max)
{
    struct keeper *keeper = context;
    size_t n = 0;

    weft_check(n_max >= VISITORS_MAX + 2);
    fds[n++] = (struct pollfd){.fd = keeper->ready_fd};
    fds[n++] = (struct pollfd){.fd = keeper->n < VISITORS_MAX ? keeper->listen_fd : -1,
                               .events = POLLIN};
    for (size_t i = 0; i < keeper->n; i++) {
        const struct visitor *visitor = &keeper->visitors[i];

        fds[n++] = (struct pollfd){
            .fd = visitor->has_hung_up ? -1 : visitor->fd,
            .events = (short)(POLLIN | (visitor->says.n > 0 ? POLLOUT : 0))};
    }
    return n;
}

static bool look(void *context, const struct pollfd *fds, size_t n)
{
    struct keeper *keeper = context;

    if (keeper->ready_fd >= 0 && (fds[0].revents & (POLLERR | POLLHUP)) != 0) {
        keeper->is_ending = true; /* who waited for it to be up does not any more */
    }
    for (size_t i = n - 2; i-- > 0;) {
        struct visitor *visitor = &keeper->visitors[i];

        if ((fds[i + 2].revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
            hear(keeper, visitor);
        }
        if (visitor->state == ASKS) {
            look_at_request(keeper, visitor);
        }
        say(visitor);
        if (visitor->state == IS_OVER && visitor->says.n == 0) {
            remove_visitor(keeper, i);
        }
    }
    if ((fds[1].revents & POLLIN) != 0) {
        let_in(keeper);
    }
    return !keeper->is_ending;
}

static json_t *document_of(const struct keeper *keeper, const struct visitor *visitor,
                           const struct weft_text *looks)
{
    const struct world_spec *spec = &keeper->world->spec;
    weft_ns now = backend_lab_now(keeper->lab);

    return visitor->asks_why ? lab_failure(spec, &keeper->session, visitor->why_id,
                                           keeper->folder, now, looks->bytes, looks->n)
                             : lab_diagnosis(spec, &keeper->session, keeper->folder, now,
                                             looks->bytes, looks->n);
}

/* Answers with what the hosts looked like. */
static void answer_diagnosis(struct keeper *keeper, struct visitor *visitor, int problem)
{
    struct weft_text looks = {NULL, 0, 0};
    json_t *document = NULL;
    char *text = NULL;
    char path[PATH_MAX];

    weft_format(path, sizeof(path), "%s/out.%u", keeper->folder, visitor->id);
    problem = problem != 0 ? problem : weft_text_add_file(&looks, path, LAB_REQUEST_MAX);
    if (problem == 0) {
        document = document_of(keeper, visitor, &looks);
        text = document != NULL ? json_dumps(document, JSON_COMPACT) : NULL;
        problem = text != NULL ? 0 : EPROTO;
    }
    if (problem == 0) {
        weft_text_add(&visitor->says, "%s\n", text);
    } else {
        weft_text_add(&visitor->says, "error the hosts cannot be inspected: %s\n",
                      strerror(problem));
    }
    backend_lab_forget(keeper->lab, visitor->id);
    free(text);
    json_decref(document);
    weft_text_fini(&looks);
}

static void tell_end(struct keeper *keeper, struct visitor *visitor, uint32_t id,
                     int code)
{
    if (visitor->has_signalled && visitor->signal_id == id) {
        visitor->has_signalled = false;
        weft_text_add(&visitor->says, "took\n");
    }
    if (id - visitor->id < visitor->n_programs) {
        if (visitor->is_diagnosis) {
            answer_diagnosis(keeper, visitor, code);
        } else {
            weft_text_add(&visitor->says, "ended %u %d\n", id, code);
        }
        visitor->n_left--;
    }
    if (visitor->n_left == 0 && visitor->has_files && !visitor->has_hung_up) {
        visitor->state = READS;
    } else if (visitor->n_left == 0) {
        visitor->state = IS_OVER;
        visitor->says.n = visitor->has_hung_up ? 0 : visitor->says.n;
    }
}

/* Ends the lab once the capture has ended, and reports its problem to the clients that asked for
 * the end. */
static void end_with_capture(struct keeper *keeper, int problem)
{
    for (size_t i = 0; i < keeper->n && problem != 0; i++) {
        if (keeper->visitors[i].state == WAITS) {
            weft_text_add(&keeper->visitors[i].says,
                          "error the capture is not whole: %s\n", strerror(problem));
        }
    }
    keeper->is_ending = true;
}

static void ended(void *context, uint32_t id, int code)
{
    struct keeper *keeper = context;

    lab_session_end(&keeper->session, id, code, backend_lab_now(keeper->lab),
                    keeper->folder);
    for (size_t i = 0; i < keeper->n; i++) {
        if (keeper->visitors[i].state == RUNS) {
            tell_end(keeper, &keeper->visitors[i], id, code);
        }
    }
    if (id == keeper->capture_id && keeper->awaits_last) {
        end_with_capture(keeper, code);
    } else if (id == keeper->capture_id && code != 0) {
        keeper->is_capturing = false;
    }
}

/* ---- life ---- */

/* Runs this process's own command line in the guest. */
static weft_status run(struct keeper *keeper, uint64_t seed, struct weft_error *error)
{
    static const struct world_lab_hooks hooks = {
        .up = up, .wants = wants, .look = look, .ended = ended};
    struct world_lab_hooks ours = hooks;
    struct weft_text line = {NULL, 0, 0};
    struct words words;
    weft_status status;
    char **argv;
    char *self = realpath("/proc/self/exe", NULL);
    int problem = weft_text_add_file(&line, "/proc/self/cmdline", LAB_REQUEST_MAX);

    if (problem != 0 || self == NULL) {
        free(self);
        return weft_fail_errno(error, problem, WEFT_PHASE_LAB,
                               "cannot read /proc/self/cmdline");
    }
    words = (struct words){line.bytes, line.bytes + line.n};
    argv = next_list(&words, ULONG_MAX);
    argv[0] = self;
    ours.context = keeper;
    status = backend_lab_run(keeper->options->clock, seed, argv, &ours, error);
    free(argv);
    free(self);
    weft_text_fini(&line);
    return status;
}

/* Reports the lab's end to all clients. `why` is NULL if one of them asked for it. */
static void say_last(struct keeper *keeper, const char *why)
{
    for (size_t i = 0; i < keeper->n; i++) {
        struct visitor *visitor = &keeper->visitors[i];

        if (why != NULL && (visitor->state == RUNS || visitor->state == ASKS)) {
            weft_text_add(&visitor->says, "down %s\n", why);
        }
        say(visitor);
    }
}

int lab_keep(struct cli_options *options, const struct scenario *scenario,
             struct scenario_world *world, const char *folder, const char *name,
             int ready_fd)
{
    struct keeper *keeper = weft_calloc(1, sizeof(*keeper));
    struct weft_error error = {0};
    char text[512];
    weft_status status = WEFT_ERR_ENVIRONMENT;
    int problem;

    *keeper = (struct keeper){.options = options,
                              .scenario = scenario,
                              .world = world,
                              .name = name,
                              .listen_fd = -1,
                              .capture_id = UINT32_MAX,
                              .ready_fd = ready_fd};
    problem = backend_lab_listen(folder, name, VISITORS_MAX, &keeper->listen_fd);
    if (problem != 0) {
        fprintf(stderr, "weft lab up: %s/%s: %s\n", folder, name, strerror(problem));
    }
    if (keeper->listen_fd >= 0) {
        status = run(keeper, options->has_seed ? options->seed : scenario->seed, &error);
        keeper->lab = NULL;
        if (status != WEFT_OK) {
            weft_error_format(&error, text, sizeof(text));
            fprintf(stderr, "weft lab: %s\n", text);
        }
        say_last(keeper, status != WEFT_OK && status != WEFT_ERR_CLOSED ? text : NULL);
        /* While it still listens: from then on the name is free, and may be another's. */
        if (keeper->ready_fd < 0 || keeper->is_ending) { /* else its log is read first */
            lab_remove(folder, name);
        }
        close(keeper->listen_fd);
    }
    if (keeper->ready_fd >= 0) {
        close(keeper->ready_fd);
    }
    /* The connections end with the process: nothing of it is left when `weft lab down` returns. */
    for (size_t i = 0; i < keeper->n; i++) {
        weft_text_fini(&keeper->visitors[i].got);
        weft_text_fini(&keeper->visitors[i].says);
    }
    lab_session_fini(&keeper->session);
    free(keeper->folder);
    free(keeper);
    return status == WEFT_OK ? CLI_OK : CLI_ENVIRONMENT;
}
