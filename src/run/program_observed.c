#include "run/program_observed.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

#define EVENTS_MAX 16      /* maximum per port; more do not change a finding */
#define TIMEOUT_STATUS 124 /* exit status of timeout(1) */

/* ---- how programs ended ---- */

bool program_has_exited_badly(const struct program_facts *facts)
{
    enum program_how how = program_how(facts);

    return how == PROGRAM_NOT_RUN || how == PROGRAM_SIGNALLED ||
           (how == PROGRAM_EXITED && program_status(facts) != 0);
}

/* timeout(1) reports by its exit status that the program did not end. */
bool program_hangs(const struct program_observing *o, uint32_t program)
{
    const struct program_facts *facts = &o->causes->facts[program];

    return program_how(facts) == PROGRAM_HANGS ||
           (program_how(facts) == PROGRAM_EXITED && o->words[program].is_timed &&
            program_status(facts) == TIMEOUT_STATUS);
}

bool program_is_bad(const struct program_observing *o, uint32_t program)
{
    return program_has_exited_badly(&o->causes->facts[program]) &&
           !program_hangs(o, program);
}

weft_ns program_first_bad(const struct program_observing *o, uint32_t host)
{
    weft_ns first = WEFT_NEVER;

    for (uint32_t i = 0; i < o->causes->n; i++) {
        const struct program_facts *facts = &o->causes->facts[i];

        if (facts->host != host && program_has_exited_badly(facts) &&
            facts->ended_ns < first) {
            first = facts->ended_ns;
        }
    }
    return first;
}

/* Returns true if a fault killed all programs of the host, so that it reports nothing. Programs
 * that had ended before do not count. False if another host failed before the kill, which is then
 * not the cause. */
static bool is_dead(const struct program_observing *o, uint32_t host)
{
    weft_ns killed_ns = WEFT_NEVER;
    bool any_other = false;

    for (uint32_t i = 0; i < o->causes->n; i++) {
        const struct program_facts *facts = &o->causes->facts[i];

        if (facts->host == host && program_how(facts) == PROGRAM_KILLED &&
            facts->killed_ns < killed_ns) {
            killed_ns = facts->killed_ns;
        }
    }
    for (uint32_t i = 0; i < o->causes->n; i++) {
        const struct program_facts *facts = &o->causes->facts[i];
        enum program_how how = program_how(facts);

        any_other = any_other || (facts->host == host && how != PROGRAM_KILLED &&
                                  how != PROGRAM_NOT_BEGUN &&
                                  (program_hangs(o, i) || facts->ended_ns > killed_ns));
    }
    return killed_ns != WEFT_NEVER && !any_other &&
           program_first_bad(o, host) >= killed_ns;
}

/* Returns true if all programs that still run on the host were stopped for good before any other
 * host failed. */
static bool is_silent(const struct program_observing *o, uint32_t host)
{
    weft_ns first_bad_ns = program_first_bad(o, host);
    bool any = false;
    bool any_other = false;

    for (uint32_t i = 0; i < o->causes->n; i++) {
        const struct program_facts *facts = &o->causes->facts[i];

        if (facts->host == host && program_hangs(o, i)) {
            bool is_stopped = facts->is_stopped && facts->stopped_ns <= first_bad_ns;

            any = any || is_stopped;
            any_other = any_other || !is_stopped;
        }
    }
    return any && !any_other;
}

/* ---- hosts ---- */

static bool is_end(const struct world_end *end, uint32_t host, uint32_t port)
{
    return !end->is_switch && end->node == host && end->port == port;
}

bool program_shares_carrier(const struct world_spec *spec, uint32_t host, uint32_t port,
                            const struct program_cut *cut)
{
    bool is = cut->host == host && cut->port == port;

    for (uint32_t i = 0; i < spec->n_cables; i++) {
        const struct world_end *ends = spec->cables[i].ends;

        is = is ||
             (is_end(&ends[0], host, port) && is_end(&ends[1], cut->host, cut->port)) ||
             (is_end(&ends[1], host, port) && is_end(&ends[0], cut->host, cut->port));
    }
    return is;
}

/* Returns how often faults took the port's carrier away after a program had failed. */
static int64_t count_later_cuts(const struct program_observing *o, uint32_t host,
                                uint32_t port)
{
    int64_t n = 0;

    for (uint32_t i = 0; i < o->causes->n_cuts; i++) {
        const struct program_cut *cut = &o->causes->cuts[i];

        n += cut->at_ns > o->first_bad_ns &&
             program_shares_carrier(o->causes->spec, host, port, cut);
    }
    return n;
}

static void add_event(struct diag_host *out, const char *port)
{
    struct diag_event *event;

    out->events = weft_realloc(out->events, (out->n_events + 1) * sizeof(*out->events));
    event = &out->events[out->n_events++];
    *event = (struct diag_event){.type = "port_error", .at_ns = IO_UNKNOWN};
    weft_format(event->port, sizeof(event->port), "%s", port);
}

/* Adds an event for each lost carrier that the host counted. If a fault took a port down only after
 * the failure, restores its state from before. */
