#define _GNU_SOURCE
#include "backends/rxe/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <linux/netlink.h>
#include <linux/reboot.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/lab/netlink.h"
#include "backends/rxe/guest.h"
#include "base/text.h"

#define CPUINFO "weft-cpuinfo"

static const char *parent_folder(void)
{
    const char *folder = getenv("TMPDIR");

    return folder != NULL && folder[0] == '/' && strlen(folder) < 200 ? folder : "/tmp";
}

void scratch_path(const char *scratch, const char *name, char out[SCRATCH_PATH_BYTES])
{
    weft_format(out, SCRATCH_PATH_BYTES, "%s/%s", scratch, name);
}

bool scratch_write(const char *scratch, const char *name, const void *bytes, size_t n)
{
    char path[SCRATCH_PATH_BYTES];
    bool ok;
    int fd;

    scratch_path(scratch, name, path);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) {
        return false;
    }
    ok = n == 0 || write(fd, bytes, n) == (ssize_t)n;
    return close(fd) == 0 && ok;
}

char *scratch_read(const char *scratch, const char *name, size_t *out_n)
{
    char path[SCRATCH_PATH_BYTES];
    struct weft_text text = {NULL, 0, 0};
    char bytes[4096];
    ssize_t n;
    int fd;

    scratch_path(scratch, name, path);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return NULL;
    }
    weft_text_add(&text, "%s", "");
    while ((n = read(fd, bytes, sizeof(bytes))) > 0) {
        weft_text_add_bytes(&text, bytes, (size_t)n);
    }
    close(fd);
    *out_n = text.n;
    return text.bytes;
}

bool scratch_has(const char *scratch, const char *name)
{
    char path[SCRATCH_PATH_BYTES];
    struct stat status;

    scratch_path(scratch, name, path);
    return stat(path, &status) == 0 && status.st_size > 0;
}

int scratch_number(const char *text)
{
    char *end = NULL;
    long number = strtol(text, &end, 10);

    return end == text || number < 0 || number > INT_MAX ? 0 : (int)number;
}

/* Creates and takes the folder's lock. Returns the descriptor, or -1 with errno. */
static int take_lock(const char *scratch)
{
    char made[SCRATCH_PATH_BYTES];
    char path[SCRATCH_PATH_BYTES];
    int fd;

    scratch_path(scratch, "lock.new", made);
    scratch_path(scratch, "lock", path);
    fd = open(made, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    /* The lock gets its final name once it is held, so that no sweep finds it free. */
    if (fd >= 0 && (flock(fd, LOCK_EX | LOCK_NB) != 0 || rename(made, path) != 0)) {
        int error = errno;

        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

bool scratch_make(char out[SCRATCH_PATH_BYTES], int *out_lock)
{
    weft_format(out, SCRATCH_PATH_BYTES, "%s/%s%d.XXXXXX", parent_folder(),
                SCRATCH_PREFIX, (int)getpid());
    *out_lock = -1;
    if (mkdtemp(out) == NULL) {
        return false;
    }
    *out_lock = take_lock(out);
    if (*out_lock < 0) {
        int error = errno;

        scratch_remove(out);
        errno = error;
    }
    return *out_lock >= 0;
}

static int remove_one(const char *path, const struct stat *status, int kind,
                      struct FTW *place)
{
    (void)status;
    (void)kind;
    (void)place;
    remove(path);
    return 0;
}

void scratch_remove(const char *scratch)
{
    nftw(scratch, remove_one, 8, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* ---- folders of killed runs ---- */

static int number_in(const char *scratch, const char *name)
{
    size_t n;
    char *text = scratch_read(scratch, name, &n);
    int number = text != NULL ? scratch_number(text) : 0;

    free(text);
    return number;
}

/* Returns true if process `pid` is a guest of this folder, not another process with a reused
 * number. */
static bool is_guest(int pid, const char *scratch)
{
    char folder[32];
    char *bytes;
    size_t n;
    bool is_it;

    weft_format(folder, sizeof(folder), "/proc/%d", pid);
    bytes = scratch_read(folder, "cmdline", &n);
    is_it = bytes != NULL && memmem(bytes, n, scratch, strlen(scratch)) != NULL;
    free(bytes);
    return is_it;
}

/* Returns true if no process owns the folder of process `owner`. If the number is in use again,
 * the folder is left over if its lock is free. A folder without a lock has just been made, or is
 * from an older version. */
static bool is_left_over(const char *scratch, int owner)
{
    char path[SCRATCH_PATH_BYTES];
    bool is_free;
    int fd;

    if (kill(owner, 0) != 0 && errno == ESRCH) {
        return true;
    }
    scratch_path(scratch, "lock", path);
    fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    is_free = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return is_free;
}

unsigned rxe_guest_cleanup(struct weft_log *log)
{
    /* A guest does not see the processes of the machine that runs it. */
    DIR *folder = getenv(RXE_GUEST_MARKER) == NULL ? opendir(parent_folder()) : NULL;
    struct dirent *entry;
    unsigned n = 0;

    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        char scratch[SCRATCH_PATH_BYTES];
        struct stat status;
        int owner;
        int pid;

        if (sscanf(entry->d_name, SCRATCH_PREFIX "%d.", &owner) != 1 || owner <= 0) {
            continue;
        }
        scratch_path(parent_folder(), entry->d_name, scratch);
        if (lstat(scratch, &status) != 0 || !S_ISDIR(status.st_mode) ||
            status.st_uid != geteuid() || !is_left_over(scratch, owner)) {
            continue;
        }
        pid = number_in(scratch, "pid");
        if (pid > 0 && is_guest(pid, scratch)) {
            kill(-pid, SIGKILL);
            kill(pid, SIGKILL);
        }
        scratch_remove(scratch);
        weft_log(log, WEFT_LOG_INFO, "removed guest %s", scratch);
        n++;
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return n;
}

/* ---- inside a guest ---- */

void guest_mount(void)
{
    int fd;

    mount("proc", "/proc", "proc", 0, NULL);
    mount("sys", "/sys", "sysfs", 0, NULL);
    mount("dev", "/dev", "devtmpfs", 0, NULL); /* most kernels have mounted it already */
    mkdir("/dev/shm", 01777);
    mount("shm", "/dev/shm", "tmpfs", 0, NULL);
    mount("run", "/run", "tmpfs", 0, "mode=755");
    if (netlink_open(NETLINK_ROUTE, &fd) == 0) {
        netlink_set_up(fd, "lo", true);
        close(fd);
    }
}

void guest_add_to_cpuinfo(const char *line)
{
    size_t n;
    char *text = scratch_read("/proc", "cpuinfo", &n);
    const char *end = text != NULL ? strstr(text, "\n\n") : NULL;
    struct weft_text out = {NULL, 0, 0};

    if (text != NULL) {
        size_t n_first = end != NULL ? (size_t)(end - text) + 1 : n;

        weft_text_add_bytes(&out, text, n_first);
        weft_text_add(&out, "%s%s", line, text + n_first);
        if (scratch_write("/run", CPUINFO, out.bytes, out.n)) {
            (void)mount("/run/" CPUINFO, "/proc/cpuinfo", NULL, MS_BIND, NULL);
        }
    }
    weft_text_fini(&out);
    free(text);
}

_Noreturn void guest_power_off(void)
{
    sync();
    reboot(RB_POWER_OFF);
    _exit(0); /* the guest ends with its first process */
}
