/* Output for users: tables, drawings, verdicts, JUnit, captures, from literal documents. */
#include <check.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "report/canvas.h"
#include "report/columns.h"
#include "report/document_testing.h"
#include "report/draw.h"
#include "report/html.h"
#include "report/junit.h"
#include "report/pcapng.h"
#include "report/perfetto.h"
#include "report/tables.h"

static const char passed[] =
    "{\"scenario\":\"pair\",\"backend\":\"sim\",\"policy\":\"weft\",\"seed\":\"1\","
    "\"result\":\"pass\",\"symptom\":{\"errno\":null,\"wc_status\":null,\"text\":null},"
    "\"connections\":[{\"from\":0,\"to\":1,\"from_host\":\"a\",\"to_host\":\"b\","
    "\"local_port\":\"p0\",\"remote_port\":\"p1\",\"local_gid\":\"10.0.0.1\","
    "\"remote_gid\":\"10.0.0.2\",\"gid_type\":\"RoCE v2\",\"path_mtu\":4096,\"qps\":2,"
    "\"via\":[],\"setup_ns\":123400}],"
    "\"jobs\":[{\"job\":\"all_reduce\",\"algorithm\":\"ring\",\"size_bytes\":1048576,"
    "\"count\":262144,\"dtype\":\"float32\",\"op\":\"sum\",\"root\":-1,\"time_ns\":90000,"
    "\"alg_bw_gBps\":11.65,\"bus_bw_gBps\":11.65,\"limit_gBps\":12.25,\"nwrong\":0}],"
    "\"links\":[{\"link\":\"a:p0-b:p1\",\"bytes\":100,\"packets\":3,\"drops\":1,"
    "\"utilisation\":0.5}],\"findings\":[],"
    "\"expectations\":[{\"expect\":\"result pass\",\"got\":\"pass\",\"ok\":true}],"
    "\"warnings\":[]}";

START_TEST(a_passed_run_reads_from_connections_to_verdict)
{
    struct report_style plain = report_style(false);
    struct weft_text text = {NULL, 0, 0};
    json_t *document = document_of(passed);

    report_run(document, false, &plain, &text);
    ck_assert_str_eq(
        text.bytes,
        "\n"
        "connections\n"
        "  from  to   port     gid                  type      mtu  qps  via      set-up\n"
        "  a     → b  p0 → p1  10.0.0.1 → 10.0.0.2  RoCE v2  4096    2  direct  123.4us\n"
        "\n"
        "all_reduce\n"
        "#         size        count     type  redop   root        time    algbw    "
        "busbw "
        " #wrong  of limit  algorithm\n"
        "#          (B)   (elements)                               (us)   (GB/s)   "
        "(GB/s)\n"
        "       1048576       262144  float32    sum     -1      90.000    11.65    "
        "11.65 "
        "      0     95.1%  ring\n"
        "\n"
        "cables\n"
        "  cable      bytes  packets  drops   busy\n"
        "  a:p0-b:p1    100        3      1  50.0%\n"
        "\n"
        "  ok     result pass: pass\n"
        "PASS pair on sim, policy weft, seed 1: 1 of 1 expectations met\n");
    weft_text_fini(&text);
    json_decref(document);
}
END_TEST

static const char failed[] =
    "{\"scenario\":\"triangle\",\"backend\":\"sim\",\"policy\":\"nccl-2.25\",\"seed\":"
    "\"7\","
    "\"result\":\"fail\",\"symptom\":{\"errno\":110,\"wc_status\":null,"
    "\"text\":\"ibv_modify_qp: errno 110\"},\"connections\":[],\"jobs\":[],\"links\":[],"
    "\"findings\":[{\"code\":\"route.wrong_nic\",\"severity\":\"error\","
    "\"where\":{\"host\":\"titanic\",\"port\":\"p0\",\"peer\":\"carpathia\"},"
    "\"evidence\":{\"local_gid\":\"192.168.101.1\",\"prefix\":24,\"remote_mtu\":null},"
    "\"cause\":\"that cable goes elsewhere\",\"remedy\":\"use p1\"}],"
    "\"expectations\":[{\"expect\":\"result pass\",\"got\":\"fail\",\"ok\":false}],"
    "\"warnings\":[\"one thing\"]}";

