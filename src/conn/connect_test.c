/* Tests how connections come up and close: the order of states, what both ends agree on, and data
 * on every queue pair. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/rng.h"
#include "base/suite_testing.h"
#include "conn/conn_testing.h"
#include "conn/private.h"
#include "io/oob.h"
#include "rdma/timers.h"

static const char happy_story[] = "titanic c:connector tcp from=new\n"
                                  "titanic c:connector hello from=tcp\n"
                                  "titanic c:connector challenge from=hello\n"
                                  "titanic c:connector auth from=challenge\n"
                                  "iceberg c:acceptor auth from=new\n"
                                  "iceberg c:acceptor meta from=auth\n"
                                  "titanic c:connector qps from=auth\n"
                                  "titanic c:connector meta from=qps\n"
                                  "iceberg c:acceptor qps from=meta\n"
                                  "iceberg c:acceptor connect_qps from=qps\n"
                                  "titanic c:connector connect_qps from=meta\n"
                                  "iceberg c:acceptor ready from=connect_qps\n"
                                  "titanic c:connector ready from=connect_qps\n"
                                  "titanic c:connector probe from=ready\n"
                                  "iceberg c:acceptor probe from=ready\n"
                                  "iceberg c:acceptor up from=probe\n"
                                  "titanic c:connector up from=probe\n";

/* Returns the story's lines of one host, because the order of the hosts' lines depends on timing.
 * The caller frees them. */
static char *lines_of(const struct bed *bed, const char *host)
{
    struct weft_text text = {0};
    const char *line = bed->story.bytes;
    size_t n_host = strlen(host);

    while (*line != '\0') {
        const char *end = strchr(line, '\n') + 1;

        if (strncmp(line, host, n_host) == 0) {
            weft_text_add_bytes(&text, line, (size_t)(end - line));
        }
        line = end;
    }
    return text.bytes;
}

static void connect_pair(struct bed *bed)
{
    bed_listen(bed, 1);
    bed_connect(bed, 0, 1);
    ck_assert(bed_run(bed, 40 * BED_S, bed_all_up));
}

START_TEST(two_hosts_connect)
{
    struct bed bed;

    bed_open(&bed, &(struct bed_config){.seed = 1});
    connect_pair(&bed);
    ck_assert_str_eq(bed.story.bytes, happy_story);
    ck_assert_uint_eq(bed_conn(&bed, 0)->id, bed_conn(&bed, 1)->id);
    ck_assert_str_eq(bed_conn(&bed, 0)->peer.host, "iceberg");
    ck_assert_str_eq(bed_conn(&bed, 1)->peer.host, "titanic");
    for (uint32_t h = 0; h < 2; h++) {
        const struct conn *conn = bed_conn(&bed, h), *peer = bed_conn(&bed, 1 - h);

        ck_assert_uint_eq(conn->n_rails, 1);
        ck_assert_uint_eq(conn->n_qps, 2);
        ck_assert_uint_eq(conn->rails[0].path_mtu, 4096);
        ck_assert_mem_eq(&conn->rails[0].local_gid, &peer->rails[0].remote_gid, 16);
        ck_assert_int_eq(conn->rails[0].gid_type, IBV_GID_TYPE_ROCE_V2);
        ck_assert_uint_eq(conn->rails[0].remote_window, (uintptr_t)peer->window);
        ck_assert_uint_eq(conn->rails[0].remote_rkey, peer->rails[0].window_mr.rkey);
        ck_assert_uint_eq(conn->recv_posted, 256);
        ck_assert_uint_eq(conn->max_inline_bytes, 128);
        ck_assert_uint_ge(conn->max_msg_bytes, 1u << 30);
        ck_assert_int_gt(conn->probe_rtt_ns, 0);
        ck_assert_int_lt(conn->up_ns - conn->started_ns, 10 * BED_MS);
        for (uint32_t i = 0; i < conn->config.window_bytes; i++) {
            ck_assert_uint_eq(conn->window[i], 0);
        }
        for (uint32_t i = 0; i < conn->n_qps; i++) {
            ck_assert_uint_eq(conn->qps[i].remote.qpn, peer->qps[i].qp->qp_num);
            ck_assert_uint_eq(conn->qps[i].remote.psn, peer->qps[i].config.psn);
            ck_assert_uint_ne(conn->qps[i].config.psn, 0);
            ck_assert_uint_ne(conn->qps[i].config.psn, conn->qps[1 - i].config.psn);
            ck_assert_uint_ne(conn->qps[i].config.psn, peer->qps[i].config.psn);
        }
        /* A CQ, two QPs and the window's MR. The MR of the probes is deregistered. */
        ck_assert_int_eq(bed_objects(&bed, h), 4);
    }
    bed_close(&bed);
}
END_TEST

