/* The failure of a program from the records of libweft-watch.so. */
#include "run/program_watched.h"

#include <check.h>
#include <errno.h>

#include "base/check.h"
#include "base/suite_testing.h"

#define OPEN "0 100 titanic 45 silent open_device device=titanic-p0 errno=0\n"
#define GID_READ                                                                         \
    "0 110 titanic 45 silent query_gid device=titanic-p0 port=1 index=1 "                \
    "gid=0000:0000:0000:0000:0000:ffff:c0a8:6501 errno=0\n"
#define RTR_OF(QP, MTU, ERRNO)                                                           \
    "0 120 titanic 45 silent modify_qp device=titanic-p0 qp=" QP " to=2 mtu=" MTU        \
    " dest_qp=18 sgid_index=1 dgid=0000:0000:0000:0000:0000:ffff:c0a8:6502 errno=" ERRNO \
    "\n"
#define COMPLETION_OF(QP, STATUS)                                                        \
    "0 130 titanic 45 silent completion device=titanic-p0 qp=" QP " status=" STATUS      \
    " vendor=0 opcode=0\n"
#define QP_OF(PID, DEVICE, TYPE, ERRNO)                                                  \
    "0 112 titanic " PID " silent create_qp device=" DEVICE " qp=17 type=" TYPE          \
    " errno=" ERRNO "\n"
#define UNREAD_SLOT                                                                      \
    "0 115 titanic 45 silent query_gid device=titanic-p0 port=1 index=9 gid=- errno=5\n"
#define REFUSED_MR "0 116 titanic 45 silent reg_mr device=titanic-p0 errno=12\n"

