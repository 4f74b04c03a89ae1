#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "sim/stack_testing.h"

#define MS ((weft_ns)1000000)
#define SECOND (1000 * MS)
#define PORT 5000

/* h0 10.0.0.1 -- 10.0.0.2 h1, with a listener on h1. */
static struct net net;
static struct sim_listener *listener;
static int n_listener_wakes, n_client_wakes, n_server_wakes;

static void start_with(const struct sim_stack_config *config)
{
    net_init(&net);
    net_add_host(&net, config);
    net_add_host(&net, config);
    net_cable(&net, 0, "10.0.0.1/24", 1, "10.0.0.2/24");
    struct sim_endpoint at = {.port = PORT};
    struct sim_endpoint real;
    n_listener_wakes = n_client_wakes = n_server_wakes = 0;
    ck_assert_int_eq(sim_tcp_listen(net.hosts[1].stack, &at, 4,
                                    net_count(&n_listener_wakes), &listener, &real),
                     0);
    ck_assert_uint_eq(real.port, PORT);
}

static void start(void)
{
    start_with(NULL);
}

static void stop(void)
{
    net_fini(&net);
}

static struct sim_stream *dial(const char *ip, uint16_t port)
{
    struct sim_endpoint to = net_endpoint(ip, port);
    struct sim_stream *stream;
    int error = sim_tcp_connect(net.hosts[0].stack, NULL, &to, net_count(&n_client_wakes),
                                &stream);
    ck_assert_int_eq(error, 0);
    return stream;
}

static struct sim_stream *accept_one(void)
{
    struct sim_stream *stream;
    ck_assert_int_eq(sim_tcp_accept(listener, net_count(&n_server_wakes), &stream), 0);
    return stream;
}

static void connect_pair(struct sim_stream **client, struct sim_stream **server)
{
    *client = dial("10.0.0.2", PORT);
    net_run(&net, sim_now_ns(net.engine) + 5 * MS);
    ck_assert_int_eq(sim_tcp_connected(*client), 0);
    *server = accept_one();
}

static void expect_recv(struct sim_stream *stream, const char *expected)
{
    char bytes[256] = {0};
    size_t n;
    ck_assert_int_eq(sim_tcp_recv(stream, bytes, sizeof bytes - 1, &n), 0);
    ck_assert_str_eq(bytes, expected);
    ck_assert_uint_eq(n, strlen(expected));
}

static void must_send(struct sim_stream *stream, const char *text)
{
    size_t n;
    ck_assert_int_eq(sim_tcp_send(stream, text, strlen(text), &n), 0);
    ck_assert_uint_eq(n, strlen(text));
}

START_TEST(a_conversation)
{
    struct sim_stream *client = dial("10.0.0.2", PORT);
    ck_assert_int_eq(sim_tcp_connected(client), EAGAIN);
    struct sim_stream *server;
    ck_assert_int_eq(sim_tcp_accept(listener, net_count(&n_server_wakes), &server),
                     EAGAIN);
    size_t n;
    char byte;
    ck_assert_int_eq(sim_tcp_send(client, "x", 1, &n), EAGAIN);
    ck_assert_int_eq(sim_tcp_recv(client, &byte, 1, &n), EAGAIN);
    net_run(&net, MS);
    ck_assert_int_eq(sim_tcp_connected(client), 0);
    ck_assert_int_eq(n_client_wakes, 1);
    ck_assert_int_eq(n_listener_wakes, 1);
    server = accept_one();

    must_send(client, "hello");
    must_send(server, "welcome");
    net_run(&net, 2 * MS);
    expect_recv(server, "hello");
    expect_recv(client, "welcome");
    ck_assert_int_eq(sim_tcp_recv(client, &byte, 1, &n), EAGAIN);

    struct sim_endpoint local, remote;
    sim_tcp_endpoints(client, &local, NULL);
    sim_tcp_endpoints(server, NULL, &remote);
    ck_assert(sim_ip_equal(&local.ip, &remote.ip));
    ck_assert_uint_eq(local.port, remote.port);
    ck_assert_uint_eq(local.port, 32768);

    /* Bytes sent before a close still arrive, then the end, again and again. */
    must_send(client, "bye");
    sim_tcp_close(client, false);
    net_run(&net, 3 * MS);
    expect_recv(server, "bye");
    ck_assert_int_eq(sim_tcp_recv(server, &byte, 1, &n), 0);
    ck_assert_uint_eq(n, 0);
    ck_assert_int_eq(sim_tcp_recv(server, &byte, 1, &n), 0);
    sim_tcp_close(server, false);
    net_run(&net, 4 * MS);
    ck_assert_int_eq(sim_next(net.engine), SIM_NEVER); /* nothing left over */
    ck_assert_str_eq(net.story.bytes,
                     "0 h0 tcp connect local=10.0.0.1:32768 remote=10.0.0.2:5000\n"
                     "0 h0 p0 neigh ip=10.0.0.2 state=incomplete\n"
                     "1006 h1 p0 neigh ip=10.0.0.1 state=stale mac=020000000001\n"
                     "2013 h0 p0 neigh ip=10.0.0.2 state=reachable mac=020000000101\n"
                     "4026 h0 tcp open local=10.0.0.1:32768 remote=10.0.0.2:5000\n"
                     "5033 h1 p0 neigh ip=10.0.0.1 state=reachable mac=020000000001\n"
                     "1000000 h1 tcp accept local=10.0.0.2:5000 remote=10.0.0.1:32768\n"
                     "2000000 h0 tcp close local=10.0.0.1:32768 remote=10.0.0.2:5000\n"
                     "3000000 h1 tcp close local=10.0.0.2:5000 remote=10.0.0.1:32768\n");
}
END_TEST

