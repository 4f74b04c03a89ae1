#include <check.h>
#include <errno.h>
#include <string.h>

#include "base/suite_testing.h"
#include "sim/tcp_testing.h"

START_TEST(chunks_make_everything_partial)
{
    duo_stop();
    duo_start_with(&(struct sim_stack_config){.tcp_chunk_bytes = 1});
    struct sim_stream *client, *server;
    duo_connect(&client, &server);
    size_t n;
    char bytes[8];
    ck_assert_int_eq(sim_tcp_send(client, "abc", 3, &n), 0);
    ck_assert_uint_eq(n, 1);
    net_run(&duo.net, 11 * MS);
    ck_assert_int_eq(sim_tcp_recv(server, bytes, sizeof bytes, &n), 0);
    ck_assert_uint_eq(n, 1);
    duo_stream(client, server, 3000, SECOND);
}
END_TEST

START_TEST(a_reader_that_stops_fills_both_buffers)
{
    struct sim_stream *client, *server;
    duo_connect(&client, &server);
    static char bytes[300000];
    size_t n, n_in = 0, n_out = 0;
    int error;
    do {
        error = sim_tcp_send(client, bytes, sizeof bytes, &n);
        n_in += n;
        net_run(&duo.net, sim_now_ns(duo.net.engine) + MS);
    } while (error == 0);
    ck_assert_int_eq(error, EAGAIN);
    ck_assert_uint_eq(n_in, 2 * 65536);
    net_run(&duo.net, 60 * SECOND); /* the window is probed, and neither end gives up */
    ck_assert_int_eq(sim_tcp_connected(client), 0);
    while (n_out < n_in) {
        error = sim_tcp_recv(server, bytes, 10000, &n);
        ck_assert(error == 0 || error == EAGAIN);
        n_out += n;
        net_run(&duo.net, sim_now_ns(duo.net.engine) + MS);
    }
    ck_assert_uint_eq(n_out, n_in);
    duo_send(client, "more");
    net_run(&duo.net, sim_now_ns(duo.net.engine) + MS);
    duo_expect(server, "more");
}
END_TEST

START_TEST(loss_delays_but_loses_nothing)
{
    struct sim_impairment bad = {.loss_ppb = 100000000, .duplicate_ppb = 50000000};
    sim_port_set_impairment(duo.net.hosts[0].ports[0], true, true, &bad);
    struct sim_stream *client = duo_dial("10.0.0.2", PORT);
    struct sim_stream *server = NULL;
    for (weft_ns at = 0; server == NULL; at += MS) {
        ck_assert_int_lt(at, 30 * SECOND);
        net_run(&duo.net, at);
        (void)sim_tcp_accept(duo.listener, net_count(&duo.n_server_wakes), &server);
    }
    for (weft_ns at = 0; sim_tcp_connected(client) == EAGAIN; at += MS) {
        ck_assert_int_lt(at, 30 * SECOND);
        net_run(&duo.net, sim_now_ns(duo.net.engine) + MS);
    }
    duo_stream(client, server, 500000, 3600 * SECOND);
    duo_stream(server, client, 500000, 7200 * SECOND);
    sim_tcp_close(client, false);
    net_run(&duo.net, sim_now_ns(duo.net.engine) + 10 * SECOND);
    char byte;
    size_t n;
    ck_assert_int_eq(sim_tcp_recv(server, &byte, 1, &n), 0);
    ck_assert_uint_eq(n, 0);
    sim_tcp_close(server, false);
    net_run(&duo.net, sim_now_ns(duo.net.engine) + 200 * SECOND);
    ck_assert_int_eq(sim_next(duo.net.engine), SIM_NEVER);
}
END_TEST

START_TEST(an_unplugged_cable_times_out)
{
    struct sim_stream *client, *server;
    duo_connect(&client, &server);
    sim_port_set_down(duo.net.hosts[0].ports[0], true, true, true);
    duo_send(client, "x");
    net_run(&duo.net, 20 * SECOND);
    ck_assert_int_eq(sim_tcp_connected(client), 0);
    net_run(&duo.net, 21 * SECOND);
    ck_assert_int_eq(sim_tcp_connected(client), ETIMEDOUT);
    ck_assert_int_eq(sim_tcp_connected(server), 0); /* half open: it cannot know */
}
END_TEST