/* Sends one WRITE_WITH_IMM from queue pair q of host h to its peer's window. Checks both
 * completions and the data. */
static void write_across(struct bed *bed, uint32_t h, uint32_t q)
{
    struct conn *conn = bed_conn(bed, h), *peer = bed_conn(bed, 1 - h);
    struct ibv_wc wc[8];
    struct ibv_sge sge = {.addr = (uintptr_t) "weft", .length = 4};
    struct ibv_send_wr *bad, wr = {.wr_id = 42,
                                   .sg_list = &sge,
                                   .num_sge = 1,
                                   .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                                   .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
                                   .imm_data = 0x01020304};
    int n = 0;

    wr.wr.rdma.remote_addr = conn->rails[0].remote_window + 64 * q;
    wr.wr.rdma.rkey = conn->rails[0].remote_rkey;
    ck_assert_int_eq(
        conn->rails[0].port->device->ops->post_send(conn->qps[q].qp, &wr, &bad), 0);
    bed_run(bed, BED_MS, NULL);
    ck_assert_int_eq(
        conn->rails[0].port->device->ops->poll_cq(conn->rails[0].cq, 8, wc, &n), 0);
    ck_assert_int_eq(n, 1);
    ck_assert_uint_eq(wc[0].wr_id, 42);
    ck_assert_int_eq(wc[0].status, IBV_WC_SUCCESS);
    ck_assert_int_eq(
        peer->rails[0].port->device->ops->poll_cq(peer->rails[0].cq, 8, wc, &n), 0);
    ck_assert_int_eq(n, 1);
    ck_assert_uint_eq(wc[0].wr_id, CONN_WR_RECV);
    ck_assert_int_eq(wc[0].status, IBV_WC_SUCCESS);
    ck_assert_uint_eq(wc[0].imm_data, 0x01020304);
    ck_assert_mem_eq(peer->window + 64 * q, "weft", 4);
}

START_TEST(what_is_up_carries_data_both_ways_on_every_queue_pair)
{
    struct bed bed;

    bed_open(&bed, &(struct bed_config){.seed = 2});
    connect_pair(&bed);
    for (uint32_t q = 0; q < 2; q++) {
        write_across(&bed, 0, q);
        write_across(&bed, 1, q);
    }
    bed_close(&bed);
}
END_TEST

static bool all_at_rtr(const struct bed *bed, uint32_t h)
{
    const struct conn *conn = bed->hosts[h].conns[0];

    return conn != NULL && conn->state == CONN_CONNECT_QPS &&
           conn->qps[0].state == RDMA_QP_TO_RTR && conn->qps[1].state == RDMA_QP_TO_RTR;
}

/* Another address takes the slot of an end's GID while both queue pairs change to RTR. The queue
 * pairs are reset, which drops their receives. All receives must be posted again. */
