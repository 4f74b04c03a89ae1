/* One host of the real world: this process (or one network namespace of it) with its clock,
 * environment variables, TCP and host facts. Devices and the GPU are other backends': whoever
 * composes a host puts them into the io_env. */
#ifndef WEFT_BACKENDS_LINUX_ENV_H
#define WEFT_BACKENDS_LINUX_ENV_H

#include "backends/linux/aliases.h"
#include "backends/linux/loop.h"
#include "base/error.h"
#include "io/env.h"
#include "io/world.h"

struct linux_env;

/* Settings that it reads: WEFT_NOTICES, the number of a pipe's descriptor on which whoever
 * started this process and others tells the numbers of members that ended, one a line; and
 * WEFT_STAGES, "FD:PROCESS", a pipe that takes what this process reached, under that number. */
struct linux_env_config {
    const char *name;                    /* of the host; NULL: gethostname(2) */
    uint32_t host;                       /* index in the loop */
    int netns_fd;                        /* namespace to live in; -1: the process's own */
    const char *management;              /* netdev that reaches every host; NULL: none */
    const struct linux_aliases *aliases; /* NULL: what the kernel has. Not owned */
    const struct io_machine *machine; /* what is inside; NULL: this machine. Not owned */
    bool only_given_settings;         /* environment variables do not count */
    const struct world_setting *settings; /* these count first; [n_settings]; copied */
    uint32_t n_settings;
    struct weft_trace *trace; /* may be NULL; Not owned */
    struct weft_log *log;     /* may be NULL; Not owned */
};

/* WEFT_ERR_ENVIRONMENT if the namespace cannot be entered. `loop` outlives it. */
weft_status linux_env_create(struct linux_loop *loop,
                             const struct linux_env_config *config,
                             struct linux_env **out, struct weft_error *error);
/* Resets streams and closes listeners that are still open. NULL is ignored. */
void linux_env_destroy(struct linux_env *env);

/* What code above the waist is given; without devices and GPU until the composer sets them. */
struct io_env *linux_env_io(struct linux_env *env);
/* Names the management netdev (NULL: none) from now on; copied. */
void linux_env_set_management(struct linux_env *env, const char *netdev);
/* For what failed without an errno, as dlopen(3) does: EMFILE or ENFILE if no descriptor is to be
 * had now; 0 if one is. */
int linux_descriptor_shortage(void);
/* Into the host's namespace, and back: for backends that open devices in it. An errno. */
int linux_env_enter(struct linux_env *env);
void linux_env_leave(struct linux_env *env);

#endif
