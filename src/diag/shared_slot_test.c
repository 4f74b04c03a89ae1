#include <check.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "base/text.h"
#include "diag/diag.h"

/* Two hosts with two cards of two ports each, "c0" (p0, p1) and "c1" (q0, q1). Port i of one host
 * faces port i of the other. Each card has a PCIe link of 126 Gbit/s, each port a rate of 100. */
static struct diag_input input;
static const char *const names[] = {"p0", "p1", "q0", "q1"};

static void add_host(const char *name, int last)
{
    struct diag_host *host = &input.hosts[input.n_hosts++];

    *host = (struct diag_host){.was_observed = true,
                               .gid_index = DIAG_NO_GID_INDEX,
                               .memlock_bytes = IO_UNKNOWN,
                               .has_events = true,
                               .has_uses = true};
    weft_format(host->name, sizeof(host->name), "%s", name);
    host->ports = weft_calloc(4, sizeof(*host->ports));
    host->uses = weft_calloc(4, sizeof(*host->uses));
    host->events = weft_calloc(4, sizeof(*host->events));
    for (int i = 0; i < 4; i++) {
        struct diag_port *port = &host->ports[host->n_ports++];
        char text[IO_IP_TEXT_BYTES];

        diag_port_init(port);
        weft_format(port->name, sizeof(port->name), "%s", names[i]);
        weft_format(text, sizeof(text), "192.168.%d.%d", i, last);
        port->is_up = port->is_opened = DIAG_YES;
        port->rate_bps = 100000000000;
        port->device = i / 2;
        port->pcie_lanes = port->pcie_lanes_max = 4;
        port->pcie_mts = port->pcie_mts_max = 32000;
        port->has_gids = true;
        ck_assert(io_ip_parse(text, &port->gids[0].ip));
        port->gids[0].type = 2;
        port->gids[0].prefix_len = 24;
        port->n_gids = 1;
    }
}

static void use(uint32_t host, uint32_t peer, int port)
{
    struct diag_use *out = &input.hosts[host].uses[input.hosts[host].n_uses++];

    weft_format(out->peer, sizeof(out->peer), "%s", input.hosts[peer].name);
    weft_format(out->local_port, sizeof(out->local_port), "%s", names[port]);
    weft_format(out->remote_port, sizeof(out->remote_port), "%s", names[port]);
}

static void start(void)
{
    input = (struct diag_input){.rank_order.is_known = true};
    input.hosts = weft_calloc(3, sizeof(*input.hosts));
    add_host("titanic", 1);
    add_host("iceberg", 2);
    use(0, 1, 0);
    use(0, 1, 1);
}

static void stop(void)
{
    diag_input_fini(&input);
}

/* Returns the number of findings of host.pcie_shared, and checks their place. */
static uint32_t n_found(void)
{
    struct diag_findings findings;
    uint32_t n = 0;

    diag(&input, &findings);
    for (uint32_t i = 0; i < findings.n; i++) {
        const struct diag_finding *finding = &findings.items[i];

        if (finding->entry->id == DIAG_HOST_PCIE_SHARED) {
            ck_assert_str_eq(finding->host, "titanic");
            ck_assert_str_eq(finding->port, "p0");
            ck_assert_str_eq(finding->peer, "iceberg");
            ck_assert(finding->severity == DIAG_WARNING);
            ck_assert_str_eq(finding->evidence[0].text, "p0 p1");
            ck_assert_int_eq(finding->evidence[1].number, 200000000000);
            ck_assert_str_eq(finding->evidence[3].text, "q0");
            n++;
        }
    }
    diag_findings_fini(&findings);
    return n;
}

START_TEST(ports_of_one_card_are_named)
{
    ck_assert_uint_eq(n_found(), 1);
    use(1, 0, 0);
    use(1, 0, 1);
    ck_assert_uint_eq(n_found(), 1); /* once for both ends */
}
END_TEST

