/* Records of this process for libweft-watch.so. */
#ifndef WEFT_BACKENDS_WATCH_RECORD_H
#define WEFT_BACKENDS_WATCH_RECORD_H

#include <stdbool.h>

/* Appends a line with what the format makes. One that records no error is left out once three
 * quarters of the file are full. Does not change errno, and takes no virtual time in a guest. */
__attribute__((format(printf, 2, 3))) void watch_record(bool is_error, const char *format,
                                                        ...);
/* As watch_record(), with the time and process of the last record. Calls nothing of the kernel,
 * after which another process may run. Does nothing before the first record. */
__attribute__((format(printf, 1, 2))) void watch_note(const char *format, ...);
/* Wakes the reader of WATCH_FAILURES, if there is one, at the first call of each process. Takes no
 * virtual time, and does not change errno. */
void watch_wake(void);
/* Writes the name of a device whose queue pair is in RTS to WATCH_READY, if there is a reader.
 * Takes no virtual time, and does not change errno. */
void watch_ready(const char *device);
/* Sets where /proc/PID/environ ends, if this process may (CAP_SYS_RESOURCE). Takes no virtual time,
 * and does not change errno. */
void watch_set_environment_end(const char *end);

#endif
