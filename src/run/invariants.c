/* Judges invariants that hold for any run, whatever its result. Each verdict names the invariant,
 * the object and the numbers. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/units.h"
#include "rdma/timers.h"
#include "run/drill.h"
#include "run/outlook.h"
#include "run/private.h"

/* How long the world goes on after its processes ended, so that freed objects are gone and packets
 * have arrived. Only kernels and NICs are waited for; TCP takes longest, 20 s until it gives up a
 * peer. Not derived from recovery timers, so that a leak does not pass when they grow. */
#define SETTLE_NS INT64_C(30000000000)
/* A job that recovers is over this long after the last fault ended: each flow has a lane again, and
 * the rest of the job takes no longer. */
#define RECOVERY_NS (2 * TIMER_RECOVERY_NS)

void run_settle(struct run *run)
{
    struct io_loop *tasks;
    weft_ns until;

    if (run->scenario->expect.invariants == 0 || run->are_records) {
        return;
    }
    tasks = run->world->ops->loop(run->world);
    until = run->world->ops->now(run->world) + SETTLE_NS;
    /* Tasks of processes that are over have nothing left to do, so they are dropped. */
    while (run->world->ops->step(run->world, until) == WEFT_OK) {
        while (io_loop_pop(tasks) != NULL) {
        }
    }
}

/* Returns true if the processes of this run work on this machine, and a world of it has their
 * records: backends soft and rxe. */
static bool are_records_of_lab(const struct run *run)
{
    return run->are_records && run->world->ops->launch != NULL &&
           !run->world->ops->is_elsewhere;
}

static bool is_judged(const struct run *run, enum scenario_invariant invariant)
{
    return (run->scenario->expect.invariants >> invariant & 1) != 0;
}

/* Adds the verdict on `invariant`, which holds if `broken` is empty. Takes over `broken`. */
static void conclude(struct run *run, enum scenario_invariant invariant,
                     struct weft_text *broken)
{
    bool holds = broken->n == 0;

    if (holds) {
        weft_text_add(broken, "holds");
    }
    run_say(run, holds, broken, "invariant: %s", scenario_invariant_name(invariant));
}

static void add_break(struct weft_text *broken)
{
    if (broken->n > 0) {
        weft_text_add(broken, "; ");
    }
}

static const char *host_name(const struct run *run, uint32_t member)
{
    return run->plan->spec.hosts[run->member_hosts[member]].name;
}

/* ---- data, ends ---- */

static void judge_data(struct run *run)
{
    struct weft_text broken = {NULL, 0, 0};

    for (uint32_t i = 0; i < run->n_rows; i++) {
        if (run->outcomes[i].n_wrong > 0) {
            add_break(&broken);
            weft_text_add(&broken,
                          "row %u (%s, %llu B): %llu elements differ from the oracle's",
                          i, weft_collective_name(run->rows[i].coll.kind),
                          (unsigned long long)run->rows[i].size_bytes,
                          (unsigned long long)run->outcomes[i].n_wrong);
        }
    }
    conclude(run, SCENARIO_INVARIANT_DATA, &broken);
}

static bool has_kill(const struct run *run, uint32_t member)
{
    const struct scenario *scenario = run_as_it_came(run);

    for (uint32_t i = 0; i < scenario->n_faults; i++) {
        const struct world_fault *fault = &scenario->faults[i].spec;

        if ((fault->kind == WORLD_FAULT_KILL || fault->kind == WORLD_FAULT_RESTART ||
             fault->kind == WORLD_FAULT_STOP) &&
            fault->host == run->member_hosts[member]) {
            return true;
        }
    }
    return false;
}

/* Checks that a member in DONE has done all its rows. */
static void judge_rows_of(const struct run *run, uint32_t member,
                          struct weft_text *broken)
{
    const struct host *host = run->hosts[member];
    uint32_t n_done = 0;

    for (uint32_t row = 0; row < host->config.n_rows; row++) {
        n_done += host->results[row].is_done ? 1 : 0;
    }
    if (host->state == HOST_DONE && n_done != host->config.n_rows) {
        add_break(broken);
        weft_text_add(broken, "%s is done with %u of %u rows", host_name(run, member),
                      n_done, host->config.n_rows);
    }
}

