/* Runs the engines of this process: on a real machine, one engine in its own thread; in a
 * simulated mesh, an engine for each host, run by the threads that poll. Virtual time then
 * passes only while a thread polls, in one thread at a time. There is one driver per process. */
#ifndef WEFT_PLUGIN_DRIVER_H
#define WEFT_PLUGIN_DRIVER_H

#include "plugin/engine.h"

#define DRIVER_ENGINES_MAX 16

struct driver_ops {
    /* As in engine_config. */
    void (*wake)(void *context);
    void (*wait)(void *context, const _Atomic int *is_done);
    void (*done)(void *context);
    /* Makes `wake` callable from any thread. The engines must exist. */
    void (*prepare)(void);
    /* Starts running the engines. Returns false if no thread can be created. */
    bool (*start)(void);
    /* Surround calls that must not run while engines are being run. */
    void (*enter)(void);
    void (*leave)(void);
    /* Called after an operation that is not complete and will be called again. */
    void (*polled)(void);
};

struct driver {
    const struct driver_ops *ops;
    struct world *world; /* Not owned */
    uint32_t n_engines;
    struct engine *engines[DRIVER_ENGINES_MAX]; /* one per host; Not owned */
    _Atomic bool is_woken[DRIVER_ENGINES_MAX];  /* only driver_stepped */
};

extern const struct driver_ops driver_thread, driver_stepped;
/* The only instance; not started. */
extern struct driver driver;

/* Returns `context` of engine_config for the engine of a host. */
void *driver_context(uint32_t host);

#endif
