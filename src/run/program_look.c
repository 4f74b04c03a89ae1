#include "run/program_look.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "backends/registry.h"
#include "base/check.h"
#include "diag/observations.h"
#include "run/facts.h"

/* Carriers that a port has lost when it is new: veth takes that of both ends away once
 * (veth_newlink() of drivers/net/veth.c). */
#define LOSSES_WHEN_NEW 1

/* ---- inside the host ---- */

/* Opens the devices, which are discovered without waiting, and records the host's facts. */
static bool look_at_devices(struct io_env *env, struct diag_host *out)
{
    struct weft_error error = {0};
    struct rdma *rdma = NULL;
    struct io_task task;
    bool ok;

    io_task_init(&task, env->loop, env->host, 1);
    ok = rdma_open(env, &task, &rdma, &error) == WEFT_OK;
    if (ok) {
        run_facts_before(rdma, out);
    }
    rdma_close(rdma);
    io_task_fini(&task);
    return ok;
}

/* Takes over `value`. */
static void add_json(json_t *value, struct weft_text *out)
{
    char *text = json_dumps(value, JSON_COMPACT);

    weft_text_add(out, "%s", text != NULL ? text : "");
    free(text);
    json_decref(value);
}

static json_t *json_of(int64_t number)
{
    return number == IO_UNKNOWN ? json_null() : json_integer(number);
}

static int64_t number_of(const json_t *number)
{
    return json_is_integer(number) ? json_integer_value(number) : IO_UNKNOWN;
}

static json_t *losses_of(const struct world_host *host)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < host->n_ports; i++) {
        json_array_append_new(array,
                              json_of(backend_program_losses(host->ports[i].name)));
    }
    return array;
}

void program_look_make(const struct world_host *host, struct weft_log *log,
                       struct weft_text *out)
{
    struct diag_host facts = {.name = ""};
    struct weft_text watched = {NULL, 0, 0};
    struct weft_error error = {0};
    struct world *world = NULL;

    if (backend_site_world(false, log, &world, &error) != WEFT_OK) {
        return;
    }
    if (look_at_devices(world->ops->host_env(world, 0, 0), &facts)) {
        backend_program_watched(NULL, &watched);
        add_json(json_pack("{s:o, s:o, s:s%}", "host", diag_host_encode(&facts), "losses",
                           losses_of(host), "watched", watched.n > 0 ? watched.bytes : "",
                           watched.n),
                 out);
    }
    weft_text_fini(&watched);
    diag_host_fini(&facts);
    world->ops->destroy(world);
}

/* ---- outside ---- */

static const enum diag_counter counters[] = {
    [WORLD_PROGRAM_SENT] = DIAG_TX_PACKETS,
    [WORLD_PROGRAM_RECEIVED] = DIAG_RX_PACKETS,
    [WORLD_PROGRAM_RETRIED] = DIAG_RETRANSMITS,
    [WORLD_PROGRAM_OUT_OF_SEQUENCE] = DIAG_OUT_OF_SEQUENCE,
    [WORLD_PROGRAM_NOT_READY] = DIAG_RNR_NAKS_SENT,
}; /* the others are no counters of a NIC */

static json_t *counters_of(const struct world_spec *spec, uint32_t host,
                           program_look_device *device)
{
    json_t *ports = json_array();

    for (uint32_t i = 0; i < spec->hosts[host].n_ports; i++) {
        json_t *numbers = json_array();
        char name[256];

        device(spec, host, i, name, sizeof(name));
        for (int k = 0; k < WORLD_PROGRAM_N_COUNTS; k++) {
            json_array_append_new(numbers, json_of(backend_program_count(
                                               name, (enum world_program_count)k)));
        }
        json_array_append_new(ports, numbers);
    }
    return ports;
}

void program_look_outside(const struct world_spec *spec, program_look_device *device,
                          struct weft_text *out)
{
    json_t *hosts = json_array();

    for (uint32_t i = 0; i < spec->n_hosts; i++) {
        json_array_append_new(hosts, counters_of(spec, i, device));
    }
    add_json(hosts, out);
}

/* ---- decoding ---- */

/* Returns the port of `host` whose device has that name, or n_ports. */
static uint32_t find_port(const struct world_spec *spec, uint32_t host,
                          program_look_device *device, const char *name)
{
    uint32_t i;

    for (i = 0; i < spec->hosts[host].n_ports; i++) {
        char own[256];

        device(spec, host, i, own, sizeof(own));
        if (strcmp(own, name) == 0) {
            break;
        }
    }
    return i;
}

