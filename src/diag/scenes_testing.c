/* Defines scenes whose causes differ only in settings, counters, addresses or the GID tables of
 * both ends. */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "diag/diag_testing.h"
#include "diag/private.h"

static void fails_rtr(struct scene *s, int sys_errno)
{
    weft_fail_errno(&s->failure->error, sys_errno, WEFT_PHASE_RTR, "modify_qp");
}

/* Sets the ports and GIDs of the failure to those of the cable that the hosts share. */
static void aim_well(struct scene *s)
{
    scene_aim(s, "p0", "192.168.101.1", "192.168.101.2");
    weft_error_text(&s->failure->error, WEFT_VALUE_REMOTE_PORT, "p1");
}

static void lose_packets_well(struct scene *s)
{
    scene_loses_packets(s);
    aim_well(s);
}

/* Sets the counters at both ends of the cable: packets from titanic (`out`) and to it (`in`). */
static void count(struct scene *s, int64_t out_sent, int64_t out_received,
                  int64_t in_sent, int64_t in_received)
{
    int64_t *near = s->a->ports[0].counters;
    int64_t *far = s->b->ports[1].counters;

    near[DIAG_TX_PACKETS] = out_sent;
    far[DIAG_RX_PACKETS] = out_received;
    far[DIAG_TX_PACKETS] = in_sent;
    near[DIAG_RX_PACKETS] = in_received;
    near[DIAG_ICRC_ERRORS] = far[DIAG_ICRC_ERRORS] = 0;
    near[DIAG_RX_PAUSES] = far[DIAG_RX_PAUSES] = 0;
}

/* Iceberg:p0 has an address of 169.254.0.0/16. Titanic:p1 has none, so they share no subnet. */
void scene_self_assigned_there(struct scene *s)
{
    scene_set_address(&s->b->ports[0], "169.254.30.3/16");
    fails_rtr(s, ETIMEDOUT);
    scene_aim(s, "p1", "192.168.102.2", "169.254.30.3");
}

/* On each host, p0 and p1 belong to one NIC, which NCCL 2.30 merges into one device. */
void scene_merged(struct scene *s)
{
    s->a->ports[1].device = s->b->ports[1].device = 0;
    weft_format(s->a->policy, sizeof(s->a->policy), "nccl-2.30-subnet-aware");
    fails_rtr(s, ETIMEDOUT);
    scene_aim(s, "p0", "192.168.101.1", "192.168.100.1");
}

/* Titanic:p0 and titanic:p1 belong to one NIC (a PF and a VF). Iceberg's ports belong to two. */
void scene_merged_here(struct scene *s)
{
    s->a->ports[1].device = s->a->ports[0].device;
    weft_error_int(&s->failure->error, WEFT_VALUE_RAILS, 2);
    fails_rtr(s, ETIMEDOUT);
    scene_aim(s, "p1", "192.168.102.2", "192.168.101.2");
}

/* A second cable joins titanic:p1 and iceberg:p0, and the program pairs p0 of both hosts. */
void scene_crossed(struct scene *s)
{
    scene_set_address(&s->b->ports[0], "192.168.102.9/24");
    fails_rtr(s, ETIMEDOUT);
    scene_aim(s, "p0", "192.168.101.1", "192.168.102.9");
}

void scene_blind(struct scene *s)
{
    s->a->merges_nics = DIAG_NO;
    weft_format(s->a->policy, sizeof(s->a->policy), "nccl-2.30-subnet-aware");
    fails_rtr(s, ETIMEDOUT);
    scene_aim(s, "p0", "192.168.101.1", "192.168.100.1");
}

void scene_coarse(struct scene *s)
{
    scene_blind(s);
    scene_set_address(&s->a->ports[0], "10.0.0.1/30");
    scene_set_address(&s->b->ports[1], "10.0.0.2/30");
    scene_set_address(&s->a->ports[1], "10.0.0.6/30");
    scene_set_address(&s->b->ports[0], "10.0.0.9/30");
    s->failure->error.n_values = 0;
    scene_aim(s, "p0", "10.0.0.1", "10.0.0.9");
}

void scene_self_assigned(struct scene *s)
{
    scene_set_address(&s->a->ports[0], "169.254.1.1/16");
    scene_set_address(&s->a->ports[1], "169.254.2.1/16");
    scene_set_address(&s->b->ports[0], "169.254.1.2/16");
    scene_set_address(&s->b->ports[1], "169.254.2.2/16");
    fails_rtr(s, ETIMEDOUT);
    scene_aim(s, "p0", "169.254.1.1", "169.254.2.2");
}

