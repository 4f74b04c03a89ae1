/* Bonds in mode active-backup (Linux drivers/net/bonding, roce_gid_mgmt.c): a netdev with
 * one MAC and the addresses, over ports of which one is active. Every port's device has
 * the default GIDs of the bond's MAC; only the active one has those of its addresses.
 * When the active port loses its carrier, the next check by miimon moves the bond to
 * another port: the GIDs move to the new device, and the addresses are announced on the
 * link. Queue pairs stay on their device, and fail with its port. */
#include <stdlib.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/stack_impl.h"

#define MIIMON_PS ((weft_ps)100000000000) /* every 100 ms, as bonding.rst recommends */

struct sim_bond {
    struct sim_netdev *netdev;
    struct sim_netdev **slaves; /* Owned [n_slaves] */
    uint32_t n_slaves;
    struct sim_event look;
};

/* Returns the active slave if it has carrier, otherwise the first slave that has, or
 * NULL. */
static struct sim_netdev *choose(const struct sim_bond *bond)
{
    struct sim_netdev *active = bond->netdev->lower;
    if (active != NULL && sim_port_is_up(active->port)) {
        return active;
    }
    for (uint32_t i = 0; i < bond->n_slaves; i++) {
        if (sim_port_is_up(bond->slaves[i]->port)) {
            return bond->slaves[i];
        }
    }
    return NULL;
}

static void activate(struct sim_bond *bond, struct sim_netdev *slave)
{
    struct sim_netdev *netdev = bond->netdev;
    netdev->lower = slave;
    netdev->port = slave->port;
    sim_netdev_scan(netdev);
}

static void fail_over(struct sim_bond *bond, struct sim_netdev *to)
{
    struct sim_netdev *netdev = bond->netdev;
    struct sim_engine *engine = netdev->stack->engine;
    weft_trace_event(sim_trace(engine), sim_now_ns(engine), netdev->stack->host,
                     netdev->name, "failover", "from=%s to=%s", netdev->lower->name,
                     to->name);
    sim_netdev_drop_gids(netdev, false);
    activate(bond, to);
    sim_neigh_announce(netdev);
}

static void on_look(struct sim_event *event)
{
    struct sim_bond *bond = weft_container_of(event, struct sim_bond, look);
    struct sim_netdev *best = choose(bond);
    if (best == NULL) {
        sim_neigh_flush(bond->netdev); /* the bond has no carrier, either */
    } else if (best != bond->netdev->lower) {
        fail_over(bond, best);
    }
}

uint32_t sim_stack_add_bond(struct sim_stack *stack, const char *name,
                            const uint32_t *slaves, uint32_t n_slaves)
{
    struct sim_bond *bond = weft_calloc(1, sizeof *bond);
    weft_check(n_slaves > 0);
    bond->slaves = weft_calloc(n_slaves, sizeof *bond->slaves);
    bond->n_slaves = n_slaves;
    sim_event_init(&bond->look, on_look);
    for (uint32_t i = 0; i < n_slaves; i++) {
        bond->slaves[i] = sim_stack_find(stack, slaves[i]);
        weft_check(bond->slaves[i] != NULL && bond->slaves[i]->lower == NULL &&
                   bond->slaves[i]->master == NULL);
        weft_check(bond->slaves[i]->mac == bond->slaves[0]->mac);
    }
    struct sim_netdev *netdev = sim_stack_new_netdev(stack, bond->slaves[0]->port);
    weft_format(netdev->name, sizeof netdev->name, "%s", name);
    netdev->bond = bond;
    bond->netdev = netdev;
    for (uint32_t i = 0; i < n_slaves; i++) {
        bond->slaves[i]->master = netdev;
        sim_netdev_drop_gids(bond->slaves[i], true);
        netdev->lower = bond->slaves[i];
        sim_netdev_set_default_gids(netdev);
    }
    netdev->lower = NULL;
    struct sim_netdev *first = choose(bond);
    activate(bond, first != NULL ? first : bond->slaves[0]);
    return netdev->ifindex;
}

void sim_bond_carrier(struct sim_bond *bond)
{
    struct sim_engine *engine = bond->netdev->stack->engine;
    sim_schedule(engine, &bond->look, (sim_now(engine) / MIIMON_PS + 1) * MIIMON_PS);
}

void sim_bond_stop(struct sim_bond *bond)
{
    if (bond != NULL) {
        sim_cancel(bond->netdev->stack->engine, &bond->look);
    }
}

void sim_bond_free(struct sim_bond *bond)
{
    sim_bond_stop(bond);
    if (bond != NULL) {
        free(bond->slaves);
        free(bond);
    }
}
