/* Tests failures of the fabric and of devices. Both ends must fail with a typed error by their
 * deadlines and free everything, and the next connection must come up. */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "conn/conn_testing.h"
#include "conn/private.h"

static const char *text_of(const struct conn *conn, enum weft_value_name name)
{
    const struct weft_value *value = weft_error_value(&conn->error, name);

    ck_assert_msg(value != NULL, "no value %s in: %s: %s", weft_value_name(name),
                  weft_phase_name(conn->error.phase), conn->error.message);
    return value->text;
}

static int64_t int_of(const struct conn *conn, enum weft_value_name name)
{
    const struct weft_value *value = weft_error_value(&conn->error, name);

    ck_assert_msg(value != NULL, "no value %s in: %s: %s", weft_value_name(name),
                  weft_phase_name(conn->error.phase), conn->error.message);
    return value->number;
}

static void forget_conns(struct bed *bed)
{
    for (uint32_t h = 0; h < bed->config.n_hosts; h++) {
        for (uint32_t i = 0; i < bed->hosts[h].n_conns; i++) {
            conn_destroy(bed->hosts[h].conns[i]);
        }
        bed->hosts[h].n_conns = 0;
    }
    bed_run(bed, 20 * BED_MS, NULL);
}

/* Destroys all connections. Checks that no verbs objects are left, and that the next connection
 * comes up. */
static void check_recovery(struct bed *bed)
{
    forget_conns(bed);
    for (uint32_t h = 0; h < 2; h++) {
        ck_assert_int_eq(bed_objects(bed, h), 0);
    }
    ck_assert_uint_eq(bed->hosts[1].listener->counters.pending, 0);
    bed_connect(bed, 0, 1);
    ck_assert(bed_run(bed, 40 * BED_S, bed_all_up));
}

static void check_failed(const struct bed *bed, weft_ns since, weft_ns within)
{
    for (uint32_t h = 0; h < 2; h++) {
        for (uint32_t i = 0; i < bed->hosts[h].n_conns; i++) {
            const struct conn *conn = bed->hosts[h].conns[i];

            ck_assert_int_eq(conn->state, CONN_FAILED);
            ck_assert_int_lt(conn->error.status, 0);
            ck_assert_str_ne(weft_phase_name(conn->error.phase), "");
            ck_assert_str_ne(conn->error.message, "");
        }
        ck_assert_int_eq(bed_objects(bed, h), 0);
    }
    ck_assert_int_le(bed_now(bed) - since, within);
}

struct verb_case {
    enum world_call call;
    uint32_t n; /* number of these calls at one end, on both ports */
    int error;
};

static const struct verb_case verb_cases[] = {
    {WORLD_CALL_CREATE_QP, 4, ENOMEM},  {WORLD_CALL_REG_MR, 6, ENOMEM},
    {WORLD_CALL_REG_MR, 6, EFAULT},     {WORLD_CALL_CREATE_CQ, 2, ENOMEM},
    {WORLD_CALL_MODIFY_QP, 12, EINVAL}, {WORLD_CALL_POST_SEND, 8, EINVAL},
    {WORLD_CALL_POST_RECV, 30, ENOMEM},
};

/* Each call of each verb in set-up fails in turn, at either end of a connection of two rails. */
START_TEST(any_verb_may_fail)
{
    const struct verb_case *verb_case = &verb_cases[_i / 2];
    uint32_t host = (uint32_t)_i % 2;

    for (uint32_t nth = 1; nth <= verb_case->n / 2; nth++) {
        for (uint32_t port = 0; port < 2; port++) {
            struct world_fault fault = {.kind = WORLD_FAULT_VERB_ERROR,
                                        .host = host,
                                        .has_port = true,
                                        .port = port,
                                        .call = verb_case->call,
                                        .nth = nth,
                                        .error = verb_case->error};
            struct bed bed;
            weft_ns since;

            bed_open(&bed, &(struct bed_config){.seed = 20, .n_cables = 2});
            ck_assert_int_eq(bed.world->ops->inject(bed.world, &fault), 0);
            bed_listen(&bed, 1);
            since = bed_now(&bed);
            bed_connect(&bed, 0, 1);
            ck_assert(bed_run(&bed, 40 * BED_S, bed_all_settled));
            bed_run(&bed, 100 * BED_MS, bed_all_up);
            check_failed(&bed, since, BED_S);
            ck_assert_int_eq(bed_conn(&bed, host)->error.sys_errno, verb_case->error);
            ck_assert_str_eq(weft_phase_name(bed_conn(&bed, 1 - host)->error.phase),
                             "peer");
            ck_assert_int_eq(int_of(bed_conn(&bed, 1 - host), WEFT_VALUE_PEER_ERRNO),
                             verb_case->error);
            ck_assert_str_eq(text_of(bed_conn(&bed, 1 - host), WEFT_VALUE_PEER_PHASE),
                             weft_phase_name(bed_conn(&bed, host)->error.phase));
            check_recovery(&bed);
            bed_close(&bed);
        }
    }
}
END_TEST

