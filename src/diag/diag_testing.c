#include "diag/diag_testing.h"

#include <check.h>
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

static void add_gid(struct diag_port *port, const char *address, int type)
{
    struct diag_gid *gid = &port->gids[port->n_gids++];
    struct io_prefix prefix;

    ck_assert(io_prefix_parse(address, &prefix));
    *gid = (struct diag_gid){.ip = prefix.ip,
                             .type = type,
                             .prefix_len = prefix.prefix_len,
                             .index = (int)port->n_gids - 1};
}

static struct diag_port *add_port(struct diag_host *host, const char *name,
                                  const char *address)
{
    struct diag_port *port = &host->ports[host->n_ports++];

    diag_port_init(port);
    port->is_up = DIAG_YES;
    port->netdev_mtu = 9000;
    port->active_mtu = 4096;
    port->rate_bps = 100000000000;
    port->has_gids = true;
    port->device = host->n_ports - 1;
    port->is_software = DIAG_NO;
    port->arp_ignore = port->rp_filter = 0;
    port->n_addresses = 1;
    weft_format(port->name, sizeof(port->name), "%s", name);
    add_gid(port, address, 2);
    return port;
}

static void init_host(struct diag_host *host, const char *name)
{
    *host = (struct diag_host){.was_observed = true,
                               .memlock_bytes = INT64_MAX,
                               .has_events = true,
                               .policy = "nccl-2.25",
                               .gid_index = DIAG_NO_GID_INDEX,
                               .subnet_len = DIAG_SUBNET_LEN,
                               .forwards_ip = DIAG_NO,
                               .management_down = DIAG_NO,
                               .merges_nics = DIAG_YES};
    weft_format(host->name, sizeof(host->name), "%s", name);
    weft_format(host->state, sizeof(host->state), "connect");
    host->ports = weft_calloc(4, sizeof(*host->ports));
    host->errors = weft_calloc(4, sizeof(*host->errors));
    host->left_out = weft_calloc(2, sizeof(*host->left_out));
    host->events = weft_calloc(4, sizeof(*host->events));
    host->uses = weft_calloc(2, sizeof(*host->uses));
    host->described = weft_calloc(2, sizeof(*host->described));
}

void scene_wait(struct diag_host *host, enum weft_wait_for what, const char *peer)
{
    host->waits = weft_realloc(host->waits, (host->n_waits + 1) * sizeof(*host->waits));
    host->waits[host->n_waits] = (struct diag_wait){.what = what, .waited_ns = 5000000};
    weft_format(host->waits[host->n_waits].peer, sizeof(host->waits[0].peer), "%s", peer);
    host->n_waits++;
}

struct diag_host *scene_add_host(struct scene *scene, const char *name)
{
    struct diag_input *input = &scene->input;

    input->hosts =
        weft_realloc(input->hosts, (input->n_hosts + 1) * sizeof(*input->hosts));
    init_host(&input->hosts[input->n_hosts], name);
    scene->a = &input->hosts[0];
    scene->b = &input->hosts[1];
    return &input->hosts[input->n_hosts++];
}

void scene_set_address(struct diag_port *port, const char *address)
{
    port->n_gids = 0;
    add_gid(port, address, 2);
}

void scene_set(struct scene *s)
{
    s->input = (struct diag_input){.rank_order.is_known = true};
    s->input.hosts = weft_calloc(5, sizeof(*s->input.hosts));
    s->input.n_hosts = 2;
    s->a = &s->input.hosts[0];
    s->b = &s->input.hosts[1];
    init_host(s->a, "titanic");
    init_host(s->b, "iceberg");
    add_port(s->a, "p0", "192.168.101.1/24");
    add_port(s->a, "p1", "192.168.102.2/24");
    add_port(s->b, "p0", "192.168.100.1/24");
    add_port(s->b, "p1", "192.168.101.2/24");
    s->failure = &s->a->errors[s->a->n_errors++];
    weft_format(s->failure->peer, sizeof(s->failure->peer), "iceberg");
}

void scene_aim(struct scene *s, const char *local_port, const char *local_gid,
               const char *remote_gid)
{
    struct weft_error *error = &s->failure->error;

    weft_error_text(error, WEFT_VALUE_LOCAL_PORT, local_port);
    weft_error_text(error, WEFT_VALUE_LOCAL_GID, local_gid);
    weft_error_text(error, WEFT_VALUE_LOCAL_GID_TYPE, "RoCE v2");
    weft_error_text(error, WEFT_VALUE_REMOTE_GID, remote_gid);
    weft_error_text(error, WEFT_VALUE_REMOTE_GID_TYPE, "RoCE v2");
    weft_error_int(error, WEFT_VALUE_PATH_MTU, 4096);
}

static void fails_to_resolve(struct scene *s, int sys_errno)
{
    weft_fail_errno(&s->failure->error, sys_errno, WEFT_PHASE_RTR, "modify_qp");
}

void scene_loses_packets(struct scene *s)
{
    weft_fail_completion(&s->failure->error, 12, WEFT_PHASE_DATA,
                         "a data work request failed");
}

static void fails(struct scene *s, weft_status status, enum weft_phase phase)
{
    weft_fail(&s->failure->error, status, phase, "it failed");
}

/* ---- the cases ---- */

static void wrong_nic_110(struct scene *s)
{
    fails_to_resolve(s, ETIMEDOUT);
    scene_aim(s, "p0", "192.168.101.1", "192.168.100.1");
}

static void wrong_nic_101(struct scene *s)
{
    fails_to_resolve(s, ENETUNREACH);
    scene_aim(s, "p1", "192.168.102.2", "192.168.101.2");
}

/* NCCL_IB_HCA names the port that leads to another host. */
static void list_apart(struct scene *s)
{
    wrong_nic_101(s);
    weft_format(s->a->hca_list, sizeof(s->a->hca_list), "=p1");
    s->a->ports[0].is_opened = DIAG_NO;
    s->a->ports[1].is_opened = DIAG_YES;
    s->b->ports[0].is_opened = s->b->ports[1].is_opened = DIAG_YES;
}

/* The list leaves out no port that faces the peer, so it is not the cause. */
static void list_of_all(struct scene *s)
{
    list_apart(s);
    s->a->ports[0].is_opened = DIAG_YES;
}

