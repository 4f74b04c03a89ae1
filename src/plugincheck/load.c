/* Opens the plugin as NCCL does, and closes it. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/text.h"
#include "plugincheck/private.h"

#define ENDING_MS 2000 /* for ended threads to disappear from /proc */

void *check_open_object(const char *path, char *why, size_t why_bytes)
{
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const char *text = object == NULL ? dlerror() : "";

    weft_format(why, why_bytes, "%s", text == NULL ? "dlopen" : text);
    return object;
}

const void *check_find_table(void *object, unsigned version)
{
    char name[32];

    weft_format(name, sizeof(name), "ncclNetPlugin_v%u", version);
    return dlsym(object, name);
}

void check_enter(const struct check *check, uint32_t rank)
{
    const char *path = check->options->namespaces[rank];
    int fd;

    if (path == NULL) {
        return;
    }
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET) != 0) {
        char what[300];
        int error = errno;

        weft_format(what, sizeof(what), "rank %u cannot enter %s", rank, path);
        check_lacks(check, what, error);
    }
    close(fd);
}

/* Returns 0 if /proc does not list threads. */
static uint32_t count_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    uint32_t n = 0;

    if (tasks == NULL) {
        return 0;
    }
    for (const struct dirent *task; (task = readdir(tasks)) != NULL;) {
        n += task->d_name[0] != '.';
    }
    closedir(tasks);
    return n;
}

void check_unload(const struct check *check)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    uint32_t n_left;

    atomic_store(&check->shared->blame, "unload.threads");
    dlclose(check->object);
    if (dlopen(check->options->path, RTLD_NOW | RTLD_NOLOAD) != NULL) {
        return; /* linked with -z nodelete, or kept open by itself */
    }
    for (uint32_t ms = 0; ms < ENDING_MS && count_threads() > check->n_threads; ms++) {
        nanosleep(&pause, NULL);
    }
    n_left = count_threads();
    if (n_left > check->n_threads) {
        check_broken(check, "unload.threads",
                     "%u of its threads run on after it was unmapped",
                     n_left - check->n_threads);
    }
    atomic_store(&check->shared->blame, NULL);
}

void check_load(struct check *check, struct check_net *net)
{
    char why[200];
    void *object;
    const void *table;
    const char *missing;

    check->n_threads = count_threads();
    object = check_open_object(check->options->path, why, sizeof(why));
    if (object == NULL) {
        check_broken(check, "load.open", "%s", why);
    }
    check->object = object;
    table = check_find_table(object, check->version);
    if (table == NULL) {
        check_broken(check, "load.symbol", "no ncclNetPlugin_v%u", check->version);
    }
    missing = check_net_take(net, check->version, table);
    if (missing != NULL) {
        check_broken(check, "load.table", "it lacks %s", missing);
    }
    check->net = net;
}

void check_init(const struct check *check, uint32_t thread, uint64_t comm_id,
                void **out_context)
{
    abi_status check_call_status;
    const char *missing;
    bool is_first;

    if (CHECK_CALL(check, thread, CALL_INIT,
                   check_net_init(check->net, comm_id, check_logger, out_context,
                                  &is_first, &missing)) != ABI_SUCCESS) {
        if (is_first && strcmp(check->part, "load") == 0) {
            check->shared->first_init = (int)check_call_status;
        }
        check_broken(check, is_first ? "init.result" : "init.repeated",
                     "the %s init failed with %d", is_first ? "first" : "next",
                     check_call_status);
    }
    if (missing != NULL) {
        check_broken(check, "load.table", "after init it lacks %s", missing);
    }
}
