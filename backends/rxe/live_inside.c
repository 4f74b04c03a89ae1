#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backends/lab/capture.h"
#include "backends/lab/fabric.h"
#include "backends/lab/inside.h"
#include "backends/lab/look.h"
#include "backends/lab/programs.h"
#include "backends/lab/signals.h"
#include "backends/lab/watch.h"
#include "backends/linux/clock.h"
#include "backends/rxe/live.h"
#include "backends/rxe/live_faults.h"
#include "backends/rxe/live_terminal.h"
#include "backends/rxe/scratch.h"
#include "base/check.h"
#include "base/observe.h"
#include "base/text.h"

#define SECOND INT64_C(1000000000)
#define STEP_NS (SECOND / 100)     /* from door to door while programs run */
#define STEP_IDLE_NS (SECOND / 20) /* while none does, in real time */
#define LAST_WORDS_NS (2 * SECOND) /* from SIGHUP to SIGKILL */
#define WORK_NS (SECOND / 1000)
#define WATCH_NS (SECOND / 50) /* time in which counters show which host makes progress */
#define FOLDER "."             /* where we work */

extern char **environ;

struct program {
    uint32_t id, host;
    pid_t pid;
    int fds[2];      /* its stdout and stderr */
    weft_ns kill_ns; /* when SIGKILL is due, or WEFT_NEVER */
    struct live_terminal terminal;
};

struct inside {
    const struct world_spec *spec;
    struct lab_fabric fabric;
    struct lab_inside *insides; /* Owned [n_hosts] */
    struct program *programs;   /* Owned [n] */
    uint32_t n;
    struct live_faults faults;
    const struct world_lab_services *services;
    struct lab_capture *capture; /* Owned; NULL: none */
    unsigned door;
    struct weft_text ended; /* lines "ID CODE" for the next door */
    /* Owned; inspection of the hosts before the first of the programs that run, or ran last */
    struct weft_text before;
    sigset_t child_mask;
    int child_fd; /* readable when a child ended; does not wait */
    struct lab_signals signals;
};

/* ---- programs ---- */

#define N_WATCHED 64 /* programs for whose records a place is made in advance */

struct start {
    uint32_t id, host;
    weft_ns at_ns;
    const char *cwd;
    uint32_t size;            /* of its terminal; 0: none */
    char **argv, **variables; /* Owned, not the words; end with NULL */
};

static int open_file(const char *what, uint32_t id, int flags)
{
    char name[32];

    weft_format(name, sizeof(name), "%s.%u", what, id);
    return open(name, flags | O_CLOEXEC);
}

/* Opens a program's files. Returns an errno. */
static int take_files(const struct start *start, const int fds[2])
{
    int in = open_file("in", start->id, O_RDONLY);

    return in < 0 || dup2(in, STDIN_FILENO) < 0 || dup2(fds[0], STDOUT_FILENO) < 0 ||
                   dup2(fds[1], STDERR_FILENO) < 0
               ? errno
               : 0;
}

/* Returns false if its environment has WEFT_WATCH=off. */
static bool is_watched(const struct start *start)
{
    bool is = true;

    for (size_t i = 0; start->variables[i] != NULL; i++) {
        is = is && strcmp(start->variables[i], "WEFT_WATCH=off") != 0;
    }
    return is;
}

/* Sets up a program's process before execve(2). Returns an errno. */
static int settle(const struct inside *inside, const struct start *start,
                  const struct program *program)
{
    const char *marker = getenv(RXE_GUEST_MARKER);
    int problem = start->size != 0 ? live_terminal_take(&program->terminal)
                                   : take_files(start, program->fds);

    if (problem != 0) {
        return problem;
    }
    environ = start->variables;
    problem = setenv(RXE_GUEST_MARKER, marker != NULL ? marker : "", 1) == 0 ? 0 : errno;
    if (problem == 0) {
        problem = lab_programs_settle(&inside->spec->hosts[start->host]);
    }
    if (problem == 0 && is_watched(start)) {
        problem = lab_watch_preload(start->id);
    }
    if (problem == 0) {
        problem =
            lab_inside_enter(&inside->fabric, start->host, &inside->insides[start->host]);
    }
    return problem;
}

