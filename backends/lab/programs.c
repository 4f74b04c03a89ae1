#define _GNU_SOURCE
#include "backends/lab/programs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backends/lab/capture.h"
#include "backends/lab/chance.h"
#include "backends/lab/fabric.h"
#include "backends/lab/inside.h"
#include "backends/lab/look.h"
#include "backends/lab/moments.h"
#include "backends/lab/signals.h"
#include "backends/lab/watch.h"
#include "backends/linux/clock.h"
#include "base/check.h"
#include "base/observe.h"
#include "base/text.h"

#define SECOND INT64_C(1000000000)
#define LAST_WORDS_NS (2 * SECOND) /* from SIGTERM to SIGKILL */
#define LINE_BYTES_MAX (1u << 20)  /* with a watch, a longer line is split */
#define DEVICE_NAME_BYTES 64       /* IB_DEVICE_NAME_MAX of <rdma/rdma_netlink.h> */

enum state { WAITS, RUNS, OVER };

struct running {
    const struct world_program *what;
    enum state state;
    weft_ns start_ns; /* from the beginning of its job */
    pid_t pid;
    int pid_fd; /* -1: does not run */
    int fds[2]; /* its stdout and stderr, where they are tagged; -1: not open */
    struct weft_text line[2]; /* the last line without a newline */
    weft_ns read_ns; /* when the bytes that are being copied came, since the beginning */
    bool is_killed;  /* by a fault */
    bool is_stopped; /* for good */
    bool is_late;    /* too late for its job, and ended for that */
};

struct job {
    weft_ns begun_ns;      /* WEFT_NEVER: not yet */
    weft_ns last_start_ns; /* from there */
};

/* The beginning or the end of a fault. */
struct timed {
    weft_ns at_ns; /* from the fault's moment */
    uint32_t fault;
    bool undo;
    bool is_done;
};

struct show {
    const struct world_spec *spec;
    const struct world_programs *what;
    struct lab_fabric fabric;
    struct lab_inside *insides; /* Owned [n_hosts] */
    struct running *running;    /* Owned [what->n] */
    struct job *jobs;           /* Owned [n_jobs] */
    uint32_t n_jobs;
    struct timed *timed; /* Owned [n_timed] */
    uint32_t n_timed;
    struct lab_moments *moments; /* Owned; or NULL */
    struct lab_signals signals;
    int timer_fd;
    struct lab_capture *capture; /* Owned; or NULL */
    char cwd[PATH_MAX];
    weft_ns begun_ns;
    weft_ns now_ns;      /* when starts and faults were last due */
    weft_ns deadline_ns; /* when the rest is ended; WEFT_NEVER if nothing has failed */
    bool has_asked;      /* by SIGTERM */
    int code;
};

static const char *name_of(const struct show *show, const struct running *running)
{
    return show->spec->hosts[running->what->host].name;
}

static uint32_t index_of(const struct show *show, const struct running *running)
{
    return (uint32_t)(running - show->running);
}

static weft_ns since_begun(const struct show *show)
{
    return linux_clock_now() - show->begun_ns;
}

/* Returns the callbacks for starts, ends, faults and inspections; NULL if there are none. */
static const struct world_program_watch *listener_of(const struct show *show)
{
    return show->what->watch != NULL ? show->what->watch : show->what->witness;
}

/* Returns the time for callbacks. Reads the clock only for jobs of a scenario, because reading it
 * takes time that a witness must not take. */
static weft_ns listener_now(const struct show *show)
{
    return show->what->watch != NULL ? since_begun(show) : show->now_ns - show->begun_ns;
}

/* Returns the callback for failures while programs run; NULL if there is none. */
static const struct world_program_watch *failures_listener(const struct show *show)
{
    const struct world_program_watch *witness = show->what->witness;

    return show->what->watch == NULL && witness != NULL && witness->failing != NULL
               ? witness
               : NULL;
}

/* Reports that a program may have failed, if others still run. Takes no virtual time. */
static void report_failure(const struct show *show)
{
    const struct world_program_watch *listener = failures_listener(show);

    if (listener != NULL) {
        weft_observe_begin();
        listener->failing(listener->context, since_begun(show));
        weft_observe_end();
    }
}

/* ---- starting ---- */

int lab_programs_settle(const struct world_host *host)
{
    int problem = 0;

    /* UCX 1.13 drops datagrams of rxe otherwise (UCX PR 10209). */
    if (setenv("UCX_UD_VERBS_ETH_DGID_CHECK", "n", 0) != 0) {
        problem = errno;
    }
    for (uint32_t i = 0; i < host->n_settings; i++) {
        if (setenv(host->settings[i].name, host->settings[i].value, 1) != 0) {
            problem = errno;
        }
    }
    return problem;
}

