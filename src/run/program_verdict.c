#include "run/program_verdict.h"

#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"

#define LAST_LINE_BYTES_MAX 120
/* POSIX, Shell Command Language, "Exit Status for Commands". */
#define CANNOT_BE_RUN 126
#define NO_SUCH_PROGRAM 127

/* ---- output ---- */

/* Returns the start of the first line that begins at or after `at`. */
static size_t line_from(const struct weft_text *text, size_t at)
{
    while (at > 0 && at < text->n && text->bytes[at - 1] != '\n') {
        at++;
    }
    return at < text->n ? at : text->n;
}

size_t program_output_shorten(struct weft_text *output, size_t n, size_t head, size_t max)
{
    size_t from, to, least;

    if (output->n + n <= max) {
        return 0;
    }
    from = line_from(output, head);
    least =
        output->n + n - max > (max - head) / 2 ? output->n + n - max : (max - head) / 2;
    to = line_from(output, from + least);
    memmove(output->bytes + from, output->bytes + to, output->n - to);
    output->n -= to - from;
    output->bytes[output->n] = '\0';
    return to - from;
}

/* ---- end ---- */

enum program_how program_how(const struct program_facts *facts)
{
    if (!facts->has_begun) {
        return PROGRAM_NOT_BEGUN;
    }
    if (!facts->has_ended || facts->end == WORLD_PROGRAM_LATE) {
        return PROGRAM_HANGS;
    }
    if (facts->end == WORLD_PROGRAM_KILLED) {
        return PROGRAM_KILLED;
    }
    if (facts->end == WORLD_PROGRAM_SIGNAL) {
        return PROGRAM_SIGNALLED;
    }
    return facts->code == CANNOT_BE_RUN || facts->code == NO_SUCH_PROGRAM
               ? PROGRAM_NOT_RUN
               : PROGRAM_EXITED;
}

void program_stop(struct program_facts *facts, uint32_t n, uint32_t host, bool is_over,
                  weft_ns now)
{
    for (uint32_t i = 0; i < n; i++) {
        if (facts[i].host == host && facts[i].has_begun && !facts[i].has_ended) {
            facts[i].is_stopped = !is_over;
            facts[i].stopped_ns = now;
        }
    }
}

void program_kill(struct program_facts *facts, uint32_t n, uint32_t host, weft_ns now)
{
    for (uint32_t i = 0; i < n; i++) {
        if (facts[i].host == host && facts[i].has_begun && !facts[i].has_ended) {
            facts[i].killed_ns = now;
        }
    }
}

int program_status(const struct program_facts *facts)
{
    enum program_how how = program_how(facts);
    bool is_signal = how == PROGRAM_SIGNALLED || how == PROGRAM_KILLED;

    return is_signal ? 128 + facts->code : facts->code;
}

static bool is_late(const struct program_facts *facts)
{
    enum program_how how = program_how(facts);

    return how == PROGRAM_NOT_BEGUN || how == PROGRAM_HANGS;
}

/* ---- text ---- */

/* Adds the last line that the program wrote. */
static void add_last_line(const struct program_facts *facts, struct weft_text *out)
{
    const char *bytes = facts->output.bytes;
    size_t end = facts->output.n;
    size_t from;

    if (end == 0) {
        weft_text_add(out, ", it wrote nothing");
        return;
    }
    end--;
    for (from = end; from > 0 && bytes[from - 1] != '\n'; from--) {
        continue;
    }
    weft_text_add(out, ", its last line is '%.*s'",
                  (int)weft_text_cut(bytes + from, end - from, LAST_LINE_BYTES_MAX),
                  bytes + from);
}

static void add_end(const struct program_facts *facts, struct weft_text *out)
{
    char time[32];

    weft_format_time(facts->ended_ns - facts->began_ns, time, sizeof(time));
    switch (program_how(facts)) {
    case PROGRAM_NOT_BEGUN:
        weft_text_add(out, "it was not started");
        break;
    case PROGRAM_KILLED:
        weft_text_add(out, "killed by a fault after %s", time);
        break;
    case PROGRAM_HANGS:
        if (facts->has_ended) {
            weft_text_add(out, "hangs: it still ran after %s, and was ended", time);
        } else {
            weft_text_add(out, "it did not end");
        }
        break;
    case PROGRAM_SIGNALLED:
        weft_text_add(out, "signal %d", facts->code);
        break;
    case PROGRAM_NOT_RUN:
    case PROGRAM_EXITED:
    default:
        weft_text_add(out, "status %d", facts->code);
        break;
    }
}

static void add_wanted(const struct scenario_end_status *want, struct weft_text *out)
{
    if (want == NULL || want->kind == SCENARIO_END_STATUS) {
        weft_text_add(out, "status %d", want != NULL ? want->status : 0);
    } else {
        weft_text_add(out, "%s",
                      want->kind == SCENARIO_END_ANY      ? "any end"
                      : want->kind == SCENARIO_END_KILLED ? "killed by a fault"
                                                          : "hangs");
    }
}

/* ---- judging ---- */

/* Returns what `expect` says about the host, otherwise what it says about all others; NULL if
 * nothing. */
static const struct scenario_end_status *wanted(const struct scenario_exec *exec,
                                                uint32_t host)
{
    const struct scenario_end_status *found = NULL;

    for (uint32_t i = 0; i < exec->n_statuses; i++) {
        if (exec->statuses[i].host == host ||
            (found == NULL && exec->statuses[i].host == SCENARIO_OTHERS)) {
            found = &exec->statuses[i];
        }
    }
    return found;
}