static void wait_until(weft_ns at_ns)
{
    const struct timespec time = {.tv_sec = at_ns / SECOND, .tv_nsec = at_ns % SECOND};

    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
}

static _Noreturn void become(const struct inside *inside, const struct start *start,
                             const struct program *program, pid_t parent)
{
    const char *what = start->argv[0];
    int problem;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(127);
    }
    if (start->size != 0) {
        setsid();
    } else {
        setpgid(0, 0);
    }
    sigprocmask(SIG_SETMASK, &inside->signals.old_mask, NULL);
    problem = settle(inside, start, program);
    if (problem == 0 && chdir(start->cwd) != 0) {
        problem = errno;
        what = start->cwd;
    }
    if (problem == 0) {
        if (start->at_ns > 0) {
            wait_until(start->at_ns);
        }
        execvp(start->argv[0], start->argv);
        problem = errno;
    }
    dprintf(STDERR_FILENO, "weft lab exec: %s: %s: %s\n",
            inside->spec->hosts[start->host].name, what, strerror(problem));
    _exit(problem == ENOENT ? 127 : 126);
}

static void add_ended(struct inside *inside, uint32_t id, int code)
{
    weft_text_add(&inside->ended, "%u %d\n", id, code);
}

static void close_files(struct program *program)
{
    for (int i = 0; i < 2; i++) {
        if (program->fds[i] >= 0) {
            close(program->fds[i]); /* hostfs writes the rest */
        }
    }
    live_terminal_close(&program->terminal);
}

static void start_program(struct inside *inside, const struct start *start)
{
    struct program program = {.id = start->id,
                              .host = start->host,
                              .kill_ns = WEFT_NEVER,
                              .terminal = {.fd = -1}};
    pid_t parent = getpid();

    if (is_watched(start)) {
        lab_watch_prepare(start->id);
    }
    program.fds[0] = open_file("out", start->id, O_WRONLY | O_APPEND);
    program.fds[1] = open_file("err", start->id, O_WRONLY | O_APPEND);
    program.pid =
        program.fds[0] < 0 || program.fds[1] < 0 ||
                (start->size != 0 && !live_terminal_make(start->size, &program.terminal))
            ? -1
            : fork();
    if (program.pid == 0) {
        become(inside, start, &program, parent);
    }
    if (program.pid < 0) {
        if (program.fds[1] >= 0) {
            dprintf(program.fds[1], "weft lab exec: cannot start %s: %s\n",
                    start->argv[0], strerror(errno));
        }
        close_files(&program);
        add_ended(inside, start->id, 126);
        return;
    }
    if (start->size == 0) {
        setpgid(program.pid, program.pid); /* either of the two may come first */
    }
    inside->programs =
        weft_realloc(inside->programs, (inside->n + 1) * sizeof(*inside->programs));
    inside->programs[inside->n++] = program;
}

/* Notes a program's end, and kills what it left in its process group. */
static void note_end(struct inside *inside, pid_t pid, int wait_status)
{
    for (uint32_t i = 0; i < inside->n; i++) {
        struct program *program = &inside->programs[i];

        if (program->pid == pid) {
            kill(-pid, SIGKILL);
            live_terminal_pass(&program->terminal, program->fds[0]);
            close_files(program);
            add_ended(inside, program->id,
                      WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status)
                                               : WEXITSTATUS(wait_status));
            memmove(program, program + 1, (--inside->n - i) * sizeof(*program));
            return;
        }
    }
}

/* Reaps children. Returns true if a program ended. */
static bool reap(struct inside *inside)
{
    int wait_status;
    pid_t pid;

    while ((pid = waitpid(-1, &wait_status, WNOHANG)) > 0) {
        note_end(inside, pid, wait_status);
    }
    return inside->ended.n > 0;
}

