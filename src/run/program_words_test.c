#include "run/program_words.h"

#include <check.h>
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"

/* ---- failures that programs print ---- */

#define ADDRESS "  local address:  LID 0x0000, QPN 0x000011, PSN 0xe2efb8, GID "

static const struct {
    const char *output;
    weft_status status;
    const char *phase;
    int sys_errno, wc_status;
} failures[] = {
    {"", WEFT_OK, "", 0, 0},
    {"100 iters in 0.00 seconds = 2.00 usec/iter\n", WEFT_OK, "", 0, 0},
    {"something: Connection refused\n", WEFT_OK, "", 0, 0},
    /* rdma-core's ping-pongs */
    {"Failed to modify QP to RTR\nCouldn't connect to remote QP\n", WEFT_ERR_SYSTEM,
     "rtr", 0, 0},
    {ADDRESS "::\nFailed to modify QP to RTR\n", WEFT_ERR_SYSTEM, "rtr", ENODATA, 0},
    {ADDRESS "::\nclient read/write: No space left on device\n"
             "Couldn't read/write remote address\n",
     WEFT_ERR_SYSTEM, "rtr", ENODATA, 0},
    {ADDRESS "::\nCouldn't connect to iceberg:18515\n", WEFT_ERR_SYSTEM, "tcp", 0, 0},
    {ADDRESS "::\n1000 iters in 0.00 seconds = 2.00 usec/iter\n", WEFT_OK, "", 0, 0},
    {ADDRESS "::ffff:10.0.0.1\nFailed to modify QP to RTR\n", WEFT_ERR_SYSTEM, "rtr", 0,
     0},
    {"Failed to modify QP to RTS\n", WEFT_ERR_SYSTEM, "rts", 0, 0},
    {"Failed to modify QP to INIT\n", WEFT_ERR_SYSTEM, "init", 0, 0},
    {"Failed status Work Request Flushed Error (5) for wr_id 2\nparse WC failed 2\n",
     WEFT_ERR_COMPLETION, "data", 0, 5},
    {"Failed status transport retry counter exceeded (12) for wr_id 2\n",
     WEFT_ERR_COMPLETION, "data", 0, 12},
    {"can't read sgid of index 99999\n", WEFT_ERR_SYSTEM, "rtr", ENODATA, 0},
    {"Couldn't Open the XRC Domain 95\n", WEFT_ERR_SYSTEM, "create", EOPNOTSUPP, 0},
    {"IB device titanic-p7 not found\n", WEFT_ERR_ENVIRONMENT, "discover", 0, 0},
    {"IB device 'rxe0' wasn't found\n", WEFT_ERR_ENVIRONMENT, "discover", 0, 0},
    {"No IB devices found\n", WEFT_ERR_ENVIRONMENT, "discover", 0, 0},
    {"client read/write: No space left on device\nCouldn't read/write remote address\n",
     WEFT_ERR_CLOSED, "boot", 0, 0},
    {"Couldn't connect to iceberg:18515\n", WEFT_ERR_SYSTEM, "tcp", 0, 0},
    /* perftest */
    {" Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81\n",
     WEFT_ERR_COMPLETION, "data", 0, 12},
    {" Unable to find the Infiniband/RoCE device\n", WEFT_ERR_ENVIRONMENT, "discover", 0,
     0},
    {"Failed to modify QP 18 to RTR\n Unable to Connect the HCA's through the link\n",
     WEFT_ERR_SYSTEM, "rtr", 0, 0},
    {"Failed to modify QP 18 to RTS\n", WEFT_ERR_SYSTEM, "rts", 0, 0},
    {" Port number 1 state is Down\n Couldn't set the link layer\n Couldn't get context "
     "for the device\n",
     WEFT_ERR_SYSTEM, "init", ENETDOWN, 0},
    {" Gid index should be between 0 and 64\n Parser function exited with Error\n",
     WEFT_ERR_SYSTEM, "rtr", ENODATA, 0},
    {"\n Found Incompatibility issue with GID types.\n Please Try to use a different IP "
     "version.\n",
     WEFT_ERR_SYSTEM, "rtr", 0, 0},
    {"ethernet_read_keys: Couldn't read remote address\n Unable to read to "
     "socket/rdma_cm\n Failed to exchange data between server and clients\n",
     WEFT_ERR_CLOSED, "boot", 0, 0},
    /* librdmacm */
    {"cmatose: event: RDMA_CM_EVENT_ADDR_ERROR, error: -110\ntest complete\n",
     WEFT_ERR_SYSTEM, "rtr", ETIMEDOUT, 0},
    {"cma event RDMA_CM_EVENT_ADDR_ERROR, error -101\n", WEFT_ERR_SYSTEM, "rtr",
     ENETUNREACH, 0},
    {"event: RDMA_CM_EVENT_ROUTE_ERROR, error: -110\n", WEFT_ERR_TIMEOUT, "data", 0, 0},
    {"event: RDMA_CM_EVENT_UNREACHABLE, error: -110\n", WEFT_ERR_TIMEOUT, "data", 0, 0},
    {"cma event RDMA_CM_EVENT_REJECTED, error 8\nwait for CONNECTED state 10\n",
     WEFT_ERR_SYSTEM, "boot", ECONNREFUSED, 0},
    {"cma event RDMA_CM_EVENT_REJECTED, error 28\n", WEFT_OK, "", 0, 0},
    /* NCCL */
    {"a:1:9 [0] NCCL WARN NET/IB: Got completion from peer 10.0.0.2<4> with status=12 "
     "opcode=0 len=0 vendor err 129 (Send)\n",
     WEFT_ERR_COMPLETION, "data", 0, 12},
    {"a:1:9 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.2<4> with error 12, "
     "opcode 0, len 0, vendor err 129\n",
     WEFT_ERR_COMPLETION, "data", 0, 12},
    {"a:1:9 [0] NCCL WARN NET/IB: Got completion from peer 10.0.0.2<4> with "
     "status=IBV_WC_RETRY_EXC_ERR(12) opcode=IBV_WC_SEND(0) reqSize=0 vendor_err=129\n",
     WEFT_ERR_COMPLETION, "data", 0, 12},
    {"a:1:9 [0] NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on "
     "dev mlx5_0:1, curr state INIT, next state RTR, local GID index 3\n",
     WEFT_ERR_SYSTEM, "rtr", ETIMEDOUT, 0},
    {"a:1:9 [0] NCCL WARN Call to ibv_modify_qp failed with 22 Invalid argument, on dev "
     "mlx5_0:1, curr state RTR, next state RTS\n",
     WEFT_OK, "", 0, 0},
    {"a:1:9 [0] NCCL WARN NET/IB : Call to ibv_modify_qp failed with error Connection "
     "timed "
     "out\n",
     WEFT_ERR_SYSTEM, "rtr", ETIMEDOUT, 0},
    {"Call to ibv_modify_qp failed with error No route to host\n", WEFT_ERR_SYSTEM, "rtr",
     EHOSTUNREACH, 0},
    {"Call to ibv_modify_qp failed with error Network is unreachable\n", WEFT_ERR_SYSTEM,
     "rtr", ENETUNREACH, 0},
    {"Call to ibv_modify_qp failed with error Invalid argument\n", WEFT_OK, "", 0, 0},
    /* UCX; a line before, by which it names a variable, is none */
    {"[1767225603.1] [iceberg:81   :0]   ib_device.c:1466 UCX  ERROR   "
     "ibv_create_ah(dlid=49152 "
     "sl=0 port=1 src_path_bits=0 dgid=::ffff:192.168.101.1 sgid_index=1 "
     "traffic_class=106) for "
     "UD verbs connect on iceberg-p0 failed: Connection timed out\n",
     WEFT_ERR_SYSTEM, "rtr", ETIMEDOUT, 0},
    {"[x:78   :0:78] rc_verbs_iface.c:121  send completion with error: Work Request "
     "Flushed "
     "Error [qpn 0x16 wrid 0x4c9vendor_err 0x0]\n",
     WEFT_ERR_COMPLETION, "data", 0, 5},
    {"UCX  ERROR   ibv_create_ah(dlid=1) for x failed: What nobody knows\n", WEFT_OK, "",
     0, 0},
    {"[1.2] [iceberg:53   :0] perftest.c:405  UCX  ERROR client failed. connect() "
     "failed: "
     "Connection refused\n",
     WEFT_ERR_SYSTEM, "boot", ECONNREFUSED, 0},
    /* programs of users */
    {"Got completion with status 13\n", WEFT_ERR_COMPLETION, "data", 0, 13},
    {"rank 1: completion failed with error=10 at wr 7\n", WEFT_ERR_COMPLETION, "data", 0,
     10},
    {"wc: local length error\n", WEFT_ERR_COMPLETION, "data", 0, 1},
    {"wc: local QP operation error\n", WEFT_ERR_COMPLETION, "data", 0, 2},
    {"wc: local protection error\n", WEFT_ERR_COMPLETION, "data", 0, 4},
    {"wc: bad response error\n", WEFT_ERR_COMPLETION, "data", 0, 7},
    {"wc: local access error\n", WEFT_ERR_COMPLETION, "data", 0, 8},
    {"wc: remote invalid request error\n", WEFT_ERR_COMPLETION, "data", 0, 9},
    {"wc: remote access error\n", WEFT_ERR_COMPLETION, "data", 0, 10},
    {"wc: remote operation error\n", WEFT_ERR_COMPLETION, "data", 0, 11},
    {"poll: transport retry counter exceeded, exit\n", WEFT_ERR_COMPLETION, "data", 0,
     12},
    {"poll: RNR retry counter exceeded, exit\n", WEFT_ERR_COMPLETION, "data", 0, 13},
    {"Got completion with status 0\n", WEFT_OK, "", 0, 0},
    /* A cause before its consequence, wherever it is printed. */
    {"client read/write: Success\nFailed to modify QP to RTR\n", WEFT_ERR_SYSTEM, "rtr",
     0, 0},
    {"Couldn't connect to x:1\nFailed status x (12) for wr_id 1\n", WEFT_ERR_COMPLETION,
     "data", 0, 12},
    /* Patterns match whole lines, and numbers only if they can be an errno or a status. */
    {"note: Failed to modify QP to RTR\n", WEFT_OK, "", 0, 0},
    {"Failed status x (0) for wr_id 1\n", WEFT_OK, "", 0, 0},
    {"Failed status x (4096) for wr_id 1\n", WEFT_OK, "", 0, 0},
    {"Failed status x (99999999999999999999) for wr_id 1\n", WEFT_OK, "", 0, 0},
};