static const struct {
    const char *records;
    weft_status status;
    int number; /* errno, or status of the completion */
    enum weft_phase phase;
    const char *device, *remote_gid;
    int gid_index, path_mtu;
    bool has_read_gid;
} cases[] = {
    {"", WEFT_OK, 0, WEFT_PHASE_NONE, "", "", PROGRAM_NO_INDEX, 0, false},
    {"no record at all but six words\n0 1 2\n", WEFT_OK, 0, WEFT_PHASE_NONE, "", "",
     PROGRAM_NO_INDEX, 0, false},
    /* nothing failed: what it uses */
    {OPEN GID_READ RTR_OF("17", "3", "0"), WEFT_OK, 0, WEFT_PHASE_NONE, "titanic-p0",
     "192.168.101.2", 1, 1024, true},
    {OPEN GID_READ RTR_OF("17", "5", "110"), WEFT_ERR_SYSTEM, ETIMEDOUT, WEFT_PHASE_RTR,
     "titanic-p0", "192.168.101.2", 1, 4096, true},
    /* its slot was not read, and is not known to have a GID */
    {OPEN RTR_OF("17", "5", "22"), WEFT_ERR_SYSTEM, EINVAL, WEFT_PHASE_RTR, "titanic-p0",
     "192.168.101.2", 1, 4096, false},
    {OPEN
     "0 1 titanic 45 silent modify_qp device=titanic-p0 qp=17 to=1 port=9 errno=22\n",
     WEFT_ERR_SYSTEM, EINVAL, WEFT_PHASE_INIT, "titanic-p0", "", PROGRAM_NO_INDEX, 0,
     false},
    /* the QP that failed, not the last one */
    {RTR_OF("17", "3", "0") RTR_OF("19", "5", "0") COMPLETION_OF("17", "12"),
     WEFT_ERR_COMPLETION, 12, WEFT_PHASE_DATA, "titanic-p0", "192.168.101.2", 1, 1024,
     true},
    /* flushed requests follow from the failure, unless there is no other */
    {COMPLETION_OF("17", "5") COMPLETION_OF("17", "13"), WEFT_ERR_COMPLETION, 13,
     WEFT_PHASE_DATA, "titanic-p0", "", PROGRAM_NO_INDEX, 0, false},
    {COMPLETION_OF("17", "5") COMPLETION_OF("17", "5"), WEFT_ERR_COMPLETION, 5,
     WEFT_PHASE_DATA, "titanic-p0", "", PROGRAM_NO_INDEX, 0, false},
    /* what a program tries and survives is not the failure if another one follows */
    {"0 1 titanic 45 silent create_qp device=titanic-p0 qp=0 type=2 errno=22\n" RTR_OF(
         "17", "3", "101"),
     WEFT_ERR_SYSTEM, ENETUNREACH, WEFT_PHASE_RTR, "titanic-p0", "192.168.101.2", 1, 1024,
     false},
    /* nor if a smaller one of its kind is made */
    {QP_OF("45", "titanic-p0", "2", "22") QP_OF("45", "titanic-p0", "2", "0"), WEFT_OK, 0,
     WEFT_PHASE_NONE, "", "", PROGRAM_NO_INDEX, 0, false},
    {QP_OF("45", "titanic-p0", "2", "22") QP_OF("45", "titanic-p0", "4", "0")
         QP_OF("45", "titanic-p1", "2", "0") QP_OF("46", "titanic-p0", "2", "0"),
     WEFT_ERR_SYSTEM, EINVAL, WEFT_PHASE_CREATE, "titanic-p0", "", PROGRAM_NO_INDEX, 0,
     false},
    {QP_OF("45", "titanic-p0", "2", "0") QP_OF("45", "titanic-p0", "2", "12"),
     WEFT_ERR_SYSTEM, ENOMEM, WEFT_PHASE_CREATE, "titanic-p0", "", PROGRAM_NO_INDEX, 0,
     false},
    /* nor if its process connects afterwards */
    {GID_READ UNREAD_SLOT REFUSED_MR RTR_OF("17", "3", "0"), WEFT_OK, 0, WEFT_PHASE_NONE,
     "titanic-p0", "192.168.101.2", 1, 1024, true},
    {UNREAD_SLOT "0 1 titanic 46 other modify_qp device=titanic-p0 qp=17 to=2 mtu=3 "
                 "sgid_index=1 dgid=0000:0000:0000:0000:0000:ffff:c0a8:6502 errno=0\n",
     WEFT_ERR_SYSTEM, ENODATA, WEFT_PHASE_RTR, "titanic-p0", "192.168.101.2", 1, 1024,
     true},
    {RTR_OF("17", "3", "0") REFUSED_MR, WEFT_ERR_SYSTEM, ENOMEM, WEFT_PHASE_REGISTER,
     "titanic-p0", "192.168.101.2", 1, 1024, true},
    {COMPLETION_OF("17", "5") RTR_OF("19", "3", "0"), WEFT_ERR_COMPLETION, 5,
     WEFT_PHASE_DATA, "titanic-p0", "", PROGRAM_NO_INDEX, 0, false},
    /* an event is the failure if nothing else failed */
    {"0 1 titanic 45 silent event device=titanic-p0 type=4 fatal=0\n", WEFT_OK, 0,
     WEFT_PHASE_NONE, "", "", PROGRAM_NO_INDEX, 0, false},
    {"0 1 titanic 45 silent event device=titanic-p0 type=3 fatal=1\n", WEFT_ERR_SYSTEM, 0,
     WEFT_PHASE_DATA, "titanic-p0", "", PROGRAM_NO_INDEX, 0, false},
    {"0 1 titanic 45 silent event device=titanic-p0 type=3 fatal=1\n" COMPLETION_OF("17",
                                                                                    "10"),
     WEFT_ERR_COMPLETION, 10, WEFT_PHASE_DATA, "titanic-p0", "", PROGRAM_NO_INDEX, 0,
     false},
    {REFUSED_MR, WEFT_ERR_SYSTEM, ENOMEM, WEFT_PHASE_REGISTER, "titanic-p0", "",
     PROGRAM_NO_INDEX, 0, false},
    {UNREAD_SLOT, WEFT_ERR_SYSTEM, ENODATA, WEFT_PHASE_RTR, "titanic-p0", "", 9, 0,
     false},
    {"0 1 titanic 45 silent create_ah device=titanic-p0 sgid_index=1 "
     "dgid=0000:0000:0000:0000:0000:ffff:c0a8:6502 errno=110\n",
     WEFT_ERR_SYSTEM, ETIMEDOUT, WEFT_PHASE_RTR, "titanic-p0", "192.168.101.2", 1, 0,
     false},
    /* another program's */
    {"1 1 titanic 45 silent reg_mr device=titanic-p0 errno=12\n", WEFT_OK, 0,
     WEFT_PHASE_NONE, "", "", PROGRAM_NO_INDEX, 0, false},
};

