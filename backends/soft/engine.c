#define _GNU_SOURCE
#include "backends/soft/engine.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "backends/linux/clock.h"
#include "base/check.h"
#include "base/observe.h"
#include "base/text.h"

#define NS_PER_S INT64_C(1000000000)
#define PS_PER_NS 1000
/* Maximum number of events per turn, so that others can take the lock. */
#define EVENTS_PER_TURN 4096
#define ROUNDS_PER_TURN 16
#define WIRES_PER_LOOK 16
/* An event this late means that the process was descheduled. */
#define LATE_PS INT64_C(10000000000)

/* ---- the event log ---- */

/* Takes a line such as "1234 host ...". Its time is relative to the engine's start and is
 * converted to the machine's. */
static void take_line(void *context, const char *line, size_t n_bytes)
{
    struct soft_engine *engine = context;
    char *end = NULL;
    long long at = strtoll(line, &end, 10);
    size_t n_time = (size_t)(end - line);
    weft_text_add(engine->lines, "%lld%.*s", at + (long long)engine->origin_ns,
                  (int)(n_bytes - n_time), line + n_time);
}

/* Passes lines to the event log. Must be called on the user's thread, under the lock. */
static void tell(struct soft_engine *engine)
{
    struct weft_text *lines = engine->lines;
    if (engine->event_log == NULL || lines->n == 0) {
        return;
    }
    const char *at = lines->bytes;
    const char *end = at + lines->n;
    weft_observe_begin();
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *next = newline == NULL ? end : newline + 1;
        engine->event_log->sink(engine->event_log->context, at, (size_t)(next - at));
        at = next;
    }
    weft_observe_end();
    lines->n = 0;
}

/* ---- time ---- */

static weft_ps now_of(const struct soft_engine *engine)
{
    weft_ps now = (linux_clock_now() - engine->origin_ns) * PS_PER_NS;
    weft_ps reached = sim_now(engine->sim);
    return now > reached ? now : reached;
}

/* Handles events that are due at `until`. Returns false if there may be more. */
static bool run_until(struct soft_engine *engine, weft_ps until)
{
    for (unsigned i = 0; i < EVENTS_PER_TURN; i++) {
        if (!sim_step(engine->sim, until)) {
            return true;
        }
    }
    return false;
}

/* Subtracts the time for which this process was descheduled. Otherwise a timer would expire
 * repeatedly and use up all retries at once, for ACKs that could not be read, or that a peer
 * descheduled at the same time could not send. The first overdue event becomes due now, and the
 * distance to later events is unchanged.
 *
 * Also advances the clock to now, because timers started by received packets must count from
 * here, not from the last event. Returns the time until which events are due. */
static weft_ps bring_to_date(struct soft_engine *engine)
{
    weft_ps next = sim_next(engine->sim);
    weft_ps now = now_of(engine);
    if (next != SIM_NEVER && now - next > LATE_PS) {
        engine->origin_ns += (now - next) / PS_PER_NS;
        now = next;
    }
    if (next > sim_now(engine->sim)) {
        (void)sim_step(engine->sim, now < next ? now : next - 1);
    }
    return now;
}

/* Receives pending packets, in at most `n_rounds`. Returns true if none are left. */
static bool receive(struct soft_engine *engine, unsigned n_rounds)
{
    struct epoll_event events[WIRES_PER_LOOK];
    bool has_all = false;
    for (unsigned i = 0; i < n_rounds && !has_all; i++) {
        int n = epoll_wait(engine->epoll_fd, events, WIRES_PER_LOOK, 0);
        has_all = n < WIRES_PER_LOOK;
        for (int j = 0; j < n; j++) {
            struct soft_wire *wire = events[j].data.ptr;
            has_all = wire->receive(wire) && has_all;
            (void)run_until(engine, sim_now(engine->sim));
        }
        soft_batch_flush(engine->batch);
    }
    return has_all;
}

