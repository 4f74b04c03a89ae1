#include "diag/catalogue.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suite_testing.h"

/* Appends the text of docs/findings.md. */
static void print_catalogue(struct weft_text *out)
{
    weft_text_add(
        out, "# Findings\n\n"
             "What `weft run`, `weft diagnose` and `weft doctor` report. A code never "
             "changes its meaning; `weft explain CODE` prints the same text. Generated "
             "from `src/diag/findings.txt`.\n\n"
             "| code | severity | cause |\n|---|---|---|\n");
    for (int i = 0; i < DIAG_N_CODES; i++) {
        const struct diag_entry *entry = diag_entry((enum diag_code)i);

        weft_text_add(out, "| [`%s`](#%d) | %s | %s |\n", entry->code, i + 1,
                      diag_severity_name(entry->severity), entry->cause);
    }
    for (int i = 0; i < DIAG_N_CODES; i++) {
        const struct diag_entry *entry = diag_entry((enum diag_code)i);

        weft_text_add(out, "\n<a id=\"%d\"></a>\n## `%s`\n\n", i + 1, entry->code);
        weft_text_add(out, "**Cause.** %s.\n\n%s\n\n", entry->cause, entry->explanation);
        weft_text_add(out,
                      "**Remedy.** %s.\n\n**To decide.** `%s`.\n\n**Reference.** %s.\n",
                      entry->remedy, entry->decide, entry->reference);
        if (entry->example != NULL) {
            weft_text_add(out, "\n**Example.** `weft run %s`.\n", entry->example);
        }
    }
}

START_TEST(the_catalogue_is_complete)
{
    for (int i = 0; i < DIAG_N_CODES; i++) {
        const struct diag_entry *entry = diag_entry((enum diag_code)i);

        ck_assert_int_eq((int)entry->id, i);
        ck_assert_ptr_eq(diag_entry_by_code(entry->code), entry);
        ck_assert_str_ne(diag_severity_name(entry->severity), "?");
        ck_assert_uint_gt(strlen(entry->cause), 20);
        ck_assert_uint_gt(strlen(entry->remedy), 20);
        ck_assert_uint_gt(strlen(entry->explanation), 80);
        ck_assert_uint_gt(strlen(entry->reference), 4);
    }
    ck_assert_ptr_null(diag_entry_by_code("no.such"));
}
END_TEST

/* Must run in the root of the repository, as `make test` does. */
START_TEST(the_document_is_the_catalogue)
{
    struct weft_text want = {NULL, 0, 0};
    FILE *file = fopen("docs/findings.md", "rb");
    char *got;
    size_t n;

    ck_assert_msg(file != NULL, "docs/findings.md: run from the repository's root");
    print_catalogue(&want);
    got = weft_calloc(want.n + 2, 1);
    n = fread(got, 1, want.n + 1, file);
    fclose(file);
    ck_assert_uint_eq(n, want.n);
    ck_assert_str_eq(got, want.bytes);
    free(got);
    weft_text_fini(&want);
}
END_TEST

/* The example of an entry is a scenario that expects this code and no other. */
START_TEST(every_example_shows_its_code)
{
    int n_examples = 0;

    for (int i = 0; i < DIAG_N_CODES; i++) {
        const struct diag_entry *entry = diag_entry((enum diag_code)i);
        char text[8192] = "", want[80];
        FILE *file = entry->example == NULL ? NULL : fopen(entry->example, "rb");

        ck_assert_uint_gt(strlen(entry->decide), 4);
        if (entry->example == NULL) {
            continue;
        }
        ck_assert_msg(file != NULL, "%s: no such file", entry->example);
        ck_assert_uint_gt(fread(text, 1, sizeof(text) - 1, file), 0);
        fclose(file);
        weft_format(want, sizeof(want), "findings: [%s]", entry->code);
        ck_assert_msg(strstr(text, want) != NULL, "%s: not %s", entry->example, want);
        n_examples++;
    }
    ck_assert_int_ge(n_examples, 30);
}
END_TEST

int main(int argc, char **argv)
{
    Suite *suite;
    TCase *tests;

    (void)argv;
    /* Generates docs/findings.md: catalogue_test print > docs/findings.md. */
    if (argc > 1) {
        struct weft_text text = {NULL, 0, 0};

        print_catalogue(&text);
        fwrite(text.bytes, 1, text.n, stdout);
        weft_text_fini(&text);
        return 0;
    }
    suite = suite_create("catalogue");
    tests = tcase_create("catalogue");

    tcase_add_test(tests, the_catalogue_is_complete);
    tcase_add_test(tests, every_example_shows_its_code);
    tcase_add_test(tests, the_document_is_the_catalogue);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
