/* The facts of the ranks' machines become a scenario that describes them. */
#include "run/site.h"

#include <check.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "scenario/scenario.h"

#define PORT(name, leads, addresses)                                                     \
    "{\"name\":\"" name "\",\"rate\":100000000000,\"mtu\":9000,\"leads\":" leads         \
    ",\"addresses\":[" addresses "]}"
#define HOST(name, id, ports)                                                            \
    "{\"name\":\"" name "\",\"id\":\"" id "\",\"ports\":[" ports "]}"

static struct weft_text file;
static struct weft_error error;

static weft_status make(const char *const *facts, uint32_t n)
{
    struct weft_text texts[8] = {{0}};

    weft_error_clear(&error);
    for (uint32_t i = 0; i < n; i++) {
        weft_text_add(&texts[i], "%s", facts[i]);
    }
    weft_status status = run_site_file(texts, n, &file, &error);

    for (uint32_t i = 0; i < n; i++) {
        weft_text_fini(&texts[i]);
    }
    return status;
}

static struct scenario *load(const char *const *facts, uint32_t n)
{
    struct scenario_diagnostics diagnostics;
    struct scenario *scenario = NULL;

    ck_assert_int_eq(make(facts, n), WEFT_OK);
    weft_status status = scenario_load_text("site.yaml", file.bytes, file.n, NULL, 0,
                                            &scenario, &diagnostics);

    ck_assert_msg(status == WEFT_OK, "%s\n%s",
                  diagnostics.n > 0 ? diagnostics.items[0].text : "", file.bytes);
    scenario_diagnostics_fini(&diagnostics);
    weft_text_fini(&file);
    return scenario;
}

/* Carpathia does not know which netdev leads to rank 0; the subnet of the others determines it. */
START_TEST(ports_in_one_subnet_have_a_cable_and_the_management_network_has_none)
{
    static const char *const facts[] = {
        HOST("titanic.example.org", "aa",
             PORT("mgmt0", "true", "\"10.9.0.1/24\"") "," PORT(
                 "p0", "false",
                 "\"192.168.101.1/24\",\"2001:db8::1/64\"") "," PORT("p1", "false",
                                                                     "\"192.168.102.2/"
                                                                     "24\"")),
        HOST("Iceberg", "bb",
             PORT("p1", "false", "\"192.168.101.2/24\"") "," PORT(
                 "p0", "false", "\"192.168.100.1/24\"") "," PORT("eno1", "true",
                                                                 "\"10.9.0.2/24\"")),
        HOST("carpathia", "cc",
             PORT("p0", "false", "\"192.168.102.1/24\"") "," PORT(
                 "p1", "false", "\"192.168.100.2/24\"") "," PORT("mgmt0", "false",
                                                                 "\"10.9.0.3/24\"")),
    };
    struct scenario *scenario = load(facts, 3);

    ck_assert_uint_eq(scenario->n_hosts, 3);
    ck_assert_str_eq(scenario->hosts[0].name, "titanic");
    ck_assert_str_eq(scenario->hosts[1].name, "iceberg");
    ck_assert_uint_eq(scenario->n_links, 3);
    ck_assert_str_eq(scenario->links[0].name, "titanic:p0-iceberg:p1");
    ck_assert_str_eq(scenario->links[1].name, "titanic:p1-carpathia:p0");
    ck_assert_str_eq(scenario->links[2].name, "iceberg:p0-carpathia:p1");
    ck_assert_uint_eq(scenario->cables[0].rate_bps, 100000000000);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(scenario->hosts[i].n_ports, 2);
        ck_assert_uint_eq(scenario->ranks[i].host, i);
        ck_assert_str_eq(scenario->hosts[i].settings[0].value, i == 1 ? "eno1" : "mgmt0");
    }
    ck_assert_uint_eq(scenario->hosts[0].ports[0].n_addresses, 2);
    scenario_free(scenario);
}
END_TEST

START_TEST(the_only_network_is_the_cable)
{
    static const char *const facts[] = {
        HOST("a", "aa", PORT("eth0", "true", "\"10.0.0.1/30\"")),
        HOST("b", "bb", PORT("eth0", "true", "\"10.0.0.2/30\"")),
    };
    struct scenario *scenario = load(facts, 2);

    ck_assert_uint_eq(scenario->n_links, 1);
    ck_assert_str_eq(scenario->links[0].name, "a:eth0-b:eth0");
    scenario_free(scenario);
}
END_TEST

