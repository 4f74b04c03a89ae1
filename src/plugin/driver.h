/* Who runs the engines of this process: a thread of its own on this machine's devices (one engine),
 * or, where a whole mesh is simulated here, whoever polls (an engine for each host): virtual time
 * passes only then, in one thread at a time. One a process. */
#ifndef WEFT_PLUGIN_DRIVER_H
#define WEFT_PLUGIN_DRIVER_H

#include "plugin/engine.h"

#define DRIVER_ENGINES_MAX 16

struct driver_ops {
    /* For engine_config. */
    void (*wake)(void *context);
    void (*wait)(void *context, const _Atomic int *is_done);
    void (*done)(void *context);
    /* The engines exist. False: there is no thread. */
    bool (*start)(void);
    /* Around what may not be done while the engines are run. */
    void (*enter)(void);
    void (*leave)(void);
    /* Somebody asked, and has to ask again. */
    void (*polled)(void);
};

struct driver {
    const struct driver_ops *ops;
    struct world *world; /* Not owned */
    uint32_t n_engines;
    struct engine *engines[DRIVER_ENGINES_MAX]; /* of its hosts; Not owned */
    _Atomic bool is_woken[DRIVER_ENGINES_MAX];  /* stepped */
};

extern const struct driver_ops driver_thread, driver_stepped;
/* The one; not started. */
extern struct driver driver;

/* What engine_config's `context` is, for the engine of a host. */
void *driver_context(uint32_t host);

#endif
