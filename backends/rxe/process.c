#define _GNU_SOURCE
#include "backends/rxe/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"

#define SECOND INT64_C(1000000000)
/* A kernel that cleans up after a NIC may keep a killed process for a while. */
#define KILL_PATIENCE_MS 10000
#define RESULT_MAX (64 << 20)

struct rxe_process *rxe_processes_create(uint32_t n)
{
    struct rxe_process *processes = weft_calloc(n + 1, sizeof(*processes));

    for (uint32_t i = 0; i < n; i++) {
        processes[i].pid_fd = -1;
        processes[i].result_fd = -1;
    }
    return processes;
}

/* ---- starting ---- */

/* In the child. The namespace's interfaces and devices show in a sysfs mounted inside it
 * only; the mount is this process's alone. Returns an errno. */
static int settle(const struct rxe_place *place, int result_fd, const char *devices)
{
    if (setns(place->netns_fd, CLONE_NEWNET) != 0 || unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
        return errno;
    }
    umount2("/sys", MNT_DETACH);
    if (mount("weft", "/sys", "sysfs", 0, NULL) != 0) {
        return errno;
    }
    if (dup2(result_fd, WORLD_RESULT_FD) < 0 || fcntl(WORLD_RESULT_FD, F_SETFD, 0) != 0) {
        return errno;
    }
    if (setenv("WEFT_DEVICES", devices, 1) != 0 ||
        setenv("WEFT_MANAGEMENT", RXE_MANAGEMENT, 1) != 0) {
        return errno;
    }
    return dup2(STDERR_FILENO, STDOUT_FILENO) < 0 ? errno : 0;
}

static _Noreturn void become(const struct rxe_place *place, int result_fd,
                             char *const *argv, const char *devices, const sigset_t *mask,
                             pid_t parent)
{
    int problem;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(127); /* it is gone already */
    }
    sigprocmask(SIG_SETMASK, mask, NULL);
    problem = settle(place, result_fd, devices);
    if (problem == 0) {
        execv("/proc/self/exe", argv);
        problem = errno;
    }
    dprintf(STDERR_FILENO, "weft: %s: %s\n", place->name, strerror(problem));
    _exit(127);
}

int rxe_process_start(struct rxe_process *process, const struct rxe_place *place,
                      char *const *argv, const char *devices, const sigset_t *mask)
{
    pid_t parent = getpid();
    int problem = 0;

    process->result_fd = memfd_create("weft-result", MFD_CLOEXEC);
    if (process->result_fd < 0) {
        return errno;
    }
    process->pid = fork();
    if (process->pid == 0) {
        become(place, process->result_fd, argv, devices, mask, parent);
    }
    if (process->pid < 0) {
        problem = errno;
        process->pid = 0;
        return problem;
    }
    process->pid_fd = (int)syscall(SYS_pidfd_open, process->pid, 0);
    if (process->pid_fd < 0) {
        problem = errno;
        kill(process->pid, SIGKILL);
        waitpid(process->pid, &process->wait_status, 0);
        process->pid = 0;
    }
    return problem;
}

/* ---- ending ---- */

int rxe_process_signal(const struct rxe_process *process, int signal_number)
{
    if (process->pid == 0 || process->is_over) {
        return ESRCH;
    }
    return kill(process->pid, signal_number) == 0 ? 0 : errno;
}

static bool reap(struct rxe_process *process)
{
    if (process->pid == 0 || process->is_over ||
        waitpid(process->pid, &process->wait_status, WNOHANG) != process->pid) {
        return false;
    }
    process->is_over = true;
    close(process->pid_fd);
    process->pid_fd = -1;
    return true;
}

bool rxe_processes_reap(struct rxe_process *processes, uint32_t n)
{
    bool any = false;

    for (uint32_t i = 0; i < n; i++) {
        any = reap(&processes[i]) || any;
    }
    return any;
}

void rxe_processes_wait(const struct rxe_process *processes, uint32_t n, int other_fd,
                        int64_t for_ns)
{
    struct pollfd *fds = weft_calloc((size_t)n + 1, sizeof(*fds));
    struct timespec time = {.tv_sec = for_ns / SECOND, .tv_nsec = for_ns % SECOND};

    fds[n] = (struct pollfd){.fd = other_fd, .events = POLLIN};
    for (uint32_t i = 0; i < n; i++) {
        fds[i] = (struct pollfd){.fd = processes[i].pid_fd, .events = POLLIN};
    }
    ppoll(fds, (nfds_t)n + 1, for_ns == WEFT_NEVER ? NULL : &time, NULL);
    free(fds);
}

static void read_result(struct rxe_process *process)
{
    struct stat status;
    ssize_t n;

    if (process->result_fd < 0 || fstat(process->result_fd, &status) != 0 ||
        status.st_size <= 0 || status.st_size > RESULT_MAX) {
        return;
    }
    process->result = weft_alloc((size_t)status.st_size);
    n = pread(process->result_fd, process->result, (size_t)status.st_size, 0);
    process->n_result = n > 0 ? (size_t)n : 0;
}

void rxe_process_ending(struct rxe_process *process, struct world_ending *out)
{
    if (process->is_over && process->result == NULL) {
        read_result(process);
    }
    *out = (struct world_ending){.is_over = process->is_over,
                                 .exit_code = -1,
                                 .result = process->result,
                                 .n_bytes = process->n_result};
    if (process->is_over && WIFEXITED(process->wait_status)) {
        out->exit_code = WEXITSTATUS(process->wait_status);
    } else if (process->is_over && WIFSIGNALED(process->wait_status)) {
        out->signal = WTERMSIG(process->wait_status);
    }
}

void rxe_processes_destroy(struct rxe_process *processes, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        rxe_process_signal(&processes[i], SIGKILL);
    }
    for (uint32_t i = 0; i < n; i++) {
        struct rxe_process *process = &processes[i];
        struct pollfd fd = {.fd = process->pid_fd, .events = POLLIN};

        if (process->pid != 0 && !process->is_over) {
            poll(&fd, 1, KILL_PATIENCE_MS);
            reap(process);
        }
        if (process->pid_fd >= 0) {
            close(process->pid_fd);
        }
        if (process->result_fd >= 0) {
            close(process->result_fd);
        }
        free(process->result);
    }
    free(processes);
}