START_TEST(nobody_listens)
{
    struct sim_stream *client = dial("10.0.0.2", 1);
    net_run(&net, MS);
    ck_assert_int_eq(sim_tcp_connected(client), ECONNREFUSED);
    ck_assert_int_eq(n_client_wakes, 1);
    size_t n;
    ck_assert_int_eq(sim_tcp_send(client, "x", 1, &n), ECONNREFUSED);
    sim_tcp_close(client, false);
    sim_tcp_close_listener(listener);
    sim_tcp_close_listener(NULL);
    sim_tcp_close(NULL, true);
    client = dial("10.0.0.2", PORT);
    net_run(&net, 2 * MS);
    ck_assert_int_eq(sim_tcp_connected(client), ECONNREFUSED);
    sim_tcp_close(client, true);
}
END_TEST

START_TEST(nobody_there)
{
    struct sim_stream *client = dial("10.0.0.77", PORT);
    net_run(&net, 3 * SECOND - 1);
    ck_assert_int_eq(sim_tcp_connected(client), EAGAIN);
    net_run(&net, 3 * SECOND); /* three probes, a second apart */
    ck_assert_int_eq(sim_tcp_connected(client), EHOSTUNREACH);
    ck_assert_int_eq(n_client_wakes, 1);
    sim_tcp_close(client, false);
    net_run(&net, 100 * SECOND);
    ck_assert_int_eq(sim_next(net.engine), SIM_NEVER);
}
END_TEST

START_TEST(no_route)
{
    struct sim_endpoint to = net_endpoint("192.168.7.1", PORT);
    struct sim_endpoint v6 = net_endpoint("fd00::1", PORT);
    struct sim_endpoint not_mine = net_endpoint("10.0.0.99", 0);
    struct sim_endpoint no_such_if = {.ifindex = 40};
    struct sim_stream *s;
    struct sim_stack *stack = net.hosts[0].stack;
    struct sim_waker none = {0};
    ck_assert_int_eq(sim_tcp_connect(stack, NULL, &to, none, &s), ENETUNREACH);
    ck_assert_int_eq(sim_tcp_connect(stack, NULL, &v6, none, &s), ENETUNREACH);
    to = net_endpoint("10.0.0.2", PORT);
    ck_assert_int_eq(sim_tcp_connect(stack, &not_mine, &to, none, &s), EADDRNOTAVAIL);
    ck_assert_int_eq(sim_tcp_connect(stack, &no_such_if, &to, none, &s), ENODEV);
}
END_TEST

START_TEST(bound_to_an_interface_everything_is_on_link)
{
    struct sim_endpoint from = {.ifindex = 2};
    struct sim_endpoint to = net_endpoint("192.168.7.1", PORT);
    struct sim_stream *s;
    ck_assert_int_eq(
        sim_tcp_connect(net.hosts[0].stack, &from, &to, net_count(&n_client_wakes), &s),
        0);
    net_run(&net, 4 * SECOND);
    ck_assert_int_eq(sim_tcp_connected(s), EHOSTUNREACH);
    sim_tcp_close(s, false);
}
END_TEST

