#define _GNU_SOURCE
#include "backends/watch/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "backends/watch/records.h"
#include "backends/watch/symbol.h"

#define ARCH_UM_FREE_CALLS 0x756d0001 /* see ci/guest/60-free-calls.patch */
#define LINE_BYTES 384
/* Far from what programs map, so that their own addresses do not depend on it, and where sanitizers
 * expect libraries. */
#define WANTED_AT ((void *)(uintptr_t)0x7ea000000000)

/* Shared with the file, so that it survives SIGKILL, and with children. */
static _Atomic(struct watch_records *) records;
static struct utsname names;
/* Copied from the last record of this process, or of its parent before the fork. */
static _Atomic(int64_t) last_ns;
static atomic_int last_pid;

/* The thread's calls between both take no virtual time. `word` must be valid until the end. */
static void free_begin(int *word)
{
    int kept = errno;

    *word = 1;
#ifdef SYS_arch_prctl
    (void)syscall(SYS_arch_prctl, ARCH_UM_FREE_CALLS, word);
#endif
    errno = kept;
}

static void free_end(int *word)
{
    int kept = errno;

#ifdef SYS_arch_prctl
    (void)syscall(SYS_arch_prctl, ARCH_UM_FREE_CALLS, NULL);
#endif
    *word = 0;
    errno = kept;
}

/* Opens a file beside this library. Returns -1 if it cannot be opened. */
static int open_beside(const char *name, int flags)
{
    char path[512];
    size_t n = watch_folder(path, sizeof(path));

    if (n == 0 || n + strlen(name) >= sizeof(path)) {
        return -1;
    }
    memcpy(path + n, name, strlen(name) + 1);
    return open(path, flags | O_CLOEXEC);
}

/* Returns NULL if there is no place for records. */
static struct watch_records *open_records(void)
{
    struct watch_records *found = MAP_FAILED, *none = NULL;
    int fd = open_beside(WATCH_RECORDS, O_RDWR);

    if (fd >= 0) {
        found =
            mmap(WANTED_AT, sizeof(*found), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
    }
    if (found == MAP_FAILED || uname(&names) != 0) {
        return NULL;
    }
    if (!atomic_compare_exchange_strong(&records, &none, found)) {
        munmap(found, sizeof(*found)); /* another thread was first */
        found = none;
    }
    return found;
}

static void append(struct watch_records *to, const char *line, size_t n, bool is_error)
{
    size_t limit = is_error ? sizeof(to->text) : sizeof(to->text) / 4 * 3;
    size_t at = to->n;

    do {
        if (at + n > limit) {
            return;
        }
    } while (!atomic_compare_exchange_weak(&to->n, &at, at + n));
    memcpy(to->text + at, line, n);
}

/* Writes a line with the time and process of the last record. Calls nothing of the kernel. */
__attribute__((format(printf, 3, 0))) static void
write_line(struct watch_records *to, bool is_error, const char *format, va_list list)
{
    char line[LINE_BYTES];
    int n, n_more;

    n = snprintf(line, sizeof(line), "%lld %.64s %d %.32s ", (long long)last_ns,
                 names.nodename, last_pid, program_invocation_short_name);
    n_more = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, format, list);
    if (n_more > 0 && n + n_more < (int)sizeof(line) - 1) {
        n += n_more;
        line[n++] = '\n';
        append(to, line, (size_t)n, is_error);
    }
}

__attribute__((format(printf, 2, 0))) static void record(bool is_error,
                                                         const char *format, va_list list)
{
    struct watch_records *to = records != NULL ? records : open_records();
    struct timespec now;

    if (to != NULL && clock_gettime(CLOCK_MONOTONIC, &now) == 0) {
        last_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
        last_pid = getpid();
        write_line(to, is_error, format, list);
    }
}

void watch_record(bool is_error, const char *format, ...)
{
    int kept = errno;
    int word;
    va_list list;

    free_begin(&word);
    va_start(list, format);
    record(is_error, format, list);
    va_end(list);
    free_end(&word);
    errno = kept;
}

void watch_note(const char *format, ...)
{
    struct watch_records *to = records;
    int kept = errno;
    va_list list;

    if (to != NULL) {
        va_start(list, format);
        write_line(to, false, format, list);
        va_end(list);
    }
    errno = kept;
}

void watch_wake(void)
{
    static atomic_flag has_woken = ATOMIC_FLAG_INIT;
    int kept = errno;
    int word, fd;

    if (atomic_flag_test_and_set(&has_woken)) {
        return;
    }
    free_begin(&word);
    fd = open_beside("../" WATCH_FAILURES, O_WRONLY | O_NONBLOCK);
    if (fd >= 0) {
        (void)!write(fd, "", 1);
        close(fd);
    }
    free_end(&word);
    errno = kept;
}

void watch_ready(const char *device)
{
    char line[LINE_BYTES];
    int kept = errno;
    int word, fd, n;

    free_begin(&word);
    fd = open_beside("../" WATCH_READY, O_WRONLY | O_NONBLOCK);
    if (fd >= 0) {
        n = snprintf(line, sizeof(line), "%s\n", device);
        (void)!write(fd, line, (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1);
        close(fd);
    }
    free_end(&word);
    errno = kept;
}

void watch_set_environment_end(const char *end)
{
    int kept = errno;
    int word;

    free_begin(&word);
    (void)prctl(PR_SET_MM, PR_SET_MM_ENV_END, (unsigned long)end, 0L, 0L);
    free_end(&word);
    errno = kept;
}