/* Replaces this process's environment by the one that all programs of scenarios have, whatever the
 * shell's is: each folder of PATH costs a call and so time. TMPDIR is in the guest's own /run,
 * because what a program leaves in this machine's /tmp (mpirun leaves its session) would change the
 * next run. Returns an errno. */
static int forget_shell(void)
{
    static const char *const variables[][2] = {
        {"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
        {"HOME", "/run"},
        {"TMPDIR", "/run"},
        {"LANG", "C.UTF-8"},
    };
    const char *marker = getenv(LAB_GUEST_MARKER);
    char *kept = marker != NULL ? weft_strdup(marker) : NULL;
    int problem = clearenv() == 0 ? 0 : ENOMEM;

    for (size_t i = 0; i < WEFT_LENGTH(variables); i++) {
        if (setenv(variables[i][0], variables[i][1], 1) != 0) {
            problem = errno;
        }
    }
    if (kept != NULL && setenv(LAB_GUEST_MARKER, kept, 1) != 0) {
        problem = errno;
    }
    free(kept);
    return problem;
}

/* Sets up a program's process before execve(2). Returns an errno. */
static int settle(const struct show *show, uint32_t host, uint32_t id, const int pipes[2])
{
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int problem;

    if (null < 0 || dup2(null, STDIN_FILENO) < 0 ||
        (pipes[0] >= 0 &&
         (dup2(pipes[0], STDOUT_FILENO) < 0 || dup2(pipes[1], STDERR_FILENO) < 0))) {
        return errno;
    }
    problem = show->what->watch != NULL ? forget_shell() : 0;
    if (problem == 0) {
        problem = lab_programs_settle(&show->spec->hosts[host]);
    }
    if (problem == 0 && show->what->is_watched) {
        problem = lab_watch_preload(id);
    }
    if (problem == 0) {
        problem = lab_inside_enter(&show->fabric, host, &show->insides[host]);
    }
    return problem != 0 ? problem : chdir(show->cwd) == 0 ? 0 : errno;
}

static _Noreturn void become(const struct show *show, const struct running *running,
                             const int pipes[2], pid_t parent)
{
    const struct world_program *what = running->what;
    int problem;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(127);
    }
    setpgid(0, 0);
    sigprocmask(SIG_SETMASK, &show->signals.old_mask, NULL);
    problem = settle(show, what->host, index_of(show, running), pipes);
    if (problem == 0) {
        execvp(what->argv[0], what->argv);
        problem = errno;
    }
    dprintf(STDERR_FILENO, "weft exec: %s: %s: %s\n", show->spec->hosts[what->host].name,
            what->argv[0], strerror(problem));
    _exit(problem == ENOENT ? 127 : 126);
}

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
    }
    *fd = -1;
}

/* Creates the pipes of a program's stdout and stderr. Returns an errno. */
static int make_pipes(struct running *running, int out_theirs[2])
{
    for (int i = 0; i < 2; i++) {
        int fds[2];

        if (pipe2(fds, O_CLOEXEC) != 0 || fcntl(fds[0], F_SETFL, O_NONBLOCK) != 0) {
            return errno;
        }
        running->fds[i] = fds[0];
        out_theirs[i] = fds[1];
    }
    return 0;
}

static int start(struct show *show, struct running *running)
{
    int pipes[2] = {-1, -1};
    pid_t parent = getpid();
    bool has_pipes = show->what->is_tagged || show->what->watch != NULL;
    int problem = has_pipes ? make_pipes(running, pipes) : 0;

    running->pid = problem == 0 ? fork() : -1;
    if (running->pid == 0) {
        become(show, running, pipes, parent);
    }
    problem = running->pid < 0 && problem == 0 ? errno : problem;
    close_fd(&pipes[0]);
    close_fd(&pipes[1]);
    if (running->pid > 0) {
        setpgid(running->pid, running->pid); /* the child does it, too */
        running->state = RUNS;
        running->pid_fd = (int)syscall(SYS_pidfd_open, running->pid, 0);
        problem = running->pid_fd < 0 ? errno : 0;
    }
    return problem;
}

/* ---- output ---- */

/* Writes all bytes. Waits while the reader does not read, even if another program has made the file
 * non-blocking. */
static void write_all(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t now = write(fd, bytes, n);

        if (now < 0 && errno == EAGAIN) {
            struct pollfd wait = {.fd = fd, .events = POLLOUT};

            (void)poll(&wait, 1, -1);
        } else if (now < 0 && errno != EINTR) {
            return; /* the reader is gone; the exit status still counts */
        }
        bytes += now > 0 ? now : 0;
        n -= now > 0 ? (size_t)now : 0;
    }
}