/* The caller owns `*out_losses` and `*out_watched`; both are NULL if it fails. */
static bool decode(const char *bytes, size_t n, struct diag_host *out,
                   json_t **out_losses, char **out_watched)
{
    struct weft_error error = {0};
    json_error_t where;
    json_t *object = json_loadb(bytes, n, 0, &where);
    const json_t *host = json_object_get(object, "host");
    bool ok = json_is_object(host) && diag_host_decode(host, out, &error) == WEFT_OK;

    if (!ok) {
        diag_host_fini(out);
    }
    *out_losses = ok ? json_incref(json_object_get(object, "losses")) : NULL;
    *out_watched =
        ok && json_is_string(json_object_get(object, "watched"))
            ? weft_strdup(json_string_value(json_object_get(object, "watched")))
            : NULL;
    json_decref(object);
    return ok;
}

void program_look_decode(const struct world_spec *spec, uint32_t host,
                         program_look_device *device, const char *bytes, size_t n,
                         struct program_look *out)
{
    const struct world_host *spec_host = &spec->hosts[host];
    json_t *losses;

    *out = (struct program_look){.is_seen = false};
    if (!decode(bytes, n, &out->host, &losses, &out->watched)) {
        return;
    }
    out->is_seen = true;
    weft_format(out->host.name, sizeof(out->host.name), "%s", spec_host->name);
    for (uint32_t i = 0; i < out->host.n_ports; i++) {
        struct diag_port *port = &out->host.ports[i];
        uint32_t index = find_port(spec, host, device, port->name);

        if (index < spec_host->n_ports) {
            weft_format(port->name, sizeof(port->name), "%s",
                        spec_host->ports[index].name);
        }
    }
    out->losses = weft_calloc((size_t)spec_host->n_ports + 1, sizeof(*out->losses));
    out->given_up = weft_calloc((size_t)spec_host->n_ports + 1, sizeof(*out->given_up));
    for (uint32_t i = 0; i < spec_host->n_ports; i++) {
        out->losses[i] = number_of(json_array_get(losses, i));
        out->given_up[i] = (struct program_given_up){IO_UNKNOWN, IO_UNKNOWN};
    }
    json_decref(losses);
}

static void take_given_up(const struct world_host *host, const json_t *ports,
                          struct program_given_up *out)
{
    for (uint32_t i = 0; i < host->n_ports; i++) {
        const json_t *numbers = json_array_get(ports, i);

        out[i] = (struct program_given_up){
            number_of(json_array_get(numbers, WORLD_PROGRAM_RETRY_EXCEEDED)),
            number_of(json_array_get(numbers, WORLD_PROGRAM_RNR_EXCEEDED))};
    }
}

static void take_counters(const struct world_host *host, const json_t *ports,
                          struct diag_host *out)
{
    for (uint32_t k = 0; k < out->n_ports; k++) {
        out->ports[k].counters[DIAG_RX_PAUSES] =
            0; /* veth receives no pauses (drivers/net/veth.c) */
    }
    for (uint32_t i = 0; i < host->n_ports; i++) {
        for (uint32_t k = 0; k < out->n_ports; k++) {
            for (size_t j = 0; j < WEFT_LENGTH(counters); j++) {
                if (strcmp(out->ports[k].name, host->ports[i].name) == 0) {
                    out->ports[k].counters[counters[j]] =
                        number_of(json_array_get(json_array_get(ports, i), j));
                }
            }
        }
    }
}

void program_look_count(const struct world_spec *spec, const char *bytes, size_t n,
                        struct program_look *looks)
{
    json_error_t where;
    json_t *hosts = json_loadb(bytes, n, 0, &where);

    for (uint32_t i = 0; hosts != NULL && i < spec->n_hosts; i++) {
        take_counters(&spec->hosts[i], json_array_get(hosts, i), &looks[i].host);
        if (looks[i].is_seen) {
            take_given_up(&spec->hosts[i], json_array_get(hosts, i), looks[i].given_up);
        }
    }
    json_decref(hosts);
}

/* Returns `value`, or IO_UNKNOWN if `counter` is. */
static int64_t as_known(int64_t counter, int64_t value)
{
    return counter == IO_UNKNOWN ? IO_UNKNOWN : value;
}

void program_look_reset(const struct world_host *host, struct program_look *look)
{
    for (uint32_t i = 0; i < look->host.n_ports; i++) {
        struct diag_port *port = &look->host.ports[i];

        port->is_up = DIAG_YES;
        for (int k = 0; k < DIAG_N_COUNTERS; k++) {
            port->counters[k] = as_known(port->counters[k], 0);
        }
    }
    for (uint32_t i = 0; look->is_seen && i < host->n_ports; i++) {
        struct program_given_up *given_up = &look->given_up[i];

        look->losses[i] = as_known(look->losses[i], LOSSES_WHEN_NEW);
        given_up->unanswered = as_known(given_up->unanswered, 0);
        given_up->not_ready = as_known(given_up->not_ready, 0);
    }
}

void program_look_fini(struct program_look *look)
{
    diag_host_fini(&look->host);
    free(look->losses);
    free(look->given_up);
    free(look->watched);
    *look = (struct program_look){.is_seen = false};
}
