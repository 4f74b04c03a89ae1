#include "run/program_causes.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "scenario/scenario.h"

#define SECOND INT64_C(1000000000)
#define PROGRAMS_MAX 3
#define FRAMES 50 /* sent by each port */
#define CUTS_MAX 2
#define PORTS_MAX 2

/* a:p0 - b:p0 and b:p1 - c:p0; a and c share no cable. */
static const char line[] =
    "name: t\n"
    "topology:\n"
    "  nodes: {a: {ports: [p0]}, b: {ports: [p0, p1]}, c: {ports: [p0]}}\n"
    "  links:\n"
    "    - {endpoints: [\"a:p0\", \"b:p0\"], subnet: 10.0.1.0/24}\n"
    "    - {endpoints: [\"b:p1\", \"c:p0\"], subnet: 10.0.2.0/24}\n"
    "jobs: [{barrier: {}}]\n";

static struct scenario *scenario;
static struct scenario_world *world;

static void set_up(void)
{
    struct scenario_diagnostics diagnostics;

    ck_assert_int_eq(
        scenario_load_text("mesh", line, strlen(line), NULL, 0, &scenario, &diagnostics),
        WEFT_OK);
    scenario_diagnostics_fini(&diagnostics);
    ck_assert_int_eq(scenario_to_world(scenario, &world), WEFT_OK);
}

static void tear_down(void)
{
    scenario_world_free(world);
    scenario_free(scenario);
}

static void device(const struct world_spec *spec, uint32_t host, uint32_t port, char *out,
                   size_t n_bytes)
{
    weft_format(out, n_bytes, "%s-%s", spec->hosts[host].name,
                spec->hosts[host].ports[port].name);
}

/* ---- what a host knows about itself ---- */

static void add_gid(struct diag_port *port, const char *ip, int prefix_len)
{
    struct diag_gid *gid = &port->gids[port->n_gids];

    ck_assert(io_ip_parse(ip, &gid->ip));
    gid->type = 2;
    gid->prefix_len = prefix_len;
    gid->index = (int)port->n_gids++;
    gid->vlan_id = 0;
}

static void make_look(uint32_t host, struct program_look *out)
{
    const struct world_host *spec = &world->spec.hosts[host];

    out->is_seen = true;
    out->losses = weft_calloc(PORTS_MAX, sizeof(*out->losses));
    out->given_up = weft_calloc(PORTS_MAX, sizeof(*out->given_up));
    out->host.memlock_bytes = 1 << 23;
    out->host.forwards_ip = DIAG_NO;
    out->host.ports = weft_calloc(PORTS_MAX, sizeof(*out->host.ports));
    out->host.n_ports = spec->n_ports;
    for (uint32_t i = 0; i < spec->n_ports; i++) {
        struct diag_port *port = &out->host.ports[i];
        char text[64];

        diag_port_init(port);
        weft_format(port->name, sizeof(port->name), "%s", spec->ports[i].name);
        port->is_up = DIAG_YES;
        port->is_software = DIAG_YES;
        port->netdev_mtu = 9000;
        port->active_mtu = 4096;
        port->device = i;
        port->has_gids = true;
        port->n_addresses = 1;
        for (int k = 0; k < DIAG_N_COUNTERS; k++) {
            port->counters[k] =
                k == DIAG_ICRC_ERRORS || k == DIAG_RX_FRAMES ? IO_UNKNOWN : 0;
        }
        weft_format(text, sizeof(text), "fe80::%x:%x", host + 1, i + 1);
        add_gid(port, text, 64);
        io_ip_format(world_port_address(&spec->ports[i], NULL), text, sizeof(text));
        add_gid(port, text, 24);
    }
}

/* ---- failures and findings ---- */

enum seen { FAILS, FINE, KILLED, HANGS, WAITS };

struct seen_program {
    uint32_t host;
    enum seen seen;
    const char *command, *output;
};

/* All that is recorded about a job. */
struct job {
    struct program_look before[PROGRAMS_MAX], after[PROGRAMS_MAX];
    struct program_facts facts[PROGRAMS_MAX];
    struct program_cut cuts[CUTS_MAX];
    const char *commands[PROGRAMS_MAX];
    struct program_causes causes;
};

static struct diag_port *port_after(struct job *job, uint32_t host, uint32_t port)
{
    return &job->after[host].host.ports[port];
}

/* A fault takes down the cable of a. */
static void cut(struct job *job, weft_ns at_ns, bool for_good)
{
    job->cuts[job->causes.n_cuts++] = (struct program_cut){0, 0, at_ns};
    job->after[0].losses[0]++;
    job->after[1].losses[0]++;
    port_after(job, 0, 0)->is_up = for_good ? DIAG_NO : DIAG_YES;
    port_after(job, 1, 0)->is_up = for_good ? DIAG_NO : DIAG_YES;
}

static void stop(struct job *job, uint32_t program, weft_ns at_ns)
{
    job->facts[program].is_stopped = true;
    job->facts[program].stopped_ns = at_ns;
}

static void stop_first(struct job *job)
{
    stop(job, 0, SECOND / 2);
}

static void stop_late(struct job *job)
{
    stop(job, 0, 5 * SECOND);
}

static void cut_early(struct job *job)
{
    cut(job, SECOND / 2, false);
}

/* The device of b gave up a request, which its program does not print. */
static void gave_up(struct job *job)
{
    job->after[1].given_up[0].unanswered++;
}

static void gave_up_after_the_kill(struct job *job)
{
    gave_up(job);
    job->facts[0].killed_ns = SECOND / 2;
}

static void gave_up_and_cut_early(struct job *job)
{
    gave_up(job);
    cut_early(job);
}

static void gave_up_in_a_job_before(struct job *job)
{
    gave_up_and_cut_early(job);
    job->before[1].given_up[0].unanswered++;
}

static void gave_up_unseen(struct job *job)
{
    gave_up_and_cut_early(job);
    job->before[1].given_up[0].unanswered = IO_UNKNOWN;
}

static void gave_up_at_another_port(struct job *job)
{
    cut_early(job);
    job->after[1].given_up[1].unanswered++;
}

