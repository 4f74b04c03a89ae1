/* weft lab diagnose: causes that the hosts of a lab show, and why its programs failed or wait. */
#define _GNU_SOURCE
#include "cli/lab_diagnose.h"

#include <ctype.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/registry.h"
#include "base/check.h"
#include "cli/doctor.h"
#include "cli/failed.h"
#include "cli/lab.h"
#include "run/program_causes.h"
#include "run/program_queues.h"

#define ENDED_MAX                                                                        \
    64u /* programs that are kept after their end, because others still run */

/* A program that has sent nothing for this long since it began waits. */
#define STARTS_NS INT64_C(2000000000)

/* ---- programs ---- */

static bool runs(const struct lab_session *session)
{
    for (uint32_t i = 0; i < session->n; i++) {
        if (!session->facts[i].has_ended) {
            return true;
        }
    }
    return false;
}

void lab_session_fini(struct lab_session *session)
{
    for (uint32_t i = 0; i < session->n; i++) {
        weft_text_fini(&session->facts[i].output);
        weft_text_fini(&session->commands[i]);
    }
    free(session->facts);
    free(session->commands);
    free(session->ids);
    *session = (struct lab_session){.n = 0};
}

/* Removes the oldest program that has ended, if too many have. */
static void forget_ended(struct lab_session *session)
{
    uint32_t n_ended = 0, first = session->n;
    size_t n;

    for (uint32_t i = session->n; i-- > 0;) {
        n_ended += session->facts[i].has_ended;
        first = session->facts[i].has_ended ? i : first;
    }
    if (n_ended < ENDED_MAX) {
        return;
    }
    weft_text_fini(&session->facts[first].output);
    weft_text_fini(&session->commands[first]);
    n = --session->n - first;
    memmove(&session->facts[first], &session->facts[first + 1],
            n * sizeof(*session->facts));
    memmove(&session->commands[first], &session->commands[first + 1],
            n * sizeof(*session->commands));
    memmove(&session->ids[first], &session->ids[first + 1], n * sizeof(*session->ids));
}

void lab_session_add(struct lab_session *session, const struct world_host *host,
                     uint32_t index, uint32_t id, char *const *argv, weft_ns begins_ns)
{
    struct weft_text command = {NULL, 0, 0};
    uint32_t i;

    if (!runs(session)) {
        lab_session_fini(session);
    }
    forget_ended(session);
    i = session->n++;
    session->facts = weft_realloc(session->facts, session->n * sizeof(*session->facts));
    session->commands =
        weft_realloc(session->commands, session->n * sizeof(*session->commands));
    session->ids = weft_realloc(session->ids, session->n * sizeof(*session->ids));
    session->facts[i] = (struct program_facts){.host = index,
                                               .id = id,
                                               .host_name = host->name,
                                               .has_begun = true,
                                               .began_ns = begins_ns};
    for (size_t k = 0; argv[k] != NULL; k++) {
        weft_text_add(&command, "%s%s", k > 0 ? " " : "", argv[k]);
    }
    session->commands[i] = command;
    session->ids[i] = id;
}

/* Appends the beginning and the end of a stream. */
static void add_stream(const char *folder, const char *name, uint32_t id,
                       struct weft_text *out)
{
    char path[LAB_PATH_MAX * 2];
    int fd;

    weft_format(path, sizeof(path), "%s/%s.%u", folder, name, id);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    failed_add_output(fd, 0, out);
    if (fd >= 0) {
        close(fd);
    }
}

static void add_output(const char *folder, uint32_t id, struct weft_text *out)
{
    add_stream(folder, "out", id, out);
    add_stream(folder, "err", id, out);
    weft_text_add(out, "%s", "");
}