START_TEST(a_line_of_a_program_is_a_typed_failure)
{
    struct program_words words;

    program_words_read("x", failures[_i].output, &words);
    ck_assert_int_eq(words.error.status, failures[_i].status);
    ck_assert_str_eq(weft_phase_name(words.error.phase), failures[_i].phase);
    ck_assert_int_eq(words.error.sys_errno, failures[_i].sys_errno);
    ck_assert_int_eq(words.error.wc_status, failures[_i].wc_status);
}
END_TEST

/* ---- GIDs and flags ---- */

static const struct {
    const char *command, *output;
    int gid_index, path_mtu;
    const char *local_gid, *remote_gid;
} ends[] = {
    {"ibv_rc_pingpong -g 1 -d titanic-p0", "", 1, 1024, "", ""},
    {"/usr/bin/ibv_uc_pingpong -e -g1 -m 4096 host", "", 1, 4096, "", ""},
    {"timeout 3 ibv_srq_pingpong -m 256", "", PROGRAM_NO_INDEX, 256, "", ""},
    {"ibv_rc_pingpong", "", PROGRAM_NO_INDEX, 1024, "", ""},
    {"ibv_rc_pingpong -eg1 -em 2048", "", 1, 2048, "", ""},
    {"ibv_rc_pingpong --gid-idx=3 --mtu=4096 host", "", 3, 4096, "", ""},
    {"ibv_rc_pingpong --gid-idx 3 --mtu 4096 host", "", 3, 4096, "", ""},
    {"ibv_rc_pingpong --mtuu=4096 --gid=1", "", PROGRAM_NO_INDEX, 1024, "", ""},
    {"ibv_rc_pingpong -m 4096 -s 64", "", PROGRAM_NO_INDEX, 64, "", ""},
    {"ibv_rc_pingpong -m 4096 --size=64", "", PROGRAM_NO_INDEX, 64, "", ""},
    {"ibv_rc_pingpong -m 4096 -s 8192", "", PROGRAM_NO_INDEX, 4096, "", ""},
    {"ibv_xsrq_pingpong -m 4096", "", PROGRAM_NO_INDEX, 4096, "", ""},
    {"ibv_rc_pingpong -d titanic-m0 titanic-g5", "", PROGRAM_NO_INDEX, 1024, "", ""},
    {"ibv_rc_pingpong -d x-m4096 -g", "", PROGRAM_NO_INDEX, 1024, "", ""},
    {"ibv_rc_pingpong -g 1; ./x -g 2 -m 4096", "", 1, 1024, "", ""},
    {"./x -g 2 -m 4096 && ibv_rc_pingpong -g 1 | tee y -m 256", "", 1, 1024, "", ""},
    {"ibv_rc_pingpong -g one -m 99999999999", "", PROGRAM_NO_INDEX, 1024, "", ""},
    {"ibv_ud_pingpong -m 4096", "", PROGRAM_NO_INDEX, 2048, "", ""},
    {"ibv_ud_pingpong -s 512 -g 2", "", 2, 512, "", ""},
    {"ib_write_bw -d x -x 3 -m 2048 --report_gbits", "", 3, 2048, "", ""},
    {"ib_send_bw --gid-index=3 --mtu=4096 -s 64", "", 3, 64, "", ""},
    {"ib_send_bw -x 3 -m 4096 -s 64 -a", "", 3, 4096, "", ""},
    {"ib_send_bw -m 4096 -s 8K", "", PROGRAM_NO_INDEX, 4096, "", ""},
    {"ib_send_lat -m 4096", "", PROGRAM_NO_INDEX, 2, "", ""},
    {"ib_send_lat -d x", "", PROGRAM_NO_INDEX, 0, "", ""},
    {"ib_write_bw -g 1", "", PROGRAM_NO_INDEX, 0, "", ""},
    {"ib_write_bw -x 1", " Mtu             : 4096[B]\n", 1, 4096, "", ""},
    {"ib_write_lat -x 1 -m 2048", " Mtu             : 1024[B]\n", 1, 2, "", ""},
    {"ib_send_bw -x 1 -m 2048 -a", " Mtu             : 1024[B]\n", 1, 1024, "", ""},
    {"ibv_rc_pingpong -g 1", " Mtu             : 4096[B]\n GID index       : 3\n", 1,
     1024, "", ""},
    {"ib_write_bw", " GID index       : 3\n", 3, 0, "", ""},
    {"./mine -g 1 -m 4096", "", PROGRAM_NO_INDEX, 0, "", ""},
    {"ibv_devinfo -g 1", "", PROGRAM_NO_INDEX, 0, "", ""},
    {"ibv_pingpong", "", PROGRAM_NO_INDEX, 0, "", ""},
    {"", "", PROGRAM_NO_INDEX, 0, "", ""},
    {"x",
     "  local address:  LID 0x0000, QPN 0x000011, PSN 0x29c282, GID ::ffff:10.0.0.1\n"
     "  remote address: LID 0x0000, QPN 0x000012, PSN 0x8b94f1, GID fe80::1\n",
     PROGRAM_NO_INDEX, 0, "::ffff:10.0.0.1", "fe80::1"},
    {"x", "  local address:  LID 0x0000, QPN 0x000011, PSN 0x29c282: GID \n",
     PROGRAM_NO_INDEX, 0, "", ""},
    {"x", "  local address:  GID ::::::\n", PROGRAM_NO_INDEX, 0, "", ""},
    {"rping -s -a 10.0.1.1 -C 5", "", PROGRAM_NO_INDEX, 0, "10.0.1.1", ""},
    {"rping -s", "", PROGRAM_NO_INDEX, 0, "", ""},
    {"rping -cVa 10.0.1.1", "", PROGRAM_NO_INDEX, 0, "", "10.0.1.1"},
    {"rping -c -a10.0.1.1 -p 5", "", PROGRAM_NO_INDEX, 0, "", "10.0.1.1"},
    {"rping -c -a titanic", "", PROGRAM_NO_INDEX, 0, "", ""},
    {"/usr/bin/ucmatose -b fd07::2 -s fd07::1", "", PROGRAM_NO_INDEX, 0, "fd07::2",
     "fd07::1"},
    {"udaddy -b 10.0.1.1", "", PROGRAM_NO_INDEX, 0, "10.0.1.1", ""},
    {"rping -c -a 10.0.1.1; rping -c -a 10.0.2.1", "", PROGRAM_NO_INDEX, 0, "", ""},
    {"rpingx -c -a 10.0.1.1", "", PROGRAM_NO_INDEX, 0, "", ""},
};