static void not_ready(struct job *job)
{
    job->after[1].given_up[0].not_ready++;
}

static void cut_late(struct job *job)
{
    cut(job, 5 * SECOND, false);
}

static void cut_late_for_good(struct job *job)
{
    cut(job, 5 * SECOND, true);
}

static void cut_early_and_late(struct job *job)
{
    cut(job, SECOND / 2, false);
    cut(job, 5 * SECOND, false);
}

static void lesser_mtu_and_cut_late(struct job *job)
{
    port_after(job, 1, 0)->netdev_mtu = 1500;
    cut(job, 5 * SECOND, false);
}

static void lesser_mtu(struct job *job)
{
    port_after(job, 1, 0)->netdev_mtu = 1500;
}

static void flapped(struct job *job)
{
    job->after[0].losses[0] += 3;
}

/* A script in the host, not a fault, took the link down. The hosts were not examined before. */
static void flapped_unseen(struct job *job)
{
    job->after[0].losses[0]++;
    job->before[0].is_seen = job->before[1].is_seen = false;
}

static void uncounted(struct job *job)
{
    job->before[0].losses[0] = job->before[1].losses[0] = IO_UNKNOWN;
}

static void down_there(struct job *job)
{
    port_after(job, 1, 0)->is_up = DIAG_NO;
}

static void down_at_both(struct job *job)
{
    port_after(job, 0, 0)->is_up = port_after(job, 1, 0)->is_up = DIAG_NO;
}

static void unseen(struct job *job)
{
    job->after[0].is_seen = false;
}

static void ended_before_the_kill(struct job *job)
{
    job->facts[1].ended_ns = SECOND;
}

/* All packets were received before the job. */
static void frames_of_a_job_before(struct job *job)
{
    for (uint32_t i = 0; i < 2; i++) {
        job->before[i].host.ports[0].counters[DIAG_RX_PACKETS] = 100;
        port_after(job, i, 0)->counters[DIAG_RX_PACKETS] = 100;
    }
}

/* Each end waits for the other. All packets were sent before the job. */
static void nothing_sent(struct job *job)
{
    for (uint32_t i = 0; i < 2; i++) {
        job->before[i].host.ports[0].counters[DIAG_TX_PACKETS] = FRAMES;
    }
}

static void nothing_sent_by_lesser_mtu(struct job *job)
{
    nothing_sent(job);
    lesser_mtu(job);
}

static void frames_both_ways(struct job *job)
{
    frames_of_a_job_before(job);
    for (uint32_t i = 0; i < 2; i++) {
        port_after(job, i, 0)->counters[DIAG_TX_PACKETS] = 130 + 10 * i;
        port_after(job, i, 0)->counters[DIAG_RX_PACKETS] = 120;
    }
}

static void frames_at_every_port(struct job *job)
{
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t k = 0; k < world->spec.hosts[i].n_ports; k++) {
            port_after(job, i, k)->counters[DIAG_RX_PACKETS] = 20;
        }
    }
}

static void frames_one_way(struct job *job)
{
    frames_of_a_job_before(job);
    port_after(job, 0, 0)->counters[DIAG_RX_PACKETS] = 120;
}

static void by_timeout(struct job *job)
{
    job->facts[0].code = job->facts[1].code = 124;
}

static void by_timeout_and_cut_late(struct job *job)
{
    job->facts[0].code = 124;
    cut_late(job);
}

static void by_timeout_and_stopped_late(struct job *job)
{
    job->facts[0].code = 124;
    stop(job, 1, 5 * SECOND);
}

static void by_timeout_before_its_peer(struct job *job)
{
    job->facts[0].code = 124;
    job->facts[1].ended_ns = 3 * SECOND;
}

static void by_timeout_before_the_kill(struct job *job)
{
    job->facts[0].code = 124;
}

static void down_there_by_timeout(struct job *job)
{
    by_timeout(job);
    down_there(job);
}

#define PINGPONG "ibv_rc_pingpong -e -g 1 -d "
#define UCX_AH(host, device, gid)                                                        \
    "[1.2] [" host ":81   :0] ib_device.c:1 UCX  ERROR   ibv_create_ah(dlid=1 sl=0 "     \
    "port=1 dgid=::ffff:" gid                                                            \
    " sgid_index=1 traffic_class=106) for UD verbs connect on " device                   \
    " failed: Connection timed out\n"
#define UCX_SENT(host, gid)                                                              \
    "[" host                                                                             \
    ":78   :0:78] rc_verbs_iface.c:121  send completion with error: Work Request "       \
    "Flushed Error [qpn 0x16 wrid 0x4c9vendor_err 0x0]\n[" host                          \
    ":78   :0:78] rc_verbs_iface.c:121  [rqpn 0x16 dlid=0 dgid=::ffff:" gid              \
    " sgid_index=1 traffic_class=106]\n"
#define RTR "Failed to modify QP to RTR\n"
#define INCOMPATIBLE " Found Incompatibility issue with GID types.\n"
#define FLUSHED "Failed status Work Request Flushed Error (5) for wr_id 2\n"
#define RETRIES "Failed status transport retry counter exceeded (12) for wr_id 2\n"
#define EINVAL_RTR                                                                       \
    "Call to ibv_modify_qp failed with 22 Invalid argument, next state RTR\n"
#define LEFT "client read/write: Success\n"
#define WROTE(l, r)                                                                      \
    "  local address:  LID 0, GID " l "\n  remote address: LID 0, GID " r "\n"