void lab_session_end(struct lab_session *session, uint32_t id, int code, weft_ns now,
                     const char *folder)
{
    for (uint32_t i = 0; i < session->n; i++) {
        struct program_facts *facts = &session->facts[i];
        bool is_signal = code > 128 && code < 128 + NSIG;

        if (session->ids[i] != id || facts->has_ended) {
            continue;
        }
        facts->has_ended = true;
        facts->ended_ns = now;
        facts->code = is_signal ? code - 128 : code;
        facts->end = !is_signal ? WORLD_PROGRAM_EXITED
                     : facts->killed_ns != 0 && facts->code == SIGKILL
                         ? WORLD_PROGRAM_KILLED
                         : WORLD_PROGRAM_SIGNAL;
        add_output(folder, id, &facts->output);
    }
}

void lab_session_fault(struct lab_session *session, const struct world_fault *fault,
                       weft_ns now)
{
    if (fault == NULL) {
        for (uint32_t i = 0; i < session->n; i++) {
            program_stop(session->facts, session->n, session->facts[i].host, true, now);
        }
    } else if (fault->kind == WORLD_FAULT_STOP && fault->for_ns == 0) {
        program_stop(session->facts, session->n, fault->host, false, now);
    } else if (fault->kind == WORLD_FAULT_KILL) {
        program_kill(session->facts, session->n, fault->host, now);
    }
}

/* ---- looks ---- */

/* Reads the lines of all hosts and of what is outside, or (`is_outside`) only that. Returns what
 * follows; NULL if there are fewer lines. */
static const char *take_looks(const struct world_spec *spec, bool is_outside,
                              const char *at, const char *end, struct program_look *out)
{
    for (uint32_t i = is_outside ? spec->n_hosts : 0; at != NULL && i <= spec->n_hosts;
         i++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t n = newline != NULL ? (size_t)(newline - at) : 0;

        if (newline != NULL && i < spec->n_hosts) {
            program_look_decode(spec, i, backend_program_device, at, n, &out[i]);
        } else if (newline != NULL) {
            program_look_count(spec, at, n, out);
        }
        at = newline != NULL ? newline + 1 : NULL;
    }
    return at;
}

/* Three inspections of all hosts [n_hosts]. */
struct looks {
    /* `now` has only counters, shortly before `after`. */
    struct program_look *before, *now, *after;
};

/* Makes ports for the counters of `looks->now`, which has no others. */
static void copy_ports(const struct world_spec *spec, struct looks *looks)
{
    for (uint32_t i = 0; i < spec->n_hosts; i++) {
        const struct diag_host *from = &looks->before[i].host;
        struct diag_host *to = &looks->now[i].host;

        to->ports = weft_calloc((size_t)from->n_ports + 1, sizeof(*to->ports));
        to->n_ports = from->n_ports;
        for (uint32_t k = 0; k < from->n_ports; k++) {
            to->ports[k] = from->ports[k];
        }
    }
}

static bool looks_read(const struct world_spec *spec, const char *bytes, size_t n,
                       struct looks *out)
{
    const char *end = bytes + n;

    out->before = weft_calloc((size_t)spec->n_hosts + 1, sizeof(*out->before));
    out->now = weft_calloc((size_t)spec->n_hosts + 1, sizeof(*out->now));
    out->after = weft_calloc((size_t)spec->n_hosts + 1, sizeof(*out->after));
    bytes = take_looks(spec, false, bytes, end, out->before);
    copy_ports(spec, out);
    bytes = bytes != NULL ? take_looks(spec, true, bytes, end, out->now) : NULL;
    bytes = bytes != NULL ? take_looks(spec, false, bytes, end, out->after) : NULL;
    return bytes != NULL && bytes == end;
}

static void looks_fini(const struct world_spec *spec, struct looks *looks)
{
    for (uint32_t i = 0; i < spec->n_hosts; i++) {
        program_look_fini(&looks->before[i]);
        program_look_fini(&looks->now[i]);
        program_look_fini(&looks->after[i]);
    }
    free(looks->before);
    free(looks->now);
    free(looks->after);
}

