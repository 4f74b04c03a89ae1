#define _GNU_SOURCE
#include "backends/linux/loop.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "backends/linux/clock.h"
#include "base/check.h"
#include "base/text.h"

#define EVENTS_PER_LOOK 64
#define NS_PER_MS ((weft_ns)1000000)
/* Maximum number of consecutive steps that only poll sources. */
#define QUICK_MAX 8

struct linux_watch {
    struct linux_loop *loop;
    struct linux_watch *next; /* in the list of dead watches */
    int fd;                   /* -1: unwatched, freed at the end of the step */
    void (*ready)(void *context);
    void *context;
};

struct linux_loop {
    struct io_loop io;
    int epoll_fd;
    int event_fd; /* written by linux_loop_post() and linux_loop_ring() */
    struct linux_watch *event_watch;
    /* Unwatched; the current batch can contain events for them. */
    struct linux_watch *dead;
    uint32_t n_watches;
    struct linux_source *sources; /* Not owned. */
    uint32_t n_quick;             /* consecutive steps without a look at descriptors */
    pthread_mutex_t lock;         /* guards `first` and `last` */
    struct linux_posting *first;
    struct linux_posting *last;
    void (*answer)(void *context); /* called when the bell rings; NULL if not set */
    void *bell_context;            /* Not owned. */
    atomic_bool bell_rings;
};

/* ---- watches ---- */

static struct epoll_event interest_of(struct linux_watch *watch)
{
    return (struct epoll_event){.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                                .data.ptr = watch};
}

int linux_loop_watch(struct linux_loop *loop, int fd, void (*ready)(void *context),
                     void *context, struct linux_watch **out)
{
    struct linux_watch *watch = weft_calloc(1, sizeof *watch);
    *watch =
        (struct linux_watch){.loop = loop, .fd = fd, .ready = ready, .context = context};
    struct epoll_event event = interest_of(watch);
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        int error = errno;
        free(watch);
        return error;
    }
    loop->n_watches++;
    *out = watch;
    return 0;
}

void linux_loop_rearm(struct linux_watch *watch)
{
    struct epoll_event event = interest_of(watch);
    int result = epoll_ctl(watch->loop->epoll_fd, EPOLL_CTL_MOD, watch->fd, &event);
    weft_check(result == 0);
}

void linux_loop_unwatch(struct linux_watch *watch)
{
    if (watch == NULL) {
        return;
    }
    struct linux_loop *loop = watch->loop;
    int result = epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
    weft_check(result == 0);
    watch->fd = -1;
    watch->next = loop->dead;
    loop->dead = watch;
    loop->n_watches--;
}

static void bury(struct linux_loop *loop)
{
    while (loop->dead != NULL) {
        struct linux_watch *watch = loop->dead;
        loop->dead = watch->next;
        free(watch);
    }
}

/* ---- postings ---- */

void linux_loop_post(struct linux_loop *loop, struct linux_posting *posting)
{
    const uint64_t one = 1;
    posting->next = NULL;
    pthread_mutex_lock(&loop->lock);
    bool was_empty = loop->first == NULL;
    if (was_empty) {
        loop->first = posting;
    } else {
        loop->last->next = posting;
    }
    loop->last = posting;
    /* Write under the lock, so that the loop cannot be destroyed before. */
    if (was_empty) {
        ssize_t n = write(loop->event_fd, &one, sizeof one);
        weft_check(n == sizeof one || errno == EAGAIN); /* full, so readable */
    }
    pthread_mutex_unlock(&loop->lock);
}

void linux_loop_withdraw(struct linux_loop *loop, struct linux_posting *posting)
{
    pthread_mutex_lock(&loop->lock);
    struct linux_posting *before = NULL;
    struct linux_posting *at = loop->first;
    while (at != NULL && at != posting) {
        before = at;
        at = at->next;
    }
    if (at != NULL && before == NULL) {
        loop->first = at->next;
    } else if (at != NULL) {
        before->next = at->next;
    }
    if (at != NULL && loop->last == at) {
        loop->last = before;
    }
    pthread_mutex_unlock(&loop->lock);
}

void linux_loop_hang_bell(struct linux_loop *loop, void (*run)(void *context),
                          void *context)
{
    loop->answer = run;
    loop->bell_context = context;
}

void linux_loop_ring(struct linux_loop *loop)
{
    const uint64_t one = 1;
    if (!atomic_exchange(&loop->bell_rings, true)) {
        ssize_t n = write(loop->event_fd, &one, sizeof one);
        weft_check(n == sizeof one || errno == EAGAIN);
    }
}

static void run_postings(void *context)
{
    struct linux_loop *loop = context;
    uint64_t n_written;
    if (read(loop->event_fd, &n_written, sizeof n_written) < 0 && errno != EAGAIN) {
        weft_check(errno == EINTR);
    }
    if (atomic_exchange(&loop->bell_rings, false)) {
        loop->answer(loop->bell_context);
    }
    pthread_mutex_lock(&loop->lock);
    struct linux_posting *posting = loop->first;
    loop->first = NULL;
    loop->last = NULL;
    pthread_mutex_unlock(&loop->lock);
    while (posting != NULL) {
        struct linux_posting *next = posting->next; /* running it can free it */
        posting->run(posting->context);
        posting = next;
    }
}

/* ---- sources ---- */

void linux_loop_add(struct linux_loop *loop, struct linux_source *source)
{
    source->next = loop->sources;
    loop->sources = source;
}