START_TEST(queue_pairs_that_were_reset_receive)
{
    uint32_t h = (uint32_t)_i % 2;
    struct world_fault slow = {.kind = WORLD_FAULT_VERB_SLOW,
                               .host = h,
                               .has_port = true,
                               .call = WORLD_CALL_MODIFY_QP,
                               .by_ns = 5 * BED_MS};
    struct world_fault address = {
        .host = h,
        .has_port = true,
        .address = {.ip = io_ip_v4(192, 168, 101, (uint8_t)(h + 1)), .prefix_len = 24}};
    struct world_fault another = address;
    struct weft_rng rng;
    struct bed bed;

    weft_rng_init(&rng, (uint64_t)_i, "reset");
    bed_open(&bed, &(struct bed_config){.seed = (uint64_t)_i});
    bed.conn.over_management = true;
    /* Delays both modify_qp calls to RTR. The first two change to INIT. */
    for (slow.nth = 3; slow.nth <= 4; slow.nth++) {
        ck_assert_int_eq(bed.world->ops->inject(bed.world, &slow), 0);
    }
    bed_listen(&bed, 1);
    bed_connect(&bed, 0, 1);
    for (uint32_t k = 0; !all_at_rtr(&bed, h); k++) {
        ck_assert_uint_lt(k, 100000);
        bed_run(&bed, 1000, NULL);
    }
    bed_run(&bed, (weft_ns)weft_rng_below(&rng, 4 * BED_MS), NULL);
    another.address.ip = io_ip_v4(192, 168, 7, 1);
    address.kind = WORLD_FAULT_ADDR_DEL;
    ck_assert_int_eq(bed.world->ops->inject(bed.world, &address), 0);
    another.kind = WORLD_FAULT_ADDR_ADD;
    ck_assert_int_eq(bed.world->ops->inject(bed.world, &another), 0);
    address.kind = WORLD_FAULT_ADDR_ADD;
    ck_assert_int_eq(bed.world->ops->inject(bed.world, &address), 0);
    ck_assert(bed_run(&bed, 40 * BED_S, bed_all_up));
    for (uint32_t q = 0; q < 2; q++) {
        ck_assert_uint_eq(bed_conn(&bed, h)->qps[q].n_reselected, 1);
        write_across(&bed, h, q);
        for (uint32_t k = 0; k < bed_conn(&bed, h)->recv_posted; k++) {
            write_across(&bed, 1 - h, q);
        }
    }
    bed_close(&bed);
}
END_TEST

static bool all_closed_or_failed(const struct bed *bed)
{
    for (uint32_t h = 0; h < 2; h++) {
        enum conn_state state = bed_conn(bed, h)->state;

        if (state != CONN_CLOSED && state != CONN_FAILED) {
            return false;
        }
    }
    return true;
}

/* Closes the connection at host `first`. The other end must fail with WEFT_ERR_CLOSED and keep its
 * CQs. Then closes the other end. */
static void close_pair(struct bed *bed, uint32_t first)
{
    struct conn *other = bed_conn(bed, 1 - first);

    conn_close(bed_conn(bed, first));
    conn_close(bed_conn(bed, first));
    ck_assert(bed_run(bed, 3 * BED_S, all_closed_or_failed));
    ck_assert_int_eq(bed_conn(bed, first)->state, CONN_CLOSED);
    ck_assert_int_eq(bed_objects(bed, first), 0);
    ck_assert_int_eq(other->state, CONN_FAILED);
    ck_assert_int_eq(other->error.status, WEFT_ERR_CLOSED);
    ck_assert_str_eq(other->error.message, "the peer closed the connection");
    ck_assert_int_eq(conn_progress(other), WEFT_ERR_CLOSED);
    ck_assert_ptr_nonnull(other->rails[0].cq);
    conn_close(other);
    ck_assert(bed_run(bed, 3 * BED_S, all_closed_or_failed));
    ck_assert_int_eq(other->state, CONN_CLOSED);
    ck_assert_int_eq(conn_progress(other), WEFT_OK);
    ck_assert_int_eq(bed_objects(bed, 1 - first), 0);
}

START_TEST(either_end_closes)
{
    static const enum weft_profile profiles[] = {WEFT_PROFILE_MLX5, WEFT_PROFILE_RXE,
                                                 WEFT_PROFILE_HNS_HIP08};
    struct bed bed;

    bed_open(&bed, &(struct bed_config){.seed = 3, .profile = profiles[_i / 2]});
    connect_pair(&bed);
    close_pair(&bed, (uint32_t)_i % 2);
    bed_close(&bed);
}
END_TEST

