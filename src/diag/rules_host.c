/* Rules about processes, their limits and settings, and how they reach each other over TCP. */
#include <errno.h>
#include <string.h>

#include "diag/preflight.h"
#include "diag/private.h"

enum diag_known diag_is_certain(const struct diag_case *c)
{
    (void)c;
    return DIAG_YES;
}

enum diag_known diag_is_unsure(const struct diag_case *c)
{
    (void)c;
    return DIAG_UNKNOWN;
}

static bool is_shortage(int sys_errno)
{
    return sys_errno == EMFILE || sys_errno == ENFILE;
}

/* Returns YES if that end failed because it has no file descriptor left. */
enum diag_known diag_is_short_at(const struct diag_case *c, enum diag_end end)
{
    const struct diag_host *host = end == DIAG_NEAR ? c->host : c->peer;
    enum diag_known answer = DIAG_NO;

    if (host == NULL || !host->was_observed) {
        return DIAG_UNKNOWN;
    }
    for (uint32_t i = 0; i < host->n_errors; i++) {
        const struct weft_error *error = &host->errors[i].error;

        if (is_shortage(error->sys_errno)) {
            return DIAG_YES;
        }
        if (error->phase == WEFT_PHASE_ACCEPT && error->sys_errno == 0) {
            answer = DIAG_UNKNOWN;
        }
    }
    return answer;
}

/* Returns YES if the peer reported that it has no file descriptor left. A peer that reported
 * nothing is judged by the other rules. */
enum diag_known diag_is_peer_short(const struct diag_case *c)
{
    return c->peer != NULL && c->peer->was_observed ? diag_is_short_at(c, DIAG_FAR)
                                                    : DIAG_NO;
}

enum diag_known diag_leaves_no_port(struct diag_ports ports)
{
    enum diag_known leaves = ports.n == 0 ? DIAG_UNKNOWN : DIAG_NO, has_other = leaves;

    for (uint32_t i = 0; i < ports.n; i++) {
        const struct diag_port *port = &ports.items[i];

        leaves = diag_or(leaves, diag_and(port->is_opened, port->is_up));
        has_other = diag_or(has_other, diag_and(diag_not(port->is_opened), port->is_up));
    }
    return diag_and(diag_not(leaves), has_other);
}

/* Returns YES if a port that the settings permit faces the peer. Its state is then the cause, not
 * the settings. */
static enum diag_known any_opened_faces(struct diag_ports ports, struct diag_ports others)
{
    enum diag_known answer = DIAG_NO;

    for (uint32_t i = 0; i < ports.n; i++) {
        answer = diag_or(answer, diag_and(ports.items[i].is_opened,
                                          diag_faces_one_of(&ports.items[i], others)));
    }
    return answer;
}

/* Returns YES if a port with carrier that the settings leave out faces the peer. */
static enum diag_known any_left_out_faces(struct diag_ports ports,
                                          struct diag_ports others)
{
    enum diag_known answer = DIAG_NO;

    for (uint32_t i = 0; i < ports.n; i++) {
        const struct diag_port *port = &ports.items[i];

        answer =
            diag_or(answer, diag_and(diag_and(diag_not(port->is_opened), port->is_up),
                                     diag_faces_one_of(port, others)));
    }
    return answer;
}

/* Returns true if the observations contain NCCL_IB_HCA or the ports that it permits. Older records
 * contain neither and are treated as hosts without the setting. */
static bool has_list(const struct diag_host *host, struct diag_ports ports)
{
    bool any = host != NULL && host->hca_list[0] != '\0';

    for (uint32_t i = 0; i < ports.n; i++) {
        any = any || ports.items[i].is_opened != DIAG_UNKNOWN;
    }
    return any;
}

enum diag_known diag_hca_list_at(const struct diag_case *c, enum diag_end end)
{
    struct diag_ports ports = end == DIAG_NEAR ? c->local : c->remote;
    struct diag_ports others = end == DIAG_NEAR ? c->remote : c->local;

    if (!has_list(end == DIAG_NEAR ? c->host : c->peer, ports)) {
        return DIAG_NO;
    }
    return diag_and(
        diag_or(any_left_out_faces(ports, others), diag_leaves_no_port(ports)),
        diag_not(any_opened_faces(ports, others)));
}

enum diag_known diag_is_hca_list(const struct diag_case *c)
{
    return diag_or(diag_hca_list_at(c, DIAG_NEAR), diag_hca_list_at(c, DIAG_FAR));
}

/* ---- bonds ---- */