/* Receives pending packets first, and then handles due events, so that a timer does not expire
 * while its ACK is waiting to be read. Returns false if there may be more. */
static bool turn(struct soft_engine *engine, unsigned n_rounds, bool in_any_case)
{
    weft_ps start = bring_to_date(engine);
    bool has_all = receive(engine, n_rounds);
    bool is_done = has_all;
    if (has_all || in_any_case) {
        is_done = run_until(engine, start) && has_all;
    }
    soft_batch_flush(engine->batch);
    return is_done;
}

/* ---- the thread ---- */

static void nudge(const struct soft_engine *engine)
{
    const uint64_t one = 1;
    ssize_t n = write(engine->event_fd, &one, sizeof one);
    weft_check(n == sizeof one || errno == EAGAIN);
}

/* Returns how long the thread may sleep; 0: not at all. Must be called under the lock. */
static weft_ns plan_sleep(struct soft_engine *engine, bool all_done)
{
    weft_ps next = sim_next(engine->sim);
    if (!all_done) {
        engine->sleeps_until = 0;
        return 0;
    }
    engine->sleeps_until = next;
    if (next == SIM_NEVER) {
        return WEFT_NEVER;
    }
    weft_ps left = next - now_of(engine);
    return left > 0 ? (left + PS_PER_NS - 1) / PS_PER_NS : 0;
}

/* Clears a nudge. Only the thread itself may do this: if the user's turn did, a nudge between the
 * thread's plan and its sleep would be lost, and so would its reason. */
static void drain(const struct soft_engine *engine)
{
    uint64_t n_written;
    if (read(engine->event_fd, &n_written, sizeof n_written) < 0) {
        weft_check(errno == EAGAIN || errno == EINTR);
    }
}

static void sleep_until_ready(const struct soft_engine *engine, weft_ns for_ns)
{
    struct pollfd fds[] = {{.fd = engine->epoll_fd, .events = POLLIN},
                           {.fd = engine->event_fd, .events = POLLIN}};
    struct timespec time = {.tv_sec = for_ns / NS_PER_S, .tv_nsec = for_ns % NS_PER_S};
    if (ppoll(fds, WEFT_LENGTH(fds), for_ns == WEFT_NEVER ? NULL : &time, NULL) < 0) {
        weft_check(errno == EINTR);
    } else if (fds[1].revents != 0) {
        drain(engine);
    }
}

static void *engine_main(void *context)
{
    struct soft_engine *engine = context;
    for (bool goes_on = true; goes_on;) {
        weft_ns sleep = 0;
        pthread_mutex_lock(&engine->lock);
        goes_on = !engine->stops;
        if (goes_on) {
            sleep = plan_sleep(engine, turn(engine, ROUNDS_PER_TURN, true));
        }
        pthread_mutex_unlock(&engine->lock);
        if (goes_on && sleep != 0) {
            sleep_until_ready(engine, sleep);
        }
    }
    return NULL;
}

/* ---- turns of the user ---- */

void soft_look(struct soft_engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    engine->is_users = true;
}

void soft_looked(struct soft_engine *engine)
{
    tell(engine);
    engine->is_users = false;
    pthread_mutex_unlock(&engine->lock);
}

void soft_enter(struct soft_engine *engine)
{
    soft_look(engine);
    (void)turn(engine, 1, false);
}

void soft_enter_only(struct soft_engine *engine)
{
    soft_look(engine);
    (void)bring_to_date(engine);
}

void soft_leave(struct soft_engine *engine)
{
    bool all_done = run_until(engine, sim_now(engine->sim));
    soft_batch_flush(engine->batch);
    weft_ps next = all_done ? sim_next(engine->sim) : 0;
    if (next < engine->sleeps_until) {
        engine->sleeps_until = next;
        nudge(engine);
    }
    soft_looked(engine);
}

/* ---- wakes ---- */

