#include "sim/nic.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "sim/landing.h"
#include "sim/rc_impl.h"
#include "sim/train.h"

enum { QPN_BASE_MIN = 17, QPN_BASES = 200 };

struct sim_nic *sim_nic_create(struct sim_engine *engine, const char *host,
                               const char *name, const struct sim_profile *profile,
                               struct sim_stack *stack, struct sim_port *const *ports,
                               uint8_t n_ports, int64_t *memlock_bytes)
{
    char stream[128];
    struct sim_nic *nic = weft_arena_calloc(&engine->arena, sizeof(*nic));
    weft_check(n_ports >= 1 && n_ports <= SIM_PORTS_MAX);
    weft_check(profile->qpn_banks >= 1 && profile->qpn_banks <= SIM_BANKS_MAX);
    weft_check(profile->cqn_banks >= 1 && profile->cqn_banks <= SIM_BANKS_MAX);
    nic->engine = engine;
    nic->qps = nic->few_qps;
    nic->host = weft_strdup(host);
    nic->name = weft_strdup(name);
    nic->profile = sim_engine_share(engine, profile, sizeof(*profile));
    nic->phantom = sim_engine_phantom(engine);
    nic->cq_overran = rc_cq_overran;
    nic->stack = stack;
    nic->n_ports = n_ports;
    weft_format(stream, sizeof(stream), "nic:%s:%s", host, name);
    weft_rng_init(&nic->rng, sim_seed(engine), stream);
    /* NICs have different first QPNs, so that using the wrong end's QPN finds no QP. */
    nic->qpn_base = profile->first_qpn + QPN_BASE_MIN +
                    (uint32_t)weft_rng_below(&nic->rng, QPN_BASES);
    /* the lowest bits are the bank */
    nic->qpn_base -= nic->qpn_base % profile->qpn_banks;
    for (uint8_t i = 0; i < n_ports; i++) {
        struct sim_nic_port *port = &nic->ports[i];
        port->port = ports[i];
        port->number = (uint8_t)(i + 1);
        port->ready_tail = &port->ready;
    }
    weft_format(stream, sizeof(stream), "landing:%s:%s", host, name);
    weft_rng_init(&nic->landing_rng, sim_seed(engine), stream);
    sim_event_init(&nic->landing, sim_landing_due);
    weft_heap_init(&nic->pieces_due);
    (void)sim_nic_open(nic, memlock_bytes);
    return nic;
}

void sim_nic_reset(struct sim_nic *nic)
{
    while (nic->requests != NULL) {
        struct sim_request *request = nic->requests;
        nic->requests = request->next;
        sim_cancel(nic->engine, &request->event);
        sim_watch_drop(request);
        if (request->resolve.done.wake != NULL) {
            sim_stack_resolve_cancel(nic->stack, &request->resolve);
        }
    }
    for (uint32_t i = 0; i < nic->n_qp_slots; i++) {
        if (nic->qps[i] != NULL) {
            sim_qp_free(nic->qps[i]);
        }
    }
    sim_land_all(nic);
    for (uint32_t i = 0; i < nic->n_mr_slots; i++) {
        if (nic->mrs[i].mr != NULL) {
            sim_mr_free(nic->mrs[i].mr);
        }
    }
    while (nic->srqs != NULL) {
        sim_srq_free(nic->srqs);
    }
    while (nic->cqs != NULL) {
        sim_cq_free(nic->cqs);
    }
    while (nic->pds != NULL) {
        sim_pd_free(nic->pds);
    }
    sim_nic_forget_all_events(nic);
}

static void drop_requests_of(struct sim_nic *nic, uint32_t user)
{
    struct sim_request **at = &nic->requests;
    while (*at != NULL) {
        struct sim_request *request = *at;
        if (request->user != user) {
            at = &request->next;
            continue;
        }
        *at = request->next;
        sim_cancel(nic->engine, &request->event);
        sim_watch_drop(request);
        if (request->resolve.done.wake != NULL) {
            sim_stack_resolve_cancel(nic->stack, &request->resolve);
        }
    }
}