START_TEST(three_in_one_subnet_are_at_a_switch)
{
    static const char *const facts[] = {
        HOST("a", "aa", PORT("p0", "false", "\"10.0.0.1/24\"")),
        HOST("b", "bb", PORT("p0", "false", "\"10.0.0.2/24\"")),
        HOST("c", "cc", PORT("p0", "false", "\"10.0.0.3/24\"")),
    };
    struct scenario *scenario = load(facts, 3);

    ck_assert_uint_eq(scenario->n_switches, 1);
    ck_assert_uint_eq(scenario->switches[0].n_ports, 3);
    ck_assert_uint_eq(scenario->n_links, 3);
    scenario_free(scenario);
}
END_TEST

START_TEST(ranks_of_one_machine_are_one_host_and_namesakes_are_two)
{
    static const char *const facts[] = {
        HOST("box", "aa", PORT("p0", "false", "\"10.0.0.1/24\"")),
        HOST("box", "bb", PORT("p0", "false", "\"10.0.0.2/24\"")),
        HOST("box", "bb", PORT("p0", "false", "\"10.0.0.2/24\"")),
        HOST("box", "aa", PORT("p0", "false", "\"10.0.0.1/24\"")),
    };
    struct scenario *scenario = load(facts, 4);

    ck_assert_uint_eq(scenario->n_hosts, 2);
    ck_assert_str_eq(scenario->hosts[0].name, "box");
    ck_assert_str_eq(scenario->hosts[1].name, "box-2");
    ck_assert_uint_eq(scenario->hosts[1].n_processes, 2);
    ck_assert_uint_eq(scenario->ranks[2].host, 1);
    ck_assert_uint_eq(scenario->ranks[2].local_rank, 1);
    ck_assert_uint_eq(scenario->ranks[3].host, 0);
    ck_assert_uint_eq(scenario->n_links, 1);
    scenario_free(scenario);
}
END_TEST

/* Names of machines that YAML takes for numbers and truth values, and names that no host may
 * have. */
START_TEST(every_machines_name_becomes_one)
{
    static const char *const facts[] = {
        HOST("007", "aa", PORT("0", "false", "\"10.0.0.1/24\",\"10.7.0.1/24\"")),
        HOST("no", "bb", PORT("on", "false", "\"10.0.0.2/24\"")),
        HOST("-_.example.org", "cc", PORT("p0", "false", "\"10.0.0.3/24\"")),
        HOST("", "dd", PORT("p0", "false", "\"10.0.0.4/24\"")),
        HOST("_Gpu_1", "ee", PORT("p0", "false", "\"10.0.0.5/24\"")),
    };
    static const char *const names[] = {"007", "no", "host", "host-2", "gpu-1"};
    struct scenario *scenario = load(facts, WEFT_LENGTH(facts));

    ck_assert_uint_eq(scenario->n_hosts, WEFT_LENGTH(names));
    for (size_t i = 0; i < WEFT_LENGTH(names); i++) {
        ck_assert_str_eq(scenario->hosts[i].name, names[i]);
        ck_assert_uint_eq(scenario->ranks[i].host, i);
    }
    ck_assert_str_eq(scenario->hosts[0].ports[0].name, "0");
    scenario_free(scenario);
}
END_TEST

START_TEST(one_machine_needs_no_cable_and_two_do)
{
    static const char *const facts[] = {
        HOST("a", "aa", PORT("p0", "false", "\"10.0.0.1/24\"")),
        HOST("b", "bb", PORT("p0", "false", "\"10.0.1.1/24\"")),
    };
    struct scenario *scenario = load(facts, 1);

    ck_assert_uint_eq(scenario->n_hosts, 1);
    scenario_free(scenario);
    ck_assert_int_eq(make(facts, 2), WEFT_ERR_ENVIRONMENT);
    ck_assert_str_eq(error.message,
                     "no two machines have ports in one subnet: there is no cable");
    weft_text_fini(&file);
}
END_TEST

START_TEST(what_is_no_description_is_refused)
{
    static const char *const facts[] = {
        "",
        "[]",
        "{\"name\":1}",
        HOST("a", "aa", PORT("p0", "false", "\"10.0.0.1\"")),
        HOST("a", "aa", "{\"name\":\"p0\"}"),
        HOST("a", "aa", PORT("p0", "1", "1")),
    };

    ck_assert_int_eq(make(&facts[_i], 1), WEFT_ERR_PROTOCOL);
    weft_text_fini(&file);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("site");
    TCase *tcase = tcase_create("all");

    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase,
                   ports_in_one_subnet_have_a_cable_and_the_management_network_has_none);
    tcase_add_test(tcase, the_only_network_is_the_cable);
    tcase_add_test(tcase, three_in_one_subnet_are_at_a_switch);
    tcase_add_test(tcase, ranks_of_one_machine_are_one_host_and_namesakes_are_two);
    tcase_add_test(tcase, every_machines_name_becomes_one);
    tcase_add_test(tcase, one_machine_needs_no_cable_and_two_do);
    tcase_add_loop_test(tcase, what_is_no_description_is_refused, 0, 6);
    return suite_run(suite);
}
