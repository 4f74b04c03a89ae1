/* Topology documents in the directory of a scenario. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/suite_testing.h"
#include "base/text.h"
#include "scenario/scenario.h"

#define HEAD                                                                             \
    "name: a\n"                                                                          \
    "topology:\n"                                                                        \
    "  nodes:\n"                                                                         \
    "    a: {ports: [p0], gpu: {topology: %s}}\n"                                        \
    "    b: {ports: [p0], gpu: {topology: %s}}\n"                                        \
    "    c: {ports: [p0], cages: [c0]}\n"

static char directory[64], file[96];
static struct scenario *scenario;
static struct scenario_diagnostics diagnostics;
static struct weft_text text;

static void write_file(const char *name, const char *content)
{
    char path[128];
    FILE *out;

    weft_format(path, sizeof(path), "%s/%s", directory, name);
    out = fopen(path, "w");
    ck_assert_ptr_nonnull(out);
    ck_assert_int_ge(fputs(content, out), 0);
    ck_assert_int_eq(fclose(out), 0);
}

static weft_status load(const char *a, const char *b)
{
    char content[400];

    weft_format(content, sizeof(content), HEAD, a, b);
    write_file("s.yaml", content);
    weft_format(file, sizeof(file), "%s/s.yaml", directory);
    return scenario_load_file(file, NULL, 0, &text, &scenario, &diagnostics);
}

static void set_up(void)
{
    weft_format(directory, sizeof(directory), "/tmp/weft-documents-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    write_file("one.xml", "<system version='1'/>");
}

static void tear_down(void)
{
    static const char *const names[] = {"s.yaml", "one.xml"};
    char path[128];

    for (size_t i = 0; i < 2; i++) {
        weft_format(path, sizeof(path), "%s/%s", directory, names[i]);
        unlink(path);
    }
    rmdir(directory);
    scenario_free(scenario);
    scenario = NULL;
    scenario_diagnostics_fini(&diagnostics);
    weft_text_fini(&text);
    text = (struct weft_text){NULL, 0, 0};
}

START_TEST(a_document_is_read_beside_the_file)
{
    struct scenario_world *world = NULL;

    ck_assert_int_eq(load("one.xml", "one.xml"), WEFT_OK);
    ck_assert_int_eq(scenario_to_world(scenario, &world), WEFT_OK);
    const struct world_host *hosts = world->spec.hosts;
    ck_assert_str_eq(hosts[0].gpu_document, "<system version='1'/>");
    ck_assert_uint_eq(hosts[0].n_gpu_document, 21);
    ck_assert_ptr_eq(hosts[1].gpu_document, hosts[0].gpu_document);
    ck_assert_ptr_null(hosts[2].gpu_document);
    ck_assert_msg(strstr(hosts[0].gpu_document_name, "/one.xml") != NULL, "%s",
                  hosts[0].gpu_document_name);
    ck_assert(!hosts[2].ports[0].is_cage);
    ck_assert(hosts[2].ports[1].is_cage);
    scenario_world_free(world);
}
END_TEST

START_TEST(a_document_that_is_not_there_is_told_where_it_was_named)
{
    ck_assert_int_eq(load("one.xml", "two.xml"), WEFT_ERR_INPUT);
    ck_assert_ptr_null(scenario);
    ck_assert_uint_eq(diagnostics.n, 1);
    ck_assert_uint_eq(diagnostics.items[0].mark.line, 5);
    ck_assert_uint_eq(diagnostics.items[0].mark.column, 38);
    ck_assert_msg(strstr(diagnostics.items[0].text, "No such file") != NULL, "%s",
                  diagnostics.items[0].text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("documents");
    TCase *tests = tcase_create("documents");

    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_document_is_read_beside_the_file);
    tcase_add_test(tests, a_document_that_is_not_there_is_told_where_it_was_named);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