static void write_line(const struct show *show, const struct running *running, int which,
                       const char *line, size_t n)
{
    const struct world_program_watch *watch = show->what->watch;
    struct weft_text text = {NULL, 0, 0};

    if (watch != NULL) {
        watch->line(watch->context, index_of(show, running), which, running->read_ns,
                    line, n);
        return;
    }
    weft_text_add(&text, "%s: ", name_of(show, running));
    weft_text_add_bytes(&text, line, n);
    weft_text_add_bytes(&text, "\n", 1);
    write_all(which == 0 ? STDOUT_FILENO : STDERR_FILENO, text.bytes, text.n);
    weft_text_fini(&text);
}

static void write_lines(const struct show *show, struct running *running, int which)
{
    struct weft_text *text = &running->line[which];
    size_t from = 0;
    const char *end;

    while (from < text->n &&
           (end = memchr(text->bytes + from, '\n', text->n - from)) != NULL) {
        size_t n = (size_t)(end - text->bytes) - from;

        write_line(show, running, which, text->bytes + from, n);
        from += n + 1;
    }
    if (show->what->watch != NULL && text->n - from >= LINE_BYTES_MAX) {
        write_line(show, running, which, text->bytes + from, text->n - from);
        from = text->n;
    }
    if (from > 0) {
        memmove(text->bytes, text->bytes + from, text->n - from);
        text->n -= from;
    }
}

/* Copies what a program wrote in whole lines, and at its end also a line without a newline. */
static void pass_on(const struct show *show, struct running *running, int which)
{
    char bytes[16384];
    ssize_t n = 0;

    while (running->fds[which] >= 0 &&
           (n = read(running->fds[which], bytes, sizeof(bytes))) > 0) {
        running->read_ns =
            since_begun(show); /* read once, because reading the clock takes time */
        weft_text_add_bytes(&running->line[which], bytes, (size_t)n);
        write_lines(show, running, which);
    }
    if (running->fds[which] >= 0 && n == 0) {
        if (running->line[which].n > 0) {
            running->read_ns = since_begun(show);
            write_line(show, running, which, running->line[which].bytes,
                       running->line[which].n);
        }
        running->line[which].n = 0;
        close_fd(&running->fds[which]);
    }
}

/* ---- ending ---- */

static void signal_group(const struct running *running, int number)
{
    if (running->state == RUNS) {
        kill(-running->pid, number);
    }
}

static uint32_t count(const struct show *show, enum state state)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < show->what->n; i++) {
        n += show->running[i].state == state;
    }
    return n;
}

static void fail(struct show *show, const struct running *running, int code)
{
    if (show->code != 0 || show->what->watch != NULL) {
        return;
    }
    show->code = code;
    show->deadline_ns = linux_clock_now() + show->what->patience_ns;
    for (uint32_t i = 0; i < show->what->n; i++) {
        struct running *other = &show->running[i];

        if (other->state == WAITS) {
            other->state = OVER;
            fprintf(stderr, "weft exec: %s was not started: %s had failed\n",
                    name_of(show, other), name_of(show, running));
        }
    }
}

/* Reports how a program ended, if several run. If one runs alone, the exit status shows it. */
static void report_end(const struct show *show, const struct running *running,
                       int wait_status)
{
    if (!show->what->is_tagged || show->what->watch != NULL) {
        return;
    }
    if (WIFSIGNALED(wait_status)) {
        fprintf(stderr, "weft exec: %s: signal %d (%s)%s\n", name_of(show, running),
                WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)),
                running->is_killed ? ", a fault of the scenario" : "");
    } else {
        fprintf(stderr, "weft exec: %s: exit status %d\n", name_of(show, running),
                WEXITSTATUS(wait_status));
    }
}

static void watch_end(const struct show *show, const struct running *running,
                      int wait_status)
{
    const struct world_program_watch *watch = listener_of(show);
    bool is_signal = WIFSIGNALED(wait_status);
    enum world_program_end end = running->is_late                  ? WORLD_PROGRAM_LATE
                                 : is_signal && running->is_killed ? WORLD_PROGRAM_KILLED
                                 : is_signal                       ? WORLD_PROGRAM_SIGNAL
                                                                   : WORLD_PROGRAM_EXITED;

    if (watch != NULL) {
        watch->ended(watch->context, index_of(show, running), end,
                     is_signal ? WTERMSIG(wait_status) : WEXITSTATUS(wait_status),
                     listener_now(show));
    }
}

static void reap(struct show *show, struct running *running)
{
    int wait_status = 0;
    int code;

    if (running->state != RUNS ||
        waitpid(running->pid, &wait_status, WNOHANG) != running->pid) {
        return;
    }
    for (int i = 0; i < 2; i++) {
        pass_on(show, running, i);
    }
    kill(-running->pid, SIGKILL); /* what it left in its group */
    running->state = OVER;
    close_fd(&running->pid_fd);
    watch_end(show, running, wait_status);
    code =
        WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
    if (code != 0) {
        report_end(show, running, wait_status);
    }
    if (code != 0 && !running->is_killed && !show->has_asked) {
        fail(show, running, code);
        if (count(show, RUNS) > 0) {
            report_failure(show);
        }
    }
}

