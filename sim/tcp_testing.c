#include "sim/tcp_testing.h"

#include <check.h>
#include <errno.h>
#include <string.h>

#include "base/check.h"

struct duo duo;

void duo_start_with(const struct sim_stack_config *config)
{
    net_init(&duo.net);
    net_add_host(&duo.net, config);
    net_add_host(&duo.net, config);
    net_cable(&duo.net, 0, "10.0.0.1/24", 1, "10.0.0.2/24");
    struct sim_endpoint at = {.port = PORT};
    struct sim_endpoint real;
    duo.n_listener_wakes = duo.n_client_wakes = duo.n_server_wakes = 0;
    ck_assert_int_eq(sim_tcp_listen(duo.net.hosts[1].stack, &at, 4,
                                    net_count(&duo.n_listener_wakes), &duo.listener,
                                    &real),
                     0);
    ck_assert_uint_eq(real.port, PORT);
}

void duo_start(void)
{
    duo_start_with(NULL);
}

void duo_stop(void)
{
    net_fini(&duo.net);
}

struct sim_stream *duo_dial(const char *ip, uint16_t port)
{
    struct sim_endpoint to = net_endpoint(ip, port);
    struct sim_stream *stream;
    int error = sim_tcp_connect(duo.net.hosts[0].stack, NULL, &to,
                                net_count(&duo.n_client_wakes), &stream);
    ck_assert_int_eq(error, 0);
    return stream;
}

struct sim_stream *duo_accept(void)
{
    struct sim_stream *stream;
    ck_assert_int_eq(
        sim_tcp_accept(duo.listener, net_count(&duo.n_server_wakes), &stream), 0);
    return stream;
}

void duo_connect(struct sim_stream **client, struct sim_stream **server)
{
    *client = duo_dial("10.0.0.2", PORT);
    net_run(&duo.net, sim_now_ns(duo.net.engine) + 5 * MS);
    ck_assert_int_eq(sim_tcp_connected(*client), 0);
    *server = duo_accept();
}

void duo_expect(struct sim_stream *stream, const char *expected)
{
    char bytes[256] = {0};
    size_t n;
    ck_assert_int_eq(sim_tcp_recv(stream, bytes, sizeof bytes - 1, &n), 0);
    ck_assert_str_eq(bytes, expected);
    ck_assert_uint_eq(n, strlen(expected));
}

void duo_send(struct sim_stream *stream, const char *text)
{
    size_t n;
    ck_assert_int_eq(sim_tcp_send(stream, text, strlen(text), &n), 0);
    ck_assert_uint_eq(n, strlen(text));
}

/* Sends `total` bytes from `from` to `to` in the partial steps that occur, and compares
 * them. */
void duo_stream(struct sim_stream *from, struct sim_stream *to, size_t total,
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
        ck_assert_int_lt(sim_now_ns(duo.net.engine), deadline);
        (void)sim_step(duo.net.engine, deadline * 1000);
    }
}
