#define _GNU_SOURCE
#include "cli/isolate.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"

/* Runs `body` in the child, which is killed when its parent exits. Redirects stdout to `fd`. */
static _Noreturn void be_child(int fd, void (*body)(void *context), void *context)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGINT, SIG_DFL);
    if (dup2(fd, STDOUT_FILENO) == STDOUT_FILENO) {
        close(fd);
        body(context);
    }
    fflush(stdout);
    _exit(0);
}

bool isolate_start(struct isolate *isolate, void (*body)(void *context), void *context)
{
    int fds[2];

    memset(isolate, 0, sizeof(*isolate));
    fflush(stdout);
    if (pipe(fds) != 0) {
        return false;
    }
    isolate->pid = fork();
    if (isolate->pid == 0) {
        close(fds[0]);
        be_child(fds[1], body, context);
    }
    close(fds[1]);
    isolate->fd = fds[0];
    if (isolate->pid < 0) {
        isolate->pid = 0;
        close(fds[0]);
        return false;
    }
    return true;
}

struct program {
    char *const *argv;
    int err_fd;
};

static void become_program(void *context)
{
    const struct program *program = context;
    int nothing = open("/dev/null", O_RDONLY);

    if (dup2(nothing, STDIN_FILENO) >= 0 && dup2(program->err_fd, STDERR_FILENO) >= 0) {
        execv(program->argv[0], program->argv);
    }
    _exit(127);
}

bool isolate_exec(struct isolate *isolate, char *const *argv, int err_fd)
{
    struct program program = {argv, err_fd};

    return isolate_start(isolate, become_program, &program);
}

static bool take_line(struct isolate *isolate, struct weft_text *line)
{
    struct weft_text *unread = &isolate->unread;
    char *end = unread->n > 0 ? memchr(unread->bytes, '\n', unread->n) : NULL;
    size_t n;

    if (end == NULL) {
        return false;
    }
    n = (size_t)(end - unread->bytes);
    line->n = 0;
    weft_text_add_bytes(line, unread->bytes, n);
    memmove(unread->bytes, end + 1, unread->n - n - 1);
    unread->n -= n + 1;
    return true;
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

enum isolate_read isolate_line(struct isolate *isolate, int patience_ms,
                               struct weft_text *line)
{
    int64_t end = now_ms() + patience_ms;
    char chunk[4096];

    while (!take_line(isolate, line)) {
        struct pollfd wait = {.fd = isolate->fd, .events = POLLIN};
        int64_t left = end - now_ms();
        int n_ready = poll(&wait, 1, left > 0 ? (int)left : 0);
        ssize_t n;

        if (n_ready == 0) {
            return ISOLATE_LATE;
        }
        n = n_ready > 0 ? read(isolate->fd, chunk, sizeof(chunk)) : -1;
        if (n == 0 || (n < 0 && errno != EINTR)) {
            isolate->has_ended = true;
            return ISOLATE_ENDED;
        }
        if (n > 0) {
            weft_text_add_bytes(&isolate->unread, chunk, (size_t)n);
        }
    }
    return ISOLATE_LINE;
}

void isolate_stop(struct isolate *isolate, struct weft_text *out)
{
    int status = 0;
    pid_t ended;

    if (isolate->pid == 0) {
        return;
    }
    close(isolate->fd);
    if (!isolate->has_ended) {
        kill(isolate->pid, SIGKILL);
    }
    do {
        ended = waitpid(isolate->pid, &status, 0);
    } while (ended < 0 && errno == EINTR);
    weft_check(ended == isolate->pid);
    if (out == NULL || !isolate->has_ended) {
        /* Not wanted, or killed here. */
    } else if (WIFSIGNALED(status)) {
        weft_text_add(out, "signal %d (%s)", WTERMSIG(status),
                      strsignal(WTERMSIG(status)));
    } else if (WEXITSTATUS(status) != 0) {
        weft_text_add(out, "exit status %d", WEXITSTATUS(status));
    }
    weft_text_fini(&isolate->unread);
    isolate->pid = 0;
}