START_TEST(local_port_and_address_may_be_chosen)
{
    struct sim_endpoint from = net_endpoint("10.0.0.1", 777);
    struct sim_endpoint to = net_endpoint("10.0.0.2", PORT);
    struct sim_waker none = {0};
    struct sim_stream *a, *b;
    ck_assert_int_eq(sim_tcp_connect(net.hosts[0].stack, &from, &to, none, &a), 0);
    ck_assert_int_eq(sim_tcp_connect(net.hosts[0].stack, &from, &to, none, &b),
                     EADDRINUSE);
    net_run(&net, MS);
    struct sim_endpoint local, remote;
    sim_tcp_endpoints(accept_one(), &local, &remote);
    ck_assert_uint_eq(local.port, PORT);
    ck_assert_uint_eq(remote.port, 777);
    ck_assert_mem_eq(remote.ip.bytes, from.ip.bytes, 16);
    sim_tcp_close(a, false);
}
END_TEST

START_TEST(listening_rules)
{
    struct sim_stack *stack = net.hosts[1].stack;
    struct sim_waker none = {0};
    struct sim_listener *l;
    struct sim_endpoint real;
    struct sim_endpoint at = net_endpoint("10.0.0.2", PORT);
    ck_assert_int_eq(sim_tcp_listen(stack, &at, 1, none, &l, &real), EADDRINUSE);
    at = net_endpoint("10.9.9.9", 6000);
    ck_assert_int_eq(sim_tcp_listen(stack, &at, 1, none, &l, &real), EADDRNOTAVAIL);
    at = net_endpoint("10.0.0.2", 0);
    ck_assert_int_eq(sim_tcp_listen(stack, &at, 0, none, &l, &real), 0);
    ck_assert_uint_ge(real.port, 32768);
    ck_assert_mem_eq(real.ip.bytes, at.ip.bytes, 16);
    /* On an interface only: other ifindexes do not collide, and the exact address wins. */
    struct sim_endpoint scoped = {.port = 6000, .ifindex = 2};
    struct sim_listener *on_if;
    ck_assert_int_eq(sim_tcp_listen(stack, &scoped, 1, none, &on_if, &real), 0);
    scoped.ifindex = 9;
    ck_assert_int_eq(sim_tcp_listen(stack, &scoped, 1, none, &l, &real), ENODEV);
    struct sim_stream *client = dial("10.0.0.2", 6000);
    net_run(&net, MS);
    ck_assert_int_eq(sim_tcp_connected(client), 0);
    struct sim_stream *server;
    ck_assert_int_eq(sim_tcp_accept(on_if, none, &server), 0);
}
END_TEST

START_TEST(a_backlog_is_a_limit)
{
    struct sim_stream *clients[6];
    for (int i = 0; i < 6; i++) {
        clients[i] = dial("10.0.0.2", PORT);
    }
    net_run(&net, 10 * MS);
    for (int i = 0; i < 6; i++) {
        ck_assert_int_eq(sim_tcp_connected(clients[i]), i < 4 ? 0 : EAGAIN);
    }
    ck_assert_int_eq(n_listener_wakes, 4);
    sim_tcp_close(clients[0],
                  true); /* gone before it was accepted: its place is not free */
    (void)accept_one();
    (void)accept_one();
    net_run(&net, 2 * SECOND); /* the others ask again after a second */
    ck_assert_int_eq(sim_tcp_connected(clients[4]), 0);
    ck_assert_int_eq(sim_tcp_connected(clients[5]), 0);
    /* Clients that were not accepted hear of the listener's end. */
    sim_tcp_close_listener(listener);
    net_run(&net, 3 * SECOND);
    ck_assert_int_eq(sim_tcp_connected(clients[5]), ECONNRESET);
    ck_assert_int_eq(sim_tcp_connected(clients[1]), 0);
}
END_TEST

START_TEST(resets)
{
    struct sim_stream *client, *server;
    char byte;
    size_t n;
    connect_pair(&client, &server);
    must_send(client, "seen");
    net_run(&net, 11 * MS);
    sim_tcp_close(client, true);
    net_run(&net, 12 * MS);
    expect_recv(server, "seen"); /* what came before is not lost */
    ck_assert_int_eq(sim_tcp_recv(server, &byte, 1, &n), ECONNRESET);
    ck_assert_int_eq(sim_tcp_send(server, "x", 1, &n), ECONNRESET);
    sim_tcp_close(server, false);

    /* Closing with unread bytes resets. */
    connect_pair(&client, &server);
    must_send(client, "never read");
    net_run(&net, 31 * MS);
    sim_tcp_close(server, false);
    net_run(&net, 32 * MS);
    ck_assert_int_eq(sim_tcp_recv(client, &byte, 1, &n), ECONNRESET);
    sim_tcp_close(client, false);

    /* Bytes for one that has closed: a reset too. */
    connect_pair(&client, &server);
    sim_tcp_close(server, false);
    net_run(&net, 40 * MS);
    must_send(client, "anybody?");
    net_run(&net, 50 * MS);
    ck_assert_int_eq(sim_tcp_connected(client), ECONNRESET);
    sim_tcp_close(client, false);
    ck_assert_int_eq(sim_next(net.engine), SIM_NEVER);
}
END_TEST

