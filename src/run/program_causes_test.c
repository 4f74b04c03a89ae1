#include "run/program_causes.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "scenario/scenario.h"

#define SECOND INT64_C(1000000000)
#define PROGRAMS_MAX 3
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

/* ---- what a host sees of itself ---- */

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
        port->netdev_mtu = 9000;
        port->active_mtu = 4096;
        port->device = i;
        port->has_gids = true;
        port->n_addresses = 1;
        port->counters[DIAG_RX_PAUSES] = 0;
        weft_format(text, sizeof(text), "fe80::%x:%x", host + 1, i + 1);
        add_gid(port, text, 64);
        io_ip_format(world_port_address(&spec->ports[i], NULL), text, sizeof(text));
        add_gid(port, text, 24);
    }
}

/* ---- what fails, and what is found ---- */

enum seen { FAILS, FINE, KILLED, HANGS, WAITS };

struct seen_program {
    uint32_t host;
    enum seen seen;
    const char *command, *output;
};

#define PINGPONG "ibv_rc_pingpong -e -g 1 -d "
#define RTR "Failed to modify QP to RTR\n"
#define FLUSHED "Failed status Work Request Flushed Error (5) for wr_id 2\n"
#define RETRIES "Failed status transport retry counter exceeded (12) for wr_id 2\n"
#define LEFT "client read/write: Success\n"
#define WROTE(l, r)                                                                      \
    "  local address:  LID 0, GID " l "\n  remote address: LID 0, GID " r "\n"