void sim_nic_reset_user(struct sim_nic *nic, uint32_t index)
{
    struct sim_nic_user *user = nic->users[index];
    drop_requests_of(nic, index);
    for (uint32_t i = 0; i < nic->n_qp_slots; i++) {
        if (nic->qps[i] != NULL && nic->qps[i]->pd->user == user) {
            sim_qp_free(nic->qps[i]);
        }
    }
    sim_land_all(nic);
    for (uint32_t i = 0; i < nic->n_mr_slots; i++) {
        if (nic->mrs[i].mr != NULL && nic->mrs[i].mr->pd->user == user) {
            sim_mr_free(nic->mrs[i].mr);
        }
    }
    for (struct sim_srq *srq = nic->srqs, *next; srq != NULL; srq = next) {
        next = srq->next;
        if (srq->pd->user == user) {
            sim_srq_free(srq);
        }
    }
    for (struct sim_cq *cq = nic->cqs, *next; cq != NULL; cq = next) {
        next = cq->next;
        if (cq->user == user) {
            sim_cq_free(cq);
        }
    }
    for (struct sim_pd *pd = nic->pds, *next; pd != NULL; pd = next) {
        next = pd->next;
        if (pd->user == user) {
            sim_pd_free(pd);
        }
    }
    /* Events of ports come for each process that has the NIC open; it hears no more. */
    user->n = 0;
    user->waker = (struct sim_waker){0};
    sim_cancel(nic->engine, &user->notify);
}

void sim_nic_destroy(struct sim_nic *nic)
{
    if (nic == NULL) {
        return;
    }
    sim_nic_reset(nic);
    while (nic->faults != NULL) {
        struct sim_verb_fault *fault = nic->faults;
        nic->faults = fault->next;
        free(fault);
    }
    weft_heap_fini(&nic->pieces_due);
    sim_numbers_fini(&nic->pdns);
    for (unsigned i = 0; i < SIM_BANKS_MAX; i++) {
        sim_numbers_fini(&nic->cqns[i]);
    }
    free(nic->mrs);
    if (nic->qps != nic->few_qps) {
        free(nic->qps);
    }
    sim_nic_close_all(nic);
    free(nic->host);
    free(nic->name);
    weft_arena_free(&nic->engine->arena, nic, sizeof(*nic));
}

void sim_nic_number_from(struct sim_nic *nic, uint32_t first)
{
    weft_check(nic->n_qp_slots == 0 && first % nic->profile->qpn_banks == 0);
    nic->qpn_base += first;
}

const struct sim_profile *sim_nic_profile(const struct sim_nic *nic)
{
    return nic->profile;
}

static void settle_trains(struct sim_nic *nic)
{
    for (uint8_t i = 0; i < nic->n_ports; i++) {
        sim_train_settle(nic->ports[i].port);
    }
}

void sim_nic_counters(struct sim_nic *nic, struct sim_nic_counters *out)
{
    settle_trains(nic);
    *out = nic->counters;
    out->tx_packets = nic->tx_packets;
    out->rx_packets = nic->rx_packets;
}

struct sim_nic_objects sim_nic_objects(const struct sim_nic *nic)
{
    struct sim_nic_objects objects = {
        .pds = nic->n_pds, .mrs = nic->n_mrs, .cqs = nic->n_cqs, .qps = nic->n_qps};

    for (const struct sim_request *at = nic->requests; at != NULL; at = at->next) {
        objects.verbs++;
    }
    return objects;
}

void sim_nic_check_payloads(struct sim_nic *nic, bool on)
{
    settle_trains(nic);
    nic->checks_payload = on;
}

uint64_t sim_nic_payload_changes(const struct sim_nic *nic)
{
    return nic->n_payload_changes;
}

/* Returns the EUI-64 of a MAC in network order (RFC 4291 appendix A). */
static uint64_t guid_of_mac(uint64_t mac)
{
    uint64_t high = mac >> 24 & 0xffffff;
    uint64_t eui = (high << 40 | 0xfffeull << 24 | (mac & 0xffffff)) ^ 1ull << 57;
    uint8_t raw[8];
    uint64_t guid;
    for (unsigned i = 0; i < sizeof(raw); i++) {
        raw[i] = (uint8_t)(eui >> (56 - 8 * i));
    }
    memcpy(&guid, raw, sizeof(guid));
    return guid;
}

int sim_nic_query_device(struct sim_nic *nic, struct ibv_device_attr *out)
{
    const struct sim_profile *profile = nic->profile;
    *out = (struct ibv_device_attr){
        .fw_ver = "sim",
        .node_guid = guid_of_mac(sim_port_mac(nic->ports[0].port)),
        .sys_image_guid = guid_of_mac(sim_port_mac(nic->ports[0].port)),
        .max_mr_size = profile->max_mr_size,
        .page_size_cap = profile->page_size_cap,
        .vendor_id = profile->vendor_id,
        .vendor_part_id = profile->vendor_part_id,
        .hw_ver = profile->hw_ver,
        .max_qp = (int)profile->max_qp,
        .max_qp_wr = (int)profile->max_qp_wr,
        .device_cap_flags = profile->device_cap_flags,
        .max_sge = (int)profile->max_sge,
        .max_sge_rd = (int)profile->max_sge_rd,
        .max_cq = (int)profile->max_cq,
        .max_cqe = (int)profile->max_cqe,
        .max_mr = (int)profile->max_mr,
        .max_pd = (int)profile->max_pd,
        .max_qp_rd_atom = (int)profile->max_qp_rd_atom,
        .max_res_rd_atom = (int)profile->max_res_rd_atom,
        .max_qp_init_rd_atom = (int)profile->max_qp_init_rd_atom,
        .atomic_cap = (enum ibv_atomic_cap)profile->atomic_cap,
        .max_srq_wr = (int)profile->max_srq_wr,
        .max_srq_sge = (int)profile->max_srq_sge,
        .max_pkeys = (uint16_t)profile->max_pkeys,
        .local_ca_ack_delay = (uint8_t)profile->local_ca_ack_delay,
        .phys_port_cnt = nic->n_ports,
    };
    return 0;
}

