#include "cli/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "base/units.h"

static weft_ns wall_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (weft_ns)now.tv_sec * 1000000000 + now.tv_nsec;
}

struct progress_line progress_line_start(bool wanted)
{
    const char *terminal = getenv("TERM");
    struct progress_line line = {.is_on =
                                     wanted && isatty(STDERR_FILENO) &&
                                     (terminal == NULL || strcmp(terminal, "dumb") != 0)};

    line.started_ns = wall_now();
    line.drawn_ns = line.started_ns;
    return line;
}

void progress_line_update(void *context, const struct run_progress *progress)
{
    struct progress_line *line = context;
    weft_ns now = line->is_on ? wall_now() : 0;
    char rate[40] = "";
    char left[40] = "";
    double seconds = (double)(now - line->started_ns) / 1e9;
    double share = progress->bytes_total == 0
                       ? 0
                       : (double)progress->bytes_done / (double)progress->bytes_total;

    if (!line->is_on || now - line->drawn_ns < 100000000) {
        return;
    }
    line->drawn_ns = now;
    line->is_drawn = true;
    if (seconds > 0.2 && share > 0) {
        weft_format(rate, sizeof(rate), ", %.2f GB/s",
                    (double)progress->bytes_done / seconds / 1e9);
        weft_format(left, sizeof(left), ", %.0f s left", seconds * (1 - share) / share);
    }
    fprintf(stderr, "\r\033[K[%u/%u] %3.0f%%%s%s, %.3f ms of world time", progress->job,
            progress->n_jobs, 100 * share, rate, left, (double)progress->now / 1e6);
    fflush(stderr);
}

void progress_line_count(struct progress_line *line, uint64_t n_done, uint64_t n_all,
                         const char *things)
{
    weft_ns now = line->is_on ? wall_now() : 0;
    double seconds = (double)(now - line->started_ns) / 1e9;

    if (!line->is_on || now - line->drawn_ns < 100000000) {
        return;
    }
    line->drawn_ns = now;
    line->is_drawn = true;
    fprintf(stderr, "\r\033[K%llu of %llu %s, %.0f/s, %.0f s left",
            (unsigned long long)n_done, (unsigned long long)n_all, things,
            (double)n_done / seconds,
            seconds * (double)(n_all - n_done) / (double)n_done);
    fflush(stderr);
}

void progress_line_end(struct progress_line *line)
{
    if (line->is_drawn) {
        fprintf(stderr, "\r\033[K");
        fflush(stderr);
        line->is_drawn = false;
    }
}