/* Iceberg:p1 has 192.168.101.2/30, a subnet that does not contain titanic's address. */
void scene_prefixes(struct scene *s)
{
    scene_set_address(&s->a->ports[0], "192.168.101.129/24");
    scene_set_address(&s->b->ports[1], "192.168.101.2/30");
    fails_rtr(s, ENETUNREACH);
    scene_aim(s, "p0", "192.168.101.129", "192.168.101.2");
}

void scene_bare(struct scene *s)
{
    s->b->ports[1].n_gids = 0;
    s->b->ports[1].n_addresses = 0;
    fails_rtr(s, EINVAL);
    scene_aim(s, "p0", "192.168.101.1", "fe80::1");
    weft_error_text(&s->failure->error, WEFT_VALUE_REMOTE_PORT, "p1");
}

void scene_bare_route(struct scene *s)
{
    s->b->ports[1].n_gids = 0;
    s->b->ports[1].n_addresses = 0;
    weft_fail(&s->failure->error, WEFT_ERR_ROUTE, WEFT_PHASE_ROUTE, "no way");
    weft_error_text(&s->failure->error, WEFT_VALUE_REMOTE_ADDRESSES, "none");
}

void scene_duplicate(struct scene *s)
{
    scene_set_address(&s->b->ports[1], "192.168.101.1/24");
    lose_packets_well(s);
    weft_format(s->failure->error.values[3].text, 64, "192.168.101.1");
}

/* Policy weft does not pair two ports that have the same address. */
void scene_duplicate_route(struct scene *s)
{
    scene_set_address(&s->b->ports[1], "192.168.101.1/24");
    weft_fail(&s->failure->error, WEFT_ERR_ROUTE, WEFT_PHASE_ROUTE, "no way");
}

/* The remote GID is an address of both iceberg:p0 and titanic:p1. Titanic:p1 is not in use. */
void scene_duplicate_elsewhere(struct scene *s)
{
    scene_set_address(&s->b->ports[0], "192.168.102.2/24");
    fails_rtr(s, ETIMEDOUT);
    scene_aim(s, "p0", "192.168.101.1", "192.168.102.2");
}

void scene_fixed_index(struct scene *s)
{
    s->a->gid_index = 3;
    fails_rtr(s, EINVAL);
    aim_well(s);
}

/* Restricts the host to the port `named` by NCCL_IB_HCA. That port has no carrier and no GID. */
static void name_other_cage(struct diag_host *host, struct diag_port *named)
{
    weft_format(host->hca_list, sizeof(host->hca_list), "=%s", named->name);
    for (uint32_t i = 0; i < host->n_ports; i++) {
        host->ports[i].is_opened = diag_known_of(&host->ports[i] == named);
    }
    named->is_up = DIAG_NO;
    named->n_gids = 0;
}

static void finds_no_way(struct scene *s)
{
    weft_fail(&s->failure->error, WEFT_ERR_ROUTE, WEFT_PHASE_ROUTE, "no way");
    weft_error_text(&s->failure->error, WEFT_VALUE_LOCAL_ADDRESSES, "none");
}

void scene_list(struct scene *s)
{
    finds_no_way(s);
    name_other_cage(s->a, &s->a->ports[1]);
    s->b->ports[0].is_opened = s->b->ports[1].is_opened = DIAG_YES;
}

void scene_list_there(struct scene *s)
{
    finds_no_way(s);
    name_other_cage(s->b, &s->b->ports[0]);
    s->a->ports[0].is_opened = s->a->ports[1].is_opened = DIAG_YES;
}

/* The only port that titanic may use leads to the peer, but has no carrier. */
void scene_list_cut(struct scene *s)
{
    weft_fail(&s->failure->error, WEFT_ERR_ROUTE, WEFT_PHASE_ROUTE, "no way");
    s->a->ports[0].is_opened = DIAG_YES;
    s->a->ports[0].is_up = DIAG_NO;
    s->a->ports[1].is_opened = DIAG_NO;
    s->b->ports[0].is_opened = s->b->ports[1].is_opened = DIAG_YES;
}

