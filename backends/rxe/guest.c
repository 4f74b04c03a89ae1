#define _GNU_SOURCE
#include "backends/rxe/guest.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backends/lab/signals.h"
#include "backends/rxe/backend.h"
#include "backends/rxe/cpu.h"
#include "backends/rxe/scratch.h"
#include "base/check.h"
#include "base/text.h"

#define TIME_LIMIT_S 3600
#define MEMORY_MIN_MIB 1024
#define MEMORY_MAX_MIB 4096 /* holds 256 MiB over three hosts */
#define LOOK_MS 50
#define GOODBYE_S 5 /* from the result to the kernel's end */

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
                   : weft_fail(error, WEFT_ERR_ENVIRONMENT, "guest",
                               "WEFT_GUEST_KERNEL is no program: %.80s", given);
    }
    if (cache != NULL && cache[0] != '\0') {
        weft_format(pattern, sizeof(pattern), "%s/weft/uml-*/linux", cache);
    } else {
        weft_format(pattern, sizeof(pattern), "%s/.cache/weft/uml-*/linux",
                    home != NULL ? home : "");
    }
    if (!newest_of(pattern, out, n_bytes)) {
        return weft_fail(error, WEFT_ERR_ENVIRONMENT, "guest",
                         "no guest kernel is built: make rxe-guest");
    }
    return WEFT_OK;
}

/* ---- starting ---- */

static bool write_commands(const char *scratch, char *const *argv)
{
    struct weft_text text = {NULL, 0, 0};
    char cwd[4096];
    bool ok;

    for (size_t i = 0; argv[i] != NULL; i++) {
        weft_text_add_bytes(&text, argv[i], strlen(argv[i]) + 1);
    }
    ok = scratch_write(scratch, "argv", text.bytes, text.n);
    text.n = 0;
    for (size_t i = 0; environ[i] != NULL; i++) {
        weft_text_add_bytes(&text, environ[i], strlen(environ[i]) + 1);
    }
    weft_text_add_bytes(&text, RXE_GUEST_MARKER "=1", sizeof(RXE_GUEST_MARKER "=1"));
    ok = scratch_write(scratch, "environ", text.bytes, text.n) && ok;
    weft_text_fini(&text);
    return getcwd(cwd, sizeof(cwd)) != NULL &&
           scratch_write(scratch, "cwd", cwd, strlen(cwd) + 1) && ok &&
           scratch_write(scratch, "out", "", 0) && scratch_write(scratch, "err", "", 0);
}

/* This program as the guest's first process. */
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

static _Noreturn void become_kernel(const char *kernel, const char *scratch,
                                    int memory_mib, pid_t parent)
{
    char memory[32];
    char init[SCRATCH_PATH_BYTES + 8];
    char directory[SCRATCH_PATH_BYTES + 16];
    char variable[SCRATCH_PATH_BYTES + 32];
    char console[SCRATCH_PATH_BYTES];
    char *const argv[] = {(char *)(uintptr_t) "linux",
                          memory,
                          directory,
                          (char *)(uintptr_t) "umid=guest",
                          (char *)(uintptr_t) "rootfstype=hostfs",
                          (char *)(uintptr_t) "rootflags=/",
                          (char *)(uintptr_t) "rw",
                          (char *)(uintptr_t) "con=null",
                          (char *)(uintptr_t) "con0=null,fd:1",
                          (char *)(uintptr_t) "seccomp=auto",
                          (char *)(uintptr_t) "quiet",
                          (char *)(uintptr_t) "panic=-1",
                          init,
                          variable, /* kernels give what they do not know to init */
                          NULL};
    /* TMPDIR would take the guest's memory to a disk; without HOME it cannot start. */
    char *const environment[] = {(char *)(uintptr_t) "PATH=/usr/bin:/bin",
                                 (char *)(uintptr_t) "HOME=/",
                                 (char *)(uintptr_t) "TERM=linux", NULL};
    int null = open("/dev/null", O_RDONLY);
    int log;

    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    scratch_path(scratch, "console", console);
    log = open(console, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (getppid() != parent || null < 0 || log < 0 || dup2(null, 0) < 0 ||
        dup2(log, 1) < 0 || dup2(log, 2) < 0) {
        _exit(127);
    }
    weft_format(memory, sizeof(memory), "mem=%dM", memory_mib);
    scratch_path(scratch, "init", console);
    weft_format(init, sizeof(init), "init=%s", console);
    weft_format(variable, sizeof(variable), "%s=%s", RXE_GUEST_SCRATCH, scratch);
    weft_format(directory, sizeof(directory), "uml_dir=%s/uml", scratch);
    execve(kernel, argv, environment);
    dprintf(2, "%s: %s\n", kernel, strerror(errno));
    _exit(127);
}

/* ---- watching ---- */

struct watched {
    const char *scratch;
    pid_t pid;
    int pid_fd;
    struct lab_signals *signals; /* Not owned */
    struct rxe_cpu cpu;
    off_t seen[2]; /* of out and err */
};

/* What the guest wrote since the last look goes to our own stdout and stderr. */
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
            if (write(i == 0 ? STDOUT_FILENO : STDERR_FILENO, bytes, (size_t)n) != n) {
                break; /* nobody reads: the exit code still tells */
            }
        }
        if (fd >= 0) {
            close(fd);
        }
    }
}