/* Marks a program late that still runs at its job's limit, and ends one that has not started. */
static void note_late(const struct show *show, struct running *running)
{
    const struct world_program_watch *watch = show->what->watch;

    running->is_late = running->state == RUNS || running->is_late;
    if (running->state == WAITS &&
        show->jobs[running->what->job].begun_ns != WEFT_NEVER) {
        running->state = OVER;
        watch->ended(watch->context, index_of(show, running), WORLD_PROGRAM_LATE, 0,
                     since_begun(show));
    }
}

/* Sends SIGTERM, and later SIGKILL, to the programs that still run after a failure or their job's
 * limit. */
static void end_rest(struct show *show)
{
    if (linux_clock_now() < show->deadline_ns) {
        return;
    }
    for (uint32_t i = 0; i < show->what->n; i++) {
        struct running *running = &show->running[i];

        if (show->what->watch != NULL) {
            note_late(show, running);
        } else if (running->state == RUNS && !show->has_asked) {
            fprintf(stderr,
                    "weft exec: %s still ran %lld s after the failure, and is ended\n",
                    name_of(show, running),
                    (long long)(show->what->patience_ns / SECOND));
            running->is_late = true;
        }
        signal_group(running, show->has_asked ? SIGKILL : SIGTERM);
    }
    show->has_asked = true;
    show->deadline_ns = linux_clock_now() + LAST_WORDS_NS;
}

/* Kills all children of this process, which are orphans of programs once these have ended. Returns
 * their number. */
