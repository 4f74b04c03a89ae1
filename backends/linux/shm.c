/* Shared memory as files in /dev/shm, so processes can share it only if they see the same
 * /dev/shm. The creator of a file holds a lock on it while the name exists. A file of Weft that
 * is not locked belonged to a process that died, and is removed. */
#define _GNU_SOURCE
#include "backends/linux/shm.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/linux/private.h"
#include "base/check.h"
#include "base/text.h"

#define FOLDER "/dev/shm"
#define PREFIX "weft-"
#define DIGITS 32u

struct linux_shm {
    struct io_shm io;
    int fd; /* locked while this process owns the name; -1 otherwise */
    char name[IO_SHM_NAME_BYTES];
};

static struct linux_shm *shm_of(struct io_shm *segment)
{
    return weft_container_of(segment, struct linux_shm, io);
}

static bool is_ours(const char *name)
{
    size_t n = strlen(PREFIX);

    return strncmp(name, PREFIX, n) == 0 && strlen(name) == n + DIGITS &&
           strspn(name + n, "0123456789abcdef") == DIGITS;
}

/* ---- segments of dead processes ---- */

static bool sweep_one(int folder, const char *name)
{
    int fd = openat(folder, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool is_dead = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;

    if (is_dead && unlinkat(folder, name, 0) != 0) {
        is_dead = false;
    }
    if (fd >= 0) {
        close(fd);
    }
    return is_dead;
}

unsigned linux_shm_sweep(struct weft_log *log)
{
    DIR *folder = opendir(FOLDER);
    struct dirent *entry;
    unsigned n = 0;

    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (is_ours(entry->d_name) && sweep_one(dirfd(folder), entry->d_name)) {
            weft_log(log, WEFT_LOG_INFO, "removed shared memory %s", entry->d_name);
            n++;
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return n;
}

uint64_t linux_shm_dev(void)
{
    struct stat info;

    return stat(FOLDER, &info) == 0 && S_ISDIR(info.st_mode) ? (uint64_t)info.st_dev : 0;
}

/* ---- segments ---- */

static int map(int fd, size_t n_bytes, void **out)
{
    void *memory = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    *out = memory == MAP_FAILED ? NULL : memory;
    return memory == MAP_FAILED ? errno : 0;
}

static void path_of(const char *name, char *out, size_t out_bytes)
{
    weft_format(out, out_bytes, FOLDER "/%s", name);
}

/* Creates a file locked by this process. Returns EAGAIN if another process swept it before it was
 * locked. */
static int make_file(struct io_env *env, char name[IO_SHM_NAME_BYTES], int *out_fd)
{
    char path[IO_SHM_NAME_BYTES + sizeof FOLDER];
    uint64_t secret[2];
    struct stat info;

    env->ops->random(env, secret, sizeof secret);
    weft_format(name, IO_SHM_NAME_BYTES, PREFIX "%016llx%016llx",
                (unsigned long long)secret[0], (unsigned long long)secret[1]);
    path_of(name, path, sizeof path);
    *out_fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (*out_fd < 0) {
        return errno;
    }
    if (flock(*out_fd, LOCK_SH | LOCK_NB) != 0 || fstat(*out_fd, &info) != 0 ||
        info.st_nlink == 0) {
        close(*out_fd);
        return EAGAIN;
    }
    return 0;
}

static int linux_create(struct io_env *env, size_t n_bytes,
                        char out_name[IO_SHM_NAME_BYTES], struct io_shm **out)
{
    struct linux_env *self = linux_env_of(env);
    struct linux_shm *shm;
    int result = EAGAIN;

    if (n_bytes == 0) {
        return EINVAL;
    }
    if (!self->has_swept) {
        self->has_swept = true;
        linux_shm_sweep(env->log);
    }
    shm = weft_calloc(1, sizeof *shm);
    for (int i = 0; i < 8 && result == EAGAIN; i++) {
        result = make_file(env, shm->name, &shm->fd);
    }
    if (result != 0) {
        free(shm);
        return result;
    }
    /* Allocates all pages now, because a full /dev/shm would otherwise cause SIGBUS later. */
    result = posix_fallocate(shm->fd, 0, (off_t)n_bytes);
    shm->io.n_bytes = n_bytes;
    if (result == 0) {
        result = map(shm->fd, n_bytes, &shm->io.memory);
    }
    if (result != 0) {
        env->shm->close(&shm->io);
        return result;
    }
    weft_format(out_name, IO_SHM_NAME_BYTES, "%s", shm->name);
    *out = &shm->io;
    return 0;
}

static int linux_attach(struct io_env *env, const char *name, size_t n_bytes,
                        struct io_shm **out)
{
    char path[IO_SHM_NAME_BYTES + sizeof FOLDER];
    struct linux_shm *shm;
    struct stat info;
    void *memory = NULL;
    int fd, result;

    (void)env;
    if (!is_ours(name)) {
        return EINVAL;
    }
    path_of(name, path, sizeof path);
    fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        return errno;
    }
    result = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
                     (uint64_t)info.st_size == n_bytes
                 ? map(fd, n_bytes, &memory)
                 : EINVAL;
    close(fd);
    if (result != 0) {
        return result;
    }
    shm = weft_calloc(1, sizeof *shm);
    *shm = (struct linux_shm){.io = {memory, n_bytes}, .fd = -1};
    *out = &shm->io;
    return 0;
}

static void linux_unlink(struct io_shm *segment)
{
    struct linux_shm *shm = shm_of(segment);
    char path[IO_SHM_NAME_BYTES + sizeof FOLDER];

    if (shm->fd >= 0) {
        path_of(shm->name, path, sizeof path);
        unlink(path);
        close(shm->fd);
        shm->fd = -1;
    }
}

static void linux_close(struct io_shm *segment)
{
    if (segment == NULL) {
        return;
    }
    linux_unlink(segment);
    if (segment->memory != NULL) {
        munmap(segment->memory, segment->n_bytes);
    }
    free(shm_of(segment));
}

const struct io_shm_ops linux_shm_ops = {
    .create = linux_create,
    .attach = linux_attach,
    .unlink = linux_unlink,
    .close = linux_close,
};
