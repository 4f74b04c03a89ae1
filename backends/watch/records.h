/* The file that libweft-watch.so writes and backends/lab/watch.c makes and reads. */
#ifndef WEFT_BACKENDS_WATCH_RECORDS_H
#define WEFT_BACKENDS_WATCH_RECORDS_H

#include <stdatomic.h>
#include <stddef.h>

#define WATCH_LIBRARY "libweft-watch.so"
#define WATCH_RECORDS "records" /* in the folder through which the library was loaded */
/* Beside these folders: a FIFO that receives a byte from each process at its first failure. */
#define WATCH_FAILURES "failures"
/* Beside these folders, where a fault waits for it: a FIFO that receives the name of its device,
 * with a newline, whenever a queue pair has been modified to RTS. */
#define WATCH_READY "ready"

/* Records of all processes of a program. Each line is "NS HOST PID PROGRAM CALL KEY=VALUE...",
 * where NS is CLOCK_MONOTONIC. Zeros are in place of a line that is being written. */
struct watch_records {
    _Atomic(size_t) n; /* bytes of `text` that are taken */
    char text[(1 << 20) - sizeof(size_t)];
};

#endif