START_TEST(command_and_output_name_the_ends)
{
    struct program_words words;

    program_words_read(ends[_i].command, ends[_i].output, &words);
    ck_assert_int_eq(words.gid_index, ends[_i].gid_index);
    ck_assert_int_eq(words.path_mtu, ends[_i].path_mtu);
    ck_assert_str_eq(words.local_gid, ends[_i].local_gid);
    ck_assert_str_eq(words.remote_gid, ends[_i].remote_gid);
}
END_TEST

/* A launcher prints what processes at other hosts write. */
START_TEST(a_line_names_the_process_that_failed)
{
    static const struct {
        const char *output, *host, *device, *remote_gid;
        int gid_index;
    } cases[] = {
        {"[17.1] [iceberg:81   :0]  ib_device.c:1466 UCX  ERROR   "
         "ibv_create_ah(dlid=49152 sl=0 "
         "dgid=::ffff:10.0.0.1 sgid_index=1 traffic_class=106) for UD verbs connect on "
         "iceberg-p0 "
         "failed: Connection timed out\n",
         "iceberg", "iceberg-p0", "::ffff:10.0.0.1", 1},
        {"[titanic:78   :0:78] rc_verbs_iface.c:121  send completion with error: Work "
         "Request "
         "Flushed Error [qpn 0x16 wrid 0x4]\n[titanic:78   :0:78] rc_verbs_iface.c:121  "
         "[rqpn "
         "0x16 dlid=0 dgid=::ffff:10.0.0.2 sgid_index=3 traffic_class=106]\n",
         "titanic", "", "::ffff:10.0.0.2", 3},
        {"[titanic:78   :0] x.c:1 UCX  WARN  unused env variable\n", "", "", "",
         PROGRAM_NO_INDEX},
        {"completion with error\n", "", "", "", PROGRAM_NO_INDEX},
    };
    struct program_words words;

    for (size_t i = 0; i < WEFT_LENGTH(cases); i++) {
        program_words_read("mpirun ./x", cases[i].output, &words);
        ck_assert_str_eq(words.host, cases[i].host);
        ck_assert_str_eq(words.device, cases[i].device);
        ck_assert_str_eq(words.remote_gid, cases[i].remote_gid);
        ck_assert_int_eq(words.gid_index, cases[i].gid_index);
    }
}
END_TEST

