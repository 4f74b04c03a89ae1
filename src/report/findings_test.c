/* The report of a failure: what happened, where, why, and what to type next. */
#include <check.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "report/document_testing.h"
#include "report/tables.h"

static const char two_ends[] =
    "{\"findings\":[{\"code\":\"undetermined\",\"severity\":\"error\","
    "\"where\":{\"host\":\"titanic\",\"port\":\"p0\",\"peer\":\"iceberg\"},"
    "\"evidence\":{\"errno\":110,\"local_port\":\"p0\",\"remote_port\":\"p1\","
    "\"local_mtu\":9000,\"remote_mtu\":1500,\"local_state\":\"up\","
    "\"remote_state\":\"up\",\"local_gid\":null,\"remote_gid\":null,"
    "\"local_gid_type\":\"RoCE v2\",\"remote_gid_type\":\"RoCE v2\","
    "\"local_retransmits\":1152921504606846976,"
    "\"remote_retransmits\":1152921504606846976,"
    "\"remote_icrc_errors\":6,\"candidate_1\":\"link.down\","
    "\"question_1\":\"whether the cable lost its carrier\","
    "\"to_decide_1\":\"ethtool IF\",\"to_decide_2\":\"weft doctor\"},"
    "\"cause\":\"small packets cross the link, packets of the path MTU vanish on their "
    "way, and nobody tells\",\"remedy\":\"r\"},"
    "{\"code\":\"undetermined\",\"severity\":\"error\","
    "\"where\":{\"host\":\"carpathia\",\"port\":null,\"peer\":null},"
    "\"evidence\":{},\"cause\":\"c\",\"remedy\":\"r\"}]}";

START_TEST(what_both_ends_say_alike_is_told_once_and_the_rest_side_by_side)
{
    struct report_style plain = report_style(false);
    struct weft_text text = {NULL, 0, 0};
    json_t *document = document_of(two_ends);

    report_findings(document, &plain, &text);
    ck_assert_str_eq(
        text.bytes,
        "\nerror undetermined at titanic:p0 → iceberg\n"
        "  what   small packets cross the link, packets of the path MTU vanish on their "
        "way, and nobody\n"
        "         tells\n"
        "  where  titanic:p0 ──✗── iceberg:p1\n"
        "  also   carpathia\n"
        "  seen   errno 110, remote_icrc_errors 6\n"
        "  both   state up, gid unknown, gid_type RoCE v2, retransmits "
        "1152921504606846976\n"
        "               titanic  iceberg\n"
        "         port  p0       p1\n"
        "         mtu   9000     1500\n"
        "  maybe  link.down                to decide: ethtool IF\n"
        "         whether the cable lost its carrier\n"
        "  maybe  another cause            to decide: weft doctor\n"
        "  do     r\n"
        "  more   weft explain undetermined\n");
    weft_text_fini(&text);
    json_decref(document);
}
END_TEST

/* In a mesh of many hosts one cause makes many places fail. */
START_TEST(a_cause_is_told_once_and_names_six_more_places_at_most)
{
    struct report_style plain = report_style(false);
    struct weft_text text = {NULL, 0, 0};
    json_t *findings = json_array();
    json_t *document = json_pack("{s:o}", "findings", findings);

    for (int i = 0; i < 9; i++) {
        char port[8];

        weft_format(port, sizeof(port), "p%d", i);
        json_array_append_new(findings,
                              json_pack("{s:s, s:{s:s, s:s, s:s}, s:{}, s:s, s:s}",
                                        "code", "link.down", "where", "host", "titanic",
                                        "port", port, "peer", "an-iceberg", "evidence",
                                        "cause", "c", "remedy", "r"));
    }
    report_findings(document, &plain, &text);
    ck_assert_str_eq(text.bytes,
                     "\nerror link.down at titanic:p0 → an-iceberg\n"
                     "  what   c\n"
                     "  where  titanic ──✗── an-iceberg\n"
                     "  also   titanic:p1 → an-iceberg, titanic:p2 → an-iceberg, "
                     "titanic:p3 → an-iceberg,\n"
                     "         titanic:p4 → an-iceberg, titanic:p5 → an-iceberg, "
                     "titanic:p6 → an-iceberg, 2 more\n"
                     "  do     r\n"
                     "  more   weft explain link.down\n");
    weft_text_fini(&text);
    json_decref(document);
}
END_TEST

