#include "diag/symptoms.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "io/verbs.h"

static const struct diag_symptom *the_one(const char *text)
{
    const struct diag_symptom *found[2] = {NULL, NULL};

    ck_assert_msg(diag_symptoms_find(text, found, 2) == 1, "%s", text);
    return found[0];
}

/* Each cause but the last has a question. No code is listed twice. A cause that is not a finding
 * has a text. */
START_TEST(every_symptom_has_causes_and_what_separates_them)
{
    const struct diag_symptom *symptom;

    for (size_t i = 0; (symptom = diag_symptom_at(i)) != NULL; i++) {
        size_t n = diag_symptom_causes(symptom);
        bool seen[DIAG_N_CODES] = {false};

        /* A list that was not written is one cause that is all zero. */
        ck_assert_msg(symptom->causes[0].code != 0 || symptom->causes[0].ask != NULL,
                      "%s has no cause", symptom->name);
        ck_assert_uint_gt(strlen(symptom->meaning), 10);
        ck_assert_ptr_eq(the_one(symptom->name), symptom);
        for (size_t k = 0; k < DIAG_CAUSES_MAX; k++) {
            const struct diag_cause *cause = &symptom->causes[k];

            if (k >= n) { /* no entry follows the last cause */
                ck_assert_msg(cause->what == NULL && cause->ask == NULL,
                              "%s: a question is missing", symptom->name);
                continue;
            }
            if (cause->code == DIAG_N_CODES) {
                ck_assert_ptr_nonnull(cause->what);
                continue;
            }
            ck_assert_ptr_null(cause->what);
            ck_assert_msg(!seen[cause->code], "%s: twice %s", symptom->name,
                          diag_entry(cause->code)->code);
            seen[cause->code] = true;
        }
    }
}
END_TEST

START_TEST(every_completion_status_is_there)
{
    for (int status = 0; strcmp(io_wc_status_name(status), "?") != 0; status++) {
        const char *name = io_wc_status_name(status);
        const struct diag_symptom *found[2] = {NULL, NULL};
        char text[64];

        snprintf(text, sizeof(text), "status %d", status);
        ck_assert_str_eq(the_one(text)->name, name);
        snprintf(text, sizeof(text), "IBV_WC_%s", name);
        ck_assert_int_eq(the_one(text)->number, status);
        ck_assert_int_eq((int)the_one(name)->kind, DIAG_SYMPTOM_WC_STATUS);
        snprintf(text, sizeof(text), "%d", status);
        ck_assert_uint_ge(diag_symptoms_find(text, found, 2), 1);
    }
}
END_TEST

/* The numbers in this table are those of Linux, on which the test runs. */
START_TEST(errnos_have_their_names_and_texts)
{
    static const struct {
        int number;
        const char *name;
    } known[] = {{EPERM, "EPERM"},
                 {EIO, "EIO"},
                 {EAGAIN, "EAGAIN"},
                 {ENOMEM, "ENOMEM"},
                 {EACCES, "EACCES"},
                 {EBUSY, "EBUSY"},
                 {ENODEV, "ENODEV"},
                 {EINVAL, "EINVAL"},
                 {EMFILE, "EMFILE"},
                 {ENOSPC, "ENOSPC"},
                 {EPIPE, "EPIPE"},
                 {ENODATA, "ENODATA"},
                 {EOPNOTSUPP, "EOPNOTSUPP"},
                 {EADDRINUSE, "EADDRINUSE"},
                 {ECONNRESET, "ECONNRESET"},
                 {EADDRNOTAVAIL, "EADDRNOTAVAIL"},
                 {ETIMEDOUT, "ETIMEDOUT"},
                 {ENETUNREACH, "ENETUNREACH"},
                 {EHOSTUNREACH, "EHOSTUNREACH"},
                 {ENOENT, "ENOENT"},
                 {EINTR, "EINTR"},
                 {EFAULT, "EFAULT"},
                 {ENOSYS, "ENOSYS"},
                 {ETIME, "ETIME"},
                 {EMSGSIZE, "EMSGSIZE"},
                 {EPROTONOSUPPORT, "EPROTONOSUPPORT"},
                 {EAFNOSUPPORT, "EAFNOSUPPORT"},
                 {ENETDOWN, "ENETDOWN"},
                 {ECONNABORTED, "ECONNABORTED"},
                 {ENOBUFS, "ENOBUFS"},
                 {ENOTCONN, "ENOTCONN"},
                 {EHOSTDOWN, "EHOSTDOWN"},
                 {EINPROGRESS, "EINPROGRESS"},
                 {EREMOTEIO, "EREMOTEIO"},
                 {ECANCELED, "ECANCELED"},
                 {ECONNREFUSED, "ECONNREFUSED"}};

    for (size_t i = 0; i < WEFT_LENGTH(known); i++) {
        char text[64];

        ck_assert_int_eq(the_one(known[i].name)->number, known[i].number);
        snprintf(text, sizeof(text), "errno %d", known[i].number);
        ck_assert_str_eq(the_one(text)->name, known[i].name);
        ck_assert_str_eq(the_one(strerror(known[i].number))->name, known[i].name);
    }
}
END_TEST

