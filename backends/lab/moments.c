#include "backends/lab/moments.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backends/lab/watch.h"
#include "base/check.h"

#define NAMES_BYTES 4096

/* A port at which something is waited for. */
struct counted {
    uint32_t host, port;
    char device[LAB_NAME_BYTES * 2];
    uint64_t n_ready;   /* queue pairs that reached RTS */
    struct lab_tap tap; /* if a fault waits for a packet */
};

/* A fault that waits. */
struct waiting {
    uint32_t fault;
    const struct world_moment *moment;
    uint32_t counted; /* index */
    weft_ns at_ns;    /* WEFT_NEVER until the moment has come */
};

struct lab_moments {
    struct waiting *items; /* Owned [n] */
    uint32_t n;
    struct counted *ports; /* Owned [n_ports] */
    uint32_t n_ports;
    int ready_fd; /* Owned; -1 if none waits for a queue pair */
    /* Names of devices that have been read; the last may not have its newline yet. */
    char names[NAMES_BYTES];
    size_t n_names;
};

static uint32_t counted_of(struct lab_moments *moments, const struct lab_fabric *fabric,
                           const struct world_moment *moment)
{
    struct counted *counted;

    for (uint32_t i = 0; i < moments->n_ports; i++) {
        if (moments->ports[i].host == moment->host &&
            moments->ports[i].port == moment->port) {
            return i;
        }
    }
    counted = &moments->ports[moments->n_ports];
    *counted =
        (struct counted){.host = moment->host, .port = moment->port, .tap = {.fd = -1}};
    lab_device_name(fabric, moment->host, moment->port, counted->device,
                    sizeof(counted->device));
    return moments->n_ports++;
}

static weft_status begin_one(struct lab_moments *moments, const struct lab_fabric *fabric,
                             uint32_t fault, bool is_watched, struct weft_error *error)
{
    const struct world_moment *moment = &fabric->spec->faults[fault].moment;
    const struct lab_host *host = &fabric->hosts[moment->host];
    uint32_t index = counted_of(moments, fabric, moment);
    struct lab_tap *tap = &moments->ports[index].tap;

    moments->items[moments->n++] = (struct waiting){
        .fault = fault, .moment = moment, .counted = index, .at_ns = WEFT_NEVER};
    if (moment->kind == WORLD_MOMENT_PACKET) {
        if (tap->fd < 0) {
            lab_tap_open(fabric, &host->place, host->ports[moment->port].netdev, true,
                         tap);
        }
        return tap->fd >= 0
                   ? WEFT_OK
                   : weft_fail(error, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_EXEC,
                               "fault %u waits for a packet, and the kernel counts none",
                               fault + 1);
    }
    if (moments->ready_fd < 0 && is_watched) {
        moments->ready_fd = lab_watch_ready();
    }
    return moments->ready_fd >= 0
               ? WEFT_OK
               : weft_fail(error, WEFT_ERR_UNSUPPORTED, WEFT_PHASE_EXEC,
                           "fault %u waits for a queue pair in RTS, which only watched "
                           "programs show: drop --watch off, or wait for a packet",
                           fault + 1);
}

weft_status lab_moments_begin(const struct lab_fabric *fabric, bool is_watched,
                              struct lab_moments **out, struct weft_error *error)
{
    const struct world_spec *spec = fabric->spec;
    struct lab_moments *moments = weft_calloc(1, sizeof(*moments));
    weft_status status = WEFT_OK;

    *out = NULL;
    moments->ready_fd = -1;
    moments->items = weft_calloc((size_t)spec->n_faults + 1, sizeof(*moments->items));
    moments->ports = weft_calloc((size_t)spec->n_faults + 1, sizeof(*moments->ports));
    for (uint32_t i = 0; i < spec->n_faults && status == WEFT_OK; i++) {
        if (world_moment_is_of_programs(spec->faults[i].moment.kind)) {
            status = begin_one(moments, fabric, i, is_watched, error);
        }
    }
    if (status != WEFT_OK || moments->n == 0) {
        lab_moments_end(moments);
        return status;
    }
    *out = moments;
    return WEFT_OK;
}

