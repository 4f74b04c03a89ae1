#define _GNU_SOURCE
#include "backends/lab/look.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"

#define LOOK_MS 10000 /* without a byte */

static void write_all(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t now = write(fd, bytes, n);

        if (now < 0 && errno != EINTR) {
            return;
        }
        bytes += now > 0 ? now : 0;
        n -= now > 0 ? (size_t)now : 0;
    }
}

static _Noreturn void look_from(const struct lab_looking *looking, uint32_t host, int fd,
                                pid_t parent)
{
    struct weft_text text = {NULL, 0, 0};

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(0);
    }
    sigprocmask(SIG_SETMASK, &looking->signals->old_mask, NULL);
    if (host == WORLD_PROGRAM_OUTSIDE ||
        lab_inside_enter(looking->fabric, host, &looking->insides[host]) == 0) {
        looking->look(looking->context, host, &text);
        write_all(fd, text.bytes, text.n);
    }
    _exit(0);
}

/* Reads to the end. The process can also wait in the kernel, so this ends after LOOK_MS without a
 * byte, and when a signal is pending, which the caller reads. */
static void read_all(const struct lab_looking *looking, int fd, struct weft_text *out)
{
    struct pollfd fds[2] = {{.fd = fd, .events = POLLIN},
                            {.fd = looking->signals->fd, .events = POLLIN}};
    char bytes[16384];
    ssize_t n = 1;

    while (n != 0) {
        if (poll(fds, WEFT_LENGTH(fds), LOOK_MS) == 0 || fds[1].revents != 0) {
            return;
        }
        n = read(fd, bytes, sizeof(bytes));
        if (n < 0 && errno != EINTR) {
            return;
        }
        weft_text_add_bytes(out, bytes, n > 0 ? (size_t)n : 0);
    }
}

void lab_look(const struct lab_looking *looking, uint32_t host, struct weft_text *out)
{
    pid_t parent = getpid();
    int fds[2] = {-1, -1};
    pid_t pid = pipe2(fds, O_CLOEXEC) == 0 ? fork() : -1;

    if (pid == 0) {
        look_from(looking, host, fds[1], parent);
    }
    if (fds[1] >= 0) {
        close(fds[1]);
    }
    if (pid > 0) {
        read_all(looking, fds[0], out);
        kill(pid, SIGKILL); /* if it was not read to its end */
        waitpid(pid, NULL, 0);
    }
    if (fds[0] >= 0) {
        close(fds[0]);
    }
}
