/* Scenes for the tests of diag/: what two hosts observed, written by hand, and the code that it
 * must lead to. */
#ifndef WEFT_DIAG_DIAG_TESTING_H
#define WEFT_DIAG_DIAG_TESTING_H

#include "diag/diag.h"

/* titanic:p0 faces iceberg:p1; titanic:p1 and iceberg:p0 lead elsewhere. Host a, titanic, fails
 * towards host b, iceberg. */
struct scene {
    struct diag_input input; /* the scene's; diag_input_fini frees it */
    struct diag_host *a, *b;
    struct diag_error *failure; /* a's, empty at first */
};

/* Room for 4 ports, errors and events, and for 2 peers' words, on each host. */
void scene_set(struct scene *scene);
/* The failure is a data request that was never acknowledged. */
void scene_loses_packets(struct scene *scene);
/* It concerns a queue pair of this port and these addresses. */
void scene_aim(struct scene *scene, const char *local_port, const char *local_gid,
               const char *remote_gid);
/* Iceberg only heard that titanic gave up. */
void scene_hears_of_it(struct scene *scene);
/* A port of titanic is down, and a packet is lost on it. */
void scene_down_here(struct scene *scene);

struct scene_case {
    void (*write)(struct scene *scene);
    const char *code;
    const char *where;
};
extern const struct scene_case scene_cases[];
extern const int n_scene_cases;
/* Mirrored: b comes first in the input. */
void scene_write_case(int i, bool is_mirrored, struct scene *scene);

/* Instead of those that it has. */
void scene_set_address(struct diag_port *port, const char *address);

/* ---- scenes_testing.c: what `write` of a case may be ---- */

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
void scene_late(struct scene *s);
void scene_loopback(struct scene *s);
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