/* A hundred consecutive connections leave no verbs objects behind. */
START_TEST(connections_come_and_go)
{
    struct bed bed;

    bed_open(&bed, &(struct bed_config){.seed = 4});
    bed_listen(&bed, 1);
    for (uint32_t i = 0; i < 100; i++) {
        bed_connect(&bed, 0, 1);
        ck_assert(bed_run(&bed, 5 * BED_S, bed_all_up));
        close_pair(&bed, i % 2);
        for (uint32_t h = 0; h < 2; h++) {
            conn_destroy(bed_conn(&bed, h));
            bed.hosts[h].n_conns = 0;
        }
    }
    ck_assert_uint_eq(bed.hosts[1].listener->counters.clients, 100);
    ck_assert_uint_eq(bed.hosts[1].listener->counters.accepted, 100);
    bed_close(&bed);
}
END_TEST

/* Each call on a stream transfers at most k bytes, so that the values of k split the messages at
 * different bytes. The states of each end must not change. */
START_TEST(splitting_the_streams_changes_nothing)
{
    struct bed bed;
    char chunk[16];
    char *whole[2];

    bed_open(&bed, &(struct bed_config){.seed = 5});
    connect_pair(&bed);
    whole[0] = lines_of(&bed, "titanic");
    whole[1] = lines_of(&bed, "iceberg");
    bed_close(&bed);
    for (int k = 1; k <= 320; k += k < 130 ? 1 : 13) {
        weft_format(chunk, sizeof(chunk), "%d", k);
        bed_open(&bed, &(struct bed_config){.seed = 5, .tcp_chunk = chunk});
        connect_pair(&bed);
        for (uint32_t h = 0; h < 2; h++) {
            char *lines = lines_of(&bed, bed.hosts[h].env->name);

            ck_assert_str_eq(lines, whole[h]);
            free(lines);
        }
        bed_close(&bed);
    }
    free(whole[0]);
    free(whole[1]);
}
END_TEST

START_TEST(in_a_triangle_each_pair_takes_its_own_cable)
{
    static const uint8_t cable[3][3] = {{0, 101, 103}, {101, 0, 102}, {103, 102, 0}};
    struct bed bed;

    bed_open(&bed, &(struct bed_config){.seed = 6, .triangle = true});
    for (uint32_t h = 0; h < 3; h++) {
        bed_listen(&bed, h);
    }
    for (uint32_t h = 0; h < 3; h++) {
        bed_connect(&bed, h, (h + 1) % 3);
        bed_connect(&bed, (h + 1) % 3, h); /* one for each direction; both must come up */
    }
    ck_assert(bed_run(&bed, 5 * BED_S, bed_all_up));
    bed_run(&bed, 10 * BED_MS, NULL);
    ck_assert(bed_all_up(&bed));
    for (uint32_t h = 0; h < 3; h++) {
        ck_assert_uint_eq(bed.hosts[h].n_conns, 4);
        for (uint32_t i = 0; i < 4; i++) {
            const struct conn *conn = bed.hosts[h].conns[i];
            uint32_t peer = (uint32_t)(conn->peer.host[0] == 't'   ? 0
                                       : conn->peer.host[0] == 'i' ? 1
                                                                   : 2);

            ck_assert_uint_eq(conn->rails[0].local_gid.raw[14], cable[h][peer]);
            ck_assert_uint_eq(conn->rails[0].remote_gid.raw[14], cable[h][peer]);
        }
    }
    bed_close(&bed);
}
END_TEST

/* If either end of a rail may stall, both ends use ACK timeout code 16, unless the configuration
 * sets one. Rails between NICs keep code 14. */
