#define _GNU_SOURCE
#include "backends/soft/places.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"

static int write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return errno;
    }
    int error = write(fd, text, strlen(text)) < 0 ? errno : 0;
    close(fd);
    return error;
}

/* Maps only this user and group, as root (user_namespaces(7)). */
static int map_ids(uid_t uid, gid_t gid)
{
    char text[40];
    int error = write_file("/proc/self/setgroups", "deny");
    weft_format(text, sizeof text, "0 %u 1", (unsigned)uid);
    if (error == 0) {
        error = write_file("/proc/self/uid_map", text);
    }
    weft_format(text, sizeof text, "0 %u 1", (unsigned)gid);
    return error == 0 ? write_file("/proc/self/gid_map", text) : error;
}

static int enter(void)
{
    uid_t uid = geteuid();
    gid_t gid = getegid();
    if (uid == 0) {
        return unshare(CLONE_NEWNET) == 0 ? 0 : errno;
    }
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET) != 0) {
        return errno;
    }
    int error = map_ids(uid, gid);
    if (error == 0 && (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
                       mount("run", "/run", "tmpfs", 0, "mode=755") != 0)) {
        error = errno;
    }
    return error;
}

/* Tries in a child first, because a failure there leaves nothing behind, and what succeeds there
 * succeeds here. */
int soft_places_enter(void)
{
    static bool is_inside;
    int status = 0;
    if (is_inside) {
        return 0;
    }
    pid_t child = fork();
    if (child < 0) {
        return errno;
    }
    if (child == 0) {
        _exit(enter());
    }
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            return errno;
        }
    }
    int error = WIFEXITED(status) ? WEXITSTATUS(status) : ECHILD;
    if (error == 0 && geteuid() != 0) {
        error = enter();
    }
    is_inside = error == 0;
    return error;
}
