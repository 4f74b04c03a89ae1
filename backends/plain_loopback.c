#include "backends/plain_loopback.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { HOSTS_MAX = 16, PORTS_MAX = 16, CABLES_MAX = 64 };

#define RATE_BPS UINT64_C(10000000000)
#define DELAY_PS 1000000 /* of a simulated cable */

struct plain_loopback {
    struct world_spec spec;
    uint32_t self;
    struct world_host hosts[HOSTS_MAX];
    char host_names[HOSTS_MAX][16];
    struct world_port ports[HOSTS_MAX][PORTS_MAX];
    char port_names[HOSTS_MAX][PORTS_MAX][16];
    struct io_prefix addresses[HOSTS_MAX][PORTS_MAX];
    struct world_cable cables[CABLES_MAX];
    uint64_t root_bps;
    struct world_setting settings[3];
};

/* Reads a number below `end` at *at, and advances *at behind it. */
static bool read_number(const char **at, uint32_t end, uint32_t *out)
{
    char *behind = NULL;
    unsigned long number = strtoul(*at, &behind, 10);

    if (behind == *at || **at < '0' || **at > '9' || number >= end) {
        return false;
    }
    *at = behind;
    *out = (uint32_t)number;
    return true;
}

static bool add_end(struct plain_loopback *self, uint32_t side, uint32_t host,
                    uint32_t other)
{
    uint32_t cable = self->spec.n_cables, twins = 0, port = self->hosts[host].n_ports;
    struct io_prefix *address;

    if (port == PORTS_MAX) {
        return false;
    }
    address = &self->addresses[host][port];
    for (uint32_t i = 0; i < cable; i++) {
        const struct world_end *ends = self->cables[i].ends;

        twins += (ends[0].node == host && ends[1].node == other) ||
                 (ends[1].node == host && ends[0].node == other);
    }
    weft_format(self->port_names[host][port], sizeof(self->port_names[host][port]),
                twins == 0 ? "p%u" : "p%u.%u", other, twins);
    *address = (struct io_prefix){
        io_ip_v4(192, 168, (uint8_t)(101 + cable), (uint8_t)(1 + side)), 24};
    self->ports[host][port] = (struct world_port){.name = self->port_names[host][port],
                                                  .device = port,
                                                  .port = 1,
                                                  .rate_bps = RATE_BPS,
                                                  .mtu_bytes = 9000,
                                                  .addresses = address,
                                                  .n_addresses = 1};
    self->hosts[host].n_ports++;
    self->cables[cable].ends[side] = (struct world_end){.node = host, .port = port};
    return true;
}

static bool add_cable(struct plain_loopback *self, uint32_t a, uint32_t b)
{
    uint32_t last = a > b ? a : b;

    if (a == b || self->spec.n_cables == CABLES_MAX || !add_end(self, 0, a, b) ||
        !add_end(self, 1, b, a)) {
        return false;
    }
    self->cables[self->spec.n_cables].rate_bps = RATE_BPS;
    self->cables[self->spec.n_cables].up = true;
    self->spec.n_cables++;
    self->spec.n_hosts = last >= self->spec.n_hosts ? last + 1 : self->spec.n_hosts;
    return true;
}

static bool read_cables(struct plain_loopback *self, const char *at)
{
    while (*(at += strspn(at, " ,")) != '\0') {
        uint32_t a, b;

        if (!read_number(&at, HOSTS_MAX, &a) || *at++ != '-' ||
            !read_number(&at, HOSTS_MAX, &b) || !add_cable(self, a, b)) {
            return false;
        }
    }
    return self->self < self->spec.n_hosts;
}

static bool read_mesh(struct plain_loopback *self, const char *at)
{
    return read_number(&at, HOSTS_MAX, &self->self) && *at++ == ':' &&
           read_cables(self, at);
}

static struct plain_loopback *new_mesh(struct weft_log *log)
{
    struct plain_loopback *self = weft_calloc(1, sizeof(*self));

    self->spec = (struct world_spec){
        .seed = 1,
        .hosts = self->hosts,
        .cables = self->cables,
        .management = {.exists = true, .prefix_len = 24, .rate_bps = RATE_BPS},
        .log = log};
    return self;
}

static void describe_hosts(struct plain_loopback *self)
{
    for (uint32_t i = 0; i < self->spec.n_hosts; i++) {
        struct world_host *host = &self->hosts[i];

        weft_format(self->host_names[i], sizeof(self->host_names[i]), "host-%u", i);
        host->name = self->host_names[i];
        host->profile = WEFT_PROFILE_MLX5;
        host->ports = self->ports[i];
        host->pcie_root_bps = &self->root_bps;
        host->n_pcie_roots = 1;
        host->n_gpus = 1;
        host->forward_accept = true;
        host->memlock_bytes = INT64_MAX;
        host->settings = self->settings;
        host->n_settings = self->settings[1].name == NULL ? 1 : 2;
        host->management_ip = io_ip_v4(10, 0, 0, (uint8_t)(i + 1));
    }
}

weft_status plain_loopback_create(const char *mesh, struct weft_log *log,
                                  struct plain_loopback **out, struct weft_error *error)
{
    struct plain_loopback *self = new_mesh(log);

    if (!read_mesh(self, mesh)) {
        plain_loopback_destroy(self);
        return weft_fail(
            error, WEFT_ERR_INPUT, WEFT_PHASE_START,
            "a mesh on loopback is \"HOST: A-B B-C ...\", up to %d hosts; not "
            "\"%.60s\"",
            HOSTS_MAX, mesh);
    }
    /* `weft run` uses blocks 16 to 239; WEFT_SOFT_BLOCK selects another. */
    self->settings[0] = (struct world_setting){"WEFT_NIC", "soft"};
    if (getenv("WEFT_SOFT_BLOCK") == NULL) {
        self->settings[1] = (struct world_setting){"WEFT_SOFT_BLOCK", "240"};
    }
    describe_hosts(self);
    *out = self;
    return WEFT_OK;
}

weft_status plain_loopback_create_all(const char *cables, struct weft_log *log,
                                      struct plain_loopback **out,
                                      struct weft_error *error)
{
    struct plain_loopback *self = new_mesh(log);

    if (!read_cables(self, cables)) {
        plain_loopback_destroy(self);
        return weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_START,
                         "a simulated mesh is \"A-B B-C ...\", up to %d hosts; not "
                         "\"%.60s\"",
                         HOSTS_MAX, cables);
    }
    self->settings[0] = (struct world_setting){"WEFT_NIC", "sim"};
    describe_hosts(self);
    for (uint32_t i = 0; i < self->spec.n_cables; i++) {
        self->cables[i].delay_ps = DELAY_PS;
    }
    self->spec.management.delay_ps = DELAY_PS;
    *out = self;
    return WEFT_OK;
}

const struct world_spec *plain_loopback_spec(const struct plain_loopback *loopback,
                                             uint32_t *out_host)
{
    *out_host = loopback->self;
    return &loopback->spec;
}

void plain_loopback_destroy(struct plain_loopback *loopback)
{
    free(loopback);
}