START_TEST(lines_of_logs_are_understood)
{
    const struct diag_symptom *found[2] = {NULL, NULL};

    ck_assert_str_eq(
        the_one("Got completion from peer 10.0.0.2<4791> with status=12 opcode=0 "
                "len=0 vendor err 129 (Recv)")
            ->name,
        "RETRY_EXC_ERR");
    ck_assert_str_eq(
        the_one("Call to ibv_modify_qp failed with error Connection timed out "
                "errno 110")
            ->name,
        "ETIMEDOUT");
    ck_assert_str_eq(
        the_one("unhandled system error (run with NCCL_DEBUG=INFO for details)")->name,
        "unhandled system error");
    ck_assert_str_eq(the_one("Unhandled System Error")->name, "unhandled system error");
    ck_assert_str_eq(
        the_one("plugin/net.cc:379 NCCL WARN Failed to initialize any NET plugin")->name,
        "failed to initialize any net plugin");
    /* The status of a process is none of a completion. */
    ck_assert_str_eq(the_one("exit status 1: ibv_modify_qp failed, errno 110")->name,
                     "ETIMEDOUT");
    ck_assert_str_eq(the_one("Exited with status 12: Connection refused")->name,
                     "ECONNREFUSED");
    ck_assert_str_eq(the_one("exit status: 1, after wc status 12")->name,
                     "RETRY_EXC_ERR");
    ck_assert_uint_eq(diag_symptoms_find("exit status 1", found, 2), 0);
    ck_assert_str_eq(the_one("ibv_wc_rnr_retry_exc_err")->name, "RNR_RETRY_EXC_ERR");
    ck_assert_str_eq(the_one("connect: Connection refused")->name, "ECONNREFUSED");
    ck_assert_uint_eq(diag_symptoms_find("12", found, 2), 2);
    ck_assert_str_eq(found[0]->name, "ENOMEM");
    ck_assert_str_eq(found[1]->name, "RETRY_EXC_ERR");
    ck_assert_uint_eq(diag_symptoms_find("110", found, 2), 1);
    ck_assert_uint_eq(diag_symptoms_find("12", found, 1), 1);
    ck_assert_uint_eq(diag_symptoms_find("", found, 2), 0);
    ck_assert_uint_eq(diag_symptoms_find("no.such", found, 2), 0);
    ck_assert_uint_eq(diag_symptoms_find("errno", found, 2), 0);
    ck_assert_uint_eq(diag_symptoms_find("errno 4711", found, 2), 0);
    ck_assert_uint_eq(diag_symptoms_find("99999999999999999999", found, 2), 0);
}
END_TEST

/* Lines of NCCL, UCX, perftest, Open MPI, PyTorch and the kernel, and the symptom. NULL: nothing
 * is known. */
