/* The GID table of one port, filled as Linux fills it (core/cache.c, roce_gid_mgmt.c).
 * The first slots are default GIDs, one for each RoCE type. Each address then takes the
 * first free slots, v1 before v2. A deleted address leaves a hole, which the next address
 * fills. */
#ifndef WEFT_SIM_GID_TABLE_H
#define WEFT_SIM_GID_TABLE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "sim/ip.h"

enum sim_gid_state {
    SIM_GID_FREE,
    SIM_GID_VALID,
    SIM_GID_PENDING,
    SIM_GID_FOREIGN /* belongs to another network namespace; cannot be read */
};

struct sim_gid_slot {
    struct sim_ip ip;
    enum ibv_gid_type type;
    uint32_t ifindex;
    enum sim_gid_state state;
    uint32_t n_users; /* QPs and address handles that hold the slot */
};

struct sim_gid_table {
    struct sim_gid_slot *slots; /* Owned [n_slots] */
    uint32_t n_slots;
    uint32_t n_foreign; /* number of slots of other namespaces, which come first */
    /* number of foreign and default slots, which precede those of addresses */
    uint32_t n_default;
    bool has_roce_v1;
};

/* Fills the table with `n_foreign` foreign slots and the default GIDs of `mac` on netdev
 * `ifindex`. Makes room for these at least. */
void sim_gid_table_init(struct sim_gid_table *table, uint32_t n_slots, bool has_roce_v1,
                        uint32_t n_foreign, uint32_t ifindex, uint64_t mac);
void sim_gid_table_fini(struct sim_gid_table *table);
/* Adds `ip` once for each RoCE type. Stores the number of slots filled in `*out_n`. Fails
 * with EINVAL for 0.0.0.0 and ::, with EEXIST if all types exist already (possibly as
 * default GIDs), with ENOSPC if a type found no slot. */
int sim_gid_table_add(struct sim_gid_table *table, const struct sim_ip *ip,
                      uint32_t ifindex, uint32_t *out_n);
/* Empties the non-default slots of `ip`; slots in use become pending. Returns how many
 * changed. */
uint32_t sim_gid_table_del(struct sim_gid_table *table, const struct sim_ip *ip,
                           uint32_t ifindex);
/* For bonds. Fill the free default slots, or empty the slots of a netdev (slots in use
 * become pending). Both return how many changed. */
uint32_t sim_gid_table_set_default(struct sim_gid_table *table, uint32_t ifindex,
                                   uint64_t mac);
uint32_t sim_gid_table_drop(struct sim_gid_table *table, uint32_t ifindex,
                            bool with_default);
/* Empties all non-default slots, none of which may be held. Returns how many were
 * valid. */
uint32_t sim_gid_table_clear(struct sim_gid_table *table);
void sim_gid_table_hold(struct sim_gid_table *table, uint32_t index);
void sim_gid_table_release(struct sim_gid_table *table, uint32_t index);
/* Stores the valid slot at `index`. Fails with ENODATA if it is not valid, with EINVAL
 * for a foreign slot or an index beyond the table. */
int sim_gid_table_get(const struct sim_gid_table *table, uint32_t index,
                      const struct sim_gid_slot **out);
/* Returns true if a valid slot of netdev `ifindex` holds `ip`. */
bool sim_gid_table_has(const struct sim_gid_table *table, const struct sim_ip *ip,
                       uint32_t ifindex);

#endif
