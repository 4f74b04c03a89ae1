#define _GNU_SOURCE
#include "backends/rxe/guest.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backends/lab/chance.h"
#include "backends/lab/signals.h"
#include "backends/rxe/backend.h"
#include "backends/rxe/cpu.h"
#include "backends/rxe/scratch.h"
#include "backends/rxe/symbol.h"
#include "base/check.h"
#include "base/text.h"

#define TIME_LIMIT_S 3600
#define MEMORY_MIN_MIB 1024
#define MEMORY_MAX_MIB 4096 /* holds 256 MiB over three hosts */
#define LOOK_MS 50
#define LOOK_INSIDE_NS 200000000LL
#define LOOK_INSIDE_MAX_NS (50 * LOOK_INSIDE_NS)
#define LOOKS 8     /* in virtual time, while the time since the start doubles */
#define LOST_CODE 2 /* exit status if not all of stdout could be written (CLI_USAGE) */
#define GOODBYE_S 5 /* from the result to the kernel's end */
#define VIRTUAL_START_NS "1767225600000000000" /* 2026-01-01 00:00:00 UTC */
#define VIRTUAL_JITTER_NS "100"                /* a call costs 1 to 1.1 us */

#define FOLDER_FD 9 /* in guests with a tender or a listener */

extern char **environ;

/* ---- the kernel ---- */

static bool newest_of(const char *pattern, char *out, size_t n_bytes)
{
    glob_t found = {0};
    struct timespec newest = {0};
    bool any = false;

    if (glob(pattern, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++) {
            struct stat status;

            if (stat(found.gl_pathv[i], &status) == 0 &&
                access(found.gl_pathv[i], X_OK) == 0 &&
                (!any || status.st_mtim.tv_sec > newest.tv_sec)) {
                newest = status.st_mtim;
                weft_format(out, n_bytes, "%s", found.gl_pathv[i]);
                any = true;
            }
        }
    }
    globfree(&found);
    return any;
}

weft_status rxe_guest_kernel(char *out, size_t n_bytes, struct weft_error *error)
{
    const char *given = getenv("WEFT_GUEST_KERNEL");
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    char pattern[512];

    if (given != NULL && given[0] != '\0') {
        weft_format(out, n_bytes, "%s", given);
        return access(given, X_OK) == 0
                   ? WEFT_OK
                   : weft_fail(error, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_GUEST,
                               "WEFT_GUEST_KERNEL is no program: %.80s", given);
    }
    if (cache != NULL && cache[0] != '\0') {
        weft_format(pattern, sizeof(pattern), "%s/weft/uml-*/linux", cache);
    } else {
        weft_format(pattern, sizeof(pattern), "%s/.cache/weft/uml-*/linux",
                    home != NULL ? home : "");
    }
    if (!newest_of(pattern, out, n_bytes)) {
        return weft_fail(error, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_GUEST,
                         "no guest kernel is built: make rxe-guest");
    }
    return WEFT_OK;
}

/* Returns true if the kernel is an ordinary program (ELF), not a script that starts QEMU, whose
 * threads run at the same time. */
static bool is_user_mode_linux(const char *kernel)
{
    char start[SELFMAG] = "";
    int fd = open(kernel, O_RDONLY | O_CLOEXEC);
    bool is = fd >= 0 && read(fd, start, SELFMAG) == SELFMAG &&
              memcmp(start, ELFMAG, SELFMAG) == 0;

    if (fd >= 0) {
        close(fd);
    }
    return is;
}

/* Returns true if the kernel is User Mode Linux, and contains the text. */
static bool kernel_has(const char *kernel, const char *text)
{
    struct stat status;
    int fd = is_user_mode_linux(kernel) ? open(kernel, O_RDONLY | O_CLOEXEC) : -1;
    void *bytes = MAP_FAILED;
    bool has = false;

    if (fd >= 0 && fstat(fd, &status) == 0 && status.st_size > 0) {
        bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    }
    if (bytes != MAP_FAILED) {
        has = memmem(bytes, (size_t)status.st_size, text, strlen(text)) != NULL;
        munmap(bytes, (size_t)status.st_size);
    }
    if (fd >= 0) {
        close(fd);
    }
    return has;
}

/* Returns true if the kernel has the patches of ci/guest, which add this parameter. */
static bool keeps_virtual_time(const char *kernel)
{
    return kernel_has(kernel, "/proc/um_seed");
}

static weft_status must_keep_virtual_time(const char *kernel, struct weft_error *error)
{
    return keeps_virtual_time(kernel)
               ? WEFT_OK
               : weft_fail(error, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_GUEST,
                           "this guest's kernel keeps real time only: make rxe-guest, or "
                           "--clock real: %.200s",
                           kernel);
}

