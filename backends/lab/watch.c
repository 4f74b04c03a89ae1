#define _GNU_SOURCE
#include "backends/lab/watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "backends/watch/records.h"
#include "base/check.h"
#include "base/observe.h"

#define FOLDER "/run/weft-watch"
/* A link to FOLDER. AddressSanitizer starts only if the name of the first library contains this
 * one, IsDynamicRTName() of compiler-rt/lib/asan/asan_linux.cpp. */
#define FIRST_LIBRARY "libasan.so"

static bool has_library; /* in FOLDER */
static int failures_fd = -1;

/* Places of the library after `make` and `make install`, relative to the folder of this program. */
static const char *const places[] = {"", "../lib/weft/"};

/* Returns -1 if there is no library. */
static int open_library(void)
{
    char own[PATH_MAX], path[PATH_MAX + 64];
    ssize_t n = readlink("/proc/self/exe", own, sizeof(own) - 1);
    char *slash;
    int fd = -1;

    own[n > 0 ? n : 0] = '\0';
    slash = strrchr(own, '/');
    for (size_t i = 0; slash != NULL && fd < 0 && i < WEFT_LENGTH(places); i++) {
        weft_format(path, sizeof(path), "%.*s/%s" WATCH_LIBRARY, (int)(slash - own), own,
                    places[i]);
        fd = open(path, O_RDONLY | O_CLOEXEC);
    }
    return fd;
}

static void copy(int from, int to)
{
    char bytes[16384];
    ssize_t n = 1;

    while (n > 0) {
        n = read(from, bytes, sizeof(bytes));
        if (n > 0 && write(to, bytes, (size_t)n) != n) {
            n = -1;
        }
    }
    has_library = n == 0;
}

static void make_folder(uint32_t id)
{
    char path[64];
    size_t n;
    int fd;

    weft_format(path, sizeof(path), FOLDER "/%u/", id);
    n = strlen(path);
    if (mkdir(path, 0755) != 0) {
        return;
    }
    weft_format(path + n, sizeof(path) - n, WATCH_LIBRARY);
    (void)symlink("../" WATCH_LIBRARY, path);
    weft_format(path + n, sizeof(path) - n, WATCH_RECORDS);
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0) {
        (void)fchmod(fd, 0666); /* a program may become another user */
        (void)ftruncate(fd, sizeof(struct watch_records));
        close(fd);
    }
}

/* Opens both ends, so that neither waits for the other and none ends. Returns -1 if it cannot. */
static int make_fifo(const char *path)
{
    return mkfifo(path, 0666) == 0 && chmod(path, 0666) == 0
               ? open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC)
               : -1;
}

int lab_watch_failures(void)
{
    return failures_fd;
}

int lab_watch_ready(void)
{
    int fd = -1;

    if (has_library) {
        weft_observe_begin();
        fd = make_fifo(FOLDER "/" WATCH_READY);
        weft_observe_end();
    }
    return fd;
}

void lab_watch_begin(uint32_t n)
{
    int from, to;

    weft_observe_begin();
    from = open_library();
    if (from >= 0 && mkdir(FOLDER, 0755) == 0) {
        to =
            open(FOLDER "/" WATCH_LIBRARY, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
        if (to >= 0) {
            copy(from, to);
            close(to);
        }
        for (uint32_t i = 0; i < n; i++) {
            make_folder(i);
        }
        failures_fd = make_fifo(FOLDER "/" WATCH_FAILURES);
        has_library = has_library && symlink(".", FOLDER "/" FIRST_LIBRARY) == 0;
    }
    if (from >= 0) {
        close(from);
    }
    weft_observe_end();
}

void lab_watch_prepare(uint32_t id)
{
    weft_observe_begin();
    if (has_library) {
        make_folder(id);
    }
    weft_observe_end();
}

int lab_watch_preload(uint32_t id)
{
    const char *old = getenv("LD_PRELOAD");
    struct weft_text text = {NULL, 0, 0};
    int problem;

    if (!has_library) {
        return 0;
    }
    weft_text_add(&text, "%s%s" FOLDER "/" FIRST_LIBRARY "/%u/" WATCH_LIBRARY,
                  old != NULL ? old : "", old != NULL ? ":" : "", id);
    problem = setenv("LD_PRELOAD", text.bytes, 1) == 0 ? 0 : errno;
    weft_text_fini(&text);
    return problem;
}

/* ---- reading ---- */

/* Appends the lines of processes of `host`. A line that was not written to its end has zeros. */
static void add_lines(const char *bytes, size_t n, const char *host, uint32_t id,
                      struct weft_text *out)
{
    size_t n_host = strlen(host);
    size_t from = 0;

    for (size_t i = 0; i < n; i++) {
        const char *blank = memchr(bytes + from, ' ', i - from);
        bool is_whole = memchr(bytes + from, '\0', i - from) == NULL;

        if (bytes[i] != '\n') {
            continue;
        }
        if (is_whole && blank != NULL && (size_t)(bytes + i - blank) > n_host + 2 &&
            strncmp(blank + 1, host, n_host) == 0 && blank[n_host + 1] == ' ') {
            weft_text_add(out, "%u ", id);
            weft_text_add_bytes(out, bytes + from, i - from + 1);
        }
        from = i + 1;
    }
}

static void read_records(const char *folder, const char *host, struct weft_text *out)
{
    struct watch_records *records = weft_calloc(1, sizeof(*records));
    char path[64];
    ssize_t n;
    int fd;

    weft_format(path, sizeof(path), FOLDER "/%.16s/" WATCH_RECORDS, folder);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd >= 0 ? read(fd, records, sizeof(*records)) : -1;
    if (n == (ssize_t)sizeof(*records) && records->n > 0) {
        add_lines(records->text,
                  records->n < sizeof(records->text) ? records->n : sizeof(records->text),
                  host, (uint32_t)strtoul(folder, NULL, 10), out);
    }
    if (fd >= 0) {
        close(fd);
    }
    free(records);
}

static int by_number(const struct dirent **a, const struct dirent **b)
{
    int difference = (int)strlen((*a)->d_name) - (int)strlen((*b)->d_name);

    return difference != 0 ? difference : strcmp((*a)->d_name, (*b)->d_name);
}

static int is_number(const struct dirent *entry)
{
    return entry->d_name[0] >= '0' && entry->d_name[0] <= '9';
}

void lab_watch_read(const char *host, struct weft_text *out)
{
    struct utsname names;
    struct dirent **folders = NULL;
    int n = -1;

    weft_observe_begin();
    if (uname(&names) == 0) {
        n = scandir(FOLDER, &folders, is_number, by_number);
    }
    for (int i = 0; i < n; i++) {
        read_records(folders[i]->d_name, host != NULL ? host : names.nodename, out);
        free(folders[i]);
    }
    free(folders);
    weft_observe_end();
}