static void wrong_nic_wc(struct scene *s)
{
    scene_loses_packets(s);
    scene_aim(s, "p1", "192.168.102.2", "192.168.101.2");
}

static void renumber_apart(struct scene *s)
{
    s->b->ports[1].n_gids = 0;
    add_gid(&s->b->ports[1], "192.168.110.2/24", 2);
}

/* Both ends of the cable have point-to-point addresses, so that the GID of each is the address of
 * the other. */
static void peer_addresses(struct scene *s)
{
    s->a->ports[0].n_gids = s->b->ports[1].n_gids = 0;
    add_gid(&s->a->ports[0], "192.168.101.2/32", 2);
    add_gid(&s->b->ports[1], "192.168.101.1/32", 2);
    s->a->ports[0].gids[0].prefix_len = s->b->ports[1].gids[0].prefix_len = 0;
    fails_to_resolve(s, ENETUNREACH);
    scene_aim(s, "p0", "192.168.101.2", "192.168.101.1");
}

/* The same, over the only ports of both. */
static void peer_addresses_alone(struct scene *s)
{
    struct diag_port *const others[] = {&s->a->ports[1], &s->b->ports[0]};

    peer_addresses(s);
    for (size_t i = 0; i < WEFT_LENGTH(others); i++) {
        others[i]->n_gids = 0;
        others[i]->n_addresses = 0;
        others[i]->is_up = DIAG_NO;
    }
}

/* The GID table of iceberg's port is empty: the queue pair's remote GID has been removed. */
static void gid_deleted(struct scene *s)
{
    scene_loses_packets(s);
    scene_aim(s, "p0", "192.168.101.1", "192.168.101.2");
    weft_error_text(&s->failure->error, WEFT_VALUE_REMOTE_PORT, "p1");
    s->b->ports[1].n_gids = 0;
}

static void gid_moved_here(struct scene *s)
{
    scene_loses_packets(s);
    scene_aim(s, "p0", "192.168.101.1", "192.168.101.2");
    s->a->ports[0].n_gids = 0;
    add_gid(&s->a->ports[0], "192.168.101.9/24", 2);
}

static void no_facing_rtr(struct scene *s)
{
    renumber_apart(s);
    fails_to_resolve(s, EHOSTUNREACH);
    scene_aim(s, "p0", "192.168.101.1", "192.168.110.2");
}

static void no_facing_route(struct scene *s)
{
    renumber_apart(s);
    fails(s, WEFT_ERR_ROUTE, WEFT_PHASE_ROUTE);
}

static void collision(struct scene *s)
{
    s->a->ports[1].n_gids = 0;
    add_gid(&s->a->ports[1], "192.168.101.7/24", 2);
    fails_to_resolve(s, ETIMEDOUT);
    scene_aim(s, "p0", "192.168.101.1", "192.168.101.2");
}

void scene_down_here(struct scene *s)
{
    s->a->ports[0].is_up = DIAG_NO;
    scene_loses_packets(s);
    scene_aim(s, "p0", "192.168.101.1", "192.168.101.2");
}

static void down_there(struct scene *s)
{
    s->b->ports[1].is_up = DIAG_NO;
    s->a->ports[0].is_up = DIAG_UNKNOWN;
    fails_to_resolve(s, ETIMEDOUT);
    scene_aim(s, "p0", "192.168.101.1", "192.168.101.2");
}

static void was_down(struct scene *s)
{
    s->a->events[s->a->n_events++] =
        (struct diag_event){.type = "port_error", .port = "p0"};
    scene_loses_packets(s);
    scene_aim(s, "p0", "192.168.101.1", "192.168.101.2");
}

static void down_route(struct scene *s)
{
    s->a->ports[0].is_up = DIAG_NO;
    fails(s, WEFT_ERR_ROUTE, WEFT_PHASE_ROUTE);
}

static void mtu_too_large(struct scene *s)
{
    s->b->ports[1].netdev_mtu = 1500;
    scene_loses_packets(s);
    scene_aim(s, "p0", "192.168.101.1", "192.168.101.2");
}

/* Sets the counters at both ends of the cable: n_lost of 100 frames from titanic and none from
 * iceberg were lost, and n_after packets arrived at iceberg out of sequence. */
static void count_frames(struct scene *s, int64_t n_lost, int64_t n_after)
{
    struct diag_port *ends[] = {&s->a->ports[0], &s->b->ports[1]};

    for (int i = 0; i < 2; i++) {
        ends[i]->counters[DIAG_TX_PACKETS] = 100;
        ends[i]->counters[DIAG_RX_PACKETS] = i == 1 ? 100 - n_lost : 100;
        ends[i]->counters[DIAG_OUT_OF_SEQUENCE] = i == 1 ? n_after : 0;
        ends[i]->counters[DIAG_ICRC_ERRORS] = 0;
    }
}

static void hole(struct scene *s)
{
    fails(s, WEFT_ERR_TIMEOUT, WEFT_PHASE_PROBE);
    weft_error_int(&s->failure->error, WEFT_VALUE_SMALL_PASSED, 1);
    count_frames(s, 24, 24);
    scene_aim(s, "p0", "192.168.101.1", "192.168.101.2");
}

static void types_differ(struct scene *s)
{
    scene_loses_packets(s);
    weft_error_text(&s->failure->error, WEFT_VALUE_REMOTE_GID_TYPE, "RoCE v1");
    scene_aim(s, "p0", "192.168.101.1", "192.168.101.2");
}

/* The GIDs of titanic's address are gone, and the first of the others is of RoCE v1. */
static void types_differ_without_gid(struct scene *s)
{
    struct diag_port *port = &s->a->ports[0];

    scene_loses_packets(s);
    weft_error_text(&s->failure->error, WEFT_VALUE_LOCAL_GID_TYPE, "RoCE v1");
    scene_aim(s, "p0", "fe80::1", "192.168.101.2");
    ck_assert(io_ip_parse("fe80::1", &port->gids[0].ip));
    port->n_addresses = 1;
}

static void types_differ_without_address(struct scene *s)
{
    types_differ_without_gid(s);
    s->a->ports[0].n_addresses = 0;
}

