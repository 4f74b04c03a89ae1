#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "diag/private.h"

/* Returns the name of the same fact as the failed end reported it. */
static enum weft_value_name name_here(const struct diag_case *c,
                                      enum weft_value_name name)
{
    return c->is_turned ? weft_value_turned(name) : name;
}

static const struct weft_value *value_of(const struct diag_case *c,
                                         enum weft_value_name name)
{
    return weft_error_value(&c->failure->error, name_here(c, name));
}

const char *diag_text(const struct diag_case *c, enum weft_value_name name)
{
    const struct weft_value *value = value_of(c, name);

    return value != NULL ? value->text : NULL;
}

const char *diag_phase_name(const struct diag_case *c)
{
    return c->phase != WEFT_PHASE_NONE ? weft_phase_name(c->phase) : "unknown";
}

int64_t diag_number(const struct diag_case *c, enum weft_value_name name)
{
    const struct weft_value *value = value_of(c, name);

    return value != NULL ? value->number : IO_UNKNOWN;
}

/* Returns the peer's ports as it observed them itself, otherwise as it described them to the host
 * that failed, otherwise to any host. */
static struct diag_ports ports_of_peer(const struct diag_case *c)
{
    struct diag_ports described = diag_ports_described(c->host, c->peer_name);

    if ((c->peer != NULL && c->peer->n_ports > 0) || described.n == 0) {
        return diag_ports_of(c->input, c->peer_name);
    }
    return described;
}

/* Returns the only port with this address; NULL if none or several have it, as fe80::1. */
static const struct diag_port *port_by_ip(const struct diag_ports *ports,
                                          const struct io_ip *ip)
{
    const struct diag_port *found = NULL;

    for (uint32_t i = 0; i < ports->n; i++) {
        for (uint32_t j = 0; j < ports->items[i].n_gids; j++) {
            if (!io_ip_equal(&ports->items[i].gids[j].ip, ip)) {
                continue;
            }
            if (found != NULL && found != &ports->items[i]) {
                return NULL;
            }
            found = &ports->items[i];
        }
    }
    return found;
}

/* Uses the first two ports that face each other, because a missing route concerns the ports that
 * would have provided it. */
static void find_facing(struct diag_case *c)
{
    for (uint32_t i = 0; i < c->local.n; i++) {
        for (uint32_t j = 0; j < c->remote.n; j++) {
            if (diag_facing(&c->local.items[i], &c->remote.items[j]) == DIAG_YES) {
                c->local_port = &c->local.items[i];
                c->remote_port = &c->remote.items[j];
                return;
            }
        }
    }
}

static bool ip_value(const struct diag_case *c, enum weft_value_name name,
                     struct io_ip *out)
{
    const char *text = diag_text(c, name);

    return text != NULL && io_ip_parse(text, out);
}

static weft_status status_by_name(const char *name)
{
    for (int status = WEFT_OK; status >= WEFT_ERR_ENVIRONMENT; status--) {
        if (name != NULL && strcmp(weft_status_name((weft_status)status), name) == 0) {
            return (weft_status)status;
        }
    }
    return WEFT_ERR_PROTOCOL;
}

/* Swaps both ends if the peer reported its failure, because the report describes the same rail from
 * the peer's end. */
static void turn_round(struct diag_case *c)
{
    const struct weft_error *error = &c->failure->error;
    const struct weft_value *phase = weft_error_value(error, WEFT_VALUE_PEER_PHASE);
    const struct diag_host *host = c->host;
    int64_t number;

    if (c->failure->source == DIAG_OWN || phase == NULL || c->peer == NULL ||
        weft_phase_find(phase->text) == WEFT_PHASE_PEER) {
        return;
    }
    c->phase = weft_phase_find(phase->text);
    c->status = status_by_name(diag_text(c, WEFT_VALUE_PEER_STATUS));
    number = diag_number(c, WEFT_VALUE_PEER_ERRNO);
    c->sys_errno = number == IO_UNKNOWN ? 0 : (int)number;
    number = diag_number(c, WEFT_VALUE_PEER_WC_STATUS);
    c->wc_status = number == IO_UNKNOWN ? 0 : (int)number;
    c->is_turned = true;
    c->host = c->peer;
    c->peer = host;
    c->peer_name = host->name;
}

/* Returns the peer's port of the rail that `host` used to the peer through local_port. NULL if it
 * used none, or several with different ports. */