static const struct {
    struct seen_program seen[PROGRAMS_MAX];
    uint32_t n;
    void (*arrange)(struct job *job); /* arranges the problem; NULL if there is none */
    const char *found;
} cases[] = {
    {.seen = {{0, FINE, PINGPONG "a-p0", ""}, {1, FINE, PINGPONG "b-p0 a", ""}},
     .n = 2,
     .found = ""},
    /* set-up */
    {.seen = {{0, FAILS, PINGPONG "a-p0", WROTE("10.0.1.1", "") RTR},
              {2, FAILS, PINGPONG "c-p0 a", WROTE("10.0.2.2", "") LEFT}},
     .n = 2,
     .found = "mesh.no_cable a:p0>c"},
    {.seen = {{0, HANGS, PINGPONG "a-p0", ""},
              {1, FAILS, PINGPONG "b-p1 a", WROTE("10.0.2.1", "10.0.1.1") RTR}},
     .n = 2,
     .found = "route.wrong_nic b:p1>a"},
    {.seen = {{0, FAILS, PINGPONG "a-p0", WROTE("10.0.1.1", "") RTR},
              {1, FAILS, "ibv_rc_pingpong -g 0 -d b-p0 a", WROTE("fe80::2:1", "") LEFT}},
     .n = 2,
     .found = "gid.link_local b:p0>a"},
    {.seen = {{0, FAILS, "ib_write_lat -x 1 -d a-p0",
               "ethernet_read_keys: Couldn't read remote address\n"},
              {1, FAILS, "ib_write_lat -x 1 -d b-p1 a",
               "Failed to modify QP 18 to RTR\n"}},
     .n = 2,
     .found = "route.wrong_nic b:p1>a"},
    {.seen = {{0, FAILS, "ib_send_lat -x 1 -d a-p0", INCOMPATIBLE},
              {1, FAILS, "ib_send_lat -x 0 -d b-p0 a", INCOMPATIBLE}},
     .n = 2,
     .found = "gid.link_local b:p0>a"},
    {.seen = {{0, FAILS, "ibv_rc_pingpong -g 99 -d a-p0",
               "can't read sgid of index 99\n"}},
     .n = 1,
     .found = "gid.missing a:p0"},
    {.seen = {{0, FAILS, "ib_write_bw -x 7 -d a-p0", EINVAL_RTR},
              {1, HANGS, "ib_write_bw -x 1 -d b-p0 a", ""}},
     .n = 2,
     .found = "gid.fixed_index a:p0>b"},
    {.seen = {{0, FAILS, "ib_write_bw -d a-p0", EINVAL_RTR},
              {1, HANGS, "ib_write_bw -d b-p0 a", ""}},
     .n = 2,
     .found = "undetermined a:p0>b"},
    {.seen = {{0, FAILS, "ibv_rc_pingpong -d a-p9", "IB device a-p9 not found\n"}},
     .n = 1,
     .found = "host.no_device a"},
    {.seen = {{0, FAILS, "ibv_xsrq_pingpong -d a-p0",
               "Couldn't Open the XRC Domain 95\n"},
              {1, FAILS, "ibv_xsrq_pingpong -d b-p0 a",
               "Couldn't Open the XRC Domain 95\n"}},
     .n = 2,
     .found = "device.rejected a:p0>b"},
    /* What the kernel alone shows of a program that prints nothing. */
    {.seen = {{0, HANGS, "./x a-p0", ""}, {1, FAILS, "./x b-p0 a", ""}},
     .n = 2,
     .arrange = gave_up_and_cut_early,
     .found = "link.down b:p0>a"},
    {.seen = {{0, KILLED, "./x a-p0", ""}, {1, FAILS, "./x b-p0 a", ""}},
     .n = 2,
     .arrange = gave_up_after_the_kill,
     .found = "peer.dead b:p0>a"},
    {.seen = {{0, FINE, "./x a-p0", ""}, {1, FAILS, "./x b-p0 a", ""}},
     .n = 2,
     .arrange = not_ready,
     .found = "peer.receiver_late b:p0>a"},
    {.seen = {{0, HANGS, "./x a-p0", ""}, {1, FAILS, "./x b-p0 a", ""}},
     .n = 2,
     .arrange = gave_up_in_a_job_before,
     .found = "undetermined b:p0>a"},
    {.seen = {{0, HANGS, "./x a-p0", ""}, {1, FAILS, "./x b-p0 a", ""}},
     .n = 2,
     .arrange = gave_up_unseen,
     .found = "undetermined b:p0>a"},
    {.seen = {{0, HANGS, "./x a-p0", ""}, {1, FAILS, "./x b-p0 a", ""}},
     .n = 2,
     .arrange = gave_up_at_another_port,
     .found = "undetermined b:p0>a"},
    /* Carriers lost before the failure, and during the job. */
    {.seen = {{0, FAILS, PINGPONG "a-p0", WROTE("10.0.1.1", "10.0.1.2") FLUSHED},
              {1, HANGS, PINGPONG "b-p0 a", ""}},
     .n = 2,
     .arrange = cut_early,
     .found = "link.down a:p0>b"},
    {.seen = {{0, FAILS, PINGPONG "a-p0", WROTE("10.0.1.1", "10.0.1.2") FLUSHED},
              {1, HANGS, PINGPONG "b-p0 a", ""}},
     .n = 2,
     .arrange = flapped,
     .found = "link.flapping a:p0>b"},
    {.seen = {{0, FAILS, PINGPONG "a-p0", WROTE("10.0.1.1", "10.0.1.2") FLUSHED},
              {1, HANGS, PINGPONG "b-p0 a", ""}},
     .n = 2,
     .arrange = cut_late,
     .found = "undetermined a:p0>b"},
    {.seen = {{0, FAILS, PINGPONG "a-p0", WROTE("10.0.1.1", "10.0.1.2") FLUSHED},
              {1, HANGS, PINGPONG "b-p0 a", ""}},
     .n = 2,
     .arrange = cut_late_for_good,
     .found = "undetermined a:p0>b"},
    {.seen = {{0, FAILS, PINGPONG "a-p0", WROTE("10.0.1.1", "10.0.1.2") FLUSHED},
              {1, HANGS, PINGPONG "b-p0 a", ""}},
     .n = 2,
     .arrange = cut_early_and_late,
     .found = "link.down a:p0>b"},
    {.seen = {{0, FAILS, PINGPONG "a-p0", WROTE("10.0.1.1", "10.0.1.2") FLUSHED},
              {1, HANGS, PINGPONG "b-p0 a", ""}},
     .n = 2,
     .arrange = uncounted,
     .found = "undetermined a:p0>b"},
    {.seen = {{0, FAILS, PINGPONG "a-p0", WROTE("10.0.1.1", "10.0.1.2") FLUSHED},
              {1, HANGS, PINGPONG "b-p0 a", ""}},
     .n = 2,
     .arrange = flapped_unseen,
     .found = "undetermined a:p0>b"},
    {.seen = {{0, HANGS, PINGPONG "a-p0", ""}, {1, HANGS, PINGPONG "b-p0 a", ""}},
     .n = 2,
     .arrange = down_there,
     .found = "link.down b:p0>a"},
    /* sizes */
    {.seen = {{0, HANGS, PINGPONG "a-p0 -m 4096", ""},
              {1, FAILS, PINGPONG "b-p0 -m 4096 a", FLUSHED}},
     .n = 2,
     .arrange = lesser_mtu,
     .found = "link.mtu_mismatch b:p0>a"},
    {.seen = {{0, HANGS, PINGPONG "a-p0 -m 4096", ""},
              {1, FAILS, PINGPONG "b-p0 -m 4096 a", FLUSHED}},
     .n = 2,
     .arrange = lesser_mtu_and_cut_late,
     .found = "link.mtu_mismatch b:p0>a"},
    /* Messages that both ends accept: the MTU is not the cause and does not hide it. */
    {.seen = {{0, HANGS, PINGPONG "a-p0 -m 1024", ""},
              {1, FAILS, PINGPONG "b-p0 -m 1024 a", FLUSHED}},
     .n = 2,
     .arrange = lesser_mtu,
     .found = "undetermined b:p0>a, link.mtu_mismatch a:p0>b"},
    {.seen = {{0, HANGS, PINGPONG "a-p0 -m 4096 -s 64", ""},
              {1, FAILS, PINGPONG "b-p0 -m 4096 -s 64 a", FLUSHED}},
     .n = 2,
     .arrange = lesser_mtu,
     .found = "undetermined b:p0>a, link.mtu_mismatch a:p0>b"},
    /* A device gives up on a packet above its own netdev's MTU, not above its peer's. */
    {.seen = {{0, FAILS, PINGPONG "a-p0 -m 4096", FLUSHED},
              {1, HANGS, PINGPONG "b-p0 -m 4096 a", ""}},
     .n = 2,
     .arrange = lesser_mtu,
     .found = "undetermined a:p0>b, link.mtu_mismatch a:p0>b"},
    /* Link-local GIDs work on a cable: if both ends received packets, GIDs are not the cause. */
    {.seen = {{0, HANGS, "ibv_rc_pingpong -g 0 -d a-p0", ""},
              {1, HANGS, "ibv_rc_pingpong -g 0 -d b-p0 a", ""}},
     .n = 2,
     .arrange = frames_of_a_job_before,
     .found = "undetermined a:p0>b"},
    {.seen = {{0, HANGS, "ibv_rc_pingpong -g 0 -d a-p0", ""},
              {1, HANGS, "ibv_rc_pingpong -g 0 -d b-p0 a", ""}},
     .n = 2,
     .arrange = frames_one_way,
     .found = "undetermined a:p0>b"},
    {.seen = {{0, HANGS, "ibv_rc_pingpong -g 0 -d a-p0", ""},
              {1, HANGS, "ibv_rc_pingpong -g 0 -d b-p0 a", ""}},
     .n = 2,
     .arrange = frames_both_ways,
     .found = "undetermined a:p0>b"},
    {.seen = {{0, HANGS, "ibv_rc_pingpong -g 0 -d a-p0", ""},
              {1, FAILS, "ibv_rc_pingpong -g 0 -d b-p0 a", RETRIES}},
     .n = 2,
     .arrange = frames_both_ways,
     .found = "undetermined b:p0>a"},
    /* Devices that face different peers but received packets: a host routes between them. */
    {.seen = {{0, HANGS, PINGPONG "a-p0", ""}, {1, HANGS, PINGPONG "b-p1 a", ""}},
     .n = 2,
     .arrange = frames_at_every_port,
     .found = "undetermined a:p0>b"},
    /* Nothing was sent: neither GIDs nor MTUs are the cause. */
    {.seen = {{0, HANGS, "ibv_rc_pingpong -g 0 -d a-p0", ""},
              {1, HANGS, "ibv_rc_pingpong -g 1 -d b-p0", ""}},
     .n = 2,
     .arrange = nothing_sent,
     .found = "peer.deadlock a>b"},
    {.seen = {{0, HANGS, "ibv_rc_pingpong -g 0 -d a-p0", ""},
              {1, HANGS, "ibv_rc_pingpong -g 1 -d b-p0 a", ""}},
     .n = 2,
     .arrange = nothing_sent,
     .found = "undetermined a:p0>b"},
    {.seen = {{0, HANGS, PINGPONG "a-p0 -m 4096", ""},
              {1, HANGS, PINGPONG "b-p0 -m 4096", ""}},
     .n = 2,
     .arrange = nothing_sent_by_lesser_mtu,
     .found = "peer.deadlock a>b, link.mtu_mismatch a:p0>b"},
    {.seen = {{0, HANGS, PINGPONG "a-p0 -m 4096", ""},
              {1, HANGS, PINGPONG "b-p0 -m 4096 a", ""}},
     .n = 2,
     .arrange = nothing_sent_by_lesser_mtu,
     .found = "undetermined a:p0>b, link.mtu_mismatch a:p0>b"},
    /* Without -g, or with that of an empty slot, a ping-pong prints :: as its GID. */
    {.seen = {{0, FAILS, "ibv_rc_pingpong -d a-p0", WROTE("::", "::") RTR},
              {1, FAILS, "ibv_rc_pingpong -d b-p0 a", WROTE("::", "::") RTR}},
     .n = 2,
     .found = "gid.missing a:p0>b"},
    {.seen = {{0, FAILS, PINGPONG "a-p0", WROTE("10.0.1.1", "::") RTR},
              {1, FAILS, "ibv_rc_pingpong -g 7 -d b-p0 a",
               WROTE("::", "10.0.1.1") "client read/write: No data available\n"}},
     .n = 2,
     .found = "gid.missing b:p0>a"},
    /* What happens after timeout(1) has ended a program is not the cause. */
    {.seen = {{0, FAILS, "timeout 1 " PINGPONG "a-p0", ""},
              {1, HANGS, PINGPONG "b-p0 a", ""}},
     .n = 2,
     .arrange = by_timeout_and_cut_late,
     .found = "undetermined a:p0>b"},
    {.seen = {{0, FAILS, "timeout 1 " PINGPONG "a-p0", ""},
              {1, HANGS, PINGPONG "b-p0 a", ""}},
     .n = 2,
     .arrange = by_timeout_and_stopped_late,
     .found = "undetermined a:p0>b"},
    {.seen = {{0, FAILS, "timeout 1 " PINGPONG "a-p0", ""},
              {1, KILLED, PINGPONG "b-p0 a", ""}},
     .n = 2,
     .arrange = by_timeout_before_the_kill,
     .found = "undetermined a:p0>b"},
    {.seen = {{0, FAILS, "timeout 1 " PINGPONG "a-p0", ""},
              {1, FAILS, PINGPONG "b-p0 a", RETRIES}},
     .n = 2,
     .arrange = by_timeout_before_its_peer,
     .found = "undetermined a:p0>b"},
    /* A stopped host is not dead, whatever its peer could not reach. */
    {.seen = {{0, HANGS, PINGPONG "a-p0", ""},
              {1, FAILS, PINGPONG "b-p0 a", "Couldn't connect to a:18515\n"}},
     .n = 2,
     .arrange = stop_first,
     .found = "peer.silent b>a"},
    /* The server was not begun, had ended, or listens elsewhere. */
    {.seen = {{0, FINE, PINGPONG "a-p0", ""},
              {1, FAILS, PINGPONG "b-p0 a", "Couldn't connect to a:18515\n"}},
     .n = 2,
     .found = "undetermined b:p0>a"},
    /* a GID that is in no table any more */
    {.seen = {{0, FAILS, PINGPONG "a-p0", WROTE("10.0.1.9", "10.0.1.2") RETRIES},
              {1, HANGS, PINGPONG "b-p0 a", ""}},
     .n = 2,
     .found = "addr.changed a:p0>b"},
    /* processes */
    {.seen = {{0, KILLED, PINGPONG "a-p0", ""}, {1, HANGS, PINGPONG "b-p0 a", ""}},
     .n = 2,
     .found = "peer.dead b:p0>a"},
    {.seen = {{0, KILLED, PINGPONG "a-p0", ""}, {1, FINE, PINGPONG "b-p0 a", ""}},
     .n = 2,
     .found = ""},
    /* A kill after the failure. */
    {.seen = {{0, KILLED, PINGPONG "a-p0", ""}, {1, FAILS, PINGPONG "b-p0 a", RETRIES}},
     .n = 2,
     .found = "undetermined b:p0>a"},
    {.seen = {{0, KILLED, PINGPONG "a-p0", ""},
              {0, FINE, "true", ""},
              {1, HANGS, PINGPONG "b-p0 a", ""}},
     .n = 3,
     .arrange = ended_before_the_kill,
     .found = "peer.dead b:p0>a"},
    {.seen = {{0, KILLED, PINGPONG "a-p0", ""},
              {0, HANGS, "./mine", ""},
              {1, HANGS, PINGPONG "b-p0 a", ""}},
     .n = 3,
     .found = "undetermined a:p0>b"},
    {.seen = {{0, HANGS, PINGPONG "a-p0", ""}, {1, HANGS, PINGPONG "b-p0 a", ""}},
     .n = 2,
     .arrange = stop_first,
     .found = "peer.silent b>a"},
    {.seen = {{0, HANGS, PINGPONG "a-p0", ""}, {1, FAILS, PINGPONG "b-p0 a", RETRIES}},
     .n = 2,
     .arrange = stop_late,
     .found = "undetermined b:p0>a"},
    /* A program that began after the stop. */
    {.seen = {{0, HANGS, PINGPONG "a-p0", ""},
              {0, HANGS, "./mine", ""},
              {1, HANGS, PINGPONG "b-p0 a", ""}},
     .n = 3,
     .arrange = stop_first,
     .found = "undetermined a:p0>b"},
    /* The peer had exited with status 0. */
    {.seen = {{0, FINE, PINGPONG "a-p0", ""}, {1, HANGS, PINGPONG "b-p0 a", ""}},
     .n = 2,
     .found = "undetermined b:p0>a"},
    /* With timeout(1). */
    {.seen = {{0, FAILS, "timeout 3 " PINGPONG "a-p0", ""},
              {1, FAILS, "timeout 3 " PINGPONG "b-p0 a", ""}},
     .n = 2,
     .arrange = down_there_by_timeout,
     .found = "link.down b:p0>a"},
    {.seen = {{0, FAILS, PINGPONG "a-p0", ""}, {1, FAILS, PINGPONG "b-p0 a", ""}},
     .n = 2,
     .arrange = by_timeout,
     .found = "undetermined a:p0>b"},
    /* a failure elsewhere */
    {.seen = {{0, HANGS, "ibv_rc_pingpong -g 1", WROTE("10.0.1.1", "10.0.1.2")},
              {1, HANGS, "ibv_rc_pingpong -g 1", WROTE("10.0.1.2", "10.0.1.1")},
              {2, FAILS, "false", ""}},
     .n = 3,
     .arrange = down_there,
     .found = "link.down b:p0>a"},
    {.seen = {{0, HANGS, "ibv_rc_pingpong -g 1", ""},
              {1, HANGS, "ibv_rc_pingpong -g 1", ""},
              {2, FAILS, "false", ""}},
     .n = 3,
     .arrange = down_there,
     .found = "undetermined c:p0"},
    /* The port is that of the printed GID, or of the only named device. */
    {.seen = {{0, HANGS, PINGPONG "a-p0", ""},
              {1, FAILS, PINGPONG "b-p0 a", WROTE("10.0.2.1", "10.0.1.1") RTR}},
     .n = 2,
     .found = "route.wrong_nic b:p1>a"},
    {.seen = {{0, HANGS, PINGPONG "a-p0", ""}, {1, FAILS, "./mine b-p0 b-p1", ""}},
     .n = 2,
     .found = "undetermined b>a"},
    /* A launcher prints what a process at another host wrote. */
    {.seen = {{0, FAILS, "mpirun -H a,b ./ring", UCX_AH("b", "b-p1", "10.0.1.1")},
              {1, FINE, "./agent", ""}},
     .n = 2,
     .found = "route.wrong_nic b:p1>a"},
    {.seen = {{0, FAILS, "mpirun -H a,b ./ring", UCX_AH("x", "b-p1", "10.0.1.1")},
              {1, FINE, "./agent", ""}},
     .n = 2,
     .found = "undetermined a:p0>b"},
    {.seen = {{0, FAILS, "mpirun -H a,b ./ring", UCX_SENT("b", "10.0.1.1")},
              {1, FINE, "./agent b-p0", ""}},
     .n = 2,
     .arrange = down_there,
     .found = "link.down b:p0>a"},
    /* The port is that of the cable whose other end the process named. */
    {.seen = {{0, FINE, "./agent", ""},
              {1, FAILS, "mpirun -H b,a ./ring", UCX_SENT("b", "10.0.1.1")}},
     .n = 2,
     .arrange = down_at_both,
     .found = "link.down b:p0>a"},
    /* Unknown facts are reported as such. */
    {.seen = {{0, FAILS, "false", ""}}, .n = 1, .found = "undetermined a:p0"},
    {.seen = {{0, FAILS, "./mine", ""}, {1, HANGS, "./mine", ""}},
     .n = 2,
     .found = "undetermined a:p0>b"},
    {.seen = {{0, FAILS, PINGPONG "a-p0", RTR}, {1, HANGS, PINGPONG "b-p0 a", ""}},
     .n = 2,
     .arrange = unseen,
     .found = "undetermined a>b"},
    {.seen = {{0, HANGS, PINGPONG "a-p0", ""}, {1, FAILS, PINGPONG "b-p0 a", LEFT}},
     .n = 2,
     .arrange = unseen,
     .found = "undetermined b:p0>a"},
    {.seen = {{0, WAITS, PINGPONG "a-p0", ""}}, .n = 1, .found = ""},
};