static const struct {
    const char *line, *name;
} lines[] = {
    {"ibv_modify_qp failed with 110", "ETIMEDOUT"},
    {"Call to ibv_modify_qp failed with 22 Invalid argument", "EINVAL"},
    {"Got completion with error 12, opcode 1, len 32601, vendor err 129",
     "RETRY_EXC_ERR"},
    {"Got completion with error 5, opcode 1, len 32601, vendor err 249", "WR_FLUSH_ERR"},
    {"NCCL failure: 'unhandled system error' error code 2", "unhandled system error"},
    {"ncclSystemError: System call (e.g. socket, malloc) or external library call "
     "failed",
     "unhandled system error"},
    {"ncclRemoteError: A call failed possibly due to a network error",
     "remote process exited or there was a network error"},
    {"invalid argument (run with NCCL_DEBUG=WARN for details)", "invalid usage"},
    {"unhandled system error, ncclSystemError: Last error: Call to ibv_modify_qp "
     "failed with error Connection timed out",
     "ETIMEDOUT"},
    {"Connect to 10.0.0.2<51234> returned 113(No route to host) errno 115(Operation "
     "now in progress)",
     "EHOSTUNREACH"},
    {"Connect to 10.0.0.2<51234> returned 111 errno 115", "ECONNREFUSED"},
    {"NCCL WARN Cuda failure 'out of memory'", "unhandled cuda error"},
    {"UCX  ERROR Transport retry count exceeded on mlx5_0:1/RoCE (synd 0x15 vend "
     "0x81 hw_synd 0/0)",
     "RETRY_EXC_ERR"},
    {"UCX  ERROR Receive-no-ready retry count exceeded on mlx5_0:1", "RNR_RETRY_EXC_ERR"},
    {"ep 0x7f: error 'Endpoint timeout' on rc_mlx5/mlx5_0:1 will not be handled by "
     "ep close",
     "endpoint timeout"},
    {"UCX  ERROR   Destination is unreachable", "destination is unreachable"},
    {"Failed to modify QP 255 to RTR", "failed to modify QP"},
    {"Failed to modify QP 255 to RTR: Connection timed out", "ETIMEDOUT"},
    {"Completion with error at client:  Failed status 12: wr_id 0 syndrom 0x81",
     "RETRY_EXC_ERR"},
    {"Failed status transport retry counter exceeded (12) for wr_id 2", "RETRY_EXC_ERR"},
    {"vendor err 129", "RETRY_EXC_ERR"},
    {"[Errno 101] Network is unreachable", "ENETUNREACH"},
    {"rc=-110", "ETIMEDOUT"},
    {"-22", "EINVAL"},
    {"failed, status limits exceeded(0x8), syndrome (0x59c8a4), err(-12)", "ENOMEM"},
    {"async reg mr failed. status -12", "ENOMEM"},
    {"initialize while trying to allocate some locked memory", "ENOMEM"},
    {"WARNING: Open MPI failed to TCP connect to a peer MPI process.",
     "failed to TCP connect to a peer MPI process"},
    {"mlx5_0:1 Got async event : port error", "IBV_EVENT_PORT_ERR"},
    {"The client socket has timed out after 900s while trying to connect to "
     "(spark-1, 29500).",
     "client socket has timed out"},
    {"Operation now in progress", "EINPROGRESS"},
    {"exit status 1", NULL},
    {"exited with code 12", NULL},
    {"NCCL error 2", NULL},
    {"ncclNetInit returned 2", NULL},
    {"vendor err 104", NULL},
    {"everything is fine", NULL},
    {"version 2.21.5 failed with 11.2", NULL},
};

START_TEST(lines_of_many_programs_are_understood)
{
    for (size_t i = 0; i < WEFT_LENGTH(lines); i++) {
        const struct diag_symptom *found[2] = {NULL, NULL};
        size_t n = diag_symptoms_find(lines[i].line, found, 2);

        ck_assert_msg(n == (lines[i].name != NULL ? 1 : 0), "%s: %zu", lines[i].line, n);
        ck_assert_msg(n == 0 || strcmp(found[0]->name, lines[i].name) == 0, "%s: %s",
                      lines[i].line, n == 0 ? "" : found[0]->name);
    }
}
END_TEST

static bool has_code(const struct diag_symptom *symptom, enum diag_code code)
{
    for (size_t i = 0; i < diag_symptom_causes(symptom); i++) {
        if (symptom->causes[i].code == code) {
            return true;
        }
    }
    return false;
}

/* A finding whose cause names an errno in parentheses is a cause of that errno. */
START_TEST(an_errno_has_the_findings_that_name_it)
{
    int n_named = 0;

    for (int i = 0; i < DIAG_N_CODES; i++) {
        const struct diag_entry *entry = diag_entry((enum diag_code)i);
        const char *at = strstr(entry->cause, "(errno ");
        int number = at == NULL ? 0 : (int)strtol(at + strlen("(errno "), NULL, 10);
        char text[32];

        if (number == 0) {
            continue;
        }
        snprintf(text, sizeof(text), "errno %d", number);
        ck_assert_msg(has_code(the_one(text), entry->id), "errno %d lacks %s", number,
                      entry->code);
        n_named++;
    }
    ck_assert_int_ge(n_named, 4);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("symptoms");
    TCase *tests = tcase_create("symptoms");

    tcase_add_test(tests, every_symptom_has_causes_and_what_separates_them);
    tcase_add_test(tests, every_completion_status_is_there);
    tcase_add_test(tests, errnos_have_their_names_and_texts);
    tcase_add_test(tests, lines_of_logs_are_understood);
    tcase_add_test(tests, lines_of_many_programs_are_understood);
    tcase_add_test(tests, an_errno_has_the_findings_that_name_it);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
