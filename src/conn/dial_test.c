/* Tests failures that a connector meets before it has authenticated the listener. */
#include <check.h>
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/suite_testing.h"
#include "conn/conn_testing.h"
#include "conn/private.h"
#include "io/oob.h"
#include "rdma/timers.h"

START_TEST(a_peer_that_is_not_there_is_waited_for)
{
    struct bed bed;
    struct conn *conn;
    weft_ns since;

    bed_open(&bed, &(struct bed_config){.seed = 50});
    bed_listen(&bed, 1);
    conn_listener_close(bed.hosts[1].listener);
    bed.hosts[1].listener = NULL;
    bed.conn.patience_ns = 20 * BED_S;
    since = bed_now(&bed);
    conn = bed_connect(&bed, 0, 1);
    bed_run(&bed, 19 * BED_S, NULL);
    ck_assert_int_eq(conn->state, CONN_TCP);
    ck_assert(bed_run(&bed, 5 * BED_S, bed_all_settled));
    ck_assert_int_ge(bed_now(&bed) - since, 20 * BED_S);
    ck_assert_int_le(bed_now(&bed) - since, 22 * BED_S);
    ck_assert_int_eq(conn->error.status, WEFT_ERR_SYSTEM);
    ck_assert_str_eq(weft_phase_name(conn->error.phase), "tcp");
    ck_assert_int_eq(conn->error.sys_errno, ECONNREFUSED);
    ck_assert_int_eq(weft_error_value(&conn->error, WEFT_VALUE_WAYS)->number, 2);
    ck_assert_str_eq(weft_error_value(&conn->error, WEFT_VALUE_LOCAL_ADDRESS_0)->text,
                     "192.168.101.1/24");
    ck_assert_str_eq(weft_error_value(&conn->error, WEFT_VALUE_REMOTE_ADDRESS_1)->text,
                     "192.168.101.2/24");
    bed_close(&bed);
}
END_TEST

static const struct secret_case {
    const char *name;
    bool listener_has_one;
    uint8_t secret; /* of the connector; the listener's is 1 */
    bool are_equal;
} secret_cases[] = {
    {"the listener has none", false, 2, false},
    {"they differ", true, 2, false},
    {"they are equal", true, 1, true},
};

START_TEST(another_secret_is_told_at_both_ends)
{
    const struct secret_case *given = &secret_cases[_i];
    struct bed bed;
    struct conn *conn;

    bed_open(&bed, &(struct bed_config){.seed = 51});
    bed.conn.has_secret = given->listener_has_one;
    bed.conn.secret[0] = 1;
    bed_listen(&bed, 1);
    bed.conn.has_secret = true;
    bed.conn.secret[0] = given->secret;
    conn = bed_connect(&bed, 0, 1);
    ck_assert_msg(
        bed_run(&bed, 5 * BED_S, given->are_equal ? bed_all_up : bed_all_settled), "%s",
        given->name);
    bed_run(&bed, 10 * BED_MS, NULL);
    if (!given->are_equal) {
        ck_assert_int_eq(conn->error.status, WEFT_ERR_AUTH);
        ck_assert_str_eq(weft_phase_name(conn->error.phase), "auth");
        ck_assert_uint_eq(bed.hosts[1].listener->counters.rejected, 1);
        ck_assert_uint_eq(bed.hosts[1].listener->counters.pending, 0);
    }
    bed_close(&bed);
}
END_TEST

static const struct handle_case {
    const char *what; /* differs from the listener's */
    size_t offset;
    weft_status status;
    const char *peer_phase; /* or NULL */
} handle_cases[] = {
    {"epoch", 43, WEFT_ERR_AUTH, "stale"},
    {"cookie", 30, WEFT_ERR_AUTH, NULL},
    {"host id", 8, WEFT_ERR_PROTOCOL, NULL},
};

