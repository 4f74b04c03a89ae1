/* Test scenes: handwritten observations of two hosts, and the code that diag() must derive from
 * them. */
#ifndef WEFT_DIAG_DIAG_TESTING_H
#define WEFT_DIAG_DIAG_TESTING_H

#include "diag/diag.h"

/* A scene. titanic:p0 faces iceberg:p1; titanic:p1 and iceberg:p0 face other hosts. Host a,
 * titanic, fails when it communicates with host b, iceberg. */
struct scene {
    struct diag_input input; /* freed by diag_input_fini() */
    struct diag_host *a, *b;
    struct diag_error *failure; /* the failure of `a`, empty at first */
};

/* Initialises a scene without a cause. Each host has room for 4 ports, errors and events, and for
 * the descriptions of 2 peers. */
void scene_set(struct scene *scene);
/* Makes the failure a data request that was never acknowledged. */
void scene_loses_packets(struct scene *scene);
/* Makes the failure concern a queue pair of this port and these GIDs. */
void scene_aim(struct scene *scene, const char *local_port, const char *local_gid,
               const char *remote_gid);
/* Adds that the host waits for `peer`, since 5 ms. */
void scene_wait(struct diag_host *host, enum weft_wait_for what, const char *peer);
/* Adds a host that faces no other. Pointers to hosts of the scene become invalid; a and b are set
 * again. */
struct diag_host *scene_add_host(struct scene *scene, const char *name);
/* Makes the failure a message of set-up that iceberg did not answer. */
void scene_hears_nothing(struct scene *scene);
/* Adds an error of iceberg that only reports that titanic gave up. */
void scene_hears_of_it(struct scene *scene);
/* Takes titanic:p0 down and makes the failure a lost packet on it. */
void scene_down_here(struct scene *scene);

struct scene_case {
    void (*write)(struct scene *scene);
    const char *code;
    const char *where;
};
extern const struct scene_case scene_cases[];
extern const int n_scene_cases;
/* Writes case `i`. If mirrored, `b` comes first in the input. */
void scene_write_case(int i, bool is_mirrored, struct scene *scene);

/* Replaces all GIDs of the port with one for `address`. */
void scene_set_address(struct diag_port *port, const char *address);

/* ---- scenes_testing.c: values of scene_case.write ---- */

void scene_merged(struct scene *s);
void scene_merged_here(struct scene *s);
void scene_crossed(struct scene *s);
void scene_blind(struct scene *s);
void scene_coarse(struct scene *s);
void scene_self_assigned(struct scene *s);
void scene_self_assigned_there(struct scene *s);
void scene_prefixes(struct scene *s);
void scene_bare(struct scene *s);
void scene_bare_route(struct scene *s);
void scene_duplicate(struct scene *s);
void scene_duplicate_route(struct scene *s);
void scene_duplicate_elsewhere(struct scene *s);
void scene_fixed_index(struct scene *s);
void scene_list(struct scene *s);
void scene_list_there(struct scene *s);
void scene_list_cut(struct scene *s);
void scene_bond(struct scene *s);
void scene_bond_there(struct scene *s);
void scene_bond_elsewhere(struct scene *s);
void scene_two_bonds(struct scene *s);
void scene_no_route(struct scene *s);
void scene_no_route_there(struct scene *s);
void scene_foreign_slot(struct scene *s);
void scene_foreign_slot_there(struct scene *s);
void scene_other_family(struct scene *s);
void scene_other_family_there(struct scene *s);
void scene_default_gid(struct scene *s);
void scene_only_v6(struct scene *s);
void scene_no_netdev(struct scene *s);
void scene_vlans(struct scene *s);
void scene_arp_ignored(struct scene *s);
void scene_flaps(struct scene *s);
void scene_one_way(struct scene *s);
void scene_lossy(struct scene *s);
void scene_corrupting(struct scene *s);
void scene_paused(struct scene *s);
void scene_firewall(struct scene *s);
void scene_truncated(struct scene *s);
void scene_rp_filter(struct scene *s);
void scene_filtered(struct scene *s);
void scene_only_announced(struct scene *s, bool was_heard_there);
void scene_filtered_over_cable(struct scene *s);
void scene_off_management(struct scene *s);
void scene_off_management_there(struct scene *s);
void scene_off_management_here(struct scene *s);
void scene_off_management_in_round(struct scene *s);
void scene_off_management_in_set_up(struct scene *s);
void scene_late(struct scene *s);
void scene_loopback(struct scene *s);
/* A work request of a connection between two facing ports failed in phase data. */
void scene_completion(struct scene *s, int wc_status);
void scene_receiver_late(struct scene *s);
void scene_kernel_memory(struct scene *s);
void scene_forbidden(struct scene *s);
void scene_full(struct scene *s);
void scene_rejected(struct scene *s);
void scene_device_failed(struct scene *s);
void scene_no_descriptor(struct scene *s);
void scene_hearsay(struct scene *s);
void scene_port_event(struct scene *s);
void scene_way_to_relay(struct scene *s);

#endif