static const struct io_device_ops *inner_ops;
static uint32_t n_receive_calls, n_receives;

static int count_receives(struct ibv_qp *qp, struct ibv_recv_wr *wr,
                          struct ibv_recv_wr **bad)
{
    n_receive_calls++;
    for (const struct ibv_recv_wr *one = wr; one != NULL; one = one->next) {
        n_receives++;
    }
    return inner_ops->post_recv(qp, wr, bad);
}

/* A call posts up to 64 receives, because each costs a NIC a doorbell and backend soft a look at
 * the clock. If one is refused, the failure names it. */
START_TEST(receives_are_posted_many_at_a_time)
{
    static const uint32_t refused[] = {0, 1, 64, 65, 200}; /* 0: none */
    struct world_fault fault = {.kind = WORLD_FAULT_VERB_ERROR,
                                .has_port = true,
                                .call = WORLD_CALL_POST_RECV,
                                .nth = refused[_i],
                                .error = ENOMEM};
    struct io_device_ops ops;
    struct io_device *device;
    struct bed bed;

    bed_open(&bed, &(struct bed_config){.seed = 20});
    device = bed.hosts[0].env->devices[0];
    inner_ops = device->ops;
    ops = *inner_ops;
    ops.post_recv = count_receives;
    device->ops = &ops;
    n_receive_calls = n_receives = 0;
    if (fault.nth > 0) {
        ck_assert_int_eq(bed.world->ops->inject(bed.world, &fault), 0);
    }
    bed.conn.recv_wr_max = 200;
    bed_listen(&bed, 1);
    bed_connect(&bed, 0, 1);
    if (fault.nth > 0) {
        char text[32];

        ck_assert(bed_run(&bed, 40 * BED_S, bed_all_settled));
        weft_format(text, sizeof(text), "post_recv %u of 200 on qp 0", fault.nth - 1);
        ck_assert_ptr_nonnull(strstr(bed_conn(&bed, 0)->error.message, text));
        ck_assert_uint_eq(n_receive_calls, (fault.nth + 63) / 64);
    } else {
        ck_assert(bed_run(&bed, 40 * BED_S, bed_all_up));
        ck_assert_uint_eq(n_receives, 2 * 200);
        ck_assert_uint_eq(n_receive_calls, 2 * 4);
    }
    bed_close(&bed);
}
END_TEST

static void run_until(struct bed *bed, const struct conn *conn, enum conn_state state)
{
    for (int i = 0; i < 100000 && conn->state != state; i++) {
        bed_run(bed, 1000, NULL);
    }
    ck_assert_int_eq(conn->state, state);
}

START_TEST(a_gid_that_vanishes_before_rtr_is_named)
{
    struct world_fault fault = {
        .kind = WORLD_FAULT_ADDR_DEL,
        .has_port = true,
        .address = {.ip = io_ip_v4(192, 168, 101, 1), .prefix_len = 24}};
    struct bed bed;
    struct conn *conn;

    bed_open(&bed, &(struct bed_config){.seed = 21});
    bed.conn.over_management = true;
    bed_listen(&bed, 1);
    conn = bed_connect(&bed, 0, 1);
    run_until(&bed, conn, CONN_META);
    ck_assert_int_eq(bed.world->ops->inject(bed.world, &fault), 0);
    ck_assert(bed_run(&bed, 40 * BED_S, bed_all_settled));
    bed_run(&bed, 100 * BED_MS, NULL);
    ck_assert_int_eq(conn->error.status, WEFT_ERR_SYSTEM);
    ck_assert_str_eq(weft_phase_name(conn->error.phase), "rtr");
    ck_assert_int_eq(conn->error.sys_errno, ENODATA);
    ck_assert_str_eq(text_of(conn, WEFT_VALUE_LOCAL_GID), "192.168.101.1");
    ck_assert_str_eq(text_of(conn, WEFT_VALUE_REMOTE_GID), "192.168.101.2");
    ck_assert_str_eq(text_of(conn, WEFT_VALUE_LOCAL_PORT), "p0");
    ck_assert_str_eq(text_of(conn, WEFT_VALUE_REMOTE_PORT), "p0");
    ck_assert_int_eq(int_of(conn, WEFT_VALUE_PATH_MTU), 4096);
    ck_assert_int_eq(int_of(conn, WEFT_VALUE_LOCAL_MTU), 9000);
    ck_assert_int_eq(int_of(conn, WEFT_VALUE_REMOTE_ACTIVE_MTU), 4096);
    ck_assert_int_eq(int_of(conn, WEFT_VALUE_REMOTE_PREFIX_LEN), 24);
    conn = bed_conn(&bed, 1);
    ck_assert_str_eq(weft_phase_name(conn->error.phase), "peer");
    ck_assert_str_eq(conn->error.message,
                     "titanic failed in rtr: the local GID is not in the port's table "
                     "(errno 61 No data available)");
    ck_assert_str_eq(text_of(conn, WEFT_VALUE_PEER), "titanic");
    bed_close(&bed);
}
END_TEST

