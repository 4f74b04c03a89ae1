#include "sim/gid_table.h"

#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/text.h"

static uint32_t types_of(const struct sim_gid_table *table, enum ibv_gid_type out[2])
{
    uint32_t n = 0;
    if (table->has_roce_v1) {
        out[n++] = IBV_GID_TYPE_ROCE_V1;
    }
    out[n++] = IBV_GID_TYPE_ROCE_V2;
    return n;
}

void sim_gid_table_init(struct sim_gid_table *table, uint32_t n_slots, bool has_roce_v1,
                        uint32_t n_foreign, uint32_t ifindex, uint64_t mac)
{
    *table = (struct sim_gid_table){.has_roce_v1 = has_roce_v1, .n_foreign = n_foreign};
    enum ibv_gid_type types[2];
    table->n_default = n_foreign + types_of(table, types);
    table->n_slots = n_slots > table->n_default ? n_slots : table->n_default;
    table->slots = weft_calloc(table->n_slots, sizeof *table->slots);
    for (uint32_t i = 0; i < n_foreign; i++) {
        table->slots[i].state = SIM_GID_FOREIGN;
    }
    (void)sim_gid_table_set_default(table, ifindex, mac);
}

uint32_t sim_gid_table_set_default(struct sim_gid_table *table, uint32_t ifindex,
                                   uint64_t mac)
{
    enum ibv_gid_type types[2];
    uint32_t n = 0;
    (void)types_of(table, types);
    for (uint32_t i = table->n_foreign; i < table->n_default && table->n_slots > 0; i++) {
        if (table->slots[i].state == SIM_GID_FREE) {
            table->slots[i] = (struct sim_gid_slot){.ip = sim_ip_of_mac(mac),
                                                    .type = types[i - table->n_foreign],
                                                    .ifindex = ifindex,
                                                    .state = SIM_GID_VALID};
            n++;
        }
    }
    return n;
}

void sim_gid_table_fini(struct sim_gid_table *table)
{
    free(table->slots);
    *table = (struct sim_gid_table){0};
}

static bool slot_is(const struct sim_gid_slot *slot, const struct sim_ip *ip,
                    enum ibv_gid_type type, uint32_t ifindex)
{
    return slot->state == SIM_GID_VALID && slot->type == type &&
           slot->ifindex == ifindex && sim_ip_equal(&slot->ip, ip);
}

static int add_type(struct sim_gid_table *table, const struct sim_ip *ip,
                    enum ibv_gid_type type, uint32_t ifindex)
{
    struct sim_gid_slot *empty = NULL;
    for (uint32_t i = 0; i < table->n_slots; i++) {
        struct sim_gid_slot *slot = &table->slots[i];
        if (slot_is(slot, ip, type, ifindex)) {
            return EEXIST;
        }
        if (i >= table->n_default && slot->state == SIM_GID_FREE && empty == NULL) {
            empty = slot;
        }
    }
    if (empty == NULL) {
        return ENOSPC;
    }
    *empty = (struct sim_gid_slot){
        .ip = *ip, .type = type, .ifindex = ifindex, .state = SIM_GID_VALID};
    return 0;
}

int sim_gid_table_add(struct sim_gid_table *table, const struct sim_ip *ip,
                      uint32_t ifindex, uint32_t *out_n)
{
    enum ibv_gid_type types[2];
    uint32_t n_types = types_of(table, types);
    bool is_full = false;

    *out_n = 0;
    if (sim_ip_is_zero(ip)) {
        return EINVAL;
    }
    for (uint32_t i = 0; i < n_types; i++) {
        int error = add_type(table, ip, types[i], ifindex);
        *out_n += error == 0;
        is_full = is_full || error == ENOSPC;
    }
    if (is_full) {
        return ENOSPC;
    }
    return *out_n == 0 ? EEXIST : 0;
}

uint32_t sim_gid_table_del(struct sim_gid_table *table, const struct sim_ip *ip,
                           uint32_t ifindex)
{
    uint32_t n = 0;
    for (uint32_t i = table->n_default; i < table->n_slots; i++) {
        struct sim_gid_slot *slot = &table->slots[i];
        if (slot_is(slot, ip, slot->type, ifindex)) {
            slot->state = slot->n_users == 0 ? SIM_GID_FREE : SIM_GID_PENDING;
            n++;
        }
    }
    return n;
}

uint32_t sim_gid_table_drop(struct sim_gid_table *table, uint32_t ifindex,
                            bool with_default)
{
    uint32_t n = 0;
    for (uint32_t i = with_default ? 0 : table->n_default; i < table->n_slots; i++) {
        struct sim_gid_slot *slot = &table->slots[i];
        if (slot->state == SIM_GID_VALID && slot->ifindex == ifindex) {
            slot->state = slot->n_users == 0 ? SIM_GID_FREE : SIM_GID_PENDING;
            n++;
        }
    }
    return n;
}

uint32_t sim_gid_table_clear(struct sim_gid_table *table)
{
    uint32_t n = 0;
    for (uint32_t i = table->n_default; i < table->n_slots; i++) {
        weft_check(table->slots[i].n_users == 0);
        n += table->slots[i].state == SIM_GID_VALID;
        table->slots[i] = (struct sim_gid_slot){0};
    }
    return n;
}

void sim_gid_table_hold(struct sim_gid_table *table, uint32_t index)
{
    if (index < table->n_slots && table->slots[index].state == SIM_GID_VALID) {
        table->slots[index].n_users++;
    }
}

void sim_gid_table_release(struct sim_gid_table *table, uint32_t index)
{
    if (index >= table->n_slots || table->slots[index].n_users == 0) {
        return;
    }
    struct sim_gid_slot *slot = &table->slots[index];
    slot->n_users--;
    if (slot->n_users == 0 && slot->state == SIM_GID_PENDING) {
        slot->state = SIM_GID_FREE;
    }
}

int sim_gid_table_get(const struct sim_gid_table *table, uint32_t index,
                      const struct sim_gid_slot **out)
{
    if (index >= table->n_slots || table->slots[index].state == SIM_GID_FOREIGN) {
        return EINVAL;
    }
    if (table->slots[index].state != SIM_GID_VALID) {
        return ENODATA;
    }
    *out = &table->slots[index];
    return 0;
}

bool sim_gid_table_has(const struct sim_gid_table *table, const struct sim_ip *ip,
                       uint32_t ifindex)
{
    for (uint32_t i = 0; i < table->n_slots; i++) {
        const struct sim_gid_slot *slot = &table->slots[i];
        if (slot_is(slot, ip, slot->type, ifindex)) {
            return true;
        }
    }
    return false;
}
