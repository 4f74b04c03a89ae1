#include "run/outlook.h"

#include <stdlib.h>
#include <string.h>

#include "io/verbs.h"
#include "rdma/timers.h"
#include "run/carrier.h"

/* A loss rate above this counts as an outage. */
#define LOSS_OUTAGE_PPB 50000000u
/* Calls delayed by at most this, and clock jumps of at most this, end no job. */
#define DELAY_HARMLESS_NS INT64_C(100000000)
/* Cuts closer together than this count as one, because kernels retransmit neighbour requests only
 * after this time. */
#define CUT_GAP_NS TIMER_ARP_NS
/* A packet delayed longer than this can reach the next queue pair with its number, which sends a
 * NAK. A set-up that a fault restarts creates one 0.5 ms later. */
#define DELAY_LONG_NS 500000
/* Longest survivable cut between two hosts that are connected by nothing but cables. */
#define CABLES_CUT_NS (TIMER_CABLES_NS - TIMER_MARGIN_NS)

/* A cable or host that carries nothing for some time. */
struct outage {
    bool is_host;
    uint32_t index;   /* index of the link or host */
    weft_ns from, to; /* to: WEFT_NEVER if permanent */
};

struct outages {
    struct outage *items; /* Owned [n] */
    size_t n;
};

static void push_outage(struct outages *outages, struct outage outage)
{
    outages->items =
        weft_realloc(outages->items, (outages->n + 1) * sizeof(outages->items[0]));
    outages->items[outages->n++] = outage;
}

/* Marks the hosts at both ends of a cable that a fault disrupts. */
static void touch_ends(struct run_outlook *out, const struct scenario *scenario,
                       uint32_t link)
{
    for (int i = 0; i < 2; i++) {
        const struct world_end *end = &scenario->cables[link].ends[i];

        if (!end->is_switch) {
            out->is_touched[end->node] = true;
        }
    }
}

static void add_outage(struct outages *outages, struct run_outlook *out,
                       const struct scenario *scenario, struct outage outage)
{
    push_outage(outages, outage);
    if (outage.is_host) {
        out->is_touched[outage.index] = true;
    } else {
        touch_ends(out, scenario, outage.index);
    }
}

static weft_ns end_of(const struct world_fault *fault)
{
    return fault->for_ns > 0 ? fault->at_ns + fault->for_ns : WEFT_NEVER;
}

static void blame(struct run_outlook *out, const char *why)
{
    if (!out->may_fail) {
        out->may_fail = true;
        out->why_may_fail = why;
    }
}

/* Returns true if both ports are in one bond. */
static bool are_bonded(const struct world_host *host, uint32_t a, uint32_t b)
{
    for (uint32_t i = 0; i < host->n_bonds; i++) {
        const struct world_bond *bond = &host->bonds[i];
        int n = 0;

        for (uint32_t k = 0; k < bond->n_ports; k++) {
            n += (bond->ports[k] == a) + (bond->ports[k] == b);
        }
        if (n == 2) {
            return true;
        }
    }
    return false;
}

/* Cuts the cable of the fault's port, or all cables of its host if it names no port. A bond
 * replaces only a port without carrier, so a fault that leaves the carrier up, as all that come
 * here do, cuts all cables of the bond. */
static void cut_cables(struct outages *outages, struct run_outlook *out,
                       const struct scenario *scenario, const struct world_fault *fault)
{
    const struct world_host *host = &scenario->hosts[fault->host];
    const struct scenario_port *ports = scenario->nodes[fault->host].ports;

    for (uint32_t i = 0; i < host->n_ports; i++) {
        if (ports[i].link >= 0 &&
            (!fault->has_port || fault->port == i || are_bonded(host, fault->port, i))) {
            add_outage(outages, out, scenario,
                       (struct outage){.index = (uint32_t)ports[i].link,
                                       .from = fault->at_ns,
                                       .to = end_of(fault)});
        }
    }
}

/* Cuts a cable while a port at one of its ends has no carrier. A cable between switches that has
 * none from the start never has one. */