/* The MTU of titanic's port was lowered after both ends had agreed on a path MTU. */
static void mtu_refused(struct scene *s)
{
    s->a->ports[0].netdev_mtu = 1500;
    s->a->ports[0].active_mtu = 1024;
    weft_fail_errno(&s->failure->error, EINVAL, WEFT_PHASE_RTR, "modify_qp");
    scene_aim(s, "p0", "192.168.101.1", "192.168.101.2");
    weft_error_int(&s->failure->error, WEFT_VALUE_PATH_MTU, 4096);
}

static void slot_empty(struct scene *s)
{
    fails_to_resolve(s, ENODATA);
    scene_aim(s, "p0", "192.168.101.1", "192.168.101.2");
}

static void only_v1(struct scene *s)
{
    s->b->ports[1].gids[0].type = 1;
    fails(s, WEFT_ERR_ROUTE, WEFT_PHASE_ROUTE);
}

static void silent_neighbour(struct scene *s)
{
    fails_to_resolve(s, ETIMEDOUT);
    scene_aim(s, "p0", "192.168.101.1", "192.168.101.2");
}

/* Both ends of a cable lose their carrier for 10 ms, 1 s after the start. Titanic reports an
 * unresolved neighbour `after_ns` after the carrier is back, having waited 5 s without a lane. */
static void came_back(struct scene *s, weft_ns after_ns)
{
    static const char *const types[] = {"port_error", "port_active"};

    silent_neighbour(s);
    weft_error_text(&s->failure->error, WEFT_VALUE_REMOTE_PORT, "p1");
    weft_error_int(&s->failure->error, WEFT_VALUE_FAILOVER_NS, 5000000000);
    s->failure->at_ns = 1010000000 + after_ns;
    for (uint32_t i = 0; i < 4; i++) {
        struct diag_host *host = i % 2 == 0 ? s->a : s->b;
        struct diag_event *event = &host->events[host->n_events++];

        *event = (struct diag_event){.at_ns = 1000000000 + i / 2 * 10000000};
        weft_format(event->type, sizeof(event->type), "%s", types[i / 2]);
        weft_format(event->port, sizeof(event->port), "%s", i % 2 == 0 ? "p0" : "p1");
    }
}

static void back_long_ago(struct scene *s)
{
    came_back(s, 10000000001);
}

static void back_lately(struct scene *s)
{
    came_back(s, 10000000000);
}

static void back_and_gone(struct scene *s)
{
    struct diag_event again = {.type = "port_error", .port = "p0", .at_ns = 1020000000};

    came_back(s, 10000000001);
    s->a->events[s->a->n_events++] = again;
    weft_format(again.port, sizeof(again.port), "p1");
    s->b->events[s->b->n_events++] = again;
}

/* Pause frames of titanic hold iceberg's port. */
static void hold(struct scene *s, int64_t held_ns)
{
    count_frames(s, 0, 0);
    s->a->ports[0].counters[DIAG_RX_PAUSES] = 0;
    s->a->ports[0].counters[DIAG_RX_PAUSE_NS] = 0;
    s->b->ports[1].counters[DIAG_RX_PAUSES] = 1;
    s->b->ports[1].counters[DIAG_RX_PAUSE_NS] = held_ns;
    s->a->has_events = s->b->has_events = true;
}

/* Titanic waits for the answer of its neighbour meanwhile. */
static void hold_at_rtr(struct scene *s, int64_t held_ns)
{
    silent_neighbour(s);
    weft_error_text(&s->failure->error, WEFT_VALUE_REMOTE_PORT, "p1");
    hold(s, held_ns);
}

static void held_at_rtr(struct scene *s)
{
    hold_at_rtr(s, 1000000000);
}

/* Flow control, and no host answers on the cable. */
static void held_for_a_moment(struct scene *s)
{
    hold_at_rtr(s, 999999999);
}

static void held_here_at_rtr(struct scene *s)
{
    struct diag_port here;

    hold_at_rtr(s, 2000000000);
    here = s->a->ports[0];
    memcpy(s->a->ports[0].counters, s->b->ports[1].counters, sizeof(here.counters));
    memcpy(s->b->ports[1].counters, here.counters, sizeof(here.counters));
}

static void lose_carrier(struct scene *s, weft_ns for_ns)
{
    came_back(s, 1000000000);
    hold_at_rtr(s, 2000000000);
    for (uint32_t i = 0; i < 2; i++) {
        struct diag_host *host = i == 0 ? s->a : s->b;

        host->events[1].at_ns = host->events[0].at_ns + for_ns;
    }
}

static void held_despite_a_moment(struct scene *s)
{
    lose_carrier(s, 999999999);
}

/* Either can be the cause. */
static void held_and_long_dark(struct scene *s)
{
    lose_carrier(s, 1000000000);
}

static void held_and_down(struct scene *s)
{
    hold_at_rtr(s, 2000000000);
    s->a->ports[0].is_up = s->b->ports[1].is_up = DIAG_NO;
}

static void peer_gone(struct scene *s)
{
    s->b->was_observed = false;
    s->b->n_ports = 0;
    fails(s, WEFT_ERR_CLOSED, WEFT_PHASE_STREAM);
}

/* The watchdog of the job names no peer, but the launcher killed iceberg's process. */
static void peer_hangs(struct scene *s)
{
    s->b->was_observed = false;
    s->b->has_hung = true;
    s->b->n_ports = 0;
    fails(s, WEFT_ERR_TIMEOUT, WEFT_PHASE_JOBS);
    s->failure->peer[0] = '\0';
}

/* Olympic waits for iceberg, and is killed too. */
static void peer_and_another_hang(struct scene *s)
{
    struct diag_host *other = &s->input.hosts[s->input.n_hosts++];

    init_host(other, "olympic");
    other->was_observed = false;
    other->has_hung = true;
    peer_hangs(s);
    weft_format(s->failure->peer, sizeof(s->failure->peer), "iceberg");
}

/* The device of iceberg:p1 failed, so that the program used iceberg:p0. */
static void device_of_way_gone(struct scene *s)
{
    scene_merged(s);
    s->b->events[s->b->n_events++] =
        (struct diag_event){.type = "device_fatal", .device = "p1"};
}