START_TEST(a_stale_handle_is_refused_at_once)
{
    const struct handle_case *given = &handle_cases[_i];
    struct bed bed;
    struct conn *conn;
    weft_ns since;

    bed_open(&bed, &(struct bed_config){.seed = 52});
    bed_listen(&bed, 1);
    bed.hosts[1].handle[given->offset] ^= 1;
    since = bed_now(&bed);
    conn = bed_connect(&bed, 0, 1);
    ck_assert(bed_run(&bed, 5 * BED_S, bed_all_settled));
    ck_assert_int_lt(bed_now(&bed) - since, 10 * BED_MS);
    ck_assert_msg(conn->error.status == given->status, "%s", given->what);
    if (given->peer_phase != NULL) {
        ck_assert_str_eq(weft_error_value(&conn->error, WEFT_VALUE_PEER_PHASE)->text,
                         given->peer_phase);
    }
    bed_close(&bed);
}
END_TEST

START_TEST(a_handle_of_this_host_and_a_broken_one)
{
    struct bed bed;
    struct conn *conn = NULL;
    struct weft_error error = {0};

    bed_open(&bed, &(struct bed_config){.seed = 53});
    bed_listen(&bed, 0);
    conn = bed_connect(&bed, 0, 0);
    ck_assert(bed_run(&bed, BED_S, bed_all_settled));
    ck_assert_int_eq(conn->state, CONN_UP);
    ck_assert_uint_eq(conn->n_rails, 1);
    ck_assert_mem_eq(&conn->rails[0].local_gid, &conn->rails[0].remote_gid,
                     sizeof(conn->rails[0].local_gid));
    bed.hosts[0].handle[0] = 0;
    ck_assert_int_eq(conn_connect(bed.hosts[0].rdma, &bed.conn, bed.hosts[0].handle,
                                  BED_KIND_CONN, &conn, &error),
                     WEFT_ERR_PROTOCOL);
    ck_assert_ptr_null(conn);
    ck_assert_str_eq(weft_error_value(&error, WEFT_VALUE_FIELD)->text, "magic");
    bed_close(&bed);
}
END_TEST

/* Members that connect to a listener with a single place take it from each other. A member that
 * loses the place dials again, until all are connected. */
START_TEST(members_that_crowd_each_other_out_all_get_in)
{
    struct bed bed;

    bed_open(&bed, &(struct bed_config){.seed = 70 + (uint64_t)_i});
    bed.conn.pending_max = 1;
    bed_listen(&bed, 1);
    for (uint32_t i = 0; i < BED_CONNS_MAX; i++) {
        bed_connect(&bed, 0, 1);
        /* The interval differs between iterations, so that members lose the place at different
         * steps of the handshake. */
        bed_run(&bed, 300 * (weft_ns)_i, NULL);
    }
    ck_assert(bed_run(&bed, 10 * BED_S, bed_all_settled));
    for (uint32_t i = 0; i < BED_CONNS_MAX; i++) {
        ck_assert_int_eq(bed.hosts[0].conns[i]->state, CONN_UP);
    }
    ck_assert_uint_eq(bed.hosts[1].n_conns, BED_CONNS_MAX);
    ck_assert_uint_gt(bed.hosts[1].listener->counters.rejected, 0);
    ck_assert_uint_eq(bed.hosts[1].listener->counters.accepted, BED_CONNS_MAX);
    bed_close(&bed);
}
END_TEST

/* accept() fails with `refusal` n_refusals times, then works. Clients wait in the backlog. */
static int n_refusals;
static int refusal;
static const struct io_oob_ops *real_oob;

static int failing_accept(struct io_listener *listener, struct io_task *task,
                          struct io_stream **out)
{
    if (n_refusals > 0) {
        n_refusals--;
        return refusal;
    }
    return real_oob->accept(listener, task, out);
}

static int failure; /* of failing_connect() and failing_connected() */

static int failing_connect(struct io_env *env, const struct io_endpoint *from,
                           const struct io_endpoint *to, struct io_task *task,
                           struct io_stream **out)
{
    (void)env;
    (void)from;
    (void)to;
    (void)task;
    (void)out;
    return failure;
}

static int failing_connected(struct io_stream *stream)
{
    (void)stream;
    return failure;
}

