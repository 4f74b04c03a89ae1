/* Runs each check in new processes and watches them: calls that do not return, crashes and
 * standstills are reported like any other violation.
 *
 * Timeouts are counted in looks, not read from a clock, because on a busy or suspended machine
 * looks are late, too, and each counts once. */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/text.h"
#include "plugincheck/private.h"

#define BROKEN_EXIT 41
#define NO_CLAUSE ""
#define LOOK_NS 5000000
#define VERDICT_LOOKS 40

static const char *const call_names[] = {
    "nothing", "init",      "devices",   "getProperties", "listen",  "connect",
    "accept",  "regMr",     "deregMr",   "isend",         "irecv",   "iflush",
    "test",    "closeSend", "closeRecv", "closeListen",   "finalize"};

int64_t check_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

#define PAUSE_MIN_NS 50000
#define PAUSE_MAX_NS 200000

void check_pause(const struct check *check, struct check_patience *patience)
{
    int64_t moved = atomic_load_explicit(&check->shared->moved_ns, memory_order_relaxed);
    struct timespec pause = {0};

    patience->pause_ns = moved != patience->moved_ns             ? PAUSE_MIN_NS
                         : patience->pause_ns < PAUSE_MAX_NS / 2 ? 2 * patience->pause_ns
                                                                 : PAUSE_MAX_NS;
    patience->moved_ns = moved;
    pause.tv_nsec = patience->pause_ns;
    nanosleep(&pause, NULL);
}

/* `clause` is NO_CLAUSE if the check cannot go on for a reason of its own. */
static void tell(const struct check *check, const char *clause, const char *text)
{
    struct check_shared *shared = check->shared;
    int none = VERDICT_NONE;

    weft_check(strcmp(clause, NO_CLAUSE) == 0 || plugin_clause_find(clause) != NULL);
    if (atomic_compare_exchange_strong(&shared->verdict, &none, VERDICT_BEGUN)) {
        weft_format(shared->clause, sizeof(shared->clause), "%s", clause);
        weft_format(shared->part, sizeof(shared->part), "%s", check->part);
        if (atomic_load(&shared->sequence) != 0) {
            weft_format(shared->detail, sizeof(shared->detail),
                        "%s; sequence %u of seed %llu", text,
                        atomic_load(&shared->sequence),
                        (unsigned long long)check->options->seed);
        } else {
            weft_format(shared->detail, sizeof(shared->detail), "%s", text);
        }
        atomic_store(&shared->verdict, VERDICT_WRITTEN);
        return;
    }
    /* Another thread or process reported first. If it is a thread of this process, which ends
     * after this function returns, wait until the report is written. */
    for (int i = 0; i < VERDICT_LOOKS && atomic_load(&shared->verdict) != VERDICT_WRITTEN;
         i++) {
        static const struct timespec pause = {.tv_nsec = LOOK_NS};

        nanosleep(&pause, NULL);
    }
}

void check_broken(const struct check *check, const char *clause, const char *format, ...)
{
    char text[sizeof(check->shared->detail)];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    tell(check, clause, text);
    _exit(BROKEN_EXIT);
}

void check_lacks(const struct check *check, const char *what, int sys_errno)
{
    char text[sizeof(check->shared->detail)];

    weft_format(text, sizeof(text), "%s: %s", what, strerror(sys_errno));
    tell(check, NO_CLAUSE, text);
    _exit(BROKEN_EXIT);
}

const char *check_blame(const struct check *check, const char *usual)
{
    const char *blame = atomic_load(&check->shared->blame);

    return blame != NULL ? blame : usual;
}

void check_begin(const struct check *check, uint32_t thread, enum check_call call)
{
    struct check_thread *of = &check->shared->threads[thread];

    weft_check(thread < CHECK_THREADS);
    /* In this order, so that the watching process never sees the call with the number of the
     * previous one. */
    atomic_fetch_add_explicit(&of->n_calls, 1, memory_order_relaxed);
    atomic_store_explicit(&of->call, (int)call, memory_order_release);
}

void check_end(const struct check *check, uint32_t thread)
{
    atomic_store_explicit(&check->shared->threads[thread].call, CALL_NONE,
                          memory_order_release);
}

void check_moved(const struct check *check)
{
    atomic_store_explicit(&check->shared->moved_ns, check_now(), memory_order_relaxed);
}

void check_meet(const struct check *check)
{
    struct check_shared *shared = check->shared;
    uint32_t generation = atomic_load(&shared->generation);
    struct check_patience patience = {0};

    check_moved(check);
    if (atomic_fetch_add(&shared->n_met, 1) + 1 == check->n_ranks) {
        atomic_store(&shared->n_met, 0);
        atomic_fetch_add(&shared->generation, 1);
        return;
    }
    while (atomic_load(&shared->generation) == generation) {
        check_pause(check, &patience);
    }
}

void check_logger(int level, unsigned long subsystems, const char *file, int line,
                  const char *format, ...)
{
    va_list arguments;

    (void)subsystems;
    if (getenv("NCCL_DEBUG") == NULL || level > ABI_LOG_INFO) {
        return;
    }
    va_start(arguments, format);
    fprintf(stderr, "%s:%d: ", file == NULL ? "?" : file, line);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}

/* ---- the watching process ---- */

static void count(struct check_age *age, uint64_t value)
{
    age->looks = age->value == value ? age->looks + 1 : 0;
    age->value = value;
}