static void judge_ends(struct run *run)
{
    struct weft_text broken = {NULL, 0, 0};
    char text[256];

    if (run->loop_status < 0) {
        weft_error_format(&run->loop_error, text, sizeof(text));
        weft_text_add(&broken, "the run did not end: %s", text);
    }
    for (uint32_t i = 0; i < run->n_members && run->loop_status >= 0; i++) {
        const struct host *host = run->hosts[i];

        if (!host_is_over(host) || host->has_hung ||
            (host->state == HOST_DEAD && !has_kill(run, i))) {
            add_break(&broken);
            weft_text_add(
                &broken, "rank %u on %s %s in state %s", i, host_name(run, i),
                host->has_hung ? "hung" : "is not over",
                host_state_name(host->has_hung ? host->failed_in : host->state));
        }
        judge_rows_of(run, i, &broken);
    }
    conclude(run, SCENARIO_INVARIANT_ENDS, &broken);
}

/* ---- recovery ---- */

/* Returns true if a fault of the file can end the run in the way it ended. */
static bool may_fail(const struct run *run, const struct run_outlook *outlook)
{
    const struct host *host = run_first_failure(run);

    return outlook->may_fail ||
           (outlook->is_member_cut_off && run_boot_mode(run) != BOOT_RENDEZVOUS &&
            host != NULL && host->error.phase == WEFT_PHASE_BOOT);
}

static void judge_recovery(struct run *run, const struct run_outlook *outlook)
{
    const struct host *host = run_first_failure(run);
    struct weft_text broken = {NULL, 0, 0};
    char text[256];

    if (run->has_failed && !may_fail(run, outlook)) {
        weft_text_add(&broken,
                      "no fault of this file may end a job (longest cut %lld us), but",
                      (long long)(outlook->cut_ns / 1000));
        if (host != NULL) {
            weft_error_format(&host->error, text, sizeof(text));
            weft_text_add(&broken, " %s at %lld us: %s", host->env->name,
                          (long long)(host->error_ns / 1000), text);
        } else {
            weft_text_add(&broken, " the run failed");
        }
    }
    conclude(run, SCENARIO_INVARIANT_RECOVERY, &broken);
}

/* Repeats the scenario without its faults. Returns that run's document, which the caller frees. */
static json_t *run_without_faults(const struct run *run)
{
    struct run_options options = {.backend = run->options->backend,
                                  .has_policy = true,
                                  .policy = run->policy,
                                  .has_seed = true,
                                  .seed = run->seed,
                                  .no_story = true};
    struct scenario calm = *run->scenario;
    struct weft_error error = {0};
    json_t *document = NULL;

    calm.n_faults = 0;
    calm.expect.invariants = 0;
    (void)run->run_other(&calm, &options, &document, NULL, &error);
    return document;
}

/* Returns how long the run takes without its faults. */
static weft_ns calm_ns(const struct run *run)
{
    json_t *document = run_without_faults(run);
    weft_ns ns = json_integer_value(json_object_get(document, "sim_time_ns"));

    json_decref(document);
    return ns;
}

static void judge_time(struct run *run, const struct run_outlook *outlook)
{
    struct weft_text broken = {NULL, 0, 0};
    weft_ns limit = outlook->quiet_ns + timer_limit(RECOVERY_NS, run->scenario->patience);

    if (!may_fail(run, outlook) && run->ended_ns > limit) {
        limit += calm_ns(run); /* the job may take that long by itself */
    }
    if (!may_fail(run, outlook) && run->ended_ns > limit) {
        char took[32], bound[32];

        weft_format_time(run->ended_ns, took, sizeof(took));
        weft_format_time(limit, bound, sizeof(bound));
        weft_text_add(
            &broken,
            "the run ended at %s, more than %s, although nothing disturbs it then", took,
            bound);
    }
    conclude(run, SCENARIO_INVARIANT_TIME, &broken);
}

/* ---- explained ---- */