/* A connector without a descriptor or memory gives up after total_ns (30 s), because no event at
 * the peer can help. It waits for a peer that does not listen for patience_ns (900 s). */
START_TEST(without_a_descriptor_patience_is_short)
{
    static const int errors[] = {EMFILE, ENFILE, ENOBUFS, ENOMEM};
    struct io_oob_ops ops;
    struct bed bed;

    failure = errors[_i];
    bed_open(&bed, &(struct bed_config){.seed = 57});
    ops = *bed.hosts[0].env->oob;
    ops.connect = failing_connect;
    bed.hosts[0].env->oob = &ops;
    bed_listen(&bed, 1);
    bed_connect(&bed, 0, 1);
    ck_assert(bed_run(&bed, 40 * BED_S, bed_all_settled));
    ck_assert_int_ge(bed_now(&bed), 30 * BED_S);
    ck_assert_int_eq(bed.hosts[0].conns[0]->state, CONN_FAILED);
    ck_assert_int_eq(bed.hosts[0].conns[0]->error.status, WEFT_ERR_SYSTEM);
    ck_assert_int_eq(bed.hosts[0].conns[0]->error.sys_errno, failure);
    bed_close(&bed);
}
END_TEST

/* Only ECONNREFUSED is reported as a refusal. */
START_TEST(a_failed_attempt_is_told_by_its_errno)
{
    static const struct {
        int sys_errno;
        const char *what;
    } rows[] = {{ECONNREFUSED, ": refused"},
                {EHOSTUNREACH, ": the connection attempt failed"},
                {ECONNRESET, ": the connection attempt failed"}};
    struct io_oob_ops ops;
    struct bed bed;
    struct conn *conn;

    failure = rows[_i].sys_errno;
    bed_open(&bed, &(struct bed_config){.seed = 58});
    ops = *bed.hosts[0].env->oob;
    ops.connected = failing_connected;
    bed.hosts[0].env->oob = &ops;
    bed.conn.patience_ns = 0;
    bed_listen(&bed, 1);
    conn = bed_connect(&bed, 0, 1);
    ck_assert(bed_run(&bed, BED_S, bed_all_settled));
    ck_assert_int_eq(conn->error.sys_errno, failure);
    ck_assert_ptr_nonnull(strstr(conn->error.message, rows[_i].what));
    bed_close(&bed);
}
END_TEST

/* The watch for silence of the peer begins with a HELLO. It does not go on while the connector
 * dials again, after a stream on which it had begun. */
START_TEST(dialling_again_is_not_silence)
{
    struct io_oob_ops ops;
    struct bed bed;
    struct conn *conn;

    bed_open(&bed, &(struct bed_config){.seed = 59});
    ops = *bed.hosts[0].env->oob;
    bed.conn.over_management = true; /* a CHALLENGE takes 100 us */
    bed_listen(&bed, 1);
    bed.conn.silence_ns = 300 * BED_MS;
    conn = bed_connect(&bed, 0, 1);
    while (conn->state < CONN_CHALLENGE) {
        bed_run(&bed, 10000, NULL);
    }
    ck_assert_int_eq(conn->state, CONN_CHALLENGE);
    failure = EAGAIN;
    ops.connected = failing_connected;
    bed.hosts[0].env->oob = &ops;
    ck_assert_int_ge(conn_turned_away(conn, ECONNRESET), 0);
    bed_run(&bed, BED_S, NULL);
    ck_assert_int_eq(conn->state, CONN_TCP);
    ck_assert_int_eq(conn->error.status, WEFT_OK);
    bed_close(&bed);
}
END_TEST