static void peer_gone_wc(struct scene *s)
{
    struct diag_error *closed = &s->a->errors[s->a->n_errors++];

    s->b->was_observed = false;
    s->b->n_ports = 0;
    scene_loses_packets(s);
    scene_aim(s, "p0", "192.168.101.1", "192.168.101.2");
    weft_fail(&closed->error, WEFT_ERR_CLOSED, WEFT_PHASE_BOOT, "the stream ended");
    weft_error_int(&closed->error, WEFT_VALUE_STREAM_ENDED, 1);
    weft_format(closed->peer, sizeof(closed->peer), "iceberg");
}

static void no_proof(struct scene *s)
{
    fails(s, WEFT_ERR_AUTH, WEFT_PHASE_AUTH);
}

static void not_its_address(struct scene *s)
{
    weft_fail_errno(&s->failure->error, EADDRNOTAVAIL, WEFT_PHASE_BOOT, "listen");
    s->failure->peer[0] = '\0';
}

static void proof_of_another(struct scene *s)
{
    scene_set_address(&s->b->ports[1], "192.168.101.1/24");
    no_proof(s);
}

static void refusal(struct scene *s)
{
    scene_hears_of_it(s);
    weft_fail_errno(&s->failure->error, ECONNREFUSED, WEFT_PHASE_TCP, "connect");
}

void scene_hears_of_it(struct scene *s)
{
    struct diag_error *heard = &s->b->errors[s->b->n_errors++];

    weft_fail(&heard->error, WEFT_ERR_CLOSED, WEFT_PHASE_PEER,
              "the peer closed the connection");
    heard->source = DIAG_HEARSAY;
    weft_format(heard->peer, sizeof(heard->peer), "titanic");
}

/* The launcher reported to iceberg at `at_ns` that titanic ended. Iceberg had waited for titanic
 * for `waited_ns`. */
static void hears_of_end(struct scene *s, weft_ns at_ns, weft_ns waited_ns)
{
    struct diag_error *heard = &s->b->errors[s->b->n_errors++];

    *heard = (struct diag_error){.at_ns = at_ns, .source = DIAG_HEARSAY};
    weft_format(heard->peer, sizeof(heard->peer), "titanic");
    weft_fail(&heard->error, WEFT_ERR_CLOSED, WEFT_PHASE_BOOT,
              "rank 0 ended before it came");
    weft_error_int(&heard->error, WEFT_VALUE_ENDED, 1);
    weft_error_int(&heard->error, WEFT_VALUE_WAITED_NS, waited_ns);
    weft_error_text(&heard->error, WEFT_VALUE_RENDEZVOUS, "10.0.0.1");
}

/* Iceberg began to wait only after titanic had timed out. */
static void late_for_the_ended(struct scene *s)
{
    weft_fail(&s->failure->error, WEFT_ERR_TIMEOUT, WEFT_PHASE_BOOT,
              "was never heard of");
    weft_error_text(&s->failure->error, WEFT_VALUE_RENDEZVOUS, "none");
    s->failure->at_ns = 1000;
    hears_of_end(s, 5000, 1000);
}

/* The only way from titanic to iceberg is over carpathia, which began to wait after both had timed
 * out. */
static void late_for_those_behind(struct scene *s)
{
    struct diag_host *between = &s->input.hosts[s->input.n_hosts++];
    struct diag_error *error;

    init_host(between, "carpathia");
    error = &between->errors[between->n_errors++];
    weft_fail(&s->failure->error, WEFT_ERR_TIMEOUT, WEFT_PHASE_BOOT,
              "was never heard of");
    weft_error_text(&s->failure->error, WEFT_VALUE_RENDEZVOUS, "none");
    s->failure->at_ns = 1000;
    scene_wait(s->a, WEFT_WAIT_ROUND, "iceberg");
    scene_wait(s->a, WEFT_WAIT_ROUND, "carpathia");
    *error = (struct diag_error){.source = DIAG_HEARSAY, .at_ns = 5000};
    weft_format(error->peer, sizeof(error->peer), "titanic");
    weft_fail(&error->error, WEFT_ERR_CLOSED, WEFT_PHASE_BOOT, "ended before it came");
    weft_error_int(&error->error, WEFT_VALUE_ENDED, 1);
    weft_error_int(&error->error, WEFT_VALUE_WAITED_NS, 1000);
}

/* Iceberg waited all the time while titanic tried to reach it. */
static void filtered_and_ended(struct scene *s)
{
    weft_fail_errno(&s->failure->error, ETIMEDOUT, WEFT_PHASE_BOOT, "cannot be reached");
    weft_error_text(&s->failure->error, WEFT_VALUE_RENDEZVOUS, "10.0.0.1");
    s->failure->at_ns = 1000;
    hears_of_end(s, 2000, 2000);
}

static void ended_before_it_came(struct scene *s)
{
    s->b->was_observed = false;
    s->b->has_vanished = true;
    s->b->n_ports = 0;
    weft_fail(&s->failure->error, WEFT_ERR_CLOSED, WEFT_PHASE_BOOT,
              "rank 1 ended before it came");
    weft_error_int(&s->failure->error, WEFT_VALUE_ENDED, 1);
}

/* The small probe passed before all frames from titanic were lost. */
static void dead_after_small(struct scene *s)
{
    hole(s);
    s->a->ports[0].counters[DIAG_RX_PAUSES] = s->b->ports[1].counters[DIAG_RX_PAUSES] = 0;
    count_frames(s, 70, 4);
}

/* The lost frames belong to the handshake over TCP. Only packets of queue pairs are counted as out
 * of sequence. */
static void silent_set_up(struct scene *s)
{
    fails(s, WEFT_ERR_TIMEOUT, WEFT_PHASE_AUTH);
    scene_hears_of_it(s);
    count_frames(s, 70, 0);
}

/* No work request completes, and none exceeds its retries. */
static void stands_still(struct scene *s)
{
    scene_paused(s);
    s->failure->error.wc_status = 0;
    s->failure->error.status = WEFT_ERR_TIMEOUT;
}

void scene_hears_nothing(struct scene *s)
{
    count_frames(s, 0, 0);
    scene_hears_of_it(s);
    fails(s, WEFT_ERR_TIMEOUT, WEFT_PHASE_META);
}

/* A probe ended because nothing came from the peer, before it knew whether small frames pass. No
 * frame came out of sequence, so that all were lost and not only full ones. */
