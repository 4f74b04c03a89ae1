#include "run/program_queues.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "run/program_observed.h"
#include "run/program_watched.h"

enum state { RESET, INIT, RTR, RTS, SQD, SQE, ERR, N_STATES }; /* enum ibv_qp_state */

/* The other end of a queue pair, as far as it is known. */
struct far_end {
    uint32_t host; /* PROGRAM_NONE if no port, or several, have the GID */
    const struct diag_port *port;
    bool is_watched; /* a program of its host has records */
    bool has_qp;
    bool has_ended; /* the program of the queue pair */
    struct program_qp qp;
};

static const char *state_name(int64_t state)
{
    static const char *const names[N_STATES] = {"RESET", "INIT", "RTR", "RTS",
                                                "SQD",   "SQE",  "ERR"};

    return state >= 0 && state < N_STATES ? names[state] : "unknown";
}

static bool has_ended(const struct program_causes *causes, uint32_t id)
{
    bool has = false;

    for (uint32_t i = 0; i < causes->n; i++) {
        const struct program_facts *facts = &causes->facts[i];

        has = has || (facts->id == id && facts->has_ended &&
                      program_how(facts) != PROGRAM_HANGS);
    }
    return has;
}

static void find_port(const struct program_causes *causes, const char *gid,
                      struct far_end *out)
{
    struct io_ip ip;
    uint32_t n = 0;

    for (uint32_t h = 0; io_ip_parse(gid, &ip) && h < causes->spec->n_hosts; h++) {
        const struct diag_host *host = &causes->after[h].host;

        for (uint32_t i = 0; i < host->n_ports; i++) {
            for (uint32_t g = 0; g < host->ports[i].n_gids; g++) {
                if (io_ip_equal(&host->ports[i].gids[g].ip, &ip)) {
                    out->host = h;
                    out->port = &host->ports[i];
                    n++;
                }
            }
        }
    }
    out->host = n == 1 ? out->host : PROGRAM_NONE;
}

/* Finds the queue pair with the peer's number on the device of its port. */
static void find_qp(const struct program_causes *causes, int64_t number,
                    struct far_end *out)
{
    const struct world_host *host = &causes->spec->hosts[out->host];
    const char *records = causes->after[out->host].watched;
    struct program_qp *qps;
    char name[256] = "";
    uint32_t n;

    for (uint32_t i = 0; i < host->n_ports; i++) {
        if (strcmp(host->ports[i].name, out->port->name) == 0) {
            causes->device(causes->spec, out->host, i, name, sizeof(name));
        }
    }
    out->is_watched = records != NULL;
    qps = records != NULL ? program_watched_qps(records, &n) : NULL;
    for (uint32_t i = 0; qps != NULL && i < n; i++) {
        if (qps[i].number == number && strcmp(qps[i].device, name) == 0) {
            out->has_qp = true;
            out->qp = qps[i];
            out->has_ended = has_ended(causes, qps[i].program);
        }
    }
    free(qps);
}

/* Returns what keeps packets from being exchanged; "" if nothing is known. */
static const char *obstacle(const struct program_qp *own, const struct far_end *far)
{
    if (own->state == ERR) {
        return "; it is in error and sends nothing";
    }
    if (own->state < RTR) {
        return "; it drops what arrives until its program moves it to RTR";
    }
    if (far->host == PROGRAM_NONE) {
        return "";
    }
    if (far->has_qp && far->has_ended) {
        return "; its peer's program has ended";
    }
    if (!far->has_qp) {
        return far->is_watched ? "; its peer has no such queue pair (any more)" : "";
    }
    if (far->qp.state == ERR) {
        return "; its peer is in error and does not answer";
    }
    return far->qp.state < RTR ? "; its peer drops what arrives until it is in RTR"
           : far->qp.peer_number != own->number
               ? "; its peer is connected to another queue pair"
           : own->state == RTR && far->qp.state == RTR
               ? "; neither sends until it is in RTS"
               : "";
}

static void add_line(const struct program_causes *causes, const struct program_qp *qp,
                     struct weft_text *out)
{
    struct far_end far = {.host = PROGRAM_NONE};

    weft_text_add(out, "  queue pair %" PRId64 " of %s: %s", qp->number, qp->device,
                  state_name(qp->state));
    if (qp->peer_number < 0) {
        weft_text_add(out, ", not connected");
    } else {
        find_port(causes, qp->peer_gid, &far);
        weft_text_add(out, ", to queue pair %" PRId64, qp->peer_number);
    }
    if (far.host != PROGRAM_NONE) {
        find_qp(causes, qp->peer_number, &far);
        weft_text_add(out, " of %s:%s", causes->spec->hosts[far.host].name,
                      far.port->name);
        weft_text_add(out, "%s%s", far.has_qp && !far.has_ended ? ", which is in " : "",
                      far.has_qp && !far.has_ended ? state_name(far.qp.state) : "");
    } else if (qp->peer_gid[0] != '\0') {
        weft_text_add(out, " at GID %s, which is not one port's", qp->peer_gid);
    }
    weft_text_add(out, "%s\n", obstacle(qp, &far));
}

void program_queues_list(const struct program_causes *causes, uint32_t host, uint32_t id,
                         struct weft_text *out)
{
    const char *records = causes->after[host].watched;
    uint32_t n = 0, n_listed = 0;
    struct program_qp *qps = records != NULL ? program_watched_qps(records, &n) : NULL;

    for (uint32_t i = 0; i < n; i++) {
        if (qps[i].program == id && n_listed++ < PROGRAM_QUEUES_MAX) {
            add_line(causes, &qps[i], out);
        }
    }
    if (n_listed > PROGRAM_QUEUES_MAX) {
        weft_text_add(out, "  and %u more queue pairs\n", n_listed - PROGRAM_QUEUES_MAX);
    }
    free(qps);
}