static uint32_t kill_children(void)
{
    DIR *folder = opendir("/proc");
    struct dirent *entry;
    uint32_t n = 0;

    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        char path[300];
        char text[512] = "";
        const char *end;
        int parent = 0;
        FILE *file;

        if (entry->d_name[0] < '0' || entry->d_name[0] > '9') {
            continue;
        }
        weft_format(path, sizeof(path), "/proc/%s/stat", entry->d_name);
        file = fopen(path, "re");
        if (file != NULL && fgets(text, sizeof(text), file) != NULL &&
            (end = strrchr(text, ')')) != NULL &&
            sscanf(end + 1, " %*c %d", &parent) == 1 && parent == getpid()) {
            kill((pid_t)strtol(entry->d_name, NULL, 10), SIGKILL);
            n++;
        }
        if (file != NULL) {
            fclose(file);
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return n;
}

/* Ends every process that the programs started and left. */
static void sweep(void)
{
    while (kill_children() > 0) {
        waitpid(-1, NULL, 0);
        while (waitpid(-1, NULL, WNOHANG) > 0) {
            continue;
        }
    }
}

/* ---- faults ---- */

static void plan_faults(struct show *show)
{
    show->timed = weft_calloc(2 * (size_t)show->spec->n_faults + 1, sizeof(*show->timed));
    for (uint32_t i = 0; i < show->spec->n_faults; i++) {
        const struct world_fault *fault = &show->spec->faults[i];

        show->timed[show->n_timed++] = (struct timed){.at_ns = fault->at_ns, .fault = i};
        if (fault->for_ns != 0) {
            show->timed[show->n_timed++] = (struct timed){
                .at_ns = fault->at_ns + fault->for_ns, .fault = i, .undo = true};
        }
    }
}

static int signal_host(struct show *show, const struct world_fault *fault, bool undo)
{
    bool is_kill = fault->kind == WORLD_FAULT_KILL;
    int problem = ESRCH;

    for (uint32_t i = 0; i < show->what->n; i++) {
        struct running *running = &show->running[i];

        if (running->what->host != fault->host || running->state != RUNS) {
            continue;
        }
        signal_group(running, is_kill ? SIGKILL : undo ? SIGCONT : SIGSTOP);
        running->is_killed = running->is_killed || is_kill;
        running->is_stopped = !is_kill && !undo && fault->for_ns == 0;
        problem = 0;
    }
    return problem;
}

static void apply_fault(struct show *show, const struct timed *timed)
{
    const struct world_program_watch *watch = listener_of(show);
    const struct world_fault *fault = &show->spec->faults[timed->fault];
    int problem = world_fault_is_of_link(fault)
                      ? lab_fault_apply(&show->fabric, fault, timed->undo)
                      : signal_host(show, fault, timed->undo);

    if (watch != NULL) {
        watch->fault(watch->context, timed->fault, timed->undo, listener_now(show),
                     problem);
    }
    if (show->what->watch == NULL && problem != 0) {
        weft_log(show->spec->log, WEFT_LOG_WARN, "fault %u (%s): %s", timed->fault + 1,
                 world_fault_name(fault->kind), strerror(problem));
    }
}

/* Returns WEFT_NEVER if the fault's moment is not known yet. */
static weft_ns moment_of(const struct show *show, uint32_t fault)
{
    const struct world_moment *moment = &show->spec->faults[fault].moment;
    const struct job *first = &show->jobs[0];
    weft_ns begun = moment->kind == WORLD_MOMENT_ROW
                        ? show->jobs[moment->row - 1].begun_ns
                        : first->begun_ns;
    bool is_first_start =
        moment->kind == WORLD_MOMENT_ROW ||
        (moment->kind == WORLD_MOMENT_START && show->what->watch != NULL);

    if (world_moment_is_of_programs(moment->kind)) {
        return lab_moments_at(show->moments, fault);
    }
    return begun == WEFT_NEVER || is_first_start ? begun : begun + first->last_start_ns;
}

/* Returns the first beginning or end of a fault that is not done, in order of time and then of the
 * file, and stores its time. Returns NULL if no time is known. */
static struct timed *first_timed(const struct show *show, weft_ns *out_at)
{
    struct timed *first = NULL;

    *out_at = WEFT_NEVER;
    for (uint32_t i = 0; i < show->n_timed; i++) {
        struct timed *timed = &show->timed[i];
        weft_ns moment = moment_of(show, timed->fault);

        if (!timed->is_done && moment != WEFT_NEVER && moment + timed->at_ns < *out_at) {
            first = timed;
            *out_at = moment + timed->at_ns;
        }
    }
    return first;
}

/* Begins and ends the faults that are due. Returns the time of the next. */
static weft_ns faults_due(struct show *show, weft_ns now)
{
    struct timed *timed;
    weft_ns at;

    while ((timed = first_timed(show, &at)) != NULL && at <= now) {
        apply_fault(show, timed);
        timed->is_done = true;
    }
    return at;
}

static void warn_of_faults(const struct show *show)
{
    for (uint32_t i = 0; i < show->n_timed; i++) {
        const struct timed *timed = &show->timed[i];

        if (!timed->is_done && !timed->undo) {
            const struct world_fault *fault = &show->spec->faults[timed->fault];

            if (show->what->watch != NULL) {
                continue; /* the watch concludes this from the missing callback */
            }
            weft_log(show->spec->log, WEFT_LOG_WARN,
                     "fault %u (%s) did not come: the programs were over before",
                     timed->fault + 1, world_fault_name(fault->kind));
        }
    }
}

/* ---- time ---- */

static void watch_start(const struct show *show, const struct running *running,
                        int problem)
{
    const struct world_program_watch *watch = listener_of(show);

    if (watch != NULL) {
        watch->began(watch->context, index_of(show, running), listener_now(show));
    }
    if (watch != NULL && running->state == WAITS && problem != 0) {
        watch->ended(watch->context, index_of(show, running), WORLD_PROGRAM_EXITED, 126,
                     listener_now(show));
    }
}

/* Starts the programs that are due. Returns the time of the next. */
static weft_ns starts_due(struct show *show, weft_ns now)
{
    weft_ns next = WEFT_NEVER;

    for (uint32_t i = 0; i < show->what->n; i++) {
        struct running *running = &show->running[i];
        weft_ns begun = show->jobs[running->what->job].begun_ns;
        weft_ns at = begun == WEFT_NEVER ? begun : begun + running->start_ns;
        int problem = 0;

        if (running->state == WAITS && at <= now) {
            problem = start(show, running);
            watch_start(show, running, problem);
        } else if (running->state == WAITS) {
            next = at < next ? at : next;
        }
        if (problem != 0) {
            fprintf(stderr, "weft: %s: cannot start %s: %s\n", name_of(show, running),
                    running->what->argv[0], strerror(problem));
            running->state = running->state == WAITS ? OVER : running->state;
            fail(show, running, 126);
        }
    }
    return next;
}

/* Returns true if nothing can happen any more, because faults have stopped for good whatever still
 * runs. */
static bool is_stuck(const struct show *show)
{
    bool is = count(show, WAITS) == 0 && show->what->watch == NULL;

    for (uint32_t i = 0; i < show->what->n; i++) {
        is = is && (show->running[i].state != RUNS || show->running[i].is_stopped);
    }
    for (uint32_t i = 0; i < show->n_timed; i++) {
        is = is && (show->timed[i].is_done ||
                    moment_of(show, show->timed[i].fault) == WEFT_NEVER);
    }
    return is;
}

static void take_failures(const struct show *show, const struct pollfd *failures)
{
    char bytes[256];

    if ((failures->revents & POLLIN) != 0) {
        (void)!read(failures->fd, bytes, sizeof(bytes));
        report_failure(show);
    }
}

static int count_ready(const struct pollfd *fds, uint32_t n)
{
    int n_ready = 0;

    for (uint32_t i = 0; i < n; i++) {
        n_ready += fds[i].revents != 0;
    }
    return n_ready;
}

/* Fetches captured frames, and reports failures, until an event. Its calls are free, and poll(2)
 * then returns at once, so that calls and times are those without a capture. Behind the `fds` [n]
 * of such events are the descriptor of failures, which is none, and those of moments [n_moments],
 * which are one if a fault's moment has come. Returns true in this case. */
static bool observe_meanwhile(const struct show *show, struct pollfd *fds, uint32_t n,
                              uint32_t n_moments)
{
    weft_ns fetch_ns = 0; /* when captured frames are fetched again */
    int n_ready = 0;
    bool has_come = false;

    weft_observe_begin();
    while (n_ready <= 0 && !has_come &&
           (show->capture != NULL || fds[n].fd >= 0 || n_moments > 0)) {
        weft_ns now = linux_clock_now();
        weft_ns left;
        struct timespec time;

        if (fetch_ns <= now) { /* a failure does not move the moments of the next */
            lab_capture_fetch(show->capture);
            fetch_ns = now + LAB_CAPTURE_NS;
        }
        left = fetch_ns - now;
        time = (struct timespec){.tv_sec = left / SECOND, .tv_nsec = left % SECOND};
        n_ready =
            ppoll(fds, n + 1 + n_moments, show->capture != NULL ? &time : NULL, NULL);
        if (n_ready > 0) {
            take_failures(show, &fds[n]);
            has_come = count_ready(fds + n + 1, n_moments) > 0 &&
                       lab_moments_take(show->moments, linux_clock_now());
            n_ready = count_ready(fds, n);
        }
    }
    weft_observe_end();
    return has_come;
}

/* Sleeps until an event, or until `until`. Uses a timer, because a time-out of poll(2) may be late
 * by a thousandth of itself (select_estimate_accuracy() in fs/select.c). */
static void await(struct show *show, weft_ns until)
{
    uint32_t n = 0;
    uint32_t n_moments;
    struct pollfd *fds = weft_calloc(
        3 * (size_t)show->what->n + 3 + lab_moments_n(show->moments), sizeof(*fds));
    const struct itimerspec timer = {
        .it_value = {.tv_sec = until == WEFT_NEVER ? 0 : until / SECOND,
                     .tv_nsec = until == WEFT_NEVER ? 0 : until % SECOND}};

    timerfd_settime(show->timer_fd, TFD_TIMER_ABSTIME, &timer, NULL);
    fds[n++] = (struct pollfd){.fd = show->signals.fd, .events = POLLIN};
    fds[n++] = (struct pollfd){.fd = show->timer_fd, .events = POLLIN};
    for (uint32_t i = 0; i < show->what->n; i++) {
        struct running *running = &show->running[i];

        fds[n++] = (struct pollfd){.fd = running->pid_fd, .events = POLLIN};
        fds[n++] = (struct pollfd){.fd = running->fds[0], .events = POLLIN};
        fds[n++] = (struct pollfd){.fd = running->fds[1], .events = POLLIN};
    }
    fds[n] =
        (struct pollfd){.fd = failures_listener(show) != NULL ? lab_watch_failures() : -1,
                        .events = POLLIN};
    n_moments = lab_moments_fds(show->moments, fds + n + 1);
    if (!observe_meanwhile(show, fds, n, n_moments)) {
        poll(fds, n, -1);
    }
    free(fds);
}

static void go_on(struct show *show)
{
    weft_ns now = show->now_ns = linux_clock_now();
    weft_ns next = starts_due(show, now);
    weft_ns fault = faults_due(show, now);

    next = fault < next ? fault : next;
    next = show->deadline_ns < next ? show->deadline_ns : next;
    await(show, next);
    for (uint32_t i = 0; i < show->what->n; i++) {
        pass_on(show, &show->running[i], 0);
        pass_on(show, &show->running[i], 1);
        reap(show, &show->running[i]);
    }
}

/* ---- looking at hosts ---- */

static void look_from(void *context, uint32_t host, struct weft_text *out)
{
    const struct world_program_watch *watch = listener_of(context);

    watch->look(watch->context, host, out);
}

/* Inspects one host. Reports an empty text if it cannot be inspected. */
static void look_at(struct show *show, uint32_t job, uint32_t host)
{
    const struct world_program_watch *watch = listener_of(show);
    const struct lab_looking looking = {.fabric = &show->fabric,
                                        .insides = show->insides,
                                        .signals = &show->signals,
                                        .look = look_from,
                                        .context = show};
    struct weft_text text = {NULL, 0, 0};

    lab_look(&looking, host, &text);
    watch->saw(watch->context, job, host, text.bytes != NULL ? text.bytes : "", text.n);
    weft_text_fini(&text);
}

static void look(struct show *show, uint32_t job)
{
    for (uint32_t i = 0; i < show->spec->n_hosts; i++) {
        look_at(show, job, i);
    }
    look_at(show, job, WORLD_PROGRAM_OUTSIDE);
}

static void begin_job(struct show *show, uint32_t job)
{
    const struct world_program_watch *watch = show->what->watch;

    show->jobs[job].begun_ns = job == 0 ? show->begun_ns : linux_clock_now();
    if (watch != NULL) {
        show->has_asked = false;
        show->deadline_ns = show->jobs[job].begun_ns + show->what->limits_ns[job];
        watch->job_began(watch->context, job, since_begun(show));
    }
}

static bool is_over(const struct show *show, uint32_t job)
{
    bool is = true;

    for (uint32_t i = 0; i < show->what->n; i++) {
        is = is && (show->running[i].what->job != job || show->running[i].state == OVER);
    }
    return is;
}

/* Ends what the job's programs left behind, and copies the rest of their output. */
static void end_job(struct show *show)
{
    sweep();
    for (uint32_t i = 0; i < show->what->n; i++) {
        struct running *running = &show->running[i];

        for (int j = 0; j < 2; j++) {
            pass_on(show, running, j); /* to the end, because all writers are gone */
            close_fd(&running->fds[j]);
        }
    }
}

static weft_status run_jobs(struct show *show, struct weft_error *error)
{
    const struct world_program_watch *watch = listener_of(show);

    for (uint32_t job = 0; job < show->n_jobs; job++) {
        begin_job(show, job);
        while (!is_over(show, job)) {
            go_on(show);
            if (lab_signals_came(&show->signals)) {
                return weft_fail(error, WEFT_ERR_CLOSED, WEFT_PHASE_EXEC, "interrupted");
            }
            end_rest(show);
            for (uint32_t i = 0; i < show->what->n && is_stuck(show); i++) {
                show->running[i].is_killed = true;
                show->running[i].is_late = show->running[i].state == RUNS;
                signal_group(&show->running[i], SIGKILL);
            }
        }
        end_job(show);
        if (watch != NULL && watch->over(watch->context, job)) {
            look(show, job);
        }
        if (lab_signals_came(&show->signals)) {
            return weft_fail(error, WEFT_ERR_CLOSED, WEFT_PHASE_EXEC, "interrupted");
        }
    }
    return WEFT_OK;
}

/* ---- life ---- */

static weft_status start_capture(struct show *show, struct weft_error *error)
{
    int problem = show->what->tap == NULL
                      ? 0
                      : lab_capture_start(&show->fabric, show->what->tap,
                                          show->what->tap_context, &show->capture);

    return problem == 0
               ? WEFT_OK
               : weft_fail_errno(error, problem, WEFT_PHASE_CAPTURE, "cannot capture");
}

static void init(struct show *show)
{
    show->insides = lab_insides_new(show->spec);
    show->running = weft_calloc((size_t)show->what->n + 1, sizeof(*show->running));
    show->n_jobs = show->what->watch != NULL ? show->what->n_jobs : 1;
    show->jobs = weft_calloc(show->n_jobs, sizeof(*show->jobs));
    for (uint32_t i = 0; i < show->n_jobs; i++) {
        show->jobs[i].begun_ns = WEFT_NEVER;
    }
    for (uint32_t i = 0; i < show->what->n; i++) {
        const struct world_program *what = &show->what->items[i];
        struct running *running = &show->running[i];

        *running = (struct running){.what = what, .pid_fd = -1, .fds = {-1, -1}};
        running->start_ns = (weft_ns)what->step * WORLD_PROGRAM_STEP_NS +
                            show->spec->hosts[what->host].start_ns;
        if (running->start_ns > show->jobs[what->job].last_start_ns) {
            show->jobs[what->job].last_start_ns = running->start_ns;
        }
    }
    plan_faults(show);
}

static void fini(struct show *show)
{
    for (uint32_t i = 0; i < show->what->n; i++) {
        struct running *running = &show->running[i];

        signal_group(running, SIGKILL);
    }
    end_job(show);
    for (uint32_t i = 0; i < show->what->n; i++) {
        struct running *running = &show->running[i];

        close_fd(&running->pid_fd);
        weft_text_fini(&running->line[0]);
        weft_text_fini(&running->line[1]);
    }
    lab_capture_end(show->capture);
    lab_moments_end(show->moments);
    lab_insides_free(show->spec, show->insides);
    close_fd(&show->timer_fd);
    free(show->running);
    free(show->jobs);
    free(show->timed);
}

weft_status lab_programs_run(const struct world_spec *spec,
                             const struct world_programs *what, int *out_code,
                             struct weft_error *error)
{
    struct show show = {.spec = spec, .what = what, .deadline_ns = WEFT_NEVER};
    weft_status status;

    if (getcwd(show.cwd, sizeof(show.cwd)) == NULL) {
        return weft_fail_errno(error, errno, WEFT_PHASE_EXEC, "no working directory");
    }
    show.timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (show.timer_fd < 0) {
        return weft_fail_errno(error, errno, WEFT_PHASE_EXEC, "no timer");
    }
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    lab_signals_catch(&show.signals);
    init(&show);
    status =
        lab_fabric_create(spec, LAB_NAMESPACES, LAB_DEVICES_BY_NAME, &show.fabric, error);
    if (status == WEFT_OK) {
        status = lab_insides_make(&show.fabric, show.insides, error);
        if (status == WEFT_OK) {
            status = start_capture(&show, error);
        }
        if (status == WEFT_OK && what->watch != NULL) {
            look(&show, WORLD_PROGRAM_BEFORE);
        }
        lab_chance_await_second();
        if (what->is_watched) {
            lab_watch_begin(what->n);
        }
        if (status == WEFT_OK) {
            status =
                lab_moments_begin(&show.fabric, what->is_watched, &show.moments, error);
        }
        if (show.moments != NULL) {
            lab_chance_run_unnoticed(); /* a fault does not wait for this thread's turn */
        }
        lab_chance_begin(LAB_CHANCE_PROGRAMS);
        show.begun_ns = linux_clock_now();
        if (status == WEFT_OK) {
            status = run_jobs(&show, error);
            warn_of_faults(&show);
        }
        fini(&show);
        lab_fabric_destroy(&show.fabric);
    } else {
        fini(&show);
    }
    *out_code = show.code;
    lab_signals_release(&show.signals);
    return status;
}

/* ---- what cannot be ---- */

static weft_status check_device(const struct world_spec *spec, uint32_t host,
                                uint32_t port, struct weft_error *error)
{
    char name[LAB_NAME_BYTES * 2];

    lab_device_by_name(spec, host, port, name, sizeof(name));
    if (strlen(name) >= DEVICE_NAME_BYTES) {
        return weft_fail(error, WEFT_ERR_UNSUPPORTED, WEFT_PHASE_EXEC,
                         "an RDMA device has a name of at most %d bytes: %.80s",
                         DEVICE_NAME_BYTES - 1, name);
    }
    for (uint32_t i = 0; i < host; i++) {
        for (uint32_t j = 0; j < spec->hosts[i].n_ports; j++) {
            char other[LAB_NAME_BYTES * 2];

            lab_device_by_name(spec, i, j, other, sizeof(other));
            if (strcmp(name, other) == 0) {
                return weft_fail(error, WEFT_ERR_UNSUPPORTED, WEFT_PHASE_EXEC,
                                 "two hosts would have an RDMA device %.60s", name);
            }
        }
    }
    return WEFT_OK;
}

static weft_status check_fault(const struct world_spec *spec, uint32_t index,
                               bool has_jobs, struct weft_error *error)
{
    const struct world_fault *fault = &spec->faults[index];
    const char *name = world_fault_name(fault->kind);
    enum world_moment_kind moment = fault->moment.kind;

    if (lab_fault_is_of_process(fault)) {
        return weft_fail(error, WEFT_ERR_UNSUPPORTED, WEFT_PHASE_EXEC,
                         "fault %u (%s) is made within Weft's own processes, which "
                         "these are not",
                         index + 1, name);
    }
    if (has_jobs && moment == WORLD_MOMENT_SENT) {
        return weft_fail(
            error, WEFT_ERR_UNSUPPORTED, WEFT_PHASE_EXEC,
            "fault %u (%s) comes when a host has sent so much, which only "
            "Weft's own processes report: wait for a packet of a port, such as "
            "HOST:PORT packet 1000",
            index + 1, name);
    }
    if (!has_jobs && moment != WORLD_MOMENT_START &&
        !world_moment_is_of_programs(moment)) {
        return weft_fail(error, WEFT_ERR_UNSUPPORTED, WEFT_PHASE_EXEC,
                         "fault %u (%s) comes at a moment of a job of Weft's, and "
                         "none runs: give it a time, or HOST:PORT rts or packet N",
                         index + 1, name);
    }
    return WEFT_OK;
}

weft_status lab_programs_can(const struct world_spec *spec, bool has_jobs,
                             struct weft_error *error)
{
    weft_status status = WEFT_OK;

    for (uint32_t i = 0; i < spec->n_hosts && status == WEFT_OK; i++) {
        for (uint32_t j = 0; j < spec->hosts[i].n_ports && status == WEFT_OK; j++) {
            status = check_device(spec, i, j, error);
        }
    }
    for (uint32_t i = 0; i < spec->n_faults && status == WEFT_OK; i++) {
        status = check_fault(spec, i, has_jobs, error);
    }
    return status;
}