START_TEST(a_failed_run_says_what_where_why_and_what_to_type)
{
    struct report_style plain = report_style(false);
    struct weft_text text = {NULL, 0, 0};
    json_t *document = document_of(failed);

    report_run(document, false, &plain, &text);
    ck_assert_str_eq(
        text.bytes, "\nsymptom  ibv_modify_qp: errno 110\n"
                    "\nerror route.wrong_nic at titanic:p0 → carpathia\n"
                    "  what   that cable goes elsewhere\n"
                    "  where  titanic ──✗── carpathia  (not the two ends of a cable)\n"
                    "  seen   local_gid 192.168.101.1, prefix 24, remote_mtu unknown\n"
                    "  do     use p1\n"
                    "  more   weft explain route.wrong_nic\n"
                    "warning one thing\n"
                    "\n"
                    "  not ok result pass: fail\n"
                    "FAIL triangle on sim, policy nccl-2.25, seed 7: 0 of 1 expectations "
                    "met\n");
    weft_text_fini(&text);
    json_decref(document);
}
END_TEST

START_TEST(a_met_expectation_is_printed_once)
{
    static const struct {
        const char *expect, *got, *line;
        bool ok;
    } cases[] = {
        {"result: pass", "pass", "ok     result: pass", true},
        {"data: exact", "exact, 2 of 2 rows verified",
         "ok     data: exact, 2 of 2 rows verified", true},
        {"data: exact", "exact as far as verified, 1 of 2 rows ended",
         "not ok data: expected exact, got exact as far as verified, 1 of 2 rows ended",
         false},
        {"result: pass", "fail: b: rtr", "not ok result: expected pass, got fail: b: rtr",
         false},
        {"invariant: ends", "a request ended twice",
         "not ok invariant: ends: a request ended twice", false},
        {"drops: at most 3", "2", "ok     drops: at most 3: 2", true},
        {"invariants", "ok", "ok     invariants: ok", true},
    };
    struct report_style plain = report_style(false);

    for (size_t i = 0; i < WEFT_LENGTH(cases); i++) {
        struct weft_text text = {NULL, 0, 0};
        json_t *document =
            json_pack("{s:[{s:s, s:s, s:b}]}", "expectations", "expect", cases[i].expect,
                      "got", cases[i].got, "ok", cases[i].ok);

        report_verdict(document, &plain, &text);
        ck_assert_ptr_nonnull(strstr(text.bytes, cases[i].line));
        weft_text_fini(&text);
        json_decref(document);
    }
}
END_TEST

/* Returns the document of a run that failed after its first size (is_measured) or before, with the
 * tables of what worked. */
static json_t *ended_run(bool is_measured)
{
    json_t *document = document_of(passed);
    json_t *job = json_array_get(json_object_get(document, "jobs"), 0);
    json_t *failure = document_of(failed);

    if (!is_measured) {
        json_object_set_new(job, "time_ns", json_null());
    }
    json_object_set(document, "findings", json_object_get(failure, "findings"));
    json_decref(failure);
    return document;
}

/* If a finding explains the failure, the tables of what worked are omitted, except for measured
 * sizes. */
START_TEST(an_explained_failure_leaves_out_what_worked_unless_all_is_asked_for)
{
    static const char *const tables[] = {"\nconnections\n", "\ncables\n",
                                         "\nall_reduce\n"};
    struct report_style plain = report_style(false);

    for (int i = 0; i < 8; i++) {
        bool is_measured = (i & 1) != 0;
        bool is_whole = (i & 2) != 0;
        bool is_survived = (i & 4) != 0;
        json_t *document = ended_run(is_measured);
        struct weft_text text = {NULL, 0, 0};

        if (is_survived) {
            json_t *finding = json_array_get(json_object_get(document, "findings"), 0);

            json_object_set_new(json_object_get(finding, "evidence"), "survived",
                                json_true());
        }
        report_run(document, is_whole, &plain, &text);
        for (int t = 0; t < 3; t++) {
            bool is_there = is_whole || is_survived || (t == 2 && is_measured);

            ck_assert_int_eq(strstr(text.bytes, tables[t]) != NULL, is_there);
        }
        ck_assert_ptr_nonnull(strstr(text.bytes, "route.wrong_nic at titanic:p0"));
        weft_text_fini(&text);
        json_decref(document);
    }
}
END_TEST

START_TEST(colour_marks_the_verdict_and_wrong_data_only_when_asked)
{
    struct report_style style = report_style(true);
    struct weft_text text = {NULL, 0, 0};
    json_t *document = document_of(failed);

    report_verdict(document, &style, &text);
    ck_assert_ptr_nonnull(strstr(text.bytes, "\033[31mFAIL\033[0m"));
    ck_assert_ptr_nonnull(strstr(text.bytes, "\033[33mwarning\033[0m"));
    weft_text_fini(&text);
    json_decref(document);
}
END_TEST