/* A driver returns ETIMEDOUT at once, without having tried to resolve the peer's address. This does
 * not mean that the peer does not answer. */
START_TEST(an_errno_that_comes_at_once_is_no_silence)
{
    struct world_fault fault = {.kind = WORLD_FAULT_VERB_ERROR,
                                .has_port = true,
                                .host = (uint32_t)_i,
                                .call = WORLD_CALL_MODIFY_QP,
                                .nth = 3,
                                .error = ETIMEDOUT};
    struct bed bed;

    bed_open(&bed, &(struct bed_config){.seed = 29});
    ck_assert_int_eq(bed.world->ops->inject(bed.world, &fault), 0);
    bed_listen(&bed, 1);
    bed_connect(&bed, 0, 1);
    ck_assert(bed_run(&bed, 40 * BED_S, bed_all_settled));
    ck_assert_str_eq(weft_phase_name(bed_conn(&bed, (uint32_t)_i)->error.phase), "rtr");
    ck_assert_int_eq(bed_conn(&bed, (uint32_t)_i)->error.sys_errno, ETIMEDOUT);
    for (uint32_t h = 0; h < 2; h++) {
        ck_assert_int_eq(bed_conn(&bed, h)->state, CONN_FAILED);
        ck_assert(!conn_waits_for_port(bed_conn(&bed, h), &bed_conn(&bed, h)->error));
    }
    bed_close(&bed);
}
END_TEST

/* All frames that the connector sends on its second cable are lost, so the acceptor cannot resolve
 * its neighbour there. Its ABORT names that rail, because the connector has finished RTR on it. */
START_TEST(who_cannot_connect_says_by_which_rail)
{
    struct world_fault fault = {.kind = WORLD_FAULT_LOSS,
                                .has_port = true,
                                .port = 1,
                                .direction = WORLD_OUTWARDS,
                                .share_ppb = 1000000000};
    struct bed bed;
    struct conn *conn;

    bed_open(&bed, &(struct bed_config){.seed = 28, .n_cables = 2});
    bed.conn.over_management = true;
    ck_assert_int_eq(bed.world->ops->inject(bed.world, &fault), 0);
    bed_listen(&bed, 1);
    conn = bed_connect(&bed, 0, 1);
    ck_assert(bed_run(&bed, 40 * BED_S, bed_all_settled));
    bed_run(&bed, BED_S, NULL);
    ck_assert_int_eq(conn->state, CONN_FAILED);
    ck_assert_str_eq(conn->error.message,
                     "iceberg failed in rtr: modify_qp (errno 110 Connection timed out)");
    ck_assert_str_eq(text_of(conn, WEFT_VALUE_PEER_PHASE), "rtr");
    ck_assert_str_eq(text_of(conn, WEFT_VALUE_LOCAL_PORT), "p1");
    ck_assert_uint_eq(conn->stuck_rail, 1);
    ck_assert(conn_waits_for_port(conn, &conn->error));
    ck_assert_str_eq(weft_phase_name(bed_conn(&bed, 1)->error.phase), "rtr");
    ck_assert(conn_waits_for_port(bed_conn(&bed, 1), &bed_conn(&bed, 1)->error));
    bed_close(&bed);
}
END_TEST

