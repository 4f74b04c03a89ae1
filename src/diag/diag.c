#include "diag/diag.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "diag/private.h"

/* ---- failures ---- */

static bool has_failed_before(const struct diag_host *host,
                              const struct diag_error *failure)
{
    return host != NULL && host->was_observed && host->n_errors > 0 &&
           host->errors[0].at_ns < failure->at_ns;
}

/* Returns true if this host timed out in boot, waiting for a peer whose connections had been
 * refused until it gave up. */
static bool came_too_late(const struct diag_case *c)
{
    const struct weft_error *error = &c->failure->error;

    return error->status == WEFT_ERR_TIMEOUT && error->phase == WEFT_PHASE_BOOT &&
           has_failed_before(c->peer, c->failure) &&
           c->peer->errors[0].error.sys_errno == ECONNREFUSED;
}

/* Returns true if the failure is a consequence of an earlier failure of the peer, which then
 * exited: this host was refused, saw its stream closed, or only waited. A relay reports the exit of
 * the destination, so both the destination and the direct peer are checked. */
static bool had_left(const struct diag_case *c)
{
    const struct weft_error *error = &c->failure->error;
    bool only_waited = error->status == WEFT_ERR_TIMEOUT && error->sys_errno == 0 &&
                       weft_error_value(error, WEFT_VALUE_WAITS_FOR) != NULL;
    bool was_closed = error->status == WEFT_ERR_CLOSED && error->phase != WEFT_PHASE_PORT;
    bool is_about_presence =
        error->wc_status == 0 && (error->sys_errno == ECONNREFUSED || was_closed ||
                                  only_waited || diag_is_of_no_connection(error));

    if (c->peer != NULL && c->peer->has_vanished) {
        return false; /* it did not exit because of a failure */
    }
    return is_about_presence &&
           (has_failed_before(c->peer, c->failure) ||
            has_failed_before(diag_find_host(c->input, c->failure->peer), c->failure));
}

/* Examines every rail of every host and reports those that caused the failure. Returns false if
 * none did. */
static bool judge_rails(const struct diag_input *input, const struct diag_error *failure,
                        struct diag_findings *out)
{
    bool is_found = false;

    for (uint32_t i = 0; i < input->n_hosts; i++) {
        const struct diag_host *host = &input->hosts[i];

        for (uint32_t k = 0; k < host->n_uses; k++) {
            struct diag_case c;
            struct diag_finding finding;

            diag_case_init_use(&c, input, host, failure, &host->uses[k]);
            diag_judge(&c, &finding);
            if (finding.entry->id != DIAG_UNDETERMINED) {
                diag_say(out, &finding);
                is_found = true;
            }
        }
    }
    return is_found;
}

/* Returns true if the failure is the timeout of an attempt that followed a relay's report. */
static bool follows_relay(const struct weft_error *error)
{
    const struct weft_value *last = weft_error_value(error, WEFT_VALUE_LAST_PHASE);

    return error->status == WEFT_ERR_TIMEOUT && last != NULL &&
           weft_phase_find(last->text) == WEFT_PHASE_RELAY;
}

/* Returns the source of a failure. A report by a relay is hearsay, whatever is recorded, because
 * the relay knows why it could not go on. */
static enum diag_source source_of(const struct diag_error *failure)
{
    if ((failure->error.status == WEFT_ERR_ROUTE &&
         failure->error.phase == WEFT_PHASE_RELAY) ||
        follows_relay(&failure->error)) {
        return DIAG_HEARSAY;
    }
    return failure->source;
}

/* Returns true if two running processes waited for each other until one gave up. The peer must have
 * failed during boot without an errno, and not because a process exited. */
static bool waited_both(const struct diag_case *c)
{
    bool any = false;

    if (c->phase != WEFT_PHASE_BOOT || c->sys_errno != 0 ||
        (c->status != WEFT_ERR_TIMEOUT && diag_text(c, WEFT_VALUE_REASON) == NULL) ||
        c->peer == NULL || !c->peer->was_observed || diag_is_silenced(c) == DIAG_YES) {
        return false; /* those whose streams fall silent are at the cable that is at fault */
    }
    for (uint32_t i = 0; i < c->peer->n_errors; i++) {
        const struct weft_error *error = &c->peer->errors[i].error;

        any = any || (error->phase == WEFT_PHASE_BOOT && error->sys_errno == 0 &&
                      !diag_is_of_an_end(error));
    }
    return any;
}

/* If both ends of a failed wait were running, blames the hosts that reported nothing. Without a
 * rendezvous, processes reach each other through the hosts between them. Returns false if there is
 * no such host. */