START_TEST(software_is_waited_for)
{
    static const struct {
        bool here, there;
        uint8_t given, timeouts[2];
    } cases[] = {{false, false, 0, {14, 14}},
                 {true, false, 0, {14, 16}},
                 {false, true, 0, {14, 16}},
                 {true, true, 0, {14, 16}},
                 {true, true, 14, {14, 14}}};
    struct bed bed;

    bed_open(&bed, &(struct bed_config){.seed = 31, .n_cables = 2});
    bed.conn.timeout = cases[_i].given;
    bed.hosts[0].rdma->attrs[1].may_stall = cases[_i].here;
    bed.hosts[1].rdma->attrs[1].may_stall = cases[_i].there;
    connect_pair(&bed);
    for (uint32_t h = 0; h < 2; h++) {
        const struct conn *conn = bed_conn(&bed, h);

        ck_assert_uint_eq(conn->n_qps, 4);
        for (uint32_t q = 0; q < conn->n_qps; q++) {
            uint32_t device = conn->rails[q % 2].port->device_index;

            ck_assert_uint_eq(conn->qps[q].config.timeout, cases[_i].timeouts[device]);
        }
    }
    bed_close(&bed);
}
END_TEST

START_TEST(two_cables_are_two_rails)
{
    struct bed bed;

    bed_open(&bed, &(struct bed_config){.seed = 7, .n_cables = 2});
    connect_pair(&bed);
    for (uint32_t h = 0; h < 2; h++) {
        const struct conn *conn = bed_conn(&bed, h);

        ck_assert_uint_eq(conn->n_rails, 2);
        ck_assert_uint_eq(conn->n_qps, 4);
        ck_assert_ptr_ne(conn->rails[0].port, conn->rails[1].port);
        ck_assert_ptr_ne(conn->rails[0].cq, conn->rails[1].cq);
        for (uint32_t q = 0; q < 4; q++) {
            ck_assert_ptr_eq(conn->qps[q].config.port, conn->rails[q % 2].port);
        }
    }
    close_pair(&bed, 0);
    bed_close(&bed);
}
END_TEST

START_TEST(the_lesser_mtu_is_used_by_both)
{
    struct bed bed;

    bed_open(&bed,
             &(struct bed_config){
                 .seed = 8, .mtu_bytes = {_i == 0 ? 9000 : 1500, _i == 0 ? 1500 : 9000}});
    connect_pair(&bed);
    ck_assert_uint_eq(bed_conn(&bed, 0)->rails[0].path_mtu, 1024);
    ck_assert_uint_eq(bed_conn(&bed, 1)->rails[0].path_mtu, 1024);
    bed_close(&bed);
}
END_TEST

START_TEST(the_cable_alone_is_enough_and_so_is_management_for_tcp)
{
    struct bed bed;

    bed_open(&bed, &(struct bed_config){.seed = 9, .no_management = true});
    connect_pair(&bed);
    bed_close(&bed);

    bed_open(&bed, &(struct bed_config){.seed = 9});
    bed.conn.over_management = true;
    connect_pair(&bed);
    ck_assert_uint_eq(bed_conn(&bed, 0)->private->dial.n_ways, 1);
    bed_close(&bed);
}
END_TEST

START_TEST(other_programs_policies_connect_a_pair)
{
    struct bed bed;

    bed_open(&bed, &(struct bed_config){.seed = 10});
    bed.conn.policy = (enum weft_policy)_i;
    connect_pair(&bed);
    close_pair(&bed, 0);
    bed_close(&bed);
}
END_TEST

/* The values of NCCL_IB_TIMEOUT, NCCL_IB_RETRY_CNT and NCCL_IB_USE_INLINE; NULL if not set. */
static const char *nccl_values[3];

static const char *nccl_setting(struct io_env *env, const char *name)
{
    static const char *const names[] = {"NCCL_IB_TIMEOUT", "NCCL_IB_RETRY_CNT",
                                        "NCCL_IB_USE_INLINE"};

    (void)env;
    for (size_t i = 0; i < WEFT_LENGTH(names); i++) {
        if (strcmp(name, names[i]) == 0) {
            return nccl_values[i];
        }
    }
    return NULL;
}