START_TEST(frames_that_are_too_large_for_the_way_are_told_from_a_dead_one)
{
    struct bed bed;

    bed_open(&bed, &(struct bed_config){.seed = 22, .path_limit_bytes = 1500});
    /* 67 ms per try, so that the probe times out first; or 1 ms, so that the NIC gives up first. */
    bed.conn.timeout = (uint8_t)(_i == 0 ? 14 : 8);
    bed_listen(&bed, 1);
    bed_connect(&bed, 0, 1);
    ck_assert(bed_run(&bed, 40 * BED_S, bed_all_settled));
    bed_run(&bed, BED_S, NULL);
    for (uint32_t h = 0; h < 2; h++) {
        const struct conn *conn = bed_conn(&bed, h);

        ck_assert_int_eq(conn->state, CONN_FAILED);
        if (conn->error.phase == WEFT_PHASE_PEER) {
            ck_assert_str_eq(text_of(conn, WEFT_VALUE_PEER_PHASE), "probe");
            continue;
        }
        ck_assert_str_eq(weft_phase_name(conn->error.phase), "probe");
        ck_assert_int_eq(conn->error.status,
                         _i == 0 ? WEFT_ERR_TIMEOUT : WEFT_ERR_COMPLETION);
        ck_assert_int_eq(conn->error.wc_status, _i == 0 ? 0 : IBV_WC_RETRY_EXC_ERR);
        ck_assert_int_eq(int_of(conn, WEFT_VALUE_SMALL_PASSED), 1);
        ck_assert_int_eq(int_of(conn, WEFT_VALUE_PROBE_BYTES), 4096);
        ck_assert_int_eq(int_of(conn, WEFT_VALUE_PATH_MTU), 4096);
        ck_assert_ptr_nonnull(strstr(conn->error.message, "small frames pass"));
    }
    ck_assert(bed_conn(&bed, 0)->error.phase == WEFT_PHASE_PROBE ||
              bed_conn(&bed, 1)->error.phase == WEFT_PHASE_PROBE);
    bed_close(&bed);
}
END_TEST

/* On this slow cable a full-size probe takes a third of a second. An end that is not scheduled for
 * that long finds three tries expired at once. They must count as one. */
START_TEST(who_was_not_running_did_not_wait)
{
    struct world_fault slow = {
        .kind = WORLD_FAULT_RATE, .has_port = true, .rate_bps = 400000};
    struct world_fault stop = {.kind = WORLD_FAULT_STOP, .for_ns = 320 * BED_MS};
    struct bed bed;
    struct conn *conn;

    bed_open(&bed, &(struct bed_config){.seed = 27});
    bed.conn.over_management = true;
    bed.conn.probe_tries = 10; /* so that the acceptor does not time out */
    bed_listen(&bed, 1);
    bed.conn.probe_tries = 3;
    conn = bed_connect(&bed, 0, 1);
    run_until(&bed, conn, CONN_READY);
    ck_assert_int_eq(bed.world->ops->inject(bed.world, &slow), 0);
    for (int i = 0; i < 100000 && conn->private->probes[1].stage != CONN_PROBE_FULL_SENT;
         i++) {
        bed_run(&bed, 1000, NULL);
    }
    ck_assert_int_eq(bed.world->ops->inject(bed.world, &stop), 0);
    ck_assert(bed_run(&bed, 2 * BED_S, bed_all_settled));
    ck_assert(bed_all_up(&bed));
    ck_assert_uint_eq(conn->private->probes[0].tries, 1);
    bed_close(&bed);
}
END_TEST

/* A verb of the peer fails while this end's full-size probes are under way. That they are not yet
 * answered must not count as an MTU black hole. */
START_TEST(a_peer_whose_verb_fails_is_no_black_hole)
{
    struct world_fault slow = {
        .kind = WORLD_FAULT_RATE, .has_port = true, .rate_bps = 400000};
    struct bed bed;
    struct conn *conn, *peer;

    bed_open(&bed, &(struct bed_config){.seed = 27});
    bed.conn.over_management = true;
    bed.conn.probe_tries = 10;
    bed_listen(&bed, 1);
    conn = bed_connect(&bed, 0, 1);
    run_until(&bed, conn, CONN_READY);
    ck_assert_int_eq(bed.world->ops->inject(bed.world, &slow), 0);
    for (int i = 0;
         i < 100000 && (conn->private->probes[0].stage != CONN_PROBE_FULL_SENT ||
                        conn->private->probes[1].stage != CONN_PROBE_FULL_SENT);
         i++) {
        bed_run(&bed, 1000, NULL);
    }
    peer = bed_conn(&bed, 1);
    ck_assert_int_eq(peer->state, CONN_PROBE);
    weft_fail_errno(&peer->error, EIO, WEFT_PHASE_PROBE, "poll_cq");
    conn_fail(peer);
    ck_assert(bed_run(&bed, 2 * BED_S, bed_all_settled));
    ck_assert_int_eq(conn->state, CONN_FAILED);
    ck_assert_str_eq(text_of(conn, WEFT_VALUE_PEER_PHASE), "probe");
    ck_assert_int_eq(int_of(conn, WEFT_VALUE_PEER_ERRNO), EIO);
    ck_assert(!conn_path_is_judged(&conn->error));
    ck_assert_ptr_null(weft_error_value(&conn->error, WEFT_VALUE_SMALL_PASSED));
    bed_close(&bed);
}
END_TEST