static bool judge_unobserved(const struct diag_case *c, struct diag_findings *out)
{
    bool any = false;

    for (uint32_t i = 0; waited_both(c) && i < c->input->n_hosts; i++) {
        struct diag_case other = *c;
        struct diag_finding finding;

        if (!c->input->hosts[i].was_observed) {
            other.peer = &c->input->hosts[i];
            other.peer_name = other.peer->name;
            diag_judge(&other, &finding);
            diag_say(out, &finding);
            any = true;
        }
    }
    return any;
}

static void judge_failures(const struct diag_input *input, enum diag_source source,
                           struct diag_findings *out)
{
    for (uint32_t i = 0; i < input->n_hosts; i++) {
        const struct diag_host *host = &input->hosts[i];

        for (uint32_t j = 0; j < host->n_errors; j++) {
            struct diag_case c;
            struct diag_finding finding;

            if (source_of(&host->errors[j]) != source) {
                continue;
            }
            diag_case_init(&c, input, host, &host->errors[j]);
            if (had_left(&c) ||
                (!diag_turn_to_neighbour(&c) && diag_is_missed_by_neighbour(&c)) ||
                (diag_is_stall(&c) && judge_rails(input, c.failure, out))) {
                continue;
            }
            if (judge_unobserved(&c, out)) {
                continue;
            }
            diag_judge(&c, &finding);
            if (finding.entry->id != DIAG_UNDETERMINED || !came_too_late(&c)) {
                diag_say(out, &finding);
            }
        }
    }
}

/* Finds the first failure from the best source. Returns false if there is none. */
static bool find_failure(const struct diag_input *input, struct diag_case *out)
{
    for (enum diag_source source = DIAG_OWN; source <= DIAG_HEARSAY; source++) {
        for (uint32_t i = 0; i < input->n_hosts; i++) {
            const struct diag_host *host = &input->hosts[i];

            for (uint32_t j = 0; j < host->n_errors; j++) {
                if (source_of(&host->errors[j]) == source) {
                    diag_case_init(out, input, host, &host->errors[j]);
                    return true;
                }
            }
        }
    }
    return false;
}

