/* The stages of a rank: two communicators, in stages that each add one thing that NCCL does, so
 * that a failure can be attributed to a clause. */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/text.h"
#include "plugincheck/private.h"

#define LAST_COMMS 6 /* communicators whose ends close as soon as they are done */
/* maximum number of equal counts of descriptors, 1 ms apart, to wait for */
#define STAYS 50
#define GROWTHS 3 /* consecutive communicators after which a plugin that leaks has more */

struct rank {
    struct check *check;
    uint32_t number;
    struct check_comm *comm; /* the communicator of the progress thread */
};

/* Begins a stage, when all ranks have ended the previous one. A failure from now on breaks
 * `clause`. */
static void stage(const struct check *check, const char *clause)
{
    check_meet(check);
    atomic_store(&check->shared->blame, clause);
    check_meet(check);
}

static void move(struct check_comm *comm, uint32_t thread, uint64_t n_messages)
{
    struct check_patience patience = {0};
    bool all = false;

    for (uint32_t i = 0; i < comm->n_streams; i++) {
        if (!comm->streams[i].is_quiet) {
            comm->streams[i].thread = thread;
            check_stream_start(&comm->streams[i], n_messages);
        }
    }
    while (!all) {
        all = true;
        for (uint32_t i = 0; i < comm->n_streams; i++) {
            if (!comm->streams[i].is_quiet) {
                all = check_stream_progress(&comm->streams[i]) && all;
            }
        }
        if (!all) {
            check_pause(comm->check, &patience);
        }
    }
}

static void start_thread(const struct check *check, pthread_t *out,
                         void *(*body)(void *context), void *context)
{
    int error = pthread_create(out, NULL, body, context);

    if (error != 0) {
        check_lacks(check, CHECK_NO_THREAD, error);
    }
}

static void *progress_thread(void *context)
{
    struct rank *rank = context;

    move(rank->comm, 2 * rank->number + 1, rank->check->options->n_messages);
    return NULL;
}

static void move_elsewhere(struct rank *rank, struct check_comm *comm)
{
    pthread_t thread;

    rank->comm = comm;
    start_thread(rank->check, &thread, progress_thread, rank);
    pthread_join(thread, NULL);
}

static void open_quiet_receives(struct check_comm *comm)
{
    for (uint32_t i = 0; i < comm->n_streams; i++) {
        struct check_stream *stream = &comm->streams[i];

        if (stream->is_quiet && !stream->is_sender) {
            check_stream_start(stream, 0);
            check_stream_open_receive(stream);
        }
    }
}

/* ---- descriptors ---- */

static unsigned count_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned n = 0;

    while (dir != NULL && readdir(dir) != NULL) {
        n++;
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return n;
}

/* Returns the number of descriptors once it is at most `at_most`, or, if that is 0, once it no
 * longer changes. Waits because a thread of the plugin may close them a moment later. */
static unsigned settle(const struct check *check, unsigned at_most)
{
    unsigned n = count_descriptors(), n_same = 0;

    for (int i = 0; i < check->options->patience_ms / 2 && n > at_most && n_same < STAYS;
         i++) {
        static const struct timespec pause = {.tv_nsec = 1000000};
        unsigned before = n;

        nanosleep(&pause, NULL);
        n = count_descriptors();
        n_same = at_most == 0 && n == before ? n_same + 1 : 0;
    }
    return n;
}

/* Makes communicators one after the other until no rank has more descriptors after one than after
 * the one before. A plugin leaks if the number grows with each: it may also grow because the host
 * got an address, which has nothing to do with a communicator. */
static void look_for_leaks(struct rank *rank)
{
    struct check *check = rank->check;
    struct check_shared *shared = check->shared;
    struct check_comm comm = {.check = check, .rank = rank->number, .index = 0};
    bool grows = rank->number == 0 || strcmp(check->part, "processes") == 0, any = true;
    unsigned seen[1 + GROWTHS] = {0};

    for (uint32_t i = 0; i <= GROWTHS && any; i++) {
        check_comm_open(&comm);
        move(&comm, 2 * rank->number, 4);
        check_meet(check);
        check_comm_close(&comm);
        atomic_store(&shared->n_growing, 0);
        check_meet(check);
        seen[i] = grows ? settle(check, i == 0 ? 0 : seen[i - 1]) : 0;
        grows = grows && (i == 0 || seen[i] > seen[i - 1]);
        atomic_fetch_add(&shared->n_growing, grows);
        check_meet(check);
        any = atomic_load(&shared->n_growing) > 0;
        check_meet(check);
    }
    if (grows) {
        check_broken(check, "fd.leak",
                     "%u descriptors after a communicator, then %u, %u and %u", seen[0],
                     seen[1], seen[2], seen[3]);
    }
}

/* ---- closing ---- */