/* Returns true if a finding's `name` is that of the host or of one of its ranks ("h1/2"). */
static bool is_of_host(const char *name, const char *host)
{
    size_t n = strlen(host);

    return strncmp(name, host, n) == 0 && (name[n] == '\0' || name[n] == '/');
}

static bool names_touched(const struct run *run, const struct run_outlook *outlook,
                          const struct diag_finding *finding)
{
    for (uint32_t i = 0; i < run->scenario->n_hosts; i++) {
        const char *name = run->scenario->hosts[i].name;

        if (outlook->is_touched[i] &&
            (is_of_host(finding->host, name) || is_of_host(finding->peer, name))) {
            return true;
        }
    }
    return false;
}

static bool is_any_touched(const struct run *run, const struct run_outlook *outlook)
{
    for (uint32_t i = 0; i < run->scenario->n_hosts; i++) {
        if (outlook->is_touched[i]) {
            return true;
        }
    }
    return false;
}

static bool is_structural(const char *code)
{
    static const char *const codes[] = {"route.slow_lane", "mesh.rank_order",
                                        "host.pcie_narrow", "host.pcie_shared"};

    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        if (strcmp(code, codes[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Checks that, if a job of policy weft succeeded, its findings are about hosts that a fault or
 * impairment involves, or about the layout of the mesh. */
static void judge_accusations(const struct run *run, const struct run_outlook *outlook,
                              struct weft_text *broken)
{
    for (uint32_t i = 0; i < run->findings.n; i++) {
        const struct diag_finding *finding = &run->findings.items[i];
        bool is_named = is_structural(finding->entry->code) || finding->host[0] == '\0';
        char where[160];

        for (uint32_t k = 0; k < run->scenario->n_hosts && !is_named; k++) {
            const char *name = run->scenario->hosts[k].name;

            is_named = outlook->is_involved[k] && (is_of_host(finding->host, name) ||
                                                   is_of_host(finding->peer, name));
        }
        if (!is_named) {
            diag_where(finding, where, sizeof(where));
            add_break(broken);
            weft_text_add(broken, "%s at %s, where nothing was broken",
                          finding->entry->code, where);
        }
    }
}

static bool has_finding(const json_t *findings, const json_t *finding)
{
    for (size_t i = 0; i < json_array_size(findings); i++) {
        const json_t *other = json_array_get(findings, i);

        if (json_equal(json_object_get(other, "code"),
                       json_object_get(finding, "code")) &&
            json_equal(json_object_get(other, "where"),
                       json_object_get(finding, "where"))) {
            return true;
        }
    }
    return false;
}

/* Returns true if the run also fails without faults, with a finding of this run, so that no fault
 * is the cause. */
static bool fails_without_faults(struct run *run)
{
    json_t *mine = run_document(run);
    json_t *other = run_without_faults(run);
    bool any = false;

    for (uint32_t i = 0; i < run->findings.n && !any; i++) {
        any = !json_is_null(json_object_get(other, "symptom")) &&
              has_finding(json_object_get(other, "findings"),
                          json_array_get(json_object_get(mine, "findings"), i));
    }
    json_decref(mine);
    json_decref(other);
    return any;
}

static void judge_explained(struct run *run, const struct run_outlook *outlook)
{
    struct weft_text broken = {NULL, 0, 0};
    bool is_named = !is_any_touched(run, outlook);
    /* Other policies give up for reasons of their own, even if no fault touched anything. */
    bool must_decide = run->policy == WEFT_POLICY_WEFT || !is_named;
    bool any = false;

    for (uint32_t i = 0; i < run->findings.n; i++) {
        const struct diag_finding *finding = &run->findings.items[i];

        /* An undetermined finding explains nothing, but its place counts. */
        any = any || !must_decide || strcmp(finding->entry->code, "undetermined") != 0 ||
              names_touched(run, outlook, finding);
        is_named = is_named || names_touched(run, outlook, finding);
    }
    if (run->has_failed && run_first_failure(run) == NULL && run->loop_status >= 0) {
        /* All members that did not finish were killed, so none is left to report it. */
        any = is_named = true;
    }
    if (run->has_failed && !(any && is_named) && run->policy != WEFT_POLICY_WEFT &&
        (run->are_records || fails_without_faults(run))) {
        any = is_named = true;
    }
    if (run->has_failed && !any) {
        weft_text_add(&broken, "the run failed, and no finding says why");
    } else if (run->has_failed && !is_named) {
        weft_text_add(
            &broken, "the run failed, and no finding names a host that a fault touched:");
        for (uint32_t i = 0; i < run->findings.n; i++) {
            char where[160];

            diag_where(&run->findings.items[i], where, sizeof(where));
            weft_text_add(&broken, " %s at %s", run->findings.items[i].entry->code,
                          where);
        }
    }
    if (!run->has_failed && run->policy == WEFT_POLICY_WEFT) {
        judge_accusations(run, outlook, &broken);
    }
    conclude(run, SCENARIO_INVARIANT_EXPLAINED, &broken);
}

/* ---- counters ---- */

static uint32_t ports_of_device(const struct world_host *host, uint32_t device)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < host->n_ports; i++) {
        n += host->ports[i].device == device ? 1 : 0;
    }
    return n;
}

/* Checks cables between NICs with one port each: frames that one end sent were received by the
 * other or lost by the cable. */
static void judge_cable(const struct run *run, uint32_t index, int from,
                        struct weft_text *broken)
{
    const struct world_spec *spec = &run->plan->spec;
    const struct world_end *a = &spec->cables[index].ends[from];
    const struct world_end *b = &spec->cables[index].ends[1 - from];
    struct world_port_frames out, in;
    uint64_t sent, arrived;

    if (a->is_switch || b->is_switch ||
        ports_of_device(&spec->hosts[a->node],
                        spec->hosts[a->node].ports[a->port].device) > 1 ||
        ports_of_device(&spec->hosts[b->node],
                        spec->hosts[b->node].ports[b->port].device) > 1) {
        return;
    }
    run->world->ops->port_frames(run->world, a->node, a->port, &out);
    run->world->ops->port_frames(run->world, b->node, b->port, &in);
    sent = out.sent - out.looped + out.duplicated;
    arrived = in.received - in.looped + in.oversize;
    if (sent != arrived + out.dropped + out.in_flight) {
        add_break(broken);
        weft_text_add(
            broken,
            "%s:%s->%s:%s: %llu sent + %llu doubled, but %llu arrived + %llu dropped + "
            "%llu in flight",
            spec->hosts[a->node].name, spec->hosts[a->node].ports[a->port].name,
            spec->hosts[b->node].name, spec->hosts[b->node].ports[b->port].name,
            (unsigned long long)(out.sent - out.looped),
            (unsigned long long)out.duplicated, (unsigned long long)arrived,
            (unsigned long long)out.dropped, (unsigned long long)out.in_flight);
    }
}

static void judge_counters(struct run *run)
{
    struct weft_text broken = {NULL, 0, 0};

    if (run->world->ops->port_frames != NULL) {
        for (uint32_t i = 0; i < run->plan->spec.n_cables; i++) {
            judge_cable(run, i, 0, &broken);
            judge_cable(run, i, 1, &broken);
        }
    }
    conclude(run, SCENARIO_INVARIANT_COUNTERS, &broken);
}

/* ---- objects ---- */

static void judge_objects(struct run *run)
{
    struct weft_text broken = {NULL, 0, 0};

    for (uint32_t i = 0; i < run->plan->spec.n_hosts && run->world->ops->objects != NULL;
         i++) {
        struct world_objects left;
        const struct {
            const char *what;
            const uint32_t *n;
        } kinds[] = {{"PDs", &left.pds},
                     {"MRs", &left.mrs},
                     {"CQs", &left.cqs},
                     {"QPs", &left.qps},
                     {"verbs", &left.verbs},
                     {"streams", &left.streams},
                     {"listeners", &left.listeners}};

        if (!run->world->ops->host_alive(run->world, i)) {
            continue;
        }
        run->world->ops->objects(run->world, i, &left);
        for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
            if (*kinds[k].n > 0) {
                add_break(&broken);
                weft_text_add(&broken, "%s: %u %s after close",
                              run->plan->spec.hosts[i].name, *kinds[k].n, kinds[k].what);
            }
        }
    }
    conclude(run, SCENARIO_INVARIANT_OBJECTS, &broken);
}

/* ---- economy ---- */

static uint64_t counter(const json_t *counters, const char *name)
{
    return (uint64_t)json_integer_value(json_object_get(counters, name));
}

/* Returns the number of packets that did not reach a queue pair. */
static uint64_t count_losses(const struct run *run, const json_t *counters)
{
    const struct world_spec *spec = &run->plan->spec;
    uint64_t n =
        counter(counters, "icrc_errors") + counter(counters, "dropped_unknown_qp");

    for (uint32_t i = 0; i < spec->n_cables; i++) {
        for (int k = 0; k < 2; k++) {
            const struct world_end *end = &spec->cables[i].ends[k];
            struct world_port_frames frames;

            if (!end->is_switch) {
                run->world->ops->port_frames(run->world, end->node, end->port, &frames);
                n += frames.dropped + frames.oversize;
            }
        }
    }
    return n;
}

static bool is_any_peculiar(const struct run *run)
{
    for (uint32_t i = 0; i < run->plan->spec.n_hosts; i++) {
        if (run_wire_is_peculiar(&run->plan->spec.hosts[i])) {
            return true;
        }
    }
    return false;
}

/* Maximum number of packets that a queue pair retransmits after one NAK or timeout. */
#define REPEATS_MAX 1024u

/* Checks that there are no more NAKs and timeouts than lost packets, and that retransmissions have
 * a NAK or timeout as their cause. */
static void judge_repeats(const struct run *run, const json_t *counters,
                          struct weft_text *broken)
{
    uint64_t n_losses = count_losses(run, counters);
    uint64_t n_noticed = counter(counters, "timeouts") + counter(counters, "naks_sent");
    uint64_t n_causes = n_noticed + counter(counters, "rnr_naks_sent");
    uint64_t n_repeats = counter(counters, "retransmits");

    if (n_noticed > n_losses) {
        weft_text_add(broken, "%llu timeouts and NAKs for %llu packets that were lost",
                      (unsigned long long)n_noticed, (unsigned long long)n_losses);
    } else if (n_repeats > n_causes * REPEATS_MAX) {
        weft_text_add(broken, "%llu retransmits for %llu timeouts and NAKs",
                      (unsigned long long)n_repeats, (unsigned long long)n_causes);
    }
}

/* Checks that a job that succeeds on undisturbed wires sends nothing twice; on others, that what it
 * sends twice was lost. */
static void judge_economy(struct run *run, const struct run_outlook *outlook)
{
    static const char *const zeroes[] = {"retransmits", "timeouts",        "naks_sent",
                                         "duplicates",  "out_of_sequence", "icrc_errors"};
    struct weft_text broken = {NULL, 0, 0};
    json_t *counters = run_counters(run);

    for (size_t i = 0;
         outlook->is_calm && !run->has_failed && i < sizeof(zeroes) / sizeof(zeroes[0]);
         i++) {
        uint64_t n = counter(counters, zeroes[i]);

        if (n > 0) {
            add_break(&broken);
            weft_text_add(&broken, "%llu %s although nothing disturbs a packet",
                          (unsigned long long)n, zeroes[i]);
        }
    }
    if (outlook->is_steady && !outlook->is_calm && !is_any_peculiar(run) &&
        !run->has_failed && run->policy == WEFT_POLICY_WEFT &&
        run->world->ops->port_frames != NULL) {
        judge_repeats(run, counters, &broken);
    }
    json_decref(counters);
    conclude(run, SCENARIO_INVARIANT_ECONOMY, &broken);
}

/* ---- verbs ---- */

static void judge_verbs(struct run *run, const struct run_outlook *outlook)
{
    struct weft_text broken = {NULL, 0, 0};

    run_drill(run, outlook->is_calm, &broken);
    conclude(run, SCENARIO_INVARIANT_VERBS, &broken);
}

/* ---- wire ---- */

bool run_has_wire(const struct run *run)
{
    return is_judged(run, SCENARIO_INVARIANT_WIRE) &&
           run->options->backend->launch == NULL;
}

bool run_may_be_dark(const struct run *run)
{
    for (uint32_t i = 0; i < run->scenario->n_faults; i++) {
        enum world_fault_kind kind = run->scenario->faults[i].spec.kind;

        if (kind == WORLD_FAULT_DOWN || kind == WORLD_FAULT_UP ||
            kind == WORLD_FAULT_KILL || kind == WORLD_FAULT_RESTART) {
            return true;
        }
    }
    return false;
}

static void judge_wire(struct run *run)
{
    struct weft_text broken = {NULL, 0, 0};

    if (run->wire != NULL) {
        weft_text_add(&broken, "%s", run_wire_broken(run->wire));
    }
    conclude(run, SCENARIO_INVARIANT_WIRE, &broken);
}

/* ---- trains ---- */

/* Repeats the scenario with each packet on its own and compares the counters. */
static void judge_trains(struct run *run)
{
    static const char *const keys[] = {"sim_time_ns", "counters", "links", "symptom"};
    struct run_options options = {.backend = run->options->backend,
                                  .has_policy = true,
                                  .policy = run->policy,
                                  .has_seed = true,
                                  .seed = run->seed,
                                  .no_trains = true,
                                  .no_story = true};
    struct weft_text broken = {NULL, 0, 0};
    struct weft_error error = {0};
    json_t *mine = run_document(run);
    json_t *other = NULL;

    (void)run->run_other(run->scenario, &options, &other, NULL, &error);
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        if (!json_equal(json_object_get(mine, keys[i]),
                        json_object_get(other, keys[i]))) {
            add_break(&broken);
            weft_text_add(&broken, "%s differs without trains", keys[i]);
        }
    }
    json_decref(mine);
    json_decref(other);
    conclude(run, SCENARIO_INVARIANT_TRAINS, &broken);
}

