#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "diag/private.h"

const struct diag_host *diag_find_host(const struct diag_input *input, const char *name)
{
    for (uint32_t i = 0; i < input->n_hosts; i++) {
        if (name[0] != '\0' && strcmp(input->hosts[i].name, name) == 0) {
            return &input->hosts[i];
        }
    }
    return NULL;
}

const char *diag_text(const struct diag_case *c, const char *name)
{
    const struct weft_value *value = weft_error_value(&c->failure->error, name);

    return value != NULL && value->kind == WEFT_VALUE_TEXT ? value->text : NULL;
}

int64_t diag_number(const struct diag_case *c, const char *name)
{
    const struct weft_value *value = weft_error_value(&c->failure->error, name);

    return value != NULL && value->kind == WEFT_VALUE_INT ? value->number : IO_UNKNOWN;
}

/* The peer's own observation is best, then what it told the host that failed, then what it
 * told anybody. */
static struct diag_ports ports_of_peer(const struct diag_case *c)
{
    if (c->peer != NULL && c->peer->n_ports > 0) {
        return (struct diag_ports){c->peer->ports, c->peer->n_ports};
    }
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < c->input->n_hosts; i++) {
            const struct diag_host *host = &c->input->hosts[i];

            if ((pass == 0) != (host == c->host)) {
                continue;
            }
            for (uint32_t j = 0; j < host->n_told; j++) {
                if (strcmp(host->told[j].peer, c->peer_name) == 0) {
                    return (struct diag_ports){host->told[j].ports,
                                               host->told[j].n_ports};
                }
            }
        }
    }
    return (struct diag_ports){NULL, 0};
}

static const struct diag_port *port_by_name(const struct diag_ports *ports,
                                            const char *name)
{
    for (uint32_t i = 0; name != NULL && i < ports->n; i++) {
        if (strcmp(ports->items[i].name, name) == 0) {
            return &ports->items[i];
        }
    }
    return NULL;
}

/* The one port that has this address; NULL if none or several (fe80::1 on each). */
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

/* A route that was not found concerns the ports that would have made it. */
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

static bool ip_value(const struct diag_case *c, const char *name, struct io_ip *out)
{
    const char *text = diag_text(c, name);

    return text != NULL && io_ip_parse(text, out);
}

void diag_case_init(struct diag_case *c, const struct diag_input *input,
                    const struct diag_host *host, const struct diag_error *failure)
{
    *c = (struct diag_case){
        .input = input,
        .host = host,
        .failure = failure,
        .peer = diag_find_host(input, failure->peer),
        .peer_name = failure->peer,
        .local = {host->ports, host->n_ports},
    };
    c->remote = c->peer_name[0] != '\0' ? ports_of_peer(c) : c->remote;
    c->has_local_gid = ip_value(c, "local_gid", &c->local_gid);
    c->has_remote_gid = ip_value(c, "remote_gid", &c->remote_gid);
    c->local_type = diag_text(c, "local_gid_type");
    c->remote_type = diag_text(c, "remote_gid_type");
    c->path_mtu = diag_number(c, "path_mtu");
    c->local_port = port_by_name(&c->local, diag_text(c, "local_port"));
    if (c->local_port == NULL && c->has_local_gid) {
        c->local_port = port_by_ip(&c->local, &c->local_gid);
    }
    c->remote_port = port_by_name(&c->remote, diag_text(c, "remote_port"));
    if (c->remote_port == NULL && c->has_remote_gid) {
        c->remote_port = port_by_ip(&c->remote, &c->remote_gid);
    }
    if (failure->error.status == WEFT_ERR_ROUTE && c->local_port == NULL) {
        find_facing(c);
    }
}

/* ---- subnets ---- */

enum diag_known diag_faces(const struct diag_port *port, const struct io_ip *ip)
{
    enum diag_known answer = DIAG_NO;

    if (port == NULL || !port->has_gids || io_ip_is_link_local(ip)) {
        return DIAG_UNKNOWN;
    }
    for (uint32_t i = 0; i < port->n_gids; i++) {
        const struct diag_gid *gid = &port->gids[i];

        if (gid->prefix_len == IO_UNKNOWN) {
            answer = DIAG_UNKNOWN;
        } else if (gid->prefix_len > 0 &&
                   io_ip_same_subnet(&gid->ip, ip, (unsigned)gid->prefix_len)) {
            return DIAG_YES;
        }
    }
    return answer;
}

enum diag_known diag_any_faces(struct diag_ports ports, const struct diag_port *but,
                               const struct io_ip *ip)
{
    enum diag_known answer = ports.n == 0 ? DIAG_UNKNOWN : DIAG_NO;

    for (uint32_t i = 0; i < ports.n; i++) {
        enum diag_known one;

        if (&ports.items[i] == but) {
            continue;
        }
        one = diag_faces(&ports.items[i], ip);
        if (one == DIAG_YES) {
            return DIAG_YES;
        }
        answer = one == DIAG_UNKNOWN ? DIAG_UNKNOWN : answer;
    }
    return answer;
}

enum diag_known diag_facing(const struct diag_port *a, const struct diag_port *b)
{
    enum diag_known answer = DIAG_NO;