static struct program *find(struct inside *inside, uint32_t id)
{
    for (uint32_t i = 0; i < inside->n; i++) {
        if (inside->programs[i].id == id) {
            return &inside->programs[i];
        }
    }
    return NULL; /* it ended before the request */
}

/* ---- what is asked for ---- */

struct words {
    char *at, *end;
};

/* Returns the next word, or "" past the last. */
static char *next_word(struct words *words)
{
    char *word = words->at;

    words->at += words->at < words->end ? strlen(words->at) + 1 : 0;
    return word;
}

static uint32_t next_number(struct words *words)
{
    return (uint32_t)strtoul(next_word(words), NULL, 10);
}

static char **next_list(struct words *words)
{
    uint32_t n = next_number(words);
    char **list = weft_calloc((size_t)n + 1, sizeof(*list));

    for (uint32_t i = 0; i < n; i++) {
        list[i] = next_word(words);
    }
    return list;
}

static void do_exec(struct inside *inside, struct words *words, weft_ns now)
{
    struct start start = {.id = next_number(words)};

    start.host = next_number(words);
    start.at_ns = strtoll(next_word(words), NULL, 10);
    start.at_ns = start.at_ns > 0 ? now + start.at_ns : 0;
    start.cwd = next_word(words);
    start.size = next_number(words);
    start.argv = next_list(words);
    start.variables = next_list(words);
    weft_check(start.host < inside->spec->n_hosts && start.argv[0] != NULL);
    start_program(inside, &start);
    free(start.argv);
    free(start.variables);
}

/* Sends a signal to all programs of a host, for a fault of the scenario. */
static int signal_host(const struct inside *inside, uint32_t host, int number)
{
    int problem = ESRCH;

    for (uint32_t i = 0; i < inside->n; i++) {
        if (inside->programs[i].host == host) {
            kill(-inside->programs[i].pid, number);
            problem = 0;
        }
    }
    return problem;
}

static int apply_fault(void *context, const struct world_fault *fault, bool undo)
{
    struct inside *inside = context;

    if (world_fault_is_of_link(fault)) {
        return lab_fault_apply(&inside->fabric, fault, undo);
    }
    if (undo) { /* only of programs that still exist; a killed one stays so */
        if (fault->kind != WORLD_FAULT_KILL) {
            (void)signal_host(inside, fault->host, SIGCONT);
        }
        return 0;
    }
    return signal_host(inside, fault->host,
                       fault->kind == WORLD_FAULT_KILL ? SIGKILL : SIGSTOP);
}

static void do_fault(struct inside *inside, struct words *words, weft_ns now)
{
    uint32_t id = next_number(words);
    struct world_fault fault;

    weft_check(live_fault_read(next_word(words), &fault));
    add_ended(inside, id, live_faults_add(&inside->faults, &fault, now));
}

static void do_clear(struct inside *inside, struct words *words)
{
    uint32_t id = next_number(words);

    add_ended(inside, id, live_faults_clear(&inside->faults));
}

/* Lets the kernel's threads apply a fault to links and routes. They get no turn while nothing runs
 * and the clock stands still. */
static void let_kernel_work(const struct inside *inside)
{
    const struct timespec time = {.tv_nsec = WORK_NS};

    if (inside->n == 0) {
        clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
    }
}

/* Starts a capture to `path`. Returns an errno. */
static int begin_capture(struct inside *inside, const char *path)
{
    const struct world_lab_services *services = inside->services;
    int problem =
        inside->capture != NULL ? EBUSY : services->begin(services->context, path);

    if (problem == 0) {
        problem = lab_capture_start(&inside->fabric, services->frame, services->context,
                                    &inside->capture);
        if (problem != 0) {
            (void)services->end(services->context);
        }
    }
    return problem;
}