START_TEST(facts_are_those_of_the_failed_queue_pair)
{
    struct program_words words = {.gid_index = PROGRAM_NO_INDEX};
    int number;

    program_watched_read(cases[_i].records, 0, &words);
    number = words.error.wc_status != 0 ? words.error.wc_status : words.error.sys_errno;
    ck_assert_int_eq(words.error.status, cases[_i].status);
    ck_assert_int_eq(number, cases[_i].number);
    ck_assert_int_eq(words.error.phase, cases[_i].phase);
    ck_assert_str_eq(words.device, cases[_i].device);
    ck_assert_str_eq(words.remote_gid, cases[_i].remote_gid);
    ck_assert_int_eq(words.gid_index, cases[_i].gid_index);
    ck_assert_int_eq(words.path_mtu, cases[_i].path_mtu);
    ck_assert_int_eq(words.has_read_gid, cases[_i].has_read_gid);
    ck_assert_int_eq(words.is_watched, cases[_i].status != WEFT_OK);
}
END_TEST

START_TEST(what_the_program_printed_is_kept)
{
    struct program_words words = {
        .gid_index = 3, .path_mtu = 64, .device = "titanic-p1", .remote_gid = "fe80::1"};

    weft_fail_completion(&words.error, 13, WEFT_PHASE_DATA, "the program says so");
    program_watched_read(RTR_OF("17", "3", "0") COMPLETION_OF("17", "12"), 0, &words);
    ck_assert_int_eq(words.error.wc_status, 13);
    ck_assert(!words.is_watched);
    ck_assert_str_eq(words.device, "titanic-p1");
    ck_assert_str_eq(words.remote_gid, "fe80::1");
    ck_assert_int_eq(words.gid_index, 3);
    ck_assert_int_eq(words.path_mtu, 64);
}
END_TEST

START_TEST(an_errno_that_the_program_did_not_print_is_added)
{
    struct program_words words = {.gid_index = PROGRAM_NO_INDEX};

    weft_fail(&words.error, WEFT_ERR_SYSTEM, WEFT_PHASE_RTR, "the program says so");
    program_watched_read(RTR_OF("17", "3", "101"), 0, &words);
    ck_assert_int_eq(words.error.sys_errno, ENETUNREACH);
}
END_TEST

START_TEST(a_program_fails_while_it_runs_by_what_it_does_not_survive)
{
    static const struct {
        const char *records;
        bool has;
    } all[] = {
        {"", false},
        {OPEN GID_READ RTR_OF("17", "3", "0"), false},
        {OPEN RTR_OF("17", "3", "110"), true},
        {COMPLETION_OF("17", "12") OPEN, true},
        {COMPLETION_OF("17", "5"), false},
        {"0 1 titanic 45 silent reg_mr device=titanic-p0 errno=12\n", false},
        {"0 1 titanic 45 silent event device=titanic-p0 type=1 fatal=1\n", true},
        {"0 1 titanic 45 silent event device=titanic-p0 type=10 fatal=0\n", false},
        {"1 1 titanic 45 silent event device=titanic-p0 type=1 fatal=1\n", false},
    };

    for (size_t i = 0; i < WEFT_LENGTH(all); i++) {
        ck_assert_int_eq(program_watched_has_failed(all[i].records, 0), all[i].has);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("run/program_watched");
    TCase *all = tcase_create("all");

    tcase_add_loop_test(all, facts_are_those_of_the_failed_queue_pair, 0,
                        (int)WEFT_LENGTH(cases));
    tcase_add_test(all, what_the_program_printed_is_kept);
    tcase_add_test(all, an_errno_that_the_program_did_not_print_is_added);
    tcase_add_test(all, a_program_fails_while_it_runs_by_what_it_does_not_survive);
    suite_add_tcase(suite, all);
    return suite_run(suite);
}
