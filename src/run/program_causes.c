#include "run/program_causes.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "run/facts.h"
#include "run/program_observed.h"
#include "run/program_watched.h"

#define RETRY_EXC 12     /* IBV_WC_RETRY_EXC_ERR */
#define RNR_RETRY_EXC 13 /* IBV_WC_RNR_RETRY_EXC_ERR */

bool program_causes_any(const struct program_facts *facts, uint32_t n)
{
    bool any = false;

    for (uint32_t i = 0; i < n; i++) {
        any = any || program_has_exited_badly(&facts[i]) ||
              program_how(&facts[i]) == PROGRAM_HANGS;
    }
    return any;
}

void program_end_now(struct program_facts *facts, const struct program_look *look,
                     weft_ns now)
{
    if (facts->has_begun && !facts->has_ended) {
        facts->has_ended = true;
        facts->end = WORLD_PROGRAM_EXITED;
        facts->ended_ns = now;
        facts->code =
            look->watched != NULL && program_watched_has_failed(look->watched, facts->id);
    }
}

/* ---- lost carriers ---- */

void program_cuts_follow(const struct world_spec *spec, uint32_t fault, bool undo,
                         weft_ns now, bool *keeps_down, struct program_cut *cuts,
                         uint32_t *n_cuts)
{
    const struct world_fault *it = &spec->faults[fault];
    struct program_cut cut = {it->host, it->port, now};
    bool is_down = it->kind == (undo ? WORLD_FAULT_UP : WORLD_FAULT_DOWN);
    bool is_dark = false;

    if (it->kind != WORLD_FAULT_UP && it->kind != WORLD_FAULT_DOWN) {
        return;
    }
    for (uint32_t i = 0; i < spec->n_faults; i++) {
        const struct world_fault *other = &spec->faults[i];

        if (!is_down && other->host == it->host && other->port == it->port) {
            keeps_down[i] = false;
        }
        is_dark = is_dark || (keeps_down[i] && program_shares_carrier(spec, other->host,
                                                                      other->port, &cut));
    }
    if (is_down && !is_dark) {
        cuts[(*n_cuts)++] = cut;
    }
    keeps_down[fault] = is_down;
}

/* ---- failures ---- */

static bool has_gid(const struct diag_host *host, const char *gid)
{
    struct io_ip ip;

    for (uint32_t i = 0; io_ip_parse(gid, &ip) && i < host->n_ports; i++) {
        for (uint32_t g = 0; g < host->ports[i].n_gids; g++) {
            if (io_ip_equal(&host->ports[i].gids[g].ip, &ip)) {
                return true;
            }
        }
    }
    return false;
}

/* Returns the other host of the job or, if there are several, the only one with the GID that the
 * program received. PROGRAM_NONE if there is none. */
static uint32_t peer_of(const struct program_observing *o, uint32_t program)
{
    const struct program_causes *causes = o->causes;
    uint32_t n = 0, n_with = 0, found = PROGRAM_NONE, found_with = PROGRAM_NONE;

    for (uint32_t h = 0; h < causes->spec->n_hosts; h++) {
        bool runs = false;

        for (uint32_t i = 0; i < causes->n; i++) {
            runs = runs || causes->facts[i].host == h;
        }
        if (!runs || h == causes->facts[program].host) {
            continue;
        }
        n++;
        found = h;
        if (has_gid(&causes->after[h].host, o->words[program].remote_gid)) {
            n_with++;
            found_with = h;
        }
    }
    return n == 1 ? found : n_with == 1 ? found_with : PROGRAM_NONE;
}

/* Returns the program on `host`; PROGRAM_NONE if there is none or more than one. */
static uint32_t program_on(const struct program_causes *causes, uint32_t host)
{
    uint32_t found = PROGRAM_NONE;

    for (uint32_t i = 0; i < causes->n; i++) {
        if (causes->facts[i].host == host && found != PROGRAM_NONE) {
            return PROGRAM_NONE;
        }
        found = causes->facts[i].host == host ? i : found;
    }
    return found;
}