static void add_cable(struct scene *s, const char *from, const char *from_port,
                      const char *to, const char *to_port)
{
    struct diag_cable *cable;

    if (s->input.cables == NULL) {
        s->input.cables = weft_calloc(4, sizeof(*cable));
    }
    cable = &s->input.cables[s->input.n_cables++];
    weft_format(cable->from, sizeof(cable->from), "%s", from);
    weft_format(cable->from_port, sizeof(cable->from_port), "%s", from_port);
    weft_format(cable->to, sizeof(cable->to), "%s", to);
    weft_format(cable->to_port, sizeof(cable->to_port), "%s", to_port);
}

/* Makes the ports of a host members of these bonds. */
static void bond(struct diag_host *host, const char *first, const char *second)
{
    const char *const names[] = {first, second};

    for (uint32_t i = 0; i < 2; i++) {
        host->ports[i].is_bonded = DIAG_YES;
        weft_format(host->ports[i].master, sizeof(host->ports[i].master), "%s", names[i]);
    }
}

/* RTR times out. Titanic's other cable leads to carpathia, and no port is in a bond. */
static void is_not_answered(struct scene *s)
{
    add_cable(s, "titanic", "p0", "iceberg", "p1");
    add_cable(s, "carpathia", "p0", "titanic", "p1");
    for (uint32_t i = 0; i < 2; i++) {
        s->a->ports[i].is_bonded = s->b->ports[i].is_bonded = DIAG_NO;
    }
    fails_rtr(s, ETIMEDOUT);
    aim_well(s);
}

void scene_bond(struct scene *s)
{
    is_not_answered(s);
    bond(s->a, "bond0", "bond0");
}

void scene_bond_there(struct scene *s)
{
    is_not_answered(s);
    add_cable(s, "iceberg", "p0", "olympic", "p0");
    bond(s->b, "bond0", "bond0");
}

/* Neither cable of titanic's bond leads to iceberg. */
void scene_bond_elsewhere(struct scene *s)
{
    is_not_answered(s);
    bond(s->a, "bond0", "bond0");
    weft_format(s->input.cables[0].to, sizeof(s->input.cables[0].to), "olympic");
}

void scene_two_bonds(struct scene *s)
{
    is_not_answered(s);
    bond(s->a, "bond0", "bond1");
}

void scene_no_route(struct scene *s)
{
    weft_fail_errno(&s->failure->error, ENETUNREACH, WEFT_PHASE_BOOT,
                    "cannot be reached");
    weft_error_text(&s->failure->error, WEFT_VALUE_RENDEZVOUS, "192.168.100.1");
}

/* Titanic only waited for iceberg, which had no route to titanic. */
void scene_no_route_there(struct scene *s)
{
    struct diag_error *call = &s->b->errors[s->b->n_errors++];

    weft_fail(&s->failure->error, WEFT_ERR_TIMEOUT, WEFT_PHASE_BOOT, "rank 1 is late");
    weft_error_text(&s->failure->error, WEFT_VALUE_RENDEZVOUS, "192.168.102.2");
    *call = (struct diag_error){.source = DIAG_OWN};
    weft_fail_errno(&call->error, ENETUNREACH, WEFT_PHASE_BOOT, "cannot be reached");
    weft_error_text(&call->error, WEFT_VALUE_RENDEZVOUS, "192.168.102.2");
    weft_format(call->peer, sizeof(call->peer), "titanic");
}

/* Adds a GID without a matching address of the port, as of an interface in a container. The host's
 * settings select its slot. */
static void add_foreign_gid(struct diag_host *host, struct diag_port *port)
{
    struct diag_gid *gid = &port->gids[port->n_gids++];

    *gid = port->gids[0];
    gid->ip.bytes[15] = 77;
    gid->prefix_len = 0;
    gid->index = 5;
    host->gid_index = 5;
}

void scene_foreign_slot(struct scene *s)
{
    add_foreign_gid(s->a, &s->a->ports[0]);
    fails_rtr(s, ENETUNREACH);
    scene_aim(s, "p0", "192.168.101.77", "192.168.101.2");
    weft_error_text(&s->failure->error, WEFT_VALUE_REMOTE_PORT, "p1");
}

void scene_foreign_slot_there(struct scene *s)
{
    add_foreign_gid(s->b, &s->b->ports[1]);
    fails_rtr(s, ETIMEDOUT);
    scene_aim(s, "p0", "192.168.101.1", "192.168.101.77");
    weft_error_text(&s->failure->error, WEFT_VALUE_REMOTE_PORT, "p1");
}

/* Puts an IPv6 address into slot 3, which the settings of `host` select, and moves the IPv4 address
 * to slot 5. */
