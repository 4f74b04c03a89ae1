/* The daemon of `weft lab`: owns the guest, and answers requests. */
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

#define CLIENTS_MAX 200

enum client_state {
    ASKS,   /* waits for the rest of its request */
    RUNS,   /* waits for the end of its programs, fault, capture or diagnosis */
    READS,  /* its programs have ended; waits until it has read their output */
    WAITS,  /* waits for the end of the lab */
    IS_OVER /* waits until `unsent` is sent */
};

struct client {
    int fd;
    enum client_state state;
    uint32_t id; /* number of its first program; the others follow */
    uint32_t n_programs;
    uint32_t n_left;   /* programs that still run */
    bool has_files;    /* its programs have files */
    bool is_diagnosis; /* it asked for a diagnosis, which has a file but no programs */
    bool asks_why;     /* diagnose only program `why_id`, which failed */
    uint32_t why_id;
    uint32_t n_why; /* not 0: of those that follow too, and while some of them may run */
    bool has_hung_up;          /* the client is gone, and its programs still run */
    bool has_signalled;        /* it sent a signal, and waits for "took" */
    uint32_t signal_id;        /* the last */
    struct weft_text received; /* its request, and then signals */
    struct weft_text unsent;
};

struct keeper {
    struct cli_options *options;
    const struct scenario *scenario;
    struct scenario_world *world;
    const char *name;
    int listen_fd, ready_fd;
    struct world_lab *lab; /* NULL: not yet */
    char *folder;          /* Owned; of the programs' files */
    struct client clients[CLIENTS_MAX];
    size_t n;
    struct lab_session session; /* programs that run or ran last */
    bool is_capturing;
    uint32_t capture_id; /* of its last begin or end */
    bool awaits_last;    /* it ends after the capture */
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

static void refuse(struct client *client, const char *why)
{
    weft_text_add(&client->unsent, "error %s\n", why);
    client->state = IS_OVER;
}

/* Hangs up the programs of a client that is gone, or forgets a client without programs. */
static void hang_up(struct keeper *keeper, struct client *client)
{
    if (client->state == RUNS && !client->has_hung_up) {
        for (uint32_t i = 0; i < client->n_programs; i++) {
            backend_lab_hang_up(keeper->lab, client->id + i);
        }
        client->has_hung_up = true;
    } else if (client->state != RUNS) {
        client->state = IS_OVER;
        client->unsent.n = 0;
    }
}

/* Starts all programs of a request at the same moment of the mesh. */
static void start(struct keeper *keeper, struct client *client,
                  struct world_lab_program *program, const struct program_plan *plan)
{
    weft_text_add(&client->unsent, "begun\t%s", keeper->folder);
    for (uint32_t i = 0; i < plan->n; i++) {
        const struct world_program *item = &plan->items[i];
        uint32_t id;
        int problem;

        program->host = item->host;
        program->argv = item->argv;
        program->delay_ns = item->step * WORLD_PROGRAM_STEP_NS;
        problem = backend_lab_start(keeper->lab, program, &id);
        if (problem != 0) {
            hang_up(keeper, client);
            client->unsent.n = 0;
            refuse(client, strerror(problem));
            return;
        }
        if (i == 0) {
            client->state = RUNS;
            client->has_files = true;
            client->id = id;
            weft_text_add(&client->unsent, "\t%u", id);
        }
        client->n_programs++;
        client->n_left++;
        lab_session_add(&keeper->session, &keeper->world->spec.hosts[item->host],
                        item->host, id, item->argv,
                        backend_lab_now(keeper->lab) + program->delay_ns);
        weft_text_add(&client->unsent, "\t%s",
                      keeper->world->spec.hosts[item->host].name);
    }
    weft_text_add(&client->unsent, "\n");
}

static void plan_and_start(struct keeper *keeper, struct client *client,
                           struct world_lab_program *program, char *const *hosts,
                           char *const *argv)
{
    struct program_plan plan = {NULL, 0};
    struct weft_text why = {NULL, 0, 0};

    if (program_plan_make(keeper->world, backend_program_device, hosts, count(hosts),
                          argv, count(argv), &plan, &why)) {
        if (program->has_terminal && plan.n != 1) {
            refuse(client, "a terminal is for one program");
        } else {
            start(keeper, client, program, &plan);
        }
    } else {
        refuse(client, why.bytes);
    }
    program_plan_fini(&plan);
    weft_text_fini(&why);
}

static void do_exec(struct keeper *keeper, struct client *client, struct words words,
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
        refuse(client, "not a request: another version of weft?");
    } else {
        plan_and_start(keeper, client, &program, hosts, argv);
    }
    free(hosts);
    free(variables);
    free(argv);
}