/* Adds a second process of titanic, which opened the cards in the other order. */
static void add_twin(void)
{
    add_host("titanic/1", 1);
    for (int i = 0; i < 4; i++) {
        input.hosts[2].ports[i].device = 1 - i / 2;
    }
}

START_TEST(processes_of_a_machine_share_its_cards)
{
    input.hosts[0].n_uses = 1;
    add_twin();
    ck_assert_uint_eq(n_found(), 0);
    use(2, 1, 1);
    ck_assert_uint_eq(n_found(), 1); /* once for the machine */
}
END_TEST

static void wide_link(void)
{
    for (int h = 0; h < 2; h++) {
        for (int i = 0; i < 4; i++) {
            input.hosts[h].ports[i].pcie_lanes = 16;
        }
        for (int i = 2; i < 4; i++) {
            input.hosts[h].ports[i].rate_bps = 800000000000;
        }
    }
}

static void unknown_link(void)
{
    input.hosts[0].ports[0].pcie_mts = input.hosts[0].ports[1].pcie_mts = IO_UNKNOWN;
}

static void one_rail(void)
{
    input.hosts[0].n_uses = 1;
}

static void no_idle_card(void)
{
    use(0, 1, 2);
}

/* Makes the last rail of a host lead to a third host. */
static void lead_elsewhere(uint32_t host)
{
    struct diag_host *of = &input.hosts[host];

    weft_format(of->uses[of->n_uses - 1].peer, DIAG_NAME_BYTES, "carpathia");
}

static void other_card_used_by_twin(void)
{
    add_twin();
    use(2, 1, 3);
    lead_elsewhere(2);
}

static void other_card_of_peer_is_used(void)
{
    use(1, 0, 3);
    lead_elsewhere(1);
}

static void other_card_is_down(void)
{
    input.hosts[1].ports[2].is_up = input.hosts[1].ports[3].is_up = DIAG_NO;
}

static void other_card_leads_elsewhere(void)
{
    for (int i = 2; i < 4; i++) {
        input.hosts[1].ports[i].gids[0].ip.bytes[14] = 77;
    }
}

/* The link carries 126 Gbit/s: one port of 100 and the other cable's 25 are no more. */
static void other_card_is_slow(void)
{
    for (int i = 2; i < 4; i++) {
        input.hosts[1].ports[i].rate_bps = 25000000000;
    }
}

static void one_port_of_each_card(void)
{
    weft_format(input.hosts[0].uses[1].local_port, DIAG_NAME_BYTES, "q0");
    weft_format(input.hosts[0].uses[1].remote_port, DIAG_NAME_BYTES, "q0");
}

static void another_peer(void)
{
    lead_elsewhere(0);
}

static void peer_failed(void)
{
    input.hosts[1].errors = weft_calloc(1, sizeof(*input.hosts[1].errors));
    input.hosts[1].n_errors = 1;
    weft_fail(&input.hosts[1].errors[0].error, WEFT_ERR_TIMEOUT, WEFT_PHASE_JOBS,
              "it failed");
}

static void (*const innocent[])(void) = {wide_link,
                                         unknown_link,
                                         one_rail,
                                         no_idle_card,
                                         other_card_used_by_twin,
                                         other_card_of_peer_is_used,
                                         other_card_is_down,
                                         other_card_leads_elsewhere,
                                         other_card_is_slow,
                                         one_port_of_each_card,
                                         another_peer,
                                         peer_failed};

START_TEST(what_the_link_carries_or_no_other_card_could_is_not)
{
    innocent[_i]();
    ck_assert_uint_eq(n_found(), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("diag/shared_slot");
    TCase *tests = tcase_create("shared_slot");

    tcase_add_checked_fixture(tests, start, stop);
    tcase_add_test(tests, ports_of_one_card_are_named);
    tcase_add_test(tests, processes_of_a_machine_share_its_cards);
    tcase_add_loop_test(tests, what_the_link_carries_or_no_other_card_could_is_not, 0,
                        (int)WEFT_LENGTH(innocent));
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