/* Two ports have one netdev, and the first is excluded. The netdev is that of the second then. */
START_TEST(an_excluded_port_hides_no_netdev)
{
    struct conn_facing facing;
    struct rdma *rdma;
    struct bed bed;
    uint32_t ifindex;

    bed_open(&bed, &(struct bed_config){.seed = 60, .n_cables = 2});
    bed_listen(&bed, 1);
    rdma = bed.hosts[0].rdma;
    ifindex = rdma->ports[1].ifindex;
    rdma->ports[1].ifindex = rdma->ports[0].ifindex;
    for (uint32_t i = 0; i < rdma->ports[1].n_gids; i++) {
        rdma->ports[1].gids[i].ifindex = rdma->ports[0].ifindex;
    }
    ck_assert(conn_find_facing(rdma, &bed.conn, bed.hosts[1].handle, &facing));
    ck_assert_ptr_eq(facing.port, &rdma->ports[0]);
    bed.conn.n_excluded = 1;
    bed.conn.excluded[0].device = rdma->ports[0].device_index;
    bed.conn.excluded[0].port = rdma->ports[0].port;
    ck_assert(conn_find_facing(rdma, &bed.conn, bed.hosts[1].handle, &facing));
    ck_assert_ptr_eq(facing.port, &rdma->ports[1]);
    rdma->ports[1].ifindex = ifindex;
    bed_close(&bed);
}
END_TEST

START_TEST(accept_may_fail_for_a_while)
{
    static const int errors[] = {EMFILE, ENOBUFS, ECONNABORTED, EINTR, ENOMEM};
    struct io_oob_ops ops;
    struct bed bed;
    weft_ns since;

    bed_open(&bed, &(struct bed_config){.seed = 54});
    real_oob = bed.hosts[1].env->oob;
    ops = *real_oob;
    ops.accept = failing_accept;
    bed.hosts[1].env->oob = &ops;
    n_refusals = 5;
    refusal = errors[_i];
    bed_listen(&bed, 1);
    since = bed_now(&bed);
    bed_connect(&bed, 0, 1);
    ck_assert(bed_run(&bed, 5 * BED_S, bed_all_up));
    ck_assert_int_lt(bed_now(&bed) - since, BED_S);
    ck_assert_int_eq(n_refusals, 0);
    bed_close(&bed);
}
END_TEST

/* A TCP server that is not a listener of Weft. It accepts one stream and sends `greeting`, if that
 * is not NULL. */
static struct io_stream *accepted;
static struct io_listener *foreign;
static const char *greeting;

static void serve_foreign(struct bed *bed, struct io_task *task)
{
    struct io_env *env = bed->hosts[1].env;
    size_t n;

    if (accepted == NULL && env->oob->accept(foreign, task, &accepted) == 0 &&
        greeting != NULL) {
        ck_assert_int_eq(env->oob->send(accepted, greeting, strlen(greeting), &n), 0);
    }
}

struct foreign_case {
    const char *greeting;
    weft_status status;
    const char *phase;
};

static const struct foreign_case foreign_cases[] = {
    {"SSH-2.0-OpenSSH_9.2\r\n", WEFT_ERR_PROTOCOL, "header"},
    {"WEFT\0", WEFT_ERR_SYSTEM, "tcp"}, /* a header that is never completed */
    {NULL, WEFT_ERR_SYSTEM, "tcp"},
};

START_TEST(a_port_that_belongs_to_another_program)
{
    const struct foreign_case *given = &foreign_cases[_i];
    struct io_endpoint at = {.ip = io_ip_v4(10, 0, 0, 2)}, real;
    struct io_task task;
    struct bed bed;
    struct conn *conn;

    bed_open(&bed, &(struct bed_config){.seed = 55});
    bed.conn.over_management = true;
    bed.conn.patience_ns = 2 * BED_S;
    bed_listen(&bed, 1);
    conn_listener_close(bed.hosts[1].listener);
    bed.hosts[1].listener = NULL;
    bed.on_task = serve_foreign;
    accepted = NULL;
    greeting = given->greeting;
    io_task_init(&task, bed.loop, 1, BED_KIND_TEST);
    ck_assert_int_eq(
        bed.hosts[1].env->oob->listen(bed.hosts[1].env, &at, 1, &task, &foreign, &real),
        0);
    bed.hosts[1].handle[46] = (uint8_t)(real.port >> 8);
    bed.hosts[1].handle[47] = (uint8_t)real.port;
    conn = bed_connect(&bed, 0, 1);
    ck_assert(bed_run(&bed, 40 * BED_S, bed_all_settled));
    ck_assert_int_eq(conn->error.status, given->status);
    ck_assert_str_eq(weft_phase_name(conn->error.phase), given->phase);
    if (accepted != NULL) {
        bed.hosts[1].env->oob->close(accepted, true);
    }
    bed.hosts[1].env->oob->close_listener(foreign);
    io_task_fini(&task);
    bed_close(&bed);
}
END_TEST

