#include "cli/kept.h"

#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "cli/cli.h"

/* One output file as it would be written now. */
struct kept {
    const char *path; /* NULL if there is none */
    const struct weft_text *done, *rest;
};

/* Static, because no argument can be passed to a signal handler. */
static struct {
    struct kept outputs[N_KEPT_OUTPUTS];
    /* A child that a backend forked inherits the handler, but owns no output. */
    pid_t owner;
    unsigned n_holds;
} all;

static void write_text(int fd, const struct weft_text *text)
{
    size_t at = 0;

    while (at < text->n) {
        ssize_t n = write(fd, text->bytes + at, text->n - at);

        if (n <= 0) {
            return;
        }
        at += (size_t)n;
    }
}

void kept_write(void)
{
    for (int i = 0; i < N_KEPT_OUTPUTS; i++) {
        const struct kept *kept = &all.outputs[i];
        bool is_stdout = kept->path != NULL && strcmp(kept->path, "-") == 0;
        int fd;

        if (kept->path == NULL || getpid() != all.owner) {
            continue;
        }
        fd = is_stdout ? STDOUT_FILENO
                       : open(kept->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        if (fd >= 0) {
            write_text(fd, kept->done);
            write_text(fd, kept->rest);
        }
        if (fd >= 0 && !is_stdout) {
            close(fd);
        }
    }
}

static void end_by_signal(int signal_number)
{
    if (getpid() != all.owner && signal_number != SIGINT) {
        signal(signal_number, SIG_DFL);
        raise(signal_number); /* takes effect when the handler returns */
        return;
    }
    kept_write();
    _exit(CLI_INTERRUPTED);
}

static void signals(sigset_t *out)
{
    sigemptyset(out);
    sigaddset(out, SIGINT);
    sigaddset(out, SIGTERM);
}

/* Leaves ignored what the caller ignores, as a shell ignores SIGINT of background jobs. */
static void take_signal(int signal_number)
{
    struct sigaction action = {.sa_handler = end_by_signal}, before;

    signals(&action.sa_mask);
    if (sigaction(signal_number, NULL, &before) == 0 && before.sa_handler != SIG_IGN) {
        sigaction(signal_number, &action, NULL);
    }
}

void kept_begin(void)
{
    all.owner = getpid();
    take_signal(SIGINT);
    take_signal(SIGTERM);
}

void kept_set(enum kept_output output, const char *path, const struct weft_text *done,
              const struct weft_text *rest)
{
    all.outputs[output] = (struct kept){path, done, rest};
}

void kept_hold(void)
{
    sigset_t set;

    signals(&set);
    sigprocmask(SIG_BLOCK, &set, NULL);
    all.n_holds++;
}

void kept_release(void)
{
    sigset_t set;

    weft_check(all.n_holds > 0);
    if (--all.n_holds == 0) {
        signals(&set);
        sigprocmask(SIG_UNBLOCK, &set, NULL);
    }
}

void kept_end(void)
{
    kept_hold();
    memset(all.outputs, 0, sizeof(all.outputs));
    kept_release();
}