/* Returns the only port with the GID that the program printed; NULL if none or several have it. */
static const struct diag_port *port_by_gid(const struct program_observing *o,
                                           uint32_t program)
{
    const struct diag_host *seen = &o->out->hosts[o->causes->facts[program].host];
    const struct diag_port *found = NULL;
    struct io_ip ip;

    if (!io_ip_parse(o->words[program].local_gid, &ip)) {
        return NULL;
    }
    for (uint32_t k = 0; k < seen->n_ports; k++) {
        for (uint32_t g = 0; g < seen->ports[k].n_gids; g++) {
            if (!io_ip_equal(&seen->ports[k].gids[g].ip, &ip)) {
                continue;
            }
            if (found != NULL && found != &seen->ports[k]) {
                return NULL;
            }
            found = &seen->ports[k];
        }
    }
    return found;
}

/* Returns the port whose device the program printed, otherwise the one that its command names; NULL
 * if there is none, or several. */
static const struct diag_port *port_by_name(const struct program_observing *o,
                                            uint32_t program)
{
    const struct program_causes *causes = o->causes;
    uint32_t host = causes->facts[program].host;
    const struct world_host *spec = &causes->spec->hosts[host];
    const char *printed = o->words[program].device;
    const char *text = printed[0] != '\0' ? printed : causes->commands[program];
    const struct diag_port *found = NULL;
    uint32_t n = 0;

    for (uint32_t i = 0; i < spec->n_ports; i++) {
        char name[256];

        causes->device(causes->spec, host, i, name, sizeof(name));
        if (program_words_have(text, name)) {
            n++;
            found = diag_find_port(&o->out->hosts[host], spec->ports[i].name);
        }
    }
    return n == 1 ? found : NULL;
}

/* Returns the GID of the port by which the kernel reaches `ip`; NULL if the port does not. */
static const struct diag_gid *gid_towards(const struct diag_port *port,
                                          const struct io_ip *ip)
{
    for (uint32_t i = 0; i < port->n_gids; i++) {
        const struct diag_gid *gid = &port->gids[i];

        if (gid->type == 2 && gid->prefix_len > 0 &&
            io_ip_same_subnet(&gid->ip, ip, (unsigned)gid->prefix_len)) {
            return gid;
        }
    }
    return NULL;
}

/* Returns the only port with a route to the peer's address, which librdmacm uses; NULL if the
 * program chooses otherwise, or if there is none or several. */
static const struct diag_port *port_by_route(const struct program_observing *o,
                                             uint32_t program)
{
    const struct diag_host *seen = &o->out->hosts[o->causes->facts[program].host];
    const struct diag_port *found = NULL;
    struct io_ip ip;
    uint32_t n = 0;

    if (!o->words[program].is_routed || !io_ip_parse(o->words[program].remote_gid, &ip)) {
        return NULL;
    }
    for (uint32_t i = 0; i < seen->n_ports; i++) {
        if (gid_towards(&seen->ports[i], &ip) != NULL) {
            n++;
            found = &seen->ports[i];
        }
    }
    return n == 1 ? found : NULL;
}

static const struct diag_port *port_of(const struct program_observing *o,
                                       uint32_t program)
{
    const struct diag_host *seen = &o->out->hosts[o->causes->facts[program].host];
    const struct diag_port *port = port_by_gid(o, program);

    port = port != NULL ? port : port_by_name(o, program);
    port = port != NULL ? port : port_by_route(o, program);
    return port == NULL && seen->n_ports == 1 ? &seen->ports[0] : port;
}

/* Returns the GID that the program printed, otherwise the one of its route to the peer, or the one
 * in the slot that its flags select. */
static const struct diag_gid *gid_of(const struct program_observing *o, uint32_t program,
                                     const struct diag_port *port)
{
    const struct program_words *words = &o->words[program];
    struct io_ip ip;
    bool has_ip = io_ip_parse(words->local_gid, &ip);

    if (!has_ip && port != NULL && words->is_routed &&
        io_ip_parse(words->remote_gid, &ip)) {
        return gid_towards(port, &ip);
    }
    for (uint32_t i = 0; port != NULL && i < port->n_gids; i++) {
        const struct diag_gid *gid = &port->gids[i];

        if (has_ip ? io_ip_equal(&gid->ip, &ip)
                   : words->gid_index != PROGRAM_NO_INDEX && gid->index != IO_UNKNOWN &&
                         gid->index == words->gid_index) {
            return gid;
        }
    }
    return NULL;
}