/* Returns true if a failure names the host as the peer. */
static bool is_named(const struct diag_input *input, const char *name)
{
    for (uint32_t i = 0; i < input->n_hosts; i++) {
        for (uint32_t j = 0; j < input->hosts[i].n_errors; j++) {
            if (strcmp(input->hosts[i].errors[j].peer, name) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* Returns true if a failure names a hanging host as the peer. Other hosts then hang because they
 * wait for that one. */
static bool any_hanging_named(const struct diag_input *input)
{
    bool any = false;

    for (uint32_t i = 0; i < input->n_hosts; i++) {
        any = any || (input->hosts[i].has_hung && is_named(input, input->hosts[i].name));
    }
    return any;
}

/* Reports each hanging host, with the first failure as evidence, because the failures that it
 * caused at other hosts are less specific. Reports only those that failures name, if there are
 * any. */
static void name_hanging(const struct diag_input *input, struct diag_findings *out)
{
    bool any_named = any_hanging_named(input);

    for (uint32_t i = 0; i < input->n_hosts; i++) {
        struct diag_finding finding = {.entry = NULL};
        struct diag_case c;

        if (!input->hosts[i].has_hung ||
            (any_named && !is_named(input, input->hosts[i].name))) {
            continue;
        }
        if (find_failure(input, &c)) {
            diag_describe(&c, &finding);
        }
        finding.entry = diag_entry(DIAG_PEER_SILENT);
        finding.severity = finding.entry->severity;
        finding.port[0] = '\0';
        weft_format(finding.peer, sizeof(finding.peer), "%s", input->hosts[i].name);
        diag_say(out, &finding);
    }
}

/* Reports each process that the launcher saw end. Used if no failure was found, because the others
 * had no need of it any more. */
static void name_vanished(const struct diag_input *input, struct diag_findings *out)
{
    for (uint32_t i = 0; i < input->n_hosts; i++) {
        struct diag_finding finding = {.entry = diag_entry(DIAG_PEER_DEAD)};

        if (input->hosts[i].has_vanished) {
            finding.severity = finding.entry->severity;
            diag_name_place(&finding, "", "", input->hosts[i].name);
            diag_say(out, &finding);
        }
    }
}

/* Returns true if a host of the finding, whose set-up was not answered, is named by a more specific
 * one. That host had its own trouble, and the other end only waited for it. */
static bool is_explained(const struct diag_findings *out,
                         const struct diag_finding *finding)
{
    for (uint32_t i = 0; i < out->n; i++) {
        const struct diag_finding *other = &out->items[i];

        if (other->entry->id != DIAG_CONN_TIMEOUT &&
            other->entry->id != DIAG_UNDETERMINED &&
            (diag_is_same_machine(other->host, finding->peer) ||
             diag_is_same_machine(other->peer, finding->peer) ||
             diag_is_same_machine(other->host, finding->host) ||
             diag_is_same_machine(other->peer, finding->host))) {
            return true;
        }
    }
    return false;
}

/* Returns true if the peer's device refused access because it failed, and lost its memory regions
 * before its queue pairs. */
static bool is_of_gone_device(const struct diag_findings *out,
                              const struct diag_finding *finding)
{
    for (uint32_t i = 0; i < out->n; i++) {
        if (finding->entry->id == DIAG_DATA_ACCESS_REFUSED &&
            out->items[i].entry->id == DIAG_DEVICE_FAILED &&
            diag_is_same_machine(out->items[i].host, finding->peer)) {
            return true;
        }
    }
    return false;
}

/* Removes `undetermined` if another finding is decided. Removes conn.timeout if one explains it, or
 * if a host hangs, because that host could have been on the path. Removes data.access_refused of a
 * device that failed. */
static void drop_decided(const struct diag_input *input, struct diag_findings *out)
{
    bool is_decided = false, any_hangs = false;
    struct diag_findings kept = {NULL, 0};

    for (uint32_t i = 0; i < out->n; i++) {
        is_decided = is_decided || out->items[i].entry->id != DIAG_UNDETERMINED;
    }
    for (uint32_t i = 0; i < input->n_hosts; i++) {
        any_hangs = any_hangs || input->hosts[i].has_hung;
    }
    for (uint32_t i = 0; i < out->n; i++) {
        enum diag_code code = out->items[i].entry->id;
        bool is_timeout = code == DIAG_CONN_TIMEOUT;

        if ((!is_decided || code != DIAG_UNDETERMINED) &&
            !is_of_gone_device(out, &out->items[i]) &&
            (!is_timeout || (!any_hangs && !is_explained(out, &out->items[i])))) {
            diag_add(&kept, &out->items[i]);
        }
    }
    diag_findings_fini(out);
    *out = kept;
}

/* ---- conditions that caused no failure ---- */

static void compare_mtu(const struct diag_host *a, const struct diag_port *pa,
                        const struct diag_host *b, const struct diag_port *pb,
                        struct diag_findings *out)
{
    struct diag_finding finding = {.entry = diag_entry(DIAG_LINK_MTU_MISMATCH),
                                   .severity = DIAG_WARNING};

    diag_name_place(&finding, a->name, pa->name, b->name);
    diag_evidence_text(&finding, "local_port", pa->name);
    diag_evidence_int(&finding, "local_mtu", pa->netdev_mtu);
    diag_evidence_text(&finding, "remote_port", pb->name);
    diag_evidence_int(&finding, "remote_mtu", pb->netdev_mtu);
    if (!diag_is_about(out, DIAG_LINK_MTU_MISMATCH, &finding)) {
        diag_say(out, &finding);
    }
}

static bool differ_in_mtu(const struct diag_port *a, const struct diag_port *b)
{
    return a->netdev_mtu != IO_UNKNOWN && b->netdev_mtu != IO_UNKNOWN &&
           a->netdev_mtu != b->netdev_mtu;
}

/* Compares the ports of two hosts that face each other, unless cables are known that lead from them
 * to others. */
static void inspect_hosts(const struct diag_input *input, const struct diag_host *a,
                          const struct diag_host *b, struct diag_findings *out)
{
    for (uint32_t i = 0; i < a->n_ports; i++) {
        for (uint32_t k = 0; k < b->n_ports; k++) {
            const struct diag_port *pa = &a->ports[i], *pb = &b->ports[k];

            if (differ_in_mtu(pa, pb) && diag_facing(pa, pb) == DIAG_YES &&
                diag_is_joined(input, a->name, pa->name, b->name, pb->name) != DIAG_NO) {
                compare_mtu(a, pa, b, pb, out);
            }
        }
    }
}

/* Compares the ends of a known cable that do not face each other. */
static void inspect_cable(const struct diag_input *input, const struct diag_cable *cable,
                          struct diag_findings *out)
{
    const struct diag_host *a = diag_find_host(input, cable->from);
    const struct diag_host *b = diag_find_host(input, cable->to);
    const struct diag_port *pa = diag_find_port(a, cable->from_port);
    const struct diag_port *pb = diag_find_port(b, cable->to_port);

    if (pa != NULL && pb != NULL && !diag_is_same_machine(a->name, b->name) &&
        differ_in_mtu(pa, pb) && diag_facing(pa, pb) != DIAG_YES) {
        compare_mtu(a, pa, b, pb, out);
    }
}

static void inspect_cables(const struct diag_input *input, struct diag_findings *out)
{
    for (uint32_t i = 0; i < input->n_hosts; i++) {
        for (uint32_t j = i + 1; j < input->n_hosts; j++) {
            if (!diag_is_same_machine(input->hosts[i].name, input->hosts[j].name)) {
                inspect_hosts(input, &input->hosts[i], &input->hosts[j], out);
            }
        }
    }
    for (uint32_t i = 0; i < input->n_cables; i++) {
        inspect_cable(input, &input->cables[i], out);
    }
}

/* Returns true if a finding reports that frames are lost between the two hosts, whatever their
 * size. */
static bool loses_frames(const struct diag_findings *out,
                         const struct diag_finding *finding)
{
    return diag_is_about(out, DIAG_LINK_ONE_WAY, finding) ||
           diag_is_about(out, DIAG_LINK_LOSSY, finding) ||
           diag_is_about(out, DIAG_LINK_CORRUPTING, finding) ||
           diag_is_about(out, DIAG_LINK_PAUSE_STORM, finding);
}

/* Warns about a rail whose path MTU is smaller than both ports allow, because probes with a larger
 * one were lost. */
static void inspect_use(const struct diag_input *input, const struct diag_host *host,
                        const struct diag_use *use, struct diag_findings *out)
{
    const struct diag_host *peer = diag_find_host(input, use->peer);
    const struct diag_port *local = diag_find_port(host, use->local_port);
    const struct diag_port *remote = diag_find_port(peer, use->remote_port);
    struct diag_finding finding = {.entry = diag_entry(DIAG_LINK_BLACK_HOLE),
                                   .severity = DIAG_WARNING};

    if (use->vanished_mtu == IO_UNKNOWN || use->vanished_mtu == 0) {
        return;
    }
    diag_name_place(&finding, host->name, use->local_port, use->peer);
    diag_evidence_text(&finding, "local_port", use->local_port);
    diag_evidence_text(&finding, "remote_port", use->remote_port);
    diag_evidence_int(&finding, "local_mtu", local ? local->netdev_mtu : IO_UNKNOWN);
    diag_evidence_int(&finding, "remote_mtu", remote ? remote->netdev_mtu : IO_UNKNOWN);
    diag_evidence_int(&finding, "vanished_mtu", use->vanished_mtu);
    diag_evidence_int(&finding, "path_mtu", use->path_mtu);
    if (!diag_is_about(out, DIAG_LINK_BLACK_HOLE, &finding) &&
        !diag_is_about(out, DIAG_LINK_MTU_MISMATCH, &finding) &&
        !loses_frames(out, &finding)) {
        diag_say(out, &finding);
    }
}

static void inspect_uses(const struct diag_input *input, struct diag_findings *out)
{
    for (uint32_t i = 0; i < input->n_hosts; i++) {
        for (uint32_t k = 0; k < input->hosts[i].n_uses; k++) {
            inspect_use(input, &input->hosts[i], &input->hosts[i].uses[k], out);
        }
    }
}

/* Warns about a rank order in which more ring neighbours than necessary share no cable. Each such
 * pair is relayed over cables that others need. */
static void inspect_order(const struct diag_input *input, struct diag_findings *out)
{
    const struct diag_rank_order *order = &input->rank_order;
    struct diag_finding finding = {.entry = diag_entry(DIAG_MESH_RANK_ORDER),
                                   .severity = DIAG_WARNING};

    for (uint32_t i = 0; i < out->n; i++) {
        if (out->items[i].entry->id == DIAG_MESH_RANK_ORDER) {
            return; /* already reported as an error */
        }
    }
    if (!order->is_known || order->missing <= order->better_missing) {
        return;
    }
    diag_evidence_int(&finding, "pairs_without_cable", order->missing);
    diag_evidence_int(&finding, "better", order->better_missing);
    diag_evidence_text(&finding, "better_order", order->better_order);
    diag_say(out, &finding);
}

void diag(const struct diag_input *input, struct diag_findings *out)
{
    *out = (struct diag_findings){NULL, 0};
    name_hanging(input, out);
    judge_failures(input, DIAG_OWN, out);
    for (enum diag_source source = DIAG_MAYBE_OWN; source <= DIAG_HEARSAY && out->n == 0;
         source++) {
        judge_failures(input, source, out);
    }
    if (out->n == 0) {
        name_vanished(input, out);
    }
    drop_decided(input, out);
    inspect_cables(input, out);
    diag_inspect_survived(input, out);
    diag_inspect_slots(input, out);
    diag_inspect_left_out(input, out);
    inspect_uses(input, out); /* unless one of those explains the probes that were lost */
    diag_inspect_apart(input, out);
    diag_inspect_dark(input, out);
    diag_inspect_lanes(input, out);
    diag_inspect_shared_slots(input, out);
    diag_inspect_slow_rails(input, out);
    inspect_order(input, out);
    diag_sort(out);
    diag_find_behind(input, out);
}