    if (!a->has_gids || !b->has_gids) {
        return DIAG_UNKNOWN;
    }
    for (uint32_t i = 0; i < b->n_gids; i++) {
        const struct io_ip *ip = &b->gids[i].ip;
        enum diag_known one;

        if (b->gids[i].prefix_len == 0 || io_ip_is_link_local(ip)) {
            continue; /* no address behind it, or one that faces everybody */
        }
        one = diag_faces(a, ip);
        if (one == DIAG_YES && b->gids[i].prefix_len != IO_UNKNOWN) {
            return DIAG_YES;
        }
        answer = one == DIAG_NO ? answer : DIAG_UNKNOWN;
    }
    return answer;
}

enum diag_known diag_any_facing(struct diag_ports local, struct diag_ports remote)
{
    enum diag_known answer = local.n == 0 || remote.n == 0 ? DIAG_UNKNOWN : DIAG_NO;

    for (uint32_t i = 0; i < local.n; i++) {
        for (uint32_t j = 0; j < remote.n; j++) {
            enum diag_known one = diag_facing(&local.items[i], &remote.items[j]);

            if (one == DIAG_YES) {
                return DIAG_YES;
            }
            answer = one == DIAG_UNKNOWN ? DIAG_UNKNOWN : answer;
        }
    }
    return answer;
}

/* ---- states ---- */

enum diag_known diag_was_down(const struct diag_host *host, const struct diag_port *port)
{
    if (port == NULL) {
        return DIAG_UNKNOWN;
    }
    if (port->is_up == DIAG_NO) {
        return DIAG_YES;
    }
    if (host == NULL || !host->has_events) {
        return DIAG_UNKNOWN;
    }
    for (uint32_t i = 0; i < host->n_events; i++) {
        if (strcmp(host->events[i].type, "port_error") == 0 &&
            strcmp(host->events[i].port, port->name) == 0) {
            return DIAG_YES;
        }
    }
    return port->is_up == DIAG_YES ? DIAG_NO : DIAG_UNKNOWN;
}

/* Its kernel closed or reset the control stream: a process that fails in order says goodbye. */
static bool is_cut_off(const struct diag_error *error)
{
    return !error->is_hearsay &&
           (error->error.status == WEFT_ERR_CLOSED ||
            error->error.sys_errno == ECONNRESET || error->error.sys_errno == EPIPE);
}

enum diag_known diag_peer_died(const struct diag_case *c)
{
    if (c->peer != NULL && c->peer->was_observed) {
        return DIAG_NO; /* it lived to tell */
    }
    if (c->peer != NULL && c->peer->has_vanished) {
        return DIAG_YES;
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

static struct weft_value *add(struct diag_finding *out, const char *name)
{
    struct weft_value *value;

    for (uint32_t i = 0; i < out->n_evidence; i++) {
        if (strcmp(out->evidence[i].name, name) == 0) {
            return NULL;
        }
    }
    if (out->n_evidence == DIAG_EVIDENCE_MAX) {
        return NULL;
    }
    value = &out->evidence[out->n_evidence++];
    *value = (struct weft_value){0};
    weft_format(value->name, sizeof(value->name), "%s", name);
    return value;
}

void diag_evidence_text(struct diag_finding *out, const char *name, const char *text)
{
    struct weft_value *value = add(out, name);

    if (value != NULL) {
        value->kind = WEFT_VALUE_TEXT;
        weft_format(value->text, sizeof(value->text), "%s", text);
    }
}

void diag_evidence_int(struct diag_finding *out, const char *name, int64_t number)
{
    struct weft_value *value;

    if (number == IO_UNKNOWN) {
        diag_evidence_text(out, name, "unknown");
        return;
    }
    value = add(out, name);
    if (value != NULL) {
        value->kind = WEFT_VALUE_INT;
        value->number = number;
    }
}

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

void diag_describe(const struct diag_case *c, struct diag_finding *out)
{
    const struct weft_error *error = &c->failure->error;

    weft_format(out->host, sizeof(out->host), "%s", c->host->name);
    weft_format(out->peer, sizeof(out->peer), "%s", c->peer_name);
    if (c->local_port != NULL) {
        weft_format(out->port, sizeof(out->port), "%s", c->local_port->name);
    }
    diag_evidence_text(out, "phase", error->phase[0] != '\0' ? error->phase : "unknown");
    if (error->sys_errno != 0) {
        diag_evidence_int(out, "errno", error->sys_errno);
    }
    if (error->wc_status != 0) {
        diag_evidence_int(out, "wc_status", error->wc_status);
    }
    for (unsigned i = 0; i < error->n_values && i < 12; i++) {
        const struct weft_value *value = &error->values[i];

        if (value->kind == WEFT_VALUE_TEXT) {
            diag_evidence_text(out, value->name, value->text);
        } else {
            diag_evidence_int(out, value->name, value->number);
        }
    }
    if (c->peer_name[0] != '\0') {
        describe_port(out, c->local_port, "local_port", "local_state", "local_mtu");
        describe_port(out, c->remote_port, "remote_port", "remote_state", "remote_mtu");
    }
}