void linux_loop_remove(struct linux_loop *loop, struct linux_source *source)
{
    struct linux_source **at = &loop->sources;
    while (*at != NULL && *at != source) {
        at = &(*at)->next;
    }
    if (*at != NULL) {
        *at = source->next;
    }
}

static bool look_at_sources(struct linux_loop *loop)
{
    bool any = false;
    for (struct linux_source *at = loop->sources; at != NULL; at = at->next) {
        any = at->look(at->context) || any;
    }
    return any;
}

static bool arm_sources(struct linux_loop *loop)
{
    bool any = false;
    for (struct linux_source *at = loop->sources; at != NULL; at = at->next) {
        any = at->arm(at->context) || any;
    }
    return any;
}

/* ---- the loop ---- */

static void close_all(struct linux_loop *loop)
{
    if (loop->event_fd >= 0) {
        close(loop->event_fd);
    }
    if (loop->epoll_fd >= 0) {
        close(loop->epoll_fd);
    }
}

weft_status linux_loop_create(uint32_t n_hosts, struct linux_loop **out,
                              struct weft_error *error)
{
    struct linux_loop *loop = weft_calloc(1, sizeof *loop);
    int result;
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    result = loop->epoll_fd < 0 ? errno : 0;
    loop->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    result = loop->event_fd < 0 && result == 0 ? errno : result;
    if (result == 0) {
        result = linux_loop_watch(loop, loop->event_fd, run_postings, loop,
                                  &loop->event_watch);
    }
    if (result != 0) {
        close_all(loop);
        free(loop);
        return weft_fail_errno(error, result, WEFT_PHASE_START,
                               "cannot make an event loop");
    }
    pthread_mutex_init(&loop->lock, NULL);
    io_loop_init(&loop->io, n_hosts);
    *out = loop;
    return WEFT_OK;
}

void linux_loop_destroy(struct linux_loop *loop)
{
    if (loop == NULL) {
        return;
    }
    linux_loop_unwatch(loop->event_watch);
    weft_check(loop->n_watches == 0);
    bury(loop);
    pthread_mutex_lock(&loop->lock);
    close_all(loop);
    pthread_mutex_unlock(&loop->lock);
    pthread_mutex_destroy(&loop->lock);
    io_loop_fini(&loop->io);
    free(loop);
}

struct io_loop *linux_loop_io(struct linux_loop *loop)
{
    return &loop->io;
}

weft_ns linux_loop_now(const struct linux_loop *loop)
{
    (void)loop;
    return linux_clock_now();
}

/* Converts to whole milliseconds for epoll_wait(2), rounded down; -1 for no timeout. */
static int whole_ms(weft_ns timeout_ns)
{
    if (timeout_ns == WEFT_NEVER) {
        return -1;
    }
    return timeout_ns / NS_PER_MS < INT_MAX ? (int)(timeout_ns / NS_PER_MS) : INT_MAX;
}

/* Sleeps up to `timeout_ns` (0: does not sleep) and calls the owners of ready descriptors. Pacing
 * deadlines are closer than a millisecond, so shorter timeouts use ppoll(2) on the epoll
 * descriptor, which counts in nanoseconds. */
static void look(struct linux_loop *loop, weft_ns timeout_ns)
{
    struct epoll_event events[EVENTS_PER_LOOK];
    if (timeout_ns > 0 ? arm_sources(loop) : look_at_sources(loop)) {
        timeout_ns = 0;
    }
    if (timeout_ns > 0 && timeout_ns < NS_PER_MS) {
        struct pollfd any = {.fd = loop->epoll_fd, .events = POLLIN};
        struct timespec timeout = {.tv_nsec = (long)timeout_ns};
        if (ppoll(&any, 1, &timeout, NULL) <= 0) {
            return; /* timeout or signal; the caller reads the clock */
        }
    }
    int n = epoll_wait(loop->epoll_fd, events, EVENTS_PER_LOOK, whole_ms(timeout_ns));
    for (int i = 0; i < n; i++) {
        struct linux_watch *watch = events[i].data.ptr;
        if (watch->fd >= 0) {
            watch->ready(watch->context);
        }
    }
    bury(loop);
}

static weft_ns time_left(const struct linux_loop *loop, weft_ns until, weft_ns now)
{
    weft_ns next = io_loop_next_deadline(&loop->io);
    next = next < until ? next : until;
    if (next == WEFT_NEVER) {
        return WEFT_NEVER;
    }
    return next > now ? next - now : 0;
}

/* Reads the clock only once if there is work: deadlines that expire meanwhile are handled in the
 * next step. */
weft_status linux_loop_step(struct linux_loop *loop, weft_ns until)
{
    for (bool has_looked = false;; has_looked = true) {
        weft_ns now = linux_loop_now(loop);
        io_loop_expire(&loop->io, now);
        bool any = loop->io.n_ready > 0;
        if (has_looked && (any || now >= until)) {
            return any ? WEFT_OK : WEFT_AGAIN;
        }
        if (!any && loop->n_quick < QUICK_MAX && look_at_sources(loop)) {
            loop->n_quick++;
            return WEFT_OK;
        }
        loop->n_quick = 0;
        /* Look at descriptors at least once, otherwise tasks that stay ready could starve
         * the others. */
        look(loop, any ? 0 : time_left(loop, until, now));
        if (loop->io.n_ready > 0) {
            return WEFT_OK;
        }
    }
}