static void cut_carrier(struct outages *outages, struct run_outlook *out,
                        const struct scenario *scenario, uint32_t link)
{
    const struct world_end *ends = scenario->cables[link].ends;

    for (int k = 0; k < 2; k++) {
        struct run_dark *darks;
        size_t n;

        if (ends[k].is_switch) {
            continue;
        }
        darks = run_carrier_dark(scenario, ends[k].node, ends[k].port, &n);
        for (size_t i = 0; i < n; i++) {
            push_outage(
                outages,
                (struct outage){.index = link, .from = darks[i].from, .to = darks[i].to});
        }
        if (n > 0 && run_carrier_quiet_ns(scenario, ends[k].node, ends[k].port) >= 0) {
            touch_ends(out, scenario, link);
        }
        free(darks);
    }
    if (ends[0].is_switch && ends[1].is_switch && !scenario->cables[link].up) {
        push_outage(outages, (struct outage){.index = link, .to = WEFT_NEVER});
    }
}

static void cut_host(struct outages *outages, struct run_outlook *out,
                     const struct scenario *scenario, const struct world_fault *fault,
                     weft_ns to)
{
    add_outage(
        outages, out, scenario,
        (struct outage){
            .is_host = true, .index = fault->host, .from = fault->at_ns, .to = to});
}

/* Effect of a fault on a job. */
enum effect {
    EFFECT_TIME,    /* only takes time */
    EFFECT_CARRIER, /* its cables lose or get their carrier; see cut_carrier() */
    EFFECT_CABLE,   /* its cables carry nothing */
    EFFECT_LOSS,    /* its cables carry nothing if the rate is above LOSS_OUTAGE_PPB */
    EFFECT_HOST,    /* its host does nothing for some time */
    EFFECT_DEATH,   /* its host does nothing any more */
    EFFECT_DELAY,   /* its host does nothing for `by`, if longer than DELAY_HARMLESS_NS */
    EFFECT_FAILURE, /* a call fails, and its caller may give up */
    EFFECT_EVENT    /* depends on the event */
};

static const enum effect effects[WORLD_N_FAULTS] = {
    [WORLD_FAULT_DOWN] = EFFECT_CARRIER,       [WORLD_FAULT_UP] = EFFECT_CARRIER,
    [WORLD_FAULT_LOSS] = EFFECT_LOSS,          [WORLD_FAULT_CORRUPT] = EFFECT_LOSS,
    [WORLD_FAULT_MTU] = EFFECT_CABLE,          [WORLD_FAULT_PATH_LIMIT] = EFFECT_CABLE,
    [WORLD_FAULT_PAUSE] = EFFECT_CABLE,        [WORLD_FAULT_KILL] = EFFECT_DEATH,
    [WORLD_FAULT_STOP] = EFFECT_HOST,          [WORLD_FAULT_RESTART] = EFFECT_DEATH,
    [WORLD_FAULT_CLOCK] = EFFECT_DELAY,        [WORLD_FAULT_GID_DELETE] = EFFECT_CABLE,
    [WORLD_FAULT_ADDR_DEL] = EFFECT_CABLE,     [WORLD_FAULT_VERB_ERROR] = EFFECT_FAILURE,
    [WORLD_FAULT_VERB_SLOW] = EFFECT_DELAY,    [WORLD_FAULT_CALL_ERROR] = EFFECT_FAILURE,
    [WORLD_FAULT_CALL_SLOW] = EFFECT_DELAY,    [WORLD_FAULT_CALL_LOST] = EFFECT_FAILURE,
    [WORLD_FAULT_DEVICE_FATAL] = EFFECT_CABLE, [WORLD_FAULT_ASYNC_EVENT] = EFFECT_EVENT,
};

static void read_loss(struct outages *outages, struct run_outlook *out,
                      const struct scenario *scenario, const struct world_fault *fault)
{
    if (fault->icrc_is_good) {
        blame(out, "corruption that no check finds");
    } else if (!fault->has_match && fault->share_ppb > LOSS_OUTAGE_PPB) {
        cut_cables(outages, out, scenario, fault);
    }
}

