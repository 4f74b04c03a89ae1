/* The table of connections: relays, ranks, and the number of connections listed. */
#include <check.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "report/document_testing.h"
#include "report/tables.h"

static void add_connection(struct weft_text *text, int from, int to, const char *more)
{
    weft_text_add(text,
                  "%s{\"from\":%d,\"to\":%d,\"from_host\":\"h%d\",\"to_host\":\"h%d\","
                  "\"local_port\":\"p0\",\"remote_port\":\"p1\",\"local_gid\":\"1::1\","
                  "\"remote_gid\":\"1::2\",\"gid_type\":\"RoCE v2\",\"path_mtu\":4096,"
                  "\"qps\":2,\"setup_ns\":1000,%s}",
                  text->n == strlen("{\"connections\":[") ? "" : ",", from, to, from / 2,
                  to / 2, more);
}

/* Returns what report_connections() prints for the connections in `json`. The caller frees it. */
static struct weft_text connections_of(struct weft_text *json, bool all)
{
    struct report_style plain = report_style(false);
    struct weft_text text = {NULL, 0, 0};
    json_t *document;

    weft_text_add(json, "]}");
    document = document_of(json->bytes);
    report_connections(document, all, &plain, &text);
    json_decref(document);
    weft_text_fini(json);
    return text;
}

START_TEST(a_connection_names_every_host_that_relays)
{
    struct weft_text json = {NULL, 0, 0};
    struct weft_text text;

    weft_text_add(&json, "{\"connections\":[");
    add_connection(&json, 0, 2, "\"via\":[]");
    add_connection(&json, 0, 4, "\"via\":[\"h1\"]");
    add_connection(&json, 0, 8, "\"via\":[\"h1\",\"h2\",\"h3\"]");
    add_connection(&json, 0, 10, "\"via\":[\"h1\",\"h2\",\"h3\",\"h4\"]");
    text = connections_of(&json, false);
    ck_assert_str_eq(
        text.bytes,
        "\n"
        "connections\n"
        "  from  to    port     gid          type      mtu  qps  via                 "
        "set-up\n"
        "  h0    → h1  p0 → p1  1::1 → 1::2  RoCE v2  4096    2  direct               "
        "1.0us\n"
        "  h0    → h2  p0 → p1  1::1 → 1::2  RoCE v2  4096    2  h1                   "
        "1.0us\n"
        "  h0    → h4  p0 → p1  1::1 → 1::2  RoCE v2  4096    2  h1, h2, h3           "
        "1.0us\n"
        "  h0    → h5  p0 → p1  1::1 → 1::2  RoCE v2  4096    2  h1 ... h4, 4 hosts   "
        "1.0us\n");
    weft_text_fini(&text);
}
END_TEST

START_TEST(ranks_are_named_where_they_share_hosts)
{
    struct weft_text json = {NULL, 0, 0};
    struct weft_text text;

    weft_text_add(&json, "{\"connections\":[");
    add_connection(&json, 0, 1, "\"transport\":\"p2p\",\"reason\":\"path NVL\"");
    add_connection(&json, 1, 3, "\"via\":[]");
    text = connections_of(&json, false);
    ck_assert_str_eq(
        text.bytes,
        "\n"
        "connections\n"
        "  from  to      port     gid          type      mtu  qps  via     set-up\n"
        "  0 h0  → 1 h0  p2p      path NVL     -           -    -  inside       -\n"
        "  1 h0  → 3 h1  p0 → p1  1::1 → 1::2  RoCE v2  4096    2  direct   1.0us\n");
    weft_text_fini(&text);
}
END_TEST

static unsigned count_lines(const char *text)
{
    unsigned n = 0;

    for (; *text != '\0'; text++) {
        n += *text == '\n';
    }
    return n;
}

START_TEST(of_many_connections_the_first_are_listed_and_all_for_who_asks)
{
    static const struct {
        int n;
        bool all;
        unsigned lines; /* a blank line, the title, the heads, and the connections */
        const char *rest;
    } cases[] = {{40, false, 43, NULL},
                 {41, false, 28, "  ... and 17 more: -v, or --json\n"},
                 {41, true, 44, NULL}};

    for (size_t i = 0; i < WEFT_LENGTH(cases); i++) {
        struct weft_text json = {NULL, 0, 0};
        struct weft_text text;

        weft_text_add(&json, "{\"connections\":[");
        for (int n = 0; n < cases[i].n; n++) {
            add_connection(&json, 0, 2 * n, "\"via\":[]");
        }
        text = connections_of(&json, cases[i].all);
        ck_assert_uint_eq(count_lines(text.bytes), cases[i].lines);
        if (cases[i].rest != NULL) {
            ck_assert_str_eq(strstr(text.bytes, "  ..."), cases[i].rest);
        } else {
            ck_assert_ptr_null(strstr(text.bytes, "..."));
        }
        weft_text_fini(&text);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("connections");
    TCase *cases = tcase_create("connections");

    tcase_add_test(cases, a_connection_names_every_host_that_relays);
    tcase_add_test(cases, ranks_are_named_where_they_share_hosts);
    tcase_add_test(cases, of_many_connections_the_first_are_listed_and_all_for_who_asks);
    suite_add_tcase(suite, cases);
    return suite_run(suite);
}
