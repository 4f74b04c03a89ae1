/* Two hosts and a cable: the happy path as a whole. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "conn/conn_testing.h"

START_TEST(two_hosts_connect)
{
    struct bed bed;

    bed_open(&bed, &(struct bed_config){.seed = 1});
    bed_listen(&bed, 1);
    bed_connect(&bed, 0, 1);
    bed_run(&bed, 5 * BED_S, bed_all_up);
    fputs(bed.story.bytes, stderr);
    for (uint32_t h = 0; h < 2; h++) {
        struct conn *conn = bed_conn(&bed, h);
        char text[300];

        weft_error_format(&conn->error, text, sizeof(text));
        fprintf(stderr, "%u %s %s up %lld rtt %lld\n", h, conn_state_name(conn->state), text,
                (long long)(conn->up_ns - conn->started_ns), (long long)conn->probe_rtt_ns);
        for (unsigned i = 0; i < conn->error.n_values; i++) {
            fprintf(stderr, "   %s=%lld %s\n", conn->error.values[i].name,
                    (long long)conn->error.values[i].number, conn->error.values[i].text);
        }
    }
    ck_assert(bed_all_up(&bed));
    bed_close(&bed);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("connect");
    TCase *tcase = tcase_create("all");
    SRunner *runner = srunner_create(suite);
    int failed;

    suite_add_tcase(suite, tcase);
    tcase_add_test(tcase, two_hosts_connect);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