/* NCCL's policies read these numbers as NCCL does, and no other policy reads them. */
START_TEST(only_nccls_policies_read_its_numbers)
{
    static const struct {
        enum weft_policy policy;
        const char *values[3];
        uint8_t timeout, retry_cnt;
        bool is_inline;
    } rows[] = {
        {WEFT_POLICY_NCCL_2_25, {NULL}, TIMER_ACK_CODE, TIMER_ACK_RETRIES, false},
        {WEFT_POLICY_NCCL_2_25, {"", "", ""}, TIMER_ACK_CODE, TIMER_ACK_RETRIES, false},
        {WEFT_POLICY_NCCL_2_25, {"0x10", "03", "1"}, 16, 3, true},
        {WEFT_POLICY_NCCL_2_25, {"16 ms", "3x", "2"}, 16, 3, true},
        {WEFT_POLICY_NCCL_2_25, {"99", "8", "-1"}, 31, 7, true},
        {WEFT_POLICY_NCCL_2_25, {"x", "-1", "x"}, 0, 0, false},
        {WEFT_POLICY_NCCL_2_25,
         {"99999999999999999999", "99999999999999999999", "99999999999999999999"},
         TIMER_ACK_CODE,
         TIMER_ACK_RETRIES,
         false},
        {WEFT_POLICY_NCCL_2_30_SUBNET_AWARE, {"16", "3", "1"}, 16, 3, true},
        {WEFT_POLICY_WEFT, {"16", "3", "1"}, TIMER_ACK_CODE, TIMER_ACK_RETRIES, false},
        {WEFT_POLICY_MESH_PLUGIN_2026_01,
         {"16", "3", "1"},
         TIMER_ACK_CODE,
         TIMER_ACK_RETRIES,
         false},
    };
    const struct io_env_ops *real[2];
    struct io_env_ops ops[2];
    struct bed bed;

    bed_open(&bed, &(struct bed_config){.seed = 15});
    for (uint32_t h = 0; h < 2; h++) {
        real[h] = bed.hosts[h].env->ops;
        ops[h] = *real[h];
        ops[h].setting = nccl_setting;
        bed.hosts[h].env->ops = &ops[h];
    }
    memcpy(nccl_values, rows[_i].values, sizeof(nccl_values));
    bed.conn.policy = rows[_i].policy;
    connect_pair(&bed);
    for (uint32_t h = 0; h < 2; h++) {
        const struct rdma_qp_config *config = &bed_conn(&bed, h)->qps[0].config;

        ck_assert_uint_eq(config->timeout, rows[_i].timeout);
        ck_assert_uint_eq(config->retry_cnt, rows[_i].retry_cnt);
        ck_assert_int_eq(config->max_inline_is_raw, rows[_i].is_inline);
    }
    close_pair(&bed, 0);
    for (uint32_t h = 0; h < 2; h++) {
        bed.hosts[h].env->ops = real[h];
    }
    bed_close(&bed);
}
END_TEST

/* The peer has lost the GID of a rail that is reused. The rail keeps the type of that GID, not that
 * of another GID of the port. */
START_TEST(a_kept_gid_keeps_its_type)
{
    struct world_fault fault = {
        .kind = WORLD_FAULT_ADDR_DEL,
        .host = 1,
        .has_port = true,
        .address = {.ip = io_ip_v4(192, 168, 101, 2), .prefix_len = 24}};
    struct conn_kept kept;
    struct conn *conn;
    struct bed bed;

    bed_open(&bed, &(struct bed_config){.seed = 16});
    bed.conn.policy = WEFT_POLICY_NCCL_2_29_PORT_RECOVERY;
    connect_pair(&bed);
    conn_keep(bed_conn(&bed, 0), &kept);
    ck_assert_int_eq(kept.rails[0].remote_type, IBV_GID_TYPE_ROCE_V2);
    ck_assert_int_eq(bed.world->ops->inject(bed.world, &fault), 0);
    bed_run(&bed, BED_MS, NULL);
    ck_assert_int_eq(rdma_refresh(bed.hosts[1].rdma, NULL), WEFT_OK);
    bed.conn.kept = &kept;
    conn = bed_connect(&bed, 0, 1);
    while (conn->state < CONN_META) {
        bed_run(&bed, 10000, NULL);
    }
    ck_assert_int_eq(conn->rails[0].remote_gid_type, IBV_GID_TYPE_ROCE_V2);
    ck_assert_uint_eq(conn->private->mine.rails[0].remote_type, IBV_GID_TYPE_ROCE_V2);
    bed_close(&bed);
}
END_TEST