/* The probe times out after three tries of 100 ms. If an end is software, a try lasts 400 ms,
 * because its packets are retransmitted only after 270 ms. */
START_TEST(a_cable_that_dies_under_the_probe_passes_nothing)
{
    struct world_fault fault = {.kind = WORLD_FAULT_DOWN, .has_port = true};
    weft_ns tries = _i == 0 ? 300 * BED_MS : 1200 * BED_MS, until = tries + 100 * BED_MS;
    struct bed bed;
    struct conn *conn;
    weft_ns since;

    bed_open(&bed, &(struct bed_config){.seed = 23});
    bed.hosts[1].rdma->attrs[0].may_stall = _i == 1;
    bed.conn.over_management = true;
    bed_listen(&bed, 1);
    conn = bed_connect(&bed, 0, 1);
    run_until(&bed, conn, CONN_READY);
    ck_assert_int_eq(bed.world->ops->inject(bed.world, &fault), 0);
    since = bed_now(&bed);
    ck_assert(bed_run(&bed, 40 * BED_S, bed_all_settled));
    bed_run(&bed, 10 * BED_MS, NULL);
    ck_assert_int_ge(bed_now(&bed) - since, tries);
    ck_assert_int_le(bed_now(&bed) - since, until);
    ck_assert_str_eq(weft_phase_name(conn->error.phase), "probe");
    ck_assert_int_eq(conn->error.status, WEFT_ERR_TIMEOUT);
    ck_assert_int_eq(int_of(conn, WEFT_VALUE_SMALL_PASSED), 0);
    ck_assert_int_eq(int_of(conn, WEFT_VALUE_PROBE_BYTES), 16);
    ck_assert_str_eq(text_of(conn, WEFT_VALUE_LOCAL_GID), "192.168.101.1");
    ck_assert_str_eq(text_of(conn, WEFT_VALUE_REMOTE_GID), "192.168.101.2");
    ck_assert_int_eq(bed_conn(&bed, 1)->state, CONN_FAILED);
    check_failed(&bed, since, until);
    bed_close(&bed);
}
END_TEST

/* A host is killed `_i` x 20 us after set-up began. The other end must fail, unless it is UP, and
 * leave no verbs objects behind. */
START_TEST(a_host_may_die_at_any_time)
{
    for (uint32_t dead = 0; dead < 2; dead++) {
        struct world_fault fault = {.kind = WORLD_FAULT_KILL, .host = dead};
        struct bed bed;
        weft_ns since;

        bed_open(&bed, &(struct bed_config){.seed = 24});
        bed.conn.total_ns = 3 * BED_S;
        bed.conn.patience_ns = 5 * BED_S;
        bed_listen(&bed, 1);
        since = bed_now(&bed);
        bed_connect(&bed, 0, 1);
        bed_run(&bed, _i * 20000, NULL);
        ck_assert_int_eq(bed.world->ops->inject(bed.world, &fault), 0);
        bed_run(&bed, 60 * BED_S, NULL);
        for (uint32_t i = 0; i < bed.hosts[1 - dead].n_conns; i++) {
            struct conn *conn = bed.hosts[1 - dead].conns[i];

            /* If the peer was killed when both were UP, no message shows it on the idle stream. */
            if (conn->state == CONN_UP) {
                continue;
            }
            ck_assert_int_eq(conn->state, CONN_FAILED);
            ck_assert_int_lt(conn->error.status, 0);
        }
        for (uint32_t h = 0; h < 2; h++) {
            for (uint32_t i = 0; i < bed.hosts[h].n_conns; i++) {
                conn_destroy(bed.hosts[h].conns[i]);
            }
            bed.hosts[h].n_conns = 0;
        }
        ck_assert_int_eq(bed_objects(&bed, 1 - dead), 0);
        if (dead == 0) {
            ck_assert_uint_eq(bed.hosts[1].listener->counters.pending, 0);
        }
        ck_assert_int_gt(bed_now(&bed), since);
        bed_close(&bed);
    }
}
END_TEST

