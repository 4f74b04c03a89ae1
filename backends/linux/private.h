/* Shared by the files of backends/linux only. */
#ifndef WEFT_BACKENDS_LINUX_PRIVATE_H
#define WEFT_BACKENDS_LINUX_PRIVATE_H

#include "backends/linux/env.h"
#include "backends/linux/machine.h"
#include "backends/linux/netns.h"

struct linux_socket;
struct linux_announcer;

struct linux_env {
    struct io_env io;
    struct linux_socket *sockets;       /* Owned: open listeners and streams */
    struct linux_announcer *announcers; /* Owned */
    struct linux_loop *loop;            /* Not owned. */
    struct linux_netns netns;
    const struct linux_aliases *aliases; /* Not owned; or NULL */
    struct io_hostinfo info;             /* Owned: netdevs and their addresses */
    struct io_hostinfo aliased;          /* what aliases say, and what is inside */
    const struct io_machine *given;      /* Not owned; NULL: own_machine */
    struct io_machine own_machine;       /* Owned; read when first asked for */
    bool has_own_machine;
    bool knows_host_id;  /* in `info` */
    char management[32]; /* "" for none */
    bool only_given_settings;
    bool has_swept;              /* what dead processes left in /dev/shm is gone */
    struct linux_watch *notices; /* Owned; NULL: nobody tells */
    int notices_fd;
    int stages_fd;           /* not ours to close; -1: nobody asks what was reached */
    uint32_t stages_process; /* by that number */
    uint32_t *
        ended; /* Owned [n_ended]: as they were told, from n_taken on not yet passed on */
    uint32_t n_ended, n_taken;
    uint32_t number; /* of a line that is not complete */
    char **names;    /* Owned strings; [n_settings] */
    char **values;
    uint32_t n_settings;
};

/* The linux_env that embeds `env`. */
struct linux_env *linux_env_of(struct io_env *env);

extern const struct io_oob_ops linux_oob_ops;

/* Resets every stream and closes every listener of `env` that is still open. */
void linux_oob_close_all(struct linux_env *env);

/* announce.c: for linux_oob_ops, as io/oob.h says. */
int linux_announcer_open(struct io_env *io, uint32_t ifindex, uint16_t port,
                         struct io_task *task, struct io_announcer **out);
int linux_announcer_send(struct io_announcer *announcer, const void *bytes,
                         size_t n_bytes);
int linux_announcer_hear(struct io_announcer *announcer, void *out, size_t cap,
                         size_t *out_n, struct io_endpoint *out_from);
void linux_announcer_close(struct io_announcer *announcer);
void linux_announce_close_all(struct linux_env *env);

/* The netdevs of the calling thread's namespace but loopback, with addresses, in ifindex
 * order, asked of rtnetlink(7): index, name, MAC, MTU, is_up, addresses; the rest is zero. The
 * caller frees addresses and array. A positive errno, or 0. */
int linux_netlink_netdevs(struct io_netdev **out, uint32_t *out_n);

/* Fills `info` with the facts of the calling thread's namespace; frees what it held.
 * `host_id` (NULL: there is none) tells hosts apart that share a namespace; who this host is, is
 * read until it is known. */
void linux_hostinfo_read(struct io_hostinfo *info, const char *management,
                         const char *host_id, bool *knows_host_id, struct weft_log *log);
void linux_hostinfo_fini(struct io_hostinfo *info);

#endif
