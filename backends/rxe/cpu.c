#define _GNU_SOURCE
#include "backends/rxe/cpu.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "backends/rxe/scratch.h"
#include "base/text.h"

#define NS_PER_S ((weft_ns)1000000000)
#define PERIOD_NS (NS_PER_S / 4)

/* ---- idle time ---- */

/* Parses lines "cpuN user nice system idle iowait ...". */
uint64_t rxe_cpu_idle_ticks(const char *text, const cpu_set_t *allowed)
{
    uint64_t sum = 0;

    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        char *at;
        unsigned long cpu;

        line += *line == '\n';
        if (strncmp(line, "cpu", 3) != 0) {
            break; /* cpu lines come first */
        }
        cpu = strtoul(line + 3, &at, 10);
        if (at == line + 3 || cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, allowed)) {
            continue; /* the first line is the sum of all */
        }
        for (int i = 0; i < 5; i++) {
            uint64_t ticks = strtoull(at, &at, 10);

            sum += i >= 3 ? ticks : 0;
        }
    }
    return sum;
}

static bool read_idle_ticks(const struct rxe_cpu *self, uint64_t *out)
{
    size_t n;
    char *text = scratch_read("/proc", "stat", &n);

    if (text == NULL) {
        return false;
    }
    *out = rxe_cpu_idle_ticks(text, &self->allowed);
    free(text);
    return true;
}

/* ---- affinity ---- */

/* Claims a processor with an abstract unix(7) name, which disappears with its owner. */
static int claim(const char *kind, int cpu)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    size_t n_bytes;

    weft_format(name.sun_path + 1, sizeof(name.sun_path) - 1, "%s-cpu-%d", kind, cpu);
    n_bytes = offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name.sun_path + 1);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&name, (socklen_t)n_bytes) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Sets the affinity of the process and its children. Returns false, and changes nothing, if that
 * is not possible. */
static bool put(const struct rxe_cpu *self, const cpu_set_t *where)
{
    char folder[64];
    char *children;
    size_t n;

    weft_format(folder, sizeof(folder), "/proc/%d/task/%d", (int)self->pid,
                (int)self->pid);
    children = scratch_read(folder, "children", &n);
    if (children == NULL) {
        return false;
    }
    free(children);
    /* Set the parent's first, because new children inherit it; then read the list of children. */
    if (sched_setaffinity(self->pid, sizeof(*where), where) != 0) {
        return false;
    }
    children = scratch_read(folder, "children", &n);
    for (char *at = children; at != NULL && *at != '\0';) {
        char *end;
        long child = strtol(at, &end, 10);

        if (end == at) {
            break;
        }
        /* Fails if the child has ended. */
        (void)sched_setaffinity((pid_t)child, sizeof(*where), where);
        at = end;
    }
    free(children);
    return true;
}

bool rxe_cpu_keep(struct rxe_cpu *self, int here)
{
    for (int i = 0; i < CPU_SETSIZE; i++) {
        int cpu = (here + i) % CPU_SETSIZE;
        cpu_set_t only;

        if (!CPU_ISSET((size_t)cpu, &self->allowed) ||
            (self->claim = claim(self->kind, cpu)) < 0) {
            continue;
        }
        CPU_ZERO(&only);
        CPU_SET((size_t)cpu, &only);
        if (put(self, &only)) {
            self->cpu = cpu;
            return true;
        }
        close(self->claim);
        self->claim = -1;
        return false;
    }
    return false;
}

void rxe_cpu_free(struct rxe_cpu *self)
{
    if (self->cpu >= 0) {
        (void)put(self, &self->allowed); /* fails if the process has ended */
        close(self->claim);
        self->cpu = -1;
        self->claim = -1;
    }
}

/* Returns the processor that the process ran on last, which is word 39 of /proc/PID/stat
 * (proc(5)); 0 if unknown. */
static int last_cpu(pid_t pid)
{
    char folder[32];
    size_t n;
    char *text, *at;
    int cpu = 0;

    weft_format(folder, sizeof(folder), "/proc/%d", (int)pid);
    text = scratch_read(folder, "stat", &n);
    /* The name, word 2, can contain spaces. */
    at = text == NULL ? NULL : strrchr(text, ')');
    for (int i = 2; at != NULL && i < 39; i++) {
        at = strchr(at + 1, ' ');
    }
    if (at != NULL) {
        cpu = (int)(strtoul(at, NULL, 10) % CPU_SETSIZE);
    }
    free(text);
    return cpu;
}

/* ---- management ---- */

void rxe_cpu_begin(struct rxe_cpu *self, pid_t pid, const char *kind)
{
    *self = (struct rxe_cpu){.pid = pid, .cpu = -1, .claim = -1, .kind = kind};
    if (sched_getaffinity(0, sizeof(self->allowed), &self->allowed) != 0 ||
        CPU_COUNT(&self->allowed) < 2) {
        self->pid = 0;
    }
}

/* Has hysteresis: keeps the process once half a processor is idle, and releases it only when less
 * than a quarter is. */
bool rxe_cpu_is_worth(bool is_kept, weft_ns idle_ns, weft_ns elapsed_ns)
{
    return idle_ns >= (is_kept ? elapsed_ns / 4 : elapsed_ns / 2);
}

void rxe_cpu_look(struct rxe_cpu *self, weft_ns now_ns)
{
    weft_ns elapsed_ns = now_ns - self->looked_ns, idle_ns;
    uint64_t idle_ticks;

    if (self->pid <= 0 || (self->has_begun && elapsed_ns < PERIOD_NS) ||
        !read_idle_ticks(self, &idle_ticks)) {
        return;
    }
    idle_ns =
        (weft_ns)(idle_ticks - self->idle_ticks) * (NS_PER_S / sysconf(_SC_CLK_TCK));
    if (self->has_begun &&
        rxe_cpu_is_worth(self->cpu >= 0, idle_ns, elapsed_ns) != (self->cpu >= 0)) {
        if (self->cpu >= 0) {
            rxe_cpu_free(self);
        } else {
            (void)rxe_cpu_keep(self, last_cpu(self->pid));
        }
    }
    self->has_begun = true;
    self->looked_ns = now_ns;
    self->idle_ticks = idle_ticks;
}

void rxe_cpu_end(struct rxe_cpu *self)
{
    if (self->claim >= 0) {
        close(self->claim);
    }
    *self = (struct rxe_cpu){.cpu = -1, .claim = -1};
}
