/* Out-of-band streams over sim/tcp, announcements over sim/udp. An io_stream is a sim_stream, an
 * io_listener a sim_listener, an io_announcer a sim_announcer; the opaque pointers are converted
 * in this file only. */
#include "io/oob.h"
#include "backends/sim/sim_world.h"
#include "base/check.h"
#include "sim/tcp.h"
#include "sim/udp.h"

static struct sim_endpoint to_sim(const struct io_endpoint *endpoint)
{
    return (struct sim_endpoint){.ip = sim_ip_of_io(&endpoint->ip),
                                 .port = endpoint->port,
                                 .ifindex = endpoint->ifindex};
}

static struct io_endpoint to_io(const struct sim_endpoint *endpoint)
{
    return (struct io_endpoint){.ip = sim_ip_to_io(&endpoint->ip),
                                .port = endpoint->port,
                                .ifindex = endpoint->ifindex};
}

static struct sim_stream *stream_of(struct io_stream *stream)
{
    return (struct sim_stream *)(void *)stream;
}

static struct sim_listener *listener_of(struct io_listener *listener)
{
    return (struct sim_listener *)(void *)listener;
}

static int oob_listen(struct io_env *env, const struct io_endpoint *at, int backlog,
                      struct io_task *task, struct io_listener **out,
                      struct io_endpoint *out_at)
{
    struct sim_endpoint asked = to_sim(at);
    struct sim_endpoint real;
    struct sim_listener *listener;
    int error = sim_tcp_listen(sim_process_of(env)->host->stack, &asked, backlog,
                               sim_task_waker(task), &listener, &real);
    if (error != 0) {
        return error;
    }
    *out = (struct io_listener *)(void *)listener;
    *out_at = to_io(&real);
    return 0;
}

static int oob_accept(struct io_listener *listener, struct io_task *task,
                      struct io_stream **out)
{
    struct sim_stream *stream;
    int error = sim_tcp_accept(listener_of(listener), sim_task_waker(task), &stream);
    if (error == 0) {
        *out = (struct io_stream *)(void *)stream;
    }
    return error;
}

static void oob_close_listener(struct io_listener *listener)
{
    sim_tcp_close_listener(listener_of(listener));
}

static int oob_connect(struct io_env *env, const struct io_endpoint *from,
                       const struct io_endpoint *to, struct io_task *task,
                       struct io_stream **out)
{
    struct sim_endpoint sim_to = to_sim(to);
    struct sim_endpoint sim_from = {.port = 0};
    struct sim_stream *stream;
    if (from != NULL) {
        sim_from = to_sim(from);
    }
    int error =
        sim_tcp_connect(sim_process_of(env)->host->stack, from == NULL ? NULL : &sim_from,
                        &sim_to, sim_task_waker(task), &stream);
    if (error == 0) {
        *out = (struct io_stream *)(void *)stream;
    }
    return error;
}

static int oob_connected(struct io_stream *stream)
{
    return sim_tcp_connected(stream_of(stream));
}

static int oob_send(struct io_stream *stream, const void *bytes, size_t n_bytes,
                    size_t *out_n)
{
    return sim_tcp_send(stream_of(stream), bytes, n_bytes, out_n);
}

static int oob_recv(struct io_stream *stream, void *out, size_t n_bytes, size_t *out_n)
{
    return sim_tcp_recv(stream_of(stream), out, n_bytes, out_n);
}

static int oob_unacked(struct io_stream *stream, size_t *out_n)
{
    return sim_tcp_unacked(stream_of(stream), out_n);
}

static void oob_endure(struct io_stream *stream, weft_ns limit)
{
    sim_tcp_endure(stream_of(stream), limit * 1000);
}

static void oob_set_task(struct io_stream *stream, struct io_task *task)
{
    sim_tcp_set_waker(stream_of(stream), sim_task_waker(task));
}

static void oob_endpoints(const struct io_stream *stream, struct io_endpoint *out_local,
                          struct io_endpoint *out_remote)
{
    struct sim_endpoint local;
    struct sim_endpoint remote;
    sim_tcp_endpoints((const struct sim_stream *)(const void *)stream, &local, &remote);
    if (out_local != NULL) {
        *out_local = to_io(&local);
    }
    if (out_remote != NULL) {
        *out_remote = to_io(&remote);
    }
}

static void oob_close(struct io_stream *stream, bool reset)
{
    sim_tcp_close(stream_of(stream), reset);
}

/* ---- announcements ---- */

_Static_assert(SIM_DATAGRAM_MAX == IO_ANNOUNCEMENT_MAX, "the contract's limit");

static struct sim_announcer *announcer_of(struct io_announcer *announcer)
{
    return (struct sim_announcer *)(void *)announcer;
}

static int oob_open_announcer(struct io_env *env, uint32_t ifindex, uint16_t port,
                              struct io_task *task, struct io_announcer **out)
{
    struct sim_announcer *announcer;
    int error = sim_udp_open(sim_process_of(env)->host->stack, ifindex, port,
                             sim_task_waker(task), &announcer);
    if (error == 0) {
        *out = (struct io_announcer *)(void *)announcer;
    }
    return error;
}

static int oob_announce(struct io_announcer *announcer, const void *bytes, size_t n_bytes)
{
    return sim_udp_announce(announcer_of(announcer), bytes, n_bytes);
}

static int oob_hear(struct io_announcer *announcer, void *out, size_t cap, size_t *out_n,
                    struct io_endpoint *out_from)
{
    struct sim_endpoint from;
    int error = sim_udp_hear(announcer_of(announcer), out, cap, out_n, &from);
    if (error == 0) {
        *out_from = to_io(&from);
    }
    return error;
}

static void oob_close_announcer(struct io_announcer *announcer)
{
    sim_udp_close(announcer_of(announcer));
}

const struct io_oob_ops sim_oob_ops = {
    .listen = oob_listen,
    .accept = oob_accept,
    .close_listener = oob_close_listener,
    .connect = oob_connect,
    .connected = oob_connected,
    .send = oob_send,
    .recv = oob_recv,
    .unacked = oob_unacked,
    .endure = oob_endure,
    .set_task = oob_set_task,
    .endpoints = oob_endpoints,
    .close = oob_close,
    .open_announcer = oob_open_announcer,
    .announce = oob_announce,
    .hear = oob_hear,
    .close_announcer = oob_close_announcer,
};