static int end_capture(struct inside *inside)
{
    if (inside->capture == NULL) {
        return ESRCH;
    }
    lab_capture_end(inside->capture);
    inside->capture = NULL;
    return inside->services->end(inside->services->context);
}

static void do_capture(struct inside *inside, struct words *words)
{
    uint32_t id = next_number(words);
    const char *path = next_word(words);

    add_ended(inside, id,
              path[0] != '\0' ? begin_capture(inside, path) : end_capture(inside));
}

/* Adds a line for each host, and the last one for what is seen outside all of them. With
 * `is_outside` only the last. */
static void add_looks(struct inside *inside, bool is_outside, struct weft_text *out)
{
    const struct lab_looking looking = {.fabric = &inside->fabric,
                                        .insides = inside->insides,
                                        .signals = &inside->signals,
                                        .look = inside->services->look,
                                        .context = inside->services->context};

    for (uint32_t i = 0; i < inside->spec->n_hosts && !is_outside; i++) {
        lab_look(&looking, i, out);
        weft_text_add(out, "\n");
    }
    lab_look(&looking, WORLD_PROGRAM_OUTSIDE, out);
    weft_text_add(out, "\n");
}

/* Writes the inspection of the hosts before the programs, the counters now, and an inspection of
 * the hosts a moment later. */
static void do_look(struct inside *inside, struct words *words)
{
    const struct timespec time = {.tv_nsec = WATCH_NS};
    uint32_t id = next_number(words);
    struct weft_text text = {NULL, 0, 0};
    char name[32];

    if (inside->before.n == 0) {
        add_looks(inside, false, &inside->before);
    }
    weft_text_add_bytes(&text, inside->before.bytes, inside->before.n);
    add_looks(inside, true, &text);
    if (inside->n > 0) {
        clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
    }
    add_looks(inside, false, &text);
    weft_format(name, sizeof(name), "out.%u", id);
    add_ended(inside, id, scratch_write(FOLDER, name, text.bytes, text.n) ? 0 : EIO);
    weft_text_fini(&text);
}

static void do_signal(struct inside *inside, struct words *words)
{
    uint32_t id = next_number(words);
    const struct program *program = find(inside, next_number(words));
    int number = (int)next_number(words);

    if (program != NULL) {
        kill(-program->pid, number);
    }
    add_ended(inside, id, program != NULL ? 0 : ESRCH);
}

static void do_input(struct inside *inside, struct words *words)
{
    uint32_t id = next_number(words);
    struct program *program = find(inside, next_number(words));
    const char *digits = next_word(words);

    if (program != NULL) {
        live_terminal_type(&program->terminal, digits);
    }
    add_ended(inside, id, program != NULL ? 0 : ESRCH);
}

static void do_size(struct inside *inside, struct words *words)
{
    const struct program *program = find(inside, next_number(words));
    uint32_t size = next_number(words);

    if (program != NULL) {
        live_terminal_resize(&program->terminal, size);
    }
}

static void do_hang_up(struct inside *inside, struct words *words)
{
    struct program *program = find(inside, next_number(words));

    if (program != NULL) {
        kill(-program->pid, SIGHUP);
        kill(-program->pid, SIGCONT);
        program->kill_ns = linux_clock_now() + LAST_WORDS_NS;
    }
}

static void do_asked(struct inside *inside, char *bytes, size_t n)
{
    struct words words = {bytes, bytes + n};
    weft_ns now;

    if (inside->n == 0 && n > 0 && strcmp(bytes, "exec") == 0) {
        inside->before.n = 0;
        add_looks(inside, false, &inside->before);
    }
    now = linux_clock_now();
    while (words.at < words.end) {
        const char *what = next_word(&words);

        if (strcmp(what, "exec") == 0) {
            do_exec(inside, &words, now);
        } else if (strcmp(what, "fault") == 0) {
            do_fault(inside, &words, now);
            let_kernel_work(inside);
        } else if (strcmp(what, "capture") == 0) {
            do_capture(inside, &words);
        } else if (strcmp(what, "look") == 0) {
            do_look(inside, &words);
        } else if (strcmp(what, "clear") == 0) {
            do_clear(inside, &words);
            let_kernel_work(inside);
        } else if (strcmp(what, "signal") == 0) {
            do_signal(inside, &words);
        } else if (strcmp(what, "input") == 0) {
            do_input(inside, &words);
        } else if (strcmp(what, "size") == 0) {
            do_size(inside, &words);
        } else {
            weft_check(strcmp(what, "hangup") == 0);
            do_hang_up(inside, &words);
        }
    }
}