static void run_wake(void *context)
{
    struct soft_wake *wake = context;
    soft_look(wake->engine);
    wake->is_posted = false;
    soft_looked(wake->engine);
    wake->run(wake->context);
}

void soft_wake_init(struct soft_wake *wake, struct soft_engine *engine,
                    void (*run)(void *context), void *context)
{
    *wake = (struct soft_wake){.engine = engine,
                               .posting = {.run = run_wake, .context = wake},
                               .run = run,
                               .context = context};
}

void soft_wake_fire(void *context)
{
    struct soft_wake *wake = context;
    if (wake->engine->is_users) {
        wake->run(wake->context);
    } else {
        soft_wake_post(wake);
    }
}

void soft_wake_post(void *context)
{
    struct soft_wake *wake = context;
    if (!wake->is_posted) {
        wake->is_posted = true;
        linux_loop_post(wake->engine->loop, &wake->posting);
    }
}

void soft_wake_fini(struct soft_wake *wake)
{
    linux_loop_withdraw(wake->engine->loop, &wake->posting);
}

/* ---- set-up and release ---- */

static void close_all(const struct soft_engine *engine)
{
    if (engine->event_fd >= 0) {
        close(engine->event_fd);
    }
    if (engine->epoll_fd >= 0) {
        close(engine->epoll_fd);
    }
}

weft_status soft_engine_create(struct linux_loop *loop, uint64_t seed,
                               struct weft_trace *event_log, struct soft_engine **out,
                               struct weft_error *error)
{
    struct soft_engine *engine = weft_calloc(1, sizeof *engine);
    engine->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    engine->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (engine->event_fd < 0 || engine->epoll_fd < 0) {
        int problem = errno;
        close_all(engine);
        free(engine);
        return weft_fail_errno(error, problem, WEFT_PHASE_START, "cannot make an engine");
    }
    engine->loop = loop;
    engine->origin_ns = linux_clock_now();
    pthread_mutex_init(&engine->lock, NULL);
    engine->batch = soft_batch_create();
    engine->lines = weft_calloc(1, sizeof *engine->lines);
    if (weft_trace_on(event_log, WEFT_TRACE_STORY)) {
        engine->event_log = event_log;
        weft_trace_init(&engine->trace, event_log->level, take_line, engine);
    }
    engine->sim =
        sim_engine_create(seed, engine->event_log == NULL ? NULL : &engine->trace);
    sim_engine_allow_trains(engine->sim, false);
    *out = engine;
    return WEFT_OK;
}

int soft_engine_add_wire(struct soft_engine *engine, struct soft_wire *wire)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = wire};
    return epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, wire->fd, &event) == 0 ? 0 : errno;
}

weft_status soft_engine_start(struct soft_engine *engine, struct weft_error *error)
{
    sigset_t all, before;
    sigfillset(&all); /* signals are for the user's threads */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int problem = pthread_create(&engine->thread, NULL, engine_main, engine);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    engine->has_thread = problem == 0;
    return problem == 0 ? WEFT_OK
                        : weft_fail_errno(error, problem, WEFT_PHASE_START,
                                          "cannot start the NIC's thread");
}

void soft_engine_stop(struct soft_engine *engine)
{
    if (!engine->has_thread) {
        return;
    }
    pthread_mutex_lock(&engine->lock);
    engine->stops = true;
    nudge(engine);
    pthread_mutex_unlock(&engine->lock);
    pthread_join(engine->thread, NULL);
    engine->has_thread = false;
    engine->is_users = true; /* the thread has ended */
    tell(engine);
}

void soft_engine_destroy(struct soft_engine *engine)
{
    if (engine == NULL) {
        return;
    }
    soft_engine_stop(engine);
    tell(engine);
    sim_engine_destroy(engine->sim);
    soft_batch_destroy(engine->batch);
    weft_text_fini(engine->lines);
    free(engine->lines);
    close_all(engine);
    pthread_mutex_destroy(&engine->lock);
    free(engine);
}
