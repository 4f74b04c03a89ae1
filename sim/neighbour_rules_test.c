/* The cases of sim/rules/neighbour.csv, each with two hosts of its own. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "base/text.h"
#include "sim/rules_testing.h"
#include "sim/stack_testing.h"

#define MS ((weft_ns)1000000)

enum { A, B, TEXT_BYTES = 160 };

static struct rules rules;
static struct net net;

/* "arp_ignore=1 arp_announce=2" */
static struct sim_sysctl sysctl_of(const char *cell)
{
    struct sim_sysctl sysctl = {0};
    const struct {
        const char *name;
        int *value;
    } known[] = {{"rp_filter=", &sysctl.rp_filter},
                 {"arp_ignore=", &sysctl.arp_ignore},
                 {"arp_announce=", &sysctl.arp_announce},
                 {"arp_filter=", &sysctl.arp_filter},
                 {"accept_local=", &sysctl.accept_local}};
    const char *at = strcmp(cell, "-") == 0 ? "" : cell;
    while (*at != '\0') {
        size_t i = 0;
        while (i < WEFT_LENGTH(known) &&
               strncmp(at, known[i].name, strlen(known[i].name)) != 0) {
            i++;
        }
        ck_assert_msg(i < WEFT_LENGTH(known), "what is %s?", at);
        *known[i].value = at[strlen(known[i].name)] - '0';
        at += strcspn(at, " ");
        at += *at == ' ';
    }
    return sysctl;
}

static void add_address(uint32_t host, uint32_t ifindex, const char *text)
{
    struct sim_stack *stack = net.hosts[host].stack;
    const char *peer = strstr(text, " peer ");
    if (peer == NULL) {
        struct sim_prefix address = net_prefix(text);
        ck_assert_int_eq(sim_stack_add_address(stack, ifindex, &address), 0);
        return;
    }
    char own[TEXT_BYTES];
    weft_format(own, sizeof(own), "%.*s", (int)(peer - text), text);
    struct sim_ip ip = net_ip(own);
    struct sim_prefix prefix = net_prefix(peer + strlen(" peer "));
    ck_assert_int_eq(sim_stack_add_peer_address(stack, ifindex, &ip, &prefix), 0);
}

/* Adds "p0=10.0.0.1/24 p1=10.0.1.1/24", in this order. Returns the number of ports. */
static uint32_t add_addresses(uint32_t host, const char *cell)
{
    char text[TEXT_BYTES];
    uint32_t n = 0;
    weft_format(text, sizeof(text), "%s", cell);
    for (char *at = text; at != NULL;) {
        char *next = strstr(at, " p");
        while (next != NULL && next[3] != '=') { /* " peer " is not a port */
            next = strstr(next + 1, " p");
        }
        if (next != NULL) {
            *next++ = '\0';
        }
        ck_assert_int_eq(at[1], '0' + (char)n);
        if (net.hosts[host].stack != NULL &&
            sim_stack_n_netdevs(net.hosts[host].stack) > n) {
            add_address(host, 2 + n, at + strlen("p0="));
        }
        n++;
        at = next;
    }
    return n;
}

static void start(unsigned row)
{
    net_init(&net);
    for (uint32_t host = A; host <= B; host++) {
        const char *column = host == A ? "sysctl_a" : "sysctl_b";
        struct sim_stack_config config = {.sysctl =
                                              sysctl_of(rules_cell(&rules, row, column))};
        ck_assert_uint_eq(net_add_host(&net, &config), host);
    }
    uint32_t n_ports = add_addresses(A, rules_cell(&rules, row, "a"));
    for (uint32_t i = 0; i < n_ports; i++) {
        net_cable(&net, A, NULL, B, NULL);
    }
    ck_assert_uint_eq(add_addresses(A, rules_cell(&rules, row, "a")), n_ports);
    ck_assert_uint_eq(add_addresses(B, rules_cell(&rules, row, "b")), n_ports);
}

static uint32_t slot_of(const struct sim_port *port, const char *ip, bool is_v1)
{
    union ibv_gid expected = net_gid(ip);
    enum ibv_gid_type type = is_v1 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2;
    uint32_t n = sim_stack_gid_length(net.hosts[A].stack, port);
    for (uint32_t i = 0; i < n; i++) {
        struct sim_gid gid;
        if (sim_stack_gid(net.hosts[A].stack, port, i, &gid) == 0 && gid.type == type &&
            memcmp(gid.gid.raw, expected.raw, 16) == 0) {
            return i;
        }
    }
    ck_abort_msg("no slot holds %s", ip);
    return 0;
}

/* Returns the MAC of a cell: "b.p0" is the port's, "self" that of `asker`; otherwise the
 * MAC itself. */
static uint64_t mac_of(const char *cell, const struct sim_port *asker)
{
    if (strcmp(cell, "self") == 0) {
        return sim_port_mac(asker);
    }
    if (strncmp(cell, "b.p", 3) == 0) {
        return sim_port_mac(net.hosts[B].ports[rules_number(cell + 3)]);
    }
    return strtoull(cell, NULL, 16);
}

START_TEST(a_neighbour_is_resolved_as_linux_does)
{
    unsigned row = (unsigned)_i;
    int n_done = 0;
    rules_read(&rules, "neighbour");
    start(row);
    const char *from = rules_cell(&rules, row, "from");
    struct sim_port *port = net.hosts[A].ports[from[1] - '0'];
    union ibv_gid dgid = net_gid(rules_cell(&rules, row, "dgid"));
    struct sim_resolve resolve = {.done = net_count(&n_done)};
    uint32_t slot =
        slot_of(port, rules_cell(&rules, row, "sgid"), strstr(from, "/v1") != NULL);

    int error = sim_stack_resolve(net.hosts[A].stack, port, slot, &dgid, &resolve);
    if (error == EINPROGRESS) {
        while (n_done == 0 && sim_step(net.engine, SIM_NEVER - 1)) {
        }
        ck_assert_int_eq(n_done, 1);
        error = resolve.error;
    }
    const char *name = rules_cell(&rules, row, "case");
    ck_assert_msg(error == rules_errno(rules_cell(&rules, row, "errno")), "%s: errno %d",
                  name, error);
    weft_ns least = (weft_ns)rules_number(rules_cell(&rules, row, "ms")) * MS;
    ck_assert_msg(sim_now_ns(net.engine) >= least && sim_now_ns(net.engine) < least + MS,
                  "%s: %lld ns", name, (long long)sim_now_ns(net.engine));
    if (error == 0) {
        ck_assert_msg(
            resolve.destination_mac == mac_of(rules_cell(&rules, row, "mac"), port),
            "%s: MAC %012llx", name, (unsigned long long)resolve.destination_mac);
    }
    net_fini(&net);
    rules_fini(&rules);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sim/neighbour_rules");
    TCase *tcase = tcase_create("neighbour_rules");
    tcase_add_loop_test(tcase, a_neighbour_is_resolved_as_linux_does, 0,
                        rules_count("neighbour"));
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
