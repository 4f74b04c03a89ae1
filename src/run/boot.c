/* Configures how the members of a run find each other, as the scenario says. */
#include <stdlib.h>

#include "base/text.h"
#include "run/private.h"

/* First TCP port on which members listen with BOOT_STATIC. Each member has its own, because hosts
 * can share a network, such as loopback. */
#define CONTROL_PORT 22342u

enum boot_mode run_boot_mode(const struct run *run)
{
    switch (run->scenario->boot) {
    case SCENARIO_BOOT_RENDEZVOUS:
        return BOOT_RENDEZVOUS;
    case SCENARIO_BOOT_NEIGHBOURS:
        return BOOT_NEIGHBOURS;
    case SCENARIO_BOOT_STATIC:
        return BOOT_STATIC;
    case SCENARIO_BOOT_AUTO:
    case SCENARIO_N_BOOTS:
        break;
    }
    return run->plan->spec.management.exists ? BOOT_RENDEZVOUS : BOOT_NEIGHBOURS;
}

weft_status run_boot_check(const struct run *run, struct weft_error *error)
{
    if (run->plan->spec.management.exists) {
        return WEFT_OK;
    }
    if (run_boot_mode(run) == BOOT_RENDEZVOUS) {
        return weft_fail(error, WEFT_ERR_UNSUPPORTED, WEFT_PHASE_BOOT,
                         "a rendezvous without a management network");
    }
    if (run->policy != WEFT_POLICY_WEFT) {
        return weft_fail(error, WEFT_ERR_UNSUPPORTED, WEFT_PHASE_BOOT,
                         "policy %s without a management network",
                         weft_policy_name(run->policy));
    }
    return WEFT_OK;
}

static uint16_t control_port(uint32_t member)
{
    return (uint16_t)(CONTROL_PORT + member % (UINT16_MAX - CONTROL_PORT + 1u));
}

/* Adds the endpoint of `member` with this address, unless it is there. */
static void add_way(uint32_t member, const struct io_ip *ip, struct boot_neighbour *out)
{
    struct io_endpoint *endpoints = (struct io_endpoint *)(uintptr_t)out->endpoints;

    for (uint32_t i = 0; i < out->n_endpoints; i++) {
        if (io_ip_equal(&endpoints[i].ip, ip)) {
            return;
        }
    }
    endpoints =
        weft_realloc(endpoints, (out->n_endpoints + (size_t)1) * sizeof(*endpoints));
    endpoints[out->n_endpoints++] =
        (struct io_endpoint){.ip = *ip, .port = control_port(member)};
    out->endpoints = endpoints;
}

/* Adds the endpoints of `member` with the addresses of a port, and of the bond that contains it. */
static void add_port(const struct world_host *host, uint32_t port, uint32_t member,
                     struct boot_neighbour *out)
{
    for (uint32_t i = 0; i < host->ports[port].n_addresses; i++) {
        add_way(member, &host->ports[port].addresses[i].ip, out);
    }
    for (uint32_t b = 0; b < host->n_bonds; b++) {
        const struct world_bond *bond = &host->bonds[b];

        for (uint32_t p = 0; p < bond->n_ports; p++) {
            for (uint32_t i = 0; bond->ports[p] == port && i < bond->n_addresses; i++) {
                add_way(member, &bond->addresses[i].ip, out);
            }
        }
    }
}

/* Adds the endpoints at which `host` can reach `member`: its addresses on each cable between the
 * two, or on all its cables between hosts if both are on one host. */
static void add_ways(struct run *run, uint32_t host, uint32_t member,
                     struct boot_neighbour *out)
{
    const struct world_spec *spec = &run->plan->spec;
    uint32_t there = run->member_hosts[member];

    for (uint32_t i = 0; i < spec->n_cables; i++) {
        for (int end = 0; end < 2; end++) {
            const struct world_end *ends = spec->cables[i].ends;

            if (!ends[0].is_switch && !ends[1].is_switch && ends[end].node == there &&
                (there == host || ends[1 - end].node == host)) {
                add_port(&spec->hosts[there], ends[end].port, member, out);
            }
        }
    }
    out->member = member;
}

static void make_neighbours(struct run *run, uint32_t member)
{
    struct run_neighbours *out = &run->neighbours[member];

    out->items = weft_calloc(run->n_members, sizeof(*out->items));
    for (uint32_t other = 0; other < run->n_members; other++) {
        struct boot_neighbour *neighbour = &out->items[out->n];

        if (other == member) {
            continue;
        }
        *neighbour = (struct boot_neighbour){.n_endpoints = 0};
        add_ways(run, run->member_hosts[member], other, neighbour);
        out->n += neighbour->n_endpoints > 0;
    }
}

void run_boot_make(struct run *run)
{
    if (run_boot_mode(run) != BOOT_STATIC) {
        return;
    }
    run->neighbours = weft_calloc(run->n_members, sizeof(*run->neighbours));
    for (uint32_t i = 0; i < run->n_members; i++) {
        make_neighbours(run, i);
    }
}

void run_boot_fini(struct run *run)
{
    for (uint32_t i = 0; run->neighbours != NULL && i < run->n_members; i++) {
        for (uint32_t k = 0; k < run->neighbours[i].n; k++) {
            free((void *)(uintptr_t)run->neighbours[i].items[k].endpoints);
        }
        free(run->neighbours[i].items);
    }
    free(run->neighbours);
}

void run_boot_configure(const struct run *run, uint32_t member,
                        struct boot_config *config)
{
    const struct world_host *first = &run->plan->spec.hosts[run->member_hosts[0]];

    config->mode = run_boot_mode(run);
    config->rendezvous = (struct io_endpoint){
        .ip = io_ip_is_zero(&first->known_ip) ? first->management_ip : first->known_ip,
        .port = RUN_RENDEZVOUS_PORT,
    };
    config->first_is_elsewhere = run->member_hosts[member] != run->member_hosts[0];
    config->control = (struct io_endpoint){.port = 0};
    if (config->mode == BOOT_STATIC) {
        config->control.port = control_port(member);
        config->neighbours = run->neighbours[member].items;
        config->n_neighbours = run->neighbours[member].n;
    }
}