static void put_v6_first(struct diag_host *host, struct diag_port *port)
{
    struct diag_gid *gid = &port->gids[port->n_gids++];

    *gid = port->gids[0];
    gid->index = 5;
    ck_assert(io_ip_parse("fd00:9::7", &port->gids[0].ip));
    port->gids[0].prefix_len = 64;
    port->gids[0].index = 3;
    host->gid_index = 3;
}

void scene_other_family(struct scene *s)
{
    put_v6_first(s->a, &s->a->ports[0]);
    fails_rtr(s, EINVAL);
    scene_aim(s, "p0", "fd00:9::7", "192.168.101.2");
    weft_error_text(&s->failure->error, WEFT_VALUE_REMOTE_PORT, "p1");
}

/* The settings of both hosts select slot 3, which is correct at titanic, where RTR fails. */
void scene_other_family_there(struct scene *s)
{
    put_v6_first(s->b, &s->b->ports[1]);
    s->a->gid_index = 3;
    s->a->ports[0].gids[0].index = 3;
    fails_rtr(s, EINVAL);
    scene_aim(s, "p0", "192.168.101.1", "fd00:9::7");
    weft_error_text(&s->failure->error, WEFT_VALUE_REMOTE_PORT, "p1");
}

void scene_default_gid(struct scene *s)
{
    s->a->gid_index = DIAG_NO_GID_INDEX;
    fails_rtr(s, EINVAL);
    scene_aim(s, "p0", "fe80::1", "192.168.101.2");
}

void scene_only_v6(struct scene *s)
{
    scene_set_address(&s->a->ports[0], "fd00:1::1/64");
    fails_rtr(s, EINVAL);
    scene_aim(s, "p0", "fe80::1", "192.168.101.2");
}

void scene_no_netdev(struct scene *s)
{
    fails_rtr(s, ENODEV);
    aim_well(s);
}

void scene_vlans(struct scene *s)
{
    s->a->ports[0].gids[0].vlan_id = 100;
    fails_rtr(s, ETIMEDOUT);
    aim_well(s);
}

void scene_arp_ignored(struct scene *s)
{
    s->b->ports[1].arp_ignore = 8;
    fails_rtr(s, ETIMEDOUT);
    aim_well(s);
}

void scene_flaps(struct scene *s)
{
    for (int i = 0; i < 2; i++) {
        s->b->events[s->b->n_events++] =
            (struct diag_event){.type = "port_error", .port = "p1"};
    }
    lose_packets_well(s);
}

void scene_one_way(struct scene *s)
{
    count(s, 1000, 900, 500, 500);
    lose_packets_well(s);
}

void scene_lossy(struct scene *s)
{
    count(s, 1000, 900, 500, 400);
    lose_packets_well(s);
}

void scene_corrupting(struct scene *s)
{
    count(s, 1000, 1000, 500, 500);
    s->b->ports[1].counters[DIAG_ICRC_ERRORS] = 70;
    lose_packets_well(s);
}

/* The job makes no progress and no work request failed, so only the rail in use is known. */
void scene_paused(struct scene *s)
{
    struct diag_use *use = &s->a->uses[s->a->n_uses++];

    count(s, 1000, 1000, 500, 500);
    s->a->ports[0].counters[DIAG_RX_PAUSES] = 3;
    *use = (struct diag_use){.peer = "iceberg",
                             .local_port = "p0",
                             .remote_port = "p1",
                             .local_gid = "192.168.101.1",
                             .remote_gid = "192.168.101.2",
                             .path_mtu = 4096};
    s->a->has_uses = true;
    s->failure->peer[0] = '\0';
    weft_fail(&s->failure->error, WEFT_ERR_TIMEOUT, WEFT_PHASE_JOBS, "not done in time");
}

static void probe_fails(struct scene *s)
{
    weft_fail(&s->failure->error, WEFT_ERR_TIMEOUT, WEFT_PHASE_PROBE, "no answer");
    aim_well(s);
    weft_error_int(&s->failure->error, WEFT_VALUE_SMALL_PASSED, 0);
    s->a->ports[0].is_software = s->b->ports[1].is_software = DIAG_YES;
    for (int i = DIAG_RX_FILTERED_SOURCE; i <= DIAG_RX_FILTERED_PORT; i++) {
        s->a->ports[0].counters[i] = s->b->ports[1].counters[i] = 0;
    }
}