static void add_events(const struct program_observing *o, uint32_t host,
                       struct diag_host *out)
{
    const struct world_host *spec = &o->causes->spec->hosts[host];
    const struct program_look *before = &o->causes->before[host];
    const struct program_look *after = &o->causes->after[host];

    out->has_events = before->is_seen;
    for (uint32_t i = 0; before->is_seen && i < spec->n_ports; i++) {
        const struct diag_port *was = diag_find_port(&before->host, spec->ports[i].name);
        struct diag_port *port = diag_find_port(out, spec->ports[i].name);
        int64_t n_later = count_later_cuts(o, host, i);
        int64_t n = after->losses[i] - before->losses[i] - n_later;

        if (before->losses[i] == IO_UNKNOWN || after->losses[i] == IO_UNKNOWN) {
            out->has_events = false;
            continue;
        }
        for (int64_t k = 0; k < n && k < EVENTS_MAX; k++) {
            add_event(out, spec->ports[i].name);
        }
        if (n <= 0 && n_later > 0 && was != NULL && port != NULL) {
            port->is_up = was->is_up;
        }
    }
}

/* Reduces the counters to what was counted during the job. */
static void subtract_counters(const struct program_look *before, struct diag_port *port)
{
    const struct diag_port *was =
        before->is_seen ? diag_find_port(&before->host, port->name) : NULL;

    for (int i = 0; i < DIAG_N_COUNTERS; i++) {
        int64_t *counter = &port->counters[i];

        if (was == NULL || was->counters[i] == IO_UNKNOWN || *counter == IO_UNKNOWN) {
            *counter = IO_UNKNOWN;
        } else {
            *counter -= was->counters[i];
        }
    }
}

static void add_ports(const struct program_observing *o, uint32_t host,
                      struct diag_host *out)
{
    const struct diag_host *from = &o->causes->after[host].host;

    out->ports = weft_calloc((size_t)from->n_ports + 1, sizeof(*out->ports));
    out->n_ports = from->n_ports;
    for (uint32_t i = 0; i < out->n_ports; i++) {
        out->ports[i] = from->ports[i];
        /* External programs do not report what they open. */
        out->ports[i].is_opened = DIAG_UNKNOWN;
        subtract_counters(&o->causes->before[host], &out->ports[i]);
    }
}

/* Returns true if a program on the host was given its device by name, so that it did not choose
 * one. */
static bool names_device(const struct program_causes *causes, uint32_t host)
{
    bool any = false;

    for (uint32_t i = 0; i < causes->n; i++) {
        for (uint32_t k = 0;
             causes->facts[i].host == host && k < causes->spec->hosts[host].n_ports;
             k++) {
            char name[256];

            causes->device(causes->spec, host, k, name, sizeof(name));
            any = any || program_words_have(causes->commands[i], name);
        }
    }
    return any;
}

/* Returns the GID slot that the flags of all programs on the host select, or DIAG_NO_GID_INDEX if
 * not all select the same. */
static int64_t gid_index_of(const struct program_observing *o, uint32_t host)
{
    int64_t index = PROGRAM_NO_INDEX;
    bool is_one = true;

    for (uint32_t i = 0; i < o->causes->n; i++) {
        if (o->causes->facts[i].host == host) {
            is_one =
                is_one && (index == PROGRAM_NO_INDEX || index == o->words[i].gid_index);
            is_one = is_one && o->words[i].gid_index != PROGRAM_NO_INDEX;
            index = o->words[i].gid_index;
        }
    }
    return is_one && index != PROGRAM_NO_INDEX ? index : DIAG_NO_GID_INDEX;
}

/* Returns true if the device that a process at `host` uses is in a line that UCX printed. UCX does
 * not choose by the subnets of both ends. */
static bool has_printed_device(const struct program_observing *o, uint32_t host)
{
    bool has = false;

    for (uint32_t i = 0; i < o->causes->n; i++) {
        const char *name = o->words[i].host;
        bool is_here = name[0] != '\0'
                           ? strcmp(name, o->causes->spec->hosts[host].name) == 0
                           : o->causes->facts[i].host == host;

        has = has || (is_here && o->words[i].device[0] != '\0');
    }
    return has;
}

void program_observe_host(const struct program_observing *o, uint32_t host,
                          struct diag_host *out)
{
    const struct program_causes *causes = o->causes;
    const struct program_look *look = &causes->after[host];

    weft_format(out->name, sizeof(out->name), "%s", causes->spec->hosts[host].name);
    out->memlock_bytes = out->gid_index = IO_UNKNOWN;
    out->has_vanished = is_dead(o, host);
    out->has_hung = is_silent(o, host);
    if (names_device(causes, host) || has_printed_device(o, host)) {
        weft_format(out->policy, sizeof(out->policy), DIAG_POLICY_GIVEN);
    }
    out->was_observed = !out->has_vanished && !out->has_hung;
    if (!look->is_seen || !out->was_observed) {
        return;
    }
    out->memlock_bytes = look->host.memlock_bytes;
    out->forwards_ip = look->host.forwards_ip;
    out->management_down = look->host.management_down;
    out->gid_index = gid_index_of(o, host);
    out->merges_nics = DIAG_NO; /* each port is a device of its own */
    add_ports(o, host, out);
    add_events(o, host, out);
}