/* Adds the facts about one end, the peer's as "remote". If the GID is in no table any more, adds it
 * as the program printed it. */
static void add_end(const struct program_observing *o, uint32_t program, bool is_peer,
                    bool with_gid, struct weft_error *out)
{
    const struct diag_port *port = port_of(o, program);
    const struct diag_gid *gid = gid_of(o, program, port);
    enum weft_value_name name;
    char text[IO_IP_TEXT_BYTES];

    if (port != NULL) {
        name = is_peer ? WEFT_VALUE_REMOTE_PORT : WEFT_VALUE_LOCAL_PORT;
        weft_error_text(out, name, port->name);
    }
    if (!with_gid) {
        return;
    }
    name = is_peer ? WEFT_VALUE_REMOTE_GID : WEFT_VALUE_LOCAL_GID;
    if (gid != NULL) {
        weft_error_text(out, name, io_ip_format(&gid->ip, text, sizeof(text)));
    } else if (o->words[program].local_gid[0] != '\0') {
        weft_error_text(out, name, o->words[program].local_gid);
    }
    if (gid != NULL && gid->type != 0) {
        name = is_peer ? WEFT_VALUE_REMOTE_GID_TYPE : WEFT_VALUE_LOCAL_GID_TYPE;
        weft_error_text(out, name, gid->type == 1 ? "RoCE v1" : "RoCE v2");
    }
}

/* Returns the larger path MTU of both ends, because the larger one can fail. */
static int path_mtu_of(const struct program_observing *o, uint32_t program,
                       uint32_t other)
{
    int mtu = o->words[program].path_mtu;

    return other != PROGRAM_NONE && o->words[other].path_mtu > mtu
               ? o->words[other].path_mtu
               : mtu;
}

/* Returns true if both ends received packets during the job, so that the path was right at some
 * time. */
static bool has_worked(const struct program_observing *o, uint32_t program,
                       uint32_t other)
{
    const struct diag_port *near = port_of(o, program);
    const struct diag_port *far = other != PROGRAM_NONE ? port_of(o, other) : NULL;

    return near != NULL && far != NULL && near->counters[DIAG_RX_PACKETS] > 0 &&
           far->counters[DIAG_RX_PACKETS] > 0;
}

/* Returns true if neither end sent a packet during the job. Each may wait for the other, so nothing
 * on the path is the cause. */
static bool has_sent_nothing(const struct program_observing *o, uint32_t program,
                             uint32_t other)
{
    const struct diag_port *near = port_of(o, program);
    const struct diag_port *far = other != PROGRAM_NONE ? port_of(o, other) : NULL;

    return near != NULL && far != NULL && near->counters[DIAG_TX_PACKETS] == 0 &&
           far->counters[DIAG_TX_PACKETS] == 0;
}

/* Returns true if the program uses a link-local GID. Two of them reach each other over a cable. */
static bool is_link_local(const struct program_observing *o, uint32_t program)
{
    const struct diag_gid *gid = gid_of(o, program, port_of(o, program));

    return gid != NULL && io_ip_is_link_local(&gid->ip);
}

/* Adds the facts about both ends and their ports that can explain the failure. */
static void add_ends(const struct program_observing *o, uint32_t program, uint32_t other,
                     struct weft_error *out)
{
    bool waits = program_hangs(o, program);
    bool is_idle = waits && has_sent_nothing(o, program, other);
    bool is_unanswered = waits || out->wc_status == RETRY_EXC;
    bool with_gid = !is_idle && !(is_unanswered && other != PROGRAM_NONE &&
                                  is_link_local(o, program) && is_link_local(o, other));

    if (with_gid && o->words[program].has_read_gid) {
        weft_error_int(out, WEFT_VALUE_GID_WAS_READ, 1);
    }
    add_end(o, program, false, with_gid, out);
    if (other != PROGRAM_NONE) {
        add_end(o, other, true, with_gid, out);
    }
    if (with_gid && o->words[program].remote_gid[0] != '\0' &&
        weft_error_value(out, WEFT_VALUE_REMOTE_GID) == NULL) {
        weft_error_text(out, WEFT_VALUE_REMOTE_GID, o->words[program].remote_gid);
    }
    if (!is_idle && path_mtu_of(o, program, other) > 0) {
        weft_error_int(out, WEFT_VALUE_PATH_MTU, path_mtu_of(o, program, other));
    }
    if (is_unanswered && has_worked(o, program, other)) {
        weft_error_int(out, WEFT_VALUE_SMALL_PASSED, 1);
    }
}