void scene_firewall(struct scene *s)
{
    probe_fails(s);
    s->b->ports[1].counters[DIAG_RX_FILTERED_PORT] = 40;
}

/* The QP numbers of both devices exceed 16 bits, and each end knows only the low 16 bits of its
 * peer's number. */
void scene_truncated(struct scene *s)
{
    struct diag_error *other = &s->b->errors[s->b->n_errors++];

    weft_format(s->a->policy, sizeof(s->a->policy), "mesh-plugin-2026-01");
    weft_format(s->b->policy, sizeof(s->b->policy), "mesh-plugin-2026-01");
    weft_fail(&s->failure->error, WEFT_ERR_TIMEOUT, WEFT_PHASE_PROBE, "no answer");
    weft_error_int(&s->failure->error, WEFT_VALUE_SMALL_PASSED, 0);
    weft_error_int(&s->failure->error, WEFT_VALUE_LOCAL_QPN, 0x12347);
    weft_error_int(&s->failure->error, WEFT_VALUE_REMOTE_QPN, 0x2350);
    aim_well(s);
    weft_format(other->peer, sizeof(other->peer), "titanic");
    weft_fail(&other->error, WEFT_ERR_TIMEOUT, WEFT_PHASE_PROBE, "no answer");
    weft_error_int(&other->error, WEFT_VALUE_SMALL_PASSED, 0);
    weft_error_int(&other->error, WEFT_VALUE_LOCAL_QPN, 0x12350);
    weft_error_int(&other->error, WEFT_VALUE_REMOTE_QPN, 0x2347);
    count(s, 100, 100, 100, 100);
}

void scene_rp_filter(struct scene *s)
{
    probe_fails(s);
    s->b->ports[1].counters[DIAG_RX_FILTERED_SOURCE] = 40;
}

/* Titanic's connection attempt times out. Iceberg only knows that titanic gave up. */
void scene_filtered(struct scene *s)
{
    scene_hears_of_it(s);
    weft_fail_errno(&s->failure->error, ETIMEDOUT, WEFT_PHASE_TCP, "no answer");
}

/* Both met over the cable. Titanic heard iceberg without a gap, but no TCP connection came. */
void scene_only_announced(struct scene *s, bool was_heard_there)
{
    struct diag_error *there = &s->b->errors[s->b->n_errors++];

    weft_fail(&s->failure->error, WEFT_ERR_TIMEOUT, WEFT_PHASE_BOOT, "was heard");
    s->failure->error.sys_errno = ETIMEDOUT;
    weft_error_text(&s->failure->error, WEFT_VALUE_RENDEZVOUS, "none");
    weft_error_int(&s->failure->error, WEFT_VALUE_HEARD, 1);
    s->failure->at_ns = 1000;
    *there = (struct diag_error){.at_ns = 2000};
    weft_format(there->peer, sizeof(there->peer), "titanic");
    weft_fail(&there->error, WEFT_ERR_TIMEOUT, WEFT_PHASE_BOOT, "was heard");
    weft_error_text(&there->error, WEFT_VALUE_RENDEZVOUS, "none");
    weft_error_int(&there->error, WEFT_VALUE_HEARD, was_heard_there);
}

void scene_filtered_over_cable(struct scene *s)
{
    scene_only_announced(s, true);
}

/* Titanic lost the network over which the hosts meet. */
void scene_off_management(struct scene *s)
{
    scene_no_route(s);
    s->a->management_down = DIAG_YES;
}

void scene_off_management_there(struct scene *s)
{
    scene_filtered(s);
    s->b->management_down = DIAG_YES;
}

/* Titanic waited for iceberg, whose calls to titanic were not answered. */
void scene_off_management_here(struct scene *s)
{
    scene_no_route_there(s);
    s->b->errors[0].error.sys_errno = ETIMEDOUT;
    s->a->management_down = DIAG_YES;
}

static void wait_in_round(struct scene *s)
{
    struct diag_wait *wait = weft_calloc(1, sizeof(*wait));

    *wait = (struct diag_wait){.what = WEFT_WAIT_ROUND, .waited_ns = 1};
    weft_format(wait->peer, sizeof(wait->peer), "titanic");
    s->b->waits = wait;
    s->b->n_waits = 1;
    s->b->management_down = DIAG_YES;
}

/* Titanic is in its job, iceberg still waits for the round before it. */
void scene_off_management_in_round(struct scene *s)
{
    weft_fail(&s->failure->error, WEFT_ERR_TIMEOUT, WEFT_PHASE_JOBS, "not done");
    s->failure->peer[0] = '\0';
    wait_in_round(s);
}

