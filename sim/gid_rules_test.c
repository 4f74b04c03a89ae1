/* Replays the histories of sim/rules/gid_table.csv and gid_recorded.csv on the stack,
 * step by step. */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "base/text.h"
#include "sim/rules_testing.h"
#include "sim/stack_testing.h"

enum { N_SLOTS_TYPED = 8, N_SLOTS_RECORDED = 16, IFINDEX = 2 };

static struct rules rules;
static struct net net;
static struct sim_stack *stack;
static struct sim_port *port;
static unsigned n_events;
static uint32_t n_slots;

static void on_gids(void *context, struct sim_port *changed)
{
    ck_assert_ptr_eq(context, &n_events);
    ck_assert_ptr_eq(changed, port);
    n_events++;
}

static void start(bool has_roce_v1)
{
    net_init(&net);
    uint32_t host = net_add_host(&net, NULL);
    stack = net.hosts[host].stack;
    port = net_port(&net, host);
    struct sim_gid_config gids = {.n_slots = n_slots, .has_roce_v1 = has_roce_v1};
    ck_assert_uint_eq(sim_stack_add_port(stack, port, &gids), IFINDEX);
    sim_stack_watch_gids(stack, port, on_gids, &n_events);
    sim_port_attach(port, NULL, stack);
}

/* Returns the netdev of "10.0.0.1/24 dev 5", where 5 is a VLAN; `out` receives the text
 * before it. */
static uint32_t netdev_of(const char *argument, char *out, size_t out_bytes)
{
    const char *dev = strstr(argument, " dev ");
    weft_format(out, out_bytes, "%s", argument);
    if (dev == NULL) {
        return IFINDEX;
    }
    out[dev - argument] = '\0';
    return sim_stack_ifindex(stack, port, (uint16_t)rules_number(dev + strlen(" dev ")));
}

/* Adds an address: "10.0.0.1/24" or "10.0.0.1 peer 10.0.0.2/32". */
static int add(uint32_t ifindex, const char *argument)
{
    const char *peer = strstr(argument, " peer ");
    if (peer == NULL) {
        struct sim_prefix address = net_prefix(argument);
        return sim_stack_add_address(stack, ifindex, &address);
    }
    char own[64];
    weft_format(own, sizeof(own), "%.*s", (int)(peer - argument), argument);
    struct sim_ip ip = net_ip(own);
    struct sim_prefix prefix = net_prefix(peer + strlen(" peer "));
    return sim_stack_add_peer_address(stack, ifindex, &ip, &prefix);
}

/* Moves a QP to RTR, towards the address of its own slot, so that no other host is
 * needed. */
static int hold(uint32_t index)
{
    struct sim_gid gid = {.valid = false};
    struct sim_resolve resolve = {.done = {0}};
    union ibv_gid to = net_gid("10.0.0.1");
    if (sim_stack_gid(stack, port, index, &gid) == 0) {
        to = gid.gid;
    }
    int error = sim_stack_resolve(stack, port, index, &to, &resolve);
    if (error == 0) {
        sim_stack_gid_hold(stack, port, index);
    }
    return error;
}

static int step(const char *op, const char *argument)
{
    char text[64];
    uint32_t ifindex = netdev_of(argument, text, sizeof(text));
    if (strcmp(op, "add") == 0) {
        return add(ifindex, text);
    }
    if (strcmp(op, "del") == 0) {
        struct sim_ip ip = net_ip(text);
        return sim_stack_del_address(stack, ifindex, &ip);
    }
    if (strcmp(op, "vlan") == 0) {
        uint16_t vlan_id = (uint16_t)rules_number(argument);
        return sim_stack_add_vlan(stack, IFINDEX, vlan_id) == 0 ? EEXIST : 0;
    }
    if (strcmp(op, "hold") == 0) {
        return hold(rules_number(argument));
    }
    if (strcmp(op, "release") == 0) {
        sim_stack_gid_release(stack, port, rules_number(argument));
        return 0;
    }
    if (strcmp(op, "scan") == 0) {
        return sim_stack_scan_gids(stack, port);
    }
    ck_assert_str_eq(op, "promote_secondaries");
    sim_stack_set_promotion(stack, rules_number(argument) != 0);
    return 0;
}