weft_status rxe_guest_can_be_virtual(struct weft_error *error)
{
    char kernel[4096];
    weft_status status;

    if (getenv(RXE_GUEST_MARKER) != NULL) {
        return weft_fail(
            error, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_GUEST,
            "this is a guest, and a guest has none of its own: run it outside");
    }
    status = rxe_guest_kernel(kernel, sizeof(kernel), error);
    return status == WEFT_OK ? must_keep_virtual_time(kernel, error) : status;
}

#ifdef __x86_64__
static void read_time_stamp(void)
{
    prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
    (void)__builtin_ia32_rdtsc();
}

static void execute_clts(void)
{
    __asm__ volatile("clts");
}

/* Returns true if this machine ends a process that executes that. */
static bool does_fault(void (*instruction)(void))
{
    int wait_status;
    pid_t child = fork();

    if (child == 0) {
        struct rlimit none = {0, 0};

        setrlimit(RLIMIT_CORE, &none);
        signal(SIGSEGV, SIG_DFL);
        instruction();
        _exit(0);
    }
    return child > 0 && waitpid(child, &wait_status, 0) == child &&
           WIFSIGNALED(wait_status);
}
#endif

/* Returns true if the guest's kernel can answer rdtsc: some hypervisors do not let it fault, and
 * then the kernel must replace it in programs (ci/guest/90-time-stamps.patch). */
static bool answers_time_stamps(const char *kernel)
{
#ifdef __x86_64__
    return does_fault(read_time_stamp) ||
           (kernel_has(kernel, "is not searched for rdtsc") && does_fault(execute_clts));
#else
    (void)kernel;
    return false;
#endif
}

/* ---- starting ---- */

/* How a guest runs, with all defaults resolved. */
struct plan {
    const char *scratch, *kernel;
    int memory_mib;
    int time_limit_s;
    bool is_virtual;
    bool may_spin;                             /* in loops that no call interrupts */
    const struct rxe_guest_tender *tender;     /* or NULL */
    const struct rxe_guest_listener *listener; /* or NULL */
    uint64_t seed;
};

bool rxe_guest_may_enter(const char *variable)
{
    static const char *const prefixes[] = {"PATH=",       "HOME=", "LD_LIBRARY_PATH=",
                                           "LD_PRELOAD=", "LANG=", "LC_",
                                           "TZ=",         "WEFT_", "MESH_",
                                           "NCCL_",       "CK_",   "ASAN_",
                                           "UBSAN_",      "LSAN_", "TSAN_",
                                           "PYTHON",      "UCX_",  "OMPI_",
                                           "RDMAV_",      "MLX5_"};

    for (size_t i = 0; i < WEFT_LENGTH(prefixes); i++) {
        if (strncmp(variable, prefixes[i], strlen(prefixes[i])) == 0) {
            return true;
        }
    }
    return false;
}

static bool write_commands(const struct plan *plan, char *const *argv)
{
    const char *scratch = plan->scratch;
    struct weft_text text = {NULL, 0, 0};
    char cwd[4096];
    bool ok;

    for (size_t i = 0; argv[i] != NULL; i++) {
        weft_text_add_bytes(&text, argv[i], strlen(argv[i]) + 1);
    }
    ok = scratch_write(scratch, "argv", text.bytes, text.n);
    text.n = 0;
    for (size_t i = 0; environ[i] != NULL; i++) {
        if (!plan->is_virtual || rxe_guest_may_enter(environ[i])) {
            weft_text_add_bytes(&text, environ[i], strlen(environ[i]) + 1);
        }
    }
    weft_text_add(&text, RXE_GUEST_MARKER "=%s", plan->is_virtual ? "virtual" : "1");
    weft_text_add_bytes(&text, "", 1);
    if (plan->tender != NULL || plan->listener != NULL) {
        weft_text_add(&text, RXE_GUEST_FOLDER "=%d", FOLDER_FD);
        weft_text_add_bytes(&text, "", 1);
    }
    ok = scratch_write(scratch, "environ", text.bytes, text.n) && ok;
    weft_text_fini(&text);
    return getcwd(cwd, sizeof(cwd)) != NULL &&
           scratch_write(scratch, "cwd", cwd, strlen(cwd) + 1) && ok &&
           scratch_write(scratch, "out", "", 0) && scratch_write(scratch, "err", "", 0);
}

/* Keeps this machine's line "cpu MHz" of /proc/cpuinfo for a guest whose time is this machine's:
 * User Mode Linux has none, and perftest shows no figures without. */