/* Titanic connects to iceberg, which has not heard that all have joined. */
void scene_off_management_in_set_up(struct scene *s)
{
    weft_fail(&s->failure->error, WEFT_ERR_TIMEOUT, WEFT_PHASE_AUTH, "silent");
    wait_in_round(s);
}

void scene_late(struct scene *s)
{
    struct diag_error *refusal = &s->b->errors[s->b->n_errors++];

    weft_fail(&s->failure->error, WEFT_ERR_TIMEOUT, WEFT_PHASE_BOOT, "it did not come");
    weft_error_text(&s->failure->error, WEFT_VALUE_RENDEZVOUS, "10.0.0.1");
    s->failure->at_ns = 1000;
    *refusal = (struct diag_error){.at_ns = 2000};
    weft_format(refusal->peer, sizeof(refusal->peer), "titanic");
    weft_fail_errno(&refusal->error, ECONNREFUSED, WEFT_PHASE_BOOT, "cannot be reached");
    weft_error_text(&refusal->error, WEFT_VALUE_RENDEZVOUS, "10.0.0.1");
}

/* Iceberg dials a loopback address, and so itself, because its host list was written on titanic. */
void scene_loopback(struct scene *s)
{
    struct diag_error *refusal = &s->b->errors[0];

    scene_late(s);
    refusal->at_ns = 500;
    refusal->source = DIAG_HEARSAY;
    refusal->error.n_values = 0;
    weft_error_text(&refusal->error, WEFT_VALUE_RENDEZVOUS, "127.0.1.1");
}

void scene_completion(struct scene *s, int wc_status)
{
    weft_fail_completion(&s->failure->error, wc_status, WEFT_PHASE_DATA,
                         "a work request failed");
    aim_well(s);
}

void scene_receiver_late(struct scene *s)
{
    scene_completion(s, 13);
}

static void refuse(struct scene *s, enum weft_phase phase, int sys_errno)
{
    weft_fail_errno(&s->failure->error, sys_errno, phase, "a verb");
    s->failure->peer[0] = '\0';
}

void scene_kernel_memory(struct scene *s)
{
    refuse(s, WEFT_PHASE_REGISTER, ENOMEM);
}

void scene_forbidden(struct scene *s)
{
    refuse(s, WEFT_PHASE_CREATE, EACCES);
}

void scene_full(struct scene *s)
{
    refuse(s, WEFT_PHASE_CREATE, EBUSY);
}

void scene_rejected(struct scene *s)
{
    refuse(s, WEFT_PHASE_CREATE, EINVAL);
}

void scene_device_failed(struct scene *s)
{
    refuse(s, WEFT_PHASE_REGISTER, EIO);
}

/* A TCP call failed, not a verb, so no limit of a device is the cause. */
void scene_no_descriptor(struct scene *s)
{
    refuse(s, WEFT_PHASE_TCP, EMFILE);
}

/* Titanic's error is iceberg's failure, as reported by an ABORT. */
void scene_hearsay(struct scene *s)
{
    struct weft_error *error = &s->failure->error;

    weft_fail(error, WEFT_ERR_CLOSED, WEFT_PHASE_PEER, "peer failed in rtr: errno 110");
    s->failure->source = DIAG_HEARSAY;
    weft_error_text(error, WEFT_VALUE_PEER_PHASE, "rtr");
    weft_error_text(error, WEFT_VALUE_PEER_STATUS, "system");
    weft_error_int(error, WEFT_VALUE_PEER_ERRNO, ETIMEDOUT);
    aim_well(s);
    s->a->ports[0].arp_ignore = 8;
}

/* The connection failed because of the device's event, before a packet was lost. */
void scene_port_event(struct scene *s)
{
    weft_fail(&s->failure->error, WEFT_ERR_CLOSED, WEFT_PHASE_PORT,
              "device 0 port 1 went down");
    aim_well(s);
    s->a->events[s->a->n_events++] =
        (struct diag_event){.type = "port_error", .port = "p0"};
}

/* Titanic sends to carpathia over the relay iceberg, and the cable to iceberg failed. */
void scene_way_to_relay(struct scene *s)
{
    scene_down_here(s);
    weft_format(s->failure->peer, sizeof(s->failure->peer), "carpathia");
    weft_error_text(&s->failure->error, WEFT_VALUE_PEER, "iceberg");
}
