/* The I/O environment of one real host: this process (or one network namespace of it) with its
 * clock, environment variables, TCP and host facts. The code that combines the parts of a host
 * adds RDMA devices and a GPU to the io_env. */
#ifndef WEFT_BACKENDS_LINUX_ENV_H
#define WEFT_BACKENDS_LINUX_ENV_H

#include "backends/linux/aliases.h"
#include "backends/linux/loop.h"
#include "base/error.h"
#include "io/env.h"
#include "io/world.h"

struct linux_env;

/* Reads two settings. WEFT_NOTICES is the descriptor of a pipe from which the process reads the
 * numbers of members that ended, one per line. WEFT_STAGES, "FD:PROCESS", is a pipe to which it
 * reports the stages that it reaches, under that number. */
struct linux_env_config {
    const char *name; /* of the host; NULL: gethostname(2) */
    uint32_t host;    /* index in the loop */
    /* Network namespace of the host; -1: the process's own. */
    int netns_fd;
    /* Netdev of the network that connects all hosts; NULL if none. */
    const char *management;
    const struct linux_aliases *aliases; /* Not owned; NULL: use the kernel's addresses */
    /* Not owned; what the host contains; NULL: this machine. */
    const struct io_machine *machine;
    bool only_given_settings; /* ignore environment variables */
    /* Take precedence over the environment; [n_settings]; copied. */
    const struct world_setting *settings;
    uint32_t n_settings;
    struct weft_trace *trace; /* may be NULL; Not owned */
    struct weft_log *log;     /* may be NULL; Not owned */
};

/* Creates the environment. `loop` must outlive it. Fails with WEFT_ERR_ENVIRONMENT if the
 * namespace cannot be entered. */
weft_status linux_env_create(struct linux_loop *loop,
                             const struct linux_env_config *config,
                             struct linux_env **out, struct weft_error *error);
/* Frees the environment; resets streams and closes listeners that are still open. Ignores
 * NULL. */
void linux_env_destroy(struct linux_env *env);

/* Returns the I/O environment, without devices and GPU until they are set. */
struct io_env *linux_env_io(struct linux_env *env);
/* Sets the management netdev (NULL: none). Copies the name. */
void linux_env_set_management(struct linux_env *env, const char *netdev);
/* Returns EMFILE or ENFILE if no descriptor can be opened now, else 0. For calls such as
 * dlopen(3), which fail without an errno. */
int linux_descriptor_shortage(void);
/* Enter and leave the host's namespace, for backends that open devices in it. Entering returns an
 * errno. */
int linux_env_enter(struct linux_env *env);
void linux_env_leave(struct linux_env *env);

#endif