/* Returns how much a counter of a host grew between two looks. */
static int64_t grown_between(const struct diag_host *from, const struct diag_host *to,
                             enum diag_counter counter)
{
    int64_t n = 0;

    for (uint32_t i = 0; i < from->n_ports; i++) {
        for (uint32_t k = 0; k < to->n_ports; k++) {
            int64_t a = from->ports[i].counters[counter];
            int64_t b = to->ports[k].counters[counter];

            if (strcmp(from->ports[i].name, to->ports[k].name) == 0 && a != IO_UNKNOWN &&
                b != IO_UNKNOWN) {
                n += b - a;
            }
        }
    }
    return n;
}

/* Returns how much a counter of the host grew between the last two looks. */
static int64_t grown(const struct looks *looks, uint32_t host, enum diag_counter counter)
{
    return grown_between(&looks->now[host].host, &looks->after[host].host, counter);
}

/* Returns true if the program began a short while ago, and its host has sent nothing since programs
 * began: it may not have come to its first packet. */
static bool starts(const struct looks *looks, const struct program_facts *facts,
                   weft_ns now)
{
    const struct diag_host *before = &looks->before[facts->host].host;
    const struct diag_host *after = &looks->after[facts->host].host;

    return !facts->has_ended && now - facts->began_ns < STARTS_NS &&
           grown_between(before, after, DIAG_TX_PACKETS) == 0;
}

/* Returns true if the host received packets between the last two looks and neither repeated any nor
 * made its peer do so. */
static bool has_progress(const struct looks *looks, uint32_t host)
{
    return grown(looks, host, DIAG_RX_PACKETS) > 0 &&
           grown(looks, host, DIAG_RETRANSMITS) == 0 &&
           grown(looks, host, DIAG_RNR_NAKS_SENT) == 0 &&
           grown(looks, host, DIAG_OUT_OF_SEQUENCE) == 0;
}

/* ---- findings ---- */

static bool is_of_cable(const struct diag_input *input, const char *host,
                        const char *port)
{
    for (uint32_t i = 0; i < input->n_cables; i++) {
        const struct diag_cable *cable = &input->cables[i];

        if ((strcmp(cable->from, host) == 0 && strcmp(cable->from_port, port) == 0) ||
            (strcmp(cable->to, host) == 0 && strcmp(cable->to_port, port) == 0)) {
            return true;
        }
    }
    return false;
}

/* Returns true if an earlier finding has the same cause and place, or names more of it. */
static bool is_repeated(const struct diag_findings *findings, uint32_t index)
{
    const struct diag_finding *it = &findings->items[index];

    for (uint32_t i = 0; i < findings->n; i++) {
        const struct diag_finding *other = &findings->items[i];

        if (i != index && other->entry == it->entry &&
            strcmp(other->host, it->host) == 0 && strcmp(other->port, it->port) == 0 &&
            (it->peer[0] == '\0' ? other->peer[0] != '\0' || i < index
                                 : strcmp(other->peer, it->peer) == 0 && i < index)) {
            return true;
        }
    }
    return false;
}

/* Returns true if a finding says nothing: only that a program which did not fail waits. */
static bool is_empty(const struct diag_finding *finding, bool any_failed)
{
    return finding->entry->id == DIAG_UNDETERMINED && !any_failed;
}

/* Removes what says nothing new. A port with a cable has to have a carrier. */
static void weigh(struct examination *all, bool any_failed)
{
    struct diag_findings *findings = &all->findings;

    for (uint32_t i = 0; i < findings->n; i++) {
        struct diag_finding *finding = &findings->items[i];

        if (finding->entry->id == DIAG_LINK_DOWN &&
            is_of_cable(&all->input, finding->host, finding->port)) {
            finding->severity = DIAG_ERROR;
        }
    }
    for (uint32_t i = 0; i < findings->n;) {
        if (is_repeated(findings, i) || is_empty(&findings->items[i], any_failed)) {
            memmove(&findings->items[i], &findings->items[i + 1],
                    (--findings->n - i) * sizeof(*findings->items));
        } else {
            i++;
        }
    }
    diag_sort(findings);
}

