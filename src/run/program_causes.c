#include "run/program_causes.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "run/facts.h"
#include "run/program_words.h"

#define NONE UINT32_MAX

struct observing {
    const struct program_causes *causes;
    struct program_words *words; /* Owned [n] */
    bool has_exited;             /* a program ended, and failed */
    struct diag_input *out;
};

static bool has_exited_badly(const struct program_facts *facts)
{
    enum program_how how = program_how(facts);

    return how == PROGRAM_NOT_RUN || how == PROGRAM_SIGNALLED ||
           (how == PROGRAM_EXITED && program_status(facts) != 0);
}

bool program_causes_any(const struct program_facts *facts, uint32_t n)
{
    bool any = false;

    for (uint32_t i = 0; i < n; i++) {
        any =
            any || has_exited_badly(&facts[i]) || program_how(&facts[i]) == PROGRAM_HANGS;
    }
    return any;
}

/* ---- hosts ---- */

/* A carrier that is lost raises an event at whoever listens; that a host counted it is as much. */
static void add_events(const struct world_host *host, const struct program_look *before,
                       const struct program_look *after, struct diag_host *out)
{
    out->has_events = true;
    for (uint32_t i = 0; i < host->n_ports; i++) {
        int64_t n = !before->is_seen || before->losses[i] == IO_UNKNOWN ||
                            after->losses[i] == IO_UNKNOWN
                        ? 0
                        : after->losses[i] - before->losses[i];

        for (int64_t k = 0; k < n && k < 16; k++) {
            struct diag_event *event;

            out->events =
                weft_realloc(out->events, (out->n_events + 1) * sizeof(*out->events));
            event = &out->events[out->n_events++];
            *event = (struct diag_event){.type = "port_error", .at_ns = IO_UNKNOWN};
            weft_format(event->port, sizeof(event->port), "%s", host->ports[i].name);
        }
    }
}

static struct diag_port *copy_ports(const struct diag_host *from)
{
    struct diag_port *ports = weft_calloc((size_t)from->n_ports + 1, sizeof(*ports));

    if (from->n_ports > 0) {
        memcpy(ports, from->ports, from->n_ports * sizeof(*ports));
    }
    return ports;
}

/* A host all of whose programs a fault killed tells nothing any more. */
static bool is_dead(const struct program_causes *causes, uint32_t host)
{
    bool any_killed = false;
    bool any_other = false;

    for (uint32_t i = 0; i < causes->n; i++) {
        bool is_killed = program_how(&causes->facts[i]) == PROGRAM_KILLED;

        any_killed = any_killed || (causes->facts[i].host == host && is_killed);
        any_other = any_other || (causes->facts[i].host == host && !is_killed);
    }
    return any_killed && !any_other;
}

/* Returns true if a program there was given its device by name: it chose none. */
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

static void observe_host(const struct program_causes *causes, uint32_t host,
                         struct diag_host *out)
{
    const struct program_look *look = &causes->after[host];

    weft_format(out->name, sizeof(out->name), "%s", causes->spec->hosts[host].name);
    out->memlock_bytes = out->gid_index = IO_UNKNOWN;
    out->has_vanished = is_dead(causes, host);
    out->has_hung = causes->is_stopped[host];
    if (names_device(causes, host)) {
        weft_format(out->policy, sizeof(out->policy), "its command line");
    }
    if (!look->is_seen || out->has_vanished || out->has_hung) {
        return;
    }
    out->was_observed = true;
    out->memlock_bytes = look->host.memlock_bytes;
    out->forwards_ip = look->host.forwards_ip;
    out->gid_index = DIAG_NO_GID_INDEX; /* a program asks for what it is told */
    out->merges_nics = DIAG_NO;         /* each port is a device */
    out->ports = copy_ports(&look->host);
    out->n_ports = look->host.n_ports;
    for (uint32_t i = 0; i < out->n_ports; i++) {
        out->ports[i].is_opened = DIAG_UNKNOWN; /* by a program that is not ours */
    }
    add_events(&causes->spec->hosts[host], &causes->before[host], look, out);
}

/* ---- failures ---- */

/* The other host of the job; NONE where there is none, or several. */
static uint32_t peer_of(const struct program_causes *causes, uint32_t program)
{
    uint32_t found = NONE;

    for (uint32_t i = 0; i < causes->n; i++) {
        uint32_t host = causes->facts[i].host;

        if (host == causes->facts[program].host || host == found) {
            continue;
        }
        if (found != NONE) {
            return NONE;
        }
        found = host;
    }
    return found;
}

/* The program on the peer; NONE if it runs several. */
static uint32_t program_on(const struct program_causes *causes, uint32_t host)
{
    uint32_t found = NONE;

    for (uint32_t i = 0; i < causes->n; i++) {
        if (causes->facts[i].host == host && found != NONE) {
            return NONE;
        }
        found = causes->facts[i].host == host ? i : found;
    }
    return found;
}

/* The port whose device the program's command names, else the one with the GID that it wrote, else
 * the only one that there is. */
static const struct diag_port *port_of(const struct observing *o, uint32_t program)
{
    const struct program_causes *causes = o->causes;
    uint32_t host = causes->facts[program].host;
    const struct world_host *spec = &causes->spec->hosts[host];
    const struct diag_host *seen = &o->out->hosts[host];
    struct io_ip ip;

    for (uint32_t i = 0; i < spec->n_ports; i++) {
        char name[256];

        causes->device(causes->spec, host, i, name, sizeof(name));
        for (uint32_t k = 0; k < seen->n_ports; k++) {
            if (program_words_have(causes->commands[program], name) &&
                strcmp(seen->ports[k].name, spec->ports[i].name) == 0) {
                return &seen->ports[k];
            }
        }
    }
    for (uint32_t k = 0; k < seen->n_ports; k++) {
        for (uint32_t g = 0; g < seen->ports[k].n_gids; g++) {
            if (io_ip_parse(o->words[program].local_gid, &ip) &&
                io_ip_equal(&seen->ports[k].gids[g].ip, &ip)) {
                return &seen->ports[k];
            }
        }
    }
    return seen->n_ports == 1 ? &seen->ports[0] : NULL;
}