static struct program_facts facts_of(const struct seen_program *seen)
{
    struct program_facts facts = {.host = seen->host, .host_name = "x"};

    facts.has_begun = seen->seen != WAITS;
    facts.has_ended = true;
    facts.ended_ns =
        seen->seen == FAILS || seen->seen == FINE ? SECOND + seen->host : 9 * SECOND;
    facts.end = seen->seen == KILLED                         ? WORLD_PROGRAM_KILLED
                : seen->seen == HANGS || seen->seen == WAITS ? WORLD_PROGRAM_LATE
                                                             : WORLD_PROGRAM_EXITED;
    facts.killed_ns = seen->seen == KILLED ? facts.ended_ns : 0;
    facts.code = seen->seen == FAILS ? 1 : seen->seen == KILLED ? 9 : 0;
    weft_text_add(&facts.output, "%s", seen->output);
    return facts;
}

static void find(const struct program_causes *causes, struct weft_text *out)
{
    struct diag_input input = {.hosts = NULL};
    struct diag_findings findings;

    weft_text_add(out, "%s", "");
    if (!program_causes_any(causes->facts, causes->n)) {
        return;
    }
    program_causes_observe(causes, &input);
    diag(&input, &findings);
    for (uint32_t i = 0; i < findings.n; i++) {
        const struct diag_finding *finding = &findings.items[i];

        weft_text_add(out, "%s%s %s%s%s%s%s", i > 0 ? ", " : "", finding->entry->code,
                      finding->host, finding->port[0] != '\0' ? ":" : "", finding->port,
                      finding->peer[0] != '\0' ? ">" : "", finding->peer);
    }
    diag_findings_fini(&findings);
    diag_input_fini(&input);
}

