#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/units.h"
#include "run/private.h"

void run_say(struct run *run, bool ok, struct weft_text *got, const char *format, ...)
{
    char expect[512]; /* a pattern has up to 256 bytes, a host's name 64 */
    va_list args;

    va_start(args, format);
    vsnprintf(expect, sizeof(expect), format, args);
    va_end(args);
    expect[weft_text_cut(expect, strlen(expect), sizeof(expect) - 2)] = '\0';
    json_array_append_new(run->expectations,
                          json_pack("{s:s, s:s, s:b}", "expect", expect, "got",
                                    got->bytes != NULL ? got->bytes : "", "ok", ok));
    run->as_expected = run->as_expected && ok;
    weft_text_fini(got);
}

/* ---- result, symptom ---- */

static void judge_result(struct run *run)
{
    bool must_fail = run->scenario->expect.must_fail;
    const struct host *host = run_first_failure(run);
    struct weft_text got = {NULL, 0, 0};
    char text[256];

    weft_text_add(&got, "%s", run->has_failed ? "fail" : "pass");
    if (run->loop_status < 0) {
        weft_error_format(&run->loop_error, text, sizeof(text));
        weft_text_add(&got, ": %s", text);
    } else if (host != NULL) {
        weft_error_format(&host->error, text, sizeof(text));
        weft_text_add(&got, ": %s: %s", host->env->name, text);
    }
    run_say(run, run->scenario->expect.may_fail || must_fail == run->has_failed, &got,
            "result: %s",
            run->scenario->expect.may_fail ? "any"
            : must_fail                    ? "fail"
                                           : "pass");
}

/* Returns the errno that a user sees in the text of `error`: its own, or the one that the peer
 * reported. Either end of a connection that failed may be the first to end the job. */
static int seen_errno(const struct weft_error *error)
{
    const struct weft_value *of_peer = weft_error_value(error, WEFT_VALUE_PEER_ERRNO);

    return error->sys_errno == 0 && of_peer != NULL ? (int)of_peer->number
                                                    : error->sys_errno;
}

static void judge_symptom(struct run *run)
{
    const struct scenario_expect *expect = &run->scenario->expect;
    const struct host *host = run_first_failure(run);
    int sys_errno = host != NULL ? seen_errno(&host->error) : 0;
    int wc_status = host != NULL ? host->error.wc_status : 0;
    struct weft_text got = {NULL, 0, 0};

    if (!expect->has_errno && !expect->has_wc_status) {
        return;
    }
    if (sys_errno != 0) {
        weft_text_add(&got, "errno %d", sys_errno);
    } else if (wc_status != 0) {
        weft_text_add(&got, "wc_status %d", wc_status);
    } else {
        weft_text_add(&got, "none");
    }
    if (expect->has_errno) {
        run_say(run, sys_errno == expect->sys_errno, &got, "symptom: errno %d",
                expect->sys_errno);
    } else {
        run_say(run, wc_status == expect->wc_status, &got, "symptom: wc_status %d",
                expect->wc_status);
    }
}

/* ---- findings ---- */

