#define _GNU_SOURCE
#include "backends/lab/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include "base/check.h"

static bool is_ignored(int number)
{
    struct sigaction action;

    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

void lab_signals_catch(struct lab_signals *signals)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    sigset_t mask;

    sigemptyset(&mask);
    for (size_t i = 0; i < WEFT_LENGTH(numbers); i++) {
        if (!is_ignored(numbers[i])) {
            sigaddset(&mask, numbers[i]);
        }
    }
    *signals = (struct lab_signals){.fd = -1};
    sigprocmask(SIG_BLOCK, &mask, &signals->old_mask);
    signals->fd = signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
}

bool lab_signals_came(struct lab_signals *signals)
{
    struct signalfd_siginfo info;

    if (signals->fd >= 0 && signals->number == 0 &&
        read(signals->fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        signals->number = (int)info.ssi_signo;
    }
    return signals->number != 0;
}

void lab_signals_release(struct lab_signals *signals)
{
    (void)lab_signals_came(signals);
    if (signals->fd >= 0) {
        close(signals->fd);
        signals->fd = -1;
    }
    sigprocmask(SIG_SETMASK, &signals->old_mask, NULL);
    if (signals->number != 0) {
        raise(signals->number);
    }
}