static const struct {
    struct seen_program seen[PROGRAMS_MAX];
    uint32_t n;
    /* What is out of order: a host (0: none; from 1) whose first port has lost its carrier so
     * often, has this MTU (0: as others), is down; a host that a fault stopped. */
    uint32_t host;
    int64_t losses, mtu;
    bool is_down, is_stopped, is_unseen;
    const char *found;
} cases[] = {
    {.seen = {{0, FINE, PINGPONG "a-p0", ""}, {1, FINE, PINGPONG "b-p0", ""}},
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
    {.seen = {{0, FAILS, "ibv_rc_pingpong -g 99 -d a-p0",
               "can't read sgid of index 99\n"}},
     .n = 1,
     .found = "gid.missing a:p0"},
    {.seen = {{0, FAILS, "ibv_rc_pingpong -d a-p9", "IB device a-p9 not found\n"}},
     .n = 1,
     .found = "host.no_device a"},
    {.seen = {{0, FAILS, "ibv_xsrq_pingpong -d a-p0",
               "Couldn't Open the XRC Domain 95\n"},
              {1, FAILS, "ibv_xsrq_pingpong -d b-p0 a",
               "Couldn't Open the XRC Domain 95\n"}},
     .n = 2,
     .found = "device.rejected a:p0>b"},
    /* data */
    {.seen = {{0, FAILS, PINGPONG "a-p0", WROTE("10.0.1.1", "10.0.1.2") FLUSHED},
              {1, HANGS, PINGPONG "b-p0 a", ""}},
     .n = 2,
     .host = 1,
     .losses = 1,
     .found = "link.down a:p0>b"},
    {.seen = {{0, FAILS, PINGPONG "a-p0", WROTE("10.0.1.1", "10.0.1.2") FLUSHED},
              {1, HANGS, PINGPONG "b-p0 a", ""}},
     .n = 2,
     .host = 1,
     .losses = 3,
     .found = "link.flapping a:p0>b"},
    {.seen = {{0, HANGS, PINGPONG "a-p0", ""}, {1, HANGS, PINGPONG "b-p0 a", ""}},
     .n = 2,
     .host = 2,
     .is_down = true,
     .found = "link.down b:p0>a"},
    {.seen = {{0, HANGS, PINGPONG "a-p0 -m 4096", ""},
              {1, FAILS, PINGPONG "b-p0 -m 4096 a", FLUSHED}},
     .n = 2,
     .host = 2,
     .mtu = 1500,
     .found = "link.mtu_mismatch b:p0>a"},
    /* messages as small as both ends take: the MTU is not it, and does not hide that */
    {.seen = {{0, HANGS, PINGPONG "a-p0 -m 1024", ""},
              {1, FAILS, PINGPONG "b-p0 -m 1024 a", FLUSHED}},
     .n = 2,
     .host = 2,
     .mtu = 1500,
     .found = "undetermined b:p0>a, link.mtu_mismatch a:p0>b"},
    /* processes */
    {.seen = {{0, KILLED, PINGPONG "a-p0", ""}, {1, HANGS, PINGPONG "b-p0 a", ""}},
     .n = 2,
     .found = "peer.dead b:p0>a"},
    {.seen = {{0, KILLED, PINGPONG "a-p0", ""}, {1, FAILS, PINGPONG "b-p0 a", RETRIES}},
     .n = 2,
     .found = "peer.dead b:p0>a"},
    {.seen = {{0, KILLED, PINGPONG "a-p0", ""}, {1, FINE, PINGPONG "b-p0 a", ""}},
     .n = 2,
     .found = ""},
    {.seen = {{0, HANGS, PINGPONG "a-p0", ""}, {1, HANGS, PINGPONG "b-p0 a", ""}},
     .n = 2,
     .host = 1,
     .is_stopped = true,
     .found = "peer.silent b>a"},
    /* what is not known is said so */
    {.seen = {{0, FAILS, "false", ""}}, .n = 1, .found = "undetermined a:p0"},
    {.seen = {{0, FAILS, "./mine", ""}, {1, HANGS, "./mine", ""}},
     .n = 2,
     .found = "undetermined a:p0>b"},
    {.seen = {{0, FAILS, PINGPONG "a-p0", RTR}, {1, HANGS, PINGPONG "b-p0 a", ""}},
     .n = 2,
     .host = 1,
     .is_unseen = true,
     .found = "undetermined a>b"},
    {.seen = {{0, WAITS, PINGPONG "a-p0", ""}}, .n = 1, .found = ""},
};

static struct program_facts facts_of(const struct seen_program *seen)
{
    struct program_facts facts = {.host = seen->host, .host_name = "x"};

    facts.has_begun = seen->seen != WAITS;
    facts.has_ended = true;
    facts.ended_ns = seen->seen == FAILS ? SECOND + seen->host : 9 * SECOND;
    facts.end = seen->seen == KILLED                         ? WORLD_PROGRAM_KILLED
                : seen->seen == HANGS || seen->seen == WAITS ? WORLD_PROGRAM_LATE
                                                             : WORLD_PROGRAM_EXITED;
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

START_TEST(a_failing_program_ends_with_its_cause)
{
    struct program_look before[PROGRAMS_MAX] = {{.is_seen = false}};
    struct program_look after[PROGRAMS_MAX] = {{.is_seen = false}};
    struct program_facts facts[PROGRAMS_MAX] = {{.has_begun = false}};
    const char *commands[PROGRAMS_MAX];
    bool is_stopped[PROGRAMS_MAX] = {false};
    const struct program_causes causes = {.spec = &world->spec,
                                          .device = device,
                                          .facts = facts,
                                          .commands = commands,
                                          .n = cases[_i].n,
                                          .before = before,
                                          .after = after,
                                          .is_stopped = is_stopped};
    struct weft_text got = {NULL, 0, 0};

    for (uint32_t i = 0; i < world->spec.n_hosts; i++) {
        make_look(i, &before[i]);
        for (uint32_t k = 0; k < PORTS_MAX; k++) {
            before[i].losses[k] = 1; /* when its cable was made */
        }
        make_look(i, &after[i]);
        for (uint32_t k = 0; k < PORTS_MAX; k++) {
            after[i].losses[k] = 1;
        }
    }
    for (uint32_t i = 0; i < cases[_i].n; i++) {
        facts[i] = facts_of(&cases[_i].seen[i]);
        commands[i] = cases[_i].seen[i].command;
    }
    if (cases[_i].host > 0) {
        struct program_look *look = &after[cases[_i].host - 1];
        struct diag_port *port = &look->host.ports[0];

        look->losses[0] = 1 + cases[_i].losses;
        port->netdev_mtu = cases[_i].mtu != 0 ? cases[_i].mtu : port->netdev_mtu;
        port->is_up = cases[_i].is_down ? DIAG_NO : DIAG_YES;
        look->is_seen = !cases[_i].is_unseen;
        is_stopped[cases[_i].host - 1] = cases[_i].is_stopped;
    }
    find(&causes, &got);
    ck_assert_str_eq(got.bytes, cases[_i].found);
    weft_text_fini(&got);
    for (uint32_t i = 0; i < PROGRAMS_MAX; i++) {
        weft_text_fini(&facts[i].output);
        program_look_fini(&before[i]);
        program_look_fini(&after[i]);
    }
}
END_TEST

/* ---- what a look is written and read as ---- */

START_TEST(what_was_looked_at_is_read_back)
{
    static const char seen[] =
        "{\"host\":{\"name\":\"x\",\"observed\":true,\"ports\":[{\"name\":\"b-p1\","
        "\"state\":\"up\",\"netdev_mtu\":1500,\"gids\":[]}],\"errors\":[],\"told\":[]},"
        "\"losses\":[3,null]}";
    static const char *const broken[] = {"", "{", "[]", "{\"host\":1}",
                                         "{\"losses\":[]}"};
    struct program_look looks[PROGRAMS_MAX] = {{.is_seen = false}};
    static const char counted[] = "[[[1,2,3,4,5]],[[6,7,8,9,10],[11,null,13,14,15]],[]]";

    program_look_decode(&world->spec, 1, device, seen, strlen(seen), &looks[1]);
    ck_assert(looks[1].is_seen);
    ck_assert_str_eq(looks[1].host.name, "b");
    ck_assert_str_eq(looks[1].host.ports[0].name, "p1");
    ck_assert_int_eq(looks[1].losses[0], 3);
    ck_assert_int_eq(looks[1].losses[1], IO_UNKNOWN);
    program_look_count(&world->spec, counted, strlen(counted), looks);
    ck_assert_int_eq(looks[1].host.ports[0].counters[DIAG_TX_PACKETS], 11);
    ck_assert_int_eq(looks[1].host.ports[0].counters[DIAG_RX_PACKETS], IO_UNKNOWN);
    program_look_count(&world->spec, "[", 1, looks);
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
    tcase_add_test(tcase, what_was_looked_at_is_read_back);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