/* Marks the host of the fault and the hosts at the other ends of its cables. */
static void involve(struct run_outlook *out, const struct scenario *scenario,
                    const struct world_fault *fault)
{
    const struct world_host *host = &scenario->hosts[fault->host];
    const struct scenario_node *node = &scenario->nodes[fault->host];

    out->is_involved[fault->host] = true;
    for (uint32_t i = 0; i < host->n_ports; i++) {
        const struct scenario_port *port = &node->ports[i];
        const struct world_end *peer;

        if (port->link < 0 || fault->on_management ||
            (fault->has_port && fault->port != i)) {
            continue;
        }
        peer = &scenario->cables[port->link].ends[1 - port->end];
        if (!peer->is_switch) {
            out->is_involved[peer->node] = true;
        }
    }
}

/* Returns true if the fault delays packets, or moves them behind others. */
static bool delays_packets(const struct world_fault *fault)
{
    switch ((int)fault->kind) {
    case WORLD_FAULT_REORDER:
    case WORLD_FAULT_DELAY:
    case WORLD_FAULT_RATE:
    case WORLD_FAULT_PAUSE:
    case WORLD_FAULT_STOP:
    case WORLD_FAULT_KILL:
    case WORLD_FAULT_RESTART:
    case WORLD_FAULT_VERB_SLOW:
        return true;
    default:
        return false;
    }
}

static void read_fault(struct outages *outages, struct run_outlook *out,
                       const struct scenario *scenario, const struct world_fault *fault)
{
    weft_ns end = fault->for_ns > 0 ? end_of(fault) : fault->at_ns;
    uint32_t n_calls = fault->n_calls == 0 ? 1 : fault->n_calls;
    weft_ns by_ns = fault->by_ns * (weft_ns)n_calls;

    out->is_calm = false;
    out->is_steady = out->is_steady && !delays_packets(fault);
    involve(out, scenario, fault);
    out->quiet_ns = end > out->quiet_ns ? end : out->quiet_ns;
    switch (effects[fault->kind]) {
    case EFFECT_TIME:
    case EFFECT_CARRIER:
        break;
    case EFFECT_CABLE:
        cut_cables(outages, out, scenario, fault);
        break;
    case EFFECT_LOSS:
        read_loss(outages, out, scenario, fault);
        break;
    case EFFECT_HOST:
        cut_host(outages, out, scenario, fault, end_of(fault));
        break;
    case EFFECT_DEATH:
        cut_host(outages, out, scenario, fault, WEFT_NEVER);
        blame(out, "a process that is killed"); /* including one that only relays */
        break;
    case EFFECT_DELAY:
        if (by_ns > DELAY_HARMLESS_NS) {
            cut_host(outages, out, scenario, fault, fault->at_ns + by_ns);
        }
        break;
    case EFFECT_FAILURE:
        out->is_touched[fault->host] = true;
        blame(out, "a call that fails");
        break;
    case EFFECT_EVENT:
        if (fault->event == IBV_EVENT_DEVICE_FATAL ||
            fault->event == IBV_EVENT_PORT_ERR) {
            cut_cables(outages, out, scenario, fault);
        }
        break;
    }
}

/* ---- connectivity ---- */

static uint32_t root_of(uint32_t *parents, uint32_t node)
{
    while (parents[node] != node) {
        parents[node] = parents[parents[node]];
        node = parents[node];
    }
    return node;
}

static bool is_out(const struct outages *outages, bool is_host, uint32_t index,
                   weft_ns at)
{
    for (size_t i = 0; i < outages->n; i++) {
        const struct outage *outage = &outages->items[i];

        if (outage->is_host == is_host && outage->index == index && outage->from <= at &&
            at < outage->to) {
            return true;
        }
    }
    return false;
}

static bool is_link_up(const struct scenario *scenario, const struct outages *outages,
                       uint32_t index, weft_ns at)
{
    const struct world_cable *link = &scenario->cables[index];
    bool is_up = !is_out(outages, false, index, at);

    for (int k = 0; k < 2; k++) {
        is_up = is_up && (link->ends[k].is_switch ||
                          !is_out(outages, true, link->ends[k].node, at));
    }
    return is_up;
}

