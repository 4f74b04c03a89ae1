/* Out-of-band byte streams (TCP) for handshakes and rendezvous, and link-local datagrams. No
 * operation blocks; send() and recv() can transfer fewer bytes than requested. Every operation
 * returns 0 or a positive errno; EAGAIN means that the task will be woken when it can go on. */
#ifndef WEFT_IO_OOB_H
#define WEFT_IO_OOB_H

#include <stddef.h>

#include "io/addr.h"
#include "io/loop.h"

struct io_env;

/* Opaque; the backend owns them from open to close. */
struct io_listener;
struct io_stream;
struct io_announcer;

/* Maximum size of a datagram, which every link transmits without fragmentation. */
#define IO_ANNOUNCEMENT_MAX 1024

struct io_oob_ops {
    /* Listens on `at` (port 0 for an ephemeral one, IP zero for every address). Writes the actual
     * endpoint to `*out_at`. `task` is woken when a client waits. EADDRINUSE, EADDRNOTAVAIL, ... */
    int (*listen)(struct io_env *env, const struct io_endpoint *at, int backlog,
                  struct io_task *task, struct io_listener **out,
                  struct io_endpoint *out_at);
    /* Accepts one client, whose stream wakes `task` from now on. Returns EAGAIN if none waits. The
     * listener stays usable after EMFILE, ENOBUFS and ECONNABORTED. */
    int (*accept)(struct io_listener *listener, struct io_task *task,
                  struct io_stream **out);
    /* Closes the listener and resets clients not yet accepted. NULL is ignored. */
    void (*close_listener)(struct io_listener *listener);

    /* Starts connecting to `to`, from `from` unless NULL (its port can be 0). Returns without
     * waiting; `connected` has the result. ENETUNREACH, EADDRNOTAVAIL, EMFILE, ... */
    int (*connect)(struct io_env *env, const struct io_endpoint *from,
                   const struct io_endpoint *to, struct io_task *task,
                   struct io_stream **out);
    /* Returns 0 once established, EAGAIN before that, otherwise the reason of the failure:
     * ECONNREFUSED, ETIMEDOUT, EHOSTUNREACH, ECONNRESET. */
    int (*connected)(struct io_stream *stream);
    /* Sends up to n_bytes; `*out_n` > 0 on success. EAGAIN if the buffer is full; EPIPE,
     * ECONNRESET, ETIMEDOUT if the connection is broken. */
    int (*send)(struct io_stream *stream, const void *bytes, size_t n_bytes,
                size_t *out_n);
    /* Receives up to n_bytes; `*out_n` == 0 on success means end of stream. */
    int (*recv)(struct io_stream *stream, void *out, size_t n_bytes, size_t *out_n);
    /* Returns the number of sent bytes that the peer's kernel has not acknowledged. 0 shows that
     * the peer's kernel is reachable, whatever its process does. */
    int (*unacked)(struct io_stream *stream, size_t *out_n);
    /* Sets how long a stream that is established may be cut off: then it fails with ETIMEDOUT, if
     * bytes are not acknowledged, or on a real host also if keep-alives are not. 20 s before the
     * first call, and while it connects. */
    void (*endure)(struct io_stream *stream, weft_ns limit);
    /* Makes the stream wake another task (NULL for none). */
    void (*set_task)(struct io_stream *stream, struct io_task *task);
    /* Returns the addresses of both ends; either pointer may be NULL. */
    void (*endpoints)(const struct io_stream *stream, struct io_endpoint *out_local,
                      struct io_endpoint *out_remote);
    /* Closes the stream. Bytes sent so far still arrive, followed by end of stream, or by a reset
     * if received bytes were never read. `reset` drops both directions at once. NULL is ignored. */
    void (*close)(struct io_stream *stream, bool reset);

    /* Opens datagrams between neighbours on the link of netdev `ifindex`, or, if `ifindex` is 0,
     * between the processes of this host, whether or not it has a link. `port` (not 0) is shared by
     * any number of announcers of a host. `task` is woken when one arrives. ENODEV, EADDRNOTAVAIL
     * (the netdev has no address yet), EMFILE. */
    int (*open_announcer)(struct io_env *env, uint32_t ifindex, uint16_t port,
                          struct io_task *task, struct io_announcer **out);
    /* Sends one datagram to every announcer of that port on the link, in every address family that
     * the netdev has, so that it can arrive twice. It can be lost, duplicated or reordered, and is
     * never routed. EMSGSIZE beyond IO_ANNOUNCEMENT_MAX; ENETDOWN, ENETUNREACH or EADDRNOTAVAIL
     * while the link cannot send; EAGAIN if there is no room now. */
    int (*announce)(struct io_announcer *announcer, const void *bytes, size_t n_bytes);
    /* Receives the next datagram: its first `cap` bytes, and its source, with the ifindex on which
     * it arrived. Returns EAGAIN if none waits. Datagrams are dropped while the receive buffer is
     * full. On a link an announcer does not receive its own; within a host it can. */
    int (*hear)(struct io_announcer *announcer, void *out, size_t cap, size_t *out_n,
                struct io_endpoint *out_from);
    /* NULL is ignored. */
    void (*close_announcer)(struct io_announcer *announcer);
};

#endif
