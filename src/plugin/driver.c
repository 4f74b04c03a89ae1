#include "plugin/driver.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "backends/registry.h"
#include "plugin/dump.h"

struct driver driver;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed =
    PTHREAD_COND_INITIALIZER; /* signalled after is_done was set */

void *driver_context(uint32_t host)
{
    return &driver.is_woken[host];
}

/* ---- driver_thread ---- */

static void wake_thread(void *context)
{
    (void)context;
    plain_world_wake(driver.world);
}

static void wait_for_thread(void *context, const _Atomic int *is_done)
{
    (void)context;
    pthread_mutex_lock(&lock);
    while (atomic_load(is_done) == 0) {
        pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
}

static void done_by_thread(void *context)
{
    (void)context;
    pthread_mutex_lock(&lock);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void *run(void *context)
{
    const struct world_ops *ops = driver.world->ops;
    struct io_loop *loop = ops->loop(driver.world);
    struct io_task *task;

    (void)context;
    for (;;) {
        while ((task = io_loop_pop(loop)) != NULL) {
            engine_dispatch(driver.engines[0], task);
        }
        dump_look(driver.engines, 1);
        (void)ops->step(driver.world, WEFT_NEVER);
    }
    return NULL;
}

static void prepare_thread(void)
{
    plain_world_wakes(driver.world, engine_task(driver.engines[0]));
}

static bool start_thread(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    int result;

    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    /* Block all signals, because they are left to the application. */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    result = pthread_create(&thread, &attributes, run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return result == 0;
}

static void nothing(void)
{
}

const struct driver_ops driver_thread = {.wake = wake_thread,
                                         .wait = wait_for_thread,
                                         .done = done_by_thread,
                                         .prepare = prepare_thread,
                                         .start = start_thread,
                                         .enter = nothing,
                                         .leave = nothing,
                                         .polled = nothing};

/* ---- driver_stepped ---- */

#define STEPS_MAX 256    /* per call, so that other threads can poll, too */
#define STEPS_NS 1000000 /* virtual time that passes per call if nothing happens */

static void enter(void)
{
    pthread_mutex_lock(&lock);
}

static void leave(void)
{
    pthread_mutex_unlock(&lock);
}

/* Callable from any thread, which may hold locks of an engine. */
static void wake_later(void *context)
{
    atomic_store((_Atomic bool *)context, true);
}

/* Runs all ready tasks; needs the lock. Returns true if there was one. */
static bool dispatch_ready(struct io_loop *loop)
{
    struct io_task *task;
    bool any = false;

    for (uint32_t i = 0; i < driver.n_engines; i++) {
        if (atomic_exchange(&driver.is_woken[i], false)) {
            io_task_wake(engine_task(driver.engines[i]));
        }
    }
    while ((task = io_loop_pop(loop)) != NULL) {
        engine_dispatch(driver.engines[task->host], task);
        any = true;
    }
    return any;
}

/* Runs tasks and lets time pass; needs the lock. */
static void take_steps(const _Atomic int *is_done)
{
    const struct world_ops *ops = driver.world->ops;
    weft_ns until = ops->now(driver.world) + STEPS_NS;

    for (int i = 0; i < STEPS_MAX && (is_done == NULL || atomic_load(is_done) == 0);
         i++) {
        if (!dispatch_ready(ops->loop(driver.world)) &&
            ops->step(driver.world, until) != WEFT_OK) {
            break;
        }
    }
    dump_look(driver.engines, driver.n_engines);
}

static void step(void)
{
    enter();
    take_steps(NULL);
    leave();
}

static void step_until(void *context, const _Atomic int *is_done)
{
    (void)context;
    while (atomic_load(is_done) == 0) {
        enter();
        take_steps(is_done);
        leave();
    }
}

static void is_seen(void *context)
{
    (void)context;
}

static bool needs_no_start(void)
{
    return true;
}

const struct driver_ops driver_stepped = {.wake = wake_later,
                                          .wait = step_until,
                                          .done = is_seen,
                                          .prepare = nothing,
                                          .start = needs_no_start,
                                          .enter = enter,
                                          .leave = leave,
                                          .polled = step};