static void silent_probe(struct scene *s)
{
    dead_after_small(s);
    count_frames(s, 70, 0);
    weft_error_clear(&s->failure->error);
    fails(s, WEFT_ERR_TIMEOUT, WEFT_PHASE_PROBE);
    scene_aim(s, "p0", "192.168.101.1", "192.168.101.2");
}

/* The peer reported that accept() fails. Its clients only wait. */
static void peer_cannot_accept(struct scene *s)
{
    scene_hears_nothing(s);
    s->b->n_errors = 1;
    s->b->errors[0] =
        (struct diag_error){.at_ns = s->failure->at_ns + 1, .source = DIAG_HEARSAY};
    (void)weft_fail_errno(&s->b->errors[0].error, EMFILE, WEFT_PHASE_ACCEPT, "no room");
}

/* The hosts share no cable, and the only port of iceberg has no carrier. */
static void cut_off_there(struct scene *s)
{
    no_facing_route(s);
    s->b->ports[0] = s->b->ports[1];
    s->b->n_ports = 1;
    s->b->ports[0].is_up = DIAG_NO;
    weft_format(s->a->policy, sizeof(s->a->policy), "weft");
}

/* Another program has no relays. */
static void cut_off_without_relays(struct scene *s)
{
    cut_off_there(s);
    weft_format(s->a->policy, sizeof(s->a->policy), "nccl-2.25");
}

/* A step of set-up is not answered while pause frames of titanic hold iceberg's port. */
static void hold_set_up(struct scene *s, int64_t held_ns)
{
    hold(s, held_ns);
    scene_hears_of_it(s);
    fails(s, WEFT_ERR_TIMEOUT, WEFT_PHASE_META);
}

static void held_in_set_up(struct scene *s)
{
    hold_set_up(s, 1000000000);
}

static void held_in_set_up_for_a_moment(struct scene *s)
{
    hold_set_up(s, 999999999);
}

/* Set-up reached its limit of 30 s, and no evidence shows which of its steps took that time. */
static void set_up_hangs(struct scene *s)
{
    count_frames(s, 0, 0);
    scene_hears_of_it(s);
    fails(s, WEFT_ERR_TIMEOUT, WEFT_PHASE_CONNECT_QPS);
    weft_error_int(&s->failure->error, WEFT_VALUE_LIMIT_NS, 30000000000);
}

static void limit_reached(struct scene *s)
{
    s->a->memlock_bytes = 65536;
    s->failure->peer[0] = '\0';
    weft_fail_errno(&s->failure->error, ENOMEM, WEFT_PHASE_REGISTER, "reg_mr");
}

static void no_device(struct scene *s)
{
    s->failure->peer[0] = '\0';
    fails(s, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_DISCOVER);
}

static void no_gpu(struct scene *s)
{
    s->failure->peer[0] = '\0';
    fails(s, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_CUDA);
}

static void wrong_data(struct scene *s)
{
    s->failure->peer[0] = '\0';
    fails(s, WEFT_ERR_DATA, WEFT_PHASE_VERIFY);
}

static void bad_order(struct scene *s)
{
    s->input.rank_order = (struct diag_rank_order){true, 2, 0, "0 2 1 3"};
    s->a->n_errors = 0;
}

/* The two hosts share no cable. The only port of each, p0, leads to carpathia. */
static void forward_off(struct scene *s)
{
    struct diag_host *between = &s->input.hosts[s->input.n_hosts++];

    init_host(between, "carpathia");
    add_port(between, "p0", "192.168.101.9/24");
    add_port(between, "p1", "192.168.100.9/24");
    s->a->n_ports = 1;
    s->b->n_ports = 1;
    for (uint32_t i = 0; i < 2; i++) {
        struct diag_port *port = &s->input.hosts[i].ports[0];

        port->counters[DIAG_ICRC_ERRORS] = port->counters[DIAG_RX_PAUSES] = 0;
    }
    scene_loses_packets(s);
    scene_aim(s, "p0", "192.168.101.1", "192.168.100.1");
}

static void forward_blocked(struct scene *s)
{
    forward_off(s);
    s->input.hosts[2].forwards_ip = DIAG_YES;
}

/* Only carpathia's setting counts, not whether the ends forward. */
static void forward_by_ends(struct scene *s)
{
    forward_off(s);
    s->a->forwards_ip = s->b->forwards_ip = DIAG_YES;
}

static void request_invalid(struct scene *s)
{
    scene_completion(s, 9);
}

/* As a program prints it, whose path MTU is unknown. */
static void request_invalid_of_program(struct scene *s)
{
    weft_fail_completion(&s->failure->error, 9, WEFT_PHASE_DATA,
                         "completion with status 9");
    weft_error_text(&s->failure->error, WEFT_VALUE_LOCAL_PORT, "p0");
}

/* The members meet over the cables. Streams between the two come up, and then fall silent. Titanic
 * has all that it needs and connects, but iceberg does not. */
static void silenced_in_set_up(struct scene *s)
{
    struct diag_error *there = &s->b->errors[s->b->n_errors++];

    weft_fail(&s->failure->error, WEFT_ERR_TIMEOUT, WEFT_PHASE_META, "not finished");
    s->failure->at_ns = 1000;
    *there = (struct diag_error){.source = DIAG_HEARSAY, .at_ns = 2000};
    weft_format(there->peer, sizeof(there->peer), "titanic");
    weft_fail(&there->error, WEFT_ERR_TIMEOUT, WEFT_PHASE_BOOT,
              "rank 0 connects, but no data comes from it");
    weft_error_text(&there->error, WEFT_VALUE_RENDEZVOUS, "none");
    weft_error_int(&there->error, WEFT_VALUE_SILENCED, 6);
}

/* The same before either end has met the other. */
static void silenced_in_boot(struct scene *s)
{
    silenced_in_set_up(s);
    weft_error_clear(&s->failure->error);
    weft_fail(&s->failure->error, WEFT_ERR_TIMEOUT, WEFT_PHASE_BOOT,
              "rank 1 connects, but no data comes from it");
    weft_error_text(&s->failure->error, WEFT_VALUE_RENDEZVOUS, "none");
    weft_error_int(&s->failure->error, WEFT_VALUE_SILENCED, 6);
}