/* Returns the host or switch at the other end of a port's cable, or NULL if unknown. */
static const char *host_behind(const struct diag_input *input, const char *host,
                               const char *port)
{
    for (uint32_t i = 0; i < input->n_cables; i++) {
        const struct diag_cable *cable = &input->cables[i];
        const char *behind = NULL;

        if (diag_is_same_machine(cable->from, host) &&
            strcmp(cable->from_port, port) == 0) {
            behind = cable->to;
        } else if (diag_is_same_machine(cable->to, host) &&
                   strcmp(cable->to_port, port) == 0) {
            behind = cable->from;
        }
        if (behind != NULL && behind[0] != '\0') {
            return behind;
        }
    }
    return NULL;
}

static enum diag_known is_bonded(const struct diag_port *port)
{
    return port->master[0] != '\0' ? DIAG_YES : port->is_bonded;
}

static enum diag_known are_bonded(const struct diag_port *a, const struct diag_port *b)
{
    enum diag_known is_one = a->master[0] == '\0' || b->master[0] == '\0'
                                 ? DIAG_UNKNOWN
                                 : diag_known_of(strcmp(a->master, b->master) == 0);

    return diag_and(diag_and(is_bonded(a), is_bonded(b)), is_one);
}

enum diag_known diag_bond_splits(const struct diag_input *input, const char *host,
                                 const struct diag_port *a, const struct diag_port *b,
                                 const char *out[2])
{
    const char *peers[2] = {host_behind(input, host, a->name),
                            host_behind(input, host, b->name)};
    enum diag_known is_split =
        peers[0] == NULL || peers[1] == NULL
            ? DIAG_UNKNOWN
            : diag_known_of(!diag_is_same_machine(peers[0], peers[1]));

    if (out != NULL) {
        memcpy(out, peers, sizeof(peers));
    }
    return diag_and(are_bonded(a, b), is_split);
}

/* Returns true if the observations contain bonds. Older records do not. */
static bool speaks_of_bonds(struct diag_ports ports)
{
    for (uint32_t i = 0; i < ports.n; i++) {
        if (is_bonded(&ports.items[i]) != DIAG_UNKNOWN) {
            return true;
        }
    }
    return false;
}

enum diag_known diag_bond_peers_at(const struct diag_case *c, enum diag_end end)
{
    struct diag_ports ports = end == DIAG_NEAR ? c->local : c->remote;
    const struct diag_host *host = end == DIAG_NEAR ? c->host : c->peer;
    const char *peer = end == DIAG_NEAR ? c->peer_name : c->host->name;
    enum diag_known answer = DIAG_NO;

    for (uint32_t i = 0; host != NULL && speaks_of_bonds(ports) && i < ports.n; i++) {
        for (uint32_t k = i + 1; k < ports.n; k++) {
            const char *behind[2];
            enum diag_known splits = diag_bond_splits(
                c->input, host->name, &ports.items[i], &ports.items[k], behind);
            bool is_of_others = behind[0] != NULL && behind[1] != NULL &&
                                !diag_is_same_machine(behind[0], peer) &&
                                !diag_is_same_machine(behind[1], peer);

            answer = diag_or(answer, is_of_others ? DIAG_NO : splits);
        }
    }
    return answer;
}

enum diag_known diag_is_bond_peers(const struct diag_case *c)
{
    return diag_or(diag_bond_peers_at(c, DIAG_NEAR), diag_bond_peers_at(c, DIAG_FAR));
}

enum diag_known diag_is_memlock(const struct diag_case *c)
{
    int64_t limit = diag_number(c, WEFT_VALUE_MEMLOCK_BYTES);

    limit = limit == IO_UNKNOWN ? c->host->memlock_bytes : limit;
    if (limit == IO_UNKNOWN) {
        return DIAG_UNKNOWN;
    }
    if (limit == INT64_MAX) {
        return DIAG_NO;
    }
    /* A limit that suffices for most jobs can be reached too, but need not be the cause. */
    return limit < DIAG_MEMLOCK_MIN ? DIAG_YES : DIAG_UNKNOWN;
}

/* Returns UNKNOWN for a host without errors, because every host of a failed job has an error, even
 * if it was not recorded. */