START_TEST(fewer_capabilities_are_agreed_on)
{
    static const struct world_setting overrides[] = {{"max_inline", "0"},
                                                     {"max_qp_wr", "64"}};
    struct bed bed;

    bed_open(&bed,
             &(struct bed_config){.seed = 11, .overrides = overrides, .n_overrides = 2});
    connect_pair(&bed);
    ck_assert_uint_eq(bed_conn(&bed, 0)->max_inline_bytes, 0);
    ck_assert_uint_lt(bed_conn(&bed, 0)->recv_posted, 64);
    bed_close(&bed);
}
END_TEST

START_TEST(a_stream_that_ends_after_ready_leaves_the_connection_usable)
{
    struct bed bed;
    struct conn *conn;

    bed_open(&bed, &(struct bed_config){.seed = 12});
    bed_listen(&bed, 1);
    conn = bed_connect(&bed, 0, 1);
    while (conn->state != CONN_PROBE) {
        ck_assert(bed_run(&bed, 1000, NULL));
    }
    /* Acts as if the stream had been reset (_i is 0) or closed between the ends. */
    frame_close(&conn->private->link, _i == 0);
    conn->private->is_alone = true;
    conn->private->alone_ns = bed_now(&bed) + 600 * BED_MS;
    ck_assert(bed_run(&bed, 5 * BED_S, bed_all_up));
    ck_assert(bed_all_up(&bed));
    write_across(&bed, 0, 0);
    write_across(&bed, 1, 1);
    bed_run(&bed, 5 * BED_S, NULL);
    ck_assert(bed_all_up(&bed));
    bed_close(&bed);
}
END_TEST

START_TEST(a_peer_that_goes_is_noticed_by_its_stream)
{
    struct bed bed;
    struct conn *conn;

    bed_open(&bed, &(struct bed_config){.seed = 13});
    connect_pair(&bed);
    conn_destroy(bed_conn(&bed, 1));
    bed.hosts[1].n_conns = 0;
    bed_run(&bed, 10 * BED_MS, NULL);
    conn = bed_conn(&bed, 0);
    ck_assert_int_eq(conn->state, CONN_FAILED);
    ck_assert_int_eq(conn->error.status, WEFT_ERR_CLOSED);
    ck_assert_str_eq(weft_phase_name(conn->error.phase), "stream");
    ck_assert_str_eq(weft_error_value(&conn->error, WEFT_VALUE_PEER)->text, "iceberg");
    ck_assert_int_eq(bed_objects(&bed, 1), 0);
    conn_destroy(conn);
    bed.hosts[0].n_conns = 0;
    ck_assert_int_eq(bed_objects(&bed, 0), 0);
    bed_close(&bed);
}
END_TEST

static const struct io_oob_ops *real_oob;
static uint32_t n_full;

/* Fails with EAGAIN n_full times, as a stream without room does, and sends afterwards. */
static int send_when_there_is_room(struct io_stream *stream, const void *bytes,
                                   size_t n_bytes, size_t *out_n)
{
    if (n_full > 0) {
        n_full--;
        return EAGAIN;
    }
    return real_oob->send(stream, bytes, n_bytes, out_n);
}

