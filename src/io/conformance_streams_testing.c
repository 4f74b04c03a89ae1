/* Tests of io/oob.h: streams. */
#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "io/conformance_testing.h"
#include "io/oob.h"

static const struct io_oob_ops *oob;
static struct io_listener *listener;
static struct io_endpoint at;

static struct io_task *task(int host, int kind)
{
    return &now_testing.task[host][kind];
}

/* RIGHT listens on its address on the cable, on an ephemeral port. */
static void start_listening(int backlog)
{
    struct io_endpoint any = {.ip = io_ip_v4(10, 77, 0, 2)};
    oob = now_testing.env[RIGHT]->oob;
    ck_assert_int_eq(oob->listen(now_testing.env[RIGHT], &any, backlog,
                                 task(RIGHT, TASK_LISTENER), &listener, &at),
                     0);
    ck_assert_uint_ne(at.port, 0);
    ck_assert(io_ip_equal(&at.ip, &any.ip));
}

static struct io_stream *dial(void)
{
    struct io_stream *stream;
    ck_assert_int_eq(
        oob->connect(now_testing.env[LEFT], NULL, &at, task(LEFT, TASK_CLIENT), &stream),
        0);
    return stream;
}

static struct io_stream *accept_one(void)
{
    struct io_stream *stream = NULL;
    WAIT_FOR(oob->accept(listener, task(RIGHT, TASK_SERVER), &stream) == 0);
    return stream;
}

static void connect_pair(struct io_stream **client, struct io_stream **server)
{
    start_listening(8);
    *client = dial();
    WAIT_FOR(oob->connected(*client) == 0);
    WAIT_FOR(now_testing.n_woken[RIGHT][TASK_LISTENER] > 0);
    *server = accept_one();
}

static void put(struct io_stream *stream, const char *text)
{
    size_t n;
    ck_assert_int_eq(oob->send(stream, text, strlen(text), &n), 0);
    ck_assert_uint_eq(n, strlen(text));
}

/* Receives exactly `text`, in any number of pieces. */
static void expect(struct io_stream *stream, const char *text)
{
    while (*text != '\0') {
        char bytes[64];
        size_t n = 0;
        int error = EAGAIN;
        WAIT_FOR((error = oob->recv(stream, bytes, sizeof bytes, &n)) != EAGAIN);
        ck_assert_int_eq(error, 0);
        ck_assert_uint_gt(n, 0);
        ck_assert_uint_le(n, strlen(text));
        ck_assert_mem_eq(bytes, text, n);
        text += n;
    }
}

static int recv_outcome(struct io_stream *stream, size_t *out_n)
{
    char byte;
    int error = EAGAIN;
    WAIT_FOR((error = oob->recv(stream, &byte, 1, out_n)) != EAGAIN);
    return error;
}

START_TEST(bytes_flow_both_ways)
{
    struct io_stream *client, *server;
    size_t n;
    char byte;
    connect_pair(&client, &server);
    WAIT_FOR(now_testing.n_woken[LEFT][TASK_CLIENT] >= 1);
    ck_assert_int_eq(oob->recv(server, &byte, 1, &n), EAGAIN);
    put(client, "ping");
    unsigned n_before = now_testing.n_woken[RIGHT][TASK_SERVER];
    WAIT_FOR(now_testing.n_woken[RIGHT][TASK_SERVER] > n_before);
    expect(server, "ping");
    put(server, "pong");
    expect(client, "pong");

    struct io_endpoint client_local, client_remote, server_local, server_remote;
    oob->endpoints(client, &client_local, &client_remote);
    oob->endpoints(server, &server_local, &server_remote);
    oob->endpoints(server, NULL, NULL);
    ck_assert(io_ip_equal(&client_local.ip, &server_remote.ip));
    ck_assert(io_ip_equal(&client_remote.ip, &server_local.ip));
    ck_assert_uint_eq(client_local.port, server_remote.port);
    ck_assert_uint_eq(server_local.port, at.port);
    oob->close(client, true);
    oob->close(server, true);
    oob->close_listener(listener);
}
END_TEST