/* Sends `total` bytes each way with whatever partial steps come, and compares. */
static void stream_bytes(struct sim_stream *from, struct sim_stream *to, size_t total,
                         weft_ns deadline)
{
    size_t n_sent = 0, n_received = 0;
    uint8_t out[5000], in[7000];
    while (n_received < total) {
        size_t n = total - n_sent < sizeof out ? total - n_sent : sizeof out;
        for (size_t i = 0; i < n; i++) {
            out[i] = (uint8_t)((n_sent + i) * 31 >> 3);
        }
        size_t n_done = 0;
        if (n > 0) {
            int error = sim_tcp_send(from, out, n, &n_done);
            ck_assert(error == 0 || error == EAGAIN);
            n_sent += n_done;
        }
        int error = sim_tcp_recv(to, in, sizeof in, &n_done);
        ck_assert(error == 0 || error == EAGAIN);
        for (size_t i = 0; i < n_done; i++) {
            ck_assert_uint_eq(in[i], (uint8_t)((n_received + i) * 31 >> 3));
        }
        n_received += n_done;
        ck_assert_int_lt(sim_now_ns(net.engine), deadline);
        (void)sim_step(net.engine, deadline * 1000);
    }
}

START_TEST(a_lot_of_bytes)
{
    struct sim_stream *client, *server;
    connect_pair(&client, &server);
    stream_bytes(client, server, 1000000, SECOND);
    stream_bytes(server, client, 300000, 2 * SECOND);
    ck_assert_int_gt(n_client_wakes, 10);
    ck_assert_int_gt(n_server_wakes, 10);
}
END_TEST

START_TEST(chunks_make_everything_partial)
{
    stop();
    start_with(&(struct sim_stack_config){.tcp_chunk_bytes = 1});
    struct sim_stream *client, *server;
    connect_pair(&client, &server);
    size_t n;
    char bytes[8];
    ck_assert_int_eq(sim_tcp_send(client, "abc", 3, &n), 0);
    ck_assert_uint_eq(n, 1);
    net_run(&net, 11 * MS);
    ck_assert_int_eq(sim_tcp_recv(server, bytes, sizeof bytes, &n), 0);
    ck_assert_uint_eq(n, 1);
    stream_bytes(client, server, 3000, SECOND);
}
END_TEST

START_TEST(a_reader_that_stops_fills_both_buffers)
{
    struct sim_stream *client, *server;
    connect_pair(&client, &server);
    static char bytes[300000];
    size_t n, n_in = 0, n_out = 0;
    int error;
    do {
        error = sim_tcp_send(client, bytes, sizeof bytes, &n);
        n_in += n;
        net_run(&net, sim_now_ns(net.engine) + MS);
    } while (error == 0);
    ck_assert_int_eq(error, EAGAIN);
    ck_assert_uint_eq(n_in, 2 * 65536);
    net_run(&net, 60 * SECOND); /* the window is probed, and nobody gives up */
    ck_assert_int_eq(sim_tcp_connected(client), 0);
    while (n_out < n_in) {
        error = sim_tcp_recv(server, bytes, 10000, &n);
        ck_assert(error == 0 || error == EAGAIN);
        n_out += n;
        net_run(&net, sim_now_ns(net.engine) + MS);
    }
    ck_assert_uint_eq(n_out, n_in);
    must_send(client, "more");
    net_run(&net, sim_now_ns(net.engine) + MS);
    expect_recv(server, "more");
}
END_TEST

START_TEST(loss_delays_but_loses_nothing)
{
    struct sim_impairment bad = {.loss_ppb = 100000000, .duplicate_ppb = 50000000};
    sim_port_set_impairment(net.hosts[0].ports[0], true, true, &bad);
    struct sim_stream *client = dial("10.0.0.2", PORT);
    struct sim_stream *server = NULL;
    for (weft_ns at = 0; server == NULL; at += MS) {
        ck_assert_int_lt(at, 30 * SECOND);
        net_run(&net, at);
        (void)sim_tcp_accept(listener, net_count(&n_server_wakes), &server);
    }
    for (weft_ns at = 0; sim_tcp_connected(client) == EAGAIN; at += MS) {
        ck_assert_int_lt(at, 30 * SECOND);
        net_run(&net, sim_now_ns(net.engine) + MS);
    }
    stream_bytes(client, server, 500000, 3600 * SECOND);
    stream_bytes(server, client, 500000, 7200 * SECOND);
    sim_tcp_close(client, false);
    net_run(&net, sim_now_ns(net.engine) + 10 * SECOND);
    char byte;
    size_t n;
    ck_assert_int_eq(sim_tcp_recv(server, &byte, 1, &n), 0);
    ck_assert_uint_eq(n, 0);
    sim_tcp_close(server, false);
    net_run(&net, sim_now_ns(net.engine) + 200 * SECOND);
    ck_assert_int_eq(sim_next(net.engine), SIM_NEVER);
}
END_TEST