static void signal_all(struct keeper *keeper, struct client *client, int number)
{
    for (uint32_t i = 0; i < client->n_programs; i++) {
        client->signal_id = backend_lab_signal(keeper->lab, client->id + i, number);
    }
    client->has_signalled = true;
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

static void obey(struct keeper *keeper, struct client *client, const char *bytes,
                 size_t n)
{
    uint16_t size[2];

    if (bytes[0] == LAB_TYPES) {
        client->signal_id = backend_lab_type(keeper->lab, client->id, bytes + 3, n - 3);
        client->has_signalled = true;
    } else if (bytes[0] == LAB_RESIZES) {
        memcpy(size, bytes + 1, sizeof(size));
        backend_lab_resize(keeper->lab, client->id, size[0], size[1]);
    } else if (bytes[0] > 0) {
        signal_all(keeper, client, bytes[0]);
    }
}

/* Signals and the like. What is not whole stays. */
static void look_at_messages(struct keeper *keeper, struct client *client)
{
    struct weft_text *got = &client->received;
    size_t from = 0;
    size_t n;

    while (from < got->n && client->has_files &&
           (n = message_length(got->bytes + from, got->n - from)) > 0) {
        obey(keeper, client, got->bytes + from, n);
        from += n;
    }
    memmove(got->bytes, got->bytes + from, got->n - from);
    got->n -= from;
}

/* Returns the number of programs that run. Faults, captures and inspections end as programs do, and
 * are none. */
static size_t n_running(const struct keeper *keeper)
{
    size_t n = 0;

    for (size_t i = 0; i < keeper->n; i++) {
        n += keeper->clients[i].has_files ? keeper->clients[i].n_left : 0;
    }
    return n;
}

/* Waits for a fault, a capture or an inspection, which ends as a program does. */
static void await(struct client *client, uint32_t id)
{
    client->id = id;
    client->n_programs = client->n_left = 1;
    client->state = RUNS;
}

static void do_capture(struct keeper *keeper, struct client *client, const char *path)
{
    bool begins = path[0] != '\0';

    if (begins == keeper->is_capturing) {
        refuse(client, begins ? "one is under way: `weft lab capture` ends it"
                              : "there is none: weft lab capture FILE");
        return;
    }
    keeper->is_capturing = begins;
    keeper->capture_id = backend_lab_capture(keeper->lab, path);
    await(client, keeper->capture_id);
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
static void make_fault(struct keeper *keeper, struct client *client,
                       const struct scenario *scenario)
{
    struct weft_error error = {0};
    struct scenario_world *world = NULL;
    char text[512];

    if (scenario_to_world(scenario, &world) != WEFT_OK ||
        backend_programs_can(&world->spec, false, &error) != WEFT_OK) {
        weft_error_format(&error, text, sizeof(text));
        refuse(client, text);
    } else if (world->spec.n_faults != 1 || world->spec.faults[0].at_ns != 0) {
        refuse(client, "one fault at a time, and it comes now, without `at`: "
                       "'{on: \"HOST:PORT\", kind: down, for: 2s}'");
    } else {
        await(client, backend_lab_fault(keeper->lab, &world->spec.faults[0]));
        lab_session_fault(&keeper->session, &world->spec.faults[0],
                          backend_lab_now(keeper->lab));
    }
    scenario_world_free(world);
}

/* Refuses a fault by what is wrong with it: that it is a --set of the file is not the user's
 * affair. */
static void refuse_fault(struct client *client, const char *text,
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
    refuse(client, why.bytes);
    weft_text_fini(&why);
}

/* Reads the file as it was when the lab came up, with this fault in place of its own. */
static void do_fault(struct keeper *keeper, struct client *client, const char *text)
{
    const struct scenario *file = keeper->scenario;
    struct cli_options options = *keeper->options;
    struct scenario_diagnostics wrong = {0};
    struct scenario *scenario = NULL;
    struct weft_text set = {NULL, 0, 0};

    if (options.n_sets == CLI_SETS_MAX) {
        refuse(client, "`weft lab up` had as many --set as there may be");
        return;
    }
    weft_text_add(&set, "faults=[%s]", text);
    options.sets[options.n_sets++].text = set.bytes;
    if (scenario_load_text(file->file, file->text, file->n_text, options.sets,
                           options.n_sets, &scenario, &wrong) != WEFT_OK) {
        refuse_fault(client, text, &wrong);
    } else {
        make_fault(keeper, client, scenario);
    }
    scenario_diagnostics_fini(&wrong);
    scenario_free(scenario);
    weft_text_fini(&set);
}

static void answer(struct keeper *keeper, struct client *client,
                   const struct lab_request *request)
{
    const char *bytes = client->received.bytes + sizeof(*request);
    struct words words = {bytes, bytes + request->n_words};
    const char *what = next_word(&words);

    if (strcmp(what, "exec") == 0) {
        do_exec(keeper, client, words, words.end, request->n_input);
    } else if (strcmp(what, "ls") == 0) {
        weft_ns now = backend_lab_now(keeper->lab);

        weft_text_add(&client->unsent,
                      "%s\t%s\t%u hosts\t%zu programs\tclock %s %lld.%03d s\n",
                      keeper->name, keeper->options->operands[1],
                      keeper->world->spec.n_hosts, n_running(keeper),
                      keeper->options->clock != NULL ? keeper->options->clock : "virtual",
                      (long long)(now / 1000000000), (int)(now / 1000000 % 1000));
        client->state = IS_OVER;
    } else if (strcmp(what, "fault") == 0) {
        do_fault(keeper, client, next_word(&words));
    } else if (strcmp(what, "clear") == 0) {
        await(client, backend_lab_clear(keeper->lab));
        lab_session_fault(&keeper->session, NULL, backend_lab_now(keeper->lab));
    } else if (strcmp(what, "diagnose") == 0) {
        await(client, backend_lab_look(keeper->lab));
        client->is_diagnosis = true;
    } else if (strcmp(what, "why") == 0 || strcmp(what, "now") == 0) {
        client->why_id = (uint32_t)strtoul(next_word(&words), NULL, 10);
        client->n_why = (uint32_t)strtoul(next_word(&words), NULL, 10);
        await(client, backend_lab_look(keeper->lab));
        client->is_diagnosis = client->asks_why = true;
    } else if (strcmp(what, "capture") == 0) {
        do_capture(keeper, client, next_word(&words));
    } else if (strcmp(what, "down") == 0) {
        go_down(keeper);
        client->state = WAITS;
    } else {
        refuse(client, "not a request: another version of weft?");
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
static void look_at_request(struct keeper *keeper, struct client *client)
{
    struct lab_request request;
    size_t n;

    if (keeper->lab == NULL || client->received.n < sizeof(request)) {
        return;
    }
    memcpy(&request, client->received.bytes, sizeof(request));
    n = sizeof(request) + request.n_words + request.n_input;
    if (request.n_words == 0 || request.n_words > LAB_REQUEST_MAX ||
        request.n_input > LAB_REQUEST_MAX ||
        (client->received.n >= n &&
         client->received.bytes[sizeof(request) + request.n_words - 1] != '\0')) {
        refuse(client, "not a request: another version of weft?");
    } else if (client->received.n >= n) {
        answer(keeper, client, &request);
        keep_rest(&client->received, n);
        look_at_messages(keeper, client);
    }
}

/* ---- clients ---- */

static void say(struct client *client)
{
    ssize_t n = client->unsent.n == 0 ? 0
                                      : backend_lab_send(client->fd, client->unsent.bytes,
                                                         client->unsent.n);

    if (n > 0) {
        memmove(client->unsent.bytes, client->unsent.bytes + n,
                client->unsent.n - (size_t)n);
        client->unsent.n -= (size_t)n;
    } else if (n < 0 && errno != EAGAIN && errno != EINTR) {
        client->unsent.n = 0;
    }
}

static void hear(struct keeper *keeper, struct client *client)
{
    char bytes[65536];
    ssize_t n = read(client->fd, bytes, sizeof(bytes));

    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        hang_up(keeper, client);
    } else if (n > 0 && client->state == RUNS) {
        weft_text_add_bytes(&client->received, bytes, (size_t)n);
        look_at_messages(keeper, client);
    } else if (n > 0 && client->state == ASKS) {
        weft_text_add_bytes(&client->received, bytes, (size_t)n);
    }
}

static void client_remove(struct keeper *keeper, size_t i)
{
    struct client *client = &keeper->clients[i];

    close(client->fd);
    for (uint32_t j = 0;
         client->has_files && keeper->lab != NULL && j < client->n_programs; j++) {
        backend_lab_forget(keeper->lab, client->id + j);
    }
    weft_text_fini(&client->received);
    weft_text_fini(&client->unsent);
    memmove(client, client + 1, (--keeper->n - i) * sizeof(*client));
}

static void let_in(struct keeper *keeper)
{
    int fd = backend_lab_accept(keeper->listen_fd);

    if (fd >= 0) {
        keeper->clients[keeper->n++] = (struct client){.fd = fd};
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
    (void)!chdir("/"); /* so that the working directory can be unmounted */
}

static size_t wants(void *context, struct pollfd *fds, size_t n_max)
{
    struct keeper *keeper = context;
    size_t n = 0;

    weft_check(n_max >= CLIENTS_MAX + 2);
    fds[n++] = (struct pollfd){.fd = keeper->ready_fd};
    fds[n++] = (struct pollfd){.fd = keeper->n < CLIENTS_MAX ? keeper->listen_fd : -1,
                               .events = POLLIN};
    for (size_t i = 0; i < keeper->n; i++) {
        const struct client *client = &keeper->clients[i];

        fds[n++] = (struct pollfd){
            .fd = client->has_hung_up ? -1 : client->fd,
            .events = (short)(POLLIN | (client->unsent.n > 0 ? POLLOUT : 0))};
    }
    return n;
}

static bool look(void *context, const struct pollfd *fds, size_t n)
{
    struct keeper *keeper = context;

    if (keeper->ready_fd >= 0 && (fds[0].revents & (POLLERR | POLLHUP)) != 0) {
        keeper->is_ending = true; /* the process that waited for the start has gone */
    }
    for (size_t i = n - 2; i-- > 0;) {
        struct client *client = &keeper->clients[i];

        if ((fds[i + 2].revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
            hear(keeper, client);
        }
        if (client->state == ASKS) {
            look_at_request(keeper, client);
        }
        say(client);
        if (client->state == IS_OVER && client->unsent.n == 0) {
            client_remove(keeper, i);
        }
    }
    if ((fds[1].revents & POLLIN) != 0) {
        let_in(keeper);
    }
    return !keeper->is_ending;
}

static json_t *document_of(const struct keeper *keeper, const struct client *client,
                           const struct weft_text *looks)
{
    const struct world_spec *spec = &keeper->world->spec;
    weft_ns now = backend_lab_now(keeper->lab);

    return client->asks_why
               ? lab_failure(spec, &keeper->session, client->why_id, client->n_why,
                             keeper->folder, now, looks->bytes, looks->n)
               : lab_diagnosis(spec, &keeper->session, keeper->folder, now, looks->bytes,
                               looks->n);
}

/* Answers with what the hosts looked like. */
static void answer_diagnosis(struct keeper *keeper, struct client *client, int problem)
{
    struct weft_text looks = {NULL, 0, 0};
    json_t *document = NULL;
    char *text = NULL;
    char path[PATH_MAX];

    weft_format(path, sizeof(path), "%s/out.%u", keeper->folder, client->id);
    problem = problem != 0 ? problem : weft_text_add_file(&looks, path, LAB_REQUEST_MAX);
    if (problem == 0) {
        document = document_of(keeper, client, &looks);
        text = document != NULL ? json_dumps(document, JSON_COMPACT) : NULL;
        problem = text != NULL ? 0 : EPROTO;
    }
    if (problem == 0) {
        weft_text_add(&client->unsent, "%s\n", text);
    } else {
        weft_text_add(&client->unsent, "error the hosts cannot be inspected: %s\n",
                      strerror(problem));
    }
    backend_lab_forget(keeper->lab, client->id);
    free(text);
    json_decref(document);
    weft_text_fini(&looks);
}

static void tell_end(struct keeper *keeper, struct client *client, uint32_t id, int code)
{
    if (client->has_signalled && client->signal_id == id) {
        client->has_signalled = false;
        weft_text_add(&client->unsent, "took\n");
    }
    if (id - client->id < client->n_programs) {
        if (client->is_diagnosis) {
            answer_diagnosis(keeper, client, code);
        } else {
            weft_text_add(&client->unsent, "ended %u %d\n", id, code);
        }
        client->n_left--;
    }
    if (client->n_left == 0 && client->has_files && !client->has_hung_up) {
        client->state = READS;
    } else if (client->n_left == 0) {
        client->state = IS_OVER;
        client->unsent.n = client->has_hung_up ? 0 : client->unsent.n;
    }
}

/* Ends the lab once the capture has ended, and reports its problem to the clients that asked for
 * the end. */
static void end_with_capture(struct keeper *keeper, int problem)
{
    for (size_t i = 0; i < keeper->n && problem != 0; i++) {
        if (keeper->clients[i].state == WAITS) {
            weft_text_add(&keeper->clients[i].unsent,
                          "error the capture is not whole: %s\n", strerror(problem));
        }
    }
    keeper->is_ending = true;
}

static void tell_failing(struct keeper *keeper)
{
    for (size_t i = 0; i < keeper->n; i++) {
        struct client *client = &keeper->clients[i];

        if (client->state == RUNS && client->has_files && !client->has_hung_up) {
            weft_text_add(&client->unsent, "failing\n");
        }
    }
}

static void ended(void *context, uint32_t id, int code)
{
    struct keeper *keeper = context;

    if (id == WORLD_LAB_FAILURE) {
        tell_failing(keeper);
        return;
    }
    lab_session_end(&keeper->session, id, code, backend_lab_now(keeper->lab),
                    keeper->folder);
    for (size_t i = 0; i < keeper->n; i++) {
        if (keeper->clients[i].state == RUNS) {
            tell_end(keeper, &keeper->clients[i], id, code);
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
        struct client *client = &keeper->clients[i];

        if (why != NULL && (client->state == RUNS || client->state == ASKS)) {
            weft_text_add(&client->unsent, "down %s\n", why);
        }
        say(client);
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
    problem = backend_lab_listen(folder, name, CLIENTS_MAX, &keeper->listen_fd);
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
        /* Remove them while this process still listens: afterwards the name is free for another
         * lab. */
        if (keeper->ready_fd < 0 ||
            keeper->is_ending) { /* otherwise the caller reads the log first */
            lab_remove(folder, name);
        }
        close(keeper->listen_fd);
    }
    if (keeper->ready_fd >= 0) {
        close(keeper->ready_fd);
    }
    /* Leave the connections to the end of the process, so that nothing is left when `weft lab down`
     * returns. */
    for (size_t i = 0; i < keeper->n; i++) {
        weft_text_fini(&keeper->clients[i].received);
        weft_text_fini(&keeper->clients[i].unsent);
    }
    lab_session_fini(&keeper->session);
    free(keeper->folder);
    free(keeper);
    return status == WEFT_OK ? CLI_OK : CLI_ENVIRONMENT;
}