static void set_job(struct job *job, const struct seen_program *seen, uint32_t n)
{
    *job = (struct job){.causes = {.spec = &world->spec,
                                   .device = device,
                                   .facts = job->facts,
                                   .commands = job->commands,
                                   .n = n,
                                   .before = job->before,
                                   .after = job->after,
                                   .cuts = job->cuts}};
    for (uint32_t i = 0; i < world->spec.n_hosts; i++) {
        make_look(i, &job->before[i]);
        make_look(i, &job->after[i]);
        for (uint32_t k = 0; k < PORTS_MAX; k++) { /* when its cable was connected */
            job->before[i].losses[k] = job->after[i].losses[k] = 1;
        }
        for (uint32_t k = 0; k < world->spec.hosts[i].n_ports; k++) {
            port_after(job, i, k)->counters[DIAG_TX_PACKETS] = FRAMES;
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        job->facts[i] = facts_of(&seen[i]);
        job->commands[i] = seen[i].command;
    }
}

static void fini_job(struct job *job)
{
    for (uint32_t i = 0; i < PROGRAMS_MAX; i++) {
        weft_text_fini(&job->facts[i].output);
        program_look_fini(&job->before[i]);
        program_look_fini(&job->after[i]);
    }
}

START_TEST(a_failing_program_ends_with_its_cause)
{
    struct job job;
    struct weft_text got = {NULL, 0, 0};

    set_job(&job, cases[_i].seen, cases[_i].n);
    if (cases[_i].arrange != NULL) {
        cases[_i].arrange(&job);
    }
    find(&job.causes, &got);
    ck_assert_str_eq(got.bytes, cases[_i].found);
    weft_text_fini(&got);
    fini_job(&job);
}
END_TEST

static void readdressed(struct job *job)
{
    struct diag_gid *gids = port_after(job, 1, 0)->gids;

    for (uint32_t i = 0; i < port_after(job, 1, 0)->n_gids; i++) {
        ck_assert(io_ip_is_link_local(&gids[i].ip) ||
                  io_ip_parse("10.9.9.9", &gids[i].ip));
    }
}

/* A program ends without a word, and its device has given up nothing. What is wrong with its cable
 * need not be why, but is a question worth asking. */
START_TEST(what_is_wrong_is_a_candidate_for_a_silent_program)
{
    static const struct seen_program seen[] = {{0, HANGS, "./x a-p0", ""},
                                               {1, FAILS, "./x b-p0 a", ""}};
    static const struct {
        void (*arrange)(struct job *job);
        uint32_t n_candidates;
        const char *candidate; /* the first */
    } silent[] = {{NULL, 0, ""},
                  {cut_early, 1, "link.down"},
                  {flapped, 2, "link.flapping"},
                  {cut_late, 0, ""},
                  {readdressed, 1, "route.no_facing_port"}};
    struct diag_input input = {.hosts = NULL};
    struct diag_findings findings;
    struct job job;

    set_job(&job, seen, 2);
    for (uint32_t i = 0; i < 2; i++) {
        port_after(&job, i, 0)->counters[DIAG_RX_PACKETS] = FRAMES;
    }
    if (silent[_i].arrange != NULL) {
        silent[_i].arrange(&job);
    }
    program_causes_observe(&job.causes, &input);
    diag(&input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code, "undetermined");
    ck_assert_uint_eq(findings.items[0].n_candidates, silent[_i].n_candidates);
    if (findings.items[0].n_candidates > 0) {
        ck_assert_str_eq(findings.items[0].candidates[0]->code, silent[_i].candidate);
    }
    diag_findings_fini(&findings);
    diag_input_fini(&input);
    fini_job(&job);
}
END_TEST

/* ---- facts about a failure ---- */

static void unknown_slots(struct job *job)
{
    for (uint32_t i = 0; i < 2; i++) {
        port_after(job, i, 0)->gids[1].index = IO_UNKNOWN;
        port_after(job, i, 0)->gids[1].type = 0;
    }
}

#define UNRESOLVED "event: RDMA_CM_EVENT_ADDR_ERROR, error: -110\n"

static const struct {
    struct seen_program seen[PROGRAMS_MAX];
    void (*arrange)(struct job *job);
    const char *values; /* evidence of the first failure of the second host */
} evidence[] = {
    {{{0, HANGS, PINGPONG "a-p0", ""}, {1, FAILS, PINGPONG "b-p0", RETRIES}},
     NULL,
     "local_port=p0 local_gid=10.0.1.2 local_gid_type=RoCE v2 remote_port=p0 "
     "remote_gid=10.0.1.1 remote_gid_type=RoCE v2 path_mtu=1024"},
    {{{0, FINE, PINGPONG "a-p0", ""}, {1, HANGS, PINGPONG "b-p0", ""}},
     NULL,
     "peer_exited=1 local_port=p0 local_gid=10.0.1.2 local_gid_type=RoCE v2 "
     "remote_port=p0 remote_gid=10.0.1.1 remote_gid_type=RoCE v2 path_mtu=1024"},
    /* A slot of unknown index is not that of a program that selects none. */
    {{{0, HANGS, "ib_send_bw -d a-p0", ""}, {1, FAILS, "ib_send_bw -d b-p0", RETRIES}},
     unknown_slots,
     "local_port=p0 remote_port=p0"},
    /* librdmacm takes the port that has a route to the peer. */
    {{{0, HANGS, "rping -s -a 10.0.1.1", ""},
      {1, FAILS, "rping -c -a 10.0.1.1", UNRESOLVED}},
     NULL,
     "local_port=p0 local_gid=10.0.1.2 local_gid_type=RoCE v2 remote_port=p0 "
     "remote_gid=10.0.1.1 remote_gid_type=RoCE v2"},
    {{{0, HANGS, "udaddy", ""}, {1, FAILS, "udaddy -s 10.0.9.1", UNRESOLVED}},
     NULL,
     "remote_port=p0 remote_gid=10.0.9.1"},
    {{{0, HANGS, "./x a-p0", WROTE("10.0.1.1", "")},
      {1, FAILS, "./x b-p0", WROTE("10.0.1.9", "") RETRIES}},
     unknown_slots,
     "gid_was_read=1 local_port=p0 local_gid=10.0.1.9 remote_port=p0 "
     "remote_gid=10.0.1.1"},
};

START_TEST(a_failure_has_what_is_known_of_its_ends)
{
    struct job job;
    struct diag_input input = {.hosts = NULL};
    struct weft_text got = {NULL, 0, 0};
    const struct weft_error *error;

    set_job(&job, evidence[_i].seen, 2);
    if (evidence[_i].arrange != NULL) {
        evidence[_i].arrange(&job);
    }
    program_causes_observe(&job.causes, &input);
    ck_assert_uint_eq(input.hosts[1].n_errors, 1);
    error = &input.hosts[1].errors[0].error;
    for (uint32_t i = 0; i < error->n_values; i++) {
        const struct weft_value *value = &error->values[i];

        weft_text_add(&got, "%s%s=", i > 0 ? " " : "", weft_value_name(value->name));
        if (weft_value_kind(value->name) == WEFT_KIND_TEXT) {
            weft_text_add(&got, "%s", value->text);
        } else {
            weft_text_add(&got, "%lld", (long long)value->number);
        }
    }
    ck_assert_str_eq(got.bytes, evidence[_i].values);
    weft_text_fini(&got);
    diag_input_fini(&input);
    fini_job(&job);
}
END_TEST

/* Failures of the same time stay in the order of the programs. */
START_TEST(failures_of_a_host_are_in_order_of_time)
{
    static const struct seen_program seen[] = {
        {0, FAILS, "x", RTR}, {0, FAILS, "x", RETRIES}, {0, FAILS, "x", FLUSHED}};
    struct job job;
    struct diag_input input = {.hosts = NULL};

    set_job(&job, seen, WEFT_LENGTH(seen));
    job.facts[0].ended_ns = 2 * SECOND;
    program_causes_observe(&job.causes, &input);
    ck_assert_uint_eq(input.hosts[0].n_errors, 3);
    ck_assert_int_eq(input.hosts[0].errors[0].error.wc_status, 12);
    ck_assert_int_eq(input.hosts[0].errors[1].error.wc_status, 5);
    ck_assert_str_eq(weft_phase_name(input.hosts[0].errors[2].error.phase), "rtr");
    diag_input_fini(&input);
    fini_job(&job);
}
END_TEST

/* A cable has one carrier, which a port that is down keeps away from both ends. */
START_TEST(a_carrier_is_lost_once_until_it_is_back)
{
    enum { A = 0, B = 1 };
    static const struct world_fault faults[] = {
        {.kind = WORLD_FAULT_DOWN, .host = A, .has_port = true},
        {.kind = WORLD_FAULT_UP, .host = A, .has_port = true},
        {.kind = WORLD_FAULT_DOWN, .host = A, .has_port = true, .for_ns = SECOND},
        {.kind = WORLD_FAULT_DOWN, .host = B, .has_port = true, .for_ns = 2 * SECOND},
        {.kind = WORLD_FAULT_LOSS, .host = A, .has_port = true},
    };
    static const struct {
        uint32_t fault;
        bool undo;
        uint32_t n_cuts;
    } steps[] = {{0, false, 1}, {4, false, 1}, {3, false, 1}, {1, false, 1},
                 {2, false, 1}, {3, true, 1},  {2, true, 1},  {2, false, 2},
                 {3, false, 2}, {2, true, 2},  {3, true, 2},  {0, false, 3}};
    struct world_spec spec = world->spec;
    bool keeps_down[WEFT_LENGTH(faults)] = {false};
    struct program_cut cuts[WEFT_LENGTH(steps)];
    uint32_t n = 0;

    spec.faults = faults;
    spec.n_faults = WEFT_LENGTH(faults);
    for (uint32_t i = 0; i < WEFT_LENGTH(steps); i++) {
        program_cuts_follow(&spec, steps[i].fault, steps[i].undo, i, keeps_down, cuts,
                            &n);
        ck_assert_msg(n == steps[i].n_cuts, "step %u: %u", i, n);
    }
    ck_assert_int_eq(cuts[1].at_ns, 7);
}
END_TEST

/* ---- encoding and decoding of looks ---- */

START_TEST(what_was_looked_at_is_read_back)
{
    static const char seen[] =
        "{\"host\":{\"name\":\"x\",\"observed\":true,\"ports\":[{\"name\":\"b-p1\","
        "\"state\":\"up\",\"netdev_mtu\":1500,\"gids\":[]}],\"errors\":[],\"told\":[]},"
        "\"losses\":[3,null]}";
    static const char *const broken[] = {"", "{", "[]", "{\"host\":1}",
                                         "{\"losses\":[]}"};
    struct program_look looks[PROGRAMS_MAX] = {{.is_seen = false}};
    static const char counted[] =
        "[[[1,2,3,4,5,6,7]],[[6,7,8,9,10,11,12],[11,null,13,14,15,null,17]],[]]";

    program_look_decode(&world->spec, 1, device, seen, strlen(seen), &looks[1]);
    ck_assert(looks[1].is_seen);
    ck_assert_str_eq(looks[1].host.name, "b");
    ck_assert_str_eq(looks[1].host.ports[0].name, "p1");
    ck_assert_int_eq(looks[1].losses[0], 3);
    ck_assert_int_eq(looks[1].losses[1], IO_UNKNOWN);
    program_look_count(&world->spec, counted, strlen(counted), looks);
    ck_assert_int_eq(looks[1].host.ports[0].counters[DIAG_TX_PACKETS], 11);
    ck_assert_int_eq(looks[1].host.ports[0].counters[DIAG_RX_PACKETS], IO_UNKNOWN);
    ck_assert_int_eq(looks[1].given_up[0].unanswered, 11);
    ck_assert_int_eq(looks[1].given_up[0].not_ready, 12);
    ck_assert_int_eq(looks[1].given_up[1].unanswered, IO_UNKNOWN);
    ck_assert_int_eq(looks[1].given_up[1].not_ready, 17);
    program_look_count(&world->spec, "[", 1, looks);
    looks[1].host.ports[0].is_up = DIAG_NO;
    program_look_reset(&world->spec.hosts[1], &looks[1]);
    ck_assert_int_eq(looks[1].host.ports[0].is_up, DIAG_YES);
    ck_assert_int_eq(looks[1].host.ports[0].counters[DIAG_TX_PACKETS], 0);
    ck_assert_int_eq(looks[1].host.ports[0].counters[DIAG_RX_PACKETS], IO_UNKNOWN);
    ck_assert_int_eq(looks[1].losses[0], 1);
    ck_assert_int_eq(looks[1].losses[1], IO_UNKNOWN);
    ck_assert_int_eq(looks[1].given_up[0].unanswered, 0);
    ck_assert_int_eq(looks[1].given_up[1].unanswered, IO_UNKNOWN);
    ck_assert_int_eq(looks[1].given_up[1].not_ready, 0);
    program_look_fini(&looks[1]);
    for (size_t i = 0; i < WEFT_LENGTH(broken); i++) {
        program_look_decode(&world->spec, 0, device, broken[i], strlen(broken[i]),
                            &looks[0]);
        ck_assert(!looks[0].is_seen);
        program_look_fini(&looks[0]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("run/program_causes");
    TCase *tcase = tcase_create("program_causes");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, a_failing_program_ends_with_its_cause, 0,
                        (int)WEFT_LENGTH(cases));
    tcase_add_loop_test(tcase, what_is_wrong_is_a_candidate_for_a_silent_program, 0, 5);
    tcase_add_loop_test(tcase, a_failure_has_what_is_known_of_its_ends, 0,
                        (int)WEFT_LENGTH(evidence));
    tcase_add_test(tcase, failures_of_a_host_are_in_order_of_time);
    tcase_add_test(tcase, a_carrier_is_lost_once_until_it_is_back);
    tcase_add_test(tcase, what_was_looked_at_is_read_back);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