START_TEST(cables_without_drops_are_shown_only_when_asked)
{
    struct report_style plain = report_style(false);
    json_t *document = document_of("{\"links\":[{\"link\":\"a-b\",\"drops\":0},"
                                   "{\"link\":\"b-c\",\"drops\":1}]}");

    for (int all = 0; all < 2; all++) {
        struct weft_text text = {NULL, 0, 0};

        report_run(document, all == 1, &plain, &text);
        ck_assert_int_eq(strstr(text.bytes, "a-b") != NULL, all);
        ck_assert_ptr_nonnull(strstr(text.bytes, "b-c"));
        weft_text_fini(&text);
    }
    json_decref(document);
}
END_TEST

START_TEST(an_empty_document_prints_question_marks_and_never_crashes)
{
    struct report_style plain = report_style(false);
    struct weft_text text = {NULL, 0, 0};
    json_t *document =
        document_of("{\"jobs\":[{}],\"connections\":[{}],\"findings\":[{}],"
                    "\"links\":[{\"drops\":1}],\"expectations\":[{}],"
                    "\"warnings\":[1]}");
    json_t *runs = json_pack("[O]", document);

    report_run(document, false, &plain, &text);
    ck_assert_ptr_nonnull(strstr(text.bytes, "FAIL ? on ?"));
    report_links(document, true, &text);
    report_junit(runs, &text);
    report_html(runs, &(struct weft_text){NULL, 0, 0}, &text);
    report_perfetto(runs, &(struct weft_text){NULL, 0, 0}, &text);
    weft_text_fini(&text);
    json_decref(runs);
    json_decref(document);
}
END_TEST

START_TEST(junit_has_a_case_per_expectation_and_escapes)
{
    struct weft_text text = {NULL, 0, 0};
    json_t *runs = document_of("[{\"scenario\":\"a&b\",\"expectations\":["
                               "{\"expect\":\"x < 1\",\"got\":\"\\\"2\\\"\\n\","
                               "\"ok\":false},{\"expect\":\"y > 0\",\"got\":\"1\","
                               "\"ok\":true}]}]");

    report_junit(runs, &text);
    ck_assert_str_eq(
        text.bytes,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
        "  <testsuite name=\"a&amp;b\" tests=\"2\" failures=\"1\" errors=\"0\">\n"
        "    <testcase classname=\"a&amp;b\" name=\"x &lt; 1\">"
        "<failure message=\"&quot;2&quot;&#10;\"/></testcase>\n"
        "    <testcase classname=\"a&amp;b\" name=\"y &gt; 0\"/>\n"
        "  </testsuite>\n</testsuites>\n");
    weft_text_fini(&text);
    json_decref(runs);
}
END_TEST

/* A program's command and a file's description may have control characters. */
START_TEST(no_control_character_leaves_a_table_or_a_junit_file)
{
    static const char *const heads[] = {"a"};
    struct columns columns;
    struct weft_text text = {NULL, 0, 0};
    json_t *runs =
        document_of("[{\"scenario\":\"x\",\"symptom\":{\"text\":\"\\u001b[1m\\t"
                    "\\r\"},\"expectations\":[{\"expect\":\"y\",\"got\":\"\\u0007\","
                    "\"ok\":false}]}]");

    report_junit(runs, &text);
    ck_assert_ptr_nonnull(
        strstr(text.bytes,
               "<failure message=\"?\">\nsymptom  ?[1m\t?\n</failure></testcase>\n"));
    text.n = 0;
    columns_init(&columns, heads, 1);
    columns_cell(&columns, "%s", "b\nc\x1b[1m\x7f→");
    columns_print(&columns, "", &text);
    ck_assert_str_eq(text.bytes, "a\nb?c?[1m?→\n");
    columns_fini(&columns);
    weft_text_fini(&text);
    json_decref(runs);
}
END_TEST

