/* Tests failures of connections and violations of the protocol by the peer. Each ends in a typed
 * error, and no verbs object is left. */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "xfer/fabric_testing.h"
#include "xfer/wire.h"

static struct fabric fabric;
static struct fabric_link *pair;
static struct fabric_memory from, to;

#define ROOM (1u << 20)

static void open_pair(uint32_t n_rails)
{
    fabric_open(&fabric, &(struct fabric_config){
                             .n_hosts = 2, .one_way = true, .n_rails = n_rails});
    pair = &fabric.links[0][1];
    fabric_memory_open(&fabric, 0, pair->out, ROOM, &from);
    fabric_memory_open(&fabric, 1, pair->in, ROOM, &to);
}

static void close_pair(void)
{
    fabric_memory_close(&fabric, 0, pair->out, &from);
    fabric_memory_close(&fabric, 1, pair->in, &to);
    fabric_close(&fabric);
}

static weft_status try_receive(size_t size, struct xfer_request **out)
{
    const struct xfer_memory *memory = &to.registered;
    uint32_t tag = 1;
    void *data = to.bytes;

    return xfer_irecv(pair->in, 1, &data, &size, &tag, &memory, NULL, out);
}

static weft_status try_send(size_t size, struct xfer_request **out)
{
    return fabric_isend(pair->out, from.bytes, size, 1, &from.registered, out);
}

static void grant(size_t size, struct xfer_request **out)
{
    ck_assert_int_eq(try_receive(size, out), WEFT_OK);
    fabric_run(&fabric, FABRIC_MS);
}

/* Checks that an error has the values that a diagnosis needs. */
static void check_values(const struct weft_error *error)
{
    static const enum weft_value_name names[] = {
        WEFT_VALUE_PEER,       WEFT_VALUE_RAIL,       WEFT_VALUE_QP,
        WEFT_VALUE_LOCAL_PORT, WEFT_VALUE_LOCAL_GID,  WEFT_VALUE_REMOTE_GID,
        WEFT_VALUE_PATH_MTU,   WEFT_VALUE_REMOTE_QPN,
    };

    ck_assert_str_eq(weft_phase_name(error->phase), "data");
    ck_assert_str_ne(error->object, "");
    for (size_t i = 0; i < WEFT_LENGTH(names); i++) {
        ck_assert_msg(weft_error_value(error, names[i]) != NULL, "no %s",
                      weft_value_name(names[i]));
    }
    ck_assert_int_eq(weft_error_value(error, WEFT_VALUE_PATH_MTU)->number, 4096);
}

static void check_completion(const struct xfer *xfer, int wc_status, const char *work)
{
    const struct weft_error *error = xfer_error(xfer);

    ck_assert_msg(error->status == WEFT_ERR_COMPLETION && error->wc_status == wc_status,
                  "%s wc %d: %s", weft_status_name(error->status), error->wc_status,
                  error->message);
    check_values(error);
    ck_assert_str_eq(weft_error_value(error, WEFT_VALUE_WORK)->text, work);
    ck_assert_ptr_nonnull(weft_error_value(error, WEFT_VALUE_VENDOR_ERR));
    ck_assert_ptr_nonnull(weft_error_value(error, WEFT_VALUE_BYTES_SENT));
}

/* Checks that every call on a transfer that has failed returns its error. */
static void check_dead(struct xfer *xfer, struct xfer_request *request)
{
    weft_status status = xfer_error(xfer)->status;
    struct xfer_request *none;

    ck_assert_int_lt(status, 0);
    ck_assert_int_eq(xfer_progress(xfer), status);
    ck_assert_int_eq(xfer_test(xfer, request, NULL), status);
    ck_assert_int_eq(xfer_iflush(xfer, NULL, 1, NULL, &none), status);
    if (xfer == pair->out) {
        ck_assert_int_eq(try_send(10, &none), status);
    } else {
        ck_assert_int_eq(try_receive(10, &none), status);
    }
    ck_assert_ptr_null(none);
}

/* ---- failures ---- */