/* Judges invariants that include the objects and frames of the drill. */
static void judge_after_drill(struct run *run, const struct run_outlook *outlook)
{
    if (is_judged(run, SCENARIO_INVARIANT_OBJECTS)) {
        judge_objects(run);
    }
    if (is_judged(run, SCENARIO_INVARIANT_VERBS)) {
        judge_verbs(run, outlook);
    }
    if (is_judged(run, SCENARIO_INVARIANT_COUNTERS)) {
        judge_counters(run);
    }
}

/* Judges what a run without a second run, and without the objects of its NICs, can break. */
static void judge_outcome(struct run *run, const struct run_outlook *outlook)
{
    if (is_judged(run, SCENARIO_INVARIANT_DATA)) {
        judge_data(run);
    }
    if (is_judged(run, SCENARIO_INVARIANT_ENDS)) {
        judge_ends(run);
    }
    if (is_judged(run, SCENARIO_INVARIANT_RECOVERY)) {
        judge_recovery(run, outlook);
    }
    if (!run->are_records && is_judged(run, SCENARIO_INVARIANT_TIME)) {
        judge_time(run, outlook);
    }
    if (is_judged(run, SCENARIO_INVARIANT_EXPLAINED)) {
        judge_explained(run, outlook);
    }
}

void run_judge_invariants(struct run *run)
{
    struct run_outlook outlook;

    if (run->scenario->expect.invariants == 0 ||
        (run->are_records && !are_records_of_lab(run))) {
        return;
    }
    run_outlook_make(run_as_it_came(run), run->policy, &outlook);
    judge_outcome(run, &outlook);
    if (run->are_records) {
        run_outlook_fini(&outlook);
        return;
    }
    if (is_judged(run, SCENARIO_INVARIANT_ECONOMY)) {
        judge_economy(run, &outlook);
    }
    judge_after_drill(run, &outlook);
    if (is_judged(run, SCENARIO_INVARIANT_WIRE)) {
        judge_wire(run);
    } else if (is_judged(run, SCENARIO_INVARIANT_TRAINS) && !run->options->no_trains &&
               run->options->tap == NULL) {
        judge_trains(run);
    }
    run_outlook_fini(&outlook);
}