START_TEST(an_unplugged_cable_times_out)
{
    struct sim_stream *client, *server;
    connect_pair(&client, &server);
    sim_port_set_down(net.hosts[0].ports[0], true, true, true);
    must_send(client, "x");
    net_run(&net, 20 * SECOND);
    ck_assert_int_eq(sim_tcp_connected(client), 0);
    net_run(&net, 21 * SECOND);
    ck_assert_int_eq(sim_tcp_connected(client), ETIMEDOUT);
    ck_assert_int_eq(sim_tcp_connected(server), 0); /* half open: it cannot know */
}
END_TEST

START_TEST(a_dead_host_is_silent)
{
    struct sim_stream *client, *server;
    connect_pair(&client, &server);
    sim_stack_kill(net.hosts[1].stack);
    must_send(client, "x");
    net_run(&net, 19 * SECOND);
    ck_assert_int_eq(sim_tcp_connected(client), 0);
    net_run(&net, 31 * SECOND);
    ck_assert_int_eq(sim_tcp_connected(client), ETIMEDOUT);
    int n_wakes = n_server_wakes;
    sim_tcp_close(server, false);
    ck_assert_int_eq(n_server_wakes, n_wakes);
}
END_TEST

START_TEST(a_firewall_swallows_segments)
{
    stop();
    struct sim_port_range drop = {1024, 65535};
    start_with(&(struct sim_stack_config){.input_drop = &drop, .n_input_drop = 1});
    struct sim_stream *client = dial("10.0.0.2", PORT);
    net_run(&net, 25 * SECOND);
    ck_assert_int_eq(sim_tcp_connected(client), ETIMEDOUT);
}
END_TEST

START_TEST(to_itself)
{
    struct sim_endpoint to = net_endpoint("10.0.0.2", PORT);
    struct sim_stream *client;
    ck_assert_int_eq(sim_tcp_connect(net.hosts[1].stack, NULL, &to,
                                     net_count(&n_client_wakes), &client),
                     0);
    net_run(&net, MS);
    ck_assert_int_eq(sim_tcp_connected(client), 0);
    struct sim_stream *server = accept_one();
    stream_bytes(client, server, 200000, SECOND);
}
END_TEST

START_TEST(an_orphan_waits_a_minute_for_the_other_end)
{
    struct sim_stream *client, *server;
    connect_pair(&client, &server);
    sim_tcp_close(client, false);
    net_run(&net, 59 * SECOND);
    ck_assert_int_ne(sim_next(net.engine), SIM_NEVER);
    net_run(&net, 61 * SECOND);
    ck_assert_int_eq(sim_next(net.engine), SIM_NEVER);
    sim_tcp_close(server, false); /* its last words are answered with a reset */
    net_run(&net, 70 * SECOND);
    ck_assert_int_eq(sim_next(net.engine), SIM_NEVER);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sim/tcp");
    TCase *tcase = tcase_create("tcp");
    tcase_add_checked_fixture(tcase, start, stop);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, a_conversation);
    tcase_add_test(tcase, nobody_listens);
    tcase_add_test(tcase, nobody_there);
    tcase_add_test(tcase, no_route);
    tcase_add_test(tcase, bound_to_an_interface_everything_is_on_link);
    tcase_add_test(tcase, local_port_and_address_may_be_chosen);
    tcase_add_test(tcase, listening_rules);
    tcase_add_test(tcase, a_backlog_is_a_limit);
    tcase_add_test(tcase, resets);
    tcase_add_test(tcase, a_lot_of_bytes);
    tcase_add_test(tcase, chunks_make_everything_partial);
    tcase_add_test(tcase, a_reader_that_stops_fills_both_buffers);
    tcase_add_test(tcase, loss_delays_but_loses_nothing);
    tcase_add_test(tcase, an_unplugged_cable_times_out);
    tcase_add_test(tcase, a_dead_host_is_silent);
    tcase_add_test(tcase, a_firewall_swallows_segments);
    tcase_add_test(tcase, to_itself);
    tcase_add_test(tcase, an_orphan_waits_a_minute_for_the_other_end);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