START_TEST(a_cable_that_is_down_is_gone_around)
{
    struct world_fault fault = {.kind = WORLD_FAULT_DOWN, .has_port = true, .host = 1};
    struct bed bed;

    bed_open(&bed, &(struct bed_config){.seed = 56, .n_cables = 2});
    bed_listen(&bed, 1);
    ck_assert_int_eq(bed.world->ops->inject(bed.world, &fault), 0);
    bed_run(&bed, BED_MS, NULL);
    for (uint32_t h = 0; h < 2; h++) {
        ck_assert_int_eq(rdma_refresh(bed.hosts[h].rdma, NULL), WEFT_OK);
    }
    bed_connect(&bed, 0, 1);
    ck_assert(bed_run(&bed, 30 * BED_S, bed_all_up));
    ck_assert_uint_eq(bed_conn(&bed, 0)->n_rails, 1);
    ck_assert_str_eq(bed_conn(&bed, 0)->rails[0].port->name, "p1");
    bed_close(&bed);
}
END_TEST

/* A port beyond the 16th of its host comes up after the connection, which has no rail over it. */
START_TEST(a_late_port_beyond_the_16th_is_found)
{
    struct world_fault fault = {
        .kind = WORLD_FAULT_DOWN, .has_port = true, .host = 1, .port = 18};
    const struct rdma_port *late[CONN_RAILS_MAX];
    struct bed bed;

    bed_open(&bed, &(struct bed_config){.seed = 57, .n_cables = 2, .n_idle = 17});
    bed_listen(&bed, 1);
    for (uint32_t up = 0; up < 2; up++) {
        fault.kind = up == 1 ? WORLD_FAULT_UP : WORLD_FAULT_DOWN;
        ck_assert_int_eq(bed.world->ops->inject(bed.world, &fault), 0);
        bed_run(&bed, BED_MS, NULL);
        for (uint32_t h = 0; h < 2; h++) {
            ck_assert_int_eq(rdma_refresh(bed.hosts[h].rdma, NULL), WEFT_OK);
        }
        if (up == 0) {
            bed_connect(&bed, 0, 1);
            ck_assert(bed_run(&bed, 30 * BED_S, bed_all_up));
            ck_assert_uint_eq(bed_conn(&bed, 0)->n_rails, 1);
        }
        for (uint32_t h = 0; h < 2; h++) {
            ck_assert_uint_eq(conn_late_ports(bed_conn(&bed, h), late), up);
            ck_assert(up == 0 || strcmp(late[0]->name, "p18") == 0);
        }
    }
    bed_close(&bed);
}
END_TEST

/* The management network is dialled before a cable without a carrier, on which a SYN would wait for
 * 3 s. The cause of the failure is known at once, whichever end connects. */
START_TEST(a_dead_cable_is_dialled_last)
{
    uint32_t from = (uint32_t)_i % 2;
    struct world_fault fault = {
        .kind = WORLD_FAULT_DOWN, .has_port = true, .host = (uint32_t)_i / 2};
    struct conn *conn;
    struct bed bed;
    weft_ns since;

    bed_open(&bed, &(struct bed_config){.seed = 59});
    bed_listen(&bed, 1 - from);
    ck_assert_int_eq(bed.world->ops->inject(bed.world, &fault), 0);
    bed_run(&bed, BED_MS, NULL);
    for (uint32_t h = 0; h < 2; h++) {
        ck_assert_int_eq(rdma_refresh(bed.hosts[h].rdma, NULL), WEFT_OK);
    }
    since = bed_now(&bed);
    conn = bed_connect(&bed, from, 1 - from);
    ck_assert(bed_run(&bed, BED_S, bed_all_settled));
    ck_assert_int_eq(conn->state, CONN_FAILED);
    ck_assert_str_eq(weft_phase_name(conn->error.phase), "route");
    ck_assert_str_eq(weft_error_value(&conn->error, WEFT_VALUE_LOCAL_INACTIVE)->text,
                     "p0");
    ck_assert_int_lt(bed_now(&bed) - since, 100 * BED_MS);
    bed_close(&bed);
}
END_TEST

