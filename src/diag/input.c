/* Keeps the observations that a diagnosis is made of, and finds hosts and ports in them. */
#include <stdlib.h>
#include <string.h>

#include "diag/private.h"

void diag_host_fini(struct diag_host *host)
{
    for (uint32_t j = 0; j < host->n_described; j++) {
        free(host->described[j].ports);
    }
    free(host->described);
    free(host->ports);
    free(host->uses);
    free(host->errors);
    free(host->left_out);
    free(host->waits);
    free(host->events);
    *host = (struct diag_host){.name = ""};
}

void diag_input_fini(struct diag_input *input)
{
    for (uint32_t i = 0; i < input->n_hosts; i++) {
        diag_host_fini(&input->hosts[i]);
    }
    free(input->hosts);
    free(input->cables);
    *input = (struct diag_input){.hosts = NULL};
}

void diag_port_init(struct diag_port *port)
{
    *port = (struct diag_port){.netdev_mtu = IO_UNKNOWN,
                               .active_mtu = IO_UNKNOWN,
                               .rate_bps = IO_UNKNOWN,
                               .device = IO_UNKNOWN,
                               .rp_filter = IO_UNKNOWN,
                               .arp_ignore = IO_UNKNOWN,
                               .n_addresses = IO_UNKNOWN,
                               .pcie_lanes = IO_UNKNOWN,
                               .pcie_lanes_max = IO_UNKNOWN,
                               .pcie_mts = IO_UNKNOWN,
                               .pcie_mts_max = IO_UNKNOWN};
    for (int i = 0; i < DIAG_N_COUNTERS; i++) {
        port->counters[i] = IO_UNKNOWN;
    }
}

const char *diag_counter_name(enum diag_counter counter)
{
    static const char *const names[] = {
        "tx_packets",         "rx_packets",       "retransmits", "timeouts",
        "out_of_sequence",    "rnr_naks_sent",    "icrc_errors", "rx_unclaimed",
        "rx_filtered_source", "rx_filtered_port", "rx_oversize", "tx_queue_drops",
        "rx_pauses",          "rx_pause_ns",      "rx_frames",   "rx_duplicates",
        "tx_frames"};

    _Static_assert(sizeof(names) / sizeof(names[0]) == DIAG_N_COUNTERS, "one name each");
    return names[counter];
}

/* ---- hosts and ports ---- */

const struct diag_host *diag_find_host(const struct diag_input *input, const char *name)
{
    for (uint32_t i = 0; i < input->n_hosts; i++) {
        if (name[0] != '\0' && strcmp(input->hosts[i].name, name) == 0) {
            return &input->hosts[i];
        }
    }
    return NULL;
}

bool diag_is_same_machine(const char *a, const char *b)
{
    size_t n = strcspn(a, "/");

    return n == strcspn(b, "/") && strncmp(a, b, n) == 0;
}

struct diag_ports diag_ports_described(const struct diag_host *host, const char *name)
{
    for (uint32_t j = 0; j < host->n_described; j++) {
        if (strcmp(host->described[j].peer, name) == 0) {
            return (struct diag_ports){host->described[j].ports,
                                       host->described[j].n_ports};
        }
    }
    return (struct diag_ports){NULL, 0};
}

struct diag_ports diag_ports_of(const struct diag_input *input, const char *name)
{
    const struct diag_host *host = diag_find_host(input, name);

    if (host != NULL && host->n_ports > 0) {
        return (struct diag_ports){host->ports, host->n_ports};
    }
    for (uint32_t i = 0; i < input->n_hosts; i++) {
        struct diag_ports described = diag_ports_described(&input->hosts[i], name);

        if (described.n > 0) {
            return described;
        }
    }
    return (struct diag_ports){NULL, 0};
}

const struct diag_port *diag_port_named(const struct diag_ports *ports, const char *name)
{
    for (uint32_t i = 0; name != NULL && i < ports->n; i++) {
        if (strcmp(ports->items[i].name, name) == 0) {
            return &ports->items[i];
        }
    }
    return NULL;
}

struct diag_port *diag_find_port(const struct diag_host *host, const char *name)
{
    for (uint32_t i = 0; host != NULL && name != NULL && i < host->n_ports; i++) {
        if (strcmp(host->ports[i].name, name) == 0) {
            return &host->ports[i];
        }
    }
    return NULL;
}

enum diag_known diag_has_policy(const struct diag_host *host, enum weft_policy policy)
{
    return host == NULL || host->policy[0] == '\0'
               ? DIAG_UNKNOWN
               : diag_known_of(strcmp(host->policy, weft_policy_name(policy)) == 0);
}

/* ---- failures ---- */

bool diag_is_of_an_end(const struct weft_error *error)
{
    const struct weft_value *ended = weft_error_value(error, WEFT_VALUE_ENDED);

    return ended != NULL && ended->number == 1;
}

bool diag_has_failed(const struct diag_input *input)
{
    for (uint32_t i = 0; i < input->n_hosts; i++) {
        const struct diag_host *host = &input->hosts[i];

        if (!host->was_observed || host->has_hung || host->has_vanished ||
            host->n_errors > 0) {
            return true;
        }
    }
    return false;
}