/* ABORT and CLOSE arrive even if the stream has no room when they are queued. */
START_TEST(last_words_wait_for_room)
{
    struct weft_error why = {0};
    struct io_oob_ops oob;
    struct bed bed;
    struct conn *conn, *peer;

    bed_open(&bed, &(struct bed_config){.seed = 14});
    connect_pair(&bed);
    conn = bed_conn(&bed, 0);
    peer = bed_conn(&bed, 1);
    real_oob = bed.hosts[0].env->oob;
    oob = *real_oob;
    oob.send = send_when_there_is_room;
    bed.hosts[0].env->oob = &oob;
    n_full = 2;
    if (_i == 0) {
        weft_fail(&why, WEFT_ERR_CLOSED, WEFT_PHASE_RETURN, "a better way is back");
        conn_refuse(conn, &why);
        ck_assert_int_lt(conn_progress(conn), 0); /* no room yet */
        ck_assert_uint_eq(n_full, 0);
        ck_assert_int_lt(conn_progress(conn), 0);
    } else {
        conn_close(conn);
    }
    bed_run(&bed, 10 * BED_MS, NULL);
    ck_assert_uint_eq(n_full, 0);
    ck_assert_int_eq(peer->state, CONN_FAILED);
    ck_assert_str_eq(weft_phase_name(peer->error.phase), "peer");
    ck_assert_int_eq(peer->peer_closed, _i == 1);
    bed.hosts[0].env->oob = real_oob;
    for (uint32_t h = 0; h < 2; h++) {
        conn_destroy(bed_conn(&bed, h));
        bed.hosts[h].n_conns = 0;
        ck_assert_int_eq(bed_objects(&bed, h), 0);
    }
    bed_close(&bed);
}
END_TEST

START_TEST(names_and_defaults)
{
    struct conn_config config;

    for (int s = CONN_NEW; s <= CONN_FAILED; s++) {
        ck_assert_str_ne(conn_state_name((enum conn_state)s), "?");
    }
    ck_assert_str_eq(conn_state_name((enum conn_state)99), "?");
    conn_config_default(&config);
    ck_assert_int_eq(config.authenticate_ns, 5 * BED_S);
    ck_assert_int_eq(config.total_ns, 30 * BED_S);
    ck_assert_int_eq(config.patience_ns, 900 * BED_S);
    ck_assert_int_eq(config.probe_ns * config.probe_tries, 300 * BED_MS);
    ck_assert_uint_eq(config.pending_max, 64);
    conn_destroy(NULL);
    conn_listener_close(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("connect");
    TCase *tcase = tcase_create("all");

    suite_add_tcase(suite, tcase);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, two_hosts_connect);
    tcase_add_test(tcase, what_is_up_carries_data_both_ways_on_every_queue_pair);
    tcase_add_loop_test(tcase, queue_pairs_that_were_reset_receive, 0, 8);
    tcase_add_loop_test(tcase, either_end_closes, 0, 6);
    tcase_add_test(tcase, connections_come_and_go);
    tcase_add_test(tcase, splitting_the_streams_changes_nothing);
    tcase_add_test(tcase, in_a_triangle_each_pair_takes_its_own_cable);
    tcase_add_loop_test(tcase, software_is_waited_for, 0, 5);
    tcase_add_test(tcase, two_cables_are_two_rails);
    tcase_add_loop_test(tcase, the_lesser_mtu_is_used_by_both, 0, 2);
    tcase_add_test(tcase, the_cable_alone_is_enough_and_so_is_management_for_tcp);
    tcase_add_loop_test(tcase, other_programs_policies_connect_a_pair, 0,
                        WEFT_N_POLICIES);
    tcase_add_loop_test(tcase, only_nccls_policies_read_its_numbers, 0, 10);
    tcase_add_test(tcase, a_kept_gid_keeps_its_type);
    tcase_add_test(tcase, fewer_capabilities_are_agreed_on);
    tcase_add_loop_test(
        tcase, a_stream_that_ends_after_ready_leaves_the_connection_usable, 0, 2);
    tcase_add_test(tcase, a_peer_that_goes_is_noticed_by_its_stream);
    tcase_add_loop_test(tcase, last_words_wait_for_room, 0, 2);
    tcase_add_test(tcase, names_and_defaults);
    return suite_run(suite);
}