/* Who only waited is in one line, and has no finding. */
START_TEST(who_waited_for_it_is_in_one_line)
{
    struct report_style plain = report_style(false);
    struct weft_text text = {NULL, 0, 0};
    json_t *behind = json_array();
    json_t *document = json_pack(
        "{s:[{s:s, s:{s:s, s:n, s:n}, s:{}, s:s, s:s, s:o, s:i}]}", "findings", "code",
        "host.memlock", "where", "host", "titanic", "port", "peer", "evidence", "cause",
        "c", "remedy", "r", "behind", behind, "n_behind", 9);

    for (int i = 0; i < 7; i++) {
        json_array_append_new(behind, json_pack("{s:s, s:s, s:s}", "host", "iceberg",
                                                "for", "round", "peer", "titanic"));
    }
    report_findings(document, &plain, &text);
    ck_assert_ptr_nonnull(
        strstr(text.bytes, "\n  held   iceberg waited for titanic, iceberg for titanic, "
                           "iceberg for titanic,\n"));
    ck_assert_ptr_nonnull(strstr(text.bytes, "iceberg for titanic, 3 more\n"));
    weft_text_fini(&text);
    json_decref(document);
}
END_TEST

static const char places[] =
    "{\"findings\":[{\"code\":\"route.wrong_nic\",\"severity\":\"error\","
    "\"where\":{\"host\":\"titanic\",\"port\":\"p0\",\"peer\":\"iceberg\"},"
    "\"evidence\":{\"local_port\":\"p0\",\"remote_port\":\"p0\",\"local_facing_port\":"
    "\"p1\","
    "\"remote_facing_port\":\"p2\"},\"cause\":\"c\",\"remedy\":\"r\"},"
    "{\"code\":\"host.memlock\",\"severity\":\"error\","
    "\"where\":{\"host\":\"titanic\",\"port\":null,\"peer\":\"iceberg\"},"
    "\"evidence\":{\"errno\":12},\"cause\":\"c\",\"remedy\":\"r\"},"
    "{\"code\":\"peer.dead\",\"severity\":\"error\","
    "\"where\":{\"host\":\"titanic\",\"port\":null,\"peer\":\"iceberg\"},"
    "\"evidence\":{\"local_port\":\"unknown\",\"remote_port\":\"unknown\"},"
    "\"cause\":\"c\",\"remedy\":\"r\"},"
    "{\"code\":\"undetermined\",\"severity\":\"error\","
    "\"where\":{\"host\":\"titanic\",\"port\":null,\"peer\":\"iceberg\"},"
    "\"evidence\":{\"local_port\":\"unknown\",\"remote_port\":\"unknown\"},"
    "\"cause\":\"c\",\"remedy\":\"r\"}]}";

/* The drawing must not show a cable that does not exist, mark a healthy host, or name an unknown
 * port. Unknown values are printed only for undetermined findings. */
START_TEST(the_cross_is_where_the_failure_is)
{
    struct report_style plain = report_style(false);
    struct weft_text text = {NULL, 0, 0};
    json_t *document = document_of(places);

    report_findings(document, &plain, &text);
    ck_assert_str_eq(
        text.bytes,
        "\nerror route.wrong_nic at titanic:p0 → iceberg\n"
        "  what   c\n"
        "  where  titanic:p0 ──✗── iceberg:p0  (not the two ends of a cable)\n"
        "         titanic:p1 ───── iceberg:p2  (these face each other)\n"
        "  both   port p0\n"
        "  do     r\n"
        "  more   weft explain route.wrong_nic\n"
        "\nerror host.memlock at titanic\n"
        "  what   c\n"
        "  where  titanic ✗\n"
        "  seen   errno 12\n"
        "  do     r\n"
        "  more   weft explain host.memlock\n"
        "\nerror peer.dead at titanic → iceberg\n"
        "  what   c\n"
        "  where  titanic ──── ✗ iceberg\n"
        "  do     r\n"
        "  more   weft explain peer.dead\n"
        "\nerror undetermined at titanic → iceberg\n"
        "  what   c\n"
        "  where  titanic ──✗── iceberg\n"
        "  both   port unknown\n"
        "  do     r\n"
        "  more   weft explain undetermined\n");
    weft_text_fini(&text);
    json_decref(document);
}
END_TEST

