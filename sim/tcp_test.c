#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/suite_testing.h"
#include "sim/stack_impl.h"
#include "sim/tcp_testing.h"

START_TEST(a_conversation)
{
    struct sim_stream *client = duo_dial("10.0.0.2", PORT);
    ck_assert_int_eq(sim_tcp_connected(client), EAGAIN);
    struct sim_stream *server;
    ck_assert_int_eq(
        sim_tcp_accept(duo.listener, net_count(&duo.n_server_wakes), &server), EAGAIN);
    size_t n;
    char byte;
    ck_assert_int_eq(sim_tcp_send(client, "x", 1, &n), EAGAIN);
    ck_assert_int_eq(sim_tcp_recv(client, &byte, 1, &n), EAGAIN);
    net_run(&duo.net, MS);
    ck_assert_int_eq(sim_tcp_connected(client), 0);
    ck_assert_int_eq(duo.n_client_wakes, 1);
    ck_assert_int_eq(duo.n_listener_wakes, 1);
    server = duo_accept();

    duo_send(client, "hello");
    duo_send(server, "welcome");
    net_run(&duo.net, 2 * MS);
    duo_expect(server, "hello");
    duo_expect(client, "welcome");
    ck_assert_int_eq(sim_tcp_recv(client, &byte, 1, &n), EAGAIN);

    struct sim_endpoint local, remote;
    sim_tcp_endpoints(client, &local, NULL);
    sim_tcp_endpoints(server, NULL, &remote);
    ck_assert(sim_ip_equal(&local.ip, &remote.ip));
    ck_assert_uint_eq(local.port, remote.port);
    ck_assert_uint_eq(local.port, 32768);

    /* Bytes sent before a close still arrive, then EOF, repeatedly. */
    duo_send(client, "bye");
    sim_tcp_close(client, false);
    net_run(&duo.net, 3 * MS);
    duo_expect(server, "bye");
    ck_assert_int_eq(sim_tcp_recv(server, &byte, 1, &n), 0);
    ck_assert_uint_eq(n, 0);
    ck_assert_int_eq(sim_tcp_recv(server, &byte, 1, &n), 0);
    sim_tcp_close(server, false);
    net_run(&duo.net, 4 * MS);
    ck_assert_int_eq(sim_next(duo.net.engine), SIM_NEVER); /* nothing is left pending */
    ck_assert_str_eq(duo.net.story.bytes,
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
    struct sim_stream *client = duo_dial("10.0.0.2", 1);
    net_run(&duo.net, MS);
    ck_assert_int_eq(sim_tcp_connected(client), ECONNREFUSED);
    ck_assert_int_eq(duo.n_client_wakes, 1);
    size_t n;
    ck_assert_int_eq(sim_tcp_send(client, "x", 1, &n), ECONNREFUSED);
    sim_tcp_close(client, false);
    sim_tcp_close_listener(duo.listener);
    sim_tcp_close_listener(NULL);
    sim_tcp_close(NULL, true);
    client = duo_dial("10.0.0.2", PORT);
    net_run(&duo.net, 2 * MS);
    ck_assert_int_eq(sim_tcp_connected(client), ECONNREFUSED);
    sim_tcp_close(client, true);
}
END_TEST

/* 127.0.0.0/8 reaches only the host itself. */
START_TEST(loopback_is_this_very_host)
{
    struct sim_endpoint at = net_endpoint("127.0.0.1", PORT);
    struct sim_stream *client = duo_dial("127.0.0.1", PORT);
    struct sim_listener *own;
    struct sim_stream *server;
    int n_wakes = 0;

    net_run(&duo.net, MS);
    ck_assert_int_eq(sim_tcp_connected(client), ECONNREFUSED);
    sim_tcp_close(client, true);
    ck_assert_int_eq(
        sim_tcp_listen(duo.net.hosts[0].stack, &at, 1, net_count(&n_wakes), &own, &at),
        0);
    client = duo_dial("127.0.0.1", PORT);
    net_run(&duo.net, 2 * MS);
    ck_assert_int_eq(sim_tcp_connected(client), 0);
    ck_assert_int_eq(sim_tcp_accept(own, net_count(&n_wakes), &server), 0);
    sim_tcp_close(server, true);
    sim_tcp_close(client, true);
    sim_tcp_close_listener(own);
}
END_TEST

START_TEST(nobody_there)
{
    struct sim_stream *client = duo_dial("10.0.0.77", PORT);
    net_run(&duo.net, 3 * SECOND - 1);
    ck_assert_int_eq(sim_tcp_connected(client), EAGAIN);
    net_run(&duo.net, 3 * SECOND); /* three probes, a second apart */
    ck_assert_int_eq(sim_tcp_connected(client), EHOSTUNREACH);
    ck_assert_int_eq(duo.n_client_wakes, 1);
    sim_tcp_close(client, false);
    net_run(&duo.net, 100 * SECOND);
    ck_assert_int_eq(sim_next(duo.net.engine), SIM_NEVER);
}
END_TEST

START_TEST(no_route)
{
    struct sim_endpoint to = net_endpoint("192.168.7.1", PORT);
    struct sim_endpoint v6 = net_endpoint("fd00::1", PORT);
    struct sim_endpoint not_mine = net_endpoint("10.0.0.99", 0);
    struct sim_endpoint no_such_if = {.ifindex = 40};
    struct sim_stream *s;
    struct sim_stack *stack = duo.net.hosts[0].stack;
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
    ck_assert_int_eq(sim_tcp_connect(duo.net.hosts[0].stack, &from, &to,
                                     net_count(&duo.n_client_wakes), &s),
                     0);
    net_run(&duo.net, 4 * SECOND);
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
    ck_assert_int_eq(sim_tcp_connect(duo.net.hosts[0].stack, &from, &to, none, &a), 0);
    ck_assert_int_eq(sim_tcp_connect(duo.net.hosts[0].stack, &from, &to, none, &b),
                     EADDRINUSE);
    net_run(&duo.net, MS);
    struct sim_endpoint local, remote;
    sim_tcp_endpoints(duo_accept(), &local, &remote);
    ck_assert_uint_eq(local.port, PORT);
    ck_assert_uint_eq(remote.port, 777);
    ck_assert_mem_eq(remote.ip.bytes, from.ip.bytes, 16);
    sim_tcp_close(a, false);
}
END_TEST

START_TEST(listening_rules)
{
    struct sim_stack *stack = duo.net.hosts[1].stack;
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
    /* A listener bound to an interface; an unknown ifindex is refused. */
    struct sim_endpoint scoped = {.port = 6000, .ifindex = 2};
    struct sim_listener *on_if;
    ck_assert_int_eq(sim_tcp_listen(stack, &scoped, 1, none, &on_if, &real), 0);
    scoped.ifindex = 9;
    ck_assert_int_eq(sim_tcp_listen(stack, &scoped, 1, none, &l, &real), ENODEV);
    struct sim_stream *client = duo_dial("10.0.0.2", 6000);
    net_run(&duo.net, MS);
    ck_assert_int_eq(sim_tcp_connected(client), 0);
    struct sim_stream *server;
    ck_assert_int_eq(sim_tcp_accept(on_if, none, &server), 0);
}
END_TEST

START_TEST(a_backlog_is_a_limit)
{
    struct sim_stream *clients[6];
    for (int i = 0; i < 6; i++) {
        clients[i] = duo_dial("10.0.0.2", PORT);
    }
    net_run(&duo.net, 10 * MS);
    for (int i = 0; i < 6; i++) {
        ck_assert_int_eq(sim_tcp_connected(clients[i]), i < 4 ? 0 : EAGAIN);
    }
    ck_assert_int_eq(duo.n_listener_wakes, 4);
    sim_tcp_close(clients[0],
                  /* closed before it was accepted: its place in the backlog is not
                   * free */
                  true);
    (void)duo_accept();
    (void)duo_accept();
    net_run(&duo.net, 2 * SECOND); /* the others retransmit their SYN after a second */
    ck_assert_int_eq(sim_tcp_connected(clients[4]), 0);
    ck_assert_int_eq(sim_tcp_connected(clients[5]), 0);
    /* Clients that were not accepted are reset when the listener is closed. */
    sim_tcp_close_listener(duo.listener);
    net_run(&duo.net, 3 * SECOND);
    ck_assert_int_eq(sim_tcp_connected(clients[5]), ECONNRESET);
    ck_assert_int_eq(sim_tcp_connected(clients[1]), 0);
}
END_TEST

START_TEST(resets)
{
    struct sim_stream *client, *server;
    char byte;
    size_t n;
    duo_connect(&client, &server);
    duo_send(client, "seen");
    net_run(&duo.net, 11 * MS);
    sim_tcp_close(client, true);
    net_run(&duo.net, 12 * MS);
    duo_expect(server, "seen"); /* bytes received before the reset are not lost */
    ck_assert_int_eq(sim_tcp_recv(server, &byte, 1, &n), ECONNRESET);
    ck_assert_int_eq(sim_tcp_send(server, "x", 1, &n), ECONNRESET);
    sim_tcp_close(server, false);

    /* Closing with unread bytes resets. */
    duo_connect(&client, &server);
    duo_send(client, "never read");
    net_run(&duo.net, 31 * MS);
    sim_tcp_close(server, false);
    net_run(&duo.net, 32 * MS);
    ck_assert_int_eq(sim_tcp_recv(client, &byte, 1, &n), ECONNRESET);
    sim_tcp_close(client, false);

    /* Bytes for a closed stream are answered with a reset, too. */
    duo_connect(&client, &server);
    sim_tcp_close(server, false);
    net_run(&duo.net, 40 * MS);
    duo_send(client, "anybody?");
    net_run(&duo.net, 50 * MS);
    ck_assert_int_eq(sim_tcp_connected(client), ECONNRESET);
    sim_tcp_close(client, false);
    ck_assert_int_eq(sim_next(duo.net.engine), SIM_NEVER);
}
END_TEST

static uint32_t acked; /* last acknowledgement number that h1 sent */

static void on_frame(void *context, weft_ns at, const struct sim_port *port,
                     bool is_outgoing, const uint8_t *bytes, size_t n_bytes,
                     const char *comment)
{
    enum { IP = 14, TCP = IP + 20, ACK = TCP + 8 };
    (void)context;
    (void)at;
    (void)port;
    (void)comment;
    if (is_outgoing && n_bytes >= TCP + 20 && bytes[IP] == 0x45 && bytes[IP + 9] == 6) {
        acked = (uint32_t)bytes[ACK] << 24 | (uint32_t)bytes[ACK + 1] << 16 |
                (uint32_t)bytes[ACK + 2] << 8 | bytes[ACK + 3];
    }
}

/* Sends a reset as a stream of h0 would. */
static void send_reset(const struct sim_endpoint *from, const struct sim_endpoint *to,
                       uint32_t seq)
{
    struct sim_packet *packet = weft_calloc(1, sizeof *packet);
    struct sim_tcp_segment *segment = weft_calloc(1, sizeof *segment);
    *segment = (struct sim_tcp_segment){.source = *from,
                                        .destination = *to,
                                        .seq = seq,
                                        .flags = SIM_TCP_RST,
                                        .hop_limit = 64};
    *packet = (struct sim_packet){.kind = SIM_FRAME_TCP,
                                  .ip_bytes = 40,
                                  .wire_bytes = sim_frame_bytes(40),
                                  .payload = segment,
                                  .n_payload = sizeof *segment};
    ck_assert_int_eq(sim_stack_output(duo.net.hosts[0].stack, NULL, packet), 0);
}

/* RFC 9293, 3.10.7.4, with the upper bound of Linux (tcp_sequence): a reset is accepted
 * if its sequence number is in the window. `unread` bytes shrink the window. */
START_TEST(a_reset_counts_inside_the_window_only)
{
    static const struct {
        uint32_t unread;
        int64_t ahead;
        bool counts;
    } rows[] = {
        {0, 0, true},       {0, 1, true},         {0, 65536, true},
        {0, 65537, false},  {0, 1 << 30, false},  {0, -1, false},
        {0, -65536, false}, {1000, 64536, true},  {1000, 64537, false},
        {1000, -1, false},  {1000, -1000, false}, {1000, 0, true},
    };
    struct sim_stream *client, *server;
    char bytes[1000] = {0};
    struct sim_endpoint from, to;
    size_t n = 0;
    sim_port_tap(duo.net.hosts[1].ports[0], on_frame, NULL);
    duo_connect(&client, &server);
    if (rows[_i].unread > 0) {
        ck_assert_int_eq(sim_tcp_send(client, bytes, rows[_i].unread, &n), 0);
        ck_assert_uint_eq(n, rows[_i].unread);
        net_run(&duo.net, 10 * MS);
    }
    sim_tcp_endpoints(client, &from, &to);
    send_reset(&from, &to, (uint32_t)(acked + rows[_i].ahead));
    net_run(&duo.net, 20 * MS);
    ck_assert_int_eq(sim_tcp_connected(server), rows[_i].counts ? ECONNRESET : 0);
    if (!rows[_i].counts) {
        duo_send(client, "still here");
        net_run(&duo.net, 30 * MS);
        for (n = 0; n < rows[_i].unread;) {
            size_t more = 0;
            ck_assert_int_eq(sim_tcp_recv(server, bytes, rows[_i].unread - n, &more), 0);
            n += more;
        }
        duo_expect(server, "still here");
    }
    sim_tcp_close(client, true);
    sim_tcp_close(server, true);
}
END_TEST

START_TEST(a_lot_of_bytes)
{
    struct sim_stream *client, *server;
    duo_connect(&client, &server);
    duo_stream(client, server, 1000000, SECOND);
    duo_stream(server, client, 300000, 2 * SECOND);
    ck_assert_int_gt(duo.n_client_wakes, 10);
    ck_assert_int_gt(duo.n_server_wakes, 10);
}
END_TEST

START_TEST(to_itself)
{
    struct sim_endpoint to = net_endpoint("10.0.0.2", PORT);
    struct sim_stream *client;
    ck_assert_int_eq(sim_tcp_connect(duo.net.hosts[1].stack, NULL, &to,
                                     net_count(&duo.n_client_wakes), &client),
                     0);
    net_run(&duo.net, MS);
    ck_assert_int_eq(sim_tcp_connected(client), 0);
    struct sim_stream *server = duo_accept();
    duo_stream(client, server, 200000, SECOND);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sim/tcp");
    TCase *tcase = tcase_create("tcp");
    tcase_add_checked_fixture(tcase, duo_start, duo_stop);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, a_conversation);
    tcase_add_test(tcase, nobody_listens);
    tcase_add_test(tcase, loopback_is_this_very_host);
    tcase_add_test(tcase, nobody_there);
    tcase_add_test(tcase, no_route);
    tcase_add_test(tcase, bound_to_an_interface_everything_is_on_link);
    tcase_add_test(tcase, local_port_and_address_may_be_chosen);
    tcase_add_test(tcase, listening_rules);
    tcase_add_test(tcase, a_backlog_is_a_limit);
    tcase_add_test(tcase, resets);
    tcase_add_loop_test(tcase, a_reset_counts_inside_the_window_only, 0, 12);
    tcase_add_test(tcase, a_lot_of_bytes);
    tcase_add_test(tcase, to_itself);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