/* A process is stopped for 2 ms, `_i` x 10 us after set-up began. It then finds all messages of
 * that time at once, such as the acceptor's META and READY in one segment. */
START_TEST(either_end_may_be_slow_at_any_time)
{
    for (uint32_t slow = 0; slow < 2; slow++) {
        struct world_fault fault = {
            .kind = WORLD_FAULT_STOP, .host = slow, .for_ns = 2 * BED_MS};
        struct bed bed;

        bed_open(&bed, &(struct bed_config){.seed = 26});
        bed_listen(&bed, 1);
        bed_connect(&bed, 0, 1);
        bed_run(&bed, _i * 10000, NULL);
        ck_assert_int_eq(bed.world->ops->inject(bed.world, &fault), 0);
        ck_assert(bed_run(&bed, 5 * BED_S, bed_all_up));
        bed_close(&bed);
    }
}
END_TEST

/* Either end destroys (ways 0 and 1) or closes the connection `_i` x 10 us after set-up began. No
 * verbs objects may be left. */
START_TEST(either_end_may_give_up_at_any_time)
{
    for (uint32_t way = 0; way < 4; way++) {
        uint32_t h = way % 2;
        struct bed bed;

        bed_open(&bed, &(struct bed_config){.seed = 25});
        bed_listen(&bed, 1);
        bed_connect(&bed, 0, 1);
        bed_run(&bed, _i * 10000, NULL);
        if (bed.hosts[h].n_conns == 0) {
            bed_close(&bed);
            continue;
        }
        if (way < 2) {
            conn_destroy(bed_conn(&bed, h));
            bed.hosts[h].n_conns = 0;
        } else {
            conn_close(bed_conn(&bed, h));
        }
        ck_assert(bed_run(&bed, 50 * BED_S, bed_all_settled) ||
                  bed.hosts[0].n_conns == 0 || bed.hosts[1].n_conns == 0);
        bed_run(&bed, 6 * BED_S, NULL);
        ck_assert_int_eq(bed_objects(&bed, h), 0);
        check_recovery(&bed);
        bed_close(&bed);
    }
}
END_TEST

START_TEST(no_shared_subnet_is_told_with_both_ends_addresses)
{
    struct bed bed;
    struct conn *conn;

    bed_open(&bed, &(struct bed_config){.seed = 26, .line = true});
    bed_listen(&bed, 2);
    conn = bed_connect(&bed, 0, 2);
    bed_run(&bed, BED_S, NULL);
    ck_assert_int_eq(conn->state, CONN_FAILED);
    ck_assert_int_eq(conn->error.status, WEFT_ERR_ROUTE);
    ck_assert_str_eq(weft_phase_name(conn->error.phase), "route");
    ck_assert_str_eq(
        bed_conn(&bed, 2)->error.message,
        "titanic failed in route: no local port shares a subnet with the peer's");
    bed_close(&bed);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("fault");
    TCase *tcase = tcase_create("all");

    suite_add_tcase(suite, tcase);
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, any_verb_may_fail, 0, 2 * (int)WEFT_LENGTH(verb_cases));
    tcase_add_loop_test(tcase, receives_are_posted_many_at_a_time, 0, 5);
    tcase_add_test(tcase, a_gid_that_vanishes_before_rtr_is_named);
    tcase_add_loop_test(
        tcase, frames_that_are_too_large_for_the_way_are_told_from_a_dead_one, 0, 2);
    tcase_add_test(tcase, who_cannot_connect_says_by_which_rail);
    tcase_add_loop_test(tcase, an_errno_that_comes_at_once_is_no_silence, 0, 2);
    tcase_add_test(tcase, who_was_not_running_did_not_wait);
    tcase_add_test(tcase, a_peer_whose_verb_fails_is_no_black_hole);
    tcase_add_loop_test(tcase, a_cable_that_dies_under_the_probe_passes_nothing, 0, 2);
    tcase_add_loop_test(tcase, a_host_may_die_at_any_time, 0, 25);
    tcase_add_loop_test(tcase, either_end_may_be_slow_at_any_time, 0, 60);
    tcase_add_loop_test(tcase, either_end_may_give_up_at_any_time, 0, 40);
    tcase_add_test(tcase, no_shared_subnet_is_told_with_both_ends_addresses);
    return suite_run(suite);
}