/* Moves messages on each connection, and closes each end as soon as its own requests are done,
 * because NCCL has no barrier before ncclCommDestroy. */
static void move_and_close(struct check_comm *comm, uint64_t n_messages)
{
    struct check_patience patience = {0};
    bool all = false;

    for (uint32_t i = 0; i < comm->n_streams; i++) {
        check_stream_start(&comm->streams[i], n_messages);
    }
    while (!all) {
        all = true;
        for (uint32_t i = 0; i < comm->n_streams; i++) {
            struct check_stream *stream = &comm->streams[i];

            if (!stream->is_closed && check_stream_progress(stream)) {
                check_comm_close_stream(comm, stream);
            }
            all = all && stream->is_closed;
        }
        if (!all) {
            check_pause(comm->check, &patience);
        }
    }
}

static void close_after_last(struct rank *rank)
{
    for (uint32_t i = 0; i < LAST_COMMS; i++) {
        struct check_comm comm = {
            .check = rank->check, .rank = rank->number, .index = i % CHECK_COMMS};

        check_comm_open(&comm);
        move_and_close(&comm, 1 + i % 3);
        check_meet(rank->check);
        check_comm_close(&comm);
    }
}

static void close_when_up(struct rank *rank)
{
    for (uint32_t i = 0; i < LAST_COMMS; i++) {
        struct check_comm comm = {.check = rank->check,
                                  .rank = rank->number,
                                  .index = i % CHECK_COMMS,
                                  .closes_at_once = true};

        check_comm_open(&comm);
        check_meet(rank->check);
        check_comm_close(&comm);
    }
}

/* ---- all stages ---- */

static void run_rank(struct rank *rank)
{
    struct check *check = rank->check;
    const char *elsewhere =
        strcmp(check->part, "processes") == 0 ? "handle.elsewhere" : NULL;
    struct check_comm first = {
        .check = check, .rank = rank->number, .index = 0, .keeps_listeners = true};
    struct check_comm second = {.check = check, .rank = rank->number, .index = 1};
    uint32_t service = 2 * rank->number;

    stage(check, elsewhere);
    check_comm_open(&first);
    stage(check, elsewhere);
    move(&first, service, 40);
    stage(check, "listen.early-close");
    check_comm_close_listeners(&first);
    move(&first, service, 8);
    stage(check, "comm.threads");
    move_elsewhere(rank, &first);
    stage(check, check->oldest >= 11 ? "init.repeated" : NULL);
    check_comm_open(&second);
    stage(check, NULL);
    move_elsewhere(rank, &second);
    stage(check, "comm.independent");
    open_quiet_receives(&first);
    move(&first, service, 40);
    move(&second, service, 40);
    stage(check, "close.open-requests");
    check_comm_close(&first);
    stage(check, "finalize.context");
    move(&second, service, 40);
    stage(check, NULL);
    check_comm_close(&second);
    stage(check, "comm.again");
    look_for_leaks(rank);
    stage(check, "close.set-up");
    close_when_up(rank);
    stage(check, "close.last-message");
    close_after_last(rank);
    stage(check, NULL);
}

static void *rank_thread(void *context)
{
    run_rank(context);
    return NULL;
}

void check_ranks_as_threads(struct check *check)
{
    struct rank ranks[CHECK_RANKS];
    pthread_t threads[CHECK_RANKS];

    for (uint32_t i = 0; i < check->n_ranks; i++) {
        ranks[i] = (struct rank){.check = check, .number = i};
        start_thread(check, &threads[i], rank_thread, &ranks[i]);
    }
    for (uint32_t i = 0; i < check->n_ranks; i++) {
        pthread_join(threads[i], NULL);
    }
}

void check_ranks_as_processes(struct check *check)
{
    for (uint32_t i = 0; i < check->n_ranks; i++) {
        pid_t pid = fork();

        if (pid < 0) {
            check_lacks(check, CHECK_NO_PROCESS, errno);
        }
        if (pid == 0) {
            struct rank rank = {.check = check, .number = i};
            struct check_net net;

            if (check->options->n_mixed > 0) {
                check->version = check->options->mixed[i % check->options->n_mixed];
            }
            check_enter(check, i);
            check_load(check, &net);
            run_rank(&rank);
            _exit(0);
        }
    }
    for (uint32_t i = 0; i < check->n_ranks; i++) {
        int status = 0;

        if (wait(&status) > 0 && status != 0) {
            if (WIFSIGNALED(status)) {
                check_broken(check, check_blame(check, "no.crash"), "signal %d (%s)",
                             WTERMSIG(status), strsignal(WTERMSIG(status)));
            }
            check_broken(check, check_blame(check, "no.crash"),
                         "a rank ended with code %d", WEXITSTATUS(status));
        }
    }
}