static const char *used_port(const struct diag_case *c)
{
    const char *found = NULL;

    for (uint32_t i = 0; c->local_port != NULL && i < c->host->n_uses; i++) {
        const struct diag_use *use = &c->host->uses[i];

        if (strcmp(use->peer, c->peer_name) != 0 ||
            strcmp(use->local_port, c->local_port->name) != 0) {
            continue;
        }
        if (found != NULL && strcmp(found, use->remote_port) != 0) {
            return NULL;
        }
        found = use->remote_port;
    }
    return found;
}

static void find_ports(struct diag_case *c)
{
    c->local = diag_ports_of(c->input, c->host->name);
    c->remote = c->peer_name[0] != '\0' ? ports_of_peer(c) : c->remote;
    if (c->local_port == NULL) {
        c->local_port = diag_port_named(&c->local, diag_text(c, WEFT_VALUE_LOCAL_PORT));
    }
    if (c->local_port == NULL && c->has_local_gid) {
        c->local_port = port_by_ip(&c->local, &c->local_gid);
    }
    if (c->remote_port == NULL) {
        c->remote_port =
            diag_port_named(&c->remote, diag_text(c, WEFT_VALUE_REMOTE_PORT));
    }
    if (c->remote_port == NULL && c->has_remote_gid) {
        c->remote_port = port_by_ip(&c->remote, &c->remote_gid);
    }
    if (c->remote_port == NULL) {
        c->remote_port = diag_port_named(&c->remote, used_port(c));
    }
}

/* Returns true if `member` runs on `host`. "titanic/1" is the second process of "titanic". */
static bool is_of(const char *member, const char *host)
{
    size_t length = strcspn(member, "/");

    return strlen(host) == length && strncmp(member, host, length) == 0;
}

/* Returns the host that data was for (value "peer"), because the failed connection can lead to a
 * relay on the path. */
static const char *other_end(const struct diag_input *input, const struct diag_host *host,
                             const struct diag_error *failure)
{
    const struct weft_value *peer = weft_error_value(&failure->error, WEFT_VALUE_PEER);
    const struct diag_host *named;

    if (peer == NULL || is_of(host->name, peer->text) ||
        is_of(failure->peer, peer->text)) {
        return failure->peer;
    }
    named = diag_find_host(input, peer->text);
    return named == NULL ? failure->peer : named->name;
}

static void start_case(struct diag_case *c, const struct diag_input *input,
                       const struct diag_host *host, const struct diag_error *failure)
{
    *c = (struct diag_case){
        .input = input,
        .host = host,
        .failure = failure,
        .peer = diag_find_host(input, other_end(input, host, failure)),
        .peer_name = other_end(input, host, failure),
        .status = failure->error.status,
        .phase = failure->error.phase,
        .sys_errno = failure->error.sys_errno,
        .wc_status = failure->error.wc_status,
        .path_mtu = IO_UNKNOWN,
    };
}

void diag_case_init(struct diag_case *c, const struct diag_input *input,
                    const struct diag_host *host, const struct diag_error *failure)
{
    start_case(c, input, host, failure);
    turn_round(c);
    c->has_local_gid = ip_value(c, WEFT_VALUE_LOCAL_GID, &c->local_gid);
    c->has_remote_gid = ip_value(c, WEFT_VALUE_REMOTE_GID, &c->remote_gid);
    c->local_type = diag_text(c, WEFT_VALUE_LOCAL_GID_TYPE);
    c->remote_type = diag_text(c, WEFT_VALUE_REMOTE_GID_TYPE);
    c->path_mtu = diag_number(c, WEFT_VALUE_PATH_MTU);
    find_ports(c);
    if (c->status == WEFT_ERR_ROUTE && c->local_port == NULL) {
        find_facing(c);
    }
}

void diag_case_init_use(struct diag_case *c, const struct diag_input *input,
                        const struct diag_host *host, const struct diag_error *failure,
                        const struct diag_use *use)
{
    start_case(c, input, host, failure);
    c->use = use;
    c->peer = diag_find_host(input, use->peer);
    c->peer_name = use->peer;
    c->has_local_gid = io_ip_parse(use->local_gid, &c->local_gid);
    c->has_remote_gid = io_ip_parse(use->remote_gid, &c->remote_gid);
    c->path_mtu = use->path_mtu;
    c->local = diag_ports_of(input, host->name);
    c->remote = diag_ports_of(input, use->peer);
    c->local_port = diag_port_named(&c->local, use->local_port);
    c->remote_port = diag_port_named(&c->remote, use->remote_port);
    find_ports(c);
}