static enum ibv_mtu mtu_code(uint32_t mtu_bytes)
{
    switch (mtu_bytes) {
    case 4096:
        return IBV_MTU_4096;
    case 2048:
        return IBV_MTU_2048;
    case 1024:
        return IBV_MTU_1024;
    case 512:
        return IBV_MTU_512;
    default:
        return IBV_MTU_256;
    }
}

/* Returns the code of the lowest IB speed at which four lanes carry the rate (IBA
 * PortInfo.LinkSpeedActive). */
static uint8_t active_speed(uint64_t rate_bps)
{
    static const struct {
        uint64_t lane_bps;
        uint8_t code;
    } speeds[] = {
        {2500000000u, 1},   {5000000000u, 2},   {10000000000u, 4},
        {14000000000u, 16}, {25000000000u, 32}, {50000000000u, 64},
    };
    for (size_t i = 0; i < WEFT_LENGTH(speeds); i++) {
        if (rate_bps <= 4 * speeds[i].lane_bps) {
            return speeds[i].code;
        }
    }
    return 128;
}

int sim_nic_query_port(struct sim_nic *nic, uint8_t number, struct ibv_port_attr *out)
{
    if (number < 1 || number > nic->n_ports) {
        return EINVAL;
    }
    const struct sim_port *port = nic->ports[number - 1].port;
    bool is_up = sim_port_is_up(port);
    *out = (struct ibv_port_attr){
        .state = is_up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN,
        .max_mtu = mtu_code(nic->profile->max_mtu_bytes),
        .active_mtu = mtu_code(sim_nic_active_mtu(nic, port)),
        .gid_tbl_len = (int)nic->profile->gid_tbl_len,
        .port_cap_flags = IBV_PORT_CM_SUP,
        .max_msg_sz = nic->profile->max_msg_bytes,
        .pkey_tbl_len = 1,
        .max_vl_num = 1,
        .active_width = 2, /* 4 lanes */
        .active_speed = active_speed(sim_port_rate(port)),
        .phys_state = is_up ? 5 : 3, /* LinkUp, Disabled */
        .link_layer = IBV_LINK_LAYER_ETHERNET,
    };
    return 0;
}

int sim_nic_query_gid(struct sim_nic *nic, uint8_t number, uint32_t index,
                      struct sim_gid *out)
{
    if (number < 1 || number > nic->n_ports) {
        return EINVAL;
    }
    return sim_stack_gid(nic->stack, nic->ports[number - 1].port, index, out);
}

static uint8_t port_number(const struct sim_nic *nic, const struct sim_port *port)
{
    uint8_t i = 0;
    while (nic->ports[i].port != port) {
        i++;
        weft_check(i < nic->n_ports);
    }
    return (uint8_t)(i + 1);
}

static void nic_carrier(struct sim_nic *nic, struct sim_port *port, bool is_up)
{
    sim_nic_raise_port(nic, port_number(nic, port),
                       is_up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
}

static const struct sim_nic_ops nic_ops = {
    .has_frames = sim_nic_has_frames,
    .pull = sim_nic_pull,
    .input = sim_nic_input,
    .carrier = nic_carrier,
    .build_request = rc_build_request,
    .train_limit = rc_train_limit,
    .train_extend = rc_train_extend,
    .train_take_back = rc_train_take_back,
    .train_fits = rc_train_fits,
    .train_execute = rc_train_execute,
};

void sim_port_attach(struct sim_port *port, struct sim_nic *nic, struct sim_stack *stack)
{
    weft_ps rx_overhead_ps = nic == NULL ? 0 : nic->profile->rx_overhead_ps;
    if (nic != NULL) {
        nic->engine->nic_ops = &nic_ops;
    }
    sim_port_set_users(port, nic, rx_overhead_ps, stack, &sim_stack_ops);
}

void sim_nic_gid_changed(struct sim_nic *nic, struct sim_port *port)
{
    sim_nic_raise_port(nic, port_number(nic, port), IBV_EVENT_GID_CHANGE);
}