/* Returns the node of a link's end. Switches are numbered after the hosts. */
static uint32_t node_of(const struct scenario *scenario, const struct world_end *end)
{
    return end->node + (end->is_switch ? scenario->n_hosts : 0);
}

static void join(const struct scenario *scenario, uint32_t *parents, uint32_t link)
{
    const struct world_end *ends = scenario->cables[link].ends;

    parents[root_of(parents, node_of(scenario, &ends[0]))] =
        root_of(parents, node_of(scenario, &ends[1]));
}

/* Returns a forest of single nodes, which the caller frees. */
static uint32_t *single_nodes(const struct scenario *scenario)
{
    uint32_t n = scenario->n_hosts + scenario->n_switches;
    uint32_t *parents = weft_calloc(n + 1, sizeof(*parents));

    for (uint32_t i = 0; i < n; i++) {
        parents[i] = i;
    }
    return parents;
}

/* Returns true if all hosts with ranks (with `has_relays` all hosts) can reach each other at
 * `at`. */
static bool is_connected_at(const struct scenario *scenario,
                            const struct outages *outages, bool has_relays, weft_ns at)
{
    uint32_t *parents = single_nodes(scenario);
    uint32_t first = UINT32_MAX;
    bool is_whole = true;

    for (uint32_t i = 0; i < scenario->n_links; i++) {
        if (is_link_up(scenario, outages, i, at)) {
            join(scenario, parents, i);
        }
    }
    for (uint32_t i = 0; i < scenario->n_hosts; i++) {
        if (scenario->hosts[i].n_processes == 0 && !has_relays) {
            continue;
        }
        first = first == UINT32_MAX ? i : first;
        is_whole = is_whole && root_of(parents, i) == root_of(parents, first) &&
                   !is_out(outages, true, i, at);
    }
    free(parents);
    return is_whole;
}

static bool is_between(const struct scenario *scenario, uint32_t link, uint32_t a,
                       uint32_t b)
{
    uint32_t x = node_of(scenario, &scenario->cables[link].ends[0]);
    uint32_t y = node_of(scenario, &scenario->cables[link].ends[1]);

    return (x == a && y == b) || (x == b && y == a);
}

/* Returns true if no path leads around the direct cables between the two hosts of `link`. Both must
 * have ranks. Also true for a link of a switch. */
static bool is_only_way(const struct scenario *scenario, uint32_t link)
{
    const struct world_end *ends = scenario->cables[link].ends;
    uint32_t *parents;
    bool is_only;

    if (ends[0].is_switch || ends[1].is_switch) {
        return true;
    }
    if (scenario->hosts[ends[0].node].n_processes == 0 ||
        scenario->hosts[ends[1].node].n_processes == 0) {
        return false;
    }
    parents = single_nodes(scenario);
    for (uint32_t i = 0; i < scenario->n_links; i++) {
        if (scenario->cables[i].up &&
            !is_between(scenario, i, ends[0].node, ends[1].node)) {
            join(scenario, parents, i);
        }
    }
    is_only = root_of(parents, ends[0].node) != root_of(parents, ends[1].node);
    free(parents);
    return is_only;
}

/* Returns the longest cut that a job must survive (docs/scenario.md, "faults"). */
static weft_ns survived_cut(const struct scenario *scenario)
{
    for (uint32_t i = 0; i < scenario->n_links; i++) {
        if (is_only_way(scenario, i)) {
            return timer_limit(CABLES_CUT_NS, scenario->patience);
        }
    }
    return timer_limit(TIMER_OUTAGE_NS, scenario->patience);
}

static int compare_times(const void *a, const void *b)
{
    weft_ns x = *(const weft_ns *)a, y = *(const weft_ns *)b;

    return (x > y) - (x < y);
}