enum diag_known diag_failed_to_reach(const struct diag_host *host, const char *name,
                                     int sys_errno)
{
    enum diag_known answer = host == NULL || host->n_errors == 0 ? DIAG_UNKNOWN : DIAG_NO;

    for (uint32_t i = 0; host != NULL && i < host->n_errors; i++) {
        const struct diag_error *error = &host->errors[i];
        enum weft_phase phase = error->error.phase;
        enum diag_known is_early =
            phase == WEFT_PHASE_NONE
                ? DIAG_UNKNOWN
                : diag_known_of(phase == WEFT_PHASE_BOOT || phase == WEFT_PHASE_TCP);
        enum diag_known is_to = error->peer[0] == '\0'
                                    ? DIAG_UNKNOWN
                                    : diag_known_of(strcmp(error->peer, name) == 0);
        /* A stream came up, or another member reported it. */
        bool is_of_no_call =
            weft_error_value(&error->error, WEFT_VALUE_SILENCED) != NULL ||
            weft_error_value(&error->error, WEFT_VALUE_TOLD_BY) != NULL;
        bool is_unsaid = error->error.sys_errno == 0 && !is_of_no_call &&
                         !diag_is_of_an_end(&error->error);
        enum diag_known is_it =
            is_unsaid ? DIAG_UNKNOWN : diag_known_of(error->error.sys_errno == sys_errno);

        answer = diag_or(answer, diag_and(is_early, diag_and(is_to, is_it)));
    }
    return answer;
}

static enum diag_known both_lived(const struct diag_case *c)
{
    return c->peer == NULL || !c->peer->was_observed ? DIAG_UNKNOWN : DIAG_YES;
}

/* Returns YES if the peer failed after this host. */
static enum diag_known failed_later(const struct diag_case *c)
{
    const struct diag_host *peer = c->peer;

    if (peer == NULL || peer->n_errors == 0 || peer->errors[0].at_ns == IO_UNKNOWN ||
        c->failure->at_ns == IO_UNKNOWN) {
        return DIAG_UNKNOWN;
    }
    return diag_known_of(peer->errors[0].at_ns > c->failure->at_ns);
}

/* Returns YES if the peer started to wait only after this host had failed. Uses the launcher's
 * report to the peer that a process had exited. */
static enum diag_known came_after(const struct diag_case *c)
{
    enum diag_known answer = DIAG_NO;

    for (uint32_t i = 0; c->peer != NULL && i < c->peer->n_errors; i++) {
        const struct diag_error *error = &c->peer->errors[i];
        const struct weft_value *waited =
            weft_error_value(&error->error, WEFT_VALUE_WAITED_NS);

        if (!diag_is_of_an_end(&error->error)) {
            continue;
        }
        if (waited == NULL || waited->number < 0 || error->at_ns < 0 ||
            c->failure->at_ns == IO_UNKNOWN) {
            answer = diag_or(answer, DIAG_UNKNOWN);
            continue;
        }
        answer = diag_or(
            answer, diag_known_of(error->at_ns - waited->number > c->failure->at_ns));
    }
    return answer;
}

/* Returns YES if the peer failed later than this host, because its connection was refused or this
 * host had already exited. */
static enum diag_known came_too_late(const struct diag_case *c)
{
    enum diag_known was_refused =
        diag_failed_to_reach(c->peer, c->host->name, ECONNREFUSED);

    return diag_and(failed_later(c),
                    diag_and(both_lived(c), diag_or(was_refused, came_after(c))));
}

bool diag_find_latecomer(const struct diag_case *c, struct diag_case *out)
{
    if (c->phase != WEFT_PHASE_BOOT || came_too_late(c) == DIAG_YES) {
        return false;
    }
    for (uint32_t i = 0; i < c->host->n_waits; i++) {
        const struct diag_wait *wait = &c->host->waits[i];

        *out = *c;
        out->peer = diag_find_host(c->input, wait->peer);
        out->peer_name = wait->peer;
        if (wait->what == WEFT_WAIT_ROUND && came_after(out) == DIAG_YES &&
            came_too_late(out) == DIAG_YES) {
            return true;
        }
    }
    return false;
}

/* Returns YES if the peer, or the host behind which it is, came too late. */
enum diag_known diag_is_peer_late(const struct diag_case *c)
{
    struct diag_case late;

    if (c->is_left_out) {
        return DIAG_NO;
    }
    return diag_or(came_too_late(c), diag_known_of(diag_find_latecomer(c, &late)));
}

/* Returns true if the host left out a rail to the peer because no neighbour answered. */
static bool left_out_unanswered(const struct diag_host *host, const char *peer)
{
    for (uint32_t i = 0; host != NULL && i < host->n_left_out; i++) {
        if (host->left_out[i].error.sys_errno == EHOSTUNREACH &&
            strcmp(host->left_out[i].peer, peer) == 0) {
            return true;
        }
    }
    return false;
}

