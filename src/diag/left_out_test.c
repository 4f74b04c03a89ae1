#include <check.h>
#include <errno.h>

#include "base/suite_testing.h"
#include "base/text.h"
#include "diag/diag.h"
#include "diag/diag_testing.h"

static struct scene scene;
static struct diag_findings findings;

static void setup(void)
{
    scene_set(&scene);
    scene.a->n_errors = 0;
    weft_format(scene.b->name, sizeof(scene.b->name), "titanic/1");
}

static void teardown(void)
{
    diag_findings_fini(&findings);
    diag_input_fini(&scene.input);
}

static void refuse(struct diag_host *host, enum weft_phase phase, int why)
{
    struct diag_error *error = &host->left_out[host->n_left_out++];

    weft_fail_errno(&error->error, why, phase, "it was not opened");
    weft_format(error->peer, sizeof(error->peer), "titanic");
}

START_TEST(a_machine_that_shares_no_gpu_memory_is_named_once)
{
    refuse(scene.a, WEFT_PHASE_IPC, EPERM);
    refuse(scene.b, WEFT_PHASE_IPC, EPERM);
    diag(&scene.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code, "host.ipc_refused");
    ck_assert(findings.items[0].severity == DIAG_WARNING);
    ck_assert_str_eq(findings.items[0].host, "titanic");
    ck_assert_str_eq(findings.items[0].evidence[0].name, "errno");
    ck_assert_int_eq(findings.items[0].evidence[0].number, EPERM);
}
END_TEST

START_TEST(what_else_was_left_out_is_not_ipc)
{
    refuse(scene.a, WEFT_PHASE_RTR, EPERM);
    diag(&scene.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code, "link.left_out");
}
END_TEST

/* Iceberg called titanic in vain, which did not even find iceberg as a neighbour. Nothing passes
 * between them then, and a filter of TCP ports does not explain that. */
START_TEST(a_cable_on_which_no_neighbour_answers_is_not_filtered)
{
    struct weft_error *unanswered;

    weft_format(scene.b->name, sizeof(scene.b->name), "iceberg");
    refuse(scene.a, WEFT_PHASE_TCP, EHOSTUNREACH);
    refuse(scene.b, WEFT_PHASE_TCP, ETIMEDOUT);
    weft_format(scene.a->left_out[0].peer, sizeof(scene.a->left_out[0].peer), "iceberg");
    for (int i = 0; i < 2; i++) {
        unanswered = i == 0 ? &scene.a->left_out[0].error : &scene.b->left_out[0].error;
        weft_error_int(unanswered, WEFT_VALUE_WAYS, 1);
        weft_error_int(unanswered, WEFT_VALUE_ATTEMPTS, 0);
        weft_error_int(unanswered, WEFT_VALUE_STOOD_IN_RELAYS, 1);
    }
    diag(&scene.input, &findings);
    ck_assert_uint_gt(findings.n, 0);
    for (uint32_t i = 0; i < findings.n; i++) {
        ck_assert_str_eq(findings.items[i].entry->code, "link.left_out");
    }
}
END_TEST

START_TEST(a_driver_without_memory_refuses_nothing)
{
    refuse(scene.a, WEFT_PHASE_IPC, ENOMEM);
    diag(&scene.input, &findings);
    ck_assert_uint_eq(findings.n, 0);
}
END_TEST

START_TEST(a_failure_matters_more)
{
    refuse(scene.a, WEFT_PHASE_IPC, EPERM);
    weft_fail(&scene.b->errors[scene.b->n_errors++].error, WEFT_ERR_DATA, WEFT_PHASE_JOBS,
              "wrong");
    diag(&scene.input, &findings);
    ck_assert_uint_eq(findings.n, 1);
    ck_assert_str_eq(findings.items[0].entry->code, "data.wrong");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("diag/left_out");
    TCase *tests = tcase_create("left_out");

    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_machine_that_shares_no_gpu_memory_is_named_once);
    tcase_add_test(tests, what_else_was_left_out_is_not_ipc);
    tcase_add_test(tests, a_cable_on_which_no_neighbour_answers_is_not_filtered);
    tcase_add_test(tests, a_driver_without_memory_refuses_nothing);
    tcase_add_test(tests, a_failure_matters_more);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