/* Computes the mesh's connectivity at every time at which an outage begins or ends. */
static void follow(const struct scenario *scenario, const struct outages *outages,
                   struct run_outlook *out)
{
    weft_ns *times = weft_calloc(2 * outages->n + 1, sizeof(*times));
    size_t n = 0;
    weft_ns cut_from = -1, whole_from = -1;

    times[n++] = 0;
    for (size_t i = 0; i < outages->n; i++) {
        times[n++] = outages->items[i].from;
        if (outages->items[i].to != WEFT_NEVER) {
            times[n++] = outages->items[i].to;
        }
    }
    qsort(times, n, sizeof(*times), compare_times);
    for (size_t i = 0; i < n; i++) {
        bool is_whole = is_connected_at(scenario, outages, false, times[i]);

        out->is_connected = is_whole;
        if (!is_whole &&
            (cut_from < 0 || (whole_from >= 0 && times[i] - whole_from >= CUT_GAP_NS))) {
            cut_from = times[i];
        }
        if (is_whole && cut_from >= 0 && whole_from < cut_from) {
            whole_from = times[i];
        }
        if (!is_whole) {
            whole_from = -1;
        }
        if (is_whole && cut_from >= 0 && times[i] - cut_from > out->cut_ns &&
            whole_from == times[i]) {
            out->cut_ns = times[i] - cut_from;
        }
    }
    if (!out->is_connected) {
        out->cut_ns = WEFT_NEVER;
    }
    out->is_member_cut_off = !is_connected_at(scenario, outages, true, times[n - 1]);
    free(times);
}

/* Marks the hosts at both ends of impaired cables. Returns true if there are any. */
static bool read_impairments(const struct scenario *scenario, struct run_outlook *out)
{
    bool any = false;

    for (uint32_t i = 0; i < scenario->n_links; i++) {
        const struct world_cable *link = &scenario->cables[i];
        const struct world_impairment *impairment = &link->impairment;

        if (!link->up || link->path_limit_bytes > 0 || link->queue_bytes > 0 ||
            (impairment->loss_ppb | impairment->corrupt_ppb | impairment->duplicate_ppb |
             impairment->reorder_ppb) != 0) {
            any = true;
            for (int k = 0; k < 2; k++) {
                if (!link->ends[k].is_switch) {
                    out->is_involved[link->ends[k].node] = true;
                }
            }
        }
        out->is_steady = out->is_steady && impairment->reorder_ppb == 0 && !link->pause &&
                         link->delay_ps <= DELAY_LONG_NS * 1000;
    }
    return any;
}

void run_outlook_make(const struct scenario *scenario, enum weft_policy policy,
                      struct run_outlook *out)
{
    struct outages outages = {NULL, 0};

    *out = (struct run_outlook){
        .is_steady = true,
        .why_may_fail = "",
        .is_touched = weft_calloc(scenario->n_hosts + 1, sizeof(*out->is_touched)),
        .is_involved = weft_calloc(scenario->n_hosts + 1, sizeof(*out->is_involved)),
    };
    out->is_calm = !read_impairments(scenario, out) && scenario->rare_ppb == 0;
    for (uint32_t i = 0; i < scenario->n_hosts; i++) {
        weft_ns start = scenario->hosts[i].start_ns;

        out->quiet_ns = start > out->quiet_ns ? start : out->quiet_ns;
    }
    for (uint32_t i = 0; i < scenario->n_faults; i++) {
        read_fault(&outages, out, scenario, &scenario->faults[i].spec);
    }
    for (uint32_t i = 0; i < scenario->n_links; i++) {
        cut_carrier(&outages, out, scenario, i);
    }
    follow(scenario, &outages, out);
    if (policy != WEFT_POLICY_WEFT) {
        blame(out, "another policy than weft");
    }
    out->survived_ns = survived_cut(scenario);
    if (out->cut_ns > out->survived_ns) {
        blame(out, out->is_connected ? "a cut that lasts long" : "a cut for good");
    }
    free(outages.items);
}

void run_outlook_fini(struct run_outlook *outlook)
{
    free(outlook->is_touched);
    free(outlook->is_involved);
    outlook->is_touched = outlook->is_involved = NULL;
}