/* Returns true if the peer has one port and found no neighbour there, whichever host it called. */
static bool is_cut_off(const struct diag_case *c)
{
    for (uint32_t i = 0; c->peer != NULL && c->remote.n == 1 && i < c->peer->n_errors;
         i++) {
        const struct weft_error *error = &c->peer->errors[i].error;

        if (error->phase == WEFT_PHASE_TCP && error->sys_errno == EHOSTUNREACH) {
            return true;
        }
    }
    return false;
}

/* Returns true if the peer found no neighbour at this host's address. */
static bool found_no_neighbour(const struct diag_case *c)
{
    return diag_failed_to_reach(c->peer, c->host->name, EHOSTUNREACH) == DIAG_YES ||
           left_out_unanswered(c->peer, c->host->name) || is_cut_off(c);
}

/* Returns UNKNOWN if the peer failed first during boot, because it might have exited before it
 * could answer the rendezvous, or if it found no neighbour at this host's address, because nothing
 * passes between the two then, whatever the reason. Otherwise YES. */
enum diag_known diag_is_unanswered(const struct diag_case *c)
{
    bool is_boot = c->phase == WEFT_PHASE_BOOT && c->sys_errno == 0;
    const struct diag_error *first =
        c->peer != NULL && c->peer->n_errors > 0 ? &c->peer->errors[0] : NULL;
    bool may_have_left =
        is_boot && first != NULL && first->at_ns < c->failure->at_ns &&
        (first->error.phase == WEFT_PHASE_NONE || first->error.phase == WEFT_PHASE_BOOT);

    bool is_severed = c->phase == WEFT_PHASE_TCP && found_no_neighbour(c);

    return may_have_left || is_severed ? DIAG_UNKNOWN : DIAG_YES;
}

/* Returns YES if the peer waited in boot after this host had given up. This host was then refused
 * only because the peer came too late. */
enum diag_known diag_is_late_there(const struct diag_case *c)
{
    enum diag_known answer = DIAG_NO;

    if (c->phase != WEFT_PHASE_BOOT) {
        return c->phase == WEFT_PHASE_NONE ? DIAG_UNKNOWN : DIAG_NO;
    }
    for (uint32_t i = 0; c->peer != NULL && i < c->peer->n_errors; i++) {
        const struct weft_error *error = &c->peer->errors[i].error;

        answer = diag_or(answer, diag_known_of(error->phase == WEFT_PHASE_BOOT &&
                                               error->status == WEFT_ERR_TIMEOUT));
    }
    answer = diag_or(answer, came_after(c));
    return diag_and(both_lived(c), diag_and(answer, failed_later(c)));
}

/* Returns UNKNOWN if a host never listened and its errors are missing: it may not have the address
 * on which all meet. NO otherwise. */
enum diag_known diag_may_be_foreign(const struct diag_case *c)
{
    for (uint32_t i = 0; i < c->input->n_hosts; i++) {
        const struct diag_host *host = &c->input->hosts[i];

        if (host->was_observed && host->n_errors == 0 &&
            weft_phase_find(host->state) == WEFT_PHASE_LISTEN) {
            return DIAG_UNKNOWN;
        }
    }
    return DIAG_NO;
}

/* Returns YES if the awaited peer could not connect, because its kernel had no route. */
enum diag_known diag_has_peer_no_route(const struct diag_case *c)
{
    if (diag_is_boot_over_cables(c) || c->is_left_out) {
        return DIAG_NO; /* neighbours on a cable need no route */
    }
    return diag_and(both_lived(c),
                    diag_failed_to_reach(c->peer, c->host->name, ENETUNREACH));
}

/* Returns true if one of the errors is that nothing came over a stream to the peer that was up. */
static bool any_fell_silent(const struct diag_error *errors, uint32_t n, const char *peer)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct weft_error *error = &errors[i].error;
        bool is_after_tcp = error->phase == WEFT_PHASE_HELLO ||
                            error->phase == WEFT_PHASE_CHALLENGE ||
                            error->phase == WEFT_PHASE_AUTH;

        if (is_after_tcp && error->status == WEFT_ERR_TIMEOUT && error->sys_errno == 0 &&
            strcmp(errors[i].peer, peer) == 0) {
            return true;
        }
    }
    return false;
}

static bool fell_silent(const struct diag_host *host, const char *peer)
{
    return host != NULL && (any_fell_silent(host->errors, host->n_errors, peer) ||
                            any_fell_silent(host->left_out, host->n_left_out, peer));
}

/* Returns YES if a connection between the two hosts timed out although both processes ran, so that
 * a filter drops its packets. NO if one found no neighbour at the address of the other, because a
 * filter of TCP ports does not keep neighbours from answering, or if another stream of theirs came
 * up and then fell silent, because a filter passes either both or none. */