void check_look(const struct check *check, struct check_ages *ages)
{
    const struct check_shared *shared = check->shared;

    count(&ages->moved, (uint64_t)atomic_load(&shared->moved_ns));
    count(&ages->starved, (uint64_t)atomic_load(&shared->starved_ns));
    for (uint32_t i = 0; i < CHECK_THREADS; i++) {
        const struct check_thread *thread = &shared->threads[i];
        int call = atomic_load_explicit(&thread->call, memory_order_acquire);

        ages->call_of[i] = call;
        count(&ages->calls[i], call == CALL_NONE ? 0 : atomic_load(&thread->n_calls));
        if (call == CALL_NONE) {
            ages->calls[i].looks = 0;
        }
    }
}

static int64_t patience_of(const struct check *check)
{
    return (int64_t)check->options->patience_ms * 1000000 / LOOK_NS;
}

/* Returns true, after a report, if a thread has been in one call for too long. Reports the call
 * that was looked at, because it can have returned since. */
static bool is_stuck(const struct check *check, const struct check_ages *ages)
{
    for (uint32_t i = 0; i < CHECK_THREADS; i++) {
        int call = ages->call_of[i];
        const char *clause;
        char text[100];

        if (ages->calls[i].looks < patience_of(check)) {
            continue;
        }
        clause = call == CALL_CONNECT  ? "connect.blocks"
                 : call == CALL_ACCEPT ? "accept.blocks"
                                       : "call.blocks";
        weft_format(text, sizeof(text), "%s did not return within %d ms",
                    call_names[call], check->options->patience_ms);
        tell(check, clause, text);
        return true;
    }
    return false;
}

/* Returns true, after a report, if nothing has made progress for too long. */
static bool is_still(const struct check *check, const struct check_ages *ages)
{
    bool is_starved;
    char text[100];

    if (ages->moved.looks < 2 * patience_of(check)) {
        return false;
    }
    is_starved = ages->starved.value != 0 && ages->starved.looks < patience_of(check);
    weft_format(text, sizeof(text), "nothing moved for %d ms",
                2 * check->options->patience_ms);
    tell(check,
         is_starved ? "requests.recycled"
                    : check_blame(check, atomic_load(&check->shared->is_setting_up) != 0
                                             ? "setup.ends"
                                             : "message.lost"),
         text);
    return true;
}

bool check_is_over(const struct check *check, const struct check_ages *ages)
{
    return is_stuck(check, ages) || is_still(check, ages);
}

static void report_crash(const struct check *check, int status)
{
    const char *doing = "between calls";
    char text[200];

    for (uint32_t i = 0; i < CHECK_THREADS; i++) {
        int call = atomic_load(&check->shared->threads[i].call);

        if (call != CALL_NONE) {
            doing = call_names[call];
            break;
        }
    }
    if (WIFSIGNALED(status)) {
        weft_format(text, sizeof(text), "signal %d (%s), in %s", WTERMSIG(status),
                    strsignal(WTERMSIG(status)), doing);
    } else {
        weft_format(text, sizeof(text), "it ended with exit code %d, in %s",
                    WEXITSTATUS(status), doing);
    }
    tell(check, check_blame(check, "no.crash"), text);
}

static void run_body(struct check *check, void (*body)(struct check *check))
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (check->options->backend != NULL) {
        setenv("NCCL_MESH_BACKEND", check->options->backend, 1);
    }
    body(check);
    _exit(0);
}

static bool watch(struct check *check, void (*body)(struct check *check))
{
    static const struct timespec look = {.tv_nsec = LOOK_NS};
    struct check_shared *shared = check->shared;
    struct check_ages ages = {0};
    pid_t pid, ended;
    int status = 0;
    bool is_unsaid = false;

    check_moved(check);
    fflush(NULL);
    pid = fork();
    if (pid < 0) {
        char text[100];

        weft_format(text, sizeof(text), CHECK_NO_PROCESS ": %s", strerror(errno));
        tell(check, NO_CLAUSE, text);
        return false;
    }
    if (pid == 0) {
        run_body(check, body);
    }
    setpgid(pid, pid);
    do {
        nanosleep(&look, NULL);
        ended = waitpid(pid, &status, WNOHANG);
        check_look(check, &ages);
    } while (ended == 0 && !check_is_over(check, &ages));
    kill(-pid, SIGKILL);
    if (ended == 0) {
        waitpid(pid, NULL, 0);
    }
    if (atomic_load(&shared->verdict) == VERDICT_BEGUN) {
        atomic_store(&shared->verdict, VERDICT_NONE); /* its writer has ended */
        is_unsaid = true;
    }
    if (ended != 0 ? status != 0 || is_unsaid
                   : is_unsaid && !check_is_over(check, &ages)) {
        report_crash(check, status);
    }
    return atomic_load(&shared->verdict) == VERDICT_NONE;
}

/* The caller's parent may have ignored SIGCHLD. waitpid(2) would then not report how a process
 * has ended. */
bool check_watch(struct check *check, void (*body)(struct check *check))
{
    const struct sigaction usual = {.sa_handler = SIG_DFL};
    struct sigaction before;
    bool is_kept;

    sigaction(SIGCHLD, &usual, &before);
    is_kept = watch(check, body);
    sigaction(SIGCHLD, &before, NULL);
    return is_kept;
}
