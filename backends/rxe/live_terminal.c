#define _GNU_SOURCE
#include "backends/rxe/live_terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

/* More than a terminal holds. A program that writes forever must not block the agent. */
#define ROUNDS_MAX 64

void live_terminal_mount(void)
{
    mkdir("/dev/pts", 0755);
    mount("pts", "/dev/pts", "devpts", 0, "ptmxmode=0666");
}

void live_terminal_resize(const struct live_terminal *terminal, uint32_t size)
{
    const struct winsize window = {.ws_row = (unsigned short)(size >> 16),
                                   .ws_col = (unsigned short)size};

    if (terminal->fd >= 0) {
        (void)ioctl(terminal->fd, TIOCSWINSZ, &window);
    }
}

bool live_terminal_make(uint32_t size, struct live_terminal *out)
{
    *out = (struct live_terminal){
        .fd = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC)};
    if (out->fd >= 0 && unlockpt(out->fd) != 0) {
        int problem = errno;

        close(out->fd);
        out->fd = -1;
        errno = problem;
    }
    live_terminal_resize(out, size);
    return out->fd >= 0;
}

int live_terminal_take(const struct live_terminal *terminal)
{
    int fd = ioctl(terminal->fd, TIOCGPTPEER, O_RDWR | O_NOCTTY);

    if (fd < 0 || ioctl(fd, TIOCSCTTY, 0) != 0 || dup2(fd, STDIN_FILENO) < 0 ||
        dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0) {
        return errno;
    }
    if (fd > STDERR_FILENO) {
        close(fd);
    }
    return 0;
}

struct pollfd live_terminal_wants(const struct live_terminal *terminal)
{
    return (struct pollfd){.fd = terminal->fd,
                           .events =
                               (short)(POLLIN | (terminal->typed.n > 0 ? POLLOUT : 0))};
}

static void type_rest(struct live_terminal *terminal)
{
    struct weft_text *typed = &terminal->typed;
    ssize_t n = terminal->fd >= 0 && typed->n > 0
                    ? write(terminal->fd, typed->bytes, typed->n)
                    : 0;

    if (n > 0) {
        memmove(typed->bytes, typed->bytes + n, typed->n - (size_t)n);
        typed->n -= (size_t)n;
    }
}

static void write_all(int to, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t now = write(to, bytes, n);

        if (now <= 0) {
            return; /* the machine has no room */
        }
        bytes += now;
        n -= (size_t)now;
    }
}

/* EIO: the last process that had it open has closed it. */
void live_terminal_pass(struct live_terminal *terminal, int to)
{
    char bytes[4096];
    ssize_t n = 1;

    for (int i = 0; i < ROUNDS_MAX && terminal->fd >= 0 && n > 0; i++) {
        n = read(terminal->fd, bytes, sizeof(bytes));
        if (n > 0) {
            write_all(to, bytes, (size_t)n);
        } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
            live_terminal_close(terminal);
        }
    }
    type_rest(terminal);
}

static unsigned value_of(char digit)
{
    return (unsigned)(digit <= '9' ? digit - '0' : digit - 'a' + 10);
}

void live_terminal_type(struct live_terminal *terminal, const char *digits)
{
    if (terminal->fd < 0) {
        return;
    }
    for (size_t i = 0; digits[i] != '\0' && digits[i + 1] != '\0'; i += 2) {
        char byte = (char)(value_of(digits[i]) << 4 | value_of(digits[i + 1]));

        weft_text_add_bytes(&terminal->typed, &byte, 1);
    }
    type_rest(terminal);
}

void live_terminal_size(int fd, uint16_t *out_rows, uint16_t *out_columns)
{
    struct winsize size = {.ws_row = 24, .ws_col = 80};

    (void)ioctl(fd, TIOCGWINSZ, &size);
    *out_rows = size.ws_row;
    *out_columns = size.ws_col;
}

void live_terminal_close(struct live_terminal *terminal)
{
    if (terminal->fd >= 0) {
        close(terminal->fd);
        terminal->fd = -1;
    }
    weft_text_fini(&terminal->typed);
    terminal->typed = (struct weft_text){NULL, 0, 0};
}