START_TEST(a_command_has_a_limit_of_its_own)
{
    static const struct {
        const char *command;
        bool is_timed;
    } cases[] = {
        {"timeout 3 ibv_rc_pingpong", true}, {"/usr/bin/timeout 3 ./mine", true},
        {"timeout -s KILL 3 ./mine", true},  {"./mine timeout.c", false},
        {"ibv_rc_pingpong timeout", false}, /* a host name */
        {"ibv_rc_pingpong", false},          {"", false},
    };
    struct program_words words;

    for (size_t i = 0; i < WEFT_LENGTH(cases); i++) {
        program_words_read(cases[i].command, "", &words);
        ck_assert_msg(words.is_timed == cases[i].is_timed, "%s", cases[i].command);
    }
}
END_TEST

/* Without the name of a host it is a server, and one that has a client has its GID. */
START_TEST(a_server_is_known_by_its_command)
{
    static const struct {
        const char *command;
        bool waits;
    } cases[] = {
        {"ibv_rc_pingpong", true},
        {"timeout 3 /usr/bin/ibv_rc_pingpong -g 1 -d titanic-p0 -e -n 1000", true},
        {"ibv_rc_pingpong -eg 1 -em2048 --size=64", true},
        {"ib_write_bw -d x -x 3 -m 2048 --report_gbits", true},
        {"ibv_rc_pingpong -g 1 iceberg", false},
        {"ibv_rc_pingpong -g1 iceberg", false},
        {"ibv_rc_pingpong -e iceberg", false},
        {"ibv_rc_pingpong --events iceberg", false},
        /* may be the name of a host */
        {"ibv_rc_pingpong --gid-idx 3", false},
        {"ib_write_bw -a iceberg", false},
        {"ibv_rc_pingpong -g 1 > log", false},
        /* the other one may be it that hangs */
        {"./mine; ibv_rc_pingpong -g 1", false},
        {"ibv_rc_pingpong -g 1; ./mine", false},
        {"ibv_rc_pingpong -g 1 &\n./mine", false},
        {"./mine -g 1", false},
        {"", false},
    };
    struct program_words words;

    for (size_t i = 0; i < WEFT_LENGTH(cases); i++) {
        program_words_read(cases[i].command, "", &words);
        ck_assert_msg(words.waits_for_client == cases[i].waits, "%s", cases[i].command);
    }
    program_words_read(
        "ibv_rc_pingpong -g 1",
        "  remote address: LID 0x0000, QPN 0x000012, GID ::ffff:10.0.0.1\n", &words);
    ck_assert(!words.waits_for_client);
}
END_TEST