/* ---- waiting ---- */

static bool is_awaited(const struct lab_moments *moments, uint32_t port)
{
    for (uint32_t i = 0; i < moments->n; i++) {
        const struct waiting *waiting = &moments->items[i];

        if (waiting->counted == port && waiting->at_ns == WEFT_NEVER &&
            waiting->moment->kind == WORLD_MOMENT_PACKET) {
            return true;
        }
    }
    return false;
}

uint32_t lab_moments_n(const struct lab_moments *moments)
{
    return moments != NULL ? moments->n_ports + 1 : 0;
}

uint32_t lab_moments_fds(const struct lab_moments *moments, struct pollfd *out)
{
    uint32_t n = 0;

    if (moments == NULL) {
        return 0;
    }
    out[n++] = (struct pollfd){.fd = moments->ready_fd, .events = POLLIN};
    for (uint32_t i = 0; i < moments->n_ports; i++) {
        if (is_awaited(moments, i)) {
            out[n++] = (struct pollfd){.fd = moments->ports[i].tap.fd, .events = POLLIN};
        }
    }
    return n;
}

/* ---- counting ---- */

static void count_ready(struct lab_moments *moments, const char *device)
{
    for (uint32_t i = 0; i < moments->n_ports; i++) {
        moments->ports[i].n_ready += strcmp(moments->ports[i].device, device) == 0;
    }
}

static void read_ready(struct lab_moments *moments)
{
    ssize_t n;

    while (moments->ready_fd >= 0 &&
           (n = read(moments->ready_fd, moments->names + moments->n_names,
                     sizeof(moments->names) - moments->n_names)) > 0) {
        char *from = moments->names, *end;

        moments->n_names += (size_t)n;
        while ((end = memchr(from, '\n',
                             moments->n_names - (size_t)(from - moments->names))) !=
               NULL) {
            *end = '\0';
            count_ready(moments, from);
            from = end + 1;
        }
        moments->n_names -= (size_t)(from - moments->names);
        memmove(moments->names, from, moments->n_names);
        if (moments->n_names == sizeof(moments->names)) {
            moments->n_names = 0; /* no name is that long */
        }
    }
}

/* Empties the queues, so that the next frame is noticed. */
static void read_frames(struct lab_moments *moments)
{
    char byte;

    for (uint32_t i = 0; i < moments->n_ports; i++) {
        struct lab_tap *tap = &moments->ports[i].tap;

        if (tap->fd >= 0) {
            while (recv(tap->fd, &byte, 1, MSG_DONTWAIT) >= 0) {
                continue;
            }
            (void)lab_tap_count(tap);
        }
    }
}

bool lab_moments_take(struct lab_moments *moments, weft_ns now)
{
    bool has_come = false;

    read_ready(moments);
    read_frames(moments);
    for (uint32_t i = 0; i < moments->n; i++) {
        struct waiting *waiting = &moments->items[i];
        const struct counted *counted = &moments->ports[waiting->counted];
        uint64_t n = waiting->moment->kind == WORLD_MOMENT_PACKET ? counted->tap.n_frames
                                                                  : counted->n_ready;

        if (waiting->at_ns == WEFT_NEVER && n >= waiting->moment->n) {
            waiting->at_ns = now;
            has_come = true;
        }
    }
    return has_come;
}

weft_ns lab_moments_at(const struct lab_moments *moments, uint32_t fault)
{
    for (uint32_t i = 0; moments != NULL && i < moments->n; i++) {
        if (moments->items[i].fault == fault) {
            return moments->items[i].at_ns;
        }
    }
    return WEFT_NEVER;
}

void lab_moments_end(struct lab_moments *moments)
{
    if (moments == NULL) {
        return;
    }
    for (uint32_t i = 0; i < moments->n_ports; i++) {
        if (moments->ports[i].tap.fd >= 0) {
            close(moments->ports[i].tap.fd);
        }
    }
    if (moments->ready_fd >= 0) {
        close(moments->ready_fd);
    }
    free(moments->items);
    free(moments->ports);
    free(moments);
}