/* Inserts `error` in time order, after those of the same time. */
static void insert(struct diag_host *host, const struct diag_error *error)
{
    uint32_t at = host->n_errors++;

    host->errors = weft_realloc(host->errors, host->n_errors * sizeof(*host->errors));
    for (; at > 0 && host->errors[at - 1].at_ns > error->at_ns; at--) {
        host->errors[at] = host->errors[at - 1];
    }
    host->errors[at] = *error;
}

/* Fills the error of a program that did not end. If its peer exited before, the error is that the
 * peer left. */
static void fail_of_waiting(const struct program_observing *o, uint32_t program,
                            uint32_t other, struct weft_error *out)
{
    const struct program_facts *peer =
        other != PROGRAM_NONE ? &o->causes->facts[other] : NULL;

    weft_error_clear(out);
    if (peer != NULL && program_how(peer) == PROGRAM_EXITED && !program_hangs(o, other) &&
        peer->ended_ns < o->causes->facts[program].ended_ns) {
        weft_fail(out, WEFT_ERR_CLOSED, WEFT_PHASE_DATA,
                  "the program did not end, its peer did");
        weft_error_int(out, WEFT_VALUE_PEER_EXITED, 1);
    } else {
        weft_fail(out, WEFT_ERR_TIMEOUT, WEFT_PHASE_DATA, "the program did not end");
    }
}

/* Adds that a server waits for its client, if nothing was sent, so that none has come. */
static void add_wait(const struct program_observing *o, uint32_t program)
{
    const struct program_facts *facts = &o->causes->facts[program];
    struct diag_host *host = &o->out->hosts[facts->host];
    uint32_t peer = peer_of(o, program);
    struct diag_wait *wait;

    if (!o->words[program].waits_for_client || peer == PROGRAM_NONE ||
        !has_sent_nothing(o, program, program_on(o->causes, peer))) {
        return;
    }
    host->waits =
        weft_realloc(host->waits, ((size_t)host->n_waits + 1) * sizeof(*host->waits));
    wait = &host->waits[host->n_waits++];
    *wait = (struct diag_wait){.what = WEFT_WAIT_CLIENT, .waited_ns = IO_UNKNOWN};
    weft_format(wait->peer, sizeof(wait->peer), "%s", o->causes->spec->hosts[peer].name);
}

/* Returns the program at the host whose process failed. A launcher (mpirun) prints what processes
 * at other hosts write. What was read from it is then moved to the program at that host. */
static uint32_t move_to_failed(const struct program_observing *o, uint32_t launcher)
{
    struct program_words *from = &o->words[launcher];

    for (uint32_t h = 0; h < o->causes->spec->n_hosts; h++) {
        uint32_t at = program_on(o->causes, h);

        if (at != PROGRAM_NONE && at != launcher &&
            strcmp(o->causes->spec->hosts[h].name, from->host) == 0) {
            o->words[at] = *from;
            *from = (struct program_words){.gid_index = PROGRAM_NO_INDEX};
            return at;
        }
    }
    if (from->host[0] != '\0' &&
        strcmp(o->causes->spec->hosts[o->causes->facts[launcher].host].name,
               from->host) != 0) {
        /* It is a process of another host, which is in no program. */
        from->device[0] = from->remote_gid[0] = '\0';
        from->gid_index = PROGRAM_NO_INDEX;
    }
    return launcher;
}

static bool has_grown(int64_t before, int64_t after)
{
    return before != IO_UNKNOWN && after != IO_UNKNOWN && after > before;
}

/* Returns the status of a request that the device of the program's port gave up during the job, as
 * the kernel counted it; 0 if there is none. */
static int status_by_device(const struct program_observing *o, uint32_t program)
{
    uint32_t host = o->causes->facts[program].host;
    const struct world_host *spec = &o->causes->spec->hosts[host];
    const struct program_given_up *before = o->causes->before[host].given_up;
    const struct program_given_up *after = o->causes->after[host].given_up;
    const struct diag_port *port = port_of(o, program);

    uint32_t i = port == NULL ? spec->n_ports : world_port_index(spec, port->name);

    if (before == NULL || i == spec->n_ports) {
        return 0;
    }
    return has_grown(before[i].unanswered, after[i].unanswered) ? RETRY_EXC
           : has_grown(before[i].not_ready, after[i].not_ready) ? RNR_RETRY_EXC
                                                                : 0;
}