struct diag_case diag_case_from_far(const struct diag_case *c)
{
    struct diag_case turned = *c;

    turned.is_turned = !c->is_turned;
    turned.is_seen_from_far = true;
    turned.host = c->peer;
    turned.peer = c->host;
    turned.peer_name = c->host->name;
    turned.local = c->remote;
    turned.remote = c->local;
    turned.local_port = c->remote_port;
    turned.remote_port = c->local_port;
    turned.has_local_gid = c->has_remote_gid;
    turned.local_gid = c->remote_gid;
    turned.has_remote_gid = c->has_local_gid;
    turned.remote_gid = c->local_gid;
    turned.local_type = c->remote_type;
    turned.remote_type = c->local_type;
    return turned;
}

/* ---- processes that exited ---- */

/* Returns true if the peer's kernel closed or reset the control stream. A process that fails in
 * order first sends a closing message. A port that went down and a member that left the rendezvous
 * in order also have status CLOSED. */
static bool is_cut_off(const struct diag_error *error)
{
    const struct weft_value *ended =
        weft_error_value(&error->error, WEFT_VALUE_STREAM_ENDED);

    if (ended != NULL && ended->number == 1) {
        /* This is the stream of the rendezvous, on which a member that leaves sends a closing
         * message. */
        return true;
    }
    bool was_closed = error->error.status == WEFT_ERR_CLOSED &&
                      error->error.phase != WEFT_PHASE_PORT &&
                      error->error.phase != WEFT_PHASE_BOOT;

    return error->source == DIAG_OWN &&
           (was_closed || error->error.sys_errno == ECONNRESET ||
            error->error.sys_errno == EPIPE);
}

bool diag_is_of_no_connection(const struct weft_error *error)
{
    return error->status == WEFT_ERR_SYSTEM && error->phase == WEFT_PHASE_TCP &&
           error->sys_errno == 0;
}

enum diag_known diag_peer_died(const struct diag_case *c)
{
    if (c->peer != NULL && c->peer->was_observed) {
        return DIAG_NO; /* it exited only after it had reported */
    }
    if (c->peer != NULL && c->peer->has_vanished) {
        return DIAG_YES;
    }
    if (c->peer != NULL && c->peer->has_hung) {
        /* A host that cannot reach it cannot distinguish a hang from an exit. */
        return DIAG_UNKNOWN;
    }
    for (uint32_t i = 0; i < c->input->n_hosts; i++) {
        const struct diag_host *host = &c->input->hosts[i];

        for (uint32_t j = 0; j < host->n_errors; j++) {
            const struct diag_error *error = &host->errors[j];

            if (is_cut_off(error) && c->peer_name[0] != '\0' &&
                strcmp(error->peer, c->peer_name) == 0) {
                return DIAG_YES;
            }
        }
    }
    return DIAG_UNKNOWN;
}

/* ---- findings ---- */

static const char *state_text(const struct diag_port *port)
{
    if (port == NULL || port->is_up == DIAG_UNKNOWN) {
        return "unknown";
    }
    return port->is_up == DIAG_YES ? "up" : "down";
}

static void describe_port(struct diag_finding *out, const struct diag_port *port,
                          const char *name_of, const char *state_of, const char *mtu_of)
{
    diag_evidence_text(out, name_of, port != NULL ? port->name : "unknown");
    diag_evidence_text(out, state_of, state_text(port));
    diag_evidence_int(out, mtu_of, port != NULL ? port->netdev_mtu : IO_UNKNOWN);
}

static void describe_counters(struct diag_finding *out, const struct diag_port *port,
                              const char *end)
{
    for (int i = 0; port != NULL && i < DIAG_N_COUNTERS; i++) {
        char name[32];
        bool is_frames = i == DIAG_TX_PACKETS || i == DIAG_RX_PACKETS;

        if (port->counters[i] > 0 || (is_frames && port->counters[i] == 0)) {
            weft_format(name, sizeof(name), "%s_%s", end,
                        diag_counter_name((enum diag_counter)i));
            diag_evidence_int(out, name, port->counters[i]);
        }
    }
}

static bool any_has_address(struct diag_ports ports)
{
    for (uint32_t i = 0; i < ports.n; i++) {
        if (diag_has_address(&ports.items[i]) == DIAG_YES) {
            return true;
        }
    }
    return false;
}

/* Returns true if a value of the failure would mislead. It says that there are no addresses
 * although only unusable ports have some, or it concerns the end that did not cause the failure. */