static bool is_expected(const struct scenario_expect *expect, const char *code)
{
    for (uint32_t i = 0; i < expect->n_findings; i++) {
        if (strcmp(expect->findings[i].code, code) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_found(const struct diag_findings *findings, const char *code)
{
    for (uint32_t i = 0; i < findings->n; i++) {
        if (strcmp(findings->items[i].entry->code, code) == 0) {
            return true;
        }
    }
    return false;
}

/* Adds the codes of the findings that are not listed because the job went on, each once. */
static void add_survived(const struct run *run, struct weft_text *out)
{
    bool any = false;

    for (uint32_t i = 0; i < run->findings.n; i++) {
        const char *code = run->findings.items[i].entry->code;
        bool is_new = run->findings.items[i].is_survived &&
                      !is_expected(&run->scenario->expect, code);

        for (uint32_t k = 0; k < i; k++) {
            is_new = is_new && strcmp(run->findings.items[k].entry->code, code) != 0;
        }
        if (is_new) {
            weft_text_add(out, "%s%s", any ? ", " : "; the job went on despite ", code);
            any = true;
        }
    }
}

void run_judge_findings(struct run *run)
{
    const struct scenario_expect *expect = &run->scenario->expect;
    struct weft_text got = {NULL, 0, 0};
    struct weft_text want = {NULL, 0, 0};
    bool ok = true;

    if (!expect->has_findings && (expect->must_fail || expect->may_fail)) {
        return; /* any findings are allowed */
    }
    for (uint32_t i = 0; i < run->findings.n; i++) {
        const char *code = run->findings.items[i].entry->code;

        /* Findings about faults that the job survived need not be listed. */
        if (run->findings.items[i].is_survived && !is_expected(expect, code)) {
            continue;
        }
        weft_text_add(&got, "%s%s", got.n > 0 ? ", " : "", code);
        ok = ok && is_expected(expect, code);
    }
    for (uint32_t i = 0; i < expect->n_findings; i++) {
        weft_text_add(&want, "%s%s", i > 0 ? ", " : "", expect->findings[i].code);
        ok = ok && is_found(&run->findings, expect->findings[i].code);
    }
    if (got.n == 0) {
        weft_text_add(&got, "none");
        add_survived(run, &got);
    }
    run_say(run, ok, &got, "findings: %s", want.n > 0 ? want.bytes : "none");
    weft_text_fini(&want);
}

/* ---- rows ---- */

static void judge_data(struct run *run)
{
    const struct scenario_expect *expect = &run->scenario->expect;
    struct weft_text got = {NULL, 0, 0};
    uint64_t n_wrong = 0;
    uint32_t n_done = 0;

    if ((expect->must_fail || expect->may_fail) && !expect->has_data) {
        return;
    }
    for (uint32_t i = 0; i < run->n_rows; i++) {
        n_wrong += run->outcomes[i].n_wrong;
        n_done += run->outcomes[i].is_done;
    }
    if (run_is_timing(run)) {
        weft_text_add(&got, "nothing was compared (payload: timing), %u of %u rows done",
                      n_done, run->n_rows);
        run_say(run, !expect->has_data && n_done == run->n_rows, &got,
                expect->has_data ? "data: exact" : "every row done");
        return;
    }
    if (n_wrong > 0) {
        weft_text_add(&got, "%llu elements wrong", (unsigned long long)n_wrong);
    } else if (n_done == 0 && run->n_rows > 0) {
        weft_text_add(&got, "nothing was verified: none of %u rows ended", run->n_rows);
    } else if (n_done < run->n_rows) {
        weft_text_add(&got, "exact as far as verified, %u of %u rows ended", n_done,
                      run->n_rows);
    } else {
        weft_text_add(&got, "exact, %u of %u rows verified", n_done, run->n_rows);
    }
    run_say(run,
            n_wrong == 0 &&
                (n_done == run->n_rows || expect->must_fail || expect->may_fail),
            &got, "data: exact");
}

/* Returns true if the bound applies to the row: the row has its size or, without a size, is the
 * largest of its job. */
static bool is_bounded(const struct run *run, const struct scenario_bandwidth *bound,
                       uint32_t index)
{
    const struct host_row *row = &run->rows[index];

    if (bound->has_job && row->job != bound->job) {
        return false;
    }
    if (bound->has_bytes) {
        size_t width = weft_dtype_bytes(row->coll.dtype);

        return row->size_bytes == bound->bytes / width * width;
    }
    for (uint32_t i = 0; i < run->n_rows; i++) {
        if (run->rows[i].job == row->job && run->rows[i].size_bytes > row->size_bytes) {
            return false;
        }
    }
    return true;
}

/* Returns true if bounds on time are judged. If cables have no rate of their own, only adds a note
 * to `got`. */
static bool is_paced(const struct run *run, struct weft_text *got)
{
    if (run->options->backend->is_unpaced) {
        weft_text_add(got, " (not judged: backend %s keeps no rates)",
                      run->options->backend->name);
    }
    return !run->options->backend->is_unpaced;
}

static void judge_share(struct run *run, const struct scenario_bandwidth *bound,
                        uint32_t index)
{
    weft_ns time = run->outcomes[index].time_ns;
    weft_ps limit = run->limits_ps[index];
    struct weft_text got = {NULL, 0, 0};
    /* share = limit / time, compared exactly. */
    bool ok = run->outcomes[index].is_done && time > 0 && limit > 0 &&
              (__int128)limit * 1000000 >= (__int128)bound->at_least_ppb * time;

    if (time > 0) {
        weft_text_add(&got, "%.4f of limit", (double)limit / 1000.0 / (double)time);
    } else {
        weft_text_add(&got, "not run");
    }
    run_say(run, !is_paced(run, &got) || ok, &got,
            "bus_bandwidth: job %u, %llu B: at least %.4f of limit", run->rows[index].job,
            (unsigned long long)run->rows[index].size_bytes, bound->at_least_ppb / 1e9);
}

static void judge_absolute(struct run *run, const struct scenario_bandwidth *bound,
                           uint32_t index)
{
    const struct run_outcome *outcome = &run->outcomes[index];
    double bus = run_bus_bandwidth(run, &run->rows[index], outcome->time_ns * 1000);
    struct weft_text got = {NULL, 0, 0};

    if (outcome->time_ns > 0) {
        weft_text_add(&got, "%.3f GBps", bus / 1e9);
    } else {
        weft_text_add(&got, "not run");
    }
    run_say(run,
            !is_paced(run, &got) ||
                (outcome->is_done && bus >= (double)bound->at_least_bytes_per_s),
            &got, "bus_bandwidth: job %u, %llu B: at least %.3f GBps",
            run->rows[index].job, (unsigned long long)run->rows[index].size_bytes,
            (double)bound->at_least_bytes_per_s / 1e9);
}

static void judge_bandwidth(struct run *run, const struct scenario_bandwidth *bound)
{
    struct weft_text got = {NULL, 0, 0};
    uint32_t n = 0;

    for (uint32_t i = 0; i < run->n_rows; i++) {
        if (!is_bounded(run, bound, i)) {
            continue;
        }
        n++;
        if (bound->is_share) {
            judge_share(run, bound, i);
        } else {
            judge_absolute(run, bound, i);
        }
    }
    if (n == 0) {
        weft_text_add(&got, "no such row");
        run_say(run, !is_paced(run, &got), &got,
                "bus_bandwidth: a row of job %u with %llu B", bound->job,
                (unsigned long long)bound->bytes);
    }
}

static void judge_time(struct run *run, const char *bound, weft_ns limit_ns, bool ok)
{
    char limit[32];
    char took[32];
    struct weft_text got = {NULL, 0, 0};

    weft_format_time(limit_ns, limit, sizeof(limit));
    weft_format_time(run->ended_ns, took, sizeof(took));
    weft_text_add(&got, "%s", took);
    run_say(run, !is_paced(run, &got) || ok, &got, "time: %s %s", bound, limit);
}

static void judge_times(struct run *run)
{
    const struct scenario_expect *expect = &run->scenario->expect;

    if (expect->has_time_at_most) {
        judge_time(run, "at most", expect->at_most_ns,
                   run->ended_ns <= expect->at_most_ns);
    }
    if (expect->has_time_at_least) {
        judge_time(run, "at least", expect->at_least_ns,
                   run->ended_ns >= expect->at_least_ns);
    }
}

/* ---- counters ---- */

static void judge_counter(struct run *run, const struct scenario_counter *want)
{
    struct weft_text got = {NULL, 0, 0};
    struct weft_text bounds = {NULL, 0, 0};
    json_t *counters = run_counters(run);
    const json_t *counter = json_object_get(counters, want->name);
    uint64_t value = (uint64_t)json_integer_value(counter);
    bool is_there = counter != NULL;

    if (is_there) {
        weft_text_add(&got, "%llu", (unsigned long long)value);
    } else {
        weft_text_add(&got, "backend %s has no such counter",
                      run->options->backend->name);
    }
    if (want->at_least > 0) {
        weft_text_add(&bounds, " at least %llu", (unsigned long long)want->at_least);
    }
    if (want->at_most < UINT64_MAX) {
        weft_text_add(&bounds, " at most %llu", (unsigned long long)want->at_most);
    }
    run_say(run, is_there && value >= want->at_least && value <= want->at_most, &got,
            "counter %s:%s", want->name, bounds.bytes != NULL ? bounds.bytes : " any");
    weft_text_fini(&bounds);
    json_decref(counters);
}

/* ---- connections ---- */

static bool matches(const struct run *run, const struct scenario_connection *want,
                    const struct host_connection *have)
{
    const struct world_host *host = &run->scenario->hosts[run->member_hosts[want->from]];

    if (have->to != want->to || (want->has_via && have->n_via != want->n_via)) {
        return false;
    }
    for (uint32_t i = 0; want->has_via && i < want->n_via; i++) {
        if (run->member_hosts[have->via[i]] != want->via[i]) {
            return false;
        }
    }
    if ((want->has_transport && want->transport != have->transport) ||
        (want->reason != NULL && strstr(have->why, want->reason) == NULL)) {
        return false;
    }
    return !want->has_port || strcmp(have->local_port, host->ports[want->port].name) == 0;
}

/* Adds a connection's route, such as "port p0, direct" or "port p1, via iceberg, carpathia". */
static void add_way(const struct run *run, const struct host_connection *have,
                    struct weft_text *out)
{
    if (have->transport != WEFT_TRANSPORT_NET) {
        weft_text_add(out, "%s%s (%s)", out->n > 0 ? "; " : "",
                      weft_transport_name(have->transport), have->why);
        return;
    }
    weft_text_add(out, "%sport %s, %s", out->n > 0 ? "; " : "", have->local_port,
                  have->n_via == 0 ? "direct" : "via ");
    for (uint32_t i = 0; i < have->n_via; i++) {
        weft_text_add(out, "%s%s", i > 0 ? ", " : "",
                      run->plan->spec.hosts[run->member_hosts[have->via[i]]].name);
    }
}

static void judge_connection(struct run *run, const struct scenario_connection *want)
{
    const struct host *host = run->hosts[want->from];
    const struct world_host *plan = &run->scenario->hosts[run->member_hosts[want->from]];
    struct weft_text got = {NULL, 0, 0};
    bool ok = false;

    for (uint32_t i = 0; i < host->n_connections; i++) {
        const struct host_connection *have = &host->connections[i];

        ok = ok || matches(run, want, have);
        if (have->to == want->to) {
            add_way(run, have, &got);
        }
    }
    if (got.n == 0) {
        weft_text_add(&got, "none");
    }
    run_say(run, ok, &got, "connection: rank %u to rank %u%s%s%s%s", want->from, want->to,
            want->has_port ? " by port " : "",
            want->has_port ? plan->ports[want->port].name : "",
            want->has_transport ? " by " : "",
            want->has_transport ? weft_transport_name(want->transport) : "");
}

void run_judge(struct run *run)
{
    const struct scenario_expect *expect = &run->scenario->expect;

    run->expectations = json_array();
    run->as_expected = true;
    judge_result(run);
    judge_symptom(run);
    run_judge_findings(run);
    judge_data(run);
    for (uint32_t i = 0; i < expect->n_bandwidths; i++) {
        judge_bandwidth(run, &expect->bandwidths[i]);
    }
    judge_times(run);
    for (uint32_t i = 0; i < expect->n_counters; i++) {
        judge_counter(run, &expect->counters[i]);
    }
    for (uint32_t i = 0; i < expect->n_connections; i++) {
        judge_connection(run, &expect->connections[i]);
    }
}