START_TEST(a_full_stream_says_so_and_goes_on)
{
    struct io_stream *client, *server;
    static uint8_t block[8192];
    size_t n_sent = 0, n_received = 0, n;
    int error;
    connect_pair(&client, &server);
    /* The peer does not read, so that the buffer becomes full. */
    do {
        for (size_t i = 0; i < sizeof block; i++) {
            block[i] = (uint8_t)((n_sent + i) * 7 >> 4);
        }
        error = oob->send(client, block, sizeof block, &n);
        n_sent += error == 0 ? n : 0;
        ck_assert_uint_lt(n_sent, 1 << 30);
    } while (error == 0);
    ck_assert_int_eq(error, EAGAIN);
    unsigned n_before = now_testing.n_woken[LEFT][TASK_CLIENT];
    while (n_received < n_sent) {
        WAIT_FOR((error = oob->recv(server, block, sizeof block, &n)) != EAGAIN);
        ck_assert_int_eq(error, 0);
        bool same = true; /* asserting each of millions of bytes would take minutes */
        for (size_t i = 0; i < n; i++) {
            same = same && block[i] == (uint8_t)((n_received + i) * 7 >> 4);
        }
        ck_assert(same);
        n_received += n;
    }
    WAIT_FOR(now_testing.n_woken[LEFT][TASK_CLIENT] > n_before); /* writable again */
    put(client, "more");
    expect(server, "more");
}
END_TEST

START_TEST(nobody_listens)
{
    start_listening(1);
    oob->close_listener(listener);
    oob->close_listener(NULL);
    struct io_stream *client = dial();
    int error = EAGAIN;
    WAIT_FOR((error = oob->connected(client)) != EAGAIN);
    ck_assert_int_eq(error, ECONNREFUSED);
    oob->close(client, false);
    oob->close(NULL, false);
}
END_TEST

START_TEST(a_close_lets_bytes_arrive_first)
{
    struct io_stream *client, *server;
    size_t n = 1;
    connect_pair(&client, &server);
    put(client, "last words");
    oob->close(client, false);
    expect(server, "last words");
    ck_assert_int_eq(recv_outcome(server, &n), 0);
    ck_assert_uint_eq(n, 0);
    ck_assert_int_eq(recv_outcome(server, &n), 0); /* stays at end of stream */
    ck_assert_uint_eq(n, 0);
    oob->close(server, false);
}
END_TEST

/* The kernel acknowledges data for a process that does not read. */
START_TEST(the_other_kernel_acknowledges)
{
    struct io_stream *client, *server;
    size_t n = 1;

    connect_pair(&client, &server);
    put(client, "to nobody");
    WAIT_FOR(oob->unacked(client, &n) == 0 && n == 0);
    ck_assert_int_eq(oob->unacked(server, &n), 0);
    ck_assert_uint_eq(n, 0);
    oob->close(client, true);
    oob->close(server, true);
}
END_TEST

START_TEST(a_reset_breaks_the_other_end)
{
    struct io_stream *client, *server;
    size_t n;
    connect_pair(&client, &server);
    oob->close(client, true);
    ck_assert_int_eq(recv_outcome(server, &n), ECONNRESET);
    int error = oob->send(server, "x", 1, &n);
    ck_assert(error == ECONNRESET || error == EPIPE);
    oob->close(server, false);
}
END_TEST

START_TEST(closing_with_unread_bytes_is_a_reset)
{
    struct io_stream *client, *server;
    size_t n;
    connect_pair(&client, &server);
    unsigned n_before = now_testing.n_woken[RIGHT][TASK_SERVER];
    put(client, "unread");
    WAIT_FOR(now_testing.n_woken[RIGHT][TASK_SERVER] > n_before);
    oob->close(server, false);
    ck_assert_int_eq(recv_outcome(client, &n), ECONNRESET);
    oob->close(client, false);
}
END_TEST

START_TEST(addresses_must_be_ours_and_free)
{
    struct io_endpoint other = {.ip = io_ip_v4(10, 77, 0, 99)};
    struct io_listener *another;
    struct io_endpoint real;
    struct io_stream *stream;
    start_listening(1);
    struct io_env *right = now_testing.env[RIGHT];
    ck_assert_int_eq(oob->listen(right, &at, 1, task(RIGHT, TASK_OTHER), &another, &real),
                     EADDRINUSE);
    ck_assert_int_eq(
        oob->listen(right, &other, 1, task(RIGHT, TASK_OTHER), &another, &real),
        EADDRNOTAVAIL);
    ck_assert_int_eq(oob->connect(now_testing.env[LEFT], &other, &at,
                                  task(LEFT, TASK_CLIENT), &stream),
                     EADDRNOTAVAIL);
    struct io_endpoint from = {.ip = io_ip_v4(10, 77, 0, 1)};
    ck_assert_int_eq(
        oob->connect(now_testing.env[LEFT], &from, &at, task(LEFT, TASK_CLIENT), &stream),
        0);
    struct io_stream *server = accept_one();
    oob->endpoints(server, NULL, &real);
    ck_assert(io_ip_equal(&real.ip, &from.ip));
}
END_TEST