/* A working cable is not marked. The mark is at the port at fault, and a warning has none. */
START_TEST(a_cable_that_works_has_no_cross)
{
    static const struct {
        const char *code, *severity, *where;
    } cases[] = {
        {"gid.fixed_index", "error", "  where  titanic:p0 ✗──── iceberg:p1\n"},
        {"link.down", "error", "  where  titanic:p0 ──✗── iceberg:p1\n"},
        {"route.slow_lane", "warning", "  where  titanic:p0 ───── iceberg:p1\n"},
        {"host.pcie_narrow", "warning", "  where  titanic:p0\n"},
    };
    struct report_style plain = report_style(false);

    for (size_t i = 0; i < WEFT_LENGTH(cases); i++) {
        struct weft_text text = {NULL, 0, 0};
        json_t *document = json_pack(
            "{s:[{s:s, s:s, s:{s:s, s:s, s:s}, s:{s:s, s:s}, s:s, s:s}]}", "findings",
            "code", cases[i].code, "severity", cases[i].severity, "where", "host",
            "titanic", "port", "p0", "peer", "iceberg", "evidence", "local_port", "p0",
            "remote_port", "p1", "cause", "c", "remedy", "r");

        report_findings(document, &plain, &text);
        ck_assert_msg(strstr(text.bytes, cases[i].where) != NULL, "%s", text.bytes);
        weft_text_fini(&text);
        json_decref(document);
    }
}
END_TEST

/* A warning of a condition that the job survived is one line, with its evidence, if any, in
 * brackets. */
START_TEST(what_was_survived_is_a_line)
{
    static const struct {
        const char *evidence, *words;
    } cases[] = {
        {"{\"survived\":1,\"local_port\":\"p0\"}", "c; the job went on"},
        {"{\"survived\":1,\"drops\":7,\"mtu\":null,\"state\":\"up\"}",
         "c (drops 7, state up); the job went on"},
        {"{\"survived\":1,\"drops\":7,\"because\":\"link.down\"}",
         "c (because link.down: weft explain link.down); the job went on"},
    };

    for (size_t i = 0; i < WEFT_LENGTH(cases); i++) {
        struct report_style plain = report_style(false);
        struct weft_text text = {NULL, 0, 0};
        char source[512], want[256];
        json_t *document;

        weft_format(source, sizeof(source),
                    "{\"findings\":[{\"code\":\"link.lossy\",\"severity\":\"warning\","
                    "\"where\":{\"host\":\"titanic\",\"port\":\"p0\",\"peer\":null},"
                    "\"evidence\":%s,\"cause\":\"c\",\"remedy\":\"r\"}]}",
                    cases[i].evidence);
        weft_format(want, sizeof(want), "\nwarning link.lossy at titanic:p0: %s\n",
                    cases[i].words);
        document = document_of(source);
        report_findings(document, &plain, &text);
        ck_assert_str_eq(text.bytes, want);
        weft_text_fini(&text);
        json_decref(document);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("findings");
    TCase *cases = tcase_create("findings");

    tcase_add_test(cases,
                   what_both_ends_say_alike_is_told_once_and_the_rest_side_by_side);
    tcase_add_test(cases, a_cause_is_told_once_and_names_six_more_places_at_most);
    tcase_add_test(cases, who_waited_for_it_is_in_one_line);
    tcase_add_test(cases, the_cross_is_where_the_failure_is);
    tcase_add_test(cases, a_cable_that_works_has_no_cross);
    tcase_add_test(cases, what_was_survived_is_a_line);
    suite_add_tcase(suite, cases);
    return suite_run(suite);
}