/* Makes what the programs wrote visible to the machine, without waiting for its disk as fsync(2)
 * does. */
static void send_out(const struct inside *inside)
{
    for (uint32_t i = 0; i < inside->n; i++) {
        for (int j = 0; j < 2; j++) {
            sync_file_range(inside->programs[i].fds[j], 0, 0,
                            SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                                SYNC_FILE_RANGE_WAIT_AFTER);
        }
    }
}

/* Notes for the next door that calls of watched programs have failed. Takes no virtual time. */
static void note_failures(struct inside *inside)
{
    char bytes[256];

    weft_observe_begin();
    if (read(lab_watch_failures(), bytes, sizeof(bytes)) > 0) {
        add_ended(inside, WORLD_LAB_FAILURE, 0);
    }
    weft_observe_end();
}

/* Opens the next door and waits until the machine answers. Returns false if it does not. */
static bool knock(struct inside *inside)
{
    struct weft_text said = {NULL, 0, 0};
    char name[32];
    char *asked;
    size_t n;
    int fd;

    send_out(inside);
    note_failures(inside);
    weft_text_add(&said, "%lld %u\n", (long long)linux_clock_now(), inside->n);
    weft_text_add_bytes(&said, inside->ended.bytes, inside->ended.n);
    inside->ended.n = 0;
    weft_format(name, sizeof(name), "said.%u", inside->door);
    fd = scratch_write(FOLDER, name, said.bytes, said.n) ? 0 : -1;
    weft_text_fini(&said);
    weft_format(name, sizeof(name), "door.%u", inside->door);
    fd = fd == 0 ? open(name, O_WRONLY | O_CLOEXEC) : -1; /* until it is opened */
    if (fd < 0) {
        return false;
    }
    close(fd);
    weft_format(name, sizeof(name), "ask.%u", inside->door++);
    asked = scratch_read(FOLDER, name, &n);
    if (asked == NULL) {
        return false;
    }
    do_asked(inside, asked, n);
    free(asked);
    return true;
}

/* ---- time ---- */

/* Waits for the end of a program, or for output at terminals, which it copies to the programs'
 * files. */
static void wait_for(struct inside *inside, const struct timespec *time)
{
    struct pollfd *fds = NULL;
    uint32_t n = 0;

    for (uint32_t i = 0; i < inside->n; i++) {
        n += inside->programs[i].terminal.fd >= 0;
    }
    if (n == 0) {
        sigtimedwait(&inside->child_mask, NULL, time);
        return;
    }
    fds = weft_calloc((size_t)inside->n + 1, sizeof(*fds));
    for (uint32_t i = 0; i < inside->n; i++) {
        fds[i] = live_terminal_wants(&inside->programs[i].terminal);
    }
    fds[inside->n] = (struct pollfd){.fd = inside->child_fd, .events = POLLIN};
    if (ppoll(fds, inside->n + 1, time, NULL) > 0) {
        struct signalfd_siginfo info;

        (void)!read(inside->child_fd, &info, sizeof(info));
        for (uint32_t i = 0; i < inside->n; i++) {
            live_terminal_pass(&inside->programs[i].terminal, inside->programs[i].fds[0]);
        }
    }
    free(fds);
}