/* Returns the lines about the queue pairs of a program. */
static json_t *queue_pairs_of(const struct program_causes *causes,
                              const struct program_facts *facts)
{
    struct weft_text text = {NULL, 0, 0};
    json_t *lines = json_array();

    program_queues_list(causes, facts->host, facts->id, &text);
    for (const char *line = text.bytes; line != NULL && *line != '\0';) {
        const char *end = strchr(line, '\n');

        json_array_append_new(lines, json_stringn(line, (size_t)(end - line)));
        line = end + 1;
    }
    weft_text_fini(&text);
    return lines;
}

/* Returns what is known of one program, for the document. */
static json_t *program_of(const struct program_facts *facts, const char *command,
                          const char *state)
{
    enum program_how how = program_how(facts);
    bool is_signal = how == PROGRAM_SIGNALLED || how == PROGRAM_KILLED;

    return json_pack("{s:s, s:o, s:s, s:o, s:o}", "host", facts->host_name, "command",
                     cli_json_text(command), "state",
                     !facts->has_ended       ? state
                     : how == PROGRAM_KILLED ? "killed"
                     : is_signal             ? "signal"
                                             : "exited",
                     "status",
                     facts->has_ended ? json_integer(program_status(facts)) : json_null(),
                     "began_ns", json_integer(facts->began_ns));
}

/* The facts of a diagnosis: of programs that ended, and of those that wait as if their time was
 * over now. Programs that make progress are left out. With `is_now` all that run end now. */
struct judged {
    struct program_facts *facts; /* Owned [n], and their output */
    const char **commands;       /* Owned [n] */
    uint32_t n;
    bool any_failed;
    json_t *programs; /* Owned by the document */
};

static void judge(const struct world_spec *spec, const struct lab_session *session,
                  const struct looks *looks, bool is_now, const char *folder, weft_ns now,
                  struct judged *out)
{
    const struct program_causes all = {.spec = spec,
                                       .device = backend_program_device,
                                       .facts = session->facts,
                                       .n = session->n,
                                       .after = looks->after};

    *out = (struct judged){
        .facts = weft_calloc((size_t)session->n + 1, sizeof(*out->facts)),
        .commands = weft_calloc((size_t)session->n + 1, sizeof(*out->commands)),
        .programs = json_array()};
    for (uint32_t i = 0; i < session->n; i++) {
        const struct program_facts *facts = &session->facts[i];
        struct program_facts *copy = &out->facts[out->n];
        bool is_new = starts(looks, facts, now);
        bool waits = !facts->has_ended && !is_new && !has_progress(looks, facts->host);
        json_t *program;

        program = program_of(facts, session->commands[i].bytes,
                             is_new  ? "starts"
                             : waits ? "waits"
                                     : "runs");
        if (waits) {
            json_object_set_new(program, "queue_pairs", queue_pairs_of(&all, facts));
        }
        json_array_append_new(out->programs, program);
        if (!facts->has_ended && !waits && !is_now) {
            continue;
        }
        *copy = *facts;
        copy->output = (struct weft_text){NULL, 0, 0};
        if (facts->has_ended) {
            weft_text_add_bytes(&copy->output, facts->output.bytes, facts->output.n);
            weft_text_add(&copy->output, "%s", "");
        } else if (is_now) {
            program_end_now(copy, &looks->after[copy->host], now);
            add_output(folder, session->ids[i], &copy->output);
        } else {
            copy->has_ended = true;
            copy->end = WORLD_PROGRAM_LATE;
            copy->ended_ns = now;
            add_output(folder, session->ids[i], &copy->output);
        }
        out->any_failed = out->any_failed ||
                          (facts->has_ended && program_how(facts) != PROGRAM_KILLED &&
                           program_status(facts) != 0);
        out->commands[out->n++] = session->commands[i].bytes;
    }
}