/* Compares slot `index` with the next word of `*table`. */
static void check_slot(uint32_t index, const char **table)
{
    struct sim_gid gid;
    char word[64];
    size_t n = strcspn(*table, " ");
    weft_format(word, sizeof(word), "%.*s", (int)n, *table);
    *table += n + ((*table)[n] == ' ');
    int error = sim_stack_gid(stack, port, index, &gid);
    if (word[0] == '\0' || strcmp(word, "-") == 0) {
        ck_assert_msg(error == ENODATA, "slot %u is not empty", index);
        return;
    }
    ck_assert_msg(error == 0, "slot %u is empty, not %s", index, word);
    char *vlan = strchr(word, '@');
    ck_assert_uint_eq(gid.vlan_id, vlan == NULL ? 0 : rules_number(vlan + 1));
    if (vlan != NULL) {
        *vlan = '\0';
    }
    char *slash = strchr(word, '/');
    ck_assert_ptr_nonnull(slash);
    *slash++ = '\0';
    union ibv_gid expected = net_gid(word);
    ck_assert_msg(memcmp(expected.raw, gid.gid.raw, 16) == 0, "slot %u is not %s", index,
                  word);
    ck_assert_int_eq(gid.type, strcmp(slash, "v1") == 0 ? IBV_GID_TYPE_ROCE_V1
                                                        : IBV_GID_TYPE_ROCE_V2);
    ck_assert_uint_eq(gid.ifindex, sim_stack_ifindex(stack, port, gid.vlan_id));
}

static void check_row(unsigned row)
{
    const char *op = rules_cell(&rules, row, "op");
    const char *table = rules_cell(&rules, row, "table");
    n_events = 0;
    int error = step(op, rules_cell(&rules, row, "argument"));
    ck_assert_msg(error == rules_errno(rules_cell(&rules, row, "errno")),
                  "row %u: errno %d", row, error);
    const char *events = rules_cell(&rules, row, "events");
    ck_assert_msg(strcmp(events, "-") == 0 || n_events == rules_number(events),
                  "row %u: %u events", row, n_events);
    for (uint32_t i = 0; i < n_slots; i++) {
        check_slot(i, &table);
    }
    struct sim_gid beyond;
    ck_assert_int_eq(sim_stack_gid(stack, port, n_slots, &beyond), EINVAL);
}

/* Runs the case of `file` that starts at `row`, if one does. */
static void check_case(const char *file, unsigned row)
{
    rules_read(&rules, file);
    if (strcmp(rules_cell(&rules, row, "op"), "start") != 0) {
        rules_fini(&rules);
        return;
    }
    const char *table = rules_cell(&rules, row, "table");
    const char *name = rules_cell(&rules, row, "case");
    start(strstr(rules_cell(&rules, row, "types"), "v1") != NULL);
    for (uint32_t i = 0; i < n_slots; i++) {
        check_slot(i, &table);
    }
    while (++row < rules.n_rows && strcmp(rules_cell(&rules, row, "op"), "start") != 0) {
        ck_assert_str_eq(rules_cell(&rules, row, "case"), name);
        check_row(row);
    }
    net_fini(&net);
    rules_fini(&rules);
}

START_TEST(a_table_is_what_its_history_made_it)
{
    n_slots = N_SLOTS_TYPED;
    check_case("gid_table", (unsigned)_i);
}
END_TEST

START_TEST(a_table_is_what_the_kernel_made_of_its_history)
{
    n_slots = N_SLOTS_RECORDED;
    check_case("gid_recorded", (unsigned)_i);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sim/gid_rules");
    TCase *tcase = tcase_create("gid_rules");
    tcase_add_loop_test(tcase, a_table_is_what_its_history_made_it, 0,
                        rules_count("gid_table"));
    tcase_add_loop_test(tcase, a_table_is_what_the_kernel_made_of_its_history, 0,
                        rules_count("gid_recorded"));
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