START_TEST(the_peers_queue_pair_dies)
{
    struct xfer_request *receiving, *sending;
    struct rdma_qp *qp;

    open_pair(1);
    grant(100000, &receiving);
    qp = &pair->receiver->qps[1];
    rdma_qp_to_error(qp);
    while (rdma_qp_progress(qp, NULL) == WEFT_AGAIN) {
        ck_assert(fabric_step(&fabric, fabric_now(&fabric) + FABRIC_S));
    }
    ck_assert_int_eq(try_send(100000, &sending), WEFT_OK);
    fabric_run(&fabric, 5 * FABRIC_S);
    check_completion(pair->out, IBV_WC_RETRY_EXC_ERR, "data");
    check_completion(pair->in, IBV_WC_WR_FLUSH_ERR, "receive");
    check_dead(pair->out, sending);
    check_dead(pair->in, receiving);
    close_pair();
}
END_TEST

START_TEST(the_sent_memory_is_not_registered)
{
    struct xfer_request *receiving, *sending;

    open_pair(1);
    grant(1000, &receiving);
    from.registered.mrs[0].lkey ^= 0x5a5a00;
    ck_assert_int_eq(try_send(1000, &sending), WEFT_OK);
    fabric_run(&fabric, 5 * FABRIC_S);
    check_completion(pair->out, IBV_WC_LOC_PROT_ERR, "data");
    check_dead(pair->out, sending);
    from.registered.mrs[0].lkey ^= 0x5a5a00;
    close_pair();
}
END_TEST

START_TEST(the_posted_memory_is_gone)
{
    struct xfer_request *receiving, *sending;

    open_pair(1);
    to.registered.mrs[0].rkey ^= 0x5a5a00;
    grant(1000, &receiving);
    to.registered.mrs[0].rkey ^= 0x5a5a00;
    ck_assert_int_eq(try_send(1000, &sending), WEFT_OK);
    fabric_run(&fabric, 5 * FABRIC_S);
    check_completion(pair->out, IBV_WC_REM_ACCESS_ERR, "data");
    ck_assert_int_eq(xfer_error(pair->in)->status, WEFT_ERR_COMPLETION);
    check_dead(pair->out, sending);
    check_dead(pair->in, receiving);
    close_pair();
}
END_TEST

/* One of two cables goes down. Each end fails by a work request on that rail. */
START_TEST(a_cable_is_cut)
{
    struct xfer_request *receiving, *sending;
    struct world_fault fault = {.kind = WORLD_FAULT_DOWN, .host = 0, .has_port = true};

    open_pair(2);
    grant(200000, &receiving);
    ck_assert_int_eq(fabric.world->ops->inject(fabric.world, &fault), 0);
    ck_assert_int_eq(try_send(200000, &sending), WEFT_OK);
    /* The receiver's next clear-to-send is sent over the same cable. */
    ck_assert_int_eq(try_receive(10, &receiving), WEFT_OK);
    fabric_run(&fabric, 10 * FABRIC_S);
    check_completion(pair->out, IBV_WC_RETRY_EXC_ERR, "data");
    check_completion(pair->in, IBV_WC_RETRY_EXC_ERR, "clear_to_send");
    ck_assert_int_eq(weft_error_value(xfer_error(pair->out), WEFT_VALUE_RAIL)->number, 0);
    check_dead(pair->out, sending);
    check_dead(pair->in, receiving);
    close_pair();
}
END_TEST

static void refuse_post_of(uint32_t host)
{
    struct world_fault fault = {.kind = WORLD_FAULT_VERB_ERROR,
                                .host = host,
                                .call = WORLD_CALL_POST_SEND,
                                .nth = 1,
                                .error = ENOMEM};

    ck_assert_int_eq(fabric.world->ops->inject(fabric.world, &fault), 0);
}

static void check_refused(struct xfer *failed, struct xfer_request *request)
{
    ck_assert_int_eq(xfer_error(failed)->sys_errno, ENOMEM);
    check_values(xfer_error(failed));
    check_dead(failed, request);
}

START_TEST(a_post_of_data_is_refused)
{
    struct xfer_request *receiving = NULL, *sending = NULL;

    open_pair(1);
    grant(1000, &receiving);
    refuse_post_of(0);
    ck_assert_int_eq(try_send(1000, &sending), WEFT_ERR_SYSTEM);
    check_refused(pair->out, sending);
    close_pair();
}
END_TEST