START_TEST(a_page_holds_the_tables_and_the_head_of_the_story)
{
    struct weft_text text = {NULL, 0, 0};
    struct weft_text story = {NULL, 0, 0};
    json_t *runs = json_pack("[o]", document_of(passed));

    weft_text_add(&story, "0 a p0 up rate=1\n<&>\n");
    report_html(runs, &story, &text);
    ck_assert_ptr_nonnull(
        strstr(text.bytes, "<h1>pair <span class=\"pass\">pass</span>"));
    ck_assert_ptr_nonnull(strstr(text.bytes, "0 a p0 up rate=1\n&lt;&amp;&gt;\n</pre>"));
    ck_assert_ptr_nonnull(strstr(text.bytes, "95.1%"));
    for (int i = 0; i < 5000; i++) {
        weft_text_add(&story, "%d a p0 something=%d→\n", i, i);
    }
    for (size_t i = 0; i < 32; i++) { /* for some the limit is within a character */
        const struct weft_text part = {story.bytes + i, story.n - i, 0};
        json_t *page;

        text.n = 0;
        report_html(runs, &part, &text);
        ck_assert_ptr_nonnull(strstr(text.bytes, "... (the rest: --events FILE)"));
        page = json_stringn(text.bytes, text.n); /* NULL unless it is UTF-8 */
        ck_assert_ptr_nonnull(page);
        json_decref(page);
    }
    weft_text_fini(&text);
    weft_text_fini(&story);
    json_decref(runs);
}
END_TEST

START_TEST(a_perfetto_trace_is_json_with_an_instant_per_event)
{
    struct weft_text text = {NULL, 0, 0};
    struct weft_text story = {NULL, 0, 0};
    json_t *runs = json_pack("[o]", document_of(passed));
    json_t *trace;
    json_t *events;

    weft_text_add(&story,
                  "1500 a p0/qp1 state to=RTS\n2000 b job0 done \"x\\y\"\nshort\n");
    report_perfetto(runs, &story, &text);
    trace = document_of(text.bytes);
    events = json_object_get(trace, "traceEvents");
    ck_assert_uint_eq(json_array_size(events), 2 + 2 * 3);
    ck_assert_str_eq(
        json_string_value(json_object_get(json_array_get(events, 0), "name")), "state");
    ck_assert_double_eq(json_real_value(json_object_get(json_array_get(events, 0), "ts")),
                        1.5);
    json_decref(trace);
    weft_text_fini(&text);
    weft_text_fini(&story);
    json_decref(runs);
}
END_TEST

START_TEST(columns_are_as_wide_as_their_cells_count_characters_not_bytes)
{
    static const char *const heads[] = {"a", "number"};
    struct weft_text text = {NULL, 0, 0};
    struct columns columns;

    columns_init(&columns, heads, 2);
    columns_right(&columns, 1);
    columns_row(&columns);
    columns_cell(&columns, "→→→");
    columns_cell(&columns, "%d", 7);
    columns_row(&columns);
    columns_cell(&columns, "x");
    columns_row(&columns);
    columns_cell(&columns, "last");
    columns_cell(&columns, "1234567");
    columns_print(&columns, "> ", &text);
    ck_assert_str_eq(text.bytes, "> a      number\n> →→→         7\n> x            \n"
                                 "> last  1234567\n");
    columns_fini(&columns);
    weft_text_fini(&text);
}
END_TEST

START_TEST(a_cell_of_any_length_is_printed_whole)
{
    static const char *const heads[] = {"a"};
    struct weft_text text = {NULL, 0, 0};
    struct weft_text cell = {NULL, 0, 0};
    struct columns columns;

    for (int i = 0; i < 100; i++) {
        weft_text_add(&cell, "→");
    }
    columns_init(&columns, heads, 1);
    columns_cell(&columns, "%s", cell.bytes);
    columns_print(&columns, "", &text);
    ck_assert_uint_eq(text.n, 2 + cell.n + 1);
    ck_assert_mem_eq(text.bytes + 2, cell.bytes, cell.n);
    columns_fini(&columns);
    weft_text_fini(&cell);
    weft_text_fini(&text);
}
END_TEST

START_TEST(a_character_cut_short_does_not_pass_the_end_of_its_text)
{
    ck_assert_int_eq(canvas_columns("x\xe2\x86\0yyyy"), 2);
    ck_assert_int_eq(canvas_columns("x\xf0\0yyyy"), 2);
    ck_assert_int_eq(canvas_columns("\xe2yé"), 3);
}
END_TEST

START_TEST(the_canvas_cuts_what_falls_outside)
{
    struct weft_text text = {NULL, 0, 0};
    struct canvas canvas;

    canvas_init(&canvas, 12, 3);
    canvas_box(&canvas, 1, 0, 7, 3, "ab");
    canvas_text(&canvas, 9, 1, "wide text");
    canvas_text(&canvas, 0, 9, "below");
    canvas_text_right(&canvas, 0, 2, "é");
    canvas_print(&canvas, &text);
    ck_assert_str_eq(text.bytes, " ┌─────┐\n │ ab  │ wid\né└─────┘\n");
    canvas_fini(&canvas);
    weft_text_fini(&text);
}
END_TEST