/* WEFT_OK once the kernel ended, or has told its result and would not: user-mode Linux was seen to
 * wait for a helper after "Power down", for ever. */
static weft_status watch(struct watched *w, int time_limit_s, struct weft_error *error)
{
    struct timespec start, now;
    time_t told_s = 0; /* when there was a result; 0: there is none */

    clock_gettime(CLOCK_MONOTONIC, &start);
    for (;;) {
        struct pollfd fds[2] = {{.fd = w->pid_fd, .events = POLLIN},
                                {.fd = w->signals->fd, .events = POLLIN}};

        poll(fds, 2, LOOK_MS);
        pass_on(w);
        if ((fds[0].revents & POLLIN) != 0) {
            return WEFT_OK;
        }
        if (lab_signals_came(w->signals)) {
            return weft_fail(error, WEFT_ERR_CLOSED, "guest", "interrupted");
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
        rxe_cpu_look(&w->cpu, (weft_ns)now.tv_sec * 1000000000 + now.tv_nsec);
        told_s = told_s == 0 && scratch_has(w->scratch, "exit") ? now.tv_sec : told_s;
        if (told_s != 0 && now.tv_sec - told_s >= GOODBYE_S) {
            return WEFT_OK;
        }
        if (now.tv_sec - start.tv_sec >= time_limit_s) {
            return weft_fail(error, WEFT_ERR_TIMEOUT, "guest",
                             "not done within %d s, and killed", time_limit_s);
        }
    }
}

static weft_status read_exit(const char *scratch, int *out_code, struct weft_error *error)
{
    size_t n;
    char *text = scratch_read(scratch, "exit", &n), *console;

    if (text != NULL && n > 0) {
        *out_code = scratch_number(text);
        free(text);
        return WEFT_OK;
    }
    free(text);
    console = scratch_read(scratch, "console", &n);
    if (console != NULL) {
        fprintf(stderr, "%s", n > 2000 ? console + n - 2000 : console);
    }
    free(console);
    return weft_fail(error, WEFT_ERR_ENVIRONMENT, "guest",
                     "the guest ended without a result");
}

/* Not one that stands for another machine: QEMU has threads that work at the same time. */
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

static weft_status supervise(const char *kernel, const char *scratch, int memory_mib,
                             int time_limit_s, struct lab_signals *signals, int *out_code,
                             struct weft_error *error)
{
    struct watched w = {.scratch = scratch, .signals = signals};
    weft_status status;
    pid_t parent = getpid();
    char text[16];

    w.pid = fork();
    if (w.pid == 0) {
        sigprocmask(SIG_SETMASK, &signals->old_mask, NULL);
        become_kernel(kernel, scratch, memory_mib, parent);
    }
    rxe_cpu_begin(&w.cpu, is_user_mode_linux(kernel) ? w.pid : 0, "weft-guest");
    weft_format(text, sizeof(text), "%d\n", (int)w.pid);
    scratch_write(scratch, "pid", text, strlen(text));
    w.pid_fd = w.pid > 0 ? (int)syscall(SYS_pidfd_open, w.pid, 0) : -1;
    status = w.pid_fd < 0 ? weft_fail_errno(error, errno, "guest", "cannot start")
                          : watch(&w, time_limit_s, error);
    if (w.pid > 0) {
        kill(-w.pid, SIGKILL); /* its helpers, or all of it */
        kill(w.pid, SIGKILL);
        waitpid(w.pid, NULL, 0);
    }
    rxe_cpu_end(&w.cpu);
    pass_on(&w);
    if (status == WEFT_OK) {
        status = read_exit(scratch, out_code, error);
    }
    close(w.pid_fd);
    return status;
}

static weft_status run_in(const char *scratch, const char *kernel, int memory_mib,
                          int time_limit_s, char *const *argv,
                          struct lab_signals *signals, int *out_code,
                          struct weft_error *error)
{
    if (!write_commands(scratch, argv) || !link_init(scratch)) {
        return weft_fail_errno(error, errno, "guest", "cannot write %s", scratch);
    }
    return supervise(kernel, scratch, memory_mib, time_limit_s, signals, out_code, error);
}

/* Taken as touched, so that more than is needed costs little; half of what the machine has. */
static int default_memory_mib(void)
{
    long half = sysconf(_SC_PHYS_PAGES) / 2 / ((1 << 20) / sysconf(_SC_PAGESIZE));

    return half < MEMORY_MIN_MIB   ? MEMORY_MIN_MIB
           : half > MEMORY_MAX_MIB ? MEMORY_MAX_MIB
                                   : (int)half;
}

weft_status rxe_guest_run(const struct rxe_guest_options *options, char *const *argv,
                          int *out_code, struct weft_error *error)
{
    const char *memory = getenv("WEFT_GUEST_MEMORY");
    int memory_mib = options->memory_mib != 0 ? options->memory_mib
                     : memory != NULL         ? scratch_number(memory)
                                              : default_memory_mib();
    int limit = options->time_limit_s != 0 ? options->time_limit_s : TIME_LIMIT_S;
    char kernel[4096];
    char scratch[SCRATCH_PATH_BYTES];
    int lock;
    struct lab_signals signals;
    weft_status status = rxe_guest_kernel(kernel, sizeof(kernel), error);

    if (status != WEFT_OK) {
        return status;
    }
    if (memory_mib < 96) {
        return weft_fail(error, WEFT_ERR_INPUT, "guest",
                         "a guest needs at least 96 MiB, not %d", memory_mib);
    }
    lab_signals_catch(&signals); /* before there is a folder that could be left */
    rxe_guest_cleanup(NULL);
    if (scratch_make(scratch, &lock)) {
        status =
            run_in(scratch, kernel, memory_mib, limit, argv, &signals, out_code, error);
        scratch_remove(scratch);
        close(lock);
    } else {
        status = weft_fail_errno(error, errno, "guest", "no scratch folder");
    }
    lab_signals_release(&signals);
    return status;
}

/* ---- instead of this process ---- */

/* The words of a NUL-separated list; free() the list, not the words. */
static char **split(char *bytes, size_t n)
{
    size_t n_words = 0;
    char **words = weft_calloc(n + 1, sizeof(*words));

    for (size_t i = 0; i < n; i += strlen(bytes + i) + 1) {
        words[n_words++] = bytes + i;
    }
    return words;
}

bool rxe_guest_instead(int *out_code)
{
    struct rxe_guest_options options = {0};
    struct weft_error error = {0};
    enum lab_layout layout;
    char text[512];
    char **argv;
    char *bytes;
    size_t n;

    if (getenv(RXE_GUEST_MARKER) != NULL || rxe_probe(&layout, &error) == WEFT_OK) {
        return false;
    }
    weft_error_clear(&error);
    bytes = scratch_read("/proc/self", "cmdline", &n);
    if (bytes == NULL) {
        return false;
    }
    argv = split(bytes, n);
    /* argv[0] is a name; the file is what matters. */
    argv[0] = realpath("/proc/self/exe", NULL);
    if (rxe_guest_run(&options, argv, out_code, &error) != WEFT_OK) {
        weft_error_format(&error, text, sizeof(text));
        fprintf(stderr, "weft: %s\n", text);
        *out_code = error.status == WEFT_ERR_TIMEOUT ? 124 : 3;
    }
    free(argv[0]);
    free(argv);
    free(bytes);
    return true;
}

/* ---- inside ---- */

static char **read_words(const char *scratch, const char *name)
{
    size_t n;
    char *bytes = scratch_read(scratch, name, &n);

    return bytes == NULL ? NULL : split(bytes, n); /* kept until the end of the guest */
}

static _Noreturn void become_command(const char *scratch, const int fds[2])
{
    char **argv = read_words(scratch, "argv");
    char **variables = read_words(scratch, "environ");
    char **cwd = read_words(scratch, "cwd");
    int null = open("/dev/null", O_RDONLY);

    if (argv == NULL || variables == NULL || cwd == NULL || chdir(cwd[0]) != 0 ||
        dup2(null, 0) < 0 || dup2(fds[0], 1) < 0 || dup2(fds[1], 2) < 0) {
        dprintf(fds[1], "weft: guest: cannot start the command: %s\n", strerror(errno));
        _exit(127);
    }
    environ = variables;
    execvp(argv[0], argv);
    fprintf(stderr, "weft: guest: %s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

/* Waits for the command, and as first process for everybody else's orphans, while what
 * was written so far goes out to the host. */
static int wait_for(pid_t child, const int fds[2])
{
    sigset_t mask;
    int wait_status = 0;

    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    for (;;) {
        struct timespec patience = {.tv_nsec = 200 * 1000 * 1000};
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
        }
    }
}

static _Noreturn void be_first(const char *scratch)
{
    char path[2][SCRATCH_PATH_BYTES];
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
    child = fork();
    if (child == 0) {
        sigprocmask(SIG_UNBLOCK, &mask, NULL);
        become_command(scratch, fds);
    }
    weft_format(text, sizeof(text), "%d\n", child > 0 ? wait_for(child, fds) : 127);
    scratch_write(scratch, "exit", text, strlen(text));
    guest_power_off();
}

void rxe_guest_init(void)
{
    const char *scratch = getenv(RXE_GUEST_SCRATCH);

    if (getpid() == 1 && scratch != NULL) {
        be_first(scratch);
    }
}