START_TEST(a_post_of_a_clear_to_send_is_refused)
{
    struct xfer_request *receiving = NULL;

    open_pair(1);
    refuse_post_of(1);
    ck_assert_int_eq(try_receive(1000, &receiving), WEFT_ERR_SYSTEM);
    check_refused(pair->in, receiving);
    close_pair();
}
END_TEST

/* The device refuses post_recv. The transfer fails after the number of messages at which receives
 * are first posted again. */
START_TEST(a_receive_is_refused)
{
    struct world_fault fault = {.kind = WORLD_FAULT_VERB_ERROR,
                                .host = 1,
                                .call = WORLD_CALL_POST_RECV,
                                .nth = 1,
                                .error = EIO};
    struct xfer_request *receiving, *sending;
    weft_status status = WEFT_OK;

    open_pair(1);
    ck_assert_int_eq(fabric.world->ops->inject(fabric.world, &fault), 0);
    for (int i = 0; i < 64 && status == WEFT_OK; i++) {
        grant(10, &receiving);
        ck_assert_int_eq(try_send(10, &sending), WEFT_OK);
        fabric_run(&fabric, FABRIC_MS);
        status = xfer_error(pair->in)->status;
        if (status == WEFT_OK) {
            ck_assert_int_eq(xfer_test(pair->in, receiving, NULL), WEFT_OK);
            ck_assert_int_eq(xfer_test(pair->out, sending, NULL), WEFT_OK);
        }
    }
    ck_assert_int_eq(status, WEFT_ERR_SYSTEM);
    ck_assert_int_eq(xfer_error(pair->in)->sys_errno, EIO);
    close_pair();
}
END_TEST

/* ---- violations by the peer ---- */

/* An immediate that no transfer would send. */
struct forgery {
    bool to_sender;      /* sent by the acceptor; false: by the connector */
    bool from_second;    /* sent on QP 1; false: on QP 0 */
    uint32_t bits;       /* the immediate, in host order */
    const char *message; /* message of the resulting error */
};

#define DATA(slot, index, n_parts, n_full, sequence)                                     \
    (1u << 30 | (slot) << 25 | (index) << 22 | ((n_parts)-1u) << 18 | (n_full) << 10 |   \
     (sequence))
#define CTS(slot, n, group) (2u << 30 | (slot) << 25 | ((n)-1u) << 22 | (group))

/* Forged immediates. One receive of 1000 bytes is posted, in slot 0. */
static const struct forgery forgeries[] = {
    {false, false, 0, "immediate 0 means nothing here"},
    {false, false, 0xc0000000, "immediate 0xc0000000 means nothing here"},
    {true, false, DATA(0u, 0u, 1u, 0u, 0u), "immediate 0x40000000 means nothing here"},
    {false, false, CTS(0u, 1u, 0u), "a clear-to-send came where none may"},
    {true, true, CTS(1u, 1u, 1u), "a clear-to-send came where none may"},
    {false, false, DATA(0u, 0u, 1u, 0u, 1u),
     "immediate 1 of this queue pair instead of 0"},
    {false, false, DATA(1u, 0u, 1u, 0u, 0u),
     "data for slot 1, buffer 0, which is not posted"},
    {false, false, DATA(0u, 1u, 1u, 0u, 0u),
     "data for slot 0, buffer 1, which is not posted"},
    {false, false, DATA(0u, 0u, 3u, 0u, 0u),
     "slot 0, buffer 0: part of 0 bytes of 3, buffer of 1000"},
    {false, false, DATA(0u, 0u, 1u, 1u, 0u),
     "slot 0, buffer 0: part of 1073741824 bytes of 1, buffer of 1000"},
    {true, false, CTS(2u, 1u, 1u),
     "clear-to-send of group 1 in slot 2 instead of group 1"},
    {true, false, CTS(0u, 1u, 0u),
     "clear-to-send of group 0 in slot 0 instead of group 1"},
    {true, false, CTS(2u, 1u, 2u),
     "clear-to-send of group 2 in slot 2 instead of group 1"},
    {true, false, CTS(1u, 1u, 1u),
     "entry 0 of group 1 is not the one announced (group 0, 0 of 0)"},
};