enum diag_known diag_is_filtered(const struct diag_case *c)
{
    enum diag_known has_timed_out =
        diag_or(diag_known_of(c->sys_errno == ETIMEDOUT),
                diag_failed_to_reach(c->peer, c->host->name, ETIMEDOUT));

    if (c->sys_errno == EHOSTUNREACH || found_no_neighbour(c) ||
        fell_silent(c->host, c->peer_name) || fell_silent(c->peer, c->host->name)) {
        return DIAG_NO;
    }
    return diag_and(both_lived(c), has_timed_out);
}

/* ---- the management network ---- */

/* Returns YES if the host waits for a round of the job, or another host waits for it in one. */
static enum diag_known is_in_round(const struct diag_input *input,
                                   const struct diag_host *host)
{
    for (uint32_t i = 0; i < input->n_hosts; i++) {
        const struct diag_host *other = &input->hosts[i];

        for (uint32_t k = 0; k < other->n_waits; k++) {
            if (other->waits[k].what == WEFT_WAIT_ROUND &&
                (other == host || strcmp(other->waits[k].peer, host->name) == 0)) {
                return DIAG_YES;
            }
        }
    }
    return host->n_waits == 0 ? DIAG_UNKNOWN : DIAG_NO;
}

/* Returns true if the failure is one of the rendezvous, or of a connection that its policy makes
 * over the management network only. */
static bool is_over_management(const struct diag_case *c)
{
    return c->phase == WEFT_PHASE_BOOT || c->phase == WEFT_PHASE_NONE ||
           (c->phase == WEFT_PHASE_TCP &&
            diag_has_policy(c->host, WEFT_POLICY_WEFT) != DIAG_YES);
}

/* Returns YES if the host has no management network and the failure is of its absence: of the
 * network itself, or a wait without a reason of its own, while the host was in a round. */
static enum diag_known is_off_at(const struct diag_case *c, const struct diag_host *host)
{
    bool only_waited =
        c->status == WEFT_ERR_TIMEOUT && c->sys_errno == 0 && c->wc_status == 0;

    if (host == NULL || c->use != NULL ||
        (!host->was_observed && host->management_down == DIAG_UNKNOWN)) {
        return DIAG_NO;
    }
    if (is_over_management(c)) {
        return host->management_down;
    }
    return only_waited ? diag_and(host->management_down, is_in_round(c->input, host))
                       : DIAG_NO;
}

const struct diag_host *diag_host_off_management(const struct diag_case *c)
{
    for (uint32_t i = 0; diag_is_stall(c) && i < c->input->n_hosts; i++) {
        if (is_off_at(c, &c->input->hosts[i]) == DIAG_YES) {
            return &c->input->hosts[i];
        }
    }
    if (is_off_at(c, c->host) == DIAG_YES) {
        return c->host;
    }
    return is_off_at(c, c->peer) == DIAG_YES ? c->peer : NULL;
}

enum diag_known diag_is_management_down(const struct diag_case *c)
{
    return diag_host_off_management(c) != NULL
               ? DIAG_YES
               : diag_or(is_off_at(c, c->host), is_off_at(c, c->peer));
}

/* Returns YES if the peer waited in boot for this host, timed out and exited. */
enum diag_known diag_is_own_lateness(const struct diag_case *c)
{
    const struct diag_host *peer = c->peer;
    enum diag_known answer = peer == NULL || peer->n_errors == 0 ? DIAG_UNKNOWN : DIAG_NO;

    for (uint32_t i = 0; peer != NULL && i < peer->n_errors; i++) {
        const struct diag_error *error = &peer->errors[i];
        enum weft_phase phase = error->error.phase;
        enum diag_known is_boot = phase == WEFT_PHASE_NONE
                                      ? DIAG_UNKNOWN
                                      : diag_known_of(phase == WEFT_PHASE_BOOT);
        enum diag_known is_us =
            error->peer[0] == '\0'
                ? DIAG_UNKNOWN
                : diag_known_of(strcmp(error->peer, c->host->name) == 0);
        /* A missing status is decoded as WEFT_ERR_PROTOCOL. */
        enum diag_known is_wait =
            error->error.status == WEFT_ERR_PROTOCOL
                ? DIAG_UNKNOWN
                : diag_known_of(error->error.status == WEFT_ERR_TIMEOUT);

        answer = diag_or(answer, diag_and(is_boot, diag_and(is_us, is_wait)));
    }
    return answer;
}
