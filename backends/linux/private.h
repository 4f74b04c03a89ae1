/* Definitions shared by the files of backends/linux. */
#ifndef WEFT_BACKENDS_LINUX_PRIVATE_H
#define WEFT_BACKENDS_LINUX_PRIVATE_H

#include <sys/queue.h>

#include "backends/linux/env.h"
#include "backends/linux/machine.h"
#include "backends/linux/netns.h"
#include "base/check.h"
#include "io/oob.h"

struct linux_socket;
struct linux_announcer;

struct linux_env {
    struct io_env io;
    LIST_HEAD(linux_sockets, linux_socket)
    sockets; /* Owned: open listeners and streams */
    LIST_HEAD(linux_announcers, linux_announcer) announcers; /* Owned */
    struct linux_loop *loop;                                 /* Not owned. */
    struct linux_netns netns;
    const struct linux_aliases *aliases; /* Not owned; NULL if none */
    struct io_hostinfo info;             /* Owned: netdevs and their addresses */
    struct io_hostinfo aliased;          /* facts of `aliases`, with the machine */
    const struct io_machine *given;      /* Not owned; NULL: use own_machine */
    struct io_machine own_machine;       /* Owned; read on first use */
    bool has_own_machine;
    bool knows_host_id;  /* `info` has it */
    char management[32]; /* "" if none */
    bool only_given_settings;
    bool has_swept;              /* /dev/shm has been swept */
    struct linux_watch *notices; /* Owned; NULL if no process sends notices */
    int notices_fd;
    int stages_fd;           /* not owned; -1 if stages are not reported */
    uint32_t stages_process; /* number for the reports */
    uint32_t *ended; /* Owned [n_ended]; in order of notices; new from n_taken on */
    uint32_t n_ended, n_taken;
    /* Partial line of notices. */
    uint64_t number;
    bool has_digit, is_no_number;
    char **names; /* Owned strings [n_settings] */
    char **values;
    uint32_t n_settings;
};

/* Returns the linux_env that embeds `env`. */
static inline struct linux_env *linux_env_of(struct io_env *env)
{
    return weft_container_of(env, struct linux_env, io);
}

extern const struct io_oob_ops linux_oob_ops;

/* Resets every stream and closes every listener and announcer of `env` that is still open. */
void linux_oob_close_all(struct linux_env *env);

/* announce.c: for linux_oob_ops, as specified in io/oob.h. */
int linux_announcer_open(struct io_env *io, uint32_t ifindex, uint16_t port,
                         struct io_task *task, struct io_announcer **out);
int linux_announcer_send(struct io_announcer *announcer, const void *bytes,
                         size_t n_bytes);
int linux_announcer_hear(struct io_announcer *announcer, void *out, size_t cap,
                         size_t *out_n, struct io_endpoint *out_from);
void linux_announcer_close(struct io_announcer *announcer);
void linux_announce_close_all(struct linux_env *env);

/* Reads the netdevs of the calling thread's namespace except loopback, in ifindex order, from
 * rtnetlink(7): index, name, MAC, MTU, master, is_up, addresses; the rest is zero. The caller
 * frees the addresses and the array. Returns 0 or a positive errno. */
int linux_netlink_netdevs(struct io_netdev **out, uint32_t *out_n);

/* Fills `info` with the facts of the calling thread's namespace and frees its previous content.
 * `host_id` (NULL: none) distinguishes hosts that share a namespace. Reads the host's identity
 * until `*knows_host_id`. */
void linux_hostinfo_read(struct io_hostinfo *info, const char *management,
                         const char *host_id, bool *knows_host_id, struct weft_log *log);

#endif