/* The GID that the program wrote, else the one in the slot that it asks for. */
static const struct diag_gid *gid_of(const struct observing *o, uint32_t program,
                                     const struct diag_port *port)
{
    const struct program_words *words = &o->words[program];
    struct io_ip ip;
    bool has_ip = io_ip_parse(words->local_gid, &ip);

    for (uint32_t i = 0; port != NULL && i < port->n_gids; i++) {
        if (has_ip ? io_ip_equal(&port->gids[i].ip, &ip)
                   : port->gids[i].index == words->gid_index) {
            return &port->gids[i];
        }
    }
    return NULL;
}

/* Adds what is known of one end, as "local" or "remote". */
static void add_end(const struct observing *o, uint32_t program, const char *end,
                    struct weft_error *out)
{
    const struct diag_port *port = port_of(o, program);
    const struct diag_gid *gid = gid_of(o, program, port);
    char name[32];
    char text[IO_IP_TEXT_BYTES];

    if (port != NULL) {
        weft_format(name, sizeof(name), "%s_port", end);
        weft_error_text(out, name, port->name);
    }
    if (gid != NULL) {
        weft_format(name, sizeof(name), "%s_gid", end);
        weft_error_text(out, name, io_ip_format(&gid->ip, text, sizeof(text)));
        weft_format(name, sizeof(name), "%s_gid_type", end);
        weft_error_text(out, name, gid->type == 1 ? "RoCE v1" : "RoCE v2");
    }
}

/* Both ends must use the lesser for it to work: the larger is what may fail. */
static int path_mtu_of(const struct observing *o, uint32_t program, uint32_t other)
{
    int mtu = o->words[program].path_mtu;

    return other != NONE && o->words[other].path_mtu > mtu ? o->words[other].path_mtu
                                                           : mtu;
}

static void add_failure(struct observing *o, uint32_t program)
{
    const struct program_causes *causes = o->causes;
    const struct program_facts *facts = &causes->facts[program];
    struct diag_host *host = &o->out->hosts[facts->host];
    uint32_t peer = peer_of(causes, program);
    uint32_t other = peer == NONE ? NONE : program_on(causes, peer);
    struct diag_error *error;

    host->errors =
        weft_realloc(host->errors, (host->n_errors + 1) * sizeof(*host->errors));
    error = &host->errors[host->n_errors++];
    *error = (struct diag_error){
        .error = o->words[program].error, .at_ns = facts->ended_ns, .source = DIAG_OWN};
    if (!has_exited_badly(facts)) {
        weft_error_clear(&error->error);
        weft_fail(&error->error, WEFT_ERR_TIMEOUT, "data", "the program did not end");
    } else if (error->error.status == WEFT_OK) {
        weft_fail(&error->error, WEFT_ERR_SYSTEM, "program", "it ended with status %d",
                  program_status(facts));
    }
    if (peer != NONE) {
        weft_format(error->peer, sizeof(error->peer), "%s",
                    causes->spec->hosts[peer].name);
    }
    if (strcmp(error->error.phase, "discover") == 0) {
        return; /* it has not come to a port */
    }
    if (o->words[program].local_gid[0] != '\0') {
        weft_error_int(&error->error, "gid_was_read", 1);
    }
    add_end(o, program, "local", &error->error);
    if (other != NONE) {
        add_end(o, other, "remote", &error->error);
    }
    if (path_mtu_of(o, program, other) > 0) {
        weft_error_int(&error->error, "path_mtu", path_mtu_of(o, program, other));
    }
}

static int compare_errors(const void *left, const void *right)
{
    const struct diag_error *a = left, *b = right;

    return a->at_ns != b->at_ns ? (a->at_ns < b->at_ns ? -1 : 1) : 0;
}

void program_causes_observe(const struct program_causes *causes, struct diag_input *out)
{
    struct observing o = {.causes = causes, .out = out};

    o.words = weft_calloc((size_t)causes->n + 1, sizeof(*o.words));
    out->hosts = weft_calloc((size_t)causes->spec->n_hosts + 1, sizeof(*out->hosts));
    out->n_hosts = causes->spec->n_hosts;
    out->rank_order.is_known = true; /* there are no ranks */
    run_facts_cables(causes->spec, out);
    for (uint32_t i = 0; i < out->n_hosts; i++) {
        observe_host(causes, i, &out->hosts[i]);
    }
    for (uint32_t i = 0; i < causes->n; i++) {
        program_words_read(causes->commands[i], causes->facts[i].output.bytes,
                           &o.words[i]);
        o.has_exited = o.has_exited || has_exited_badly(&causes->facts[i]);
    }
    for (uint32_t i = 0; i < causes->n; i++) {
        bool hangs = program_how(&causes->facts[i]) == PROGRAM_HANGS &&
                     !causes->is_stopped[causes->facts[i].host];

        if (has_exited_badly(&causes->facts[i]) || (hangs && !o.has_exited)) {
            add_failure(&o, i);
        }
    }
    for (uint32_t i = 0; i < out->n_hosts; i++) {
        if (out->hosts[i].n_errors > 0) {
            qsort(out->hosts[i].errors, out->hosts[i].n_errors,
                  sizeof(*out->hosts[i].errors), compare_errors);
        }
    }
    free(o.words);
}