/* A stream whose owner wants it to endure longer survives, if the cable is back in time. */
START_TEST(a_stream_endures_as_long_as_its_owner_wants)
{
    struct sim_stream *client, *server;
    bool is_back = _i == 0;
    duo_connect(&client, &server);
    sim_tcp_endure(client, 60 * 1000 * (weft_ps)SECOND);
    sim_port_set_down(duo.net.hosts[0].ports[0], true, true, true);
    duo_send(client, "x");
    net_run(&duo.net, 50 * SECOND);
    ck_assert_int_eq(sim_tcp_connected(client), 0);
    sim_port_set_down(duo.net.hosts[0].ports[0], true, true, !is_back);
    net_run(&duo.net, 61 * SECOND);
    size_t n;
    ck_assert_int_eq(sim_tcp_unacked(client, &n), is_back ? 0 : ETIMEDOUT);
    ck_assert_uint_eq(n, is_back ? 0 : 1);
}
END_TEST

START_TEST(a_dead_host_is_silent)
{
    struct sim_stream *client, *server;
    duo_connect(&client, &server);
    sim_stack_kill(duo.net.hosts[1].stack);
    duo_send(client, "x");
    net_run(&duo.net, 19 * SECOND);
    ck_assert_int_eq(sim_tcp_connected(client), 0);
    net_run(&duo.net, 31 * SECOND);
    ck_assert_int_eq(sim_tcp_connected(client), ETIMEDOUT);
    int n_wakes = duo.n_server_wakes;
    sim_tcp_close(server, false);
    ck_assert_int_eq(duo.n_server_wakes, n_wakes);
}
END_TEST

START_TEST(a_killed_process_is_heard_of)
{
    struct sim_stream *client, *server;
    duo_connect(&client, &server);
    sim_stack_reset_streams(duo.net.hosts[1].stack);
    sim_stack_kill(duo.net.hosts[1].stack);
    sim_stack_reset_streams(duo.net.hosts[1].stack); /* a killed host sends nothing */
    net_run(&duo.net, 20 * MS);
    ck_assert_int_eq(sim_tcp_connected(client), ECONNRESET);
    ck_assert_int_eq(sim_tcp_connected(server), 0);
}
END_TEST

START_TEST(a_firewall_swallows_segments)
{
    duo_stop();
    struct sim_port_range drop = {1024, 65535, false};
    duo_start_with(&(struct sim_stack_config){.input_drop = &drop, .n_input_drop = 1});
    struct sim_stream *client = duo_dial("10.0.0.2", PORT);
    net_run(&duo.net, 25 * SECOND);
    ck_assert_int_eq(sim_tcp_connected(client), ETIMEDOUT);
}
END_TEST

START_TEST(an_orphan_waits_a_minute_for_the_other_end)
{
    struct sim_stream *client, *server;
    duo_connect(&client, &server);
    sim_tcp_close(client, false);
    net_run(&duo.net, 59 * SECOND);
    ck_assert_int_ne(sim_next(duo.net.engine), SIM_NEVER);
    net_run(&duo.net, 61 * SECOND);
    ck_assert_int_eq(sim_next(duo.net.engine), SIM_NEVER);
    sim_tcp_close(server, false); /* its FIN is answered with a reset */
    net_run(&duo.net, 70 * SECOND);
    ck_assert_int_eq(sim_next(duo.net.engine), SIM_NEVER);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sim/tcp, when things go wrong");
    TCase *tcase = tcase_create("tcp");
    tcase_add_checked_fixture(tcase, duo_start, duo_stop);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, chunks_make_everything_partial);
    tcase_add_test(tcase, a_reader_that_stops_fills_both_buffers);
    tcase_add_test(tcase, loss_delays_but_loses_nothing);
    tcase_add_test(tcase, an_unplugged_cable_times_out);
    tcase_add_loop_test(tcase, a_stream_endures_as_long_as_its_owner_wants, 0, 2);
    tcase_add_test(tcase, a_dead_host_is_silent);
    tcase_add_test(tcase, a_killed_process_is_heard_of);
    tcase_add_test(tcase, a_firewall_swallows_segments);
    tcase_add_test(tcase, an_orphan_waits_a_minute_for_the_other_end);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
