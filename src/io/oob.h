/* Out-of-band byte streams (TCP) for handshakes and rendezvous, and datagrams to whoever is
 * on the same link: never blocking, partial by nature. Every operation returns 0 or a
 * positive errno; EAGAIN means "wait for the task". */
#ifndef WEFT_IO_OOB_H
#define WEFT_IO_OOB_H

#include <stddef.h>

#include "io/addr.h"
#include "io/loop.h"

struct io_env;

/* Opaque; belong to the backend between open and close. */
struct io_listener;
struct io_stream;
struct io_announcer;

/* The longest datagram: what any link takes without cutting it up. */
#define IO_ANNOUNCEMENT_MAX 1024

struct io_oob_ops {
    /* Listens on `at` (port 0: an ephemeral one; ip zero: every address). `*out_at`
     * tells the real endpoint. `task` is woken when a client waits. EADDRINUSE,
     * EADDRNOTAVAIL, ... */
    int (*listen)(struct io_env *env, const struct io_endpoint *at, int backlog,
                  struct io_task *task, struct io_listener **out,
                  struct io_endpoint *out_at);
    /* Takes one client; its stream wakes `task` from now on. EAGAIN if none waits.
     * EMFILE, ENOBUFS, ECONNABORTED: the listener lives on. */
    int (*accept)(struct io_listener *listener, struct io_task *task,
                  struct io_stream **out);
    /* Resets clients not yet accepted. NULL is ignored. */
    void (*close_listener)(struct io_listener *listener);

    /* Starts connecting to `to`, from `from` unless NULL (its port may be 0). Succeeds at
     * once; the outcome shows in `connected`. ENETUNREACH, EADDRNOTAVAIL, EMFILE, ... */
    int (*connect)(struct io_env *env, const struct io_endpoint *from,
                   const struct io_endpoint *to, struct io_task *task,
                   struct io_stream **out);
    /* 0 once established, EAGAIN while under way, else why it failed: ECONNREFUSED,
     * ETIMEDOUT, EHOSTUNREACH, ECONNRESET. */
    int (*connected)(struct io_stream *stream);
    /* Up to n_bytes; `*out_n` > 0 on success. EAGAIN if the buffer is full; EPIPE,
     * ECONNRESET, ETIMEDOUT when broken. */
    int (*send)(struct io_stream *stream, const void *bytes, size_t n_bytes,
                size_t *out_n);
    /* Up to n_bytes; `*out_n` == 0 on success means end of stream. */
    int (*recv)(struct io_stream *stream, void *out, size_t n_bytes, size_t *out_n);
    /* How many of the bytes sent the other end's kernel has not acknowledged: 0 shows that it is
     * there and reached, whatever its process does. */
    int (*unacked)(struct io_stream *stream, size_t *out_n);
    /* Hands the stream's wake-ups to another task (NULL: nobody). */
    void (*set_task)(struct io_stream *stream, struct io_task *task);
    /* The two ends' addresses; either may be NULL. */
    void (*endpoints)(const struct io_stream *stream, struct io_endpoint *out_local,
                      struct io_endpoint *out_remote);
    /* Closes: bytes sent so far still arrive, then end of stream (a reset if bytes
     * received were never read). `reset` drops both directions at once. NULL is
     * ignored. */
    void (*close)(struct io_stream *stream, bool reset);

    /* Opens datagrams between the neighbours on the link of netdev `ifindex`, or with
     * `ifindex` 0 between the processes of this host, whether or not it has a link. `port`
     * (not 0) is shared: any number of announcers of a host may have it. `task` is woken
     * when one arrives. ENODEV, EADDRNOTAVAIL (the netdev has no address yet), EMFILE. */
    int (*open_announcer)(struct io_env *env, uint32_t ifindex, uint16_t port,
                          struct io_task *task, struct io_announcer **out);
    /* Sends one datagram to every announcer of that port on the link, in every address family
     * that the netdev has, so that it may come twice; lost, doubled or reordered as the link
     * pleases. It does not leave the link. EMSGSIZE beyond IO_ANNOUNCEMENT_MAX; ENETDOWN,
     * ENETUNREACH, EADDRNOTAVAIL while the link cannot; EAGAIN: no room now. */
    int (*announce)(struct io_announcer *announcer, const void *bytes, size_t n_bytes);
    /* Takes the next that arrived: its first `cap` bytes, and where it came from, with the
     * ifindex that it came in on. EAGAIN if none waits; what is not taken in time is lost.
     * On a link one's own do not come back; within a host they may. */
    int (*hear)(struct io_announcer *announcer, void *out, size_t cap, size_t *out_n,
                struct io_endpoint *out_from);
    /* NULL is ignored. */
    void (*close_announcer)(struct io_announcer *announcer);
};

#endif