static bool ended_so(const struct program_facts *facts,
                     const struct scenario_end_status *want)
{
    enum program_how how = program_how(facts);
    bool is_status = !is_late(facts);

    if (want == NULL) {
        return how == PROGRAM_KILLED || (is_status && program_status(facts) == 0);
    }
    switch (want->kind) {
    case SCENARIO_END_ANY:
        return how != PROGRAM_NOT_BEGUN;
    case SCENARIO_END_KILLED:
        return how == PROGRAM_KILLED;
    case SCENARIO_END_HANGS:
        return how == PROGRAM_HANGS;
    case SCENARIO_END_STATUS:
    default:
        return is_status && program_status(facts) == want->status;
    }
}

static struct program_verdict *add(struct program_verdicts *verdicts, uint32_t program,
                                   bool ok)
{
    struct program_verdict *verdict;

    verdicts->items =
        weft_realloc(verdicts->items, (verdicts->n + 1) * sizeof(*verdicts->items));
    verdict = &verdicts->items[verdicts->n++];
    *verdict = (struct program_verdict){.program = program, .ok = ok};
    return verdict;
}

static void judge_end(const struct scenario_exec *exec, const struct program_facts *facts,
                      uint32_t program, struct program_verdicts *out)
{
    const struct scenario_end_status *want = wanted(exec, facts->host);
    bool ok = ended_so(facts, want);
    struct program_verdict *verdict = add(out, program, ok);

    if (ok && want != NULL && want->kind == SCENARIO_END_ANY) {
        weft_text_add(&verdict->got, "any end: ");
    }
    add_end(facts, &verdict->got);
    if (!ok && facts->has_begun) {
        add_last_line(facts, &verdict->got);
    }
    add_wanted(want, &verdict->expected);
}

static bool matches(const char *pattern, const char *text)
{
    regex_t compiled;
    bool is = false;

    if (regcomp(&compiled, pattern, REG_EXTENDED | REG_NEWLINE | REG_NOSUB) == 0) {
        is = regexec(&compiled, text, 0, NULL, 0) == 0;
        regfree(&compiled);
    }
    return is;
}

static void judge_output(const struct scenario_exec *exec,
                         const struct program_facts *facts, uint32_t program,
                         struct program_verdicts *out)
{
    for (uint32_t i = 0; i < exec->n_outputs; i++) {
        const struct scenario_output *output = &exec->outputs[i];
        struct program_verdict *verdict;

        if (output->host != SCENARIO_OTHERS && output->host != facts->host) {
            continue;
        }
        verdict = add(out, program, matches(output->pattern, facts->output.bytes));
        weft_text_add(&verdict->expected, "output %s", output->pattern);
        if (verdict->ok) {
            weft_text_add(&verdict->got, "output %s", output->pattern);
        } else {
            weft_text_add(&verdict->got, "no such line");
            add_last_line(facts, &verdict->got);
        }
    }
}

/* Returns false for a program that is expected to hang and does. */
static bool is_awaited(const struct scenario_exec *exec,
                       const struct program_facts *facts)
{
    const struct scenario_end_status *want = wanted(exec, facts->host);

    return want == NULL || want->kind != SCENARIO_END_HANGS || !is_late(facts);
}

static void judge_within(const struct scenario_exec *exec,
                         const struct program_facts *facts, uint32_t n, weft_ns began_ns,
                         struct program_verdicts *out)
{
    struct program_verdict *verdict = add(out, PROGRAM_ALL, true);
    struct weft_text late = {NULL, 0, 0};
    bool is_any_awaited = false;
    weft_ns last = began_ns;
    char limit[32];
    char time[32];

    for (uint32_t i = 0; i < n; i++) {
        if (!is_awaited(exec, &facts[i])) {
            continue;
        }
        is_any_awaited = true;
        if (is_late(&facts[i])) {
            weft_text_add(&late, "%s%s", late.n > 0 ? ", " : "", facts[i].host_name);
        } else if (facts[i].ended_ns > last) {
            last = facts[i].ended_ns;
        }
    }
    weft_format_time(exec->within_ns, limit, sizeof(limit));
    weft_format_time(last - began_ns, time, sizeof(time));
    weft_text_add(&verdict->expected, "within %s", limit);
    verdict->ok = late.n == 0;
    if (late.n > 0) {
        weft_text_add(&verdict->got, "not over: %s", late.bytes);
    } else {
        weft_text_add(&verdict->got, "within %s: %s", limit,
                      is_any_awaited ? time : "all are to hang");
    }
    weft_text_fini(&late);
}

void program_verdicts_make(const struct scenario_exec *exec,
                           const struct program_facts *facts, uint32_t n,
                           weft_ns began_ns, struct program_verdicts *out)
{
    *out = (struct program_verdicts){NULL, 0};
    for (uint32_t i = 0; i < n; i++) {
        judge_end(exec, &facts[i], i, out);
        judge_output(exec, &facts[i], i, out);
    }
    if (exec->has_within) {
        judge_within(exec, facts, n, began_ns, out);
    }
}

void program_verdicts_fini(struct program_verdicts *verdicts)
{
    for (uint32_t i = 0; i < verdicts->n; i++) {
        weft_text_fini(&verdicts->items[i].expected);
        weft_text_fini(&verdicts->items[i].got);
    }
    free(verdicts->items);
    *verdicts = (struct program_verdicts){NULL, 0};
}
