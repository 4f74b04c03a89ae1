#define _GNU_SOURCE
#include "backends/rxe/cpu.h"

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/text.h"

/* A claim is a name of unix(7) without a file: nothing is left of it, however its owner ends. */
static int claim(const char *kind, int cpu)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    size_t n_bytes;

    weft_format(name.sun_path + 1, sizeof(name.sun_path) - 1, "%s-cpu-%d", kind, cpu);
    n_bytes = offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name.sun_path + 1);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&name, (socklen_t)n_bytes) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static bool stay_on(int cpu)
{
    cpu_set_t only;

    CPU_ZERO(&only);
    CPU_SET((size_t)cpu, &only);
    return sched_setaffinity(0, sizeof(only), &only) == 0;
}

int rxe_cpu_take(const char *kind, int *out_fd)
{
    cpu_set_t allowed;
    int here = sched_getcpu();

    *out_fd = -1;
    if (here < 0 || sched_getaffinity(0, sizeof(allowed), &allowed) != 0 ||
        CPU_COUNT(&allowed) < 2) {
        return -1;
    }
    for (int i = 0; i < CPU_SETSIZE; i++) {
        int cpu = (here + i) % CPU_SETSIZE;

        if (!CPU_ISSET((size_t)cpu, &allowed) || (*out_fd = claim(kind, cpu)) < 0) {
            continue;
        }
        if (stay_on(cpu)) {
            return cpu;
        }
        close(*out_fd);
        *out_fd = -1;
    }
    return -1;
}