static struct program_causes causes_of(const struct world_spec *spec,
                                       const struct looks *looks,
                                       const struct judged *judged)
{
    return (struct program_causes){.spec = spec,
                                   .device = backend_program_device,
                                   .facts = judged->facts,
                                   .commands = judged->commands,
                                   .n = judged->n,
                                   .before = looks->before,
                                   .after = looks->after};
}

static void judged_fini(struct judged *judged)
{
    for (uint32_t i = 0; i < judged->n; i++) {
        weft_text_fini(&judged->facts[i].output);
    }
    free(judged->facts);
    free(judged->commands);
}

json_t *lab_diagnosis(const struct world_spec *spec, const struct lab_session *session,
                      const char *folder, weft_ns now, const char *bytes, size_t n)
{
    struct looks looks;
    json_t *document = NULL;

    if (looks_read(spec, bytes, n, &looks)) {
        struct examination *all = doctor_begin();
        struct judged judged;
        struct program_causes causes;

        judge(spec, session, &looks, false, folder, now, &judged);
        causes = causes_of(spec, &looks, &judged);
        program_causes_observe(&causes, &all->input);
        for (uint32_t i = 0; i < spec->n_hosts; i++) {
            /* Programs in a guest are root, for whom no limit on locked memory holds. */
            all->input.hosts[i].memlock_bytes = IO_UNKNOWN;
            if (looks.after[i].is_seen && all->input.hosts[i].was_observed) {
                doctor_check_host(&spec->hosts[i], i, all);
            }
        }
        doctor_compare_ends(all);
        weigh(all, judged.any_failed);
        document = doctor_document(all);
        json_object_set_new(document, "programs", judged.programs);
        judged_fini(&judged);
        doctor_end(all);
    }
    looks_fini(spec, &looks);
    return document;
}

static bool has_program(const struct lab_session *session, uint32_t id)
{
    bool has = false;

    for (uint32_t i = 0; i < session->n; i++) {
        has = has || session->ids[i] == id;
    }
    return has;
}

/* Returns true if one of the `n` programs from `id` on has failed. */
static bool any_has_failed(const struct judged *judged, uint32_t id, uint32_t n)
{
    bool any = false;

    for (uint32_t i = 0; i < judged->n; i++) {
        const struct program_facts *facts = &judged->facts[i];

        any = any ||
              (facts->id >= id && facts->id - id < n && program_causes_any(facts, 1));
    }
    return any;
}

json_t *lab_failure(const struct world_spec *spec, const struct lab_session *session,
                    uint32_t id, uint32_t n_now, const char *folder, weft_ns now,
                    const char *bytes, size_t n)
{
    struct looks looks;
    json_t *document = NULL;

    if (!has_program(session, id)) {
        return json_pack("{s:[]}", "findings");
    }
    if (looks_read(spec, bytes, n, &looks)) {
        struct program_causes causes;
        struct judged judged;

        judge(spec, session, &looks, n_now != 0, folder, now, &judged);
        causes = causes_of(spec, &looks, &judged);
        document = n_now == 0 || any_has_failed(&judged, id, n_now)
                       ? failed_findings(&causes)
                       : json_pack("{s:[]}", "findings");
        json_decref(judged.programs);
        judged_fini(&judged);
    }
    looks_fini(spec, &looks);
    return document;
}

/* ---- asking ---- */

static void list_programs(const json_t *document, struct weft_text *out)
{
    size_t i, k;
    json_t *program, *line;

    json_array_foreach(json_object_get(document, "programs"), i, program)
    {
        const char *command = json_string_value(json_object_get(program, "command"));
        const char *state = json_string_value(json_object_get(program, "state"));
        const json_t *status = json_object_get(program, "status");

        weft_text_add(out, "%s  ", json_string_value(json_object_get(program, "host")));
        for (; *command != '\0'; command++) { /* a script can have many lines */
            weft_text_add_bytes(out, iscntrl((unsigned char)*command) ? " " : command, 1);
        }
        weft_text_add(out, ": %s", state);
        if (json_is_integer(status)) {
            weft_text_add(out, ", status %lld", json_integer_value(status));
        }
        weft_text_add(out, "\n");
        json_array_foreach(json_object_get(program, "queue_pairs"), k, line)
        {
            weft_text_add(out, "%s\n", json_string_value(line));
        }
    }
}