/* A management network that does not answer (here: with a delay of 20 s) is given up after
 * TIMER_ADDRESS_NS, in which a second ARP request can be answered. The cable, which has come up
 * meanwhile, is dialled next. */
START_TEST(a_silent_management_network_is_not_waited_for)
{
    struct world_fault fault = {
        .kind = WORLD_FAULT_DOWN, .has_port = true, .for_ns = 500 * BED_MS};
    struct bed bed;
    weft_ns since;

    bed_open(&bed, &(struct bed_config){.seed = 60,
                                        .management_delay_ps = INT64_C(20000000000000)});
    bed_listen(&bed, 1);
    ck_assert_int_eq(bed.world->ops->inject(bed.world, &fault), 0);
    bed_run(&bed, BED_MS, NULL);
    for (uint32_t h = 0; h < 2; h++) {
        ck_assert_int_eq(rdma_refresh(bed.hosts[h].rdma, NULL), WEFT_OK);
    }
    since = bed_now(&bed);
    bed_connect(&bed, 0, 1);
    bed_run(&bed, 600 * BED_MS, NULL);
    for (uint32_t h = 0; h < 2; h++) {
        ck_assert_int_eq(rdma_refresh(bed.hosts[h].rdma, NULL), WEFT_OK);
    }
    ck_assert(bed_run(&bed, 10 * BED_S, bed_all_up));
    ck_assert_int_lt(bed_now(&bed) - since, TIMER_ADDRESS_NS + 100 * BED_MS);
    bed_close(&bed);
}
END_TEST

/* Makes a port look as if its addresses were added after its GIDs. Returns true if set-up reads the
 * port again. */
static bool is_read_again(struct conn *conn, struct rdma_port *port)
{
    for (uint32_t i = 0; i < port->n_gids; i++) {
        port->gids[i].prefix_len = 0;
    }
    conn_settle_ports(conn);
    for (uint32_t i = 0; i < port->n_gids; i++) {
        if (port->gids[i].prefix_len != 0) {
            return true;
        }
    }
    return false;
}

/* Set-up reads a port again if an address can have been added, but at most once in TIMER_LISTEN_NS.
 * It does not read an inactive port, or one that never had an address. */
START_TEST(ports_are_read_again_once_in_a_while)
{
    struct rdma_port *port;
    struct conn *conn;
    struct bed bed;
    uint32_t n_gids;

    bed_open(&bed, &(struct bed_config){.seed = 61});
    bed_listen(&bed, 1);
    bed_run(&bed, BED_MS, NULL);
    port = &bed.hosts[0].rdma->ports[0];
    conn = bed_connect(&bed, 0, 1);
    conn_settle_ports(conn);
    ck_assert_int_eq(bed.hosts[0].rdma->settled_ns, 0); /* no address is missing */
    n_gids = port->n_gids;
    port->n_gids = 0;
    conn_settle_ports(conn);
    ck_assert_uint_eq(port->n_gids, 0); /* not read, because gid_lost_ns is 0 */
    port->gid_lost_ns = 1;
    conn_settle_ports(conn);
    ck_assert_uint_eq(port->n_gids, n_gids);
    ck_assert(!is_read_again(conn, port));
    bed_run(&bed, TIMER_LISTEN_NS + BED_MS, NULL);
    ck_assert(is_read_again(conn, port));
    ck_assert(!is_read_again(conn, port));
    port->is_active = false;
    bed_run(&bed, TIMER_LISTEN_NS + BED_MS, NULL);
    ck_assert(!is_read_again(conn, port));
    bed_close(&bed);
}
END_TEST