/* Returns a little-endian 32-bit word of a capture. */
static uint32_t word(const unsigned char *bytes)
{
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

START_TEST(a_capture_names_ports_stamps_nanoseconds_and_comments_on_drops)
{
    struct world_port ports[2] = {{.name = "p0"}, {.name = "p1"}};
    struct world_host hosts[2] = {{.name = "a", .ports = ports, .n_ports = 2},
                                  {.name = "b", .ports = ports, .n_ports = 1}};
    struct world_spec spec = {.hosts = hosts, .n_hosts = 2};
    struct world_frame frame = {.at_ns = 0x100000002,
                                .host = 1,
                                .port = 0,
                                .bytes = (const uint8_t *)"hello",
                                .n_bytes = 5,
                                .comment = "dropped: loss"};
    struct pcapng pcapng;
    unsigned char bytes[1024];
    FILE *file = tmpfile();
    size_t n;
    size_t at = 0;
    unsigned types[6];
    unsigned n_blocks = 0;

    ck_assert_ptr_nonnull(file);
    ck_assert(pcapng_open(&pcapng, file, &spec));
    pcapng_frame(&pcapng, &frame);
    ck_assert(pcapng_close(&pcapng));
    rewind(file);
    n = fread(bytes, 1, sizeof(bytes), file);
    fclose(file);
    while (at < n) {
        uint32_t length = word(bytes + at + 4);

        ck_assert_uint_lt(n_blocks, 6);
        types[n_blocks++] = word(bytes + at);
        ck_assert_uint_eq(length % 4, 0);
        ck_assert_uint_eq(word(bytes + at + length - 4), length);
        if (types[n_blocks - 1] == 6) {
            ck_assert_uint_eq(word(bytes + at + 8), 2); /* b:p0 is the third interface */
            ck_assert_uint_eq(word(bytes + at + 12), 1);
            ck_assert_uint_eq(word(bytes + at + 16), 2);
            ck_assert_uint_eq(word(bytes + at + 20), 5);
            ck_assert_mem_eq(bytes + at + 28, "hello\0\0\0", 8);
            ck_assert_ptr_nonnull(strstr((const char *)bytes + at + 48, "dropped: loss"));
        }
        at += length;
    }
    ck_assert_uint_eq(n_blocks, 5);
    ck_assert_uint_eq(types[0], 0x0a0d0d0a);
    ck_assert_uint_eq(types[1], 1);
    ck_assert_uint_eq(types[4], 6);
}
END_TEST

START_TEST(a_capture_on_a_full_disk_says_so)
{
    struct world_spec spec = {.n_hosts = 0};
    struct pcapng pcapng;
    FILE *file = fopen("/dev/full", "wb");

    ck_assert_ptr_nonnull(file);
    setvbuf(file, NULL, _IONBF, 0);
    ck_assert(!pcapng_open(&pcapng, file, &spec));
    ck_assert(!pcapng_close(&pcapng));
    fclose(file);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("report");
    TCase *cases = tcase_create("report");

    tcase_add_test(cases, a_passed_run_reads_from_connections_to_verdict);
    tcase_add_test(cases, a_failed_run_says_what_where_why_and_what_to_type);
    tcase_add_test(cases, a_met_expectation_is_printed_once);
    tcase_add_test(cases,
                   an_explained_failure_leaves_out_what_worked_unless_all_is_asked_for);
    tcase_add_test(cases, colour_marks_the_verdict_and_wrong_data_only_when_asked);
    tcase_add_test(cases, cables_without_drops_are_shown_only_when_asked);
    tcase_add_test(cases, an_empty_document_prints_question_marks_and_never_crashes);
    tcase_add_test(cases, junit_has_a_case_per_expectation_and_escapes);
    tcase_add_test(cases, no_control_character_leaves_a_table_or_a_junit_file);
    tcase_add_test(cases, a_page_holds_the_tables_and_the_head_of_the_story);
    tcase_add_test(cases, a_perfetto_trace_is_json_with_an_instant_per_event);
    tcase_add_test(cases, columns_are_as_wide_as_their_cells_count_characters_not_bytes);
    tcase_add_test(cases, a_cell_of_any_length_is_printed_whole);
    tcase_add_test(cases, a_character_cut_short_does_not_pass_the_end_of_its_text);
    tcase_add_test(cases, the_canvas_cuts_what_falls_outside);
    tcase_add_test(cases, a_capture_names_ports_stamps_nanoseconds_and_comments_on_drops);
    tcase_add_test(cases, a_capture_on_a_full_disk_says_so);
    suite_add_tcase(suite, cases);
    return suite_run(suite);
}