/* Starts and ends what is due. Returns the time of the next. */
static weft_ns do_due(struct inside *inside, weft_ns now)
{
    weft_ns next = live_faults_due(&inside->faults, now);

    for (uint32_t i = 0; i < inside->n; i++) {
        struct program *program = &inside->programs[i];

        if (program->kill_ns <= now) {
            kill(-program->pid, SIGKILL);
            program->kill_ns = WEFT_NEVER;
        }
        next = program->kill_ns < next ? program->kill_ns : next;
    }
    return next;
}

/* Waits for the end of a program or of a step, and meanwhile does what is due. */
static void await(struct inside *inside, weft_ns step_ns)
{
    weft_ns now = linux_clock_now();
    weft_ns end = now + step_ns;

    while (!reap(inside) && now < end) {
        weft_ns next = do_due(inside, now);
        weft_ns until = next < end ? next : end;
        struct timespec time;

        lab_capture_fetch(inside->capture);
        if (inside->capture != NULL && until - now > LAB_CAPTURE_NS) {
            until = now + LAB_CAPTURE_NS;
        }
        time = (struct timespec){.tv_sec = (until - now) / SECOND,
                                 .tv_nsec = (until - now) % SECOND};
        wait_for(inside, &time);
        now = linux_clock_now();
    }
}

static weft_status serve(struct inside *inside, bool is_virtual, struct weft_error *error)
{
    while (knock(inside)) {
        if (inside->n > 0) {
            await(inside, STEP_NS);
        } else if (!is_virtual) {
            await(inside, STEP_IDLE_NS);
        }
    }
    return weft_fail_errno(error, errno, WEFT_PHASE_LAB,
                           "cannot reach the machine of this guest");
}

/* ---- life ---- */

/* Changes to the guest's folder. Returns an errno. */
static int enter_folder(void)
{
    const char *number = getenv(RXE_GUEST_FOLDER);
    int fd = number != NULL ? scratch_number(number) : -1;

    if (fd < 0 || fchdir(fd) != 0) {
        return fd < 0 ? ENOENT : errno;
    }
    close(fd);
    unsetenv(RXE_GUEST_FOLDER);
    return 0;
}

weft_status rxe_live_inside(const struct world_spec *spec,
                            const struct world_lab_services *services,
                            struct weft_error *error)
{
    const char *marker = getenv(RXE_GUEST_MARKER);
    bool is_virtual = marker != NULL && strcmp(marker, "virtual") == 0;
    struct inside inside = {.spec = spec, .services = services};
    int problem = enter_folder();
    weft_status status;

    if (problem != 0) {
        return weft_fail_errno(error, problem, WEFT_PHASE_LAB,
                               "a lab cannot be brought up in a guest: do it outside");
    }
    inside.faults = (struct live_faults){.apply = apply_fault, .context = &inside};
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    lab_signals_catch(&inside.signals);
    sigemptyset(&inside.child_mask);
    sigaddset(&inside.child_mask, SIGCHLD);
    sigprocmask(SIG_BLOCK, &inside.child_mask, NULL);
    inside.child_fd = signalfd(-1, &inside.child_mask, SFD_NONBLOCK | SFD_CLOEXEC);
    live_terminal_mount();
    inside.insides = lab_insides_new(spec);
    status = lab_fabric_create(spec, LAB_NAMESPACES, LAB_DEVICES_BY_NAME, &inside.fabric,
                               error);
    if (status == WEFT_OK) {
        status = lab_insides_make(&inside.fabric, inside.insides, error);
        lab_watch_begin(N_WATCHED);
        if (status == WEFT_OK) {
            status = serve(&inside, is_virtual, error);
        }
        (void)end_capture(&inside);
        lab_insides_free(spec, inside.insides);
        lab_fabric_destroy(&inside.fabric);
    } else {
        lab_insides_free(spec, inside.insides);
    }
    free(inside.programs);
    live_faults_fini(&inside.faults);
    weft_text_fini(&inside.ended);
    weft_text_fini(&inside.before);
    close(inside.child_fd);
    lab_signals_release(&inside.signals);
    return status;
}