/* Only the peer knows that its port is down, because only host 1 refreshes its ports. */
START_TEST(a_port_that_only_the_peer_knows_to_be_down_is_waited_for)
{
    struct world_fault fault = {.kind = WORLD_FAULT_DOWN, .has_port = true, .host = 1};
    struct weft_error other = {0};
    struct conn *conn;
    struct bed bed;

    bed_open(&bed, &(struct bed_config){.seed = 58});
    bed_listen(&bed, 1);
    ck_assert_int_eq(bed.world->ops->inject(bed.world, &fault), 0);
    bed_run(&bed, BED_MS, NULL);
    ck_assert_int_eq(rdma_refresh(bed.hosts[1].rdma, NULL), WEFT_OK);
    conn = bed_connect(&bed, 0, 1);
    ck_assert(bed_run(&bed, 30 * BED_S, bed_all_settled));
    ck_assert_int_eq(conn->state, CONN_FAILED);
    ck_assert_str_eq(weft_phase_name(conn->error.phase), "route");
    ck_assert_str_eq(weft_error_value(&conn->error, WEFT_VALUE_REMOTE_INACTIVE)->text,
                     "p0");
    ck_assert(conn_waits_for_port(conn, &conn->error));
    weft_fail(&other, WEFT_ERR_ROUTE, WEFT_PHASE_ROUTE,
              "no address of the peer faces this host");
    ck_assert(!conn_waits_for_port(conn, &other));
    bed_close(&bed);
}
END_TEST

START_TEST(a_host_without_addresses_cannot_listen)
{
    struct bed bed;
    struct weft_error error = {0};
    struct conn_listener *listener;

    bed_open(&bed, &(struct bed_config){.seed = 57, .no_management = true});
    bed.conn.over_management = true;
    ck_assert_int_eq(conn_listen(bed.hosts[1].rdma, &bed.conn, BED_KIND_LISTENER,
                                 BED_KIND_CONN, bed.hosts[1].handle, &listener, &error),
                     WEFT_ERR_SYSTEM);
    ck_assert_ptr_null(listener);
    ck_assert_str_eq(weft_phase_name(error.phase), "listen");
    ck_assert_int_eq(error.sys_errno, EADDRNOTAVAIL);
    bed_close(&bed);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("dial");
    TCase *tcase = tcase_create("all");

    suite_add_tcase(suite, tcase);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, a_peer_that_is_not_there_is_waited_for);
    tcase_add_loop_test(tcase, another_secret_is_told_at_both_ends, 0,
                        WEFT_LENGTH(secret_cases));
    tcase_add_loop_test(tcase, a_stale_handle_is_refused_at_once, 0,
                        WEFT_LENGTH(handle_cases));
    tcase_add_loop_test(tcase, members_that_crowd_each_other_out_all_get_in, 0, 6);
    tcase_add_test(tcase, a_handle_of_this_host_and_a_broken_one);
    tcase_add_loop_test(tcase, without_a_descriptor_patience_is_short, 0, 4);
    tcase_add_loop_test(tcase, a_failed_attempt_is_told_by_its_errno, 0, 3);
    tcase_add_test(tcase, dialling_again_is_not_silence);
    tcase_add_test(tcase, an_excluded_port_hides_no_netdev);
    tcase_add_loop_test(tcase, accept_may_fail_for_a_while, 0, 5);
    tcase_add_test(tcase, a_port_that_only_the_peer_knows_to_be_down_is_waited_for);
    tcase_add_loop_test(tcase, a_port_that_belongs_to_another_program, 0,
                        (int)WEFT_LENGTH(foreign_cases));
    tcase_add_test(tcase, a_cable_that_is_down_is_gone_around);
    tcase_add_test(tcase, a_late_port_beyond_the_16th_is_found);
    tcase_add_loop_test(tcase, a_dead_cable_is_dialled_last, 0, 4);
    tcase_add_test(tcase, a_silent_management_network_is_not_waited_for);
    tcase_add_test(tcase, ports_are_read_again_once_in_a_while);
    tcase_add_test(tcase, a_host_without_addresses_cannot_listen);
    return suite_run(suite);
}