START_TEST(a_listener_serves_many_and_survives_them)
{
    struct io_stream *clients[4], *servers[4], *none;
    start_listening(8);
    ck_assert_int_eq(oob->accept(listener, task(RIGHT, TASK_SERVER), &none), EAGAIN);
    for (int i = 0; i < 4; i++) {
        clients[i] = dial();
    }
    for (int i = 0; i < 4; i++) {
        servers[i] = accept_one();
    }
    ck_assert_int_eq(oob->accept(listener, task(RIGHT, TASK_SERVER), &none), EAGAIN);
    oob->close(clients[1], true);
    put(clients[3], "three");
    for (int i = 0; i < 4; i++) { /* match streams by the client's port */
        struct io_endpoint local, remote;
        oob->endpoints(clients[3], &local, NULL);
        oob->endpoints(servers[i], NULL, &remote);
        if (local.port == remote.port) {
            expect(servers[i], "three");
        }
    }
    clients[1] = dial();
    servers[1] = accept_one();
    put(servers[1], "again");
    expect(clients[1], "again");
}
END_TEST

START_TEST(clients_in_the_queue_hear_of_the_listeners_end)
{
    start_listening(8);
    struct io_stream *client = dial();
    WAIT_FOR(oob->connected(client) == 0);
    WAIT_FOR(now_testing.n_woken[RIGHT][TASK_LISTENER] > 0);
    oob->close_listener(listener);
    size_t n;
    ck_assert_int_eq(recv_outcome(client, &n), ECONNRESET);
    oob->close(client, false);
}
END_TEST

START_TEST(wakes_go_to_the_new_owner)
{
    struct io_stream *client, *server;
    connect_pair(&client, &server);
    unsigned n_before = now_testing.n_woken[RIGHT][TASK_SERVER];
    oob->set_task(server, task(RIGHT, TASK_OTHER));
    put(client, "x");
    WAIT_FOR(now_testing.n_woken[RIGHT][TASK_OTHER] > 0);
    ck_assert_uint_eq(now_testing.n_woken[RIGHT][TASK_SERVER], n_before);
    expect(server, "x");
    oob->set_task(server, NULL);
    put(client, "y");
    expect(server, "y");
}
END_TEST

START_TEST(the_management_network_reaches_everybody)
{
    oob = now_testing.env[LEFT]->oob;
    struct io_endpoint any = {.port = 0};
    ck_assert_int_eq(oob->listen(now_testing.env[RIGHT], &any, 1,
                                 task(RIGHT, TASK_LISTENER), &listener, &at),
                     0);
    at.ip = io_ip_v4(10, 88, 0, 2);
    struct io_stream *client = dial();
    struct io_stream *server = accept_one();
    put(client, "over there");
    expect(server, "over there");
    struct io_endpoint local;
    struct io_ip expected = io_ip_v4(10, 88, 0, 1);
    oob->endpoints(client, &local, NULL);
    ck_assert(io_ip_equal(&local.ip, &expected));
}
END_TEST

TCase *conformance_streams(void)
{
    TCase *tcase = tcase_create("streams");
    tcase_add_test(tcase, bytes_flow_both_ways);
    tcase_add_test(tcase, a_full_stream_says_so_and_goes_on);
    tcase_add_test(tcase, nobody_listens);
    tcase_add_test(tcase, a_close_lets_bytes_arrive_first);
    tcase_add_test(tcase, the_other_kernel_acknowledges);
    tcase_add_test(tcase, a_reset_breaks_the_other_end);
    tcase_add_test(tcase, closing_with_unread_bytes_is_a_reset);
    tcase_add_test(tcase, addresses_must_be_ours_and_free);
    tcase_add_test(tcase, a_listener_serves_many_and_survives_them);
    tcase_add_test(tcase, clients_in_the_queue_hear_of_the_listeners_end);
    tcase_add_test(tcase, wakes_go_to_the_new_owner);
    tcase_add_test(tcase, the_management_network_reaches_everybody);
    return tcase;
}