/* Posts an empty WRITE_WITH_IMM without the transfer. */
static void forge(const struct conn *conn, uint32_t q, uint32_t bits)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                             .imm_data = xfer_network_order(bits)};
    struct ibv_send_wr *bad;
    struct io_device *device = conn->rails[0].port->device;

    ck_assert_int_eq(device->ops->post_send(conn->qps[q].qp, &wr, &bad), 0);
}

START_TEST(forged_immediates_are_protocol_errors)
{
    const struct forgery *forgery = &forgeries[_i];
    struct xfer *victim;
    struct xfer_request *receiving;

    open_pair(1);
    grant(1000, &receiving);
    forge(forgery->to_sender ? pair->receiver : pair->sender, forgery->from_second,
          forgery->bits);
    fabric_run(&fabric, FABRIC_MS);
    victim = forgery->to_sender ? pair->out : pair->in;
    ck_assert_int_eq(xfer_error(victim)->status, WEFT_ERR_PROTOCOL);
    ck_assert_str_eq(xfer_error(victim)->message, forgery->message);
    check_values(xfer_error(victim));
    close_pair();
}
END_TEST

/* Two parts of one message arrive on one QP, or two parts disagree on the number of parts. */
START_TEST(parts_that_contradict_each_other)
{
    const struct {
        uint32_t qp;
        uint32_t immediate;
        const char *message;
    } rows[] = {{0, DATA(0u, 0u, 2u, 0u, 1u), "slot 0, buffer 0: this part came before"},
                {1, DATA(0u, 0u, 1u, 0u, 0u), "slot 0, buffer 0: 2 parts, then 1"}};
    struct xfer_request *receiving;

    open_pair(1);
    grant(1000, &receiving);
    forge(pair->sender, 0, DATA(0u, 0u, 2u, 0u, 0u));
    forge(pair->sender, rows[_i].qp, rows[_i].immediate);
    fabric_run(&fabric, FABRIC_MS);
    ck_assert_int_eq(xfer_error(pair->in)->status, WEFT_ERR_PROTOCOL);
    ck_assert_str_eq(xfer_error(pair->in)->message, rows[_i].message);
    close_pair();
}
END_TEST

static void leave(struct fabric *of, struct conn *conn)
{
    (void)of;
    (void)conn;
}

/* A message arrives on the second rail, and the first one brings the report that the second is
 * stopped, or something else that a connection which ends can do nothing with. The message counts,
 * because the sender has its acknowledgement. */
START_TEST(what_arrived_counts_while_a_connection_drains)
{
    const uint32_t others[] = {
        xfer_imm_encode(&(struct xfer_imm){.kind = XFER_IMM_RAIL, .qp = 1}), 0};
    struct xfer_request *receiving;
    weft_ns deadline;

    open_pair(2);
    grant(1000, &receiving);
    fabric.config.on_conn = leave; /* only the drain polls */
    forge(pair->sender, 0, others[_i]);
    forge(pair->sender, 1, DATA(0u, 0u, 1u, 0u, 0u));
    deadline = fabric_now(&fabric) + FABRIC_S;
    while (xfer_drain(pair->in, deadline) == WEFT_AGAIN) {
        ck_assert(fabric_step(&fabric, deadline));
    }
    ck_assert_int_eq(xfer_test(pair->in, receiving, NULL), WEFT_OK);
    ck_assert_int_eq(xfer_error(pair->in)->status,
                     (_i == 0 ? WEFT_OK : WEFT_ERR_PROTOCOL));
    fabric.config.on_conn = NULL;
    close_pair();
}
END_TEST

static int fail_submit(struct io_device *device, struct io_op *op)
{
    (void)device;
    (void)op;
    return EIO;
}

/* The receiver's device is lost while a message is under way. The message arrives before the device
 * flushes, and counts, because the sender has its acknowledgement. The drain ends when the device
 * has flushed, although nothing can be posted on it. */