/* Prints the document as `weft doctor` does. Returns an exit status. */
static int tell(const struct cli_options *options, const json_t *document)
{
    struct examination *all = doctor_begin();
    struct weft_text text = {NULL, 0, 0};
    struct weft_error error = {0};
    int code = CLI_ENVIRONMENT;

    if (diag_observations_decode(document, &all->input, &error) != WEFT_OK) {
        fprintf(stderr, "weft lab diagnose: %s: another version of weft?\n",
                error.message);
    } else {
        list_programs(document, &text);
        code = doctor_verdict(document);
        if ((options->json == NULL && !options->quiet && text.n > 0 &&
             !cli_print(text.bytes, text.n)) ||
            !doctor_tell(options, all, document)) {
            code = CLI_USAGE;
        }
    }
    weft_text_fini(&text);
    doctor_end(all);
    return code;
}

int lab_diagnose(const struct cli_options *options)
{
    struct weft_text text = {NULL, 0, 0};
    json_error_t syntax;
    json_t *document;
    int fd = lab_find(options->name);
    int code = CLI_ENVIRONMENT;

    if (fd < 0) {
        return CLI_USAGE;
    }
    lab_ask_words(fd, "diagnose", NULL, true, &text);
    close(fd);
    document = json_loadb(text.bytes, text.n, JSON_DISABLE_EOF_CHECK, &syntax);
    if (document != NULL) {
        code = tell(options, document);
    } else if (strncmp(text.bytes, "error ", 6) == 0) {
        fprintf(stderr, "weft lab diagnose: %s", text.bytes + 6);
    } else {
        fprintf(stderr, "weft lab diagnose: the lab went down%s%s\n",
                strncmp(text.bytes, "down ", 5) == 0 ? ": " : " meanwhile",
                strncmp(text.bytes, "down ", 5) == 0 ? text.bytes + 5 : "");
    }
    json_decref(document);
    weft_text_fini(&text);
    return code;
}

bool lab_tell_answer(const struct cli_options *options, const struct weft_text *answer)
{
    json_error_t syntax;
    json_t *document = json_loadb(answer->bytes != NULL ? answer->bytes : "", answer->n,
                                  JSON_DISABLE_EOF_CHECK, &syntax);
    bool any = json_array_size(json_object_get(document, "findings")) > 0;

    if (any) {
        failed_tell(options, document);
    }
    json_decref(document);
    return any;
}

void lab_tell_failure(const struct cli_options *options, unsigned long id)
{
    struct weft_text text = {NULL, 0, 0};
    char word[32];
    int fd = lab_find(options->name);

    if (fd < 0) {
        return;
    }
    weft_format(word, sizeof(word), "%lu", id);
    lab_ask_words(fd, "why", word, true, &text);
    close(fd);
    (void)lab_tell_answer(options, &text);
    weft_text_fini(&text);
}

int lab_ask_failure(const struct cli_options *options, unsigned long id, size_t n)
{
    const struct weft_text none = {NULL, 0, 0};
    struct weft_text words = {NULL, 0, 0};
    char word[32];
    int fd = lab_find(options->name);

    lab_add_word(&words, "now");
    weft_format(word, sizeof(word), "%lu", id);
    lab_add_word(&words, word);
    weft_format(word, sizeof(word), "%zu", n);
    lab_add_word(&words, word);
    if (fd >= 0 && !lab_ask(fd, &words, &none)) {
        close(fd);
        fd = -1;
    }
    weft_text_fini(&words);
    return fd;
}
