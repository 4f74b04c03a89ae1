/* The GID table of one port, filled as Linux fills it (core/cache.c, roce_gid_mgmt.c):
 * one default slot per RoCE type first; then each address takes the first free slots, v1
 * before v2; deleting leaves a hole that the next address fills. */
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
    SIM_GID_FOREIGN /* of another network namespace: cannot be read */
};

struct sim_gid_slot {
    struct sim_ip ip;
    enum ibv_gid_type type;
    uint32_t ifindex;
    enum sim_gid_state state;
    uint32_t n_users; /* QPs and address handles */
};

struct sim_gid_table {
    struct sim_gid_slot *slots; /* Owned [n_slots] */
    uint32_t n_slots;
    uint32_t n_foreign; /* the first ones */
    uint32_t n_default; /* the ones before those of addresses: foreign and default */
    bool has_roce_v1;
};

/* With the default GIDs of `mac` on netdev `ifindex`, behind `n_foreign` slots of others. At least
 * one slot per type. */
void sim_gid_table_init(struct sim_gid_table *table, uint32_t n_slots, bool has_roce_v1,
                        uint32_t n_foreign, uint32_t ifindex, uint64_t mac);
void sim_gid_table_fini(struct sim_gid_table *table);
/* Adds `ip` once per type. EINVAL for 0.0.0.0 and ::, EEXIST if all of its types are there
 * already (also as a default GID), ENOSPC if one found no slot. `*out_n` slots changed. */
int sim_gid_table_add(struct sim_gid_table *table, const struct sim_ip *ip,
                      uint32_t ifindex, uint32_t *out_n);
/* Empties the non-default slots of `ip`; those in use stay pending. Returns how many. */
uint32_t sim_gid_table_del(struct sim_gid_table *table, const struct sim_ip *ip,
                           uint32_t ifindex);
/* Fills those default slots that are free, and empties the slots of a netdev (those in use
 * stay pending): a bond is made, or moves. Both return how many changed. */
uint32_t sim_gid_table_set_default(struct sim_gid_table *table, uint32_t ifindex,
                                   uint64_t mac);
uint32_t sim_gid_table_drop(struct sim_gid_table *table, uint32_t ifindex,
                            bool with_default);
/* Empties all that are not default; nobody may hold one. Returns how many were valid. */
uint32_t sim_gid_table_clear(struct sim_gid_table *table);
void sim_gid_table_hold(struct sim_gid_table *table, uint32_t index);
void sim_gid_table_release(struct sim_gid_table *table, uint32_t index);
/* The valid slot at `index`: ENODATA if it is not, EINVAL beyond the table and for foreign ones. */
int sim_gid_table_get(const struct sim_gid_table *table, uint32_t index,
                      const struct sim_gid_slot **out);
/* True if a valid slot of netdev `ifindex` has it. */
bool sim_gid_table_has(const struct sim_gid_table *table, const struct sim_ip *ip,
                       uint32_t ifindex);

#endif