START_TEST(what_arrives_before_a_lost_device_flushes_counts)
{
    struct xfer_request *receiving;
    struct io_device *device;
    const struct io_device_ops *real;
    struct io_device_ops lost;
    struct io_op to_error = {.kind = IO_OP_MODIFY_QP};
    weft_ns deadline;

    open_pair(1);
    grant(1000, &receiving);
    fabric.config.on_conn = leave; /* only the drain polls */
    device = pair->receiver->rails[0].port->device;
    real = device->ops;
    lost = *real;
    lost.submit = fail_submit;
    device->ops = &lost;
    rdma_lose_device(pair->receiver->rdma, pair->receiver->rails[0].port->device_index);
    forge(pair->sender, 0, DATA(0u, 0u, 1u, 0u, 0u));
    deadline = fabric_now(&fabric) + FABRIC_S;
    ck_assert_int_eq(xfer_drain(pair->in, deadline), WEFT_AGAIN);
    fabric_run(&fabric, FABRIC_MS);
    for (uint32_t q = 0; q < pair->receiver->n_qps; q++) {
        to_error.arg.modify_qp.qp = pair->receiver->qps[q].qp;
        to_error.arg.modify_qp.attr.qp_state = IBV_QPS_ERR;
        to_error.arg.modify_qp.mask = IBV_QP_STATE;
        ck_assert_int_eq(real->submit(device, &to_error), 0);
        fabric_run(&fabric, FABRIC_MS);
    }
    ck_assert_int_eq(xfer_drain(pair->in, deadline), WEFT_OK);
    ck_assert_int_eq(xfer_test(pair->in, receiving, NULL), WEFT_OK);
    device->ops = real;
    fabric.config.on_conn = NULL;
    close_pair();
}
END_TEST

/* WRITEs `n_bytes` to the posted buffer as one of two parts, without the transfer. */
static void forge_part(uint32_t q, uint32_t n_bytes)
{
    const struct conn *conn = pair->sender;
    struct ibv_sge sge = {(uintptr_t)from.bytes, n_bytes, from.registered.mrs[0].lkey};
    struct ibv_send_wr *bad,
        wr = {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
              .imm_data = xfer_network_order(DATA(0u, 0u, 2u, 0u, 0u)),
              .sg_list = &sge,
              .num_sge = 1};

    wr.wr.rdma.remote_addr = (uintptr_t)to.bytes;
    wr.wr.rdma.rkey = to.registered.mrs[0].rkey;
    ck_assert_int_eq(
        conn->rails[0].port->device->ops->post_send(conn->qps[q].qp, &wr, &bad), 0);
}

/* Each of two parts fits in the buffer, but both together do not always. */
START_TEST(parts_are_no_more_than_the_buffer)
{
    static const uint32_t firsts[] = {400, 401, 600, 1000, 0};
    bool fits = firsts[_i] <= 400;
    struct xfer_request *receiving;

    open_pair(1);
    grant(1000, &receiving);
    forge_part(0, firsts[_i]);
    fabric_run(&fabric, FABRIC_MS);
    forge_part(1, 600);
    fabric_run(&fabric, FABRIC_MS);
    if (fits) {
        size_t size = 0;

        ck_assert_int_eq(xfer_test(pair->in, receiving, &size), WEFT_OK);
        ck_assert_uint_eq(size, firsts[_i] + 600);
    } else {
        ck_assert_int_eq(xfer_error(pair->in)->status, WEFT_ERR_PROTOCOL);
        ck_assert_str_eq(xfer_error(pair->in)->message,
                         "slot 0, buffer 0: part of 600 bytes of 2, buffer of 1000");
    }
    close_pair();
}
END_TEST

/* The ring has XFER_SLOTS groups. Another one may arrive only when the oldest is matched. */
START_TEST(a_clear_to_send_too_many_is_a_protocol_error)
{
    struct xfer_request *receiving[XFER_SLOTS];

    open_pair(1);
    for (uint32_t i = 0; i < XFER_SLOTS; i++) {
        grant(1000, &receiving[i]);
    }
    forge(pair->receiver, 0, CTS(0u, 1u, 32u));
    fabric_run(&fabric, FABRIC_MS);
    ck_assert_int_eq(xfer_error(pair->out)->status, WEFT_ERR_PROTOCOL);
    ck_assert_str_eq(xfer_error(pair->out)->message,
                     "clear-to-send of group 32, but 0 is not used up");
    close_pair();
}
END_TEST