/* Three hosts behind a switch, which drops frames to iceberg. */
static void lossy_behind_switch(struct scene *s)
{
    static const int64_t sent[] = {1000, 600, 300}, received[] = {500, 700, 300};
    struct diag_host *third = &s->input.hosts[s->input.n_hosts++];
    struct diag_port *ports[3] = {&s->a->ports[0], &s->b->ports[1], NULL};

    init_host(third, "carpathia");
    ports[2] = add_port(third, "p0", "192.168.101.9/24");
    for (int i = 0; i < 3; i++) {
        memset(ports[i]->counters, 0, sizeof(ports[i]->counters));
        ports[i]->counters[DIAG_TX_PACKETS] = sent[i];
        ports[i]->counters[DIAG_RX_PACKETS] = received[i];
        ports[i]->counters[DIAG_RETRANSMITS] = 100;
    }
    ports[1]->counters[DIAG_OUT_OF_SEQUENCE] = 50;
    scene_completion(s, 12);
}

/* The same in a probe, whose small messages passed. */
static void lossy_probe_behind_switch(struct scene *s)
{
    lossy_behind_switch(s);
    s->failure->error = (struct weft_error){.status = WEFT_OK};
    fails(s, WEFT_ERR_TIMEOUT, WEFT_PHASE_PROBE);
    weft_error_int(&s->failure->error, WEFT_VALUE_SMALL_PASSED, 1);
    scene_aim(s, "p0", "192.168.101.1", "192.168.101.2");
}

/* After every second of the lost frames another one arrived. */
static void hole_behind_switch(struct scene *s)
{
    lossy_probe_behind_switch(s);
    s->b->ports[1].counters[DIAG_OUT_OF_SEQUENCE] = 200;
}

/* Titanic sends more to iceberg than its queue pair takes, because the program at iceberg took the
 * MTU of titanic:p1, which is less than that of the port at the other end of its cable. */
static void mtu_of_another_port(struct scene *s)
{
    struct diag_host *third = &s->input.hosts[s->input.n_hosts++];
    struct diag_error *closed = &s->b->errors[s->b->n_errors++];

    init_host(third, "carpathia");
    add_port(third, "p0", "192.168.102.1/24");
    s->a->ports[1].netdev_mtu = 1500;
    s->a->ports[1].active_mtu = 1024;
    request_invalid(s);
    weft_error_int(&s->failure->error, WEFT_VALUE_PATH_MTU, 4096);
    *closed = (struct diag_error){.source = DIAG_HEARSAY};
    weft_format(closed->peer, sizeof(closed->peer), "titanic");
    weft_fail(&closed->error, WEFT_ERR_CLOSED, WEFT_PHASE_PEER, "titanic failed");
    weft_error_int(&closed->error, WEFT_VALUE_PATH_MTU, 1024);
}

/* No port of titanic has an address to listen on. */
static void unnumbered(struct scene *s)
{
    weft_format(s->a->policy, sizeof(s->a->policy), "weft");
    weft_fail_errno(&s->failure->error, EADDRNOTAVAIL, WEFT_PHASE_LISTEN,
                    "no address to listen on");
    s->failure->peer[0] = '\0';
    s->a->n_ports = 1;
    s->a->ports[0].n_gids = 0;
    s->a->ports[0].n_addresses = 0;
}

/* The connection of titanic begins at an address that is replaced in its subnet. */
static void unbound(struct scene *s)
{
    weft_format(s->a->policy, sizeof(s->a->policy), "weft");
    weft_fail_errno(&s->failure->error, EADDRNOTAVAIL, WEFT_PHASE_TCP,
                    "no connection can be started");
    s->a->has_events = true;
    s->a->events[s->a->n_events++] =
        (struct diag_event){.type = "gid_change", .port = "p0"};
}

/* The address is replaced by one of another subnet. */
static void unbound_apart(struct scene *s)
{
    unbound(s);
    renumber_apart(s);
}

/* Titanic calls an address that iceberg no longer has. */
static void called_in_vain(struct scene *s)
{
    weft_format(s->a->policy, sizeof(s->a->policy), "weft");
    weft_fail_errno(&s->failure->error, ETIMEDOUT, WEFT_PHASE_TCP, "no answer");
    weft_error_int(&s->failure->error, WEFT_VALUE_WAYS, 1);
    weft_error_text(&s->failure->error, WEFT_VALUE_REMOTE_ADDRESS_0, "192.168.101.9/24");
    s->b->has_events = true;
    s->b->events[s->b->n_events++] =
        (struct diag_event){.type = "gid_change", .port = "p1"};
}

/* Iceberg has no address any more. */
static void called_without_address(struct scene *s)
{
    called_in_vain(s);
    s->a->n_ports = s->b->n_ports = 1;
    s->b->ports[0].n_gids = 0;
    s->b->ports[0].n_addresses = 0;
}

/* Without a management network the streams are on the cable, too. */
static void vlans_before_tcp(struct scene *s)
{
    struct diag_error *there = &s->b->errors[s->b->n_errors++];

    weft_format(s->a->policy, sizeof(s->a->policy), "weft");
    s->a->ports[0].gids[0].vlan_id = 100;
    s->b->ports[1].gids[0].vlan_id = 200;
    weft_fail_errno(&s->failure->error, EHOSTUNREACH, WEFT_PHASE_TCP, "connect");
    s->failure->at_ns = 2000;
    *there = (struct diag_error){.at_ns = 1000};
    weft_format(there->peer, sizeof(there->peer), "titanic");
    weft_fail_errno(&there->error, EHOSTUNREACH, WEFT_PHASE_TCP, "connect");
}

static void access_refused(struct scene *s)
{
    scene_completion(s, 10);
}

static void receive_unusable(struct scene *s)
{
    scene_completion(s, 11);
}

static void message_refused(struct scene *s)
{
    weft_fail(&s->failure->error, WEFT_ERR_PROTOCOL, WEFT_PHASE_DATA,
              "clear-to-send of message 23, 10023 is the next");
    weft_error_text(&s->failure->error, WEFT_VALUE_FIELD, "message");
    weft_error_text(&s->failure->error, WEFT_VALUE_LOCAL_PORT, "p0");
}

static void unexplained(struct scene *s)
{
    scene_loses_packets(s);
    scene_aim(s, "p0", "192.168.101.1", "192.168.101.2");
    weft_error_int(&s->failure->error, WEFT_VALUE_SMALL_PASSED, 0);
}