START_TEST(a_device_is_named_whole)
{
    static const struct {
        const char *text, *word;
        bool has;
    } cases[] = {
        {"x -d a-p0 y", "a-p0", true},
        {"a-p0", "a-p0", true},
        {"--dev=a-p0,b", "a-p0", true},
        {"'a-p0'", "a-p0", true},
        {"a-p0:1", "a-p0", true},
        {"a-p01", "a-p0", false},
        {"aa-p0", "a-p0", false},
        {"a-p0.1", "a-p0", false},
        {"a-p01 a-p0", "a-p0", true},
        {"", "a-p0", false},
        {"x", "", false},
    };

    for (size_t i = 0; i < WEFT_LENGTH(cases); i++) {
        ck_assert_msg(program_words_have(cases[i].text, cases[i].word) == cases[i].has,
                      "%s", cases[i].text);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("run/program_words");
    TCase *tcase = tcase_create("program_words");

    tcase_add_loop_test(tcase, a_line_of_a_program_is_a_typed_failure, 0,
                        (int)WEFT_LENGTH(failures));
    tcase_add_loop_test(tcase, command_and_output_name_the_ends, 0,
                        (int)WEFT_LENGTH(ends));
    tcase_add_test(tcase, a_line_names_the_process_that_failed);
    tcase_add_test(tcase, a_command_has_a_limit_of_its_own);
    tcase_add_test(tcase, a_server_is_known_by_its_command);
    tcase_add_test(tcase, a_device_is_named_whole);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