static bool write_mhz(const char *scratch)
{
    size_t n;
    char *text = scratch_read("/proc", "cpuinfo", &n);
    const char *line = text != NULL ? strstr(text, "cpu MHz") : NULL;
    const char *end = line != NULL ? strchr(line, '\n') : NULL;
    bool ok =
        end == NULL || scratch_write(scratch, "mhz", line, (size_t)(end - line) + 1);

    free(text);
    return ok;
}

/* Links this program into the scratch folder, where it is the guest's first process. */
static bool link_init(const char *scratch)
{
    char program[4096];
    char path[SCRATCH_PATH_BYTES];
    ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);

    if (n < 0) {
        return false;
    }
    program[n] = '\0';
    scratch_path(scratch, "init", path);
    return symlink(program, path) == 0;
}

/* The words of a kernel's command line, with their memory. */
struct command {
    const char *words[24]; /* ended by NULL */
    size_t n;
    char text[8][SCRATCH_PATH_BYTES + 40];
    size_t n_texts;
};

static void add_word(struct command *command, const char *word)
{
    weft_check(command->n + 1 < WEFT_LENGTH(command->words));
    command->words[command->n++] = word;
}

/* Adds an empty word and returns its memory. */
static char *add_text(struct command *command)
{
    weft_check(command->n_texts < WEFT_LENGTH(command->text));
    add_word(command, command->text[command->n_texts]);
    return command->text[command->n_texts++];
}

#define ADD_FORMATTED(command, ...)                                                      \
    weft_format(add_text(command), sizeof((command)->text[0]), __VA_ARGS__)

/* Composes the kernel's command line. In virtual time the guest never sees the name of its folder,
 * which differs from run to run: the kernel works in it, and its first process finds it as
 * /proc/self/cwd, because hostfs shows the host's /proc. The folder in the first word is for
 * rxe_guest_cleanup(). */
static void make_command(const struct plan *plan, struct command *command)
{
    static const char *const fixed[] = {
        "umid=guest",     "rootfstype=hostfs", "rootflags=/", "rw",      "con=null",
        "con0=null,fd:1", "seccomp=auto",      "quiet",       "panic=-1"};
    const char *folder = plan->is_virtual ? "/proc/self/cwd" : plan->scratch;

    ADD_FORMATTED(command, "%s/linux", plan->scratch);
    ADD_FORMATTED(command, "mem=%dM", plan->memory_mib);
    ADD_FORMATTED(command, "uml_dir=%s%s", plan->is_virtual ? "" : plan->scratch,
                  plan->is_virtual ? "uml" : "/uml");
    for (size_t i = 0; i < WEFT_LENGTH(fixed); i++) {
        add_word(command, fixed[i]);
    }
    if (plan->is_virtual) {
        add_word(command, "time-travel=inf-cpu");
        add_word(command, "time-travel-start=" VIRTUAL_START_NS);
        ADD_FORMATTED(command, "um_seed=%llu", (unsigned long long)plan->seed);
        add_word(command, "um_jitter=" VIRTUAL_JITTER_NS);
        if (plan->may_spin) {
            add_word(command, "um_spins");
        }
    }
    ADD_FORMATTED(command, "init=%s/init", folder);
    /* The kernel passes what it does not know to init. */
    ADD_FORMATTED(command, "%s=%s", RXE_GUEST_SCRATCH, folder);
}

enum { NO_KERNEL = 127 }; /* exit status of become_kernel() if there is none */