const struct scene_case scene_cases[] = {
    {wrong_nic_110, "route.wrong_nic", "titanic:p0 -> iceberg"},
    {wrong_nic_101, "route.wrong_nic", "titanic:p1 -> iceberg"},
    {wrong_nic_wc, "route.wrong_nic", "titanic:p1 -> iceberg"},
    {no_facing_rtr, "route.no_facing_port", "titanic:p0 -> iceberg"},
    {no_facing_route, "route.no_facing_port", "titanic -> iceberg"},
    {collision, "route.gid_collision", "titanic:p0 -> iceberg"},
    {peer_addresses, "gid.peer_address", "titanic:p0 -> iceberg"},
    {peer_addresses_alone, "gid.peer_address", "titanic:p0 -> iceberg"},
    {gid_deleted, "gid.missing", "iceberg:p1 -> titanic"},
    {gid_moved_here, "addr.changed", "titanic:p0 -> iceberg"},
    {scene_down_here, "link.down", "titanic:p0 -> iceberg"},
    {down_there, "link.down", "iceberg:p1 -> titanic"},
    {was_down, "link.down", "titanic:p0 -> iceberg"},
    {down_route, "link.down", "titanic:p0 -> iceberg"},
    {mtu_too_large, "link.mtu_mismatch", "titanic:p0 -> iceberg"},
    {hole, "link.black_hole", "titanic:p0 -> iceberg"},
    {dead_after_small, "link.one_way", "titanic:p0 -> iceberg"},
    {silent_set_up, "link.one_way", "titanic:p0 -> iceberg"},
    {types_differ, "gid.type_mismatch", "titanic:p0 -> iceberg"},
    {types_differ_without_gid, "gid.missing", "titanic:p0 -> iceberg"},
    {types_differ_without_address, "addr.missing", "titanic:p0 -> iceberg"},
    {mtu_refused, "link.mtu_mismatch", "titanic:p0 -> iceberg"},
    {slot_empty, "gid.missing", "titanic:p0 -> iceberg"},
    {only_v1, "gid.missing", "titanic:p0 -> iceberg"},
    {silent_neighbour, "neigh.no_answer", "titanic:p0 -> iceberg"},
    {back_long_ago, "neigh.no_answer", "titanic:p0 -> iceberg"},
    {back_lately, "link.down", "titanic:p0 -> iceberg"},
    {back_and_gone, "link.down", "titanic:p0 -> iceberg"},
    {peer_gone, "peer.dead", "titanic -> iceberg"},
    {peer_gone_wc, "peer.dead", "titanic:p0 -> iceberg"},
    {peer_hangs, "peer.silent", "titanic -> iceberg"},
    {peer_and_another_hang, "peer.silent", "titanic -> iceberg"},
    {device_of_way_gone, "device.failed", "iceberg:p1 -> titanic"},
    {no_proof, "conn.auth_failed", "titanic -> iceberg"},
    {proof_of_another, "addr.duplicate", "titanic:p0 -> iceberg"},
    {not_its_address, "conn.foreign_address", "titanic"},
    {refusal, "conn.refused", "titanic -> iceberg"},
    {scene_hears_nothing, "conn.timeout", "titanic -> iceberg"},
    {set_up_hangs, "conn.timeout", "titanic -> iceberg"},
    {silent_probe, "link.one_way", "titanic:p0 -> iceberg"},
    {peer_cannot_accept, "host.fd_limit", "iceberg -> titanic"},
    {cut_off_there, "link.down", "iceberg:p1 -> titanic"},
    {cut_off_without_relays, "route.no_facing_port", "titanic -> iceberg"},
    {limit_reached, "host.memlock", "titanic"},
    {no_device, "host.no_device", "titanic"},
    {no_gpu, "host.no_gpu", "titanic"},
    {wrong_data, "data.wrong", "titanic"},
    {bad_order, "mesh.rank_order", ""},
    {scene_merged, "route.merged_nic", "titanic:p0 -> iceberg"},
    {scene_merged_here, "route.merged_one_end", "titanic:p1 -> iceberg"},
    {scene_crossed, "route.crossed_planes", "titanic:p0 -> iceberg"},
    {scene_blind, "route.listener_blind", "titanic:p0 -> iceberg"},
    {scene_coarse, "route.prefix_collision", "titanic:p0 -> iceberg"},
    {scene_self_assigned, "route.link_local", "titanic:p0 -> iceberg"},
    {scene_prefixes, "addr.prefix_mismatch", "titanic:p0 -> iceberg"},
    {scene_bare, "addr.missing", "iceberg:p1 -> titanic"},
    {scene_bare_route, "addr.missing", "iceberg:p1 -> titanic"},
    {scene_duplicate, "addr.duplicate", "titanic:p0 -> iceberg"},
    {scene_duplicate_route, "addr.duplicate", "titanic:p0 -> iceberg"},
    {scene_duplicate_elsewhere, "addr.duplicate", "titanic:p1 -> iceberg"},
    {scene_fixed_index, "gid.fixed_index", "titanic:p0 -> iceberg"},
    {scene_list, "host.hca_list", "titanic:p0 -> iceberg"},
    {scene_list_there, "host.hca_list", "iceberg:p1 -> titanic"},
    {scene_list_cut, "link.down", "titanic:p0 -> iceberg"},
    {list_apart, "host.hca_list", "titanic:p1 -> iceberg"},
    {list_of_all, "route.wrong_nic", "titanic:p1 -> iceberg"},
    {scene_bond, "host.bond_peers", "titanic:p0 -> iceberg"},
    {scene_bond_there, "host.bond_peers", "iceberg:p1 -> titanic"},
    {scene_bond_elsewhere, "neigh.no_answer", "titanic:p0 -> iceberg"},
    {scene_two_bonds, "neigh.no_answer", "titanic:p0 -> iceberg"},
    {scene_no_route, "conn.no_route", "titanic -> iceberg"},
    {scene_no_route_there, "conn.no_route", "iceberg -> titanic"},
    {scene_foreign_slot, "gid.fixed_index", "titanic:p0 -> iceberg"},
    {scene_foreign_slot_there, "gid.fixed_index", "iceberg:p1 -> titanic"},
    {scene_other_family, "gid.fixed_index", "titanic:p0 -> iceberg"},
    {scene_other_family_there, "gid.fixed_index", "iceberg:p1 -> titanic"},
    {scene_default_gid, "gid.link_local", "titanic:p0 -> iceberg"},
    {scene_only_v6, "gid.no_ipv4", "titanic:p0 -> iceberg"},
    {scene_no_netdev, "gid.no_netdev", "titanic:p0 -> iceberg"},
    {scene_vlans, "link.vlan_mismatch", "titanic:p0 -> iceberg"},
    {scene_arp_ignored, "neigh.arp_ignored", "titanic:p0 -> iceberg"},
    {scene_flaps, "link.flapping", "iceberg:p1 -> titanic"},
    {scene_one_way, "link.one_way", "titanic:p0 -> iceberg"},
    {scene_lossy, "link.lossy", "titanic:p0 -> iceberg"},
    {scene_corrupting, "link.corrupting", "titanic:p0 -> iceberg"},
    {scene_paused, "link.pause_storm", "iceberg:p1 -> titanic"},
    {stands_still, "link.pause_storm", "iceberg:p1 -> titanic"},
    {held_at_rtr, "link.pause_storm", "titanic:p0 -> iceberg"},
    {held_here_at_rtr, "link.pause_storm", "iceberg:p1 -> titanic"},
    {held_despite_a_moment, "link.pause_storm", "titanic:p0 -> iceberg"},
    {held_in_set_up, "link.pause_storm", "titanic:p0 -> iceberg"},
    {held_in_set_up_for_a_moment, "conn.timeout", "titanic -> iceberg"},
    {held_for_a_moment, "neigh.no_answer", "titanic:p0 -> iceberg"},
    {held_and_down, "link.down", "titanic:p0 -> iceberg"},
    {held_and_long_dark, "undetermined", "titanic:p0 -> iceberg"},
    {scene_firewall, "host.firewall_roce", "iceberg:p1 -> titanic"},
    {scene_truncated, "conn.qpn_truncated", "titanic:p0 -> iceberg"},
    {scene_rp_filter, "host.rp_filter", "iceberg:p1 -> titanic"},
    {scene_filtered, "conn.filtered", "titanic -> iceberg"},
    {scene_off_management, "host.management_down", "titanic"},
    {scene_off_management_there, "host.management_down", "iceberg"},
    {scene_off_management_here, "host.management_down", "titanic"},
    {scene_off_management_in_round, "host.management_down", "iceberg"},
    {scene_off_management_in_set_up, "host.management_down", "iceberg"},
    {scene_loopback, "conn.loopback", "titanic -> iceberg"},
    {scene_late, "peer.late", "titanic -> iceberg"},
    {late_for_the_ended, "peer.late", "titanic -> iceberg"},
    {late_for_those_behind, "peer.late", "titanic -> carpathia"},
    {scene_filtered_over_cable, "conn.filtered", "titanic -> iceberg"},
    {filtered_and_ended, "conn.filtered", "titanic -> iceberg"},
    {ended_before_it_came, "peer.dead", "titanic -> iceberg"},
    {scene_receiver_late, "peer.receiver_late", "titanic:p0 -> iceberg"},
    {request_invalid, "data.request_invalid", "titanic:p0 -> iceberg"},
    {request_invalid_of_program, "data.request_invalid", "titanic:p0 -> iceberg"},
    {lossy_behind_switch, "link.lossy", "titanic:p0 -> iceberg"},
    {lossy_probe_behind_switch, "link.lossy", "titanic:p0 -> iceberg"},
    {hole_behind_switch, "link.black_hole", "titanic:p0 -> iceberg"},
    {silenced_in_boot, "link.black_hole", "titanic -> iceberg"},
    {silenced_in_set_up, "link.black_hole", "titanic -> iceberg"},
    {mtu_of_another_port, "link.mtu_mismatch", "titanic:p1 -> carpathia"},
    {unnumbered, "addr.missing", "titanic:p0"},
    {unbound, "addr.changed", "titanic:p0 -> iceberg"},
    {unbound_apart, "route.no_facing_port", "titanic -> iceberg"},
    {called_in_vain, "addr.changed", "iceberg:p1 -> titanic"},
    {called_without_address, "addr.missing", "iceberg:p0 -> titanic"},
    {vlans_before_tcp, "link.vlan_mismatch", "titanic:p0 -> iceberg"},
    {access_refused, "data.access_refused", "titanic:p0 -> iceberg"},
    {receive_unusable, "data.receive_unusable", "titanic:p0 -> iceberg"},
    {message_refused, "conn.malformed", "titanic:p0 -> iceberg"},
    {scene_kernel_memory, "host.kernel_memory", "titanic"},
    {scene_forbidden, "host.permission", "titanic"},
    {scene_full, "device.qp_limit", "titanic"},
    {scene_rejected, "device.rejected", "titanic"},
    {scene_device_failed, "device.failed", "titanic"},
    {scene_no_descriptor, "host.fd_limit", "titanic"},
    {scene_hearsay, "neigh.arp_ignored", "iceberg:p1 -> titanic"},
    {scene_port_event, "link.down", "titanic:p0 -> iceberg"},
    {scene_way_to_relay, "link.down", "titanic:p0 -> iceberg"},
    {forward_off, "route.forward_off", "titanic:p0 -> iceberg"},
    {forward_by_ends, "route.forward_off", "titanic:p0 -> iceberg"},
    {forward_blocked, "route.forward_blocked", "titanic:p0 -> iceberg"},
    {scene_self_assigned_there, "route.wrong_nic", "titanic:p1 -> iceberg"},
    {unexplained, "undetermined", "titanic:p0 -> iceberg"},
};
const int n_scene_cases = (int)(sizeof(scene_cases) / sizeof(scene_cases[0]));

void scene_write_case(int i, bool is_mirrored, struct scene *s)
{
    scene_set(s);
    scene_cases[i].write(s);
    if (is_mirrored) {
        struct diag_host first = s->input.hosts[0];

        s->input.hosts[0] = s->input.hosts[1];
        s->input.hosts[1] = first;
        s->a = &s->input.hosts[1];
        s->b = &s->input.hosts[0];
        s->failure = &s->a->errors[0];
    }
}
