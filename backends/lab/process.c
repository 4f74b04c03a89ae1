#define _GNU_SOURCE
#include "backends/lab/process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
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

#include "base/check.h"
#include "base/text.h"

#define SECOND INT64_C(1000000000)
/* The kernel can keep a killed process for a while, until it has cleaned up after a NIC. */
#define KILL_PATIENCE_MS 10000
#define RESULT_MAX (64u << 20)
#define STORY_MAX (256u << 20) /* a guest has little more memory than this */

struct lab_process *lab_processes_create(uint32_t n)
{
    struct lab_process *processes = weft_calloc(n + 1, sizeof(*processes));

    for (uint32_t i = 0; i < n; i++) {
        processes[i].pid_fd = -1;
        processes[i].result_fd = -1;
        processes[i].story_fd = -1;
        processes[i].notice_fds[0] = -1;
        processes[i].notice_fds[1] = -1;
    }
    return processes;
}

/* ---- starting ---- */

/* Duplicates the descriptors to the numbers that a host's process expects; first to high numbers,
 * so that none is overwritten. */
static int inherit(const struct lab_process *process, int stages_fd)
{
    const int from[] = {process->result_fd, process->story_fd, process->notice_fds[0],
                        stages_fd};
    const int to[] = {WORLD_RESULT_FD, WORLD_STORY_FD, WORLD_NOTICES_FD, WORLD_STAGES_FD};
    int high[WEFT_LENGTH(from)];
    size_t n = stages_fd < 0 ? WEFT_LENGTH(from) - 1 : WEFT_LENGTH(from);

    for (size_t i = 0; i < n; i++) {
        high[i] = fcntl(from[i], F_DUPFD_CLOEXEC, WORLD_STAGES_FD + 1);
    }
    for (size_t i = 0; i < n; i++) {
        if (high[i] < 0 || dup2(high[i], to[i]) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Enters the namespace. Only a sysfs mounted inside it shows its interfaces and devices; the
 * mount is private to this process. Returns an errno. */
static int enter_place(const struct lab_place *place)
{
    if (setns(place->netns_fd, CLONE_NEWNET) != 0 || unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
        return errno;
    }
    umount2("/sys", MNT_DETACH);
    return mount("weft", "/sys", "sysfs", 0, NULL) == 0 ? 0 : errno;
}

/* Mounts a private /dev/shm, as a container has. Returns an errno. */
static int hide_shm(void)
{
    if (unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("weft", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, NULL) != 0) {
        return errno;
    }
    return 0;
}

static int tell_identity(const struct lab_identity *identity)
{
    char notices[12];
    char process[12];
    char stages[24];
    int problem = 0;

    weft_format(notices, sizeof(notices), "%d", WORLD_NOTICES_FD);
    weft_format(process, sizeof(process), "%u", identity->process);
    weft_format(stages, sizeof(stages), "%d:%u", WORLD_STAGES_FD, identity->index);
    if (setenv("WEFT_DEVICES", identity->devices, 1) != 0 ||
        setenv("WEFT_MANAGEMENT", identity->management, 1) != 0 ||
        setenv("WEFT_HOST_ID", identity->host, 1) != 0 ||
        setenv("WEFT_PROCESS", process, 1) != 0 ||
        setenv("WEFT_NOTICES", notices, 1) != 0) {
        problem = errno;
    }
    if (identity->stages_fd >= 0 && setenv("WEFT_STAGES", stages, 1) != 0) {
        problem = errno;
    }
    if (identity->sends_apart && setenv("WEFT_CAPTURED", "1", 1) != 0) {
        problem = errno;
    }
    for (uint32_t i = 0; i < identity->n_settings; i++) {
        if (setenv(identity->settings[i].name, identity->settings[i].value, 1) != 0) {
            problem = errno;
        }
    }
    return problem;
}

/* Prepares the child. Returns an errno. */
static int settle(const struct lab_process *process, const struct lab_place *place,
                  const struct lab_identity *identity)
{
    int problem = place == NULL ? 0 : enter_place(place);

    if (problem == 0 && identity->has_private_shm) {
        problem = hide_shm();
    }
    if (problem == 0 && inherit(process, identity->stages_fd) != 0) {
        problem = errno;
    }
    if (problem == 0) {
        problem = tell_identity(identity);
    }
    if (problem == 0 && dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
        problem = errno;
    }
    return problem;
}

/* The program that a child executes. */
struct becoming {
    const struct lab_place *place;
    char *const *argv;
    const struct lab_identity *identity;
    const char *line; /* executed by a shell; NULL: this program */
};

static void become_member(const struct lab_process *process,
                          const struct becoming *becoming)
{
    int problem = settle(process, becoming->place, becoming->identity);

    if (problem == 0) {
        execv("/proc/self/exe", becoming->argv);
        problem = errno;
    }
    dprintf(STDERR_FILENO, "weft: %s: %s\n", becoming->identity->host, strerror(problem));
}

/* Clears O_NONBLOCK, because a shell does not handle EAGAIN on its standard input. */
static void become_shell(const struct lab_process *process, const char *line)
{
    int flags = fcntl(process->notice_fds[0], F_GETFL);

    if (flags >= 0 && fcntl(process->notice_fds[0], F_SETFL, flags & ~O_NONBLOCK) == 0 &&
        dup2(process->notice_fds[0], STDIN_FILENO) >= 0 &&
        dup2(process->result_fd, STDOUT_FILENO) >= 0) {
        execl("/bin/sh", "sh", "-c", line, (char *)NULL);
    }
    dprintf(STDERR_FILENO, "weft: /bin/sh: %s\n", strerror(errno));
}

static _Noreturn void become(const struct lab_process *process,
                             const struct becoming *becoming, const sigset_t *mask,
                             pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(127); /* the parent has already ended */
    }
    sigprocmask(SIG_SETMASK, mask, NULL);
    if (becoming->line != NULL) {
        become_shell(process, becoming->line);
    } else {
        become_member(process, becoming);
    }
    _exit(127);
}

static int make_streams(struct lab_process *process)
{
    process->result_fd = memfd_create("weft-result", MFD_CLOEXEC);
    process->story_fd = memfd_create("weft-story", MFD_CLOEXEC);
    return process->result_fd < 0 || process->story_fd < 0 ||
                   pipe2(process->notice_fds, O_CLOEXEC | O_NONBLOCK) != 0
               ? errno
               : 0;
}

static int spawn(struct lab_process *process, const struct becoming *becoming,
                 const sigset_t *mask)
{
    pid_t parent = getpid();
    int problem = 0;

    process->pid = fork();
    if (process->pid == 0) {
        become(process, becoming, mask, parent);
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

int lab_process_start(struct lab_process *process, const struct lab_place *place,
                      char *const *argv, const struct lab_identity *identity,
                      const sigset_t *mask)
{
    const struct becoming becoming = {.place = place, .argv = argv, .identity = identity};
    int problem = make_streams(process);

    return problem != 0 ? problem : spawn(process, &becoming, mask);
}

/* Writes all input in advance, so that a machine that answers slowly does not delay the
 * others. */
static int fill(const struct lab_process *process, const char *input, size_t n_input)
{
    static const char end[] = "...\n";
    int fd = process->notice_fds[1];
    size_t n_all = n_input + sizeof(end) - 1;

    if (n_all > INT_MAX || (fcntl(fd, F_GETPIPE_SZ) < (int)n_all &&
                            fcntl(fd, F_SETPIPE_SZ, (int)n_all) < (int)n_all)) {
        return E2BIG;
    }
    return write(fd, input, n_input) == (ssize_t)n_input &&
                   write(fd, end, sizeof(end) - 1) == (ssize_t)sizeof(end) - 1
               ? 0
               : E2BIG;
}

int lab_process_start_elsewhere(struct lab_process *process, const char *line,
                                const char *input, size_t n_input, const sigset_t *mask)
{
    const struct becoming becoming = {.line = line};
    int problem = make_streams(process);

    process->is_elsewhere = true;
    if (problem == 0) {
        problem = fill(process, input, n_input);
    }
    return problem != 0 ? problem : spawn(process, &becoming, mask);
}

/* ---- ending ---- */

int lab_process_signal(const struct lab_process *process, int signal_number)
{
    if (process->pid == 0 || process->is_over) {
        return ESRCH;
    }
    return kill(process->pid, signal_number) == 0 ? 0 : errno;
}

/* Cannot raise SIGPIPE, because the reading end is open here, too. */
void lab_process_report_ended(const struct lab_process *process, uint32_t member)
{
    char line[16];

    if (process->pid == 0 || process->is_over) {
        return;
    }
    weft_format(line, sizeof(line), "%u\n", member);
    if (write(process->notice_fds[1], line, strlen(line)) < 0) {
        return; /* the pipe is full because the process does not read it */
    }
}

static bool reap(struct lab_process *process)
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

bool lab_processes_reap(struct lab_process *processes, uint32_t n)
{
    bool any = false;

    for (uint32_t i = 0; i < n; i++) {
        any = reap(&processes[i]) || any;
    }
    return any;
}

void lab_processes_wait(const struct lab_process *processes, uint32_t n,
                        const int others[2], int64_t for_ns)
{
    struct pollfd *fds = weft_calloc((size_t)n + 2, sizeof(*fds));
    struct timespec time = {.tv_sec = for_ns / SECOND, .tv_nsec = for_ns % SECOND};

    fds[n] = (struct pollfd){.fd = others[0], .events = POLLIN};
    fds[n + 1] = (struct pollfd){.fd = others[1], .events = POLLIN};
    for (uint32_t i = 0; i < n; i++) {
        fds[i] = (struct pollfd){.fd = processes[i].pid_fd, .events = POLLIN};
    }
    ppoll(fds, (nfds_t)n + 2, for_ns == WEFT_NEVER ? NULL : &time, NULL);
    free(fds);
}

/* Reads a memory file, at most `n_max` bytes. Returns NULL if it is empty. */
static char *read_all(int fd, size_t n_max, size_t *out_n)
{
    struct stat status;
    char *bytes;
    size_t n;

    *out_n = 0;
    if (fd < 0 || fstat(fd, &status) != 0 || status.st_size <= 0) {
        return NULL;
    }
    n = (size_t)status.st_size < n_max ? (size_t)status.st_size : n_max;
    bytes = weft_alloc(n);
    while (*out_n < n) {
        ssize_t now = pread(fd, bytes + *out_n, n - *out_n, (off_t)*out_n);

        if (now <= 0) {
            break;
        }
        *out_n += (size_t)now;
    }
    return bytes;
}

/* Splits the output into the story and the result, which is the last line that begins with a
 * brace. */
static void split(struct lab_process *process)
{
    size_t n = process->n_story, at = n;

    for (size_t i = n; i-- > 0 && at == n;) {
        if (process->story[i] == '{' && (i == 0 || process->story[i - 1] == '\n')) {
            at = i;
        }
    }
    if (at < n) {
        process->n_result = n - at;
        process->result = weft_alloc(process->n_result);
        memcpy(process->result, process->story + at, process->n_result);
        process->n_story = at;
    }
}

/* Reads result and story once, after the end of the process. A truncated result is discarded. */
static void read_leavings(struct lab_process *process)
{
    if (process->is_elsewhere) {
        process->story = read_all(process->result_fd, STORY_MAX, &process->n_story);
        split(process);
        process->was_read = true;
        return;
    }
    process->result = read_all(process->result_fd, RESULT_MAX + 1, &process->n_result);
    if (process->n_result > RESULT_MAX) {
        process->n_result = 0;
    }
    process->story = read_all(process->story_fd, STORY_MAX, &process->n_story);
    process->was_read = true;
}

/* Returns true if a signal stopped the process: the state in its stat is T (proc(5)). */
static bool is_stopped(const struct lab_process *process)
{
    char path[32], line[512];
    const char *name_end;
    FILE *file;
    bool is = false;

    if (process->pid == 0 || process->is_over || process->is_elsewhere) {
        return false;
    }
    weft_format(path, sizeof(path), "/proc/%ld/stat", (long)process->pid);
    file = fopen(path, "re");
    if (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        name_end = strrchr(line, ')'); /* the name can contain any byte */
        is = name_end != NULL && strncmp(name_end, ") T", 3) == 0;
    }
    if (file != NULL) {
        fclose(file);
    }
    return is;
}

void lab_process_ending(struct lab_process *process, struct world_ending *out)
{
    if (process->is_over && !process->was_read) {
        read_leavings(process);
    }
    *out = (struct world_ending){.is_over = process->is_over,
                                 .is_stopped = is_stopped(process),
                                 .exit_code = -1,
                                 .result = process->result,
                                 .n_bytes = process->n_result,
                                 .story = process->story,
                                 .n_story = process->n_story};
    if (process->is_over && WIFEXITED(process->wait_status)) {
        out->exit_code = WEXITSTATUS(process->wait_status);
    } else if (process->is_over && WIFSIGNALED(process->wait_status)) {
        out->signal = WTERMSIG(process->wait_status);
    }
}

void lab_processes_destroy(struct lab_process *processes, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        lab_process_signal(&processes[i], SIGKILL);
    }
    for (uint32_t i = 0; i < n; i++) {
        struct lab_process *process = &processes[i];
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
        if (process->story_fd >= 0) {
            close(process->story_fd);
        }
        if (process->notice_fds[0] >= 0) {
            close(process->notice_fds[0]);
            close(process->notice_fds[1]);
        }
        free(process->result);
        free(process->story);
    }
    free(processes);
}