/* A SEND consumes a receive, but the protocol has none. */
START_TEST(a_send_is_not_a_message)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;
    struct xfer_request *receiving;

    open_pair(1);
    grant(1000, &receiving);
    ck_assert_int_eq(pair->sender->rails[0].port->device->ops->post_send(
                         pair->sender->qps[0].qp, &wr, &bad),
                     0);
    fabric_run(&fabric, FABRIC_MS);
    ck_assert_int_eq(xfer_error(pair->in)->status, WEFT_ERR_PROTOCOL);
    ck_assert_str_eq(xfer_error(pair->in)->message,
                     "a message that is not a WRITE with an immediate");
    close_pair();
}
END_TEST

/* ---- limits of open and post ---- */

START_TEST(too_little_room_is_refused_at_open)
{
    struct weft_error error = {0};
    struct xfer *xfer;
    struct conn *conn;

    open_pair(1);
    conn = pair->sender;
    conn->config.window_bytes -= 1;
    ck_assert_int_eq(xfer_open(conn, &xfer, &error), WEFT_ERR_LIMIT);
    ck_assert_str_eq(error.message, "window of 16447 bytes, 16448 needed");
    ck_assert_ptr_null(xfer);
    conn->config.window_bytes += 1;
    conn->recv_posted = 1;
    ck_assert_int_eq(xfer_open(conn, &xfer, NULL), WEFT_ERR_LIMIT);
    conn->recv_posted = 256;
    conn->config.send_wr_max = 1;
    ck_assert_int_eq(xfer_open(conn, &xfer, NULL), WEFT_ERR_LIMIT);
    conn->config.send_wr_max = 512;
    conn = pair->receiver;
    conn->peer_window_bytes -= 1;
    weft_error_clear(&error);
    ck_assert_int_eq(xfer_open(conn, &xfer, &error), WEFT_ERR_LIMIT);
    ck_assert_str_eq(error.message, "the peer's window has 16447 bytes, 16448 needed");
    conn->peer_window_bytes += 1;
    close_pair();
}
END_TEST

START_TEST(a_buffer_over_a_gibibyte_is_refused)
{
    struct xfer_request *request;

    open_pair(1);
    ck_assert_int_eq(try_receive((UINT64_C(1) << 30) + 1, &request), WEFT_ERR_LIMIT);
    ck_assert_int_eq(xfer_isend(pair->out, &(struct xfer_cts){0}, from.bytes,
                                (UINT64_C(1) << 30) + 1, &from.registered, &request),
                     WEFT_ERR_LIMIT);
    close_pair();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("xfer/failure");
    TCase *tcase = tcase_create("failure");

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, the_peers_queue_pair_dies);
    tcase_add_test(tcase, the_sent_memory_is_not_registered);
    tcase_add_test(tcase, the_posted_memory_is_gone);
    tcase_add_test(tcase, a_cable_is_cut);
    tcase_add_test(tcase, a_post_of_data_is_refused);
    tcase_add_test(tcase, a_post_of_a_clear_to_send_is_refused);
    tcase_add_test(tcase, a_receive_is_refused);
    tcase_add_loop_test(tcase, forged_immediates_are_protocol_errors, 0,
                        (int)WEFT_LENGTH(forgeries));
    tcase_add_loop_test(tcase, what_arrived_counts_while_a_connection_drains, 0, 2);
    tcase_add_test(tcase, what_arrives_before_a_lost_device_flushes_counts);
    tcase_add_loop_test(tcase, parts_that_contradict_each_other, 0, 2);
    tcase_add_loop_test(tcase, parts_are_no_more_than_the_buffer, 0, 5);
    tcase_add_test(tcase, a_clear_to_send_too_many_is_a_protocol_error);
    tcase_add_test(tcase, a_send_is_not_a_message);
    tcase_add_test(tcase, too_little_room_is_refused_at_open);
    tcase_add_test(tcase, a_buffer_over_a_gibibyte_is_refused);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