static bool misleads(const struct diag_case *c, enum weft_value_name name,
                     const char *text)
{
    if (name == WEFT_VALUE_GID_WAS_READ) {
        return true; /* only the progress of the program; the GID itself is printed */
    }
    bool is_none = strcmp(text, "none") == 0;

    if (is_none && name == WEFT_VALUE_LOCAL_ADDRESSES) {
        return any_has_address(c->local);
    }
    if (is_none && name == WEFT_VALUE_REMOTE_ADDRESSES) {
        return any_has_address(c->remote);
    }
    return c->is_seen_from_far &&
           (name == WEFT_VALUE_PEER || name == WEFT_VALUE_SGID_INDEX);
}

static void describe_values(const struct diag_case *c, struct diag_finding *out)
{
    const struct weft_error *error = &c->failure->error;

    for (unsigned i = 0; i < error->n_values; i++) {
        const struct weft_value *value = &error->values[i];
        enum weft_value_name name = name_here(c, value->name);

        if (misleads(c, name, value->text)) {
            continue;
        }
        if (weft_value_kind(name) == WEFT_KIND_TEXT) {
            diag_evidence_text(out, weft_value_name(name), value->text);
        } else {
            diag_evidence_int(out, weft_value_name(name), value->number);
        }
    }
}

void diag_evidence_slot(struct diag_finding *out, const struct diag_port *port,
                        int64_t index)
{
    char text[IO_IP_TEXT_BYTES] = "unknown";

    if (index == IO_UNKNOWN || index == DIAG_NO_GID_INDEX) {
        return;
    }
    diag_evidence_int(out, "fixed_index", index);
    if (port != NULL && port->has_gids && !diag_may_lack_gids(port)) {
        weft_format(text, sizeof(text), "empty");
    }
    for (uint32_t i = 0; port != NULL && i < port->n_gids; i++) {
        if (port->gids[i].index == index) {
            io_ip_format(&port->gids[i].ip, text, sizeof(text));
        } else if (port->gids[i].index == IO_UNKNOWN) {
            weft_format(text, sizeof(text), "unknown");
            break;
        }
    }
    diag_evidence_text(out, "fixed_slot", text);
}

/* Adds facts that support the cause and that the failure itself does not contain. */
static void describe_cause(const struct diag_case *c, struct diag_finding *out)
{
    if (out->entry == NULL) {
        return;
    }
    if (out->entry->id == DIAG_GID_FIXED_INDEX) {
        diag_evidence_slot(out, c->local_port, c->host->gid_index);
    } else if (out->entry->id == DIAG_MESH_RANK_ORDER) {
        diag_evidence_text(out, "better_order", c->input->rank_order.better_order);
    } else if (out->entry->id == DIAG_CONN_TIMEOUT) {
        diag_evidence_text(out, "limit",
                           c->phase == WEFT_PHASE_BOOT ? "of the rendezvous (--patience)"
                           : c->phase == WEFT_PHASE_NONE
                               ? "unknown"
                               : "of set-up, which no setting changes");
    }
}

void diag_describe_at(const struct diag_case *c, const char *host, const char *port,
                      const char *peer, struct diag_finding *out)
{
    out->n_evidence = 0;
    diag_name_place(out, host, port, peer);
    diag_evidence_text(out, "phase", diag_phase_name(c));
    if (c->sys_errno != 0) {
        diag_evidence_int(out, "errno", c->sys_errno);
    }
}

void diag_describe(const struct diag_case *c, struct diag_finding *out)
{
    diag_describe_at(c, c->host->name, c->local_port != NULL ? c->local_port->name : "",
                     c->peer_name, out);
    if (c->wc_status != 0) {
        diag_evidence_int(out, "wc_status", c->wc_status);
    }
    describe_cause(c, out);
    if (c->use == NULL) {
        describe_values(c, out);
    } else {
        bool is_far = c->is_seen_from_far;

        diag_evidence_text(out, "local_gid",
                           is_far ? c->use->remote_gid : c->use->local_gid);
        diag_evidence_text(out, "remote_gid",
                           is_far ? c->use->local_gid : c->use->remote_gid);
    }
    if (c->peer_name[0] != '\0') {
        describe_port(out, c->local_port, "local_port", "local_state", "local_mtu");
        describe_port(out, c->remote_port, "remote_port", "remote_state", "remote_mtu");
        describe_counters(out, c->local_port, "local");
        describe_counters(out, c->remote_port, "remote");
    }
}
