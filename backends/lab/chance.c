#define _GNU_SOURCE
#include "backends/lab/chance.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#define SEED "/proc/um_seed" /* see ci/guest/50-chance-anew.patch */

void lab_chance_begin(enum lab_chance who)
{
    static const char numbers[] = {
        [LAB_CHANCE_CABLES] = '0', [LAB_CHANCE_PROGRAMS] = '1'};
    int fd = open(SEED, O_WRONLY | O_CLOEXEC);

    if (fd >= 0) {
        (void)!write(fd, &numbers[who], 1);
        close(fd);
    }
}

void lab_chance_await_second(void)
{
    struct timespec now;

    if (access(SEED, W_OK) != 0) {
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    now.tv_sec += 1;
    now.tv_nsec = 0;
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &now, NULL) == EINTR) {
    }
}

void lab_chance_run_unnoticed(void)
{
    const struct sched_param above_all_programs = {.sched_priority = 1};

    if (access(SEED, W_OK) == 0) {
        (void)sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK,
                                 &above_all_programs);
    }
}