/* Fills the error of a program that printed none. */
static void fail_of_silent(const struct program_observing *o, uint32_t program,
                           uint32_t ended, struct weft_error *out)
{
    int status = status_by_device(o, program);

    if (status != 0) {
        weft_fail_completion(out, status, WEFT_PHASE_DATA, "its device says so");
    } else {
        weft_fail(out, WEFT_ERR_SYSTEM, WEFT_PHASE_PROGRAM, "it ended with status %d",
                  program_status(&o->causes->facts[ended]));
    }
}

static void add_failure(const struct program_observing *o, uint32_t ended)
{
    bool waits = program_hangs(o, ended);
    uint32_t program = waits ? ended : move_to_failed(o, ended);
    const struct program_facts *facts = &o->causes->facts[program];
    uint32_t peer = peer_of(o, program);
    uint32_t other = peer == PROGRAM_NONE ? PROGRAM_NONE : program_on(o->causes, peer);
    struct diag_error error = {.error = o->words[program].error,
                               .at_ns = o->causes->facts[ended].ended_ns,
                               .source = DIAG_OWN};

    if (waits && !o->words[program].is_watched) {
        fail_of_waiting(o, program, other, &error.error);
    } else if (error.error.status == WEFT_OK) {
        fail_of_silent(o, program, ended, &error.error);
    }
    if (peer != PROGRAM_NONE) {
        weft_format(error.peer, sizeof(error.peer), "%s",
                    o->causes->spec->hosts[peer].name);
    }
    /* Otherwise it did not select a port. */
    if (error.error.phase != WEFT_PHASE_DISCOVER) {
        add_ends(o, program, other, &error.error);
    }
    insert(&o->out->hosts[facts->host], &error);
}

/* Returns true if a program hangs because another one failed: its peer, or any program if the peer
 * is unknown. */
static bool is_consequence(const struct program_observing *o, uint32_t program)
{
    uint32_t peer = peer_of(o, program);
    bool any = false;

    for (uint32_t i = 0; i < o->causes->n; i++) {
        const struct program_facts *facts = &o->causes->facts[i];

        any = any || (program_is_bad(o, i) &&
                      facts->ended_ns <= o->causes->facts[program].ended_ns &&
                      (peer == PROGRAM_NONE || facts->host == peer));
    }
    return any;
}

static void add_watched(const struct program_facts *facts,
                        const struct program_look *looks, struct program_words *words)
{
    if (looks[facts->host].watched != NULL) {
        program_watched_read(looks[facts->host].watched, facts->id, words);
    }
}

void program_causes_observe(const struct program_causes *causes, struct diag_input *out)
{
    struct program_observing o = {.causes = causes, .out = out};

    o.words = weft_calloc((size_t)causes->n + 1, sizeof(*o.words));
    out->hosts = weft_calloc((size_t)causes->spec->n_hosts + 1, sizeof(*out->hosts));
    out->n_hosts = causes->spec->n_hosts;
    out->rank_order.is_known = true; /* there are no ranks */
    run_facts_cables(causes->spec, false, out);
    for (uint32_t i = 0; i < causes->n; i++) {
        program_words_read(causes->commands[i], causes->facts[i].output.bytes,
                           &o.words[i]);
        add_watched(&causes->facts[i], causes->after, &o.words[i]);
    }
    o.first_bad_ns = program_first_bad(&o, PROGRAM_NONE);
    for (uint32_t i = 0; i < out->n_hosts; i++) {
        program_observe_host(&o, i, &out->hosts[i]);
    }
    for (uint32_t i = 0; i < causes->n; i++) {
        bool waits = program_hangs(&o, i) && !out->hosts[causes->facts[i].host].has_hung;

        if (program_is_bad(&o, i) || (waits && !is_consequence(&o, i))) {
            add_failure(&o, i);
        }
        if (waits) {
            add_wait(&o, i);
        }
    }
    free(o.words);
}