static _Noreturn void become_kernel(const struct plan *plan, pid_t parent)
{
    struct command command = {.n = 0};
    char console[SCRATCH_PATH_BYTES];
    /* Without TMPDIR, which would move the guest's memory to a disk; with HOME, without which it
     * cannot start. */
    char *const environment[] = {(char *)(uintptr_t) "PATH=/usr/bin:/bin",
                                 (char *)(uintptr_t) "HOME=/",
                                 (char *)(uintptr_t) "TERM=linux", NULL};
    int null = open("/dev/null", O_RDONLY);
    int log;

    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    scratch_path(plan->scratch, "console", console);
    log = open(console, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (getppid() != parent || null < 0 || log < 0 || dup2(null, 0) < 0 ||
        dup2(log, 1) < 0 || dup2(log, 2) < 0 ||
        (plan->is_virtual && chdir(plan->scratch) != 0)) {
        _exit(NO_KERNEL);
    }
    make_command(plan, &command);
    execve(plan->kernel, (char *const *)(uintptr_t)command.words, environment);
    dprintf(2, "%s: %s\n", plan->kernel, strerror(errno));
    _exit(NO_KERNEL);
}

/* ---- watching ---- */

struct watched {
    const char *scratch;
    pid_t pid;
    int pid_fd;
    struct lab_signals *signals;           /* Not owned */
    const struct rxe_guest_tender *tender; /* or NULL */
    bool was_ended;                        /* by it */
    struct rxe_cpu cpu;
    bool is_pinned;      /* in virtual time: kept on one processor */
    bool is_unpinned;    /* while it is idle */
    off_t seen[2];       /* of out and err */
    uint64_t n_lines;    /* of out */
    int lost_errno;      /* errno of a write to stdout; 0 if all succeeded */
    size_t console_seen; /* whole lines */
};

/* Prints the symbol at the place that `text` names, "..., at FILE+0xOFFSET: ...". The file is one
 * of this machine's, which the guest sees. */
static void add_place(const char *text, size_t n)
{
    static const char before[] = "), at ";
    const char *file = memmem(text, n, before, strlen(before)), *plus = NULL;
    struct symbol_place place;
    char path[4096];

    if (file == NULL) {
        return;
    }
    file += strlen(before);
    for (const char *at = file;
         (at = memmem(at, n - (size_t)(at - text), "+0x", 3)) != NULL; at += 3) {
        plus = at;
    }
    if (plus == NULL || (size_t)(plus - file) >= sizeof(path)) {
        return;
    }
    weft_format(path, sizeof(path), "%.*s", (int)(plus - file), file);
    if (!symbol_find(path, strtoull(plus + 1, NULL, 16), &place)) {
        return;
    }
    if (place.name[0] != '\0') {
        fprintf(stderr, "; that is %s+0x%llx", place.name,
                (unsigned long long)place.into_function);
    }
    fprintf(stderr, "; addr2line -fe %s 0x%llx names the line", path,
            (unsigned long long)place.address);
}

/* Reports the process that keeps virtual time from passing, if this line of the console names
 * one. */
static void report_busy(const char *line, size_t n)
{
    static const char mark[] = "time-travel: busy: ";
    const char *what = memmem(line, n, mark, strlen(mark));

    if (what == NULL) {
        return;
    }
    n -= line[n - 1] == '\r';
    what += strlen(mark);
    n -= (size_t)(what - line);
    fprintf(stderr, "weft: guest: busy: %.*s", (int)n, what);
    add_place(what, n);
    fprintf(
        stderr,
        "; a call, sched_yield() or a look at the clock in that loop lets time pass\n");
}

static void look_at_console(struct watched *w)
{
    size_t n;
    char *text = scratch_read(w->scratch, "console", &n), *end;

    while (text != NULL && w->console_seen < n &&
           (end = memchr(text + w->console_seen, '\n', n - w->console_seen)) != NULL) {
        report_busy(text + w->console_seen, (size_t)(end - text) - w->console_seen);
        w->console_seen = (size_t)(end - text) + 1;
    }
    free(text);
}

/* Writes all bytes. Waits while the reader does not read, even if another program, such as one at
 * the same terminal, has made the file non-blocking. Returns false if the reader is gone. */
static bool write_all(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t now = write(fd, bytes, n);

        if (now < 0 && errno == EAGAIN) {
            struct pollfd wait = {.fd = fd, .events = POLLOUT};

            (void)poll(&wait, 1, -1);
        } else if (now < 0 && errno != EINTR) {
            return false;
        }
        bytes += now > 0 ? now : 0;
        n -= now > 0 ? (size_t)now : 0;
    }
    return true;
}

static uint64_t count_lines(const char *bytes, size_t n)
{
    uint64_t n_lines = 0;

    for (size_t i = 0; i < n; i++) {
        n_lines += bytes[i] == '\n';
    }
    return n_lines;
}

/* Copies what the guest has written since the last call to this process's stdout and stderr. */
static void pass_on(struct watched *w)
{
    static const char *const names[2] = {"out", "err"};

    for (int i = 0; i < 2; i++) {
        char path[SCRATCH_PATH_BYTES];
        char bytes[16384];
        ssize_t n;
        int fd;

        scratch_path(w->scratch, names[i], path);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        while (fd >= 0 && (n = pread(fd, bytes, sizeof(bytes), w->seen[i])) > 0) {
            w->seen[i] += n;
            w->n_lines += i == 0 ? count_lines(bytes, (size_t)n) : 0;
            if (!write_all(i == 0 ? STDOUT_FILENO : STDERR_FILENO, bytes, (size_t)n)) {
                w->lost_errno = i == 0 ? errno : w->lost_errno;
                break; /* the guest goes on: its other files count, too */
            }
        }
        if (fd >= 0) {
            close(fd);
        }
    }
}

/* Keeps the guest on a processor. A stopped guest leaves its processor to others, and takes one
 * when it continues. */
static void look_at_cpu(struct watched *w, const struct timespec *now)
{
    bool is_idle = w->tender != NULL && w->tender->is_idle(w->tender->context);

    if (!w->is_pinned) {
        rxe_cpu_look(&w->cpu, (weft_ns)now->tv_sec * 1000000000 + now->tv_nsec);
    } else if (is_idle && w->cpu.cpu >= 0) {
        rxe_cpu_free(&w->cpu);
        w->is_unpinned = true;
    } else if (!is_idle && w->is_unpinned) {
        (void)rxe_cpu_keep(&w->cpu, sched_getcpu());
        w->is_unpinned = false;
    }
}

/* Returns WEFT_OK once the kernel has ended, or has reported its result but does not end, because
 * User Mode Linux sometimes waits for a helper forever after "Power down". */
static weft_status watch(struct watched *w, int time_limit_s, struct weft_error *error)
{
    struct timespec start, now;
    time_t told_s = 0; /* when there was a result; 0: there is none */

    clock_gettime(CLOCK_MONOTONIC, &start);
    for (;;) {
        struct pollfd fds[2] = {{.fd = w->pid_fd, .events = POLLIN},
                                {.fd = w->signals->fd, .events = POLLIN}};

        if (w->tender == NULL) {
            poll(fds, 2, LOOK_MS);
        } else if (!w->tender->tend(w->tender->context, w->pid, fds, 2)) {
            w->was_ended = true;
            return WEFT_OK;
        }
        pass_on(w);
        look_at_console(w);
        if ((fds[0].revents & POLLIN) != 0) {
            return WEFT_OK;
        }
        if (lab_signals_came(w->signals)) {
            return weft_fail(error, WEFT_ERR_CLOSED, WEFT_PHASE_GUEST, "interrupted");
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
        look_at_cpu(w, &now);
        told_s = told_s == 0 && scratch_has(w->scratch, "exit") ? now.tv_sec : told_s;
        if (told_s != 0 && now.tv_sec - told_s >= GOODBYE_S) {
            return WEFT_OK;
        }
        if (w->tender == NULL && now.tv_sec - start.tv_sec >= time_limit_s) {
            return weft_fail(error, WEFT_ERR_TIMEOUT, WEFT_PHASE_GUEST,
                             "not done within %d s, and killed", time_limit_s);
        }
    }
}

enum { CONSOLE_END_BYTES = 2000 };

/* Prints `n` bytes, at least one, in whole lines. Prints only the beginning and the end of a long
 * text: the cause is mostly in the beginning, and the kernel's message at the end. */
static void print_console(const char *text, size_t n)
{
    const char *tail = text, *head = text;

    if (n > (size_t)2 * CONSOLE_END_BYTES) {
        for (size_t i = 0; i < CONSOLE_END_BYTES; i++) {
            head = text[i] == '\n' ? text + i + 1 : head;
        }
        tail = memchr(text + n - CONSOLE_END_BYTES, '\n', CONSOLE_END_BYTES);
        tail = tail != NULL ? tail + 1 : text + n - CONSOLE_END_BYTES;
        fprintf(stderr, "%.*s[...]\n", (int)(head - text), text);
    }
    fprintf(stderr, "%s%s", tail, text[n - 1] == '\n' ? "" : "\n");
}

static weft_status read_exit(const char *scratch, bool has_begun, int *out_code,
                             struct weft_error *error)
{
    size_t n;
    char *text = scratch_read(scratch, "exit", &n), *console;
    bool said_anything;

    if (text != NULL && n > 0) {
        *out_code = scratch_number(text);
        free(text);
        return WEFT_OK;
    }
    free(text);
    console = scratch_read(scratch, "console", &n);
    said_anything = console != NULL && n > 0;
    if (said_anything) {
        print_console(console, n);
    }
    free(console);
    return weft_fail(error, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_GUEST, "the guest %s; %s",
                     has_begun ? "ended without a result" : "cannot be started",
                     said_anything ? "its console is above" : "its console has nothing");
}

static weft_status supervise(const struct plan *plan, struct lab_signals *signals,
                             int *out_code, struct weft_error *error)
{
    struct watched w = {
        .scratch = plan->scratch, .signals = signals, .tender = plan->tender};
    weft_status status;
    pid_t parent = getpid();
    int wait_status = 0;
    bool has_begun;
    char text[16];

    w.pid = fork();
    if (w.pid == 0) {
        sigprocmask(SIG_SETMASK, &signals->old_mask, NULL);
        become_kernel(plan, parent);
    }
    if (w.pid < 0) {
        return weft_fail_errno(error, errno, WEFT_PHASE_GUEST, "cannot start");
    }
    rxe_cpu_begin(&w.cpu, is_user_mode_linux(plan->kernel) ? w.pid : 0, "weft-guest");
    w.is_pinned = plan->is_virtual;
    if (w.is_pinned && w.cpu.pid > 0) {
        (void)rxe_cpu_keep(&w.cpu, sched_getcpu()); /* else others are kept everywhere */
    }
    weft_format(text, sizeof(text), "%d\n", (int)w.pid);
    scratch_write(plan->scratch, "pid", text, strlen(text));
    w.pid_fd = (int)syscall(SYS_pidfd_open, w.pid, 0);
    status = w.pid_fd < 0
                 ? weft_fail_errno(error, errno, WEFT_PHASE_GUEST, "cannot start")
                 : watch(&w, plan->time_limit_s, error);
    kill(-w.pid, SIGKILL); /* the guest's helpers, or all of the guest */
    kill(w.pid, SIGKILL);
    waitpid(w.pid, &wait_status, 0);
    has_begun = w.pid_fd >= 0 &&
                !(WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == NO_KERNEL);
    rxe_cpu_end(&w.cpu);
    pass_on(&w);
    if (status == WEFT_OK && !w.was_ended) {
        status = read_exit(plan->scratch, has_begun, out_code, error);
    }
    if (w.lost_errno != 0) {
        fprintf(stderr, "weft: stdout: %s\n", strerror(w.lost_errno));
        *out_code = LOST_CODE;
    }
    if (plan->listener != NULL && has_begun) {
        size_t n;
        char *results = scratch_read(plan->scratch, "results", &n);
        const struct rxe_guest_end end = {status == WEFT_OK, w.n_lines,
                                          results != NULL ? results : ""};

        plan->listener->ended(plan->listener->context, &end);
        free(results);
    }
    close(w.pid_fd);
    return status;
}

static weft_status run_in(const struct plan *plan, char *const *argv,
                          struct lab_signals *signals, int *out_code,
                          struct weft_error *error)
{
    bool is_in_real_time = !plan->is_virtual && is_user_mode_linux(plan->kernel);

    if (!write_commands(plan, argv) || !link_init(plan->scratch) ||
        (is_in_real_time && !write_mhz(plan->scratch))) {
        return weft_fail_errno(error, errno, WEFT_PHASE_GUEST, "cannot write %s",
                               plan->scratch);
    }
    if (plan->tender != NULL &&
        plan->tender->begin(plan->tender->context, plan->scratch, error) != WEFT_OK) {
        return error->status;
    }
    return supervise(plan, signals, out_code, error);
}

/* Returns half of the machine's memory, within limits. A guest takes it page by page as it touches
 * it, so a high value costs little. */
static int default_memory_mib(void)
{
    long half = sysconf(_SC_PHYS_PAGES) / 2 / ((1 << 20) / sysconf(_SC_PAGESIZE));

    return half < MEMORY_MIN_MIB   ? MEMORY_MIN_MIB
           : half > MEMORY_MAX_MIB ? MEMORY_MAX_MIB
                                   : (int)half;
}

/* Plans the guest that `options` describe. The caller owns the scratch folder. */
static weft_status make_plan(const struct rxe_guest_options *options, const char *kernel,
                             struct plan *plan, struct weft_error *error)
{
    const char *memory = getenv("WEFT_GUEST_MEMORY");
    *plan = (struct plan){
        .kernel = kernel,
        .memory_mib = options->memory_mib != 0 ? options->memory_mib
                      : memory != NULL         ? scratch_number(memory)
                                               : default_memory_mib(),
        .time_limit_s = options->time_limit_s != 0 ? options->time_limit_s : TIME_LIMIT_S,
        .is_virtual = options->is_virtual,
        .may_spin = options->is_any_program,
        .seed = options->seed,
        .tender = options->tender,
        .listener = options->listener};
    if (options->is_virtual && must_keep_virtual_time(kernel, error) != WEFT_OK) {
        return WEFT_ERR_ENVIRONMENT;
    }
    if (plan->memory_mib < 96) {
        return weft_fail(error, WEFT_ERR_INPUT, WEFT_PHASE_GUEST,
                         "a guest needs at least 96 MiB, not %d", plan->memory_mib);
    }
    return WEFT_OK;
}

weft_status rxe_guest_run(const struct rxe_guest_options *options, char *const *argv,
                          int *out_code, struct weft_error *error)
{
    char kernel[4096];
    char scratch[SCRATCH_PATH_BYTES];
    int lock;
    struct lab_signals signals;
    struct plan plan;
    weft_status status = rxe_guest_kernel(kernel, sizeof(kernel), error);

    if (status == WEFT_OK) {
        status = make_plan(options, kernel, &plan, error);
    }
    if (status != WEFT_OK) {
        return status;
    }
    if (plan.is_virtual && options->is_any_program && !answers_time_stamps(kernel)) {
        fprintf(stderr,
                "weft: guest: this machine lets programs read its own time stamp "
                "counter: the figures of those that measure by it (perftest, UCX, "
                "MPI) are not the guest's, and differ from run to run: "
                "make rxe-guest builds a kernel that answers, if it is not this one\n");
    }
    lab_signals_catch(&signals); /* before a folder exists that could be left behind */
    rxe_guest_cleanup(NULL);
    if (scratch_make(scratch, &lock)) {
        plan.scratch = scratch;
        status = run_in(&plan, argv, &signals, out_code, error);
        scratch_remove(scratch);
        close(lock);
    } else {
        status = weft_fail_errno(error, errno, WEFT_PHASE_GUEST, "no scratch folder");
    }
    lab_signals_release(&signals);
    return status;
}

/* ---- instead of this process ---- */

/* Returns the words of a NUL-separated list. The caller frees the list, not the words. */
static char **split(char *bytes, size_t n)
{
    size_t n_words = 0;
    char **words = weft_calloc(n + 1, sizeof(*words));

    for (size_t i = 0; i < n; i += strlen(bytes + i) + 1) {
        words[n_words++] = bytes + i;
    }
    return words;
}

/* Returns true if the command is to run in a guest; *error says why it cannot run as it was asked
 * for. */
static bool belongs_elsewhere(const struct rxe_guest_options *options,
                              bool is_possible_here, struct weft_error *error)
{
    const char *marker = getenv(RXE_GUEST_MARKER);

    if (marker != NULL && options->is_virtual && strcmp(marker, "virtual") != 0) {
        (void)weft_fail(error, WEFT_ERR_ENVIRONMENT, WEFT_PHASE_GUEST,
                        "this guest keeps real time, and a guest has none of its own: "
                        "weft guest --clock virtual");
    }
    return marker == NULL && (options->is_virtual || !is_possible_here);
}

/* Runs this process's own command line in a guest. */
static weft_status run_again(const struct rxe_guest_options *options, int *out_code,
                             struct weft_error *error)
{
    size_t n;
    char *bytes = scratch_read("/proc/self", "cmdline", &n);
    char **argv;
    weft_status status;

    if (bytes == NULL) {
        return weft_fail_errno(error, errno, WEFT_PHASE_GUEST,
                               "cannot read /proc/self/cmdline");
    }
    argv = split(bytes, n);
    /* Execute this file, because argv[0] is only a name. */
    argv[0] = realpath("/proc/self/exe", NULL);
    status = rxe_guest_run(options, argv, out_code, error);
    free(argv[0]);
    free(argv);
    free(bytes);
    return status;
}

bool rxe_guest_instead(const struct rxe_guest_options *options, bool is_possible_here,
                       int *out_code)
{
    struct weft_error error = {0};
    char text[512];
    bool is_elsewhere = belongs_elsewhere(options, is_possible_here, &error);

    if (error.status == WEFT_OK &&
        (!is_elsewhere || run_again(options, out_code, &error) == WEFT_OK)) {
        return is_elsewhere;
    }
    weft_error_format(&error, text, sizeof(text));
    fprintf(stderr, "weft: %s\n", text);
    *out_code = error.status == WEFT_ERR_TIMEOUT ? 124 : 3;
    return true;
}

/* ---- inside ---- */

static char **read_words(const char *scratch, const char *name)
{
    size_t n;
    char *bytes = scratch_read(scratch, name, &n);

    return bytes == NULL ? NULL : split(bytes, n); /* kept until the end of the guest */
}

static bool has_virtual_time(char *const *variables)
{
    bool is = false;

    for (size_t i = 0; variables != NULL && variables[i] != NULL; i++) {
        is = is || strcmp(variables[i], RXE_GUEST_MARKER "=virtual") == 0;
    }
    return is;
}

/* Opens the scratch folder at FOLDER_FD, if a variable asks for it: a mount may have hidden its
 * name by now. Returns false on failure. */
static bool has_folder_if_asked(const char *scratch, char *const *variables)
{
    bool is_asked = false;
    int fd;

    for (size_t i = 0; variables != NULL && variables[i] != NULL; i++) {
        is_asked = is_asked || strncmp(variables[i], RXE_GUEST_FOLDER "=",
                                       strlen(RXE_GUEST_FOLDER) + 1) == 0;
    }
    if (!is_asked) {
        return true;
    }
    fd = open(scratch, O_RDONLY | O_DIRECTORY);
    return fd == FOLDER_FD || (fd >= 0 && dup2(fd, FOLDER_FD) >= 0 && close(fd) == 0);
}

static _Noreturn void become_command(const char *scratch, char **variables,
                                     const int fds[2])
{
    char **argv = read_words(scratch, "argv");
    char **cwd = read_words(scratch, "cwd");
    int null = open("/dev/null", O_RDONLY);

    if (argv == NULL || variables == NULL || cwd == NULL ||
        !has_folder_if_asked(scratch, variables) || chdir(cwd[0]) != 0 ||
        dup2(null, 0) < 0 || dup2(fds[0], 1) < 0 || dup2(fds[1], 2) < 0) {
        dprintf(fds[1], "weft: guest: cannot start the command: %s\n", strerror(errno));
        _exit(127);
    }
    /* The time until here depends on the number of parts that this machine's names have. */
    lab_chance_await_second();
    lab_chance_begin(LAB_CHANCE_PROGRAMS);
    environ = variables;
    execvp(argv[0], argv);
    fprintf(stderr, "weft: guest: %s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

int rxe_guest_take_folder(void)
{
    const char *number = getenv(RXE_GUEST_FOLDER);
    int fd = number != NULL ? scratch_number(number) : -1;

    unsetenv(RXE_GUEST_FOLDER);
    return fd >= 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 ? fd : -1;
}

bool rxe_guest_keep(int folder, const char *bytes, size_t n)
{
    int fd = openat(folder, "results", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && write_all(fd, bytes, n) && fsync(fd) == 0;

    if (fd >= 0) {
        close(fd);
    }
    return ok;
}

/* Waits for the command, and, as the first process, for orphans, while it sends output to the
 * host. In virtual time a look costs more than the wait for it, so looks become rare. When they
 * happen does not depend on what is written, because they take time of the only CPU: a command
 * that writes less would run otherwise. */
static int wait_for(pid_t child, const int fds[2], bool is_virtual)
{
    weft_ns patience_ns = LOOK_INSIDE_NS, waited_ns = 0;
    sigset_t mask;
    int wait_status = 0;

    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    for (;;) {
        const struct timespec patience = {.tv_sec = patience_ns / 1000000000,
                                          .tv_nsec = patience_ns % 1000000000};
        pid_t pid = waitpid(-1, &wait_status, WNOHANG);

        if (pid == child) {
            return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status)
                                          : 128 + WTERMSIG(wait_status);
        }
        if (pid < 0 && errno == ECHILD) {
            return 127;
        }
        if (pid <= 0) {
            sigtimedwait(&mask, NULL, &patience);
            fsync(fds[0]);
            fsync(fds[1]);
            waited_ns += patience_ns;
            if (is_virtual && waited_ns / LOOKS > LOOK_INSIDE_NS) {
                patience_ns = waited_ns / LOOKS < LOOK_INSIDE_MAX_NS ? waited_ns / LOOKS
                                                                     : LOOK_INSIDE_MAX_NS;
            }
        }
    }
}

static void show_mhz(const char *scratch)
{
    size_t n;
    char *line = scratch_has(scratch, "mhz") ? scratch_read(scratch, "mhz", &n) : NULL;

    if (line != NULL) {
        guest_add_to_cpuinfo(line);
    }
    free(line);
}

static _Noreturn void be_first(const char *scratch)
{
    char path[2][SCRATCH_PATH_BYTES];
    char **variables = read_words(scratch, "environ");
    char text[16];
    sigset_t mask;
    int fds[2];
    pid_t child;

    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    sigprocmask(SIG_BLOCK, &mask, NULL);
    scratch_path(scratch, "out", path[0]);
    scratch_path(scratch, "err", path[1]);
    for (int i = 0; i < 2; i++) {
        fds[i] = open(path[i], O_WRONLY | O_APPEND | O_CLOEXEC);
    }
    guest_mount();
    if (!has_virtual_time(variables)) {
        show_mhz(scratch);
    }
    child = fork();
    if (child == 0) {
        sigprocmask(SIG_UNBLOCK, &mask, NULL);
        become_command(scratch, variables, fds);
    }
    weft_format(text, sizeof(text), "%d\n",
                child > 0 ? wait_for(child, fds, has_virtual_time(variables)) : 127);
    scratch_write(scratch, "exit", text, strlen(text));
    guest_power_off();
}

void rxe_guest_init(void)
{
    const char *scratch = getenv(RXE_GUEST_SCRATCH);

    /* The next mounts may hide this name. */
    if (getpid() == 1 && scratch != NULL && chdir(scratch) == 0) {
        be_first(".");
    }
}
